# SPDX-License-Identifier: MIT
"""A small Python program on the CUDA driver, for what churn.py is too restless for.

    program.py CASE OUT LIBRARY

LIBRARY is pyworker.c. OUT gets, for each size, the function and the line that asked for it, or waited for it.
Runs under CPython 3.10 to 3.15.
"""
import ctypes
import importlib
import json
import os
import pathlib
import sys
import threading

CASE, OUT, LIBRARY = sys.argv[1:]
cuda = ctypes.CDLL("libcuda.so.1")
worker = ctypes.CDLL(LIBRARY)
worker.worker_take.argtypes = worker.worker_at_exit.argtypes = [ctypes.c_size_t]
worker.worker_deep.argtypes = [ctypes.c_size_t, ctypes.c_uint]
context = ctypes.c_void_p()
if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context):
    sys.exit("no device")
if worker.worker_start(context):
    sys.exit("no worker")
told = {}


def line():
    return sys._getframe(1).f_lineno


def alloc(size, where):
    if cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(size)):
        sys.exit("no memory")
    told[size] = where


def forward(first):
    for i in range(4):
        alloc(first + i, ("forward", line()))


def backward(first):
    # the engine's own thread asks while this one waits; what is known of this one is its last request
    alloc(first, ("backward", line()))
    asked = told[first][1]
    if worker.worker_take(first + 1):
        sys.exit("no memory for the worker")
    told[first + 1] = ("ambient backward", asked)


def steps():
    for step in range(5):
        forward(10000 * (step + 1))
        backward(10000 * (step + 1) + 100)


def behind(size, levels):
    if worker.worker_deep(size, levels):
        sys.exit("no memory")
    told[size] = ("behind", line())


def deep():
    """Far from Python, then near it, with calls of Python by C further out."""
    for turn in range(40):
        for levels in (2, 14, 20, 30):
            list(map(lambda size, levels=levels: sorted([size], key=lambda size: behind(size, levels) or 0),
                     [100000 * levels + 1000 * turn]))


def beside():
    """The work is done by another Python thread; the main one waits."""
    def work():
        cuda.cuCtxSetCurrent(context)
        steps()
        told[1] = None

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if not told.pop(1, True) is None:
        sys.exit("the thread did not come to its end")


def forks():
    steps()
    for _ in range(3):
        child = os.fork()
        if child == 0:
            # a child of a process with CUDA has none; asking must do no harm
            cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(512))
            os._exit(7)
        if os.WEXITSTATUS(os.waitpid(child, 0)[1]) != 7:
            sys.exit("the child came to harm")
    forward(90000)


def sub_interpreter_of():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    sys.exit("no sub-interpreters")


def sub_interpreters():
    interpreters = sub_interpreter_of()
    text = f"""if True:
        import ctypes
        cuda = ctypes.CDLL("libcuda.so.1")
        def inside(size):
            return cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(size))
        if cuda.cuCtxSetCurrent(ctypes.c_void_p({context.value})):
            raise SystemError("no context")
        for size in range(50000, 50010):
            if inside(size):
                raise MemoryError(size)
        """
    steps()
    for _ in range(3):
        if sys.version_info >= (3, 13):
            number = interpreters.create("legacy")
        elif sys.version_info >= (3, 12):
            number = interpreters.create(isolated=False)
        else:
            number = interpreters.create()
        # from 3.13 on what went wrong inside is returned
        wrong = interpreters.run_string(number, text)
        if wrong:
            sys.exit(str(wrong))
        forward(60000 + 100 * _)
        interpreters.destroy(number)
    for size in range(50000, 50010):
        told[size] = ("inside" if sys.version_info >= (3, 12) else "sub_interpreters", None)


def ends():
    """Threads that go on asking while the interpreter ends, and a request after its end."""
    steps()
    if worker.worker_stay() or worker.worker_at_exit(70000):
        sys.exit("no thread")
    for _ in range(3):
        threading.Thread(target=worker.worker_linger, daemon=True).start()
    forward(80000)
    told[70000] = None


CASES = {"steps": steps, "deep": deep, "beside": beside, "forks": forks, "sub_interpreters": sub_interpreters, "ends": ends}
CASES[CASE]()
pathlib.Path(OUT).write_text(json.dumps(told), encoding="utf-8")
