#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what the pool holds beside models of other allocators, of recorded traces and of the generator's programs, at each lag.

A cell is the geometric mean and the worst of peak live / peak reserved over four passes, and the driver calls of the fourth passes
together. Then come the other models, each at the lag where it is worst (`stalloc` is a plan that knows all lifetimes: a bound, no
peer). Below stand the programs of which kedge holds more than a peer does. Programs of odd seeds are held out from tuning:
they are counted, and named only with --held-out. A small program (less than 64 MiB live) cannot reach the figures of others: for the
set `small` the last line says how many MiB more than what is live are held at most, for each stream.

Needs a build (TEST_BUILD, else build/release); the sets of traces need $KEDGE_TEST_TRACES.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
import heldkit # pylint: disable=wrong-import-position
from heldkit import BEHIND, OURS, PLAYED, SETS # pylint: disable=wrong-import-position

SHOWN = (*OURS, "torch", "torch-expandable")
OTHERS = tuple(policy for policy in PLAYED if policy not in SHOWN)


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


def print_others(worst):
    """At the lag where each is worst."""
    width = max(len(name) for name, _ in worst) + 6
    print("\n" + " " * width + "".join(f"{policy:>16}" for policy in OTHERS))
    for (name, half), at_worst in worst.items():
        print(f"{name + (', ' + half if half else ''):{width}}" + "".join(f"{at_worst[p][0]:9.4f} {at_worst[p][1]:.4f}" for p in OTHERS))


def print_markdown(table, worst):
    """A line for each set: kedge as it is by default at each lag, all others at the lag where they are worst."""
    print("| programs | lazy: " + " | ".join(heldkit.LAGS) + " | " + " | ".join(SHOWN[1:]) + " | calls at half: lazy, eager |")
    print("|---" * (len(heldkit.LAGS) + len(SHOWN) + 1) + "|")
    for (name, half), at_worst in worst.items():
        mine = [(count, lag, row) for of, side, count, lag, row in table if (of, side) == (name, half)]
        lazy = [row["kedge"] for _, _, row in mine]
        calls = next(row for _, lag, row in mine if lag == "half a pass")
        cells = [f"{row['mean']:.3f} / {row['worst']:.3f}" for row in lazy] + ["{:.3f} / {:.3f}".format(*at_worst[p]) for p in SHOWN[1:]]
        print(f"| {mine[0][0]}: {SETS[name]}{', ' + half if half else ''} | " + " | ".join(cells)
              + f" | {calls['kedge']['driver_calls']}, {calls['kedge-eager']['driver_calls']} |")


def print_behind(results, policy, held_out):
    found = heldkit.behind(results, policy)
    print(f"\nmore than {BEHIND} below a peer, of {len(results)} runs: " + ", ".join(
        f"{name} {len(heldkit.behind(results, name))}" for name in OURS))
    for half in ("", "even", "odd"):
        count = sum(r.work.half == half for r in results)
        if count:
            print(f"  {policy}, {half + ' seeds' if half else 'traces'}: {sum(r.work.half == half for _, _, r in found)} of {count}")
    for far, peer, r in found:
        if r.work.half != "odd" or held_out:
            order = "ordered, " if r.work.ordered else ""
            print(f"  {far:.4f}  {policy} {r.e[policy]:.4f}, {peer} {r.e[peer]:.4f}; {order}{r.lag:11} "
                  f"{', '.join(r.work.sets)}: {r.work.name}")


def print_worst(results, policy, count, held_out):
    print(f"\nlowest utilisation of {policy}")
    seen = [r for r in results if r.work.half != "odd" or held_out]
    for r in sorted(seen, key=lambda r: r.e[policy])[:count]:
        print(f"  {r.e[policy]:.4f}  {'ordered, ' if r.work.ordered else ''}{r.lag:11} {', '.join(r.work.sets)}: {r.work.name}")


def as_json(table, results, held_out):
    results = [r for r in results if r.work.half != "odd" or held_out]
    return {"sets": [{"set": name, "half": half, "programs": count, "lag": lag, "policies": row} for name, half, count, lag, row in table],
            "behind": [{"policy": policy, "name": r.work.name, "half": r.work.half, "ordered": r.work.ordered, "lag": r.lag,
                        "e": r.e[policy], "peer": peer, "peer_e": r.e[peer]} for policy in OURS for _, peer, r in heldkit.behind(results, policy)],
            "runs": [{"name": r.work.name, "half": r.work.half, "sets": r.work.sets, "ordered": r.work.ordered, "lag": r.lag, "e": r.e,
                      "driver_calls": r.calls} for r in results]}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="sets:\n" + "\n".join(f"  {name:14} {title}" for name, title in SETS.items()))
    parser.add_argument("--seeds", type=int, default=60, metavar="N", help="the generator's seeds 0 to N - 1 (default 60)")
    parser.add_argument("--only", action="append", choices=SETS, metavar="SET", help="this set; several times: these sets")
    parser.add_argument("--of", choices=OURS, default="kedge", metavar="POLICY", help="whose programs are listed below (default kedge)")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="list the N lowest, too")
    parser.add_argument("--held-out", action="store_true", help="name programs of odd seeds, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="programs at once (default: one a core)")
    parser.add_argument("--markdown", action="store_true", help="the table alone, for a document")
    parser.add_argument("--json", action="store_true", help="the table, and the figures of each program")
    return parser.parse_args()


def main():
    told = options()
    sets = set(told.only or SETS)
    if not told.only and not os.environ.get("KEDGE_TEST_TRACES"):
        sets -= set(heldkit.OF_TRACES)
        print("KEDGE_TEST_TRACES is not set: no traces", file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        works = list(heldkit.works_of_traces(sets, folder)) if sets & set(heldkit.OF_TRACES) else []
        results = heldkit.played([*works, *heldkit.works_of_seeds(sets, told.seeds)], folder, told.jobs)
    table = list(heldkit.rows(results, sets))
    if told.json:
        print(json.dumps(as_json(table, results, told.held_out), indent=1))
    elif told.markdown:
        print_markdown(table, heldkit.reached(results, sets))
    else:
        print_table(table)
        print_others(heldkit.reached(results, sets))
        print_behind(results, told.of, told.held_out)
        if told.worst:
            print_worst(results, told.of, told.worst, told.held_out)


if __name__ == "__main__":
    main()
