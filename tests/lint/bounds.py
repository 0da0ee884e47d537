#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.bounds: every fixed bound of the library stands in preload/base/bounds.def, and nothing else does.

Looked for are constants whose names end with MAX, in alloc/, preload/ and the part of tracker/ that is in the process; the list may
have others, which must exist.
"""
import re

import lintkit

FOLDERS = ("alloc", "preload", "tracker")
LIST = "preload/base/bounds.def"
# Readers of captures, which are tools'.
OUTSIDE = re.compile(r"tracker/(reader/read\w*|hints/hintwrite)\.[ch]$")
DEFINED = re.compile(r"^ *(?:# *define +(\w*MAX)\s|(\w*MAX) *= *[^=])", re.M)
ROW = re.compile(r'^BOUND\((\w+), "([\w/.]+)", (SAID|TOLD|SOFT),\s*"([^"]+)",\s*"([^"]+)"\)', re.M)


def constants(root):
    for path in lintkit.files(root, ".c", ".h"):
        name = str(path.relative_to(root))
        if name.split("/")[0] in FOLDERS and not OUTSIDE.match(name) \
                and name != "preload/base/cuda_abi.h":
            text = re.sub(r"/\*.*?\*/", " ", lintkit.read(path), flags=re.S)
            for match in DEFINED.finditer(text):
                yield (match.group(1) or match.group(2), name)


def check(root, complain):
    text = lintkit.read(root / LIST)
    rows = [(m.group(1), m.group(2)) for m in ROW.finditer(text)]
    if len(rows) != len(re.findall(r"^BOUND\(", text, re.M)):
        complain(f"{LIST}: a row is not BOUND(constant, file, SAID|TOLD|SOFT, what, beyond)")
    there = set(constants(root))
    for name, file in sorted(there - set(rows)):
        complain(f"{file}: {name} is a fixed bound that {LIST} does not have: what happens beyond it?")
    for name, file in sorted(set(rows) - there):
        path = root / file
        if not path.exists() or not re.search(rf"(?:define +|^ *){name}\b *(?:=|[^=,;\s])", lintkit.read(path), re.M):
            complain(f"{LIST}: there is no {name} in {file}")
    for row in sorted(set(rows)):
        if rows.count(row) > 1:
            complain(f"{LIST}: {row[0]} of {row[1]} stands there twice")


def clean(root):
    lintkit.write(root, LIST, 'BOUND(ROWS_MAX, "alloc/heap/rows.h", SOFT, "rows", "memory")\n')
    lintkit.write(root, "alloc/heap/rows.h", "#define ROWS_MAX 7\n")
    lintkit.write(root, "tools/other.h", "#define OTHER_MAX 7\n")


def seed(name, text):
    return lambda root: lintkit.write(root, name, text)


ROWS = 'BOUND(ROWS_MAX, "alloc/heap/rows.h", SOFT, "rows", "memory")\n'
lintkit.main(check, clean, [
    ("a bound that is not listed", seed("tracker/capture/more.c", "enum {\n    COLUMNS_MAX = 8,\n};\n")),
    ("a row without a bound", seed("alloc/heap/rows.h", "\n")),
    ("a row that says nothing", seed(LIST, ROWS.replace("SOFT", "QUIET"))),
    ("a row twice", seed(LIST, ROWS * 2)),
])
