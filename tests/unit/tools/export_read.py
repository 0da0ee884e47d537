#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Readers of what `kedge export` writes, made from the formats' own descriptions and not from our code.

    export_read.py FORMAT FILE REPORT     FILE is such a file, and has the figures that `kedge report --json` wrote to REPORT
    check(format, file, report)           the same; returns what was read
"""
import bisect
import gzip
import io
import json
import os
import pickle
import pickletools
import re
import sqlite3
import struct
import sys


def same(what, got, wanted):
    assert got == wanted, f"{what}: {got!r} instead of {wanted!r}"


def is_whole(report):
    """Are all events of the run there?"""
    return report["complete"] and not report["lost"]["events_recycled"] and not report["lost"]["events_dropped"]


# ---- folded stacks ----

def read_folded(path, report):
    sums = {}
    with open(path, encoding="utf-8", newline="\n") as f:
        for line in f:
            stack, count = re.fullmatch(r"(\S.*) (\d+)\n", line).groups()
            frames = stack.split(";")
            assert all(frames) and line[:-1].isprintable(), line
            sums[stack] = sums.get(stack, 0) + int(count)
    same("bytes", sum(sums.values()), report["peak_live_bytes"])
    return sums


# ---- profile.proto ----

def fields(data):
    """(number, value) of each field of a message: an int or bytes."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                assert value < 1 << 64, "a number of more than 64 bits"
                return value

    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            yield tag >> 3, number()
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            length = number()
            assert at + length <= len(data), "a field beyond the end of its message"
            at += length
            yield tag >> 3, data[at - length:at]


def packed(data):
    """The numbers of a packed field."""
    return [value for _, value in fields(b"".join(b"\x08" + part for part in re.findall(rb"[\x80-\xff]*[\x00-\x7f]", data, re.S)))]


def read_pprof(path, report):
    with open(path, "rb") as f:
        raw = f.read()
    assert raw[:2] == b"\x1f\x8b", "not gzip"
    parts = {}
    for field, value in fields(gzip.decompress(raw)):
        parts.setdefault(field, []).append(value)
    strings = [text.decode() for text in parts[6]]
    same("the first string", strings[0], "")
    same("strings that are there twice", len(set(strings)), len(strings))

    def message(data):
        return dict(fields(data))

    types = [tuple(strings[v] for _, v in sorted(fields(t))) for t in parts[1]]
    same("sample types", types, [("inuse_objects", "count"), ("inuse_space", "bytes")])
    same("default sample type", strings[parts[14][0]], "inuse_space")
    mappings = {m[1]: strings[m[5]] for m in map(message, parts.get(3, []))}
    functions = {f[1]: (strings[f[2]], strings[f[4]]) for f in map(message, parts.get(5, []))}
    locations = {}
    for location in map(message, parts.get(4, [])):
        line = message(location[4])
        assert location.get(2, 0) in {0, *mappings}, "no such mapping"
        locations[location[1]] = (*functions[line[1]], line[2])
    same("mappings without a number", 0 in mappings or 0 in functions or 0 in locations, False)
    samples = []
    for data in parts.get(2, []):
        sample, labels = {}, {}
        for field, value in fields(data):
            if field == 3:
                label = message(value)
                labels[strings[label[1]]] = strings[label[2]]
            else:
                sample[field] = packed(value)
        samples.append(([locations[i] for i in sample[1]], sample[2], labels))
    same("values of each sample", {len(values) for _, values, _ in samples} | {2}, {2})
    same("bytes", sum(values[1] for _, values, _ in samples), report["peak_live_bytes"])
    return {"samples": samples, "comments": [strings[i] for i in parts[13]], "time_ns": parts[9][0],
            "mappings": mappings}


# ---- Chrome trace ----

def check_nesting(events):
    """Slices of a thread lie in or behind each other."""
    by_thread = {}
    for e in events:
        if e["ph"] == "X":
            by_thread.setdefault(e["tid"], []).append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)))
    for slices in by_thread.values():
        ends = []
        for begin, end in sorted(slices, key=lambda s: (s[0], -s[1])):
            while ends and ends[-1] <= begin:
                ends.pop()
            assert not ends or end <= ends[-1], f"slices overlap: {begin}..{end} and one that ends at {ends[-1]}"
            ends.append(end)


