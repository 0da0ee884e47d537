#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A recount: every figure that kedge prints, computed a second time from what the program itself wrote down.

    recount.py all|short|spoilt|KIND... [--seeds N] [--first SEED] [--verbose]

recount_program.c does what a seed says and logs it. This script reads the log, and nothing of kedge's: no capture, no reader,
no line of its code. By the definitions of the man pages it computes what each view of the report, the page, the exports,
check, diff, ranks, whatif and suggest have to print, and compares figure by figure. KINDS are the kinds of runs.

"Not known" (null, "?", unknown) is right where the record cannot tell: events were overwritten or never kept, or the run was cut
off. Such answers are counted apart. A wrong number is a difference, also there.

recount_known.py lists the differences that are known, by kind and view. One that is not listed fails; in a run of all kinds, or
of the short ones, a listed one that does not occur fails too, so that the list gets shorter as they are mended. `spoilt` shows
that the recount can fail.
"""
import argparse
import bisect
import collections
import gzip
import json
import mmap
import os
import pathlib
import pickle
import random
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import time

from recount_known import KNOWN
from regresskit import BUILD, KEDGE, environment, human

PROGRAM = BUILD / "tests" / "regress" / "recount_program"
RECORD = struct.Struct("<IIIIiIiIIIQQQ32sIIQ")
BOOK = struct.Struct("<QQ2Q2Q2Q9QQ")
ALLOC, FREE, ENTER, LEAVE, USE, RESET = range(1, 7)
APIS = ("sync", "async", "managed", "pitch", "array", "handle", "graph", "pool", "host", "registered")
CLASSES = {"sync": "pooled", "async": "pooled", "managed": "managed", "pitch": "pitched", "array": "array", "handle": "vmm",
           "graph": "graph", "pool": "driver", "host": "host", "registered": "registered"}
ON_STREAM = ("async", "graph", "pool")
MB = 1 << 20
HANDLE = 2 * MB


# ---- what the program wrote down ----

class Block:
    """One allocation; born and died are numbers of records."""
    __slots__ = ("number", "bytes", "api", "thread", "device", "stream", "key", "ranges", "born", "died", "killer", "uses",
                 "temporary", "address", "is_device")

    def __init__(self, number, fields, ranges, key):
        self.number, self.born, self.died, self.killer = number, number, None, None
        self.bytes, self.thread, self.device, self.stream = fields["bytes"], fields["thread"], fields["device"], fields["stream"]
        self.api, self.address = APIS[fields["api"]], fields["address"]
        self.ranges, self.key, self.uses, self.temporary = ranges, key, [], False
        self.is_device = self.api not in ("host", "registered")

    def lives_at(self, moment):
        """Behind the record of that number."""
        return self.born <= moment and (self.died is None or self.died > moment)

    @property
    def path(self):
        return self.ranges[-1].path if self.ranges else ""

    @property
    def rounded(self):
        return (self.bytes + 511) // 512 * 512


class Range:
    """One instance of an anchor."""

    def __init__(self, path, instance, enter, thread, parents):
        self.path, self.instance, self.enter, self.thread, self.parents = path, instance, enter, thread, parents
        self.leave = None


def records_of(path):
    """(closed, device peaks, copied in and out, tids, [fields]) of a log; records that were begun only have state 1."""
    names = ("state", "what", "thread", "device", "stream", "api", "result", "line", "site", "site_line", "address", "bytes",
             "block", "name", "step_line", "phase_line", "rest")
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        head = BOOK.unpack_from(m, 0)
        rows = []
        for i in range(min(head[0], (len(m) - BOOK.size) // RECORD.size)):
            row = dict(zip(names, RECORD.unpack_from(m, BOOK.size + i * RECORD.size)))
            row["name"] = row["name"].rstrip(b"\0").decode()
            rows.append(row)
    return bool(head[1]), head[4:6], head[6:8], head[8:17], rows


class Run:
    """The log of one run, played once from its beginning to its end."""

    def __init__(self, path, mode="pool", take_pending=True, spoil=None):
        self.closed, self.device_peaks, self.copied, self.tids, rows = records_of(path)
        self.mode, self.blocks, self.ranges, self.failed, self.uses = mode, {}, [], [], []
        self.count = len(rows)
        self.order = [] # (record, block, +1 or -1)
        self.open = collections.defaultdict(list)
        self.instances = collections.Counter()
        self.temporaries = collections.defaultdict(list)
        for number, row in enumerate(rows):
            if spoil and number == spoil[0]:
                if not spoil[1]:
                    continue
                row[spoil[1][0]] += spoil[1][1]
            if row["state"] == 2 or (row["state"] == 1 and take_pending):
                self.play(number, row)
        self.end = self.count
        self.device = [b for b in self.blocks.values() if b.is_device] # in the order of their birth
        self.levels = self.levels_of(self.device)
        self.births = [b.born for b in self.device]
        self.deaths = sorted((b.died, b.born, b.bytes) for b in self.device if b.died is not None)
        self.moments = [number for number, _ in self.levels]
        self.owned = collections.defaultdict(list)
        for b in self.device:
            for found in b.ranges:
                self.owned[found].append(b)

    def play(self, number, row):
        what, thread = row["what"], row["thread"]
        if what == ALLOC:
            self.allocate(number, row)
        elif what == FREE and row["block"] in self.blocks:
            self.free(number, self.blocks[row["block"]], thread)
        elif what == USE and row["result"] == 0 and row["block"] in self.blocks:
            self.blocks[row["block"]].uses.append(number)
        elif what == ENTER:
            parents = tuple(self.open[thread])
            path = "/".join([p.path for p in parents[-1:]] + [row["name"]])
            found = Range(path, self.instances[path], number, thread, parents)
            self.instances[path] += 1
            self.open[thread].append(found)
            self.ranges.append(found)
        elif what == LEAVE and self.open[thread]:
            self.open[thread].pop().leave = number
        elif what == RESET and row["result"] == 0:
            for b in [b for b in self.blocks.values() if b.died is None and b.device == row["device"] and b.is_device]:
                self.free(number, b, None)

    def ranges_of(self, thread):
        """The thread's open ranges; in a thread without one those around the range that was entered last and is still open."""
        if self.open[thread]:
            return tuple(self.open[thread])
        last = max((ranges[-1] for ranges in self.open.values() if ranges), key=lambda r: r.enter, default=None)
        return last.parents + (last,) if last else ()

    def allocate(self, number, row):
        if row["state"] == 2 and row["result"] != 0:
            self.failed.append((number, row, self.ranges_of(row["thread"])))
            return
        key = ((f"take_{APIS[row['api']]}", row["line"]), (f"site_{row['site']}", row["site_line"]), row["phase_line"],
               row["step_line"], "main" if row["thread"] == 0 else "thread")
        b = Block(number, row, self.ranges_of(row["thread"]), key)
        self.blocks[number] = b
        self.order.append((number, b, 1))
        # A block is temporary if its thread frees it before it has allocated more than one other.
        if b.is_device:
            self.temporaries[b.thread].append(b)

    def free(self, number, b, thread):
        b.died, b.killer = number, thread
        self.order.append((number, b, -1))
        mine = self.temporaries[b.thread]
        b.temporary = thread == b.thread and b in mine[-2:]

    @staticmethod
    def levels_of(blocks, size=lambda b: b.bytes, first=0, last=None):
        """[(record, what is live behind it)] of these blocks from `first` on; what lives then is the first level."""
        steps = [(b.born, size(b)) for b in blocks] + [(b.died, -size(b)) for b in blocks if b.died is not None]
        steps.sort()
        now, levels = 0, []
        for number, change in steps:
            if last is not None and number > last:
                break
            if number < first:
                now += change
                continue
            if not levels:
                levels.append((first, now))
            now += change
            levels.append((number, now))
        return levels or [(first, now)]

    @staticmethod
    def highest(levels):
        """The highest level, and the record behind which it is reached first."""
        best = max(level for _, level in levels)
        return best, next(number for number, level in levels if level == best)

    def blocks_in(self, first, last):
        """What was allocated in the window."""
        return self.device[bisect.bisect_left(self.births, first):bisect.bisect_right(self.births, last)]

    def peak_in(self, first, last):
        """The most that was live at one moment of the window."""
        at = bisect.bisect_right(self.moments, first)
        levels = [level for _, level in self.levels[max(at - 1, 0):bisect.bisect_right(self.moments, last)]]
        return max(levels) if at or levels else 0

    def figures(self, first=0, last=None, own=None):
        """The six figures and their like, of what is allocated in the window, or of `own` blocks of an anchor's instance."""
        last = self.end if last is None else last
        mine = self.blocks_in(first, last) if own is None else own
        freed = [b for b in mine if b.died is not None and b.died <= last]
        gone_there = self.deaths[bisect.bisect_left(self.deaths, (first,)):bisect.bisect_right(self.deaths, (last + 1,))]
        outside = [size for _, born, size in gone_there if born < first]
        allocated = sum(b.bytes for b in mine)
        gone = sum(b.bytes for b in freed)
        return {"allocated_bytes": allocated, "allocated_count": len(mine), "freed_bytes": gone, "freed_count": len(freed),
                "remaining_bytes": allocated - gone, "max_bytes": self.highest(self.levels_of(mine, last=last))[0],
                "outside_freed_bytes": sum(outside), "outside_freed_count": len(outside),
                "peak_live_bytes": self.peak_in(first, last)}

    def class_of(self, b):
        if self.mode == "track" and b.api in ("sync", "async", "pool"):
            return "driver"
        return CLASSES[b.api]

    def in_range(self, found):
        """What an instance of an anchor and those nested in it allocated."""
        return self.owned[found]

    def window(self, first_name, last_name):
        """(first, last record) from the first enter of one anchor to the last exit of the other; a path or its last part."""
        def fits(r, name):
            return r.path == name or r.path.split("/")[-1] == name
        first = min((r.enter for r in self.ranges if fits(r, first_name)), default=0) if first_name else 0
        if last_name is None:
            return first, self.end
        leaves = [self.end if r.leave is None else r.leave for r in self.ranges if fits(r, last_name)]
        return first, max(leaves, default=self.end)


