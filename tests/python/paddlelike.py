# SPDX-License-Identifier: MIT
"""What is hooked of PaddlePaddle with nothing behind it: the names and the order that the real ones have. Memory is likememory.py's."""
import functools
import os
import sys
import types

class Tracer:
    _has_grad = True


class State:
    _dygraph_tracer_ = Tracer()


global_var = State()


def in_dynamic_mode():
    return global_var._dygraph_tracer_ is not None


def enable_static():
    global_var._dygraph_tracer_ = None


def dygraph_only(func):
    @functools.wraps(func)
    def checked(*args, **kwargs):
        return func(*args, **kwargs)

    return checked


class no_grad:
    def __enter__(self):
        Tracer._has_grad = False

    def __exit__(self, *_):
        Tracer._has_grad = True

    def __call__(self, func):
        @functools.wraps(func)
        def without(*args, **kwargs):
            with self:
                return func(*args, **kwargs)

        return without


class Layer:
    def __init__(self):
        self.training = True

    def __call__(self, *inputs):
        return self.forward(*inputs)


class StaticFunction:
    """What to_static makes. `traced`: the functions that were called inside, which a tracer would have to understand."""

    traced = set()

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        def note(frame, event, arg):
            if event == "call":
                self.traced.add((os.path.basename(frame.f_code.co_filename), frame.f_code.co_name))

        sys.setprofile(note)
        try:
            return self.function(*args)
        finally:
            sys.setprofile(None)


class Optimizer:
    def __init__(self, update):
        self.update = update

    @dygraph_only
    def step(self):
        self.update()

    @no_grad()
    def minimize(self, loss):
        """Eager, it steps; of a static graph it makes a part."""
        self.update()


class AdamW(Optimizer):
    @dygraph_only
    def step(self):
        self.update()


class Mine(AdamW):
    """Has no step of its own."""


class Tensor:
    @dygraph_only
    def backward(self):
        self.compute_gradients()


@dygraph_only
def backward(tensors):
    for tensor in tensors:
        tensor.backward()


class _DataLoaderIterBase:
    def __init__(self, loader):
        self.batches = iter(loader.dataset)

    def __iter__(self):
        return self


class _DataLoaderIterSingleProcess(_DataLoaderIterBase):
    def __next__(self):
        return next(self.batches)


class DataLoader:
    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return _DataLoaderIterSingleProcess(self)


def module(name, **members):
    made = types.ModuleType("paddle." + name)
    vars(made).update(members)
    sys.modules[made.__name__] = made
    return made


module("base.framework", global_var=global_var)
autograd = module("autograd", backward=backward)
del backward
nn = module("nn", Layer=Layer)
optimizer = module("optimizer", Optimizer=Optimizer, AdamW=AdamW, Mine=Mine)
jit = module("jit", to_static=StaticFunction)
module("jit.dy2static.program_translator", StaticFunction=StaticFunction)
io = module("io", DataLoader=DataLoader)
module("io.dataloader.dataloader_iter", _DataLoaderIterBase=_DataLoaderIterBase)

# as a framework does, it imports more after that
from likememory import empty, free  # noqa: F401,E402
