# SPDX-License-Identifier: MIT
"""Records of area D as bytes, built from tracker/FORMAT.md alone, never from our code."""
import struct

ALLOC, FREE, EDGE, HINT, RESERVED, OOM, OTHER_ALLOC, OTHER_FREE = range(1, 9)
ALL_BITS = (1 << 64) - 1

BLOCK = [("addr", "NEAR", "address"), ("size", "SIZE", None), ("stream", "STEP", "stream")]
PLACE = [("path", "STEP", "path"), ("instance", "STEP", "instance")]
ALLOC_FIELDS = [*BLOCK, ("stack", "STEP", "stack"), *PLACE, ("nth", "ZERO", None), ("pystack", "STEP", "pystack")]
FREE_FIELDS = [
    *BLOCK,
    ("stack", "STEP", "free stack"),
    *PLACE,
    ("pystack", "STEP", "free pystack"),
    ("first_use", "AGO", None),
    ("last_use", "AGO", None),
    ("longest_gap", "ZERO", None),
    ("gap_end", "AGO", None),
]
FIELDS = {
    ALLOC: ALLOC_FIELDS,
    OTHER_ALLOC: ALLOC_FIELDS,
    FREE: FREE_FIELDS,
    OTHER_FREE: FREE_FIELDS,
    EDGE: [("edge", "ZERO", None), ("anchor", "STEP", "anchor"), *PLACE, ("before_start", "ZERO", None)],
    HINT: [
        ("addr", "NEAR", "address"),
        ("size", "SIZE", None),
        ("rule", "LESS", None),
        ("what", "ZERO", None),
        ("stack", "ZERO", None),
        *PLACE,
        ("mode", "ZERO", None),
        ("result", "ZERO", None),
    ],
    RESERVED: [("heap", "STEP", "heap"), ("bytes", "NEAR", "held")],
    OOM: [
        ("size", "SIZE", None),
        ("free_bytes", "SIZE", None),
        ("largest_free", "SIZE", None),
        ("stack", "STEP", "stack"),
        *PLACE,
        ("result", "ZERO", None),
        ("pystack", "STEP", "pystack"),
    ],
}
COMMON = [("thread", "STEP", "thread"), ("seq", "NEXT", "seq"), ("time", "STEP", "time"), ("flags", "STEP", "flags")]


def signed(value):
    value &= ALL_BITS
    return value - (1 << 64) if value >> 63 else value


def fold(difference):
    difference = signed(difference)
    return 2 * difference if difference >= 0 else -2 * difference - 1


def number(value):
    for size in range(1, 9):
        if value < 1 << 7 * size:
            return ((2 * value + 1) << (size - 1)).to_bytes(size, "little")
    return b"\0" + value.to_bytes(8, "little")


def marked(bare, multiple):
    """bare: the number without a mark; multiple: the number in units of 512, or None."""
    if multiple is not None:
        return number(2 * multiple + 1)
    return number(2 * bare) if bare < 1 << 63 else number(0) + bare.to_bytes(8, "little")


class Chunk:
    """The records of one chunk, one after the other."""

    def __init__(self):
        self.slots = {}
        self.bytes = b""

    def field(self, coding, slot, value, time):
        """The bytes of a field, None where it has the value that is expected."""
        value &= ALL_BITS
        last = self.slots.get(slot, 0)
        if slot:
            self.slots[slot] = value
        if coding in ("STEP", "NEXT"):
            expected = (last + (coding == "NEXT")) & ALL_BITS
            return None if value == expected else number(fold(value - expected))
        if coding == "NEAR":
            difference = signed(value - last)
            multiple = fold(difference // 512) if difference % 512 == 0 else None
            return None if difference == 0 else marked(fold(difference), multiple)
        if coding == "LESS":
            return None if signed(value) == -1 else number((value + 1) & 0xFFFFFFFF)
        if value == 0:
            return None
        if coding == "SIZE":
            return marked(value, value // 512 if value % 512 == 0 else None)
        return number(fold(time - value) if coding == "AGO" else value)

    def add(self, kind, seq, time=None, thread=1, flags=0, device=0, **values):
        """One more record; fields that are not named are 0, the rule of a hint -1."""
        time = 1000 * seq if time is None else time
        values.update(thread=thread, seq=seq, time=time, flags=flags | (device & 0xFFFF) << 8)
        if kind == HINT:
            values.setdefault("rule", -1)
        body, there = b"", 0
        for bit, (name, coding, slot) in enumerate(COMMON + FIELDS[kind]):
            data = self.field(coding, slot, values.pop(name, 0), time)
            if data is not None:
                body += data
                there |= 1 << bit
        assert not values, values
        self.bytes += struct.pack("<I", len(body) + 4 | kind << 8 | there << 13) + body
        return self

    def whole(self, chunk_number=1):
        """With its head."""
        return struct.pack("<QII", chunk_number, len(self.bytes), 0).ljust(64, b"\0") + self.bytes
