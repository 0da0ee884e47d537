#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a thousand hints by Python call site add to an allocation below 33 Python frames, in instructions.

`stack` is what it costs to take the stacks, native and Python, which were taken before (what it costs to know where a request is made, with them less without).
`hints` is what it costs to ask the hints: which call sites of this Python stack they name, and whether one of them matches. It stays
below `stack`, whatever they name: call sites that are not on the stack, some that are, or all 33 functions, each of them without a
line and with it, by thirty hints that differ in size. Hints by native call site are there to compare with, and must not ask for Python.

Unoptimised builds have no limit for the numbers. Exit 0, 1, or 77 with the reason."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
sys.dont_write_bytecode = True
import callgrind # pylint: disable=wrong-import-position
from hot import is_optimised # pylint: disable=wrong-import-position
from record import DEEP, PYTHON_FRAMES, SCRIPTS # pylint: disable=wrong-import-position
from regresskit import LIBRARY, SIM, check, environment, failures, skip # pylint: disable=wrong-import-position

HINTS = 1000
PAIRS = 1024
NONE_LIMIT = 60 # a stack that no hint names: to look that up, and no probe
BIG = 1 << 30 # a size that nobody asks for
SIZES = (512, 1024, 2048, 5000, 10000, 20000, 40000, 60000) # of record_pair.c
WHERE = ("where_am_i", "where_begin", "where_end")


def line_of(level):
    """Of the call in down_LEVEL of record.py's module."""
    return next(i for i, line in enumerate(SCRIPTS["python"].split("\n"), 1) if line == f"def down_{level}():") + 1


def names(kind, i):
    """The site of the i-th hint."""
    level = i % (PYTHON_FRAMES - 1) + 1
    if kind == "native":
        return f"c:{i + 1:016x}"
    if kind == "all" or (kind == "some" and i < 4):
        return f"p:<string>:down_{level}" + (f":{line_of(level)}" if i // PYTHON_FRAMES % 2 else "")
    return f"p:elsewhere.py:Layer{i}.forward"


def write_hints(kind):
    path = pathlib.Path(f"{kind}.yaml").absolute()
    picks = [(names(kind, i), BIG + i) for i in range(HINTS)]
    # hints that are elsewhere too speak of the sizes of record_pair, so that no request is passed over for its size alone
    picks += [("c:ffffffffffffffff" if kind == "native" else "p:elsewhere.py:last", size) for size in SIZES]
    rows = [f'  - {{id: h{i}, do: release, pick: {{site: ["{site}"], size: {size}}}, when: {{anchor: x, edge: exit}}}}\n'
            for i, (site, size) in enumerate(picks)]
    path.write_text("kedge-hints: 1\nhints:\n" + "".join(rows), encoding="utf-8")
    path.chmod(0o644)
    return path


def cost(kind, stacks="auto"):
    """Instructions of a pair: of where it is made, of what the hints are asked; how often Python's part was asked."""
    path = pathlib.Path("callgrind.out").absolute()
    capture = pathlib.Path("hints.kcap").absolute()
    capture.unlink(missing_ok=True)
    env = environment(LD_LIBRARY_PATH=SIM, LD_PRELOAD=LIBRARY, KEDGE_STACKS=stacks, KEDGE_CAPTURE=capture, KEDGE_SYNC_FREE=0,
                      KEDGE_TRACE="full,uses=off", KEDGE_HINTS=write_hints(kind), KEDGE_HINTS_MODE="shadow")
    command = [os.path.realpath(sys.executable), "-c", SCRIPTS["python"], DEEP, "stream", 1, PAIRS]
    out, _, calls = callgrind.count(command, path, env)
    path.unlink()
    check(f"pairs {PAIRS}" in out, f"{kind}: {out}")
    to = {name: sum(n for (ob, fn, _, callee), n in calls.items() if "libkedge.so" in ob and callee == name and fn not in WHERE)
          for name in (*WHERE, "hint_plan", "pynamed_find")}
    stack = sum(to[name] for name in WHERE)
    check(to["where_begin"] and to["hint_plan"], f"{kind}: the hints were not asked: {to}")
    check((to["pynamed_find"] > 0) == (kind != "native"), f"{kind}: {to['pynamed_find']} instructions for call sites of Python")
    return stack / PAIRS, (to["hint_plan"] + to["pynamed_find"]) / PAIRS


def main():
    why = callgrind.available()
    if not DEEP.exists() or not LIBRARY.exists():
        skip("not built")
    if why:
        skip(why)
    bare, _ = cost("native", "off")
    print(f"{'hints':10}{'stack':>10}{'hints':>10}")
    for kind in ("native", "none", "some", "all"):
        whole, asked = cost(kind)
        print(f"{kind:10}{whole - bare:10.0f}{asked:10.0f}")
        limit = whole - bare if kind != "none" else NONE_LIMIT
        check(not is_optimised() or asked <= limit, f"{kind}: {asked:.0f} instructions, at most {limit:.0f}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
