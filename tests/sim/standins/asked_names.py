#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The names that programs ask of NVIDIA's libraries, for the stand-ins.

    asked_names.py --add FOLDER... [-SONAME...]     puts what the shared objects below each FOLDER ask for into names/SONAME.def
    asked_names.py FOLDER... [-SONAME...]           prints what is missing there; exit status 1 if anything is

-SONAME: what asks for it is not used, and fails to load.

Reads which sonames an object needs and which names it misses, under which version node (readelf, nm). Names are facts:
nothing of a library is copied. A soname without a source is told.
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Names without a version node belong to the library by their beginning.
PREFIXES = {"cusparseLt": "libcusparseLt", "cuFile": "libcufile", "nvshmem": "libnvshmem_host", "curand": "libcurand"}
SIMULATED = re.compile(r"lib(cuda|cudart|nccl)\.so\.")
FOREIGN = re.compile(r"lib(cu|nv|nccl)\w*\.so\.")
# Paddle opens libraries without a version, and exports a variable phi::dynload::NAME for each function that it looks up there.
# A function that is missing is called at address 0. The sonames: those of the links in CMakeLists.txt.
OPENED = {"cublasLt": "libcublasLt.so.11", "cublas": "libcublas.so.11", "cudnn": "libcudnn.so.8", "cufft": "libcufft.so.10",
          "curand": "libcurand.so.10", "cusolver": "libcusolver.so.11", "cusparse": "libcusparse.so.11"}
LOOKED_UP = re.compile(rf" _ZN3phi7dynload\d+(({'|'.join(OPENED)})[A-Z]\w*)E$", re.M)


def output(*command):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def opened_by(path):
    """As asked_of, of the libraries that an object of Paddle's opens."""
    found = {}
    for name, prefix in LOOKED_UP.findall(output("nm", "-D", "--defined-only", path)):
        found.setdefault(OPENED[prefix], ["", set()])[1].add(name)
    return found


def asked_of(path):
    """{soname: (version node or "", {names})} of one shared object."""
    needed = [n for n in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", path)) if FOREIGN.match(n) and not SIMULATED.match(n)]
    if not needed:
        return opened_by(path)
    nodes, of, asked = {}, "", {soname: ["", set()] for soname in needed}
    for file, node in re.findall(r"File: (\S+)|Name: (\S+)", output("readelf", "-VW", path)):
        of = file or of
        if node:
            nodes[node] = of
    for line in output("nm", "-D", "--undefined-only", path).splitlines():
        name, _, node = line.split()[-1].partition("@")
        soname = nodes.get(node) if node else next(
            (n for p, stem in PREFIXES.items() if name.startswith(p) for n in needed if n.startswith(stem + ".so")), None)
        if soname in asked:
            asked[soname][0] = node or asked[soname][0]
            asked[soname][1].add(name)
    return asked


def asked_below(folder):
    """As asked_of, of all shared objects below `folder` but NVIDIA's own."""
    found = {}
    for path in sorted(folder.rglob("*.so*")):
        if not path.is_file() or path.is_symlink() or FOREIGN.match(path.name) or path.name.startswith("libcu"):
            continue
        with open(path, "rb") as f:
            if f.read(4) != b"\x7fELF":
                continue
        for soname, (node, names) in asked_of(path).items():
            known = found.setdefault(soname, ["", set()])
            known[0] = node or known[0]
            known[1] |= names
    return found


def listed(soname):
    """(version node or "", {names}) of names/SONAME.def; None: there is none."""
    path = HERE / "names" / f"{soname}.def"
    if not path.exists():
        return None
    text = path.read_text(encoding="utf-8")
    return next(iter(re.findall(r"^/\* version node (\S+) \*/", text, re.M)), ""), set(re.findall(r"^N\((\w+)\)", text, re.M))


def write(soname, node, names):
    head = f"/* SPDX-License-Identifier: MIT */\n/* What programs ask of {soname}: made by asked_names.py --add. */\n"
    (HERE / "names" / f"{soname}.def").write_text(
        head + (f"/* version node {node} */\n" if node else "") + "".join(f"N({n})\n" for n in sorted(names)), encoding="utf-8")


def source_of(soname):
    return HERE / f"{soname.partition('.so')[0].lower().replace('-', '_')}.c"


def main():
    adds = "--add" in sys.argv
    left_out = {a[1:] for a in sys.argv[1:] if a.startswith("-")}
    missing = 0
    for folder in (a for a in sys.argv[1:] if not a.startswith("-")):
        for soname, (node, names) in sorted(asked_below(pathlib.Path(folder)).items()):
            known = listed(soname)
            if soname in left_out:
                continue
            if not source_of(soname).exists():
                sys.exit(f"asked_names.py: {folder}: no stand-in for {soname}")
            node_here, has = known or ("", set())
            if node and node_here and node != node_here:
                sys.exit(f"asked_names.py: {soname}: version node {node} here, {node_here} in the list")
            if adds:
                write(soname, node or node_here, names | has)
            elif known is None or names - has:
                missing += 1
                print(f"{folder}: {soname}: {' '.join(sorted(names - has)) or 'no list'}")
    return missing > 0


if __name__ == "__main__":
    sys.exit(main())
