#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.names: base file names are unique and never a libc prefix.

Guards the rule that a symbol names its file (pool_alloc is in alloc/pool.c) and a file its folder. Two files of one
name make a stack frame, a log line and a search ambiguous; a module called time or log gives its functions names
that libc owns.
"""
import re

import lintkit

# alloc/driver.h is the table of functions that preload/driver.c fills: one interface on both sides of the border.
TWO_FOLDERS = {"driver"}
LIBC = {"time", "log", "str", "mem", "sig", "math", "file", "io", "env", "std", "wait", "signal", "string", "errno",
        "memory", "select", "poll", "sys"}
# The names that several folders have. Headers under tests/trainers/include* carry CUDA's public names.
SAME_ON_PURPOSE = {"CMakeLists.txt", "README.md", "run", "setup"}


def check(root, complain):
    seen = {}
    for path in lintkit.files(root):
        name = str(path.relative_to(root))
        if path.name.startswith(".") or path.name in SAME_ON_PURPOSE or path.suffix == ".cmake" or name.startswith("tests/trainers/include"):
            continue
        # x.c and x.h are one module and so must lie in one folder.
        module = path.stem if path.suffix in (".c", ".h") and path.stem not in TWO_FOLDERS else path.name
        folder = str(path.parent.relative_to(root))
        if seen.setdefault(module, (folder, name))[0] != folder:
            complain(f"{name}: the name is taken by {seen[module][1]}")
        elif path.suffix in (".c", ".h") and module in LIBC:
            complain(f"{name}: {module}_ is a prefix of libc")
        elif path.suffix in (".c", ".h") and not re.fullmatch(r"[a-z][a-z0-9_]*(\.ptx)?", path.stem):
            complain(f"{name}: file names are lower case words joined by _")


def clean(root):
    for name in ("alloc/pool.c", "alloc/pool.h", "alloc/README.md", "tracker/README.md", "tests/unit/pool_test.c"):
        lintkit.write(root, name, "")


lintkit.main(check, clean, [
    ("two files of one name", lambda root: lintkit.write(root, "tracker/pool.c", "")),
    ("a header away from its module", lambda root: lintkit.write(root, "preload/pool.h", "")),
    ("a libc prefix", lambda root: lintkit.write(root, "preload/log.c", "")),
    ("capital letters", lambda root: lintkit.write(root, "preload/Hooks.c", "")),
])