def sums(blocks, key):
    """{key: (bytes, count)}"""
    found = collections.defaultdict(lambda: [0, 0])
    for b in blocks:
        row = found[key(b)]
        row[0] += b.bytes
        row[1] += 1
    return {k: tuple(v) for k, v in found.items()}


def stack_key(stack):
    """The part of a printed stack that the log has as well."""
    lines = {f["function"]: f["line"] for f in reversed(stack) if f["function"]}
    take = next(((f["function"], f["line"]) for f in stack if (f["function"] or "").startswith("take_")), None)
    site = next(((f["function"], f["line"]) for f in stack if (f["function"] or "").startswith("site_")), None)
    return take, site, lines.get("phase", 0), lines.get("step", 0), "main" if "main" in lines else "thread"


# ---- comparing ----

UNKNOWN = (None, "?", "unknown")


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
        self.different[view].append(f"{what}: {got!r} instead of {want!r}")

    def rows(self, view, what, got, want, may=False):
        """Two tables, row by row, by their keys."""
        if got is None and may:
            self.compared[view] += 1
            self.unknown[view] += 1
            return
        for key in sorted(set(got) | set(want), key=repr):
            self.one(view, f"{what} {key}", got.get(key, "no row"), want.get(key, "no row"), may)

    @property
    def difference_count(self):
        return sum(map(len, self.different.values()))


