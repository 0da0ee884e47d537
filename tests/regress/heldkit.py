# SPDX-License-Identifier: MIT
"""What is held of sets of programs, beside models of other allocators: for tests/bench/utilisation.py and the gates of whatif.py.

    works_of_traces, works_of_seeds ─► played: Results, one a program and lag ─► rows: means by set; behind: where a peer holds less
"""
import collections
import concurrent.futures
import csv
import math
import shutil

import traceskit
from traceskit import BOUNDS, MIB, PEERS

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
OF_SEEDS = ("programs", "wide", "small", "streams", "ordered")
OURS = ("kedge", "kedge-eager", "kedge-mapped", "kedge-sync")
PLAYED = (*OURS, *PEERS, *BOUNDS)
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
        order = ["--ordered"] if work.ordered else []
        answers = traceskit.whatif(path, "--policy", ",".join(PLAYED), "--passes", 4, "--lag", lag, *order)
        results.append(Result(work, name, {p: a["e"] for p, a in answers.items()},
                              {p: a["passes"][3]["driver_calls"] for p, a in answers.items()},
                              {p: (a["peak_reserved_bytes"] - a["peak_live_512_bytes"]) / streams for p, a in answers.items()}))
    if work.path is None:
        path.unlink()
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


def behind(results, policy, peers=PEERS):
    """[(how far, the best peer, result)], the worst first: peers that hold less than a policy does."""
    found = []
    for r in results:
        peer = max(peers, key=lambda name, r=r: r.e[name])
        if r.e[policy] < r.e[peer] - BEHIND:
            found.append((r.e[peer] - r.e[policy], peer, r))
    return sorted(found, key=lambda row: -row[0])


def reached(results, sets):
    """{(set, half): {policy: (mean, worst, MiB more than what is live for each stream)}} at the lag where it is worst."""
    found = {}
    for name, half, _, _, row in rows(results, sets):
        at = found.setdefault((name, half), {})
        for policy, figures in row.items():
            mean, worst, more = at.get(policy, (1, 1, 0))
            at[policy] = min(mean, figures["mean"]), min(worst, figures["worst"]), max(more, figures["more_mib"])
    return found
