#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.text: what every text file must and must not hold.

Guards four things that nobody notices in review: a file without its licence line (packagers refuse the whole), a path
that exists on one person's machine only (the quick start then works for that person only), a marker of unfinished
work that was meant for tomorrow, and text or code that came out of a CUDA header with its licence.
"""
import re

import lintkit

# Files in which the line cannot or need not stand: the licence itself, data, and formats without comments.
NO_SPDX = re.compile(r"(^LICENSE$|\.json$|\.md$|\.csv$|\.kcap$|^tests/(data|traces|replay|fuzz|gpu/results)/.*|\.golden$)")
BINARY = re.compile(r"\.(kcap|bin|gz|png|pickle)$")
SPDX = "SPDX-License-" + "Identifier: MIT"
# "/home/me" is nobody's.
HOME = re.compile(r"(?<![\w.$}/~-])/(home|root|Users|work|mnt|media)/(?!me[/\"])[\w.]")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
FOREIGN = re.compile(r"Copyright.{0,40}NVIDIA|NVIDIA CORPORATION|LicenseRef-Nvidia", re.I)


def check(root, complain):
    for path in lintkit.files(root):
        name = str(path.relative_to(root))
        if BINARY.search(name):
            continue
        text = lintkit.read(path)
        if not NO_SPDX.search(name) and SPDX not in "\n".join(text.splitlines()[:3]) and text.strip():
            complain(f"{name}: no SPDX line in the first three lines")
        if name == "tests/lint/text.py":
            continue # it has to name what it looks for
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, what in ((HOME, "a path of one machine"), (UNFINISHED, "a marker of unfinished work"),
                                  (FOREIGN, "text under a foreign licence")):
                if pattern.search(line):
                    complain(f"{name}:{number}: {what}: {line.strip()[:80]}")
            if line != line.rstrip() and not name.endswith(".md"):
                complain(f"{name}:{number}: blanks at the end of the line")


def clean(root):
    lintkit.write(root, "alloc/pool.c", f"/* {SPDX} */\n/* see /proc/self/maps and /tmp/x */\n")
    lintkit.write(root, "LICENSE", "MIT\n")
    lintkit.write(root, "tools/setup", f"#!/bin/sh\n# {SPDX}\n")


def seed(line, head=f"/* {SPDX} */\n"):
    return lambda root: lintkit.write(root, "alloc/fence.c", head + line + "\n")


lintkit.main(check, clean, [
    ("no licence line", seed("int x;", "")),
    ("a home directory", seed("/* see /home" "/someone/kedge */")),
    ("a workplace", seed('#define LIB "/work' '/main/libkedge.so"')),
    ("unfinished", seed("/* TO" "DO: free it */")),
    ("foreign text", seed("/* Copyright 2020 NVIDIA */")),
    ("trailing blanks", seed("int x; ")),
])
