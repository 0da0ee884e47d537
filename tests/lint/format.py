#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.format: every C file is as clang-format leaves it, and it leaves it fit to read.

Guards diffs: a change of three lines must be three lines long, whoever's editor made it. And declarations: to make room
for a long comment behind a field clang-format breaks between type and name, so such a comment goes above its field.
"""
import re
import shutil
import subprocess

import lintkit

TYPE_ALONE = re.compile(r"^\s+(?:const |static |_Atomic )*(?:unsigned|int|char|bool|size_t|atomic_\w+|u?int\d+_t|devptr_t|"
                        r"(?:enum|struct) \w+|\w+ =)(?: \*)?\n.*/\*", re.M)


def check(root, complain):
    paths = lintkit.files(root, ".c", ".h")
    if not paths:
        return
    for path in paths:
        text = lintkit.read(path)
        for found in TYPE_ALONE.finditer(text):
            line = text.count("\n", 0, found.end()) + 1
            complain(f"{path.relative_to(root)}:{line}: put the comment above, it folds the declaration")
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
    [("two blanks", lambda root: lintkit.write(root, "alloc/index/fence.c", "int  f(void)\n{\n    return 0;\n}\n")),
     ("tabs", lambda root: lintkit.write(root, "alloc/index/fence.c", "int f(void)\n{\n\treturn 0;\n}\n")),
     ("a folded declaration", lambda root: lintkit.write(
         root, "alloc/index/fence.h", f"struct fence {{\n    uint64_t\n            epoch; /* {'long ' * 20}*/\n}};\n"))])
