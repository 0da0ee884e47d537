#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same programs without kedge and under it: they must see the same codes (R32).

    codes.py WHAT MODE [SCALE]     WHAT: a row of RUNS; MODE: a row of MODES; SCALE: programs, default as in RUNS

Runs `codes` twice and compares (compare.py). Prints what was exercised and which rules were made use of; a run in which
hardly anything is called, refused or made to fail is a failure too.
"""
import os
import pathlib
import subprocess
import sys

import compare

BUILD = pathlib.Path(os.environ["TEST_BUILD"])
CODES = BUILD / "tests" / "codes" / "codes"
SIM = BUILD / "sim"
SHOWN = 3        # differences that are printed in full
STOPS = 0.01     # of the programs may end early because a heap holds a page more than the driver would (R74)

# name: (arguments of codes, programs, codes that are injected inside, calls that are made, names of calls)
RUNS = {
    "plain": (["plain"], 240, None, 10000, 80),
    "capture": (["capture"], 240, None, 10000, 70),
    "tight": (["tight"], 240, None, 10000, 40),
    "sticky": (["sticky"], 200, None, 8000, 60),
    "runtime": (["plain", "--front", "runtime"], 240, None, 10000, 20),
    "runtime_tight": (["tight", "--front", "runtime"], 200, None, 8000, 18),
    "own": (["plain", "--own"], 4, None, 10000, 40),
    "own_capture": (["capture", "--own"], 4, None, 10000, 35),
    "own_tight": (["tight", "--own"], 4, None, 10000, 25),
    "inside": (["plain"], 4, [999, 2], 10000, 30),
    "inside_capture": (["capture"], 4, [900, 2], 10000, 30),
    "inside_tight": (["tight"], 2, [999, 2], 10000, 20),
}

# `moved`: the pool as it is under pressure all the time. Growth is always above the budget, so free blocks are waited for,
# idle memory is given back, and storage of free blocks of a mapped heap moves whenever a request finds no room. `mapped`: the
# same for the cudaMalloc API.
MODES = {
    "pool": {"KEDGE_MODE": "pool"},
    "moved": {"KEDGE_MODE": "pool", "KEDGE_POOL": "remap=eager,budget=2M"},
    "mapped": {"KEDGE_MODE": "pool", "KEDGE_POOL": "sync=mapped,remap=eager,budget=2M"},
    "track": {"KEDGE_MODE": "track"},
    "off": {"KEDGE_MODE": "off"},
}


def environment(mode):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KEDGE_", "SIMCUDA_", "LD_PRELOAD"))}
    env["LD_LIBRARY_PATH"] = str(SIM)
    if mode:
        env.update(MODES[mode], LD_PRELOAD=str(BUILD / "libkedge.so"), KEDGE_TRACE="off", KEDGE_LOG="error")
    return env


def run(arguments, first, last, mode=None, reference=None):
    command = [str(CODES), *arguments, str(first), str(last)] + ([str(reference)] if reference else [])
    done = subprocess.run(command, env=environment(mode), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          errors="replace", check=False)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}: exit {done.returncode}")
    return done.stdout


def report(comparison, wanted_calls, wanted_names):
    programs = comparison.programs
    print(f"{programs} programs, {comparison.calls} calls of {len(comparison.names)} entries, "
          f"{sum(comparison.refusals.values())} of them refused with {len(comparison.refusals)} codes")
    if comparison.broken:
        print(f"{sum(comparison.broken.values())} calls of ours failed, of {len(comparison.broken)} entries: "
              + " ".join(sorted(comparison.broken)))
    print("allowed differences by rule:", dict(sorted(comparison.spared.items())), "stopped:", comparison.stopped)
    for key, before, want, got, *failed in comparison.differences[:SHOWN]:
        print(f"program {key[0]} variant {key[1]}" + (f", our {failed[0]} failed" if failed and failed[0] else ""))
        print("".join(f"      {line}\n" for line in before) + f"    - {want}\n    + {got}")
    bad = len(comparison.differences)
    if bad:
        print(f"FAILED: {bad} programs see something else")
    if comparison.stopped > max(1, programs * STOPS):
        bad += 1
        print("FAILED: too many programs run out of memory that natively do not")
    if comparison.calls < wanted_calls or len(comparison.names) < wanted_names or len(comparison.refusals) < 4:
        bad += 1
        print(f"FAILED: too little was exercised: {wanted_calls} calls of {wanted_names} entries are wanted")
    return 1 if bad else 0


def main():
    what, mode = sys.argv[1], sys.argv[2]
    arguments, count, inside, calls, names = RUNS[what]
    first = 0
    if len(sys.argv) > 3:  # the slow form: other programs, and more of them
        first, count = 1000, int(sys.argv[3])
    last = first + count - 1
    reference = pathlib.Path(f"reference-{what}-{mode}.txt").resolve()
    reference.write_text(run(arguments, first, last))
    native = compare.Run(reference.read_text())
    comparison = compare.Comparison(injected_inside=bool(inside))
    comparison.programs = 0
    for code in inside or [None]:
        more = ["--internal", str(code)] if code else []
        kedge = compare.Run(run(arguments + more, first, last, mode, reference))
        comparison.programs += len(kedge.programs)
        comparison.add(native, kedge)
    status = report(comparison, calls, names)
    if status == 0:
        reference.unlink()
    return status


if __name__ == "__main__":
    sys.exit(main())
