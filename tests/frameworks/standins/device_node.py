# SPDX-License-Identifier: MIT
"""Stands in for a file of the driver's that only root can make: JAX uses no GPU where none of them is there."""
import os.path

_exists = os.path.exists


def exists(path):
    return path == "/dev/nvidiactl" or _exists(path)


os.path.exists = exists
