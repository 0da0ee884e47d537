#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.format: every C file is as clang-format leaves it.

Guards diffs: a change of three lines must be three lines long, whoever's editor made it.
"""
import shutil
import subprocess

import lintkit


def check(root, complain):
    paths = lintkit.files(root, ".c", ".h")
    if not paths:
        return
    done = subprocess.run(["clang-format", "--dry-run", f"--style=file:{lintkit.SOURCE}/.clang-format", *map(str, paths)],
                          capture_output=True, text=True, check=False)
    seen = set()
    for line in done.stderr.splitlines():
        name = line.split(":")[0]
        if "clang-format-violations" in line and name not in seen:
            seen.add(name)
            complain(f"{name}: run clang-format -i on it")
    if done.returncode != 0:
        complain(done.stderr.strip())


if not shutil.which("clang-format"):
    lintkit.skip("clang-format is not installed")
lintkit.main(
    check, lambda root: lintkit.write(root, "alloc/pool.c", "int f(void)\n{\n    return 0;\n}\n"),
    [("two blanks", lambda root: lintkit.write(root, "alloc/fence.c", "int  f(void)\n{\n    return 0;\n}\n")),
     ("tabs", lambda root: lintkit.write(root, "alloc/fence.c", "int f(void)\n{\n\treturn 0;\n}\n"))])
