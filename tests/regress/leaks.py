#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: growth.c hinted_growth.c answer.c answer_lines.c subject.c
"""`kedge check 'growth==0'` says yes of no program that leaks: in each of three steps, once in an epoch, with one request of many,
late, in one phase, behind memory that is freed meanwhile, or behind hints that release, hold or evict. What is replaced from step
to step is no leak, and neither is what a cache keeps.
"""
import pathlib
import re
import sys

from regresskit import KEDGE, check, kedge_run, main, run, same, tool, tool_json
from spoken import PRELUDE

PRELUDE += """
import random
random.seed(5)
def give(ptr):
    must(cuda.cuMemFree_v2(ptr))
def steps(count, first=0):
    for i in range(first, first + count):
        print(f"START step_{i}", flush=True)
        give(take(256))
        yield i
        print(f"END step_{i}", flush=True)
kept = []
def keep(kib):
    kept.append(take(kib))
"""

# What leaks, by name, and how it is told; what it keeps lives longer than the program says.
LEAKS = {
    "in each of three steps": ("+512.00 KiB a step", """
for i in steps(3): keep(512)
"""),
    "from the second half on": ("+512.00 KiB a step in the last 8 of 20", """
for i in steps(20):
    if i >= 12: keep(512)
"""),
    "in each validation": ("+512.00 KiB a validate", """
for epoch in range(4):
    for i in steps(5, 5 * epoch): pass
    print("START validate", flush=True)
    keep(512); give(take(64))
    print("END validate", flush=True)
"""),
    "a list that is copied and grows": ("+512.00 KiB a step", """
history = take(512)
for i in steps(5):
    longer = take(512 * (i + 2)); give(history); history = longer
"""),
    "in a test after the training": ("+512.00 KiB a test", """
for i in steps(5): pass
for i in range(6):
    print(f"START test_{i}", flush=True)
    keep(512); give(take(64))
    print(f"END test_{i}", flush=True)
take(1)
"""),
    "with the last step of an epoch": ("+512.00 KiB every 10 steps", """
for i in steps(40):
    if i % 10 == 9: keep(512)
"""),
    "between two epochs": ("+512.00 KiB every 10 steps", """
for epoch in range(4):
    for i in steps(10, 10 * epoch): pass
    keep(512)
for i in steps(1, 40): pass
"""),
    "while as much is freed elsewhere": ("+512.00 KiB every 10 steps", """
model = [take(512) for i in range(8)]
for epoch in range(4):
    for i in steps(10, 10 * epoch): pass
    give(model.pop()); give(model.pop()); keep(512)
for i in steps(1, 40): pass
"""),
    "at the very call that asked for what is freed": ("+512.00 KiB every 20 steps", """
def ask():
    return take(512)
model = [ask() for i in range(8)]
for i in steps(60):
    if i == 5:
        while model: give(model.pop())
    if i % 20 == 10: kept.append(ask())
"""),
    "with one request of eight": ("+512.00 KiB every 8 requests", """
for i in range(64):
    print(f"START request_{i}", flush=True)
    give(take(256))
    if i % 8 == 5: keep(512)
    print(f"END request_{i}", flush=True)
"""),
    "of sizes that differ": ("about +634.25 KiB every 12 steps", """
last = None
model = take(65536)
for i in steps(50):
    if i == 7: give(model)
    if i % 12 == 11: keep(random.randrange(300, 900))
    if last: give(last)
    last = take(random.randrange(1000, 2000))
"""),
    "in each third of the last steps": ("+512.00 KiB every 3 steps in the last 15 of 40", """
for i in steps(40):
    if i >= 25 and i % 3 == 1: keep(512)
"""),
    "in an evaluation after each tenth step": ("+512.00 KiB an eval", """
for epoch in range(3):
    for i in steps(10, 10 * epoch): pass
    print("START eval", flush=True)
    keep(512); give(take(64))
    print("END eval", flush=True)
"""),
    "beneath what a session keeps while it lasts": ("+512.00 KiB every 3 requests", """
for i in range(15):
    print(f"START request_{i}", flush=True)
    if i % 3 == 0: session = [], keep(512)
    session[0].append(take(1024))
    if i % 3 == 2:
        for k in session[0]: give(k)
    print(f"END request_{i}", flush=True)
"""),
    "of sizes that differ, beneath others that come and go": ("about +17.59 KiB a step", """
last = None
for i in steps(40):
    sizes = [random.randrange(20, 60)] * (i % 2) + [random.randrange(100, 400)]
    *leaked, new = [take(kib) for kib in sizes]
    kept += leaked
    if last: give(last)
    last = new
"""),
    "ever more of it": ("+2.00 MiB a step in the end, +512.00 KiB in the beginning", """
for i in steps(5):
    for k in range(i): keep(512)
"""),
}
UNSURE = {
    "in the last step of each of two epochs, while more is freed": """
model = take(8192)
for i in steps(6):
    if i % 4 == 1: keep(512)
    if i == 2: give(model)
""",
    "or results that are joined and freed": """
for i in range(8):
    print(f"START request_{i}", flush=True)
    keep(512); give(take(256))
    print(f"END request_{i}", flush=True)
take(4096)
while kept: give(kept.pop())
take(1)
""",
    "or a cache of two entries": """
for i in steps(3):
    if i: keep(512 * i)
""",
    "with requests that the program does not name": """
for i in range(64):
    give(take(256))
    if i % 8 == 5: keep(512)
""",
}
RIGHT = {
    "whose texts get longer": """
def layer(size): give(take(size)); give(take(2 * size))
def head(size): give(take(3 * size)); return take(size)
last = None
for i in steps(12):
    size = 100 + 20 * (i // 3)
    layer(size)
    new = head(size)
    if last: give(last)
    last = new
""",
    "whose cache is full in the middle": """
for i in steps(40):
    if i < 20: keep(512)
""",
    "that keeps the last eight": """
for i in steps(30):
    keep(512)
    if len(kept) > 8: give(kept.pop(0))
""",
    "with two shapes in turn": """
last = None
for i in steps(21):
    new = take(500 if i % 2 else 700)
    if last: give(last)
    last = new
""",
    "that fills a cache": """
for i in steps(20):
    if i in (0, 1, 3, 4): keep(512)
""",
    "that collects the results of its last test": """
for i in steps(5): pass
for i in range(6):
    print(f"START test_{i}", flush=True)
    keep(512); give(take(64))
    print(f"END test_{i}", flush=True)
while kept: give(kept.pop())
take(1)
""",
    "that frees all": """
for i in steps(20): pass
""",
    "that hands one block to the next step": """
last = None
for i in steps(20):
    if last: give(last)
    last = take(512)
""",
    "that hands blocks of other sizes to the next step": """
last = None
for i in steps(40):
    if last: give(last)
    last = take(1000 - 3 * i if i % 2 else 900 - 2 * i)
""",
    "that reads two blocks ahead": """
ahead = [take(512), take(512)]
for i in steps(20):
    give(ahead.pop(0)); ahead.append(take(512))
""",
    "that replaces what it keeps now and then": """
mean = take(512)
for i in steps(50):
    if i % 10 == 9:
        new = take(512); give(mean); mean = new
""",
    "that adds up for four steps": """
sums = []
for i in steps(42):
    sums.append(take(512))
    if i % 4 == 3:
        while sums: give(sums.pop())
""",
    "that frees what it began with": """
model = take(4096)
for i in steps(20):
    if i == 10: give(model)
""",
}


