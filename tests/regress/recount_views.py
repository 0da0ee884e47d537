# SPDX-License-Identifier: MIT
"""What kedge prints of a capture, compared with what recount_log.py makes of the program's log: view by view, figure by figure."""
import collections
import gzip
import json
import pathlib
import pickle
import random
import re
import sqlite3
import subprocess

from recount_known import is_known
from recount_log import APIS, HANDLE, MB, ON_STREAM, PROGRAM, by, stack_key, summed, sums
from pagedata import Timeline
from regresskit import KEDGE, MODELS, environment, human

# ---- comparing ----

UNKNOWN = (None, "?", "unknown", (None, None), [(None, None)])


class Tally:
    """Comparisons, answers that are not known, and differences, by view."""

    def __init__(self, kind):
        self.kind = kind
        self.compared, self.unknown = collections.Counter(), collections.Counter()
        self.different = collections.defaultdict(list)

    def one(self, view, what, got, want, may=False):
        """may: the record cannot tell, so null or "?" is right, too."""
        self.compared[view] += 1
        if got == want:
            return
        if may and got in UNKNOWN:
            self.unknown[view] += 1
            return
        self.different[view].append((what, f"{what}: {got!r} instead of {want!r}"))

    def rows(self, view, what, got, want, may=False):
        """Two tables, row by row, by their keys."""
        if got is None and may:
            self.compared[view] += 1
            self.unknown[view] += 1
            return
        for key in sorted(set(got) | set(want), key=repr):
            self.one(view, f"{what} {key}", got.get(key, "no row"), want.get(key, "no row"), may)

    def fresh(self):
        """What differs and is not listed."""
        return [(view, text) for view, rows in self.different.items() for _, text in rows if not is_known(self.kind, view, text)]

    def add(self, other):
        """What was compared of a part."""
        self.compared += other.compared
        self.unknown += other.unknown
        for view, rows in other.different.items():
            self.different[view] += rows

    def without_what_agrees_in(self, other):
        """A call was under way: what is right with it or without it is right."""
        for view, rows in self.different.items():
            both = {what for what, _ in other.different[view]}
            self.different[view] = [row for row in rows if row[0] in both]
        return self


def command(*words, rc=(0,), program=KEDGE):
    done = subprocess.run([str(program), *map(str, words)], env=environment(), capture_output=True, text=True, errors="replace",
                          timeout=300, check=False)
    if rc is not None and done.returncode not in rc:
        raise RuntimeError(f"kedge {' '.join(map(str, words))}: exit {done.returncode}: {done.stdout[-400:]}{done.stderr[-400:]}")
    return done


def command_json(*words, **options):
    return json.loads(command(*words, "--json", **options).stdout)


class Job:
    """One run: its log, its capture, and what is known of it."""

    def __init__(self, kind, seed, run, capture, tally, facts):
        self.kind, self.seed, self.run, self.capture, self.tally, self.facts = kind, seed, run, capture, tally, facts
        self.random = random.Random(f"{kind} {seed}")
        self.report = command_json("report", capture, "--top", 1000000)
        self.partial = not self.report["complete"]

    def one(self, view, what, got, want, may=None):
        self.tally.one(view, what, got, want, self.partial if may is None else may)

    def rows(self, view, what, got, want, may=None):
        self.tally.rows(view, what, got, want, self.partial if may is None else may)


    def at_peak(self):
        """What is live at the peak; where events are missing each device has its own."""
        run = self.run
        if not self.partial:
            _, moment = run.highest(run.levels)
            return [b for b in run.device if b.lives_at(moment)]
        found = []
        for blocks in by(run.device, lambda b: b.device).values():
            _, moment = run.highest(run.levels_of(blocks))
            found += [b for b in blocks if b.lives_at(moment)]
        return found

    def ask(self, view, *words):
        """The JSON of a command, or None where it says that the record cannot tell."""
        done = command(*words, "--json", rc=None)
        if done.returncode == 0:
            return json.loads(done.stdout)
        said = re.search(r"events are missing|no anchor '|not known", done.stderr)
        self.one(view, " ".join(map(str, words[2:])), "unknown" if said else done.stderr, "an answer")
        return None


# What the events alone tell: the run itself counts all others, in every mode of recording.
OF_EVENTS = ("peak_live_512_bytes", "freed_with_hints_count")


def is_all_pooled(run):
    """Then what the device gave is what the pool held."""
    return all(run.class_of(b) == "pooled" for b in run.device)


def head(job):
    """The figures of the whole run: right in every mode of recording."""
    run, j = job.run, job.report
    want = run.figures()
    want["peak_live_512_bytes"] = run.highest(run.levels_of(run.device, lambda b: b.rounded))[0]
    if job.facts["devices"] == 1 and run.closed and is_all_pooled(run):
        want["peak_reserved_bytes"] = run.device_peaks[0]
    elif run.closed:
        job.one("head", "peak reserved is of the pool alone", j["peak_reserved_bytes"] <= sum(run.device_peaks), True)
        job.one("head", "the driver's part is named", j["driver_peak_bytes"] > 0, not is_all_pooled(run))
    for key, value in want.items():
        job.one("head", key, j[key], value, job.partial and key in OF_EVENTS)
    if want.get("peak_reserved_bytes"):
        stored = run.highest(run.levels_of(run.device, lambda b: b.rounded, released=run.released))[0]
        job.one("head", "e", j.get("e"), float(f"{stored / want['peak_reserved_bytes']:.6g}"), may=False)
    by_device = {}
    for device in {b.device for b in run.device}:
        levels = run.levels_of([b for b in run.device if b.device == device])
        by_device[device] = run.highest(levels)[0]
    job.rows("head", "high water of device", {h["device"]: h["peak_live_bytes"] for h in j["device_peaks"]}, by_device, may=False)
    job.one("head", "allocations without a stack", j["allocations_without_stack"], 0)
    job.one("head", "failed allocations", j["oom_count"], len(run.failed), may=False)


def text_head(job):
    """The text says what the log says, rounded as the man page has it."""
    text = command("report", job.capture).stdout
    want = job.run.figures()
    for label, key in (("Remaining memory", "remaining_bytes"), ("Max memory", "max_bytes"), ("Allocated memory", "allocated_bytes"),
                       ("Allocated count", "allocated_count"), ("Freed memory", "freed_bytes"), ("Freed count", "freed_count"),
                       ("Peak live", "peak_live_bytes")):
        found = re.search(rf"^{label}: (.*?)(?:   .*)?$", text, re.M)
        value = human(want[key]) if key.endswith("bytes") else str(want[key])
        job.one("text", label, found and re.sub(r" \(.*", "", found.group(1)), value, may=False)


def anchors(job):
    run = job.run
    got = {(a["name"], a["instance"]): a for a in job.report["anchors"]}
    want = {(r.path, r.instance): r for r in run.recorded}
    job.one("anchors", "instances", "unknown" if job.partial and len(got) < len(want) else len(got), len(want))
    for key in job.random.sample(sorted(want), min(200, len(want))):
        r = want[key]
        if key not in got:
            job.one("anchors", f"{key}", "unknown" if job.partial else "no row", "a row")
            continue
        last = run.end if r.leave is None else r.leave
        figures = run.figures(r.enter, last, own=run.in_range(r))
        for name, value in figures.items():
            job.one("anchors", f"{key} {name}", got[key][name], value)


