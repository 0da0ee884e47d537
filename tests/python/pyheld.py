#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: asked.c ask.c cmd_held.c collect.c held.c helderrors.c heldrounds.c heldwalk.c pycall.c still.c storages.c young.c pyhost.c report_held.c inside.c datakind.c
"""Held by: which objects of a Python program refer to its memory, end to end, under every CPython 3.10 to 3.15 that is found.

    pyheld.py CASE

heldlike.py stands in for PyTorch by its name, cupylike.py for CuPy, paddletensors.py for PaddlePaddle; tests/frameworks asks the real ones (cases/holders.py).
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import held_plants
from pyanchors import each
from pystacks import HERE, PARTS, check, failures, fresh, interpreters, run, same, tool_json
from regresskit import KEDGE, SOURCE, environment

LIKE = PARTS / "held"
BOUND = "oom,end,seconds=600"  # no test depends on how fast the machine is


def held(python, case, wanted=BOUND, **changes):
    """The report of a run, what the program noted, and what was said."""
    fresh("run.kcap", "noted.json")
    done = run(KEDGE, "run", "--sim", "--capture", "run.kcap", "--", python, HERE / "held_program.py", case, "noted.json",
               PYTHONPATH=LIKE, KEDGE_HELD=wanted, **changes)
    check(done.returncode == 0, f"{case}: exit {done.returncode}: {done.stdout[-1500:]}")
    noted = pathlib.Path("noted.json")
    return tool_json("report", "run.kcap"), json.loads(noted.read_text(encoding="utf-8")) if noted.exists() else {}, done.stdout


def holders(walk):
    """{bytes: the texts of the holders} of the rows of a walk."""
    return {row["bytes"]: " AND ".join(row["held_by"]) for row in walk["rows"]}


@each
def each_plant_is_named(python):
    report, sizes, _ = held(python, "plants")
    walk = report["ooms"][-1]["held"]
    is_old = "3.10" in run(python, "-V").stdout
    texts = holders(walk)
    check(walk["complete"] and walk["graphs_read"], "the walk came to its end")
    same("bytes of all rows", sum(row["bytes"] for row in walk["rows"]), walk["live_bytes"])
    for name, (_, expect) in held_plants.EXPECT.items():
        text = texts.get(sizes.get(name), "no row")
        if is_old:  # which keeps arguments on the caller's stack while a function runs
            text = text.removesuffix(" AND 1 reference of a running call or of C code")
        check(re.search(expect, text), f"{name}: {text!r} is no {expect}")


@each
def arrays_of_cupy_are_told(python):
    script = pathlib.Path(HERE).parent / "frameworks" / "scripts" / "cupy_held.py"
    for beside in ((), ("torch",)):
        fresh("run.kcap", "plants.json")
        done = run(KEDGE, "run", "--sim", "--capture", "run.kcap", "--", python, script, "plants.json", *beside, PYTHONPATH=LIKE, KEDGE_HELD=BOUND)
        check(done.returncode == 0, f"{beside}: exit {done.returncode}: {done.stdout[-1500:]}")
        walk = tool_json("report", "run.kcap")["ooms"][-1]["held"]
        check(walk["complete"] and walk["graphs_read"], f"{beside}: the walk came to its end")
        texts = holders(walk)
        for name, (size, expect) in json.loads(pathlib.Path("plants.json").read_text(encoding="utf-8")).items():
            check(re.search(expect, texts.get(size, "no row")), f"{beside}: {name}: {texts.get(size)!r} is no {expect}")
    fresh("run.kcap")
    run(KEDGE, "run", "--sim", "--capture", "run.kcap", "--", python, "-c", f"import cupy, likememory; likememory.empty({2 << 20})",
        PYTHONPATH=LIKE, KEDGE_HELD=BOUND)
    same("what no array has", holders(tool_json("report", "run.kcap")["held_at_end"]), {2 << 20: "no Python object; CuPy's pool keeps what was freed"})


@each
def tensors_of_paddle_are_told(python):
    script = pathlib.Path(HERE).parent / "frameworks" / "scripts" / "paddle_held.py"
    fresh("run.kcap", "plants.json")
    done = run(KEDGE, "run", "--sim", "--capture", "run.kcap", "--", python, script, "plants.json", PYTHONPATH=LIKE, KEDGE_HELD=BOUND)
    check(done.returncode == 0, f"exit {done.returncode}: {done.stdout[-1500:]}")
    texts = holders(tool_json("report", "run.kcap")["ooms"][-1]["held"])
    for name, (size, expect) in json.loads(pathlib.Path("plants.json").read_text(encoding="utf-8")).items():
        check(re.search(expect, texts.get(size, "no row")), f"{name}: {texts.get(size)!r} is no {expect}")
    fresh("run.kcap")
    run(KEDGE, "run", "--sim", "--capture", "run.kcap", "--", python, "-c",
        f"import paddle, likememory; likememory.empty({2 << 20})\ntry:\n    raise MemoryError('of the program')\nexcept MemoryError:\n    pass",
        PYTHONPATH=LIKE, KEDGE_HELD=BOUND)
    report = tool_json("report", "run.kcap")
    same("what no tensor has", holders(report["held_at_end"]), {2 << 20: "no Python object; graphs and gradients of PaddlePaddle are in none"})
    same("failures", report["ooms"], [])


@each
def r111_a_walk_leaves_everything_as_it_was(python):
    held(python, "left_as_it_was")
    held(python, "counted", "oom,seconds=600")


@each
def tracers_and_profilers_see_nothing(python):
    if "3.10" not in run(python, "-V").stdout:  # which has no way to keep them out
        held(python, "watched")


@each
def an_interrupt_reaches_the_program(python):
    _, noted, _ = held(python, "interrupted")
    check(noted.get("interrupted"), "no interrupt")


@each
def what_is_left_at_the_end_is_named(python):
    report, sizes, _ = held(python, "end")
    same("holders at the end", holders(report["held_at_end"]).get(sizes["kept"]), "held_plants.KEPT[0]")
    report, sizes, _ = held(python, "end", "oom")
    check("held_at_end" not in report, "a walk at the end that nobody wanted")


@each
def a_run_that_ends_well_is_walked_after_its_steps(python):
    report, sizes, _ = held(python, "steps", "oom,step,seconds=600")
    walk = report["held_after_step"]
    text = holders(walk).get(8 * sizes["kept"], f"no row: {walk['rows']}")
    check(re.fullmatch(r"local 'kept'\[\*\] of steps held_program\.py:\d+", text), f"after the 8th step: {text}")
    check("; kept by local 'kept'[*] of steps " in report["summary"][0], f"the summary has no holder: {report['summary']}")
    report, _, _ = held(python, "steps", "oom")
    check("held_after_step" not in report, "a walk that nobody wanted")


UNSET = "oom,growth,seconds=600"  # as without the variable, but for the time that a walk may take


def grown(python, case, key="held_when_grown"):
    """(texts of what keeps the blocks that a program leaks, how many they are) in the last walk."""
    report, sizes, _ = held(python, case, UNSET)
    rows = [row for row in report.get(key, {"rows": []})["rows"] if row["bytes"] == sizes["kept"] * row["count"]]
    return " | ".join(" AND ".join(row["held_by"]) for row in rows), sum(row["count"] for row in rows), report


@each
def what_grows_is_walked_without_a_setting(python):
    text, count, report = grown(python, "steps")
    check(re.fullmatch(r"local 'kept'\[\*\] of steps held_program\.py:\d+", text), f"after the steps: {text}")
    same("blocks at the 6th of 11 steps", count, 6)
    check("; kept by local 'kept'[*] of steps " in report["summary"][0], f"the summary has no holder: {report['summary']}")
    check("held_at_end" not in report, "a walk at the end besides")


def growth_of_any_rounds_is_walked():
    python = interpreters()[0][1]
    for case, name, blocks in (("grows_by_epochs", "kept", 2), ("grows_as_it_serves", "sessions", 11), ("grows_by_hand", "losses", 12)):
        text, count, _ = grown(python, case)
        check(re.match(rf"local '{name}'\S* of {case} held_program\.py", text), f"{case}: {text}")
        same(f"{case}: blocks at the 12th of 13 rounds", count, blocks)
    report = grown(python, "grows_beside")[2]
    check("; kept by local 'kept'[*] of grows_beside " in report["summary"][0], f"a walk before the peak is no answer: {report['summary']}")
    report = grown(python, "grows_in_parts")[2]
    check("; kept by local 'parts'[*]...block of grows_in_parts " in report["summary"][0], f"paths that share both ends: {report['summary']}")
    for case, blocks in (("grows_without_rounds", 20), ("grows_at_last", 5)):
        text, count, report = grown(python, case, "held_at_end")
        same(f"{case}: holder at the end", (text, count), ("held_plants.KEPT[*]", blocks))
        check("held_when_grown" not in report, f"{case}: a walk in the run")


@each
def r111_a_program_that_does_not_grow_has_no_walk(python):
    report, _, _ = held(python, "healthy", UNSET)
    check("held_when_grown" not in report and "held_at_end" not in report, f"walks: {report.keys()}")
    report, _, _ = held(python, "steps", "oom")
    check("held_when_grown" not in report, "a walk that nobody wanted")


@each
def what_only_the_collector_keeps_is_collected_before_the_device_is_full(python):
    room = {"KEDGE_POOL": "cap=200M"}
    _, noted, _ = held(python, "cycles_until_full", "collect", **room)
    check(2 <= noted.get("runs", 0) <= 6, f"60 rounds of 8 MiB in 200 MiB, and {noted.get('runs')} collections")
    fresh("run.kcap", "noted.json")
    done = run(KEDGE, "run", "--sim", "--capture", "run.kcap", "--", python, HERE / "held_program.py", "cycles_until_full", "noted.json",
               rc=1, PYTHONPATH=LIKE, KEDGE_HELD="none", **room)
    check("OutOfMemoryError" in done.stdout, f"it fits without a collection: {done.stdout[-300:]}")
    _, noted, _ = held(python, "full_and_healthy", "collect", **room)
    same("collections of a program that is full and has no cycles", noted["runs"], 1)


@each
def what_only_the_collector_keeps_is_gone_when_a_failure_is_handled(python):
    for wanted, gone in (("collect", True), ("oom", False), ("oom,collect", True)):
        report, noted, _ = held(python, "cycle_at_a_failure", wanted + ",seconds=600")
        same(f"{wanted}: whether the cycle is gone", noted["gone"], gone)
        check(("held" in report["ooms"][-1]) == ("oom" in wanted), f"{wanted}: a walk")


@each
def holders_that_are_alike_are_one(python):
    report, sizes, _ = held(python, "alike", "oom,seconds=600")
    texts = holders(report["ooms"][-1]["held"])
    for size, text in ((5 * sizes["session"], "held_plants.SESSIONS[*][*]"), (sizes["key"], "held_plants.PARTS['key']"),
                       (sizes["value"], "held_plants.PARTS['value']"), (5 * sizes["list"], "held_plants.FIRST.next...kept")):
        same(f"{size} bytes", texts.get(size), text)


@each
def buckets_of_a_reducer_are_told_by_its_module(python):
    report, _, _ = held(python, "reducers", "oom,seconds=600")
    same("holders", [r["held_by"] for r in report["ooms"][-1]["held"]["rows"] if r["kind"] == "no tensor"],
         [["no Python object; DDP's Reducers have buckets of 1.00 MiB in C++: those of held_plants.WRAPPERS[0]"]])


def what_failed_first_is_told_in_one_line():
    python = interpreters()[0][1]
    report, _, said = held(python, "small_bound", "oom,seconds=600")
    check("held by held_plants.KEPT[0]; see kedge report" in said, f"no line: {said}")
    check("; kept by held_plants.KEPT[0] (1 of 1 block)" in report["summary"][0], f"the summary has no holder: {report['summary']}")
    walk = report["ooms"][-1]["held"]
    check(not walk["complete"], "no bound was reached")
    check(walk["object_count"] < 1_100_000, f"{walk['object_count']} objects")


@each
def nothing_is_walked_where_nobody_wants_it(python):
    for wanted in ("none", "end"):
        report, _, said = held(python, "plants", wanted)
        at_failure = "".join(line for line in said.splitlines() if not line.startswith("kedge run: "))
        check("held" not in report["ooms"][-1] and ", which a running call" not in at_failure, "a walk")


@each
def graphs_are_left_alone_where_they_may_be_taken_apart(python):
    """A backward pass runs, or begins in the middle of the walk, or a thread is in a function that drops gradients."""
    for case in ("in_a_pass", "a_pass_begins", "drops_gradients"):
        report, sizes, _ = held(python, case)
        walk = report["ooms"][-1]["held"]
        check(not walk["graphs_read"], f"{case}: graphs were read")
        same(f"{case}: what else holds", holders(walk).get(sizes["named"]), "held_plants.ALSO2")


@each
def graphs_are_read_beside_other_threads(python):
    for case in ("beside_one_that_waits", "busy"):
        report, sizes, _ = held(python, case)
        walk = report["ooms"][-1]["held"]
        check(walk["graphs_read"], f"{case}: graphs were not read")
        check("graph of held_plants.HISTORY[*]" in holders(walk).get(sizes["old"], ""), f"{case}: a graph's holder")


@each
def a_walk_that_is_out_of_time_says_so(python):
    for case, expect in (("out_of_time_at_first", {3 << 20: "no Python object that was reached in time"}),
                         ("out_of_time_at_last", {2 << 20: "held_plants.ALSO", 1 << 20: "not looked for: there was no time"})):
        walk = held(python, case)[0]["ooms"][-1]["held"]
        check(not walk["complete"], f"{case}: complete")
        same(case, holders(walk), expect)
    for case in ("too_many_objects", "too_slow_for_objects"):
        report, sizes, _ = held(python, case)
        walk = report["ooms"][-1]["held"]
        check(not walk["complete"], f"{case}: what was not listed is not missing")
        same(f"{case}: what is reached, and what only a list of all objects has", holders(walk),
             {sizes["kept"]: "held_plants.KEPT[0]", sizes["hidden"]: "no Python object that was reached in time"})


@each
def what_may_be_on_its_way_out_is_not_asked(python):
    held(python, "on_its_way_out")


# ---- kedge held ----

@contextmanager
def running(python, case, **changes):
    """A program under kedge that has noted what it has, and then stays in its case. Gives its family's process."""
    fresh("run.kcap", "noted.json", "gate")
    os.mkfifo("gate")
    with open("out.txt", "wb") as out:
        family = subprocess.Popen([KEDGE, "run", "--sim", "--capture", "run.kcap", "--", python, HERE / "held_program.py", case, "noted.json"],
                                  stdout=out, stderr=out, start_new_session=True,
                                  env=environment() | {"PYTHONPATH": str(LIKE), "KEDGE_HELD": "ask,seconds=60"} | changes)
    try:
        while not pathlib.Path("noted.json").exists() and family.poll() is None:
            time.sleep(0.02)
        yield family
    finally:
        if family.poll() is None:
            os.killpg(family.pid, signal.SIGKILL)
        family.wait()


