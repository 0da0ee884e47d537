#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The keys of places last: 20 runs of a program under ASLR have equal keys for all allocations; a rebuilt library changes those
that go through it and no others, and `kedge diff` and `kedge suggest` say which library it was.

sites.py trainers | cxx [--runs N]"""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys

BUILD = pathlib.Path(os.environ["TEST_BUILD"])
RUNS = 20
TRAINERS = {"sot": ["--form", "pir", "--graph", "small"], "loop": [], "streams": [], "threads": [], "graphs": [], "driverprog": []}

PROGRAM = """
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuMemFree_v2(unsigned long long);
}
typedef int (*plugin_fn)(int (*)(unsigned long long *, size_t), unsigned long long *);
template <typename T> struct tensor {
    unsigned long long ptr = 0;
    explicit tensor(size_t n) { if (cuMemAlloc_v2(&ptr, n * sizeof(T))) abort(); }
    ~tensor() { cuMemFree_v2(ptr); }
};
template <typename F> static void twice(F f) { f(1); f(2); }
int main(int, char **argv)
{
    void *context;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
    std::vector<tensor<float> *> kept;
    twice([&](int n) { kept.push_back(new tensor<float>(4096 * n)); });
    tensor<double> other(1 << 20);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) { puts(dlerror()); return 1; }
    for (const char *name : {"plugin_one", "plugin_two"}) {
        unsigned long long ptr;
        if (((plugin_fn)dlsym(library, name))(cuMemAlloc_v2, &ptr)) return 1;
    }
    for (auto *t : kept) delete t;
}
"""
PLUGIN = """
#include <cstddef>
typedef int (*alloc_fn)(unsigned long long *, size_t);
static __attribute__((noinline)) int ask(alloc_fn alloc, unsigned long long *ptr, size_t size)
{
    volatile int result = alloc(ptr, size);
    return result;
}
extern "C" int plugin_one(alloc_fn alloc, unsigned long long *ptr) { volatile int r = ask(alloc, ptr, 3 << 20); return r; }
extern "C" int plugin_two(alloc_fn alloc, unsigned long long *ptr) { volatile int r = ask(alloc, ptr, 5 << 20); return r + VARIANT - VARIANT; }
extern "C" int variant() { return VARIANT; }
"""


def record(name, *command):
    """Runs a program; its allocations as (site, size, modules), and where it was loaded."""
    capture = pathlib.Path(f"{name}.kcap")
    capture.unlink(missing_ok=True)
    done = subprocess.run([BUILD / "kedge", "run", "--sim", "--capture", capture, "--", *command],
                          env=os.environ | {"KEDGE_TRACE": "full"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    lines = subprocess.run([BUILD / "tests" / "preload" / "sites_of", capture], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return [tuple(line.split()) for line in lines if not line.startswith("at ")], lines[-1]


def twenty_runs(name, runs, *command):
    """All runs alike; the allocations of one."""
    first, place = record(name, *command)
    places = {place}
    assert first and all(site != "0" * 16 for site, *_ in first), f"{name}: allocations without a place"
    for _ in range(runs - 1):
        again, place = record(name, *command)
        places.add(place)
        # threads come in any order: as often each
        assert collections.Counter(again) == collections.Counter(first), f"{name}: other places in another run"
    print(f"{name}: {runs} runs, {len(first)} allocations, {len({a[0] for a in first})} places, {len(places)} addresses")
    return first, places


def trainers(runs):
    moved = set()
    for name, arguments in TRAINERS.items():
        _, places = twenty_runs(name, runs, BUILD / "trainers" / name, *arguments)
        moved |= places if len(places) > 1 else set()
    if not moved:
        print("SKIP: addresses are not randomised here")
        return 77
    return 0


def compile_cxx(output, source, *flags):
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "no C++ compiler"
    path = pathlib.Path(output + ".cc")
    path.write_text(source, encoding="utf-8")
    subprocess.run([compiler, "-O1", "-g", "-o", output, path, *flags], check=True)
    return pathlib.Path(output).absolute()


def plugin(variant, *flags):
    return compile_cxx("libplugin.so", PLUGIN, "-shared", "-fPIC", f"-DVARIANT={variant}", *flags)


def commands(good, bad):
    """What diff and suggest say of two captures."""
    diff = [BUILD / "kedge", "diff", good, bad]
    suggest = [BUILD / "kedge", "suggest", "--good", good, "--bad", bad, "-o", "h.yaml", "--force"]
    texts = [subprocess.run(command, capture_output=True, text=True, check=False).stdout for command in (diff, suggest)]
    answers = [json.loads(subprocess.run(command + ["--json"], capture_output=True, text=True, check=False).stdout)
               for command in (diff, suggest)]
    return texts, [answer["rebuilt"] for answer in answers]


def rebuilt(program, kind, *flags):
    """Another build of the plugin: its places are others, those of the program are not, and it is said."""
    library = plugin(1, *flags)
    before, _ = record("good", program, library)
    again, _ = record("same", program, library)
    assert again == before
    texts, rows = commands("good.kcap", "same.kcap")
    assert rows == [[], []] and not any("another build" in text for text in texts), (kind, texts)
    plugin(2, *flags)
    after, _ = record("bad", program, library)
    assert len(after) == len(before)
    for old, new in zip(before, after):
        through = "libplugin.so" in old[2]
        assert old[1:] == new[1:] and (old[0] != new[0]) == through, (kind, old, new)
    assert sum("libplugin.so" in row[2] for row in before) == 2
    texts, rows = commands("good.kcap", "bad.kcap")
    for text in texts:
        said = [line for line in text.splitlines() if "another build" in line]
        assert len(said) == 1 and said[0].startswith(f"note: {library} is another build"), (kind, text)
    for row in rows:
        assert [change["path"] for change in row] == [str(library)] and row[0]["good"] != row[0]["bad"], (kind, row)


def cxx(runs):
    driver = BUILD / "sim" / "libcuda.so.1"
    library = plugin(1)
    moved = False
    for kind in ("-pie", "-no-pie"):
        flags = ["-fPIE", "-pie"] if kind == "-pie" else ["-fno-pie", "-no-pie"]
        program = compile_cxx(f"program{kind}", PROGRAM, *flags, driver, "-ldl")
        first, places = twenty_runs(program.name, runs, program, library)
        assert len(first) == 5 and len({row[0] for row in first}) == 5, first
        assert kind == "-pie" or len(places) == 1, "this program cannot be moved"
        moved |= len(places) > 1
    rebuilt(program, "with a build-id", "-Wl,--build-id")
    rebuilt(program, "without a build-id", "-Wl,--build-id=none")
    if not moved:
        print("SKIP: addresses are not randomised here")
        return 77
    return 0


if __name__ == "__main__":
    count = int(sys.argv[3]) if sys.argv[2:3] == ["--runs"] else RUNS
    sys.exit({"trainers": trainers, "cxx": cxx}[sys.argv[1]](count))
