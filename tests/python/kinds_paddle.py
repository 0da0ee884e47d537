# SPDX-License-Identifier: MIT
"""kinds_paddle.py CASE: programs of PaddlePaddle's names whose memory has kinds (pykinds.py): each prints, as JSON, how many bytes of each
kind its own objects have at its end."""
import json
import os
import sys
import threading

import paddle

KB = 1024


class Part(paddle.Net):
    def __init__(self, name, size):
        super().__init__()
        self._parameters["weight"] = paddle.Tensor(size, name=name + ".w_0")
        self._buffers.update(mean=paddle.Tensor(size // 2), empty=paddle.Tensor(0), host=paddle.Tensor(size, is_gpu=False))

    def forward(self, x):
        return x


class Model(paddle.Net):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = Part("linear_0", 64 * KB), Part("linear_1", 32 * KB)

    def forward(self, x):
        return self.dec(self.enc(x))

    def parameters(self):
        return [part._parameters["weight"] for part in (self.enc, self.dec)]


def own(model, optimizer, more=()):
    params = [*(model.parameters() if model else ()), *more]
    state = [*optimizer._master_weights.values(), *optimizer._accumulators["moment1"].values()]
    buffers = [part._buffers["mean"] for part in (model.enc, model.dec)] if model else []
    return {kind: sum(t.size for t in tensors if t) for kind, tensors in (
        ("parameters", params), ("gradients", [p._grad for p in params]), ("buffers", buffers), ("optimizer state", state))}


def train(model, optimizer, steps=5):
    for _ in range(steps):
        model(paddle.Tensor(16 * KB))
        paddle.Loss(model.parameters()).backward()
        optimizer.step()


def plain():
    model = Model()
    optimizer = paddle.optimizer.Adam(model.parameters())
    train(model, optimizer)
    return model, optimizer, own(model, optimizer)


def functional():
    """No layer at all, and no copies."""
    weights = [paddle.Tensor(64 * KB, name="create_parameter_0.w_0")]
    optimizer = paddle.optimizer.Adam(weights, copies=False)
    for _ in range(3):
        paddle.Loss(weights).backward()
        optimizer.step()
    return weights, optimizer, own(None, optimizer, weights)


def failed():
    """An allocation fails after two steps; what the third has made is known by the look then."""
    model = Model()
    optimizer = paddle.optimizer.Adam(model.parameters())
    train(model, optimizer, 2)
    model.dec._buffers["late"] = paddle.Tensor(24 * KB)
    try:
        try:
            paddle.Tensor(1 << 45)
        except RuntimeError:
            raise MemoryError("out of memory on the device") from None
    except MemoryError:
        pass
    sizes = own(model, optimizer)
    sizes["buffers"] += 24 * KB
    return model, optimizer, sizes


def busy():
    """Another thread calls a new model in a backward pass: no gradient is asked for."""
    model, other = Model(), Model()
    optimizer = paddle.optimizer.Adam(model.parameters())
    train(model, optimizer, 1)
    asked = []

    def look():
        del paddle.Tensor.asked[:]
        thread = threading.Thread(target=lambda: other(paddle.Tensor(16 * KB)))
        thread.start()
        thread.join()
        asked.extend(paddle.Tensor.asked)

    paddle.Loss(model.parameters(), look).backward()
    return model, other, {"asked": len(asked)}


if __name__ == "__main__":
    held = globals()[sys.argv[1]]()
    print(json.dumps(held[-1]))
    sys.stdout.flush()
    os._exit(0)  # what is live now is what the report tells of the end
