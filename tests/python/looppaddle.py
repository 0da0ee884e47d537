# SPDX-License-Identifier: MIT
"""looplike.py's loop with PaddlePaddle's names.

    looppaddle.py [plain|minimizes|fails|compiled|static]
"""
import sys

import paddle

MB = 1 << 20
WEIGHTS, BATCH, LAYER, LOSS, GRADIENT, STATE, EVAL = (n * MB for n in (32, 1, 2, 3, 4, 5, 6))
KIND = sys.argv[1] if len(sys.argv) > 1 else "plain"


class Block(paddle.nn.Layer):
    def forward(self, x):
        if KIND == "fails" and x == "bad":
            raise ValueError("a bad batch")
        return [paddle.empty(LAYER if self.training else EVAL)]


class Model(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.blocks = [Block(), Block(), Block()]

    def forward(self, x):
        return [block for layer in self.blocks for block in layer(x)]


class Loss(paddle.Tensor):
    def __init__(self, saved):
        self.saved = saved + [paddle.empty(LOSS)]

    def compute_gradients(self):
        drop(self.saved + [paddle.empty(GRADIENT)])


def drop(blocks):
    while blocks:
        paddle.free(blocks.pop())


def batches():
    for name in ("good", "bad", "good"):
        block = paddle.empty(BATCH)
        yield name
        paddle.free(block)


def loss_of(x):
    return Loss(model(x))


if KIND == "static":
    paddle.enable_static()
model = Model()
weights = paddle.empty(WEIGHTS)
optimizer = paddle.optimizer.Mine(lambda: drop([paddle.empty(STATE)]))
forward = paddle.jit.to_static(loss_of) if KIND == "compiled" else loss_of
steps = 0
for x in paddle.io.DataLoader(batches()):
    try:
        loss = forward(x)
    except ValueError:
        continue
    if steps:
        paddle.autograd.backward([loss])
    else:
        loss.backward()
    if KIND in ("minimizes", "static"):
        optimizer.minimize(loss)
    else:
        optimizer.step()
    steps += 1
for layer in (model, *model.blocks):
    layer.training = False
with paddle.no_grad():
    drop(model("good"))
print(f"{KIND}: {steps} steps")
traced = paddle.jit.to_static.traced
print("traced", len(traced) > 0, "of kedge", [name for file, name in traced if "kedge" in file])
