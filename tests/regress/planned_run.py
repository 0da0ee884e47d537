#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A trainer that runs by a plan: its blocks stand where the plan says, and its peak is the plan's.

The plans here are made by hand from what tests/trainers/loop.c is known to ask for, so that what is tested is the run.
"""
import pathlib

from regresskit import BUILD, bare, check, checksum, kedge_run, main, same, tool, tool_json

LOOP = BUILD / "trainers" / "loop"
# tests/trainers/loop.c
LAYERS = (49152, 2408448, 1204224, 6422528, 100000, 3538944)
LOSS = 4096
STEPS = 4
GRANULE = 2 << 20
SUMS = GRANULE  # one small block on the sync entrance
# The plan is the pool's only reason to hold more than it must: nothing is trimmed, and no memory is left to others.
SETTINGS = {"KEDGE_POOL": "reserve=0,trim=never", "KEDGE_STACKS": "off"}


def up(n, unit):
    return (n + unit - 1) // unit * unit


class Recorder:
    """Allocations in order, and before which one each is freed (None: never)."""

    def __init__(self):
        self.size, self.until = [], []

    def take(self, size):
        self.size.append(up(size, 512))
        self.until.append(None)
        return len(self.size) - 1

    def give(self, number):
        self.until[number] = len(self.size)


def record_step(to):
    """What the loop does in a step: workspaces beside activations, a loss, gradients."""
    activations = []
    for size in LAYERS:
        workspace = to.take(size // 2 // 4 * 4)
        activations.append(to.take(size))
        to.give(workspace)
    to.give(to.take(LOSS))
    for size, activation in zip(reversed(LAYERS), reversed(activations)):
        gradient = to.take(size)
        to.give(activation)
        to.give(gradient)


def live_most(r):
    """The most that is live at once."""
    now, most, ends = 0, 0, {}
    for i, size in enumerate(r.size):
        now -= ends.pop(i, 0)
        now += size
        most = max(most, now)
        if r.until[i] is not None:
            ends[r.until[i]] = ends.get(r.until[i], 0) + size
    return most


def place(r, order):
    """Offsets, the lowest that is free for a block's whole life, in the given order of blocks."""
    offset = {}
    for i in order:
        end = r.until[i] if r.until[i] is not None else len(r.size)
        busy = sorted((offset[j], offset[j] + r.size[j]) for j in offset
                      if j < end and i < (r.until[j] if r.until[j] is not None else len(r.size)))
        at = 0
        for lo, hi in busy:
            if at + r.size[i] <= lo:
                break
            at = max(at, hi)
        offset[i] = at
    return offset


def write(name, r):
    """The plan of the best of three simple orders. Returns its area and what is live at most."""
    numbers = range(len(r.size))
    life = [(r.until[i] or len(r.size)) - i for i in numbers]
    tries = [place(r, sorted(numbers, key=key)) for key in
             (lambda i: -r.size[i], lambda i: -r.size[i] * life[i], lambda i: -life[i])]
    offset = min(tries, key=lambda t: max(t[i] + r.size[i] for i in numbers))
    area = max(offset[i] + r.size[i] for i in numbers)
    lines = ["kedge-plan 1", "device 0", "entrance stream", "streams one", "quantum 512", f"area {area}", f"live {live_most(r)}",
             f"blocks {len(r.size)}"]
    lines += [f"{r.size[i]} {offset[i]} {'-' if r.until[i] is None else r.until[i]} 0" for i in numbers]
    path = pathlib.Path(name)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o644)
    return area, live_most(r)


def plan_of_run(name):
    r = Recorder()
    for size in LAYERS:
        r.take(size)
    for _ in range(STEPS):
        record_step(r)
    return r, *write(name, r)


def plan_of_step(name):
    r = Recorder()
    record_step(r)
    return r, *write(name, r)


def run_loop(plan, capture, **settings):
    command = (LOOP, "--steps", STEPS, "--entrance", "stream")
    wanted = checksum(bare(*command).stdout)
    options = SETTINGS | settings
    if plan:
        options["KEDGE_POOL"] += f",plan={pathlib.Path(plan).absolute()}"
    done = kedge_run(*command, capture=capture, **options)
    same("the checksum", checksum(done.stdout), wanted)
    return done.stdout, tool_json("report", capture)


def a_run_that_is_planned_holds_what_the_plan_says():
    r, area, live = plan_of_run("run.plan")
    _, j = run_loop("run.plan", "run.kcap")
    print(f"area {area}, live {live}, {len(r.size)} blocks: {j['plan']}")
    same("blocks at their place", j["plan"]["placed"], len(r.size))
    for key in ("fell_back", "unmatched", "skipped", "resyncs"):
        same(key, j["plan"][key], 0)
    held = up(area, GRANULE) + SUMS
    same("the most that was held", j["peak_reserved_bytes"], held)
    same("the most that was live, in blocks of 512", j["peak_live_512_bytes"], live + 512)
    # The device's own word: it has this much and no more.
    run_loop("run.plan", "tight.kcap", SIMCUDA_MEMORY=held)
    check("blocks in" in tool("report", "run.kcap"), "the report says nothing of the plan")