def ask(word, *options):
    return subprocess.run([KEDGE, "held", str(word), *options], capture_output=True, text=True, check=False, env=environment())


def refused(word, why, *options):
    done = ask(word, *options)
    check(done.returncode in (1, 2) and why in done.stderr and done.stderr.count("\n") == 1, f"{done.returncode}: {done.stderr!r} is no {why!r}")


@each
def kedge_held_asks_while_the_program_is_in_c(python):
    with running(python, "waits_in_c") as family:
        for _ in range(2):  # the thread serves further requests
            done = ask(family.pid, "--json", "--wait", "600")
            check(done.returncode == 0, done.stderr)
            walk = json.loads(done.stdout)
            same("holders", list(holders(walk).values()), ["held_plants.KEPT[0]"])
            check(walk["graphs_read"], "graphs were not read beside a call")
        text = ask("run.kcap").stdout
        check("tensor: held_plants.KEPT[0]" in text and "1.00 MiB live on all devices in 1 blocks" in text, text)
    with running(python, "waits_in_a_library") as family:
        walk = json.loads(ask(family.pid, "--json", "--wait", "600").stdout)
        check(walk["graphs_read"], "graphs were not read")
        sizes = json.loads(pathlib.Path("noted.json").read_text(encoding="utf-8"))
        same("a graph", holders(walk).get(sizes["old"]), "graph of held_plants.HISTORY[*]")
    report = tool_json("report", "run.kcap")
    same("the report's", report["held_as_asked"]["rows"], walk["rows"])