def command(*words, rc=(0,)):
    done = subprocess.run([str(KEDGE), *map(str, words)], env=environment(), capture_output=True, text=True, errors="replace",
                          timeout=300, check=False)
    if rc is not None and done.returncode not in rc:
        raise RuntimeError(f"kedge {' '.join(map(str, words))}: exit {done.returncode}: {done.stdout[-400:]}{done.stderr[-400:]}")
    return done


def command_json(*words, rc=(0,)):
    return json.loads(command(*words, "--json", rc=rc).stdout)


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


WITH_HINTS = {"max_with_hints_bytes": "max_bytes", "remaining_with_hints_bytes": "remaining_bytes", "freed_with_hints_bytes": "freed_bytes",
              "freed_with_hints_count": "freed_count", "max_would_bytes": "max_bytes", "remaining_would_bytes": "remaining_bytes"}


def without_hints(figures):
    """All of FIGURES where no hint does anything."""
    zero = {k: 0 for k in ("hinted_freed_bytes", "hinted_freed_count", "would_freed_bytes", "would_freed_count")}
    return figures | zero | {k: figures[v] for k, v in WITH_HINTS.items()}


def head(job):
    """The figures of the whole run: right in every mode of recording."""
    run, j = job.run, job.report
    want = run.figures()
    if not job.facts.get("hints"):
        want = without_hints(want)
    want["peak_live_512_bytes"] = run.highest(run.levels_of(run.device, lambda b: b.rounded))[0]
    if job.facts["devices"] == 1 and run.closed:
        want["peak_reserved_bytes"] = run.device_peaks[0]
    for key, value in want.items():
        job.one("head", key, j[key], value, may=False)
    if want.get("peak_reserved_bytes"):
        job.one("head", "e", j.get("e"), float(f"{want['peak_live_512_bytes'] / want['peak_reserved_bytes']:.6g}"), may=False)
    by_device = {}
    for device in {b.device for b in run.device}:
        levels = run.levels_of([b for b in run.device if b.device == device])
        by_device[device] = run.highest(levels)[0]
    job.rows("head", "high water of device", {h["device"]: h["bytes"] for h in j["high_water"]}, by_device, may=False)
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
    want = {(r.path, r.instance): r for r in run.ranges}
    job.one("anchors", "instances", "unknown" if job.partial and len(got) < len(want) else len(got), len(want))
    for key in job.random.sample(sorted(want), min(200, len(want))):
        r = want[key]
        if key not in got:
            job.one("anchors", f"{key}", "unknown" if job.partial else "no row", "a row")
            continue
        last = run.end if r.leave is None else r.leave
        figures = run.figures(r.enter, last, own=run.in_range(r))
        if not job.facts.get("hints"):
            figures = without_hints(figures)
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
    """{stack: (bytes, count)}; rows of one stack are one."""
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
    def full(rows):
        return {place(b): (0, 0) for b in run.device} | rows
    job.one("places", "places lost", j["places_lost"], 0)
    job.rows("places", "allocated", columns("allocated"), full(sums(run.device, place)), may=False)
    job.rows("places", "live", columns("live"), full(sums([b for b in run.device if b.died is None], place)), may=False)
    job.rows("places", "temporary", columns("temporary"), full(sums([b for b in run.device if b.temporary], place)), may=False)
    job.rows("places", "at the high of the device", columns("high"),
             full(sums([b for b in run.device if b.lives_at(by_device[b.device])], place)), may=False)
    mine = collections.defaultdict(list)
    for b in run.device:
        mine[place(b)].append(b)
    got = columns("peak")
    job.rows("places", "own peak", {k: v[0] for k, v in got.items()},
             {k: run.highest(run.levels_of(v))[0] for k, v in mine.items()}, may=False)


