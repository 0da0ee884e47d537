#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: kinds.c kindnote.c kindroots.c kindstate.c kindwalk.c paddlestorages.c tensors.c datakind.c report_kinds.c pyhost.c
"""What the memory of a Python program is, by kind and name, end to end, under every CPython 3.10 to 3.15 that is found.

    pykinds.py CASE

kindlike.py stands in for PyTorch by its name, paddlekinds.py for PaddlePaddle; tests/frameworks asks the real one (cases/kinds.py). What a report tells is compared
with what the program's own objects have.
"""
import json
import re
import sys

from pyanchors import each
from pystacks import HERE, PARTS, check, failures, fresh, interpreters, run, same, tool, tool_json
from regresskit import KEDGE

LIKE = PARTS / "kinds"
KB = 1024


def looked(python, case, script="kinds_program.py", **changes):
    """The report of a run, and what its objects had."""
    fresh("run.kcap")
    done = run(KEDGE, "run", "--sim", "-q", "--capture", "run.kcap", "--", python, HERE / script, case,
               PYTHONPATH=LIKE, **changes)
    check(done.returncode == 0, f"{case}: exit {done.returncode}: {done.stdout[-1500:]}")
    report = tool_json("report", "run.kcap")
    said = [line for line in done.stdout.splitlines() if not re.match(r"kedge\[\d+\]: (out of memory: |.* are held by )", line)]
    try:
        return report, json.loads("\n".join(said))
    except json.JSONDecodeError:
        check(False, f"{case}: more was said: {done.stdout[-500:]}")
        return report, {}


def sizes(rows):
    return {row["kind"]: row["bytes"] for row in rows or ()}


def names(rows, kind):
    return {name["name"]: name["bytes"] for row in rows or () if row["kind"] == kind for name in row["names"]}


def told(python, case, **how):
    """Rows at the end, which must agree with the program's own objects and add up."""
    report, own = looked(python, case, **how)
    rows = report.get("kinds_at_end")
    same(f"{case}: kinds", {kind: sizes(rows).get(kind, 0) for kind in own}, own)
    same(f"{case}: all of them", sum(sizes(rows).values()), report["remaining_bytes"])
    same(f"{case}: at the peak", sum(sizes(report.get("kinds_at_max")).values()), report["max_bytes"])
    return report, rows


@each
def what_a_training_loop_keeps_has_kinds_and_names(python):
    report, rows = told(python, "plain")
    same("parameters", names(rows, "parameters"), {"enc.weight": 64 * KB, "dec.weight": 32 * KB})
    same("buffers", names(rows, "buffers"), {"enc.mean": 32 * KB, "dec.mean": 16 * KB})
    same("state", names(rows, "optimizer state"), {"exp_avg of enc.weight": 64 * KB, "exp_avg of dec.weight": 32 * KB})
    peak = sizes(report["kinds_at_max"])
    same("at the peak: activations", peak.get("activations"), 16 * KB)
    same("at the peak: inputs", peak.get("inputs"), 16 * KB)
    same("at the peak: unknown", peak.get("unknown", 0), 0)
    text = tool("report", "run.kcap", "--by", "kind")
    check(re.search(r"96\.00 KiB +2 blocks +parameters\n +64\.00 KiB +enc\.weight", text), f"no rows: {text}")
    text = tool("report", "run.kcap")
    check(re.search(r"By kind: parameters 96\.00 KiB, ", text), f"no line: {text}")


@each
def gradients_of_steps_without_a_look_are_as_their_equals(python):
    _, rows = told(python, "remade")
    same("no names", names(rows, "gradients"), {})


@each
def programs_of_other_kinds_are_told_right(python):
    for case in ("kept", "flat", "moved", "gone", "loaded"):
        told(python, case)
    _, rows = told(python, "tied")
    same("tied", names(rows, "parameters"), {"enc.weight, and 1 more": 64 * KB})
    _, rows = told(python, "functional")
    same("functional", names(rows, "parameters"), {"param_groups[0].params[0]": 64 * KB})


@each
def two_modules_never_share_a_name(python):
    _, rows = told(python, "two")
    found = names(rows, "parameters")
    same("as many names as parameters", len(found), 6)
    check(all(re.match(r"Model(#[23])?\.(enc|dec)\.weight$", name) for name in found), f"names {found}")
    same("states", len(names(rows, "optimizer state")), 4)


