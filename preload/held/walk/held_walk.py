# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: everything that roots reach, and the ways there."""
# pylint: disable=undefined-variable

CHUNK = 64     # objects whose referents are asked for at once
STRIDE = 4096  # children of a chunk between two looks at the bounds
LEVELS = 60    # of a path
LARGE = 10_000 # members of a container that waits
SIZED = (list, dict, tuple, set, frozenset)


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
