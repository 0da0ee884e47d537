# SPDX-License-Identifier: MIT
"""A training loop whose objects have code where others have members. Prints which code ran, and what the objects remember.

    loopasked.py
"""
import functools
import sys
import types
import unittest.mock

import torch

MB = 1 << 20
told = []


class Layer(torch.nn.Module):
    def __getattribute__(self, name):
        return super().__getattribute__(name)

    def forward(self):
        torch.free(torch.empty(MB))


class Outer(Layer):
    def __init__(self):
        super().__init__()
        self.inner = Layer()

    def forward(self):
        self.inner()


class Compiled(torch.nn.Module):
    """As what torch.compile makes."""

    training = property(lambda self: self._modules["_orig_mod"].training, lambda self, value: None)

    def forward(self):
        self._modules["_orig_mod"]()


class Scripted(torch.nn.Module):
    """As what torch.jit.script makes; the member of C has the values."""

    def __init__(self):
        super().__init__()
        del self.training
        self._c = types.SimpleNamespace(getattr={"training": False}.__getitem__)

    def __getattr__(self, name):
        return self._c.getattr(name)

    def forward(self):
        torch.free(torch.empty(MB))


class Traced(torch.nn.Module):
    """As what torch.jit.trace makes of a scripted one."""

    def __init__(self, script):
        super().__init__()
        del self.training
        self.__dict__["_actual_script_module"] = script

    def __getattr__(self, name):
        return getattr(self._actual_script_module, name)

    def forward(self):
        torch.free(torch.empty(MB))


class Meta(type):
    def __getattribute__(cls, name):
        return super().__getattribute__(name)


class Odd(torch.optim.Optimizer, metaclass=Meta):
    step = functools.partialmethod(print)


def step(optimizer):
    outer()
    compiled()
    torch.Tensor.compute_gradients = lambda self: None
    torch.Tensor().backward()
    optimizer.step()


sys.modules["torch._C"] = parts = types.ModuleType("torch._C")
parts.ScriptModule = types.SimpleNamespace
outer, scripted, compiled = Outer(), Scripted(), Compiled()
compiled._modules["_orig_mod"] = Outer()
optimizer = torch.optim.SGD(lambda: None)
sys.setprofile(lambda frame, event, _: told.append(frame.f_code.co_name) if event == "call" else None)
step(optimizer)
with unittest.mock.patch.object(torch.optim.SGD, "step") as mock:
    step(optimizer)
    remembered = sorted(mock._mock_children)
for module in (outer, compiled._modules["_orig_mod"]):
    module.eval()
    module()
for module in (compiled, scripted, Traced(scripted)):
    module()
sys.setprofile(None)
print(remembered, " ".join(told))
