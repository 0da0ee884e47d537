#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A reader of captures made from tracker/FORMAT.md alone, never from our code: what it finds, as lines.

    kcap.py FILE

tests/unit/tracker/capture_text.c prints the same lines by our reader. Where they differ, the document or the code is wrong.
"""
import struct
import sys

ALL_BITS = (1 << 64) - 1
PAGE = 4096
LIVE, DEFS, EVENTS, FAILURES, PLACES, RECORD = range(1, 7)
DEVICE_CLASSES = 8  # classes from 8 on are no device memory of the process
CLASSES = 14
# what never changes in the header: offsets and sizes
HEADER_PARTS = ((8, 8), (24, 12), (40, 16), (1768, 1024), (2792, 2048), (4840, 8), (4848, 64), (4912, 32), (4944, 96), (5040, 4))
RUN_PART = (6712, 24)  # where a run is named


def header_parts(data):
    return (*HEADER_PARTS, RUN_PART) if data[RUN_PART[0]] else HEADER_PARTS


SEAL, REST, UNSEEN, HEADER = 6752, 6760, 7440, 8112


def seal_of(data):
    """Of the whole header, as it is made once nobody counts any more."""
    total = add(add(0, data[:SEAL]), data[REST:UNSEEN])
    if any(data[REST : REST + 8]):
        total = add(total, data[UNSEEN : UNSEEN + 24])
    return add(total, data[UNSEEN + 24 : HEADER]) or 1

BLOCK = [("addr", "NEAR", "address"), ("size", "SIZE", None), ("stream", "STEP", "stream")]
WHERE = [("path", "STEP", "path"), ("instance", "STEP", "instance")]
ALLOC = [*BLOCK, ("stack", "STEP", "stack"), *WHERE, ("nth", "ZERO", None), ("pystack", "STEP", "pystack")]
FREE = [*BLOCK, ("stack", "STEP", "free stack"), *WHERE, ("pystack", "STEP", "free pystack"), ("first", "AGO", None),
        ("last", "AGO", None), ("gap", "ZERO", None), ("gap_end", "AGO", None), ("count", "ZERO", None), ("worth", "ZERO", None)]
KINDS = {
    1: ALLOC,
    2: FREE,
    3: [("edge", "ZERO", None), ("anchor", "STEP", "anchor"), *WHERE, ("before", "ZERO", None)],
    4: [("addr", "NEAR", "address"), ("size", "SIZE", None), ("rule", "LESS", None), ("what", "ZERO", None),
        ("stack", "ZERO", None), *WHERE, ("mode", "ZERO", None), ("result", "ZERO", None), ("pystack", "ZERO", None)],
    5: [("heap", "STEP", "heap"), ("size", "NEAR", "held")],
    6: [("size", "SIZE", None), ("free", "SIZE", None), ("largest", "SIZE", None), ("stack", "STEP", "stack"), *WHERE,
        ("result", "ZERO", None), ("pystack", "STEP", "pystack")],
    7: ALLOC,
    8: FREE,
    9: [("call", "STEP", "call"), ("path", "STEP", "call path"), ("instance", "STEP", "call instance"), ("arg", "ZERO", None),
        ("to", "NEAR", "call address"), ("arg 2", "ZERO", None), ("to 2", "NEAR", "call address"), ("comm", "STEP", "communicator"), ("peer", "LESS", None)],
}
EVERY = [("thread", "STEP", "thread"), ("seq", "NEXT", "seq"), ("time", "STEP", "time"), ("flags", "STEP", "flags")]


def unfold(number):
    return -(number + 1) // 2 if number & 1 else number // 2


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


class Record:
    """The fields of one record of area D."""

    def __init__(self, data):
        self.data, self.at = data, 4
        word = struct.unpack_from("<I", data)[0]
        self.kind, self.there = word >> 8 & 31, word >> 13

    def take(self, count):
        self.at += count
        return int.from_bytes(self.data[self.at - count : self.at], "little")

    def number(self):
        first = self.data[self.at]
        if first == 0:
            self.at += 1
            return self.take(8)
        more = (first & -first).bit_length() - 1
        return self.take(1 + more) >> (1 + more)

    def unmarked(self, is_folded):
        kept = self.number()
        if kept & 1:
            return 512 * (unfold(kept >> 1) if is_folded else kept >> 1)
        bare = kept >> 1 if kept else self.take(8)
        return unfold(bare) if is_folded else bare

    def field(self, coding, slot, slots, time):
        is_there, self.there = self.there & 1, self.there >> 1
        last = slots.get(slot, 0)
        value = {"STEP": last, "NEXT": last + 1, "NEAR": last, "LESS": -1}.get(coding, 0)
        if is_there and coding in ("STEP", "NEXT"):
            value += unfold(self.number())
        elif is_there and coding == "NEAR":
            value += self.unmarked(True)
        elif is_there and coding == "SIZE":
            value = self.unmarked(False)
        elif is_there and coding == "LESS":
            value = signed(self.number() - 1, 32)
        elif is_there and coding == "AGO":
            value = time - unfold(self.number())
        elif is_there:
            value = self.number()
        value &= ALL_BITS
        if slot:
            slots[slot] = value
        return value


def events_of(chunk):
    number, used, its = struct.unpack_from("<QII", chunk)
    at, slots, end, total = 64, {}, 64 + used, add(0, number.to_bytes(8, "little"))
    while number and at < end:
        record = Record(chunk[at : at + chunk[at]])
        total = add(total, record.data)
        event = {}
        for name, coding, slot in EVERY + KINDS[record.kind]:
            event[name] = record.field(coding, slot, slots, event.get("time"))
        event["kind"] = record.kind
        yield event
        at += chunk[at]
    assert used == 0 or its == total >> 32


def add(total, data):
    """The sums of FORMAT.md, word by word."""
    for at in range(0, len(data), 8):
        total = (total ^ int.from_bytes(data[at : at + 8], "little")) * 0x9E3779B97F4A7C15 & ALL_BITS
        total ^= total >> 32
    return total


def mended(data):
    """A capture whose texts were changed, with the sums that it would have had with them. What lies outside of the file, or behind a
    definition whose length makes no sense, stays as it is."""
    data = bytearray(data)
    directory, extents = struct.unpack_from("<I", data, 4844)[0], struct.unpack_from("<I", data, 36)[0]
    for i in range(min(extents, 1024, max(0, len(data) - directory) // 24)):
        offset, length, kind, _ = struct.unpack_from("<QQII", data, directory + 24 * i)
        for block in range(offset, min(offset + length, len(data)), 65536) if kind == DEFS else ():
            at, end = block, min(block + 65536, len(data))
            while at + 16 <= end and data[at]:
                size = struct.unpack_from("<I", data, at + 4)[0]
                if not 16 <= size <= end - at:
                    break
                data[at : at + 4] = struct.pack("<I", add(data[at], data[at + 4 : at + size]) >> 40 << 8 | data[at])
                at += size
    total = 0
    for at, size in header_parts(data):
        total = add(total, data[at : at + size])
    struct.pack_into("<Q", data, 7464, total)
    if any(data[SEAL : SEAL + 8]):
        struct.pack_into("<Q", data, SEAL, seal_of(data))
    return bytes(data)


def class_of(flags):
    memclass = flags >> 4 & 15
    return 1 if memclass >= CLASSES or (memclass == 0 and flags & 2) else memclass



class Capture:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.lines = []
        assert self.bytes[:8] == b"KEDGECAP" and self.get("I", 8) == (4,)
        self.extents = []
        directory = self.get("I", 4844)[0]
        for i in range(min(self.get("I", 36)[0], 1024)):
            offset, length, kind, its = self.get("QQII", directory + 24 * i)
            if kind:
                assert its == add(0, struct.pack("<QQQ", offset, length, kind)) >> 32
                self.extents.append((offset, length, kind))
        self.extents.sort()
        self.unseen = self.get("3Q", 7440)
        total = 0
        for at, size in header_parts(self.bytes):
            total = add(total, self.bytes[at : at + size])
        assert self.get("Q", 7464)[0] == total
        assert self.get("Q", SEAL)[0] in (0, seal_of(self.bytes))

    def get(self, form, at):
        return struct.unpack_from("<" + form, self.bytes, at)

    def text(self, at, size):
        return self.bytes[at : at + size].split(b"\0")[0].decode("latin-1")

    def say(self, *words):
        self.lines.append(" ".join(str(word) for word in words))

    def records(self, kind, size):
        for offset, length, its in self.extents:
            for at in range(offset, offset + length, size) if its == kind else ():
                yield at

    def header(self):
        state, signal, trace, pid, ppid = self.get("5I", 16)
        start, _, _, seq, failures = self.get("5Q", 40)
        self.say("version 4 state", state, signal, "trace", trace, "pid", pid, "ppid", ppid, "start", start)
        self.say("last", seq, "failures", failures, "file", len(self.bytes))
        for name, at, size in ("exe", 1768, 1024), ("host", 4848, 64), ("rank", 4912, 32), ("program", 4944, 96):
            self.say(name, self.text(at, size))
        arguments = self.bytes[2792 : 2792 + self.get("I", 4840)[0]]
        for argument in arguments.split(b"\0")[:-1]:
            self.say("arg", argument.decode("latin-1"))
        self.say("lost", *self.get("7Q", 80))
        self.say("total", *self.get("12Q", 136))
        for i in range(16):
            self.say("device", *self.get("12Q", 232 + 96 * i))
        self.say("classes", *self.get("I", 5040))
        for i in range(16):
            self.say("class", *self.get("5Q", 5048 + 40 * i))
        for i in range(16):
            self.say("look", *self.get("8Q", 5688 + 64 * i))
        for i in range(16):
            self.say("inside", *self.get("5Q", 7472 + 40 * i))
        self.highs = [self.get("5Q", 6792 + 40 * i) for i in range(16)]
        for live, peak, _, seq, time in self.highs:
            self.say("high", max(live, peak), seq, time)
        self.say("unplaced", *self.get("Q", 7432))
        self.say("unseen", *self.unseen)

    def definitions(self):
        self.defs = {kind: [] for kind in range(1, 20)}
        for block in self.records(DEFS, 65536):
            at = block
            while at + 16 <= block + 65536 and self.get("I", at)[0]:
                word, size, number, length = self.get("4I", at)
                kind = word & 255
                assert word >> 8 == add(kind, self.bytes[at + 4 : at + size]) >> 40
                self.defs[kind].append((number, at + 16, length))
                at += size
        self.strings = {number: self.bytes[at : at + length].decode("latin-1") for number, at, length in self.defs[1]}
        for number in sorted(self.strings):
            self.say("string", number, self.strings[number])
        for number, at, _ in sorted(self.defs[2]):
            base, end, bias, identity, path, size, main, kind, _ = self.get("4QI4B", at)
            build = self.bytes[at + 40 : at + 40 + size].hex()
            self.say("module", number, base, end, bias, identity, kind, main, self.word(path), build)
        for number, at, _ in sorted(self.defs[3]):
            self.say("node", number, *self.get("IIQ", at))
        for number, at, _ in sorted(self.defs[4]):
            name, *rest = self.get("4I", at)
            self.say("rule", number, self.word(name), *rest)
        hints = (0, 0, 0, 0)
        for _, at, _ in self.defs[5]:
            hints = self.get("QIII", at)
        self.say("hints", hints[0], self.word(hints[1]), hints[2])
        for _, at, _ in self.defs[6]:
            self.say("setting", *map(self.word, self.get("II", at)))
        for severity, at, length in self.defs[7]:
            self.say("note", severity, self.bytes[at : at + length].decode("latin-1"))
        if self.defs[17]:
            self.say("moves", *max(self.get("11Q", at) for _, at, _ in self.defs[17]))
        for number, at, _ in self.defs[8]:
            total, name, driver = self.get("QII", at)
            self.say("gpu", signed(number, 32), self.word(name), total, driver)
        highest = {}
        for _, at, _ in self.defs[9]:
            count, hook, route = self.get("QII", at)
            key = (self.word(hook), self.word(route))
            highest[key] = max(count, highest.get(key, 0))
        for key in sorted(highest):
            self.say("coverage", *key, highest[key])
        for number, at, _ in self.defs[10]:
            tid, name = self.get("II", at)
            self.say("thread", number, tid, self.word(name))
        for number, at, length in sorted(self.defs[11]):
            lines = self.bytes[at + 24 : at + 24 + length].hex()
            self.say("code", number, *self.get("IIIiHH", at), lines)
        for number, at, _ in sorted(self.defs[12]):
            self.say("pynode", number, *self.get("IIiI", at))

    def word(self, number):
        return self.strings.get(number, "")

    def node(self, number):
        return number if number <= len(self.defs[3]) else 0

    def live(self):
        found = []
        for at in self.records(LIVE, 128):
            state, address, size, stream, time = self.get("5Q", at)
            if not state:
                continue
            stack, path, instance, nth, device, flags, hint, rule = self.get("4IhBBi", at + 40)
            pystack, worth, first, last, gap, end, begin, count, its = self.get("2I7Q", at + 64)
            assert its == add(add(0, self.bytes[at : at + 56]), struct.pack("<hBBI", device, flags, 0, pystack))
            if begin and begin < end:
                gap = end - begin
            worth &= 255
            if worth and self.unseen[1] and self.unseen[2] >= time:
                worth |= 4
            memclass = class_of(flags)
            found.append((memclass >= DEVICE_CLASSES, state >> 1, address, size, stream, time, stack, pystack, self.word(path),
                          instance, nth, device, flags & 15, memclass, hint, rule, "uses", first or last, last, gap, end, count, worth))
        for is_other, *row in sorted(found, key=lambda row: row[:2]):
            self.say("other" if is_other else "live", *row)

    def events(self):
        found = []
        for at in self.records(EVENTS, 65536):
            found += events_of(self.bytes[at : at + 65536])
        for event in sorted(found, key=lambda event: (event["seq"], event["time"])):
            self.event(event)

    def event(self, event):
        def of(name):
            return event.get(name, 0)

        kind, flags = event["kind"], event["flags"] & 255
        memclass = class_of(flags) if kind in (1, 2, 7, 8) else 0
        rule = signed(event["rule"], 32) if kind == 4 else -1
        self.say("event", kind, of("seq"), of("time"), of("thread"), signed(event["flags"] >> 8, 16), flags & 15,
                 of("addr"), of("size"), of("stream"), self.node(of("stack")), of("pystack"), self.word(of("path")), of("instance"),
                 of("nth"), memclass, of("edge"), of("anchor"), of("before"), of("heap"), of("free"), of("largest"),
                 of("result"), of("what"), of("mode"), rule,
                 "uses", of("first"), of("last"), of("gap"), of("gap_end"), of("count"), of("worth"))
        self.say("call", self.word(of("call")), self.word(of("arg")), of("to"), self.word(of("arg 2")), of("to 2"), of("comm"),
                 signed(of("peer"), 32))

    def failures(self):
        found = []
        for at in self.records(FAILURES, 1024):
            if self.get("Q", at)[0]:
                assert self.get("Q", at + 1016)[0] == add(0, self.bytes[at : at + 1016])
                found.append((self.get("Q", at)[0] >> 1, at))
        for number, at in sorted(found):
            seq, time, requested, stream, stack, path, instance, call, device, result, flags, holders = self.get("4Q4IiIII", at + 8)
            free, total, native = self.get("3Q", at + 72)
            self.say("failure", number, seq, time, requested, stream, stack, self.word(path), instance, self.word(call), device,
                     result, flags, holders, free, total, native, *self.get("Q", at + 240), *self.get("I", at + 632),
                     *self.get("Q", at + 640), "heaps", *self.get("14Q", at + 96))
            self.say("ladder", *self.get("QQIII", at + 208))
            for i in range(holders):
                self.say("holder", *self.get("QQII", at + 248 + 24 * i))

    def record(self):
        found = []
        for offset, _, kind in self.extents:
            its, size, time, why, flags, bound = self.get("3Q2IQ", offset)
            if kind == RECORD and its:
                data = self.bytes[offset + 168 : offset + 168 + size]
                assert its == (add(add(0, self.bytes[offset + 8 : offset + 168]), data) or 1)
                found.append((time, size, why, flags, bound, *self.get("16Q", offset + 40), add(0, data)))
        if found:
            self.say("record", *max(found))

    def places(self):
        for at in self.records(PLACES, 128):
            if not self.get("Q", at)[0]:
                continue
            stack, pystack, path, device, flags = self.get("3IhH", at + 8)
            its, changing = self.get("2Q", at + 112)
            total = sum(word * pow(0x9E3779B97F4A7C15, i + 1, 1 << 64) for i, word in enumerate(self.get("14Q", at)))
            assert changing == 0x474E49474E414843 or (changing == 0 and its == total & ALL_BITS)
            figures = self.get("8Q", at + 24)
            share, peak = self.get("2Q", at + 88), self.get("Q", at + 104)[0]
            if not 0 <= device < 16:
                share = (0, 0)
            else:
                live, most, number, _, _ = self.highs[device]
                if live > most or peak != number:
                    share = figures[2:4]
            self.say("place", device, self.node(stack), pystack, self.word(path), flags & 1, *figures, *share)

    def all(self):
        for part in self.header, self.definitions, self.live, self.events, self.failures, self.record, self.places:
            part()
        return self.lines


if __name__ == "__main__":
    for line in Capture(sys.argv[1]).all():
        sys.stdout.buffer.write(line.encode("latin-1") + b"\n")
