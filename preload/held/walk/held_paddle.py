# SPDX-License-Identifier: MIT
"""A part of held.py, which says where it runs: what is asked of PaddlePaddle's objects."""
# pylint: disable=undefined-variable

class Paddle(Arrays):
    """What is asked of PaddlePaddle's tensors: address, shape and size of an element, by functions of C's, which neither wait nor call.
    Gradients and graphs are in no object of Python's."""
    children, hidden, silent = "_sub_layers", (dict, tuple), "; graphs and gradients of PaddlePaddle are in none"

    def __init__(self):
        super().__init__()
        paddle = modules["paddle"]
        self.tensor, self.module, self.optimizer = paddle.Tensor, paddle.nn.Layer, paddle.optimizer.Optimizer
        self.address, self.shape, self.element = (dict_of(self.tensor).get(name) for name in ("data_ptr", "shape", "element_size"))

    def kind(self, t):
        mro = mro_of(t)
        for kind, of in (("t", self.tensor), ("m", self.module), ("o", self.optimizer)):
            if of in mro:
                return kind
        return super().kind(t)

    def storage(self, obj):
        if self.is_array(obj):
            return super().storage(obj)
        try:
            address = self.address(obj)
            if not address: # its class in C++ follows a null pointer to the size of an element
                return None
            size = self.element(obj)
            for length in self.shape.__get__(obj):
                size *= length
        except (RuntimeError, TypeError, AttributeError, ValueError):
            return None
        return (address, size, 0) if size > 0 else None

    def joined(self, pairs):
        """A view is a tensor like any other: what overlaps lies in one storage."""
        found, whole = [], {}
        for address, size, _ in sorted({raw for raw, _ in pairs if raw}):
            if found and address < found[-1][0] + found[-1][1]:
                found[-1][1] = max(found[-1][1], address + size - found[-1][0])
            else:
                found.append([address, size, 0])
            whole[address] = found[-1]
        return [(raw and tuple(whole[raw[0]]), obj) for raw, obj in pairs]

    def states(self, own):
        for name, of in items_of(own.get("_accumulators")):
            yield from ((f"._accumulators['{name}']{key_text(key)}", tensor) for key, tensor in items_of(of))
        yield from ((f"._master_weights{key_text(key)}", tensor) for key, tensor in items_of(own.get("_master_weights")))