def asked(name):
    """Exit status and the answer's row of `check growth==0`, without the lines' ends."""
    done = run(KEDGE, "check", f"{name}.kcap", "growth==0", rc=None)
    answer = tool_json("check", f"{name}.kcap", "growth==0", rc=done.returncode)
    same(f"{name}: the answer of --json", {"yes": 0, "no": 1, "unknown": 2}[answer["answer"]], done.returncode)
    return done.returncode, answer["checks"][0]


def recorded(name, body, **env):
    pathlib.Path(f"{name}.py").write_text(PRELUDE + body, encoding="utf-8")
    kedge_run(sys.executable, "-s", f"{name}.py", capture=f"{name}.kcap", **env)


def each_leak_is_told_by_its_rounds():
    for number, (what, (told, body)) in enumerate(LEAKS.items()):
        recorded(f"leak_{number}", body)
        status, row = asked(f"leak_{number}")
        print(f"{what}: {status}: {row['note']}")
        same(f"a leak {what}", status, 1)
        check(f": {told}, " in row["note"], f"a leak {what}: {row['note']}, not {told}")
        report = run(KEDGE, "report", f"leak_{number}.kcap", "--view", "leaks").stdout
        check(f"  {told}, now " in report, f"a leak {what}: the report says something else: {report}")


