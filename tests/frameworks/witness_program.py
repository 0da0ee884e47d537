# SPDX-License-Identifier: MIT
"""Asks the CUDA runtime for memory from many places, through ctypes, with the GIL and without, in threads and deep down.

    witness_program.py

Says how often. Knows nothing of kedge. Runs under CPython 3.9 and later.
"""
import ctypes
import threading

SIZES = (512, 4096, 1 << 20, 3 << 20)
without_gil, with_gil = ctypes.CDLL("libcudart.so.13"), ctypes.PyDLL("libcudart.so.13")
asked = []


def take(runtime, size):
    ptr = ctypes.c_void_p()
    if runtime.cudaMalloc(ctypes.byref(ptr), ctypes.c_size_t(size)):
        raise MemoryError(size)
    asked.append(size)
    return ptr


def take_async(runtime, size):
    ptr = ctypes.c_void_p()
    if runtime.cudaMallocAsync(ctypes.byref(ptr), ctypes.c_size_t(size), None):
        raise MemoryError(size)
    asked.append(size)
    return ptr


def drop(runtime, ptr):
    runtime.cudaFree(ptr)


def deep(depth, work):
    return work() if depth == 0 else deep(depth - 1, work)


class Layer:
    def forward(self, runtime):
        return [call(runtime, size) for call in (take, take_async) for size in SIZES]


def generator(runtime):
    for size in SIZES:
        yield take(runtime, size)


def steps():
    for runtime in (without_gil, with_gil):
        for depth in (0, 1, 30, 200):
            for ptr in deep(depth, lambda: Layer().forward(runtime)): # pylint: disable=cell-var-from-loop
                drop(runtime, ptr)
        for ptr in generator(runtime):
            drop(runtime, ptr)


def through_c(depth):
    """Python that C calls that Python calls: the interpreter's loop is in the native stack again and again."""
    def order(_one, _other):
        drop(without_gil, take(without_gil, 512))
        if depth > 1:
            through_c(depth - 1)
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    ctypes.CDLL(None).qsort((ctypes.c_int * 2)(2, 1), 2, 4, callback(order))


steps()
through_c(5)
threads = [threading.Thread(target=steps) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(asked))
