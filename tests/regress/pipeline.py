#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The trainer `pipeline` (#34230) under kedge: a capture for each rank, whoever starts the ranks, with what the stage itself says."""
import re
import shutil

from regresskit import BUILD, KEDGE, check, main, pathlib, run, same, skip, tool_json

PIPELINE = BUILD / "trainers" / "pipeline"
STAGES = 8
MICRO_BATCHES = 16
CARD = {"SIMCUDA_MEMORY": "32510M", "OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1}
RANGES = {"step/0/forward": MICRO_BATCHES, "step/0/backward": MICRO_BATCHES, "step/0/update": 1}


def look_at(capture, text):
    """Every rank's capture against the table that rank 0 printed."""
    table = re.findall(rf"^{4 * MICRO_BATCHES},{MICRO_BATCHES},(\d),([\d.]+),", text, re.M)
    same("stages in the table", [int(stage) for stage, _ in table], list(range(STAGES)))
    same("captures", sorted(p.name for p in pathlib.Path().glob(f"{capture}*")),
         sorted([capture, *(f"{capture}.{rank}" for rank in range(1, STAGES))]))
    for stage, live in table:
        told = tool_json("report", f"{capture}.{stage}" if stage != "0" else capture)
        same(f"rank of stage {stage}", told["program"]["rank"], stage)
        more = told["peak_live_bytes"] - round(float(live) * 2**20)
        check(0 <= more < 1 << 20, f"stage {stage}: the capture has {more} bytes more at the peak than the stage's tensors")
        instances = {name: sum(a["name"] == name for a in told["anchors"]) for name in RANGES}
        same(f"ranges of stage {stage}", instances, RANGES)


def start(capture, before, between):
    for old in pathlib.Path().glob(f"{capture}*"):
        old.unlink()
    done = run(*before, KEDGE, "run", "--sim", "--capture", capture, "--", *between, PIPELINE, "--micro-batches", MICRO_BATCHES,
               *(() if before or between else ("--stages", STAGES)), **CARD)
    look_at(capture, done.stdout)


def forked_ranks_have_a_capture_each():
    start("forked.kcap", (), ())


def ranks_of_mpirun_have_a_capture_each():
    if not shutil.which("mpirun"):
        skip("no mpirun; tools/setup installs Open MPI's")
    launcher = ("mpirun", "--oversubscribe", "-np", STAGES)
    start("below.kcap", launcher, ())
    start("above.kcap", (), launcher)


if __name__ == "__main__":
    main(forked_ranks_have_a_capture_each, ranks_of_mpirun_have_a_capture_each)