def no_leak_is_denied():
    for number, (what, body) in enumerate(UNSURE.items()):
        recorded(f"unsure_{number}", body)
        status, row = asked(f"unsure_{number}")
        print(f"{what}: {status}: {row['note']}")
        same(f"a leak {what}", status, 2)
        check(re.fullmatch(r"not known: [^\n]{20,}", row["note"] or ""), f"a leak {what}: why? {row['note']}")


def what_is_replaced_is_no_leak():
    for number, (what, body) in enumerate(RIGHT.items()):
        recorded(f"right_{number}", body)
        status, row = asked(f"right_{number}")
        same(f"a program {what}: {row['note']}", (status, row["answer"]), (0, "yes"))


def what_is_bounded_is_bounded_by_all_that_grows():
    """One call site gains in each step, another one once, late: the first one's sum is no bound."""
    recorded("both", """
for i in steps(40):
    keep(4)
    if i == 35: kept.append(take(512))
""")
    tool("check", "both.kcap", "growth==0", rc=1)
    tool("check", "both.kcap", "growth<=1MiB", rc=2)
    tool("check", "both.kcap", "growth>=100KiB")


# ---- the answer ----

# Two layers keep what evaluation makes, in lines that training goes through, too.
SPREAD = """
def first(keeps): k = take(640); return kept.append(k) if keeps else give(k)
def second(keeps): k = take(384); return kept.append(k) if keeps else give(k)
def forward(keeps): first(keeps); second(keeps)
def train(): forward(False); give(take(96)); give(take(97))
def evaluate(): forward(True)
def main():
    model = [take(2048) for i in range(2)]
    for i in steps(6):
        train()
        evaluate()
main()
"""


def answers(name, body, **env):
    """What `kedge run` ends with, which report and a check that fails begin with."""
    pathlib.Path(f"{name}.py").write_text(PRELUDE + body, encoding="utf-8")
    done = run(KEDGE, "run", "--sim", "--capture", f"{name}.kcap", "--", sys.executable, "-s", f"{name}.py", rc=None, **env)
    summary = tool_json("report", f"{name}.kcap")["summary"]
    said = [line.removeprefix("kedge run: ") for line in done.stdout.splitlines() if line.startswith("kedge run: ")]
    same("what run says between the peaks and the capture", said[2:-1], summary)
    same("what a check that fails says", tool_json("check", f"{name}.kcap", "peak<1", rc=1)["summary"], summary)
    text = run(KEDGE, "report", f"{name}.kcap").stdout
    check(text.replace("\n", " ").startswith(summary[0]), f"report begins with something else: {text[:400]}")
    same("what a check that holds says", tool_json("check", f"{name}.kcap", "peak>1")["summary"], [])
    return summary


def one_leak_in_several_lines_is_one_answer():
    summary = answers("spread", SPREAD)
    same("sentences", len(summary), 2)
    check(re.fullmatch(r"evaluate spread\.py:\d+ < main spread\.py:\d+ holds 60 % of the peak: 6\.00 MiB of 10\.00 MiB; \+1\.00 MiB a step", summary[0]), summary[0])
    check(re.search(r"main.*spread\.py:\d+ holds 40 % of the peak: 4\.00 MiB of 10\.00 MiB$", summary[1]), summary[1])


def what_grows_comes_first_where_memory_ran_out():
    body = "model = take(9216)\n" + LEAKS["in each of three steps"][1].replace("3", "30")
    summary = answers("death", body, SIMCUDA_MEMORY="14M")
    same("sentences", len(summary), 3)
    check(re.fullmatch(r"keep death\.py:\d+ held 33 % when memory ran out: 4\.50 MiB of 13\.50 MiB; \+512\.00 KiB a step", summary[0]), summary[0])
    check(re.match(r"out of memory: 512\.00 KiB asked for by cuMemAlloc_v2 in step_\d+", summary[1]), summary[1])
    check(re.fullmatch(r"<module> death\.py:\d+ held 67 % when memory ran out: 9\.00 MiB of 13\.50 MiB", summary[2]), summary[2])


