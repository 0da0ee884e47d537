#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: freecache.c heap.c reclaim.c
"""How the cost of a decision grows: instructions of a pair of free and allocation in the pool alone (cost_pool.c), by live blocks, streams,
memory pools, how far the device is behind, and threads. A row ends with the dearest column as a multiple of the first; beyond three it
is marked.

Both APIs; blocks of one size (4 KiB) or of 512 bytes to 4 MiB. `own`: a pair stays on the stream of its block. `stream`: it frees on one
stream and allocates on the next, so that from some hundred streams on it finds no block of its own. The lag is in fences. Threads run
one at a time under valgrind: what they pay for waiting and for cache lines of each other is not in these figures.

--gate: the test; few columns, and the dearest one costs at most what is reached today. Exit 0, 1, or 77 with the reason.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "regress")]
import callgrind # pylint: disable=wrong-import-position
from hot import is_optimised # pylint: disable=wrong-import-position
from regresskit import BUILD, check, failures, skip # pylint: disable=wrong-import-position

PROGRAM = BUILD / "tests" / "bench" / "cost_pool"
PAIRS = 1000
FAR = 3 # times the first column
# Of cost_pool.c; of a row all but one are the same.
Point = collections.namedtuple("Point", "api sizes live streams lag pools threads", defaults=(1, 0, 1, 1))
# table: what is counted, its columns, those of the gate, and the rows
Table = collections.namedtuple("Table", "title field columns gate rows")
SIZES = ("same", "mixed")
TABLES = {
    "live": Table("live blocks", "live", (100, 1000, 10000, 100000, 1000000), (100, 10000),
                  [Point(api, sizes, 0) for api in ("stream", "sync") for sizes in SIZES]),
    "streams": Table("streams, 4,000 live blocks", "streams", (1, 16, 64, 256, 1000, 4000), (1, 256),
                     [Point(api, sizes, 4000) for api in ("own", "stream") for sizes in SIZES]),
    "pools": Table("memory pools (sync: contexts), 4,000 live blocks", "pools", (1, 10, 100, 1000), (1, 100),
                   [Point(api, sizes, 4000) for api in ("stream", "sync") for sizes in SIZES]),
    "lag": Table("lag, 10,000 live blocks, stream API: four streams", "lag", (0, 8, 50, 200), (0, 200),
                 [*(Point(api, sizes, 10000, 4) for api in ("own", "stream") for sizes in SIZES),
                  *(Point("sync", sizes, 10000) for sizes in SIZES)]),
    "threads": Table("threads, 4,000 live blocks, eight streams or one", "threads", (1, 2, 4, 8), (),
                     [*(Point("own", sizes, 4000, streams) for streams in (8, 1) for sizes in SIZES),
                      *(Point("sync", sizes, 4000) for sizes in SIZES)]),
}
# Instructions of the dearest column of the gate today, gcc 12; a tenth more is allowed. (A limit for the growth would fail where only the
# first column becomes cheaper.)
REACHED = {
    "live": {"stream, same": 400, "stream, mixed": 2893, "sync, same": 365, "sync, mixed": 3958},
    "streams": {"own, same": 534, "own, mixed": 3528, "stream, same": 2931, "stream, mixed": 3989},
    "pools": {"stream, same": 525, "stream, mixed": 3602, "sync, same": 443, "sync, mixed": 6572},
    "lag": {"own, same, 4 streams": 492, "own, mixed, 4 streams": 10673, "stream, same, 4 streams": 542,
            "stream, mixed, 4 streams": 10553, "sync, same": 380, "sync, mixed": 3994},
}


def name_of(table, row):
    streams = f", {row.streams} streams" if table.field != "streams" and row.streams > 1 else ""
    return f"{row.api}, {row.sizes}{streams}"


def instructions(point):
    """Of a pair."""
    with tempfile.TemporaryDirectory() as folder:
        told = [PROGRAM, point.api, point.sizes, point.live, point.streams, PAIRS, point.lag, point.pools, point.threads]
        _, own, _ = callgrind.count(told, pathlib.Path(folder) / "out", timeout=3000)
    return sum(own.values()) / PAIRS / point.threads


def counted(table, columns, jobs):
    """[(row, instructions of each column)]"""
    points = [row._replace(**{table.field: column}) for row in table.rows for column in columns]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        figures = iter(list(pool.map(instructions, points)))
    return [(row, [next(figures) for _ in columns]) for row in table.rows]


def growth(figures):
    return max(figures) / figures[0]


def print_rows(table, columns, rows):
    print(f"\n{table.title}\n{'':28}" + "".join(f"{column:>12,}" for column in columns) + f"{'most / first':>15}")
    for row, figures in rows:
        far = " !" if growth(figures) > FAR else ""
        print(f"{name_of(table, row):28}" + "".join(f"{figure:12,.0f}" for figure in figures) + f"{growth(figures):15.2f}{far}", flush=True)


def check_rows(key, table, rows):
    for row, figures in rows:
        most = 1.1 * REACHED[key][name_of(table, row)]
        check(not is_optimised() or max(figures) <= most, f"{key}, {name_of(table, row)}: {max(figures):,.0f} instructions, at most {most:,.0f}")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=TABLES, metavar="TABLE", help=f"one of {', '.join(TABLES)}")
    parser.add_argument("--most", type=int, default=10**6, metavar="N", help="leave out columns above this (a million blocks take minutes)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="programs at once (default: one a core)")
    parser.add_argument("--gate", action="store_true", help="the test")
    return parser.parse_args()


def main():
    told = options()
    if not PROGRAM.exists():
        skip("not built")
    why = callgrind.available()
    if why:
        skip(why)
    for key in told.only or TABLES:
        table = TABLES[key]
        columns = table.gate if told.gate else [column for column in table.columns if column <= told.most]
        if not columns:
            continue
        rows = counted(table, columns, told.jobs)
        print_rows(table, columns, rows)
        if told.gate:
            check_rows(key, table, rows)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