def summed(run, blocks):
    live = [b for b in blocks if b.died is None]
    return {"allocated_bytes": sum(b.bytes for b in blocks), "allocated_count": len(blocks), "live_bytes": sum(b.bytes for b in live),
            "live_count": len(live)}


def by(blocks, key):
    found = collections.defaultdict(list)
    for b in blocks:
        found[key(b)].append(b)
    return found


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
        figures = summed(run, want[name]) | {"peak_bytes": run.highest(run.levels_of(want[name]))[0]}
        for key, value in figures.items():
            job.one("classes", f"{name} {key}", got.get(name, {}).get(key, "no row"), value, may=False)


def libraries(job):
    run, j = job.run, job.report
    got = {pathlib.Path(r["path"]).name: {k: r[k] for k in ("allocated_bytes", "allocated_count", "live_bytes", "live_count")} for r in j["libraries"]}
    job.rows("libraries", "library", got, {PROGRAM.name: summed(run, run.device)} if run.device else {}, may=False)


def sources(job):
    run, j = job.run, job.report
    _, moment = run.highest(run.levels)
    def columns(blocks, is_device=True):
        at = sum(b.bytes for b in blocks if b.lives_at(moment)) if is_device else 0
        return summed(run, blocks) | {"peak_bytes": run.highest(run.levels_of(blocks))[0], "at_max_bytes": at}
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


