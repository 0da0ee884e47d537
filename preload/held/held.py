# SPDX-License-Identifier: MIT
"""Which objects of a Python program refer to its device memory. held.c runs this text inside of the program, in a
namespace of its own that has `modules` (sys.modules), `passes` and `quiet` (still.c), and `place_of` (storages.c); nothing imports
it, and nothing of it stays.

    look(blocks, error, seconds, objects) ─► rows: how many bytes, who allocated them, what they are, what holds them
         roots ─► Walk ─► Graphs ─► sort_lost ─► find_storages ─► settle (Namer) ─► by_block

The walk goes downwards, by gc.get_referents, from what a person can name: locals of running functions, globals, the
frames that an exception has left. (gc.get_referrers does not find the locals of running functions.) Then come the
graphs of autograd, and what nothing has reached: kept by a cycle, or from where Python shows nothing.

Code of the program is not called: types are asked by their own descriptors, so no __getattr__, __class__, property,
metaclass, __torch_function__ or unpack hook of the program runs. The documented `_saved_*` of graphs would run such
hooks. What is counted and not found is told as such.
"""
# pylint: disable=undefined-variable,too-many-lines
collections, gc, operator, os, sys, time, types = (
    modules[name] for name in ("collections", "gc", "operator", "os", "sys", "time", "types"))

CHUNK = 64           # objects whose referents are asked for at once
STRIDE = 4096        # children of a chunk between two looks at the bounds
PATHS = 400          # storages of which paths are looked for, the largest first
HOLDERS = 6          # of a row
PLACES = 2           # of them those that have a module or an optimizer
ROWS = 200
LISTED = 1 << 16     # objects of the collector between two looks at the time
LISTING = 20e-9      # seconds of CPU to list all objects, for each block of the interpreter's allocator: an object has some three
TEXT = 200           # characters of a path
LEVELS = 60          # of a path
FIELDS = 4           # of a key that is a tuple
PARTS = 0.3, 0.6, 0.8, 0.9 # of the time: most to list all objects, when the walk ends, when what it has not reached is sorted, when paths are known
KEYS = 3             # keys of a container that are told one by one
REPEATS = 3          # times that a part of a path stands there
OPTIMIZED = 0x1      # a code object's flag: its locals are no dict of the program's
LARGE = 10_000       # members of a container that waits
SLACK = 511          # bytes by which a block may be larger than its storage
SIZED = (list, dict, tuple, set, frozenset)
SUSPENDS = 0x2a0     # its flags if it is a generator, a coroutine, or both

mro_of = type.__dict__["__mro__"].__get__
dict_of = type.__dict__["__dict__"].__get__
name_of = type.__dict__["__qualname__"].__get__
partial = getattr(modules.get("functools"), "partial", None)
SUSPENDED = {types.GeneratorType: "gi_frame", types.CoroutineType: "cr_frame", types.AsyncGeneratorType: "ag_frame"}
PLAIN = (str, int, bool, float, bytes, type(None))
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3")  # as oom.c knows them


# ---- frameworks ----------------------------------------------------------------------------------------------------

class Arrays:
    """What is asked of arrays without graphs, which are CuPy's: by descriptors of its classes, which are C's. An array has a
    pointer, and that the memory in which it lies; a view has the array, or its pointer. Others are left out: where JAX's tells
    its address it may wait for a computation, which may wait for this thread (DESIGN.md)."""
    graphs, runs = True, False  # there are none to read
    keeps = True                # an array's object keeps the array
    children, tables = "_modules", ()  # of a module, if there are modules
    hidden = ()  # types of containers that the collector does not know if they have arrays alone
    silent = "; CuPy's pool keeps what was freed"  # what no object shows

    def __init__(self):
        core, memory = modules.get("cupy._core.core"), modules.get("cupy.cuda.memory")
        self.array = getattr(core, "_ndarray_base", None) or getattr(core, "ndarray", None)  # older ones
        self.pointer, self.memory = getattr(memory, "MemoryPointer", None), getattr(memory, "BaseMemory", None)
        self.of_objects = getattr(modules.get("numpy"), "ndarray", None)
        self.off = modules["contextlib"].nullcontext

    def kind(self, t):
        """t(ensor), which is an array, too, s(torage), a(rray of objects) or ""."""
        mro = mro_of(t)
        for kind, of in (("t", self.array), ("s", self.pointer), ("s", self.memory), ("a", self.of_objects)):
            if of in mro:
                return kind
        return ""

    def is_array(self, obj):
        """Of CuPy's: an array, a pointer or memory."""
        mro = mro_of(type(obj))
        return self.array in mro or self.pointer in mro or self.memory in mro

    def know(self, storages):
        """All objects of storages."""

    def storage(self, obj):
        """(address, bytes, references of C++'s) on a device, or None."""
        try:
            obj = self.array.data.__get__(obj) if self.array in mro_of(type(obj)) else obj
            obj = self.pointer.mem.__get__(obj) if self.pointer in mro_of(type(obj)) else obj
            address, size = self.memory.ptr.__get__(obj), self.memory.size.__get__(obj)
        except (TypeError, AttributeError):
            return None
        return (address, size, 0) if address and size else None

    of_storage = storage

    def count_native(self, tensor):
        """References to a tensor's Python object that stand for all of C++'s: one at most."""
        return 0

    def extra(self, obj, kind):
        """References that gc does not show: [(name, object)]."""
        is_read = kind == "a" and obj.dtype.hasobject and obj.size < 1 << 20
        return [(f".flat[{i}]", o) for i, o in enumerate(obj.flat) if o is not None] if is_read else []

    def grad_fns(self, tensors):
        return ()

    def saved(self, nodes):
        return ()

    def joined(self, pairs):
        """[((address, bytes, references of C++'s) or None, object)], those of one storage with the same address."""
        return pairs

    def states(self, own):
        """(name, tensor) of what an optimizer with this dict keeps."""
        for state in values_of(own.get("state")):
            yield from ((f".state['{name}']", tensor) for name, tensor in items_of(state) if self.kind(type(tensor)) == "t")


class Paddle(Arrays):
    """What is asked of PaddlePaddle's tensors: address, shape and size of an element, by functions of C's, which neither wait nor call.
    Gradients and graphs are in no object of Python's."""
    children, hidden, silent = "_sub_layers", (dict, tuple), "; graphs and gradients of PaddlePaddle are in none"

    def __init__(self):
        super().__init__()
        paddle = modules["paddle"]
        self.tensor, self.module, self.optimizer = paddle.Tensor, paddle.nn.Layer, paddle.optimizer.Optimizer
        self.address, self.shape, self.element = (dict_of(self.tensor).get(name) for name in ("data_ptr", "shape", "element_size"))

    def kind(self, t):
        mro = mro_of(t)
        for kind, of in (("t", self.tensor), ("m", self.module), ("o", self.optimizer)):
            if of in mro:
                return kind
        return super().kind(t)

    def storage(self, obj):
        if self.is_array(obj):
            return super().storage(obj)
        try:
            address, size = self.address(obj), self.element(obj)
            for length in self.shape.__get__(obj):
                size *= length
        except (RuntimeError, TypeError, AttributeError, ValueError):
            return None
        return (address, size, 0) if address and size > 0 else None

    def joined(self, pairs):
        """A view is a tensor like any other: what overlaps lies in one storage."""
        found, whole = [], {}
        for address, size, _ in sorted({raw for raw, _ in pairs if raw}):
            if found and address < found[-1][0] + found[-1][1]:
                found[-1][1] = max(found[-1][1], address + size - found[-1][0])
            else:
                found.append([address, size, 0])
            whole[address] = found[-1]
        return [(raw and tuple(whole[raw[0]]), obj) for raw, obj in pairs]

    def states(self, own):
        for name, of in items_of(own.get("_accumulators")):
            yield from ((f"._accumulators['{name}']{key_text(key)}", tensor) for key, tensor in items_of(of))
        yield from ((f"._master_weights{key_text(key)}", tensor) for key, tensor in items_of(own.get("_master_weights")))


