#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What programs did, in the formats of other tools: readers that know the formats alone find the figures of the report."""
import pathlib
import sys

from regresskit import BUILD, KEDGE, SOURCE, check, kedge_run, main, own_traces, run, same, tool, tool_json
from spoken import PRELUDE

sys.path.insert(0, str(SOURCE / "tests" / "unit" / "tools"))
import export_read

MB = 1 << 20
FORMATS = ("folded", "pprof", "speedscope", "perfetto", "memory_viz", "csv")


def exported(name):
    """{format: what its reader made of it}, after it has compared the figures."""
    report = tool_json("report", f"{name}.kcap")
    read = {}
    for form in FORMATS:
        tool("export", f"{name}.kcap", "--to", form, "-o", f"{name}.{form}")
        read[form] = export_read.check(form, f"{name}.{form}", report)
    done = run(KEDGE, "export", f"{name}.kcap", "--to", "sqlite", "-o", f"{name}.db", rc=None)
    if done.returncode != 77: # built without it
        read["sqlite"] = export_read.check("sqlite", f"{name}.db", report)
    return read


def threads_of_python_have_tracks_and_frames_of_their_own():
    pathlib.Path("python.py").write_text(PRELUDE + """
def step(i):
    must(cuda.cuCtxSetCurrent(context))
    print(f"START worker_{i}", flush=True)
    take(1024 << i)
    print(f"END worker_{i}", flush=True)
for i in (1, 2):
    t = threading.Thread(target=step, args=(i,)); t.start(); t.join()
take(64)
""", encoding="utf-8")
    kedge_run(sys.executable, "-s", "python.py", capture="python.kcap")
    read = exported("python")
    slices = {e["name"]: e["tid"] for e in read["perfetto"]["traceEvents"] if e["ph"] == "X"}
    same("slices", sorted(slices), ["worker_1", "worker_2"])
    check(len(set(slices.values())) == 2, f"two threads have one track: {slices}")
    step = {tuple(c[0] for c in calls) for calls, _, _ in read["pprof"]["samples"] if any(c[0] == "step" for c in calls)}
    check(step and all(names.index("take") < names.index("step") for names in step), f"Python's frames in a profile: {step}")
    lines = pathlib.Path("python.folded").read_text(encoding="utf-8")
    check("step (python.py:" in lines and ";take (python.py:" in lines, f"Python's frames in folded stacks: {lines}")
    frames = [f["name"] for t in read["memory_viz"]["device_traces"][0] for f in t["frames"]]
    check("step" in frames and "take" in frames, f"Python's frames in a snapshot: {frames}")


def memory_without_addresses_has_a_place_in_a_snapshot():
    kedge_run(BUILD / "tests" / "regress" / "memory_program", capture="memory.kcap", KEDGE_TRACE="full")
    read = exported("memory")
    blocks = [(b["size"], s["address"] >> 48) for s in read["memory_viz"]["segments"] for b in s["blocks"]
              if b["state"] == "active_allocated"]
    check((MB, 1) in blocks and (6 * MB, 0) in blocks, f"an array and managed memory: {blocks}")


def requests(name):
    """op, id and size of each row."""
    return [line.split(",")[:3] for line in pathlib.Path(f"{name}.csv").read_text(encoding="ascii").splitlines()]


def rows_are_replayed_to_the_same_peak():
    trace = next(t for t in own_traces() if t.stem == "loop")
    run(KEDGE, "replay", trace, "--sim", "--capture", "first.kcap")
    exported("first")
    run(KEDGE, "replay", "first.csv", "--sim", "--capture", "second.kcap")
    first, second = (tool_json("report", f"{name}.kcap") for name in ("first", "second"))
    for key in ("peak_live_bytes", "allocated_count", "allocated_bytes"):
        same(key, second[key], first[key])
    tool("export", "second.kcap", "--to", "csv", "-o", "second.csv")
    same("rows of the second", requests("second")[:100], requests("first")[:100])


if __name__ == "__main__":
    main(threads_of_python_have_tracks_and_frames_of_their_own, memory_without_addresses_has_a_place_in_a_snapshot,
         rows_are_replayed_to_the_same_peak)