def streams(job, window=(), span=None):
    """What was asked for on each stream of each device in the window."""
    run = job.run
    j = command_json("report", job.capture, *window) if window else job.report
    blocks = run.blocks_in(*span) if span else run.device
    got = {(s["device"], s["stream"]): (s["allocated_bytes"], s["allocated_count"]) for s in j["streams"]}
    job.rows("streams", "stream", got, sums(blocks, lambda b: (b.device, b.stream if b.api in ON_STREAM else None)))


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
        if o.get("holders"):
            holders(job, i, o, alive)


def holders(job, i, o, alive):
    """The largest holders by stack; what is not among them is one sum."""
    want = sums(alive, lambda b: b.key)
    got = keyed(o["holders"])
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
    if not job.facts.get("hints"):
        want = without_hints(want)
    for key, value in want.items():
        job.one("window", f"{what} {key}", j[key], value, may)
    mine = run.blocks_in(*span)
    job.rows("window", f"{what} live", keyed(j["live"]),
             sums([b for b in mine if b.died is None or b.died > span[1]], lambda b: b.key), may)
    if mine:
        _, moment = run.highest(run.levels_of(mine, last=span[1]))
        job.rows("window", f"{what} at max", keyed(j["live_at_max"]), sums([b for b in mine if b.lives_at(moment)], lambda b: b.key), may)
    got = {(s["device"], s["stream"]): (s["allocated_bytes"], s["allocated_count"]) for s in j["streams"]}
    job.rows("window", f"{what} stream", got, sums(mine, lambda b: (b.device, b.stream if b.api in ON_STREAM else None)), may)
    got = {c["name"]: (c["allocated_bytes"], c["allocated_count"]) for c in j["classes"] if c["device_memory"]}
    job.rows("window", f"{what} class", {k: v for k, v in got.items() if v[1]}, sums(mine, run.class_of), may)


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
    want = [r for r in run.ranges if r.path == "step" and r.leave is not None]
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
                 "peak_bytes": figures["peak_live_bytes"], "allocated_bytes": sum(b.bytes for b in mine), "allocated_count": len(mine),
                 "freed_bytes": sum(b.bytes for b in freed), "freed_count": len(freed), "instance": r.instance}
        for key, value in named.items():
            job.one("steps", f"step {r.instance} {key}", row[key], value)


# ---- the page ----

