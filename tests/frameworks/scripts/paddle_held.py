# SPDX-License-Identifier: MIT
"""paddle_held.py FILE: tensors of PaddlePaddle kept in places of every kind, then more than the device has. FILE gets {name: [bytes, what
has to be told of its holders]}; each has a size of its own."""
import json
import sys

import paddle

PLANTS = {}


def make(name, text):
    size = (1 << 20) + 65536 * len(PLANTS)
    PLANTS[name] = (size, text)
    return paddle.empty([size], dtype="uint8")


class Engine:
    def __init__(self):
        self.buffer = make("attribute", r"^ENGINE\.buffer$")


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = paddle.nn.Linear(512, 700, bias_attr=False)
        self.register_buffer("mean", make("buffer", r"^buffer NET\.mean$"))
        PLANTS["parameter"] = (512 * 700 * 4, r"^parameter NET\.inner\.weight$")


def hook():
    kept = make("closure", r"^HOOKS\[0\]\.closure\['kept'\]$")
    return lambda: kept


TABLE = make("global", r"^TABLE$")
ENGINE = Engine()
HISTORY = [[make("list", r"^HISTORY\[0\]\[0\]$")]]
CACHE = {("mask", 64): make("dict key", r"^CACHE\['mask', 64\]$")}
HOOKS = [hook()]
NET = Net()
WHOLE = make("tensor and view", r"^(WHOLE AND PART|PART AND WHOLE)$")
PART = WHOLE[4096:]
# As to_static has them: nothing is behind it, and PaddlePaddle ends the process if it is asked for the size of an element.
SCOPE = paddle.base.core.eager.Tensor(paddle.base.core.VarDesc.VarType.FP32, [], "scope", paddle.base.core.VarDesc.VarType.STEP_SCOPES, True)


def step():
    hidden = make("local", r"^local 'hidden' of step paddle_held\.py:\d+$")
    try:
        paddle.empty([1 << 40], dtype="uint8")
    except MemoryError:
        return hidden.shape
    raise SystemExit("there was room for everything")


step()
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(PLANTS, file)
