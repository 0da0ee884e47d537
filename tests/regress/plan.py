#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Offline placement: the gates on recorded steps and on MiniMalloc's instances, and the words of `kedge plan`.

Each placement that the command speaks of has passed a sweep in it that unit.plan tests; max live is computed here anew. Traces of
other people's programs lie in $KEDGE_TEST_TRACES; our own, in tests/traces, are always placed. Figures are nodes of the search;
seconds are printed and judge nothing.
"""
import csv
import math
import os
import pathlib
import random
import time

from regresskit import BUILD, KEDGE, SOURCE, check, checksum, kedge_run, main, run, same, skip, tool, tool_json

QUANTUM = 512
# Stated limits, in nodes: what `kedge plan` allows itself is ten times that and more.
STEP_NODES = 50_000
VARIANTS = 4  # of each trace
MINIMALLOC_NODES = {"A": 70_000, "B": 8_000, "C": 10_000, "D": 60_000, "E": 150_000, "F": 1_000,
                    "G": 8_000, "H": 1_000, "I": 15_000, "J": 2_000, "K": 10_000}
CAPACITY = 1048576


def foreign(folder, pattern):
    base = os.environ.get("KEDGE_TEST_TRACES")
    if not base:
        skip("KEDGE_TEST_TRACES is not set")
    found = sorted((pathlib.Path(base) / folder).glob(pattern))
    if not found:
        skip(f"no {pattern} in {base}/{folder}")
    return found


def rounded(size):
    return -(-size // QUANTUM) * QUANTUM


def blocks_of(path):
    """[begin, end, size] of a trace in the order of births; rows are the clock. begin 0 = before, end None = never freed."""
    blocks, live = [], {}
    with open(path, newline="", encoding="utf-8") as f:
        for time_now, row in enumerate(csv.DictReader(f), 1):
            if row["op"] == "a":
                live[row["id"]] = len(blocks)
                blocks.append([0 if row["time_us"].startswith("-") else time_now, None, rounded(int(row["size"]))])
            else:
                blocks[live.pop(row["id"])][1] = time_now
    return blocks


def max_live(blocks):
    """Of (begin, end, size), ends exclusive."""
    edges = sorted([(b, 1, s) for b, _, s in blocks] + [(e, 0, -s) for _, e, s in blocks])
    live = most = 0
    for _, _, change in edges:
        live += change
        most = max(most, live)
    return most


def timed_plan(path, *arguments, rc=0):
    began = time.monotonic()
    answer = tool_json("plan", path, *arguments, rc=rc)
    return answer, time.monotonic() - began


def placed(path):
    """All blocks of a trace are placed; the ratio to max live, computed here."""
    blocks = blocks_of(path)
    answer, seconds = timed_plan(path, "--nodes", STEP_NODES)
    same(f"{path.name}: blocks placed", answer["blocks"], len(blocks))
    end = max([b for b, _, _ in blocks] + [e for _, e, _ in blocks if e]) + 1
    least = max_live([(b, end if e is None else e, s) for b, e, s in blocks])
    same(f"{path.name}: max live", answer["max_live_bytes"], least)
    check(answer["planned_peak_bytes"] >= least, f"{path.name}: {answer['planned_peak_bytes']} bytes, {least} live at once")
    check(answer["nodes"] <= STEP_NODES, f"{path.name}: {answer['nodes']} nodes")
    same(f"{path.name}: held", answer["held_bytes"], None)
    ratio = answer["planned_peak_bytes"] / least
    print(f"{path.stem:28} {len(blocks):6} blocks {ratio:8.5f} x max live {answer['nodes']:7} nodes "
          f"{seconds:6.2f} s  {answer['found_by']}")
    return ratio


def expect_gate(ratios, what):
    exact = sum(r == 1 for r in ratios)
    print(f"{what}: {exact} of {len(ratios)} exactly max live, worst {max(ratios):.5f} x")
    check(exact >= 0.9 * len(ratios), f"{what}: max live exactly on {exact} of {len(ratios)}")
    check(max(ratios) <= 1.01, f"{what}: {max(ratios)} x max live")


def recorded_steps_are_placed_at_max_live():
    expect_gate([placed(path) for path in foreign("csv", "*.csv")], "theirs")


def our_own_traces_are_placed_at_max_live():
    paths = sorted((SOURCE / "tests" / "traces").glob("*.csv"))
    check(len(paths) >= 4, f"{len(paths)} traces")
    expect_gate([placed(path) for path in paths], "ours")


def write_variant(name, path, seed):
    """The same program with other sizes, a factor for each, and other lives: three of ten end earlier or later."""
    blocks, dice, factors = blocks_of(path), random.Random(f"{path.stem} {seed}"), {}
    end = 1 + max(max(begin, end or 0) for begin, end, _ in blocks)
    variant = []
    for begin, dead, size in blocks:
        if size >= 2 * QUANTUM:
            size = rounded(int(size * factors.setdefault(size, 0.75 + 0.55 * dice.random())))
        if begin and dead and dice.random() < 0.3:
            dead = min(end, max(begin + 1, dead + int(120 * (dice.random() - 0.5))))
        variant.append((begin, dead or end, size))
    rows = [f"{i},{b},{e},{s}\n" for i, (b, e, s) in enumerate(variant)]
    pathlib.Path(name).write_text("id,lower,upper,size\n" + "".join(rows), encoding="utf-8")
    return max_live(variant)


def variants_of_our_traces_are_placed_near_max_live():
    """Of the small ones: the large one is as easy as they are and takes longer than all of them."""
    ratios = []
    for path in [SOURCE / "tests" / "traces" / f"{name}.csv" for name in ("loop", "streams", "threads", "unify")]:
        for seed in range(VARIANTS):
            least = write_variant("variant.csv", path, seed)
            answer, seconds = timed_plan("variant.csv", "--nodes", STEP_NODES)
            same(f"{path.stem} {seed}: max live", answer["max_live_bytes"], least)
            ratios.append(answer["planned_peak_bytes"] / least)
            check(ratios[-1] >= 1, f"{path.stem} {seed}: {ratios[-1]} x max live")
            print(f"{path.stem:28} variant {seed} {ratios[-1]:8.5f} x max live {answer['nodes']:7} nodes {seconds:6.2f} s")
    mean = math.prod(ratios) ** (1 / len(ratios))
    exact = sum(ratio == 1 for ratio in ratios)
    print(f"{exact} of {len(ratios)} exactly max live, geometric mean {mean:.5f}, worst {max(ratios):.5f} x")
    check(exact >= 14, f"max live exactly on {exact}")
    check(mean <= 1.0017, f"geometric mean {mean}")
    check(max(ratios) <= 1.0135, f"worst {max(ratios)}")


def minimalloc(name):
    minimalloc_fits(name, foreign("minimalloc", f"{name}.{CAPACITY}.csv")[0])


def minimalloc_others_fit_their_capacity():
    """G to K of the same set, as far as they are there. Without the orders that learn, I has none after 60 million nodes."""
    for path in foreign("minimalloc", f"[G-K].{CAPACITY}.csv"):
        minimalloc_fits(path.name[0], path)


def minimalloc_fits(name, path):
    answer, seconds = timed_plan(path, "--capacity", CAPACITY, "--nodes", MINIMALLOC_NODES[name])
    with open(path, newline="", encoding="utf-8") as f:
        given = [tuple(int(row[k]) for k in ("lower", "upper", "size")) for row in csv.DictReader(f)]
    same(f"{name}: blocks", answer["blocks"], len(given))
    same(f"{name}: max live", answer["max_live_bytes"], max_live(given))
    peak = answer["planned_peak_bytes"]
    check(max_live(given) <= peak <= CAPACITY, f"{name}: peak {peak}")
    print(f"{name}: {len(given)} blocks, peak {peak}, {answer['nodes']} nodes, {seconds:.2f} s, {answer['found_by']}")


def below_max_live_there_is_nothing():
    for path in foreign("minimalloc", "[A-F].*.csv"):
        least = tool_json("plan", path, "--nodes", 1)["max_live_bytes"]
        answer = tool_json("plan", path, "--capacity", least - 1, rc=1)
        same(path.name, (answer["status"], answer["nodes"]), ("impossible", 0))


def expect_window(entrance, *window):
    """The report's figures of the same window of loop.kcap: what lived at once, and what was held."""
    print(tool("plan", "loop.kcap", *window))
    answer = tool_json("plan", "loop.kcap", *window)
    report = tool_json("report", "loop.kcap", *window)
    same(f"{entrance}: ratio", answer["ratio"], 1)
    same(f"{entrance}: left out", [left["count"] for left in answer["left_out"].values()], [0, 0])
    same(f"{entrance}: held", answer["held_bytes"], report["peak_reserved_bytes"])
    check(answer["planned_peak_bytes"] <= answer["held_bytes"], f"{entrance}: {answer}")
    return answer, report


