# SPDX-License-Identifier: MIT
"""A model as frameworks have them: one line of C and one of Python serve all of its layers.

    frameworklike.py good|bad|late

bad keeps what linear() and norm() made beyond their step; late uses it then, too, at two lines. Runs under CPython 3.10 to 3.15.
"""
import ctypes
import os
import sys

BAD = sys.argv[1] != "good"
LATE = sys.argv[1] == "late"
STEPS = 6
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context):
    sys.exit("no device")


def empty(size):
    ptr = ctypes.c_uint64()
    if cuda.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(size)):
        sys.exit("no memory")
    return ptr


def drop(tensors):
    for ptr in tensors:
        if cuda.cuMemFree_v2(ptr):
            sys.exit("no such tensor")


def linear():
    return empty(4 << 20)


def norm():
    return empty(8 << 20)


def scratch():
    return empty(2 << 20)


def clear(ptr):
    return cuda.cuMemsetD8_v2(ptr, ctypes.c_ubyte(0), ctypes.c_size_t(16))


def first_late(ptr):
    return clear(ptr)


def second_late(ptr):
    return clear(ptr)


if "RAW_NAME" in os.environ:
    names = {"co_name": "a\033[31mb"} | ({"co_qualname": "a\033[31mb"} if sys.version_info >= (3, 11) else {})
    clear.__code__ = clear.__code__.replace(**names)
kept = []
for step in range(STEPS):
    os.write(1, b"START step_%d\n" % step)
    made = [linear(), norm()]
    drop([scratch()])
    if BAD:
        kept += made
    else:
        drop(made)
    os.write(1, b"END step_%d\n" % step)
    if LATE:
        print("late", first_late(made[1]), second_late(made[1]), flush=True)
drop(kept)
