# SPDX-License-Identifier: MIT
"""torch_held.py FILE: holders of device memory, planted, while the program runs out of memory. FILE gets {name: [bytes, what has
to be told of its holders]}. Those that need no PyTorch are in tests/python/held_plants.py.

After the failure every graph runs backward: nobody has touched it."""
import copy
import functools
import gc
import json
import pathlib
import sys

import torch
import torch.utils.checkpoint
import torch.utils.dlpack
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import held_plants  # noqa: E402  pylint: disable=wrong-import-position
from held_plants import plant  # noqa: E402  pylint: disable=wrong-import-position

PLAIN = tuple(held_plants.EXPECT)
NOTED = {}
WIDE = 1024
DEVICE = {"device": "cuda"}


def size_of(name):
    """Bytes of rows of WIDE floats; no other plant has as many."""
    return NOTED.setdefault(name, 4 * WIDE * (256 + len(NOTED)))


def make(name):
    return torch.empty(size_of(name) // 4, **DEVICE)


def loss_of(x, weight):
    """A loss whose graph keeps x, and nothing else of its size."""
    return (x * weight).sum()


def weight():
    return nn.Parameter(torch.empty((), **DEVICE))


# ---- graphs -----------------------------------------------------------------------------------------------------------

@plant(r"^graph of LOSSES\[2\]$")
def list_of_losses(make, then):
    global LOSSES
    LOSSES = [torch.zeros((), **DEVICE), None, loss_of(make(), weight())]
    then()


@plant(r"^graph of TOTAL$")
def running_total(make, then):
    global TOTAL
    TOTAL = torch.zeros((), **DEVICE)
    TOTAL = TOTAL + loss_of(make(), weight())
    TOTAL = TOTAL + loss_of(torch.empty(4, **DEVICE), weight())
    then()


@plant(r"^graph of INNER AND graph of OUTER$")
def inner_tensor_and_loss(make, then):
    global INNER, OUTER
    INNER = (make() * weight())[:4]
    OUTER = (INNER.relu() * 2).sum()
    then()


@plant(r"^graph of STATE\['h'\]$")
def hidden_state_not_detached(make, then):
    global STATE, CELL
    CELL = nn.Linear(WIDE, 4, **DEVICE)
    STATE = {"h": torch.zeros((), **DEVICE)}
    for x in (make(), torch.empty(WIDE, **DEVICE)):
        STATE["h"] = STATE["h"] + CELL(x.view(-1, WIDE)).sum()
    del x
    then()


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, kept):
        ctx.mine = kept
        return a * 2

    @staticmethod
    def backward(ctx, grad):
        return grad, None


@plant(r"^graph of TWICE\b|^TWICE\b")
def context_of_a_function(make, then):
    global TWICE
    TWICE = Twice.apply(weight(), make()).sum()
    then()


class Saves(Twice):
    @staticmethod
    def forward(ctx, a, kept):
        ctx.save_for_backward(kept)
        return a * 2


@plant(r"^graph of SAVES$")
def saved_by_a_function(make, then):
    global SAVES
    SAVES = Saves.apply(weight(), make()).sum()
    then()


def unpack(packed):
    if NOTED.get("over"):
        return packed[1]
    raise SystemExit("an unpack hook of the program was called")


@plant(r"^graph of PACKED$")
def packed_by_hooks(make, then):
    global PACKED
    name = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: name.setdefault(id(t), ("packed", t.detach())), unpack):
        PACKED = loss_of(make(), weight())
    name.clear()
    then()


@plant(r"^graph of CHECKED$")
def checkpoint(make, then):
    global CHECKED
    w = weight()
    CHECKED = torch.utils.checkpoint.checkpoint(lambda x: loss_of(x, w), make().requires_grad_(), use_reentrant=False)
    then()


@plant(r"^graph of VIEWED\b|^VIEWED\b")
def view_of_a_result(make, then):
    global VIEWED
    VIEWED = loss_of(make(), weight()).view(1)[0]
    then()


# ---- hooks ------------------------------------------------------------------------------------------------------------

@plant(r"\bNET\._forward_hooks\[\d+\]\.closure\['seen'\]\['x'\]$")
def hook_of_a_module(make, then):
    global NET
    def tap():
        seen = {}
        def hook(module, inputs, output):
            seen["x"] = inputs[0].detach()
        return hook
    NET = nn.Identity()
    NET.register_forward_hook(tap())
    NET(make())
    then()


@plant(r"^LEAF\._backward_hooks\[\d+\]\.closure\['big'\]$")
def hook_of_a_tensor(make, then):
    global LEAF
    LEAF = nn.Parameter(torch.empty(3, **DEVICE))
    LEAF.register_hook((lambda big: lambda grad: grad * big.sum())(make()))
    then()


@plant(r"\.closure\['big'\], which a running call or C code holds$")
def hook_of_a_node(make, then):
    global HOOKED
    HOOKED = nn.Parameter(torch.empty(3, **DEVICE)) * 2
    HOOKED.grad_fn.register_hook((lambda big: lambda *grads: print(big.shape))(make()))
    then()


# ---- modules and optimizers --------------------------------------------------------------------------------------------