@each
def a_lock_that_is_not_given_is_told(python):
    with running(python, "waits_in_c_with_the_lock") as family:
        refused(family.pid, "the interpreter's lock was not given within 0.3 s: a thread keeps it in C code", "--wait", "0.3")
        pathlib.Path("noted.json").unlink()
        with open("gate", "wb", buffering=0) as gate:
            gate.write(b"x")
        while not pathlib.Path("noted.json").exists():
            time.sleep(0.02)
        walk = json.loads(ask(family.pid, "--json", "--wait", "600").stdout)
        check("held_plants.KEPT[0]" in holders(walk).values(), "no holder")
    text = "".join(run(python, "-c", "print(open('run.kcap','rb').read().count(b'held_plants.KEPT[0]'))").stdout)
    same("walks on record: one that nobody waits for is not made", text.strip(), "1")


def who_cannot_answer_says_so():
    python = interpreters()[0][1]
    with running(python, "waits_in_c", KEDGE_HELD="oom") as family:
        refused(family.pid, "nobody listens: KEDGE_HELD has no `ask` there")
    refused("run.kcap", "the process has ended")
    refused(os.getpid(), "does not run under kedge")
    refused("nowhere.kcap", "no capture")
    refused("run.kcap", "--wait 0: seconds, from 0.1 to 3600", "--wait", "0")


