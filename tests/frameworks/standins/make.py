#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the stand-ins that the libraries of an environment ask for.

    make.py ENVIRONMENT OUT [SONAME...] [-SONAME...]

SONAME: asked for by name while the program runs (dlopen); -SONAME: what asks for it is not used, and fails to load.

Reads every shared object below ENVIRONMENT: which sonames it needs (readelf -d), which names it misses (nm -D), under
which version node of which library (readelf -V). A soname that one of the files here stands in for gets a library of
all functions that the file has, and a function that refuses for each other name. A soname that nobody has is told:
NVIDIA's libraries are never fetched. Needs gcc, nm and readelf.
"""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Names without a version node belong to the library by their beginning.
PREFIXES = {"cusparseLt": "libcusparseLt", "cuFile": "libcufile", "nvshmem": "libnvshmem_host",
            "curand": "libcurand"}
SIMULATED = re.compile(r"lib(cuda|cudart|nccl)\.so\.")
FOREIGN = re.compile(r"lib(cu|nv|nccl)\w*\.so")
FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror")


def output(*command):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def asked_for(root):
    """({soname}, {soname: (version node or "", {names})}) of all shared objects below root; what root has itself is left out."""
    objects = [p for p in root.rglob("*.so*") if p.is_file() and not p.is_symlink()]
    own = {p.name for p in root.rglob("*.so*")}
    sonames, names = set(), {}
    for path in objects:
        with open(path, "rb") as f:
            if f.read(4) != b"\x7fELF":
                continue
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", path))
        needed = [n for n in needed if FOREIGN.match(n) and not SIMULATED.match(n) and n not in own]
        if not needed:
            continue
        sonames |= set(needed)
        nodes = {}
        of = ""
        for file, node in re.findall(r"File: (\S+)|Name: (\S+)", output("readelf", "-VW", path)):
            of = file or of
            if node:
                nodes[node] = of
        for line in output("nm", "-D", "--undefined-only", path).splitlines():
            name, _, node = line.split()[-1].partition("@")
            soname = nodes.get(node) if node else next(
                (n for p, stem in PREFIXES.items() if name.startswith(p) for n in needed if n.startswith(stem + ".so")), None)
            if soname in needed:
                names.setdefault(soname, {}).setdefault(name, node)
    return sonames, names


def source_of(soname):
    return HERE / f"{soname.partition('.so')[0].lower().replace('-', '_')}.c"


def make(soname, wanted, out):
    """One library. wanted: {name: version node}. Returns how many names have a body."""
    stem, _, version = soname.partition(".so")
    source, build = source_of(soname), out / "objects"
    build.mkdir(parents=True, exist_ok=True)
    major = re.sub(r"\D.*", "", version.lstrip(".")) or "0"
    objects = []
    for file in (source, HERE / "common.c"):
        objects.append(build / f"{soname}.{file.stem}.o")
        output("gcc", *FLAGS, f"-DSTANDIN_MAJOR={major}", "-c", file, "-o", objects[-1])
    bodies = set(re.findall(r" [TD] (\w+)$", output("nm", "--defined-only", objects[0]), re.M)) - {"standin_refused"}
    missing = build / f"{soname}.missing.c"
    missing.write_text("long standin_refused(const char *name);\n" + "".join(
        f'__attribute__((visibility("default"))) long {n}(void);\nlong {n}(void) {{ return standin_refused("{n}"); }}\n'
        for n in sorted(set(wanted) - bodies)), encoding="utf-8")
    node = next((v for v in wanted.values() if v), "") # a library has one, or none
    link = ["-Wl,-soname," + soname]
    if node:
        script = build / f"{soname}.map"
        script.write_text(f"{node} {{ global: *; }};\n", encoding="utf-8")
        link.append(f"-Wl,--version-script={script}")
    made = out / f"{soname}.new"
    output("gcc", *FLAGS, "-shared", *objects, missing, "-o", made, *link, "-ldl", "-lpthread")
    os.replace(made, out / soname)
    return len(set(wanted) & bodies)


def main():
    root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    by_name = [s for s in sys.argv[3:] if not s.startswith("-")]
    sonames, names = asked_for(root)
    sonames -= {s[1:] for s in sys.argv[3:] if s.startswith("-")}
    nobody = sorted(s for s in sonames | set(by_name) if not source_of(s).exists())
    if nobody:
        sys.exit(f"standins/make.py: no stand-in for {' '.join(nobody)}")
    for soname in sorted(sonames | set(by_name)):
        wanted = names.get(soname, {})
        print(f"{soname}: {len(wanted)} names, {make(soname, wanted, out)} with a body")


main()
