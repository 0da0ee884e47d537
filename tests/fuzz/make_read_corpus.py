#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seeds of fuzz_read: lists of patches for the image of capture_image.h.

    make_read_corpus.py DIRECTORY

Numbers here are those of tracker/format.h; a change there that matters makes these seeds useless, not wrong.
"""
import os
import struct
import sys

HEADER, DIRECTORY, LIVE, DEFS, EVENTS = range(5)
STRING, MODULE, NODE, RULE, HINTS, SETTING, NOTE, DEVICE, COVERAGE, THREAD = range(1, 11)
ALLOC, FREE, EDGE, HINT, RESERVED, OOM = range(1, 7)


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


def event(slot, kind, seq, body, flags=0, device=0):
    head = kind | flags << 8 | (device & 0xFFFF) << 16
    data = struct.pack("<IIQQ", head, 1, seq, seq * 1000) + body.ljust(40, b"\0")
    return patch(EVENTS, 64 * (slot + 1), data)


def live(slot, seq, addr, size, stack, path, hint=0, rule=-1):
    data = struct.pack(
        "<QQQQQIIIIhBBi", seq << 1 | 1, addr, size, 0, 5, stack, path, 0, 0, 0, 1, hint, rule
    )
    return patch(LIVE, 64 * slot, data)


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
STEP = (
    event(0, EDGE, 1, struct.pack("<QQIIIIII", 0, 0, 0, 1, 2, 0, 0, 0))
    + event(1, ALLOC, 2, struct.pack("<QQQIIII", 0x7000, 4096, 0, 2, 3, 0, 0))
    + event(2, HINT, 4, struct.pack("<QQiIIIIHH", 0x7000, 4096, 0, 3, 3, 3, 0, 3, 0))
    + event(3, FREE, 5, struct.pack("<QQQIIII", 0x7000, 4096, 0, 0, 3, 0, 0))
    + event(4, RESERVED, 3, struct.pack("<QQ", 1, 2 << 20))
    + event(5, OOM, 6, struct.pack("<QQQIIII", 1 << 40, 5, 5, 2, 3, 0, 2))
    + event(6, EDGE, 7, struct.pack("<QQIIIIII", 0, 0, 1, 1, 2, 0, 0, 0))
)

SEEDS = {
    "empty": b"",
    "magic_only": b"KEDGECAP",
    "not_a_capture": b"\x7fELF" + bytes(60),
    "a_step": patch(DEFS, 0, WORDS + STACKS + IDENTITY) + STEP + live(0, 2, 0x7000, 4096, 2, 3, 3, 0),
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
    "unknown_kinds": patch(DEFS, 0, define(99, 1)) + event(0, 99, 1, b"") + event(1, HINT, 2, b"\xff" * 40),
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
    "another_version": patch(HEADER, 8, struct.pack("<I", 2)),
    "directory_outside": patch(HEADER, 8, struct.pack("<II", 1, 0xFFFFFFFF)),
}


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, data in SEEDS.items():
        with open(os.path.join(sys.argv[1], name + ".bin"), "wb") as file:
            file.write(data)


main()
