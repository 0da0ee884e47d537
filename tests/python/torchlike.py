# SPDX-License-Identifier: MIT
"""PyTorch's public hooks with nothing behind them: the names, the order and the conditions that the real ones have.
Memory is likememory.py's.
"""
import collections
import sys
import threading
import types

from likememory import empty, free  # noqa: F401

# ---- hooks


class RemovableHandle:
    count = 0

    def __init__(self, hook, hooks, always=None):
        self.dicts = [hooks] if always is None else [hooks, always]
        self.id = RemovableHandle.count
        RemovableHandle.count += 1
        hooks[self.id] = hook
        if always is not None:
            always[self.id] = True

    def remove(self):
        for hooks in self.dicts:
            hooks.pop(self.id, None)


# ---- torch.optim.optimizer

_step_pre, _step_post = collections.OrderedDict(), collections.OrderedDict()


class Optimizer:
    def __init__(self, update):
        self.update = update

    def step(self, closure=None):
        for hook in [*_step_pre.values()]:
            hook(self, (closure,), {})
        loss = closure() if closure else None
        self.update()
        for hook in [*_step_post.values()]:
            hook(self, (closure,), {})
        return loss


# ---- torch.nn.modules.module

_forward_pre, _forward, _forward_always = (collections.OrderedDict() for _ in range(3))


class Module:
    slow = 0  # calls that did not take the short way

    def __init__(self):
        self.training = True
        self._modules = {}
        self._forward_hooks = collections.OrderedDict()
        self._forward_hooks_always_called = collections.OrderedDict()

    def __setattr__(self, name, value):
        if isinstance(value, Module):
            self._modules[name] = value
        object.__setattr__(self, name, value)

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, inner in self._modules.items():
            yield from inner.named_modules(prefix + "." + name if prefix else name)

    def register_forward_hook(self, hook, *, always_call=False):
        return RemovableHandle(hook, self._forward_hooks, self._forward_hooks_always_called if always_call else None)

    def __call__(self, *args):
        if not (self._forward_hooks or _forward or _forward_pre):
            return self.forward(*args)
        Module.slow += 1
        called = set()
        result = None
        try:
            for hook in (*_forward_pre.values(),):
                hook(self, args)
            result = self.forward(*args)
            for number, hook in (*_forward.items(), *self._forward_hooks.items()):
                called.add(number)
                hook(self, args, result)
            return result
        except Exception:
            for number, hook in _forward.items():
                if number in _forward_always and number not in called:
                    hook(self, args, result)
            for number, hook in self._forward_hooks.items():  # in which none may be taken away meanwhile
                if number in self._forward_hooks_always_called and number not in called:
                    hook(self, args, result)
            raise


# ---- torch.autograd

_grad = True


def is_grad_enabled():
    return _grad


class no_grad:
    def __enter__(self):
        global _grad
        _grad = False

    def __exit__(self, *_):
        global _grad
        _grad = True


class Tensor:
    def backward(self):
        autograd.backward(self)


def backward(tensor):
    """As on a GPU: the work is done by another thread."""
    failures = []

    def work():
        try:
            tensor.compute_gradients()
        except Exception as error:
            failures.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    if failures:
        raise failures[0]


# ---- torch.utils.data.dataloader


class _BaseDataLoaderIter:
    def __init__(self, loader):
        self.batches = iter(loader.dataset)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.batches)


class DataLoader:
    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return _BaseDataLoaderIter(self)


# ---- the modules that these are in


def module(name, **members):
    made = types.ModuleType("torch." + name)
    vars(made).update(members)
    sys.modules[made.__name__] = made
    return made


compiler = module("compiler", tracing=False, is_compiling=lambda: compiler.tracing)
autograd = module("autograd", backward=backward)
del backward
optim = module("optim", Optimizer=Optimizer, optimizer=module(
    "optim.optimizer", Optimizer=Optimizer,
    register_optimizer_step_pre_hook=lambda hook: RemovableHandle(hook, _step_pre),
    register_optimizer_step_post_hook=lambda hook: RemovableHandle(hook, _step_post)))
nn = module("nn", Module=Module, modules=module("nn.modules", module=module(
    "nn.modules.module", Module=Module,
    register_module_forward_pre_hook=lambda hook: RemovableHandle(hook, _forward_pre),
    register_module_forward_hook=lambda hook, always_call=False: RemovableHandle(
        hook, _forward, _forward_always if always_call else None))))
utils = module("utils", data=module("utils.data", DataLoader=DataLoader, dataloader=module(
    "utils.data.dataloader", DataLoader=DataLoader, _BaseDataLoaderIter=_BaseDataLoaderIter)))
