#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.docs: what the documents say exists, and what exists is in the documents.

Guards three drifts: a variable that a README promises and the library calls unknown, a change of output that is in no
CHANGELOG, and a document that sends a newcomer to a file that was renamed. Compared: the variables of kedge-env(1) with
tracker/base/options.def, the variables of README.md with that page, the files that README.md and the documents of FOLDERS name with
the tree, their lengths, the version and the capture format with CHANGELOG.md.
"""
import os
import re

import lintkit

TABLE = "tools/man/kedge-env.1"
LINES = 200 # of README.md: details live in the folders' READMEs and man pages
WORDS = 900 # of a folder's README: measurements and decisions live in its DESIGN.md
FOLDERS = ("alloc", "preload", "tracker", "tools", "tests")
FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:c|h|def|py|sh|js|css|html|txt|cmake|[15]))`")


def options(root):
    """{variable: set of keys in its value}, from the rows OPTION(id, "name", ...) and OPTION_KEY(id, "key", ...)."""
    path = root / "tracker" / "base" / "options.def"
    if not path.exists():
        return None
    text = re.sub(r"/\*.*?\*/", "", lintkit.read(path), flags=re.S)
    names = dict(re.findall(r'^OPTION\((\w+), "(KEDGE_\w+)"', text, re.M))
    found = {name: set() for name in names.values()}
    for row, key in re.findall(r'^OPTION_KEY\((\w+), "([\w-]+)"', text, re.M):
        found[names[row]].add(key)
    return found


def table_rows(page):
    """{variable: its paragraph} of the section VARIABLES."""
    section = re.search(r"^\.SH VARIABLES\n(.*?)(?=^\.SH |\Z)", page.replace("\\-", "-"), re.M | re.S)
    return dict(re.findall(r"^\.B (KEDGE_[A-Z_]+)\n(.*?)(?=^\.TP|\Z)", section[1] if section else "", re.M | re.S))


def check_environment(root, readme, table, complain):
    known = options(root)
    if known is None:
        return
    if not known:
        complain("tracker/base/options.def: no KEDGE_ variable found in it")
    rows = table_rows(table)
    listed = set(rows)
    for name, keys in sorted(known.items()):
        if name not in listed:
            complain(f"{TABLE}: VARIABLES lacks {name}")
            continue
        for key in sorted(keys):
            if f"{key}=" not in rows[name]:
                complain(f"{TABLE}: {name} lacks {key}=")
    for name in sorted(listed - set(known)):
        complain(f"{TABLE}: VARIABLES has {name}, which tracker/base/options.def does not know")
    for name in sorted(set(re.findall(r"\bKEDGE_[A-Z]+(?:_[A-Z]+)*\b", readme)) - listed):
        complain(f"README.md: {name} is used and not in {TABLE}")


def check_paths(root, readme, complain):
    for name in sorted(set(re.findall(r"`((?:alloc|preload|tracker|tools|tests)/[\w./-]*\w)`", readme))):
        if not (root / name).exists():
            complain(f"README.md: there is no {name}")


def check_folder(root, folder, complain):
    """A file is named from the folder or from the top; one without a folder may be another one's, of the build or of a program."""
    for name in ("README.md", "DESIGN.md"):
        path = root / folder / name
        text = lintkit.read(path) if path.exists() else ""
        for file in sorted(set(FILE.findall(text))):
            if "/" in file and not re.search(r"\b[A-Z]+\b", file) and not any((top / file).exists() for top in (root, root / folder)):
                complain(f"{folder}/{name}: there is no {file}")
        if name == "README.md" and len(text.split()) > WORDS:
            complain(f"{folder}/{name}: more than {WORDS} words")


def check_changelog(root, complain):
    path = root / "CHANGELOG.md"
    log = lintkit.read(path) if path.exists() else ""
    headings = re.findall(r"^## (.*)$", log, re.M)
    if not headings or not headings[0].startswith("Unreleased"):
        complain("CHANGELOG.md: the first section is not Unreleased")
    form = root / "tracker" / "format" / "format.h"
    version = re.search(r"#define\s+\w*FORMAT_VERSION\w*\s+(\d+)", lintkit.read(form)) if form.exists() else None
    if version and not re.search(rf"capture format {version.group(1)}\b", log, re.I):
        complain(f"CHANGELOG.md: capture format {version.group(1)} is not mentioned")


def check(root, complain):
    path = root / "README.md"
    readme = lintkit.read(path) if path.exists() else ""
    if not readme:
        complain("README.md is missing")
    check_environment(root, readme, lintkit.read(root / TABLE) if (root / TABLE).exists() else "", complain)
    if readme.count("\n") > LINES:
        complain(f"README.md: more than {LINES} lines")
    check_paths(root, readme, complain)
    for folder in FOLDERS:
        check_folder(root, folder, complain)
    check_changelog(root, complain)


README = "See `tracker/base/options.def`.\n"
ENVIRONMENT = ".SH VARIABLES\n.TP\n.B KEDGE_MODE\npool\n.SH OPTIONS\n"


def clean(root):
    lintkit.write(root, "README.md", README)
    lintkit.write(root, TABLE, ENVIRONMENT)
    lintkit.write(root, "tools/README.md", "See `base/args.c`, `tools/base/args.c`, `base/NAME.c` and `page_text.c`.\n")
    lintkit.write(root, "tools/base/args.c", "")
    lintkit.write(root, "tracker/base/options.def", '/* KEDGE_OLD, */\nOPTION(MODE, "KEDGE_MODE", ENUM)\n')
    lintkit.write(root, "tracker/format/format.h", "#define CAPTURE_FORMAT_VERSION 4\n")
    lintkit.write(root, "CHANGELOG.md", "# Changes\n\n## Unreleased\n\n- capture format 4\n")
    lintkit.write(root, "tracker/README.md", "See `base/options.def`.\n")


def seed(name, text):
    return lambda root: lintkit.write(root, name, text)


lintkit.main(check, clean, [
    ("a variable that nobody documented", seed("tracker/base/options.def", 'OPTION(MODE, "KEDGE_MODE", A)\nOPTION(LOG, "KEDGE_LOG", B)\n')),
    ("a key that nobody documented", seed("tracker/base/options.def", 'OPTION(MODE, "KEDGE_MODE", A)\nOPTION_KEY(MODE, "mb", B)\n')),
    ("a variable that does not exist", seed(TABLE, ENVIRONMENT.replace(".SH OPTIONS", ".TP\n.B KEDGE_FAST\n.SH OPTIONS"))),
    ("a variable outside the table", seed("README.md", README + "Set KEDGE_TURBO to go faster.\n")),
    ("a file that does not exist", seed("README.md", README + "See `alloc/magic.c`.\n")),
    ("a file that a folder's README names and that does not exist", seed("tools/README.md", "See `base/arg.c`.\n")),
    ("a file that a DESIGN.md names and that does not exist", seed("tracker/DESIGN.md", "See `tools/base/arg.c`.\n")),
    ("a folder's README of too many words", seed("tests/README.md", "word " * (WORDS + 1))),
    ("a README that nobody reads to its end", seed("README.md", README + "\n" * LINES)),
    ("no README", lambda root: os.unlink(os.path.join(root, "README.md"))),
    ("no Unreleased section", seed("CHANGELOG.md", "# Changes\n\n## 0.1.0\n\n- capture format 4\n")),
    ("a format version that nobody wrote down", seed("tracker/format/format.h", "#define CAPTURE_FORMAT_VERSION 5\n")),
])
