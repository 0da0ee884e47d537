#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds the CUDA runtime that libraries carry inside, for relink.c.

    relink.py ENVIRONMENT OUT

Writes OUT: for each shared object below ENVIRONMENT that is linked with the static CUDA runtime a line "= PATH", then
a line "ADDRESS NAME" for each function of the runtime. They come from the object's own symbol table. Where that was
stripped, another object's helps: an archive's text is linked as it is, so two objects with the same release of the
runtime have it byte for byte, addresses within instructions apart, at the same distances. An object counts as found
only if all functions of the other one are there, and each begins with the same bytes. Nothing is disassembled.
Needs nm and readelf.
"""
import collections
import mmap
import os
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"^([0-9a-f]+) [tT] ((?:__)?cuda[A-Z]\w*)$", re.M)
SECTION = re.compile(r"\] (\S+)\s+PROGBITS\s+([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)")
# Bytes that are compared at the head of a function, and how many of them may be parts of addresses.
HEAD, ADDRESSES = 48, 12
# What is searched for: pieces of so many bytes, one each STEP bytes of the first REACH bytes of some functions.
PIECE, STEP, REACH = 12, 8, 200
SEARCHED = ("cudaMalloc", "cudaFree", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaEventRecord")
HITS_MOST = 50


def output(*command):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, errors="replace").stdout


class Object:
    """A shared object that carries the static runtime. functions: {name: address}, empty where it was stripped."""

    def __init__(self, path):
        self.path = path
        file = os.open(path, os.O_RDONLY)
        self.bytes = mmap.mmap(file, 0, prot=mmap.PROT_READ)
        os.close(file)
        self.functions = {}
        self.text = None

    def read(self):
        try:
            self.functions = {name: int(address, 16) for address, name in ENTRY.findall(output("nm", self.path))}
        except subprocess.CalledProcessError:
            pass
        for name, address, offset, size in SECTION.findall(output("readelf", "-SW", self.path)):
            if name == ".text":
                self.text = (int(address, 16), int(offset, 16), int(size, 16))

    def head(self, address, size=HEAD):
        start = address - self.text[0] + self.text[1]
        return self.bytes[max(start, 0):max(start + size, 0)]


def carries_runtime(path):
    if path.is_symlink() or not path.is_file() or path.name.startswith(("libcuda.", "libcudart.")):
        return None
    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
    found = Object(path)
    return found if found.bytes.find(b"cuGetExportTable\0") >= 0 else None


def distance(stripped, named):
    """From the addresses of `named` to those of `stripped`, or None if it has another release of the runtime."""
    votes = collections.Counter()
    address, offset, size = stripped.text
    for name in SEARCHED:
        code = named.head(named.functions.get(name, 0), REACH)
        for at in range(0, len(code) - PIECE + 1, STEP):
            places, place = [], offset - 1
            while len(places) < HITS_MOST:
                place = stripped.bytes.find(code[at:at + PIECE], place + 1, offset + size)
                if place < 0:
                    votes.update(p - offset + address - at - named.functions[name] for p in places)
                    break
                places.append(place)
    if not votes:
        return None
    shift = votes.most_common(1)[0][0]
    for start in named.functions.values():
        pairs = zip(named.head(start), stripped.head(start + shift))
        if sum(a == b for a, b in pairs) < HEAD - ADDRESSES:
            return None
    return shift


def main():
    root, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    objects = [o for o in map(carries_runtime, sorted(root.rglob("*.so*"))) if o]
    for o in objects:
        o.read()
    named = {}
    for o in objects:
        if "cudaMalloc" in o.functions:
            named.setdefault(tuple(sorted((n, a - o.functions["cudaMalloc"]) for n, a in o.functions.items())), o)
    lines = []
    for o in objects:
        functions = o.functions
        if not functions:
            for other in named.values():
                shift = distance(o, other)
                if shift is not None:
                    functions = {name: address + shift for name, address in other.functions.items()}
                    break
        print(f"{o.path.relative_to(root)}: {len(functions)} functions of the runtime"
              + ("" if functions is o.functions else f", as in {other.path.name}"))
        if functions:
            lines.append(f"= {o.path}")
            lines += [f"{address:x} {name}" for name, address in sorted(functions.items())]
    out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


main()
