#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what moving storage costs for what it saves: from a pool that moves nothing to one that moves whenever it would grow.

Played are the five largest recorded traces and the generator's programs with requests of 0.9 to 16 GiB (even and odd seeds apart), four
passes each, where the device keeps up and where it is half a pass behind. A row has the geometric mean and the worst of peak live / peak
reserved; then, for 1,000 requests and frees of the last pass, the driver's calls by kind and the time that they take, in ms. A call takes
what it takes on an A100 for 2 MiB: create 193.3 us, map 1.45, set_access 36.0, unmap 25.6 (published by kvcached, benchmarks/bench_vmm;
none for release, which is taken to be free). How a call for many granules of 2 MiB compares is not published, so the time is a range:
set_access and unmap cost one call each, or one for each granule. Further columns: a device whose calls are ten times cheaper or dearer.

`auto` is the default, remap=auto: as readily as it can, and within half a percent of the time on devices whose moves take 6.3, 63 and 630 us
for 2 MiB. An event then comes after the one before as it was recorded, on average, and after 100 us in the generator's programs. The last
column says how often the pool chose each pace in all four passes: ready, lazy, sparing (alloc/storage/pace.h).

Needs a build (TEST_BUILD, else build/release), and for the traces $KEDGE_TEST_TRACES.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
import heldkit # pylint: disable=wrong-import-position
import traceskit # pylint: disable=wrong-import-position

LARGEST = 5
TRACES = "the largest recorded traces"
PASSES = 4
LAGS = {"no lag": 0, "half a pass": 0.5}
GRANULE = 2 << 20
US = {"creates": 193.32, "maps": 1.45, "accesses": 35.99, "unmaps": 25.63, "releases": 0} # a call, A100
KINDS = {"creates": "create", "maps": "map", "accesses": "set_access", "unmaps": "unmap", "releases": "release"}
BY_BYTES = {"accesses": "accessed_bytes", "unmaps": "unmapped_bytes"}
DEVICES = {"A100": 1, "x 0.1": 0.1, "x 10": 10}
EVENT_US = 100 # in programs that nobody has run
Point = collections.namedtuple("Point", "title policy options")
POINTS = (Point("never", "kedge-never", ()), *(Point(f"lazy, {x}", "kedge", ("--budget", x)) for x in ("1.10x", "1.05x", "1.02x", "1.01x")),
          Point("lazy", "kedge-lazy", ()), *(Point(f"auto, {us} us", "kedge", ("--move-us", us)) for us in (630, 63, 6.3)),
          Point("auto", "kedge", ()), Point("eager", "kedge-eager", ()))
PACES = ("ready", "lazy", "sparing")

# What one program did at one point and lag; events, storage: of the last pass.
Played = collections.namedtuple("Played", "group lag point e events storage paces")
# A row of the table: for 1,000 events, calls by kind, and ms at an A100's costs (least, most); how often each pace was chosen.
Row = collections.namedtuple("Row", "group programs lag point mean worst calls ms paces")


def peak_live(path):
    return traceskit.whatif(path, "--policy", "native")["native"]["peak_live_bytes"]


def groups(seeds, folder):
    """[(group, file)]"""
    if os.environ.get("KEDGE_TEST_TRACES"):
        largest = sorted(traceskit.foreign(200), key=peak_live)[-LARGEST:]
        yield from ((TRACES, path) for path in largest)
    else:
        print("KEDGE_TEST_TRACES is not set: no traces", file=sys.stderr)
    for work in heldkit.works_of_seeds({"wide"}, seeds):
        yield f"requests of 0.9 to 16 GiB, {work.half} seeds", traceskit.program(work.seed, folder)[1]


def play(group, path):
    events = 2 * traceskit.allocations(path) # what is live at the end of a pass is freed there
    timed = [] if group == TRACES else ["--event-us", EVENT_US]
    for lag, passes in LAGS.items():
        for options in dict.fromkeys(point.options for point in POINTS):
            mine = {point.policy: point.title for point in POINTS if point.options == options}
            answers = traceskit.whatif(path, "--policy", ",".join(mine), "--passes", PASSES, "--lag", passes, *options, *timed)
            for policy, title in mine.items():
                told = answers[policy]["passes"]
                paces = [sum(p.get("paces", {}).get(pace, 0) for p in told) for pace in PACES]
                yield Played(group, lag, title, answers[policy]["e"], events, told[-1]["storage"], paces)


