#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Real training steps, replayed through the CUDA runtime: every allocation is in the capture, the peak is the trace's to
the byte, every tensor keeps its pattern. Traces of other people's programs lie in $KEDGE_TEST_TRACES (csv/*.csv, or the
folder itself); our own in tests/traces.
"""
import pathlib
import re

from regresskit import REPLAY, check, foreign_traces, human, kedge_run, main, own_traces, same, tool, tool_json, trace_facts

ENTRANCES = ("sync", "stream")


def replay(path, entrance):
    wanted = trace_facts(path)
    capture = f"{path.stem}.{entrance}.kcap"
    done = kedge_run(REPLAY, path, "--api", entrance, capture=capture, timeout=300,
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
