#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: carried.c report_patterns.c report_places.c report_sources.c report_waterfall.c readdefs.c
# readlive.c readlog.c readplace.c readwalk.c readevent.c
"""A recount: every figure that kedge prints, computed a second time from what the program itself wrote down.

    recount.py all|short|spoilt|KIND... [--seeds N] [--first SEED] [--verbose]

recount_program.c does what a seed says and logs it. recount_log.py reads that log, and nothing of kedge's: no capture, no reader,
no line of its code. By the definitions of the man pages it computes what each view of the report, its windows, the page, the
exports, check, diff, ranks, suggest and whatif have to print; recount_views.py compares figure by figure. KINDS are the kinds
of runs, SEVERAL those that need several runs.

"Not known" (null, "?", unknown, a row or an answer that is refused) is right where the record cannot tell: events were overwritten
or never kept, or the run was cut off. Such answers are counted apart. A wrong number is a difference, also there.

recount_known.py lists the differences that are known, by kind and view. One that is not listed fails; in a run of all kinds, or
of the short ones, a listed one that does not occur fails too, so that the list gets shorter as they are mended. `spoilt` shows
that the recount can fail.
"""
import argparse
import collections
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import time

from recount_known import KNOWN, is_known
from recount_log import ALLOC, ENTER, FREE, MB, PROGRAM, Hint, Run, records_of, stack_key, sums
from recount_views import VIEWS, Job, Tally, command, command_json, keyed, peaks_of
from regresskit import KEDGE, environment, human

# ---- runs ----

class Kind:
    """How a run is made: words for the program, and the environment."""

    def __init__(self, *words, trace="full,uses=on", rc=0, kill=False, views=VIEWS, hints=None, evicts=None, bundle=False, **env):
        self.words, self.rc, self.kill, self.views = words, rc, kill, views
        self.env = {"KEDGE_TRACE": trace} | env
        options = dict(w.split("=") for w in words)
        self.facts = {"devices": int(options.get("devices", 1)), "cut": kill, "uses": "uses=" in trace, "hints": [],
                      "evicts": evicts}
        self.hints_mode, self.bundle = hints or evicts, bundle
        self.mode = env.get("KEDGE_MODE", "pool")
        if self.facts["devices"] > 1:
            self.env["SIMCUDA_DEVICES"] = str(self.facts["devices"])