@each
def parts_that_a_step_calls_have_the_names_of_the_whole(python):
    _, rows = told(python, "parts")
    same("parameters", set(names(rows, "parameters")), {"enc.weight", "dec.weight"})
    report, _ = looked(python, "parts", KEDGE_ANCHORS="python=modules")
    found = [a["name"] for a in report["anchors"] if a["name"].startswith("step/forward/")]
    same("anchors", sorted(found), 5 * ["step/forward/dec"] + 5 * ["step/forward/enc"])


@each
def r111_no_code_of_the_program_runs(python):
    _, rows = told(python, "odd")
    check({"odd", "wrapper"} <= set(names(rows, "buffers")), f"buffers {names(rows, 'buffers')}")
    check({"[0] of whole", "[1].a[0] of whole"} <= set(names(rows, "optimizer state")),
          f"state {names(rows, 'optimizer state')}")


@each
def what_failed_is_told_by_kind(python):
    report, own = looked(python, "failed", SIMCUDA_MEMORY="64M")
    rows = report["ooms"][-1].get("kinds")
    same("kinds", {kind: sizes(rows).get(kind, 0) for kind in own}, own)
    same("activations", sizes(rows).get("activations"), 8 * KB)
    same("all of them", sum(sizes(rows).values()), report["ooms"][-1]["live_bytes"])


@each
def what_paddle_keeps_has_kinds_and_names(python):
    report, rows = told(python, "plain", script="kinds_paddle.py")
    same("parameters", names(rows, "parameters"), {"enc.weight": 64 * KB, "dec.weight": 32 * KB})
    same("gradients", names(rows, "gradients"), {"enc.weight": 64 * KB, "dec.weight": 32 * KB})
    same("buffers", names(rows, "buffers"), {"enc.mean": 32 * KB, "dec.mean": 16 * KB})
    same("state", names(rows, "optimizer state"), {
        f"{what} of {layer}.weight": size for what in ("moment1", "master_weights") for layer, size in (("enc", 128 * KB), ("dec", 64 * KB))})
    layers = [a["name"] for a in report["anchors"] if a["name"].startswith("step/forward/")]
    same("layers", sorted(layers), 5 * ["step/forward/dec"] + 5 * ["step/forward/enc"])
    _, rows = told(python, "functional", script="kinds_paddle.py")
    same("functional", names(rows, "optimizer state"), {"moment1 of create_parameter_0.w_0": 128 * KB})


@each
def what_failed_in_paddle_is_told_by_kind(python):
    report, own = looked(python, "failed", script="kinds_paddle.py", SIMCUDA_MEMORY="64M")
    rows = report["ooms"][-1].get("kinds")
    same("kinds", {kind: sizes(rows).get(kind, 0) for kind in own}, own)


@each
def r111_gradients_are_not_asked_for_beside_a_backward_of_paddles(python):
    _, own = looked(python, "busy", script="kinds_paddle.py")
    same("gradients that were asked for", own, {"asked": 0})


def nobody_looks_where_nobody_wants_it():
    python = interpreters()[0][1]
    for changes in ({"KEDGE_KINDS": "off"}, {"KEDGE_ANCHORS": "python=off"}, {"KEDGE_ANCHORS": "none"}):
        report, _ = looked(python, "plain", **changes)
        check("kinds_at_end" not in report, f"kinds with {changes}")
    done = run(KEDGE, "report", "run.kcap", "--by", "kind", rc=2)
    check("no module or optimizer was looked at" in done.stdout, f"no reason: {done.stdout}")
    looked(python, "plain")
    run(KEDGE, "report", "run.kcap", "--by", "kind", "--view", "leaks", rc=2)


CASES = (what_a_training_loop_keeps_has_kinds_and_names, gradients_of_steps_without_a_look_are_as_their_equals,
         programs_of_other_kinds_are_told_right, two_modules_never_share_a_name, parts_that_a_step_calls_have_the_names_of_the_whole,
         r111_no_code_of_the_program_runs, what_failed_is_told_by_kind, what_paddle_keeps_has_kinds_and_names,
         what_failed_in_paddle_is_told_by_kind, r111_gradients_are_not_asked_for_beside_a_backward_of_paddles, nobody_looks_where_nobody_wants_it)

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[1]]()
    sys.exit(bool(failures))
