# SPDX-License-Identifier: MIT
"""segment_program.py CASE FILE: a program with tensors in segments. torch is segmentlike.py. It notes in FILE what it has seen."""
import json
import os
import subprocess
import sys

import torch

NOTED = {}


def make(size):
    return torch.Tensor(size)  # the line of tensors


def work():
    kept = [make(1 << 19) for _ in range(6)]
    for _ in range(4):
        make(1 << 16)
    return kept


def counted():
    kept = work()
    NOTED.update(torch.count, calls=torch.history["calls"], bound=torch.history["bound"], segments=len(torch.segments))
    return kept


def many():
    kept = work()
    for _ in range(600):
        make(64)
    NOTED.update(bound=torch.history["bound"])
    return kept


def own_history():
    """The name is put together, so that it is not found before the start."""
    kept = work()
    before = len(torch.cuda.memory._snapshot()["device_traces"][0])
    getattr(torch.cuda.memory, "_record_" + "memory_history")(max_entries=50)
    NOTED.update(before=before, behind=len(torch.cuda.memory._snapshot()["device_traces"][0]))
    more = make(4096)
    NOTED.update(own=len(torch.cuda.memory._snapshot()["device_traces"][0]), calls=torch.history["calls"])
    return kept, more


def out_of_memory():
    kept = work()
    try:
        make(1 << 30)
    except torch.OutOfMemoryError:
        NOTED["failed"] = len(kept)
    note()
    os._exit(0)  # no end of the interpreter


def ask(times):
    for _ in range(times):
        subprocess.run([sys.argv[3], "held", str(os.getpid()), "--wait", "600"], check=False)


def asked():
    kept = work()
    ask(1)
    NOTED["live"] = len(kept)
    note()
    os._exit(0)  # no end of the interpreter


def asked_often():
    kept = work()
    ask(10)
    return kept, make(4096)


def note():
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(NOTED, file)


KEPT = globals()[sys.argv[1]]()
note()
