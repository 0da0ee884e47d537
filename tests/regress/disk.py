#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A capture that cannot be written, or not to its end: one line, the program's result is what it was, what there is can be read."""
import os
import pathlib
import re

from regresskit import (BUILD, KEDGE, LIBRARY, SIM, bare, check, checksum, kedge_run, main, run, same, skip, tool,
                        tool_json)

FULL_DISK = BUILD / "tests" / "regress" / "libfull_disk.so"
THREADS = (BUILD / "trainers" / "threads", "--entrance", "stream", "--rounds")
LONG, SHORT = "1500", "100" # the log of a long run does not fit on the disk
MB = 1 << 20


def troubled(capture, pattern, rounds=SHORT, preload=LIBRARY, **env):
    """The trainer with a capture in trouble: its output."""
    wanted = checksum(bare(*THREADS, rounds).stdout)
    out = run(*THREADS, rounds, LD_PRELOAD=preload, LD_LIBRARY_PATH=SIM, KEDGE_CAPTURE=capture, **env).stdout
    lines = re.findall(r"^kedge\[.*", out, re.M)
    same(f"{capture}: result", checksum(out), wanted)
    check(len(lines) == 1 and re.search(pattern, lines[0]), f"{capture}: wanted one line with '{pattern}', got {lines}")


def a_full_disk():
    """Everything but a part of the log is there: totals, live table, places."""
    room = MB
    troubled("full.kcap", "full.kcap: No space left on device, going on with less", LONG, f"{LIBRARY}:{FULL_DISK}",
             TEST_DISK_ROOM=room, KEDGE_TRACE="full")
    check(pathlib.Path("full.kcap").stat().st_size <= room, "the file is larger than the disk")
    j = tool_json("report", "full.kcap")
    kedge_run(*THREADS, LONG, capture="whole.kcap", KEDGE_TRACE="full")
    whole = tool_json("report", "whole.kcap")
    check(j["lost"]["events_recycled"] > 0, "no event was lost: the limit was not met")
    check(whole["lost"]["events_recycled"] == 0, "a whole log lost events")
    for key in ("allocated_count", "freed_count", "allocated_bytes", "remaining_bytes"):
        same(key, j[key], whole[key])
    check(j["place_count"] >= whole["place_count"] > 1, f"places: {j['place_count']}, {whole['place_count']}")
    check("by place" in tool("report", "full.kcap", "--view", "hwm"), "no high-water mark without all events")


def a_file_that_may_not_grow():
    """What found no room there is not known, and never nothing: neither in text nor in JSON."""
    program = ("import ctypes; rt = ctypes.CDLL('libcudart.so.12'); p = ctypes.c_void_p()\n"
               "for i in range(2000): assert rt.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(1 << 20)) == 0")
    run("bash", "-c", 'ulimit -f 100; exec "$@"', "bash", KEDGE, "run", "-q", "--sim", "--capture", "small.kcap", "--",
        "python3", "-c", program, rc=0)
    j = tool_json("report", "small.kcap")
    same("remaining", (j["remaining_bytes"], j["allocated_count"]), (2000 * MB, 2000))
    check(j["lost"]["live_dropped"] > 0 and j["complete"] is False, f"the live table had room: {j['lost']}")
    same("live", j["live"], None)
    text = tool("report", "small.kcap", "--all")
    check(re.search(r"^Live at the end, by stack\n  not known$", text, re.M), text[-1500:])
    check(re.search(r"^mode      not known$", text, re.M), text[:500])


def without_proc():
    """kedge finds its library by /proc/self/exe, and says what is missing."""
    pathlib.Path("empty").mkdir()
    inside = 'mount --bind empty /proc && exec "$@"'
    if run("unshare", "-m", "bash", "-c", inside, "bash", "true", rc=None).returncode:
        skip("no right to mount")
    said = run("unshare", "-m", "bash", "-c", inside, "bash", KEDGE, "run", "--sim", "--", "true", rc=77).stdout
    same("said", said, "kedge run: /proc is not there (not mounted?): kedge finds its files by /proc/self/exe\n")


def a_folder_that_is_not_there():
    troubled("/nonexistent/folder/x.kcap", r"no capture: /nonexistent/folder/x\.kcap: No such file or directory$")


def a_folder_without_files():
    """/proc: nobody may make a file there, root neither."""
    troubled("/proc/self/x.kcap", r"no capture: /proc/self/x\.kcap: \w")


def every_mode_of_the_trace():
    """Totals and places of one thread are the same in each mode; only full has all events, off has no file."""
    loop = (BUILD / "trainers" / "loop", "--steps", "60")
    found = {}
    for mode in ("agg", "ring", "full"):
        kedge_run(*loop, capture=f"{mode}.kcap", KEDGE_TRACE=mode)
        found[mode] = tool_json("report", f"{mode}.kcap", "--top", "1000")
    for mode in ("agg", "ring"):
        for key in ("allocated_count", "freed_count", "allocated_bytes", "remaining_bytes", "max_bytes", "place_count"):
            same(f"{mode}: {key}", found[mode][key], found["full"][key])
        same(f"{mode}: shares", sorted((p["site"], p["anchor"], p["at_peak_bytes"]) for p in found[mode]["places"]),
             sorted((p["site"], p["anchor"], p["at_peak_bytes"]) for p in found["full"]["places"]))
    same("full: shares", sum(p["at_peak_bytes"] for p in found["full"]["places"]), found["full"]["max_bytes"])
    check(os.path.getsize("agg.kcap") < os.path.getsize("full.kcap"), "agg wrote events")
    run(*loop, LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=SIM, KEDGE_CAPTURE="off.kcap", KEDGE_TRACE="off")
    check(not pathlib.Path("off.kcap").exists(), "off wrote a file")


if __name__ == "__main__":
    main(a_full_disk, a_file_that_may_not_grow, without_proc, a_folder_that_is_not_there, a_folder_without_files, every_mode_of_the_trace)
