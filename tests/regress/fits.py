#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`kedge estimate`: whether a program fits on a device, from runs on the simulated one.

covers: cmd_estimate.c coverage.c devices.c holding.c optionword.c search.c trial.c verdict.c
"""
import json
import pathlib
import re
import shlex

from page import data_of
from pagedata import Timeline
from regresskit import BUILD, KEDGE, bare, check, main, run, same

MB = 1 << 20
LOOP = (BUILD / "trainers" / "loop", "--steps", 3)
CONTEXT = 100 * MB


def device(bytes_, name="small", **more):
    words = {"memory": bytes_, "name": name, "capability": "8.0", "sms": 10, "context": f"{40 * MB}-{CONTEXT}", **more}
    return ",".join(f"{key}={value}" for key, value in words.items())


def estimate(*arguments, rc=0, **env):
    done = run(KEDGE, "estimate", *arguments, rc=rc, **env)
    return done.stdout


def estimate_json(*arguments, rc=0, **env):
    """The answer alone: the program's lines and kedge's own stand before it, on stderr."""
    text = estimate("--json", *arguments, rc=rc, **env)
    return json.loads(text[text.index("{\n"):text.rindex("}\n") + 1])


def peak(*command, **env):
    """What the device itself says that it gave away, without kedge."""
    bare(*command, SIMCUDA_STATS="peak.txt", SIMCUDA_MEMORY="4096G", **env)
    found = [int(p) for p in re.findall(r"^device_0_peak (\d+)$", pathlib.Path("peak.txt").read_text(encoding="ascii"), re.M)]
    pathlib.Path("peak.txt").unlink()
    return found


def what_it_needs_is_what_the_device_gave_away():
    """To the byte; it fits on a device with as much and its context, and not on one that has 2 MiB less."""
    held, = peak(*LOOP)
    found = estimate_json("--device", device(held + CONTEXT), "--", *LOOP)
    same("bytes", found["from_device_bytes"], held)
    same("need", (found["need_least_bytes"], found["need_most_bytes"]), (held + 40 * MB, held + CONTEXT))
    same("answer", found["answer"], "fits")
    check(0 < found["in_use_bytes"] <= held and found["lines"], f"who held it: {found['in_use_bytes']} {found['lines'][:1]}")
    found = estimate_json("--device", device(held + CONTEXT - 2 * MB), "--", *LOOP, rc=1)
    same("answer with 2 MiB less", found["answer"], "does not fit")
    text = estimate("--device", device(held + CONTEXT - 2 * MB), "--", *LOOP, rc=1)
    check("does not fit on small: it needs " in text, f"the text says it: {text[-900:]}")


def a_program_that_gets_by_with_less_fits_closely():
    """It fails where the device is full, and then ends well: as an allocator does that gives back its cache."""
    held, = peak(*LOOP)
    whole = shlex.join(map(str, LOOP)) + "; true"
    found = estimate_json("--device", device(held + CONTEXT - 2 * MB), "--", "sh", "-c", whole)
    same("answer", (found["answer"], found["from_device_bytes"]), ("close", held))


def a_program_is_told_the_size_of_the_device():
    ask = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_size_t(); c.cuInit(0); c.cuDeviceTotalMem_v2(ctypes.byref(n), 0); print('told', n.value)"
    text = estimate("--device", device(6 << 30), "--", "python3", "-c", ask)
    check(f"told {6 << 30}\n" in text, f"it is told: {text}")
    check("no process asked for memory of a device" in text, f"and asks for nothing: {text}")


def processes_on_one_device_are_added_each_with_a_context():
    held, = peak(*LOOP)
    both = f"RANK=0 {shlex.join(map(str, LOOP))} & RANK=1 {shlex.join(map(str, LOOP))}; wait"
    found = estimate_json("--device", device(2 * held + 2 * CONTEXT), "--", "sh", "-c", both)
    same("bytes, contexts", (found["from_device_bytes"], found["contexts"], found["answer"]), (2 * held, 2, "fits"))
    same("ranks", [p["rank"] for p in found["processes"]], ["0", "1"])
    same("peaks", [p["device_peaks"] for p in found["processes"]], [[{"device": 0, "bytes": held}]] * 2)


def the_largest_number_is_found():
    """As trying each number one by one finds it, and with fewer runs."""
    needs = {n: peak(*LOOP, "--batch", n)[0] for n in range(1, 9)}
    memory = needs[5] + CONTEXT
    want = max(n for n in needs if needs[n] <= needs[5])
    found = estimate_json("--device", device(memory), "--find", "batch=1..8", "--", *LOOP, "--batch", 1)
    same("largest, need", (found["largest"], found["need_most_bytes"]), (want, needs[want] + CONTEXT))
    check(found["tries"] <= 6, f"{found['tries']} runs")
    found = estimate_json("--device", device(needs[1] + CONTEXT - 2 * MB), "--find", "batch=1..8", "--", *LOOP, "--batch", 1, rc=1)
    same("not even the first", found["largest"], None)
    text = estimate("--device", device(1 << 40), "--find", "seed=1..64", "--", "sh", "-c", f"exec {shlex.join(map(str, LOOP))} # {{seed}}")
    check("does the program read seed?" in text, f"a number without effect is told: {text[-600:]}")


def a_program_that_does_not_end_is_ended_after_its_steps():
    found = estimate_json("--steps", 3, "--device", device(1 << 34), "--", LOOP[0], "--steps", 10000000)
    same("stopped, answer", (found["was_stopped"], found["answer"]), (True, "fits"))
    same("bytes", found["from_device_bytes"], peak(*LOOP)[0])


def a_program_that_fails_is_no_answer():
    text = estimate("--", "sh", "-c", "exit 3", rc=2)
    check("not known: the program ended with exit status 3" in text, f"a failure: {text}")
    check("No such file" in estimate("--", "./nothing-is-here", rc=127), "a program that is not there")


def what_makes_no_sense_is_told():
    pathlib.Path("card").write_text("# mine\nmemory=24G\nsms=many\n", encoding="ascii")
    for arguments, said in ((("--device", "card"), "card:3: many: a number of multiprocessors"),
                            (("--device", "h100"), "--device h100: neither a name"),
                            (("--device", "sms=3"), "sms=3: its memory is not stated"),
                            (("--device", "memory=1G,capability=6.1"), "--device 6.1: 7.0, 7.5"),
                            (("--device", "memory=1G,weight=2"), "--device weight: memory, capability"),
                            (("--device", "memory=1G,context=9M-3M"), "a range of sizes"),
                            (("--find", "batch=8..2"), "--find batch=8..2: an option and a range"),
                            (("--find", "size=1..2"), "--find size: the command has no word {size}"),
                            (("--devices", 17), "--devices 17: 1 to 16"),
                            (("--allocator", "mine"), "--allocator mine: stated, expandable or async")):
        text = estimate(*arguments, "--", *LOOP, rc=2)
        check(said in text, f"{arguments}: {text[-300:]}")
    pathlib.Path("card").write_text("memory=24G, sms=20 # all\nname=mine\n", encoding="ascii")
    same("a file", estimate_json("--device", "card", "--", *LOOP)["device"]["name"], "mine")


def the_page_begins_with_the_answer():
    """It has the figures of --json above the run of the process that took most, and says at once where it cannot be written."""
    held, = peak(*LOOP)
    options = ("--device", device(held + CONTEXT), "--html", "page.html", "--")
    told = estimate_json(*options, *LOOP)
    page = data_of(pathlib.Path("page.html").read_text(encoding="utf-8"))
    check({"answer", "summary", "need_most_bytes", "processes", "values_not_computed"} <= set(page["estimate"]), f"figures on the page: {sorted(page['estimate'])}")
    for key, value in page["estimate"].items():
        same(key, value, told[key])
    same("whose run", page["program"]["pid"], told["processes"][0]["pid"])
    same("its peak", max(Timeline(page["timeline"]).live), told["in_use_bytes"])
    pathlib.Path("card.txt").write_text("mine\n", encoding="ascii")
    text = estimate(*options, *LOOP)
    check(told["summary"] in text and "written to page.html" in text, f"the answer, and where it was written: {text[-600:]}")
    check("<!DOCTYPE html>" in estimate("--html", "-", "--", *LOOP), "the page is not on standard output")
    for place, said in (("none/page.html", "kedge estimate: none/page.html: No such file or directory"), ("card.txt", "card.txt is there already, and does not begin as a file that kedge wrote")):
        text = estimate("--html", place, "--", "sh", "-c", "touch ran", rc=2)
        check(said in text and text.count("\n") == 1, f"{place}: {text}")
    text = estimate("--html", "page.html", "--find", "batch=1..8", "--", "sh", "-c", "touch ran {batch}", rc=2)
    check("--html is of one run: not with --find" in text, f"with --find: {text}")
    check(not pathlib.Path("ran").exists(), "the program ran all the same")
    text = estimate("--html", "none.html", "--", "true")
    check("none.html: not written, since no run was recorded" in text and not pathlib.Path("none.html").exists(), f"a program without a device: {text}")


def frameworks_are_left_alone_without_a_word():
    """An estimate is of the program's own allocator: kedge does not advise another one, as it does where a user preloads the library."""
    use = f"import ctypes; c = ctypes.CDLL('libcuda.so.1'); p = ctypes.c_void_p(); ctypes.CDLL('{BUILD / 'tests' / 'preload' / 'libc10_cuda.so'}')" \
        "; c.cuInit(0); d = ctypes.c_void_p(); c.cuDevicePrimaryCtxRetain(ctypes.byref(d), 0); c.cuCtxSetCurrent(d); print('got', c.cuMemAlloc_v2(ctypes.byref(p), 4096))"
    advice = "caches memory by itself"
    text = estimate("--", "python3", "-c", use)
    check("got 0\n" in text and advice not in text and "kedge[" not in text, f"estimate: {text}")
    text = run(KEDGE, "run", "--sim", "--capture", "run.kcap", "--", "env", "-u", "PYTORCH_CUDA_ALLOC_CONF", "python3", "-c", use).stdout
    check(advice in text, f"run: {text}")
    text = run(KEDGE, "run", "--sim", "--api", "framework", "--capture", "run.kcap", "--", "python3", "-c", use).stdout
    check("got 0\n" in text and advice not in text, f"run --api framework: {text}")


def numbers_go_where_the_command_has_them():
    show = ("sh", "-c", 'echo "words $*"; exit 4', "sh")
    for words, want in ((("--size", "1"), "--size 7"), (("-size=1",), "-size=7"), (("size=1", "x{size}y{size}"), "size=1 x7y7"),
                        (("--sizes", "1", "--size=2"), "--sizes 1 --size=7")):
        text = estimate("--find", "size=7..7", "--", *show, *words, rc=2)
        check(f"words {want}\n" in text, f"{words}: {text[-300:]}")


if __name__ == "__main__":
    main(what_it_needs_is_what_the_device_gave_away, a_program_that_gets_by_with_less_fits_closely,
         a_program_is_told_the_size_of_the_device, processes_on_one_device_are_added_each_with_a_context,
         the_largest_number_is_found, a_program_that_does_not_end_is_ended_after_its_steps, a_program_that_fails_is_no_answer,
         what_makes_no_sense_is_told, the_page_begins_with_the_answer, frameworks_are_left_alone_without_a_word, numbers_go_where_the_command_has_them)
