# SPDX-License-Identifier: MIT
"""PyTorch's own allocator, with nothing behind it: segments of likememory.py with tensors in them, and its memory history, by
the names that kedge asks for. LIKE_BACKEND is another backend's name; LIKE_FAILS lets a snapshot fail."""
import collections
import ctypes
import os
import pickle  # noqa: F401 # as PyTorch does
import sys
import threading  # noqa: F401 # as PyTorch does
import time
import types

import likememory

SEGMENT = 2 << 20
history = {"bound": None, "calls": 0}
events = collections.deque()
segments = []
live = {}  # address ─► (size, frames)
count = {"now": 0, "peak": 0}


class OutOfMemoryError(RuntimeError):
    pass


def note(action, address, size, frames=()):
    if history["bound"]:
        events.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": time.time_ns() // 1000,
                       "frames": list(frames)})
        while len(events) > history["bound"]:
            events.popleft()


def frames_here():
    frame, found = sys._getframe(2), []
    while frame is not None:
        found.append({"name": frame.f_code.co_name, "filename": frame.f_code.co_filename, "line": frame.f_lineno})
        frame = frame.f_back
    return found


class Tensor:
    def __init__(self, size):
        cuda._lazy_init()
        if size > SEGMENT:
            raise OutOfMemoryError("no memory")
        frames = frames_here()
        if not segments or segments[-1][1] + size > SEGMENT:
            segments.append([likememory.empty(SEGMENT), 0])
            note("segment_alloc", segments[-1][0].value, SEGMENT)
        self.address, self.size = segments[-1][0].value + segments[-1][1], size
        segments[-1][1] += (size + 511) // 512 * 512
        live[self.address] = size, frames if history["bound"] else []
        count["now"] += size
        count["peak"] = max(count["now"], count["peak"])
        note("alloc", self.address, size, frames)

    def __del__(self):
        if hasattr(self, "address"):
            count["now"] -= self.size
            del live[self.address]
            note("free_requested", self.address, self.size)
            note("free_completed", self.address, self.size)


# ---- torch._C


class MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
def c_record(_self, args, _keywords):
    history["calls"] += 1
    history["bound"] = args[3] if args[0] else None
    if not args[0]:
        events.clear()
    return None


record_def = MethodDef(b"_cuda_record_memory_history", ctypes.cast(c_record, ctypes.c_void_p).value, 3, None)
new_function = ctypes.pythonapi.PyCFunction_NewEx
new_function.restype, new_function.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
_C = types.ModuleType("torch._C")
_C._cuda_record_memory_history = new_function(ctypes.addressof(record_def), None, None)
_C._cuda_getAllocatorBackend = lambda: os.environ.get("LIKE_BACKEND", "native")
_C.OutOfMemoryError = OutOfMemoryError

# ---- torch.cuda.memory


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=sys.maxsize):
    _C._cuda_record_memory_history(enabled, context, stacks, max_entries)


def _snapshot():
    if os.environ.get("LIKE_FAILS"):
        raise ValueError("no snapshot")
    told = []
    for pointer, _ in segments:
        blocks, at = [], pointer.value
        for address in sorted(a for a in live if pointer.value <= a < pointer.value + SEGMENT):
            if address > at:
                blocks.append({"address": at, "size": address - at, "state": "inactive"})
            size, frames = live[address]
            at = address + (size + 511) // 512 * 512
            blocks.append({"address": address, "size": at - address, "requested_size": size, "state": "active_allocated", "frames": frames})
        if at < pointer.value + SEGMENT:
            blocks.append({"address": at, "size": pointer.value + SEGMENT - at, "state": "inactive"})
        told.append({"device": 0, "address": pointer.value, "total_size": SEGMENT, "stream": 0, "blocks": blocks})
    return {"segments": told, "device_traces": [list(events)]}


def memory_stats(_device):
    return {"requested_bytes.all.peak": count["peak"]}


memory = types.ModuleType("torch.cuda.memory")
memory._record_memory_history, memory._snapshot, memory.memory_stats = _record_memory_history, _snapshot, memory_stats
memory.is_initialized = lambda: cuda._initialized

# ---- torch.cuda


def _lazy_init():
    if not cuda._initialized:
        for call, _ in cuda._queued_calls:
            call()
        cuda._initialized = True


cuda = types.ModuleType("torch.cuda")
cuda.memory, cuda._lazy_init, cuda._queued_calls, cuda._initialized = memory, _lazy_init, [], False
cuda.device_count = lambda: 1
sys.modules.update({"torch._C": _C, "torch.cuda": cuda, "torch.cuda.memory": memory})

# as a framework does, it imports more after that
import colorsys  # noqa: F401,E402
