# SPDX-License-Identifier: MIT
"""The tensors in the segments of PyTorch's own allocator, as PyTorch records them. history.c runs this text inside of the program,
in a namespace of its own that has `modules` (sys.modules); nothing imports it, and nothing of it stays.

    CUDA is initialised ─► begin: PyTorch records         the end, a failed allocation ─► take: a snapshot as bytes

Names of PyTorch that are missing, and another allocator than its own, mean that there is nothing to record.
"""
# pylint: disable=undefined-variable
os, torch = modules["os"], modules["torch"]
memory = modules.get("torch.cuda.memory")

EVENT = ("action", "addr", "size", "stream", "time_us", "device_free")
SEGMENT = ("device", "address", "total_size", "stream")
BLOCK = ("address", "size", "requested_size", "state")
FRAME = ("name", "filename", "line")
BYTES = 64 << 20  # of a snapshot: of a larger one the older events are left out
DEVICES = 16


def is_native():
    """Whether tensors lie in segments of PyTorch's own: another backend, and memory without a cache, kedge sees by itself."""
    backend = getattr(torch._C, "_cuda_getAllocatorBackend", None)
    names = all(hasattr(memory, n) for n in ("_record_memory_history", "_snapshot", "memory_stats"))
    return names and backend is not None and backend() == "native" and \
        os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING", "0") in ("", "0")


def begin(entries):
    """1: PyTorch records from here on."""
    if not is_native():
        return 0
    memory._record_memory_history("all", context="alloc", stacks="python", max_entries=entries)
    return 1


def end():
    """As if nothing had been recorded: what is recorded goes."""
    memory._record_memory_history(None)
    return 0


class Frames(dict):
    """Equal stacks are one list, and equal frames one dict, which a pickle has once."""

    def __init__(self):
        super().__init__()
        self.lists, self.known = {}, {}

    def __call__(self, frames):
        found = self.lists.get(id(frames))
        if found is None:
            key = tuple(tuple(frame.get(n) for n in FRAME) for frame in frames)
            if key not in self.known:
                self.known[key] = [self.setdefault(words, dict(zip(FRAME, words))) for words in key]
            found = self.lists[id(frames)] = self.known[key]
        return found


def peaks():
    """The most bytes that were asked for and live, by device, as PyTorch counts them."""
    found = []
    for device in range(min(torch.cuda.device_count(), DEVICES)):
        counted = memory.memory_stats(device)
        found.append(counted.get("requested_bytes.all.peak", 0) or counted.get("allocated_bytes.all.peak", 0))
    return found


def short(of, keys, frames):
    out = {key: of[key] for key in keys if key in of}
    if of.get("frames"):
        out["frames"] = frames(of["frames"])
    return out


def number(word):
    return int(word).to_bytes(8, "little")


def snapshot():
    """PyTorch looks for frames of its compiler, and by that loads the compiler (800 modules): it finds none where none is loaded."""
    if "torch._inductor" in modules:
        return memory._snapshot()
    torch._inductor = None
    try:
        return memory._snapshot()
    finally:
        if torch.__dict__.get("_inductor", 0) is None:
            del torch._inductor


def take(entries):
    """(whether older events are missing, peaks as 8-byte words, the snapshot as bytes), or None: nothing is recorded."""
    if not is_native() or not memory.is_initialized():
        return None
    taken, frames = snapshot(), Frames()
    traces = [[short(event, EVENT, frames) for event in trace] for trace in taken.get("device_traces", ())]
    if not any(traces):
        return None
    segments = []
    for segment in taken["segments"]:
        segments.append({key: segment[key] for key in SEGMENT if key in segment})
        segments[-1]["blocks"] = [short(block, BLOCK, frames) for block in segment["blocks"]]
    cut = entries > 0 and any(len(trace) >= entries for trace in traces)
    while True:
        text = modules["_pickle"].dumps({"segments": segments, "device_traces": traces}, 4)
        if len(text) <= BYTES or not any(traces):
            return int(cut), b"".join(map(number, peaks())), text
        cut, traces = True, [trace[-(len(trace) // 2):] if len(trace) > 1 else [] for trace in traces]