@each
def the_end_of_the_interpreter_waits_for_a_walk(python):
    for _ in range(4):
        with running(python, "ends_while_asked") as family:
            while family.poll() is None:
                done = ask("run.kcap")
                check(done.returncode == 0 or "has ended" in done.stderr, done.stderr)
            same("exit", family.wait(), 0)


def a_walk_that_fails_is_noted():
    report, _, _ = held(interpreters()[0][1], "end", HELD_UNKNOWN="1")
    check(any("is not known: AttributeError in the walk" in str(n) for n in report["notes"]), f"no note: {report['notes']}")
    check("held_at_end" not in report, "a walk")


@each
def what_graphs_keep_is_told_by_who_keeps_them(python):
    report, sizes, _ = held(python, "graphs")
    texts = holders(report["ooms"][-1]["held"])
    for name, expect in (("old", r"^graph of held_plants\.HISTORY\[\*\]$"),
                         ("shared", r"^graph of held_plants\.(HISTORY\[\*\] AND graph of held_plants\.OTHER|OTHER AND graph of held_plants\.HISTORY\[\*\])$"),
                         ("both", r"^held_plants\.ALSO AND graph of held_plants\.OTHER$"),
                         ("named", r"^held_plants\.ALSO2$")):
        check(re.search(expect, texts.get(sizes[name], "no row")), f"{name}: {texts.get(sizes[name])!r}")


