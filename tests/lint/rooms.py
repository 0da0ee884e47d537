#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.rooms: the rooms of a folder stand in one order, and nothing in a room uses a room above it.

The order is that of add_subdirectory() in the folder's CMakeLists.txt, lowest first; files directly in the folder are its face, above
all rooms. Uses are those of objects.py: symbols and includes. A room has at most MODULES_MOST modules and a CMakeLists.txt, and what
is directly in a folder is in FACES.

The picture of README.md is what --picture --brief prints.

    rooms.py --table              modules of each room
    rooms.py --picture            who uses whom, room by room: the rooms below that each room uses
    rooms.py --picture --brief    the same in a few lines: a room uses rooms of groups to its right, never of its own
"""
import collections
import pathlib
import re
import sys
import textwrap

import lintkit
import objects

MODULES_MOST = 25
FACES = {"alloc": r"pool(_\w+)?", "tracker": r"(?!)", "preload": r"start", "tools": r"main"}
# Their files are no part of a program of the folder.
APART = {"tools": {"examples", "man", "package", "python"}}
FACE = "the face"
PICTURE_WIDTH = 100
PICTURE = re.compile(r"python3 tests/lint/rooms\.py --picture --brief.*?^```\n(.*?)^```", re.M | re.S)


def order(root, folder):
    """Rooms, lowest first."""
    path = root / folder / "CMakeLists.txt"
    return re.findall(r"^add_subdirectory\((\w+)\)", lintkit.read(path), re.M) if path.is_file() else []


def rooms_of(root, folder):
    """{module: its room}; a module directly in the folder is in FACE."""
    return {module: names[0].parts[0] if len(names[0].parts) > 1 else FACE
            for module, names in objects.modules(root, folder).items() if names[0].parts[0] not in APART.get(folder, ())}


def uses(root, folder):
    """{(room, other room): [(module, module of the other room)]}"""
    rooms = rooms_of(root, folder)
    found = collections.defaultdict(list)
    for needs in (objects.by_symbols(root, folder), objects.by_includes(root, folder)):
        for module, others in needs.items():
            for other in others:
                if rooms.get(module, FACE) != rooms.get(other, FACE):
                    found[rooms.get(module, FACE), rooms.get(other, FACE)].append((module, other))
    return found


def check_places(root, folder, levels, complain):
    rooms = rooms_of(root, folder)
    for module, room in sorted(rooms.items()):
        if room == FACE and not re.fullmatch(FACES[folder], module):
            complain(f"{folder}/{module}: belongs into a room; directly in {folder}/ is only its face")
        elif room != FACE and room not in levels:
            complain(f"{folder}/{room}/: add_subdirectory({room}) is missing in {folder}/CMakeLists.txt")
    for room, count in collections.Counter(rooms.values()).items():
        if count > MODULES_MOST:
            complain(f"{folder}/{room}/: {count} modules are more than {MODULES_MOST}")


def check(root, complain):
    for folder in objects.TARGETS:
        rooms = [*order(root, folder), FACE]
        levels = {room: level for level, room in enumerate(rooms)}
        check_places(root, folder, levels, complain)
        for (room, other), pairs in sorted(uses(root, folder).items()):
            if levels.get(room, 0) < levels.get(other, 0):
                complain(f"{folder}/{room}/ uses {other}, which is above it: "
                         + ", ".join(f"{a} -> {b}" for a, b in sorted(set(pairs))))
    check_picture(root, complain)


def table(root):
    for folder in objects.TARGETS:
        counts = collections.Counter(rooms_of(root, folder).values())
        print(f"{folder}: " + ", ".join(f"{room} {counts[room]}" for room in [*order(root, folder), FACE] if counts[room]))


def picture(root):
    for folder in objects.TARGETS:
        rooms, pairs = [*order(root, folder), FACE], uses(root, folder)
        print(folder)
        for room in reversed(rooms):
            below = [other for other in reversed(rooms) if (room, other) in pairs]
            print(f"  {room:9} ─► {' '.join(below)}" if below else f"  {room}")


def groups(rooms, pairs):
    """Rooms from the highest down, in groups within which none uses another."""
    found = []
    for room in reversed(rooms):
        if found and not any((other, room) in pairs for other in found[-1]):
            found[-1].append(room)
        else:
            found.append([room])
    return found


def brief(root):
    """The picture of README.md: a paragraph for each folder."""
    lines = []
    for folder in reversed(objects.TARGETS):
        rooms = order(root, folder)
        row = " ─► ".join("·".join(group) for group in groups(rooms, uses(root, folder)))
        lines += textwrap.wrap(row, PICTURE_WIDTH, initial_indent=f"{folder:9}", subsequent_indent=" " * 9, break_on_hyphens=False)
    return "".join(line + "\n" for line in lines)


def check_picture(root, complain):
    shown = PICTURE.search(lintkit.read(root / "README.md"))
    if not shown or shown.group(1) != brief(root):
        complain("README.md: its picture of rooms is not what this prints: python3 tests/lint/rooms.py --picture --brief")


def clean(root):
    lintkit.write(root, "preload/base/hooks.def", "EXPORT(write)\n")
    lintkit.write(root, "preload/CMakeLists.txt", "add_subdirectory(base)\n")
    lintkit.write(root, "alloc/CMakeLists.txt", "add_subdirectory(base)\nadd_subdirectory(heap)\n")
    lintkit.write(root, "alloc/base/low.h", "#include <stdint.h>\n")
    lintkit.write(root, "alloc/heap/mid.h", '#include "alloc/base/low.h"\n')
    lintkit.write(root, "alloc/pool.c", '#include "alloc/heap/mid.h"\n')
    objects.compile_into(root, "alloc", "base/low", "int low(void) { return 0; }")
    objects.compile_into(root, "alloc", "heap/mid", "int mid(void) { return low(); }")
    for i in range(MODULES_MOST - 1):
        lintkit.write(root, f"alloc/heap/more{i}.c", "")
    lintkit.write(root, "README.md", f"`python3 tests/lint/rooms.py --picture --brief`:\n\n```\n{brief(pathlib.Path(root))}```\n")


def seed(name, text):
    return lambda root: lintkit.write(root, name, text + "\n")


if "--table" in sys.argv:
    table(lintkit.SOURCE)
elif "--brief" in sys.argv:
    print(brief(lintkit.SOURCE), end="")
elif "--picture" in sys.argv:
    picture(lintkit.SOURCE)
else:
    lintkit.main(check, clean, [
        ("an include upwards", seed("alloc/base/low.c", '#include "alloc/heap/mid.h"')),
        ("a call upwards", lambda root: objects.compile_into(root, "alloc", "base/low", "int low(void) { return mid(); }")),
        ("a room that uses the face", seed("alloc/heap/mid.c", '#include "alloc/pool.h"\n')),
        ("a module too many", seed("alloc/heap/full.c", "")),
        ("a file outside of the rooms", seed("alloc/trim.c", "")),
        ("a room without a place in the order", seed("alloc/swap/swap.c", "")),
        ("a picture of other rooms", seed("README.md", "`python3 tests/lint/rooms.py --picture --brief`:\n\n```\nalloc    heap\n```")),
        ("no picture", seed("README.md", "# kedge")),
    ])
