#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.text: what every text file must and must not hold.

Guards six things that nobody notices in review: a file without its licence line (packagers refuse the whole), a path
that exists on one person's machine only (the quick start then works for that person only), a marker of unfinished
work that was meant for tomorrow, text or code that came out of a CUDA header with its licence, a document that is named
and is not in the tree, and, in READMEs and man pages, words that were replaced by the field's own (WORDS).
"""
import re

import lintkit

# Files in which the line cannot or need not stand: the licence itself, data, and formats without comments.
NO_SPDX = re.compile(r"(^LICENSE$|^tools/package/copyright$|\.json$|\.md$|\.csv$|\.kcap$|^tests/(data|traces|replay|fuzz|gpu/results)/.*|\.golden$)")
BINARY = re.compile(r"\.(kcap|bin|gz|png|pickle)$")
SPDX = "SPDX-License-" + "Identifier: MIT"
# "/home/me" is nobody's.
HOME = re.compile(r"(?<![\w.$}/~-])/(home|root|Users|work|mnt|media)/(?!me[/\"])[\w.]")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
FOREIGN = re.compile(r"Copyright.{0,40}NVIDIA|NVIDIA CORPORATION|LicenseRef-Nvidia", re.I)
# A document that is named by file. In CHANGELOG.md it may be one of the past.
DOCUMENT = re.compile(r"(?<![<>*\w-])[\w-]+\.md\b")
# READMEs and man pages, apart from what commands print or take (code, options, keys of JSON).
DOCUMENTS = re.compile(r"(?<!CHANGELOG)(\.md|\.1)$")
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|^    .*|^\.B.*|^\| <a id=.*")
WORDS = (
    (re.compile(r"\bentrances?\b"), "allocation API"),
    (re.compile(r"(?<![Aa]rea )(?<!A to )\bE\b(?= (?:is|of|was|[0-9])| \|)"), "utilisation"),
    (re.compile(r"\bend(?:ed|s)? by itself\b"), "exited with status N"),
    (re.compile(r"\bnobody can tell\b"), "it is not known"),
)


def check_words(name, text, complain):
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        for pattern, better in WORDS:
            if not fenced and pattern.search(QUOTED.sub("", line)):
                complain(f"{name}:{number}: say {better}: {line.strip()[:80]}")


def check(root, complain):
    documents = {path.name for path in lintkit.files(root, ".md")}
    for path in lintkit.files(root):
        name = str(path.relative_to(root))
        if BINARY.search(name):
            continue
        text = lintkit.read(path)
        if not NO_SPDX.search(name) and SPDX not in "\n".join(text.splitlines()[:3]) and text.strip():
            complain(f"{name}: no SPDX line in the first three lines")
        if DOCUMENTS.search(name):
            check_words(name, text, complain)
        if name == "tests/lint/text.py":
            continue # it has to name what it looks for
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, what in ((HOME, "a path of one machine"), (UNFINISHED, "a marker of unfinished work"),
                                  (FOREIGN, "text under a foreign licence")):
                if pattern.search(line):
                    complain(f"{name}:{number}: {what}: {line.strip()[:80]}")
            for document in DOCUMENT.findall(line):
                if document not in documents and name != "CHANGELOG.md":
                    complain(f"{name}:{number}: no document of the tree is called {document}")
            if line != line.rstrip() and not name.endswith(".md"):
                complain(f"{name}:{number}: blanks at the end of the line")


def clean(root):
    lintkit.write(root, "alloc/pool.c", f"/* {SPDX} */\n/* see /proc/self/maps and /tmp/x */\n")
    lintkit.write(root, "LICENSE", "MIT\n")
    lintkit.write(root, "tools/setup", f"#!/bin/sh\n# {SPDX}\n")
    lintkit.write(root, "README.md", "area E; `--entrance`, see README.md\n\n    an entrance\n```\nentrance E 0.9\n```\n")


def seed(line, head=f"/* {SPDX} */\n"):
    return lambda root: lintkit.write(root, "alloc/index/fence.c", head + line + "\n")


lintkit.main(check, clean, [
    ("no licence line", seed("int x;", "")),
    ("a home directory", seed("/* see /home" "/someone/kedge */")),
    ("a workplace", seed('#define LIB "/work' '/main/libkedge.so"')),
    ("unfinished", seed("/* TO" "DO: free it */")),
    ("foreign text", seed("/* Copyright 2020 NVIDIA */")),
    ("trailing blanks", seed("int x; ")),
    ("a document that is not there", seed("/* see law" ".md */")),
    ("a word of the past", lambda root: lintkit.write(root, "alloc/README.md", "the sync entrance\n")),
    ("a letter for a word", lambda root: lintkit.write(root, "tools/man/kedge.1", f'.\\" {SPDX}\nE is 0.9\n')),
])
