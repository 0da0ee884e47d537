# SPDX-License-Identifier: MIT
"""Trains a perceptron with JAX: a step that is compiled, and one of single operations with --eager."""
import argparse
import json
import time

import jax
import jax.numpy as jnp
import numpy as np

options = argparse.ArgumentParser()
options.add_argument("--eager", action="store_true")
options.add_argument("--steps", type=int, default=8)
args = options.parse_args()


def loss(parameters, x, y):
    hidden = jnp.maximum(x @ parameters["in"], 0)
    return jnp.mean((hidden @ parameters["out"] - y) ** 2)


def step(parameters, x, y):
    value, gradients = jax.value_and_grad(loss)(parameters, x, y)
    return jax.tree.map(lambda p, g: p - 0.01 * g, parameters, gradients), value


def main():
    print(jax.devices()[0].device_kind)
    numbers = np.random.default_rng(7)
    parameters = {"in": jnp.asarray(numbers.standard_normal((256, 1024), "f4")),
                  "out": jnp.asarray(numbers.standard_normal((1024, 10), "f4"))}
    run = step if args.eager else jax.jit(step)
    times = []
    for i in range(args.steps):
        began = time.process_time()
        batch = 256 + 64 * (i % 2)
        host = numbers.standard_normal((batch, 256), "f4")
        x = jnp.asarray(host)
        y = jnp.asarray(numbers.standard_normal((batch, 10), "f4"))
        parameters, value = run(parameters, x, y)
        # The numbers that came back as they went are what can be compared: who computes the loss depends on XLA.
        value.block_until_ready()
        print(f"step {i}", value.dtype, value.shape, np.array_equal(np.asarray(x), host))
        times.append(time.process_time() - began)
    stats = jax.devices()[0].memory_stats() or {}
    exact = {k: stats[k] for k in ("num_allocs", "largest_alloc_size") if k in stats}
    # XLA frees when a thread of its own has seen that a buffer is done: what is in use depends on when that is.
    apart = {k: stats[k] for k in ("bytes_in_use", "peak_bytes_in_use", "pool_bytes", "peak_pool_bytes", "bytes_limit", "bytes_reserved") if k in stats}
    print("figures " + json.dumps({"exact": exact, "apart": apart, "step_ms": round(min(times) * 1000, 3)}), flush=True)


main()
