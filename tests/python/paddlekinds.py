# SPDX-License-Identifier: MIT
"""paddlelike.py, and tensors, layers and optimizers with what kedge asks of PaddlePaddle's: places, addresses, gradients, names; state by
the names of parameters. Of the classes that PaddlePaddle has in C++ these are Python's, and no object shows a tensor's memory."""
import collections
import gc  # noqa: F401  as PaddlePaddle does

import likememory
import paddlelike
from paddlelike import *  # noqa: F401,F403
from paddlelike import autograd, dygraph_only, io, jit, nn, optimizer  # noqa: F401


class Place:
    def __init__(self, is_gpu):
        self.is_gpu = is_gpu

    def is_gpu_place(self):
        return self.is_gpu


class Tensor(paddlelike.Tensor):
    made = 0
    asked = []  # names of tensors whose gradient was asked for

    def __init__(self, size, is_gpu=True, name=None):
        Tensor.made += 1
        self.block = None
        self.block = likememory.empty(size) if is_gpu and size else None
        self.size, self.is_gpu, self._grad, self._name = size, is_gpu, None, name or f"generated_tensor_{Tensor.made}"

    def __del__(self):
        if self.block:
            likememory.free(self.block)

    def data_ptr(self):
        return self.block.value if self.block else None if self.is_gpu else 4096

    def element_size(self):
        if not self.size:
            raise SystemExit("PaddlePaddle would end here")
        return 4

    shape = property(lambda self: [2, self.size // 8])
    place = property(lambda self: Place(self.is_gpu))
    name = property(lambda self: self._name)
    grad_fn = property(lambda self: None)

    @property
    def grad(self):
        Tensor.asked.append(self._name)
        return self._grad


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self._parameters, self._buffers, self._sub_layers = (collections.OrderedDict() for _ in range(3))
        self._non_persistable_buffer_names_set = set()

    def __setattr__(self, name, value):
        if isinstance(value, nn.Layer):
            self._sub_layers[name] = value
        object.__setattr__(self, name, value)


class Loss(Tensor):
    """Its backward makes the gradients, and calls `meanwhile` then."""

    def __init__(self, parameters, meanwhile=None):
        super().__init__(0)
        self.parameters, self.meanwhile = parameters, meanwhile

    def compute_gradients(self):
        for p in self.parameters:
            p._grad = p._grad or Tensor(p.size)
        if self.meanwhile:
            self.meanwhile()


class Adam(optimizer.Optimizer):
    """With copies of higher precision, to which its state belongs."""

    def __init__(self, parameters, copies=True):
        super().__init__(None)
        self._param_groups = self._parameter_list = parameters
        self._accumulators, self._master_weights = collections.defaultdict(dict), {}
        self._opti_name_list, self.copies = [], copies

    @dygraph_only
    def step(self):
        for p in self._parameter_list:
            of = p
            if self.copies:
                of = self._master_weights.setdefault(p.name, None) or Tensor(2 * p.size, name=p.name + "_fp32_master_0")
                self._master_weights[p.name] = of
            if of.name not in self._accumulators["moment1"]:
                self._accumulators["moment1"][of.name] = Tensor(2 * p.size)
                self._accumulators["beta1_pow_acc"][of.name] = Tensor(8, is_gpu=False)
                self._opti_name_list.append(of.name + "_moment1_0")


optimizer.Adam = Adam
