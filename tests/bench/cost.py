#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: freecache.c heap.c trim.c order.c reclaim.c stream_wait.c stream_take.c
"""What a decision of the pool costs by what there is: instructions of a pair of free and allocation in the pool alone (cost_pool.c),
for more and more streams, live blocks, fences that the device is behind, or streams that have come and gone. The argument names the
table. At most so many times what the first row of the table costs; unoptimised builds have no limit. `left` and `left-by-a-million` count
bytes of the host instead, after so many streams, contexts and pools that came and went: always the same number. Exit 0, 1, or 77 with
the reason."""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "regress")]
import callgrind # pylint: disable=wrong-import-position
from regresskit import BUILD, check, failures, skip # pylint: disable=wrong-import-position

NEVER = 10**9
PROGRAM = BUILD / "tests" / "bench" / "cost_pool"
# table: how often the first row at most, and the rows: arguments of cost_pool.c
TABLES = {
    # From some hundred streams on, a request finds no block of its own stream: it asks others, which takes calls of the driver.
    "streams": (11, [("stream", "same", 4000, streams, 1000, 0) for streams in (1, 16, 256, 1000, 4000)]),
    "plain": (2, [("sync", "mixed", live, 1, 1000, 0) for live in (100, 1000, 10000, 50000)]),
    # The more the device is behind, the more streams take each other's memory.
    "turns": (4.3, [("stream", "mixed", 10000, 4, 300, lag) for lag in (0, 8, 200)]),
    # Each of the pairs asks for some fences of destroyed streams. The device never has done anything: what is freed waits.
    "gone": (3, [("gone", "same", 2 * streams + 2000, streams, 300, NEVER) for streams in (1, 100, 1000, 10000)]),
    "forgotten": (1.1, [("gone", "same", before, 100, 300, 0) for before in (1000, 5000, 20000)]),
}
# (what comes and goes, how many fences the device is behind, how many have gone)
LEFT = {"left": (("gone", 0, (10**4, 10**6)), ("gone", 50, (10**4, 10**5)), ("gone-contexts", 50, (10**4, 10**5)),
                 ("gone-pools", 50, (10**4, 2 * 10**4))),
        "left-by-a-million": tuple((what, 50, (10**4, 10**6)) for what in ("gone", "gone-contexts", "gone-pools"))}
SLACK = 1 << 20 # bytes of the host that a table's rows may differ by if it is about as many streams, blocks and fences


def is_optimised():
    cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    return re.search(r"^CMAKE_BUILD_TYPE:\w+=Debug$", cache, re.M) is None


def host_bytes(*told):
    out = subprocess.run([PROGRAM, *map(str, told)], capture_output=True, text=True, timeout=600, check=True).stdout
    return int(re.search(r"host bytes (\d+)", out)[1])


def nothing_is_left(table):
    for what, lag, counts in LEFT[table]:
        left = [host_bytes(what, "mixed", count, 100, 1, lag) for count in counts]
        print(f"{what:14} lag {lag:2}: " + ", ".join(f"{size:,} bytes after {count:,}" for count, size in zip(counts, left)))
        check(len(set(left)) == 1, f"{what}, {lag} fences behind: {left} bytes of the host after {counts}")
    return 1 if failures else 0


def main():
    if not PROGRAM.exists():
        skip("not built")
    if sys.argv[1] in LEFT:
        return nothing_is_left(sys.argv[1])
    most, rows = TABLES[sys.argv[1]]
    why = callgrind.available()
    if why:
        skip(why)
    first = hosts = None
    print(f"{'arguments':40}{'instructions':>14}{'calls':>10}  a pair")
    for row in rows:
        path = pathlib.Path("callgrind.out").absolute()
        out, own, _ = callgrind.count([PROGRAM, *row], path)
        pairs = row[4]
        each = sum(own.values()) / pairs
        first = first or each
        host = int(re.search(r"host bytes (\d+)", out)[1])
        hosts = hosts or host
        check(sys.argv[1] != "forgotten" or host <= hosts + SLACK, f"{row}: {host} bytes of the host, before {hosts}")
        print(f"{' '.join(map(str, row)):40}{each:14.0f}{int(out.split()[-1]) / pairs:10.2f}")
        check(not is_optimised() or each <= most * first, f"{row}: {each:.0f} instructions, at most {most} x {first:.0f}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