HINTED = "steps=12", "late=1", "big=24" # large blocks that a hint picks, some of which are freed late
EVICTED = "steps=24", "leak=0", "big=28", "reuse=1", "ops=12" # large blocks that are used again
ALL_APIS = "apis=1023"
NVTX = {"KEDGE_ANCHORS": "nvtx"} # captures and launches are anchors else
KINDS = {
    "full": Kind("steps=12"),
    "ring": Kind("steps=12", trace="ring,uses=on"),
    "ring_wrapped": Kind("steps=1500", "ops=16", trace="ring,mb=1"),
    "ring_quiet": Kind("steps=1000", "ops=16", "threads=2", "quiet=2", "leak=400", trace="ring,mb=1"),
    "agg": Kind("steps=12", trace="agg"),
    "killed": Kind("steps=400", "leak=0", kill=True),
    "killed_ring": Kind("steps=1500", "leak=0", kill=True, trace="ring,mb=1"),
    "threads": Kind("steps=6", "threads=4", "shared=1"),
    "threads_agg": Kind("steps=6", "threads=4", "shared=1", trace="agg"),
    "devices": Kind("steps=10", "devices=2"),
    "devices_agg": Kind("steps=10", "devices=2", trace="agg"),
    "resets": Kind("steps=9", "resets=2"),
    "oom": Kind("steps=15", "huge=8", SIMCUDA_MEMORY="96M", KEDGE_LOG="off"),
    "oom_devices": Kind("steps=15", "huge=8", "devices=2", SIMCUDA_MEMORY="96M", KEDGE_LOG="off"),
    "oom_agg": Kind("steps=15", "huge=8", "devices=2", trace="agg", SIMCUDA_MEMORY="96M", KEDGE_LOG="off"),
    "driver": Kind("steps=12", ALL_APIS, **NVTX),
    "driver_agg": Kind("steps=12", ALL_APIS, trace="agg", **NVTX),
    "driver_devices": Kind("steps=10", ALL_APIS, "devices=2", **NVTX),
    "streams": Kind("steps=12", "apis=2"),
    "pools": Kind("steps=12", "apis=130"),
    "graphs": Kind("steps=12", "apis=67", **NVTX),
    "trimmed": Kind("steps=12", "apis=130", "trims=1", "devices=2"),
    "trimmed_agg": Kind("steps=12", "apis=3", "trims=1", trace="agg"),
    "trimmed_mapped": Kind("steps=12", "apis=3", "trims=1", KEDGE_POOL="sync=mapped"),
    "shown": Kind("steps=12", "apis=35", "shown=6", **NVTX),
    "shown_agg": Kind("steps=12", "apis=35", "shown=6", trace="agg", **NVTX),
    "resets_threads": Kind("steps=6", "resets=1", "threads=3"),
    "resets_threads_agg": Kind("steps=6", "resets=1", "threads=3", trace="agg"),
    "resets_devices": Kind("steps=9", "resets=2", "devices=2", "apis=35", **NVTX),
    "driver_threads": Kind("steps=5", ALL_APIS, "threads=4", "devices=2", **NVTX),
    "oom_threads": Kind("steps=8", "huge=8", "threads=4", SIMCUDA_MEMORY="96M", KEDGE_LOG="off"),
    "bundled": Kind("steps=10", bundle=True),
    "mapped": Kind("steps=12", KEDGE_POOL="sync=mapped"),
    "shadow": Kind(*HINTED, hints="shadow"),
    "poison": Kind(*HINTED, hints="poison"),
    "trap": Kind(*HINTED, hints="trap"),
    "live": Kind(*HINTED, hints="live"),
    "live_ring": Kind(*HINTED, hints="live", trace="ring"),
    "live_agg": Kind(*HINTED, hints="live", trace="agg"),
    "shadow_threads": Kind("steps=8", "late=1", "big=24", "threads=3", hints="shadow"),
    "trap_threads": Kind("steps=8", "late=1", "big=24", "threads=3", hints="trap"),
    "shadow_devices": Kind(*HINTED, "devices=2", hints="shadow"),
    "evict": Kind(*EVICTED, trace="full,uses=order", evicts="trial"),
    "evict_shadow": Kind(*EVICTED, trace="full,uses=order", evicts="shadow"),
    "track": Kind("steps=12", ALL_APIS, KEDGE_MODE="track", **NVTX),
}


HINTS = """kedge-hints: 1
hints:
  - {id: large, do: release, pick: {size: ">=2MiB", inside: "step/forward"}, when: {anchor: "step/forward", edge: exit}, proof: "by the script"}
  - id: small
    do: release
    min-size: 64KiB
    backend: alias
    pick: {size: ">=64KiB", inside: "step/backward"}
    when: {anchor: "step/backward", edge: exit}
    proof: "nothing of a range is used behind it"
"""

EVICT = """kedge-hints: 1
hints:
  - {id: out, do: evict, pick: {size: ">=2MiB"}, when: {anchor: step, edge: enter}, cap: {device: 24MiB}, proof: "by the script"}
"""

# The short form, of one seed.
SHORT = ["full", "agg", "killed", "threads", "devices", "resets", "oom", "oom_devices", "driver", "track", "shadow", "diff", "suggest", "ranks"]
KILLS = 8 # until one comes between two calls
FLOOR = 300 # comparisons in a run of any kind
FLOORS_OF_SEVERAL = 8 # of one that compares runs with each other


def start(kind, log, capture, seed):
    options = ["--hints", "hints.yaml", "--hints-mode", kind.hints_mode] if kind.hints_mode else []
    if kind.kill:
        options.append("-q") # kedge becomes the program, so that it is the one that is killed
    words = [KEDGE, "run", "--sim", *options, "--capture", capture, "--", PROGRAM, log, seed, *kind.words]
    with open("out.txt", "wb") as out:
        return subprocess.Popen(list(map(str, words)), env=environment(**kind.env), stdin=subprocess.DEVNULL, stdout=out, stderr=out)


def recorded(path):
    try:
        with open(path, "rb") as f:
            return struct.unpack("<Q", f.read(8))[0]
    except (OSError, struct.error):
        return 0