def live_rows(job):
    run, j = job.run, job.report
    end = [b for b in run.device if b.died is None]
    job.rows("live", "at the end", keyed(j["live"]), sums(end, lambda b: b.key))
    _, moment = run.highest(run.levels)
    high = [b for b in run.device if b.lives_at(moment)]
    job.rows("hwm", "at the maximum", keyed(j["live_at_max"]), sums(high, lambda b: b.key))


def keyed(rows, bytes_name="bytes", count_name="count", more=lambda r: ()):
    """{stack: (bytes, count)}; rows of one stack are one. None: they are not known."""
    if rows is None:
        return None
    found = collections.defaultdict(lambda: [0, 0])
    for r in rows:
        row = found[(stack_key(r["stack"]), *more(r)) if more(r) else stack_key(r["stack"])]
        row[0] += r[bytes_name]
        row[1] += r[count_name]
    return {k: tuple(v) for k, v in found.items()}


def places(job):
    """By stack, anchor and device; kept by the run itself in every mode."""
    run, j = job.run, job.report
    by_device = {}
    for device in {b.device for b in run.device}:
        by_device[device] = run.highest(run.levels_of([b for b in run.device if b.device == device]))[1]
    def place(b):
        return b.key, b.path, b.device
    rest = [p for p in j["places"] if p["title"] == "(other)"]
    job.one("places", "what is in no row", sum(p["allocated_count"] for p in rest), 0)
    def columns(name):
        return keyed([p for p in j["places"] if p not in rest], f"{name}_bytes", f"{name}_count", lambda r: (r["anchor"], r["device"]))
    def held(rows):
        return {k: v for k, v in rows.items() if v[1]}
    job.one("places", "places lost", j["places_lost"], 0)
    for name, blocks in (("allocated", run.device), ("live", [b for b in run.device if b.died is None]),
                         ("temporary", [b for b in run.device if b.temporary]),
                         ("at_peak", [b for b in run.device if b.lives_at(by_device[b.device])])):
        job.rows("places", name, held(columns(name)), sums(blocks, place), may=False)
    mine = collections.defaultdict(list)
    for b in run.device:
        mine[place(b)].append(b)
    got = held(columns("own_peak"))
    job.rows("places", "own peak", {k: v[0] for k, v in got.items()},
             {k: run.highest(run.levels_of(v))[0] for k, v in mine.items()}, may=False)


class Reservation:
    """The addresses that the program reserves for a handle that it maps."""

    def __init__(self, b):
        self.bytes, self.born, self.died = b.bytes, b.born, b.died


def classes(job):
    run, j = job.run, job.report
    want = by(run.blocks.values(), run.class_of)
    reserved = [Reservation(b) for b in run.blocks.values() if b.api == "handle" and b.bytes > HANDLE]
    if reserved:
        want["virtual"] = reserved
    got = {c["name"]: c for c in j["classes"]}
    for name in sorted(set(got) | set(want)):
        figures = summed(run, want[name]) | {"own_peak_bytes": run.highest(run.levels_of(want[name]))[0]}
        for key, value in figures.items():
            job.one("classes", f"{name} {key}", got.get(name, {}).get(key, "no row"), value, may=False)


def libraries(job):
    run, j = job.run, job.report
    got = {pathlib.Path(r["path"]).name: {k: r[k] for k in ("allocated_bytes", "allocated_count", "live_bytes", "live_count")} for r in j["libraries"]}
    job.rows("libraries", "library", got, {PROGRAM.name: summed(run, run.device)} if run.device else {}, may=False)


def sources(job):
    run, j = job.run, job.report
    high = set(job.at_peak())
    def columns(blocks, is_device=True):
        at = sum(b.bytes for b in blocks if b in high) if is_device else 0
        return summed(run, blocks) | {"own_peak_bytes": run.highest(run.levels_of(blocks))[0], "at_max_bytes": at}
    def compare(what, got, want):
        for key, value in want.items():
            job.one("sources", f"{what} {key}", got.get(key, "unknown" if job.partial else "no row"), value)
    if not run.blocks:
        return
    found = next((s for s in j["sources"] if pathlib.Path(s["library"] or "").name == PROGRAM.name), {"classes": [], "sites": []})
    compare("library", found, columns(run.device))
    got = {c["name"]: c for c in found["classes"]}
    for name, blocks in by(run.device, run.class_of).items():
        compare(f"class {name}", got.get(name, {}), columns(blocks))
    def site_key(s):
        return stack_key(s["stack"])[0]
    got = {site_key(s): s for s in found["sites"] if site_key(s)}
    for site, blocks in by(run.device, lambda b: b.key[0]).items():
        compare(f"site {site}", got.get(site, {}), columns(blocks))


def streams_of(blocks):
    return sums(blocks, lambda b: (b.device, b.stream if b.api in ON_STREAM else None))


def streams_in(report):
    return None if report["streams"] is None else {(s["device"], s["stream"]): (s["allocated_bytes"], s["allocated_count"]) for s in report["streams"]}


def streams(job):
    """What was asked for on each stream of each device."""
    job.rows("streams", "stream", streams_in(job.report), streams_of(job.run.device))


def failures(job):
    """Allocations that failed, with what lived then."""
    run, got = job.run, job.report["ooms"]
    numbers = {o["number"]: o for o in got}
    for i, (moment, row, ranges) in enumerate(run.failed):
        if 16 <= i < len(run.failed) - 16:
            continue
        o = numbers.get(i + 1)
        if not o:
            job.one("oom", f"failure {i + 1}", "no row", "a row", may=False)
            continue
        api = APIS[row["api"]]
        alive = [b for b in run.device if b.lives_at(moment) and b.device == row["device"]]
        want = {"requested_bytes": row["bytes"], "device": row["device"], "result": row["result"], "live_bytes": sum(b.bytes for b in alive),
                "anchor": ranges[-1].path if ranges else "", "stream": row["stream"] if api in ON_STREAM else None}
        for key, value in want.items():
            job.one("oom", f"failure {i + 1} {key}", o[key], value)
        site = stack_key(o["stack"]) if o.get("stack") else None
        if site:
            job.one("oom", f"failure {i + 1} stack", site[0], (f"take_{api}", row["line"]), may=False)
        if o.get("live_at_oom"):
            holders(job, i, o, alive)