def read_perfetto(path, report):
    with open(path, encoding="utf-8") as f:
        j = json.load(f)
    events = j["traceEvents"]
    counters, loose = {}, {}
    for e in events:
        assert {"ph", "name", "pid", "tid", "ts"} <= e.keys() and e["ts"] >= 0, e
        if e["ph"] == "C":
            same("arguments of a counter", list(e["args"]), ["bytes"])
            assert e["args"]["bytes"] >= 0, e
            counters.setdefault(e["name"], []).append(e["args"]["bytes"])
        elif e["ph"] == "X":
            assert e["dur"] >= 0 and e["cat"] == "anchor", e
        elif e["ph"] in "be":
            loose.setdefault((e["cat"], e["id"], e["name"]), []).append(e["ph"])
        elif e["ph"] == "i":
            assert e["s"] in ("g", "p", "t"), e
        else:
            assert e["ph"] == "M" and e["name"] in ("process_name", "thread_name") and e["args"]["name"], e
    assert all(phases == ["b", "e"] for phases in loose.values()), loose
    check_nesting(events)
    same("complete", j["otherData"]["complete"], is_whole(report))
    for name, key in (("live", "peak_live_bytes"), ("reserved", "peak_reserved_bytes"), ("live with hints", "max_with_hints_bytes")):
        same(key, j["otherData"][key], report[key])
        if name in counters and is_whole(report):
            same(f"the most of {name}", max(counters[name]), report[key])
    if is_whole(report):
        same("counters", "live" in counters, report["allocated_count"] > 0)
        same("counter with hints", "live with hints" in counters, report["hinted_freed_count"] > 0)
        same("live at the end", counters.get("live", [0])[-1], report["remaining_bytes"])
        same("with hints at the end", counters.get("live with hints", [report["remaining_with_hints_bytes"]])[-1],
             report["remaining_with_hints_bytes"])
    return j


# ---- PyTorch's snapshot ----

class Viewer:
    """As the unpickler of the page reads: one opcode that it does not know, and it gives up."""

    MOST = 1000  # elements that it is given at a time

    def __init__(self, data):
        self.data, self.at, self.stack, self.marks, self.memo = data, 0, [], [], []

    def take(self, count):
        self.at += count
        assert self.at <= len(self.data), "cut off"
        return self.data[self.at - count:self.at]

    def number(self, count, signed=False):
        return int.from_bytes(self.take(count), "little", signed=signed)

    def popped(self, most):
        mark = self.marks.pop()
        items = self.stack[mark:]
        assert len(items) <= most, f"{len(items)} elements at a time"
        del self.stack[mark:]
        return items

    def setitems(self):
        items = self.popped(2 * self.MOST)
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def pair(self):
        self.stack[-2:] = [tuple(self.stack[-2:])]

    def protocol(self):
        assert 2 <= self.number(1) <= 4

    def read(self):
        steps = {
            0x80: self.protocol,
            ord("("): lambda: self.marks.append(len(self.stack)),
            ord("}"): lambda: self.stack.append({}),
            ord("]"): lambda: self.stack.append([]),
            ord("u"): self.setitems,
            ord("e"): lambda: (lambda items: self.stack[-1].extend(items))(self.popped(self.MOST)),
            ord("K"): lambda: self.stack.append(self.number(1)),
            ord("M"): lambda: self.stack.append(self.number(2)),
            ord("J"): lambda: self.stack.append(self.number(4, signed=True)),
            0x8A: lambda: self.stack.append(self.long()),
            0x86: self.pair,
            0x88: lambda: self.stack.append(True),
            0x89: lambda: self.stack.append(False),
            0x8C: lambda: self.stack.append(self.take(self.number(1)).decode()),
            ord("X"): lambda: self.stack.append(self.take(self.number(4)).decode()),
            0x94: lambda: self.memo.append(self.stack[-1]),
            ord("h"): lambda: self.stack.append(self.memo[self.number(1)]),
            ord("j"): lambda: self.stack.append(self.memo[self.number(4)]),
        }
        while True:
            opcode = self.number(1)
            if opcode == ord("."):
                same("what is left behind the end", (len(self.data) - self.at, len(self.stack)), (0, 1))
                return self.stack.pop()
            steps[opcode]()

    def long(self):
        value = self.number(self.number(1), signed=True)
        assert abs(value) < 1 << 53, f"{value} is no exact number there"
        return value


class Plain(pickle.Unpickler):
    """Python's, that makes nothing but plain objects."""

    def find_class(self, module, name):
        raise AssertionError(f"an object of {module}.{name}")