@each
def what_holders_tell_is_the_kind_of_what_no_look_met(python):
    """Of graphs and of a copied module. What a variable of the program has as well may be saved for a while only."""
    report, sizes, _ = held(python, "kinds", "end,seconds=600", HELD_KINDS="1")
    rows, kinds = report["held_at_end"]["rows"], {row["kind"]: row for row in report["kinds_at_max"]}
    same("parameters", kinds["parameters"]["bytes"], sizes["weight"] + sizes["copied"])
    same("as the holders say", kinds["parameters"]["bytes"], sum(row["bytes"] for row in rows if row["kind"] == "parameter"))
    same("names are those of looks", [name["bytes"] for name in kinds["parameters"]["names"]], [sizes["weight"]])
    same("activations", kinds["activations"]["bytes"], sizes["old"] + sizes["shared"])
    same("as graphs alone keep", kinds["activations"]["bytes"],
         sum(row["bytes"] for row in rows if row["kind"] == "saved for backward" and all(h.startswith("graph of ") for h in row["held_by"])))
    same("unknown", kinds["unknown"]["bytes"], sizes["both"] + sizes["named"] + 4096 + 8192 + 16384)
    fresh("page.html")
    run(KEDGE, "report", "run.kcap", "--html", "page.html")
    page = pathlib.Path("page.html").read_text(encoding="utf-8")
    rows = [{"kind": row["kind"], "bytes": row["bytes"]} for row in report["kinds_at_max"]]
    check(f'"kinds_at_max":{json.dumps(rows, separators=(",", ":"))}' in page, "the page has other kinds")
    text = run(KEDGE, "report", "run.kcap", "--by", "kind").stdout
    check(re.search(r"2\.02 MiB +2 blocks +activations\n", text), f"no activations: {text}")


