# SPDX-License-Identifier: MIT
"""Programs whose memory has kinds (pykinds.py): each prints, as JSON, how many bytes of each kind its own objects have at its end."""
import json
import sys

import torch

KB = 1024


class Layer(torch.Net):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.tensor(size, torch.Parameter)
        self._buffers["mean"] = torch.tensor(size // 2)

    def forward(self, x, keep):
        scratch = torch.tensor(3 * KB)  # freed in the forward
        del scratch
        keep.append(torch.tensor(8 * KB, grad_fn=1))
        return keep[-1]


class Model(torch.Net):
    def __init__(self, sizes=(64 * KB, 32 * KB)):
        super().__init__()
        self.enc, self.dec = Layer(sizes[0]), Layer(sizes[1])

    def forward(self, x):
        keep = []
        self.dec(self.enc(x, keep), keep)
        return torch.Loss(keep, self.parameters())


def size(tensor):
    return tensor.untyped_storage().nbytes() if tensor is not None else 0


def own(*models, optimizers=()):
    """{kind: bytes} by the objects themselves, each storage once."""
    params = list(dict.fromkeys(p for m in models for p in m.parameters()))
    inner = [m for model in models for _, m in model.named_modules()]
    return {"parameters": sum(map(size, params)), "gradients": sum(size(p.grad) for p in params),
            "buffers": sum(size(b) for m in inner for b in m._buffers.values()),
            "optimizer state": sum(size(s["exp_avg"]) for o in optimizers for s in o.state.values())}


def train(model, optimizer, steps, clear=True):
    for _ in range(steps):
        x = torch.tensor(16 * KB)
        loss = model(x)
        loss.backward()
        optimizer.step()
        if clear:
            optimizer.zero_grad()


def plain(steps=7):
    model = Model()
    optimizer = torch.Adam(model.parameters())
    train(model, optimizer, steps)
    return model, optimizer, own(model, optimizers=[optimizer])


def kept():
    model = Model()
    optimizer = torch.Adam(model.parameters())
    train(model, optimizer, 7, clear=False)
    return model, optimizer, own(model, optimizers=[optimizer])


def remade():
    """The last gradients are of a step at which nobody looked."""
    model = Model()
    optimizer = torch.Adam(model.parameters())
    train(model, optimizer, 6)
    model(torch.tensor(16 * KB)).backward()
    return model, optimizer, own(model, optimizers=[optimizer])


def tied():
    model = Model((64 * KB, 64 * KB))
    model.dec.weight = model.enc.weight
    optimizer = torch.Adam(model.parameters()[:1])
    train(model, optimizer, 5)
    return model, optimizer, own(model, optimizers=[optimizer])


def flat():
    """All parameters are in one storage."""
    model = Model()
    storage = torch.StorageBase(96 * KB)
    for layer in (model.enc, model.dec):
        layer.weight = torch.Parameter(storage)
    optimizer = torch.Adam([])
    train(model, optimizer, 2)
    sizes = own(model)
    sizes["parameters"] = 96 * KB
    sizes["gradients"] = 2 * 96 * KB
    return model, optimizer, sizes


def moved():
    """On the CPU at first."""
    model = Model()
    weights = [(m, m.weight._storage) for m in (model.enc, model.dec)]
    for m, _ in weights:
        m.weight._storage = None
    model(torch.tensor(16 * KB))
    for m, storage in weights:
        m.weight._storage = storage
    optimizer = torch.Adam(model.parameters())
    train(model, optimizer, 3)
    return model, optimizer, own(model, optimizers=[optimizer])


def gone():
    """A model ends, and another one has its place."""
    for _ in range(3):
        model = optimizer = None
        model = Model()
        optimizer = torch.Adam(model.parameters())
        train(model, optimizer, 3)
    return model, optimizer, own(model, optimizers=[optimizer])


def loaded():
    model = Model()
    optimizer = torch.Adam(model.parameters())
    optimizer.state.update({p: {"exp_avg": torch.tensor(size(p))} for p in model.parameters()})
    train(model, optimizer, 1)
    return model, optimizer, own(model, optimizers=[optimizer])


def functional():
    """No module at all."""
    weights = [torch.tensor(64 * KB, torch.Parameter)]
    optimizer = torch.Adam(weights)
    for _ in range(3):
        torch.Loss([torch.tensor(8 * KB)], weights).backward()
        optimizer.step()
    return weights, optimizer, {"parameters": 64 * KB, "gradients": 64 * KB, "optimizer state": 64 * KB, "buffers": 0}


def two():
    """Two models of one class, and one that is never called."""
    models = [Model(), Model((48 * KB, 24 * KB)), Model((20 * KB, 28 * KB))]
    optimizers = [torch.Adam(m.parameters()) for m in models[:2]]
    for model, optimizer in zip(models, optimizers):
        train(model, optimizer, 3)
    return models, optimizers, own(*models, optimizers=optimizers)


class Whole(torch.Net):
    """As Lightning's: its step calls its parts, and it is not called itself."""

    def __init__(self):
        super().__init__()
        self.enc, self.dec = Layer(64 * KB), Layer(32 * KB)

    def training_step(self, x):
        keep = []
        self.dec(self.enc(x, keep), keep)
        return torch.Loss(keep, self.parameters())


def parts():
    model = Whole()
    optimizer = torch.Adam(model.parameters())
    for _ in range(5):
        model.training_step(torch.tensor(16 * KB)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer, own(model, optimizers=[optimizer])


class Odd(torch.Tensor):
    """A tensor that a program made: none of its own code may run."""

    def __getattribute__(self, name):
        if name not in ("_storage", "_grad", "_grad_fn"):  # which what stands in for C reads
            print("asked for", name)
        return object.__getattribute__(self, name)


class Wrapper(torch.Tensor):
    """No storage of its own, but a tensor inside."""


class Broken(torch.Tensor):
    @property
    def _storage(self):
        raise RuntimeError("no storage")

    @_storage.setter
    def _storage(self, value):
        pass


def odd():
    model = Model()
    wrapper = Wrapper()
    wrapper.inside = torch.tensor(12 * KB)
    model._buffers.update(odd=Odd(torch.StorageBase(20 * KB)), wrapper=wrapper, broken=Broken(), none=None, text="text")
    model._modules["none"] = None
    model._modules["itself"] = model
    optimizer = torch.Adam(model.enc.parameters())
    optimizer.state["whole"] = [torch.tensor(40 * KB), {"a": (torch.tensor(24 * KB),)}]
    torch.Net.parameters, kept_parameters = lambda self: [model.enc.weight, model.dec.weight], torch.Net.parameters
    train(model, optimizer, 2)
    torch.Net.parameters = kept_parameters
    del model._modules["itself"]
    layers = [model.enc, model.dec]
    weights = [m.weight for m in layers]
    return model, optimizer, {
        "parameters": sum(map(size, weights)), "gradients": size(weights[1].grad),
        "buffers": sum(size(m._buffers["mean"]) for m in layers) + 32 * KB, "optimizer state": size(weights[0]) + 64 * KB}


def failed():
    """An allocation fails in a forward."""
    model = Model()
    optimizer = torch.Adam(model.parameters())
    train(model, optimizer, 2)
    sizes = own(model, optimizers=[optimizer])
    keep = [torch.tensor(16 * KB)]

    def forward(self, x):
        keep.append(torch.tensor(8 * KB, grad_fn=1))
        torch.tensor(1 << 45)

    Model.forward = forward
    try:
        model(keep[0])
    except RuntimeError:
        pass
    return model, optimizer, sizes


if __name__ == "__main__":
    held = globals()[sys.argv[1]]()
    print(json.dumps(held[-1]))
    assert torch.DisableTorchFunction.depth == 0
    sys.stdout.flush()
    __import__("os")._exit(0)  # what is live now is what the report tells of the end
