#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.cycles: no module depends on itself by way of others.

Dependencies are those of objects.py: by symbols in every folder, in alloc/ by includes, too. Modules in a circle can only be read,
tested and changed together, however many files they are. One finding per knot of modules: the shortest circle in it.
"""
import lintkit
import objects


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


def knots(needs):
    """(modules that depend on each other, the shortest circle among them)"""
    told = set()
    for module in sorted(needs):
        way = circle(needs, module)
        if not way or module in told:
            continue
        knot = {other for other in reaches(needs, module) if module in reaches(needs, other)}
        told |= knot
        yield knot, min((circle(needs, other) for other in sorted(knot)), key=len)


def check_folder(folder, needs, complain):
    for knot, way in knots(needs):
        complain(f"{folder}/: {len(knot)} modules depend on each other in a circle: {' '.join(sorted(knot))}; the shortest: "
                 + " -> ".join(way + way[:1]))


def check(root, complain):
    check_folder("alloc", objects.by_includes(root, "alloc"), complain)
    for folder in objects.TARGETS:
        needs = objects.by_symbols(root, folder)
        if not needs and root == lintkit.SOURCE:
            complain(f"{folder}/: no objects in {lintkit.BUILD}")
        check_folder(folder, needs, complain)


def clean(root):
    lintkit.write(root, "preload/base/hooks.def", "EXPORT(write)\n")
    lintkit.write(root, "alloc/low.h", "#include <stdint.h>\n")
    lintkit.write(root, "alloc/mid.h", '#include "alloc/low.h"\n')
    lintkit.write(root, "alloc/mid.c", '#include "alloc/mid.h"\n')
    lintkit.write(root, "alloc/top.c", '#include "alloc/mid.h"\n#include "alloc/low.h"\n')
    objects.compile_into(root, "preload", "low", "int low(void) { write(); return 0; }")
    objects.compile_into(root, "preload", "mid", "int mid(void) { return low(); }")
    objects.compile_into(root, "preload", "top", "int write(void) { return low() + mid(); }")


def seed(name, line):
    return lambda root: lintkit.write(root, name, line + "\n")


def seed_object(folder, name, source):
    return lambda root: objects.compile_into(root, folder, name, source)


lintkit.main(check, clean, [
    ("two headers", seed("alloc/low.h", '#include "alloc/mid.h"')),
    ("a source file that includes what includes its header", seed("alloc/low.c", '#include "alloc/mid.h"')),
    ("a circle of three", seed("alloc/low.c", '#include "alloc/top.h"')),
    ("two modules that call each other", seed_object("preload", "low", "int low(void) { return mid(); }")),
    ("a circle by a variable of the caller's", lambda root: (
        objects.compile_into(root, "preload", "mid", "int state; int mid(void) { return low(); }"),
        objects.compile_into(root, "preload", "low", "extern int state; int low(void) { return state; }"))),
])
