#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: export_runtime.c
"""`kedge report --view sources`: memory of several kinds, asked for by a program and by two libraries, is told by library, kind
and place; without stacks the view says so. Where all of the device's memory is, in the same runs; and a write that nobody needs."""
import json
import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path(os.environ["TEST_BUILD"])
MIB = 1 << 20
PRELOAD = BUILD / "tests" / "preload"


ASKS = """import ctypes
cu = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cu.cuCtxSetCurrent(context) == 0
ptr = ctypes.c_ulonglong()

def one():
    assert cu.cuMemAlloc_v2(ctypes.byref(ptr), 1 << 20) == 0

def two():
    assert cu.cuMemAlloc_v2(ctypes.byref(ptr), 1 << 20) == 0

one()
two()
"""


# the program waits for the device at its end, where kedge looks; PyTorch's cache, which `kedge run` would turn off, stays on
CACHING = {"SOURCES_WAITS": "1", "PYTORCH_CUDA_ALLOC_CONF": "backend:native"}


# one block is set twice before anything uses it, another one is copied in between
WASTES = """import ctypes
cu = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cu.cuCtxSetCurrent(context) == 0
host = ctypes.create_string_buffer(4 << 20)
wasted, needed = ctypes.c_ulonglong(), ctypes.c_ulonglong()
for ptr in wasted, needed:
    assert cu.cuMemAlloc_v2(ctypes.byref(ptr), 4 << 20) == 0
for ptr in wasted, needed:
    assert cu.cuMemsetD8_v2(ptr, ctypes.c_ubyte(0), ctypes.c_size_t(4 << 20)) == 0
assert cu.cuMemcpyDtoH_v2(host, needed, ctypes.c_size_t(4 << 20)) == 0
for ptr in wasted, needed:
    assert cu.cuMemcpyHtoD_v2(ptr, host, ctypes.c_size_t(4 << 20)) == 0
"""


def run(name, command=None, **settings):
    capture = pathlib.Path(f"{name}.kcap")
    capture.unlink(missing_ok=True)
    libraries = [PRELOAD / "libasking.so", PRELOAD / "libc10_cuda.so"]
    command = command or [PRELOAD / "sources_program", *libraries]
    subprocess.run([BUILD / "kedge", "run", "--sim", "--capture", capture, "--", *command],
                   env=os.environ | settings, check=True, stderr=subprocess.DEVNULL)
    return capture


def report(capture, *options):
    return subprocess.run([BUILD / "kedge", "report", capture, *options], check=True, capture_output=True, text=True).stdout


def by_name(sources):
    return {source["library"].rsplit("/", 1)[-1]: source for source in sources}


