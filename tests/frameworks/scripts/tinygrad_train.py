# SPDX-License-Identifier: MIT
"""Trains a perceptron with tinygrad, which reaches the driver by ctypes and writes PTX itself (DEV=CUDA:PTX)."""
import json
import time

import numpy as np
from tinygrad import Device, GlobalCounters, Tensor, TinyJit, nn
from tinygrad.helpers import Context, getenv


class Perceptron:
    def __init__(self):
        self.first, self.second = nn.Linear(256, 512), nn.Linear(512, 10)

    def __call__(self, x):
        return self.second(self.first(x).relu())


def main():
    print(Device.DEFAULT)
    Tensor.manual_seed(7)
    numbers, times = np.random.default_rng(7), []
    net = Perceptron()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net))

    def step(x, y):
        optimizer.zero_grad()
        loss = net(x).sparse_categorical_crossentropy(y).backward()
        optimizer.step()
        return loss.realize()

    if getenv("SCRIPT_JIT", 1):
        step = TinyJit(step)
    with Context(TRAINING=1):
        for i in range(6):
            began = time.process_time()
            x = Tensor(numbers.standard_normal((128, 256), "f4")).realize()
            y = Tensor(numbers.integers(0, 10, 128).astype("i4")).realize()
            print("step", i, "loss", f"{step(x, y).item():.6g}")
            times.append(time.process_time() - began)
    print("figures " + json.dumps({"exact": {"mem_used": GlobalCounters.mem_used},
                                   "step_ms": round(min(times) * 1000, 3)}), flush=True)


main()
