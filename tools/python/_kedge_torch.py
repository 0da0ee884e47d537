# SPDX-License-Identifier: MIT
"""Where in its training loop a PyTorch program is, told to libkedge.so through PyTorch's public hooks.

    step        from the end of an optimizer's step to the end of its next one; the first from the first call of a module in training
    forward     the outermost call of a module, with its inner ones
    backward    torch.autograd.backward, which Tensor.backward calls
    optimizer   the optimizer's step itself
    data        the next batch of a DataLoader
    with KEDGE_ANCHORS=python=modules each module inside forward, too, by its name in the outermost one (step/forward/h.0/attn)

_kedge_story.py says what lies in what. Autograd's own threads, which compute a checkpoint's forward again, are in the `backward` of
the thread that has the story, as libkedge.so counts a thread without ranges.

Cost: without module names, an inner module pays nothing. A global hook makes PyTorch take a slow way for each module, so ours
is there only while no module runs: the outermost call takes it away, and gets a hook of its own until it ends. (A hook that
stayed on a module would be pickled, copied and scripted with it.) A step costs a dozen calls of some hundred nanoseconds.

Nothing here may raise. Under torch.compile's tracing all of it is constant: nothing.
"""
import functools
import sys
import weakref

shared = None  # _kedge_story
torch = None
compiling = None  # torch.compiler.is_compiling


def nobody_compiles():
    return False


story = None


def quiet(function):
    """Whatever goes wrong in it is not the program's trouble."""

    @functools.wraps(function)
    def safe(*args):
        if compiling():
            return
        try:
            function(*args)
        except Exception:
            pass

    return safe


# ---- optimizers


def hook_optimizers(optimizer):
    optimizer.register_optimizer_step_pre_hook(quiet(lambda which, args, kwargs: story.begin_optimizer(which)))
    optimizer.register_optimizer_step_post_hook(quiet(lambda which, args, kwargs: story.end_optimizer(which)))


# ---- modules


def is_training(module):
    return module.training and torch.is_grad_enabled()


class Outermost:
    """The outermost calls of modules."""

    def __init__(self, modules):
        self.modules = modules
        self.armed = None  # our global hook
        self.called = None  # the module that runs, and our hook on it
        self.stale = []
        self.arm()

    def arm(self):
        if self.armed is None:
            self.armed = self.modules.register_module_forward_pre_hook(quiet(self.begin))

    def disarm(self):
        self.armed.remove()
        self.armed = None

    def begin(self, module, args):
        while self.stale:
            self.stale.pop().remove()
        if story.phase is not None or not story.is_ours():
            return
        if is_training(module):
            story.begin_step()
        handle = module.register_forward_hook(quiet(self.end), always_call=True)
        self.called = (module, handle)
        self.disarm()
        story.begin(b"forward")

    def end(self, module, args, output):
        if self.called is None or self.called[0] is not module:
            return
        handle = self.called[1]
        self.called = None
        story.end(b"forward")
        self.forget(handle)
        self.arm()

    def forget(self, handle):
        """After an exception PyTorch is going through the very hooks, and none may be taken away."""
        if sys.exc_info()[1] is None:
            handle.remove()
        else:
            self.stale.append(handle)


class Inner:
    """A call inside the outermost one."""

    def __init__(self, module, name, inner):
        self.module, self.name, self.range, self.handle = module, name, inner.encode(), None


class ByName(Outermost):
    """Inner calls, too, by their modules' names. Each has a hook on its module while it runs: torch.export (2.5) gets past no global one."""

    def __init__(self, modules):
        self.open = []
        self.root = lambda: None
        self.names = {}
        super().__init__(modules)

    def disarm(self):
        pass

    def begin(self, module, args):
        if self.called is not None and story.phase == b"forward":
            if story.is_ours():
                self.begin_inner(module)
            return
        while self.open:  # left by what no hook hears of
            story.leave(self.open.pop().range)
        super().begin(module, args)
        if self.called is not None and self.root() is not module:
            self.root = weakref.ref(module)  # the model lives as long as it would without us
            self.names = {id(inner): name for name, inner in module.named_modules()}

    def begin_inner(self, module):
        name = self.names.get(id(module)) or type(module).__name__
        outer = self.open[-1].name if self.open else ""
        call = Inner(module, name, name[len(outer) + 1 :] if outer and name.startswith(outer + ".") else name)
        call.handle = module.register_forward_hook(quiet(lambda *_: self.end_inner(call)), always_call=True)
        self.open.append(call)
        story.enter(call.range)

    def end_inner(self, call):
        if not self.open or self.open[-1] is not call or not story.is_ours():
            return  # a call of the same module inside this one
        self.open.pop()
        story.leave(call.range)
        self.forget(call.handle)


def hook_modules(modules):
    (ByName if shared.level() == 2 else Outermost)(modules)


# ---- functions that have no hooks


def hook_backward(autograd):
    autograd.backward = shared.around(autograd.backward, b"backward", story, compiling)


def hook_data(dataloader):
    batches = dataloader._BaseDataLoaderIter
    batches.__next__ = shared.around(batches.__next__, b"data", story, compiling)


def keep_from_dynamo():
    """
    torch.compile looks at each frame that runs below it, and would compile our hooks as programs of their own (torch.export of 2.5
    refuses two). What it traces through is not affected by this mark. Where there is no such function, nothing is lost but that.
    """
    skip = torch._C._dynamo.eval_frame.skip_code
    parts = [*globals().values(), *vars(shared).values()]
    codes = [part.__code__ for part in parts if hasattr(part, "__code__")]
    for kind in (shared.Story, Outermost, ByName, Inner):
        codes += [part.__code__ for part in vars(kind).values() if hasattr(part, "__code__")]
    while codes:
        code = codes.pop()
        skip(code)
        codes += [constant for constant in code.co_consts if hasattr(constant, "co_consts")]


PARTS = {
    "torch.optim.optimizer": hook_optimizers,
    "torch.nn.modules.module": hook_modules,
    "torch.autograd": hook_backward,
    "torch.utils.data.dataloader": hook_data,
}


def imported(module, finder, story_module):
    """`torch` has been imported; parts of it may come later."""
    global torch, compiling, story, shared

    shared = story_module
    if shared.level() == 0:
        return
    torch = module
    compiling = getattr(getattr(module, "compiler", None), "is_compiling", nobody_compiles)
    story = shared.Story()
    try:
        keep_from_dynamo()
    except Exception:
        pass
    for name, hook in PARTS.items():
        if name not in sys.modules:
            finder.watched[name] = hook
            continue
        try:
            hook(sys.modules[name])
        except Exception:  # a version that has no such hook
            pass
