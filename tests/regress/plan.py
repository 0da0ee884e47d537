#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Offline placement: the gates on recorded steps and on MiniMalloc's instances, and the words of `kedge plan`.

What the command writes is checked here by a sweep of its own. Traces of other people's programs lie in
$KEDGE_TEST_TRACES; our own, in tests/traces, are always placed. Figures are nodes of the search; seconds are printed and
judge nothing.
"""
import bisect
import csv
import os
import pathlib
import time

from regresskit import BUILD, KEDGE, SOURCE, check, checksum, kedge_run, main, run, same, skip, tool, tool_json

QUANTUM = 512
# Stated limits, in nodes: what `kedge plan` allows itself is ten times that and more.
STEP_NODES = 50_000
MINIMALLOC_NODES = 400_000
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


def sweep(blocks, what):
    """The peak of (begin, end, size, offset); fails where two that live at once share a byte."""
    edges = sorted([(b, 1, i) for i, (b, _, _, _) in enumerate(blocks)]
                   + [(e, 0, i) for i, (_, e, _, _) in enumerate(blocks)])
    live = []  # (offset, top), by offset
    for _, birth, i in edges:
        _, _, size, offset = blocks[i]
        at = bisect.bisect_left(live, (offset, 0))
        if not birth:
            del live[bisect.bisect_left(live, (offset, offset + size))]
        elif (at > 0 and live[at - 1][1] > offset) or (at < len(live) and live[at][0] < offset + size):
            check(False, f"{what}: block {i} overlaps another")
            return None
        else:
            live.insert(at, (offset, offset + size))
    return max((o + s for _, _, s, o in blocks), default=0)


def read_table(path):
    with open(path, newline="", encoding="utf-8") as f:
        return [tuple(int(row[k]) for k in ("lower", "upper", "size", "offset")) for row in csv.DictReader(f)]


def read_plan(path):
    """Header and rows (size, offset, until, site) of a plan."""
    head, rows = {}, []
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        words = line.split("#")[0].split()
        if len(words) == 2:
            head[words[0]] = words[1]
        elif words:
            rows.append((int(words[0]), int(words[1]), int(words[2]), words[3]))
    return head, rows


def timed_plan(path, *arguments, rc=0):
    began = time.monotonic()
    answer = tool_json("plan", path, *arguments, rc=rc)
    return answer, time.monotonic() - began


def whole(path):
    """All blocks of a trace are placed; the ratio to max live, computed here."""
    blocks = blocks_of(path)
    answer, seconds = timed_plan(path, "--whole", "-o", "whole.csv", "--nodes", STEP_NODES)
    placed = read_table("whole.csv")
    same(f"{path.name}: blocks placed", len(placed), len(blocks))
    same(f"{path.name}: sizes", [size for _, _, size, _ in placed], [size for _, _, size in blocks])
    end = max(e for _, e, _, _ in placed)
    lives = [(b, end if e is None else e, s) for b, e, s in blocks]
    peak = sweep([(*life, row[3]) for life, row in zip(lives, placed)], path.name)
    least = max_live(lives)
    same(f"{path.name}: peak", answer["planned_peak_bytes"], peak)
    same(f"{path.name}: max live", answer["max_live_bytes"], least)
    check(answer["nodes"] <= STEP_NODES, f"{path.name}: {answer['nodes']} nodes")
    print(f"{path.stem:28} {len(blocks):6} blocks {peak / least:8.5f} x max live {answer['nodes']:7} nodes "
          f"{seconds:6.2f} s  {answer['found_by']}")
    return peak / least


def step(path):
    """The plan of a trace as a step: its rows are the step's blocks in order, and it is sound when it comes round."""
    blocks = blocks_of(path)
    inside = [(b, e, s) for b, e, s in blocks if b and e]
    answer = tool_json("plan", path, "-o", "step.plan")
    head, rows = read_plan("step.plan")
    same(f"{path.name}: sizes of the sequence", [r[0] for r in rows], [s for _, _, s in inside])
    same(f"{path.name}: live before", answer["left_out"]["live_before"]["count"], sum(not b for b, _, _ in blocks))
    same(f"{path.name}: outlive", answer["left_out"]["outlives"]["count"],
         sum(1 for b, e, _ in blocks if b and not e))
    peak = sweep([(*life, row[1]) for life, row in zip(inside, rows)], path.name)
    same(f"{path.name}: area", int(head["area"]), peak)
    births = [b for b, _, _ in inside]
    same(f"{path.name}: lives in the sequence", [r[2] for r in rows],
         [bisect.bisect_left(births, e) for _, e, _ in inside])
    same(f"{path.name}: mode", pathlib.Path("step.plan").stat().st_mode & 0o777, 0o644)
    return peak / max_live(inside)


