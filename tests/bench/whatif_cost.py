#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What kedge's decisions cost beside PyTorch's: instructions of a request or free in `kedge whatif` with each policy, over four passes of
the five largest recorded traces, at each lag. All of whatif_run is counted: the decisions, and what whatif itself does for any policy.
Printed only; needs a build (TEST_BUILD, else build/release), valgrind and $KEDGE_TEST_TRACES.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "regress")]
import callgrind # pylint: disable=wrong-import-position
import traceskit # pylint: disable=wrong-import-position
from curve import LARGEST, PASSES, peak_live # pylint: disable=wrong-import-position
from regresskit import MODELS, skip # pylint: disable=wrong-import-position

POLICIES = ("torch", "kedge", "kedge-eager")


def instructions(path, policy, lag):
    """Of an event."""
    with open(path, encoding="utf-8") as f:
        events = PASSES * (sum(1 for _ in f) - 1)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--toggle-collect=whatif_run", MODELS, "whatif", path,
                        "--policy", policy, "--passes", str(PASSES), "--lag", str(lag)], capture_output=True, check=True)
        return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(encoding="utf-8"), re.M)[1]) / events


def main():
    why = callgrind.available()
    if why:
        skip(why)
    traces = sorted(traceskit.foreign(200), key=peak_live)[-LARGEST:]
    asked = [(path, policy, lag) for path in traces for lag in traceskit.lags(path).values() for policy in POLICIES]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        figures = iter(list(pool.map(lambda one: instructions(*one), asked)))
    print(f"{'':28}{'lag':>12}" + "".join(f"{policy:>14}" for policy in POLICIES) + "".join(f"{policy + ' x':>14}" for policy in POLICIES[1:]))
    for path in traces:
        for lag in traceskit.lags(path):
            torch, *ours = [next(figures) for _ in POLICIES]
            print(f"{path.stem:28}{lag:>12}" + "".join(f"{figure:14,.0f}" for figure in (torch, *ours))
                  + "".join(f"{figure / torch:14.2f}" for figure in ours), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
