#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: scan.c scanread.c scanroots.c scanrows.c scanstack.c scanwords.c datanames.c heldnames.c asked.c
"""KEDGE_HELD=scan: what C and C++ programs hold their device memory by. No planted holder may have a wrong name, at any level of
optimisation, with the files at hand, from a bundle, and without symbols; and nothing happens to a program whose other threads allocate,
end and unload libraries meanwhile.

    scan.py CASE
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "regress"))
from regresskit import KEDGE, SIM, SOURCE, check, environment, main, run, same, skip, tool, tool_json

NONE = "no pointer found in globals, stacks and the heap that they reach"
MAIN = "on the stack of the main thread"
# a word of no variable, that a call may have left over: told as such, beside the holder
WORD = re.compile(r"(malloc'ed memory of )?a word (in \S+ \S+ )?on the stack of .*")

PLANTS = {
    "worker_local": r"local 'local' in worker_waits scan_program\.c:\d+ on the stack of thread 'waiter'",
    "worker_tls": r"thread-local 'mine' of scan_program scan_program\.c:\d+ of thread 'waiter'",
    "global": r"global 'weights' of scan_program scan_program\.c:\d+",
    "static": r"global 'cache' in plant_static of scan_program scan_program\.c:\d+",
    "member": r"global 'state\.buffers\.big' of scan_program scan_program\.c:\d+",
    "element": r"global 'table\[3\]' of scan_program scan_program\.c:\d+",
    "list": r"malloc'ed memory of global 'queue' of scan_program scan_program\.c:\d+",
    "tls": r"thread-local 'mine' of scan_program scan_program\.c:\d+ of the main thread",
    "inside": r"global 'view' of scan_program scan_program\.c:\d+, not its beginning",
    "library": r"global 'kept' of libscan_lib\.so scan_lib\.c:\d+",
    "two": r"(global '(first|second)_of_two' of scan_program \S+( AND |$)){2}",
    "shared": r"(malloc'ed memory of global 'shared_(one|two)' of scan_program \S+( AND |$)){2}",
    "hidden": NONE,
    "leaked": NONE,
    "chunk": r"malloc'ed memory of global 'big_chunk' of scan_program scan_program\.c:\d+",
    "local": rf"local 'local' in plants scan_program\.c:\d+ {MAIN}",
    "through": rf"malloc'ed memory of local 'through' in plants scan_program\.c:\d+ {MAIN}",
}

HOLDERS = {name: rf"malloc'ed memory of global '{variable}' of scan_holders scan_holders\.cc:\d+" for name, variable in {
    "vector": "stack", "map": "by_number", "unordered_map": "by_name", "deque": "ring", "list": "chain", "unique_ptr": "only",
    "shared_ptr": "shared", "deep": "sessions", "counted": "counted_ones"}.items()}
HOLDERS |= {
    "array": r"global 'fixed' of scan_holders scan_holders\.cc:\d+",
    "pair": r"global 'both\.second' of scan_holders scan_holders\.cc:\d+",
    "thread_local": r"malloc'ed memory of thread-local 'mine' of scan_holders scan_holders\.cc:\d+ of the main thread",
    "static_member": r"global 'engine::cache::workspace' of scan_holders scan_holders\.cc:\d+",
    "leaked": NONE,
    "local_vector": rf"malloc'ed memory of local 'local' in main scan_holders\.cc:\d+ {MAIN}",
}


def build(name, level="-O0", *more, compiler=None):
    """A program of this folder, and the library that it loads."""
    source = next(HERE.glob(f"{name}.c*"))
    compiler = compiler or os.environ.get("CC", "cc") if source.suffix == ".c" else shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        skip("no C++ compiler")
    flags = [level, "-g", f"-I{SOURCE}", "-D_GNU_SOURCE"]
    library = pathlib.Path("libscan_lib.so").resolve()
    run(os.environ.get("CC", "cc"), *flags, "-fPIC", "-shared", "-o", library, HERE / "scan_lib.c")
    run(compiler, *flags, f'-DLIBRARY_PATH="{library}"', "-o", name, source, f"-L{SIM}", "-l:libcudart.so.13", "-lpthread", "-ldl", *more)


def sizes(output):
    """{plant: bytes of its block}"""
    return {name: int(size) for name, size in re.findall(r"^plant (\w+) (\d+)$", output, re.M)}


def holders(walk):
    """{bytes of one block: its holders}; rows with the same holders are one."""
    return {row["bytes"] // row["count"]: " AND ".join(row["held_by"]) for row in walk["rows"] if row["count"] != 2}


def plain(text):
    """A row's holders but for words of no variable."""
    lines = text.split(" AND ")
    return " AND ".join([line for line in lines if not WORD.fullmatch(line)] or lines)