def tensors_that_fill_their_segments_have_addresses():
    """Beside those that lie in larger ones: a tensor of 16 MiB is all of its segment. Where each block is a tensor, only those of a class have one."""
    parts = {"__name__": "parts"}
    exec(next(SOURCE.glob("preload/**/held_rows.py")).read_text(encoding="utf-8"), parts)
    storages = [SimpleNamespace(address=at, bytes=size) for at, size in ((0x1000, 4096), (0x10000, 512), (0x10200, 512))]
    told = {0x1000: ("parameter", ["model"]), 0x10000: ("tensor", ["kept"]), 0x10200: ("tensor", ["kept"])}
    rows = parts["by_block"]([(0x1000, 4096, 1, 0), (0x10000, 8192, 2, 0)], storages, told, "nobody")
    same("segments", rows, {(1, 0, "parameter", "model"): [4096, 1, [0x1000]], (2, 0, "tensor", "kept"): [1024, 2, [0x10000, 0x10200]],
                            (2, 0, "no tensor", "nobody"): [7168, 1, []]})
    rows = parts["by_block"]([(0x1000, 4096, 1, 0), (0x10000, 512, 2, 0), (0x10200, 1023, 2, 0)], storages, told, "nobody")
    same("tensors", {key: row[2] for key, row in rows.items()}, {(1, 0, "parameter", "model"): [0x1000], (2, 0, "tensor", "kept"): [],
                                                              (2, 0, "no tensor", "nobody"): []})


CASES = (each_plant_is_named, arrays_of_cupy_are_told, tensors_of_paddle_are_told,
         r111_a_walk_leaves_everything_as_it_was, tracers_and_profilers_see_nothing,
         an_interrupt_reaches_the_program, what_is_left_at_the_end_is_named, what_failed_first_is_told_in_one_line,
         a_run_that_ends_well_is_walked_after_its_steps, what_grows_is_walked_without_a_setting, growth_of_any_rounds_is_walked,
         holders_that_are_alike_are_one, buckets_of_a_reducer_are_told_by_its_module,
         r111_a_program_that_does_not_grow_has_no_walk, what_only_the_collector_keeps_is_collected_before_the_device_is_full,
         what_only_the_collector_keeps_is_gone_when_a_failure_is_handled, nothing_is_walked_where_nobody_wants_it,
         what_graphs_keep_is_told_by_who_keeps_them, what_holders_tell_is_the_kind_of_what_no_look_met, a_walk_that_fails_is_noted,
         graphs_are_left_alone_where_they_may_be_taken_apart, graphs_are_read_beside_other_threads, what_may_be_on_its_way_out_is_not_asked,
         a_walk_that_is_out_of_time_says_so,
         kedge_held_asks_while_the_program_is_in_c, a_lock_that_is_not_given_is_told, who_cannot_answer_says_so,
         the_end_of_the_interpreter_waits_for_a_walk, tensors_that_fill_their_segments_have_addresses)

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[1]]()
    sys.exit(bool(failures))
