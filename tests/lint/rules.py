#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.rules: the table of rules in tests/rules/README.md is the one that the tests' names make, and no rule is without a word.

Guards against a table that promises more than there is: a test that was renamed or taken out leaves no row behind, and a
rule for which nobody wrote a test has to say why (tests/rules/rules.txt).
"""
import json
import pathlib
import sys

import lintkit

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "rules"))
import table # noqa: E402 pylint: disable=wrong-import-position

NAMES = "names.json" # a seeded tree has no build


def check(root, complain):
    rules = table.read_rules(root / "tests" / "rules" / "rules.txt")
    names = root / NAMES
    tests = json.loads(lintkit.read(names)) if names.exists() else table.read_tests(lintkit.BUILD)
    made, _ = table.make_table(rules, table.sort_tests(tests))
    _, readme, _ = table.readme_table(root / "tests" / "rules" / "README.md")
    for line in table.complaints(readme, made) + table.open_rules(made):
        complain(line)


def build(root, tests, rules):
    """A tree whose table is right."""
    lintkit.write(root, NAMES, json.dumps(tests))
    lintkit.write(root, "tests/rules/rules.txt", "".join(f"R{n} | {s} | {w}\n" for n, s, w in rules))
    made, _ = table.make_table(rules, table.sort_tests(tests))
    lintkit.write(root, "tests/rules/README.md", "# rules\n\n" + "\n".join(made) + "\n\nend\n")


RULES = [(n, f"sentence {n}", "not here: a seeded tree" if n > 3 else "") for n in range(1, table.COUNT + 1)]
TESTS = [["unit.fence.r1_r2_it_waits", ["unit"]], ["gpu.ipc.r3_two_processes", ["gpu"]], ["unit.fence.other", ["unit"]]]


def clean(root):
    build(root, TESTS, RULES)


def names(tests):
    return lambda root: lintkit.write(root, NAMES, json.dumps(tests))


def no_reason(root):
    build(root, TESTS, [(n, s, "" if n == 50 else w) for n, s, w in RULES])


def by_hand(root):
    path = root / "tests" / "rules" / "README.md"
    path.write_text(path.read_text(encoding="utf-8").replace("| needs a GPU |", "| covered |"), encoding="utf-8")


lintkit.main(check, clean, [
    ("a test that was taken out", names(TESTS[1:])),
    ("a test that the table has not", names(TESTS + [["unit.pool.r70_merge", ["unit"]]])),
    ("a rule with neither test nor reason", no_reason),
    ("a status written by hand", lambda root: by_hand(pathlib.Path(root))),
])
