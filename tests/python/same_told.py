# SPDX-License-Identifier: MIT
"""What a program can see of its own training, printed, and faults in each of its steps (same_program.py, same_trainers.py)."""
import copy
import functools
import gc
import hashlib
import inspect
import io
import os
import pathlib
import shutil
import signal
import sys
import traceback
import weakref

import torch

FAULTS = (None, "forward", "inner", "backward", "optimizer", "loader", "callback", "interrupt", "exit", "in except")
now = {"fault": None, "once": False}


class Fault(RuntimeError):
    pass


# ---- faults -------------------------------------------------------------------------------------


def fail(*steps):
    """Fails if one of these is to fail now."""
    fault = now["fault"]
    if fault not in steps:
        return
    if fault == "interrupt":
        signal.raise_signal(signal.SIGINT)
    if fault == "exit":
        raise SystemExit(3)
    raise Fault(fault)


class HurtGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        fail("backward")
        return gradient


class HurtOptimizer(torch.optim.AdamW):
    def step(self, closure=None):
        fail("optimizer")
        return super().step(closure)


class Rows(torch.utils.data.Dataset):
    def __init__(self, count, row):
        self.count, self.row = count, row

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        fail("loader")
        return self.row(i)


def hurt(module, *steps):
    """The module fails in these steps; one that is to fail in its backward returns a tensor."""
    kind = type(module)

    @functools.wraps(kind.forward)
    def forward(self, *args, **named):
        fail(*steps)
        result = kind.forward(self, *args, **named)
        return HurtGradient.apply(result) if "backward" in steps else result

    name = f"Hurt{kind.__name__}"
    module.__class__ = globals()[name] = type(name, (kind,), {"forward": forward, "__module__": __name__, "__qualname__": name})
    return module


# ---- what is told -------------------------------------------------------------------------------


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def saved(what):
    buffer = io.BytesIO()
    try:
        torch.save(what, buffer)
    except Exception as error:  # told the same way with and without
        return f"{type(error).__name__} {str(error)[:80]}"
    return digest(buffer.getvalue())


def told(value, deep=0):
    """A value without its address."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu()
        return f"{value.device} {value.dtype} {digest((plain.float() if plain.dtype == torch.bfloat16 else plain).numpy().tobytes())}"
    if isinstance(value, dict) and deep < 3:
        return {str(told(key, 3)): told(item, deep + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)) and deep < 3:
        return [told(item, deep + 1) for item in value]
    return repr(value) if isinstance(value, (int, float, str, bool, type(None))) else type(value).__qualname__


def tell(title, model, optimizer=None):
    gc.collect()  # when the collector runs by itself depends on how many objects there were
    print(title, saved(model), saved(model.state_dict()), saved(optimizer.state_dict() if optimizer else None))
    for name, module in model.named_modules():
        print("  module", name, type(module).__qualname__, told(vars(module)), weakref.getweakrefcount(module), sys.getrefcount(module))
    print("  tensors", [told([tensor._backward_hooks, tensor._post_accumulate_grad_hooks]) for tensor in (*model.parameters(), *model.buffers())])
    if optimizer:
        print("  optimizer", told(vars(optimizer)), weakref.getweakrefcount(optimizer), sys.getrefcount(optimizer))


def tell_files(folder):
    """What a trainer has saved; it is removed."""
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file():
            print("  file", path, digest(path.read_bytes()))
    shutil.rmtree(folder, ignore_errors=True)


def tell_framework():
    """What a framework, a compiler or another tool asks of PyTorch."""
    parts = sys.modules["torch.nn.modules.module"]
    print("global", {name: len(value) for name, value in vars(parts).items() if name.startswith("_global") and hasattr(value, "__len__")},
          {name: len(value) for name, value in vars(sys.modules["torch.optim.optimizer"]).items() if name.startswith("_global")},
          "handles", torch.utils.hooks.RemovableHandle.next_id)
    for function in (torch.nn.Module.__call__, torch.nn.Module._call_impl, torch.optim.AdamW.step, torch.optim.Optimizer.zero_grad,
                     torch.autograd.backward, torch.autograd.grad, torch.Tensor.backward, torch.amp.GradScaler.step,
                     torch.utils.data.dataloader._BaseDataLoaderIter.__next__):
        print("function", function.__qualname__, function.__module__, inspect.signature(function), sorted(vars(function)),
              digest(function.__code__.co_code), hasattr(function, "__wrapped__"))
    print("path", sys.path, [type(finder).__name__ for finder in sys.meta_path],
          sorted(name for name in sys.modules if "kedge" in name or "customize" in name))
    print("environment", {key: value for key, value in os.environ.items() if key.startswith("PYTHON") and key != "PYTHONUNBUFFERED"})


# ---- a training in each fault -------------------------------------------------------------------


def attempt(work):
    try:
        work()
    except BaseException as error:
        text = traceback.format_exc()
        print("  caught", type(error).__name__, error, digest(text.encode()), text.count("\n"))


def train_in_each_fault(model, optimizer, train):
    """Each fault, then the same training without it; or one training without a fault."""
    tell("before", model, optimizer)
    if now["once"]:
        train()
        tell("after", model, optimizer)
        return
    for fault in FAULTS:
        for now["fault"] in (fault, None):
            if now["fault"] == "in except":
                try:
                    raise Fault("around")
                except Fault:
                    attempt(train)
                    attempt(lambda: tell("inside", copy.deepcopy(model)))
            else:
                attempt(train)
            tell(f"after {now['fault']}", model, optimizer)
    now["fault"] = None
