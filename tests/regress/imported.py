#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records of other tools say what kedge's own capture of the same run says, or what a reader of the record alone can say."""
import collections
import csv
import json
import pathlib
import pickle
import re

from regresskit import (MODELS, SMALL_WINDOW, SOT, SOURCE, check, foreign_traces, kedge_run, main, run, same, same_by_log, seed_row,
                        tool, tool_json, trace_facts)


def a_log_of_paddles_allocator_says_what_the_capture_says():
    for form in ("pir", "pt"):
        kedge_run(SOT, "--form", form, "--graph", "small", "--paddle-log", f"{form}.log", capture=f"{form}.kcap")
    same_by_log("pt", "pir", SMALL_WINDOW, seed_row("small", "pir"))
    same("late frees from the logs alone", tool_json("diff", "pt.log.kcap", "pir.log.kcap")["late_frees"], 1)
    # What needs call sites or uses says that it has none.
    text = tool("suggest", "pir.log.kcap", "-o", "none.yaml", rc=2)
    check("does not say when memory was used" in text, f"suggest says: {text}")


def rounded_peak(events):
    """Most live bytes of rows of a csv, each block rounded to 256, as PaddlePaddle counts."""
    live, now, most = {}, 0, 0
    for row in events:
        if row["op"] == "a":
            live[row["id"]] = -(-int(row["size"]) // 256) * 256
            now += live[row["id"]]
        else:
            now -= live.pop(row["id"])
        most = max(most, now)
    return most


def a_log_of_the_real_paddle_has_the_figures_that_paddle_counts():
    log = SOURCE / "tests" / "data" / "paddle-2.6.2.log"
    text = log.read_text(encoding="utf-8")
    said = json.loads(re.search(r"^figures (.*)$", text, re.M)[1])
    made = tool_json("import", log, "-o", "real.kcap")
    for what in ("Alloc ", "Free "):
        same(what, made["allocated_count" if what == "Alloc " else "freed_count"], text.count(f"] {what}"))
    same("pieces left out", made["left_out_count"], 0)
    same("reserved", tool_json("report", "real.kcap")["peak_reserved_bytes"], said["apart"]["max_reserved"])
    tool("export", "real.kcap", "--to", "csv", "-o", "real.csv")
    with open("real.csv", newline="", encoding="utf-8") as f:
        same("peak live, as PaddlePaddle counts", rounded_peak(csv.DictReader(f)), said["exact"]["max_allocated"])
    # The model of Paddle's allocator asks the driver as often as Paddle did.
    same("calls of the driver", tool_json("whatif", "real.kcap", "--policy", "paddle", program=MODELS)["passes"][0]["driver_calls"],
         text.count("] Not found and reallocate "))
    # Of the step: what stands between the lines by which the script tells of it.
    inside = text.partition("START step_0")[2].partition("END step_0")[0]
    step = tool_json("report", "real.kcap", "--from", "step_0", "--to", "step_0")
    same("allocations of the step", (step["allocated_count"], step["freed_count"]), (inside.count("] Alloc "), inside.count("] Free ")))


class Plain(pickle.Unpickler):
    """A pickle of plain data, or none."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}")


def innermost(frames):
    """Of a stack: the innermost frame of a Python file."""
    return next(((f["name"], f["filename"], f["line"]) for f in frames if f["filename"].endswith(".py")), None)


def snapshot_facts(path, before):
    """Of a snapshot of one device whose first `before` blocks are known: most reserved bytes; who held the most live bytes."""
    with open(path, "rb") as f:
        snapshot = Plain(f).load()
    records = snapshot["device_traces"][0]
    steps = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    held = sum(s["total_size"] for s in snapshot["segments"]) - sum(steps.get(r["action"], 0) * r["size"] for r in records)
    live = {f"before {i}": (size, None) for i, size in enumerate(before)}
    most_held, now, most, owners = held, sum(before), 0, {}
    for record in records:
        held += steps.get(record["action"], 0) * record["size"]
        most_held = max(most_held, held)
        if record["action"] == "alloc":
            live[record["addr"]] = record["size"], innermost(record["frames"])
            now += record["size"]
        elif record["action"] == "free_requested":
            now -= live.pop(record["addr"])[0]
        if now > most:
            most, owners = now, dict(live)
    held_by = collections.Counter()
    for size, owner in owners.values():
        held_by[owner] += size
    return most_held, held_by


def python_frame(stack):
    return next(((f["function"], f["file"], f["line"]) for f in stack if f.get("python")), None)


def snapshots_of_pytorch_have_the_figures_of_their_traces():
    traces = {path.stem: path for path in foreign_traces()}
    snapshots = sorted((next(iter(traces.values())).parents[1] / "raw").glob("*.pickle"))
    check(snapshots, "there is no snapshot beside the traces")
    for path in snapshots:
        name = path.stem
        with open(traces[name], newline="", encoding="utf-8") as f:
            before = [int(row["size"]) for row in csv.DictReader(f) if row["time_us"] == "-1"]
        said = tool_json("import", path, "-o", f"{name}.kcap")
        same(f"{name}: live before", said["before_count"], len(before))
        j = tool_json("report", f"{name}.kcap", "--top", 100000)
        for key, value in trace_facts(traces[name]).items():
            same(f"{name}: {key}", j[key], value)
        most_held, held_by = snapshot_facts(path, before)
        same(f"{name}: reserved", j["peak_reserved_bytes"], most_held)
        got = collections.Counter()
        for row in j["live_at_max"]:
            got[python_frame(row["stack"])] += row["bytes"]
        same(f"{name}: who holds the peak, by Python frame", got, held_by)
        check(len(held_by) > 5, f"{name}: {len(held_by)} owners")
        # What is replayed is what is replayed of the csv that was made of the same snapshot.
        answers = [tool_json("whatif", file, "--policy", "kedge,torch") for file in (traces[name], f"{name}.kcap")]
        same(f"{name}: replayed", answers[1]["policies"], answers[0]["policies"])
        # The snapshot that it becomes again loads, its blocks tile their segments, its trace replays; and it is imported again.
        tool("export", f"{name}.kcap", "--to", "memory_viz", "-o", f"{name}.again.pickle")
        pathlib.Path(f"{name}.json").write_text(json.dumps(j), encoding="utf-8")
        run(SOURCE / "tests" / "unit" / "tools" / "export_read.py", "memory_viz", f"{name}.again.pickle", f"{name}.json")
        tool("import", f"{name}.again.pickle", "-o", f"{name}.again.kcap")
        same(f"{name}: peak live, exported and imported again", tool_json("report", f"{name}.again.kcap")["peak_live_bytes"],
             j["peak_live_bytes"])
        print(f"{name}: peak live {j['max_bytes']}, reserved {j['peak_reserved_bytes']}, {len(held_by)} owners")


if __name__ == "__main__":
    main(a_log_of_paddles_allocator_says_what_the_capture_says, a_log_of_the_real_paddle_has_the_figures_that_paddle_counts,
         snapshots_of_pytorch_have_the_figures_of_their_traces)