def compare(walk, planted, expect):
    """Each plant has its holder."""
    texts = holders(walk)
    same("plants", sorted(planted), sorted(expect))
    for name, size in planted.items():
        text = plain(texts.get(size, NONE))  # the two without holders are one row
        check(re.fullmatch(expect[name], text), f"{name}: {text!r} is no {expect[name]}")
    same("bytes of all rows", sum(row["bytes"] for row in walk["rows"]), walk["live_bytes"])
    check(walk["complete"], "the scan came to its end")


def failed(program, *words, wanted="scan,seconds=600", **changes):
    done = run(KEDGE, "run", "--sim", "--capture", "run.kcap", "--", f"./{program}", *words, KEDGE_HELD=wanted, **changes)
    return sizes(done.stdout), done.stdout


def at_failure(capture="run.kcap"):
    return tool_json("report", capture)["ooms"][-1]["held"]


def each_plant_of_c_is_named():
    build("scan_program")
    planted, said = failed("scan_program", "oom")
    compare(at_failure(), planted, PLANTS)
    check("; kept by malloc'ed memory of global 'queue' of scan_program" in said, f"the last lines have no holder: {said}")
    text = tool("report", "run.kcap", "--view", "oom")
    check("blocks of malloc" in text and "one that a call has left over does, too" in text, text)


def each_plant_of_cpp_is_named():
    build("scan_holders")
    planted, _ = failed("scan_holders")
    compare(at_failure(), planted, HOLDERS)


def another_compiler_writes_other_dwarf():
    if not shutil.which("clang"):
        skip("no clang")
    build("scan_program", compiler="clang")
    planted, _ = failed("scan_program", "oom")
    compare(at_failure(), planted, PLANTS)


def no_name_is_wrong_in_optimised_programs():
    """What the compiler keeps in registers, or does not keep at all, is not found."""
    for name, expect in (("scan_program", PLANTS), ("scan_holders", HOLDERS)):
        build(name, "-O2")
        planted, _ = failed(name, *(["oom"] if name == "scan_program" else []))
        walk = at_failure()
        texts = holders(walk)
        found = 0
        for plant, size in planted.items():
            text = plain(texts.get(size, NONE)).replace(" in main ", " in plants ")  # inlined there
            check(re.fullmatch(expect[plant].replace(" in main ", " in plants "), text) or text == NONE
                  or ("local" in plant or plant == "through") and WORD.fullmatch(text), f"{name} -O2: {plant}: {text!r} is no {expect[plant]}")
            found += text != NONE
        check(found >= 11, f"{name} -O2: {found} of {len(planted)} found")


def names_come_from_a_bundle():
    build("scan_program")
    planted, _ = failed("scan_program", "oom")
    run(KEDGE, "bundle", "run.kcap", "-o", "run.tar.zst")
    for file in ("scan_program", "libscan_lib.so", "run.kcap"):
        pathlib.Path(file).unlink()
    compare(at_failure("run.tar.zst"), planted, PLANTS)


def without_symbols_a_word_has_its_file():
    build("scan_program", "-O0", "-s")
    planted, _ = failed("scan_program", "oom")
    texts = holders(at_failure())
    for plant, expect in (("global", r"a word in scan_program\+0x[0-9a-f]+"), ("library", PLANTS["library"]),
                          ("tls", r"a word in scan_program\+0x[0-9a-f]+ of the main thread"),
                          ("local", rf"a word in scan_program\+0x[0-9a-f]+ {MAIN}")):
        check(re.fullmatch(expect, texts.get(planted[plant], "no row")), f"{plant}: {texts.get(planted[plant])!r} is no {expect}")
    build("scan_program", "-O0", "-Wl,--strip-debug")
    planted, _ = failed("scan_program", "oom")
    texts = holders(at_failure())
    for plant, expect in (("global", "global 'weights' of scan_program"), ("member", r"global 'state\+0x18' of scan_program"),
                          ("element", r"global 'table\+0x18' of scan_program"),
                          ("tls", "thread-local 'mine' of scan_program of the main thread")):
        check(re.fullmatch(expect, texts.get(planted[plant], "no row")), f"{plant}: {texts.get(planted[plant])!r} is no {expect}")


def what_is_left_at_the_end_is_named():
    build("scan_program")
    planted, _ = failed("scan_program", "end", wanted="end,scan,seconds=600")
    texts = holders(tool_json("report", "run.kcap")["held_at_end"])
    for plant in ("global", "static", "member", "element", "list", "library", "two", "shared", "chunk", "inside"):
        check(re.fullmatch(PLANTS[plant], texts.get(planted[plant], "no row")), f"{plant}: {texts.get(planted[plant])!r}")
    for plant in ("worker_local", "worker_tls", "hidden", "leaked"):
        same(plant, texts.get(planted[plant], NONE), NONE)


