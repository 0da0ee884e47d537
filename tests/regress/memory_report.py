#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`kedge report` accounts for all device memory of a process, and for its host memory apart."""
import json
import pathlib
import sys

from regresskit import check, main, memory_run, same, tool

MB = 1 << 20
ROWS = { # live at the end, peak, count, device memory
    "pooled": (40 * MB, 44 * MB, 3, True),
    "managed": (6 * MB, 6 * MB, 1, True),
    "array": (MB, MB, 1, True),
    "host": (100 * MB, 100 * MB, 1, False),
}


def report(*arguments, trace="full"):
    memory_run("run.kcap", trace)
    return tool("report", "run.kcap", *arguments)


def check_json(trace):
    found = json.loads(report("--json", trace=trace))
    rows = {r["name"]: (r["live_bytes"], r["own_peak_bytes"], r["allocated_count"], r["device_memory"])
            for r in found["classes"]}
    same("rows by class", rows, ROWS)
    same("Remaining is device memory only", found["remaining_bytes"], 47 * MB)
    same("Max is device memory only", found["max_bytes"], 47 * MB) # what was freed was freed before the array
    check(found["e"] <= 1, f"E {found['e']}: what the driver serves is not held by the pool")
    device, = found["device_memory"]
    known = device["reserved_bytes"] + device["driver_bytes"] + device["graph_reserved_bytes"]
    same("overhead", device["overhead_bytes"], device["total_bytes"] - device["free_bytes"] - known)
    same("arrays are known", device["driver_bytes"], MB)
    fall, = found["waterfall"]
    same("the waterfall has all of the device", sum(p["bytes"] for p in fall["parts"]), device["total_bytes"])
    past = [p for p in fall["parts"] if p["part"] == "library"]
    same("and what is past the pool", sum(p["bytes"] for p in past), MB)
    same("by whom, as far as there are events", [bool(p["name"]) for p in past], [trace == "full"])
    return found


def every_class_is_in_the_report():
    found = check_json("full")
    owners = {pathlib.Path(o["path"]).name: o["live_bytes"] for o in found["libraries"]}
    same("what cuBLAS holds", owners["libcublas.so.13"], 32 * MB)
    same("what the program holds", owners["memory_program"], 15 * MB)


def without_a_log_the_rows_are_the_same():
    check_json("agg")


def the_text_says_what_counts():
    text = report("--view", "classes")
    for line in ("  pooled              40.00 MiB    44.00 MiB        3",
                 "  host               100.00 MiB   100.00 MiB        1  (not device memory)"):
        check(line in text.splitlines(), f"no line {line!r} in:\n{text}")
    check("Device 0, all of its" in text and "managed memory, other processes (not told apart)" in " ".join(text.split()),
          f"no overhead in:\n{text}")


main(every_class_is_in_the_report, without_a_log_the_rows_are_the_same, the_text_says_what_counts)
