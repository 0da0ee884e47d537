#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: cmd_diff.c explain.c explain_print.c
"""`kedge diff` says first why the peaks of two runs differ, to the byte: by cause, and by the line of the program."""
import pathlib
import re
import sys

from regresskit import BUILD, SOT, check, kedge_run, main, same, tool, tool_json
from spoken import PRELUDE

# A training program. BAD is what one form does that the other does not.
PROGRAM = PRELUDE + """
def give(ptr):
    must(cuda.cuMemFree_v2(ptr))
def parameters(kib):
    return [take(kib) for i in range(8)]
def forward(kib, layers=4):
    return [take(kib) for i in range(layers)]
def evaluate(kib):
    return take(kib)
kept, last = [], []
batch = 2 if BAD == "batch" else 1
model = parameters(1024)
for i in range(STEPS):
    print(f"START step_{i}", flush=True)
    while last: give(last.pop())
    out = evaluate(512 * batch)
    tensors = forward(2048 * batch, 6 if BAD == "layers" else 4)
    if BAD in ("leak", "leak to the end"): kept.append(out)
    elif BAD == "one of four" and i % 4 == 1: kept.append(out)
    elif BAD == "next step": last.append(out)
    else: give(out)
    if BAD == "copies": kept.append(evaluate(256))
    if BAD == "line": tensors.append(take(4096))
    tensors += forward(1024 * batch, 2)
    while tensors: give(tensors.pop())
    print(f"END step_{i}", flush=True)
if BAD == "leak to the end":
    while kept: give(kept.pop())
"""

# What is planted: the cause that has nearly all of the difference, and the function whose line is named first.
PLANTED = {
    "leak": ("kept", "evaluate"),
    "leak to the end": ("kept", "evaluate"),
    "one of four": ("kept", "evaluate"),
    "copies": ("kept", "evaluate"),
    "next step": ("late", "evaluate"),
    "batch": ("larger", "forward"),
    "layers": ("more", "forward"),
    "line": ("lone", "<module>"),
}


def recorded(what, trace, steps=12):
    name = f"{what.replace(' ', '_')}-{trace}-{steps}"
    pathlib.Path("program.py").write_text(f"BAD, STEPS = {what!r}, {steps}\n" + PROGRAM, encoding="utf-8")
    kedge_run(sys.executable, "-s", "program.py", capture=f"{name}.kcap", KEDGE_TRACE=trace)
    return f"{name}.kcap"


def explained(good, bad):
    """The difference of the peaks, after all that holds of any two runs was checked."""
    j = tool_json("diff", good, bad)
    d, (theirs, ours) = j["difference"], (j["figures"][side] for side in ("good", "bad"))
    what = f"{good}, {bad}"
    same(f"{what}: live", d["peak_live_bytes"], ours["peak_live_bytes"] - theirs["peak_live_bytes"])
    same(f"{what}: reserved", d["peak_reserved_bytes"], ours["peak_reserved_bytes"] - theirs["peak_reserved_bytes"])
    same(f"{what}: fragmentation", d["fragmentation_bytes"], d["peak_reserved_bytes"] - d["peak_live_bytes"])
    same(f"{what}: all causes", sum(c["bytes"] for c in d["causes"]), d["peak_live_bytes"])
    same(f"{what}: not explained", d["not_explained_bytes"], 0)
    for cause in d["causes"]:
        same(f"{what}: rows of {cause['cause']}", sum(r["bytes"] for r in cause["rows"]), cause["bytes"])
    sizes = [abs(c["bytes"]) for c in d["causes"]]
    same(f"{what}: largest first", sizes, sorted(sizes, reverse=True))
    text = tool("diff", good, bad)
    lines = text.splitlines()
    peaks = next(i for i, line in enumerate(lines) if line.startswith("Peak live:"))
    check(lines[peaks + 1].startswith("Peak reserved:"), f"{what}: the peaks are not together:\n{text}")
    if d["peak_live_bytes"]:
        check("armless" not in text, f"{what}: harmless, and the peaks differ:\n{text}")
        end = next((i for i, line in enumerate(lines) if line.endswith("  not explained")), 99)
        check(peaks < end < 24, f"{what}: the explanation is not on the first screen:\n{text}")
    return d, lines[peaks:]


