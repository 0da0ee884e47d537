#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: suggest_file.c turns.c
"""R55: hints that do not act change no call to the driver. R86: every entry that carries an address is guarded.

calls: the simulated device's log of a program without a hint file, against those with one that is off, in shadow, for another
program, or broken. The one difference that shadow may make are the questions about kernel parameters, which it needs to see
late uses (R86): they are asked of the module, not of the device, and change nothing. Two more are compared nowhere, which reach no
device either: which context is current and which number a stream has. How often they are asked depends on where the program's
handles lie (preload/request/quick.h), and the way of requests that a hint has to be asked about asks more often.
guard: the names that the driver exports (the simulated one's, and a toolkit's where there is one) against our own exports.
"""
import os
import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path(os.environ["TEST_BUILD"])
BLOCK = 3538944
QUESTIONS = ("cuFuncGetParamInfo", "cuKernelGetParamInfo")
ASKED_ANYWAY = ("cuCtxGetCurrent", "cuStreamGetId")
PROGRAMS = {
    "sot": ["sot", "--form", "pir", "--graph", "small"],
    "sot_stream": ["sot", "--form", "pir", "--graph", "small", "--entrance", "stream", "--streams", "3"],
    "graphs": ["graphs", "--launches", "4"],
    "graphs_stream": ["graphs", "--launches", "4", "--entrance", "stream"],
}
HINTS = """kedge-hints: 1
{program}hints:
  - {{id: a, do: release, pick: {{size: %d, inside: "*", nth: all}}, when: {{anchor: "{anchor}", edge: exit}}}}
""" % BLOCK
failures = []


def fail(text):
    failures.append(text)
    print(f"FAILED: {text}")


def hint_file(name, anchor, program=""):
    path = pathlib.Path(name)
    path.write_text(HINTS.format(anchor=anchor, program=program), encoding="utf-8")
    path.chmod(0o644)
    return str(path)


