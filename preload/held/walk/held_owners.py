# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: what modules and optimizers keep."""
# pylint: disable=undefined-variable

class Owned:
    """A tensor of a module or an optimizer: what it is, whose, its name there, and the entry of a ModuleDict that it is in."""
    __slots__ = ("word", "top", "name", "entry")

    def __init__(self, word, top, name, entry=""):
        self.word, self.top, self.name, self.entry = word, top, name, entry


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