def end_of(process, kind, log, moment):
    """Waits for the end of the program; one that is to be killed is so when its log has come to the moment."""
    if kind.kill:
        wanted = moment.randrange(200, 20000 if "ring" in kind.env["KEDGE_TRACE"] else 4000)
        deadline = time.monotonic() + 60
        while recorded(log) < wanted and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.0002)
        process.send_signal(signal.SIGKILL)
    status = process.wait(timeout=120)
    if not kind.kill and status != kind.rc:
        raise RuntimeError(f"{kind.words}: exit {status}: {pathlib.Path('out.txt').read_text(encoding='utf-8', errors='replace')[-600:]}")


def make(kind, seed, log, capture):
    """Runs the program. One that is killed is so between two calls if that can be had: then every figure is exact."""
    if kind.hints_mode:
        pathlib.Path("hints.yaml").write_text(EVICT if kind.facts["evicts"] else HINTS, encoding="utf-8")
        pathlib.Path("hints.yaml.receipt").unlink(missing_ok=True)
    if kind.hints_mode == "live":
        command("verify", "--sim", "--hints", "hints.yaml", "--", PROGRAM, log, seed, *kind.words)
    moment = random.Random(seed)
    for _ in range(KILLS if kind.kill else 1):
        pathlib.Path(log).unlink(missing_ok=True)
        end_of(start(kind, log, capture, seed), kind, log, moment)
        if all(row["state"] == 2 for row in records_of(log)[-1]):
            break


def compare_all(name, kind, seed, log, capture, spoil=None, pending=True, views=None):
    tally = Tally(name)
    run = Run(log, kind.mode, pending, spoil)
    found = [Hint("large", "step/forward", 2 * MB, kind.hints_mode), Hint("small", "step/backward", 64 << 10, kind.hints_mode)] \
        if kind.hints_mode and not kind.facts["evicts"] else []
    run.play_hints(found)
    said = None if kind.kill or views else pathlib.Path("out.txt").read_text(encoding="utf-8", errors="replace")
    job = Job(name, seed, run, capture, tally, kind.facts | {"hints": found, "said": said})
    for view in views or kind.views:
        view(job)
    return tally


# ---- what needs several runs ----

def late_by_log(good, bad):
    """{stack: (bytes, count)} of the blocks of a script that the first run frees before the exit of their anchor, the second later or never."""
    late = []
    for a, b in zip(good.device, bad.device):
        if (a.bytes, a.key, a.path) != (b.bytes, b.key, b.path):
            raise RuntimeError(f"two runs of one seed differ: {a.number}, {b.number}")
        if b.ranges and a.died is not None and a.died <= a.ranges[-1].leave and (b.died is None or b.died > b.ranges[-1].leave):
            late.append(b)
    return late


def pair_of_runs(seed, words=("steps=12", "leak=0", "big=24")):
    runs = []
    for name in ("good", "bad"):
        kind = Kind(*words, f"late={int(name == 'bad')}")
        make(kind, seed, f"{name}.log", f"{name}.kcap")
        runs.append(Run(f"{name}.log"))
    return runs


def difference(tally, j, good, bad):
    """Of the peaks in a part of both runs: all of it has a cause."""
    d, peaks = j["difference"], [run.figures(*part)["peak_live_bytes"] for run, part in (good, bad)]
    tally.one("diff", "difference of the peaks", (d["peak_live_bytes"], d["not_explained_bytes"]), (peaks[1] - peaks[0], 0))
    tally.one("diff", "sum of causes", sum(r["bytes"] for c in d["causes"] for r in c["rows"]), peaks[1] - peaks[0])


