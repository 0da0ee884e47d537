#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes capture_v3.hex: the capture of capture_v2.hex in version 3 of the format, with the sums of FORMAT.md, never by our code.

    make_capture_v3.py > capture_v3.hex

The file stays as it is when the format changes; a new version gets a script and a sample of its own.
"""
import pathlib
import struct

PAGE = 4096
LIVE_AT, DEFS_AT = 8 * PAGE, 9 * PAGE
EVENTS_AT = DEFS_AT + 65536

rows = (pathlib.Path(__file__).parent / "capture_v2.hex").read_text().splitlines()
image = bytearray(int(rows[1].split()[1]))
for row in rows[2:]:
    at, data = row.split(":")
    image[int(at, 16) : int(at, 16) + len(bytes.fromhex(data))] = bytes.fromhex(data)


def add(total, data):
    for i in range(0, len(data), 8):
        total = (total ^ int.from_bytes(data[i : i + 8], "little")) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
        total ^= total >> 32
    return total


def put(form, at, value):
    struct.pack_into("<" + form, image, at, value)


put("I", 8, 3)
total = 0
for at, size in (8, 8), (24, 12), (40, 16), (1768, 1024), (2792, 2048), (4840, 8), (4848, 64), (4912, 32), (4944, 96), (5040, 4):
    total = add(total, image[at : at + size])
put("Q", 7464, total)
for i in range(3):
    offset, length, kind = struct.unpack_from("<QQI", image, 2 * PAGE + 24 * i)
    put("I", 2 * PAGE + 24 * i + 20, add(0, struct.pack("<QQQ", offset, length, kind)) >> 32)
for at in LIVE_AT, LIVE_AT + 128:
    put("Q", at + 120, add(add(0, image[at : at + 56]), image[at + 56 : at + 59] + b"\0" + image[at + 64 : at + 68]))
at = DEFS_AT
while image[at]:
    kind, size = struct.unpack_from("<II", image, at)
    put("I", at, add(kind, image[at + 4 : at + size]) >> 40 << 8 | kind)
    at += size
for chunk in EVENTS_AT, EVENTS_AT + 65536:
    number, used = struct.unpack_from("<QI", image, chunk)
    total, at = add(0, struct.pack("<Q", number)), 0
    while at < used:
        length = image[chunk + 64 + at]
        total = add(total, image[chunk + 64 + at : chunk + 64 + at + length])
        at += length
    put("I", chunk + 12, total >> 32)

print("# A capture in version 3 of the format; see make_capture_v3.py. Lines \"offset: bytes\", all else is zero.")
print("bytes", len(image))
for at in range(0, len(image), 32):
    row = bytes(image[at : at + 32])
    if any(row):
        print(f"{at:x}:", row.rstrip(b"\0").hex(" "))
