#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A framework on a driver without a device: imports it, asks it for a device and for memory, prints what it answers.

    no_device.py torch|cupy|jax|numba|bindings
"""
import logging
import sys
import warnings


def answer(what, ask):
    """What a call returns or raises, in one line without addresses."""
    try:
        print(what, ask())
    except BaseException as e: # pylint: disable=broad-exception-caught # pyo3 panics are no Exception
        print(what, type(e).__name__, " ".join(str(e).split())[:400])


def probe_torch():
    import torch
    print(torch.__version__, torch.version.cuda)
    cuda = torch.cuda
    answer("available", cuda.is_available)
    answer("devices", cuda.device_count)
    answer("tensor", lambda: torch.zeros(1, device="cuda"))
    answer("init", cuda.init)
    answer("stream", cuda.Stream)
    answer("event", lambda: cuda.Event().record())
    answer("memory", cuda.mem_get_info)
    answer("statistics", lambda: len(cuda.memory_stats()))
    answer("bf16", cuda.is_bf16_supported)
    answer("pinned", lambda: torch.zeros(4).pin_memory())
    answer("graph", cuda.CUDAGraph)
    answer("nccl", lambda: (torch.distributed.is_nccl_available(), cuda.nccl.version()))
    answer("triton", lambda: type(__import__("triton.runtime", fromlist=["driver"]).driver.active).__name__)
    x = torch.ones(64, 64, requires_grad=True)
    (x @ x).sum().backward()
    answer("on the host", x.grad.sum)


def probe_cupy():
    import cupy
    runtime = cupy.cuda.runtime
    print(cupy.__version__, runtime.runtimeGetVersion())
    answer("driver", runtime.driverGetVersion)
    answer("devices", runtime.getDeviceCount)
    answer("available", cupy.cuda.is_available)
    answer("array", lambda: cupy.zeros(3))
    answer("malloc", lambda: runtime.malloc(100))
    answer("async", lambda: runtime.mallocAsync(100, 0))
    answer("stream", cupy.cuda.Stream)
    answer("synchronize", runtime.deviceSynchronize)


def probe_jax():
    logging.disable(logging.CRITICAL)
    import jax
    print(jax.__version__)
    answer("devices", jax.devices)
    answer("cuda", lambda: jax.devices("cuda"))
    answer("on the host", lambda: float(jax.numpy.ones(4).sum()))


def probe_numba():
    from numba import cuda
    answer("available", cuda.is_available)
    answer("devices", lambda: cuda.gpus.lst)
    answer("version", lambda: cuda.driver.driver.get_version())
    answer("memory", lambda: cuda.to_device([1.0]))


def probe_bindings():
    from cuda.bindings import driver, runtime
    answer("before", lambda: driver.cuMemAlloc(100))
    answer("driver", driver.cuDriverGetVersion)
    answer("init", lambda: driver.cuInit(0))
    answer("devices", driver.cuDeviceGetCount)
    answer("alloc", lambda: driver.cuMemAlloc(100))
    answer("async", lambda: driver.cuMemAllocAsync(100, 0))
    answer("free", lambda: driver.cuMemFree(0))
    answer("memory", driver.cuMemGetInfo)
    answer("context", lambda: driver.cuDevicePrimaryCtxRetain(0))
    answer("entry", lambda: driver.cuGetProcAddress(b"cuNoSuchFunction", 12000, 0))
    answer("runtime", runtime.cudaRuntimeGetVersion)
    answer("runtime devices", runtime.cudaGetDeviceCount)
    answer("runtime malloc", lambda: runtime.cudaMalloc(100))
    answer("runtime async", lambda: runtime.cudaMallocAsync(100, 0))
    answer("runtime free", lambda: runtime.cudaFree(0))
    answer("runtime pinned", lambda: runtime.cudaMallocHost(100))
    answer("names", lambda: sum(name.startswith("cu") for name in dir(driver)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"torch": probe_torch, "cupy": probe_cupy, "jax": probe_jax, "numba": probe_numba, "bindings": probe_bindings}[sys.argv[1]]()