def kedge_held_asks_a_program_without_python():
    build("scan_program")
    with subprocess.Popen([str(KEDGE), "run", "--sim", "--capture", "run.kcap", "--", "./scan_program", "ask"],
                          env=environment(KEDGE_HELD="ask,scan,seconds=600"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as family:
        planted = {}
        while "through" not in planted:
            planted |= sizes(family.stdout.readline())
        time.sleep(0.5)  # the program then waits for a line
        walk = tool_json("held", "run.kcap")
        compare(walk, planted, PLANTS)
        second = tool_json("held", str(family.pid))
        same("the second answer", holders(second), holders(walk))
        family.communicate("\n", timeout=60)
    same("exit status", family.returncode, 0)
    check("held_as_asked" in tool_json("report", "run.kcap"), "the report lacks the last answer")


def nothing_is_scanned_where_nobody_wants_it():
    build("scan_program")
    for wanted in ("oom,end", "none", "end,scan"):
        failed("scan_program", "oom", wanted=wanted)
        check("held" not in tool_json("report", "run.kcap")["ooms"][-1], f"{wanted}: a scan at the failure")


def a_bound_is_told():
    build("scan_program")
    failed("scan_program", "oom", wanted="scan,objects=1000,seconds=600")
    check(at_failure()["complete"], "1000 blocks of malloc are enough here")
    failed("scan_program", "many", wanted="scan,objects=1000,seconds=600")
    check(not at_failure()["complete"], "2000 blocks of malloc are too many")
    check("came to its bound" in tool("report", "run.kcap", "--view", "oom"), "the report does not say so")


def what_is_not_read_is_told():
    build("scan_program")
    planted, _ = failed("scan_program", "spin")
    walk = at_failure()
    check(not walk["complete"], "a thread ran, and the scan is called complete")
    same("of a thread that runs", holders(walk).get(planted["spins"]), NONE)
    check("Some threads ran" in tool("report", "run.kcap", "--view", "oom"), "the report does not say that a thread ran")
    _, said = failed("scan_program", "refuse", rc=None)
    if "plant" in said:  # else the system refuses the filter
        check("held" not in tool_json("report", "run.kcap")["ooms"][-1], "a scan that cannot read")
        check("memory was not scanned: the system refuses process_vm_readv" in tool("report", "run.kcap", "--all"), "no note")
    build("scan_program", "-O0", "-DOWN_MALLOC")
    planted, _ = failed("scan_program", "oom")
    walk = at_failure()
    check(not walk["complete"], "another malloc, and the scan is called complete")
    same("behind another malloc", holders(walk).get(planted["list"], NONE), NONE)
    check(re.fullmatch(PLANTS["global"], holders(walk).get(planted["global"], "no row")), f"the variables: {walk['rows']}")
    check("malloc is not glibc's" in tool("report", "run.kcap", "--view", "oom"), "the report does not say whose malloc it is")


def nothing_faults_beside_threads_that_go_on(answers=40):
    """Answers and some failures, beside threads that allocate, begin, end, load and unload: each names the one holder."""
    build("scan_program", "-O1")
    with subprocess.Popen([str(KEDGE), "run", "--sim", "--capture", "run.kcap", "--", "./scan_program", "beside"],
                          env=environment(KEDGE_HELD="oom,ask,scan,seconds=600"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as family:
        planted = sizes(family.stdout.readline())
        for _ in range(answers):
            text = holders(tool_json("held", "run.kcap")).get(planted["global"], "no row")
            if not check(re.fullmatch(PLANTS["global"], text), f"global: {text!r}"):
                break
        family.communicate("\n", timeout=60)
    same("exit status", family.returncode, 0)
    # a failure during the scan for an answer has none of its own
    scans = [oom["held"] for oom in tool_json("report", "run.kcap")["ooms"] if "held" in oom]
    check(scans and all(scan["rows"] for scan in scans), f"scans at failures: {scans}")


def nothing_faults_in_two_hundred_answers():
    nothing_faults_beside_threads_that_go_on(200)


if __name__ == "__main__":
    main(each_plant_of_c_is_named, each_plant_of_cpp_is_named, another_compiler_writes_other_dwarf,
         no_name_is_wrong_in_optimised_programs, names_come_from_a_bundle,
         without_symbols_a_word_has_its_file, what_is_left_at_the_end_is_named, kedge_held_asks_a_program_without_python,
         nothing_is_scanned_where_nobody_wants_it, a_bound_is_told, what_is_not_read_is_told, nothing_faults_beside_threads_that_go_on,
         nothing_faults_in_two_hundred_answers)