def page(job):
    run = job.run
    command("report", job.capture, "--html", "page.html")
    text = pathlib.Path("page.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script[^>]*\bid="?data"?[^>]*>(.*?)</script>', text, re.S).group(1))
    want = run.figures()
    if not job.facts.get("hints"):
        want = without_hints(want)
    for key, value in want.items():
        job.one("page", key, data["figures"].get(key), value, may=False)
    job.one("page", "failures", data["failure_count"], len(run.failed), may=False)
    _, moment = run.highest(run.levels)
    moments = {"peak": [b for b in run.device if b.lives_at(moment)], "end": [b for b in run.device if b.died is None], "allocated": run.device}
    for name, blocks in moments.items():
        for i, total in enumerate((sum(b.bytes for b in blocks), len(blocks))):
            job.one("page", f"call sites, {name} {('bytes', 'count')[i]}", sum(s[name][i] for s in data["sites"]), total)
    if run.device:
        line = data["timeline"]
        job.one("page", "timeline's peak", line["peak_live"]["bytes"], want["peak_live_bytes"])
        job.one("page", "the highest moment", max(line["live"], default=0), want["peak_live_bytes"])
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
    job.rows("export.folded", f"at {moment}", dict(got), {k: v[0] for k, v in sums(blocks, lambda b: b.key).items()})


def speedscope(job, moment, blocks):
    path, _ = export(job, "speedscope", "--at", moment)
    j = json.loads(path.read_text(encoding="utf-8"))
    got = collections.defaultdict(int)
    profile, frames = j["profiles"][0], j["shared"]["frames"]
    for sample, weight in zip(profile["samples"], profile["weights"]):
        got[frame_key([(frames[i]["name"], frames[i].get("line", 0)) for i in reversed(sample)])] += weight
    job.rows("export.speedscope", f"at {moment}", dict(got), {k: v[0] for k, v in sums(blocks, lambda b: b.key).items()})


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
        # of all devices: what lived when the last one failed
        cases.append(("oom", [b for b in run.device if b.lives_at(run.failed[-1][0])]))
    for name, blocks in cases:
        for form in (folded, speedscope, pprof):
            form(job, name, blocks)


def export_csv(job):
    """Rows of allocations and frees, in their order."""
    path, answer = export(job, "csv")
    rows = [line.split(",") for line in path.read_text(encoding="ascii").splitlines()[1:]]
    got = [(op, int(size), int(ident)) for op, ident, size, *_ in rows]
    ids = {}
    want = []
    for _, b, sign in sorted((e for e in job.run.order if e[1].is_device), key=lambda e: e[0]):
        ids.setdefault(b, len(ids))
        want.append(("a" if sign > 0 else "f", b.bytes, ids[b]))
    renamed, seen = [], {}
    for op, size, ident in got:
        seen.setdefault(ident, len(seen))
        renamed.append((op, size, seen[ident]))
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
        job.one("export.perfetto", "the most that is reserved", max(lines["reserved"], default=0), job.report["peak_reserved_bytes"])
    job.one("export.perfetto", "complete", j["otherData"]["complete"], not job.partial)
    job.one("export.perfetto", "slices", sorted(slices) if j["otherData"]["complete"] else "unknown", sorted((r.path, r.instance) for r in run.ranges if r.leave is not None or job.facts["cut"]))
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
        job.one("export.memory_viz", f"events of device {device}", len(got), len(want))
        job.one("export.memory_viz", f"order of device {device}", got == want, True)
        job.one("export.memory_viz", f"failures of device {device}", sum(t["action"] == "oom" for t in trace),
                sum(row["device"] == device for _, row, _ in run.failed))
    if run.ranges:
        got = collections.Counter((a["name"], a["stage"]) for a in snapshot["external_annotations"] if a["device"] == 0)
        want = collections.Counter()
        for r in run.ranges:
            want[r.path, "START"] += 1
            if r.leave is not None:
                want[r.path, "END"] += 1
        job.one("export.memory_viz", "annotations", dict(got), dict(want))


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
        peak = sums([b for b in run.device if b.lives_at(moment)], lambda b: 0).get(0, (0, 0))
        job.one("export.sqlite", "live at the peak", ask(f"SELECT coalesce(sum(size), 0), count(*) FROM live_at_peak WHERE {device}")[0], peak)
        job.one("export.sqlite", "the most live bytes", ask("SELECT coalesce(max(live_bytes), 0) FROM events")[0][0], highest)
        if run.device:
            job.one("export.sqlite", "the most reserved bytes", ask("SELECT max(reserved_bytes) FROM events")[0][0],
                    job.report["peak_reserved_bytes"])
        job.one("export.sqlite", "failures", ask("SELECT count(*) FROM ooms")[0][0], len(run.failed))
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
    if not job.facts.get("hints"):
        want |= {"peak_with_hints": f["peak_live_bytes"], "peak_if_live": f["peak_live_bytes"], "hint_releases": 0, "drifted_hints": 0,
                 "remaining_with_hints": f["remaining_bytes"], "moved_in": 0, "moved_out": 0}
    if job.facts["devices"] == 1 and run.closed:
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
    served = [b for b in run.device if run.class_of(b) == ("driver" if run.mode == "track" else "pooled")]
    if job.partial or not served or job.facts.get("hints"):
        return
    highest = run.highest(run.levels_of(served))[0]
    rounded = run.highest(run.levels_of(served, lambda b: b.rounded))[0]
    policies = command_json("whatif", job.capture, "--policy", "kedge,native,torch,async")["policies"]
    small = run.levels_of([b for b in served if b.rounded < MB], lambda b: b.rounded)
    for p in policies:
        job.one("whatif", f"{p['policy']} peak_live_bytes", p["peak_live_bytes"], highest)
        job.one("whatif", f"{p['policy']} peak_live_512_bytes", p["peak_live_512_bytes"], rounded)
        job.one("whatif", f"{p['policy']} holds what is live", p["peak_reserved_bytes"] >= highest, True)
        if p["policy"] == "native" and job.facts["devices"] == 1:
            job.one("whatif", "native peak_reserved_bytes", p["peak_reserved_bytes"], native_held(run, served))
        job.one("whatif", f"{p['policy']} e", p["e"], float(f"{rounded / p['peak_reserved_bytes']:.6g}"))
    del small


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


VIEWS = (head, text_head, anchors, live_rows, places, classes, libraries, sources, streams, failures, windows, grouped, text_rows,
         patterns, steps, page, moments_exported, export_csv, perfetto, memory_viz, sqlite, checks, whatif)


# ---- runs ----

class Kind:
    """How a run is made: words for the program, and the environment."""

    def __init__(self, *words, trace="full,uses=on", rc=0, kill=False, views=VIEWS, **env):
        self.words, self.rc, self.kill, self.views = words, rc, kill, views
        self.env = {"KEDGE_TRACE": trace} | env
        options = dict(w.split("=") for w in words)
        self.facts = {"devices": int(options.get("devices", 1)), "cut": kill, "uses": "uses=on" in trace, "hints": False}
        self.mode = env.get("KEDGE_MODE", "pool")
        if self.facts["devices"] > 1:
            self.env["SIMCUDA_DEVICES"] = str(self.facts["devices"])


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
    "oom_agg": Kind("steps=15", "huge=8", "devices=2", trace="agg", SIMCUDA_MEMORY="96M", KEDGE_LOG="off"),
    "driver": Kind("steps=12", ALL_APIS, **NVTX),
    "driver_agg": Kind("steps=12", ALL_APIS, trace="agg", **NVTX),
    "driver_devices": Kind("steps=10", ALL_APIS, "devices=2", **NVTX),
    "streams": Kind("steps=12", "apis=2"),
    "pools": Kind("steps=12", "apis=130"),
    "graphs": Kind("steps=12", "apis=67", **NVTX),
    "mapped": Kind("steps=12", KEDGE_POOL="sync=mapped"),
    "track": Kind("steps=12", ALL_APIS, KEDGE_MODE="track", **NVTX),
}