def modelled_us(storage, is_by_granule):
    """What the calls take; one for many granules as one call, or as one for each of them."""
    return sum(US[kind] * (storage[BY_BYTES[kind]] / GRANULE if is_by_granule and kind in BY_BYTES else storage[kind]) for kind in US)


def row_of(group, lag, point, mine):
    mean, worst = traceskit.mean_and_worst([math.log(p.e) for p in mine])
    events = sum(p.events for p in mine) / 1000
    return Row(group, len(mine), lag, point, mean, worst, {kind: sum(p.storage[kind] for p in mine) / events for kind in KINDS},
               [sum(modelled_us(p.storage, by_granule) for p in mine) / events / 1000 for by_granule in (False, True)],
               [sum(chosen) for chosen in zip(*(p.paces for p in mine))])


def rows(played):
    for group in dict.fromkeys(p.group for p in played):
        for lag in LAGS:
            for point, _, _ in POINTS:
                yield row_of(group, lag, point, [p for p in played if (p.group, p.lag, p.point) == (group, lag, point)])


def short(value):
    """Three digits, or all of a whole number."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def ms(row, factor):
    return " to ".join(short(value * factor) for value in row.ms)


def chosen(row, before=""):
    return before + ", ".join(map(str, row.paces)) if any(row.paces) else ""


def print_table(table):
    title = None
    for row in table:
        if (row.group, row.lag) != title:
            title = (row.group, row.lag)
            print(f"\n{row.programs}: {row.group}; {row.lag}. For 1,000 events:")
            print(f"  {'':14}{'utilisation':>16}" + "".join(f"{name:>11}" for name in KINDS.values())
                  + "".join(f"{'ms, ' + name:>19}" for name in DEVICES))
        print(f"  {row.point:14}{row.mean:9.4f} {row.worst:.4f}" + "".join(f"{row.calls[kind]:11.1f}" for kind in KINDS)
              + "".join(f"{ms(row, factor):>19}" for factor in DEVICES.values()) + chosen(row, "  "))


def print_markdown(table, lag="half a pass"):
    """Four lines for each group, at this lag: what is held, calls but for create and release, time, and paces."""
    print("| programs | | " + " | ".join(title for title, _, _ in POINTS) + " |")
    print("|---" * (len(POINTS) + 2) + "|")
    shown = {"utilisation": lambda row: f"{row.mean:.3f} / {row.worst:.3f}",
             "map, set_access, unmap": lambda row: ", ".join(short(row.calls[kind]) for kind in ("maps", "accesses", "unmaps")),
             "ms on an A100": lambda row: ms(row, 1),
             "ready, lazy, sparing": chosen}
    for group in dict.fromkeys(row.group for row in table):
        mine = [row for row in table if (row.group, row.lag) == (group, lag)]
        for number, (title, cell) in enumerate(shown.items()):
            first = "" if number else f"{mine[0].programs}: {group}"
            print(f"| {first} | {title} | " + " | ".join(map(cell, mine)) + " |")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60, metavar="N", help="the generator's seeds 0 to N - 1 (default 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="programs at once (default: one a core)")
    parser.add_argument("--markdown", action="store_true", help="for a document, half a pass behind only")
    parser.add_argument("--json", action="store_true", help="the rows, machine-readable")
    return parser.parse_args()


def main():
    told = options()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(told.jobs) as pool:
        results = pool.map(lambda what: list(play(*what)), list(groups(told.seeds, folder)))
        table = list(rows([played for mine in results for played in mine]))
    if told.json:
        print(json.dumps([row._asdict() for row in table], indent=1))
    elif told.markdown:
        print_markdown(table)
    else:
        print_table(table)


if __name__ == "__main__":
    main()