def a_capture_is_planned_between_anchors():
    """The run of `loop`, all of its steps and one of them, on both allocation APIs."""
    for entrance in ("stream", "sync"):
        kedge_run(BUILD / "trainers" / "loop", "--entrance", entrance, "--steps", 6, capture="loop.kcap", KEDGE_TRACE="full")
        run_, of_run = expect_window(entrance)
        same(f"{entrance}: blocks of the run", run_["blocks"], of_run["allocated_count"])
        same(f"{entrance}: live at once", run_["max_live_bytes"], of_run["peak_live_512_bytes"])
        steps, of_steps = expect_window(entrance, "--from", "step", "--to", "step")
        same(f"{entrance}: live at once in the steps", steps["max_live_bytes"], of_steps["peak_live_512_bytes"])
        one = tool_json("plan", "loop.kcap", "--from", "step", "--passage", 3)
        before = steps["blocks"] - of_steps["allocated_count"]
        check(before > 0, f"{entrance}: no weight lives before the steps")
        counts = [a["allocated_count"] for a in of_steps["anchors"] if a["name"] == "step"]
        same(f"{entrance}: steps", len(counts), 6)
        check(one["blocks"] >= before + counts[2], f"{entrance}: {one['blocks']} blocks in the third step")
        check(one["blocks"] < steps["blocks"], f"{entrance}: the third step is all steps")
    refuse(2, "'step' was entered 6 times", "loop.kcap", "--from", "step", "--passage", "7")
    refuse(2, "--passage goes with --from", "loop.kcap", "--passage", "1")
    refuse(2, "--passage goes with --from", "loop.kcap", "--from", "step", "--to", "step", "--passage", "1")


