# SPDX-License-Identifier: MIT
"""What kedge asks of PaddlePaddle's tensors, with nothing behind it: address, shape and size of an element. As those of a class in C they
are members of the class, and no object but the tensor shows its memory. Memory is likememory.py's; it loads what PaddlePaddle does."""
# pylint: disable=unused-import
import collections  # noqa: F401
import contextlib  # noqa: F401
import gc  # noqa: F401
import operator  # noqa: F401
import os
import sys
import threading  # noqa: F401
import types

import likememory

SIZES = {"uint8": 1, "float32": 4}


class Memory:
    __slots__ = ("block",)

    def __init__(self, size):
        try:
            self.block = likememory.empty(size)
        except RuntimeError:
            raise MemoryError("out of memory on the device") from None

    def __del__(self):
        if hasattr(self, "block"):
            likememory.free(self.block)


class Tensor:
    __slots__ = ("_at", "_shape", "_element", "__weakref__")
    kept = {}  # which the walk does not go through: id ─► memory

    def __init__(self, memory, at, shape, element):
        self._at, self._shape, self._element = at, shape, element
        Tensor.kept[id(self)] = memory

    def __del__(self):
        Tensor.kept.pop(id(self), None)

    def data_ptr(self):
        return self._at

    shape = property(lambda self: list(self._shape))

    def element_size(self):
        if self._at is None:
            os._exit(11)  # PaddlePaddle follows a null pointer
        return self._element

    def __getitem__(self, part):
        return Tensor(Tensor.kept[id(self)], self._at + part.start * self._element, [self._shape[0] - part.start], self._element)


def bare(*_):
    """A tensor with nothing behind it."""
    return Tensor(None, None, [], None)


def empty(shape, dtype):
    size = SIZES[dtype]
    for length in shape:
        size *= length
    memory = Memory(size)
    return Tensor(memory, memory.block.value, shape, SIZES[dtype])


class Layer:
    def __init__(self):
        self._parameters, self._buffers, self._sub_layers = (collections.OrderedDict() for _ in range(3))

    def __setattr__(self, name, value):
        if isinstance(value, Layer):
            self._sub_layers[name] = value
        else:
            object.__setattr__(self, name, value)

    def register_buffer(self, name, value):
        self._buffers[name] = value


class Linear(Layer):
    def __init__(self, rows, columns, bias_attr):
        super().__init__()
        self._parameters["weight"] = empty([rows, columns], "float32")


base = types.SimpleNamespace(core=types.SimpleNamespace(
    eager=types.SimpleNamespace(Tensor=bare), VarDesc=types.SimpleNamespace(VarType=types.SimpleNamespace(FP32=5, STEP_SCOPES=11))))
nn, optimizer = types.SimpleNamespace(Layer=Layer, Linear=Linear), types.ModuleType("paddle.optimizer")
optimizer.Optimizer = type("Optimizer", (), {})
sys.modules["paddle.optimizer"] = optimizer
sys.modules["paddle.base.libpaddle"] = types.ModuleType("paddle.base.libpaddle")
