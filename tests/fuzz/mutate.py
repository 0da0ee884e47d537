#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Captures that were changed by somebody who knows their structure, through every command that reads captures.

    mutate.py N SEED [--first INDEX] [--bits N] [--kedge PROGRAM] [--keep]

N runs of commands, beginning with change INDEX, and N single bits.

The captures are real: recount.py's program on the simulated device, in each mode of the trace, with hints, out of memory, killed.
A change is one of CHANGES: fields of records, header and directory get other values; records, chunks, definitions and extents are
dropped, doubled and exchanged; files are cut. All sums are made anew, so that the reader gets past them. Whatever the bytes, no
command may crash, hang or take unbounded memory; and where the change is one that no run can leave (`is_said` below), a figure of
`report --json` that it changes comes with a word.

Where single bits are changed the sums are left alone: each bit is noticed, or it lies where nothing is kept (`unused`, each with its reason) and changes no
figure.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys

SOURCE = pathlib.Path(os.environ.setdefault("TEST_SOURCE", str(pathlib.Path(__file__).resolve().parents[2])))
BUILD = pathlib.Path(os.environ.setdefault("TEST_BUILD", str(SOURCE / "build" / "release")))
sys.path[:0] = [str(SOURCE / "tests" / "regress"), str(SOURCE / "tests" / "replay")]
import eventbytes  # noqa: E402
import kcap  # noqa: E402
import recount  # noqa: E402

HANG_S = 20  # of processor time: what else runs on the machine is not to be told from a hang
WALL_S = 600
MEMORY = 1 << 30
HEADER, DIRECTORY, DIRECTORY_END = kcap.HEADER, 8192, 32768  # bytes of the header; the directory behind it
LIVE, DEFS, EVENTS, FAILURES, PLACES = range(1, 6)
UNIT = {LIVE: 128, FAILURES: 1024, PLACES: 128, EVENTS: 65536, DEFS: 65536}
BITS = (1 << 64) - 1
FACTOR = 0x9E3779B97F4A7C15
SEAL, LOOSE = kcap.SEAL, kcap.REST
EVENT_KINDS = {**kcap.KINDS, 10: kcap.KINDS[9], 11: [("block", "STEP", "use block"), ("may", "ZERO", None)]}
WAYS = {  # of the captures: recount.py's kinds of runs, and words for the program instead of theirs
    "full": "steps=3", "ring_wrapped": None, "agg": "steps=3", "threads": "steps=2", "devices": "steps=3", "resets": "steps=6",
    "oom": None, "driver": "steps=3", "shadow": None, "live": None, "evict": None, "killed": None, "killed_ring": None,
}
KILLED = {"killed", "killed_ring"}  # nobody was there to seal them


# ---- a capture as its parts ----

def events_of(chunk):
    """The records of a chunk, each as {field: value} with its kind."""
    at, slots, end = 64, {}, 64 + struct.unpack_from("<I", chunk, 8)[0]
    events = []
    while at < end:
        record = kcap.Record(chunk[at : at + chunk[at]])
        event = {"kind": record.kind}
        for name, coding, slot in kcap.EVERY + EVENT_KINDS[record.kind]:
            event[name] = record.field(coding, slot, slots, event.get("time"))
        events.append(event)
        at += chunk[at]
    return events


def chunk_of(number, events):
    """A whole chunk; what finds no room is left out."""
    coder, body = eventbytes.Chunk(), b""
    for event in events:
        fields, there = b"", 0
        for bit, (name, coding, slot) in enumerate(kcap.EVERY + EVENT_KINDS[event["kind"]]):
            data = coder.field(coding, slot, event.get(name, 0), event.get("time", 0))
            if data is not None:
                fields += data
                there |= 1 << bit
        record = struct.pack("<I", len(fields) + 4 | event["kind"] << 8 | there << 13) + fields
        if len(body) + len(record) > 65536 - 64:
            break
        body += record
    return (struct.pack("<QII", number, len(body), 0).ljust(64, b"\0") + body).ljust(65536, b"\0")