def write_hard(name, count):
    """Full at every moment: two die and two are born in their place, in other sizes. No placement is easy to find."""
    live, blocks = [], []
    state = 1

    def below(n):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (state >> 33) % n

    for i in range(40):
        live.append(i)
        blocks.append([0, count, 1000 + below(9000)])
    for now in range(1, count):
        size = 0
        for _ in range(2):
            dead = live.pop(below(len(live)))
            blocks[dead][1] = now
            size += blocks[dead][2]
        first = 1 + below(size - 1)
        for part in (first, size - first):
            live.append(len(blocks))
            blocks.append([now, count, part])
    rows = [f"{i},{b},{e},{s}\n" for i, (b, e, s) in enumerate(blocks)]
    pathlib.Path(name).write_text("id,lower,upper,size\n" + "".join(rows), encoding="utf-8")
    return max_live(blocks)


def limits_end_the_search():
    """In nodes, to the node; in seconds, some time. The best that was found is still a placement."""
    least = write_hard("hard.csv", 400)
    answer = tool_json("plan", "hard.csv", "--capacity", least, "--nodes", 1234, rc=1)
    same("nodes", (answer["status"], answer["nodes"], answer["out_of_time"]), ("unknown", 1234, False))
    refuse(1, "was found; there may be one", "hard.csv", "--capacity", least, "--nodes", 1234)
    answer = tool_json("plan", "hard.csv", "--capacity", least, "--nodes", 10**12, "--seconds", 1, rc=1)
    same("seconds", (answer["status"], answer["out_of_time"]), ("unknown", True))
    answer = tool_json("plan", "hard.csv", "--nodes", 20000)
    peak = answer["planned_peak_bytes"]
    check(answer["status"] == "found" and least < peak, f"{answer['status']}: {peak} above {least}")
    print(f"{peak / least:.3f} x max live with 20000 nodes")


