#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: scale.py PAIRS

What the commands take for a capture of PAIRS allocations and about as many frees (long_maker.c): the peak of the process's resident
memory, which the kernel counts (ru_maxrss, the VmHWM of /proc). A capture is read, not mapped, so that all of it is private memory, as
the memory limit of a container counts it; the page cache of the file is not in it, and the system takes that back when it wants. The
bound is that of 1 GiB for ten million events, and 16 MiB for the program and its libraries; twice the bytes for two captures (diff), and where the requests are played once more (whatif)."""
import os
import pathlib
import struct
import subprocess
import sys
import time

BUILD = pathlib.Path(os.environ.get("TEST_BUILD", pathlib.Path(__file__).resolve().parents[3] / "build" / "release"))
KEDGE, MAKER = BUILD / "kedge", BUILD / "tests" / "unit" / "long_maker"
BYTES_PER_EVENT = (1 << 30) / 10_000_000
FIXED = 16 << 20
VIEWS = "live hwm leaks temporary libraries hints oom anchors classes sources steps patterns streams eviction".split()


def measure(command, answers=(0,)):
    """MiB and seconds; the answer goes nowhere."""
    began = time.monotonic()
    with subprocess.Popen([KEDGE, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        words = child.stderr.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in answers:
        sys.exit(f"FAILED: {' '.join(command)}: exit {child.returncode}: {words}")
    return used.ru_maxrss / 1024, used.ru_utime + used.ru_stime, time.monotonic() - began


def largest_extent(name):
    """Of the event log, in bytes: the directory has 1024 entries, so a log that goes on growing by its first 128 KiB ends at 128 MiB."""
    data = pathlib.Path(name).read_bytes()
    at, = struct.unpack_from("<I", data, 4844)
    rows = [struct.unpack_from("<QQI", data, at + 24 * i) for i in range(1024)]
    return max(length for _, length, kind in rows if kind == 3)


def main():
    pairs = int(sys.argv[1])
    for name in ("run.kcap", "late.kcap"):
        subprocess.run([MAKER, name, str(pairs), *(["late"] if name == "late.kcap" else [])], check=True, timeout=600)
    views = VIEWS if pairs >= 1_000_000 else []  # each alone where it takes long: --json has all of them
    commands = [["report", "run.kcap"], ["report", "run.kcap", "--json"],
                ["report", "run.kcap", "--html", "run.html"], *(["report", "run.kcap", "--view", view] for view in views),
                ["check", "run.kcap", "peak>1GiB", "growth==0"], ["whatif", "run.kcap", "--policy", "kedge"],
                ["diff", "run.kcap", "late.kcap"], ["ranks", "run.kcap", "late.kcap"]]
    bad = largest_extent("run.kcap") <= 128 << 10
    for command in commands:
        used, cpu, wall = measure(command)
        bound = (FIXED + 2 * pairs * BYTES_PER_EVENT * (2 if command[0] in ("diff", "whatif") else 1)) / (1 << 20)
        bad += used > bound
        print(f"{'FAILED: ' if used > bound else ''}{used:8.1f} MiB of {bound:.1f}  {cpu:6.2f} s of a CPU {wall:6.2f} s  "
              f"{' '.join(command)}", flush=True)
    for name in ("run.kcap", "late.kcap", "run.html"):
        pathlib.Path(name).unlink()
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
