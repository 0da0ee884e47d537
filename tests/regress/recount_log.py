# SPDX-License-Identifier: MIT
"""What a run of recount_program did, by its own log: blocks, ranges, failures, and the figures that follow from them.

The definitions are those of the man pages, above all kedge-report(1). A moment is the number of a record of the log.
"""
import bisect
import collections
import mmap
import struct

from regresskit import BUILD

PROGRAM = BUILD / "tests" / "regress" / "recount_program"
RECORD = struct.Struct("<IIIIiIiIIIQQQ32sIIQ")
BOOK = struct.Struct("<QQ2Q2Q2Q9QQ")
ALLOC, FREE, ENTER, LEAVE, USE, RESET = range(1, 7)
APIS = ("sync", "async", "managed", "pitch", "array", "handle", "graph", "pool", "host", "registered")
CLASSES = {"sync": "pooled", "async": "pooled", "managed": "managed", "pitch": "pitched", "array": "array", "handle": "vmm",
           "graph": "graph", "pool": "linear", "host": "host", "registered": "registered"}
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
        # The record begins with the first allocation: of what has ended by then it knows no more than that it came before.
        self.recorded = [r for r in self.ranges if r.leave is None or any(b.born < r.leave for b in self.blocks.values())]
        self.end = self.count
        self.never = self.count + 1
        self.released, self.would = {}, {} # block: record of the edge
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
            for b in [b for b in self.blocks.values() if b.died is None and b.device == row["device"] and b.is_device and b.api != "handle"]:
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
    def levels_of(blocks, size=lambda b: b.bytes, first=0, last=None, released=()):
        """[(record, what is live behind it)] of these blocks from `first` on; what lives then is the first level."""
        steps = [(b.born, size(b)) for b in blocks]
        for b in blocks:
            edge = released[b] if b in released else b.died
            if edge is not None:
                steps.append((edge, -size(b)))
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
                "peak_live_bytes": self.peak_in(first, last)} | self.second_figures(mine, allocated, last)

    def second_figures(self, mine, allocated, last):
        """What they are where storage that hints released, or would have, is gone from the edge on."""
        found = {}
        for freed_name, name, released in (("hinted_freed", "with_hints", self.released), ("would_freed", "would", self.released | self.would)):
            let_go = [b for b in mine if b in released and released[b] <= last]
            gone = [b for b in mine if min(b.died or self.never, released.get(b, self.never)) <= last]
            gone_bytes = sum(b.bytes for b in gone)
            found |= {f"{freed_name}_bytes": sum(b.bytes for b in let_go), f"{freed_name}_count": len(let_go),
                      f"max_{name}_bytes": self.highest(self.levels_of(mine, last=last, released=released))[0],
                      f"remaining_{name}_bytes": allocated - gone_bytes}
            if name == "with_hints":
                found |= {"freed_with_hints_bytes": gone_bytes, "freed_with_hints_count": len(gone)}
        return found

    def play_hints(self, hints):
        """hints: [Hint]. The first that fits a block takes it; it is released at the exit of its anchor's instance if it lives then."""
        for b in self.device:
            hint = next((h for h in hints if self.class_of(b) == "pooled" and h.fits(b)), None)
            if not hint:
                continue
            hint.matched.append(b)
            edge = next((r.leave for r in b.ranges[::-1] if r.path == hint.when), None)
            if edge is not None and b.lives_at(edge):
                hint.released.append(b)
                (self.released if hint.mode == "live" else self.would)[b] = edge

    def class_of(self, b):
        if self.mode == "track" and b.api in ("sync", "async", "pool"):
            return "linear"
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


def summed(run, blocks):
    live = [b for b in blocks if b.died is None]
    return {"allocated_bytes": sum(b.bytes for b in blocks), "allocated_count": len(blocks), "live_bytes": sum(b.bytes for b in live),
            "live_count": len(live)}


def by(blocks, key):
    found = collections.defaultdict(list)
    for b in blocks:
        found[key(b)].append(b)
    return found


class Hint:
    """A release hint of the recount's own: what it picks, and the anchor at whose exit it lets go."""

    def __init__(self, name, inside, least, mode, most=1 << 60, frames=()):
        self.name, self.when, self.inside, self.least, self.most, self.mode, self.frames = name, inside, inside, least, most, mode, frames
        self.matched, self.released = [], []

    def fits(self, b):
        return b.path == self.inside and self.least <= b.bytes <= self.most and all(f in b.key for f in self.frames)
