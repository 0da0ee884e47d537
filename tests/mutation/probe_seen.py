#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/mutation/probe on a source of 30 lines: what is caught, what survives, what is not reached, and what is equivalent.

The places are found and changed, and the tests run and counted, by the code that does it for the product.
"""
import os
import pathlib
import shutil
import subprocess
import sys

import probesites
from probetests import SKIPPED, Change, Test, compiles, draw, equivalents, hunt_all, report

SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
CC = os.environ.get("CC", "cc")
PRODUCT = """#include <errno.h>
#define TWICE(x) ((x) + (x))
int sum, calls;

int add(int value)
{
    if (value < 0)
        return -EINVAL;
    calls++; /* nobody asks */
    sum += value;
    return 0;
}

int unused(int value)
{
    return TWICE(value) > 7 ? value - 1 : 0;
}

#ifdef NEVER
int never(int value)
{
    return value + 1;
}
#endif
"""
PROGRAM = """int add(int value);
extern int sum;
int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return add(-1) >= 0 || sum != 0;
    return add(2) != 0 || add(3) != 0 || sum != 5;
}
"""
EQUIVALENT = """# words
small/product.c add: sum += value  =>  nothing
    for the sake of the test: it is none
small/product.c add: value < 0  =>  value <= 0
    nobody adds nothing
"""


def check(is_so, what):
    if not is_so:
        sys.exit(f"FAILED: {what}")


def build(work, changes):
    """The program with all changes in it; lines stay where they were."""
    text = probesites.changed(PRODUCT.encode(), [(change.number, change.site) for change in changes])
    check(text.count(b"\n") == PRODUCT.count("\n") + 2, "lines have moved")
    (work / "changed.c").write_bytes(text)
    (work / "program.c").write_text(PROGRAM, encoding="utf-8")
    subprocess.run([CC, "-w", f"-I{SOURCE}", "changed.c", "program.c", "-o", "program"], cwd=work, check=True)


def main():
    if not shutil.which("clang"):
        print("SKIP: clang is not installed (tools/setup)")
        sys.exit(SKIPPED)
    work = pathlib.Path("probed").resolve()
    shutil.rmtree(work, ignore_errors=True)
    (work / "out").mkdir(parents=True)
    (work / "product.c").write_text(PRODUCT, encoding="utf-8")
    sites = probesites.find(work / "product.c", "small/product.c", [])
    check({site.function for site in sites} == {"add", "unused"}, "the functions that are compiled")
    check(all("TWICE" not in site.now or site.now.startswith("TWICE(") for site in sites), "what a macro makes is left alone")

    def fits(site):
        return compiles(CC, [f"-I{SOURCE}"], work, probesites.changed(PRODUCT.encode(), [(1, site)]))

    drawn = draw(sites, 1, 1000, fits)
    check(len(drawn) > 15 and draw(sites, 1, 7, fits) == drawn[:7], "a draw is the beginning of a longer one")
    check(draw(sites, 2, 7, fits) != drawn[:7], "seeds differ")
    changes = [Change(site, 1) for site in drawn]
    for number, change in enumerate(changes, 1):
        change.number = number
    build(work, changes)
    keys = {change.number: change.site.key for change in changes}
    tests = [Test("unit.product.adds", [work / "program"], work, [], 10), Test("unit.product.refuses", [work / "program", "1"], work, [], 10)]
    for test in tests:
        check(test.reach(work, keys) == 0, f"{test.name} fails as it is")
    hunt_all(work, 2, tests, changes, 20)
    became = {change.site.key.split(" ", 1)[1]: change for change in changes}
    for key, state, by in (("add: value < 0  =>  !(value < 0)", "caught", ""), ("add: sum += value  =>  nothing", "caught", "unit.product.adds"),
                           ("add: value < 0  =>  taken", "caught", "unit.product.adds"),
                           ("add: value < 0  =>  not taken", "caught", "unit.product.refuses"),
                           ("add: calls++  =>  nothing", "survived", ""), ("add: value < 0  =>  value <= 0", "survived", ""),
                           ("unused: value - 1  =>  value + 1", "not reached", "")):
        check(became[key].state == state and by in ("", became[key].by), f"{key}: {became[key].state} by {became[key].by}")
    (work / "equivalent.txt").write_text(EQUIVALENT, encoding="utf-8")
    known = equivalents(work / "equivalent.txt")
    check(len(known) == 2 and not report(changes, known, ["small"]), "what is weak is called so")
    weak = [change for change in changes if change.site.function == "add" and change.state == "caught"]
    check(report(weak, known, ["small"]), "what is strong is called so")
    print(f"{len(changes)} changes, {sum(change.state == 'caught' for change in changes)} caught")


main()
