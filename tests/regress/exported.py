#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What programs did, in the formats of other tools: readers that know the formats alone find the figures of the report."""
import pathlib
import pickle
import sys

from regresskit import BUILD, KEDGE, REPLAY, SOURCE, check, kedge_run, main, memory_run, own_traces, run, same, tool, tool_json
from leaks import EVICT, RELEASE, live
from spoken import PRELUDE

sys.path.insert(0, str(SOURCE / "tests" / "unit" / "tools"))
import export_read

MB = 1 << 20
FORMATS = ("folded", "pprof", "perfetto", "memory_viz", "csv")


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
    memory_run("memory.kcap", "full")
    read = exported("memory")
    blocks = [(b["size"], s["address"] >> 48) for s in read["memory_viz"]["segments"] for b in s["blocks"]
              if b["state"] == "active_allocated"]
    check((MB, 1) in blocks and (6 * MB, 0) in blocks, f"an array and managed memory: {blocks}")


def requests(name):
    """op, id and size of each row."""
    return [line.split(",")[:3] for line in pathlib.Path(f"{name}.csv").read_text(encoding="ascii").splitlines()]


def rows_are_replayed_to_the_same_peak():
    trace = next(t for t in own_traces() if t.stem == "loop")
    kedge_run(REPLAY, trace, capture="first.kcap")
    exported("first")
    kedge_run(REPLAY, "first.csv", capture="second.kcap")
    first, second = (tool_json("report", f"{name}.kcap") for name in ("first", "second"))
    for key in ("peak_live_bytes", "allocated_count", "allocated_bytes"):
        same(key, second[key], first[key])
    tool("export", "second.kcap", "--to", "csv", "-o", "second.csv")
    same("rows of the second", requests("second")[:100], requests("first")[:100])


# ---- what is reserved ----

def settled(trace, begin):
    """What the segments of each server have together before each event of a block, and at the end."""
    now, sums = dict(begin), {server: [] for server in begin}
    for t in trace:
        if t["action"] == "segment_alloc":
            now[t["served_by"]] += t["size"]
        elif t["action"] == "segment_free":
            now[t["served_by"]] -= t["size"]
        elif t["action"] != "free_completed":
            for server in now:
                sums[server].append(now[server])
    return sums


def reserved(name):
    """The reserved memory of a snapshot, recounted, is what the capture says was held at that moment: of the pool what heaps held, of the
    driver's own what lived of it. Returns how many moments were compared."""
    read, report = exported(name), tool_json("report", f"{name}.kcap")
    snapshot, counters = read["memory_viz"], read["perfetto"]["traceEvents"]
    held = [e["args"]["bytes"] for e in counters if e["ph"] == "C" and e["name"] == "reserved"]
    same(f"{name}: more than was held", snapshot["kedge"]["segments_beyond_reserved_bytes"], 0)
    played = [export_read.replay(snapshot["segments"], device, trace)[1] for device, trace in enumerate(snapshot["device_traces"])]
    ends = {server: sum(s["total_size"] for s in snapshot["segments"] if s["served_by"] == server) for server in ("pool", "driver")}
    same(f"{name}: held at the end", ends["pool"], held[-1] if held else 0)
    moments = 0
    if len(played) == 1:
        sums = settled(snapshot["device_traces"][0], {server: played[0][server][0] for server in ends})
        unknown = set(sums["pool"]) - set(held) - {0}
        same(f"{name}: what was never held", unknown, set())
        moments = len(sums["pool"])
        same(f"{name}: peak reserved", max(played[0]["pool"]), report["peak_reserved_bytes"])
    return moments, ends, played, report


def what_is_reserved_in_a_snapshot_is_what_was_held():
    """On both APIs, of one thread and of several, in the pool; behind growth that is refused half-way."""
    moments = 0
    for program, arguments in (("loop", ("--steps", "40")), ("threads", ("--rounds", "200")), ("streams", ("--rounds", "60")),
                               ("graphs", ("--launches", "10"))):
        for entrance in ("sync", "stream"):
            name = f"{program}_{entrance}"
            kedge_run(BUILD / "trainers" / program, *arguments, "--entrance", entrance, capture=f"{name}.kcap")
            moments += reserved(name)[0]
    refused = 0
    for call in ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemAlloc_v2"):
        for nth in (2, 5):
            name = f"refused_{call}_{nth}"
            kedge_run(BUILD / "trainers" / "loop", "--steps", "20", "--entrance", "sync" if "Alloc" in call else "stream",
                      capture=f"{name}.kcap", SIMCUDA_FAIL=f"{call}:{nth}:2", rc=None)
            refused += pathlib.Path(f"{name}.kcap").exists() and reserved(name)[0] > 0
    check(moments > 5000 and refused >= 6, f"{moments} moments, {refused} runs with refused growth")


