#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Real training steps, replayed through the CUDA runtime: every allocation is in the capture, the peak is the trace's to
the byte, every tensor keeps its pattern. Traces of other people's programs lie in $KEDGE_TEST_TRACES (csv/*.csv, or the
folder itself); our own in tests/traces.
"""
import csv
import os
import pathlib
import re

from regresskit import KEDGE, SOURCE, check, human, main, run, same, skip, tool, tool_json

ENTRANCES = ("sync", "stream")


def foreign_traces():
    folder = os.environ.get("KEDGE_TEST_TRACES")
    if not folder:
        skip("KEDGE_TEST_TRACES is not set")
    root = pathlib.Path(folder)
    found = sorted((root / "csv").glob("*.csv") if (root / "csv").is_dir() else root.glob("*.csv"))
    if not found:
        skip(f"no csv file in {folder}")
    return found


def own_traces():
    found = sorted((SOURCE / "tests" / "traces").glob("*.csv"))
    check(found, "there is no trace of our own in tests/traces")
    return found


def facts(path):
    """What a reader of the file alone can say: allocations, frees, peak of live bytes, bytes left."""
    live, peak, total, sizes, frees = 0, 0, 0, {}, 0
    with open(path, newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            if row["op"] == "a":
                sizes[row["id"]] = int(row["size"])
                live += int(row["size"])
                total += int(row["size"])
                peak = max(peak, live)
            else:
                live -= sizes[row["id"]]
                frees += 1
    return {"allocated_count": len(sizes), "freed_count": frees, "max_bytes": peak, "allocated_bytes": total}


def replay(path, entrance):
    wanted = facts(path)
    capture = f"{path.stem}.{entrance}.kcap"
    done = run(KEDGE, "replay", path, "--sim", "--entrance", entrance, "--capture", capture, timeout=300,
               SIMCUDA_SCHED="random", SIMCUDA_SEED=7, SIMCUDA_LAG=1)
    check(not re.search(r"pattern.*(lost|broken|differ)|mismatch", done.stdout, re.I), done.stdout[-800:])
    j = tool_json("report", capture)
    for key in ("allocated_count", "allocated_bytes", "max_bytes"):
        same(f"{path.name}, {entrance}, {key}", j[key], wanted[key])
    # At its end the replay may free what the trace left alive: not less than the trace's frees.
    check(j["freed_count"] in (wanted["freed_count"], wanted["allocated_count"]),
          f"{path.name}, {entrance}: {j['freed_count']} frees, the trace has {wanted['freed_count']}")
    check(j["peak_reserved_bytes"] >= j["max_bytes"], f"{path.name}: reserved below live")
    text = tool("report", capture)
    check(human(j["max_bytes"]) in text and human(j["peak_reserved_bytes"]) in text and re.search("reserved", text, re.I),
          f"{path.name}: the report does not show peak live and peak reserved")
    print(f"{path.stem:32} {entrance:6} {j['allocated_count']:6} allocations, live {human(j['max_bytes']):>10}, "
          f"reserved {human(j['peak_reserved_bytes']):>10}")
    pathlib.Path(capture).unlink()


def every_foreign_trace_on_the_sync_entrance():
    for path in foreign_traces():
        replay(path, "sync")


def every_foreign_trace_on_the_stream_entrance():
    for path in foreign_traces():
        replay(path, "stream")


def our_own_traces():
    for path in own_traces():
        for entrance in ENTRANCES:
            replay(path, entrance)


if __name__ == "__main__":
    main(every_foreign_trace_on_the_sync_entrance, every_foreign_trace_on_the_stream_entrance, our_own_traces)
