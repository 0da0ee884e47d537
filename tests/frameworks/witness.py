#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The check of stacks itself: it passes what is right, and finds what is wrong.

    witness.py CASE

Needs no framework: witness_program.py under the system's interpreter.
"""
import collections
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "cases"))
sys.path.insert(0, str(HERE.parent / "regress"))
import stacks  # noqa: E402
from regresskit import BUILD, SIM, check, failures, kedge_run, same  # noqa: E402

READER = BUILD / "tests" / "frameworks" / "stacks_of"
CAPTURE, LOG = pathlib.Path("run.kcap"), pathlib.Path("run.stacks")
MODES = ("pool", "track")


def record(mode, asks=None):
    """A run of the program. How many allocations it made."""
    for left in [CAPTURE, *pathlib.Path().glob(LOG.name + ".*")]:
        left.unlink(missing_ok=True)
    done = kedge_run("/usr/bin/python3", HERE / "witness_program.py", capture=CAPTURE, KEDGE_MODE=mode, KEDGE_STACKS=asks,
                     KEDGE_TRACE="full", LD_LIBRARY_PATH=SIM, SIMCUDA_STACKS=LOG.resolve())
    return int([line for line in done.stdout.splitlines() if not line.startswith("kedge run: ")][-1])


def result(mode, asks=None):
    return record(mode, asks), stacks.check(READER, [CAPTURE], LOG)


def what_is_right_passes():
    for mode in MODES:
        count = record(mode)
        if mode == "track": # where the driver is the witness: as if the program had called it itself
            for file in pathlib.Path().glob(LOG.name + ".*"):
                lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
                file.write_text("".join(line for line in lines if line.startswith("driver\t")), encoding="utf-8")
        told = stacks.check(READER, [CAPTURE], LOG)
        print(f"{mode}: {told}")
        check(count >= 250, f"{mode}: {count} allocations")
        same(mode, told, {"compared": count, "native": count, "python": count, "own": count, "wrong": []})


def steps_that_are_left_out_are_found():
    """Each takes one step of the library's away: all stacks of its kind are wrong then, and no other."""
    for asks, native, python in (("python", 0, 1), ("native", 1, 0), ("off", 0, 0), ("depth=12", 0, 1)):
        count, told = result("pool", asks)
        print(f"{asks}: {told}")
        same(f"{asks}: compared", told["compared"], count)
        same(f"{asks}: native", told["native"], native * count)
        same(f"{asks}: python", told["python"], python * count)
        check(told["wrong"], f"{asks}: nothing is said")


def each_alteration_is_found():
    """One thing of one allocation is another: one stack is wrong, or the allocation is."""
    def native(change):
        return lambda line: line._replace(native=change(line.native))

    def python(change):
        return lambda line: line._replace(python=change(line.python))

    def frame(change):
        return python(lambda frames: [*frames[:-1], change(*frames[-1])])

    one_off = native(lambda f: [f[0], hex_plus_one(f[1]), *f[2:]])
    altered = {
        "a native frame's offset": (one_off, "native"),
        "a native frame's module": (native(lambda f: ["/x" + f[0], *f[1:]]), "native"),
        "no innermost native frame": (native(lambda f: f[1:]), "native"),
        "no outermost native frame": (native(lambda f: f[:-1]), "native"),
        "a native frame too many": (native(lambda f: [*f, f[-1]]), "native"),
        "two native frames in another order": (native(lambda f: [f[1], f[0], *f[2:]]), "native"),
        "no native frame": (native(lambda f: []), "native"),
        "a Python line": (frame(lambda name, file, line: (name, file, line + 1)), "python"),
        "a Python file": (frame(lambda name, file, line: (name, file + "x", line)), "python"),
        "a Python function": (frame(lambda name, file, line: (name + "x", file, line)), "python"),
        "no innermost Python frame": (python(lambda f: f[1:]), "python"),
        "no outermost Python frame": (python(lambda f: f[:-1]), "python"),
        "a Python frame too many": (python(lambda f: [*f, f[-1]]), "python"),
        "another thread's Python frames": (lambda line: line._replace(who="ambient"), "python"),
        "another size": (lambda line: line._replace(size=line.size + 1), "compared"),
        "another thread": (lambda line: line._replace(tid=line.tid + 1), "compared"),
        "another address": (lambda line: line._replace(address=line.address + 1), "compared"),
    }
    count = record("pool")
    pid, allocations = stacks.captured(READER, CAPTURE)
    lines = stacks.witnessed(pathlib.Path(f"{LOG.name}.{pid}"))
    same("untouched", stacks.compare(allocations, lines)["wrong"], [])
    at = next(n for n, line in enumerate(allocations) if len(line.python) > 3)
    for name, (change, key) in altered.items():
        told = stacks.compare([*allocations[:at], change(allocations[at]), *allocations[at + 1 :]], lines)
        check(told["wrong"], f"{name}: nothing is said")
        # of an address that is another one, later allocations are another tenant's, too
        check(told[key] == count - 1 or (name == "another address" and told[key] < count), f"{name}: {key} {told[key]} of {count}")
    cut, whole = next((n, frames) for n, frames in enumerate(witness_frames(allocations, lines)) if frames[: len(allocations[n].native)] != frames)
    told = stacks.compare([*allocations[:cut], allocations[cut]._replace(native=whole), *allocations[cut + 1 :]], lines)
    same("a walk that goes on behind the loop", told["native"], count - 1)
    told = stacks.compare([*allocations[:at], *allocations[at + 1 :]], lines)
    check(told["wrong"], "an allocation that is missing: nothing is said")
    other = next(n for n, line in enumerate(allocations) if line.python != allocations[at].python and line.native != allocations[at].native)
    swapped = list(allocations)
    swapped[at] = allocations[at]._replace(native=allocations[other].native, python=allocations[other].python)
    swapped[other] = allocations[other]._replace(native=allocations[at].native, python=allocations[at].python)
    same("two that were swapped", stacks.compare(swapped, lines)["python"], count - 2)
    check(stacks.check(READER, [], LOG)["wrong"], "a process without a capture: nothing is said")


def witness_frames(allocations, lines):
    """All of the program's native frames at each allocation."""
    turn = collections.Counter()
    for line in allocations:
        frames = lines[line.address][turn[line.address]].native
        turn[line.address] += 1
        yield [x.rstrip("*") for x in frames if not stacks.is_stripped(x)]


def hex_plus_one(frame):
    module, _, offset = frame.rpartition("+")
    return f"{module}+{int(offset, 16) + 1:#x}"


globals()[sys.argv[1]]()
sys.exit(1 if failures else 0)
