# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: graphs of autograd, and who keeps their nodes."""
# pylint: disable=undefined-variable

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