def expect_gate(ratios, what):
    exact = sum(r == 1 for r in ratios)
    print(f"{what}: {exact} of {len(ratios)} exactly max live, worst {max(ratios):.5f} x")
    check(exact >= 0.9 * len(ratios), f"{what}: max live exactly on {exact} of {len(ratios)}")
    check(max(ratios) <= 1.01, f"{what}: {max(ratios)} x max live")


def recorded_steps_are_placed_at_max_live():
    expect_gate([whole(path) for path in foreign("csv", "*.csv")], "all blocks")


def plans_of_recorded_steps_are_sound_and_at_max_live():
    expect_gate([step(path) for path in foreign("csv", "*.csv")], "plans")


def our_own_traces_are_placed_at_max_live():
    paths = sorted((SOURCE / "tests" / "traces").glob("*.csv"))
    check(len(paths) >= 4, f"{len(paths)} traces")
    expect_gate([whole(path) for path in paths], "ours")


def minimalloc(name):
    path = foreign("minimalloc", f"{name}.{CAPACITY}.csv")[0]
    answer, seconds = timed_plan(path, "--capacity", CAPACITY, "--nodes", MINIMALLOC_NODES, "-o", "placed.csv")
    placed = read_table("placed.csv")
    with open(path, newline="", encoding="utf-8") as f:
        given = [tuple(int(row[k]) for k in ("lower", "upper", "size")) for row in csv.DictReader(f)]
    same(f"{name}: instance", [row[:3] for row in placed], given)
    peak = sweep(placed, name)
    check(peak is not None and peak <= CAPACITY, f"{name}: peak {peak}")
    print(f"{name}: {len(given)} blocks, peak {peak}, {answer['nodes']} nodes, {seconds:.2f} s, {answer['found_by']}")


def below_max_live_there_is_nothing():
    for path in foreign("minimalloc", "[A-F].*.csv"):
        least = tool_json("plan", path, "--nodes", 1)["max_live_bytes"]
        answer = tool_json("plan", path, "--capacity", least - 1, rc=1)
        same(path.name, (answer["status"], answer["nodes"]), ("impossible", 0))


def record_loop(entrance, steps):
    done = kedge_run(BUILD / "trainers" / "loop", "--entrance", entrance, "--steps", steps, capture="loop.kcap",
                     KEDGE_TRACE="full")
    return checksum(done.stdout)


def expect_window(entrance, window, of_report):
    """The plan of a window of loop.kcap has the blocks that the report says are freed in it."""
    print(tool("plan", "loop.kcap", *window, "-o", "loop.plan"))
    answer = tool_json("plan", "loop.kcap", *window)
    head, rows = read_plan("loop.plan")
    left = answer["left_out"]
    same(f"{entrance}: blocks of the window", len(rows) + sum(left[k]["count"] for k in left if k != "live_before"),
         of_report["allocated_count"])
    same(f"{entrance}: freed in the window", len(rows), of_report["freed_count"])
    same(f"{entrance}: entrance", (head["entrance"], head["device"]), (entrance, "0"))
    same(f"{entrance}: ratio", answer["ratio"], 1)
    check(all(int(row[3], 16) for row in rows), f"{entrance}: a block has no site")
    # Sound as it stands there: a block is live from its own number up to `until`.
    check(sweep([(i, r[2], r[0], r[1]) for i, r in enumerate(rows)], entrance) == int(head["area"]), "area")
    return len(rows)


