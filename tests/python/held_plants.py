# SPDX-License-Identifier: MIT
"""Planted holders: each function makes one block of device memory that one thing holds (or two), and calls then() while
that is so. EXPECT says, as a regular expression, what has to be told of each: the texts joined by " AND ".

No plant knows how blocks are made: held_walk.py plants objects of its own, torch_held.py PyTorch's tensors.
"""
import asyncio
import atexit
import collections
import concurrent.futures
import contextvars
import ctypes
import dataclasses
import functools
import gc
import queue
import sys
import threading
import types
import weakref

EXPECT = {}


def plant(expect):
    def note(function):
        EXPECT[function.__name__] = (function, expect)
        return function
    return note


class Thing:
    pass


# ---- locals ----------------------------------------------------------------------------------------------------------

@plant(r"^local 'x' of local_of_running \w+\.py:\d+$")
def local_of_running(make, then):
    x = make()  # noqa: F841
    then()


@plant(r"^local 'x' of \S*recursion\.<locals>\.down \w+\.py:\d+$|^local 'x' of down \w+\.py:\d+$")
def recursion(make, then):
    def down(depth):
        x = make() if depth == 3 else None  # noqa: F841
        if depth:
            down(depth - 1)
        else:
            then()
    down(6)


@plant(r"^local 'given' of (argument\S*)?inner \w+\.py:\d+$")
def argument(make, then):
    def inner(given):
        then()
    inner(make())


@plant(r"^local 'rest'\[1\] of \S*inner \w+\.py:\d+$")
def variadic(make, then):
    def inner(*rest):
        then()
    inner(0, make())


@plant(r"^local 'x' of \S*work \w+\.py:\d+, thread worker-7$")
def other_thread(make, then):
    ready, done = threading.Event(), threading.Event()

    def work():
        x = make()  # noqa: F841
        ready.set()
        done.wait()
    thread = threading.Thread(target=work, name="worker-7", daemon=True)
    thread.start()
    ready.wait()
    then()
    done.set()
    thread.join()


@plant(r"^local 'cell' of \S*shared_with_closure \w+\.py:\d+ AND .*closure\['cell'\]$|^local 'cell' of \S*shared_with_closure ")
def shared_with_closure(make, then):
    cell = make()

    def inner():
        return cell
    then()
    return inner


# ---- globals and attributes --------------------------------------------------------------------------------------------

@plant(r"\bheld_plants\.GLOBAL$|^GLOBAL$")
def module_global(make, then):
    global GLOBAL
    GLOBAL = make()
    then()


@plant(r"TRAINER\.callbacks\[2\]\.outputs\[17\]$")
def chain_of_attributes(make, then):
    global TRAINER
    TRAINER = Thing()
    TRAINER.callbacks = [Thing() for _ in range(3)]
    TRAINER.callbacks[2].outputs = [None] * 17 + [make()]
    then()


@plant(r"\bCACHE\['batch'\]\[7\]$")
def keys(make, then):
    global CACHE
    CACHE = {"batch": {7: make()}}
    then()


@plant(r"\bKEYED\.keys\(\)$")
def key_of_a_dict(make, then):
    global KEYED
    KEYED = {make(): 1}
    then()


@plant(r"\bKEYS\[1, 2\]$")
def key_that_is_no_text(make, then):
    global KEYS
    KEYS = {(1, 2): make()}
    then()


@plant(r"\bMEMBERS\{\.\.\.\}$")
def in_a_set(make, then):
    global MEMBERS
    MEMBERS = {make()}
    then()


class Registry:
    kept = []


@plant(r"^class (held_plants\.)?Registry\.kept\[0\]$")
def class_attribute(make, then):
    Registry.kept.append(make())
    then()


class Slotted:
    __slots__ = ("x", "y")


@plant(r"\bSLOTTED\.y$")
def slots(make, then):
    global SLOTTED
    SLOTTED = Slotted()
    SLOTTED.y = make()
    then()


@dataclasses.dataclass
class Record:
    a: int
    kept: object


Pair = collections.namedtuple("Pair", "left right")


@plant(r"\bRECORDS\[1\]\.kept\.right$")
def dataclass_with_a_namedtuple(make, then):
    global RECORDS
    RECORDS = [None, Record(1, Pair(1, make()))]
    then()


@dataclasses.dataclass(slots=True)
class Slim:
    kept: object


@plant(r"\bSLIM\.kept$")
def dataclass_with_slots(make, then):
    global SLIM
    SLIM = Slim(make())
    then()


class Listed(list):
    pass


@plant(r"\bLISTED\.extra$")
def attribute_of_a_list(make, then):
    global LISTED
    LISTED = Listed([1])
    LISTED.extra = make()
    then()