class Torch(Arrays):
    """What is asked of PyTorch. `graphs`: it has the names by which graphs are read, which are not all documented.
    `runs`: neither graphs nor gradients are read (backward_runs), or no longer."""

    def __init__(self):
        super().__init__()
        self.torch = torch = modules["torch"]
        self.base = torch._C.TensorBase
        self.storages = torch.UntypedStorage
        self.module, self.optimizer = torch.nn.Module, torch.optim.Optimizer
        self.tables = [getattr(torch.nn, name, None) for name in ("ModuleDict", "ParameterDict")]
        self.saved_type = getattr(getattr(torch._C, "_autograd", None), "SavedTensor", None)
        self.graphs = hasattr(self.saved_type, "data") and hasattr(self.saved_type, "unpack_hook")
        self.uses = getattr(self.base, "_use_count", None)
        self.storage_uses = getattr(torch._C, "_storage_Use_Count", None)
        self.in_cpp = getattr(torch._C, "_storage_address", None)
        self.with_objects = set()  # addresses in C++ of storages that have an object of Python's
        self.off = torch._C.DisableTorchFunction  # and no mode, as that of torch.set_default_device
        self.saved_names = {}
        self.runs = False
        self.keeps = not hasattr(torch._C, "_StorageMeta")  # from 2.10 on; before, a tensor in C++ may have its object instead
        self.getters = {}

    def read(self, get, objects):
        """[get(object), ...] by a function of C's, None where it has failed. Empty: other threads forbid it, from here on."""
        found = None if self.runs else quiet(get, objects)
        self.runs = self.runs or found is None
        return found or []

    def members(self, objects, name):
        if name not in self.getters:
            self.getters[name] = operator.attrgetter(name)
        return self.read(self.getters[name], objects)

    def kind(self, t):
        """t(ensor), s(torage), v: a saved tensor, a(rray of objects), n(ode of a graph), m(odule), o(ptimizer) or ""."""
        mro = mro_of(t)
        for kind, of in (("t", self.base), ("s", self.storages), ("v", self.saved_type),
                         ("m", self.module), ("o", self.optimizer)):
            if of in mro:
                return kind
        if super().kind(t):
            return super().kind(t)
        is_node = any("next_functions" in dict_of(k) for k in mro) and dict_of(t).get("__module__") != "torch.autograd.graph"
        return "n" if is_node else ""

    def know(self, storages):
        self.with_objects.update(s._cdata for s in storages if not self.is_array(s))

    def storage(self, tensor):
        if self.is_array(tensor):
            return super().storage(tensor)
        try:
            base = self.base
            if not base.is_cuda.__get__(tensor) or base.layout.__get__(tensor) is not self.torch.strided:
                return None
            at = self.in_cpp(tensor) if place_of and self.in_cpp and self.storage_uses else 0
            if not at or at in self.with_objects:
                return self.of_storage(base.untyped_storage(tensor))
            found = place_of(tensor)
            return found and (*found, self.storage_uses(at))
        except (RuntimeError, NotImplementedError, TypeError, AttributeError):
            return None

    def of_storage(self, storage):
        if self.is_array(storage):
            return super().storage(storage)
        if storage.device.type != "cuda":
            return None
        address, size = storage.data_ptr(), storage.nbytes()
        uses = self.storage_uses(storage._cdata) - 1 if self.storage_uses else 0  # `storage` is one itself
        return (address, size, uses) if address and size else None

    def count_native(self, tensor):
        return int(self.uses is not None and not self.is_array(tensor) and self.uses(tensor) > 1)

    def extra(self, obj, kind):
        base, found = self.base, super().extra(obj, kind)
        if kind == "t" and not self.is_array(obj):
            if not self.runs and (base.is_leaf.__get__(obj) or base.retains_grad.__get__(obj)):
                found += [(".grad", o) for o in self.read(base.grad.__get__, [obj])]
            found.append(("._base", base._base.__get__(obj)))
            found.append(("._backward_hooks", base._backward_hooks.__get__(obj)))
        elif kind == "v" and self.graphs and not self.runs:
            found += [(".data", o) for o in self.members([obj], "data")]
        return [(name, o) for name, o in found if o is not None]

    def grad_fns(self, tensors):
        return self.read(self.base.grad_fn.__get__, tensors)

    def saved(self, nodes):
        """(node, name, object) of what nodes keep, as it lies there: no unpack hook runs."""
        by_kind = collections.defaultdict(list)
        for node in nodes:
            by_kind[type(node)].append(node)
        for kind, same in by_kind.items():
            if name_of(kind) == "AccumulateGrad":
                yield from ((n, "variable", o) for n, o in zip(same, self.members(same, "variable")))
            for name in [n for k in mro_of(kind) for n in dict_of(k) if n.startswith("_raw_saved_")]:
                found = [(node, one) for node, value in zip(same, self.members(same, name))  # None: a backward pass has let it go
                         for one in (value if type(value) in (tuple, list) else (value,)) if type(one) is self.saved_type]
                kept = [one for _, one in found]
                for what, member in (("", "data"), (" (unpack hook)", "unpack_hook")):
                    yield from ((node, name[11:] + what, o) for (node, _), o in zip(found, self.members(kept, member)))


# ---- names -----------------------------------------------------------------------------------------------------------

touched, copies = {}, set()  # frames whose locals were read, ids of the copies that they have then


def frame_locals(frame):
    """Locals by name. Up to CPython 3.12, reading f_locals leaves a copy in the frame that keeps every value alive until
    the function returns: it is emptied, at once or after the walk, unless the program holds it, too (by locals())."""
    found = frame.f_locals
    result = dict(found)
    if type(found) is dict and frame.f_code.co_flags & OPTIMIZED:
        touched[id(frame)] = frame
        copies.add(id(found))
        if sys.getrefcount(found) <= 3:
            found.clear()
    return result


def forget_locals():
    """Copies of an earlier walk are among the objects of this one, and are emptied when its lists are gone."""
    while touched:
        found = touched.popitem()[1].f_locals
        if sys.getrefcount(found) <= 3:
            found.clear()


def instance_dict(obj):
    for kind in mro_of(type(obj)):
        descriptor = dict_of(kind).get("__dict__")
        if type(descriptor) is types.GetSetDescriptorType:
            try:
                return descriptor.__get__(obj)
            except (TypeError, AttributeError):
                return None
    return None


def space_of(obj):
    """The names in a module or a class, or None."""
    mro = mro_of(type(obj))
    if types.ModuleType in mro:
        return dict_of(types.ModuleType)["__dict__"].__get__(obj)
    return dict_of(obj) if type in mro else None


def key_word(key, inside=False):
    t, mro = type(key), mro_of(type(key))
    if t in PLAIN:
        text = repr(key)
    elif tuple in mro and not inside and 0 < tuple.__len__(key) <= FIELDS:
        text = ", ".join(key_word(k, True) for k in tuple.__iter__(key))
    else:
        text = name_of(key) if type in mro else f"<{name_of(t)}>"
    return text if len(text) < 60 else text[:56] + "...'"


