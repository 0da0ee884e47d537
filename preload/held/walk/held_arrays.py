# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: what is asked of a framework's objects."""
# pylint: disable=undefined-variable

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