def several_diff(tally, seed):
    good, bad = pair_of_runs(seed)
    late = late_by_log(good, bad)
    never = [b for a, b in zip(good.device, bad.device) if a.died is not None and b.died is None and b not in late]
    j = command_json("diff", "good.kcap", "bad.kcap")
    end = [[b for b in run.device if b.died is None] for run in (good, bad)]
    inside = [b for b in bad.device if b.ranges]
    outside = [b for b in bad.device if not b.ranges]
    def total(blocks):
        return sums(blocks, lambda b: 0).get(0, (0, 0))
    want = {"late_frees": len(late), "late_bytes": total(late)[0], "never_freed": len(never), "never_freed_bytes": total(never)[0],
            "extra": 0, "extra_remaining": 0, "remaining": len(end[1]),
            "remaining_bytes": total(end[1])[0], "remaining_good": len(end[0]), "remaining_good_bytes": total(end[0])[0], "paired": len(bad.device),
            "paired_bytes": total(bad.device)[0], "freed_in_anchor": 0, "missing": 0, "anchors_paired": len(bad.ranges), "complete": True,
            "allocated": dict(zip(("bytes", "count"), total(bad.device))), "looked_at": dict(zip(("bytes", "count"), total(inside)))}
    for key, value in want.items():
        tally.one("diff", key, j[key], value)
    tally.one("diff", "outside of anchors", j["passed_over"]["outside"], dict(zip(("bytes", "count"), total(outside))))
    tally.rows("diff", "late", keyed(j["groups"]), sums(late, lambda b: b.key))
    sizes = collections.Counter(size for g in j["groups"] for size in g["sizes"])
    tally.one("diff", "sizes", set(sizes), {b.bytes for b in late})
    text = command("diff", "good.kcap", "bad.kcap").stdout
    tally.one("diff", "text", f"{human(total(late)[0])}" in text, True)
    checked = command_json("check", "bad.kcap", f"late(good.kcap)=={len(late + never)}", "extra(good.kcap)==0",
                           f"late(good.kcap)<{len(late + never)}", rc=(0, 1, 2))
    tally.one("check", "late and extra", [c["answer"] for c in checked["checks"]], ["yes", "yes", "no"])
    difference(tally, j, (good, ()), (bad, ()))
    names = sorted({r.path for r in bad.ranges})
    for name in names:
        first, last = bad.window(name, name)
        j = command_json("diff", "good.kcap", "bad.kcap", "--from", name, "--to", name)
        mine = [b for b in late if first <= b.born <= last]
        tally.one("diff", f"from and to {name}", (j["late_bytes"], j["late_frees"]), total(mine))
        difference(tally, j, (good, good.window(name, name)), (bad, (first, last)))


