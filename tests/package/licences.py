#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/package/copyright states the licence of everything that is in the products or used by them, and of nothing else.

Static archives are read off the link lines of the build and the symbols, shared libraries off the products, and what is opened at
run time off the names in the products.

    licences.py [--self-test]
"""
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["TEST_SOURCE"])
BUILD = pathlib.Path(os.environ["TEST_BUILD"])
PRODUCTS = ["kedge", "libkedge.so"] + [
    str(path.relative_to(BUILD)) for path in sorted(BUILD.glob("sim/**/lib*.so.*")) if not path.is_symlink()]
OPENED = {"libstdc++.so.6": "kedge"}


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def linked_archives():
    """{product: paths of others' archives in its link line}."""
    found = {}
    for block in (BUILD / "build.ninja").read_text(encoding="utf-8").split("\nbuild ")[1:]:
        outputs = block.split(":")[0].split(" | ")[0].split()
        if len(outputs) == 1 and outputs[0] in PRODUCTS:
            line = re.search(r"^  LINK_LIBRARIES = (.*)$", block, re.M)
            words = line[1].split() if line else []
            found[outputs[0]] = {pathlib.Path(w) for w in words if w.startswith("/") and w.endswith(".a")}
    return found


def defined(*paths):
    return set(re.findall(r"^[0-9a-f]+ [TtDdBbRr] (\S+)$", "".join(run("nm", path) for path in paths), re.M))


def used():
    """{name: products}, of all that the products hold or need."""
    users = {}
    archives = linked_archives()
    inside = {archive: defined(archive) for archive in set().union(*archives.values())}
    for product in PRODUCTS:
        path = BUILD / product
        image, symbols = path.read_bytes(), defined(path)
        names = {archive.name for archive in archives[product] if inside[archive] & symbols}
        names |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", path)))
        names |= {name for name, opener in OPENED.items() if opener == path.name and name.encode() + b"\0" in image}
        for name in names:
            users.setdefault(name, set()).add(path.name)
    return users


def stated(text):
    """{name: (products or "all", licence)} by the tables of the comment."""
    comment = text[text.index("\nComment:"):text.index("\nFiles: *")]
    rows = re.findall(r"^  (\S+\.(?:a|h|so\.\d+)) {2,}(\S.*?) {2,}(\S.*)$", comment, re.M)
    return {name: (set(re.sub(r" \(opened.*", "", by).split()), licence) for name, by, licence in rows}


def complaints(text, users):
    rows = stated(text)
    found = [f"{name} is in or used by {' '.join(sorted(users[name]))}, and not stated" for name in sorted(set(users) - set(rows))]
    found += [f"{name} is stated, and nothing uses it" for name in sorted(set(rows) - set(users))]
    for name in sorted(set(rows) & set(users)):
        if rows[name][0] not in ({"all"}, users[name]):
            found.append(f"{name} is used by {sorted(users[name])}, stated is {sorted(rows[name][0])}")
    # What is inside has its terms below, under its name.
    for name, (_, licence) in rows.items():
        paragraph = re.search(rf"^Files: {re.escape(name)}\nCopyright: (?:.*\n)+?License: (.*)$", text, re.M)
        if not name.endswith((".a", ".h")):
            continue
        if not paragraph or paragraph[1] != licence:
            found.append(f"{name} has no paragraph with the licence {licence}")
        elif not re.search(rf"^License: {re.escape(licence)}\n \S", text, re.M):
            found.append(f"the text of {licence} is missing")
    return found


copyright_text = (SOURCE / "tools/package/copyright").read_text(encoding="utf-8")
in_use = used()
if "--self-test" in sys.argv:
    changes = [("nothing wrong", "", ""), ("an archive is forgotten", "  liblz4.a ", "  "), ("a library is forgotten", "  libelf.so.1", "  "),
               ("one too many", "  libdw.so.1", "  libother.so.1  kedge  zlib\n  libdw.so.1"),
               ("the wrong product", "  libarchive.so.13  kedge  ", "  libarchive.so.13  libkedge.so  "),
               ("another licence below", "Files: liblz4.a\nCopyright: 2011-2020 Yann Collet\nLicense: BSD-2", "Files: liblz4.a\nCopyright: x\nLicense: BSD-3"),
               ("no text of a licence", "License: BSD-2-Clause\n ", "License: BSD-4-Clause\n ")]
    bad = 0
    for what, old, new in changes:
        found = complaints(copyright_text.replace(old, new) if old else copyright_text, in_use)
        print(f"{what}: {found or 'silent'}")
        bad += bool(found) != bool(old)
    sys.exit(bad > 0)
findings = complaints(copyright_text, in_use)
print("\n".join(findings + [f"{len(findings)} findings"]))
sys.exit(bool(findings))
