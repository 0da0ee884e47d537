#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: cap_hint.c cap_sites.c
"""`kedge suggest CAPTURE --cap SIZE`: which blocks go out so that the program fits, and what that moves."""
import pathlib
import re
import shutil

from regresskit import BUILD, KEDGE, SOURCE, check, checksum, kedge_run, main, run, same, tool, tool_json

GEMINI = BUILD / "trainers" / "gemini"
MIB = 1 << 20
SEED = ("--units", 3, "--size", "128M", "--order", "0 1 2 0 1", "--steps", 6, "--update", "none")


def record(*arguments, name="run.kcap", trace="full,uses=order"):
    kedge_run(GEMINI, *arguments, capture=name, KEDGE_TRACE=trace)
    return name


def refused(*arguments, rc):
    """The one line that says why there is no hint."""
    lines = run(KEDGE, "suggest", *arguments, rc=rc).stdout.splitlines()
    same("lines of a refusal", len(lines), 1)
    return lines[0]


def keys_of(value):
    """All keys of a JSON value."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def the_seed_moves_as_much_as_predicted_by_hand():
    """Two of three units fit. What no order of moves can do better than is reached: ../data/s878_volume_per_step_mib.csv."""
    found = tool_json("suggest", record(*SEED), "--cap", "260M", "-o", "hints.yaml")
    same("answer", found["answer"], "found")
    same("cap", found["cap_bytes"], 258 * MIB) # the sums and the activation have 2 MiB of the pool
    same("beside it", found["other_bytes"], 2 * MIB)
    same("managed", found["managed"], {"count": 3, "bytes": 384 * MIB})
    step = found["step"]
    same("in", step["moved_in_bytes"], 256 * MIB)
    same("out", step["moved_out_bytes"], 256 * MIB)
    check(step["in_at_least_bytes"] <= 256 * MIB, "the bound is above what is moved")
    check(step["times_as_long"] > 1, "copies take no time")
    page = (SOURCE / "tools" / "man" / "kedge-suggest.1").read_text(encoding="utf-8")
    for key in sorted(set(keys_of(found)) - {"schema"}): # kedge(1) has that one
        check(re.search(rf"\b{key}\b", page), f"kedge-suggest(1) does not say what {key} is")
    text = pathlib.Path("hints.yaml").read_text(encoding="utf-8")
    for line in ('  - id: "alloc-unit"', "    do: evict", '    when: {anchor: "step", edge: enter}', "    cap: {device: 258MiB}",
                 "predicted of each step: 256.00 MiB in, 256.00 MiB out"):
        check(line in text, f"no line {line!r} in:\n{text}")
    check("1 hint, 0 warnings" in tool("hints", "lint", "hints.yaml"), "lint has something to say")


def a_slower_host_takes_longer():
    record(*SEED)
    slow = [tool_json("suggest", "run.kcap", "--cap", "260M", "--bandwidth", speed)["step"] for speed in ("1G", "16G")]
    same("what is moved does not depend on it", slow[0]["moved_in_bytes"], slow[1]["moved_in_bytes"])
    check(slow[0]["waited_ms"] > 15 * slow[1]["waited_ms"] > 0, f"waited {slow[0]['waited_ms']} and {slow[1]['waited_ms']} ms")
    text = tool("suggest", "run.kcap", "--cap", "260M")
    check("times as long (at 24.00 GiB/s)" in text, text)
    check(re.search(r"^alloc-unit +3 +384\.00 MiB  under a cap of 258\.00 MiB\n    alloc_unit ", text), text)
    check("\nwritten to" not in text, "a file was written, though none was named")


def states_go_out_with_units():
    """Both are of other call sites, and share one cap."""
    record("--units", 6, "--size", "16M", "--states", "--steps", 5)
    found = tool_json("suggest", "run.kcap", "--cap", "66M", "-o", "hints.yaml")
    same("answer", found["answer"], "found")
    same("managed", found["managed"]["count"], 12)
    same("picks", sorted(p["title"].split()[0] for p in found["picks"]), ["alloc_state", "alloc_unit"])
    same("hints", pathlib.Path("hints.yaml").read_text(encoding="utf-8").count("do: evict"), 1)


def moved(capture, rc=0):
    """What is wanted and what is, of the rows of `check` about moves."""
    rows = tool_json("check", capture, "--predicted", "hints.yaml", rc=rc)["checks"]
    return [(r["figure"], r["limit"], r["at_least"]) for r in rows if r["figure"].startswith("moved")]


def a_suggested_hint_is_verified_and_moves_to_the_byte_what_is_predicted():
    """From a capture to a run in live: the same result, under the cap."""
    program = ("--units", 12, "--size", "4M", "--states", "--steps", 5)
    record(*program)
    found = tool_json("suggest", "run.kcap", "--cap", "40M", "-o", "hints.yaml")
    said = run(KEDGE, "verify", "--sim", "--hints", "hints.yaml", "--keep", "kept", "--", GEMINI, *program).stdout
    check("kedge verify: hint alloc-unit: 24 blocks, 5 steps: " in said, said[-600:])
    check("kedge verify: 1 hint verified, receipt: hints.yaml.receipt" in said, said[-600:])
    plain = kedge_run(GEMINI, *program).stdout
    live = kedge_run(GEMINI, *program, capture="live.kcap", KEDGE_TRACE="full,uses=order", KEDGE_HINTS="hints.yaml",
                     KEDGE_HINTS_MODE="live").stdout
    same("checksum", checksum(live), checksum(plain))
    tool("check", "live.kcap", "--predicted", "hints.yaml")
    for capture in ("live.kcap", "kept/shadow.kcap", "kept/poison.kcap", "kept/trap.kcap"):
        rows = moved(capture)
        same(f"{capture}: rows", [r[0] for r in rows], ["moved_in", "moved_out"])
        for figure, limit, value in rows:
            same(f"{capture}: {figure}", value, limit)
            check(value > 0, f"{capture}: nothing was moved")
    shutil.rmtree("kept") # tests begin by removing files
    eviction, = tool_json("report", "live.kcap", "--view", "eviction")["eviction"]
    steady = [s for s in eviction["steps"] if s["step"] == eviction["median_step"]][0]
    same("a step of habit, in", steady["moved_in_bytes"], found["step"]["moved_in_bytes"])
    same("a step of habit, out", steady["moved_out_bytes"], found["step"]["moved_out_bytes"])
    check(steady["in_at_most_bytes"] <= found["cap_bytes"], "more was in than the cap allows")


def what_cannot_fit_is_refused_with_its_numbers():
    record(*SEED)
    line = refused("run.kcap", "--cap", "100M", rc=1)
    check("needs 128.00 MiB of them at once" in line and "room for 98.00 MiB" in line, line)
    line = refused("run.kcap", "--cap", "1M", rc=1)
    check("2.00 MiB have to stay, and no more than 384.00 MiB of the 386.00 MiB" in line, line)
    line = refused("run.kcap", "--cap", "1G", "-o", "hints.yaml", rc=1)
    check("it fits into 1.00 GiB" in line, line)
    check(not pathlib.Path("hints.yaml").exists(), "a file was written")


def a_graph_needs_all_its_blocks_at_once():
    line = refused(record("--units", 6, "--size", "16M", "--graph", "--steps", 5), "--cap", "66M", rc=1)
    check("needs 96.00 MiB of them at once" in line, line)


def without_the_order_of_uses_there_is_no_answer():
    line = refused(record(*SEED, trace="full,uses=on"), "--cap", "260M", rc=2)
    check("has no order of uses (kedge run --trace full,uses=order " in line, line)
    line = refused(record("--units", 4, "--size", "16M", "--steps", 2), "--cap", "40M", rc=2)
    check("states 2 steps (step) in this run: 3 at least" in line, line)
    lines = run(KEDGE, "suggest", "run.kcap", "run.kcap", "--cap", "40M", rc=2).stdout.splitlines()
    check(lines[0] == "kedge suggest: --cap looks at one capture" and lines[1].startswith("usage: kedge suggest "), lines)


if __name__ == "__main__":
    main(the_seed_moves_as_much_as_predicted_by_hand, a_slower_host_takes_longer, states_go_out_with_units,
         a_suggested_hint_is_verified_and_moves_to_the_byte_what_is_predicted,
         what_cannot_fit_is_refused_with_its_numbers, a_graph_needs_all_its_blocks_at_once,
         without_the_order_of_uses_there_is_no_answer)
