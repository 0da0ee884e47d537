#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.tidy: clang-tidy with the checks of .clang-tidy, every finding an error, over the four product folders.

Guards what compilers let pass: an unchecked sign, a function of 200 lines, a branch that does nothing. Slow, so the
files are spread over the processors, and a file whose text, headers and checks did not change since it was clean is
not looked at again. Of each function the analyzer follows NODES states. With its default, 225,000, a file of the pool takes
half a minute instead of a second; `tidy.py --at-length` (slow) has the default.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import lintkit

FOLDERS = ("alloc", "preload", "tracker", "tools")
NODES = 4000
# Headers of libc have other macros for who optimises, and what they hold counts as the function's own complexity.
PLAIN = ["--extra-arg=-O0"]
BOUND = PLAIN if "--at-length" in sys.argv else PLAIN + [
    f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={NODES}")]


def units(build, root):
    """(file, its command line) of every C file in the product folders, once."""
    with open(build / "compile_commands.json", encoding="utf-8") as f:
        commands = json.load(f)
    found = {}
    for c in commands:
        path = pathlib.Path(c["file"])
        if path.is_relative_to(root) and path.relative_to(root).parts[0] in FOLDERS:
            found.setdefault(path, c)
    return sorted(found.items())


def fingerprint(command, root):
    """Of everything that the verdict depends on: the preprocessed text, the flags, the checks."""
    line = re.sub(r" -o \S+", "", command["command"])
    text = subprocess.run(line.replace(" -c ", " -E ", 1), shell=True, cwd=command["directory"], capture_output=True,
                          check=False).stdout
    return hashlib.sha256(text + line.encode() + repr(BOUND).encode() + (root / ".clang-tidy").read_bytes()).hexdigest()


def tidy(path, command, build, root, cache):
    mark = cache / fingerprint(command, root)
    if mark.exists():
        return []
    done = subprocess.run(["clang-tidy", "-p", str(build), "--quiet", *BOUND, str(path)], capture_output=True, text=True,
                          cwd=root, check=False)
    found = re.findall(r"^.*: (?:warning|error): .*$", done.stdout, re.M)
    if done.returncode != 0 and not found:
        found = [f"{path}: clang-tidy: exit {done.returncode}: {done.stderr.strip()[:400]}"]
    if not found:
        mark.touch()
    return found


def check(build, root):
    cache = build / "tidy-clean"
    cache.mkdir(exist_ok=True)
    found = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(tidy, path, command, build, root, cache) for path, command in units(build, root)]
        for job in jobs:
            found |= set(job.result())
    return sorted(found), len(jobs)


def self_test():
    bad = 0
    cases = [("nothing wrong", "int f(int a);\nint f(int a)\n{\n    return a;\n}\n", False),
             ("a branch that does the same twice",
              "int f(int a);\nint f(int a)\n{\n    if (a)\n        return 1;\n    else\n        return 1;\n}\n", True),
             ("a forgotten null check", "int f(const int *p);\nint f(const int *p)\n{\n    if (p)\n        (void)0;\n    return *p;\n}\n"
              "int g(void);\nint g(void)\n{\n    return f(0);\n}\n", True),
             ("a function of 70 lines", "int f(int a);\nint f(int a)\n{\n" + "    a = a * 3 + 1;\n" * 70 + "    return a;\n}\n", True)]
    for what, text, red in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            shutil.copy(lintkit.SOURCE / ".clang-tidy", root)
            path = lintkit.write(root, "alloc/pool.c", text)
            with open(root / "compile_commands.json", "w", encoding="utf-8") as f:
                json.dump([{"directory": str(root), "file": str(path),
                            "command": f"clang -Wall -o {root}/x.o -c {path}"}], f)
            found, _ = check(root, root)
        print(f"{what}: {found[0] if found else 'silent'}")
        bad += bool(found) != red
    sys.exit(1 if bad else 0)


if not shutil.which("clang-tidy"):
    lintkit.skip("clang-tidy is not installed")
if "--self-test" in sys.argv:
    self_test()
findings, count = check(lintkit.BUILD, lintkit.SOURCE)
print("\n".join(findings + [f"{len(findings)} findings in {count} files"]))
sys.exit(1 if findings else 0)
