#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes capture_oom.hex: a capture with area E, built from FORMAT.md alone, never from our code.

    make_capture_oom.py > capture_oom.hex
"""
import struct

from sums import seal

PAGE = 4096
HEADER = 8 * PAGE
DEFS_AT = HEADER
OOM_AT = DEFS_AT + 65536
TOTAL = OOM_AT + 8 * PAGE
MB = 1 << 20

image = bytearray(TOTAL)


def put(at, data):
    image[at : at + len(data)] = data


def define(kind, number, body=b"", text=b""):
    size = (16 + len(body) + len(text) + 7) // 8 * 8
    return (struct.pack("<IIII", kind, size, number, len(text)) + body + text).ljust(size, b"\0")


def oom(slot, number, requested, holders):
    record = struct.pack("<5Q", number << 1 | 1, 40 + number, 1000 * number, requested, 0x5EED)
    record += struct.pack("<IIII", 1, 2, 7, 1) + struct.pack("<iIII", 0, 2, 8 | 1, len(holders))
    record += struct.pack("<3Q", 27 * MB, 81920 * MB, 3 * MB)
    record += struct.pack("<14Q", *[i * MB for i in (81254, 55439, 55440, 81254, 60000, 25815, 512, 1024, 256, 32, 16, 8, 4, 2)])
    record += struct.pack("<QQIIII", 64 * MB, 128 * MB, 5, 1, 2, 0)
    record += struct.pack("<Q", 11 * MB)
    for size, count, stack in holders:
        record += struct.pack("<QQII", size, count, stack, 0)
    put(OOM_AT + 1024 * slot, record)
    put(OOM_AT + 1024 * slot + 640, struct.pack("<Q", 700 * MB * len(holders)))


header = struct.pack("<8sIIIIIIII", b"KEDGECAP", 4, HEADER, 3, 0, 1, 4711, 1, 2)
header += struct.pack("<QQQQQ", 1763724000 * 10**9, 55, TOTAL, 59, 19)
header = header.ljust(1768, b"\0") + b"/usr/bin/trainer".ljust(1024, b"\0")
header = header.ljust(4840, b"\0") + struct.pack("<II", 0, 2 * PAGE)
put(0, header)
for i, (at, size, kind) in enumerate([(DEFS_AT, 65536, 2), (OOM_AT, 8 * PAGE, 4)]):
    put(2 * PAGE + 24 * i, struct.pack("<QQII", at, size, kind, 0))
defs = define(1, 1, text=b"cuMemAllocAsync") + define(1, 2, text=b"step/forward")
defs += define(3, 1, struct.pack("<IIQ", 0, 0, 0x1000)) + define(3, 2, struct.pack("<IIQ", 1, 0, 0x1234))
put(DEFS_AT, defs)
oom(0, 1, 686 * MB, [(50000 * MB, 700, 2), (5000 * MB, 3, 1)])
oom(18, 19, 0, [])
seal(image)

print("# A capture with area E; see make_capture_oom.py. Lines \"offset: bytes\", all else is zero.")
print("bytes", TOTAL)
for at in range(0, TOTAL, 32):
    row = bytes(image[at : at + 32])
    if any(row):
        print(f"{at:x}:", row.rstrip(b"\0").hex(" "))
