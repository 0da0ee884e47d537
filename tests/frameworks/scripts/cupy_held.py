# SPDX-License-Identifier: MIT
"""cupy_held.py FILE [MODULE...]: arrays of CuPy kept in places of every kind, then more than the device has. FILE gets {name:
[bytes, what has to be told of its holders]}; each has a size of its own. MODULE: a framework beside CuPy.

No cycle is among the places: CuPy has the collector run before it raises its error."""
import functools
import json
import sys

import cupy

PLANTS = {}


def make(name, text):
    size = (1 << 20) + 65536 * len(PLANTS)
    PLANTS[name] = (size, text)
    return cupy.empty(size, dtype=cupy.uint8)


class Engine:
    __slots__ = ("scratch", "__dict__")

    def __init__(self):
        self.buffer = make("attribute", r"^ENGINE\.buffer$")
        self.scratch = make("slot", r"^ENGINE\.scratch$")
        self.data = make("attribute of a name that arrays have", r"^ENGINE\.data$")


def hook():
    kept = make("closure", r"^HOOKS\[0\]\.closure\['kept'\]$")
    return lambda: kept


TABLE = make("global", r"^TABLE$")
ENGINE = Engine()
HISTORY = [[make("list", r"^HISTORY\[0\]\[0\]$")]]
CACHE = {("mask", 64): make("dict key", r"^CACHE\['mask', 64\]$")}
HOOKS = [hook()]
STEP = functools.partial(print, make("partial", r"^STEP\.args\[0\]$"))
WHOLE = make("view of an array", r"^FIRST$")
FIRST = WHOLE[:16]
del WHOLE
ROWS = make("view of a view", r"^ROWS$").reshape(-1, 64)[1:].T
BOTH = make("array and view", r"^(BOTH AND PART|PART AND BOTH)$")
PART = BOTH[4096:]
POINTER = make("pointer", r"^POINTER$").data
MEMORY = make("memory", r"^MEMORY$").data.mem
OWNED = make("array and pointer", r"^OWNED AND PLACE$")
PLACE = OWNED.data


def step():
    hidden = make("local", r"^local 'hidden' of step cupy_held\.py:\d+$")
    try:
        cupy.empty(1 << 40, dtype=cupy.uint8)
    except cupy.cuda.memory.OutOfMemoryError:
        return hidden.nbytes
    raise SystemExit("there was room for everything")


def main():
    for name in sys.argv[2:]:
        __import__(name)
    step()
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump(PLANTS, out)


main()
