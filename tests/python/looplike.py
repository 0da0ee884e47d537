# SPDX-License-Identifier: MIT
"""A training loop that says nothing. Each kind of block has a size of its own.

    looplike.py [plain|closure|gan|fails|checkpoint|inference]
"""
import sys

import torch

MB = 1 << 20
WEIGHTS, BATCH, LAYER, LOSS, GRADIENT, STATE, EVAL, OTHER = (n * MB for n in (32, 1, 2, 3, 4, 5, 6, 7))
KIND = sys.argv[1] if len(sys.argv) > 1 else "plain"


class Layer(torch.nn.Module):
    def forward(self, x):
        if KIND == "fails" and x == "bad":
            raise ValueError("a bad batch")
        return [torch.empty(LAYER if self.training else EVAL)]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(), Layer()
        self.second.norm = Layer()

    def forward(self, x):
        return self.first(x) + self.second(x) + self.second.norm(x)


class Loss(torch.Tensor):
    def __init__(self, saved):
        self.saved = saved + [torch.empty(LOSS)]

    def compute_gradients(self):
        if KIND == "checkpoint":
            self.saved += model(None)
        made = [torch.empty(GRADIENT)]
        drop(self.saved + made)


def drop(blocks):
    while blocks:
        torch.free(blocks.pop())


def batches():
    for name in ("good", "bad", "good"):
        block = torch.empty(BATCH)
        yield name
        torch.free(block)


def loss_of(x):
    loss = Loss(model(x))
    loss.backward()
    return loss


model = Model()
weights = torch.empty(WEIGHTS)
optimizer = torch.optim.SGD(lambda: drop([torch.empty(STATE)]))
if KIND == "inference":
    with torch.no_grad():
        for x in torch.utils.data.DataLoader(batches()):
            drop(model(x))
elif KIND == "closure":
    for x in torch.utils.data.DataLoader(batches()):
        optimizer.step(lambda: loss_of(x))
elif KIND == "gan":
    other = torch.optim.SGD(lambda: drop([torch.empty(OTHER)]))
    for x in torch.utils.data.DataLoader(batches()):
        loss_of(x)
        optimizer.step()
        loss_of(x)
        other.step()
else:
    for x in torch.utils.data.DataLoader(batches()):
        try:
            loss_of(x)
        except ValueError:
            continue
        optimizer.step()
model.eval()
with torch.no_grad():
    drop(model("good"))
hooked = [name for name, module in model.named_modules() if module._forward_hooks or module._forward_pre_hooks]
print("hooked", hooked)
