#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Results do not depend on kedge: every trainer, mode and allocation API, with streams running late in 50 different orders.

The trainers check their own sums against the host's, so a wrong byte fails a run by itself; here the printed checksums
are compared as well, with those of the program alone on the simulated device.
"""
import functools
import os
import sys

from regresskit import BUILD, REPLAY, SOURCE, bare, check, checksum, fail, kedge_run, main, same

SEEDS = int(os.environ.get("REGRESS_SEEDS", "50"))
FEW = 1
# How many of the seeds each way of running takes. The pool alone decides what memory is used again, and when (R93); the others make the
# program's own calls, so they are looked at, not searched. "alone": nothing is preloaded.
SHARES = {"alone": 20, "off": 20, "track": 5, "pool": 1}
FORMS = ("pt", "pir")
# Every program of tests/trainers, with the arguments of short runs; {} is the allocation API.
SHORT = {
    "sot": [["--form", form, "--graph", "small", "--entrance", "{}", "--streams", streams]
            for form in FORMS for streams in ("1", "3")],
    "loop": [["--steps", "5", "--entrance", "{}"]],
    "streams": [["--rounds", "20", "--entrance", "{}"]],
    "threads": [["--rounds", "40", "--entrance", "{}"]],
    "graphs": [["--launches", "10", "--entrance", "{}"]],
    "gemini": [["--units", "4", "--size", "2M", "--entrance", "{}", *form]
               for form in (["--states", "--streams", "2"], ["--host-pointers", "--graph"], ["--threads", "2"])],
    "pipeline": [["--stages", "3", "--micro-batches", "4", "--base-bytes", "256M", "--entrance", "{}", *form] for form in ([], ["--mend"])],
    "driverprog": [["--entrance", "{}"], ["--gpa", "--entrance", "{}"]],
}
# Two of our own traces through kedge-replay, which checks each tensor's pattern as well.
TRACES = sorted((SOURCE / "tests" / "traces").glob("*.csv"), key=lambda p: p.stat().st_size)[:2]


def program(name):
    return str(BUILD / "trainers" / name)


def compare(commands, seeds):
    """Every command under so many orders of late streams, each mode with its share of them."""
    runs = 0
    for command in commands:
        wanted = checksum(bare(*command).stdout)
        for mode, share in SHARES.items():
            for seed in range(1, 1 + -(-seeds // share)):
                late = {"SIMCUDA_SCHED": "random", "SIMCUDA_SEED": seed, "SIMCUDA_LAG": seed % 3}
                done = (bare(*command, rc=None, **late) if mode == "alone" else
                        kedge_run(*command, rc=None, KEDGE_MODE=mode, **late))
                runs += 1
                if done.returncode != 0:
                    print(done.stdout[-2000:])
                    fail(f"{command}, {mode}, seed {seed}: exit {done.returncode}")
                    sys.exit(1)
                same(f"{command}, {mode}, seed {seed}", checksum(done.stdout), wanted)
    print(f"{runs} runs compared")
    check(runs >= len(commands) * (seeds + len(SHARES) - 1), "too few runs were compared")


def short_runs(trainer, entrance):
    compare([[program(trainer), *(a.format(entrance) for a in arguments)] for arguments in SHORT[trainer]], SEEDS)


def replays(entrance):
    check(TRACES, "there is no trace of our own in tests/traces")
    compare([[str(REPLAY), str(t), "--api", entrance, "--streams"] for t in TRACES], SEEDS)


def the_full_graph_on_both_entrances():
    compare([[program("sot"), "--form", form, "--graph", "full", "--entrance", entrance, "--streams", streams]
             for form, entrance, streams in (("pir", "sync", "1"), ("pir", "stream", "4"), ("pt", "stream", "4"))], FEW)


def no_trainer_is_left_out():
    """A program that is built into trainers/ and not in the list above would never be compared."""
    built = {p.name for p in (BUILD / "trainers").iterdir() if p.is_file() and p.suffix == "" and p.stat().st_mode & 0o100}
    same("programs in trainers/", built, set(SHORT))


# One test for each trainer and allocation API: "sot_sync", "replay_stream".
CASES = {f"{t}_{e}": functools.partial(short_runs, t, e) for t in SHORT for e in ("sync", "stream")}
CASES.update({f"replay_{e}": functools.partial(replays, e) for e in ("sync", "stream")})

if __name__ == "__main__":
    main(the_full_graph_on_both_entrances, no_trainer_is_left_out, **CASES)