class Image:
    def __init__(self, data):
        self.data = bytearray(data)
        self.look()

    def look(self):
        self.extents = []
        for i in range(min(self.get("I", 36), 1024, (len(self.data) - DIRECTORY) // 24)):
            offset, length, kind, _ = struct.unpack_from("<QQII", self.data, DIRECTORY + 24 * i)
            if kind in UNIT and offset + length <= len(self.data):
                self.extents.append((offset, length, kind))

    def get(self, form, at):
        return struct.unpack_from("<" + form, self.data, at)[0]

    def put(self, form, at, value):
        size = struct.calcsize(form)
        self.data[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def units(self, kind):
        """Where each record, chunk or block of an area begins."""
        return [at for offset, length, its in self.extents if its == kind
                for at in range(offset, min(offset + length, len(self.data)) - UNIT[kind] + 1, UNIT[kind])]

    def published(self, kind):
        return [at for at in self.units(kind) if self.get("Q", at)]

    def definitions(self):
        """(offset, bytes, kind, id) of each."""
        found = []
        for block in self.units(DEFS):
            at = block
            while at + 16 <= block + 65536 and self.get("I", at):
                word, size, number = struct.unpack_from("<III", self.data, at)
                if not 16 <= size <= block + 65536 - at:
                    break
                found.append((at, size, word & 255, number))
                at += size
        return found

    # sums, made anew

    def seal(self):
        self.look()
        for i in range(1024):
            offset, length, kind, its = struct.unpack_from("<QQII", self.data, DIRECTORY + 24 * i)
            if kind or its:
                self.put("I", DIRECTORY + 24 * i + 20, kcap.add(0, struct.pack("<QQQ", offset, length, kind)) >> 32)
        loose = FACTOR
        for at in self.published(LIVE):
            whose = bytes(self.data[at + 56 : at + 59]) + b"\0" + bytes(self.data[at + 64 : at + 68])
            self.put("Q", at + 120, kcap.add(kcap.add(0, self.data[at : at + 56]), whose))
            loose += kcap.add(kcap.add(0, self.data[at : at + 8]), self.data[at + 56 : at + 120])
        for at in self.published(FAILURES):
            self.put("Q", at + 1016, kcap.add(0, self.data[at : at + 1016]))
        for at in self.published(PLACES):
            if self.get("Q", at + 120):
                loose += kcap.add(0, self.data[at : at + 128])
            else:
                words = struct.unpack_from("<14Q", self.data, at)
                self.put("Q", at + 112, sum(word * pow(FACTOR, i + 1, 1 << 64) for i, word in enumerate(words)))
        for at, size, kind, _ in self.definitions():
            self.put("I", at, kcap.add(kind, self.data[at + 4 : at + size]) >> 40 << 8 | kind)
        for at in self.published(EVENTS):
            self.seal_chunk(at)
        total = 0
        for at, size in kcap.header_parts(self.data):
            total = kcap.add(total, self.data[at : at + size])
        self.put("Q", 7464, total)
        if self.get("Q", SEAL):
            self.put("Q", LOOSE, loose)
            self.put("Q", SEAL, kcap.seal_of(self.data))

    def seal_chunk(self, at):
        total, done, used = kcap.add(0, self.data[at : at + 8]), 0, min(self.get("I", at + 8), 65536 - 64)
        while done < used and (length := self.data[at + 64 + done]) and done + length <= used:
            total = kcap.add(total, self.data[at + 64 + done : at + 64 + done + length])
            done += length
        if used:
            self.put("I", at + 12, total >> 32)


# ---- changes ----

INTERESTING = [0, 1, 2, 3, 5, 7, 13, 16, 99, 127, 128, 255, 256, 511, 512, 4095, 4096, 65535, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
               1 << 32, 1 << 40, 1 << 47, (1 << 63) - 1, 1 << 63, BITS - 1, BITS]


def other(rng, value, bits):
    """Another value for a field."""
    change = rng.randrange(6)
    if change == 0:
        value += rng.choice((-1, 1))
    elif change == 1:
        value ^= 1 << rng.randrange(bits)
    elif change == 2:
        value = rng.getrandbits(bits)
    elif change == 3:
        value *= rng.choice((2, 3, 512))
    else:
        value = rng.choice(INTERESTING)
    return value & (1 << bits) - 1


def change_word(image, rng, at, size):
    form, width = rng.choice([(f, w) for f, w in (("B", 1), ("H", 2), ("I", 4), ("Q", 8)) if w <= size])
    at += rng.randrange(size // width) * width
    image.put(form, at, other(rng, image.get(form, at), 8 * width))
    return at, width


def one_of(rng, items):
    return rng.choice(items) if items else None


def field_of(kind, size):
    def change(image, rng):
        at = one_of(rng, image.published(kind))
        if at is None:
            return False
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            change_word(image, rng, at, size)
        return True
    return change


def header_word(image, rng):
    """Anything behind the magic and the version."""
    change_word(image, rng, 16, HEADER - 16)
    return True


def directory_word(image, rng):
    change_word(image, rng, DIRECTORY, 24 * rng.choice((len(image.extents), len(image.extents) + 1, 1024)))
    return True


def definition_field(image, rng):
    found = one_of(rng, image.definitions())
    if not found:
        return False
    at, size, _, _ = found
    change_word(image, rng, at, min(size, rng.choice((4, 16, 32, size))) // 8 * 8 or 8)
    return True


def event_change(image, rng, change):
    """change(events) of a chunk, written anew; not where an earlier change has left records that are none."""
    at = one_of(rng, image.published(EVENTS))
    try:
        events = events_of(image.data[at : at + 65536]) if at else []
    except (IndexError, KeyError, struct.error):
        return False
    if not events or not change(events):
        return False
    image.data[at : at + 65536] = chunk_of(image.get("Q", at), events)
    return True


def event_field(image, rng):
    def change(events):
        for _ in range(rng.choice((1, 1, 2, 8))):
            event = rng.choice(events)
            name = rng.choice([n for n, _, _ in kcap.EVERY + EVENT_KINDS[event["kind"]]])
            event[name] = other(rng, event.get(name, 0), rng.choice((8, 16, 32, 64)))
        return True
    return event_change(image, rng, change)


def event_kind(image, rng):
    def change(events):
        rng.choice(events)["kind"] = rng.choice(list(EVENT_KINDS))
        return True
    return event_change(image, rng, change)


def event_order(image, rng):
    def change(events):
        one, two = rng.randrange(len(events)), rng.randrange(len(events))
        what = rng.randrange(3)
        if what == 0:
            events[one], events[two] = events[two], events[one]
        elif what == 1:
            events[one]["seq"], events[two]["seq"] = events[two]["seq"], events[one]["seq"]
        else:
            events.insert(one, dict(events[two]))
        return True
    return event_change(image, rng, change)


def chunk_bytes(image, rng):
    """Records that are none: bytes in the middle of a chunk, or another length."""
    at = one_of(rng, image.published(EVENTS))
    used = min(image.get("I", at + 8), 65536 - 64) if at else 0
    if not used:
        return False
    if rng.randrange(3) == 0:
        image.put("I", at + 8, other(rng, used, 32))
    else:
        for _ in range(rng.choice((1, 4, 64))):
            image.data[at + 64 + rng.randrange(used)] = rng.randrange(256)
    return True


def exchange(image, rng):
    kind = rng.choice(list(UNIT))
    found = image.published(kind)
    if len(found) < 2:
        return False
    one, two, size = *rng.sample(found, 2), UNIT[kind]
    image.data[one : one + size], image.data[two : two + size] = image.data[two : two + size], image.data[one : one + size]
    return True


def areas(image, rng):
    """Extents that change kinds, places or lengths."""
    count = len(image.extents)
    one, two = (DIRECTORY + 24 * rng.randrange(count) for _ in range(2))
    what = rng.randrange(5)
    if what == 0:
        image.put("I", one + 16, rng.randrange(8))
    elif what == 1:
        image.data[one : one + 16], image.data[two : two + 16] = image.data[two : two + 16], image.data[one : one + 16]
    elif what == 2:
        image.put("Q", one, image.get("Q", two))
    elif what == 3:
        image.put("Q", one + 8, 4096 * rng.randrange(1, 64))
    else:
        image.put("I", 36, rng.choice((0, 1, count - 1, count + 1, 1024, 1025, 0xFFFFFFFF)))
    return True


def cut(image, rng):
    image.data = image.data[: rng.choice((rng.randrange(len(image.data)), rng.randrange(len(image.data)) // 4096 * 4096,
                                          rng.randrange(8192), HEADER))]
    return True


def longer(image, rng):
    image.data += rng.choice((bytes(4096), rng.randbytes(5000), image.data[-65536:]))
    return True


def several(image, rng):
    return all([rng.choice(ANY[:-2])(image, rng) for _ in range(rng.randrange(2, 6))])


# those after which the accounts of a run cannot agree

def live_dropped(image, rng):
    at = one_of(rng, [at for at in image.published(LIVE) if image.data[at + 58] >> 4 < 8])
    if at is not None:
        image.put("Q", at, 0)
    return at is not None


def live_doubled(image, rng):
    at, free = one_of(rng, image.published(LIVE)), [at for at in image.units(LIVE) if not image.get("Q", at)]
    if at is None or not free or image.data[at + 58] >> 4 >= 8:
        return False
    image.data[free[0] : free[0] + 128] = image.data[at : at + 128]
    image.put("Q", free[0] + 8, image.get("Q", at + 8) + (1 << 44))
    return True


def live_size(image, rng):
    at = one_of(rng, [at for at in image.published(LIVE) if image.data[at + 58] >> 4 < 8])
    if at is not None:
        image.put("Q", at + 16, image.get("Q", at + 16) + rng.choice((1, 512, 1 << 20)))
    return at is not None


def place_dropped(image, rng):
    at = one_of(rng, [at for at in image.published(PLACES) if image.get("Q", at + 32)])
    if at is not None:
        image.put("Q", at, 0)
    return at is not None


def place_figure(image, rng):
    at = one_of(rng, image.published(PLACES))
    if at is not None:
        figure = at + 24 + 8 * rng.randrange(4)
        image.put("Q", figure, image.get("Q", figure) + rng.choice((1, 4096)))
    return at is not None


def definition_dropped(image, rng):
    """A string or a node of a stack is not there, and those behind it in the block move up."""
    found = [d for d in image.definitions() if d[2] in (1, 3)]
    if not found:
        return False
    at, size, _, _ = rng.choice(found)
    end = next(b for b in image.units(DEFS) if b <= at < b + 65536) + 65536
    image.data[at:end] = image.data[at + size : end] + bytes(size)
    return True


def is_counted(image):
    """Are all events of the run there, so that one fewer is noticed?"""
    return image.get("I", 24) == 3 or (image.get("I", 24) == 2 and image.get("Q", 80 + 48) == 0)


def chunk_dropped(image, rng):
    found = [at for at in image.published(EVENTS) if image.get("I", at + 8)]
    if not found or not is_counted(image):
        return False
    at = rng.choice(found)
    image.data[at : at + 65536] = bytes(65536)
    return True


def block_event(image, rng):
    """An allocation or a free that was not, or that was twice; or of another size."""
    what = rng.randrange(3)

    def change(events):
        at = one_of(rng, [i for i, event in enumerate(events) if event["kind"] == 1 or (event["kind"] == 2 and what < 2)])
        if at is None:
            return False
        if what == 0:
            del events[at]
        elif what == 1:
            events.insert(at, dict(events[at]))
        else:
            events[at]["size"] += rng.choice((1, 512, 1 << 20))
        return True
    return is_counted(image) and event_change(image, rng, change)


def failure_dropped(image, rng):
    at = one_of(rng, image.published(FAILURES))
    if at is not None:
        image.put("Q", at, 0)
    return at is not None


def total_figure(image, rng):
    """Of the totals those that other parts of the file count, too: allocated, freed, live."""
    at = rng.choice([136, 136 + 96]) + 8 * rng.randrange(5)
    image.put("Q", at, image.get("Q", at) + rng.choice((1, 512, 1 << 20)))
    return True


def failure_count(image, rng):
    image.put("Q", 72, image.get("Q", 72) + 1)
    return is_counted(image) and image.get("Q", 88) == 0


ANY = [field_of(LIVE, 128), field_of(PLACES, 128), field_of(FAILURES, 1016), header_word, header_word, directory_word, definition_field,
       definition_field, event_field, event_field, event_kind, event_order, chunk_bytes, exchange, areas, cut, longer]  # the last two for themselves
IS_SAID = [live_dropped, live_doubled, live_size, place_dropped, place_figure, definition_dropped, chunk_dropped, block_event,
           failure_dropped, total_figure, failure_count]
CHANGES = [(change, False) for change in ANY + [several] * 4] + [(change, True) for change in IS_SAID]


# ---- commands ----

VIEWS = "all live hwm libraries hints oom anchors classes sources steps leaks temporary patterns streams eviction".split()
FORMATS = "folded pprof perfetto memory_viz csv sqlite".split()


def commands():
    """Command lines of everything that reads a capture: F the changed one, G as it was, O a file to write."""
    yield "report F --json".split()
    for view in VIEWS:
        yield ["report", "F", "--view", view]
        yield ["report", "F", "--view", view, "--json"]
    for by in "stack site library class anchor device".split():
        yield ["report", "F", "--view", "live", "--by", by]
    for line in ("report F", "report F --html O", "report F --from step --to step", "report F --by anchor --json", "check F peak<1GiB growth==0",
                 "check F late(G)==0 hint_releases==0 --json", "check F anchor:\"*\".remaining<1GiB --junit O", "diff G F", "diff F G --json", "diff F F --by site",
                 "suggest F -o O --force", "suggest F --cap 16M -o O --force --json", "suggest --good F --bad G -o O --force",
                 "suggest --good G --bad F -o O --force --json", "whatif F", "whatif F --json --passes 2", "whatif F --policy kedge --from step --to step",
                 "ranks F G", "ranks F --json --by anchor", "top F --once",
                 "top F --once --json", "bundle F -o O --json", "verify --hints F --sim -- true", "hints lint F",
                 "import F -o O"):
        yield line.split()
    for form in FORMATS:
        yield ["export", "F", "--to", form, "-o", "O", "--json"]
        yield ["export", "F", "--to", form, "-o", "-"]
    for form in "folded pprof".split():
        for at in "end", "oom":
            yield ["export", "F", "--to", form, "--at", at, "-o", "-"]


COMMANDS = list(commands())
IS_SANITIZED = False


def bounded():
    if not IS_SANITIZED:  # its shadow memory takes terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (HANG_S, HANG_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def environment():
    env = recount.environment()
    env["ASAN_OPTIONS"] = "detect_leaks=1:allocator_may_return_null=0:max_allocation_size_mb=1024:hard_rss_limit_mb=1024"
    env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
    env["XDG_CACHE_HOME"] = str(pathlib.Path("cache").resolve())
    return env


def run(program, words):
    """(exit status, output, messages, what is wrong with it)."""
    try:
        done = subprocess.run([program, *words], capture_output=True, timeout=WALL_S, stdin=subprocess.DEVNULL, env=environment(),
                              preexec_fn=bounded, check=False)
    except subprocess.TimeoutExpired:
        return 2, b"", "", f"hangs: not at its end after {WALL_S} s"
    said = done.stderr.decode(errors="replace")
    wrong = None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        wrong = f"hangs: not at its end after {HANG_S} s of work"
    elif done.returncode not in (0, 1, 2, 77) or "Sanitizer" in said or "runtime error" in said:
        wrong = f"exit {done.returncode}: {said[-3000:]}"
    elif re.search(r"^kedge[^:]*: (out of memory|.*: no memory)$", said, re.M):
        wrong = f"more than {MEMORY >> 20} MiB: {said[-500:]}"
    return done.returncode, done.stdout, said, wrong


QUALITY = ("damaged", "complete", "lost", "notes", "symbol_notes")


def answer(program, path):
    """What `report --json` says: (figures without words on quality, is there a word, what is wrong)."""
    code, out, said, wrong = run(program, ["report", path, "--json"])
    if wrong or code != 0:
        return None, bool(said.strip()), wrong
    try:
        figures = json.loads(out)
    except json.JSONDecodeError as error:
        return None, True, f"not JSON: {error}: {out[-200:]}"
    is_word = bool(figures["damaged"]) or figures["lost"]["bad_records"] > 0 or figures["lost"]["torn_totals"] > 0
    if is_word and not said.strip():
        return None, True, f"{path} is {figures['damaged']}, {figures['lost']}, and no line says so"
    figures.pop("capture", None)
    return {key: value for key, value in figures.items() if key not in QUALITY}, is_word, None


# ---- the job ----

def make_captures(ways=WAYS):
    made = {}
    for name in ways:
        kind = recount.KINDS[name]
        if WAYS[name]:
            kind.words = (WAYS[name], *[w for w in kind.words if not w.startswith("steps=")])
        recount.make(kind, 7, "log", f"{name}.kcap")
        made[name] = pathlib.Path(f"{name}.kcap").read_bytes()
        image = Image(made[name])
        image.seal()
        if image.data != made[name]:
            sys.exit(f"FAILED: the sums of {name} are not those that FORMAT.md describes")
        if bool(image.get("Q", SEAL) and image.get("Q", LOOSE)) != (name not in KILLED):
            sys.exit(f"FAILED: {name} is sealed, and nobody could, or it is not, and kedge run should have")
    return made


def one_change(index, seed, made):
    """(words that name it, the bytes, must a changed figure be said)."""
    rng = random.Random(f"{seed}.{index}")
    while True:
        name = rng.choice(list(made))
        change, is_said = rng.choice(CHANGES)
        image = Image(made[name])
        if change(image, rng):
            break
    if len(image.data) >= DIRECTORY_END and rng.randrange(8):
        image.seal()
    what = getattr(change, "__name__", "change")
    return rng, name, what, bytes(image.data), is_said


def try_change(index, seed, made, base, program, keep):
    """Some runs on one changed capture: (runs, failures)."""
    rng, name, what, data, is_said = one_change(index, seed, made)
    folder = pathlib.Path(f"run-{index}")
    folder.mkdir(exist_ok=True)
    path = folder / "any.kcap"
    path.write_bytes(data)
    told = f"change {index} ({what} of {name})"
    failures, runs = [], 1
    figures, is_word, wrong = answer(program, str(path))
    if wrong:
        failures.append(f"{told}: report --json: {wrong}")
    elif is_said and figures is not None and figures != base[name] and not is_word:
        keys = [key for key in figures if figures[key] != base[name].get(key)]
        failures.append(f"{told}: other figures without a word: {keys}")
    for words in rng.sample(COMMANDS, 4):
        good = str(pathlib.Path(f"{name}.kcap"))
        line = [{"F": str(path), "G": good, "O": str(folder / "out")}.get(w, w.replace("(G)", f"({good})")) for w in words]
        runs += 1
        wrong = run(program, line)[3]
        if wrong:
            failures.append(f"{told}: kedge {' '.join(line)}: {wrong}")
    if not failures and not keep:
        shutil.rmtree(folder)
    return runs, what, failures


def mutate(args, made):
    base = {name: answer(args.kedge, f"{name}.kcap")[0] for name in made}
    changed, runs, failures, index = collections.Counter(), 0, [], args.first
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        while runs < args.runs and len(failures) < 20:
            batch = [pool.submit(try_change, i, args.seed, made, base, args.kedge, args.keep) for i in range(index, index + 16)]
            index += 16
            for done in batch:
                count, what, wrong = done.result()
                runs += count
                changed[what] += 1
                failures += wrong
    print(f"seed {args.seed}: {runs} runs on {index - args.first} changed captures of {len(made)} kinds")
    print(", ".join(f"{what} {count}" for what, count in sorted(changed.items())))
    return failures


# ---- single bits ----

def unused(image, at):
    """Why a byte of the file is none that a figure is made of, or None."""
    if HEADER <= at < DIRECTORY:
        return "between header and directory"
    if 6712 <= at < 6736 and not image.data[6712]:
        return "the name of no run"
    if at < DIRECTORY_END:
        return None
    for offset, length, kind in image.extents:
        if not offset <= at < offset + length:
            continue
        unit = offset + (at - offset) // UNIT[kind] * UNIT[kind]
        if kind == EVENTS:
            number, used = image.get("Q", unit), image.get("I", unit + 8)
            if at >= unit + 64 + used:
                return "behind the records of a chunk"
            if at >= unit + 16 and at < unit + 64:
                return "zeroes in the head of a chunk"
            return "the number of a chunk without records" if number == 0 and at < unit + 8 or used == 0 and at < unit + 8 else None
        if kind == DEFS:
            used = [d for d in image.definitions() if unit <= d[0] < unit + 65536]
            return "behind the definitions" if at >= (used[-1][0] + used[-1][1] if used else unit) + 16 else None
        return None if image.get("Q", unit) or at < unit + 8 else "an empty record"
    return "in no extent"


def area_of_bit(image, rng):
    """An offset: in the header, among its figures, in the directory, in a record of each kind, at an end of definitions, or anywhere."""
    area = rng.randrange(9)
    if area == 0:
        return rng.randrange(HEADER)
    if area == 1:
        return rng.choice((16, 64, 72, 80, 136, 5048, 5688, 6736, 6752, 6792, 7432, 7472)) + rng.randrange(96)
    if area == 2:
        return DIRECTORY + rng.randrange(24 * (len(image.extents) + 2))
    if area == 3:
        return rng.choice(image.ends) + rng.randrange(-8, 24)
    if area == 4 or not image.records[kind := list(UNIT)[area % len(UNIT)]]:
        return rng.randrange(len(image.data))
    at = rng.choice(image.records[kind])
    return at + rng.randrange(64 + image.get("I", at + 8) if kind == EVENTS else 64 if kind == DEFS else UNIT[kind])


def try_bit(index, seed, name, image, base, program):
    rng = random.Random(f"{seed}.{name}.{index}")
    at, bit = area_of_bit(image, rng), rng.randrange(8)
    data = bytearray(image.data)
    data[at] ^= 1 << bit
    path = pathlib.Path(f"bit-{name}-{index}.kcap")
    path.write_bytes(data)
    figures, is_word, wrong = answer(program, str(path))
    told = f"bit {bit} of byte {at} of {name} (record {index})"
    path.unlink()
    if wrong:
        return "wrong", f"{told}: {wrong}"
    if is_word:
        return "noticed", None
    why = unused(image, at)
    if figures != base:
        return "silent", f"{told}: other figures without a word: {[key for key in figures or {} if figures[key] != base.get(key)]}"
    return (why, None) if why else ("silent", f"{told}: not noticed, and not in the list of what is not used")


def flip(args, made):
    found, failures, jobs = collections.Counter(), [], []
    sealed = [name for name in made if name not in KILLED]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name in sealed:
            image, base = Image(made[name]), answer(args.kedge, f"{name}.kcap")[0]
            image.records = {kind: image.published(kind) for kind in UNIT}
            image.ends = [at + size for at, size, _, _ in image.definitions()]
            jobs += [pool.submit(try_bit, i, args.seed, name, image, base, args.kedge) for i in range(args.bits // len(sealed) + 1)]
        for job in jobs:
            what, wrong = job.result()
            found[what] += 1
            failures += [wrong] if wrong else []
    print(f"seed {args.seed}: {sum(found.values())} bits of {len(sealed)} captures")
    for what, count in found.most_common():
        print(f"{count:6} {what}")
    if found["noticed"] < args.bits // 2:
        failures.append(f"only {found['noticed']} bits were noticed")
    return failures


def main():
    global IS_SANITIZED
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=int)
    parser.add_argument("seed")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--bits", type=int, default=0)
    parser.add_argument("--kedge", default=str(BUILD / "kedge"))
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    args.kedge = str(pathlib.Path(args.kedge).resolve())
    IS_SANITIZED = b"__asan_init" in pathlib.Path(args.kedge).read_bytes()
    made = make_captures()
    failures = (mutate(args, made) if args.runs else []) + (flip(args, made) if args.bits else [])
    for what in failures:
        print("FAILED:", what)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