@plant(r"\bLAST\[2\]$")
def in_a_deque(make, then):
    global LAST
    LAST = collections.deque([1, 2, make()], maxlen=5)
    then()


@plant(r"\bCHAINED\.maps\[1\]\['x'\]$")
def in_a_chain_map(make, then):
    global CHAINED
    CHAINED = collections.ChainMap({}, {"x": make()})
    then()


@plant(r"\bNAMED\.x$")
def simple_namespace(make, then):
    global NAMED
    NAMED = types.SimpleNamespace(x=make())
    then()


@plant(r"\bMODULE\.kept$|^planted_module\.kept$")
def module_made_by_hand(make, then):
    global MODULE
    MODULE = types.ModuleType("planted_module")
    MODULE.kept = make()
    then()


# ---- functions ---------------------------------------------------------------------------------------------------------

@plant(r"\bCLOSED\.closure\['x'\]$")
def closure(make, then):
    global CLOSED
    def outer():
        x = make()
        return lambda: x
    CLOSED = outer()
    then()


@plant(r"\bDEFAULTED\.__defaults__\[0\]$")
def default_argument(make, then):
    global DEFAULTED
    DEFAULTED = (lambda v: lambda a=v: a)(make())
    then()


@plant(r"\bONLY\.__kwdefaults__\['a'\]$")
def default_of_a_keyword(make, then):
    global ONLY
    ONLY = (lambda v: lambda *, a=v: a)(make())
    then()


@plant(r"\bPARTIAL\.args\[0\]$")
def partial(make, then):
    global PARTIAL
    PARTIAL = functools.partial(print, make())
    then()


@plant(r"\bBOUND\.__self__\.x$")
def bound_method(make, then):
    global BOUND
    class Holder:
        def act(self):
            pass
    holder = Holder()
    holder.x = make()
    BOUND = holder.act
    del holder
    then()


@functools.lru_cache(None)
def cached(make):
    return make()


@plant(r"\bcached\b")
def lru_cache(make, then):
    cached(make)
    then()
    cached.cache_clear()


@plant(r"^local 'x' of suspended \S*loop \w+\.py:\d+ in (held_plants\.)?GENERATOR$")
def generator(make, then):
    global GENERATOR
    def loop():
        x = make()  # noqa: F841
        yield 1
    GENERATOR = loop()
    next(GENERATOR)
    then()


@plant(r"local 'ahead' of suspended \S*prefetch \w+\.py:\d+ in |^local 'ahead' of ")
def iterator_that_prefetches(make, then):
    def prefetch():
        for _ in range(2):
            ahead = make() if _ == 0 else ahead  # noqa: F821
            yield _
    loader = prefetch()
    for _ in loader:
        then()
        break


@plant(r"local 'x' of suspended \S*worker \w+\.py:\d+ in ")
def coroutine(make, then):
    async def worker():
        x = make()  # noqa: F841
        await asyncio.sleep(3600)

    async def main():
        task = asyncio.ensure_future(worker())
        await asyncio.sleep(0)
        then()
        task.cancel()
    asyncio.run(main())


# ---- errors ------------------------------------------------------------------------------------------------------------

def fails(make):
    x = make()  # noqa: F841
    raise ValueError


@plant(r"^local 'x' of fails \w+\.py:\d+ in the traceback of (held_plants\.)?KEPT_ERROR$")
def stored_error(make, then):
    global KEPT_ERROR
    try:
        fails(make)
    except ValueError as e:
        KEPT_ERROR = e
    then()


@plant(r"^local 'x' of fails \w+\.py:\d+ in the traceback of local 'error' of error_with_a_name \w+\.py:\d+$")
def error_with_a_name(make, then):
    try:
        fails(make)
    except ValueError as error:
        then()
        del error
        return


@plant(r"^local 'x' of fails \w+\.py:\d+ in the traceback of the \w+(\.__context__)? that is handled$")
def error_without_a_name(make, then):
    try:
        fails(make)
    except ValueError:
        then()


@plant(r"^local 'x' of fails \w+\.py:\d+ in the traceback of (held_plants\.)?WRAPPED\.__(context|cause)__$")
def cause_of_an_error(make, then):
    global WRAPPED
    try:
        try:
            fails(make)
        except ValueError as e:
            raise KeyError from e
    except KeyError as e:
        WRAPPED = e
    then()


@plant(r"^local 'x' of fails \w+\.py:\d+ in the traceback of sys\.last_value$")
def last_value(make, then):
    try:
        fails(make)
    except ValueError as e:
        sys.last_value = e
    then()
    del sys.last_value


