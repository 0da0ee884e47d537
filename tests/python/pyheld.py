#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: held.c still.c pyhost.c report_held.c
"""Held by: which objects of a Python program refer to its memory, end to end, under every CPython 3.10 to 3.15 that is found.

    pyheld.py CASE

heldlike.py stands in for PyTorch by its name; tests/frameworks asks the real one (cases/holders.py).
"""
import json
import pathlib
import re
import sys

import held_plants
from pyanchors import each
from pystacks import HERE, PARTS, check, failures, fresh, interpreters, run, same, tool_json
from regresskit import KEDGE

LIKE = PARTS / "held"
BOUND = "oom,end,seconds=600"  # no test depends on how fast the machine is


def held(python, case, wanted=BOUND, **changes):
    """The report of a run, what the program noted, and what was said."""
    fresh("run.kcap", "noted.json")
    done = run(KEDGE, "run", "--sim", "--capture", "run.kcap", "--", python, HERE / "held_program.py", case, "noted.json",
               PYTHONPATH=LIKE, KEDGE_HELD=wanted, **changes)
    check(f"{case}: exit {done.returncode}: {done.stdout[-1500:]}", done.returncode == 0)
    noted = pathlib.Path("noted.json")
    return tool_json("report", "run.kcap"), json.loads(noted.read_text(encoding="utf-8")) if noted.exists() else {}, done.stdout


def holders(walk):
    """{bytes: the texts of the holders} of the rows of a walk."""
    return {row["bytes"]: " AND ".join(row["held_by"]) for row in walk["rows"]}


@each
def each_plant_is_named(python):
    report, sizes, _ = held(python, "plants")
    walk = report["ooms"][-1]["held"]
    texts = holders(walk)
    check("the walk came to its end", walk["complete"] and walk["graphs_read"])
    same("bytes of all rows", sum(row["bytes"] for row in walk["rows"]), walk["live_bytes"])
    for name, (_, expect) in held_plants.EXPECT.items():
        text = texts.get(sizes.get(name), "no row")
        check(f"{name}: {text!r} is no {expect}", re.search(expect, text))


@each
def r111_a_walk_leaves_everything_as_it_was(python):
    held(python, "left_as_it_was")


@each
def tracers_and_profilers_see_nothing(python):
    if "3.10" not in run(python, "-V").stdout:  # which has no way to keep them out
        held(python, "watched")


@each
def an_interrupt_reaches_the_program(python):
    _, noted, _ = held(python, "interrupted")
    check("no interrupt", noted.get("interrupted"))


@each
def what_is_left_at_the_end_is_named(python):
    report, sizes, _ = held(python, "end")
    same("holders at the end", holders(report["held_at_end"]).get(sizes["kept"]), "held_plants.KEPT[0]")
    report, sizes, _ = held(python, "end", "oom")
    check("a walk at the end that nobody wanted", "held_at_end" not in report)


def what_failed_first_is_told_in_one_line():
    python = interpreters()[0][1]
    report, _, said = held(python, "small_bound", "oom,seconds=600")
    check(f"no line: {said}", "held by held_plants.KEPT[0]; see kedge report" in said)
    check(f"the summary has no holder: {report['summary']}", "; kept by held_plants.KEPT[0] (1 of 1 block)" in report["summary"][0])
    walk = report["ooms"][-1]["held"]
    check("no bound was reached", not walk["complete"])
    check(f"{walk['object_count']} objects", walk["object_count"] < 1_100_000)


@each
def nothing_is_walked_where_nobody_wants_it(python):
    for wanted in ("none", "end"):
        report, _, said = held(python, "plants", wanted)
        check("a walk", "held" not in report["ooms"][-1] and ", which a running call" not in said)


@each
def graphs_are_left_alone_beside_a_thread_at_work(python):
    """In an operation that may change a graph in place, or in a backward pass."""
    for case in ("in_an_operation", "in_a_pass"):
        report, sizes, _ = held(python, case)
        walk = report["ooms"][-1]["held"]
        check(f"{case}: graphs were read", not walk["graphs_read"])
        same(f"{case}: what else holds", holders(walk).get(sizes["named"]), "held_plants.ALSO2")


@each
def graphs_are_read_beside_a_thread_that_waits(python):
    """The other thread runs Python, so it waits for the GIL while objects are walked, and no pass is counted."""
    report, sizes, _ = held(python, "busy")
    walk = report["ooms"][-1]["held"]
    check("graphs were not read", walk["graphs_read"])
    check("a graph's holder", "graph of held_plants.HISTORY[0]" in holders(walk).get(sizes["old"], ""))


def a_walk_that_fails_is_noted():
    report, _, _ = held(interpreters()[0][1], "end", HELD_UNKNOWN="1")
    check(f"no note: {report['notes']}", any("is not known: AttributeError in the walk" in str(n) for n in report["notes"]))
    check("a walk", "held_at_end" not in report)


@each
def what_graphs_keep_is_told_by_who_keeps_them(python):
    report, sizes, _ = held(python, "graphs")
    texts = holders(report["ooms"][-1]["held"])
    for name, expect in (("old", r"^graph of held_plants\.HISTORY\[0\]$"),
                         ("shared", r"^graph of held_plants\.HISTORY\[1\] AND graph of held_plants\.OTHER$"),
                         ("both", r"^held_plants\.ALSO AND graph of held_plants\.OTHER$"),
                         ("named", r"^held_plants\.ALSO2$")):
        check(f"{name}: {texts.get(sizes[name])!r}", re.search(expect, texts.get(sizes[name], "no row")))


CASES = (each_plant_is_named, r111_a_walk_leaves_everything_as_it_was, tracers_and_profilers_see_nothing,
         an_interrupt_reaches_the_program, what_is_left_at_the_end_is_named, what_failed_first_is_told_in_one_line,
         nothing_is_walked_where_nobody_wants_it, what_graphs_keep_is_told_by_who_keeps_them, a_walk_that_fails_is_noted,
         graphs_are_left_alone_beside_a_thread_at_work, graphs_are_read_beside_a_thread_that_waits)

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[1]]()
    sys.exit(bool(failures))
