#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: cmd_ranks.c ranksprint.c
"""`kedge ranks` over the captures of many ranks, whose figures ranks_maker.c tells beforehand."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "regress"))
from regresskit import BUILD, KEDGE, check, human, main, run, same, skip, tool_json  # noqa: E402

MAKER = BUILD / "tests" / "unit" / "ranks_maker"
KIB, MIB = 1 << 10, 1 << 20
RANKS, OUTLIER, LEAKER, LACKING = 64, 37, 11, 20


def make(folder, ranks, events, *more):
    shutil.rmtree(folder, ignore_errors=True)
    pathlib.Path(folder).mkdir()
    run(MAKER, folder, ranks, events, *more)


def base(rank):
    """What a rank holds beside the activations of its step."""
    return 4 * KIB * (rank + 1) + 2 * MIB


def peaks():
    """(bytes, rank) of all ranks, as they are sorted for the median; the leak is left at the end of the first step."""
    return sorted((base(r) + (64 if r == OUTLIER else 4) * MIB + (8 * KIB if r == LEAKER else 0), r)
                  for r in range(RANKS) if r != LACKING)


def name(rank):
    return f"job/rank{rank}.kcap"


def the_outlier_of_64_ranks_is_named_with_what_it_holds_more():
    make("job", RANKS, 60, OUTLIER, LEAKER, LACKING)
    told = tool_json("ranks", "job")
    job, order = told["jobs"][0], peaks()
    same("captures", [r["capture"] for r in told["ranks"]], [name(r) for r in range(RANKS) if r != LACKING])
    same("peaks", [r["peak_live_bytes"] for r in told["ranks"]], [b for b, _ in sorted(order, key=lambda o: o[1])])
    median = order[(len(order) - 1) // 2]
    same("spread", {k: job["peak_live"][k] for k in ("ranks", "min_bytes", "median_bytes", "max_bytes")},
         {"ranks": RANKS - 1, "min_bytes": order[0][0], "median_bytes": median[0], "max_bytes": order[-1][0]})
    same("whose", [job["peak_live"][f"{k}_capture"] for k in ("min", "median", "max")], [name(order[0][1]), name(median[1]), name(OUTLIER)])
    same("worst", job["worst"], name(OUTLIER))
    sites = [(s["title"].split()[0], s["more_bytes"]) for s in job["sites"]]
    same("sites", sites, [("activations", 60 * MIB), ("table", 4 * KIB * (OUTLIER - median[1]))])
    # They explain the difference of the peaks to the byte.
    same("sum of the sites", sum(more for _, more in sites) - job["less_bytes"], order[-1][0] - median[0])
    same("holes", job["missing_ranks"], [{"first": LACKING, "last": LACKING}])
    same("complete", (job["complete"], job["unread_captures"], job["damaged_captures"], job["several_captures"]), (True, 0, 0, []))
    more = human(order[-1][0] - median[0])
    text = " ".join(run(KEDGE, "ranks", "job").stdout.split())
    check(text.startswith(f"rank {OUTLIER} is the worst: {human(order[-1][0])} at its peak, {more} ("), text[:200])
    check(f"more than the median rank (rank {median[1]}); most of it at activations ranks_maker.c:" in text, text[:400])
    check(f"note: no capture of rank {LACKING} " in text, text[:600])
    check(f"... {RANKS - 1 - 10} more captures (--top)" in text, text)


def anchors_have_their_spread_and_their_outlier():
    make("job", RANKS, 60, OUTLIER, LEAKER, LACKING)
    step, = tool_json("ranks", "job")["jobs"][0]["anchors"]
    order = peaks()
    same("anchor", (step["name"], step["outlier"], step["outlier_by"]), ("step", name(OUTLIER), "peak_live"))
    same("peak while open", [step["peak_live"][f"{k}_bytes"] for k in ("min", "median", "max")],
         [order[0][0], order[(len(order) - 1) // 2][0], order[-1][0]])
    same("left at exit", [step["remaining"][f"{k}_bytes"] for k in ("min", "median", "max")], [0, 0, 8 * KIB])
    same("who leaves it", step["remaining"]["max_capture"], name(LEAKER))
    same("how much", step["outlier_more_bytes"], order[-1][0] - step["peak_live"]["median_bytes"])
    text = run(KEDGE, "ranks", "job", "--by", "anchor").stdout
    check(f"rank {OUTLIER}: holds {human(step['outlier_more_bytes'])} more than the median" in text, text)


def of_more_anchors_than_are_kept_those_with_the_most_memory_are():
    """4,200 ranges in which nothing is asked for, and then the steps: 4,096 names of a capture are kept."""
    make("job", 4, 60, 2, -1, -1, 4200)
    steps = [a for a in tool_json("ranks", "job", "--top", 9999)["jobs"][0]["anchors"] if a["name"] == "step"]
    same("outliers", [a["outlier"] for a in steps], [name(2)])
    same("its peak", steps[0]["peak_live"]["max_bytes"], base(2) + 64 * MIB)


def what_is_wrong_in_the_folder_is_said():
    make("job", 8, 60)
    for rank, spoil in ((2, lambda b: b[:3000]),                # cut off in its head
                        (3, lambda b: b[:8] + b"\3" + b[9:]),   # of another format
                        (4, lambda b: b[:len(b) * 2 // 3])):    # damaged
        pathlib.Path(name(rank)).write_bytes(spoil(pathlib.Path(name(rank)).read_bytes()))
    pathlib.Path(name(6)).unlink()
    make("again", 2, 20)
    shutil.copy("again/rank1.kcap", "job/restarted.kcap") # rank 1 once more, later
    pathlib.Path("job/notes.txt").write_text("nonsense", encoding="ascii")
    done = run(KEDGE, "ranks", "job", "--json", rc=2)
    lines = [line for line in done.stdout.splitlines() if line.startswith("kedge: ")]
    check(len(lines) == 3 and all(name(n) in line for n, line in zip((2, 3, 4), lines)), f"{lines}")
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    same("complete", (job["complete"], job["unread_captures"], job["damaged_captures"]), (False, 2, 1))
    same("compared", job["peak_live"]["ranks"], 4)
    same("holes", job["missing_ranks"], [{"first": 2, "last": 3}, {"first": 6, "last": 6}])
    same("again", job["several_captures"], [{"rank": "1", "captures": 2, "restarted": True, "several_machines": False}])
    text = " ".join(run(KEDGE, "ranks", "job", rc=2).stdout.split())
    for words in ("note: incomplete: 2 captures could not be read, 1 is damaged and not compared",
                  "note: no capture of rank 2 to 3, 6", "note: rank 1 has 2 captures: it was started again;"):
        check(words in text, f"{words}: {text}")
    # At the same time, since the first one is not at its end.
    for rank in 0, 1:
        shutil.copy(name(7), f"job/{rank}")
    shutil.rmtree("again")
    text = " ".join(run(KEDGE, "ranks", "job", rc=2).stdout.split())
    check("note: rank 7 has 3 captures: processes that ran at the same time;" in text, text)


def a_thousand_ranks_take_bounded_memory():
    """1,024 captures of 10,000 events: each is opened once and reduced."""
    if shutil.disk_usage(".").free < 3 << 30:
        skip("less than 3 GiB of disk are free")
    most = {}
    for ranks in (64, 1024):
        make("job", ranks, 10000, OUTLIER, LEAKER)
        began = time.monotonic()
        with open("told.json", "wb") as out:
            child = subprocess.Popen([KEDGE, "ranks", "job", "--json"], stdout=out)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        same(f"status of {ranks}", child.returncode, 0)
        told = json.loads(pathlib.Path("told.json").read_bytes())
        same(f"worst of {ranks}", (len(told["ranks"]), told["jobs"][0]["worst"]), (ranks, name(OUTLIER)))
        most[ranks] = usage.ru_maxrss * KIB
        print(f"{ranks} captures of 10,000 events: {time.monotonic() - began:.1f} s, {human(most[ranks])} at most")
    shutil.rmtree("job")
    check(most[64] < 64 * MIB, f"{human(most[64])} for 64 captures")
    each = (most[1024] - most[64]) / (1024 - 64)
    check(each < 8 * KIB, f"{human(each)} for each capture more")


if __name__ == "__main__":
    for folder in ("job", "again"):
        shutil.rmtree(folder, ignore_errors=True)
    main(the_outlier_of_64_ranks_is_named_with_what_it_holds_more, anchors_have_their_spread_and_their_outlier,
         of_more_anchors_than_are_kept_those_with_the_most_memory_are,
         what_is_wrong_in_the_folder_is_said, a_thousand_ranks_take_bounded_memory)
