# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: the texts of what holds a storage."""
# pylint: disable=undefined-variable

HOLDERS = 6 # of a row
PLACES = 2  # of them those that have a module or an optimizer
KEYS = 3    # keys of a container that are told one by one


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
