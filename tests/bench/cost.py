#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: freecache.c heap.c trim.c order.c
"""What a decision of the pool costs by what there is: instructions of a pair of free and allocation in the pool alone (cost_pool.c),
for more and more streams, or live blocks. The argument names the table. At most so many times what the first row of the table costs;
unoptimised builds have no limit. Exit 0, 1, or 77 with the reason."""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "regress")]
import callgrind # pylint: disable=wrong-import-position
from regresskit import BUILD, check, failures, skip # pylint: disable=wrong-import-position

PROGRAM = BUILD / "tests" / "bench" / "cost_pool"
# table: how often the first row at most, and the rows: arguments of cost_pool.c
TABLES = {
    # From some hundred streams on, a request finds no block of its own stream: it asks others, which takes calls of the driver.
    "streams": (14, [("stream", "same", 4000, streams, 1000, 0) for streams in (1, 16, 256, 1000, 4000)]),
    "plain": (2, [("sync", "mixed", live, 1, 1000, 0) for live in (100, 1000, 10000, 50000)]),
}


def is_optimised():
    cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    return re.search(r"^CMAKE_BUILD_TYPE:\w+=Debug$", cache, re.M) is None


def main():
    most, rows = TABLES[sys.argv[1]]
    why = callgrind.available()
    if not PROGRAM.exists():
        skip("not built")
    if why:
        skip(why)
    first = None
    print(f"{'arguments':40}{'instructions':>14}{'calls':>10}  a pair")
    for row in rows:
        path = pathlib.Path("callgrind.out").absolute()
        out, own, _ = callgrind.count([PROGRAM, *row], path)
        pairs = row[4]
        each = sum(own.values()) / pairs
        first = first or each
        print(f"{' '.join(map(str, row)):40}{each:14.0f}{int(out.split()[-1]) / pairs:10.2f}")
        check(not is_optimised() or each <= most * first, f"{row}: {each:.0f} instructions, at most {most} x {first:.0f}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