def holders(job, i, o, alive):
    """The largest holders by the way that led there, or where events are missing by stack; what is not among them is one sum."""
    def way(key):
        return key if job.partial else key[:2] # three frames, of which the third is the same everywhere
    want = sums(alive, lambda b: way(b.key))
    got = collections.defaultdict(lambda: (0, 0))
    for r in o["live_at_oom"]:
        key = way(stack_key(r["stack"]))
        got[key] = got[key][0] + r["bytes"], got[key][1] + r["count"]
    for key, value in got.items():
        job.one("oom", f"failure {i + 1} holder {key}", value, want.get(key, "no row"), may=False)
    job.one("oom", f"failure {i + 1} others", o["other_bytes"], sum(v[0] for v in want.values()) - sum(v[0] for v in got.values()), may=False)
    left = [v[0] for k, v in want.items() if k not in got]
    if got and left:
        job.one("oom", f"failure {i + 1} the largest are listed", min(v[0] for v in got.values()) >= max(left), True, may=False)


def windows(job):
    """Three windows between anchors."""
    run = job.run
    names = sorted({r.path for r in run.ranges if r.leave is not None})
    if not names:
        return
    for _ in range(3):
        names_of = job.random.choice(names), job.random.choice(names + [None])
        span = run.window(*names_of)
        if span[0] >= span[1]:
            continue
        options = ["--from", names_of[0]] + (["--to", names_of[1]] if names_of[1] else [])
        one_window(job, options, span)


def one_window(job, options, span):
    run, what = job.run, " ".join(options)
    j = job.ask("window", "report", job.capture, *options, "--top", 1000000)
    if not j:
        return
    may = not j["complete"] or job.partial
    want = run.figures(*span)
    for key, value in want.items():
        job.one("window", f"{what} {key}", j[key], value, may)
    mine = run.blocks_in(*span)
    job.rows("window", f"{what} live", keyed(j["live"]),
             sums([b for b in mine if b.died is None or b.died > span[1]], lambda b: b.key), may)
    if mine:
        _, moment = run.highest(run.levels_of(mine, last=span[1]))
        job.rows("window", f"{what} at max", keyed(j["live_at_max"]), sums([b for b in mine if b.lives_at(moment)], lambda b: b.key), may)
    job.rows("window", f"{what} stream", streams_in(j), streams_of(mine), may)
    got = j["classes"] and {c["name"]: (c["allocated_bytes"], c["allocated_count"]) for c in j["classes"] if c["device_memory"]}
    job.rows("window", f"{what} class", got and {k: v for k, v in got.items() if v[1]}, sums(mine, run.class_of), may)


GROUPS = {"site": lambda run, b: b.key[0], "class": lambda run, b: run.class_of(b), "anchor": lambda run, b: b.path,
          "device": lambda run, b: b.device, "library": lambda run, b: PROGRAM.name}


def group_key(name, title):
    """What the title of a row of --by says, as the key of the recount."""
    if name == "site":
        found = re.match(r"(take_\w+) recount_program\.c:(\d+)", title)
        return (found.group(1), int(found.group(2))) if found else title
    if name == "anchor":
        return "" if title.startswith("(outside") else title
    if name == "device":
        return int(title.split()[-1])
    return pathlib.Path(title).name if name == "library" else title


def grouped(job):
    """--by of live, hwm and leaks."""
    run = job.run
    _, moment = run.highest(run.levels)
    moments = {"live": [b for b in run.device if b.died is None], "hwm": [b for b in run.device if b.lives_at(moment)]}
    moments["leaks"] = moments["live"]
    for view, blocks in moments.items():
        for name, key in GROUPS.items():
            if view == "leaks" and name == "class":
                continue
            j = job.ask("by", "report", job.capture, "--view", view, "--by", name, "--top", 1000000)
            if not j:
                continue
            rows = j["live_at_max"] if view == "hwm" else j["live"] if view == "live" else j["groups"]
            if rows is None:
                job.one("by", f"{view} by {name}", "unknown", "rows")
                continue
            got = collections.defaultdict(lambda: [0, 0])
            for r in rows:
                row = got[group_key(name, r["title"])]
                row[0] += r["bytes"]
                row[1] += r["count"]
            want = sums(blocks, lambda b: key(run, b))
            job.rows("by", f"{view} by {name}", {k: tuple(v) for k, v in got.items()}, want)


def text_rows(job):
    """The rows of the text: sizes and numbers of blocks, by stack, or by place where events are missing."""
    run = job.run
    end = [b for b in run.device if b.died is None]
    def place(b):
        return b.key, b.path, b.device
    for view, blocks, key in (("live", end, lambda b: b.key), ("hwm", job.at_peak(), place if job.partial else lambda b: b.key),
                              ("leaks", end, place)):
        text = command("report", job.capture, "--view", view, "--top", 1000000).stdout
        got = collections.Counter(re.findall(r"^ *([\d.]+ [KMGT]?i?B) +(\d+) blocks? ", text, re.M))
        want = collections.Counter((human(size), str(count)) for size, count in sums(blocks, key).values())
        job.rows("text", f"rows of {view}", dict(got), dict(want))


SIZE = r"(-?[\d.]+ [KMGT]?i?B)"


def view_text(job, *words):
    return command("report", job.capture, *words, "--top", 1000000).stdout


def text_anchors(job):
    """The table of anchors: a row for each instance."""
    run = job.run
    row = re.compile(rf"^ *{SIZE} +{SIZE} +{SIZE} +(\d+) +{SIZE} +(\d+) +", re.M)
    got = collections.Counter(row.findall(view_text(job, "--view", "anchors")))
    want = collections.Counter()
    for r in run.recorded:
        f = run.figures(r.enter, run.end if r.leave is None else r.leave, own=run.in_range(r))
        want[human(f["remaining_bytes"]), human(f["max_bytes"]), human(f["allocated_bytes"]), str(f["allocated_count"]),
             human(f["freed_bytes"]), str(f["freed_count"])] += 1
    if job.partial:
        job.one("text", "rows of anchors", "unknown", "rows")
    else:
        job.rows("text", "rows of anchors", dict(got), dict(want))


def text_views(job):
    """What the other views say in words."""
    run = job.run
    got = {(int(d), None if s.startswith("No stream") else int(s.split()[1])): (size, int(count)) for s, d, size, count in re.findall(
        rf"^(No stream, or an unknown one,|Stream \d+) of device (\d+): {SIZE} in (\d+) blocks?$", view_text(job, "--view", "streams"), re.M)}
    if job.partial:
        job.one("text", "streams are said to be of what is on record", "this is of what is on record" in " ".join(view_text(job, "--view", "streams").split()), True)
    else:
        job.rows("text", "streams", got, {k: (human(v[0]), v[1]) for k, v in streams_of(run.device).items()})
    got = {name: (live, peak, int(count)) for name, live, peak, count in re.findall(
        rf"^  (\S+) +{SIZE} +{SIZE} +(\d+)(?:  \(not device memory\))?$", view_text(job, "--view", "classes"), re.M)}
    for name, blocks in by(run.blocks.values(), run.class_of).items():
        want = human(sum(b.bytes for b in blocks if b.died is None)), human(run.highest(run.levels_of(blocks))[0]), len(blocks)
        job.one("text", f"class {name}", got.get(name, "no row"), want, may=False)
    if run.device:
        found = re.search(rf"^ *(?:{SIZE}|\?|-) +{SIZE} +{SIZE} +{SIZE} +(\d+)  all$", view_text(job, "--view", "sources"), re.M)
        total = summed(run, run.device)
        peak = run.highest(run.levels)[0]
        job.one("text", "sources, all", found and found.groups()[1:], (human(peak), human(total["live_bytes"]), human(total["allocated_bytes"]),
                                                                      str(total["allocated_count"])))
    if run.failed:
        text = view_text(job, "--view", "oom")
        found = re.search(r"^Out of memory(?: \((\d+) times)?", text, re.M)
        job.one("text", "failures", found and int(found.group(1) or 1), len(run.failed), may=False)
        sizes = re.findall(rf"^ *requested +{SIZE} by", text, re.M)
        want = [human(row["bytes"]) for _, row, _ in (run.failed[-1:] + run.failed[:1])[:1 + (len(run.failed) > 1)]]
        job.one("text", "requests that failed", sizes, want, may=False)


