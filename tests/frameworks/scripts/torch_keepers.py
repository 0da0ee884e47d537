# SPDX-License-Identifier: MIT
"""Places in which programs keep tensors, each tensor of a size of its own; then memory runs out.

--cut: the error is caught, and one place after the other is emptied by the statement that its path asks for; printed is what that frees.
A line `place NAME BYTES` for each, and `cut NAME BYTES`.
"""
import asyncio
import atexit
import collections
import concurrent.futures
import contextvars
import ctypes
import dataclasses
import enum
import functools
import gc
import heapq
import itertools
import logging
import logging.handlers
import queue
import signal
import sys
import threading
import types
import typing
import weakref

import numpy
import torch
from torch import nn

gc.disable()
CUTS, AT_THE_END = [], []


def allocated():
    return torch.cuda.memory_allocated()


def new(name, cut=None, grad=False, times=1):
    """A tensor for this place; `times`: how often its bytes are there."""
    size = 100 + 8 * len(CUTS)
    CUTS.append((name, cut))
    print("place", name, times * size * 1024)
    return torch.empty(size * 256, device="cuda", requires_grad=grad)


# ---- globals and containers ---------------------------------------------------------------------

TABLE = new("global", "del TABLE")
CACHE = {"masks": {64: new("nested dict", "del CACHE['masks'][64]")}}
HISTORY = [None, [new("nested list", "HISTORY[1].pop()")]]
RECENT = collections.deque([new("deque", "RECENT.clear()")], maxlen=4)
SEEN = {new("set", "SEEN.clear()")}
NAMES = {new("dict key", "NAMES.clear()"): "first"}
BY_KIND = collections.defaultdict(list)
BY_KIND["train"].append(new("defaultdict", "BY_KIND.clear()"))
LRU = collections.OrderedDict()
LRU[8, 16] = new("OrderedDict", "LRU.popitem()")
USER = collections.UserDict(seen=new("UserDict", "del USER['seen']"))
CHAIN = collections.ChainMap({}, {"base": new("ChainMap", "del CHAIN.maps[1]['base']")})
HEAP = []
heapq.heappush(HEAP, (3, 0, new("heap of tuples", "HEAP.clear()")))
SETTINGS = types.MappingProxyType({"table": new("mappingproxy", "del SETTINGS")})
SPACE = types.SimpleNamespace(inner=types.SimpleNamespace(mask=new("namespace", "del SPACE.inner.mask")))
OBJECTS = numpy.empty(3, dtype=object)
OBJECTS[2] = new("numpy object array", "OBJECTS[2] = None")
SHARED = new("two holders", "del SHARED, ALSO['shared']")
ALSO = {"shared": SHARED}
FIRST = new("view", "del FIRST")[:1]
STORAGE = new("storage", "del STORAGE").untyped_storage()
SMALL = torch.zeros(1)
SMALL.extra = new("attribute of a tensor", "del SMALL.extra")


# ---- objects and classes ------------------------------------------------------------------------


class Engine:
    table = new("class attribute", "del Engine.table")

    def __init__(self):
        self.buffer = new("attribute", "del engine.buffer")
        self.scheduler = types.SimpleNamespace(waiting=[None, new("list of an attribute", "engine.scheduler.waiting.pop()")])

    @functools.cached_property
    def positions(self):
        return new("cached_property", "del engine.positions")

    def handle(self):
        return self


class Slotted:
    __slots__ = ("data",)


@dataclasses.dataclass
class Batch:
    inputs: object
    label: int = 0


class Pair(typing.NamedTuple):
    key: object
    value: object


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


class Registry(type):
    known = {}

    def __new__(mcs, name, bases, body):
        mcs.known[name] = new("metaclass's dict", "Registry.known.clear()")
        return super().__new__(mcs, name, bases, body)


class Plugin(metaclass=Registry):
    pass