def without_a_pool_what_the_program_asks_for_is_reserved():
    for entrance in ("sync", "stream"):
        name = f"track_{entrance}"
        kedge_run(BUILD / "trainers" / "threads", "--rounds", "100", "--entrance", entrance, capture=f"{name}.kcap", KEDGE_MODE="track")
        _, ends, played, report = reserved(name)
        same("the most that was reserved", max(played[0]["driver"]), report["peak_live_bytes"])
        same("reserved at the end", ends, {"pool": 0, "driver": report["remaining_bytes"]})
    # Handles of the program's own, as expandable segments are made of, arrays, managed memory, beside the pool.
    memory_run("classes.kcap", "full")
    _, ends, _, report = reserved("classes")
    live = {c["name"]: c["live_bytes"] for c in report["classes"] if c["device_memory"]}
    same("reserved by the driver's own at the end", ends["driver"], sum(live.values()) - live.get("pooled", 0))


def a_ring_ends_with_what_is_held():
    """As much as the same run with all events; of before the record begins nothing is shown that was not held."""
    ends = {}
    for trace in ("full", "ring,mb=1", "agg"):
        kedge_run(BUILD / "trainers" / "loop", "--steps", "2000", capture="ring.kcap", KEDGE_TRACE=trace)
        report = tool_json("report", "ring.kcap")
        same(f"{trace}: complete", report["complete"], trace == "full")
        said = run(KEDGE, "export", "ring.kcap", "--to", "memory_viz", "-o", "ring.pickle").stdout
        same(f"{trace}: incomplete", "incomplete: events are missing" in said, trace != "full")
        snapshot = pickle.loads(pathlib.Path("ring.pickle").read_bytes())
        ends[trace] = sum(s["total_size"] for s in snapshot["segments"])
        curve = export_read.replay(snapshot["segments"], 0, snapshot["device_traces"][0])[1]["pool"]
        check(max(curve) <= report["peak_reserved_bytes"], f"{trace}: {max(curve)} of {report['peak_reserved_bytes']}")
    check(ends["full"] > 0 and len(set(ends.values())) == 1, f"held at the end: {ends}")


def what_hints_release_or_evict_is_not_reserved():
    """The program's blocks live on, in what little is left of their segments."""
    live("released", "for i in steps(12): keep(4096)\n", RELEASE)
    _, _, _, report = reserved("released")
    check(report["peak_reserved_bytes"] < report["peak_live_bytes"], f"released: {report['peak_reserved_bytes']}")
    use = "    for k in kept: must(cuda.cuMemsetD8_v2(k, 7, ctypes.c_size_t(4 << 20)))\n"
    live("evicted", "for i in steps(12):\n    keep(4096)\n" + use, EVICT)
    _, _, _, report = reserved("evicted")
    check(report["peak_reserved_bytes"] < report["peak_live_bytes"], f"evicted: {report['peak_reserved_bytes']}")


def each_device_has_what_it_holds():
    pathlib.Path("two.py").write_text(PRELUDE + """
other = ctypes.c_void_p()
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(other), 1))
take(5000)
must(cuda.cuCtxSetCurrent(other))
for i in range(3): take(9000)
must(cuda.cuCtxSetCurrent(context))
must(cuda.cuMemFree_v2(take(70000)))
""", encoding="utf-8")
    kedge_run(sys.executable, "-s", "two.py", capture="two.kcap", SIMCUDA_DEVICES=2)
    _, _, played, report = reserved("two")
    held = {m["device"]: m["reserved_bytes"] for m in report["device_memory"]}
    same("devices", len(played), 2)
    check(all(max(p["pool"]) >= kib << 10 for p, kib in zip(played, (75000, 27000), strict=True)), f"{[max(p['pool']) for p in played]}")
    check(max(played[1]["pool"]) < 60000 << 10, f"the second device has memory of the first: {held}")


if __name__ == "__main__":
    main(threads_of_python_have_tracks_and_frames_of_their_own, memory_without_addresses_has_a_place_in_a_snapshot,
         rows_are_replayed_to_the_same_peak, what_is_reserved_in_a_snapshot_is_what_was_held,
         without_a_pool_what_the_program_asks_for_is_reserved, a_ring_ends_with_what_is_held,
         what_hints_release_or_evict_is_not_reserved, each_device_has_what_it_holds)