def linear(name):
    return nn.Linear(WIDE, size_of(name) // 4 // WIDE, bias=False, **DEVICE)


@plant(r"^parameter MODEL\[0\]\.weight$")
def parameters(make, then):
    global MODEL
    MODEL = nn.Sequential(linear("parameters"))
    then()


@plant(r"^parameter OLD\[0\]\[0\]\.weight$")
def copies_of_a_model(make, then):
    global OLD
    OLD = [nn.Sequential(linear("copies_of_a_model"))]
    then()


@plant(r"^parameters of TABLES\.tasks\['new'\] AND STEPPER$")
def parameters_of_an_entry(make, then):
    global TABLES, STEPPER
    TABLES = nn.Module()
    TABLES.tasks = nn.ModuleDict({"old": nn.Linear(4, 4, **DEVICE), "new": linear("parameters_of_an_entry")})
    STEPPER = torch.optim.SGD(TABLES.tasks["new"].parameters(), lr=1e-3)
    then()


@plant(r"^parameter TWIN\.weight AND TWINS\['again'\]\.weight$")
def module_in_two_places(make, then):
    global TWIN, TWINS
    TWIN = linear("module_in_two_places")
    TWINS = {"again": TWIN}
    then()


@plant(r"^buffer BUFFERED\.inner\.mask$")
def buffer(make, then):
    global BUFFERED
    BUFFERED = nn.Module()
    BUFFERED.inner = nn.Module()
    BUFFERED.inner.register_buffer("mask", make())
    then()


@plant(r"^gradient of GRADED\.w$")
def gradient(make, then):
    global GRADED
    GRADED = nn.Module()
    GRADED.w = nn.Parameter(torch.empty(size_of("gradient") // 4, **DEVICE))
    GRADED.w.grad = make()
    GRADED.w.data = torch.empty(0, **DEVICE)
    then()


@plant(r"^state of OPTIMIZER$")
def state_of_an_optimizer(make, then):
    global OPTIMIZER
    w = nn.Parameter(torch.empty(4, **DEVICE))
    OPTIMIZER = torch.optim.SGD([w], lr=1e-3)
    OPTIMIZER.state[w]["momentum_buffer"] = make()
    then()


@plant(r"^BEST\['weight'\]$")
def copy_of_a_state(make, then):
    global BEST
    BEST = copy.deepcopy(linear("copy_of_a_state").state_dict())
    then()


# ---- tensors -----------------------------------------------------------------------------------------------------------

@plant(r"^SLICE$")
def small_view(make, then):
    global SLICE
    SLICE = make()[:2]
    then()


@plant(r"^STORAGE$")
def storage_alone(make, then):
    global STORAGE
    STORAGE = make().untyped_storage()
    then()


@plant(r"^MARKED\.cache$")
def attribute_of_a_tensor(make, then):
    global MARKED
    MARKED = torch.empty(3, **DEVICE)
    MARKED.cache = make()
    then()


class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *args, **kwargs):
        raise SystemExit("the program's __torch_function__ was called")


@plant(r"^SUB$")
def subclass(make, then):
    global SUB
    with torch._C.DisableTorchFunctionSubclass():
        SUB = make().as_subclass(Sub)
    then()


@plant(r"^ARRAY\.flat\[1\]$")
def array_of_objects(make, then):
    import numpy
    global ARRAY
    ARRAY = numpy.empty(3, dtype=object)
    ARRAY[1] = make()
    then()


@plant(r"^LAZY\.(args\[0\]|keywords\['x'\])$")
def partial_of_a_function(make, then):
    global LAZY
    LAZY = functools.partial(torch.add, make())
    then()


@plant(r"^local 'batch' of from_a_loader \w+\.py:\d+$")
def from_a_loader(make, then):
    data = torch.utils.data.TensorDataset(torch.empty(1, size_of("from_a_loader") // 4))
    for (batch,) in torch.utils.data.DataLoader(data):
        batch = batch.to("cuda")
        then()


@plant(r"C\+\+|C code")
def future_of_pytorch(make, then):
    global FUTURE_OF_TORCH
    FUTURE_OF_TORCH = torch.futures.Future()
    FUTURE_OF_TORCH.set_result(make())
    then()


@plant(r"C\+\+|C code|nothing that Python shows|no Python object")
def dlpack_capsule(make, then):
    global CAPSULE
    CAPSULE = torch.utils.dlpack.to_dlpack(make())
    then()


@plant(r"C\+\+|C code|cycle|graph|nothing that Python shows")
def cycle_of_a_double_backward(make, then):
    w = nn.Parameter(make())
    (w * w).sum().backward(create_graph=True)
    del w
    then()


class Mode(torch.overrides.TorchFunctionMode):
    """As that of torch.set_default_device: functions of PyTorch call it."""

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        if function is torch.empty:
            return function(*args, **(kwargs or {}))
        raise SystemExit(f"a mode of the program was asked for {function}")


def fail():
    try:
        with Mode():
            torch.empty(1 << 40, dtype=torch.uint8, **DEVICE)
    except RuntimeError as error:  # OutOfMemoryError, or AcceleratorError without PyTorch's cache
        if type(error) is not torch.OutOfMemoryError and "out of memory" not in str(error):
            raise
        return
    raise SystemExit("there was room for everything")


if __name__ == "__main__":
    gc.disable()  # what only a cycle keeps has to be there
    held_plants.run(make, fail, tuple(held_plants.EXPECT))
    expect = {name: [NOTED[name], held_plants.EXPECT[name][1]] for name in held_plants.EXPECT}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(expect), encoding="utf-8")
    NOTED["over"] = True
    for loss in (LOSSES[2], TOTAL, OUTER, STATE["h"], TWICE, SAVES, PACKED, CHECKED, VIEWED):
        loss.backward()
    print(f"{len(expect)} plants, of which {len(PLAIN)} need no PyTorch")