def check_segments(segments):
    last = {}
    for s in sorted(segments, key=lambda s: (s["device"], s["address"])):
        assert s["address"] >= last.get(s["device"], 0), "segments overlap"
        assert s["served_by"] in ("pool", "driver")
        last[s["device"]] = s["address"] + s["total_size"]
        at, live, requested = s["address"], 0, 0
        for b in s["blocks"]:
            same("address of the next block", b["address"], at)
            same("keys of a block", sorted(b), ["address", "frames", "requested_size", "size", "state"])
            assert b["state"] in ("active_allocated", "inactive") and b["size"] > 0
            assert b["state"] == "active_allocated" or b["frames"] == [], "nobody's memory with a stack"
            if b["state"] == "active_allocated":
                assert b["size"] <= b["requested_size"]
                live += b["size"]
                requested += b["requested_size"]
            at += b["size"]
        same("the sum of a segment's blocks", at, s["address"] + s["total_size"])
        same("live in a segment", {s[k] for k in ("allocated_size", "active_size")}, {live})
        same("requested in a segment", s["requested_size"], requested)


def live_at_end(segments, device):
    return {b["address"]: b["requested_size"] for s in segments if s["device"] == device
            for b in s["blocks"] if b["state"] == "active_allocated"}


def merged(trace):
    """(action, address, size, who served it): free_requested and free_completed are one, and stand side by side."""
    events, requested = [], None
    for t in trace:
        if requested:
            same("what follows free_requested", (t["action"], t["addr"]), ("free_completed", requested))
            events.append(("free", t["addr"], t["size"], None))
            requested = None
        elif t["action"] == "free_requested":
            requested = t["addr"]
        elif t["action"] in ("alloc", "segment_alloc", "segment_free"):
            events.append((t["action"], t["addr"], t["size"], t.get("served_by")))
        else:
            assert t["action"] in ("oom", "snapshot"), t["action"]
    assert requested is None
    return events


class Places:
    """Segments by address, as the page looks one up: the last that does not begin above."""

    def __init__(self, segments):
        self.size = {s["address"]: (s["total_size"], s["served_by"]) for s in segments}
        self.begins = sorted(self.size)

    def add(self, addr, size, server):
        assert addr not in self.size, f"a segment at {addr:#x} comes twice"
        self.size[addr] = (size, server)
        bisect.insort(self.begins, addr)

    def remove(self, addr, size, server):
        same(f"the segment at {addr:#x}", self.size.pop(addr), (size, server))
        self.begins.remove(addr)

    def holds(self, addr):
        at = bisect.bisect_right(self.begins, addr) - 1
        return at >= 0 and addr < self.begins[at] + self.size[self.begins[at]][0]

    def sum(self, server):
        return sum(size for size, by in self.size.values() if by == server)


def replay(segments, device, trace):
    """Back from the final state, as the page goes, and on again. Returns how much was live before, between and behind the events of
    blocks, and how much the pool's segments had before, between and behind those of segments, the same of the driver's own."""
    events, live = merged(trace), live_at_end(segments, device)
    end, places = dict(live), Places([s for s in segments if s["device"] == device])
    ends = {server: places.sum(server) for server in ("pool", "driver")}
    for action, addr, size, server in reversed(events):
        if action == "segment_alloc":
            places.remove(addr, size, server)
        elif action == "segment_free":
            places.add(addr, size, server)
        else:
            assert places.holds(addr), f"no segment holds {addr:#x} at its {action}"
            if action == "alloc":
                same(f"the block at {addr:#x}, going back", live.pop(addr), size)
            else:
                assert addr not in live, f"{addr:#x} is live twice"
                live[addr] = size
    for addr in live:
        assert places.holds(addr), f"no segment holds {addr:#x} at the beginning"
    levels, curves = [sum(live.values())], {server: [places.sum(server)] for server in ends}
    for action, addr, size, server in events:
        if action == "segment_alloc":
            places.add(addr, size, server)
            curves[server].append(curves[server][-1] + size)
        elif action == "segment_free":
            places.remove(addr, size, server)
            curves[server].append(curves[server][-1] - size)
        elif action == "alloc":
            assert addr not in live
            live[addr] = size
            levels.append(levels[-1] + size)
        else:
            same(f"the block at {addr:#x}", live.pop(addr), size)
            levels.append(levels[-1] - size)
    same("what is live at the end", live, end)
    same("segments at the end", {server: curve[-1] for server, curve in curves.items()}, ends)
    return levels, curves


def check_reserved(snapshot, played, report):
    """What the pool's segments have together is what the report says was held, unless the file says that it is not."""
    about = snapshot["kedge"]
    if not about["reserved_is_known"]:
        same("the pool's peak, where nothing is known", report["peak_reserved_bytes"] or 0, 0)
        return
    if about["segments_beyond_reserved_bytes"] == 0 and len(played) == 1:
        most = max(played[0][1]["pool"])
        assert most <= report["peak_reserved_bytes"], f"reserved {most}, held {report['peak_reserved_bytes']}"
        if about["complete"]:
            same("the most that was reserved", most, report["peak_reserved_bytes"])


