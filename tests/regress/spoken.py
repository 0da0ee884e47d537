#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Anchors that a program speaks of in its output: programs as users write them, under `kedge run`, with no setting."""
import pathlib
import shutil
import sys

from regresskit import (KEDGE, LIBRARY, SIM, SMALL_WINDOW, SOT, SOURCE, bare, check, expect_report, kedge_run, main, run, same, seed_row,
                        skip, tool, tool_json)

# What any of these Python programs begins with: a device, and a function that allocates.
PRELUDE = f"""
import ctypes, logging, os, sys, threading
cuda = ctypes.CDLL("{SIM}/libcuda.so.1")
def must(r):
    if r:
        sys.exit(f"CUDA error {{r}}")
context = ctypes.c_void_p()
must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
def take(kib):
    ptr = ctypes.c_uint64()
    must(cuda.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(kib << 10)))
    return ptr
"""


def anchors(capture):
    """[(name, instance, bytes allocated)] of a capture, in order of appearance."""
    return [(a["name"], a["instance"], a["allocated_bytes"]) for a in tool_json("report", capture)["anchors"]]


def python(name, body, **env):
    pathlib.Path(f"{name}.py").write_text(PRELUDE + body, encoding="utf-8")
    kedge_run(sys.executable, "-s", f"{name}.py", capture=f"{name}.kcap", **env)
    return anchors(f"{name}.kcap")


def pythons_print_logging_and_write_are_seen():
    got = python("print", """
print("START by_print"); take(1)
sys.stdout.write("START by_"); sys.stdout.write("stdout\\n"); take(2)
print("START", "by_error", file=sys.stderr); take(3)
os.write(1, b"START by_write\\n"); take(4)
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s:%(levelname)s: %(message)s")
logging.info("START by_logging"); take(5)
print("10%", end="\\r"); print("END by_logging"); take(6)
""")
    same("anchors", got, [("by_print", 0, 1 << 10), ("by_stdout", 0, 2 << 10), ("by_error", 0, 3 << 10),
                          ("by_write", 0, 4 << 10), ("by_logging", 0, 5 << 10)])


def threads_of_python_have_anchors_of_their_own():
    got = python("threads", """
def work(i):
    must(cuda.cuCtxSetCurrent(context))
    os.write(1, b"START worker_%d\\n" % i)
    take(i)
    os.write(1, b"END worker_%d\\n" % i)
print("START main", flush=True)
for i in (1, 2):
    t = threading.Thread(target=work, args=(i,)); t.start(); t.join()
take(8)
""")
    same("anchors", sorted(got), [("main", 0, 8 << 10), ("worker_1", 0, 1 << 10), ("worker_2", 0, 2 << 10)])


def instances_of_two_runs_meet():
    """The good run keeps nothing of its 17th call, the bad one does: the diff names that very call."""
    body = """
kept = []
for step in range(20):
    print("START SOT_CALL_0")
    a, b = take(64), take(128)
    must(cuda.cuMemFree_v2(b))
    if BAD and step == 16:
        kept.append(a)
    else:
        must(cuda.cuMemFree_v2(a))
    print("END SOT_CALL_0")
for a in kept:
    must(cuda.cuMemFree_v2(a))
"""
    for name, bad in (("good", False), ("bad", True)):
        got = python(name, f"BAD = {bad}\n" + body)
        same(f"{name}: anchors", got, [("SOT_CALL_0", i, 192 << 10) for i in range(20)])
    j = tool_json("diff", "good.kcap", "bad.kcap")
    same("late frees and bytes", (j["late_frees"], j["late_bytes"]), (1, 64 << 10))
    remaining = [a["instance"] for a in tool_json("report", "bad.kcap")["anchors"] if a["remaining_bytes"]]
    same("the call that kept something", remaining, [16])


CPP = r"""
#include <cstdio>
#include <dlfcn.h>
#include <iostream>
#include <thread>
static void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
template <typename... A> static void call(const char *name, A... a)
{
    auto f = (int (*)(A...))dlsym(cuda, name);
    if (!f || f(a...)) { fprintf(stderr, "%s\n", name); _Exit(1); }
}
static void take(size_t kib)
{
    unsigned long long ptr;
    call("cuMemAlloc_v2", &ptr, kib << 10);
}
int main()
{
    void *context = nullptr;
    call("cuInit", 0u);
    call("cuDevicePrimaryCtxRetain", &context, 0);
    call("cuCtxSetCurrent", context);
    std::cout << "START " << "by_cout_" << 1 << std::endl; take(1);
    std::cerr << "START " << "by_cerr_" << 2 << '\n'; take(2);
    std::clog << "I1121 glog.cc:7] START by_clog" << std::endl; take(3);
    printf("START by_%s\n", "printf"); take(4);
    putchar('S'); fputs("TART by_", stdout); puts("pieces"); take(5);
    fprintf(stderr, "START by_%s\n", "stderr"); take(6);
    std::ios::sync_with_stdio(false);
    std::cout << "START by_its_own_buffer\n" << std::flush; take(7);
    return 0;
}
"""


