#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what the pool holds beside models of other allocators, of recorded traces and of the generator's programs, at each lag.

A cell is the geometric mean and the worst of peak live / peak reserved over four passes, and the driver calls of the fourth passes
together. Below stand the programs of which kedge holds more than a peer does. Programs of odd seeds are held out from tuning:
they are counted, and named only with --held-out. A small program (less than 64 MiB live) cannot reach the figures of others: for the
set `small` the last line says how many MiB more than what is live are held at most, for each stream.

Needs a build (TEST_BUILD, else build/release); the sets of traces need $KEDGE_TEST_TRACES.
"""
import argparse
import collections
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
import traceskit # pylint: disable=wrong-import-position
from traceskit import MIB, PEERS # pylint: disable=wrong-import-position

SETS = {"traces": "recorded traces",
        "variants": "their variants",
        "split": "the traces on several streams, order unknown",
        "split-ordered": "the traces on several streams, ordered by events",
        "programs": "generator, one stream",
        "wide": "of these, requests of 0.9 to 16 GiB",
        "small": "generator, less than 64 MiB live",
        "streams": "generator, two to eight streams, order unknown",
        "ordered": "generator, two to eight streams, ordered by events"}
OF_TRACES = ("traces", "variants", "split", "split-ordered")
OURS = ("kedge", "kedge-eager", "kedge-mapped", "kedge-sync")
SHOWN = (*OURS, "torch", "torch-expandable")
PLAYED = (*OURS, *PEERS)
LAGS = ("no lag", "50 events", "half a pass", "a pass")
BEHIND = 0.005

# What is played: a file with a name, in these sets; half: "even", "odd" or "" for a trace.
Work = collections.namedtuple("Work", "name half sets ordered path seed")
# What came of it at one lag: utilisation and calls of the fourth pass by policy; bytes held beside what is live, for each stream.
Result = collections.namedtuple("Result", "work lag e calls more")


def kept(path, name, folder):
    """A file that stays until all is played."""
    copy = folder / f"{name}.csv".replace(" ", "-")
    shutil.copyfile(path, copy)
    return copy


def works_of_traces(sets, folder):
    for path in traceskit.foreign(200):
        if "traces" in sets:
            yield Work(path.stem, "", ("traces",), False, path, None)
        if "variants" in sets:
            for number, name, played in traceskit.with_itself(path):
                if number:
                    yield Work(f"{path.stem}, {name}", "", ("variants",), False, kept(played, f"{path.stem}-{number}", folder), None)
        if {"split", "split-ordered"} & sets:
            for name, played in traceskit.on_streams(path):
                copy = kept(played, f"{path.stem}-{name}", folder)
                for ordered, where in ((False, "split"), (True, "split-ordered")):
                    if where in sets:
                        yield Work(f"{path.stem}, {name}", "", (where,), ordered, copy, None)


def works_of_seeds(sets, seeds):
    for seed in range(seeds):
        family, several = traceskit.programs.kind(seed)
        if family == "small":
            mine = ("small",)
        elif several:
            mine = ("streams", "ordered")
        else:
            mine = ("programs", "wide") if family == "wide" else ("programs",)
        for ordered in (False, True):
            at = tuple(name for name in mine if name in sets and (name == "ordered") == ordered)
            if at:
                yield Work(f"seed {seed}", ("even", "odd")[seed % 2], at, ordered, None, seed)


def streams_in(path):
    with open(path, newline="", encoding="utf-8") as f:
        return len({row["stream"] for row in csv.DictReader(f)})


def play(work, folder):
    """Four passes at each lag."""
    path = work.path
    if path is None:
        path = folder / f"seed-{work.seed}-{int(work.ordered)}.csv"
        path.write_text(traceskit.programs.make(work.seed).csv(), encoding="utf-8")
    results, streams = [], streams_in(path)
    for name, lag in traceskit.lags(path).items():
        answers = traceskit.whatif(path, "--policy", ",".join(PLAYED), "--passes", 4, "--lag", lag, *(["--ordered"] if work.ordered else []))
        results.append(Result(work, name, {p: a["e"] for p, a in answers.items()},
                              {p: a["passes"][3]["driver_calls"] for p, a in answers.items()},
                              {p: (a["peak_reserved_bytes"] - a["peak_live_512_bytes"]) / streams for p, a in answers.items()}))
    return results


def played(works, folder, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return [result for results in pool.map(lambda work: play(work, folder), works) for result in results]


def summed(results):
    """What a row of the table says of each policy."""
    row = {}
    for policy in PLAYED:
        mean, worst = traceskit.mean_and_worst([math.log(r.e[policy]) for r in results])
        row[policy] = {"mean": round(mean, 4), "worst": round(worst, 4), "driver_calls": sum(r.calls[policy] for r in results),
                       "more_mib": round(max(r.more[policy] for r in results) / MIB, 2)}
    return row


def rows(results, sets):
    """[(set, half, programs, lag, row)]"""
    for name in SETS:
        for half in ("", "even", "odd"):
            for lag in LAGS:
                mine = [r for r in results if name in r.work.sets and r.work.half == half and r.lag == lag]
                if mine and name in sets:
                    yield name, half, len(mine), lag, summed(mine)


def behind(results, policy):
    """[(how far, the best peer, result)], the worst first: peers that hold less than a policy does."""
    found = []
    for r in results:
        peer = max(PEERS, key=lambda name, r=r: r.e[name])
        if r.e[policy] < r.e[peer] - BEHIND:
            found.append((r.e[peer] - r.e[policy], peer, r))
    return sorted(found, key=lambda row: -row[0])


def print_table(table):
    title = None
    for name, half, count, lag, row in table:
        if (name, half) != title:
            title = (name, half)
            print(f"\n{SETS[name]}{', ' + half + ' seeds' if half else ''}: {count}")
            print(f"  {'':12}" + "".join(f"{policy:>22}" for policy in SHOWN))
        print(f"  {lag:12}" + "".join(f"{row[p]['mean']:8.4f} {row[p]['worst']:.4f} {row[p]['driver_calls']:6}" for p in SHOWN))
        if name == "small":
            print(f"  {'  MiB more':12}" + "".join(f"{row[p]['more_mib']:22.2f}" for p in SHOWN))


def print_markdown(table):
    print("| set | lag | " + " | ".join(f"`{policy}`" for policy in SHOWN) + " | calls: lazy, eager |")
    print("|---" * (len(SHOWN) + 3) + "|")
    for name, half, count, lag, row in table:
        cells = [f"{row[p]['mean']:.3f} / {row[p]['worst']:.3f}" for p in SHOWN]
        print(f"| {SETS[name]}{', ' + half if half else ''} ({count}) | {lag} | " + " | ".join(cells)
              + f" | {row['kedge']['driver_calls']}, {row['kedge-eager']['driver_calls']} |")


def print_behind(results, policy, held_out):
    found = behind(results, policy)
    print(f"\nmore than {BEHIND} below a peer, of {len(results)} runs: " + ", ".join(
        f"{name} {len(behind(results, name))}" for name in OURS))
    for half in ("", "even", "odd"):
        count = sum(r.work.half == half for r in results)
        if count:
            print(f"  {policy}, {half + ' seeds' if half else 'traces'}: {sum(r.work.half == half for _, _, r in found)} of {count}")
    for far, peer, r in found:
        if r.work.half != "odd" or held_out:
            order = "ordered, " if r.work.ordered else ""
            print(f"  {far:.4f}  {policy} {r.e[policy]:.4f}, {peer} {r.e[peer]:.4f}; {order}{r.lag:11} {', '.join(r.work.sets)}: {r.work.name}")


def print_worst(results, policy, count, held_out):
    print(f"\nlowest utilisation of {policy}")
    seen = [r for r in results if r.work.half != "odd" or held_out]
    for r in sorted(seen, key=lambda r: r.e[policy])[:count]:
        print(f"  {r.e[policy]:.4f}  {'ordered, ' if r.work.ordered else ''}{r.lag:11} {', '.join(r.work.sets)}: {r.work.name}")


def as_json(table, results):
    return {"sets": [{"set": name, "half": half, "programs": count, "lag": lag, "policies": row} for name, half, count, lag, row in table],
            "behind": [{"policy": policy, "name": r.work.name, "half": r.work.half, "ordered": r.work.ordered, "lag": r.lag, "e": r.e[policy],
                        "peer": peer, "peer_e": r.e[peer]} for policy in OURS for _, peer, r in behind(results, policy)],
            "runs": [{"name": r.work.name, "half": r.work.half, "sets": r.work.sets, "ordered": r.work.ordered, "lag": r.lag, "e": r.e,
                      "driver_calls": r.calls} for r in results]}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="sets:\n" + "\n".join(f"  {name:14} {title}" for name, title in SETS.items()))
    parser.add_argument("--seeds", type=int, default=60, metavar="N", help="the generator's seeds 0 to N - 1 (default 60)")
    parser.add_argument("--only", action="append", choices=SETS, metavar="SET", help="this set; several times: these sets")
    parser.add_argument("--of", choices=OURS, default="kedge", metavar="POLICY", help="whose programs are listed below (default kedge)")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="list the N lowest, too")
    parser.add_argument("--held-out", action="store_true", help="list programs of odd seeds, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="programs at once (default: one a core)")
    parser.add_argument("--markdown", action="store_true", help="the table alone, for a document")
    parser.add_argument("--json", action="store_true", help="everything, of each program")
    return parser.parse_args()


def main():
    told = options()
    sets = set(told.only or SETS)
    if not told.only and not os.environ.get("KEDGE_TEST_TRACES"):
        sets -= set(OF_TRACES)
        print("KEDGE_TEST_TRACES is not set: no traces", file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        works = list(works_of_traces(sets, folder)) if sets & set(OF_TRACES) else []
        results = played([*works, *works_of_seeds(sets, told.seeds)], folder, told.jobs)
    table = list(rows(results, sets))
    if told.json:
        print(json.dumps(as_json(table, results), indent=1))
    elif told.markdown:
        print_markdown(table)
    else:
        print_table(table)
        print_behind(results, told.of, told.held_out)
        if told.worst:
            print_worst(results, told.of, told.worst, told.held_out)


if __name__ == "__main__":
    main()
