#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes capture_v1.hex: a capture in version 1 of the format, built from FORMAT.md alone, never from our code.

    make_capture_v1.py > capture_v1.hex

The file stays as it is when the format changes; a new version gets a script and a sample of its own.
"""
import struct

PAGE = 4096
HEADER = 8 * PAGE
LIVE_AT, DEFS_AT = HEADER, HEADER + PAGE
EVENTS_AT = DEFS_AT + 65536
TOTAL = EVENTS_AT + 65536
SIZE = 3538944

image = bytearray(TOTAL)


def put(at, data):
    image[at : at + len(data)] = data


def define(kind, number, body=b"", text=b""):
    size = (16 + len(body) + len(text) + 7) // 8 * 8
    return (struct.pack("<IIII", kind, size, number, len(text)) + body + text).ljust(size, b"\0")


def event(slot, kind, seq, body, flags=0):
    head = kind | flags << 8
    put(EVENTS_AT + 64 * (slot + 1), struct.pack("<IIQQ", head, 1, seq, seq * 1000) + body)


totals = struct.pack("<12Q", 3 * SIZE, 3, SIZE, 1, 2 * SIZE, 3 * SIZE, 0, 0, 2 * SIZE, 3 * SIZE, 1 << 24, 1 << 24)
header = struct.pack(
    "<8sIIIIIIII", b"KEDGECAP", 1, HEADER, 2, 0, 3, 4711, 1, 3
)
header += struct.pack("<QQQQQ", 1763724000 * 10**9, 55, TOTAL, 7, 0)
header += struct.pack("<7Q", *[0] * 7)
header += totals + totals + bytes(96 * 15)
header += b"/usr/bin/sot".ljust(1024, b"\0")
arguments = b"/usr/bin/sot\0--form=pir\0"
header += arguments.ljust(2048, b"\0") + struct.pack("<II", len(arguments), 2 * PAGE)
header += b"node7".ljust(64, b"\0") + b"3".ljust(32, b"\0") + b"build-id:00112233".ljust(96, b"\0")
put(0, header)
for i, (at, size, kind) in enumerate([(LIVE_AT, PAGE, 1), (DEFS_AT, 65536, 2), (EVENTS_AT, 65536, 3)]):
    put(2 * PAGE + 24 * i, struct.pack("<QQII", at, size, kind, 0))

texts = [b"/usr/bin/sot", b"SOT_CALL_0", b"late-input", b"hints.yaml", b"main"]
defs = b"".join(define(1, i + 1, text=t) for i, t in enumerate(texts))
defs += define(
    2, 1, struct.pack("<QQQQIBBBB", 0x400000, 0x500000, 0x400000, 0x0123456789ABCDEF, 1, 4, 1, 0, 0)
    + bytes.fromhex("00112233").ljust(32, b"\0"),
)
defs += define(3, 1, struct.pack("<IIQ", 0, 1, 0x1000)) + define(3, 2, struct.pack("<IIQ", 1, 1, 0x1234))
defs += define(4, 0, struct.pack("<IIII", 3, 1, 1, 9))
defs += define(5, 0, struct.pack("<QIIII", 0x1122334455667788, 4, 1, 1, 0))
defs += define(10, 1, struct.pack("<II", 4711, 5))
put(DEFS_AT, defs)

for slot, (seq, address) in enumerate([(3, 0x7F0000400000), (4, 0x7F0000800000)]):
    put(
        LIVE_AT + 64 * slot,
        struct.pack("<QQQQQIIIIhBBi", seq << 1 | 1, address, SIZE, 0, seq * 1000, 2, 2, 0, slot, 0, 0, 0, -1),
    )

put(EVENTS_AT, struct.pack("<Q", 1))
event(0, 3, 1, struct.pack("<QQIIIIII", 0, 0, 0, 17, 2, 0, 0, 0))
for i, address in enumerate([0x7F0000000000, 0x7F0000400000, 0x7F0000800000]):
    event(1 + i, 1, 2 + i, struct.pack("<QQQIIII", address, SIZE, 0, 2, 2, 0, i))
event(4, 2, 5, struct.pack("<QQQIIII", 0x7F0000000000, SIZE, 0, 0, 2, 0, 0))
event(5, 3, 6, struct.pack("<QQIIIIII", 0, 0, 1, 17, 2, 0, 0, 0))
event(6, 4, 7, struct.pack("<QQiIIIIHH", 0x7F0000400000, SIZE, 0, 2, 0, 2, 0, 1, 0))

print("# A capture in version 1 of the format; see make_capture_v1.py. Lines \"offset: bytes\", all else is zero.")
print("bytes", TOTAL)
for at in range(0, TOTAL, 32):
    row = bytes(image[at : at + 32])
    if any(row):
        print(f"{at:x}:", row.rstrip(b"\0").hex(" "))
