# SPDX-License-Identifier: MIT
"""What is a model's memory, in PaddlePaddle? Each model trains a few steps; then the script says how many bytes its own objects have, by
kind.

    paddle_kinds.py MODEL

The last line is JSON: {"parameters": bytes ...}, each tensor once. What is live then stays live to the end of the process."""
import gc
import json
import os
import sys

import paddle
from paddle import nn
from paddle.nn import functional as F

STEPS = 6
paddle.seed(0)


class Block(nn.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape([batch, length, 3, self.heads, dim // self.heads]).transpose([2, 0, 3, 1, 4])
        scores = F.softmax(q @ k.transpose([0, 1, 3, 2]) / dim**0.5)
        x = x + self.out((scores @ v).transpose([0, 2, 1, 3]).reshape([batch, length, dim]))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Layer):
    """With tied weights, a buffer, and its loss inside."""

    def __init__(self, vocab=600, dim=64, length=32):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        self.h = nn.LayerList([Block(dim, 4) for _ in range(3)])
        self.register_buffer("positions", paddle.arange(length))

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(self.positions)
        for block in self.h:
            x = block(x)
        logits = paddle.matmul(x, self.wte.weight, transpose_y=True)
        return F.cross_entropy(logits.reshape([-1, logits.shape[-1]]), targets.reshape([-1]))


class Net(nn.Sequential):
    def __init__(self, inside, outside):
        super().__init__(nn.Linear(inside, 256), nn.ReLU(), nn.Linear(256, outside))

    def forward(self, x):
        return super().forward(x).square().mean()


def size(tensors):
    """Bytes of the tensors in device memory, each once."""
    found = {t.data_ptr(): t.element_size() * t.size for t in tensors if t is not None and t.place.is_gpu_place()}
    return sum(found.values())


def tell(models, optimizers, more=()):
    params = [p for m in models for p in m.parameters()] + list(more)
    states = [optimizer.state_dict() for optimizer in optimizers]
    state = [t for of in states for found in (of, of.get("master_weights", {})) for t in found.values() if isinstance(t, paddle.Tensor)]
    buffers = [b for m in models for b in m.buffers()]
    print(json.dumps({"parameters": size(params), "gradients": size([p.grad for p in params]), "optimizer state": size(state),
                      "buffers": size(buffers)}))
    sys.stdout.flush()
    os._exit(0)


def train(model, batch_of, optimizer, more=(), clear=True):
    for step in range(STEPS):
        model(*batch_of()).backward()
        optimizer.step()
        if step < STEPS - 1 and clear:
            optimizer.clear_grad()
    tell([model] if isinstance(model, nn.Layer) else [], [optimizer], more)


def tokens():
    return [paddle.randint(600, shape=[8, 32]) for _ in range(2)]


def rows():
    return [paddle.randn([64, 128])]


def adamw(model, **more):
    return paddle.optimizer.AdamW(1e-3, parameters=model.parameters(), **more)


def gpt():
    model = GPT()
    train(model, tokens, adamw(model))


def kept():
    """Gradients stay, and are added to."""
    model = Net(128, 16)
    train(model, rows, paddle.optimizer.Momentum(0.1, parameters=model.parameters()), clear=False)


def groups():
    """Two groups of parameters, of which one has a rate of its own."""
    model = Net(128, 16)
    train(model, rows, paddle.optimizer.Adam(1e-3, parameters=[
        {"params": model[0].parameters()}, {"params": model[2].parameters(), "learning_rate": 0.1}]))


def gan():
    """Two models of one class: the names must differ."""
    nets = [Net(128, 64), Net(128, 1)]
    optimizers = [adamw(net) for net in nets]
    for _ in range(STEPS):
        for net, optimizer in zip(nets, optimizers):
            net(*rows()).backward()
            optimizer.step()
            optimizer.clear_grad()
    tell(nets, optimizers)


def copied():
    """A copy that is never called."""
    model, copy = Net(128, 16), Net(128, 16)
    copy.set_state_dict(model.state_dict())
    optimizer = adamw(model)
    for _ in range(STEPS):
        model(*rows()).backward()
        optimizer.step()
        optimizer.clear_grad()
    tell([model, copy], [optimizer])


def loaded():
    """A state from a checkpoint, by the names that a new process has."""
    with paddle.utils.unique_name.guard():
        model = Net(128, 16)
        first = adamw(model)
        model(*rows()).backward()
        first.step()
        paddle.save(first.state_dict(), "state.pdopt")
    del model, first
    gc.collect()
    with paddle.utils.unique_name.guard():
        model = Net(128, 16)
        optimizer = adamw(model)
        optimizer.set_state_dict(paddle.load("state.pdopt"))
        train(model, rows, optimizer)


def functional():
    """No layer: weights are in the optimizer alone."""
    weights = [paddle.create_parameter([256, 256], "float32") for _ in range(3)]

    def model(x):
        for w in weights:
            x = paddle.tanh(x @ w)
        return x.mean()
    train(model, lambda: [paddle.randn([64, 256])], paddle.optimizer.Adam(1e-3, parameters=weights), more=weights)


def masters():
    """Parameters of lower precision, with copies of higher one in the optimizer."""
    model = Net(128, 16)
    model, optimizer = paddle.amp.decorate(model, adamw(model, multi_precision=True), level="O2", dtype="float16")
    for _ in range(STEPS):
        with paddle.amp.auto_cast(level="O2", dtype="float16"):
            loss = model(*rows())
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    tell([model], [optimizer])


MODELS = {"gpt": gpt, "kept": kept, "groups": groups, "gan": gan, "copied": copied, "loaded": loaded, "functional": functional, "masters": masters}

if __name__ == "__main__":
    MODELS[sys.argv[1]]()
