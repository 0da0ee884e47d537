#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The sync API on real steps, against Paddle's policy as the driver would back it.

    KEDGE_TEST_TRACES=... plain_heap.py

`kedge whatif --policy paddle` counts what that policy asks the driver for. A chunk of 1 MiB and more then takes whole granules of
the device, and kedge's segments are counted like that; so here Paddle's are, too.
"""
import bisect
import csv
import json
import os
import subprocess
import sys

GRANULE = 2 << 20
SLACK = 16 << 20  # what kedge may hold more: a few segments of one size instead of another


def backed(size):
    unit = GRANULE if size >= 1 << 20 else 512
    return (size + unit - 1) // unit * unit


class Paddle:
    """Auto-growth best fit: chunks of exactly one request, the high end of a block, neighbours join."""

    def __init__(self):
        self.free = []  # (size, address)
        self.block = {}  # address: [size, is free, previous, next]
        self.held = 0
        self.top = 0

    def put(self, address):
        block = self.block[address]
        block[1] = True
        bisect.insort(self.free, (block[0], address))

    def take(self, address):
        block = self.block[address]
        block[1] = False
        self.free.pop(bisect.bisect_left(self.free, (block[0], address)))

    def alloc(self, size):
        at = bisect.bisect_left(self.free, (size, 0))
        if at == len(self.free):
            address = self.top
            self.top += size + (1 << 30)
            self.block[address] = [size, False, None, None]
            self.held += backed(size)
            return address
        address = self.free[at][1]
        self.take(address)
        block = self.block[address]
        if block[0] == size:
            return address
        high = address + block[0] - size
        self.block[high] = [size, False, address, block[3]]
        if block[3] is not None:
            self.block[block[3]][2] = high
        block[0] -= size
        block[3] = high
        self.put(address)
        return high

    def join(self, low, high):
        gone = self.block.pop(high)
        self.block[low][0] += gone[0]
        self.block[low][3] = gone[3]
        if gone[3] is not None:
            self.block[gone[3]][2] = low

    def release(self, address):
        before, after = self.block[address][2:]
        if after is not None and self.block[after][1]:
            self.take(after)
            self.join(address, after)
        if before is not None and self.block[before][1]:
            self.take(before)
            self.join(before, address)
            address = before
        self.put(address)


def paddle_peak(path):
    model, live = Paddle(), {}
    with open(path, encoding="ascii") as file:
        for row in csv.DictReader(file):
            if row["op"] == "a":
                live[row["id"]] = model.alloc(max((int(row["size"]) + 255) // 256 * 256, 256))
            else:
                model.release(live.pop(row["id"]))
    return model.held


def kedge(path):
    command = [os.path.join(os.environ["TEST_BUILD"], "kedge"), "whatif", path, "--policy", "kedge", "--entrance", "sync", "--json"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return answer["policies"][0] if "policies" in answer else answer


def main():
    folder = os.path.join(os.environ.get("KEDGE_TEST_TRACES", ""), "csv")
    if not os.path.isdir(folder):
        print("SKIP: no KEDGE_TEST_TRACES")
        return 77
    wrong = 0
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        ours, theirs = kedge(path), paddle_peak(path)
        held = ours["peak_reserved_bytes"]
        live = ours["peak_live_512_bytes"]
        print(f"{name:36} kedge {live / held:.4f} {held >> 20:6} MiB, Paddle {live / theirs:.4f} {theirs >> 20:6} MiB")
        wrong += held > theirs + SLACK
    return 1 if wrong else 0


sys.exit(main())