def calls(name, arguments, rc=0, **settings):
    """The driver calls of one run, in order, without numbers and threads; and what the report says of hints."""
    log, capture = pathlib.Path(f"{name}.log"), pathlib.Path(f"{name}.kcap")
    for path in (log, capture):
        path.unlink(missing_ok=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KEDGE_", "SIMCUDA_", "LD_PRELOAD", "NVTX_"))}
    env.update(LD_PRELOAD=str(BUILD / "libkedge.so"), LD_LIBRARY_PATH=str(BUILD / "sim"), SIMCUDA_LOG=str(log),
               SIMCUDA_SCHED="lazy", KEDGE_CAPTURE=str(capture), KEDGE_TRACE="full", **settings)
    command = [str(BUILD / "trainers" / arguments[0]), *arguments[1:]]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if rc is not None and done.returncode != rc:
        fail(f"{name}: exit {done.returncode}: {done.stderr[-500:]}")
    lines = [re.sub(r"^\d+ t\d+ ", "", line) for line in log.read_text(encoding="utf-8").splitlines()
             if not line.startswith("#")]
    lines = [line for line in lines if not line.startswith(ASKED_ANYWAY)]
    shadowed = subprocess.run([str(BUILD / "kedge"), "report", "--json", str(capture)], capture_output=True, text=True,
                              check=False).stdout
    return lines, shadowed


def without_questions(lines):
    return [line for line in lines if not line.startswith(QUESTIONS)]


def equal(what, got, want):
    if got == want:
        return
    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    fail(f"{what}: {len(got)} calls against {len(want)}; the first that differs: {got[at:at + 1]} against {want[at:at + 1]}")


def compare(name):
    arguments = PROGRAMS[name]
    anchor = "SOT_CALL_*" if arguments[0] == "sot" else "*"
    plain, _ = calls(f"{name}-plain", arguments)
    if len(plain) < 100:
        fail(f"{name}: only {len(plain)} calls were logged")
    path = hint_file("hints.yaml", anchor)
    off, _ = calls(f"{name}-off", arguments, KEDGE_HINTS=path, KEDGE_HINTS_MODE="off")
    equal(f"{name}, off", off, plain)
    other, _ = calls(f"{name}-other", arguments,
                     KEDGE_HINTS=hint_file("other.yaml", anchor, 'program: {argv: "*no-such-program*"}\n'))
    equal(f"{name}, for another program", other, plain)
    pathlib.Path("broken.yaml").write_text("kedge-hints: 1\nhints: [", encoding="utf-8")
    broken, _ = calls(f"{name}-broken", arguments, KEDGE_HINTS="broken.yaml")
    equal(f"{name}, broken file", broken, plain)
    shadow, report = calls(f"{name}-shadow", arguments, KEDGE_HINTS=path)
    if '"would_release_count": 0' in report or "would" not in report:
        fail(f"{name}: the hint had nothing to do: {report[-800:]}")
    equal(f"{name}, in shadow", without_questions(shadow), without_questions(plain))
    live, _ = calls(f"{name}-live", arguments, KEDGE_HINTS=path, KEDGE_HINTS_MODE="live")  # has no receipt
    equal(f"{name}, live without a receipt", without_questions(live), without_questions(plain))
    # rules as broad as these stop some programs in a trap
    trap, _ = calls(f"{name}-trap", arguments, rc=None, KEDGE_HINTS=path, KEDGE_HINTS_MODE="trap")
    if without_questions(trap) == without_questions(plain):
        fail(f"{name}: a trap makes no difference either, so nothing was compared")
    print(f"{name}: {len(plain)} calls, {len(shadow) - len(plain)} questions more in shadow")


# What R86 names, by pattern; and why some that fit are not guarded.
GUARDED = re.compile(r"cu(Memcpy|Memset)\w+|cuMemcpy(_ptds)?|cuLaunch(Kernel|CooperativeKernel)\w*|cuGraphLaunch\w*|"
                     r"cuGraphExec\w*SetParams(_v2)?|cuGraph\w*NodeSetParams(_v2)?|cuTensorMap\w+|cu(Tex|Surf)ObjectCreate")
NOT_GUARDED = [
    (r"cuMem(cpy|set)\w*?(HtoD|DtoH|DtoD|DtoA|AtoD|HtoA|AtoH|2D|3D|D8|D16|D32)(Unaligned|Async)?", "32-bit addresses, before 3.2"),
    (r"cuMemcpyAtoA\w*", "arrays only"),
    (r"cuGraph(Exec)?(Host|ExternalSemaphores\w+|Conditional|Event\w*)NodeSetParams", "no address of memory"),
    (r"cuGraph(Exec)?BatchMemOpNodeSetParams", "flags of the program's streams, four or eight bytes each"),
    (r"cuMem(cpy|set)\w*?_v\d+_?p?t?[ds]?s?z?ForArray", "arrays only"),
]


def exports(path):
    listing = subprocess.run(["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in listing.splitlines() if line.split()[-2] in "TtWiI"}


def must_be_guarded(name, all_names):
    if not GUARDED.fullmatch(name):
        return False
    for pattern, _ in NOT_GUARDED:
        # an old form is one beside which there is a _v2
        if re.fullmatch(pattern, name) and ("before 3.2" not in _ or f"{name}_v2" in all_names):
            return False
    return True


def guard():
    ours = exports(BUILD / "libkedge.so")
    drivers = [BUILD / "sim" / "libcuda.so.1"]
    stub = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib64" / "stubs" / "libcuda.so"
    if stub.exists():
        drivers.append(stub)
    for driver in drivers:
        theirs = exports(driver)
        wanted = {name for name in theirs if must_be_guarded(name, theirs)}
        if len(wanted) < 60:
            fail(f"{driver}: only {len(wanted)} names to guard were found")
        for name in sorted(wanted - ours):
            fail(f"{driver}: {name} carries addresses and is not hooked")
        print(f"{driver}: {len(wanted)} entries, all hooked" if wanted <= ours else f"{driver}: entries are missing")


if sys.argv[1] == "guard":
    guard()
else:
    compare(sys.argv[1])
sys.exit(1 if failures else 0)
