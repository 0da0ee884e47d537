# SPDX-License-Identifier: MIT
"""modules_program.py CASE: programs whose modules are anchors by name (pymodules.py). Each leaf of a model allocates a size of its own in
its call; the program prints, as JSON, how many bytes each of its modules has asked for by its own names."""
import gc
import json
import sys

import torch

KB = 1024
SIZES = {}  # name ─► bytes of all its calls


class Leaf(torch.Net):
    """The name is what a person would call it; kedge is told nothing of it."""

    def __init__(self, name, size):
        super().__init__()
        self.known, self.size = name, size
        self._buffers["mean"] = torch.tensor(KB)

    def forward(self, x):
        torch.tensor(self.size)
        SIZES[self.known] = SIZES.get(self.known, 0) + self.size
        return x


class Loss(torch.Net):
    """Without parameters, buffers and modules."""

    def __init__(self, name, size=5 * KB):
        super().__init__()
        self.known, self.size = name, size

    forward = Leaf.forward


class Sequential(torch.Net):
    def __init__(self, *leaves):
        super().__init__()
        self._modules.update((str(i), leaf) for i, leaf in enumerate(leaves))

    def forward(self, x):
        for leaf in self._modules.values():
            x = leaf(x)
        return x


class Critic(Sequential):
    pass


def sequential(prefix, size, of=Sequential):
    return of(*(Leaf(f"{prefix}{i}", (size + i) * KB) for i in range(3)))


def step(optimizer, work, closure=False):
    """As Lightning does with `closure`: the optimizer gets the forward and the backward pass."""
    if closure:
        optimizer.step(work)
    else:
        work()
        optimizer.step()


def back(parameters):
    torch.Loss([torch.tensor(KB)], parameters).backward()


class LightningModule(torch.Net):
    """Its step calls its parts; nothing calls it."""

    def __init__(self):
        super().__init__()
        self.enc, self.dec = sequential("enc/", 10), sequential("dec/", 20)
        self.loss = Loss("loss")

    def training_step(self, x):
        self.loss(self.dec(self.enc(x)))


def lightning():
    whole = LightningModule()
    weight = [torch.tensor(KB, torch.Parameter)]
    optimizer = torch.Adam(weight)

    def closure():
        whole.training_step(1)
        back(weight)

    for _ in range(3):
        step(optimizer, closure, closure=True)


def models():
    """Two models of one class, one of another class, a loss that stays beside one that is made for each call."""
    first, second, third = sequential("", 10), sequential("Sequential#2/", 20), sequential("Critic/", 30, Critic)
    kept = Loss("Loss", 6 * KB)
    weight = [torch.tensor(KB, torch.Parameter)]
    optimizer = torch.Adam(weight)

    def work():
        kept(third(second(first(1))))
        Loss("Loss#2")(1)
        back(weight)

    for _ in range(3):
        step(optimizer, work)


def folds():
    """A model that has ended leaves its name."""
    for _ in range(3):
        model = sequential("", 10)
        optimizer = torch.Adam([torch.tensor(KB, torch.Parameter)])
        for _ in range(2):
            step(optimizer, lambda: (model(1), back(optimizer.param_groups[0]["params"])))  # noqa: B023
        del model, optimizer
        gc.collect()


class Loose(torch.Net):
    """Modules that no module has: in a list of Python's, and made in the call."""

    def __init__(self):
        super().__init__()
        self.many = [Leaf("Leaf", 10 * KB), Leaf("Leaf#2", 11 * KB)]
        self.inner = Leaf("inner", 12 * KB)

    def forward(self, x):
        for leaf in self.many:
            x = leaf(x)
        return Loss("Loss", 13 * KB)(self.inner(x))


def loose():
    model = Loose()
    weight = [torch.tensor(KB, torch.Parameter)]
    optimizer = torch.Adam(weight)
    for _ in range(3):
        step(optimizer, lambda: (model(1), back(weight)))


def renamed():
    """A module changes its place, and another one takes it."""
    leaves = [Leaf("0", 10 * KB), Leaf("1", 11 * KB)]
    model = Sequential(*leaves)
    weight = [torch.tensor(KB, torch.Parameter)]
    optimizer = torch.Adam(weight)
    for turn in range(4):
        for i, leaf in enumerate(leaves[::-1] if turn % 2 else leaves):
            leaf.known = str(i)
            model._modules[str(i)] = leaf
        step(optimizer, lambda: (model(1), back(weight)))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(json.dumps(SIZES))
