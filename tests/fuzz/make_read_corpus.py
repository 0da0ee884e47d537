#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seeds of fuzz_read: lists of patches for the image of capture_image.h.

    make_read_corpus.py DIRECTORY [EVENT_DIRECTORY]

EVENT_DIRECTORY gets those of fuzz_event: the records of a chunk, without its head.

Numbers here are those of tracker/format/format.h; a change there that matters makes these seeds useless, not wrong.
"""
import os
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "replay"))
from eventbytes import ALL_BITS, ALLOC, Chunk, EDGE, FREE, HINT, OOM, OTHER_ALLOC, RESERVED  # noqa: E402

HEADER, DIRECTORY, LIVE, DEFS, EVENTS, PLACES = range(6)
STRING, MODULE, NODE, RULE, HINTS, SETTING, NOTE, DEVICE, COVERAGE, THREAD, PYCODE, PYNODE = range(1, 13)


def patch(region, offset, data):
    out = b""
    for at in range(0, len(data), 255):
        part = data[at : at + 255]
        out += struct.pack("<BHB", region, offset + at, len(part)) + part
    return out


def define(kind, number, body=b"", text=b""):
    size = (16 + len(body) + len(text) + 7) // 8 * 8
    record = struct.pack("<IIII", kind, size, number, len(text)) + body + text
    return record.ljust(size, b"\0")


def module(number, path):
    body = struct.pack("<QQQQIBBBB", 0x1000, 0x9000, 0x1000, 7, path, 20, 1, 0, 0) + bytes(range(32))
    return define(MODULE, number, body)


def node(number, parent, mod, offset):
    return define(NODE, number, struct.pack("<IIQ", parent, mod, offset))


def pycode(number, table, lines, first=1, name=2):
    return define(PYCODE, number, struct.pack("<IIIiHHI", name, 0, 1, first, table, 0, 0), lines)


def pynode(number, parent, code, lasti, entry=1):
    return define(PYNODE, number, struct.pack("<IIiI", parent, code, lasti, entry))


def live(slot, seq, addr, size, stack, path, hint=0, rule=-1):
    data = struct.pack(
        "<QQQQQIIIIhBBi", seq << 1 | 1, addr, size, 0, 5, stack, path, 0, 0, 0, 1, hint, rule
    )
    return patch(LIVE, 128 * slot, data + struct.pack("<II4Q", 1, 0, 10, 20, 5, 15))


def events(chunk):
    return patch(EVENTS, 0, chunk.whole())


def place(slot, peak, share, flags=0, device=0, stack=2, path=3):
    data = struct.pack("<QIIIhH", slot << 1 | 3, stack, 1, path, device, flags)
    return patch(PLACES, 128 * slot, data + struct.pack("<11Q", 8192, 2, 4096, 1, 8192, 2, 4096, 1, share, 1, peak))


def high(device, live_bytes, peak, number):
    return patch(HEADER, 6792 + 40 * device, struct.pack("<5Q", live_bytes, peak, number, 5, 5000))


WORDS = b"".join(
    define(STRING, i + 1, text=t)
    for i, t in enumerate([b"/usr/bin/prog", b"step", b"step/SOT_CALL_0", b"cuMemAlloc_v2", b"dlsym"])
)
STACKS = module(1, 1) + node(1, 0, 1, 0x50) + node(2, 1, 1, 0x60) + node(3, 1, 0, 0x7F0000001234)
IDENTITY = (
    define(RULE, 0, struct.pack("<IIII", 2, 1, 3, 9))
    + define(HINTS, 0, struct.pack("<QIIII", 0xABC, 1, 3, 1, 0))
    + define(SETTING, 0, struct.pack("<II", 4, 5))
    + define(NOTE, 1, text=b"something is missing")
    + define(DEVICE, 0, struct.pack("<QII", 80 << 30, 1, 13000))
    + define(COVERAGE, 0, struct.pack("<QII", 1, 4, 5))
    + define(COVERAGE, 0, struct.pack("<QII", 7, 4, 5))
    + define(THREAD, 1, struct.pack("<II", 4711, 1))
)
STEP_CHUNK = (
    Chunk()
    .add(EDGE, 1, anchor=1, path=2)
    .add(ALLOC, 2, addr=0x7000, size=4096, stack=2, path=3, nth=1, pystack=1)
    .add(RESERVED, 3, heap=1, bytes=2 << 20)
    .add(HINT, 4, addr=0x7000, size=4096, rule=0, what=3, stack=3, path=3, mode=3)
    .add(FREE, 5, addr=0x7000, size=4096, path=3, first_use=4000, last_use=4500, longest_gap=500, gap_end=4500)
    .add(OOM, 6, size=1 << 40, free_bytes=5, largest_free=ALL_BITS, stack=2, path=3, result=2)
    .add(EDGE, 7, edge=1, anchor=1, path=2)
    .add(OTHER_ALLOC, 8, flags=0x80, device=-1, addr=ALL_BITS, size=ALL_BITS, stream=ALL_BITS)
)

STEP = events(STEP_CHUNK)

EVENT_SEEDS = {
    "no_record": b"",
    "records_of_a_step": STEP_CHUNK.bytes,
    "a_record_that_is_cut": STEP_CHUNK.bytes[:-3],
    "numbers_of_all_lengths": b"".join(
        Chunk().add(ALLOC, 1 << 7 * i, addr=1 << 9 * i, size=(1 << 8 * i) - 1, stream=ALL_BITS >> i).bytes for i in range(8)
    ),
    "unknown_and_short": struct.pack("<II", 4 | 30 << 8, 3),
}

SEEDS = {
    "empty": b"",
    "magic_only": b"KEDGECAP",
    "not_a_capture": b"\x7fELF" + bytes(60),
    "a_step": patch(DEFS, 0, WORDS + STACKS + IDENTITY) + STEP + live(0, 2, 0x7000, 4096, 2, 3, 3, 0),
    "python_stacks": patch(
        DEFS,
        0,
        WORDS
        + pycode(1, 1, bytes((0, 3, 6, 1, 6, 255, 10, 127)))
        + pycode(2, 2, bytes((2, 4, 10, 255, 0, 128, 8, 57)))
        + pycode(3, 3, bytes((0x80, 0, 0xF0, 6, 2, 9, 15, 0xE8, 0x7F, 0x7F, 0x7F, 0xF8, 0xD8)), first=0x7FFFFFFF)
        + pynode(1, 0, 1, 12)
        + pynode(2, 1, 2, 6, 0)
        + pynode(3, 2, 3, -1)
        + pynode(4, 3, 3, 0x7FFFFFFE),
    )
    + live(0, 2, 0x7000, 4096, 0, 3)
    + patch(LIVE, 64, struct.pack("<I", 0x80000004))
    + events(Chunk().add(ALLOC, 2, addr=0x7000, size=4096, pystack=4)),
    "python_stacks_that_make_no_sense": patch(
        DEFS,
        0,
        pycode(1, 77, b"") + pycode(1, 1, b"xx") + pycode(9, 1, b"") + pynode(1, 2, 1, 0) + pynode(2, 0, 9, 0) + pynode(3, 0, 1, 0),
    )
    + live(0, 2, 0x7000, 4096, 0, 3)
    + patch(LIVE, 64, struct.pack("<I", 3)),
    "nodes_in_a_circle": patch(DEFS, 0, WORDS + module(1, 1) + node(1, 2, 1, 5) + node(2, 1, 1, 6)) + STEP,
    "numbers_beyond_the_end": patch(
        DEFS,
        0,
        define(STRING, 0xFFFFFFFF, text=b"x")
        + node(0x80000000, 0, 1, 5)
        + node(1, 0, 77, 5)
        + define(RULE, 55, bytes(16)),
    )
    + live(3, 9, 0x8000, 1, 0xFFFFFFFF, 0xFFFFFFFF, 255, 1 << 30),
    "records_longer_than_the_block": patch(DEFS, 0, struct.pack("<IIII", STRING, 0xFFFFFFF8, 1, 0xFFFFFFF0)),
    "a_text_longer_than_its_record": patch(DEFS, 0, struct.pack("<IIII", NOTE, 24, 1, 9)),
    "unknown_kinds": patch(DEFS, 0, define(99, 1))
    + patch(EVENTS, 0, struct.pack("<QII", 1, 500, 0))
    + patch(EVENTS, 64, struct.pack("<I", 4 | 30 << 8) + struct.pack("<IQ", 12 | 31 << 8 | 1 << 13, 1 << 63)),
    "hints_that_make_no_sense": events(Chunk().add(HINT, 1, what=99).add(HINT, 2, what=1, mode=77).add(EDGE, 3, edge=9)),
    "records_that_are_too_short": patch(EVENTS, 0, struct.pack("<QII", 1, 8, 0))
    + patch(EVENTS, 64, struct.pack("<II", 8 | ALLOC << 8 | 0xFFFFE000, 0)),
    "a_record_longer_than_the_chunk_says": patch(EVENTS, 0, struct.pack("<QII", 1, 6, 0))
    + patch(EVENTS, 64, struct.pack("<II", 8 | ALLOC << 8, 0)),
    "more_used_than_there_is": patch(EVENTS, 0, struct.pack("<QII", 1, 0xFFFFFFFF, 0)),
    "nothing_used": patch(EVENTS, 0, struct.pack("<QII", 1, 0, 0)),
    "places": patch(DEFS, 0, WORDS + STACKS)
    + high(0, 4096, 8192, 3)
    + high(1, 9, 8, 1)
    + place(0, 3, 4096)
    + place(1, 2, 77)
    + place(2, 9, 5, device=1)
    + place(3, 0, 0, flags=1, device=-1, stack=0xFFFFFFFF, path=0xFFFFFFFF),
    "places_below_zero": high(0, ALL_BITS, 1, ALL_BITS) + place(0, ALL_BITS, ALL_BITS, device=32767),
    "extents_on_each_other": patch(
        DIRECTORY, 0, b"".join(struct.pack("<QQII", 32768, 135168, k, 0) for k in (1, 2, 3, 3))
    ),
    # the page of the live table as area E: four records, one with more holders than there is room for
    "failures_that_make_no_sense": patch(DEFS, 0, WORDS + STACKS)
    + patch(DIRECTORY, 0, struct.pack("<QQII", 32768, 4096, 4, 0))
    + patch(LIVE, 0, struct.pack("<QQQQQIIIIiIII", 3, 6, 0, 1 << 40, 0, 2, 3, 0, 4, -7, 2, 0xFF, 0xFFFFFFFF))
    + patch(LIVE, 1024, struct.pack("<QQQQQIIIIiIII", 5, 6, 0, 0, 0, 1 << 31, 1 << 31, 0, 1 << 31, 0, 2, 8, 16))
    + patch(LIVE, 2048, struct.pack("<QQ", 2, 6)),
    "extents_outside": patch(
        DIRECTORY, 0, struct.pack("<QQII", 1 << 62, 1 << 62, 3, 0) + struct.pack("<QQII", 1, 2, 1, 0)
    ),
    "many_extents": patch(HEADER, 36, struct.pack("<I", 0xFFFFFFFF)),
    "another_version": patch(HEADER, 8, struct.pack("<I", 3)),
    "version_0": patch(HEADER, 8, struct.pack("<I", 0)),
    "directory_outside": patch(HEADER, 8, struct.pack("<II", 1, 0xFFFFFFFF)),
}


def write(directory, seeds):
    os.makedirs(directory, exist_ok=True)
    for name, data in seeds.items():
        with open(os.path.join(directory, name + ".bin"), "wb") as file:
            file.write(data)


def main():
    write(sys.argv[1], SEEDS)
    if len(sys.argv) > 2:
        write(sys.argv[2], EVENT_SEEDS)


main()
