# SPDX-License-Identifier: MIT
"""What kedge asks of CuPy's arrays, with nothing behind it: an array has a pointer, and that the memory in which it lies. As those
of classes in C, their members are descriptors that are read, and references that only the collector is shown. Memory is
likememory.py's; it loads what CuPy does."""
# pylint: disable=unused-import
import collections  # noqa: F401
import contextlib  # noqa: F401
import gc  # noqa: F401
import operator  # noqa: F401
import sys
import threading  # noqa: F401
import types

import likememory

uint8 = "uint8"


class OutOfMemoryError(MemoryError):
    def __init__(self, size):
        super().__init__(f"no room for {size}")


def in_c(kind):
    for name in kind.__slots__:
        if not name.startswith("__"):
            setattr(kind, name, property(kind.__dict__[name].__get__, kind.__dict__[name].__set__))
    return kind


@in_c
class BaseMemory:
    __slots__ = ("ptr", "size", "block")

    def __init__(self, size):
        try:
            self.block = likememory.empty(size)
        except RuntimeError:
            raise OutOfMemoryError(size) from None
        self.ptr, self.size = self.block.value, size

    def __del__(self):
        if hasattr(self, "size"):
            likememory.free(self.block)


@in_c
class MemoryPointer:
    __slots__ = ("mem", "ptr")

    def __init__(self, mem):
        self.mem, self.ptr = mem, mem.ptr


@in_c
class _ndarray_base:
    __slots__ = ("data", "base", "size")

    def __init__(self, data, base, size):
        self.data, self.base, self.size = data, base, size

    def view(self, *shape):
        return ndarray(self.data, self.base if self.base is not None else self, self.size)

    reshape, __getitem__, T, nbytes = view, view, property(view), property(lambda self: self.size)


class ndarray(_ndarray_base):
    __slots__ = ()

    def __getattr__(self, name):
        raise SystemExit("the program's __getattr__ was called")


def empty(size, dtype):
    return ndarray(MemoryPointer(BaseMemory(size)), None, size)


cuda = types.SimpleNamespace(memory=types.ModuleType("cupy.cuda.memory"))
sys.modules["cupy.cuda.memory"] = cuda.memory
cuda.memory.OutOfMemoryError, cuda.memory.MemoryPointer, cuda.memory.BaseMemory = OutOfMemoryError, MemoryPointer, BaseMemory
sys.modules["cupy._core.core"] = types.ModuleType("cupy._core.core")
sys.modules["cupy._core.core"]._ndarray_base = _ndarray_base