def expect(what, d, lines, cause, function, part=0.95):
    first = d["causes"][0]
    same(f"{what}: the first cause", first["cause"], cause)
    check(first["bytes"] >= part * d["peak_live_bytes"] > 0, f"{what}: {first['bytes']} of {d['peak_live_bytes']} are {cause}")
    row = first["rows"][0]
    check(re.match(re.escape(function) + r"(\W|$)", row["title"]), f"{what}: the first line is {row['title']}")
    check(row["title"].split(" <")[0] in lines[4], f"{what}: the text does not begin with it: {lines[:6]}")


def a_planted_difference_has_its_cause_and_its_line():
    good = recorded("plain", "full")
    for what, (cause, function) in PLANTED.items():
        bad = recorded(what, "full")
        expect(what, *explained(good, bad), cause, function)
        same(f"{what}: nothing is missing", tool_json("diff", good, bad)["difference"]["missing"], None)
        there, back = explained(good, bad)[0], explained(bad, good)[0]
        same(f"{what}: the other way round", {c["cause"]: -c["bytes"] for c in back["causes"]},
             {c["cause"]: c["bytes"] for c in there["causes"]})
    few = recorded("plain", "full", 3)
    for what in ("leak", "leak to the end", "one of four", "copies", "batch"):
        expect(f"{what}, good with fewer steps", *explained(few, recorded(what, "full")), *PLANTED[what])
    # Of two changes each has its own: bad leaks, and good has twice the batch.
    d, _ = explained(recorded("batch", "full"), recorded("leak", "full"))
    same("two changes", {c["cause"]: c["bytes"] >> 19 for c in d["causes"] if c["bytes"]}, {"larger": -20, "kept": 12})
    d, _ = explained(good, good)
    same("a run and itself", {c["bytes"] for c in d["causes"]}, {0})


def without_events_it_is_explained_by_what_places_held():
    good = recorded("plain", "agg")
    # A place says how much it has at the end and had at most, not how long one block lived.
    told = {**PLANTED, "leak to the end": ("late", "evaluate"), "next step": ("order", "evaluate")}
    for what, (cause, function) in told.items():
        d, lines = explained(good, recorded(what, "agg"))
        expect(what, d, lines, cause, function, 0.9)
        check("KEDGE_TRACE=full" in d["missing"], f"{what}: {d['missing']}")
        check(any("KEDGE_TRACE=full" in line for line in lines[:20]), f"{what}: nothing says what is missing: {lines[:20]}")
    # The other run may have its events.
    d, lines = explained(recorded("plain", "full"), "leak-agg-12.kcap")
    expect("one with events", d, lines, "kept", "evaluate")


def a_step_of_training_with_late_gradients_and_twice_the_batch():
    loop = BUILD / "trainers" / "loop"
    for trace in ("full", "agg"):
        for entrance in ("sync", "stream"):
            def run(*words, trace=trace, entrance=entrance):
                name = f"{trace}-{entrance}{''.join(words)}.kcap"
                kedge_run(loop, "--entrance", entrance, *words, capture=name, KEDGE_TRACE=trace)
                return name
            plain = run()
            d, _ = explained(plain, run("--late-gradients"))
            causes = {c["cause"]: c["bytes"] for c in d["causes"] if c["bytes"]}
            same(f"{trace}, {entrance}: causes of late gradients", set(causes), {"late", "order"})
            check(causes["late"] >= d["peak_live_bytes"] > 0, f"{trace}, {entrance}: {causes}")
            d, _ = explained(plain, run("--batch", "2"))
            same(f"{trace}, {entrance}: twice the batch", {c["cause"] for c in d["causes"] if c["bytes"]}, {"larger"})
            d, _ = explained(run("--steps", "3"), plain)
            same(f"{trace}, {entrance}: more steps", d["peak_live_bytes"], 0)


def the_751_late_frees_are_the_difference_of_the_peaks():
    for form in ("pt", "pir"):
        kedge_run(SOT, "--form", form, "--graph", "full", capture=f"{form}.kcap")
    d, _ = explained("pt.kcap", "pir.kcap")
    same("causes", {c["cause"]: c["count"] for c in d["causes"] if c["bytes"]}, {"kept": 751})


if __name__ == "__main__":
    main(a_planted_difference_has_its_cause_and_its_line, without_events_it_is_explained_by_what_places_held,
         a_step_of_training_with_late_gradients_and_twice_the_batch, the_751_late_frees_are_the_difference_of_the_peaks)
