# SPDX-License-Identifier: MIT
"""Training loops whose steps do not end with one optimizer's step in one thread. Each step has 2 MiB in its forward and 1 MiB in
its backward.

    loopsteps.py in-backward|in-thread|scaler|models|threads|overlap
"""
import sys
import threading

import torch

MB = 1 << 20
STEPS = 3


def drop(*blocks):
    for block in blocks:
        torch.free(block)


class Model(torch.nn.Module):
    def __init__(self, wait=lambda: None):
        super().__init__()
        self.wait = wait

    def forward(self):
        drop(torch.empty(2 * MB))
        self.wait()


class Loss(torch.Tensor):
    def __init__(self, work=lambda: None):
        self.work = work

    def compute_gradients(self):
        drop(torch.empty(MB))
        self.work()


def new_optimizer():
    return torch.optim.SGD(lambda: None)


def train(steps, model, optimizer):
    for _ in range(steps):
        model()
        Loss().backward()
        optimizer.step()


def in_backward():
    optimizers = [new_optimizer() for _ in range(4)]
    for _ in range(STEPS):
        Model()()
        Loss(lambda: [optimizer.step() for optimizer in optimizers]).backward()


def in_threads(*work):
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_thread():
    in_threads(lambda: train(STEPS, Model(), new_optimizer()))


def scaler():
    """The first step and another one overflow."""
    scales, optimizer = torch.amp.GradScaler(), new_optimizer()
    for i in range(4):
        scales.overflows = i in (0, 2)
        Model()()
        Loss().backward()
        scales.step(optimizer)


def models():
    """One after the other, each with an optimizer of its own."""
    optimizers = new_optimizer(), new_optimizer()
    train(2, Model(), optimizers[0])
    train(4, Model(), optimizers[1])


def threads():
    """Two train in turn."""
    turns = [threading.Semaphore(1), threading.Semaphore(0)]

    def loop(me):
        model, optimizer = Model(), new_optimizer()
        for _ in range(STEPS):
            for work in (model, Loss().backward, optimizer.step):
                turns[me].acquire()
                work()
                turns[1 - me].release()

    in_threads(lambda: loop(0), lambda: loop(1))


def overlap():
    """The second one's first forward begins inside of the first one's, and outlasts it."""
    begun, ended, over = threading.Event(), threading.Event(), threading.Event()

    def first():
        Model(lambda: (begun.set(), second_is_in.wait()))()
        ended.set()
        over.wait()
        train(1, Model(), new_optimizer())

    second_is_in = threading.Event()

    def second():
        begun.wait()
        Model(lambda: (second_is_in.set(), ended.wait()))()
        train(STEPS, Model(), new_optimizer())
        over.set()

    in_threads(first, second)


{"in-backward": in_backward, "in-thread": in_thread, "scaler": scaler, "models": models, "threads": threads,
 "overlap": overlap}[sys.argv[1]]()