engine = Engine()
assert engine.positions is not None
slotted = Slotted()
slotted.data = new("slot", "del slotted.data")
current = Batch(new("dataclass", "current.inputs = None"))
pair = Pair(new("namedtuple", "del pair"), 1)
Mode.FAST.table = new("enum member", "del Mode.FAST.table")
settings = sys.modules["settings"] = types.ModuleType("settings")
settings.table = new("module", "del sys.modules['settings'].table")
del settings
sys.modules["settings"].ready = True

# ---- functions ----------------------------------------------------------------------------------


def make_callback():
    kept = new("closure", "CALLBACKS.clear()")

    def callback(x):
        return x + kept
    return callback


CALLBACKS = [make_callback()]


def scaled(x, factor=new("default argument", "scaled.__defaults__ = None")):
    return x * factor


def shifted(x, *, by=new("keyword default", "shifted.__kwdefaults__ = None")):
    return x + by


def last(x):
    return x


last.seen = new("function attribute", "del last.seen")
STEP = functools.partial(scaled, new("partial", "del STEP"))


class Handler:
    def __init__(self):
        self.state = new("bound method", "HANDLERS.clear()")

    def handle(self):
        return self.state


HANDLERS = {"message": Handler().handle}


@functools.lru_cache
def positions(length):
    return new("lru_cache", "positions.cache_clear()")


positions(64)


@functools.singledispatch
def show(x):
    return x


show.register(int, functools.partial(scaled, new("singledispatch", "show.register(int, last)")))


class Shape:
    area = property(functools.partial(scaled, new("property", "del Shape.area")))


# ---- what is suspended --------------------------------------------------------------------------


def batches():
    ahead = new("generator", "stream.close()")
    yield 1
    yield ahead


stream = batches()
next(stream)


async def answer():
    prompt = new("coroutine", "request.close()")
    await asyncio.sleep(0)
    return prompt


request = answer()
request.send(None)


async def serve(gate):
    context = new("asyncio task", "task.cancel(); loop.run_until_complete(asyncio.sleep(0.01)); del task")
    await gate.wait()
    return context


loop = asyncio.new_event_loop()
task = loop.create_task(serve(asyncio.Event()))
loop.run_until_complete(asyncio.sleep(0))

ROUND = itertools.cycle([new("itertools.cycle", "del ROUND")])
PIPE = map(scaled, [new("map", "del PIPE")])
POINTER = iter([new("list iterator", "del POINTER")])
next(ROUND)
LEFT, RIGHT = itertools.tee(iter([new("itertools.tee", "del LEFT, RIGHT")]))
next(LEFT)

# ---- threads ------------------------------------------------------------------------------------

go, ready = threading.Event(), threading.Event()


def work():
    mine = new("thread's local", "go.set(); worker.join()")
    ready.set()
    go.wait()
    return mine.shape


worker = threading.Thread(target=work, daemon=True)
worker.start()
ready.wait()
LOCAL = threading.local()
LOCAL.scratch = new("threading.local", "del LOCAL.scratch")
QUEUE = queue.Queue()
QUEUE.put(("batch", new("queue", "QUEUE.get()")))
pool = concurrent.futures.ThreadPoolExecutor(1)
FUTURES = [pool.submit(new, "future", "FUTURES.clear()")]
FUTURES[0].result()
CURRENT = contextvars.ContextVar("current")
TOKENS = []
CURRENT.set(new("contextvar", "CURRENT.set(None)"))

# ---- errors and records -------------------------------------------------------------------------


def fails():
    activations = new("traceback", "LAST_ERROR = None")
    raise ValueError(activations.shape[0])


def fails_again():
    try:
        gradients = new("context of an error", "PROBLEM = None")
        raise KeyError(gradients.shape[0])
    except KeyError:
        raise RuntimeError("no key")


try:
    fails()
except ValueError as error:
    LAST_ERROR = error
try:
    fails_again()
except RuntimeError as error:
    PROBLEM = error
