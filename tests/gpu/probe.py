#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is there a GPU that CUDA programs can use here, and where is its runtime?

Prints one JSON object and exits 0, or prints why not and exits 77. Asks the driver itself, since an installed
nvidia-smi proves nothing about a container. Runs in a process of its own, so that no caller holds a context.
"""
import ctypes
import glob
import json
import os
import sys


def runtime_folders():
    """Folders that may hold libcudart.so.13 or .12: the loader's own first (None), toolkits, python wheels."""
    yield None
    for pattern in ("/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/x86_64-linux/lib"):
        yield from sorted(glob.glob(pattern), reverse=True)
    for path in list(sys.path) + glob.glob("/opt/*/.venv/lib/python3*/site-packages"):
        yield from glob.glob(os.path.join(path, "nvidia", "cu1?", "lib"))
        yield from glob.glob(os.path.join(path, "nvidia", "cuda_runtime", "lib"))


def mapped_folder(soname):
    """Where the library that is loaded lies: programs with a RUNPATH of their own must be led to this one."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if os.path.basename(path).startswith(soname):
                return os.path.dirname(path)
    return ""


def find_runtime(version):
    """Returns (soname, folder)."""
    for number in range(version // 1000, 11, -1):
        soname = f"libcudart.so.{number}"
        for folder in runtime_folders():
            try:
                ctypes.CDLL(os.path.join(folder, soname) if folder else soname)
                return soname, folder or mapped_folder(soname)
            except OSError:
                continue
    return None, None


def probe():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        return None, f"no CUDA driver: {e}"
    rc = cuda.cuInit(0)
    if rc != 0:
        return None, f"cuInit failed with {rc}"
    count = ctypes.c_int()
    if cuda.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return None, "the CUDA driver sees no device"
    device, name, total, version = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t(), ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDeviceGetName(name, 256, device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    text = name.value.decode()
    if "simulated" in text.lower() and "--allow-simulated" not in sys.argv:
        return None, "the CUDA driver on the library path is the simulated one"
    soname, folder = find_runtime(version.value)
    kernel_driver = "unknown"
    try:
        with open("/proc/driver/nvidia/version", encoding="ascii", errors="replace") as f:
            words = f.readline().split()
            kernel_driver = next((w for w in words if w[:1].isdigit() and "." in w), "unknown")
    except OSError:
        pass
    return {"devices": count.value, "name": text, "total_bytes": total.value, "cuda": version.value,
            "driver": kernel_driver, "cudart": soname, "cudart_folder": folder}, None


if __name__ == "__main__":
    found, why = probe()
    if not found:
        print(f"SKIP: {why}")
        sys.exit(77)
    print(json.dumps(found))
