#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The real CUDA runtime, linked statically: its driver entries are our hooks, and without the dlsym hook they are not.

The runtime gives up on the simulated driver when it asks for what only NVIDIA's driver has; by then it has asked for
every entry. Needs libcudart_static.a of a CUDA toolkit.
"""
import re

from regresskit import BUILD, LIBRARY, SIM, check, main, needs, run, skip

PROGRAM = BUILD / "tests" / "regress" / "static_witness"
SHARED = BUILD / "tests" / "regress" / "shared_witness"
NAMES = ("cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuMemFreeAsync")


def witness(library, rc, program=PROGRAM, *arguments):
    if not program.exists():
        skip("no CUDA toolkit with this runtime was found when this was configured")
    needs(library, SIM / "libcuda.so.1")
    done = run(program, *arguments, rc=rc, LD_PRELOAD=library, LD_LIBRARY_PATH=SIM, KEDGE_CAPTURE="static.kcap")
    print(done.stdout)
    ended = re.search(r"cudaMalloc returned (\d+) after (\d+) look-ups", done.stdout)
    check(ended, "the program did not come to its end")
    check(ended and int(ended.group(2)) > 300, "the runtime asked for fewer entries than it is known to ask for")
    return {n: set(re.findall(rf"^{n} (\S+)$", done.stdout, re.M)) for n in NAMES}


def r59_hooks_are_in_place_before_the_runtime_gives_up():
    for name, libraries in witness(LIBRARY, 0).items():
        check(libraries == {str(LIBRARY)}, f"{name} was answered with {libraries}")


def r42_the_shared_runtime_gets_the_same_hooks():
    """The shared runtime is opened late, and asks in its own name."""
    cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    runtime = re.search(r"^KEDGE_CUDART_SHARED:\w+=(/.*)$", cache, re.M)
    if not runtime:
        skip("no CUDA toolkit with a shared runtime was found when this was configured")
    for name, libraries in witness(LIBRARY, 0, SHARED, runtime.group(1)).items():
        check(libraries == {str(LIBRARY)}, f"{name} was answered with {libraries}")


def r59_without_the_dlsym_hook_they_are_not():
    """The same program with a library that lacks the one hook: the test above can fail."""
    found = list(BUILD.rglob("libkedge_nodlsym.so"))
    needs(*(found or [BUILD / "libkedge_nodlsym.so"]))
    for name, libraries in witness(found[0], 1).items():
        check(libraries and not any("libkedge" in l for l in libraries), f"{name} was answered with {libraries}")


if __name__ == "__main__":
    main(r42_the_shared_runtime_gets_the_same_hooks, r59_hooks_are_in_place_before_the_runtime_gives_up, r59_without_the_dlsym_hook_they_are_not)