# The short form, of one seed.
SHORT = ["full", "agg", "killed", "threads", "devices", "resets", "oom", "driver", "track"]
FLOOR = 500 # comparisons in a run of any kind


def start(kind, log, capture, seed):
    words = [KEDGE, "run", "-q", "--sim", "--capture", capture, "--", PROGRAM, log, seed, *kind.words]
    with open("out.txt", "wb") as out:
        return subprocess.Popen(list(map(str, words)), env=environment(**kind.env), stdin=subprocess.DEVNULL, stdout=out, stderr=out)


def recorded(path):
    try:
        with open(path, "rb") as f:
            return struct.unpack("<Q", f.read(8))[0]
    except (OSError, struct.error):
        return 0


def make(kind, seed, log, capture):
    """Runs the program; one that is killed is so in the middle of what it does."""
    pathlib.Path(log).unlink(missing_ok=True)
    process = start(kind, log, capture, seed)
    if kind.kill:
        wanted = random.Random(seed).randrange(200, 20000 if "ring" in kind.env["KEDGE_TRACE"] else 4000)
        deadline = time.monotonic() + 60
        while recorded(log) < wanted and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.0002)
        process.send_signal(signal.SIGKILL)
    status = process.wait(timeout=120)
    if not kind.kill and status != kind.rc:
        raise RuntimeError(f"{kind.words}: exit {status}: {pathlib.Path('out.txt').read_text(encoding='utf-8', errors='replace')[-600:]}")


