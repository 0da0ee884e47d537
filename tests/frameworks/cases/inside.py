# SPDX-License-Identifier: MIT
# covers: tensors.c
"""Tensors in the segments of PyTorch's own allocator: what `kedge import` takes from the capture is what PyTorch counts."""
import json
import subprocess

import anchors
import harness
import snapshots

PACKAGE, TITLE = "torch", "Tensors under PyTorch's own allocator"
FRAMEWORK = ("--api", "framework")


def imported(work, name):
    """The tensors of a run's capture: (what import says, the report of them)."""
    done = subprocess.run([str(harness.KEDGE), "import", f"{name}.kcap", "-o", "tensors.kcap", "--json"], cwd=work, check=False,
                          env=harness.environment(), capture_output=True, text=True, timeout=harness.TIMEOUT)
    if done.returncode != 0:
        return done.stderr, None
    return json.loads(done.stdout), anchors.reports(work, "tensors")[0]


def run(row, work, **env):
    """Without kedge and with it: (what differs, the run with it)."""
    bare = harness.execute(row, [], work)
    done = harness.execute(row, anchors.kedge(*FRAMEWORK, capture=work / "run.kcap"), work, **env)
    return harness.compare(bare, done, ()), done


def counted(row, work):
    """The figures are PyTorch's own, and a stack reaches the script."""
    wrong, done = run(row, work)
    counts, tensors = imported(work, "run")
    if tensors is None:
        return [*wrong, counts], ""
    said = done.figures["exact"]
    wrong += [f"{key}: {tensors[key]}, PyTorch says {said[name]}" for key, name in snapshots.SAME.items()
              if name in said and tensors[key] != said[name]]
    if counts["left_out_count"] or counts["before_count"]:
        wrong.append(f"{counts['left_out_count']} records make no sense, {counts['before_count']} blocks lived before")
    if not any(row.case.script in (f["file"] or "") for p in tensors["places"] for f in p["stack"]):
        wrong.append("no stack reaches the script")
    segments = anchors.reports(work, "run")[0]
    told = segments["tensors"]
    if told["max_bytes"] != said["requested_bytes.all.peak"] or told["framework_max_bytes"] != told["max_bytes"] or not told["complete"]:
        wrong.append(f"report: {told['max_bytes']} bytes of tensors, PyTorch says {said['requested_bytes.all.peak']}")
    if told["segments_bytes"] != told["max_bytes"] + told["cached_bytes"] or told["segments_bytes"] > segments["peak_reserved_bytes"]:
        wrong.append(f"report: {told['segments_bytes']} bytes of segments, of which {told['cached_bytes']} are cached")
    if sum(r["bytes"] for r in told["rows"]) != told["max_bytes"]:
        wrong.append("report: the lines do not add up to the peak")
    if not any(a["name"] == "step/backward" and a["allocated_bytes"] for a in tensors["anchors"]):
        wrong.append("no tensor is in step/backward")
    return wrong, f"{tensors['allocated_count']} allocations of tensors in {segments['allocated_count']} segments, as PyTorch counts them"


def bounded(row, work):
    """Of more events than the bound the newest are kept."""
    wrong, _ = run(row, work, KEDGE_TENSORS="events=1000")
    counts, tensors = imported(work, "run")
    if tensors is None:
        return [*wrong, counts], ""
    if not 300 < counts["allocated_count"] + counts["freed_count"] - counts["before_count"] <= 1000:
        wrong.append(f"{counts} with 1000 events")
    return wrong, f"{counts['allocated_count']} allocations and {counts['freed_count']} frees are kept of a bound of 1000 events"


def failed(row, work):
    """A run that ends by an OutOfMemoryError has the request that failed, and what was live."""
    wrong, done = run(row, work)
    counts, tensors = imported(work, "run")
    if tensors is None:
        return [*wrong, counts], ""
    if done.status == 0 or counts["oom_count"] == 0 or len(tensors["ooms"]) == 0:
        wrong.append(f"exit {done.status}, {counts['oom_count']} failed allocations")
    return wrong, f"{counts['oom_count']} failed allocations"


def read(row, work):
    """What the program itself lets PyTorch record is read, and the program's own snapshot is as without kedge."""
    wrong, done = run(row, work)
    counts, tensors = imported(work, "run")
    if tensors is None:
        return [*wrong, counts], ""
    said = done.figures["exact"]
    wrong += [f"{key}: {tensors[key]}, PyTorch says {said[name]}" for key, name in snapshots.SAME.items() if tensors[key] != said[name]]
    return wrong, f"{counts['allocated_count']} allocations, of the program's own record"


def off(row, work):
    """KEDGE_TENSORS=off leaves PyTorch's history alone, and another allocator needs none."""
    wrong, _ = run(row, work, KEDGE_TENSORS="off")
    if imported(work, "run")[1] is not None:
        wrong.append("there is a record with KEDGE_TENSORS=off")
    done = harness.execute(row, anchors.kedge(capture=work / "stream.kcap"), work)
    if done.status != 0 or imported(work, "stream")[1] is not None:
        wrong.append(f"exit {done.status}, or a record with backend:cudaMallocAsync")
    return wrong, "no record"


section = anchors.section
GPT = ("torch_gpt.py", ("--steps", "3"))
CASES = [
    anchors.Look("tensors_counted", anchors.BOTH, *GPT, look=counted, short=("torch",)),
    anchors.Look("tensors_bounded", anchors.BOTH, *GPT, look=bounded),
    anchors.Look("tensors_failed", anchors.BOTH, "torch_leak.py", ("--leak",), memory="400M", look=failed),
    anchors.Look("tensors_read", anchors.BOTH, "torch_snapshot.py", look=read),
    anchors.Look("tensors_off", ("torch",), *GPT, look=off),
]
