# SPDX-License-Identifier: MIT
"""A log of Paddle's own allocator, imported: its figures are Paddle's, and its requests are those that kedge saw.

Paddle's auto-growth allocator logs its requests (GLOG_v=10), without kedge. In another run of the script kedge sees each tensor
(FLAGS_use_system_allocator, which `kedge run` chooses). Both have to tell of the same requests in the same order. (After
to_static there is no such order: two runs of the script free in two orders.)
"""
import csv
import json
import re
import subprocess

import anchors
import harness

PACKAGE, TITLE = "paddlepaddle-gpu", "Logs of Paddle's allocator"

STEPS = 3
ROUNDED_TO = 256 # what Paddle's allocator rounds a request to, and what it counts
LOG = "run.log"
# A log has all that the program prints, in its order. PaddlePaddle tries a failed request again after so many milliseconds.
LOGGED = ["sh", "-c", f'exec "$@" >{LOG} 2>&1', "sh"]
SETTINGS = {"GLOG_v": "10", "FLAGS_gpu_allocator_retry_time": "100"}
FIGURES = ("max_bytes", "remaining_bytes", "allocated_bytes", "allocated_count", "freed_bytes", "freed_count")
VIEWS = re.compile(r"^  ([a-z]+)  ", re.M)


class Failed(Exception):
    """A command did not do what it was to do."""


def kedge(work, *line):
    done = subprocess.run([str(x) for x in (harness.KEDGE, *line)], cwd=work, env=harness.environment(), capture_output=True,
                          text=True, timeout=harness.TIMEOUT, check=False)
    if done.returncode != 0:
        raise Failed(f"kedge {' '.join(map(str, line))}: exit {done.returncode}: {done.stderr.strip()[-800:]}")
    return done.stdout


def told(work, *line):
    return json.loads(kedge(work, *line, "--json"))


def logged(row, work, expected, **env):
    """Runs the script without kedge. What its log says."""
    done = harness.execute(row, LOGGED, work, **SETTINGS, **env)
    text = (work / LOG).read_text(encoding="utf-8", errors="replace")
    if done.status != expected:
        raise Failed(f"exit {done.status} instead of {expected}: {text[-800:]}")
    kedge(work, "import", LOG, "-o", "log.kcap")
    return text


def requests(work, capture):
    """[(allocation or free, its number, its size)] of a capture, in its order."""
    kedge(work, "export", f"{capture}.kcap", "--to", "csv", "-o", f"{capture}.csv")
    with open(work / f"{capture}.csv", newline="", encoding="utf-8") as f:
        return [(r["op"], int(r["id"]), int(r["size"])) for r in csv.DictReader(f)]


def peak_rounded(events):
    live = most = 0
    sizes = {}
    for kind, number, size in events:
        if kind == "a":
            sizes[number] = -(-size // ROUNDED_TO) * ROUNDED_TO
            live += sizes[number]
        else:
            live -= sizes.pop(number)
        most = max(most, live)
    return most


def as_paddle_counts(work, text):
    """(what differs from Paddle's own figures, the log's requests)"""
    said = json.loads(re.search(r"^figures (\{.*\})$", text, re.M)[1])
    events = requests(work, "log")
    played = told(work, "whatif", "log.kcap", "--policy", "paddle")
    pairs = {"reserved": (told(work, "report", "log.kcap")["peak_reserved_bytes"], said["apart"]["max_reserved"]),
             "peak live": (peak_rounded(events), said["exact"]["max_allocated"]),
             "calls of the driver by the model of Paddle's allocator": (played["passes"][0]["driver_calls"], text.count("[cudaMalloc]"))}
    return [f"{what}: {mine}, PaddlePaddle says {its}" for what, (mine, its) in pairs.items() if mine != its], events


def as_kedge_saw(row, work, events):
    """What differs from a capture of the script, over the whole run and in one of its steps."""
    done = harness.execute(row, anchors.kedge(capture=work / "run.kcap"), work, KEDGE_STACKS="python")
    if done.status != 0:
        raise Failed(f"under kedge: exit {done.status}: {done.errors.strip()[-800:]}")
    wrong = [] if requests(work, "run") == events else ["the requests in the log are not those in the capture"]
    for window in ((), ("--from", "step_1", "--to", "step_1")):
        mine, its = (told(work, "report", f"{name}.kcap", *window) for name in ("run", "log"))
        wrong += [f"{' '.join(window)} {key}: {its[key]} in the log, {mine[key]} in the capture" for key in FIGURES if mine[key] != its[key]]
    if mine["allocated_count"] == 0 or mine["max_bytes"] >= told(work, "report", "run.kcap")["allocated_bytes"]:
        wrong.append("step_1 is no part of the run")
    return wrong


def out_of_memory(row, work, most):
    """On a device of less than the script needs, the log tells which request failed."""
    text = logged(row, work, 1, SIMCUDA_MEMORY=most)
    ooms = told(work, "report", "log.kcap", "--view", "oom")["ooms"]
    said = re.search(r"Cannot allocate ([\d.]+)MB memory on GPU 0", text)
    if not said or not ooms:
        return [f"on {most} bytes: PaddlePaddle says {said and said[0]!r}, the log tells of {len(ooms)} failed allocations"]
    return [f"a failed allocation of {o['requested_bytes']} bytes, PaddlePaddle says {said[1]} MB" for o in ooms
            if f"{o['requested_bytes'] / 2**20:.6f}" != said[1]]


def imported(row, work):
    try:
        text = logged(row, work, 0)
        wrong, events = as_paddle_counts(work, text)
        wrong += as_kedge_saw(row, work, events)
        views = VIEWS.findall(kedge(work, "report", "--help").partition("\nviews:\n")[2])
        empty = [v for v in views if not kedge(work, "report", "log.kcap", "--view", v).strip()]
        wrong += [f"view {v} says nothing" for v in empty] + ([] if len(views) > 10 else [f"views: {views}"])
        most = peak_rounded(events)
        wrong += out_of_memory(row, work, most)
    except Failed as failed:
        return [str(failed)], ""
    return wrong, (f"{len(events)} allocations and frees are those of the capture; peak live {most} bytes as PaddlePaddle counts, "
                   f"{len(views)} views")


section = anchors.section
CASES = [
    anchors.Look("log_imported", ("paddle",), "paddle_train.py", ("--steps", str(STEPS), "--say"), look=imported),
    anchors.Look("log_imported_conv", ("paddle",), "paddle_train.py", ("--steps", str(STEPS), "--say", "--conv"), look=imported),
]
