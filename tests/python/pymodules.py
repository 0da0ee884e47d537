#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: pynames.c pytoken.c titles.c kindroots.c
"""Modules as anchors, each with a name of its own, end to end, under every CPython 3.10 to 3.15 that is found.

    pymodules.py CASE

kindlike.py stands in for PyTorch by its name; tests/frameworks asks the real one and Lightning (cases/anchors.py).
"""
import json
import sys

from pyanchors import each
from pystacks import HERE, PARTS, check, failures, fresh, run, same, tool_json
from regresskit import KEDGE

LIKE = PARTS / "kinds"


def named(python, case, **changes):
    """Bytes that the program asked for in each module, by its own names, and by those of kedge."""
    fresh("run.kcap")
    done = run(KEDGE, "run", "--sim", "-q", "--capture", "run.kcap", "--", python, HERE / "modules_program.py", case,
               PYTHONPATH=LIKE, KEDGE_HELD="none", **{"KEDGE_ANCHORS": "python=modules", **changes})
    check(done.returncode == 0, f"{case}: exit {done.returncode}: {done.stdout[-1500:]}")
    found = {}
    for anchor in tool_json("report", "run.kcap")["anchors"]:
        where = anchor["name"].partition("forward")
        if where[1]:
            name = where[2].removeprefix("/")
            found[name] = found.get(name, 0) + anchor["allocated_bytes"]
    return json.loads(done.stdout.strip().splitlines()[-1]), found


def agree(python, case, **changes):
    """Each module has the name that the program gives it, and what was asked for there is its own."""
    own, found = named(python, case, **changes)
    whole = {name for name in found if any(other.startswith(name + "/") for other in own) or name == ""}
    same(f"{case} {changes}: names", set(found) - whole, set(own))
    same(f"{case} {changes}: bytes", {name: found.get(name) for name in own}, own)


@each
def parts_of_a_module_that_nothing_calls_share_no_name(python):
    for changes in ({}, {"KEDGE_KINDS": "off"}):
        agree(python, "lightning", **changes)


@each
def several_models_share_no_name(python):
    for changes in ({}, {"KEDGE_KINDS": "off"}):
        agree(python, "models", **changes)


@each
def a_model_that_has_ended_leaves_its_name(python):
    agree(python, "folds")


@each
def modules_that_no_module_has_share_no_name(python):
    agree(python, "loose")


@each
def a_module_has_the_name_of_the_place_where_it_is(python):
    agree(python, "renamed")


CASES = (parts_of_a_module_that_nothing_calls_share_no_name, several_models_share_no_name, a_model_that_has_ended_leaves_its_name,
         modules_that_no_module_has_share_no_name, a_module_has_the_name_of_the_place_where_it_is)

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[1]]()
    sys.exit(bool(failures))