WRONG = []
try:
    raise ValueError("bad batch", new("argument of an error", "WRONG.clear()"))
except ValueError as error:
    WRONG.append(error.with_traceback(None))
log = logging.getLogger("training")
log.propagate = False
memory = logging.handlers.MemoryHandler(100)
log.addHandler(memory)
log.warning("batch %s", new("logging record", "memory.buffer.clear()"))


def stopped():
    scratch = new("kept frame", "FRAME.clear()")
    return sys._getframe(), scratch.shape


FRAME = stopped()[0]

# ---- PyTorch ------------------------------------------------------------------------------------


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = new("ctx of a Function", "MASKED.clear()")
        return x.sum()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.mask


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(new("save_for_backward", "KEPT.clear()"))
        return x.sum()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


ONE = torch.ones(1, device="cuda", requires_grad=True)
MASKED, KEPT = {"out": Masked.apply(ONE)}, [Scaled.apply(ONE)]
LOSSES = []
LOSSES.append(new("graph", "LOSSES.clear()", grad=True, times=2).exp().sum())
NODE = new("node of a graph", "del NODE", grad=True, times=2).exp().sum().grad_fn
net = nn.Linear(4, 4)
net.register_buffer("mask", new("buffer", "net.mask = None"))
net.scale = nn.Parameter(new("parameter", "del net.scale"))
leaf = new("gradient", "del leaf", grad=True, times=2)
leaf.grad = torch.empty_like(leaf, requires_grad=False)
trained = nn.Parameter(torch.empty(0, device="cuda"))
optimizer = torch.optim.SGD([trained], 0.1, momentum=0.9)
optimizer.state[trained]["momentum_buffer"] = new("optimizer state", "optimizer.state.clear()")


def add_hooks():
    seen = new("module hook", "net._forward_hooks.clear()")
    net.register_forward_hook(lambda module, args, out: out + seen)
    factor = new("tensor hook", "ONE._backward_hooks.clear()")
    ONE.register_hook(lambda g: g * factor)


add_hooks()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(new("dataset of a loader", "del loader")), 2)
packed = nn.utils.rnn.PackedSequence(new("PackedSequence", "del packed"), torch.ones(1, dtype=torch.int64))

# ---- weak references and what C keeps -----------------------------------------------------------


class Watched:
    pass


watched = Watched()


def watch():
    seen = new("callback of a weak reference", "del REF")
    return weakref.ref(watched, lambda ref: seen)


REF = watch()
weakref.finalize(watched, print, new("finalize", "weakref.finalize._registry.clear()"))


class Ring:
    pass


def ring():
    one = Ring()
    one.self, one.data = one, new("cycle", "gc.collect()")


ring()
BOX = ctypes.py_object(new("ctypes.py_object", "del BOX"))
CAPSULE = torch.utils.dlpack.to_dlpack(new("DLPack capsule", "del CAPSULE"))
atexit.register(len, new("atexit", "atexit.unregister(len)"))
signal.signal(signal.SIGUSR1, functools.partial(print, new("signal handler", "signal.signal(signal.SIGUSR1, signal.SIG_DFL)")))

# ---- locals, and the end ------------------------------------------------------------------------


def step(inputs):
    hidden = {"state": [new("local of a function")]}
    outputs = inputs
    del inputs
    AT_THE_END.append(allocated())
    total = torch.empty(1 << 36, device="cuda")
    return total, hidden, outputs


def handled():
    """Memory runs out while an error is handled; it keeps the frame that it left."""
    def broken():
        half = new("error that is handled")
        raise LookupError(half.shape[0])
    try:
        broken()
    except LookupError:
        step(new("argument of a function"))


if sys.argv[1:] != ["--cut"]:
    handled()
try:
    handled()
except torch.OutOfMemoryError:
    pass
print("cut locals", AT_THE_END[0] - allocated())
for place, statement in CUTS:
    if statement:
        before = allocated()
        exec(statement)
        print("cut", place, before - allocated())
