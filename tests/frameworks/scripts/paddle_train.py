# SPDX-License-Identifier: MIT
"""Trains a small network with PaddlePaddle: a perceptron, or with --conv a convolutional one, with --rnn an LSTM; --static by to_static.

--say: each step says when it begins and ends.
"""
import argparse
import json
import time

import paddle
from paddle import nn

options = argparse.ArgumentParser()
options.add_argument("--conv", action="store_true")
options.add_argument("--rnn", action="store_true")
options.add_argument("--static", action="store_true")
options.add_argument("--say", action="store_true")
options.add_argument("--steps", type=int, default=8)
options.add_argument("--batch", type=int, default=64)
args = options.parse_args()


class Perceptron(nn.Layer):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))

    def forward(self, x):
        return self.layers(x)


class Convolutional(nn.Layer):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2D(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2),
                                    nn.Conv2D(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2))
        self.head = nn.Linear(64 * 8 * 8, 10)

    def forward(self, x):
        return self.head(paddle.flatten(self.layers(x), 1))


class Recurrent(nn.Layer):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(64, 128, num_layers=2, dropout=0.1)
        self.head = nn.Sequential(nn.BatchNorm1D(128), nn.Linear(128, 10))

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


MODELS = {"perceptron": (Perceptron, [256]), "conv": (Convolutional, [3, 32, 32]), "rnn": (Recurrent, [16, 64])}


def say(*words):
    if args.say:
        print(*words, flush=True)


def main():
    paddle.seed(7)
    model, shape = MODELS["conv" if args.conv else "rnn" if args.rnn else "perceptron"]
    net = model()
    if args.static:
        net = paddle.jit.to_static(net)
    optimizer = paddle.optimizer.AdamW(learning_rate=1e-3, parameters=net.parameters())
    times = []
    for step in range(args.steps):
        began = time.process_time()
        say(f"START step_{step}")
        # Batches differ in size, as real ones do.
        batch = args.batch + 8 * (step % 3)
        x = paddle.randn([batch, *shape])
        y = paddle.randn([batch, 10])
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        print(f"step {step} loss {float(loss):.6g}")
        say(f"END step_{step}")
        times.append(time.process_time() - began)
    cuda = paddle.device.cuda
    figures = {"exact": {"allocated": cuda.memory_allocated(), "max_allocated": cuda.max_memory_allocated()},
               "apart": {"max_reserved": cuda.max_memory_reserved()}, "step_ms": round(min(times) * 1000, 3)}
    print("figures " + json.dumps(figures), flush=True)


main()