def a_capture_is_planned_between_anchors():
    """All steps of `loop`, and one of them, on both entrances."""
    for entrance in ("stream", "sync"):
        record_loop(entrance, 6)
        every = tool_json("report", "loop.kcap", "--from", "step", "--to", "step")
        all_rows = expect_window(entrance, ("--from", "step", "--to", "step"), every)
        one = [a for a in every["anchors"] if a["name"] == "step"]
        same(f"{entrance}: steps", len(one), 6)
        rows = expect_window(entrance, ("--from", "step", "--passage", "3"), one[2])
        check(rows > 10 and all_rows == 6 * rows, f"{entrance}: {rows} of {all_rows} blocks")
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
    refuse(1, "was found; there may be one", "hard.csv", "--capacity", least, "--nodes", 1234, "-o", "unfound.csv")
    check(not pathlib.Path("unfound.csv").exists(), "a placement that was not found was written")
    answer = tool_json("plan", "hard.csv", "--capacity", least, "--nodes", 10**12, "--seconds", 1, rc=1)
    same("seconds", (answer["status"], answer["out_of_time"]), ("unknown", True))
    answer = tool_json("plan", "hard.csv", "--nodes", 20000, "-o", "hard.placed.csv")
    peak = sweep(read_table("hard.placed.csv"), "hard.csv")
    same("peak", answer["planned_peak_bytes"], peak)
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
    answer = tool_json("plan", "t.csv", "-o", "t.plan")
    same("blocks", (answer["blocks"], answer["max_live_bytes"], answer["status"]), (3, 1536, "least"))
    left = {k: (v["count"], v["bytes"]) for k, v in answer["left_out"].items() if v["count"]}
    same("left out", left, {"live_before": (1, 1000), "outlives": (1, 512), "other_stream": (1, 1)})
    _, rows = read_plan("t.plan")
    same("rows", [(r[0], r[2]) for r in rows], [(512, 2), (1024, 3), (512, 3)])
    same("whole", tool_json("plan", "t.csv", "--whole")["max_live_bytes"], 1024 + 1024 + 512)
    refuse(1, "No placement within 1.00 KiB (1024 bytes) exists.", "t.csv", "--capacity", "1K")
    refuse(0, "the least there is", "t.csv", "--capacity", "1536")
    refuse(2, "--from, --to and --passage are for captures", "t.csv", "--from", "step")
    refuse(2, "No such file", "nowhere.csv")
    refuse(2, "No such file", "t.csv", "-o", "nowhere/t.plan")
    pathlib.Path("bad.csv").write_text(head + "a,1,ten,0,1\n", encoding="utf-8")
    refuse(2, "bad.csv:2:5:", "bad.csv")
    for line, what in (("x,5,5,1", "upper must be above lower"), ("x,1,2,0", "size must be a number, not 0"),
                       ("x,1,2,3,4", "more than four columns"), (",1,2,3", "an id is missing"), ("x,a,2,3", "must be numbers")):
        pathlib.Path("bad.csv").write_text(f"id,lower,upper,size\nok,1,2,3\n{line}\n", encoding="utf-8")
        refuse(2, what, "bad.csv")
        refuse(2, "bad.csv:3:", "bad.csv")
    pathlib.Path("huge.csv").write_text("id,lower,upper,size\n" + f"x,1,2,{1 << 63}\n" * 2, encoding="utf-8")
    refuse(2, "63 bits", "huge.csv")
    pathlib.Path("none.csv").write_text(head + "a,1,1000,7,-1\na,2,100,7,1\n", encoding="utf-8")
    refuse(1, "nothing is written", "none.csv", "-o", "none.plan")
    check(not pathlib.Path("none.plan").exists(), "a plan of nothing was written")
    # An abstract instance keeps its names, its times and its sizes.
    pathlib.Path("abstract.csv").write_text("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,5\n", encoding="utf-8")
    tool("plan", "abstract.csv", "-o", "placed.csv")
    lines = pathlib.Path("placed.csv").read_text(encoding="utf-8").splitlines()
    same("names", [line.rsplit(",", 1)[0] for line in lines], ["id,lower,upper,size", "b1,0,3,4", "b2,3,9,4", "b3,0,9,5"])
    same("peak", sweep(read_table("placed.csv"), "abstract"), 9)


if __name__ == "__main__":
    main(recorded_steps_are_placed_at_max_live, plans_of_recorded_steps_are_sound_and_at_max_live,
         our_own_traces_are_placed_at_max_live, below_max_live_there_is_nothing, a_capture_is_planned_between_anchors,
         limits_end_the_search, words_and_faults, **{f"minimalloc_{n}_fits_its_capacity": (lambda n=n: minimalloc(n)) for n in "ABCDEF"})