@plant(r"\bARGUED\.args\[0\]$")
def argument_of_an_error(make, then):
    global ARGUED
    ARGUED = ValueError(make())
    then()


# ---- libraries ---------------------------------------------------------------------------------------------------------

@plant(r"\bBATCHES\.queue\[0\]\[1\]$")
def in_a_queue(make, then):
    global BATCHES
    BATCHES = queue.Queue()
    BATCHES.put((0, make()))
    then()


@plant(r"\bWEAK\.data\[<(weakref|ReferenceType|KeyedRef)>\]$")
def weak_key_dictionary(make, then):
    global WEAK, KEY
    KEY = Thing()
    WEAK = weakref.WeakKeyDictionary()
    WEAK[KEY] = make()
    then()


@plant(r"^context variable 'planted'( AND |$)")
def context_variable(make, then):
    variable = contextvars.ContextVar("planted")
    variable.set(make())
    then()


@plant(r"\bFUTURE\._result$")
def future(make, then):
    global FUTURE
    FUTURE = concurrent.futures.Future()
    FUTURE.set_result(make())
    then()


@plant(r"_registry\[<finalize>\]\.args\[0\]$|finalize")
def finalizer(make, then):
    global FINAL
    FINAL = Thing()
    weakref.finalize(FINAL, print, make()).atexit = False
    then()


@plant(r"\bPYOBJECT\.")
def object_of_ctypes(make, then):
    global PYOBJECT
    PYOBJECT = ctypes.py_object(make())
    then()


# ---- programs that look back -----------------------------------------------------------------------------------------

class Hostile:
    """Whoever calls into it ends the program."""
    def __init__(self, x):
        object.__setattr__(self, "x", x)

    def __getattr__(self, name):
        raise SystemExit("the program's __getattr__ was called")

    @property
    def __dict__(self):
        raise SystemExit("the program's __dict__ was called")

    @property
    def __class__(self):
        raise SystemExit("the program's __class__ was called")

    def __eq__(self, other):
        raise SystemExit("the program's __eq__ was called")

    def __hash__(self):
        raise SystemExit("the program's __hash__ was called")

    def __repr__(self):
        raise SystemExit("the program's __repr__ was called")


@plant(r"\bHOSTILE\.")
def hostile_object(make, then):
    global HOSTILE
    HOSTILE = Hostile(make())
    then()


class Meta(type):
    def __getattribute__(cls, name):
        if name == "__mro__" or name == "__dict__":
            raise SystemExit(f"the program's metaclass was asked for {name}")
        return super().__getattribute__(name)


@plant(r"\bMETA\.x$")
def hostile_metaclass(make, then):
    global META
    META = Meta("Made", (), {})()
    META.x = make()
    then()


# ---- several, and none -----------------------------------------------------------------------------------------------

@plant(r"\bONE\[0\] AND (\w+\.)?TWO\['k'\]$")
def two_holders(make, then):
    global ONE, TWO
    x = make()
    ONE, TWO = [x], {"k": x}
    del x
    then()


@plant(r"\bLINKED\.next\.\.\.x$")
def end_of_a_list_of_objects(make, then):
    global LINKED
    LINKED = end = Thing()
    for _ in range(5):
        end.next = Thing()
        end = end.next
    end.x = make()
    del end
    then()


@plant(r"^local 'cell' of cell_of_another_call \w+\.py:\d+ AND (held_plants\.)?KEEPER\.closure\['cell'\]$|"
       r"^(held_plants\.)?KEEPER\.closure\['cell'\] AND local 'cell' of cell_of_another_call \w+\.py:\d+$")
def cell_of_another_call(make, then):
    global KEEPER
    cell = make()
    KEEPER = (lambda cell: lambda: cell)(cell)
    then()
    return lambda: cell


@plant(r"^<\w+>(\.other)*(\.big|\['big'\]) in a cycle that only the collector frees \(Thing(, dict)?\): gc\.collect\(\)$")
def cycle(make, then):
    a, b = Thing(), Thing()
    a.other, b.other, a.big = b, a, make()
    del a, b
    then()


@plant(r"a running call or C code|of a running call or of C code$")
def value_stack(make, then):
    return [make(), then()]


@plant(r"a running call or (of )?C code")
def function_at_exit(make, then):
    kept = functools.partial(str, make())
    atexit.register(kept)
    del kept
    then()
    gc.collect()


def run(make, then, wanted=tuple(EXPECT)):
    """Calls then() while all wanted plants are there. make(name) makes a block."""
    if not wanted:
        then()
        return
    EXPECT[wanted[0]][0](lambda: make(wanted[0]), lambda: run(make, then, wanted[1:]))