def read_memory_viz(path, report):
    with open(path, "rb") as f:
        data = f.read()
    snapshot = Viewer(data).read()
    same("Python's reading", Plain(io.BytesIO(data)).load(), snapshot)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        pickletools.dis(data, out=nowhere)
    segments, traces = snapshot["segments"], snapshot["device_traces"]
    check_segments(segments)
    same("devices with memory", {s["device"] for s in segments} - set(range(len(traces))), set())
    categories = {t["category"] for trace in traces for t in trace if "category" in t}
    assert "unknown" in categories
    for t in (t for trace in traces for t in trace):
        assert {"action", "size", "stream", "time_us", "frames"} <= t.keys(), t
        assert "device_free" in t if t["action"] == "oom" else "addr" in t, t
        assert all({"name", "filename", "line"} == f.keys() for f in t["frames"])
        assert t["frames"] or t["action"] == "snapshot", "an event without frames"
    played = [replay(segments, device, trace) for device, trace in enumerate(traces)]
    levels = [line for line, _ in played]
    check_reserved(snapshot, played, report)
    about = snapshot["kedge"]
    same("peak_live_bytes", about["peak_live_bytes"], report["peak_live_bytes"])
    if about["complete"]:
        same("complete", is_whole(report), True)
        same("what lived before", [line[0] for line in levels], [0] * len(levels))
        if len(traces) == 1:
            same("the most that was live", max(levels[0]), report["peak_live_bytes"])
    if not about["left_out_blocks"]:
        same("live at the end", sum(line[-1] for line in levels), report["remaining_bytes"])
    return snapshot


# ---- csv ----

def read_csv(path, report):
    live, now, most, begins, rows = {}, 0, 0, True, 0
    with open(path, encoding="ascii", newline="\n") as f:
        same("the first line", f.readline(), "op,id,size,stream,time_us\n")
        for line in f:
            op, number, size, stream, time = line.rstrip("\n").split(",")
            size, rows = int(size), rows + 1
            assert int(stream) >= 0 and size > 0 and int(time) >= -1
            begins = begins and time == "-1"
            assert begins or time != "-1", "a block from before behind one that was recorded"
            if op == "a":
                assert number not in live
                live[number] = size
            else:
                same("op and size", (op, live.pop(number)), ("f", size))
            now += size if op == "a" else -size
            most = max(most, now)
    same("live at the end", sum(live.values()), report["remaining_bytes"])
    if is_whole(report):
        same("the most that was live", most, report["peak_live_bytes"])
        same("rows", rows, report["allocated_count"] + report["freed_count"])
    return most


# ---- SQLite ----

def read_sqlite(path, report):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    same("integrity", db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
    db.execute("PRAGMA foreign_keys = ON")
    same("rows that name no row", db.execute("PRAGMA foreign_key_check").fetchall(), [])
    meta = dict(db.execute("SELECT key, value FROM meta"))
    same("complete", bool(meta["complete"]), is_whole(report))
    for key in ("peak_live_bytes", "peak_reserved_bytes", "remaining_bytes", "max_with_hints_bytes"):
        same(key, meta[key], report[key])
    same("live blocks at the end", db.execute("SELECT total(size) FROM blocks WHERE died_event IS NULL").fetchone()[0],
         report["remaining_bytes"])
    if is_whole(report):
        counts = dict(db.execute("SELECT kind, count(*) FROM events GROUP BY kind"))
        same("allocations and frees", (counts.get("alloc", 0), counts.get("free", 0)),
             (report["allocated_count"], report["freed_count"]))
        same("blocks", db.execute("SELECT count(*), total(size) FROM blocks").fetchone(),
             (report["allocated_count"], report["allocated_bytes"]))
        same("the most that was live", db.execute("SELECT coalesce(max(live_bytes), 0) FROM events").fetchone()[0],
             report["peak_live_bytes"])
        same("live_at_peak", db.execute("SELECT total(size) FROM live_at_peak").fetchone()[0], report["peak_live_bytes"])
        same("released blocks", db.execute("SELECT count(*), total(size) FROM blocks WHERE released_mode = 'live'").fetchone(),
             (report["hinted_freed_count"], report["hinted_freed_bytes"]))
        same("anchors", db.execute("SELECT count(*) FROM anchors WHERE id > 0").fetchone()[0], len(report["anchors"]))
    return db


READERS = {"folded": read_folded, "pprof": read_pprof, "perfetto": read_perfetto,
           "memory_viz": read_memory_viz, "csv": read_csv, "sqlite": read_sqlite}


def check(form, path, report):
    return READERS[form](path, report)


if __name__ == "__main__":
    with open(sys.argv[3], encoding="utf-8") as report_file:
        check(sys.argv[1], sys.argv[2], json.load(report_file))