def a_step_that_is_planned_is_found_and_followed():
    r, area, _ = plan_of_step("step.plan")
    _, j = run_loop("step.plan", "step.kcap", SIMCUDA_LAG=2, SIMCUDA_SCHED="random", SIMCUDA_SEED=7)
    plan = j["plan"]
    print(f"area {area}, {len(r.size)} blocks: {plan}")
    # The weights are not in the plan, nor is the row of sizes that says where the program is.
    check(plan["placed"] >= len(r.size) * STEPS - 15, "too few blocks stand at their place")
    check(plan["unmatched"] <= len(LAYERS) + 15, "too many requests are not in the plan")
    same("resyncs", plan["resyncs"], 1)
    same("steps", plan["steps"], STEPS)
    weights = up(sum(up(size, 512) for size in LAYERS), GRANULE)
    # What the first step took outside cannot move as long as the device may be using it.
    check(j["peak_reserved_bytes"] <= 2 * up(area, GRANULE) + weights + 2 * GRANULE, f"held: {j['peak_reserved_bytes']}")


def a_plan_of_another_program_is_harmless():
    other = Recorder()
    for size in range(3, 40):
        other.give(other.take(size * 70000))
    write("other.plan", other)
    _, with_it = run_loop("other.plan", "with.kcap")
    _, without = run_loop(None, "without.kcap")
    same("blocks at a place", with_it["plan"]["placed"], 0)
    same("without a plan", without["plan"], None)
    same("the most that was held", with_it["peak_reserved_bytes"], without["peak_reserved_bytes"])


def trouble_with_the_file_is_one_line():
    plan_of_step("step.plan")
    text = pathlib.Path("step.plan").read_text(encoding="utf-8")
    for name, content, words in (
            ("bad.plan", text.replace("quantum 512", "quantum 100"), "bad.plan:5:9: a quantum is a power of two"),
            ("sync.plan", text.replace("entrance stream", "entrance sync"), "a plan of the sync entrance is not followed"),
            ("wide.plan", text.replace("quantum 512", "quantum 256"), "made for sizes in multiples of 256 bytes, here they are of 512"),
            ("missing.plan", None, "missing.plan: no such file, the plan is not followed")):
        if content is not None:
            pathlib.Path(name).write_text(content, encoding="utf-8")
            pathlib.Path(name).chmod(0o644)
        output, j = run_loop(name, name + ".kcap")
        lines = [line for line in output.splitlines() if line.startswith("kedge[") and ".plan" in line]
        check(len(lines) == 1 and words in lines[0], f"{name}: {lines}")
        same(f"{name}: followed", j["plan"], None)


def a_recorded_step_is_planned_and_run():
    """The whole way of a user: record, plan, run; the device holds what the planner said, and the next step finds its places."""
    command = (LOOP, "--steps", STEPS, "--entrance", "stream")
    kedge_run(*command, capture="recorded.kcap", KEDGE_TRACE="full")
    for name, window in (("whole", ()), ("step", ("--from", "step", "--to", "step"))):
        planned = tool_json("plan", "recorded.kcap", "-o", f"{name}.plan", *window)
        _, j = run_loop(f"{name}.plan", f"{name}.kcap", KEDGE_STACKS="auto")
        print(f"{name}: {planned}\n{j['plan']}")
        same(f"{name}: fell back", j["plan"]["fell_back"], 0)
        check(j["plan"]["placed"] >= STEPS * 19 - 3, f"{name}: too few blocks stand at their place")
        if name == "whole":
            same("the most that was held", j["peak_reserved_bytes"], up(j["plan"]["area_bytes"], GRANULE) + SUMS)
            same("the planned peak", planned["planned_peak_bytes"], j["plan"]["area_bytes"])


def many_streams_run_by_a_plan_of_one_of_them():
    """Threads that meet differently each time, sizes that repeat, streams in any order: places are taken, and the sums are right."""
    command = (BUILD / "trainers" / "streams", "--entrance", "stream")
    wanted = checksum(bare(*command).stdout)
    kedge_run(*command, capture="streams.kcap", KEDGE_TRACE="full")
    tool("plan", "streams.kcap", "-o", "streams.plan")
    placed = 0
    for seed in range(1, 9):
        late = {"SIMCUDA_SCHED": "random", "SIMCUDA_SEED": seed, "SIMCUDA_LAG": seed % 2}
        name = f"late.{seed}.kcap"
        done = kedge_run(*command, capture=name, KEDGE_POOL=f"plan={pathlib.Path('streams.plan').absolute()}", **late)
        same(f"seed {seed}: the checksum", checksum(done.stdout), wanted)
        plan = tool_json("report", name)["plan"]
        same(f"seed {seed}: each match is placed or falls back", plan["matched"], plan["placed"] + plan["fell_back"])
        placed += plan["placed"]
    print(f"{placed} blocks at their place")
    check(placed > 0, "no block stood at its place")


if __name__ == "__main__":
    main(a_recorded_step_is_planned_and_run, many_streams_run_by_a_plan_of_one_of_them,
         a_run_that_is_planned_holds_what_the_plan_says, a_step_that_is_planned_is_found_and_followed,
         a_plan_of_another_program_is_harmless, trouble_with_the_file_is_one_line)
