#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.names: a function's name leads to its file, and a file's name to its folder.

Guards the search for a function that a stack frame or a comment names: pool_alloc is declared in alloc/pool.h. Checked:

- base file names are unique, and none is a prefix of libc's (a module called time or log gives its functions libc's names);
- a function declared in X.h begins with X_, with a prefix that the head of X.h lists ("Prefixes: slab_, span_." on a line of
  its own), or with Y_ if Y.c of the same folder defines it; a listed prefix is no module of another folder;
- no function, static ones included, has the same name in two files of the product: a search, a profile and a debugger name one place.
"""
import collections
import re

import lintkit

# alloc/base/driver.h is the table of functions that preload/driver/driver.c fills: one interface on both sides of the border.
TWO_FOLDERS = {"driver"}
LIBC = {"time", "log", "str", "mem", "sig", "math", "file", "io", "env", "std", "wait", "signal", "string", "errno",
        "memory", "select", "poll", "sys"}
# The names that several folders have. Headers under tests/trainers/include* carry CUDA's public names.
SAME_ON_PURPOSE = {"CMakeLists.txt", "README.md", "DESIGN.md", "run", "setup"}

PRODUCT = ("alloc", "preload", "tracker", "tools")
# Headers whose names are CUDA's, or what programs call.
FOREIGN = {"preload/base/cuda_abi.h", "preload/base/kedge.h"}
# Every program has one.
EVERYWHERE = {"main"}
PREFIXES = re.compile(r"^ \* Prefixes: (.*)\.$", re.M)
FUNCTION = re.compile(r"((?:\w+[\s*]+)+)(?!(?:int|void|bool|_Alignas)\b)(\w+)\s*\(")


def functions(text):
    """[(name, is it static)] of the functions that a C file declares or defines at its top level."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#(?:.*\\\n)*.*$", "", text, flags=re.M)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', "0", text)
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|\b_Atomic\b\s*\(?", " ", text)
    found = []
    while True: # bodies go, innermost first
        text, count = re.subn(r"\{[^{}]*\}", ";", text)
        if not count:
            break
    for statement in text.split(";"):
        match = FUNCTION.match(statement.strip())
        if match and "typedef" not in match.group(1) and not match.group(2).isupper():
            found.append((match.group(2), "static" in match.group(1).split()))
    return found


def check_functions(root, complain):
    headers, sources, folders = {}, collections.defaultdict(dict), {}
    for path in lintkit.files(root, ".c", ".h"):
        name = str(path.relative_to(root))
        folder = name.split("/")[0]
        if folder not in PRODUCT or name in FOREIGN or name.startswith("tools/examples/"):
            continue
        text = lintkit.read(path)
        folders.setdefault(path.stem, set()).add(folder)
        (headers if path.suffix == ".h" else sources[folder])[name] = (path.stem, text, functions(text))
    for name, (stem, text, found) in headers.items():
        folder = name.split("/")[0]
        listed = [p for group in PREFIXES.findall(text) for p in group.split(", ")]
        for prefix in listed:
            if folders.get(prefix.rstrip("_"), {folder}) != {folder}:
                complain(f"{name}: the prefix {prefix} is a module of another folder")
        for function in sorted({f for f, _ in found}):
            homes = [s for s, _, defined in sources[folder].values() if (function, False) in defined]
            if not function.startswith((f"{stem}_", *listed, *(f"{h}_" for h in homes))) and function not in (stem, *homes):
                complain(f"{name}: {function} does not begin with {stem}_, nor with a prefix that the head lists")
    same = collections.defaultdict(set)
    for files in sources.values():
        for name, (_, _, found) in files.items():
            for function, _ in found:
                same[function].add(name)
    for function, names in sorted(same.items()):
        if len(names) > 1 and function not in EVERYWHERE:
            complain(f"{len(names)} functions are called {function}: {' '.join(sorted(names))}")


def check(root, complain):
    check_functions(root, complain)
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
    for name in ("alloc/pool.c", "alloc/pool.h", "alloc/README.md", "tracker/README.md", "tests/unit/alloc/pool_test.c"):
        lintkit.write(root, name, "")
    lintkit.write(root, "alloc/base/meta.h", "/*\n * Prefixes: slab_, span_.\n */\nvoid slab_put(void *p);\nbool span_done(int a);\n")
    lintkit.write(root, "alloc/heap/heap.h", "struct heap *heap_new(int n);\nvoid pool_free(void);\n#define A(x) b(x)\n")
    lintkit.write(root, "alloc/pool.c", "void pool_free(void)\n{\n    run();\n}\n")
    lintkit.write(root, "tools/report/report.c", "static int report_print(void)\n{\n    return f(1);\n}\n")


lintkit.main(check, clean, [
    ("two files of one name", lambda root: lintkit.write(root, "tracker/pool.c", "")),
    ("a header away from its module", lambda root: lintkit.write(root, "preload/pool.h", "")),
    ("a libc prefix", lambda root: lintkit.write(root, "preload/log.c", "")),
    ("a function with another file's name", lambda root: lintkit.write(root, "alloc/heap/heap.h", "int block_take(void);\n")),
    ("a function without a file's name", lambda root: lintkit.write(root, "alloc/heap/heap.h", "static inline int take(void)\n{\n}\n")),
    ("a prefix of another folder", lambda root: lintkit.write(root, "tracker/capture/uses.h", "/*\n * Prefixes: pool_.\n */\n")),
    ("a static function of another file", lambda root: lintkit.write(root, "tools/page/page.c", "static int report_print(void)\n{\n}\n")),
    ("capital letters", lambda root: lintkit.write(root, "preload/Hooks.c", "")),
])
