# SPDX-License-Identifier: MIT
"""What is open in a training loop, told to libkedge.so: the part that all frameworks share.

A step is outermost, the phases lie in it; `optimizer` may hold a forward and a backward (closures). Of several optimizers, as of a
GAN, the step is that of the one that ended the last step, until another one has stepped twice meanwhile.

One thread has a story: the first that comes, and any in which an optimizer steps.
"""
import ctypes
import functools
from _thread import get_ident

library = ctypes.PyDLL(None)  # which keeps the GIL: a mark is shorter than giving it away


def level():
    """What is wanted: 0 nothing, 1 phases, 2 modules by name, too. 0 where libkedge.so is not in the process."""
    return library.kedge_python_level() if hasattr(library, "kedge_python_level") else 0


class Story:
    """What is open, in which thread."""

    def __init__(self):
        for name in ("kedge_python_enter", "kedge_python_step", "kedge_python_leave"):
            getattr(library, name).restype = None
        self.enter, self.enter_step, self.leave = library.kedge_python_enter, library.kedge_python_step, library.kedge_python_leave
        self.thread = None
        self.in_step = False
        self.phase = None  # forward, backward or data: one at a time
        self.stepping = []  # optimizers, the outermost first
        self.last = None  # the one that ended the last step
        self.others = set()  # that have stepped since

    def is_ours(self):
        """Is this the thread that has the story?"""
        if self.thread is None:
            self.thread = get_ident()
        return self.thread == get_ident()

    def begin(self, phase):
        """Opens a phase; false where one is open, or in another thread."""
        if self.phase is not None or not self.is_ours():
            return False
        self.phase = phase
        self.enter(phase)
        return True

    def end(self, phase):
        if self.phase == phase and self.is_ours():
            self.phase = None
            self.leave(phase)

    def begin_step(self):
        if not self.in_step and self.is_ours():
            self.in_step = True
            self.enter_step(b"step")

    def take_over(self):
        """An optimizer steps in a thread that has no story yet: it trains."""
        self.thread = get_ident()
        self.in_step, self.phase, self.stepping = False, None, []

    def begin_optimizer(self, optimizer):
        if not self.is_ours():
            self.take_over()
        if self.phase is not None:  # left by what no hook hears of, a KeyboardInterrupt
            self.end(self.phase)
        number = id(optimizer)
        if number in self.stepping:  # its last step has failed
            del self.stepping[self.stepping.index(number) :]
        elif not self.stepping:
            self.begin_step()
            self.enter(b"optimizer")
        self.stepping.append(number)

    def end_optimizer(self, optimizer):
        number = id(optimizer)
        if number not in self.stepping or not self.is_ours():
            return
        del self.stepping[self.stepping.index(number) :]
        if self.stepping:  # one inside another
            return
        self.leave(b"optimizer")
        if self.last not in (None, number) and number not in self.others:
            self.others.add(number)
            return
        self.leave(b"step")
        self.last = number
        self.others.clear()
        self.enter_step(b"step")


def around(function, phase, story, is_traced):
    """For functions that have no hooks: a function of ours around them. While `is_traced()` it is nothing."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if is_traced() or not story.begin(phase):
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            story.end(phase)

    return wrapper
