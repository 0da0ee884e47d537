# SPDX-License-Identifier: MIT
"""Which objects of a Python program refer to its device memory. held.c runs this text inside of the program, in a
namespace of its own that has `modules` (sys.modules), `passes` and `quiet` (still.c); nothing imports it, and nothing of it stays.

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
ROWS = 200
TEXT = 200           # characters of a path
LEVELS = 60          # of a path
OPTIMIZED = 0x1      # a code object's flag: its locals are no dict of the program's
SUSPENDS = 0x2a0     # its flags if it is a generator, a coroutine, or both

mro_of = type.__dict__["__mro__"].__get__
dict_of = type.__dict__["__dict__"].__get__
name_of = type.__dict__["__qualname__"].__get__
partial = getattr(modules.get("functools"), "partial", None)
SUSPENDED = {types.GeneratorType: "gi_frame", types.CoroutineType: "cr_frame", types.AsyncGeneratorType: "ag_frame"}
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3")  # as oom.c knows them


# ---- PyTorch -------------------------------------------------------------------------------------------------------

class Torch:
    """What is asked of PyTorch. `graphs`: it has the names by which graphs are read, which are not all documented.
    `runs`: neither graphs nor gradients are read (backward_runs), or no longer."""

    def __init__(self):
        self.torch = torch = modules["torch"]
        self.base = torch._C.TensorBase
        self.storages = torch.UntypedStorage
        self.module, self.optimizer = torch.nn.Module, torch.optim.Optimizer
        self.saved_type = getattr(getattr(torch._C, "_autograd", None), "SavedTensor", None)
        self.graphs = hasattr(self.saved_type, "data") and hasattr(self.saved_type, "unpack_hook")
        self.arrays = getattr(modules.get("numpy"), "ndarray", None)
        self.uses = getattr(self.base, "_use_count", None)
        self.storage_uses = getattr(torch._C, "_storage_Use_Count", None)
        self.off = torch._C.DisableTorchFunctionSubclass
        self.runs = False
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
        for kind, of in (("t", self.base), ("s", self.storages), ("v", self.saved_type), ("a", self.arrays),
                         ("m", self.module), ("o", self.optimizer)):
            if of in mro:
                return kind
        is_node = any("next_functions" in dict_of(k) for k in mro) and dict_of(t).get("__module__") != "torch.autograd.graph"
        return "n" if is_node else ""

    def storage(self, tensor):
        """(address, bytes, references of C++'s) on a device, or None."""
        try:
            base = self.base
            if not base.is_cuda.__get__(tensor) or base.layout.__get__(tensor) is not self.torch.strided:
                return None
            return self.of_storage(base.untyped_storage(tensor))
        except (RuntimeError, NotImplementedError, TypeError, AttributeError):
            return None

    def of_storage(self, storage):
        if storage.device.type != "cuda":
            return None
        address, size = storage.data_ptr(), storage.nbytes()
        uses = self.storage_uses(storage._cdata) - 1 if self.storage_uses else 0  # `storage` is one itself
        return (address, size, uses) if address and size else None

    def count_native(self, tensor):
        """References to a tensor's Python object that stand for all of C++'s: one at most."""
        return int(self.uses is not None and self.uses(tensor) > 1)

    def extra(self, obj, kind):
        """References that gc does not show: [(name, object)]."""
        base, found = self.base, []
        if kind == "t":
            if not self.runs and (base.is_leaf.__get__(obj) or base.retains_grad.__get__(obj)):
                found += [(".grad", o) for o in self.read(base.grad.__get__, [obj])]
            found.append(("._base", base._base.__get__(obj)))
            found.append(("._backward_hooks", base._backward_hooks.__get__(obj)))
        elif kind == "v" and self.graphs and not self.runs:
            found += [(".data", o) for o in self.members([obj], "data")]
        elif kind == "a" and obj.dtype.hasobject and obj.size < 1 << 20:
            found += [(f".flat[{i}]", o) for i, o in enumerate(obj.flat)]
        return [(name, o) for name, o in found if o is not None]

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


def key_text(key):
    plain = type(key) in (str, int, bool, float, bytes, type(None))
    text = repr(key) if plain else f"<{name_of(type(key))}>"
    text = text if len(text) < 60 else text[:56] + "...'"
    return f"[{text}]"


def place(frame, line=None):
    code = frame.f_code
    return f"{getattr(code, 'co_qualname', code.co_name)} {os.path.basename(code.co_filename)}:{line or frame.f_lineno}"


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
        word = "suspended " if obj.f_code.co_flags & SUSPENDS else ""
        yield from ((f"<local {n!r} of {word}{place(obj)}>", v) for n, v in frame_locals(obj).items())
    elif t is types.TracebackType:
        yield from (("", obj.tb_frame), ("", obj.tb_next))
    elif t in SUSPENDED and getattr(obj, SUSPENDED[t]) is not None:
        frame = getattr(obj, SUSPENDED[t])
        yield "", frame  # up to CPython 3.10 gc shows it
        yield from ((f"<local {n!r} of suspended {place(frame)}>", v) for n, v in frame_locals(frame).items())
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


INSIDE = ("_modules", "_parameters", "_buffers")  # of a module: its children are its attributes


def join(root, chain, walk):
    """The text of a path: chain[-1] is what `root` names, chain[0] the end."""
    out, dotted = root, False
    for n in range(len(chain) - 1, 0, -1):
        up, here = chain[n], chain[n - 1]
        if n > 1 and type(up) is types.FunctionType and here is up.__closure__:
            variable = [v for v, c in zip(up.__code__.co_freevars, here) if c is chain[n - 2]]
            out += f".closure[{variable[0]!r}]" if variable else ".closure"
            continue
        if type(here) is types.CellType and type(up) is tuple and out.endswith("]") and ".closure[" in out:
            continue
        part = walk.name(up, here)
        if dotted and part.startswith("['"):
            part = "." + part[2:-2]
        dotted = part == ".__dict__" or part[1:] in INSIDE
        out += "" if dotted else part
    return out if len(out) <= TEXT else out[:TEXT // 2 - 2] + "..." + out[-TEXT // 2:]


# ---- the walk ---------------------------------------------------------------------------------------------------------

class Root:
    """Objects that a person can name: before + name + after. kind: global, context, local, left (a local of a
    function that an error has left), library (a local of a library's function), graph."""
    __slots__ = ("before", "after", "items", "kind", "node")

    def __init__(self, before, after, items, kind, node=None):
        self.before, self.after, self.items, self.kind, self.node = before, after, items, kind, node


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
        self.chunks = []    # (first, end) in objects
        self.roots = []
        self.skip = set()   # ids that no path goes through
        self.wheres = {}    # id of a tensor or storage ─► every chunk and root that refers to it
        self.edges = {}     # the same ─► references from Python that were found
        self.native = set() # of them those that C++ refers to
        self.kinds = Kinds(api)
        self.of_kind = collections.defaultdict(list)  # objects of each kind that has a letter
        self.index = {}     # chunk ─► {id of a child: [its parents]}, made when a path goes through
        self.cut = False

    def kind(self, obj):
        return self.kinds[type(obj)]

    def meet(self, obj, where, edge):
        """A reference to obj was found."""
        i, kind = id(obj), self.kinds[type(obj)]
        if i not in self.seen:
            if i in self.skip or not (kind or gc.is_tracked(obj)):
                return
            self.seen[i] = where
            self.objects.append(obj)
            if kind:
                self.of_kind[kind].append(obj)
            if kind in ("t", "s"):
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

    def is_over(self):
        self.cut = self.cut or time.monotonic() > self.deadline or len(self.objects) > self.most
        return self.cut

    def run(self, roots):
        at, seen, objects, wheres, kinds = len(self.objects), self.seen, self.objects, self.wheres, self.kinds
        for root in roots:
            if self.is_over():
                return
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
                if i in wheres or i not in seen and (gc.is_tracked(child) or kinds[type(child)]):
                    self.meet(child, chunk, 1)
            for obj in part:
                if kinds[type(obj)]:
                    for _, child in self.extra(obj):
                        self.meet(child, chunk, kinds[type(obj)] == "a")  # the others are references of C++'s

    def extra(self, obj):
        """References that gc does not show, by name."""
        kind = self.kinds[type(obj)]
        return [(".__dict__", space_of(obj))] if kind == "M" else self.api.extra(obj, kind)

    def name(self, up, here):
        for name, child in names(up, self.api, self.kind(up)):
            if child is here or type(here) is types.CellType and child is not None and child is cell_value(here):
                return name if type(name) is str else name[0](name[1])
        if type(up) in (types.FrameType, types.TracebackType):
            return ""
        if type in mro_of(type(up)) and type(here) is dict:
            return ".__dict__"
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
                for i in {id(o) for o in children}:
                    if i in self.seen:
                        index.setdefault(i, []).append(up)
        return self.index[where].get(id(obj), [])

    def path(self, obj, up=None):
        """(text, root) from a root down to obj, through `up` if it is given."""
        chain = [obj]
        for _ in range(LEVELS):
            here = chain[-1]
            if up is None:
                up = next(iter(self.parents(here, self.seen[id(here)]) if id(here) in self.seen else ()), None)
            if up is None:
                return join("?", chain, self), None
            if type(up) is Root:
                name = next((n for n, v in up.items if v is here), "?")
                return join(f"{up.before}{name}{up.after}", chain, self), up
            chain.append(up)
            text, up = importable(up), None
            if text:
                return join(text, chain, self), None
        return join("...", chain, self), None

    def holders(self, obj):
        """A path through each object that refers to obj."""
        return [self.path(obj, up) for where in dict.fromkeys(self.wheres[id(obj)]) for up in self.parents(obj, where)]


# ---- roots ------------------------------------------------------------------------------------------------------------

def is_library(file):
    return type(file) is not str or file.startswith("<frozen") or any(f in file for f in LIBRARIES)


def of_frame(frame, line, after):
    kind = "library" if is_library(frame.f_code.co_filename) else "left" if line else "local"
    items = list(frame_locals(frame).items())
    return Root("local '", f"' of {place(frame, line)}{after}", items, kind)


def frame_roots():
    """The functions that run now, innermost first, and all of their frames."""
    threads = getattr(modules.get("threading"), "_active", {})
    roots, frames = [], []
    for ident, frame in sys._current_frames().items():
        name = (instance_dict(threads[ident]) or {}).get("_name", ident) if ident in threads else ident
        after = "" if name == "MainThread" else f", thread {name}"
        while frame is not None:
            if frame.f_globals is not globals():  # a frame of ours in our own list would keep it all
                frames.append(frame)
                if frame.f_code.co_flags & OPTIMIZED:
                    roots.append(of_frame(frame, None, after))
            frame = frame.f_back
    return roots, frames


def pending_traceback(tracebacks, errors, frame):
    """Up to CPython 3.11 an exception's object is made before it has its traceback, which no exception refers to yet."""
    known = {id(b.tb_next) for b in tracebacks} | {id(dict_of(BaseException)["__traceback__"].__get__(e)) for e in errors}
    for b in tracebacks:
        if id(b) not in known and (b.tb_frame is frame or frame is None and b.tb_frame.f_back is None):
            return b
    return None


def traceback_roots(error, step):
    """The frames that an exception has left, innermost first, and the objects that stand for them."""
    roots, gone = [], []
    while step is not None:
        frame = step.tb_frame
        gone += [step, frame]
        if frame.f_code.co_flags & OPTIMIZED:
            roots.append(of_frame(frame, step.tb_lineno, f" (left by {name_of(type(error))})"))
        step = step.tb_next
    return roots[::-1], gone


def module_roots():
    own, libraries, spaces = [], [], []
    for name, module in list(modules.items()):
        space = space_of(module)
        if type(space) is not dict or any(space is s for s in spaces):
            continue
        spaces.append(space)
        mine = name == "__main__" or not is_library(space.get("__file__"))
        root = Root("" if name == "__main__" else f"{name}.", "", list(space.items()), "global")
        (own if mine else libraries).append(root)
    return sorted(own, key=lambda r: r.before != ""), libraries, spaces


def context_root():
    context = modules["contextvars"].copy_context() if "contextvars" in modules else {}
    return Root("context variable '", "'", [(v.name, x) for v, x in context.items()], "context")


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
        for tensor, node in zip(tensors, api.read(api.base.grad_fn.__get__, tensors)):
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

    def owners(self, text_of):
        """{id of a node: the texts of all that keep it}; text_of(object) tells those of an object."""
        need, owners, known = collections.Counter(id(n) for b in self.next.values() for n in b), {}, {}
        ready = [i for i in self.nodes if not need[i]]
        while ready:  # each node after all that need it
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


def sort_lost(walk, live, lonely, skip):
    """{id: (text, kind)} of tensors that no root reaches. "outside": the end of the chain has references that no object
    shows; "cycle": there is none, so the collector would free it; "nothing": no object refers to the tensor."""
    rest = [o for o in live if id(o) not in walk.seen and id(o) not in skip]
    probe = [[]]
    base = sys.getrefcount(probe[0]) - 1                      # what a call of getrefcount adds
    counts = [sys.getrefcount(rest[n]) - base - 2 for n in range(len(rest))]  # `live` and `rest` refer to it, too
    at = {id(o): n for n, o in enumerate(rest)}
    parents = {}
    for n, up in enumerate(rest):
        for child in walk.referents((up,)):
            if id(child) in at:
                parents.setdefault(at[id(child)], []).append(n)
    out = {}
    for tensor in lonely:
        start = at.get(id(tensor))
        if start is None or start not in parents:
            out[id(tensor)] = ("", "nothing")
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
        while n is not None:
            chain.append(rest[n])
            n = via[n]
        top = chain[0]
        root = f"function {top.__qualname__}" if type(top) is types.FunctionType else f"<{name_of(type(top))}>"
        out[id(tensor)] = (join(root, chain[::-1], walk), "cycle" if end is None else "outside")
    return out


# ---- what a storage is ------------------------------------------------------------------------------------------------

def values_of(obj):
    return list(dict.values(obj)) if dict in mro_of(type(obj)) else []


def classify(walk, api, tensors):
    """{id of a tensor: (class, "parameters of model")} of what models and optimizers keep."""
    out, owner = {}, {}
    inner = {id(c) for m in walk.of_kind["m"] for c in values_of((instance_dict(m) or {}).get("_modules"))}
    for top in [m for m in walk.of_kind["m"] if id(m) not in inner] + walk.of_kind["m"]:
        stack = [top]
        while stack:
            module = stack.pop()
            if module is None or id(module) in owner:
                continue
            own, owner[id(module)] = instance_dict(module) or {}, top
            stack += values_of(own.get("_modules"))
            for word, key in (("parameter", "_parameters"), ("buffer", "_buffers")):
                for tensor in values_of(own.get(key)):
                    out.setdefault(id(tensor), (word, top))
    for optimizer in walk.of_kind["o"]:
        own = instance_dict(optimizer) or {}
        for group in own.get("param_groups") or ():
            for tensor in dict.get(group, "params", ()) if dict in mro_of(type(group)) else ():
                out.setdefault(id(tensor), ("parameter", optimizer))
        for state in values_of(own.get("state")):
            for tensor in values_of(state):
                if walk.kind(tensor) == "t":
                    out.setdefault(id(tensor), ("optimizer state", optimizer))
    for tensor in tensors:
        for name, grad in api.extra(tensor, "t"):
            if name == ".grad" and id(tensor) in out:
                out.setdefault(id(grad), ("gradient", out[id(tensor)][1]))
    return out


WORDS = {"parameter": "parameters of", "buffer": "buffers of", "gradient": "gradients of", "optimizer state": "state of"}
ORDER = {"global": 0, "context": 0, None: 1, "local": 2, "left": 3, "library": 4, "unnamed": 5}


class Storage:
    __slots__ = ("address", "bytes", "uses", "tensors", "saved", "unnamed")

    def __init__(self, raw):
        self.address, self.bytes, self.uses = raw
        self.tensors, self.saved, self.unnamed = [], [], 0


class Namer:
    """Texts of holders. An index stands as [*] where several of a look differ by it alone."""

    def __init__(self, walk, lost, classes):
        self.walk, self.lost, self.classes = walk, lost, classes
        self.exact, self.of = {}, {}

    def general(self, text):
        parts = text.split("[")
        for n in range(1, len(parts)):
            digits, bracket, rest = parts[n].partition("]")
            if bracket and digits.isdigit():
                parts[n] = "*]" + rest
        general = "[".join(parts)
        if self.exact.setdefault(general, text) != text:
            self.exact[general] = general
        return general

    def of_object(self, obj):
        """((text, kind) ...) of all that refers to an object; a root of graphs stands as its node."""
        if id(obj) not in self.of:
            walk, found = self.walk, []
            if id(obj) in walk.seen:
                ups = walk.holders(obj) if id(obj) in walk.wheres else [walk.path(obj)]
                for text, root in ups:
                    if root is not None and root.kind == "graph":
                        found.append((root.node, "graph"))
                    elif not text.endswith("._base"):
                        found.append((text, root.kind if root else None))
            elif id(obj) in self.lost:
                text, kind = self.lost[id(obj)]
                if kind == "cycle":
                    found.append((f"only a cycle that the collector has not freed: {text}", None))
                elif kind == "outside":
                    found.append((f"{text}, which a running call or C code holds", "unnamed"))
            self.of[id(obj)] = found
        return self.of[id(obj)]

    def of_graph(self, obj):
        """Texts of what keeps a graph alive by this tensor or node."""
        # What is inside of a tensor is in its graph: both go with it.
        found = [(self.general(f"graph of {text.removesuffix('.<in Tensor>')}"), kind) for text, kind in self.of_object(obj)
                 if kind not in ("graph", "unnamed")]
        return found[:HOLDERS]


def settle(storage, namer, owners, with_paths):
    """(class, texts of its holders)."""
    classes = [namer.classes[id(t)] for t in storage.tensors if id(t) in namer.classes]
    for word, prefix in WORDS.items():
        for found, top in classes:
            if found == word:
                return word, [namer.general(f"{prefix} {namer.walk.path(top)[0]}")]
    word = "saved for backward" if storage.saved else "tensor"
    if not with_paths:
        return word, ["not looked for: of small blocks only the largest are"]
    held, nodes = {}, [id(n) for n in storage.saved]
    for tensor in storage.tensors:
        for text, kind in namer.of_object(tensor):
            if kind == "graph":
                nodes.append(id(text))
                word = "saved for backward"
            else:
                held.setdefault(namer.general(text), kind)
    for node in dict.fromkeys(nodes):
        for text, kind in owners.get(node, ()):
            held.setdefault(text, kind)
    texts = sorted(held, key=lambda t: ORDER.get(held[t], 1))
    inner = sum(held[t] == "library" for t in texts)
    if inner and inner < len(texts):  # they go when the program's function goes on
        texts = [t for t in texts if held[t] != "library"] + [f"{inner} local{'s' * (inner > 1)} of library functions"]
    more = len(texts) - HOLDERS
    texts = texts[:HOLDERS] + ([f"{more} more"] if more > 0 else [])
    if storage.unnamed:
        texts.append(f"{storage.unnamed} reference{'s' * (storage.unnamed > 1)} of a running call or of C code")
    native = storage.uses - len({id(t) for t in storage.tensors})
    if native > 0 and (not texts or not storage.saved):
        texts.append(f"{native} holder{'s' * (native > 1)} in C++")
    if not texts and nodes:
        texts = ["a graph that no named tensor keeps"]
    return word, texts or ["nothing that was reached in time" if namer.walk.cut else "nothing that Python shows"]


# ---- a look -----------------------------------------------------------------------------------------------------------

def number(*words):
    return b"".join(int(w).to_bytes(8, "little") for w in words)


def pack(rows):
    """Each row: bytes, count, native stack, Python stack, length of the text (8 bytes each), the text."""
    out = []
    for key, (size, count) in rows:
        text = "\n".join(key[2:]).encode("utf-8", "replace")
        out.append(number(size, count, key[0], key[1], len(text)) + text)
    return b"".join(out)


def by_block(blocks, storages, told):
    """{(stack, Python stack, class, holders...): [bytes, blocks]}: live blocks joined with storages, by address."""
    rows, at, lying = {}, 0, sorted(storages, key=lambda s: s.address)

    def add(block, size, *key):
        row = rows.setdefault((block[2], block[3], *key), [0, 0])
        row[0] += size
        row[1] += 1

    for block in blocks:
        address, left = block[0], block[1]
        end = address + left
        while at < len(lying) and lying[at].address < address:
            at += 1
        while at < len(lying) and lying[at].address < end:
            word, texts = told[lying[at].address]
            size = min(lying[at].bytes, end - lying[at].address, left)
            left -= size
            add(block, size, word, *texts)
            at += 1
        if left:
            add(block, left, "no tensor", "no Python object")
    return rows


def find_storages(api, tensors, storages, saved, counts, lost, walk):
    found = {}
    for raw, obj in [(api.storage(t), t) for t in tensors] + [(api.of_storage(s), s) for s in storages]:
        if raw is not None:
            storage = found.setdefault(raw[0], Storage(raw))
            storage.tensors.append(obj)
            storage.saved += saved.get(id(obj), ())
            if id(obj) in counts and not walk.cut and lost.get(id(obj), ("", "nothing"))[1] == "nothing":
                count, native = counts[id(obj)]
                storage.unnamed += max(0, count - (native or id(obj) in walk.native) - walk.edges.get(id(obj), 0))
    return sorted(found.values(), key=lambda s: -s.bytes)


def look(blocks, error, seconds, objects):
    """blocks: of the live ones (address, bytes, native stack, Python stack) as 8-byte words. error: the exception that is
    being made, or None. Returns (flags, objects walked, rows, bytes and holders of the most). Flags: 1 the time or the room
    ran out, 2 graphs were not read because a backward pass may run, 4 because this PyTorch lacks names that are needed."""
    api = Torch()
    deadline = time.monotonic() + 0.7 * seconds  # of walks; paths come after them
    with api.off():
        found = take(api, blocks, error, deadline, objects)
    forget_locals()
    return found


def count_references(tensors, api):
    """References to each tensor's object, before this text adds any; and how many are C++'s."""
    probe = [[]]
    pair = [probe[0] for _ in range(1)]
    base = [sys.getrefcount(o) for o in pair][0]  # two lists, as here
    return {id(o): (sys.getrefcount(o) - base, api.count_native(o)) for o in tensors}


def all_roots(walk, there, error, caller):
    """Roots of the program, of libraries' functions, of libraries. Notes what no path goes through."""
    running, frames = frame_roots()
    own, libraries, spaces = module_roots()
    step = pending_traceback(there["b"], there["e"], caller) if error is not None else None
    left, gone = traceback_roots(error, step)
    walk.skip.update(copies, map(id, [globals(), *frames, *spaces, *gone]))
    near = [r for r in left + running if r.kind != "library"]
    return near + own, [r for r in left + running if r.kind == "library"], libraries + [context_root()]


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


def answer(api, walk, graphs, blocks, storages, lost, every):
    """The rows, the most bytes that the same holders have, and these holders."""
    words = memoryview(blocks).cast("Q")
    rows = sorted(tuple(words[n:n + 4]) for n in range(0, len(words), 4) if words[n + 1])
    namer = Namer(walk, lost, classify(walk, api, every.values()))
    owners = graphs.owners(namer.of_graph)
    told = {s.address: settle(s, namer, owners, n < PATHS) for n, s in enumerate(storages)}
    told = {address: (word, [namer.exact.get(t, t) for t in texts]) for address, (word, texts) in told.items()}
    groups = sorted(by_block(rows, storages, told).items(), key=lambda g: -g[1][0])
    sums = collections.Counter()
    for key, (size, _) in groups:
        sums[key[2:]] += size
    top = max(sums, key=sums.get, default=())
    return pack(groups[:ROWS]), sums[top], " and ".join(top[1:3]).encode("utf-8", "replace").decode()


def take(api, blocks, error, deadline, most):
    walk, live, there = Walk(api, deadline, most), gc.get_objects(), collections.defaultdict(list)
    for obj in live:
        if walk.kinds[type(obj)]:
            there[walk.kinds[type(obj)]].append(obj)
    del obj
    counts = count_references(there["t"], api)
    caller = sys._getframe(1).f_back  # of look
    api.runs = backward_runs(caller, error)
    flags = 2 if api.runs else 0 if api.graphs else 4
    near, far, last = all_roots(walk, there, error, caller)
    walk.run(near)
    walk.run(far)
    flags |= 2 * api.runs
    every = {id(o): o for o in there["t"] + walk.of_kind["t"]}
    graphs = Graphs(api, [] if flags else list(every.values()), [] if flags else there["n"] + walk.of_kind["n"], deadline)
    saved = read_graphs(walk, api, graphs, every)
    walk.run(last)  # few things hang on libraries, and they are many
    every.update((id(o), o) for o in walk.of_kind["t"])

    lonely = [t for i, t in every.items() if i not in walk.seen and i not in saved]
    lost = sort_lost(walk, live, lonely, walk.skip) if lonely and not walk.cut else {}
    del live, there
    storages = find_storages(api, every.values(), walk.of_kind["s"], saved, counts, lost, walk)
    return flags | 2 * api.runs | (walk.cut or graphs.cut), len(walk.seen), *answer(api, walk, graphs, blocks, storages, lost, every)