def compare_all(name, kind, seed, log, capture, spoil=None, pending=True):
    tally = Tally(name)
    run = Run(log, kind.mode, pending, spoil)
    job = Job(name, seed, run, capture, tally, kind.facts)
    for view in kind.views:
        view(job)
    return tally


def recount(name, seed):
    """One run of a kind. Of a run that was killed, the call under way may be in the record or not."""
    kind = KINDS[name]
    log, capture = f"{name}.log", f"{name}.kcap"
    make(kind, seed, log, capture)
    tallies = [compare_all(name, kind, seed, log, capture, pending=p) for p in ((False, True) if kind.kill else (True,))]
    return min(tallies, key=lambda t: t.difference_count)


# ---- what is known ----

def is_known(kind, view, text):
    return next((row for row in KNOWN if re.fullmatch(row[0], kind) and re.fullmatch(row[1], view) and re.search(row[2], text)), None)


class Results:
    """Of several runs: what was compared, what is new, and which of the known differences were seen."""

    def __init__(self):
        self.compared = self.unknown = self.fresh = self.different = 0
        self.seen = set()

    def add(self, name, tallies, verbose):
        """tallies: {seed: Tally} of one kind."""
        compared, unknown, fresh, rows = collections.Counter(), 0, 0, collections.defaultdict(list)
        for seed, tally in tallies.items():
            compared += tally.compared
            unknown += sum(tally.unknown.values())
            for view, texts in tally.different.items():
                for text in texts:
                    row = is_known(name, view, text)
                    rows[view].append((row, f"seed {seed}: {text}"))
                    fresh += not row
                    self.seen.add(row)
            if sum(tally.compared.values()) < FLOOR:
                fresh += 1
                print(f"{name}, seed {seed}: only {sum(tally.compared.values())} comparisons")
        total = sum(len(texts) for texts in rows.values())
        print(f"{name}: {sum(compared.values())} comparisons, {unknown} not known, {total} differences, {fresh} of them not listed")
        for view in sorted(rows):
            new = [text for row, text in rows[view] if not row]
            print(f"    {view}: {compared[view]} comparisons, {len(rows[view])} differences, {len(new)} not listed")
            for text in ([text for _, text in rows[view]] if verbose else new[:6]):
                print(f"        {text[:400]}")
        self.compared += sum(compared.values())
        self.unknown += unknown
        self.fresh += fresh
        self.different += total

    def stale(self, short):
        """Rows of the list that nothing has shown."""
        rows = [row for row in KNOWN if row not in self.seen and (row[4] == "short" or not short)]
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
        found = {view: len(texts) for view, texts in tally.different.items() for t in texts if not is_known("full", view, t)}
        print(f"a log that {what}: {sum(found.values())} differences in {len(found)} views")
        bad += len(found) < 2
    return bad


def main():
    parser = argparse.ArgumentParser(description="A recount of what kedge prints.")
    parser.add_argument("kinds", nargs="+", help=f"all, short, spoilt, or some of {' '.join(KINDS)}")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="known differences, too")
    options = parser.parse_args()
    if options.kinds == ["spoilt"]:
        sys.exit(1 if spoilt() else 0)
    group = options.kinds[0] if options.kinds in (["all"], ["short"]) else None
    results = run_kinds({"all": list(KINDS), "short": SHORT}.get(group, options.kinds), options)
    stale = results.stale(group == "short") if group else 0
    print(f"{results.compared} comparisons, {results.unknown} not known, {results.different} differences, "
          f"{results.fresh} that are not listed, {stale} listed that are gone")
    sys.exit(1 if results.fresh or stale else 0)


if __name__ == "__main__":
    main()
