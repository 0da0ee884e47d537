# SPDX-License-Identifier: MIT
"""A Python program that asks the CUDA driver for memory from everywhere, through ctypes, under threads that come and go.

    churn.py COUNT OUT [SEED]

Knows nothing of kedge. Each allocation has a size of its own; OUT gets, for each size, what `traceback` says of the place.
Runs under CPython 3.10 to 3.15.
"""
import asyncio
import ctypes
import functools
import gc
import importlib
import itertools
import json
import os
import pathlib
import random
import sys
import tempfile
import threading
import traceback

FIRST = 4096
COUNT = int(sys.argv[1])
OUT = pathlib.Path(sys.argv[2])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0):
    sys.exit("no device")
sizes = itertools.count(FIRST)
told = {}


def place():
    """What traceback says of our caller and its callers, innermost first."""
    rows = traceback.StackSummary.extract(traceback.walk_stack(sys._getframe(1)), lookup_lines=False)
    return [(os.fsencode(row.filename).decode("latin-1"), row.name, row.lineno or 0) for row in rows]


def take(size, answer):
    return cuda.cuMemAlloc_v2(ctypes.byref(answer), ctypes.c_size_t(size))


def note(size, where, below, code):
    # `below` is the line of take(), where the call itself stands
    told[size] = [below] + where
    if code:
        raise MemoryError(code)


BELOW = (os.fsencode(__file__).decode("latin-1"), "take", take.__code__.co_firstlineno + 1)


def alloc():
    size = next(sizes)
    note(size, place(), BELOW, take(size, ctypes.c_uint64()))
    return size


def deeper(depth):
    return alloc() if depth == 0 else deeper(depth - 1)


def counted(fn):
    @functools.wraps(fn)
    def inner(*args):
        return fn(*args)
    return inner


def steps(count):
    for _ in range(count):
        yield alloc()


def through(count):
    yield from steps(count)


def fails(depth):
    if depth == 0:
        raise ValueError(alloc())
    try:
        fails(depth - 1)
    finally:
        alloc()


def catches(depth):
    try:
        fails(depth)
    except ValueError:
        return alloc()


class Layer:
    scale = 1

    def forward(self, depth):
        return self.inner(depth) if depth else alloc()

    def inner(self, depth):
        return (lambda d: self.forward(d))(depth - 1)

    @property
    def weight(self):
        return alloc()

    @classmethod
    def made(cls):
        return alloc()

    @counted
    def decorated(self):
        return alloc()

    def __enter__(self):
        alloc()
        return self

    def __exit__(self, *what):
        alloc()

    def __del__(self):
        if self.scale != 1:
            alloc()


def dies():
    layer = Layer()
    layer.scale = 2
    del layer  # from within the interpreter


def collected():
    layer = Layer()
    layer.scale = 2
    layer.me = layer
    del layer
    gc.collect()


def comprehensions():
    return ([alloc() for _ in range(2)], {alloc() for _ in range(1)}, {alloc(): i for i in range(1)},
            list(alloc() for _ in range(2)), [[alloc() for _ in range(1)] for _ in range(2)])


def called_back(rng):
    return sorted(range(2), key=lambda x: alloc()), list(map(lambda x: deeper(x), range(rng.randrange(3))))


def executed(rng):
    """Code objects that live for one call: the same names and sizes, other lines, other files."""
    lines = rng.randrange(200)
    name = rng.choice(["<one>", "<two>", "/tmp/caf\u00e9.py", "/tmp/\u043a\u043e\u0434.py", "/tmp/\U0001d523.py", "/tmp/\udcff.py"])
    text = "\n" * lines + "def made():\n" + "    x = 1\n" * rng.randrange(3) + "    return alloc()\nmade()\n"
    space = {"alloc": alloc}
    exec(compile(text, name, "exec"), space)
    del space


def odd_names():
    space = {"alloc": alloc}
    for name in ("caf\u00e9", "\u0444\u0443\u043d\u043a\u0446\u0438\u044f", "\U00010400"):
        exec(compile(f"def {name}():\n  return alloc()\n{name}()\n", "<odd>", "exec"), space)


def long_function(rng):
    """A line table of many kilobytes, far too long for a short look."""
    before = rng.randrange(300, 2000)
    text = "def long(alloc):\n" + "    x = 1\n" * before + "    alloc()\n" + "    x = 2\n" * 100
    space = {}
    exec(compile(text, "<long>", "exec"), space)
    space["long"](alloc)


def reloaded(rng, module, path):
    path.write_text("# " + "x" * rng.randrange(9) + "\n" * rng.randrange(1, 60)
                    + "def run(alloc):\n    for _ in range(2):\n        alloc()\n\n\nclass Model:\n    def step(self, alloc):\n"
                    + "\n" * rng.randrange(5) + "        return alloc()\n", encoding="utf-8")
    importlib.invalidate_caches()
    importlib.reload(module)
    module.run(alloc)
    module.Model().step(alloc)


async def waits(depth):
    if depth:
        return await waits(depth - 1)
    await asyncio.sleep(0)
    return alloc()


def awaited():
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(waits(3))
    finally:
        loop.close()


def with_block():
    with Layer() as layer:
        return layer.weight, layer.made(), layer.decorated(), layer.forward(4)


def in_class_body():
    class Made:
        size = alloc()
    return Made.size


def one(rng, module, path):
    layer = Layer()
    jobs = (lambda: deeper(rng.randrange(40)), lambda: list(through(3)), lambda: catches(rng.randrange(5)), comprehensions,
            lambda: called_back(rng), lambda: executed(rng), odd_names, with_block, in_class_body, dies, collected,
            lambda: layer.forward(rng.randrange(8)), lambda: long_function(rng), awaited,
            lambda: reloaded(rng, module, path))
    rng.choice(jobs)()


def short_lived(seed, count, directory):
    cuda.cuCtxSetCurrent(context)
    rng = random.Random(seed)
    name = f"churned_{seed}"
    path = pathlib.Path(directory, name + ".py")
    path.write_text("", encoding="utf-8")
    importlib.invalidate_caches()
    module = importlib.import_module(name)
    for _ in range(count):
        one(rng, module, path)
    del sys.modules[name]


def main():
    sys.dont_write_bytecode = True
    sys.setswitchinterval(1e-4)
    cuda.cuCtxSetCurrent(context)
    threads = []
    with tempfile.TemporaryDirectory() as directory:
        sys.path.insert(0, directory)
        seeds = itertools.count(SEED * 1000)
        while len(told) < COUNT:
            threads = [thread for thread in threads if thread.is_alive()]
            while len(threads) < 4:
                threads.append(threading.Thread(target=short_lived, args=(next(seeds), 20, directory)))
                threads[-1].start()
            short_lived(next(seeds), 2, directory)
            deeper(300)
        for thread in threads:
            thread.join()
    OUT.write_text(json.dumps(told), encoding="utf-8")


main()
