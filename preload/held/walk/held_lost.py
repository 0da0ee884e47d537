# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: what no root reaches: it is in a cycle, or held from where Python shows nothing."""
# pylint: disable=undefined-variable

LISTED = 1 << 16 # objects of the collector between two looks at the time


def count_references(tensors, api):
    """References to each tensor's object, before this text adds any; and how many are C++'s."""
    probe = [[]]
    pair = [probe[0] for _ in range(1)]
    base = [sys.getrefcount(o) for o in pair][0]  # two lists, as here
    return {id(o): (sys.getrefcount(o) - base, api.count_native(o)) for o in tensors}


def drop_unowned(live, there):
    """Drops objects that their tensors have, which have no other reference: such a tensor may be on its way out, in a thread that
    waits for the GIL, and nothing may be asked of it. Returns ids of all that have one reference, those with an owner, too."""
    probe = [[]]
    pair = [probe[0] for _ in range(1)]
    base = [sys.getrefcount(o) for o in pair][0]  # two lists, as here
    unowned = {id(o) for o in there["t"] if sys.getrefcount(o) <= base + 1}
    if unowned:
        for objects in (live, there["t"]):
            objects[:] = [o for o in objects if id(o) not in unowned]
    return unowned


def readmit_owned(walk, live, tensors, unowned, deadline):
    """Adds those to both lists that an object refers to which nothing has reached. The walk has found the others that have an owner."""
    found = {}
    for n, up in enumerate(unreached(walk, live, deadline)):
        if n % STRIDE == 0 and walk.is_late(deadline):
            break
        found.update((id(o), o) for o in walk.referents((up,)) if id(o) in unowned and id(o) not in walk.seen)
    for objects in (live, tensors):
        objects += found.values()


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
