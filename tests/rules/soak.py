#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""R107, nothing grows with what is gone: kedge's memory and instructions, after things of a kind have come and gone.

    soak.py memory KIND...          bytes after N and after 2 N of them, in each way of recording
    soak.py instructions KIND...    instructions of some more, after N and after 2 N of them

KIND: a row of KINDS (soak_program.c). Memory is what kedge has from the kernel, in whole pages; a few may come by chance, where a free
record of a table is taken before one that was touched already. So a leak of 14 bytes for each thing that has gone is found. Instructions
are counted by callgrind. What stays for good is bounded (bounds.def), and not here: distinct names of anchors, and of functions in graphs.
Exit 0, 1, or 77 with the reason."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
sys.dont_write_bytecode = True
import callgrind # pylint: disable=wrong-import-position
from regresskit import BUILD, LIBRARY, SIM, check, environment, failures, run, skip # pylint: disable=wrong-import-position

PROGRAM = BUILD / "tests" / "rules" / "soak_program"
CHANCE = 5 * 4096
# How many come and go, where that is not COUNT: what is slow on the simulated device comes less often; captures are named one by one up
# to 4096.
COUNT = 2000
COUNTS = {"context": 1500, "thread": 1500, "export": 1500, "pool": 1500, "capture": 4500, "memory_of_graphs": 4500}
WAYS = {"off": "off", "ring": "ring,mb=4", "agg": "agg"}
KINDS = ("stream event context reset release pool thread module library object range line graph capture memory_of_graphs "
         "host_function export mapping host managed array texture block").split()
FIRST = 150 # of instructions: callgrind is slow
SLACK = 0.03


def settings(trace):
    return {"LD_LIBRARY_PATH": SIM, "LD_PRELOAD": LIBRARY, "KEDGE_TRACE": trace, "KEDGE_CAPTURE": pathlib.Path("soak.kcap").absolute(),
            "KEDGE_ANCHORS": "log=epoch (.*) done", "SIMCUDA_DEVICES": 2, "SIMCUDA_MEMORY": "1G", "SIMCUDA_ORACLE": "off",
            "SIMCUDA_SCHED": "eager", "MALLOC_ARENA_MAX": 1, "TEST_OBJECT": BUILD / "tests" / "bench" / "libhot_object.so"}


def memory(kind):
    count = COUNTS.get(kind, COUNT)
    for way, trace in WAYS.items():
        capture = pathlib.Path("soak.kcap")
        capture.unlink(missing_ok=True)
        out = run(PROGRAM, kind, count, **settings(trace)).stdout
        looks = [tuple(map(int, m)) for m in re.findall(r"^\w+ \d+: held (\d+) touched (\d+)$", out, re.M)]
        if not check(len(looks) == 3 and looks[0][1] > 0, f"{kind} {way}: {out[-500:]}"):
            continue
        grown = looks[2][1] - looks[1][1]
        print(f"{kind:18}{way:6}{count:6} more have gone: {grown:8} bytes more, of {looks[2][1]}")
        check(grown <= CHANCE, f"{kind} {way}: {grown / count:.0f} bytes for each that has gone")
        check(looks[2][0] == looks[1][0], f"{kind} {way}: held {looks}")


def cost(kind, count):
    path = pathlib.Path("callgrind.out").absolute()
    _, own, calls = callgrind.count([PROGRAM, kind, count, "counted"], path, environment(**settings("off")))
    path.unlink()
    return callgrind.share(own, calls, "libkedge.so", "libcuda.so", "libc.so", "ld-linux")


def instructions(kind):
    first, second = cost(kind, FIRST), cost(kind, 2 * FIRST)
    print(f"{kind:18}{first:10} instructions after {FIRST}, {second:10} after {2 * FIRST}: {second / first - 1:+.3f}")
    check(first > 0 and second <= (1 + SLACK) * first, f"{kind}: {second - first} instructions more")


def main():
    what, kinds = sys.argv[1], sys.argv[2:] or KINDS
    if not PROGRAM.exists() or not LIBRARY.exists():
        skip("not built")
    why = callgrind.available() if what == "instructions" else None
    if why:
        skip(why)
    for kind in kinds:
        (memory if what == "memory" else instructions)(kind)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
