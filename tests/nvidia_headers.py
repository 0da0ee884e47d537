# SPDX-License-Identifier: MIT
"""NVIDIA's wheels from PyPI, headers most of all, for tests that compare with them: pinned by hash, never in the tree."""
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

# Package, version, its wheel's hash, the suffix of its library.
VERSIONS = [
    ("nvidia-cuda-runtime-cu11", "11.8.89", "92d04069a987e1fbc9213f8376d265df0f7bb42617d44f5eda1f496acea7f2d1", "11.0"),
    ("nvidia-cuda-runtime-cu12", "12.4.127", "64403288fa2136ee8e467cdc9c9427e0434110899d07c779f25b5c068934faa5", "12"),
    ("nvidia-cuda-runtime-cu12", "12.9.79", "25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3", "12"),
    ("nvidia-cuda-runtime", "13.5.37", "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d", "13"),
]

# The headers want crt/host_defines.h of another package: words that a C compiler does without.
HOST_DEFINES = """
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __host__
#define __device__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
"""


def _download(work, folder, *what):
    """The wheel of `what` unpacked into `folder`; None if the registry does not answer. Several tests may want it at once."""
    with tempfile.TemporaryDirectory(dir=work) as place:
        done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
                               "--retries", "1", "--timeout", "10", "-d", place, *what], capture_output=True, text=True)
        if done.returncode:
            print(done.stderr.strip()[-400:], file=sys.stderr)
            return None
        wheel = next(pathlib.Path(place).glob("*.whl"))
        zipfile.ZipFile(wheel).extractall(pathlib.Path(place) / "all")
        with contextlib.suppress(OSError):  # another test was first
            (pathlib.Path(place) / "all").rename(folder)
    return folder


def fetch(work, package, version, *digests):
    """The package's folder, or None if the registry does not answer. A package with a wheel for each interpreter has several hashes."""
    folder = work / f"{package}-{version}"
    if folder.exists():
        return folder
    with tempfile.NamedTemporaryFile("w", dir=work, suffix=".txt") as wanted:
        print(f"{package}=={version}", *(f"--hash=sha256:{digest}" for digest in digests), file=wanted, flush=True)
        return _download(work, folder, "--require-hashes", "-r", wanted.name)


def newest(work):
    """As fetch: the newest headers that there are, asked for once a day."""
    folder = work / time.strftime("newest-%Y-%m-%d")
    return folder if folder.exists() else _download(work, folder, "nvidia-cuda-runtime")


def host_defines(work):
    (work / "crt").mkdir(exist_ok=True)
    (work / "crt" / "host_defines.h").write_text(HOST_DEFINES)
