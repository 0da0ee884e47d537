#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.cycles: no module depends on itself by way of others.

Module X (X.c) depends on Y if X's object uses a symbol that Y's object defines, or, in alloc/, if either of its files includes
Y.h. Modules in a circle can only be read, tested and changed together, however many files they are. One finding per knot of
modules: the shortest circle in it.

Names of the C library that we export (dlsym, write ...) are no dependency: who calls them means the C library's.
"""
import collections
import pathlib
import re

import lintkit

INCLUDE = re.compile(r'^\s*#\s*include\s*"alloc/(\w+)\.h"', re.M)
EXPORTED = re.compile(r"^(?:EXPORT|HOOK\w*)\((\w+)", re.M)
# Folder -> the target whose objects are its modules.
TARGETS = {"alloc": ["kedge_alloc"], "tracker": ["kedge_track", "kedge_read"], "preload": ["kedge_exports", "kedge"],
           "tools": ["kedge_tools"]}
# Knots that are known, by their modules: what they have in common is still to be moved below them.
OPEN = [
]


def by_includes(root):
    """{module: modules that it includes}"""
    found = collections.defaultdict(set)
    for path in lintkit.files(root, ".c", ".h"):
        if path.parent == root / "alloc":
            found[path.stem] |= set(INCLUDE.findall(lintkit.read(path))) - {path.stem}
    return found


def symbols(objects):
    """({module: names that it uses}, {name: module that defines it})"""
    uses, defines = collections.defaultdict(set), {}
    for line in lintkit.run("nm", "-A", "-P", *objects).splitlines():
        where, _, rest = line.partition(": ")
        name, kind = rest.split()[:2]
        module = pathlib.Path(where).name.split(".")[0]
        if kind in "Uw":
            uses[module].add(name)
        elif kind.isupper():
            defines[name] = module
    return uses, defines


def by_symbols(build, folder, theirs):
    """The same by the objects of a build: {} where they are not there."""
    objects = sorted(path for target in TARGETS[folder] for path in (build / folder / "CMakeFiles" / f"{target}.dir").rglob("*.o"))
    if not objects:
        return {}
    uses, defines = symbols(objects)
    return {module: {defines[name] for name in names - theirs if name in defines} - {module} for module, names in uses.items()}


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


def check_folder(folder, needs, is_open, complain):
    found = set()
    for knot, way in knots(needs):
        name = " ".join(sorted(knot))
        found.add(name)
        if (folder, name) not in is_open:
            complain(f"{folder}/: {len(knot)} modules depend on each other in a circle: {name}; the shortest: "
                     + " -> ".join(way + way[:1]))
    return found


def check(root, complain):
    build = lintkit.BUILD if root == lintkit.SOURCE else root / "build"
    is_open = OPEN if root == lintkit.SOURCE else []
    theirs = set(EXPORTED.findall(lintkit.read(root / "preload" / "hooks.def")))
    check_folder("alloc", by_includes(root), [], complain)
    for folder in TARGETS:
        needs = by_symbols(build, folder, theirs)
        if not needs and root == lintkit.SOURCE:
            complain(f"{folder}/: no objects in {build}")
        found = check_folder(folder, needs, is_open, complain)
        for knot in sorted(name for where, name in is_open if where == folder and name not in found):
            complain(f"{folder}/: this circle is open, or another one, and still listed: {knot}")


def compile_into(root, folder, name, source):
    """A module as the build has it: FOLDER/CMakeFiles/TARGET.dir/NAME.c.o"""
    path = lintkit.write(root, f"{folder}/{name}.c", source)
    out = pathlib.Path(root) / "build" / folder / "CMakeFiles" / f"{TARGETS[folder][0]}.dir" / f"{name}.c.o"
    out.parent.mkdir(parents=True, exist_ok=True)
    lintkit.run(lintkit.CC, "-w", "-O0", "-c", path, "-o", out)


def clean(root):
    lintkit.write(root, "preload/hooks.def", "EXPORT(write)\n")
    lintkit.write(root, "alloc/low.h", "#include <stdint.h>\n")
    lintkit.write(root, "alloc/mid.h", '#include "alloc/low.h"\n')
    lintkit.write(root, "alloc/mid.c", '#include "alloc/mid.h"\n')
    lintkit.write(root, "alloc/top.c", '#include "alloc/mid.h"\n#include "alloc/low.h"\n')
    compile_into(root, "preload", "low", "int low(void) { write(); return 0; }")
    compile_into(root, "preload", "mid", "int mid(void) { return low(); }")
    compile_into(root, "preload", "top", "int write(void) { return low() + mid(); }")


def seed(name, line):
    return lambda root: lintkit.write(root, name, line + "\n")


def seed_object(folder, name, source):
    return lambda root: compile_into(root, folder, name, source)


lintkit.main(check, clean, [
    ("two headers", seed("alloc/low.h", '#include "alloc/mid.h"')),
    ("a source file that includes what includes its header", seed("alloc/low.c", '#include "alloc/mid.h"')),
    ("a circle of three", seed("alloc/low.c", '#include "alloc/top.h"')),
    ("two modules that call each other", seed_object("preload", "low", "int low(void) { return mid(); }")),
    ("a circle by a variable of the caller's", lambda root: (
        compile_into(root, "preload", "mid", "int state; int mid(void) { return low(); }"),
        compile_into(root, "preload", "low", "extern int state; int low(void) { return state; }"))),
])