def text_totals(job):
    """The blocks that leaks and temporary list."""
    run = job.run
    temporary = [b for b in run.device if b.temporary]
    got = re.findall(rf"^ *(\d+) of +(\d+) blocks?, +{SIZE} ", view_text(job, "--view", "temporary"), re.M)
    job.one("text", "temporary blocks", sum(int(n) for n, _, _ in got), len(temporary), may=False)


def filtered(job):
    """--filter by a function, and the order of --sort."""
    run = job.run
    moments = {"live": [b for b in run.device if b.died is None], "hwm": job.at_peak(), "leaks": [b for b in run.device if b.died is None]}
    for view, key in (("live", "live"), ("hwm", "live_at_max"), ("leaks", "places")):
        site = f"site_{job.random.randrange(6)}"
        j = job.ask("filter", "report", job.capture, "--view", view, "--filter", site, "--sort", "count", "--top", 1000000)
        if not j:
            continue
        names = ("live_bytes", "live_count") if view == "leaks" else ("bytes", "count")
        if j[key] is None:
            job.one("filter", f"{view} with {site}", "unknown", "rows")
            continue
        rows = [r for r in j[key] if r[names[1]]]
        mine = [b for b in moments[view] if b.key[1][0] == site]
        job.rows("filter", f"{view} with {site}", keyed(rows, *names), sums(mine, lambda b: b.key))
        counts = [r[names[1]] for r in rows]
        job.one("filter", f"{view} sorted by count", counts, sorted(counts, reverse=True))


def last_words(job):
    """What kedge run says at the end."""
    if job.facts.get("said") is None:
        return
    found = re.search(rf"^kedge run: peak live (?:[\d.]+ \w+, )?{SIZE}(?: without hints)?$", job.facts["said"], re.M)
    job.one("run", "peak live", found and found.group(1), human(job.run.highest(job.run.levels)[0]), may=False)
    if job.facts["devices"] == 1 and is_all_pooled(job.run):
        found = re.search(rf"^kedge run: peak reserved {SIZE}", job.facts["said"], re.M)
        job.one("run", "peak reserved", found and found.group(1), human(job.run.device_peaks[0]), may=False)


# ---- uses ----

def patterns(job):
    run, j = job.run, job.report["patterns"]
    if not j.get("recorded") or job.facts.get("hints") or any(b.api not in ("sync", "async") for b in run.device):
        return
    got = {p["pattern"]: (p["bytes"], p["count"]) for p in j["by_pattern"]}
    want = {"unused": [b for b in run.device if not b.uses], "leak": [b for b in run.device if b.uses and b.died is None]}
    job.one("patterns", "judged", (j["judged_bytes"], j["judged_count"]), (sum(b.bytes for b in run.device), len(run.device)))
    for name, blocks in want.items():
        job.one("patterns", name, got[name], (sum(b.bytes for b in blocks), len(blocks)))
    highest = run.highest(run.levels)[0]
    job.one("patterns", "max", j["max_bytes"], highest)
    # one that is never used is freed at once
    changes = [(b.born, b.bytes) for b in run.device] + [((b.uses or [b.born])[-1] + 0.5, -b.bytes) for b in run.device]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    job.one("patterns", "max, freed after the last use", j["max_freed_after_last_use_bytes"], most)


def steps(job):
    run = job.run
    threads = {r.thread for r in run.ranges if r.path == "step"}
    want = [r for r in run.recorded if r.path == "step" and r.leave is not None]
    if len(threads) != 1 or len(want) < 3 or job.facts["cut"]:
        return
    j = job.ask("steps", "report", job.capture, "--view", "steps", "--steps", "stated", "--top", 1000000)
    if not j:
        return
    j = j["steps"]
    if j["kind"] != "steps":
        job.one("steps", "kind", "unknown" if job.partial else j["kind"], "steps")
        return
    job.one("steps", "how many", "unknown" if job.partial else len(j["rows"]), len(want))
    rows = {row["instance"]: row for row in j["rows"]}
    for r in job.random.sample(want, min(100, len(want))):
        row = rows.get(r.instance)
        if not row:
            job.one("steps", f"step {r.instance}", "unknown" if job.partial else "no row", "a row")
            continue
        figures = run.figures(r.enter, r.leave)
        mine = run.blocks_in(r.enter, r.leave)
        before = [b for b in run.device if b.lives_at(r.enter)]
        after = [b for b in run.device if b.lives_at(r.leave)]
        freed = [b for b in run.device if b.died is not None and r.enter <= b.died <= r.leave]
        named = {"live_begin_bytes": sum(b.bytes for b in before), "live_end_bytes": sum(b.bytes for b in after),
                 "peak_live_bytes": figures["peak_live_bytes"], "allocated_bytes": sum(b.bytes for b in mine), "allocated_count": len(mine),
                 "freed_bytes": sum(b.bytes for b in freed), "freed_count": len(freed), "instance": r.instance}
        for key, value in named.items():
            job.one("steps", f"step {r.instance} {key}", row[key], value)


def hints(job):
    rows = {h["id"]: h for h in job.report["hints"]}
    for hint in job.facts["hints"]:
        row = rows.get(hint.name, {})
        acts = "released" if hint.mode == "live" else "would"
        want = {"mode": hint.mode, "matched_count": len(hint.matched), "matched_bytes": sum(b.bytes for b in hint.matched),
                f"{acts}_count": len(hint.released), f"{acts}_bytes": sum(b.bytes for b in hint.released), "violations": 0, "refused_count": 0,
                "late_touches": 0, "drift_count": 0}
        for key, value in want.items():
            job.one("hints", f"{hint.name} {key}", row.get(key, "no row"), value)


