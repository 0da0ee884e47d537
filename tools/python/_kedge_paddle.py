# SPDX-License-Identifier: MIT
"""Where in its training loop a PaddlePaddle program is, told to libkedge.so from around Paddle's public functions.

    step        from the end of an optimizer's step to the end of its next one; the first from the first call of a layer in training
    forward     the outermost call of a layer, or of what to_static made
    backward    Tensor.backward, paddle.autograd.backward
    optimizer   Optimizer.step
    data        the next batch of a DataLoader

Paddle (2.6) has no hooks for all optimizers, nor for all layers: Layer's own hooks belong to one layer each, and stay on it where it is
copied and saved. So functions of ours stand around the classes' own. _kedge_story.py says what lies in what.

to_static traces what it compiles, our function around Layer.__call__ with it. There that function has one question, `is_idle`, which is
false: the call of what is compiled is a `forward` itself. Nothing here may raise.
"""
import functools
import sys

is_idle = True  # no phase is open: a constant of what is traced
paddle = story = shared = None


def is_static():
    return not paddle.in_dynamic_mode()


def inside(call, of_step, args, kwargs):
    """The outermost call of a layer or of a compiled function."""
    global is_idle

    if is_static() or story.phase is not None or not story.is_ours():
        return call(*args, **kwargs)
    if of_step():
        story.begin_step()
    story.begin(b"forward")
    is_idle = False
    try:
        return call(*args, **kwargs)
    finally:
        is_idle = True
        story.end(b"forward")


def hook_layers(layer):
    call = layer.__call__

    @functools.wraps(call)
    def wrapper(self, *inputs, **kwargs):
        if not is_idle:
            return call(self, *inputs, **kwargs)
        return inside(call, lambda: self.training and paddle.is_grad_enabled(), (self, *inputs), kwargs)

    layer.__call__ = wrapper


def hook_compiled(compiled):
    call = compiled.__call__

    @functools.wraps(call)
    def wrapper(*args, **kwargs):
        return inside(call, paddle.is_grad_enabled, args, kwargs)

    compiled.__call__ = wrapper


def step_around(step):
    @functools.wraps(step)
    def wrapper(self, *args, **kwargs):
        if is_static():
            return step(self, *args, **kwargs)
        story.begin_optimizer(self)
        try:
            return step(self, *args, **kwargs)
        finally:
            story.end_optimizer(self)

    return wrapper


def hook_optimizers(optimizer):
    """Each class that has a step of its own; one that comes later is heard where it calls these."""
    kinds = [optimizer]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if "step" in vars(kind):
            kind.step = step_around(kind.step)


def around(owner, name, phase):
    setattr(owner, name, shared.around(getattr(owner, name), phase, story, is_static))


def hook_data(iterators):
    for kind in iterators._DataLoaderIterBase.__subclasses__():
        around(kind, "__next__", b"data")


PARTS = (
    lambda: hook_layers(paddle.nn.Layer),
    lambda: hook_compiled(sys.modules["paddle.jit.dy2static.program_translator"].StaticFunction),
    lambda: hook_optimizers(paddle.optimizer.Optimizer),
    lambda: around(paddle.Tensor, "backward", b"backward"),
    lambda: around(paddle.autograd, "backward", b"backward"),
    lambda: hook_data(sys.modules["paddle.io.dataloader.dataloader_iter"]),
)


def imported(module, finder, story_module):
    """`paddle` has been imported, and with it all that is hooked."""
    global paddle, story, shared

    paddle, shared = module, story_module
    if shared.level() == 0:
        return
    story = shared.Story()
    for hook in PARTS:
        try:
            hook()
        except Exception:  # a version that has no such class
            pass