def a_small_growth_is_not_the_answer():
    summary = answers("small", "model = take(65536)\n" + LEAKS["in each of three steps"][1])
    same("sentences", len(summary), 1)
    check("64.00 MiB" in summary[0], summary[0])


# ---- hints ----

HINTS = """kedge-hints: 1
hints:
  - {id: h, pick: {size: 4MiB}, %s}
"""
RELEASE = 'do: release, when: {anchor: "step_*", edge: exit}'
HOLD = 'do: hold, when: {anchor: "%s", edge: exit}'
EVICT = 'do: evict, when: {anchor: "step_*", edge: enter}, cap: {device: 16MiB}, policy: auto'


def live(name, body, hint):
    pathlib.Path(f"{name}.py").write_text(PRELUDE + body, encoding="utf-8")
    pathlib.Path(f"{name}.yaml").write_text(HINTS % hint, encoding="utf-8")
    if "do: hold" not in hint:
        run(KEDGE, "verify", "--sim", "--hints", f"{name}.yaml", "--", sys.executable, "-s", f"{name}.py")
    run(KEDGE, "run", "--sim", "--capture", f"{name}.kcap", "--hints", f"{name}.yaml", "--hints-mode", "live", "--",
        sys.executable, "-s", f"{name}.py")
    return tool_json("report", f"{name}.kcap")


def what_hints_release_is_not_told_as_stored_nor_as_freed():
    j = live("released", "for i in steps(12): keep(4096)\n", RELEASE)
    same("released", j["hinted_freed_count"], 12)
    same("what a report begins with", j["summary"][0], "hints lowered the peak to 4.00 MiB: 48.00 MiB without them, 44.00 MiB saved")
    row = tool_json("check", "released.kcap", "peak<=4MiB", rc=1)["checks"][0]
    same("what a check says of them", row["note"], "4.00 MiB with hints (peak_with_hints), 44.00 MiB saved")
    tool("check", "released.kcap", "peak_with_hints<=4MiB")
    status, row = asked("released")
    same("what the program never frees, and hints release", (status, row["at_least"], row["at_most"]), (2, 0, 44 << 20))
    check("44.00 MiB by what the program freed, and 0.00 B by what hints have not released" in row["note"], row["note"])
    tool("check", "released.kcap", "growth<=44MiB")
    tool("check", "released.kcap", "growth>44MiB", rc=1)


def what_hints_release_now_and_then_is_not_denied():
    live("seldom", "for i in steps(40):\n    if i % 10 == 9: keep(4096)\n", RELEASE)
    same("a leak of each epoch whose storage hints release", asked("seldom")[0], 2)


def what_hints_hold_after_the_free_is_not_denied():
    live("held", "for i in steps(12): give(take(4096))\n", HOLD % "never")
    status, row = asked("held")
    same("what hints hold for good", status, 2)
    check("hints hold 40.00 MiB more at the end than before" in row["note"], row["note"])
    live("passing", "for i in steps(12): give(take(4096))\n", HOLD % "step_*")
    status, row = asked("passing")
    same(f"what hints hold to the end of a step: {row['note']}", status, 0)


def what_hints_evict_is_still_the_programs():
    use = "    for k in kept: must(cuda.cuMemsetD8_v2(k, 7, ctypes.c_size_t(4 << 20)))\n"
    j = live("evicted", "for i in steps(12):\n    keep(4096)\n" + use, EVICT)
    check(sum(e["total"]["moved_out_bytes"] for e in j["eviction"]) > 0, "nothing went out")
    same("a leak in each step, evicted", asked("evicted")[0], 1)
    live("evicted_seldom", "for i in steps(60):\n    if i % 6 == 5: keep(4096)\n" + use, EVICT)
    same("a leak in each epoch, evicted", asked("evicted_seldom")[0], 1)


if __name__ == "__main__":
    main(each_leak_is_told_by_its_rounds, no_leak_is_denied, what_is_replaced_is_no_leak, what_is_bounded_is_bounded_by_all_that_grows,
         one_leak_in_several_lines_is_one_answer, what_grows_comes_first_where_memory_ran_out, a_small_growth_is_not_the_answer,
         what_hints_release_is_not_told_as_stored_nor_as_freed, what_hints_release_now_and_then_is_not_denied,
         what_hints_hold_after_the_free_is_not_denied, what_hints_evict_is_still_the_programs)
