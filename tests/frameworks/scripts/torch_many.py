# SPDX-License-Identifier: MIT
"""torch_many.py OBJECTS SHAPE: runs out of memory beside so many objects: `list` has small lists in one list, `objects` instances in a
dict. What holds the device's memory has a name of its own, behind that of the many. Says what the failure took."""
import gc
import sys
import time

import torch


class Thing:
    def __init__(self, number):
        self.numbers = [number]


def resident(word):
    """MiB, of /proc/self/status."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(word)) / 1024


count = int(sys.argv[1])
MANY = [[i] for i in range(count)] if sys.argv[2] == "list" else {i: Thing(i) for i in range(count // 2)}
KEPT = {"here": [torch.empty(1 << 24, device="cuda")]}
gc.collect()
with open("/proc/self/clear_refs", "w", encoding="ascii") as peak:
    peak.write("5")
before, wall, cpu = resident("VmRSS"), time.monotonic(), time.process_time()
try:
    torch.empty(1 << 40, device="cuda")
except torch.OutOfMemoryError:
    pass
wall, cpu = time.monotonic() - wall, time.process_time() - cpu
print(f"{len(gc.get_objects())} {wall:.2f} {cpu:.2f} {resident('VmHWM') - before:.0f} {resident('VmRSS') - before:.0f}")
