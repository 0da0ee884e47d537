#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.frameworks: the top README's table of frameworks is the short form of tests/frameworks/results.md.

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


def check(root, complain):
    readme, table = lintkit.read(root / "README.md"), lintkit.read(root / "tests" / "frameworks" / "results.md")
    if results.in_readme(readme, table) != readme:
        complain("README.md: its table of frameworks is not that of tests/frameworks/results.md: tests/frameworks/run --readme")
    if "**no**" in table:
        complain("tests/frameworks/results.md: a row is not as without kedge")


def clean(root):
    lintkit.write(root, "tests/frameworks/results.md", TABLE)
    lintkit.write(root, "README.md", results.in_readme("# x\n\nBefore.\n\n" + results.BEGIN + results.END + "\n\nBehind.\n", TABLE))


lintkit.main(check, clean, [
    ("another figure", lambda root: lintkit.write(root, "tests/frameworks/results.md", TABLE.replace("| 0 |", "| 1 |").replace("100 % of 90", "98 % of 90"))),
    ("a row that went", lambda root: lintkit.write(root, "tests/frameworks/results.md", TABLE.replace("gpt", "case"))),
    ("a row that is not the same", lambda root: lintkit.write(root, "tests/frameworks/results.md", TABLE.replace("| yes |", "| **no** |"))),
    ("no table", lambda root: lintkit.write(root, "README.md", "# x\n")),
])
