#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A trainer whose steps are graphs, under hints that name what its graphs use.

The hints say of every tensor of the graphs' size that it is dead once the graph is made. That is wrong for those that the
graphs use, and right for two. A pin keeps the former (R80): equal results, whatever the order of the streams, and the two
are released. Without hints the same trainer is compared in modes.py.
"""
import functools
import os
import pathlib
import sys

from regresskit import BUILD, KEDGE, bare, check, checksum, fail, kedge_run, main, run, same, tool_json

SEEDS = range(1, 1 + int(os.environ.get("REGRESS_SEEDS", "50")))
GRAPHS = str(BUILD / "trainers" / "graphs")
BYTES = 3538944
HINTS = "hints.yaml"
MODES = ("shadow", "trap", "live")


def command(entrance):
    return [GRAPHS, "--launches", "8", "--entrance", entrance]


def write_hints():
    text = "kedge-hints: 1\nhints:\n"
    for anchor in ("CAPTURE", "BY_HAND"):
        text += (f"  - {{id: {anchor.lower()}, do: release, pick: {{size: {BYTES}, inside: \"{anchor}\", nth: all}}, "
                 f"when: {{anchor: \"{anchor}\", edge: exit}}}}\n")
    pathlib.Path(HINTS).write_text(text, encoding="utf-8")
    os.chmod(HINTS, 0o644)


def hint_figures(capture):
    report = tool_json("report", capture)
    return {h["id"]: h for h in report["hints"]}, report


def results_are_equal(entrance):
    """Alone, and under hints in each mode, on each order of late streams."""
    write_hints()
    run(KEDGE, "verify", "--sim", "--hints", HINTS, "--", *command(entrance))
    wanted = checksum(bare(*command(entrance)).stdout)
    runs = 0
    for seed in SEEDS:
        late = {"SIMCUDA_SCHED": "random", "SIMCUDA_SEED": seed, "SIMCUDA_LAG": seed % 3}
        same(f"seed {seed}, alone", checksum(bare(*command(entrance), **late).stdout), wanted)
        for mode in MODES:
            done = kedge_run(*command(entrance), rc=None, KEDGE_HINTS=HINTS, KEDGE_HINTS_MODE=mode, **late)
            runs += 1
            if done.returncode != 0:
                print(done.stdout[-3000:])
                fail(f"{mode}, seed {seed}: exit {done.returncode}")
                sys.exit(1)
            same(f"{mode}, seed {seed}", checksum(done.stdout), wanted)
    print(f"{runs} runs compared")
    check(runs == len(MODES) * len(SEEDS), "too few runs were compared")


def pinned_is_kept_and_the_rest_is_released(entrance):
    write_hints()
    run(KEDGE, "verify", "--sim", "--hints", HINTS, "--", *command(entrance))
    kedge_run(*command(entrance), capture="live.kcap", KEDGE_HINTS=HINTS, KEDGE_HINTS_MODE="live")
    hints, report = hint_figures("live.kcap")
    # state, input and product of each half are in a graph; one tensor of each half is not
    for name in ("capture", "by_hand"):
        same(f"{name}: kept for the graph", hints[name]["skipped_count"], 3)
        same(f"{name}: violations", hints[name]["violations"], 0)
    same("released", (report["hinted_freed_count"], report["hinted_freed_bytes"]), (2, 2 * BYTES))


CASES = {}
for _entrance in ("sync", "stream"):
    CASES[f"r12_r80_results_are_equal_with_hints_on_the_{_entrance}_entrance"] = functools.partial(results_are_equal, _entrance)
    CASES[f"r80_pinned_is_kept_and_the_rest_is_released_on_the_{_entrance}_entrance"] = functools.partial(
        pinned_is_kept_and_the_rest_is_released, _entrance)

if __name__ == "__main__":
    main(**CASES)
