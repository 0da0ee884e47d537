#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""JAX with the allocator that its environment names: a small training loop, losses printed exactly."""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")
os.environ.setdefault("JAX_PLATFORMS", "cuda")
import jax
import jax.numpy as jnp

SIZES = (256, 1024, 1024, 64)


def forward(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


@jax.jit
def step(params, x, y):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((forward(p, x) - y) ** 2))(params)
    return [(w - 0.05 * gw, b - 0.05 * gb) for (w, b), (gw, gb) in zip(params, grads)], loss


key = jax.random.PRNGKey(3)
params = []
for n, m in zip(SIZES, SIZES[1:]):
    key, part = jax.random.split(key)
    params.append((jax.random.normal(part, (n, m)) / n ** 0.5, jnp.zeros(m)))
for i in range(20):
    key, part = jax.random.split(key)
    x = jax.random.normal(part, (512, SIZES[0]))
    params, loss = step(params, x, jnp.sin(x[:, : SIZES[-1]]))
    print(f"loss {i} {float(loss).hex()}", flush=True)
print(f"version jax {jax.__version__}")
