# SPDX-License-Identifier: MIT
"""The classifier of JAX's own examples (examples/mnist_classifier.py) on random images: layers and an optimizer of jax.example_libraries.

What kernels of XLA compute is nobody's here, so what is printed of it is its form; numbers that went to the device must come back.
"""
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.example_libraries import optimizers, stax
from jax.example_libraries.stax import Dense, LogSoftmax, Relu

EPOCHS, BATCHES, BATCH = 2, 3, 16
init_random_params, predict = stax.serial(Dense(128), Relu, Dense(128), Relu, Dense(10), LogSoftmax)
opt_init, opt_update, get_params = optimizers.momentum(0.001, mass=0.9)


def loss(params, batch):
    inputs, targets = batch
    return -jnp.mean(jnp.sum(predict(params, inputs) * targets, axis=1))


@jax.jit
def accuracy(params, batch):
    inputs, targets = batch
    return jnp.mean(jnp.argmax(predict(params, inputs), axis=1) == jnp.argmax(targets, axis=1))


@jax.jit
def update(i, opt_state, batch):
    params = get_params(opt_state)
    return opt_update(i, jax.grad(loss)(params, batch), opt_state)


def main():
    numbers = np.random.default_rng(7)
    images = numbers.random((BATCHES * BATCH, 784), "f4")
    labels = np.eye(10, dtype="f4")[numbers.integers(0, 10, len(images))]
    _, init_params = init_random_params(jax.random.key(0), (-1, 784))
    opt_state, count = opt_init(init_params), itertools.count()
    for epoch in range(EPOCHS):
        for _ in range(BATCHES):
            chosen = numbers.permutation(len(images))[:BATCH]
            batch = jnp.asarray(images[chosen]), jnp.asarray(labels[chosen])
            opt_state = update(next(count), opt_state, batch)
            print("epoch", epoch, all(np.array_equal(np.asarray(b), a[chosen]) for a, b in zip((images, labels), batch)))
        params = get_params(opt_state)
        print("epoch", epoch, [(p.shape, str(p.dtype)) for p in jax.tree.leaves(params)], accuracy(params, (images, labels)).dtype)


main()
