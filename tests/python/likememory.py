# SPDX-License-Identifier: MIT
"""Device memory for what is like a framework: asked for from the CUDA driver, so that captures say where in the loop that was."""
import ctypes

_driver = None
_context = ctypes.c_void_p()


def driver():
    global _driver
    if _driver is None:
        _driver = ctypes.CDLL("libcuda.so.1")
        if _driver.cuInit(0) or _driver.cuDevicePrimaryCtxRetain(ctypes.byref(_context), 0):
            raise SystemExit("no device")
    _driver.cuCtxSetCurrent(_context)  # threads come and go
    return _driver


def empty(size):
    ptr = ctypes.c_uint64()
    if driver().cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(size)):
        raise RuntimeError("no memory")
    return ptr


def free(ptr):
    if driver().cuMemFree_v2(ptr):
        raise RuntimeError("no such block")