def hints_of(path, rows):
    """The hints that kedge suggest wrote, as the recount's own: by the frames in their titles, anchor and sizes."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    found = []
    for row in rows:
        part = text[:text.index(f'id: "{row["id"]}"')].rsplit("the first of them:", 1)[-1]
        frames = [(name, int(line)) for name, line in re.findall(r"((?:take|site)_\w+) recount_program\.c:(\d+)", part + row["site"])]
        hint = Hint(row["id"], row["inside"], row["size_min"] or 2 * MB, "shadow", row["size_max"] or 1 << 60, frames)
        hint.when = row["when"]
        found.append(hint)
    return found


def several_suggest(tally, seed):
    """What suggest predicts is what the blocks that its hints pick add up to, and what a run with these hints in shadow says."""
    _, bad = pair_of_runs(seed)
    for name, words in (("two", ("--good", "good.kcap", "--bad", "bad.kcap")), ("one", ("bad.kcap",))):
        output = f"suggested_{name}.yaml"
        j = command_json("suggest", *words, "-o", output, "--force", rc=(0, 1))
        tally.one("suggest", f"{name}: max_bytes", j["max_bytes"], bad.highest(bad.levels)[0])
        if not j["hints"]:
            tally.one("suggest", f"{name}: no hint, predicted", j["predicted_max_bytes"], j["max_bytes"])
            continue
        run = Run("bad.log")
        found = hints_of(output, j["hints"])
        run.play_hints(found)
        covered = [b for h in found for b in h.released]
        tally.one("suggest", f"{name}: predicted_max_bytes", j["predicted_max_bytes"], run.figures()["max_would_bytes"])
        tally.one("suggest", f"{name}: covered", (j["covered"]["bytes"], j["covered"]["count"]), sums(covered, lambda b: 0).get(0, (0, 0)))
        for row, hint in zip(j["hints"], found):
            tally.one("suggest", f"{name}: hint {row['id']}", (row["bytes"], row["count"]), sums(hint.released, lambda b: 0).get(0, (0, 0)))
        for mode in ("shadow", "trap"):
            predicted_run(tally, f"{name}, {mode}", seed, output, mode, j)


def predicted_run(tally, what, seed, hints_file, mode, predicted):
    """The same script with the hints: its report and check have what was predicted."""
    done = run_quietly("--hints", hints_file, "--hints-mode", mode, "--capture", "predicted.kcap", "--", PROGRAM, "predicted.log", seed,
                       "steps=12", "leak=0", "big=24", "late=1", KEDGE_TRACE="full")
    tally.one("suggest", f"{what}: status", done.returncode, 0)
    report = command_json("report", "predicted.kcap")
    tally.one("suggest", f"{what}: max_would_bytes", report["max_would_bytes"], predicted["predicted_max_bytes"])
    answer = command_json("check", "predicted.kcap", "--predicted", hints_file, rc=(0, 1, 2))
    tally.one("suggest", f"{what}: check --predicted", answer["answer"], "yes")


def run_quietly(*words, **env):
    return subprocess.run([str(KEDGE), "run", "-q", "--sim", *map(str, words)], env=environment(**env), stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120, check=False)


def several_ranks(tally, seed):
    """Five ranks, of which the middle one and the worst follow from the logs."""
    folder = pathlib.Path("job")
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    runs = []
    for rank in range(5):
        capture = folder / f"rank{rank}.kcap"
        run_quietly("--capture", capture, "--", PROGRAM, "rank.log", 100 * seed + rank, "steps=8", RANK=rank, KEDGE_TRACE="full")
        # ranks above 0 take FILE.RANK
        runs.append((next(iter(folder.glob(f"rank{rank}.kcap*"))), Run("rank.log")))
    j = command_json("ranks", folder, "--top", 1000000)
    rows = {row["rank"]: row for row in j["ranks"]}
    peaks = [run.highest(run.levels)[0] for _, run in runs]
    for rank, (_, run) in enumerate(runs):
        row = rows.get(str(rank), rows.get(rank, {}))
        tally.one("ranks", f"rank {rank} peak_live_bytes", row.get("peak_live_bytes"), peaks[rank])
        tally.one("ranks", f"rank {rank} peak_reserved_bytes", row.get("peak_reserved_bytes"), run.device_peaks[0])
        tally.one("ranks", f"rank {rank} failed", row.get("oom_count"), len(run.failed))
    job, = j["jobs"]
    order = sorted(range(5), key=lambda r: (peaks[r], r))
    worst, median = order[-1], order[2]
    for key, value in (("ranks", 5), ("min_bytes", peaks[order[0]]), ("median_bytes", peaks[median]), ("max_bytes", peaks[worst])):
        tally.one("ranks", f"peak {key}", job["peak_live"][key], value)
    tally.one("ranks", "the worst", pathlib.Path(job["worst"]).name, runs[worst][0].name)
    held = []
    for rank in (worst, median):
        run = runs[rank][1]
        moment = run.highest(run.levels)[1]
        held.append({k: v[0] for k, v in sums([b for b in run.device if b.lives_at(moment)], lambda b: b.key).items()})
    more = {k: (v, held[1].get(k, 0)) for k, v in held[0].items() if v > held[1].get(k, 0)}
    tally.rows("ranks", "site", {stack_key(s["stack"]): (s["bytes"], s["median_bytes"]) for s in job["sites"]}, more)
    less = sum(v - held[0].get(k, 0) for k, v in held[1].items() if v > held[0].get(k, 0))
    tally.one("ranks", "less", job["less_bytes"], less)
    several_anchors(tally, folder, [run for _, run in runs])


def several_anchors(tally, folder, runs):
    job, = command_json("ranks", folder, "--by", "anchor", "--top", 1000000)["jobs"]
    got = {a["name"]: a for a in job["anchors"]}
    for name in sorted({r.path for run in runs for r in run.ranges}):
        figures = []
        for run in runs:
            mine = [run.figures(r.enter, r.leave, own=run.in_range(r)) for r in run.ranges if r.path == name]
            if mine:
                figures.append((max(f["peak_live_bytes"] for f in mine), max(f["remaining_bytes"] for f in mine)))
        for i, key in enumerate(("peak_live", "remaining")):
            values = sorted(f[i] for f in figures)
            want = {"ranks": len(values), "min_bytes": values[0], "median_bytes": values[(len(values) - 1) // 2], "max_bytes": values[-1]}
            for figure, value in want.items():
                tally.one("ranks", f"anchor {name} {key} {figure}", got.get(name, {}).get(key, {}).get(figure), value)


def several_off(tally, seed):
    """Without a record there is no capture, and the program does the same."""
    for env in ({"KEDGE_TRACE": "off"}, {"KEDGE_MODE": "off"}):
        pathlib.Path("off.kcap").unlink(missing_ok=True)
        done = run_quietly("--capture", "off.kcap", "--", PROGRAM, "off.log", seed, "steps=12", ALL_APIS, **env)
        tally.one("off", f"{env}: status", done.returncode, 0)
        tally.one("off", f"{env}: capture", pathlib.Path("off.kcap").exists(), False)
        got = [(row["what"], row["bytes"], row["result"]) for row in records_of("off.log")[-1]]
        make(Kind("steps=12", ALL_APIS), seed, "on.log", "on.kcap")
        want = [(row["what"], row["bytes"], row["result"]) for row in records_of("on.log")[-1]]
        tally.one("off", f"{env}: what the program did", got == want, True)
        refused = command("report", "off.kcap", rc=(2,))
        tally.one("off", f"{env}: report", bool(refused.stderr), True)


def several_processes(tally, seed):
    """Processes of one run: the first has the name that was asked for, and each capture is about its own process."""
    folder = pathlib.Path("processes")
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    kind = Kind("steps=6", "devices=2", ALL_APIS, **NVTX)
    script = "".join(f"{PROGRAM} processes/{i}.log {100 * seed + i} {' '.join(kind.words)} & " for i in range(3)) + "wait"
    run_quietly("--capture", "processes/all.kcap", "--", "sh", "-c", script, **kind.env)
    captures = {command_json("report", path)["program"]["pid"]: path for path in folder.glob("all.kcap*")}
    tally.one("processes", "captures", len(captures), 3)
    tally.one("processes", "the first has the name", folder / "all.kcap" in captures.values(), True)
    for i in range(3):
        log = folder / f"{i}.log"
        path = captures.get(Run(log).tids[0])
        tally.one("processes", f"process {i} has a capture", bool(path), True)
        if path:
            views = [view for view in VIEWS if view.__name__ != "last_words"]
            tally.add(compare_all(f"processes {i}", kind, seed, log, path, views=views))


UNLOCKED = "threads=8", "locked=0", "uses=0"
UNLOCKED_TRACES = {"full": "full", "ring": "ring", "wrapped": "ring,mb=1", "agg": "agg"}


def several_unlocked(tally, seed):
    """Threads that do not wait for each other: what does not depend on the order, and the peak is one figure wherever it stands."""
    for name, trace in UNLOCKED_TRACES.items():
        steps = f"steps={600 if name == 'wrapped' else 150}"
        for words in ((*UNLOCKED, steps), (*UNLOCKED, steps, "devices=2", "apis=959")): # no stream is captured beside others
            one_unlocked(tally, seed, f"{name}, {words[-1]}", words, trace)


def one_unlocked(tally, seed, name, words, trace):
    kind = Kind(*words, trace=trace)
    make(kind, seed, "unlocked.log", "unlocked.kcap")
    run = Run("unlocked.log")
    report = command_json("report", "unlocked.kcap", "--top", 1000000)
    tally.one("unlocked", f"{name}: complete", report["complete"], trace in ("full", "ring"))
    want = {k: v for k, v in run.figures().items() if k.startswith(("allocated", "freed", "remaining"))}
    for key, value in want.items():
        tally.one("unlocked", f"{name}: {key}", report[key], value)
    tally.rows("unlocked", f"{name}: live", keyed(report["live"]), sums([b for b in run.device if b.died is None], lambda b: b.key))
    rows = keyed(report["places"], "allocated_bytes", "allocated_count", lambda r: (r["device"],))
    tally.rows("unlocked", f"{name}: allocated", {k: v for k, v in rows.items() if v[1]}, sums(run.device, lambda b: (b.key, b.device)))
    said = pathlib.Path("out.txt").read_text(encoding="utf-8", errors="replace")
    seen = peaks_of("unlocked.kcap", report, said)
    for what, value, expected in seen:
        tally.one("unlocked", f"{name}: one peak, {what}", value, expected, may=not report["complete"])


SEVERAL = {"diff": several_diff, "suggest": several_suggest, "ranks": several_ranks, "off": several_off, "unlocked": several_unlocked,
           "processes": several_processes}


def recount(name, seed):
    """One run of a kind. Of a run that was killed, the call under way may be in the record or not."""
    if name in SEVERAL:
        tally = Tally(name)
        SEVERAL[name](tally, seed)
        return tally
    kind = KINDS[name]
    log, capture = f"{name}.log", f"{name}.kcap"
    make(kind, seed, log, capture)
    if kind.bundle:
        pathlib.Path("bundle.tar.zst").unlink(missing_ok=True)
        command("bundle", capture, "-o", "bundle.tar.zst")
        capture = "bundle.tar.zst"
    tallies = [compare_all(name, kind, seed, log, capture, pending=p) for p in ((False, True) if kind.kill else (True,))]
    return tallies[0].without_what_agrees_in(tallies[1]) if kind.kill else tallies[0]


# ---- results ----

class Results:
    """Of several runs: what was compared, what is new, and which of the known differences were seen."""

    def __init__(self):
        self.compared = self.unknown = self.fresh = self.different = 0
        self.seen = set()

    def add(self, name, tallies, verbose):
        """tallies: {seed: Tally} of one kind."""
        compared, unknown, fresh, rows = collections.Counter(), collections.Counter(), 0, collections.defaultdict(list)
        for seed, tally in tallies.items():
            compared += tally.compared
            unknown += tally.unknown
            for view, texts in tally.different.items():
                for _, text in texts:
                    row = is_known(name, view, text)
                    rows[view].append((row, f"seed {seed}: {text}"))
                    fresh += not row
                    self.seen.add(row)
            if sum(tally.compared.values()) < (FLOORS_OF_SEVERAL if name in SEVERAL else FLOOR):
                fresh += 1
                print(f"{name}, seed {seed}: only {sum(tally.compared.values())} comparisons")
        total = sum(len(texts) for texts in rows.values())
        print(f"{name}: {sum(compared.values())} comparisons, {sum(unknown.values())} not known, {total} differences, "
              f"{fresh} of them not listed")
        if verbose and unknown:
            print(f"    not known: {', '.join(f'{view} {count}' for view, count in unknown.most_common())}")
        for view in sorted(rows):
            new = [text for row, text in rows[view] if not row]
            print(f"    {view}: {compared[view]} comparisons, {len(rows[view])} differences, {len(new)} not listed")
            for text in ([text for _, text in rows[view]] if verbose else new[:6]):
                print(f"        {text[:400]}")
        self.compared += sum(compared.values())
        self.unknown += sum(unknown.values())
        self.fresh += fresh
        self.different += total

    def stale(self, short):
        """Rows of the list that nothing has shown."""
        rows = [row for row in KNOWN if row not in self.seen and row[4] in (("short",) if short else ("short", "all"))]
        for row in rows:
            print(f"not seen any more, remove it from the list: {row[:3]}")
        return len(rows)


def run_kinds(names, options):
    results = Results()
    for name in names:
        tallies = {seed: recount(name, seed) for seed in range(options.first, options.first + options.seeds)}
        results.add(name, tallies, options.verbose)
    return results


def spoilt():
    """The recount can fail: what is compared with a log that lacks something, or says something else, is no longer equal."""
    kind, log, capture = KINDS["full"], "spoilt.log", "spoilt.kcap"
    make(kind, 1, log, capture)
    *_, rows = records_of(log)
    chosen = random.Random(1)
    bad = 0
    for what, kind_of_row, change in (("lacks an allocation", ALLOC, None), ("lacks a free", FREE, None), ("lacks an enter", ENTER, None),
                                      ("has a byte more", ALLOC, ("bytes", 1)), ("has another stream", ALLOC, ("stream", 1))):
        number = chosen.choice([i for i, row in enumerate(rows) if row["what"] == kind_of_row and (not change or row["stream"] > 0)])
        tally = compare_all("full", kind, 1, log, capture, (number, change))
        found = collections.Counter(view for view, _ in tally.fresh())
        print(f"a log that {what}: {sum(found.values())} differences in {len(found)} views")
        bad += len(found) < 2
    return bad


def main():
    parser = argparse.ArgumentParser(description="A recount of what kedge prints.")
    parser.add_argument("kinds", nargs="+", help=f"all, short, spoilt, or some of {' '.join([*KINDS, *SEVERAL])}")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="known differences, too")
    options = parser.parse_args()
    if options.kinds == ["spoilt"]:
        sys.exit(1 if spoilt() else 0)
    group = options.kinds[0] if options.kinds in (["all"], ["short"]) else None
    results = run_kinds({"all": [*KINDS, *SEVERAL], "short": SHORT}.get(group, options.kinds), options)
    stale = results.stale(group == "short") if group else 0
    print(f"{results.compared} comparisons, {results.unknown} not known, {results.different} differences, "
          f"{results.fresh} that are not listed, {stale} listed that are gone")
    sys.exit(1 if results.fresh or stale else 0)


if __name__ == "__main__":
    main()