def eviction(job):
    """What moved is what the device itself says that it copied: the program copies nothing."""
    mode = job.facts["evicts"]
    if not mode:
        return
    run, (row,) = job.run, job.report["eviction"]
    total, parts = row["total"], row["steps"]
    copied = run.copied if mode == "trial" else (total["moved_in_bytes"], total["moved_out_bytes"])
    job.one("eviction", "moved in", total["moved_in_bytes"], copied[0])
    job.one("eviction", "moved out", total["moved_out_bytes"], copied[1])
    job.one("eviction", "something moved", total["moved_in_bytes"] > 0, True)
    job.one("eviction", "the device copied", run.copied != (0, 0), mode == "trial")
    job.one("eviction", "on paper", row["on_paper"], mode == "shadow")
    for key in ("moved_in_bytes", "moved_in_count", "moved_out_bytes", "moved_out_count", "dropped_bytes", "wait_count"):
        job.one("eviction", f"the sum of steps, {key}", sum(part[key] for part in parts), total[key])
    job.one("eviction", "within the cap", total["in_at_most_bytes"] <= 24 * MB, True)
    checked = command_json("check", job.capture, f"moved_in=={copied[0]}", f"moved_out=={copied[1]}", rc=(0, 1, 2))["checks"]
    job.one("eviction", "check", [c["answer"] for c in checked], ["yes", "yes"])
    steps_of_log = len([r for r in run.ranges if r.path == "step"])
    job.one("eviction", "steps", parts[-1]["step"], steps_of_log)


# ---- the page ----

