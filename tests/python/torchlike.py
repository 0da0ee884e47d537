# SPDX-License-Identifier: MIT
"""What kedge watches of PyTorch with nothing behind it: the names, and who calls what in which way, as the real one has them.
Memory is likememory.py's.
"""
import collections
import ctypes
import functools
import sys
import threading
import types

# ---- torch.optim.optimizer


class Optimizer:
    def __init__(self, update):
        self.update = update
        self._patch_step_function()

    def _patch_step_function(self):
        if not getattr(self.__class__.step, "hooked", None):
            self.__class__.step = self.profile_hook_step(self.__class__.step)
            self.__class__.step.hooked = True

    @staticmethod
    def profile_hook_step(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            return func(*args, **kwargs)

        return wrapper

    def step(self, closure=None):
        raise NotImplementedError


class SGD(Optimizer):
    def step(self, closure=None):
        loss = closure() if closure else None
        self.update()
        return loss


# ---- torch.nn.modules.module


class Module:
    def __init__(self):
        self.training = True
        self._modules = {}
        self._forward_hooks = collections.OrderedDict()
        self._forward_pre_hooks = collections.OrderedDict()

    def __setattr__(self, name, value):
        if isinstance(value, Module):
            self._modules[name] = value
        object.__setattr__(self, name, value)

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, inner in self._modules.items():
            yield from inner.named_modules(prefix + "." + name if prefix else name)

    def eval(self):
        for _, module in self.named_modules():
            module.training = False

    def _call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)

    __call__ = _wrapped_call_impl


# ---- torch.autograd

_grad = {True}
is_grad_enabled = _grad.copy  # a function of C's; the empty set is false


class no_grad:
    def __enter__(self):
        _grad.clear()

    def __exit__(self, *_):
        _grad.add(True)


class Tensor:
    def backward(self):
        autograd.backward(self)


def run_backward(tensor):
    """As on a GPU: the work is done by another thread."""
    failures = []

    def work():
        try:
            tensor.compute_gradients()
        except BaseException as error:  # as the engine gives it to the thread that waits
            failures.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    if failures:
        raise failures[0]


class _ImperativeEngine:
    """Gets its method from C (below)."""


class MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
def c_run_backward(engine, args, keywords):
    # an exception in a callback is printed and lost, so it waits for _engine_run_backward
    try:
        run_backward(*args)
    except BaseException as error:
        return error
    return None


method_def = MethodDef(b"run_backward", ctypes.cast(c_run_backward, ctypes.c_void_p).value, 3, None)
new_method = ctypes.pythonapi.PyDescr_NewMethod
new_method.restype, new_method.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
_ImperativeEngine.run_backward = new_method(_ImperativeEngine, ctypes.addressof(method_def))


class Variable:
    _execution_engine = _ImperativeEngine()


def _engine_run_backward(tensors, *args, **kwargs):
    failure = Variable._execution_engine.run_backward(tensors, *args, **kwargs)
    if failure is not None:
        raise failure


def backward(tensor):
    _engine_run_backward(tensor, accumulate_grad=True)


def grad(tensor):
    _engine_run_backward(tensor, accumulate_grad=False)


# ---- torch.amp.grad_scaler


class GradScaler:
    """Skips an optimizer's step where the program says so."""

    overflows = False

    def _maybe_opt_step(self, optimizer, state, *args, **kwargs):
        return None if self.overflows else optimizer.step(*args, **kwargs)

    def step(self, optimizer, *args, **kwargs):
        return self._maybe_opt_step(optimizer, {}, *args, **kwargs)


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


autograd = module("autograd", backward=backward, grad=grad, Variable=Variable)
del backward, grad
amp = module("amp", GradScaler=GradScaler, grad_scaler=module("amp.grad_scaler", GradScaler=GradScaler))
optim = module("optim", Optimizer=Optimizer, SGD=SGD, optimizer=module("optim.optimizer", Optimizer=Optimizer))
nn = module("nn", Module=Module, modules=module("nn.modules", module=module("nn.modules.module", Module=Module)))
utils = module("utils", data=module("utils.data", DataLoader=DataLoader, dataloader=module(
    "utils.data.dataloader", DataLoader=DataLoader, _BaseDataLoaderIter=_BaseDataLoaderIter)))

# as a framework does, it imports more after that
from likememory import empty, free  # noqa: F401,E402