def streams_of_cpp_are_seen():
    compiler = shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        skip("no C++ compiler")
    pathlib.Path("streams.cc").write_text(CPP, encoding="utf-8")
    wanted = [("by_cout_1", 1), ("by_cerr_2", 2), ("by_clog", 3), ("by_printf", 4), ("by_pieces", 5), ("by_stderr", 6),
              ("by_its_own_buffer", 7)]
    # As users build: optimised and with glibc's checked forms, and neither.
    for flags in (("-O0",), ("-O2", "-D_FORTIFY_SOURCE=2")):
        run(compiler, "-std=c++17", *flags, "streams.cc", "-o", "streams", "-ldl", "-pthread")
        kedge_run("./streams", capture="streams.kcap")
        same(f"anchors with {flags}", anchors("streams.kcap"), [(name, 0, kib << 10) for name, kib in wanted])


MARKS_C = r"""
#include "preload/base/kedge.h"
void library_says(void);
void library_says(void) { KEDGE_PUSH("library"); KEDGE_MARK("moment"); KEDGE_POP(); }
#ifdef PROGRAM
#include <stdio.h>
int main(void) { library_says(); return puts("done") < 0; }
#endif
"""
MARKS_CPP = CPP.split("int main()")[0] + r"""
#include "preload/base/kedge.h"
int main()
{
    void *context = nullptr;
    auto says = (void (*)())dlsym(dlopen("./libmarks.so", RTLD_NOW | RTLD_LOCAL), "library_says");
    call("cuInit", 0u);
    call("cuDevicePrimaryCtxRetain", &context, 0);
    call("cuCtxSetCurrent", context);
    take(1);
    KEDGE_PUSH("program");
    take(2);
    says();
    KEDGE_POP();
    return 0;
}
"""


def marks_of_the_header_work_from_c_and_cpp():
    """In a program of C++ and a library that it opens; a static program and one without kedge just run."""
    cpp, cc = shutil.which("g++") or shutil.which("clang++"), shutil.which("cc") or shutil.which("gcc")
    if not cpp or not cc:
        skip("no compiler for C and C++")
    strict = ("-Wall", "-Wextra", "-Werror", f"-I{SOURCE}")
    pathlib.Path("marks.c").write_text(MARKS_C, encoding="utf-8")
    pathlib.Path("marks.cc").write_text(MARKS_CPP, encoding="utf-8")
    run(cc, *strict, "-shared", "-fPIC", "marks.c", "-o", "libmarks.so")
    run(cpp, "-std=c++17", *strict, "marks.cc", "-o", "marks", "-ldl", "-pthread")
    kedge_run("./marks", capture="marks.kcap")
    same("anchors", [a[:2] for a in anchors("marks.kcap")], [("program", 0), ("program/library", 0), ("program/library/moment", 0)])
    bare("./marks")
    run(cc, *strict, "-static", "-DPROGRAM", "marks.c", "-o", "static")
    check("done" in run("./static", LD_PRELOAD=LIBRARY).stdout, "a static program does not run")


def sot_speaks_as_well_as_it_pushes():
    reports = {}
    for how in ("nvtx", "log", "both"):
        for form in ("pir", "pt"):
            kedge_run(SOT, "--form", form, "--graph", "small", "--anchors", how, capture=f"{how}-{form}.kcap")
            expect_report(f"{how}-{form}.kcap", SMALL_WINDOW, seed_row("small", form))
            reports[how, form] = tool_json("report", f"{how}-{form}.kcap")["anchors"]
            same(f"{how}, {form}: the report's anchors", reports[how, form], reports["nvtx", form])
    check([a["name"] for a in reports["log", "pir"]] == ["SOT_CALL_0", "BACKWARD"], f"anchors: {reports['log', 'pir']}")
    tool_json("diff", "nvtx-pt.kcap", "log-pir.kcap")
    same("late frees, one run by NVTX and the other by lines", tool_json("diff", "nvtx-pt.kcap", "log-pir.kcap")["late_frees"], 1)


def lines_key_hints():
    """Everything by lines alone: suggest, verify, live. The bad run then keeps what the good one does."""
    for form in ("pir", "pt"):
        kedge_run(SOT, "--form", form, "--graph", "small", "--anchors", "log", capture=f"{form}.kcap")
    tool("suggest", "--good", "pt.kcap", "--bad", "pir.kcap", "-o", "hints.yaml")
    bad = (SOT, "--form", "pir", "--graph", "small", "--anchors", "log")
    run(KEDGE, "verify", "--sim", "--hints", "hints.yaml", "--", *bad)
    kedge_run(*bad, capture="live.kcap", KEDGE_HINTS="hints.yaml", KEDGE_HINTS_MODE="live")
    live, good = tool_json("report", "live.kcap", *SMALL_WINDOW), tool_json("report", "pt.kcap", *SMALL_WINDOW)
    same("one hint acted once", live["hinted_freed_count"], 1)
    same("remaining with hints", live["remaining_with_hints_bytes"], good["remaining_bytes"])


if __name__ == "__main__":
    main(pythons_print_logging_and_write_are_seen, threads_of_python_have_anchors_of_their_own,
         instances_of_two_runs_meet, streams_of_cpp_are_seen,
         marks_of_the_header_work_from_c_and_cpp, sot_speaks_as_well_as_it_pushes, lines_key_hints)
