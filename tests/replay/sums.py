# SPDX-License-Identifier: MIT
"""The sums of FORMAT.md for captures that scripts make, never by our code."""
import struct

PAGE = 4096
CHUNK = 65536
LIVE, DEFS, EVENTS, FAILURES, PLACES = range(1, 6)
ALL_BITS = (1 << 64) - 1
# what never changes in the header: offsets and sizes
HEADER_PARTS = ((8, 8), (24, 12), (40, 16), (1768, 1024), (2792, 2048), (4840, 8), (4848, 64), (4912, 32), (4944, 96), (5040, 4))
RUN_PART = (6712, 24)  # where a run is named


def header_parts(data):
    return (*HEADER_PARTS, RUN_PART) if data[RUN_PART[0]] else HEADER_PARTS


def add(total, data):
    for i in range(0, len(data), 8):
        total = (total ^ int.from_bytes(data[i : i + 8], "little")) * 0x9E3779B97F4A7C15 & ALL_BITS
        total ^= total >> 32
    return total


def seal_live(image, at, end):
    for slot in range(at, end, 128):
        if image[slot]:
            whose = image[slot + 56 : slot + 59] + b"\0" + image[slot + 64 : slot + 68]
            struct.pack_into("<Q", image, slot + 120, add(add(0, image[slot : slot + 56]), whose))


def seal_definitions(image, at):
    while image[at]:
        kind, size = struct.unpack_from("<II", image, at)
        struct.pack_into("<I", image, at, add(kind, image[at + 4 : at + size]) >> 40 << 8 | kind)
        at += size


def seal_chunks(image, at, end):
    for chunk in range(at, end, CHUNK):
        number, used = struct.unpack_from("<QI", image, chunk)
        total, done = add(0, struct.pack("<Q", number)), 0
        while done < used:
            length = image[chunk + 64 + done]
            total = add(total, image[chunk + 64 + done : chunk + 64 + done + length])
            done += length
        struct.pack_into("<I", image, chunk + 12, total >> 32)


def seal_failures(image, at, end):
    for slot in range(at, end, 1024):
        if image[slot]:
            struct.pack_into("<Q", image, slot + 1016, add(0, image[slot : slot + 1016]))


def seal_places(image, at, end):
    for slot in range(at, end, 128):
        if image[slot] and not any(image[slot + 120 : slot + 128]):
            words = struct.unpack_from("<14Q", image, slot)
            total = sum(word * pow(0x9E3779B97F4A7C15, i + 1, 1 << 64) for i, word in enumerate(words))
            struct.pack_into("<Q", image, slot + 112, total & ALL_BITS)


def seal(image):
    total = 0
    for at, size in header_parts(image):
        total = add(total, image[at : at + size])
    struct.pack_into("<Q", image, 7464, total)
    for i in range(struct.unpack_from("<I", image, 36)[0]):
        entry = 2 * PAGE + 24 * i
        offset, length, kind = struct.unpack_from("<QQI", image, entry)
        struct.pack_into("<I", image, entry + 20, add(0, struct.pack("<QQQ", offset, length, kind)) >> 32)
        if kind == LIVE:
            seal_live(image, offset, offset + length)
        elif kind == DEFS:
            seal_definitions(image, offset)
        elif kind == EVENTS:
            seal_chunks(image, offset, offset + length)
        elif kind == FAILURES:
            seal_failures(image, offset, offset + length)
        elif kind == PLACES:
            seal_places(image, offset, offset + length)
