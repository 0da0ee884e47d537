# SPDX-License-Identifier: MIT
"""A Python program that asks the CUDA driver for memory where a stack is easily told wrong.

    places.py CASE OUT LIBRARY

CASE: lookalikes (functions that differ in little, freed and made again at one address), moments (frames that begin, end or are
thrown into), threads (callbacks into Python from threads of LIBRARY, which is pyworker.c). OUT gets, for each size, what the
interpreter's own frames say of the place: file, qualified name where there is one, line. Knows nothing of kedge.
Runs under CPython 3.10 to 3.15.
"""
import asyncio
import contextlib
import contextvars
import ctypes
import functools
import gc
import itertools
import json
import os
import pathlib
import sys
import threading
import types
import weakref

CASE, OUT, LIBRARY = sys.argv[1:]
COUNT = 300
FIRST = 1 << 22
cuda = ctypes.CDLL("libcuda.so.1")
worker = ctypes.CDLL(LIBRARY)
context = ctypes.c_void_p()
if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context):
    sys.exit("no device")
if worker.worker_start(context):
    sys.exit("no worker")
sizes = itertools.count(FIRST)
told = {}


def copied(text):
    """The same text in another object: a name that is kept would keep its address."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def row(code, line):
    return copied(code.co_filename), copied(getattr(code, "co_qualname", code.co_name)), line or 0


def take(size, answer):
    return cuda.cuMemAlloc_v2(ctypes.byref(answer), ctypes.c_size_t(size))


def rows_from(frame):
    rows = [row(take.__code__, take.__code__.co_firstlineno + 1)]
    while frame:
        rows.append(row(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return rows


def note(size, rows, result):
    told[size] = rows
    if result:
        sys.exit("no memory")


def alloc():
    size = next(sizes)
    note(size, rows_from(sys._getframe()), take(size, ctypes.c_uint64()))


def deep(depth):
    return alloc() if depth == 0 else deep(depth - 1)


# ---- functions that look alike ----

def made(text, name, file="<made>"):
    space = {}
    exec(compile(text, file, "exec"), space)
    return space[name]


def names():
    for i in range(COUNT):
        made(f"def fn_{i:05d}_of_many_generated_functions(alloc):\n  return alloc()\n",
             f"fn_{i:05d}_of_many_generated_functions")(alloc)


def files():
    for i in range(COUNT):
        made("def run(alloc):\n  return alloc()\n", "run", f"/generated/modules/number_{i:05d}_of_many/forward.py")(alloc)


def classes():
    kept = []
    for i in range(COUNT):
        made(f"class Layer{i:05d}OfTheModel:\n  def forward(self, alloc):\n    return alloc()\n",
             f"Layer{i:05d}OfTheModel")().forward(alloc)
        kept.append(made(f"class Kept{i:05d}:\n  def forward(self, alloc):\n    return alloc()\n", f"Kept{i:05d}")())
    for layer in kept + kept:
        layer.forward(alloc)


def lines():
    for i in range(COUNT):
        made("def run(alloc):\n" + "\n" * (i % 7) + "  return alloc()\n" + "\n" * (7 - i % 7), "run")(alloc)


class Text(str):
    """Its characters do not lie behind its head."""


def renamed():
    def run():
        return alloc()
    for i in range(COUNT):
        types.FunctionType(run.__code__.replace(co_name=f"renamed_{i:05d}_function"), {"alloc": alloc})()
        types.FunctionType(run.__code__.replace(co_filename=f"renamed_{i:05d}_file.py"), {"alloc": alloc})()
        types.FunctionType(run.__code__.replace(co_filename=Text(f"renamed_{i:05d}_file.py")), {"alloc": alloc})()


# ---- frames that begin, end or are thrown into ----

def values(count):
    try:
        for i in range(count):
            yield alloc()
    finally:
        alloc()


def generators():
    one = values(2)
    next(one)
    one.close()
    one = values(2)
    next(one)
    del one
    one = values(2)
    next(one)
    with contextlib.suppress(ValueError):
        one.throw(ValueError)
    (lambda: [alloc() for _ in values(2)])()

    async def numbers():
        for i in range(3):
            alloc()
            yield i

    async def main():
        async for _ in numbers():
            alloc()
        list([i async for i in numbers()])
        one = numbers()
        await one.__anext__()
        await one.aclose()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()


def watched(settle):
    """By a trace or profile function: at each event of functions called `seen_...`."""
    def look(frame, event, arg):
        if frame.f_code.co_name.startswith("seen_"):
            settle(None)
            alloc()
            settle(look)
        return look

    def seen_generator():
        yield 1

    def seen_function(a, b=2):
        return [i for i in range(2)] + list(seen_generator())

    settle(look)
    try:
        seen_function(1)
        one = seen_generator()
        with contextlib.suppress(ValueError):
            one.throw(ValueError)
        seen_generator().close()
    finally:
        settle(None)


def collected():
    """Garbage whose end asks for memory, wherever the collector comes."""
    class Garbage:
        def __init__(self):
            self.me = self

        def __del__(self):
            gc.disable()
            alloc()
            gc.enable()

    def function(a, *rest, key=1, **more):
        Garbage()
        return [lambda: (a, rest, key, more), [i for i in rest], {k: v for k, v in more.items()}, (i for i in rest)]

    gc.set_threshold(1)
    for _ in range(COUNT // 4):
        function(1, 2, 3, key=3, other=4)

        class Made:
            field = Garbage()

            def method(self, *, value=1):
                return super().__init__()
        Made().method(value=2)
    gc.set_threshold(700)


def dying():
    kept = []

    def run():
        return 1
    for i in range(20):
        code = run.__code__.replace(co_filename=f"dying_{i:05d}.py", co_name=f"dying_{i:05d}")
        kept.append(weakref.ref(code, lambda _: alloc()))
        last = [types.FunctionType(code, {})]
        del code
        last.pop()()
    gc.collect()


def from_c():
    class Meta(type):
        def __call__(cls, *args):
            alloc()
            return super().__call__(*args)

        def __instancecheck__(cls, other):
            alloc()
            return True

    class Rich(metaclass=Meta):
        def __getattr__(self, name):
            alloc()
            return 1

        def __lt__(self, other):
            alloc()
            return True

        def __hash__(self):
            alloc()
            return 1

        def __iter__(self):
            alloc()
            return iter([1])

        def __getitem__(self, key):
            alloc()
            return 1

        def __add__(self, other):
            alloc()
            return 1

        def __init_subclass__(cls):
            alloc()

    rich = Rich()
    for _ in range(30):  # often enough for specialised instructions
        rich.anything, rich < rich, {rich: 1}, [*rich], rich[1], rich + rich, isinstance(1, Rich)
    type("Sub", (Rich,), {})
    contextvars.copy_context().run(alloc)
    functools.partial(alloc)()
    functools.reduce(lambda a, b: alloc(), [1, 2, 3])
    sorted([1, 2], key=functools.cmp_to_key(lambda a, b: alloc() or 0))
    eval("alloc()")
    exec("for i in range(3):\n  alloc()")
    try:
        try:
            alloc(1)
        except TypeError as error:
            alloc()
            raise KeyError from error
        finally:
            alloc()
    except KeyError:
        alloc()
    (alloc(),
     alloc(
     ))
    (lambda:
     alloc())()


# ---- threads that are not Python's ----

def callbacks():
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)

    @kind
    def inner(i):
        if cuda.cuCtxSetCurrent(context):
            sys.exit("no context")
        deep(i % 9)
        return 0

    @kind
    def outer(i):
        worker.worker_call(inner, 3, 0)
        alloc()
        return 0

    worker.worker_call(inner, 5, 0)
    worker.worker_call(inner, 60, 4)
    worker.worker_call(outer, 5, 0)
    worker.worker_call(outer, 20, 2)


CASES = {"lookalikes": (names, files, classes, lines, renamed),
         "moments": (generators, lambda: watched(sys.settrace), lambda: watched(sys.setprofile), collected, dying, from_c),
         "threads": (callbacks,)}
for case in CASES[CASE]:
    case()
pathlib.Path(OUT).write_text(json.dumps(told), encoding="utf-8")
