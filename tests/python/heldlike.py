# SPDX-License-Identifier: MIT
"""What kedge asks of PyTorch's objects, with nothing behind it: tensors with memory of the device, and graphs of nodes whose
references Python does not show, as those of PyTorch's C++. Memory is likememory.py's."""
import ctypes
import functools
import os
import sys
import types

import likememory

strided = "strided"


class OutOfMemoryError(RuntimeError):
    pass


class Hidden:
    """A reference that no object shows."""
    __slots__ = ("address",)

    def __init__(self, obj):
        self.address = id(obj)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(obj))

    def get(self):
        return ctypes.cast(self.address, ctypes.py_object).value

    def __del__(self):
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(self.get()))


class UntypedStorage:
    __slots__ = ("pointer", "size")
    device = types.SimpleNamespace(type="cuda")
    _cdata = 0

    def data_ptr(self):
        return self.pointer.value

    def nbytes(self):
        return self.size

    def __del__(self):
        likememory.free(self.pointer)


class TensorBase:
    __slots__ = ("hidden", "grad", "_base", "_backward_hooks", "node", "uses", "__weakref__")
    is_cuda = property(lambda self: True)
    layout = property(lambda self: strided)
    requires_grad = property(lambda self: True)
    is_leaf = property(lambda self: self.node is None)
    retains_grad = property(lambda self: False)
    grad_fn = property(lambda self: self.node.get() if self.node else None)

    def __init__(self, size, node=None):
        self.grad = self._base = self._backward_hooks = self.node = None
        self.uses = 1
        storage = UntypedStorage()
        storage.size = size
        try:
            storage.pointer = likememory.empty(size)
        except RuntimeError:
            storage.pointer = ctypes.c_uint64()
            raise OutOfMemoryError("no memory") from None
        self.hidden = Hidden(storage)
        self.node = Hidden(node) if node else None

    def untyped_storage(self):
        if not DisableTorchFunction.depth:
            raise SystemExit("a mode of the program's was asked, as that of torch.set_default_device")
        return self.hidden.get()

    def _use_count(self):
        return self.uses


class Tensor(TensorBase):
    @classmethod
    def __torch_function__(cls, *args, **kwargs):
        raise SystemExit("the program's __torch_function__ was called")


class SavedTensor:
    __slots__ = ("data", "unpack_hook")

    def __init__(self, data):
        self.data, self.unpack_hook = data, None


class MulBackward0:
    """A node that saves a tensor, and needs others."""
    __slots__ = ("keeps", "below")

    def __init__(self, saved, *below):
        self.keeps, self.below = Hidden(saved), [Hidden(b) for b in below]
        saved.uses = 2

    before_reading = lambda self: None

    @property
    def next_functions(self):
        return tuple((b.get(), 0) for b in self.below)

    @property
    def _raw_saved_self(self):
        self.before_reading()
        return SavedTensor(self.keeps.get())

    @property
    def _saved_self(self):
        raise SystemExit("a saved tensor was unpacked")


class MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
def c_run_backward(engine, args, keywords):
    args[0]()


class Engine:
    """Its run_backward is C's, and calls what it is given."""


method_def = MethodDef(b"run_backward", ctypes.cast(c_run_backward, ctypes.c_void_p).value, 3, None)
new_method = ctypes.pythonapi.PyDescr_NewMethod
new_method.restype, new_method.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
Engine.run_backward = new_method(Engine, ctypes.addressof(method_def))


class Variable:
    _execution_engine = Engine()


class DisableTorchFunctionSubclass:
    """Leaves modes on."""

    def __enter__(self):
        pass

    def __exit__(self, *args):
        pass


class DisableTorchFunction:
    depth = 0

    def __enter__(self):
        DisableTorchFunction.depth += 1

    def __exit__(self, *args):
        DisableTorchFunction.depth -= 1


class Module:
    def __init__(self):
        self._modules, self._parameters, self._buffers = {}, {}, {}

    def _call_impl(self):
        pass

    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)

    __call__ = _wrapped_call_impl


class Optimizer:
    """As torchlike.py's: who calls step() comes by what kedge watches."""

    def __init__(self):
        if not getattr(self.__class__.step, "hooked", None):
            self.__class__.step = self.profile_hook_step(self.__class__.step)
            self.__class__.step.hooked = True

    @staticmethod
    def profile_hook_step(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            return func(*args, **kwargs)

        return wrapper


class SGD(Optimizer):
    def step(self):
        pass


class Reducer:
    """DDP's: its buckets are in C++."""


def empty(count, device="cuda"):
    return Tensor(4 * count)


def storage_uses(cdata):
    return 2


sys.modules["torch._C"] = _C = types.ModuleType("torch._C")
_C.TensorBase, _C._storage_Use_Count = TensorBase, storage_uses
_C.DisableTorchFunction, _C.DisableTorchFunctionSubclass = DisableTorchFunction, DisableTorchFunctionSubclass
_C._autograd = types.SimpleNamespace(SavedTensor=SavedTensor)
sys.modules["torch.autograd"] = autograd = types.ModuleType("torch.autograd")
autograd.Variable = Variable
nn = types.SimpleNamespace(Module=Module)
sys.modules["torch.nn.modules.module"] = types.ModuleType("torch.nn.modules.module")
sys.modules["torch.nn.modules.module"].Module = Module
sys.modules["torch.optim"] = optim = types.ModuleType("torch.optim")
sys.modules["torch.optim.optimizer"] = optim.optimizer = types.ModuleType("torch.optim.optimizer")
optim.Optimizer = optim.optimizer.Optimizer = Optimizer
optim.SGD = SGD
_C.OutOfMemoryError = OutOfMemoryError
if "HELD_KINDS" in os.environ:  # what modules keep is asked for, too
    _C.StorageBase = UntypedStorage
    sys.modules["torch.nn.parameter"] = types.ModuleType("torch.nn.parameter")
    sys.modules["torch.nn.parameter"].Parameter = Tensor
if "HELD_UNKNOWN" in os.environ:  # a PyTorch of another kind
    del _C.TensorBase
