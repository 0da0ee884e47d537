# SPDX-License-Identifier: MIT
"""held_program.py CASE FILE: a program that runs out of memory, or leaks until its end. It notes in FILE what it has made.

torch is heldlike.py, or PyTorch itself: the program does not know.
"""
import ctypes
import gc
import json
import os
import signal
import sys
import threading
import time
import types
import weakref

import torch

import held_plants

try:
    import likememory
except ImportError:  # beside PyTorch itself
    likememory = None

NOTED = {}


def make(name, size=None):
    """A block whose size no other one has."""
    NOTED[name] = size or (1 << 20) + 4096 * len(NOTED)
    return torch.empty(NOTED[name] // 4, device="cuda")


def fail():
    try:
        torch.empty(1 << 38, device="cuda")
    except torch.OutOfMemoryError:
        return
    raise SystemExit("there was room for everything")


def note():
    with open(sys.argv[2] + ".new", "w", encoding="utf-8") as out:
        json.dump(NOTED, out)
    os.rename(sys.argv[2] + ".new", sys.argv[2])


def plants():
    gc.disable()
    held_plants.run(make, fail)
    gc.enable()


def counts():
    """References to everything that the program can name, and how many objects there are."""
    gc.collect()
    known = [o for m in (held_plants, sys.modules["__main__"]) for o in vars(m).values() if gc.is_tracked(o)]
    return f"{[sys.getrefcount(o) for o in known]} of {len(gc.get_objects())}"


def state():
    """What the collector and the interpreter are set to."""
    return (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug(), list(gc.garbage), list(gc.callbacks),
            sys.getswitchinterval(), len(sys.modules))


def left_as_it_was():
    kept, cycle = [make("kept")], []
    cycle.append(cycle)
    make("freed")
    fail()  # what is made at a first failure of any kind
    settings = state()
    for _ in range(3):
        counts()  # the collector stops following some objects when it first meets them, and then those that have them
    before = counts()
    fail()
    assert counts() == before, f"{counts()} were {before}"
    assert settings == state(), f"{state()} was {settings}"
    fail()
    seen, older = [], gc.get_stats()[1:]
    gc.callbacks.append(lambda phase, info: seen.append((phase, info["generation"], info["collected"])))
    fail()  # the fourth is a walk
    gc.callbacks.pop()
    assert gc.get_stats()[1:] == older and not seen, f"the collector ran: {seen}"
    local = make("local")
    gone = weakref.ref(local)
    fail()
    fail()
    del local
    assert gone() is None, "a local outlived its name"
    mine = locals()
    for _ in range(4):  # the eighth is a walk
        fail()
    assert mine["kept"] is kept, "the program's own copy of its locals was emptied"
    gc.collect()
    gc.disable()
    for _ in range(8):  # the sixteenth is a walk
        fail()
    assert gc.collect() < 20, "a walk left what only the collector frees"
    gc.enable()


def counted():
    """What the collector has counted is no more after a walk, but for lists and dicts that the interpreter keeps for the next ones,
    which are here as many as it keeps."""
    kept, changes = [make("kept")], {}
    gc.disable()
    for n in range(1, 17):
        waiting = [[] for _ in range(200)], [{} for _ in range(200)]
        del waiting
        before = gc.get_count()[0]
        fail()
        changes[n] = gc.get_count()[0] - before
    assert max(changes[walk] for walk in (4, 8, 16)) < 10, f"{changes} for {len(kept)}"
    gc.enable()


def storages():
    """No look asks a storage in a way that makes an object of Python's for it: of PyTorch itself."""
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    held_plants.KEPT = [make("part")[5:9].detach()]
    held_plants.ALSO = make("nothing")[:0].detach()
    asked = make("asked")
    held_plants.ALSO2 = asked.untyped_storage()  # which is counted as one
    model(torch.ones(64, 64, device="cuda")).sum().backward()
    optimizer.step()  # before its state is there, and afterwards
    optimizer.step()
    fail()
    fail()
    there = [o for o in gc.get_objects() if type(o) is torch.UntypedStorage]
    assert there == [held_plants.ALSO2], f"{len(there)} storages have an object"


def watched():
    """A tracer and a profiler of the program see no line of anybody else."""
    seen = set()

    def note(frame, event, arg):
        seen.add(frame.f_code.co_filename)
        return note

    sys.settrace(note)
    sys.setprofile(note)
    fail()
    sys.setprofile(None)
    sys.settrace(None)
    assert not [s for s in seen if "kedge>" in s], seen
    assert any("held_program" in s for s in seen), seen


def interrupted():
    """An interrupt that comes while objects are walked reaches the program."""
    def bell(number, frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, bell)
    room = [[i] for i in range(600_000)]
    for _ in range(4):  # of which the first, the second and the fourth are walks
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            fail()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            NOTED["interrupted"] = len(room)
    signal.setitimer(signal.ITIMER_REAL, 0)


def plant_graphs():
    """Losses that keep what their graphs keep: of the stand-in's nodes."""
    first = torch.MulBackward0(make("old"))
    second = torch.MulBackward0(make("shared"))
    other = torch.MulBackward0(make("both"), second)
    held_plants.ALSO = other._raw_saved_self.data
    held_plants.ALSO2 = make("named")
    held_plants.HISTORY = [torch.Tensor(4096, first), torch.Tensor(8192, second)]
    held_plants.OTHER = torch.Tensor(16384, other)


def graphs():
    plant_graphs()
    fail()


def kinds():
    """A module that is looked at, since it is called, and what no look meets: a copy of it, and graphs."""
    net, copy = torch.nn.Module(), torch.nn.Module()
    net._parameters["weight"] = make("weight")
    net._non_persistent_buffers_set = set()  # by which a module is known again
    net()
    copy._parameters["weight"] = make("copied")
    held_plants.COPIES = [net, copy]
    plant_graphs()


def beside(work):
    """graphs(), while another thread of the program calls work(over) until `over` has something in it."""
    over = []
    thread = threading.Thread(target=work, args=(over,), daemon=True)
    thread.start()
    graphs()
    over.append(1)
    thread.join()


def spin(over):
    while not over:
        pass


def busy():
    beside(spin)


def beside_one_that_waits():
    beside(wait_for)


def wait_for(over):
    while not over:
        threading.Event().wait(0.5)


def in_a_pass():
    """The engine is at work in another thread, whose frames look as those of one that waits."""
    beside(lambda over: torch.Variable._execution_engine.run_backward(lambda: wait_for(over)))


def a_pass_begins():
    """In the middle of a walk: another thread has had the interpreter."""
    torch.MulBackward0.before_reading = lambda _: torch.Variable._execution_engine.run_backward(lambda: None)
    graphs()


def drops_gradients():
    def work(over):
        of = types.SimpleNamespace()
        while not over:
            of.grad = None

    beside(work)


def on_its_way_out():
    """Of an older PyTorch: nothing of Python's refers to a tensor that C++ has, and beside others it is not asked."""
    torch._C._StorageMeta = type
    asked = []
    torch._C.TensorBase.is_cuda = property(lambda self: asked.append(id(self)) or True)
    held_plants.KEPT = [make("kept")]
    going, over = make("going"), threading.Event()
    number, hidden = id(going), torch.Hidden(going)
    cycle = {"big": make("cycle")}
    cycle["self"], in_cycle = cycle, id(cycle["big"])
    del going, cycle
    gc.disable()
    fail()
    assert number in asked, "alone it may be asked"
    asked.clear()
    thread = threading.Thread(target=over.wait)
    thread.start()
    fail()
    over.set()
    thread.join()
    assert number not in asked, f"{hidden} was asked"
    assert id(held_plants.KEPT[0]) in asked, "nothing was asked"
    assert in_cycle in asked, "what an object refers to has an owner"
    gc.enable()


def end():
    held_plants.KEPT = [make("kept")]


def steps():
    """Each step keeps a block of one size until the function returns; the 8th of 11 steps is walked."""
    optimizer, kept = torch.optim.SGD(), []
    for _ in range(11):
        kept.append(make("kept", 1 << 20))
        optimizer.step()


def rounds(kind, count=13):
    """Ends of `count` rounds of a program: of steps with an optimizer, of training by hand, of a service."""
    optimizer, model = torch.optim.SGD(), torch.nn.Module()
    model.training, model.weight = kind != "serves", make("parameters", 4 << 20)
    for n in range(count):
        if kind != "by_hand":
            model()
        yield n
        if kind == "trains":
            optimizer.step()
        elif kind == "by_hand":
            torch.Variable._execution_engine.run_backward(lambda: None, accumulate_grad=True)


def grows_by_epochs():
    kept = []
    for n in rounds("trains"):
        if n % 5 == 2:
            kept.append(make("kept", 1 << 20))


def grows_as_it_serves():
    sessions = {}
    for n in rounds("serves"):
        sessions[n] = make("kept", 1 << 20)


def grows_by_hand():
    losses = []
    for _ in rounds("by_hand"):
        losses.append(make("kept", 1 << 20))


def grows_beside():
    """Of a line that grows the walk in the 6th round sees less than half of what it has at the peak, and most of that in `kept`."""
    kept, current = [], None
    for _ in rounds("trains", 11):
        first, second = (make(label, size) for label, size in (("kept", 1 << 20), ("current", 3 << 20)))
        kept.append(first)
        current, first, second = second, None, None
    return current


def grows_in_parts():
    """No path has half of it: three attributes of each object in a list lead to a block of one line."""
    parts = []
    for _ in rounds("trains", 11):
        parts.append(held_plants.Thing())
        for name in ("left", "middle", "right"):
            setattr(parts[-1], name, held_plants.Thing())
            getattr(parts[-1], name).block = make("kept", 1 << 20)


def grows_without_rounds():
    held_plants.KEPT = [make("kept", 1 << 20) for _ in range(20)]


def grows_at_last():
    held_plants.KEPT = []
    for n in rounds("trains", 11):
        if n >= 6:
            held_plants.KEPT.append(make("kept", 1 << 20))


def healthy():
    """Rounds that keep no more than others before: caches fill in the first four, sizes vary, and the model is there at the end."""
    held_plants.KEPT = [make("kept", 2 << 20)]
    for kind in ("trains", "serves", "by_hand"):
        cache, last = [], None
        for n in rounds(kind, 50):
            if n < 3:
                cache.append(make("cached", 1 << 20))
            last = make("last", (11 - n * 7 % 11) << 18)
        del last


class Cycle:
    def __init__(self, size):
        self.block, self.itself = make("cycle", size), self


def collections():
    """A list that gets longer with each run of the collector over everything."""
    runs = []
    gc.callbacks.append(lambda phase, info: runs.append(phase) if info["generation"] == 2 and phase == "start" else None)
    return runs


def cycles_until_full():
    """60 rounds of cycles of 8 MiB, of which no more than 24 fit, beside a block of 8 MiB that each round needs for a while."""
    gc.disable()
    runs = collections()
    for _ in rounds("trains", 60):
        Cycle(8 << 20)
        make("temporary", 8 << 20)
    NOTED["runs"] = len(runs)


def full_and_healthy():
    """Most of the device is in use in each of 60 rounds, and nothing is the collector's."""
    gc.disable()
    runs, kept = collections(), make("kept", 182 << 20)
    for _ in rounds("trains", 60):
        make("temporary", 8 << 20)
    NOTED["runs"], NOTED["kept"] = len(runs), kept.uses


def cycle_at_a_failure():
    gc.disable()
    gone = weakref.ref(Cycle(1 << 20).block)
    assert gone() is not None
    fail()
    NOTED["gone"] = gone() is None


def alike():
    """Holders that differ by a key alone, many and few, and the objects of a list."""
    gc.disable()
    held_plants.SESSIONS = {f"user-{i}": [make("session", 1 << 20)] for i in range(5)}
    held_plants.PARTS = {"key": make("key", 3 << 20), "value": make("value", 4 << 20)}
    held_plants.FIRST = here = held_plants.Thing()
    for _ in range(5):
        here.next = held_plants.Thing()
        here = here.next
        here.kept = make("list", 5 << 18)
    del here
    fail()


def reducers():
    """A module with a Reducer, whose bucket has the bytes of the module's parameter."""
    held_plants.WRAPPERS = [torch.nn.Module()]
    held_plants.WRAPPERS[0]._parameters["weight"] = make("parameter", 1 << 20)
    held_plants.WRAPPERS[0].reducer, held_plants.WRAPPERS[0].gradient_as_bucket_view = torch.Reducer(), False
    bucket = likememory.empty(1 << 20)
    fail()
    likememory.free(bucket)


def wait_in(library):
    """Notes what there is, and is in a call of C's until somebody writes into `gate`."""
    held_plants.KEPT = [make("kept")]
    gate = os.open("gate", os.O_RDWR)
    note()
    library.read(gate, ctypes.create_string_buffer(1), 1)


def waits_in_c():
    wait_in(ctypes.CDLL(None))


def waits_in_c_with_the_lock():
    wait_in(ctypes.PyDLL(None))
    waits_in_c()


def waits_in_a_library():
    held_plants.KEPT = [make("kept")]
    graphs()
    note()
    threading.Event().wait()


def ends_while_asked():
    held_plants.KEPT = [make("kept")]
    note()
    time.sleep(0.3)


def small_bound():
    held_plants.KEPT = [make("kept")]
    held_plants.MANY = [[i] for i in range(1_200_000)]
    fail()


def out_of_time(last):
    """The clock jumps after the first question for the time in the fourth failure's walk, or before the last one."""
    held_plants.KEPT, held_plants.ALSO = [make("kept", 1 << 20)], make("also", 1 << 21)
    asked, most = [], []

    def now():
        asked.append(1)
        return 0.0 if not most or len(asked) <= most[0] else 1e9

    time.monotonic = now
    for n in range(4):
        if n == 3:
            most.append(asks - 1 if last else 1)
        asked.clear()
        fail()
        asks = len(asked) or (asks if n else 0)


def out_of_time_at_first():
    out_of_time(False)


def out_of_time_at_last():
    out_of_time(True)


def too_many_objects(blocks=10**12):
    """More than can be listed in time, as the interpreter's allocator says."""
    held_plants.KEPT, hidden = [make("kept")], torch.Hidden(make("hidden"))
    sys.getallocatedblocks = lambda: blocks
    fail()
    assert hidden


def too_slow_for_objects():
    """There would be time for as many, if the machine had any for this thread."""
    time.thread_time = lambda: 0.0
    too_many_objects(1000)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    note()
