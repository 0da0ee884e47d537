#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.covers: each module of the product is named by a test that is about it.

The line after the licence of a unit test, and one of the first lines of another test or script, says `covers: pins.c hit.c`: these
modules are what it is there for, though it may run through others. Whoever changes a module finds its tests by one search, and a
module that no test names is a finding. A module is X.c of alloc/, preload/, tracker/ or tools/ outside of examples/.
"""
import re

import lintkit

FOLDERS = ("alloc", "preload", "tracker", "tools")
COVERS = re.compile(r"\bcovers: ((?:\w+\.c[,.]? *(?:\n[ *#]*)?)+)")
HEAD = 2000 # characters in which the line stands
UNIT_TEST = re.compile(r"tests/unit/(?:alloc|preload|tracker|tools)/.*_test\.c$")


def modules(root):
    names = (path.relative_to(root) for path in lintkit.files(root, ".c"))
    return {name.name: str(name) for name in names if name.parts[0] in FOLDERS and "examples" not in name.parts}


def check(root, complain):
    there, named = modules(root), set()
    for path in lintkit.files(root, ".c", ".h", ".py", ".sh"):
        name = str(path.relative_to(root))
        if not name.startswith("tests/") or name.startswith("tests/lint/"):
            continue
        found = {word for line in COVERS.findall(lintkit.read(path)[:HEAD]) for word in re.findall(r"\w+\.c", line)}
        if not found and UNIT_TEST.match(name):
            complain(f"{name}: does not say which modules it covers")
        for word in sorted(found - set(there)):
            complain(f"{name}: covers {word}, which is no module")
        named |= found
    for word in sorted(set(there) - named):
        complain(f"{there[word]}: no test says that it covers this module")


def clean(root):
    lintkit.write(root, "alloc/heap/pin.c", "")
    lintkit.write(root, "alloc/heap/heap.c", "")
    lintkit.write(root, "tools/examples/marks.c", "")
    lintkit.write(root, "tests/unit/alloc/heap/pin_test.c", "/* SPDX */\n/* covers: pin.c */\n")
    lintkit.write(root, "tests/regress/heaps.py", "#!/usr/bin/env python3\n# covers: heap.c\n")


def seed(name, text):
    return lambda root: lintkit.write(root, name, text)


lintkit.main(check, clean, [
    ("a module without a test", seed("alloc/heap/lane.c", "")),
    ("a unit test of nothing", seed("tests/unit/alloc/heap/lane_test.c", "/* Lanes. */\n")),
    ("a module that is gone", seed("tests/regress/heaps.py", "# covers: heap.c segment.c\n")),
])