def key_text(key):
    return f"[{key_word(key)}]"


def place(frame, line=None):
    code = frame.f_code
    return f"{getattr(code, 'co_qualname', code.co_name)} {os.path.basename(code.co_filename)}:{line or frame.f_lineno}"


class Local:
    """A local of a frame that an object refers to: a path begins anew there."""
    __slots__ = ("head", "after")

    def __init__(self, name_and_frame):
        name, frame = name_and_frame
        word = "suspended " if frame.f_code.co_flags & SUSPENDS else ""
        self.head, self.after = f"local {name!r}", f" of {word}{place(frame)}"


def cell_value(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return None


def names(obj, api, kind):
    """(name, object) of the references of obj that have a name, the better name first. A name is a text, or a function
    and its argument: of a large container one is wanted."""
    t, mro = type(obj), mro_of(type(obj))
    if dict in mro:
        yield from (((key_text, k), v) for k, v in dict.items(obj))
        yield from ((".keys()", k) for k in dict.keys(obj))
    elif tuple in mro or list in mro:
        fields = getattr(t, "_fields", None) if tuple in mro else None
        for i, value in enumerate((tuple if tuple in mro else list).__iter__(obj)):
            yield (f".{fields[i]}" if type(fields) is tuple and i < len(fields) else (key_text, i)), value
    elif set in mro or frozenset in mro:
        yield from (("{...}", v) for v in (set if set in mro else frozenset).__iter__(obj))
    elif collections.deque in mro:
        yield from (((key_text, i), v) for i, v in enumerate(collections.deque.__iter__(obj)))
    elif t is types.CellType:
        yield "", cell_value(obj)
    elif t is types.FunctionType:
        for name in ("__closure__", "__defaults__", "__kwdefaults__", "__dict__", "__annotations__"):
            yield f".{name}", getattr(obj, name, None)
    elif t is types.MethodType:
        yield from ((".__self__", obj.__self__), (".__func__", obj.__func__))
    elif t is types.FrameType:
        yield from (((Local, (n, obj)), v) for n, v in frame_locals(obj).items())
    elif t is types.TracebackType:
        yield from (("", obj.tb_frame), ("", obj.tb_next))
    elif t in SUSPENDED and getattr(obj, SUSPENDED[t]) is not None:
        frame = getattr(obj, SUSPENDED[t])
        yield "", frame  # up to CPython 3.10 gc shows it
        yield from (((Local, (n, frame)), v) for n, v in frame_locals(frame).items())
    elif BaseException in mro:
        for name in ("__traceback__", "__context__", "__cause__", "args"):
            yield f".{name}", dict_of(BaseException)[name].__get__(obj)
    elif partial in mro:
        yield from ((f".{name}", dict_of(partial)[name].__get__(obj)) for name in ("func", "args", "keywords"))
    own = None if type in mro else instance_dict(obj)
    if own is not None:
        yield from ((f".{n}" if type(n) is str else f".__dict__{key_text(n)}", v) for n, v in own.items())
        yield ".__dict__", own
    for k in mro:
        for name, member in dict_of(k).items():
            if type(member) is types.MemberDescriptorType:
                try:
                    yield f".{name}", member.__get__(obj)
                except AttributeError:
                    pass
    yield from api.extra(obj, kind)


def importable(obj):
    """A class or function, by the name under which its module has it; or None."""
    t = type(obj)
    if type in mro_of(t):
        module, qualname = dict_of(obj).get("__module__"), name_of(obj)
    elif t in FUNCTIONS:
        module, qualname = obj.__module__, obj.__qualname__
    else:
        return None
    here = modules.get(module) if type(module) is str else None
    for part in qualname.split("."):
        space = space_of(here)
        here = space.get(part) if space is not None else None
    if here is not obj:
        return None
    prefix = "" if module == "__main__" else f"{module}."
    return f"{'function' if t in FUNCTIONS else 'class'} {prefix}{qualname}"


INSIDE = ("_modules", "_sub_layers", "_parameters", "_buffers")  # of a module: its children are its attributes
OWNERS = ("m", "o")
FRAMES = (types.FrameType, types.TracebackType)


class Path:
    """The text of a way to an object: what has a name (head), the way from there (tail), and where the name is (after)."""
    __slots__ = ("head", "tail", "after", "root", "is_local", "is_owned", "variable")

    def __init__(self, head, tail, after, root, is_local=False, is_owned=False, variable=None):
        self.head, self.tail, self.after, self.root = head, tail, after, root
        self.is_local = is_local  # the object itself is a local of a running function
        self.is_owned = is_owned  # the way goes through a module or an optimizer
        self.variable = variable  # (name, id of a function's code): it is shared with the function that has made this one

    def text(self):
        text = self.head + self.tail + self.after
        return text if len(text) <= TEXT else text[:TEXT // 2 - 2] + "..." + text[-TEXT // 2:]

    def kind(self):
        return self.root.kind if self.root else None

    def without(self, ends):
        """The same without the first of these endings that it has."""
        end = next((e for e in ends if self.tail.endswith(e)), "")
        return Path(self.head, self.tail.removesuffix(end), self.after, self.root)


def shorter(parts, repeated):
    """".next.next.next.next" as ".next...": of a part that follows itself REPEATS times or more, one, and a note of it."""
    out, n = [], 0
    while n < len(parts):
        for length in (1, 2, 3):
            unit, times = parts[n:n + length], 1
            while parts[n + times * length:n + (times + 1) * length] == unit:
                times += 1
            if times >= REPEATS and any(p[0] == "." for p in unit):
                out.append("".join(unit) + "...")
                repeated.add("".join(unit))
                n += times * length
                break
        else:
            out.append(parts[n].removeprefix(".") if out and out[-1].endswith("...") else parts[n])
            n += 1
    return "".join(out)


def longer(text, unit, times):
    """The text that stands for one in which the unit follows itself a few times, less than REPEATS."""
    before, _, rest = text.partition(f"{unit}...")
    return f"{before}{unit * times}{'.' * (rest[:1].isalnum() or rest[:1] == '_')}{rest}"


def child_text(name):
    return f"[{name}]" if name.isdigit() else f".{name}"


def join(head, after, chain, walk, root=None):
    """The Path whose chain[-1] is named by head and after, and whose end is chain[0]."""
    parts, dotted = [], False
    for n in range(len(chain) - 1, 0, -1):
        up, here = chain[n], chain[n - 1]
        if n > 1 and type(up) is types.FunctionType and here is up.__closure__:
            variable = [v for v, c in zip(up.__code__.co_freevars, here) if c is chain[n - 2]]
            parts.append(f".closure[{variable[0]!r}]" if variable else ".closure")
            continue
        if type(here) is types.CellType and type(up) is tuple and parts and parts[-1].startswith(".closure["):
            continue
        part = walk.name(up, here)
        if type(part) is Local:
            is_error = bool(parts) and parts[-1] == ".__traceback__"
            outer = head + shorter(parts[:-1] if is_error else parts, walk.repeated)
            outer = f" in {'the traceback of ' * is_error}{outer}" if is_error or head[0] != "<" else ""  # "<enumerate>" is no name
            head, after, parts, dotted = part.head, part.after + outer + after, [], False
            continue
        if dotted and part.startswith("['"):
            part = child_text(part[2:-2])
        dotted = part == ".__dict__" or part[1:] in INSIDE
        if part and not dotted:
            parts.append(part)
    is_local = root is not None and root.kind == "local" and len(chain) == 1
    variable = None
    if len(chain) > 3 and type(chain[1]) is types.CellType and type(chain[3]) is types.FunctionType:
        code = chain[3].__code__
        variable = next(((v, id(code)) for v, c in zip(code.co_freevars, chain[2]) if c is chain[1]), None)
    return Path(head, shorter(parts, walk.repeated), after, root, is_local, any(walk.kind(o) in OWNERS for o in chain[1:]), variable)


# ---- the walk ---------------------------------------------------------------------------------------------------------

class Root:
    """Objects that a person can name: before + name, and where that is (after). kind: global, context, local, library (a
    local of a library's function), handled (an error), graph."""
    __slots__ = ("before", "after", "items", "kind", "node", "code", "number")

    def __init__(self, before, after, items, kind, node=None, code=None):
        self.before, self.after, self.items, self.kind, self.node, self.code = before, after, items, kind, node, code


class Kinds(dict):
    """The kind of each type, asked for once: Torch.kind, or one of OWN."""
    OWN = ((types.TracebackType, "b"), (BaseException, "e"), (types.ModuleType, "M"))

    def __init__(self, api):
        super().__init__()
        self.api = api

    def __missing__(self, t):
        self[t] = kind = next((k for of, k in self.OWN if of in mro_of(t)), None) or self.api.kind(t)
        return kind


class Walk:
    """Everything that roots reach, breadth first, each object once, with who has reached it."""

    def __init__(self, api, deadline, most):
        self.api, self.deadline, self.most = api, deadline, most
        self.seen = {}      # id ─► the chunk that it was reached from, or ~the root
        self.objects = []   # they are held, so that ids stay valid
        self.large = []     # containers of many, which wait until all others are walked
        self.chunks = []    # (first, end) in objects
        self.roots = []
        self.skip = set()   # ids that no path goes through
        self.wheres = {}    # id of a tensor, storage, module or optimizer ─► every chunk and root that refers to it
        self.edges = {}     # the same ─► references from Python that were found
        self.native = set() # of them those that C++ refers to
        self.kinds = Kinds(api)
        self.of_kind = collections.defaultdict(list)  # objects of each kind that has a letter
        self.index = {}     # chunk ─► {id of a child: [its parents]}, made when a path goes through
        self.cut = False
        self.repeated = set() # parts of paths that stand there once for many

    def kind(self, obj):
        return self.kinds[type(obj)]

    def meet(self, obj, where, edge):
        """A reference to obj was found."""
        i, kind = id(obj), self.kinds[type(obj)]
        if i not in self.seen:
            if i in self.skip or not (kind or gc.is_tracked(obj) or type(obj) in self.api.hidden):
                return
            self.seen[i] = where
            (self.large if type(obj) in SIZED and len(obj) > LARGE else self.objects).append(obj)
            if kind:
                self.of_kind[kind].append(obj)
            if kind and kind in "tsmo":
                self.wheres[i], self.edges[i] = [], 0
        if i in self.wheres:
            self.wheres[i].append(where)
            self.edges[i] += edge
            if not edge:
                self.native.add(i)

    def referents(self, objects):
        """What objects refer to, except modules: the state of _asyncio in CPython 3.12 has a list of objects that are freed
        already, which a reference would bring back and free again. What is in modules are roots."""
        return gc.get_referents(*[o for o in objects if self.kinds[type(o)] != "M"])

    def is_late(self, deadline):
        is_late = time.monotonic() > deadline
        self.cut = self.cut or is_late
        return is_late

    def is_over(self):
        return self.is_full(len(self.objects)) or self.is_late(self.deadline)

    def is_full(self, count):
        self.cut = self.cut or count > self.most
        return count > self.most

    def run(self, roots, *more):
        at, seen, objects, wheres, kinds = len(self.objects), self.seen, self.objects, self.wheres, self.kinds
        objects += more
        for root in roots:
            if self.is_over():
                return
            root.number, root.items = len(self.roots), list(root.items)
            self.roots.append(root)
            for _, value in root.items:
                self.meet(value, -len(self.roots), 1)
        while at < len(objects) and not self.is_over():
            part = objects[at:at + CHUNK]
            chunk, at = len(self.chunks), at + len(part)
            self.chunks.append((at - len(part), at))
            for n, child in enumerate(self.referents(part)):
                if n % STRIDE == STRIDE - 1 and self.is_over():
                    break
                i = id(child)
                if i in wheres or i not in seen and (gc.is_tracked(child) or kinds[type(child)] or type(child) in self.api.hidden):
                    self.meet(child, chunk, 1)
            for obj in part:
                if kinds[type(obj)]:
                    for _, child in self.extra(obj):
                        self.meet(child, chunk, kinds[type(obj)] == "a")  # the others are references of C++'s

    def run_large(self):
        """The smaller ones first: what holds most is more often named by a short path than kept among a million."""
        while self.large and not self.is_over():
            self.large.sort(key=len, reverse=True)
            self.run((), self.large.pop())

    def extra(self, obj):
        """References that gc does not show, by name."""
        kind = self.kinds[type(obj)]
        return [(".__dict__", space_of(obj))] if kind == "M" else self.api.extra(obj, kind)

    def name(self, up, here):
        for name, child in names(up, self.api, self.kind(up)):
            if child is here or type(here) is types.CellType and child is not None and child is cell_value(here):
                return name if type(name) is str else name[0](name[1])
        if type(up) in FRAMES:
            return ""
        if type in mro_of(type(up)) and type(here) is dict:
            return ".__dict__"
        if self.kind(up) == "t" and self.kind(here) == "n":
            return ".grad_fn"
        if self.api.is_array(up) and self.api.is_array(here):
            return "._base"
        kind = name_of(type(up))
        return ".cache" if kind == "_lru_cache_wrapper" else f".<in {kind}>"

    def parents(self, obj, where):
        """What refers to obj: objects of a chunk, or one root."""
        if where < 0:
            return [self.roots[-where - 1]]
        if where not in self.index:
            index = self.index[where] = {}
            for up in self.objects[slice(*self.chunks[where])]:
                children = self.referents((up,)) + [o for _, o in self.extra(up)]
                children += values_of(instance_dict(up))  # which a look at it may have made since
                for i in map(id, children):
                    if i in self.seen:
                        ups = index.setdefault(i, [])
                        if not ups or ups[-1] is not up:
                            ups.append(up)
        return self.index[where].get(id(obj), [])

    def path(self, obj, up=None):
        """The Path from a root down to obj, through `up` if it is given; None: it goes through obj itself."""
        chain = [obj]
        for _ in range(LEVELS):
            here = chain[-1]
            if up is None:
                up = next(iter(self.parents(here, self.seen[id(here)]) if id(here) in self.seen else ()), None)
            if up is None:
                return join("?", "", chain, self)
            if type(up) is Root:
                name = next((n for n, v in up.items if v is here), "?")
                quote = "'" * up.before.endswith("'")
                return join(f"{up.before}{name}{quote}", up.after, chain, self, up)
            if up is obj:
                return None
            chain.append(up)
            text, up = importable(up), None
            if text:
                return join(text, "", chain, self)
        return join("...", "", chain, self)

    def holders(self, obj):
        """A Path through each object that refers to obj."""
        ups = [up for where in dict.fromkeys(self.wheres[id(obj)]) for up in self.parents(obj, where)]
        paths = [path for path in (self.path(obj, up) for up in ups) if path]
        shared = {(v, id(made)) for p in paths if p.is_local for v in p.root.code.co_cellvars if p.head == f"local {v!r}"
                  for made in p.root.code.co_consts}
        return [p for p in paths if p.variable not in shared]


# ---- roots ------------------------------------------------------------------------------------------------------------

def is_library(file):
    return type(file) is not str or file.startswith("<frozen") or any(f in file for f in LIBRARIES)


def of_frame(frame, line, after):
    kind = "library" if is_library(frame.f_code.co_filename) else "local"
    return Root("local '", f" of {place(frame, line)}{after}", list(frame_locals(frame).items()), kind, code=frame.f_code)


def frame_roots():
    """The functions that run now, of each thread the outermost first, and all of their frames."""
    threads = getattr(modules.get("threading"), "_active", {})
    roots, frames = [], []
    for ident, frame in sys._current_frames().items():
        name = (instance_dict(threads[ident]) or {}).get("_name", ident) if ident in threads else ident
        after, own = "" if name == "MainThread" else f", thread {name}", []
        while frame is not None:
            if frame.f_globals is not globals():  # a frame of ours in our own list would keep it all
                frames.append(frame)
                if frame.f_code.co_flags & OPTIMIZED:
                    own.append(of_frame(frame, None, after))
            frame = frame.f_back
        roots += own[::-1]
    return roots, frames


def pending_traceback(tracebacks, errors, frame):
    """Up to CPython 3.11 an exception's object is made before it has its traceback, which no exception refers to yet."""
    known = {id(b.tb_next) for b in tracebacks} | {id(dict_of(BaseException)["__traceback__"].__get__(e)) for e in errors}
    for b in tracebacks:
        if id(b) not in known and (b.tb_frame is frame or frame is None and b.tb_frame.f_back is None):
            return b
    return None


def traceback_roots(step):
    """The frames that an exception has left, and the objects that stand for them. They ran when it came."""
    roots, gone = [], []
    while step is not None:
        frame = step.tb_frame
        gone += [step, frame]
        if frame.f_code.co_flags & OPTIMIZED:
            roots.append(of_frame(frame, step.tb_lineno, ""))
        step = step.tb_next
    return roots, gone


def module_roots():
    own, libraries, spaces, seen = [], [], [], set()
    for name, module in list(modules.items()):
        space = space_of(module)
        if type(space) is not dict or id(space) in seen:
            continue
        spaces.append(space)
        seen.add(id(space))
        mine = name == "__main__" or not is_library(space.get("__file__"))
        root = Root("" if name == "__main__" else f"{name}.", "", space.items(), "global")
        (own if mine else libraries).append(root)
    return sorted(own, key=lambda r: r.before != ""), libraries, spaces


def context_root():
    context = modules["contextvars"].copy_context() if "contextvars" in modules else {}
    return Root("context variable '", "", [(v.name, x) for v, x in context.items()], "context")


def handled_root():
    """The errors that are being handled: they keep the frames that they left."""
    errors = [e[1] if type(e) is tuple else e for e in sys._current_exceptions().values()]  # of CPython 3.10 and 3.11: a tuple
    return Root("the ", " that is handled", [(name_of(type(e)), e) for e in errors if e is not None], "handled")


def backward_runs(caller, error):
    """Whether a backward pass runs: its threads write gradients and take graphs apart without the GIL. From here on `quiet`
    notices passes that begin. caller: the frame that an error of a backward pass has just reached: that pass is over."""
    gone = 0
    while caller is not None:
        if caller.f_code.co_name == "_engine_run_backward":
            if error is None:
                return True
            gone = 1
        caller, error = caller.f_back, None
    count = passes()  # -1: passes are not seen
    return not 0 <= count <= gone


# ---- graphs and what nothing reaches ----------------------------------------------------------------------------------

class Graphs:
    """The nodes of graphs that tensors and objects of Python hold."""

    def __init__(self, api, tensors, nodes, deadline):
        self.nodes, self.held, self.next = {}, {id(node): [node] for node in nodes}, {}
        found, self.cut = list(nodes), False
        for tensor, node in zip(tensors, api.grad_fns(tensors)):
            if node is not None:
                self.held.setdefault(id(node), []).append(tensor)
                found.append(node)
        while found and not self.cut:
            self.cut = time.monotonic() > deadline
            new = {id(node): node for node in found[-STRIDE:] if id(node) not in self.nodes}
            del found[-STRIDE:]
            self.nodes.update(new)
            for node, below in zip(new.values(), api.members(list(new.values()), "next_functions")):
                self.next[id(node)] = below = [n for n, _ in below or () if n is not None]
                found += below

    def forget(self):
        self.nodes, self.held, self.next = {}, {}, {}

    def owners(self, text_of, is_late):
        """{id of a node: the texts of all that keep it}; text_of(object) tells those of an object, until it is late."""
        need, owners, known = collections.Counter(id(n) for b in self.next.values() for n in b), {}, {}
        ready = [i for i in self.nodes if not need[i]]
        while ready and not self.cut:  # each node after all that need it
            self.cut = is_late()
            i = ready.pop()
            mine = owners.get(i, frozenset())
            if i in self.held:
                mine = owners[i] = mine | frozenset(t for o in self.held[i] for t in text_of(o))
            for n in self.next.get(i, ()):
                k = id(n)
                theirs = owners.get(k, mine)
                if theirs is not mine and theirs != mine:
                    theirs = known.setdefault((theirs, mine), theirs | mine)
                owners[k] = theirs
                need[k] -= 1
                if not need[k]:
                    ready.append(k)
        return owners


def cycle_types(start, parents, rest):
    """The names of the types of a cycle above rest[start], which there is."""
    way = [start]
    while way[-1] not in way[:-1]:
        ups = parents[way[-1]]
        way.append(next((up for up in ups if up in way), ups[0]))
    way = way[way.index(way[-1]) + 1:]
    spaces = {id(instance_dict(rest[n])) for n in way}
    return sorted({name_of(type(rest[n])) for n in way if id(rest[n]) not in spaces})[:KEYS]


def unreached(walk, live, deadline):
    """Objects that the walk has not reached; it is cut if they are too many, or it is late."""
    rest = []
    for at in range(0, len(live), LISTED):
        if walk.is_late(deadline) or walk.is_full(len(rest)):
            return []
        rest += [o for o in live[at:at + LISTED] if id(o) not in walk.seen and id(o) not in walk.skip]
    return rest


def parents_of(walk, rest, at, deadline):
    """{number in rest: the numbers of those that refer to it}; at: their ids' numbers."""
    parents = {}
    for n, up in enumerate(rest):
        if n % STRIDE == 0 and walk.is_late(deadline):
            return {}
        for child in walk.referents((up,)):
            if id(child) in at:
                parents.setdefault(at[id(child)], []).append(n)
    return parents


def sort_lost(walk, live, lonely, counted, deadline):
    """{id: (Path, kind)} of tensors that no root reaches. "outside": the end of the chain has references that no object
    shows; "cycle": there is none, so the collector would free it; "nothing": no object refers to the tensor. counted: ids of
    those that a list of each kind refers to, beside `live`."""
    rest = unreached(walk, live, deadline)
    probe = [[]]
    base = sys.getrefcount(probe[0]) - 1                      # what a call of getrefcount adds
    counts = [sys.getrefcount(rest[n]) - base - 2 - (id(rest[n]) in counted) for n in range(len(rest))]  # `live` and `rest`
    at = {id(o): n for n, o in enumerate(rest)}
    parents, out = parents_of(walk, rest, at, deadline), {}
    for tensor in lonely:
        if walk.is_late(deadline):
            return {}
        start = at.get(id(tensor))
        if start is None or start not in parents:
            out[id(tensor)] = (None, "nothing")
            continue
        via, queue, end = {start: None}, collections.deque([start]), None
        while queue and end is None:
            n = queue.popleft()
            if n != start and counts[n] > len(parents.get(n, ())):
                end = n
            for up in parents.get(n, ()):
                if up not in via:
                    via[up] = n
                    queue.append(up)
        n, chain = parents[start][0] if end is None else end, []
        for up in parents.get(n, ()) if end is None else ():  # an object is a better name than its dict
            if up in via and instance_dict(rest[up]) is rest[n]:
                n = up
                break
        while n is not None:
            chain.append(rest[n])
            n = via[n]
        top = chain[0]
        root = f"function {top.__qualname__}" if type(top) is types.FunctionType else f"<{name_of(type(top))}>"
        after = f" in a cycle that only the collector frees ({', '.join(cycle_types(start, parents, rest))}): gc.collect()" \
            if end is None else ", which a running call or C code holds"
        out[id(tensor)] = (join(root, after, chain[::-1], walk), "cycle" if end is None else "outside")
    return out


# ---- what a storage is ------------------------------------------------------------------------------------------------

def values_of(obj):
    return list(dict.values(obj)) if dict in mro_of(type(obj)) else []


class Owned:
    """A tensor of a module or an optimizer: what it is, whose, its name there, and the entry of a ModuleDict that it is in."""
    __slots__ = ("word", "top", "name", "entry")

    def __init__(self, word, top, name, entry=""):
        self.word, self.top, self.name, self.entry = word, top, name, entry


def items_of(obj):
    return list(dict.items(obj)) if dict in mro_of(type(obj)) else []


def of_modules(walk, api, owned):
    """Adds parameters and buffers, by the outermost module that has them."""
    seen = set()
    inner = {id(c) for m in walk.of_kind["m"] for c in values_of((instance_dict(m) or {}).get(api.children))}
    for top in [m for m in walk.of_kind["m"] if id(m) not in inner] + walk.of_kind["m"]:
        stack = [("", "", top)]
        while stack:
            name, entry, module = stack.pop()
            if module is None or id(module) in seen:
                continue
            seen.add(id(module))
            own = instance_dict(module) or {}
            is_table = any(table in mro_of(type(module)) for table in api.tables)
            for n, child in items_of(own.get(api.children)):
                below = name + (key_text(n) if is_table else child_text(n))
                stack.append((below, below if is_table else entry, child))
            for word, key in (("parameter", "_parameters"), ("buffer", "_buffers")):
                for n, tensor in items_of(own.get(key)):
                    below = name + (key_text(n) if is_table else child_text(n))
                    owned.setdefault(id(tensor), Owned(word, top, below, below if is_table else entry))


def classify(walk, api, tensors):
    """{id of a tensor: Owned} of what models and optimizers keep, and {id of a tensor: the optimizers that step it}."""
    owned, steppers = {}, collections.defaultdict(list)
    of_modules(walk, api, owned)
    for optimizer in walk.of_kind["o"]:
        own = instance_dict(optimizer) or {}
        for group in own.get("param_groups") or ():
            for n, tensor in enumerate(dict.get(group, "params", ()) if dict in mro_of(type(group)) else ()):
                owned.setdefault(id(tensor), Owned("parameter", optimizer, f".param_groups['params'][{n}]"))
                steppers[id(tensor)].append(optimizer)
        for name, tensor in api.states(own):
            owned.setdefault(id(tensor), Owned("optimizer state", optimizer, name))
    for tensor in tensors:
        for name, grad in api.extra(tensor, "t"):
            if name == ".grad" and id(tensor) in owned:
                own = owned[id(tensor)]
                owned.setdefault(id(grad), Owned("gradient", own.top, own.name, own.entry))
    return owned, steppers


WORDS = {"parameter": ("parameters of", "parameter"), "buffer": ("buffers of", "buffer"),
         "gradient": ("gradients of", "gradient of"), "optimizer state": ("state of", "")}
ORDER = {"global": 0, "context": 0, None: 1, "handled": 1, "local": 2, "library": 4}


class Storage:
    __slots__ = ("address", "bytes", "uses", "tensors", "saved", "unnamed")

    def __init__(self, raw):
        self.address, self.bytes, self.uses = raw
        self.tensors, self.saved, self.unnamed = [], [], 0


def with_star(text, n):
    """The text with a star in its bracket number n."""
    parts = text.split("[")
    if n + 1 < len(parts) and "]" in parts[n + 1]:
        parts[n + 1] = "*]" + parts[n + 1].partition("]")[2]
    return "[".join(parts)


def with_stars(text):
    """Each index is a star."""
    parts = text.split("[")
    for n in range(1, len(parts)):
        digits, bracket, rest = parts[n].partition("]")
        if bracket and digits.isdigit():
            parts[n] = "*]" + rest
    return "[".join(parts)


class Namer:
    """Texts of holders. An index stands as [*] where several of a look differ by it alone; so does a key where more than
    KEYS do."""

    def __init__(self, walk, lost, classes):
        self.walk, self.lost = walk, lost
        self.owned, self.steppers = classes
        self.exact, self.of = {}, {}
        self.numbers = {}  # of a text: the least of its roots', which is of the outermost function

    def general(self, text):
        general = with_stars(text)
        if self.exact.setdefault(general, text) != text:
            self.exact[general] = general
        return general

    def settled(self):
        """{a text of general(): the one to tell}, when all are known."""
        told = {general: general for general in self.exact}
        for n in range(max((text.count("[") for text in told), default=0)):
            groups = collections.defaultdict(set)
            for text in set(told.values()):
                groups[with_star(text, n)].add(text)
            joined = {text: star for star, texts in groups.items() if len(texts) > KEYS for text in texts}
            told = {general: joined.get(text, text) for general, text in told.items()}
        for unit in {with_stars(unit) for unit in self.walk.repeated}:  # those that are not as long yet
            alike = {longer(t, unit, n): t for t in set(told.values()) if f"{unit}..." in t for n in range(1, REPEATS)}
            told = {general: alike.get(text, text) for general, text in told.items()}
        times = collections.Counter(told.values())
        return {general: self.exact[general] if times[text] == 1 else text for general, text in told.items()}

    def text(self, path, before=""):
        text = self.general(before + path.text())
        if path.root:
            self.numbers[text] = min(path.root.number, self.numbers.get(text, path.root.number))
        return text

    def of_object(self, obj):
        """((Path, kind) ...) of all that refers to an object; a root of graphs stands as its node."""
        if id(obj) not in self.of:
            walk, found = self.walk, []
            if id(obj) in walk.seen:
                for path in (walk.holders(obj) if id(obj) in walk.wheres else ()) or [walk.path(obj)]:
                    if path.kind() == "graph":
                        found.append((path.root.node, "graph"))
                    elif not path.tail.endswith(("._base", "._base...")):
                        found.append((path, path.kind()))
            elif id(obj) in self.lost:
                path, kind = self.lost[id(obj)]
                if kind != "nothing":
                    found.append((path, "unnamed" if kind == "outside" else None))
            self.of[id(obj)] = found
        return self.of[id(obj)]

    def of_graph(self, obj):
        """(text, kind) of what keeps a graph alive by this tensor or node."""
        # What is inside of a tensor is in its graph: both go with it.
        return [(self.text(path.without((".<in Tensor>", ".grad_fn")), "graph of "), kind)
                for path, kind in self.of_object(obj) if kind not in ("graph", "unnamed")][:HOLDERS]

    def of_owner(self, top):
        """The Paths of what refers to a module or an optimizer. Of functions that run it is a local of the outermost one
        alone: those that it has called end before."""
        paths = [p for p, kind in self.of_object(top) if kind not in ("graph", "unnamed", "library")] or [self.walk.path(top)]
        first = min((p.root.number for p in paths if p.is_local), default=0)
        paths = [p for p in paths if not p.is_local or p.root.number == first]
        return sorted(paths, key=lambda p: ORDER.get(p.kind(), 1))

    def of_owned(self, tensor, owned, is_alone, with_paths):
        """Texts of what holds a tensor of a module or an optimizer; is_alone: it has no other of this kind."""
        many, one = WORDS[owned.word]
        paths, texts = self.of_owner(owned.top), {}
        before, end = (one, owned.name) if is_alone and one else (many, owned.entry)
        for path in paths[:1 if owned.word == "gradient" else PLACES]:  # a gradient goes with zero_grad()
            path = Path(path.head, path.tail + end, path.after, path.root)
            texts[self.text(path, "" if texts else f"{before} ")] = None
        if owned.word != "gradient" and len(paths) > PLACES:
            texts[f"{len(paths) - PLACES} more places that have the {'optimizer' if owned.word == 'optimizer state' else 'module'}"] = None
        for optimizer in self.steppers.get(id(tensor), ()) if owned.word == "parameter" else ():
            if optimizer is not owned.top:
                texts.update((self.text(p), None) for p in self.of_owner(optimizer))
        if with_paths:
            texts.update((self.text(p), None) for p, kind in self.of_object(tensor)
                         if not p.is_owned and kind not in ("graph", "unnamed", "library"))
        return list(texts)


def library_locals(count, more=""):
    return f"{count} {more}local{'s' * (count > 1)} of library functions"


def named_holders(held, numbers):
    """The texts of {text: kind}, the best name first. Locals of library functions go when the program's function goes on."""
    texts = sorted(held, key=lambda t: ORDER.get(held[t], 1))
    inner = [t for t in texts if held[t] == "library"]
    texts = texts[:len(texts) - len(inner)]
    if inner and not texts:  # the outermost is the last to go
        texts.append(min(inner, key=numbers.get))
        return texts + ([library_locals(len(inner) - 1, "more ")] if len(inner) > 1 else [])
    return texts[:HOLDERS] + ([f"{len(texts) - HOLDERS} more"] if len(texts) > HOLDERS else []) + ([library_locals(len(inner))] if inner else [])


def settle(storage, namer, owners, why_not, alone):
    """(class, texts of its holders). why_not: why paths are not looked for, or "". alone: {(class, id of an owner): how many storages}."""
    owned = [(namer.owned[id(t)], t) for t in storage.tensors if id(t) in namer.owned]
    for word in WORDS:
        for own, tensor in owned:
            if own.word == word:
                return word, namer.of_owned(tensor, own, alone[word, id(own.top)] == 1, not why_not)
    word = "saved for backward" if storage.saved else "tensor"
    if why_not:
        return word, [f"not looked for: {why_not}"]
    held, nodes = {}, [id(n) for n in storage.saved]
    unnamed = []
    for tensor in storage.tensors:
        for path, kind in namer.of_object(tensor):
            if kind == "graph":
                nodes.append(id(path))
                word = "saved for backward"
            elif kind == "unnamed":
                unnamed.append(namer.text(path))
            else:
                held.setdefault(namer.text(path), kind)
    for node in dict.fromkeys(nodes):
        for text, kind in owners.get(node, ()):
            held.setdefault(text, kind)
    texts = named_holders(held, namer.numbers) + unnamed
    if storage.unnamed:
        texts.append(f"{storage.unnamed} reference{'s' * (storage.unnamed > 1)} of a running call or of C code")
    native = storage.uses - len({id(t) for t in storage.tensors})
    if native > 0 and (not texts or not storage.saved):
        texts.append(f"{native} holder{'s' * (native > 1)} in C++")
    if not texts and nodes and not namer.walk.cut:
        texts = ["a graph that no named tensor keeps"]
    return word, texts or ["nothing that was reached in time" if namer.walk.cut else "nothing that Python shows"]


# ---- a look -----------------------------------------------------------------------------------------------------------

def number(*words):
    return b"".join(int(w).to_bytes(8, "little") for w in words)


def pack(rows):
    """Each row: bytes, count, native stack, Python stack, number of addresses, length of the text (8 bytes each), the text, the
    addresses of tensors inside of blocks."""
    out = []
    for key, (size, count, inside) in rows:
        text = "\n".join(key[2:]).encode("utf-8", "replace")
        out.append(number(size, count, key[0], key[1], len(inside), len(text)) + text + number(*inside))
    return b"".join(out)


def modules_below(module):
    yield module
    for child in values_of((instance_dict(module) or {}).get("_modules")):
        if child is not None:
            yield from modules_below(child)


def reducers(walk, api, namer):
    """(texts of the modules that have a Reducer of torch.distributed, bytes of all their buckets, which are those of the
    parameters that they train). No object shows a bucket, unless gradients are views of it."""
    texts, size = {}, 0
    for top in walk.of_kind["m"]:
        own = instance_dict(top) or {}
        if own.get("gradient_as_bucket_view") is not False or name_of(type(own.get("reducer"))) != "Reducer":
            continue
        texts.update((namer.text(path), None) for path in namer.of_owner(top)[:1])
        for module in modules_below(top):
            for tensor in values_of((instance_dict(module) or {}).get("_parameters")):
                if walk.kind(tensor) == "t" and api.base.requires_grad.__get__(tensor):
                    size += (api.storage(tensor) or (0, 0))[1]
    return texts, size


def mib(size):
    return f"{size / (1 << 20):.2f} MiB"


def by_block(blocks, storages, told, nobody):
    """{(stack, Python stack, class, holders...): [bytes, blocks, addresses]}: live blocks joined with storages, by address. The addresses
    are those of storages inside of larger blocks, as in segments."""
    rows, at, lying = {}, 0, sorted(storages, key=lambda s: s.address)

    def add(block, size, *key):
        row = rows.setdefault((block[2], block[3], *key), [0, 0, []])
        row[0] += size
        row[1] += 1
        return row

    for block in blocks:
        address, left = block[0], block[1]
        end = address + left
        while at < len(lying) and lying[at].address < address:
            at += 1
        while at < len(lying) and lying[at].address < end:
            word, texts = told[lying[at].address]
            size = min(lying[at].bytes, end - lying[at].address, left)
            left -= size
            row = add(block, size, word, *texts)
            if block[1] > lying[at].bytes + SLACK:
                row[2].append(lying[at].address)
            at += 1
        if left:
            add(block, left, "no tensor", nobody)
    return rows


def find_storages(api, tensors, storages, saved, counts, lost, walk):
    found = {}
    for raw, obj in api.joined([(api.storage(t), t) for t in tensors] + [(api.of_storage(s), s) for s in storages]):
        if raw is not None:
            storage = found.setdefault(raw[0], Storage(raw))
            storage.tensors.append(obj)
            storage.saved += saved.get(id(obj), ())
            if id(obj) in counts and not walk.cut and lost.get(id(obj), (None, "nothing"))[1] == "nothing":
                count, native = counts[id(obj)]
                storage.unnamed += max(0, count - (native or id(obj) in walk.native) - walk.edges.get(id(obj), 0))
    return sorted(found.values(), key=lambda s: -s.bytes)


def look(blocks, error, seconds, objects, clocks):
    """seconds: that are left; what frees the lists takes place after them. clocks: the time a moment ago, and the thread's of CPU, which
    has worked since and tells what part of a processor there is. blocks: of the live ones (address, bytes, native stack, Python stack) as 8-byte words. error: the exception that is
    being made, or None. Returns (flags, objects walked, rows, bytes and holders of the most). Flags: 1 the time or the room
    ran out, 2 graphs were not read because a backward pass may run, 4 because this PyTorch lacks names that are needed."""
    api = Torch() if "torch._C" in modules else Paddle() if "paddle.base.libpaddle" in modules else Arrays()
    begin = time.monotonic()
    share = (time.thread_time() - clocks[1]) / max(begin - clocks[0], 1e-6)
    with api.off():
        found = take(api, blocks, error, share * PARTS[0] * seconds, [begin + part * seconds for part in PARTS[1:]], objects)
    forget_locals()
    return found


def count_references(tensors, api):
    """References to each tensor's object, before this text adds any; and how many are C++'s."""
    probe = [[]]
    pair = [probe[0] for _ in range(1)]
    base = [sys.getrefcount(o) for o in pair][0]  # two lists, as here
    return {id(o): (sys.getrefcount(o) - base, api.count_native(o)) for o in tensors}


def drop_unowned(live, there):
    """Drops objects that their tensors have, which have no other reference: such a tensor may be on its way out, in a thread that
    waits for the GIL, and nothing may be asked of it. The walk finds the others that have one reference."""
    probe = [[]]
    pair = [probe[0] for _ in range(1)]
    base = [sys.getrefcount(o) for o in pair][0]  # two lists, as here
    unowned = {id(o) for o in there["t"] if sys.getrefcount(o) <= base + 1}
    if unowned:
        for objects in (live, there["t"]):
            objects[:] = [o for o in objects if id(o) not in unowned]


def all_roots(walk, there, error, caller):
    """Roots of the program, of libraries' functions, of libraries. Notes what no path goes through."""
    running, frames = frame_roots()
    own, libraries, spaces = module_roots()
    step = pending_traceback(there["b"], there["e"], caller) if error is not None else None
    left, gone = traceback_roots(step)
    walk.skip.update(copies, map(id, [globals(), *frames, *spaces, *gone]))
    calls = running + left
    near = own + [r for r in calls if r.kind != "library"] + [handled_root()]
    return near, [r for r in calls if r.kind == "library"], libraries + [context_root()]


def read_graphs(walk, api, graphs, every):
    """{id of a tensor that a graph saves: the nodes}; walks what else nodes keep."""
    saved, inside = {}, []
    for node, name, obj in api.saved(graphs.nodes.values()):
        if obj is not None and walk.kind(obj) == "t":
            every.setdefault(id(obj), obj)
            saved.setdefault(id(obj), []).append(node)
        elif obj is not None:
            inside.append(Root(name, "", [("", obj)], "graph", node))
    if api.runs:  # half a graph would tell half of what keeps a tensor
        graphs.forget()
        return {}
    walk.run(inside + [Root("", "", [("", node)], "graph", node) for node in graphs.nodes.values()])
    return saved


def why_no_paths(walk, number, deadline):
    if number >= PATHS:
        return "of small blocks only the largest are"
    return "there was no time" if walk.is_late(deadline) else ""


def answer(api, walk, graphs, blocks, storages, lost, every, deadline):
    """The rows, the most bytes that the same holders have, and these holders."""
    words = memoryview(blocks).cast("Q")
    rows = sorted(tuple(words[n:n + 4]) for n in range(0, len(words), 4) if words[n + 1])
    namer = Namer(walk, lost, classify(walk, api, every.values()))
    owners = graphs.owners(namer.of_graph, lambda: time.monotonic() > deadline)
    owned = [namer.owned[id(t)] for s in storages for t in s.tensors if id(t) in namer.owned]
    alone = collections.Counter((own.word, id(own.top)) for own in owned)
    told = {s.address: settle(s, namer, owners, why_no_paths(walk, n, deadline), alone) for n, s in enumerate(storages)}
    texts, size = reducers(walk, api, namer)
    plain = namer.settled()
    told = {address: (word, list(dict.fromkeys(plain.get(t, t) for t in texts))) for address, (word, texts) in told.items()}
    nobody = "no Python object" + " that was reached in time" * walk.cut + api.silent * (api.array is not None or type(api) is Paddle)
    if 0 < size <= sum(r[1] for r in rows) - sum(s.bytes for s in storages):
        texts = list(dict.fromkeys(plain.get(t, t) for t in texts))
        nobody += f"; DDP's Reducers have buckets of {mib(size)} in C++: those of {', '.join(texts[:HOLDERS])}"
    groups = sorted(by_block(rows, storages, told, nobody).items(), key=lambda g: -g[1][0])
    sums = collections.Counter()
    for key, (size, *_) in groups:
        sums[key[2:]] += size
    top = max(sums, key=sums.get, default=())
    return pack(groups[:ROWS]), sums[top], " and ".join(top[1:3]).encode("utf-8", "replace").decode()


def list_objects(walk, seconds):
    """All objects of the collector, None: that would take longer, and cannot be broken off; and those that have a kind, by kind."""
    there = collections.defaultdict(list)
    if LISTING * sys.getallocatedblocks() > seconds:
        return None, there
    live = gc.get_objects()
    for at in range(0, len(live), LISTED):
        if walk.is_over():
            break
        part = live[at:at + LISTED]
        wanted = {t: walk.kinds[t] for t in set(map(type, part)) if walk.kinds[t]}
        for obj in [o for o in part if type(o) in wanted] if wanted else ():
            there[wanted[type(obj)]].append(obj)
    return live, there


def take(api, blocks, error, seconds, deadlines, most):
    walk = Walk(api, deadlines[0], most)
    live, there = list_objects(walk, seconds)
    if not api.keeps and there["t"] and (len(sys._current_frames()) > 1 or passes()):
        drop_unowned(live, there)
    api.know(there["s"])
    counts = count_references(there["t"], api)
    caller = sys._getframe(1).f_back  # of look
    api.runs = type(api) is Torch and backward_runs(caller, error)
    flags = 2 if api.runs else 0 if api.graphs else 4
    is_whole = live is not None
    near, far, last = all_roots(walk, there, error, caller)
    walk.run(near)
    walk.run(far)
    walk.run_large()
    flags |= 2 * api.runs
    every = {id(o): o for o in there["t"] + walk.of_kind["t"]}
    tensors = [] if flags else [t for t in every.values() if not api.is_array(t)]
    graphs = Graphs(api, tensors, [] if flags else there["n"] + walk.of_kind["n"], deadlines[1])
    saved = read_graphs(walk, api, graphs, every)
    walk.run(last)  # few things hang on libraries, and they are many
    walk.run_large()
    every.update((id(o), o) for o in walk.of_kind["t"])

    lonely = [t for i, t in every.items() if i not in walk.seen and i not in saved]
    counted = {id(o) for objects in there.values() for o in objects}
    lost = sort_lost(walk, live, lonely, counted, deadlines[1]) if lonely and is_whole and not walk.cut else {}
    walk.cut = walk.cut or not is_whole
    del live, there
    storages = find_storages(api, every.values(), walk.of_kind["s"], saved, counts, lost, walk)
    told = answer(api, walk, graphs, blocks, storages, lost, every, deadlines[2])
    return flags | 2 * api.runs | (walk.cut or graphs.cut), len(walk.seen), *told