def page(job):
    run = job.run
    command("report", job.capture, "--html", "page.html")
    text = pathlib.Path("page.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script[^>]*\bid="?data"?[^>]*>(.*?)</script>', text, re.S).group(1))
    want = run.figures()
    for key, value in want.items():
        job.one("page", key, data.get(key), value, job.partial and key in OF_EVENTS)
    job.one("page", "failures", data["oom_count"], len(run.failed), may=False)
    _, moment = run.highest(run.levels)
    moments = {"peak": job.at_peak(), "end": [b for b in run.device if b.died is None], "allocated": run.device}
    for name, blocks in moments.items():
        for i, total in enumerate((sum(b.bytes for b in blocks), len(blocks))):
            job.one("page", f"call sites, {name} {('bytes', 'count')[i]}", sum(s[name][i] for s in data["call_sites"]), total)
    if run.device:
        line = data["timeline"]
        job.one("page", "timeline's peak", line["peak_live"]["bytes"], want["peak_live_bytes"])
        job.one("page", "the highest moment", None if line["peak_live"]["bytes"] is None else max(Timeline(line).live), want["peak_live_bytes"])
        job.one("page", "timeline's reserved", line["peak_reserved"]["bytes"], job.report["peak_reserved_bytes"])
    names = {c["name"]: c for c in data["classes"]}
    for name, blocks in by(run.device, run.class_of).items():
        for key, value in summed(run, blocks).items():
            job.one("page", f"class {name} {key}", names.get(name, {}).get(key), value)
        job.one("page", f"class {name} at_max_bytes", names.get(name, {}).get("at_max_bytes"),
                sum(b.bytes for b in blocks if b.lives_at(moment)))
    by_key = {(r.path, r.instance): r for r in run.ranges}
    for row in job.random.sample(data["anchors"], min(100, len(data["anchors"]))):
        r = by_key.get((row["name"], row["instance"]))
        if not r:
            job.one("page", f"anchor {row['name']} {row['instance']}", "a row", "no row")
            continue
        figures = run.figures(r.enter, run.end if r.leave is None else r.leave, own=run.in_range(r))
        for key in ("max_bytes", "remaining_bytes", "allocated_bytes", "allocated_count", "freed_bytes", "freed_count", "peak_live_bytes"):
            job.one("page", f"anchor {row['name']} {row['instance']} {key}", row[key], figures[key])
    flame = data["flame"]
    if flame:
        job.one("page", "the flame graph at the peak", tuple(flame[0][2:4]), sums(moments["peak"], lambda b: 0).get(0, (0, 0)))
        job.one("page", "the flame graph at the end", tuple(flame[0][6:8]), sums(moments["end"], lambda b: 0).get(0, (0, 0)))


# ---- exports ----

def export(job, form, *options):
    path = pathlib.Path(f"export.{form}")
    path.unlink(missing_ok=True)
    answer = command_json("export", job.capture, "--to", form, "-o", path, *options, rc=(0, 77))
    return path, answer


def frame_key(frames):
    """As stack_key, of [(function, line)] with the innermost first."""
    return stack_key([{"function": name, "line": line} for name, line in frames])


def folded(job, moment, blocks):
    path, _ = export(job, "folded", "--at", moment)
    got = collections.defaultdict(int)
    for line in path.read_text(encoding="utf-8").splitlines():
        stack, count = line.rsplit(" ", 1)
        frames = [(m.group(1), int(m.group(2) or 0)) for m in
                  (re.match(r"(\S+) \([^):]*(?::(\d+))?\)", part) for part in reversed(stack.split(";"))) if m]
        got[frame_key(frames)] += int(count)
    got.pop(frame_key([]), None)
    want = {k: v[0] for k, v in sums(blocks, lambda b: b.key).items()}
    job.rows("export.folded", f"at {moment}", dict(got), listed(job, moment, got, want))


def messages(data):
    """(field, value) of a message of protocol buffers."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        if tag & 7:
            size = number()
            yield tag >> 3, data[at:at + size]
            at += size
        else:
            yield tag >> 3, number()


def numbers(data):
    return [value for _, value in messages(b"".join(b"\x08" + part for part in re.findall(rb"[\x80-\xff]*[\x00-\x7f]", data, re.S)))]


def pprof(job, moment, blocks):
    path, _ = export(job, "pprof", "--at", moment)
    parts = collections.defaultdict(list)
    for field, value in messages(gzip.decompress(path.read_bytes())):
        parts[field].append(value)
    strings = [s.decode() for s in parts[6]]
    functions = {m[1]: strings[m[2]] for m in (dict(messages(f)) for f in parts[5])}
    locations = {}
    for m in (dict(messages(data)) for data in parts[4]):
        line = dict(messages(m[4]))
        locations[m[1]] = (functions[line[1]], line.get(2, 0))
    got = collections.defaultdict(lambda: [0, 0])
    for data in parts[2]:
        sample, labels = {}, {}
        for field, value in messages(data):
            if field == 3:
                label = dict(messages(value))
                labels[strings[label[1]]] = strings[label[2]] if 2 in label else label.get(3)
            else:
                sample[field] = numbers(value)
        row = got[frame_key([locations[i] for i in sample[1]]), labels.get("anchor", ""), int(re.sub(r"\D", "", str(labels.get("device", 0))) or 0)]
        row[0] += sample[2][1]
        row[1] += sample[2][0]
    job.rows("export.pprof", f"at {moment}", {k: tuple(v) for k, v in got.items()}, sums(blocks, lambda b: (b.key, b.path, b.device)))


def moments_exported(job):
    run = job.run
    cases = [("peak", job.at_peak()), ("end", [b for b in run.device if b.died is None])]
    if run.failed:
        moment, row, _ = run.failed[-1]
        cases.append(("oom", [b for b in run.device if b.lives_at(moment) and b.device == row["device"]]))
    for name, blocks in cases:
        for form in (folded, pprof):
            if name != "oom" or form != pprof or not job.partial: # the record of a failure has no anchors
                form(job, name, blocks)


def listed(job, moment, got, want):
    """Where events are missing, the record of a failure has its largest stacks alone."""
    return {k: v for k, v in want.items() if k in got} if moment == "oom" and job.partial else want


def at_once_sorted(order, rows):
    """What a reset ends at once has no order."""
    if len(order) != len(rows):
        return rows
    at_once = collections.Counter(e[0] for e in order)
    pairs = sorted(((e[0], row) for e, row in zip(order, rows)), key=lambda pair: (pair[0], pair[1] if at_once[pair[0]] > 1 else ()))
    return [row for _, row in pairs]


def export_csv(job):
    """Rows of allocations and frees, in their order."""
    path, answer = export(job, "csv")
    rows = [line.split(",") for line in path.read_text(encoding="ascii").splitlines()[1:]]
    got = [(op, int(size), int(ident)) for op, ident, size, *_ in rows]
    ids = {}
    want = []
    order = sorted((e for e in job.run.order if e[1].is_device), key=lambda e: e[0])
    for _, b, sign in order:
        ids.setdefault(b, len(ids))
        want.append(("a" if sign > 0 else "f", b.bytes, ids[b]))
    renamed, seen = [], {}
    for op, size, ident in got:
        seen.setdefault(ident, len(seen))
        renamed.append((op, size, seen[ident]))
    renamed, want = at_once_sorted(order, renamed), at_once_sorted(order, want)
    job.one("export.csv", "complete", answer["complete"], not job.partial)
    if not answer["complete"]:
        job.one("export.csv", "rows", "unknown", len(want))
        return
    job.one("export.csv", "rows", len(renamed), len(want))
    for i, (a, b) in enumerate(zip(renamed, want)):
        job.one("export.csv", f"row {i}", a, b)
        if a != b:
            break


def perfetto(job):
    run = job.run
    path, _ = export(job, "perfetto")
    j = json.loads(path.read_text(encoding="utf-8"))
    lines, slices = collections.defaultdict(list), []
    for e in j["traceEvents"]:
        if e["ph"] == "C":
            lines[e["name"]].append(e["args"]["bytes"])
        elif e["ph"] == "X":
            slices.append((e["args"]["path"], e["args"]["instance"]))
    want = run.figures()
    job.one("export.perfetto", "peak live", j["otherData"]["peak_live_bytes"], want["peak_live_bytes"], may=False)
    if run.device:
        job.one("export.perfetto", "the most that is live", max(lines["live"], default=None), want["peak_live_bytes"])
        job.one("export.perfetto", "live at the end", lines["live"][-1] if lines["live"] else None, want["remaining_bytes"])
        job.one("export.perfetto", "the most that is reserved", max(lines["reserved"], default=None if job.partial else 0), job.report["peak_reserved_bytes"])
    if run.released and not job.partial:
        f = run.figures()
        job.one("export.perfetto", "the most with hints", max(lines["live with hints"], default=0), f["max_with_hints_bytes"])
        job.one("export.perfetto", "with hints at the end", lines["live with hints"][-1:], [f["remaining_with_hints_bytes"]])
    job.one("export.perfetto", "complete", j["otherData"]["complete"], not job.partial)
    job.one("export.perfetto", "slices", sorted(slices) if j["otherData"]["complete"] else "unknown", sorted((r.path, r.instance) for r in run.recorded if r.leave is not None or job.facts["cut"]))
    job.one("export.perfetto", "failures", sum(e["ph"] == "i" for e in j["traceEvents"]), len(run.failed))


def memory_viz(job):
    """PyTorch's snapshot: what is live at the end, and the events of each device."""
    run = job.run
    path, _ = export(job, "memory_viz")
    with open(path, "rb") as f:
        snapshot = pickle.load(f)
    left = [b for b in run.device if b.bytes > 0]
    got = collections.Counter((s["device"], b["requested_size"]) for s in snapshot["segments"] for b in s["blocks"]
                              if b["state"] == "active_allocated")
    job.one("export.memory_viz", "live at the end", dict(got), dict(collections.Counter((b.device, b.bytes) for b in left if b.died is None)))
    job.one("export.memory_viz", "complete", snapshot["kedge"]["complete"], not job.partial)
    job.one("export.memory_viz", "peak live", snapshot["kedge"]["peak_live_bytes"], run.highest(run.levels)[0], may=False)
    if job.partial:
        job.one("export.memory_viz", "events", "unknown", "events")
        return
    for device, trace in enumerate(snapshot["device_traces"]):
        got = [("a" if t["action"] == "alloc" else "f", t["size"]) for t in trace if t["action"] in ("alloc", "free_completed")]
        order = sorted((e for e in run.order if e[1].is_device and e[1].device == device), key=lambda e: e[0])
        want = [("a" if sign > 0 else "f", b.bytes) for _, b, sign in order]
        got, want = at_once_sorted(order, got), at_once_sorted(order, want)
        job.one("export.memory_viz", f"events of device {device}", len(got), len(want))
        job.one("export.memory_viz", f"order of device {device}", got == want, True)
        job.one("export.memory_viz", f"failures of device {device}", sum(t["action"] == "oom" for t in trace),
                sum(row["device"] == device for _, row, _ in run.failed))
    if run.ranges:
        got = collections.Counter((a["name"], a["stage"]) for a in snapshot["external_annotations"] if a["device"] == 0)
        want = collections.Counter()
        for r in run.recorded:
            want[r.path, "START"] += 1
            if r.leave is not None:
                want[r.path, "END"] += 1
        job.one("export.memory_viz", "annotations", dict(got), dict(want))


def memory_viz_parts(job):
    """Without small blocks; and the last events alone."""
    run = job.run
    small = [b for b in run.device if b.bytes < MB]
    path, answer = export(job, "memory_viz", "--min-size", "1M")
    got = (answer["left_out_bytes"], answer["left_out_count"]) if answer["complete"] else "unknown"
    job.one("export.memory_viz", "left out", got, sums(small, lambda b: 0).get(0, (0, 0)))
    if job.partial:
        return
    events = [b for _, b, _ in run.order if b.is_device]
    for what, options, want in (("large events", ("--min-size", "1M"), sum(b.bytes >= MB for b in events)),
                                ("the last 7", ("--last", "7"), min(7, len(events)))):
        path, _ = export(job, "memory_viz", *options)
        with open(path, "rb") as f:
            snapshot = pickle.load(f)
        got = sum(t["action"] in ("alloc", "free_completed") for trace in snapshot["device_traces"] for t in trace)
        job.one("export.memory_viz", what, got, want)


def sqlite(job):
    run = job.run
    path, answer = export(job, "sqlite")
    if answer.get("format") != "sqlite":
        return
    with sqlite3.connect(path) as db:
        def ask(question):
            return db.execute(question).fetchall()
        total = sums(run.device, lambda b: 0).get(0, (0, 0))
        complete = dict(ask("SELECT key, value FROM meta")).get("complete")
        job.one("export.sqlite", "complete", bool(complete), not job.partial)
        device = "class NOT IN ('host', 'registered', 'virtual')"
        end = sums([b for b in run.device if b.died is None], lambda b: 0).get(0, (0, 0))
        job.one("export.sqlite", "live at the end",
                ask(f"SELECT coalesce(sum(size), 0), count(*) FROM blocks WHERE died_event IS NULL AND {device}")[0], end)
        highest, moment = run.highest(run.levels)
        has_peak = dict(ask("SELECT key, value FROM meta")).get("peak_event") is not None or not run.device
        peak = sums([b for b in run.device if b.lives_at(moment)], lambda b: 0).get(0, (0, 0))
        job.one("export.sqlite", "live at the peak", ask(f"SELECT coalesce(sum(size), 0), count(*) FROM live_at_peak WHERE {device}")[0] if has_peak else None, peak)
        job.one("export.sqlite", "the most live bytes", ask("SELECT max(live_bytes) FROM events")[0][0] or (None if run.device else 0), highest)
        if run.device:
            job.one("export.sqlite", "the most reserved bytes", ask("SELECT max(reserved_bytes) FROM events")[0][0],
                    job.report["peak_reserved_bytes"])
        job.one("export.sqlite", "failures", ask("SELECT count(*) FROM ooms")[0][0], len(run.failed))
        for hint in job.facts["hints"]:
            got = ask(f"SELECT matched_count, matched_bytes FROM hints WHERE name = '{hint.name}'")
            job.one("export.sqlite", f"hint {hint.name}", got, [(len(hint.matched), sum(b.bytes for b in hint.matched))])
        released = ask("SELECT coalesce(sum(size), 0), count(*) FROM blocks WHERE released_event IS NOT NULL")[0]
        job.one("export.sqlite", "released", released if complete or not job.facts["hints"] else None, sums(run.released | run.would, lambda b: 0).get(0, (0, 0)))
        if not complete:
            job.one("export.sqlite", "sums of blocks", "unknown", total)
            return
        job.one("export.sqlite", "blocks", ask(f"SELECT coalesce(sum(size), 0), count(*) FROM blocks WHERE {device}")[0], total)
        got = dict(((tid, cls), (size, count)) for tid, cls, size, count in ask(
            f"SELECT tid, class, sum(size), count(*) FROM blocks JOIN threads ON threads.id = thread WHERE {device} GROUP BY 1, 2"))
        job.rows("export.sqlite", "thread and class", got, sums(run.device, lambda b: (run.tids[b.thread], run.class_of(b))))
        got = {(p or "", i or 0): (size, count) for p, i, size, count in ask(
            f"SELECT path, instance, sum(size), count(*) FROM blocks LEFT JOIN anchors ON anchors.id = anchor WHERE {device} GROUP BY 1, 2")}
        want = sums(run.device, lambda b: (b.ranges[-1].path, b.ranges[-1].instance) if b.ranges else ("", 0))
        job.rows("export.sqlite", "anchor", got, want)
        if not job.facts.get("hints") and job.facts["uses"] and all(b.api in ("sync", "async") for b in run.device):
            job.one("export.sqlite", "uses", ask(f"SELECT coalesce(sum(use_count), 0) FROM blocks WHERE {device}")[0][0],
                    sum(len(b.uses) for b in run.device))


# ---- other commands ----

def checks(job):
    """Each figure of check: it holds with the value, and not with another."""
    run = job.run
    f = run.figures()
    want = {"peak": f["peak_live_bytes"], "allocated": f["allocated_bytes"], "allocations": f["allocated_count"], "freed": f["freed_bytes"],
            "frees": f["freed_count"], "remaining": f["remaining_bytes"], "leaks": f["allocated_count"] - f["freed_count"]}
    want |= {"peak_with_hints": f["max_with_hints_bytes"], "peak_if_live": f["max_would_bytes"], "hint_releases": f["hinted_freed_count"],
             "drifted_hints": 0, "remaining_with_hints": f["remaining_with_hints_bytes"]}
    if not job.facts.get("evicts"):
        want |= {"moved_in": 0, "moved_out": 0}
    if job.facts["devices"] == 1 and run.closed and is_all_pooled(run):
        want["reserved"] = run.device_peaks[0]
    cut = job.facts["cut"]
    j = command_json("check", job.capture, *(f"{k}=={v}" for k, v in want.items()), rc=(0, 1, 2))
    for row in j["checks"]:
        # A run that was cut off would have freed more: what it had is a bound.
        got = row["answer"] if row["answer"] in ("yes", "unknown") else (row["at_least"], row["at_most"])
        job.one("check", row["figure"], got, "yes", may=cut or job.partial)
        if row["answer"] == "unknown" and cut and row["at_least"] is not None:
            job.one("check", f"{row['figure']}, at least", row["at_least"] <= want[row["figure"]], True)
    j = command_json("check", job.capture, *(f"{k}<{v}" for k, v in want.items()), rc=(0, 1, 2))
    for row in j["checks"]:
        job.one("check", f"{row['figure']}, less", row["answer"], "no", may=cut or job.partial)
    anchor_checks(job)


def anchor_checks(job):
    run = job.run
    names = sorted({r.path for r in run.ranges if r.leave is not None})
    keys = {"peak": "peak_live_bytes", "allocated": "allocated_bytes", "allocations": "allocated_count", "freed": "freed_bytes", "frees": "freed_count",
            "remaining": "remaining_bytes"}
    for name in job.random.sample(names, min(2, len(names))):
        mine = [r for r in run.ranges if r.path == name]
        if len(mine) > 400 or any(r.leave is None for r in mine):
            continue
        rows = [run.figures(r.enter, r.leave, own=run.in_range(r)) for r in mine]
        want = {k: max(r[v] for r in rows) for k, v in keys.items()}
        want["leaks"] = max(r["allocated_count"] - r["freed_count"] for r in rows)
        j = command_json("check", job.capture, *(f'anchor:"{name}".{k}<={v}' for k, v in want.items()),
                         *(f'anchor:"{name}".{k}<{v}' for k, v in want.items()), rc=(0, 1, 2))
        for row in j["checks"]:
            job.one("check", row["expression"], row["answer"], "yes" if row["operator"] == "<=" else "no", may=job.facts["cut"] or job.partial)


def whatif(job):
    """What each policy has to hold at least, and what plain cudaMalloc holds exactly."""
    run = job.run
    served = [b for b in run.device if run.class_of(b) == ("linear" if run.mode == "track" else "pooled")]
    if job.partial or not served or job.facts.get("hints"):
        return
    highest = run.highest(run.levels_of(served))[0]
    rounded = run.highest(run.levels_of(served, lambda b: b.rounded))[0]
    policies = command_json("whatif", job.capture, "--policy", "kedge,native,torch,async", program=MODELS)["policies"]
    for p in policies:
        job.one("whatif", f"{p['policy']} peak_live_bytes", p["peak_live_bytes"], highest)
        job.one("whatif", f"{p['policy']} peak_live_512_bytes", p["peak_live_512_bytes"], rounded)
        job.one("whatif", f"{p['policy']} holds what is live", p["peak_reserved_bytes"] >= highest, True)
        if p["policy"] == "native" and job.facts["devices"] == 1:
            job.one("whatif", "native peak_reserved_bytes", p["peak_reserved_bytes"], native_held(run, served))
        job.one("whatif", f"{p['policy']} e", p["e"], float(f"{rounded / p['peak_reserved_bytes']:.6g}"))


def native_held(run, blocks):
    """From 1 MiB on whole granules of 2 MiB, smaller ones share them in multiples of 512 bytes without a gap."""
    large = small = most = 0
    for _, b, sign in sorted(((n, b, s) for n, b, s in run.order if b in set(blocks)), key=lambda e: e[0]):
        if b.bytes >= MB:
            large += sign * -(-b.bytes // HANDLE) * HANDLE
        else:
            small += sign * b.rounded
        most = max(most, large + -(-small // HANDLE) * HANDLE)
    return most


# ---- one peak ----

def peaks_of(capture, report, said):
    """[(where, the peak that is printed there, the one that it has to be)] of a capture: the head has it, and all others have the head's."""
    return [*peaks_of_all(capture, report, said), *peaks_of_devices(capture, report), *peaks_of_page(capture, report),
            *peaks_of_exports(capture, report)]


def peaks_of_all(capture, report, said):
    peak = report["peak_live_bytes"]
    text = command("report", capture).stdout
    yield "max_bytes", report["max_bytes"], peak
    yield "max_with_hints_bytes", report["max_with_hints_bytes"], peak
    yield "a window's", max((a["peak_live_bytes"] or 0 for a in report["anchors"]), default=0) <= peak, True
    yield "kedge run", re.search(rf"^kedge run: peak live (?:[\d.]+ \w+, )?{SIZE}(?: without hints)?$", said, re.M).group(1), human(peak)
    yield "kedge run, reserved", re.search(rf"^kedge run: peak reserved {SIZE}", said, re.M).group(1), human(report["peak_reserved_bytes"])
    for label in ("Peak live", "Max memory"):
        yield label, re.search(rf"^{label}: {SIZE}", text, re.M).group(1), human(peak)
    top = command_json("top", capture, "--once")
    yield "top", top["peak_live_bytes"], peak
    ranks, = command_json("ranks", capture)["ranks"]
    yield "ranks", ranks["peak_live_bytes"], peak
    checked = command_json("check", capture, f"peak=={peak}", f"peak<{peak}", rc=(0, 1, 2))["checks"]
    yield "check", [row["answer"] for row in checked], ["yes", "no"]
    if report["live_at_max"] is not None:
        yield "live_at_max", sum(r["bytes"] for r in report["live_at_max"]), peak
    yield "it fits into what is reserved", report["e"] is None or report["e"] <= 1, True


def peaks_of_devices(capture, report):
    """Each device has a mark of its own, which its places add up to."""
    marks = {h["device"]: h["peak_live_bytes"] for h in report["device_peaks"]}
    shares = collections.Counter()
    for place in report["places"]:
        shares[place["device"]] += place["at_peak_bytes"]
    top = {d["device"]: d["peak_live_bytes"] for d in command_json("top", capture, "--once")["devices"]}
    for device, mark in marks.items():
        yield f"places of device {device}", shares[device], mark
        yield f"top, device {device}", top[device], mark
    if len(marks) == 1:
        yield "device_peaks", list(marks.values()), [report["peak_live_bytes"]]
    classes = {c["name"]: c["own_peak_bytes"] for c in report["classes"] if c["device_memory"]}
    if len(classes) == 1:
        yield "classes", list(classes.values()), [report["peak_live_bytes"]]


def peaks_of_page(capture, report):
    peak = report["peak_live_bytes"]
    command("report", capture, "--html", "peaks.html")
    text = pathlib.Path("peaks.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script[^>]*\bid="?data"?[^>]*>(.*?)</script>', text, re.S).group(1))
    yield "page", data["peak_live_bytes"], peak
    line = data["timeline"]
    yield "page, timeline", line["peak_live"]["bytes"], peak
    yield "page, the highest moment", max(Timeline(line).live) if report["complete"] else None, peak
    one_device = len(report["device_peaks"]) == 1
    at_peak = peak if report["complete"] or one_device else sum(h["peak_live_bytes"] for h in report["device_peaks"])
    yield "page, call sites", sum(s["peak"][0] for s in data["call_sites"]), at_peak
    if data["flame"]:
        yield "page, flame graph", data["flame"][0][2], at_peak


def peaks_of_exports(capture, report):
    peak = report["peak_live_bytes"]
    at_peak = peak if report["complete"] or len(report["device_peaks"]) == 1 else sum(h["peak_live_bytes"] for h in report["device_peaks"])
    def exported(form):
        path = pathlib.Path(f"peaks.{form}")
        path.unlink(missing_ok=True)
        command_json("export", capture, "--to", form, "-o", path, rc=(0, 77))
        return path
    yield "folded", sum(int(line.rsplit(" ", 1)[1]) for line in exported("folded").read_text(encoding="utf-8").splitlines()), at_peak
    samples = [dict(messages(value)) for field, value in messages(gzip.decompress(exported("pprof").read_bytes())) if field == 2]
    yield "pprof", sum(numbers(s[2])[1] for s in samples), at_peak
    trace = json.loads(exported("perfetto").read_text(encoding="utf-8"))
    yield "perfetto", trace["otherData"]["peak_live_bytes"], peak
    lines = [e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "C" and e["name"] == "live"]
    yield "perfetto, line", max(lines, default=None) if report["complete"] else None, peak
    with open(exported("memory_viz"), "rb") as f:
        yield "memory_viz", pickle.load(f)["kedge"]["peak_live_bytes"], peak
    if exported("sqlite").exists():
        with sqlite3.connect("peaks.sqlite") as db:
            meta = dict(db.execute("SELECT key, value FROM meta"))
            yield "sqlite", int(meta["peak_live_bytes"]), peak
            if report["complete"]:
                device = "class NOT IN ('host', 'registered', 'virtual')"
                yield "sqlite, blocks", db.execute(f"SELECT sum(size) FROM live_at_peak WHERE {device}").fetchone()[0], peak
                yield "sqlite, line", db.execute("SELECT max(live_bytes) FROM events").fetchone()[0], peak
    if report["complete"]:
        level = most = 0
        for row in exported("csv").read_text(encoding="ascii").splitlines()[1:]:
            op, _, size, *_ = row.split(",")
            level += int(size) if op == "a" else -int(size)
            most = max(most, level)
        yield "csv", most, peak


VIEWS = (head, text_head, anchors, live_rows, places, classes, libraries, sources, streams, failures, windows, grouped, text_rows, text_anchors, text_views, text_totals, filtered, last_words,
         patterns, steps, hints, eviction, page, moments_exported, export_csv, perfetto, memory_viz, memory_viz_parts, sqlite, checks, whatif)
