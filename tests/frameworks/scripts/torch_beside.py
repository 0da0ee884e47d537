# SPDX-License-Identifier: MIT
"""torch_beside.py LOOKS: trains in three threads, forward with operations in place and backward, while another process asks kedge for
so many walks through the objects of this one. Nothing of the program may differ after them. Says how many of them, of those that are
in the capture, have read graphs.

torch_beside.py ask LOOKS CAPTURE: that other process. It asks as `kedge held` does, and reads no answer but that there is one.
"""
import ctypes
import gc
import mmap
import os
import re
import struct
import subprocess
import sys
import threading
import time

ASK, FUTEX, WAKE, WALKED, FAILED = 8128, 202, 1, 1, 4  # format.h
WALK = re.compile(rb"\x13...\x50\0\0\0....\0{4}.{52}(.)\0{3}\xff{4}\0{4}", re.S)  # struct format_def_walk, and its flags
UNREAD = 6  # FORMAT_WALK_BUSY, FORMAT_WALK_LACKS
FULL = 1000  # looks after which the capture may have no room for the rows of more, which are made all the same


def ask(looks, capture):
    with open(capture, "r+b") as file:
        page = mmap.mmap(file.fileno(), 8192)
    word, parent = ctypes.c_uint32.from_buffer(page, ASK), os.getppid()
    for n in range(1, looks + 1):
        word.value = n
        ctypes.CDLL(None).syscall(FUTEX, ctypes.byref(word), WAKE, 1, None, None, 0)
        while struct.unpack_from("<I", page, ASK + 8)[0] != n:
            time.sleep(0.001)
            if os.getppid() != parent:
                sys.exit("the program has ended")
        result = struct.unpack_from("<I", page, ASK + 16)[0]
        if result != WALKED and (result != FAILED or n <= FULL):
            sys.exit(f"look {n}: result {result}")


def graphs_read(capture):
    with open(capture, "rb") as file:
        flags = [found[0] for found in WALK.findall(file.read())]
    return f"{sum(not f & UNREAD for f in flags)} of {len(flags)} in the capture have read graphs"


def train(over, steps, failures, most=None):
    try:
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(inplace=True), nn.Linear(64, 64), nn.ReLU(inplace=True), nn.Linear(64, 8)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        kept = []
        while not over and len(steps) != most:
            y = model(torch.zeros(16, 64, device="cuda"))
            y.mul_(2).add_(1)
            loss = (y * y).sum()
            kept = [*kept[-3:], loss * 1]  # graphs that the next steps do not free
            loss.backward(retain_graph=True)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            steps.append(1)
    except BaseException as error:  # pylint: disable=broad-exception-caught
        failures.append(error)


def state(of):
    return ([sys.getrefcount(o) for o in of], gc.isenabled(), gc.get_threshold(), gc.garbage, gc.get_debug(),
            sys.getswitchinterval(), len(sys.modules))


def main(looks):
    weight = torch.ones(256, device="cuda", requires_grad=True)
    old = [(weight * n).exp_().sum() for n in range(4)]  # graphs that nobody touches until the end
    over, steps, failures = [], [], []
    train(over, steps, failures, 2)  # imports what a first step does
    gc.freeze()  # a look goes through what is made from here on, and is short
    sys.setswitchinterval(0.0005)
    threads = [threading.Thread(target=train, args=(over, steps, failures)) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(steps) < 12 and not failures:
        time.sleep(0.01)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        capture = next(line.split()[-1] for line in maps if line.rstrip().endswith(".kcap"))
    before, begun = state([weight, *old]), len(steps)
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "KEDGE_"))}
    asked = subprocess.run([sys.executable, __file__, "ask", str(looks), capture], check=False, env=plain)
    after = state([weight, *old])
    over.append(1)
    for thread in threads:
        thread.join()
    if asked.returncode or failures or before != after:
        sys.exit(f"asked: {asked.returncode}; {failures}; {before} before, {after} after")
    sum(old).backward()
    print(f"{looks} looks beside {'some' if len(steps) > begun else 'hardly any'} steps; {graphs_read(capture)}")


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(int(sys.argv[2]), sys.argv[3])
    else:
        import torch
        from torch import nn
        main(int(sys.argv[1]))
