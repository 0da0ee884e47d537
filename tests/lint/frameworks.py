#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.frameworks: the tables of frameworks in the top README and in tests/frameworks/README.md are the short form of
tests/frameworks/results.md, and the table of other tools in tools/DESIGN.md is that of tests/frameworks/other_tools.md.

Guards figures that nobody measured: a table kept by hand says what was once hoped for.
"""
import pathlib
import sys

import lintkit

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "frameworks" / "cases"))
import results  # noqa: E402 # pylint: disable=wrong-import-position

TABLE = """
## PyTorch 2.0, CPython 3.11

| case | allocator | as without kedge | exit | seen | line | E | reserved | CPU | late: runs / reuses / too early |
|---|---|---|---|---|---|---|---|---|---|
| gpt | async | yes | 0 | 100 % of 90 | 100 % | 0.969 | 94 / 92 | 3.1 | 2 / 40 / 0 |
"""

OTHERS = results.OTHERS_HEAD.format(day="2026-01-01", versions="PyTorch 2.0", rounds=5) + "| tool | CPU |\n|---|---|\n| memray | 1.80 |\n"


def check(root, complain):
    table, others, design = (lintkit.read(root / name) for name in
                             ("tests/frameworks/results.md", "tests/frameworks/other_tools.md", results.OTHERS_IN))
    if results.others_in_document(design, others) != design:
        complain(f"{results.OTHERS_IN}: its table of other tools is not that of tests/frameworks/other_tools.md: tests/frameworks/other_tools --design")
    for name, seen in results.DOCUMENTS.items():
        readme = lintkit.read(root / name)
        if results.in_readme(readme, table, seen) != readme:
            complain(f"{name}: its table of frameworks is not that of tests/frameworks/results.md: tests/frameworks/run --readme")
    if "**no**" in table:
        complain("tests/frameworks/results.md: a row is not as without kedge")


def clean(root):
    lintkit.write(root, "tests/frameworks/results.md", TABLE)
    lintkit.write(root, "tests/frameworks/other_tools.md", OTHERS)
    for name, seen in results.DOCUMENTS.items():
        lintkit.write(root, name, results.in_readme(f"# x\n\nBefore.\n\n{results.BEGIN}{results.END}\n\nBehind.\n", TABLE, seen))
    lintkit.write(root, results.OTHERS_IN, results.others_in_document(f"# x\n\n{results.OTHERS_BEGIN}{results.OTHERS_END}\n", OTHERS))


lintkit.main(check, clean, [
    ("another figure", lambda root: lintkit.write(root, "tests/frameworks/results.md", TABLE.replace("| 0 |", "| 1 |").replace("100 % of 90", "98 % of 90"))),
    ("a row that went", lambda root: lintkit.write(root, "tests/frameworks/results.md", TABLE.replace("gpt", "case"))),
    ("a row that is not the same", lambda root: lintkit.write(root, "tests/frameworks/results.md", TABLE.replace("| yes |", "| **no** |"))),
    ("another figure of another tool", lambda root: lintkit.write(root, "tests/frameworks/other_tools.md", OTHERS.replace("1.80", "1.8"))),
    ("a tool that went", lambda root: lintkit.write(root, "tests/frameworks/other_tools.md", OTHERS.replace("| memray | 1.80 |\n", ""))),
    ("no table", lambda root: lintkit.write(root, "README.md", "# x\n")),
    ("no table of all allocators", lambda root: lintkit.write(root, "tests/frameworks/README.md", "# x\n")),
    ("no table of other tools", lambda root: lintkit.write(root, results.OTHERS_IN, "# x\n")),
])
