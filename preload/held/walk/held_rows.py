# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: live blocks joined with storages, and rows as bytes."""
# pylint: disable=undefined-variable

SLACK = 511  # bytes by which a block may be larger than its storage


def number(*words):
    return b"".join(int(w).to_bytes(8, "little") for w in words)


def pack(rows):
    """Each row: bytes, count, native stack, Python stack, number of addresses, length of the text (8 bytes each), the text, the
    addresses of its storages, where they are told."""
    out = []
    for key, (size, count, inside) in rows:
        text = "\n".join(key[2:]).encode("utf-8", "replace")
        out.append(number(size, count, key[0], key[1], len(inside), len(text)) + text + number(*inside))
    return b"".join(out)


def mib(size):
    return f"{size / (1 << 20):.2f} MiB"


def by_block(blocks, storages, told, nobody):
    """{(stack, Python stack, class, holders...): [bytes, blocks, addresses]}: live blocks joined with storages, by address. The addresses
    are those of all storages where blocks are segments: where one at least is smaller than its block; else of those with a class."""
    rows, at, lying, has_segments = {}, 0, sorted(storages, key=lambda s: s.address), False

    def add(block, size, *key):
        row = rows.setdefault((block[2], block[3], *key), [0, 0, []])
        row[0] += size
        row[1] += 1
        return row

    for block in blocks:
        address, left = block[0], block[1]
        end = address + left
        while at < len(lying) and lying[at].address < address:
            at += 1
        while at < len(lying) and lying[at].address < end:
            word, texts = told[lying[at].address]
            size = min(lying[at].bytes, end - lying[at].address, left)
            left -= size
            add(block, size, word, *texts)[2].append(lying[at].address)
            has_segments |= block[1] > lying[at].bytes + SLACK
            at += 1
        if left:
            add(block, left, "no tensor", nobody)
    for key, row in rows.items():
        if key[2] == "tensor" and not has_segments:
            row[2].clear()
    return rows


def find_storages(api, tensors, storages, saved, counts, lost, walk):
    found = {}
    for raw, obj in api.joined([(api.storage(t), t) for t in tensors] + [(api.of_storage(s), s) for s in storages]):
        if raw is not None:
            storage = found.setdefault(raw[0], Storage(raw))
            storage.tensors.append(obj)
            storage.saved += saved.get(id(obj), ())
            if id(obj) in counts and not walk.cut and lost.get(id(obj), (None, "nothing"))[1] == "nothing":
                count, native = counts[id(obj)]
                storage.unnamed += max(0, count - (native or id(obj) in walk.native) - walk.edges.get(id(obj), 0))
    return sorted(found.values(), key=lambda s: -s.bytes)