def refuse(rc, what, *arguments):
    done = run(KEDGE, "plan", *arguments, rc=rc)
    check(what in done.stdout, f"kedge plan {arguments}: {what!r} is not in {done.stdout!r}")


def words_and_faults():
    head = "op,id,size,stream,time_us\n"
    pathlib.Path("t.csv").write_text(head + "a,1,1000,7,-1\na,2,100,7,1\na,3,600,7,2\nf,2,100,7,3\na,4,1,9,4\n"
                                     "f,4,1,9,5\na,5,512,7,6\nf,3,600,7,7\na,6,512,7,8\nf,1,1000,7,9\nf,5,512,7,10\n",
                                     encoding="utf-8")
    answer = tool_json("plan", "t.csv")
    same("blocks", (answer["blocks"], answer["max_live_bytes"], answer["status"]), (6, 1024 + 1024 + 512, "least"))
    refuse(1, "No placement within 1.00 KiB (1024 bytes) exists.", "t.csv", "--capacity", "1K")
    refuse(0, "the least there is", "t.csv", "--capacity", "2560")
    pathlib.Path("rmm.log").write_text("Thread,Time,Action,Pointer,Size,Stream\n1,1:0:0.1,allocate,0x10,1000,0x0\n"
                                       "1,1:0:0.2,allocate,0x20,100,0x0\n1,1:0:0.3,free,0x10,1000,0x0\n", encoding="utf-8")
    answer = tool_json("plan", "rmm.log")
    same("blocks of RMM", (answer["blocks"], answer["max_live_bytes"]), (2, 1024 + 512))
    refuse(2, "--from, --to and --passage are for captures", "t.csv", "--from", "step")
    refuse(2, "No such file", "nowhere.csv")
    refuse(2, "-o", "t.csv", "-o", "t.plan")
    pathlib.Path("bad.csv").write_text(head + "a,1,ten,0,1\n", encoding="utf-8")
    refuse(2, "bad.csv:2:5:", "bad.csv")
    for line, what in (("x,5,5,1", "upper must be above lower"), ("x,1,2,0", "size must be a number, not 0"),
                       ("x,1,2,3,4", "more than four columns"), (",1,2,3", "an id is missing"), ("x,a,2,3", "must be numbers")):
        pathlib.Path("bad.csv").write_text(f"id,lower,upper,size\nok,1,2,3\n{line}\n", encoding="utf-8")
        refuse(2, what, "bad.csv")
        refuse(2, "bad.csv:3:", "bad.csv")
    pathlib.Path("huge.csv").write_text("id,lower,upper,size\n" + f"x,1,2,{1 << 63}\n" * 2, encoding="utf-8")
    refuse(2, "63 bits", "huge.csv")
    pathlib.Path("none.csv").write_text(head, encoding="utf-8")
    refuse(2, "no allocations", "none.csv")
    # An abstract instance keeps its sizes.
    pathlib.Path("abstract.csv").write_text("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,5\n", encoding="utf-8")
    same("peak", tool_json("plan", "abstract.csv")["planned_peak_bytes"], 9)


if __name__ == "__main__":
    main(recorded_steps_are_placed_at_max_live,
         our_own_traces_are_placed_at_max_live, variants_of_our_traces_are_placed_near_max_live,
         minimalloc_others_fit_their_capacity, below_max_live_there_is_nothing, a_capture_is_planned_between_anchors,
         limits_end_the_search, words_and_faults, **{f"minimalloc_{n}_fits_its_capacity": (lambda n=n: minimalloc(n)) for n in "ABCDEF"})
