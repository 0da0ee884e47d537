#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rules and the tests that prove them: makes the table in tests/rules/README.md from the names of the tests.

    tests/rules/table.py [--write] [BUILD]      prints the table; --write puts it into tests/rules/README.md
    tests/rules/table.py --check [BUILD]        fails if the README's table is another one, or a rule has nothing

A test proves a rule if a part of its name begins with the rule's number: `preload.hooks.r23_...`, `r12_r13_...` for two.
The names are ctest's own for BUILD (default: the newest of build/release, dev, clang), so a test that does not exist
cannot be in the table. The sentences, and reasons for rules without a test, are those of rules.txt. After a merge whose
conflict lies between the two markers: --write, since everything between them is made anew. Each row can be linked:
tests/rules/README.md#r23.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BEGIN = "<!-- rules: made by tests/rules/table.py -->"
END = "<!-- end of rules -->"
COUNT = 111
SHOWN = 6


def build_folder(named):
    if named or os.environ.get("TEST_BUILD"):
        return pathlib.Path(named or os.environ["TEST_BUILD"])
    made = [b for b in (SOURCE / "build" / p for p in ("release", "dev", "clang")) if (b / "CTestTestfile.cmake").exists()]
    if not made:
        sys.exit("no build/release, build/dev or build/clang: configure one, or name a build folder")
    return max(made, key=lambda b: (b / "CTestTestfile.cmake").stat().st_mtime)


def read_rules(path):
    """[(number, sentence, note)], all of them, in order."""
    rules = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            fields = [f.strip() for f in line.split("|", 2)]
            if len(fields) != 3 or fields[0] != f"R{len(rules) + 1}":
                sys.exit(f"{path.name}: not 'R{len(rules) + 1} | sentence | note': {line}")
            if fields[2] and not re.match(r"replaced by R\d+|not here: .|in part: .|open\b", fields[2]):
                sys.exit(f"{path.name}: {fields[0]}: the note is none of 'replaced by Rnn', 'not here: why', 'in part: why', 'open: why'")
            rules.append((len(rules) + 1, fields[1], fields[2]))
    if len(rules) != COUNT:
        sys.exit(f"{path.name}: {len(rules)} rules, not {COUNT}")
    return rules


def read_tests(build):
    """[(name, labels)] as ctest knows them."""
    listing = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"],
                             capture_output=True, text=True, check=True).stdout
    tests = []
    for test in json.loads(listing)["tests"]:
        labels = next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
        tests.append((test["name"], labels))
    return tests


def proved_by(name):
    """The numbers of the rules that a test's name says it proves."""
    numbers = set()
    if name.startswith("gpu.on_sim."):
        return numbers # that a test for a GPU runs here says nothing of a GPU
    for part in name.split("."):
        begin = re.match(r"(?:r\d+_)+", part)
        if begin:
            numbers.update(int(n) for n in re.findall(r"\d+", begin.group()))
    return numbers


def sort_tests(tests):
    """number -> (names that run anywhere, names that need a GPU)"""
    proofs = {n: (set(), set()) for n in range(1, COUNT + 1)}
    for name, labels in tests:
        for n in proved_by(name):
            if n not in proofs:
                sys.exit(f"{name}: there is no R{n}")
            proofs[n]["gpu" in labels].add(name)
    return proofs


def short_names(names):
    """One name per sentence: the same test on several routes is one proof."""
    groups = {}
    for name in names:
        parts = name.split(".")
        i = next(i for i, p in enumerate(parts) if re.match(r"r\d+_", p))
        groups.setdefault((parts[0], parts[1] if i > 1 else "", parts[i]))
    shown = sorted("`" + ".".join(filter(None, g)) + "`" for g in groups)
    more = len(shown) - SHOWN
    return shown if more <= 1 else shown[:SHOWN] + [f"{more} more"]


def status_of(anywhere, gpu, note):
    if (anywhere or gpu) and note.startswith("in part"):
        return note
    if anywhere:
        return "covered" + (", more on a GPU" if gpu else "")
    if gpu:
        return "needs a GPU"
    return "not yet" if note.startswith("in part") else note or "not yet"


def make_table(rules, proofs):
    lines = [BEGIN, "", "| rule | in short | proved by | status |", "|---|---|---|---|"]
    counts = {}
    for number, sentence, note in rules:
        anywhere, gpu = proofs[number]
        status = status_of(anywhere, gpu, note)
        counts[status.split(":")[0]] = counts.get(status.split(":")[0], 0) + 1
        proof = "; ".join(short_names(anywhere) + short_names(gpu))
        lines.append(f"| <a id=\"r{number}\"></a>R{number} | {sentence} | {proof} | {status} |")
    return lines + ["", END], counts


def readme_table(path):
    """(text before, lines of the table, text after)"""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{path}: the lines '{BEGIN}' and '{END}' are not there")
    return before, (BEGIN + table + END).splitlines(), after


def complaints(readme, table):
    """What --check says: rows that differ, rules that have neither a test nor a reason."""
    was, now = set(readme), set(table)
    found = [f"README has, the tests have not: {line}" for line in readme if line not in now]
    found += [f"the tests have, README has not: {line}" for line in table if line not in was]
    if not found and readme != table:
        found.append("the order of the rows differs")
    if found:
        found.append("run tests/rules/table.py --write")
    return found


def open_rules(table):
    return [f"no test and no reason: {re.search('R[0-9]+', line).group()}" for line in table if line.endswith("| not yet |")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", help="a build folder")
    parser.add_argument("--write", action="store_true", help="put the table into tests/rules/README.md")
    parser.add_argument("--check", action="store_true", help="compare it with what is there")
    options = parser.parse_args()
    rules = read_rules(SOURCE / "tests" / "rules" / "rules.txt")
    build = build_folder(options.build)
    # Tests are registered when the build is configured: without this, yesterday's names.
    subprocess.run(["cmake", str(build)], stdout=subprocess.DEVNULL, check=True)
    table, counts = make_table(rules, sort_tests(read_tests(build)))
    readme = SOURCE / "tests" / "rules" / "README.md"
    before, old, after = readme_table(readme)
    if options.check:
        found = complaints(old, table) + open_rules(table)
        print("\n".join(found))
        return 1 if found else 0
    if options.write:
        readme.write_text(before + "\n".join(table) + after, encoding="utf-8")
    else:
        print("\n".join(table))
    print(", ".join(f"{n} {s}" for s, n in sorted(counts.items())), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
