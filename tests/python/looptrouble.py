# SPDX-License-Identifier: MIT
"""A training loop in which something goes wrong before each step. Each step that follows has a size of its own.

    looptrouble.py          prints {name of what goes wrong: MiB of the step after it}
"""
import json
import signal
import threading

import torch

MB = 1 << 20


class Stopped(BaseException):
    """Like KeyboardInterrupt: no Exception."""


class Layer(torch.nn.Module):
    def forward(self, x):
        if callable(x):
            x()
        drop([torch.empty(size)])
        return self


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Layer()

    def forward(self, x):
        try:
            return self.inner(x)
        except LookupError:
            return self.inner(None)


class Loss(torch.Tensor):
    def __init__(self, work=None):
        self.work = work

    def compute_gradients(self):
        drop([torch.empty(size)])
        if self.work:
            self.work()


def drop(blocks):
    while blocks:
        torch.free(blocks.pop())


def fails(error):
    def work():
        raise error

    return work


def caught(function, *args):
    try:
        function(*args)
    except BaseException:  # a loop that goes on whatever happens, as a notebook does
        pass


def again(depth=0):
    again(depth + 1)


def alarm():
    """A time-out of the program's own, while it waits."""
    signal.signal(signal.SIGALRM, lambda *_: fails(TimeoutError())())
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    threading.Event().wait(5)


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def step():
    model(None)
    Loss().backward()
    optimizer.step()


def train_another():
    other, updates = Model(), torch.optim.SGD(lambda: None)
    for _ in range(3):
        other(None)
        Loss().backward()
        updates.step()


def evaluate():
    model.eval()
    model(None)
    model.training = model.inner.training = True
    with torch.no_grad():
        model(None)


class Mine(torch.optim.Optimizer):
    """A class that comes after the framework."""

    def step(self, closure=None):
        if closure:
            closure()
        self.update()


size = 512
model, update = Model(), [lambda: None]
optimizer = Mine(lambda: (drop([torch.empty(size)]), update[0]()))
TROUBLE = {
    "nothing": lambda: None,
    "a forward that fails": lambda: caught(model, fails(ValueError())),
    "a forward that is interrupted": lambda: caught(model, fails(KeyboardInterrupt())),
    "a forward that exits": lambda: caught(model, fails(SystemExit())),
    "a forward that is stopped": lambda: caught(model, fails(Stopped())),
    "a forward that is too deep": lambda: caught(model, again),
    "a time-out in a forward": lambda: caught(model, alarm),
    "an inner module that fails": lambda: model(fails(KeyError())),
    "a backward that fails": lambda: (model(None), caught(Loss(fails(ValueError())).backward)),
    "a backward that is interrupted": lambda: (model(None), caught(Loss(fails(KeyboardInterrupt())).backward)),
    "a closure that fails": lambda: caught(optimizer.step, fails(ValueError())),
    "a closure whose forward is interrupted": lambda: caught(optimizer.step, lambda: model(fails(KeyboardInterrupt()))),
    "an optimizer that fails": lambda: (update.__setitem__(0, fails(ValueError())), model(None), Loss().backward(),
                                        caught(optimizer.step), update.__setitem__(0, lambda: None)),
    "an optimizer of another class that fails": lambda: caught(torch.optim.SGD(fails(KeyboardInterrupt())).step),
    "a loader that fails": lambda: caught(next, iter(torch.utils.data.DataLoader(iter(fails(ValueError()), None)))),
    "a model in another thread": lambda: in_thread(lambda: model(None)),
    "a gradient alone": lambda: torch.autograd.grad(Loss()),
    "an evaluation": evaluate,
}
sizes = {}
for number, (name, trouble) in enumerate(TROUBLE.items()):
    trouble()
    size = sizes[name] = (number + 1) * MB
    step()
    size = 512
print(json.dumps(sizes))
