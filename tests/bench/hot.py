#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: quick.c
"""What kedge adds to a pair of allocation and free that finds its block, with nothing recorded (KEDGE_TRACE=off,
KEDGE_STACKS=off), from the entry of the hook to its return: at most 400 instructions, no malloc, no system call, and no call of
the driver but the question which context is current or which number a stream has. The driver's own instructions are left out.
Independent of the number of live blocks.

The rows `runtime` are what PyTorch has: a hundred libraries are loaded, one of them is on the list of those that are left alone
(libnccl), and the calls come through the exports of a shared runtime, whose own instructions are left out as well. With stacks
switched off, and without a record, they are to cost at most 500.

Unoptimised builds have no limit for the number itself. --full: a million live blocks. --objects: instead, a pair costs the same
whether modules are named and objects are looked at, or not. Exit 0, 1, or 77 with the reason."""
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
sys.dont_write_bytecode = True
import callgrind # pylint: disable=wrong-import-position
from regresskit import BUILD, LIBRARY, SIM, check, environment, failures, run, skip # pylint: disable=wrong-import-position

PROGRAM = BUILD / "tests" / "bench" / "hot_pair"
LIMIT = 400
RUNTIME_LIMIT = 500 # two exports more
OBJECTS = 96
PAIRS = 4096 # many epochs, and several turns of the long way that each thread takes now and then
QUESTIONS = {"cuCtxGetCurrent", "cuStreamGetId"}
# allocation API, workload, live blocks. On the sync API blocks of more than 1 MiB are fitted each time (DESIGN.md).
CASES = [("sync", "1024", 100), ("sync", "small", 100), ("sync", "mixed", 100), ("sync", "1024", 100000),
         ("stream", "1024", 100), ("stream", "small", 100), ("stream", "mixed", 100), ("stream", "3145728", 100),
         ("stream", "1024", 100000), ("pool", "1024", 100), ("side", "1024", 100), ("side", "mixed", 100),
         ("runtime-sync", "1024", 100), ("runtime-stream", "1024", 100), ("runtime-stream", "small", 100)]


def is_optimised():
    cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    return re.search(r"^CMAKE_BUILD_TYPE:\w+=Debug$", cache, re.M) is None


def make_objects():
    """A folder of many libraries; a file is a library of its own for the loader."""
    source = BUILD / "tests" / "bench" / "libhot_object.so"
    folder = pathlib.Path("objects").absolute()
    folder.mkdir(exist_ok=True)
    for name in [f"libobject_{i}.so" for i in range(OBJECTS)] + ["libnccl.so.2"]:
        if not (folder / name).exists():
            shutil.copyfile(source, folder / name)
    return {"TEST_HOT_OBJECTS": folder, "TEST_HOT_RUNTIME": BUILD / "tests" / "bench" / "libhot_runtime.so"}


def settings(**more):
    # Large pieces: a million blocks are there soon. What is freed may wait for the device for the whole of a small loop.
    return environment(LD_LIBRARY_PATH=SIM, LD_PRELOAD=LIBRARY, KEDGE_TRACE="off", KEDGE_STACKS="off", KEDGE_SYNC_FREE=0,
                       KEDGE_POOL="chunk=64M", SIMCUDA_GRANULARITY="64M", **make_objects(), **more)


def instructions(entrance, workload, live, pairs=PAIRS, **more):
    """Per pair: (kedge's, what the program printed)."""
    path = pathlib.Path("callgrind.out").absolute()
    out, own, calls = callgrind.count([PROGRAM, entrance, live, workload, pairs], path, settings() | more)
    path.unlink()
    return callgrind.share(own, calls, "libkedge.so", "libcuda.so", "libcudart.so") / pairs, out


def nothing_else(entrance, workload):
    """Mallocs, system calls, calls of the driver: without valgrind, which makes some of its own."""
    env = {k: v for k, v in settings(TEST_HOT_SECCOMP=1).items() if k.startswith(("KEDGE_", "LD_", "TEST_"))}
    pairs = 60 # fewer than close an epoch
    out = run(PROGRAM, entrance, 100, workload, pairs, **env).stdout
    counts = re.search(r"mallocs (\d+) syscalls (\d+) \[(\d+)\] calls(.*)", out)
    calls = dict(word.split("=") for word in counts[4].split())
    check(int(counts[1]) == 0, f"{entrance} {workload}: {counts[1]} mallocs")
    check(int(counts[2]) == 0, f"{entrance} {workload}: {counts[2]} system calls, the last is {counts[3]}")
    check(set(calls) <= QUESTIONS, f"{entrance} {workload}: calls of the driver: {calls}")
    check(sum(map(int, calls.values())) <= 2 * pairs + 4, f"{entrance} {workload}: more than one question a call: {calls}")


def with_and_without_objects():
    """What is known of a Python program's objects is asked for in its calls of modules and optimizers, not in those of its allocator."""
    off = {"KEDGE_KINDS": "off", "KEDGE_HELD": "none", "KEDGE_ANCHORS": "python=off"}
    for entrance in ("stream", "sync", "runtime-stream"):
        each = {name: instructions(entrance, "1024", 100, **env)[0]
                for name, env in (("default", {}), ("no objects", off), ("phases alone", {"KEDGE_ANCHORS": "python=steps"}))}
        print(f"{entrance:16}" + "".join(f"{name}: {count:.1f}  " for name, count in each.items()))
        check(max(each.values()) - min(each.values()) < 1, f"{entrance}: {each}")


def main():
    optimised = is_optimised()
    few = {}
    why = callgrind.available()
    if not PROGRAM.exists() or not LIBRARY.exists():
        skip("not built")
    if "--objects" not in sys.argv:
        for entrance, workload in sorted({case[:2] for case in CASES if not case[0].startswith("runtime")}): # it makes calls, too
            nothing_else(entrance, workload)
    if why:
        return 1 if failures else skip(why)
    if "--objects" in sys.argv:
        with_and_without_objects()
        return 1 if failures else 0
    print(f"{'entrance':10}{'workload':>10}{'live':>10}{'instructions':>14}")
    for entrance, workload, live in CASES:
        if live > 10000:
            live = 10000 if not optimised else 1000000 if "--full" in sys.argv else live
        each, _ = instructions(entrance, workload, live)
        print(f"{entrance:10}{workload:>10}{live:>10}{each:14.1f}")
        limit = RUNTIME_LIMIT if entrance.startswith("runtime") else LIMIT
        check(not optimised or each <= limit, f"{entrance} {workload} {live}: {each:.1f} instructions, at most {limit}")
        check(each <= 2 * few.setdefault((entrance, workload), each), f"{entrance} {workload}: depends on the live blocks")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
