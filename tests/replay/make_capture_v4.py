#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes capture_v4.hex: a capture in version 4 of the format, built from FORMAT.md alone, never from our code.

    make_capture_v4.py > capture_v4.hex

Readers know one version alone: a new one gets a script and a sample of its own, in the place of these.
"""
import struct

from eventbytes import ALL_BITS, ALLOC, Chunk, EDGE, FREE, HINT, OOM, OTHER_ALLOC, OTHER_FREE, RESERVED
from sums import seal

PAGE = 4096
HEADER = 8 * PAGE
LIVE_AT, DEFS_AT = HEADER, HEADER + PAGE
EVENTS_AT = DEFS_AT + 65536
PLACES_AT = EVENTS_AT + 2 * 65536
TOTAL = PLACES_AT + PAGE
SIZE = 3538944
BASE = 0x7F0000000000

image = bytearray(TOTAL)


def put(at, data):
    image[at : at + len(data)] = data


def define(kind, number, body=b"", text=b""):
    size = (16 + len(body) + len(text) + 7) // 8 * 8
    return (struct.pack("<IIII", kind, size, number, len(text)) + body + text).ljust(size, b"\0")


def live(slot, seq, address, uses):
    state = struct.pack("<QQQQQIIII", seq << 1 | 1, address, SIZE, 0x5EED, seq * 1000, 2, 2, 16, slot)
    place = struct.pack("<hBBi", 0, 1, 0, -1)
    put(LIVE_AT + 128 * slot, state + place + struct.pack("<II4Q", 9, 0, *uses))


totals = struct.pack("<12Q", 3 * SIZE, 3, SIZE, 1, 2 * SIZE, 3 * SIZE, 0, 0, 2 * SIZE, 3 * SIZE, 1 << 24, 1 << 24)
header = struct.pack("<8sIIIIIIII", b"KEDGECAP", 4, HEADER, 2, 0, 3, 4711, 1, 4)
header += struct.pack("<QQQQQ", 1763724000 * 10**9, 55, TOTAL, 20, 1)
header += struct.pack("<7Q", *[0] * 7)
header += totals + totals + bytes(96 * 15)
header = header.ljust(1768, b"\0") + b"/usr/bin/sot".ljust(1024, b"\0")
header = header.ljust(4840, b"\0") + struct.pack("<II", 0, 2 * PAGE)
put(0, header)
for i, (at, size, kind) in enumerate([(LIVE_AT, PAGE, 1), (DEFS_AT, 65536, 2), (EVENTS_AT, 131072, 3), (PLACES_AT, PAGE, 5)]):
    put(2 * PAGE + 24 * i, struct.pack("<QQII", at, size, kind, 0))

defs = b"".join(define(1, i + 1, text=t) for i, t in enumerate([b"/usr/bin/sot", b"SOT_CALL_0", b"late-input"]))
defs += define(
    2, 1, struct.pack("<QQQQIBBBB", 0x400000, 0x500000, 0x400000, 0x0123456789ABCDEF, 1, 4, 1, 0, 0)
    + bytes.fromhex("00112233").ljust(32, b"\0"),
)
defs += define(3, 1, struct.pack("<IIQ", 0, 1, 0x1000)) + define(3, 2, struct.pack("<IIQ", 1, 1, 0x1234))
defs += define(4, 0, struct.pack("<IIII", 3, 1, 1, 9))
put(DEFS_AT, defs)

live(0, 3, BASE + 0x400000, (4000, 9000, 3000, 8000))
live(1, 4, BASE + 0x800000, (0, 0, 0, 0))

place = {"path": 2, "instance": 16}
first = Chunk()
first.add(EDGE, 1, edge=0, anchor=17, **place)
for i in range(3):
    first.add(ALLOC, 2 + i, flags=1, addr=BASE + i * 0x400000, size=SIZE, stream=0x5EED, stack=2, pystack=9, nth=i, **place)
first.add(FREE, 5, addr=BASE, size=SIZE, stack=1, pystack=8, first_use=2500, last_use=4750, longest_gap=2000, gap_end=4700, **place)
first.add(EDGE, 6, edge=1, anchor=17, before_start=1, **place)
first.add(HINT, 7, device=-1, addr=BASE + 0x400000, size=SIZE, rule=0, what=2, stack=1, mode=1, result=201, **place)
first.add(HINT, 8, addr=BASE + 1, size=3, what=7)
first.add(RESERVED, 9, heap=0x55AA, bytes=1 << 24)
first.add(OOM, 10, size=1 << 40, free_bytes=ALL_BITS, largest_free=12345, stack=2, result=2, pystack=9, **place)
put(EVENTS_AT, first.whole())

# another thread, whose numbers go backwards and are as large as numbers get
second = Chunk()
second.add(OTHER_ALLOC, 20, thread=2, flags=0x80, device=3, addr=ALL_BITS, size=ALL_BITS, stream=ALL_BITS, stack=1, nth=2**32 - 1)
second.add(OTHER_FREE, 19, time=ALL_BITS, thread=2, flags=0x80, device=3, addr=1 << 63, size=1 << 63, last_use=1)
put(EVENTS_AT + 65536, second.whole(2))

def put_place(slot, figures, changing=0):
    head = struct.pack("<QIIIhH", 2 * slot + 3, 2, 9, 2, 0, 0)
    put(PLACES_AT + 128 * slot, (head + struct.pack("<11Q", *figures)).ljust(120, b"\0") + struct.pack("<Q", changing))


# one whose share is what it had at the device's third peak, and one that was being changed
header_high = struct.pack("<5Q", SIZE, 3 * SIZE, 3, 4, 4000)
put(6792, header_high)
put_place(0, (3 * SIZE, 3, SIZE, 1, 3 * SIZE, 3, SIZE, 1, 2 * SIZE, 2, 3))
put_place(1, (SIZE, 1, SIZE, 1, SIZE, 1, 0, 0, 0, 0, 2), 0x474E49474E414843)
seal(image)

print("# A capture in version 4 of the format; see make_capture_v4.py. Lines \"offset: bytes\", all else is zero.")
print("bytes", TOTAL)
for at in range(0, TOTAL, 32):
    row = bytes(image[at : at + 32])
    if any(row):
        print(f"{at:x}:", row.rstrip(b"\0").hex(" "))