def classes(source):
    return {row["name"]: (row["allocated_bytes"] // MIB, row["live_bytes"] // MIB) for row in source["classes"]}


def look_at_waterfalls(capture, said):
    """All of the device's memory in parts, to the byte: as it was looked at last, and with a framework that has a pool of its own."""
    def parts(said):
        fall, = said["waterfall"]
        assert sum(part["bytes"] for part in fall["parts"]) == fall["total_bytes"] == 80 << 30, fall
        return {(p["part"], p["name"] and p["name"].rsplit("/", 1)[-1]): p["bytes"] // MIB for p in fall["parts"]}
    once = parts(said)
    assert once["kedge_live_requested", None] == 2, once # kedge looks when it meets the device: at the first request
    again = parts(json.loads(report(run("waits", KEDGE_TRACE="full", **CACHING), "--json")))
    assert again["framework_pool", "PyTorch"] == 5, again
    assert again["library", "sources_program"] == 4, again
    assert again["kedge_live_requested", None] == 2, again
    # without the events nobody knows who asked; the figures are there all the same
    blind = parts(json.loads(report(run("blind", KEDGE_TRACE="agg", **CACHING), "--json")))
    assert blind["library", None] == 4 and blind["kedge_live_requested", None] == 7, blind
    assert sum(blind.values()) == sum(again.values()), (blind, again)
    track = parts(json.loads(report(run("track", KEDGE_TRACE="full", KEDGE_MODE="track", **CACHING), "--json")))
    assert track["library", "sources_program"] >= 4 and ("framework_pool", "PyTorch") in track, track


def look_at_waste():
    pathlib.Path("wastes.py").write_text(WASTES, encoding="utf-8")
    capture = run("waste", [sys.executable, "wastes.py"], KEDGE_TRACE="full")
    said = json.loads(report(capture, "--json"))["patterns"]
    dead = {row["pattern"]: row for row in said["by_pattern"]}["dead_write"]
    assert (dead["recorded"], dead["count"], dead["bytes"], dead["saves_bytes"]) == (True, 1, 4 * MIB, 0), dead
    found, = (row for row in said["findings"] if row["pattern"] == "dead_write")
    assert found["advice"].startswith("Leave out the first of two copies or sets"), found
    text = " ".join(report(capture, "--view", "patterns", "--filter", "dead write").split())
    assert "0.00 B dead write 1 4.00 MiB" in text, text


def main():
    capture = run("stacks", KEDGE_TRACE="full")
    said = json.loads(report(capture, "--json", "--top", "99"))
    sources = by_name(said["sources"])
    assert set(sources) == {"sources_program", "libasking.so", "libc10_cuda.so"}, sources.keys()
    assert classes(sources["sources_program"]) == {"pooled": (2, 2), "vmm": (4, 4), "managed": (1, 1), "host": (6, 6)}, sources
    assert classes(sources["libasking.so"]) == {"pooled": (3, 0)}, sources["libasking.so"]
    assert classes(sources["libc10_cuda.so"]) == {"pooled": (5, 5)}, sources["libc10_cuda.so"]
    assert sources["sources_program"]["at_max_bytes"] == 7 * MIB, "host memory is in no sum"
    assert sum(s["at_max_bytes"] for s in said["sources"]) == said["peak_live_bytes"] == 12 * MIB, said["peak_live_bytes"]
    assert said["allocations_without_stack"] == 0
    places = sources["libc10_cuda.so"]["sites"]
    assert [place["site"].split()[0] for place in places] == ["ask_on_stream"], places
    # a framework's library: its places are called by the program's lines that asked there
    assert places[0]["stack"][1]["function"] == "main", places
    text = " ".join(report(capture, "--view", "sources").split()) # wherever the lines end
    for word in ("libc10_cuda.so", "managed", "by main sources_program.c:", "by ask asking_lib.c:", "host (not device memory)",
                 "Device 0, all of its 80.00 GiB", "kedge's pool, live: as the program asked", "free on the device"):
        assert word in text, (word, text)
    # the parts of the device add up
    look = said["device_memory"][0]
    parts = look["reserved_bytes"] + look["driver_bytes"] + look["graph_reserved_bytes"] + look["overhead_bytes"] + look["free_bytes"]
    assert parts == look["total_bytes"], look
    look_at_waterfalls(capture, said)
    look_at_waste()
    # a Python function is told beside the library that asked for it
    pathlib.Path("asks.py").write_text(ASKS, encoding="utf-8")
    said = json.loads(report(run("python", [sys.executable, "asks.py"]), "--json", "--top", "99"))
    places = [place["python_site"] for source in said["sources"] for place in source["sites"]]
    if any("Python stacks of" in note for note in said["notes"]):
        assert sorted(places) == ["one asks.py:8", "two asks.py:11"], places
    # without events the sums that the run kept by place
    capture = run("aggregates", KEDGE_TRACE="agg")
    aggregates = by_name(json.loads(report(capture, "--json", "--top", "99"))["sources"])
    assert set(aggregates) == set(sources), aggregates.keys()
    for name, source in sources.items():
        for key in ("allocated_bytes", "allocated_count", "live_bytes", "live_count", "at_max_bytes"):
            assert aggregates[name][key] == source[key], (name, key, aggregates[name], source)
    assert aggregates["libasking.so"]["own_peak_bytes"] == 3 * MIB and aggregates["sources_program"]["own_peak_bytes"] is None
    assert "sums by place" in " ".join(report(capture, "--view", "sources").split())
    # what the depth cuts off is told
    assert "stacks end at the depth" not in report(capture, "--all")
    text = report(run("cut", KEDGE_STACKS="auto,depth=6"), "--all")
    assert " stacks end at the depth (KEDGE_STACKS=depth=N looks further)" in text, text
    text = report(run("bare", KEDGE_STACKS="off"), "--view", "sources")
    assert "6 of 6 allocations have no stack (KEDGE_STACKS=off)" in text and "(no stack)" in text, text
    return 0


if __name__ == "__main__":
    sys.exit(main())
