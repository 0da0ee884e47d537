#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Test of pairs on two streams: which cache lines both of them use and one of them writes, in lanes and without (alloc/heap/lane.h).

A processor that writes such a line takes it from another one, which costs more than the pair. Valgrind's lackey lists what a pair
reads and writes, so the result does not depend on the machine, its load, or how many processors it has."""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "regress")]
import callgrind # pylint: disable=wrong-import-position
from regresskit import BUILD # pylint: disable=wrong-import-position

BENCH = BUILD / "tests" / "bench" / "bench"
LINE = 64
STACK = 1 << 16 # each thread has its own


def shared(lanes):
    """How many lines the pairs on both streams use and at least one of them writes; how many the first one writes."""
    log = pathlib.Path("lines.log").absolute()
    done = subprocess.run(["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={log}", BENCH, "lines", "streams", str(lanes)],
                          capture_output=True, text=True, timeout=250, check=True)
    told = json.loads(done.stdout)
    begins = f"I  {told['marked']:08x},"
    parts = []
    with log.open(encoding="utf-8") as file:
        for line in file:
            if line.startswith(begins):
                parts.append((set(), set()))
            elif parts and line[:3] in (" S ", " M ", " L "):
                start, size = line[3:].split(",")
                start = int(start, 16)
                if abs(start - told["stack"]) > STACK:
                    used = set(range(start // LINE, (start + int(size) - 1) // LINE + 1))
                    parts[-1][0].update(used)
                    parts[-1][1].update(used if line[1] != "L" else ())
    log.unlink()
    (one_uses, one_writes), (two_uses, two_writes) = parts[0], parts[2]
    return len((one_writes & two_uses) | (two_writes & one_uses)), len(one_writes)


def main():
    why = callgrind.available()
    if why or os.environ.get("TEST_SANITIZE") or not BENCH.exists():
        print(f"SKIP: {why or 'not here'}")
        return 77
    without, _ = shared(0)
    within, written = shared(1)
    print(f"lines that pairs on two streams have in common and write: {without} without lanes, {within} with (of {written})")
    if without == 0 or within > 0 or written == 0:
        print("FAILED: there are some without lanes, and none with")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
