# SPDX-License-Identifier: MIT
"""Which module of a folder uses which: by the symbols of the objects of a build, and by quoted includes.

A module is X.c with X.h. X uses Y if X's object uses a symbol that Y's object defines, or if a file of X includes Y.h. Names of the
C library that we export (dlsym, write ...) are no use of ours: whoever calls them means the C library's.
"""
import collections
import pathlib
import re

import lintkit

EXPORTED = re.compile(r"^(?:EXPORT|HOOK\w*)\((\w+)", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*"(\w+)/(?:\w+/)?(\w+)\.(?:h|def)"', re.M)
# Folder -> the targets whose objects are its modules.
TARGETS = {"alloc": ["kedge_alloc"], "tracker": ["kedge_track", "kedge_read"], "preload": ["kedge_exports", "kedge"],
           "tools": ["kedge_tools_base", "kedge_tools", "kedge_cli"]}


def build_of(root):
    return lintkit.BUILD if root == lintkit.SOURCE else root / "build"


def target_folder(root, folder, target):
    return build_of(root) / folder / "CMakeFiles" / f"{target}.dir"


def objects_of(root, folder, target):
    """The objects of sources that are there: a build keeps those of files that were moved or removed."""
    top = target_folder(root, folder, target)
    return [path for path in top.rglob("*.c.o") if (root / folder / path.relative_to(top)).with_suffix("").is_file()]


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


def by_symbols(root, folder):
    """{module: modules that it uses}; {} where the build has no objects of the folder."""
    theirs = set(EXPORTED.findall(lintkit.read(root / "preload" / "base" / "hooks.def")))
    objects = sorted(path for target in TARGETS[folder] for path in objects_of(root, folder, target))
    if not objects:
        return {}
    uses, defines = symbols(objects)
    return {module: {defines[name] for name in names - theirs if name in defines} - {module} for module, names in uses.items()}


def modules(root, folder):
    """{module: its files}, each a path below the folder"""
    found = collections.defaultdict(list)
    for path in lintkit.files(root, ".c", ".h", ".def"):
        name = path.relative_to(root)
        if name.parts[0] == folder:
            found[path.stem].append(name.relative_to(folder))
    return found


def by_includes(root, folder):
    """{module: modules of the folder whose headers it includes}"""
    found = collections.defaultdict(set)
    for module, names in modules(root, folder).items():
        for name in names:
            found[module] |= {other for where, other in INCLUDE.findall(lintkit.read(root / folder / name))
                              if where == folder and other != module}
    return found


def compile_into(root, folder, name, source):
    """A module as a build has it: FOLDER/CMakeFiles/TARGET.dir/NAME.c.o; NAME may begin with a room."""
    root = pathlib.Path(root)
    path = lintkit.write(root, f"{folder}/{name}.c", source)
    out = target_folder(root, folder, TARGETS[folder][0]) / f"{name}.c.o"
    out.parent.mkdir(parents=True, exist_ok=True)
    lintkit.run(lintkit.CC, "-w", "-O0", "-c", path, "-o", out)
