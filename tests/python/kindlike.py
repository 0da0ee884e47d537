# SPDX-License-Identifier: MIT
"""torchlike.py, and tensors with what is asked of PyTorch's: storages with addresses, gradients, modules and optimizers that keep
them. Of the classes that PyTorch has in C these are Python's, so the interpreter is not as undisturbed as with the real one.
"""

import gc  # noqa: F401  as PyTorch does

import likememory
from torchlike import *  # noqa: F401,F403
from torchlike import amp, autograd, module, nn, optim, utils  # noqa: F401



class StorageBase:
    def __init__(self, size):
        self.block, self.size = None, size
        self.block = likememory.empty(size)

    def __del__(self):
        if self.block:
            likememory.free(self.block)

    def data_ptr(self):
        return self.block.value

    def nbytes(self):
        return self.size


class TensorBase:
    def __init__(self, storage=None, grad_fn=None):
        self._storage, self._grad, self._grad_fn = storage, None, grad_fn

    def untyped_storage(self):
        return self._storage

    is_cuda = property(lambda self: self._storage is not None)
    grad_fn = property(lambda self: self._grad_fn)

    @property
    def grad(self):
        return self._grad

    @grad.setter
    def grad(self, value):
        self._grad = value


class Tensor(TensorBase):
    pass


class Parameter(Tensor):
    pass


class DisableTorchFunction:
    depth = 0

    def __enter__(self):
        DisableTorchFunction.depth += 1

    def __exit__(self, *_):
        DisableTorchFunction.depth -= 1


class OutOfMemoryError(RuntimeError):
    pass


def tensor(size, of=Tensor, **more):
    return of(StorageBase(size), **more)


class Net(nn.Module):
    """A module that keeps parameters and buffers as PyTorch's do."""

    def __init__(self):
        super().__init__()
        self._parameters, self._buffers, self._non_persistent_buffers_set = {}, {}, set()

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            self._parameters[name] = value
        super().__setattr__(name, value)

    def parameters(self):
        return [p for _, m in self.named_modules() for p in getattr(m, "_parameters", {}).values()]


class Adam(optim.Optimizer):
    """Its state is as large as the parameters, once."""

    def __init__(self, parameters):
        super().__init__(None)
        self._zero_grad_profile_name = "".join(["Optimizer.zero_grad#", type(self).__name__])
        self.param_groups, self.state = [{"params": list(parameters), "lr": 1.0}], {}

    def step(self, closure=None):
        if closure:
            closure()
        for p in self.param_groups[0]["params"]:
            if p.grad is not None and p not in self.state:
                self.state[p] = {"step": 1, "exp_avg": tensor(p.untyped_storage().nbytes())}

    def zero_grad(self):
        for p in self.param_groups[0]["params"]:
            p.grad = None


class Loss(Tensor):
    """What a forward keeps for its backward pass, which then makes the gradients."""

    def __init__(self, saved, parameters):
        super().__init__(None)
        self.saved, self.parameters = saved, parameters

    def backward(self):
        autograd.backward(self)

    def compute_gradients(self):
        for p in dict.fromkeys(self.parameters):
            flow = tensor(p.untyped_storage().nbytes())  # freed in the pass
            del flow
            if p.grad is None:
                p.grad = tensor(p.untyped_storage().nbytes())
        self.saved.clear()


module("_C", TensorBase=TensorBase, StorageBase=StorageBase, DisableTorchFunction=DisableTorchFunction,
       OutOfMemoryError=OutOfMemoryError)
nn.parameter = module("nn.parameter", Parameter=Parameter)
