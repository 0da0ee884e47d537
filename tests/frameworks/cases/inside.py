# SPDX-License-Identifier: MIT
# covers: tensors.c
"""Tensors in the segments of PyTorch's own allocator: what `kedge import` takes from the capture is what PyTorch counts."""
import json
import re
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


def sizes(rows):
    return {row["kind"]: row["bytes"] for row in rows or ()}


def page_data(work):
    """What the page of a run's capture has."""
    subprocess.run([str(harness.KEDGE), "report", "run.kcap", "--html", "page.html"], cwd=work, check=True, env=harness.environment(),
                   capture_output=True, timeout=harness.TIMEOUT)
    text = (work / "page.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


def checked(work, *claims):
    return subprocess.run([str(harness.KEDGE), "check", "run.kcap", "--tensors", *claims], cwd=work, check=False, env=harness.environment(),
                          capture_output=True, text=True, timeout=harness.TIMEOUT).returncode


def objects(row, work):
    """Of tensors in segments kinds, names and holders are told as of the same program's tensors under the other backend; claims may be
    of tensors; the page has all of it."""
    said = harness.execute(row, anchors.kedge(*FRAMEWORK, capture=work / "run.kcap"), work, KEDGE_HELD="oom,end")
    plain = harness.execute(row, anchors.kedge("--api", "stream", capture=work / "stream.kcap"), work)
    inside, beside = anchors.reports(work, "run", "--tensors"), anchors.reports(work, "stream")
    if said.status or plain.status or not inside or not beside:
        return [f"exit {said.status}, {plain.status}: {said.errors.strip()[-800:]}"], ""
    inside, beside = inside[0], beside[0]
    wrong = [f"{when}, {kind}: {sizes(inside.get(when)).get(kind)}, {size} under the other backend" for when in ("kinds_at_max", "kinds_at_end")
             for kind, size in sizes(beside[when]).items()
             if kind in ("parameters", "optimizer state", "buffers", "inputs") and sizes(inside.get(when)).get(kind) != size]
    # At the peak: what an interpreter frees while it ends is in the capture of blocks, and behind the record of tensors.
    names = [{(name["name"], name["bytes"]) for kind in report["kinds_at_max"] for name in kind["names"]} for report in (inside, beside)]
    if names[0] != names[1] or len(names[0]) < 100:
        wrong.append(f"other names: {sorted(names[0] ^ names[1])[:5]} of {len(names[0])}")
    held = inside.get("held_at_end", {"rows": []})
    if not sum(r["bytes"] for r in held["rows"]) == held.get("live_bytes") == inside["remaining_bytes"]:
        wrong.append(f"held at the end: {sum(r['bytes'] for r in held['rows'])} of {held.get('live_bytes')}, {inside['remaining_bytes']} are live")
    kept = {r["kind"]: (r["bytes"], r["held_by"]) for r in held["rows"]}
    parameters = kept.get("parameter", (0, []))
    if parameters[0] != sizes(inside["kinds_at_end"])["parameters"] or not any("model" in holder for holder in parameters[1]):
        wrong.append(f"parameters are held by: {parameters}")
    peak, end = inside["max_bytes"], inside["remaining_bytes"]
    if checked(work, f"peak=={peak}", f"remaining=={end}") != 0 or checked(work, f"peak<{peak}") != 1:
        wrong.append(f"check --tensors: peak=={peak} and remaining=={end}")
    page = page_data(work)["inside"]
    if [(r["bytes"], r["held_by"]) for r in page["held_at_end"]["rows"]] != [(r["bytes"], r["held_by"]) for r in held["rows"]]:
        wrong.append(f"the page has other holders: {page['held_at_end']['rows'][:2]}")
    if not any(grouping["by"] == "kind" for grouping in page["timeline"]["groupings"]):
        wrong.append("the page has no kinds of tensors")
    return wrong, f"{len(names[0])} names, {held['live_bytes']} bytes held at the end, as under the other backend"


def holder(row, work):
    """Who keeps the tensors of a run that has failed is told, by the graph that has them."""
    done = harness.execute(row, anchors.kedge(*FRAMEWORK, capture=work / "run.kcap"), work)
    told = anchors.reports(work, "run", "--tensors")
    if done.status == 0 or not told or not told[0]["ooms"]:
        return [f"exit {done.status}: {done.errors.strip()[-800:]}"], ""
    rows = told[0]["ooms"][-1].get("held", {}).get("rows", [])
    most = rows[0] if rows else {"held_by": [], "bytes": 0, "title": ""}
    wrong = [] if any("curve" in text for text in most["held_by"]) and "evaluate" in most["title"] else [f"most is held by {most}"]
    page = page_data(work)["inside"]["ooms"][-1].get("held", {}).get("rows", [])
    if [(r["bytes"], r["held_by"]) for r in page] != [(r["bytes"], r["held_by"]) for r in rows]:
        wrong.append(f"the page has other holders: {page[:2]}")
    return wrong, f"{most['bytes']} bytes of {most['title']} are held by {most['held_by'][:1]}"


section = anchors.section
GPT = ("torch_gpt.py", ("--steps", "3"))
CASES = [
    anchors.Look("tensors_counted", anchors.BOTH, *GPT, look=counted, short=("torch",)),
    anchors.Look("tensors_bounded", anchors.BOTH, *GPT, look=bounded),
    anchors.Look("tensors_failed", anchors.BOTH, "torch_leak.py", ("--leak",), memory="400M", look=failed),
    anchors.Look("tensors_read", anchors.BOTH, "torch_snapshot.py", look=read),
    anchors.Look("tensors_off", ("torch",), *GPT, look=off),
    anchors.Look("tensors_objects", anchors.BOTH, "torch_gpt.py", ("--steps", "6"), look=objects, short=("torch",)),
    anchors.Look("tensors_holder", anchors.BOTH, "torch_leak.py", ("--leak",), memory="400M", look=holder),
]
