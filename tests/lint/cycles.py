#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.cycles: no module of alloc/ depends on itself by way of others.

Module X (X.c and X.h) depends on Y if either of its files includes Y.h. Modules in a circle can only be read, tested
and changed together, however many files they are. One finding per knot of modules: the shortest circle in it.
"""
import re

import lintkit

INCLUDE = re.compile(r'^\s*#\s*include\s*"alloc/(\w+)\.h"', re.M)


def dependencies(root):
    """{module: modules that it includes}"""
    found = {}
    for path in lintkit.files(root, ".c", ".h"):
        if path.parent == root / "alloc":
            found.setdefault(path.stem, set()).update(set(INCLUDE.findall(lintkit.read(path))) - {path.stem})
    return found


def circle(needs, start):
    """The shortest way from a module back to itself, None if there is none."""
    before = {}
    rows = [start]
    for module in rows:
        for other in sorted(needs.get(module, ())):
            if other == start:
                way = [start]
                while module != start:
                    way.insert(1, module)
                    module = before[module]
                return way
            if other not in before:
                before[other] = module
                rows.append(other)
    return None


def reaches(needs, start):
    seen, rows = set(), [start]
    for module in rows:
        for other in needs.get(module, set()) - seen:
            seen.add(other)
            rows.append(other)
    return seen


def check(root, complain):
    needs = dependencies(root)
    told = set()
    for module in sorted(needs):
        way = circle(needs, module)
        if not way or module in told:
            continue
        knot = {other for other in reaches(needs, module) if module in reaches(needs, other)}
        told |= knot
        shortest = min((circle(needs, other) for other in sorted(knot)), key=len)
        complain(f"alloc/: {len(knot)} modules depend on each other in a circle: {' '.join(sorted(knot))}; the shortest: "
                 + " -> ".join(shortest + shortest[:1]))


def clean(root):
    lintkit.write(root, "alloc/low.h", "#include <stdint.h>\n")
    lintkit.write(root, "alloc/mid.h", '#include "alloc/low.h"\n')
    lintkit.write(root, "alloc/mid.c", '#include "alloc/mid.h"\n')
    lintkit.write(root, "alloc/top.c", '#include "alloc/mid.h"\n#include "alloc/low.h"\n')
    lintkit.write(root, "tracker/low.c", '#include "alloc/top.h"\n')


def seed(name, line):
    return lambda root: lintkit.write(root, name, line + "\n")


lintkit.main(check, clean, [
    ("two headers", seed("alloc/low.h", '#include "alloc/mid.h"')),
    ("a source file that includes what includes its header", seed("alloc/low.c", '#include "alloc/mid.h"')),
    ("a circle of three", seed("alloc/low.c", '#include "alloc/top.h"')),
])
