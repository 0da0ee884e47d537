#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: evictsets.c report_evict.c
"""Eviction from outside: the trainer `gemini` under a cap, against a model of the rule in 40 lines and the device's own books.

What ColossalAI's pull request 878 counts by hand is counted here three times: by the model, by `kedge report`, and by the
simulated device, which knows nothing of hints (bytes copied each way, peak of bytes held).
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from regresskit import (BUILD, KEDGE, REPLAY, SOURCE, bare, check, checksum, environment, foreign_traces, kedge_run, main, own_traces, run, same,
                        tool, tool_json, trace_facts)

GEMINI = BUILD / "trainers" / "gemini"
SEEDS = int(os.environ.get("REGRESS_SEEDS", "5"))
MIB = 1 << 20
GRANULE = 2 * MIB
HINTS = """kedge-hints: 1
program: {{argv: "*{program}*"}}
hints:
  - id: units
    do: evict
    pick: {{size: ">=2MiB"}}
    when: {{anchor: {anchor}, edge: enter}}
    cap: {{device: {cap}}}
    order: {order}
    victim: {victim}
    cyclic: {cyclic}
    prefetch: {prefetch}
    warmup-cap: 100%
{more}"""
DEFAULTS = {"program": "trainers/gemini", "anchor": "step", "order": "learn", "victim": "farthest-next-use", "cyclic": "yes",
            "prefetch": 1, "more": ""}
SEED_ORDER = [0, 1, 2, 0, 1]
SEED_UNIT = 128 # MiB, as in #878; what is no figure of it has units of an eighth, which a machine writes in an eighth of the time
UNIT = SEED_UNIT // 8
SEED_STEPS = 5 # a plan is kept after two steps that begin alike
UNITS = 12
TWICE = [*range(UNITS), *reversed(range(UNITS))] # forward and backward
SMALL = (GEMINI, "--units", UNITS, "--size", "2M", "--steps", 5)
SMALL_CAP = "12MiB" # six of them


def write_hints(cap, **words):
    path = pathlib.Path("hints.yaml")
    path.write_text(HINTS.format(cap=cap, **(DEFAULTS | words)), encoding="utf-8")
    path.chmod(0o644)


# ---- the rule ----

class Model:
    """Units of one size, a cap in units: what each use moves. Next uses are looked for, nothing else is remembered."""

    def __init__(self, order, cap, cyclic=True, victim="farthest-next-use"):
        # A unit that is used twice in a row is used once: the second call names nothing new.
        self.order = [unit for at, unit in enumerate(order) if at == 0 or order[at - 1] != unit]
        self.cap, self.cyclic, self.victim = cap, cyclic, victim
        self.inside, self.came, self.used, self.clock = set(), {}, {}, 0

    def key(self, unit, at, is_known):
        """The largest goes first; ties go by the order of making."""
        if self.victim == "fifo":
            return -self.came[unit]
        if self.victim == "lru":
            return -self.used[unit]
        if not is_known:
            return 0
        later = [i for i in range(at + 1, len(self.order)) if self.order[i] == unit]
        return later[0] if later else len(self.order) + (self.order.index(unit) if self.cyclic else 0)

    def use(self, unit, at, is_known):
        """(unit, the one that comes in, the one that goes out), None where there is none."""
        victim = None
        self.clock += 1
        self.used[unit] = self.clock
        if unit in self.inside:
            return unit, None, None
        if len(self.inside) == self.cap:
            victim = max(sorted(self.inside), key=lambda u: self.key(u, at, is_known))
            self.inside.remove(victim)
        self.inside.add(unit)
        self.came[unit] = self.clock
        return unit, unit, victim

    def step(self, is_known=True):
        return [self.use(unit, at, is_known) for at, unit in enumerate(self.order)]

    def steady_moves(self, steps=8):
        """The last of some steps, after those in which the order was not known."""
        for unit in sorted(set(self.order)): # each is filled before the first step
            self.use(unit, 0, False)
        self.step(False)
        return [self.step() for _ in range(steps)][-1]

    def steady(self):
        """Units in and out in such a step."""
        moves = self.steady_moves()
        return sum(m[1] is not None for m in moves), sum(m[2] is not None for m in moves)

    def least_time(self, copy, kernel):
        """What the moves of such a step take if each begins as soon as what it needs is there, ahead of its call as far as may be:
        room, the last use of what goes, the unit. One engine each way and one for kernels; `kernel` tells a call's time."""
        out_free = in_free = done = 0
        used, there = {}, {}
        for at, (unit, came, went) in enumerate(self.steady_moves()):
            if went is not None:
                out_free = max(out_free, used.get(went, 0)) + copy
            if came is not None:
                in_free = there[unit] = max(in_free, out_free) + copy
            done = used[unit] = max(done, there.get(unit, 0)) + kernel(at)
        return done


# ---- runs ----

def figures():
    """What the device has written of the last process that used it."""
    last = pathlib.Path("stats.txt").read_text(encoding="utf-8").split("process ")[-1]
    return {name: int(value) for name, value in (line.split() for line in last.splitlines()[1:])}


def device_run(how, *command, **options):
    """A run, and the device's figures of it."""
    pathlib.Path("stats.txt").unlink(missing_ok=True)
    done = how(*command, SIMCUDA_STATS="stats.txt", **options)
    return done, figures()


def capped(*command, mode="poison", **options):
    """A run with hints.yaml; in the modes that move storage they all move it alike, and only live needs a receipt."""
    return device_run(kedge_run, *command, capture=options.pop("capture", "capped.kcap"), KEDGE_HINTS="hints.yaml",
                      KEDGE_HINTS_MODE=mode, **options)


def sets(capture="capped.kcap"):
    return tool_json("report", capture)["eviction"]


def the_set(capture="capped.kcap"):
    """The only one; without it there is nothing to look at."""
    found = sets(capture)
    if not same(f"{capture}: sets that were managed", len(found), 1):
        sys.exit(1)
    return found[0]


def last_step(capture="capped.kcap"):
    """The last one that has ended: what came after it is the program's end."""
    ended = [s for s in the_set(capture)["steps"] if s["ended"] and s["step"] > 0]
    if not check(ended, f"{capture}: no step has ended"):
        sys.exit(1)
    return ended[-1]


def moved(step):
    return step["moved_in_bytes"] + step["moved_out_bytes"]


def is_right(done, *command, **options):
    """It printed what the program prints with all units in and nothing preloaded."""
    return same("checksum", checksum(done.stdout), checksum(bare(*command, **options).stdout))


# ---- the seed's units ----

class Seed:
    """The seed's program with units of so many MiB and room for two, as it is without hints."""

    def __init__(self, unit):
        self.unit, self.cap = unit, f"{2 * unit}MiB"
        self.program = seed_program(unit)
        done, self.all_in = device_run(kedge_run, *self.program)
        self.checksum = checksum(done.stdout)
        is_right(done, *self.program)

    def expect(self, moves, model, **words):
        """The moves of a step by the report and the model; of all steps by the report and the device. The device never holds more than
        the cap and the rest."""
        write_hints(self.cap, **words)
        done, books = capped(*self.program)
        same(f"{words}: checksum", checksum(done.stdout), self.checksum)
        step = last_step()
        same(f"{words}: moved in a step", moved(step), moves * self.unit * MIB)
        came, went = model.steady()
        both = step["moved_in_bytes"], step["moved_out_bytes"]
        same(f"{words}: moved in a step, and by the model", both, (came * self.unit * MIB, went * self.unit * MIB))
        total = the_set()["total"]
        same(f"{words}: copied by the device, beside what the program copies itself",
             tuple(books[key] - self.all_in[key] for key in ("copied_in_bytes", "copied_out_bytes")),
             (total["moved_in_bytes"], total["moved_out_bytes"]))
        check(step["in_at_most_bytes"] <= 2 * self.unit * MIB, f"{words}: {step['in_at_most_bytes']} bytes in at once")
        rest = self.all_in["device_0_peak"] - 3 * self.unit * MIB
        check(books["device_0_peak"] <= 2 * self.unit * MIB + rest + GRANULE,
              f"{words}: the device held {books['device_0_peak']} bytes under a cap of {self.cap}, beside {rest} of the rest")
        return step


def seed_program(unit, steps=SEED_STEPS):
    return GEMINI, "--units", 3, "--size", f"{unit}M", "--order", "0 1 2 0 1", "--steps", steps


def the_seed_moves_512_mib_in_a_step_768_by_lesser_rules_and_1024_where_no_step_is_told():
    """Four units of 128 MiB are the bound: by cyclic next use. Six where steps stand alone, and by lru and fifo. Eight by victims in the
    order of making, as #878 has them without its tracer: an anchor that never comes."""
    step = Seed(SEED_UNIT).expect(4, Model(SEED_ORDER, 2))
    same("moved in, and what no order of moves goes below", step["moved_in_bytes"], step["in_at_least_bytes"])
    check(step["planned"] and step["replayed"], "the steady step was not replayed")
    lesser = Seed(UNIT)
    step = lesser.expect(6, Model(SEED_ORDER, 2, cyclic=False), cyclic="no")
    same("steps that stand alone: what no order of moves goes below", step["in_at_least_bytes"], 2 * UNIT * MIB)
    for victim in ("lru", "fifo"):
        lesser.expect(6, Model(SEED_ORDER, 2, victim=victim), victim=victim)
    write_hints(lesser.cap, anchor="never")
    done, books = capped(*lesser.program)
    same("no step: checksum", checksum(done.stdout), lesser.checksum)
    _, more = capped(*seed_program(UNIT, SEED_STEPS + 1))
    same("no step: copied by the device in a step", [more[key] - books[key] for key in ("copied_in_bytes", "copied_out_bytes")],
         [4 * UNIT * MIB] * 2)


def a_stated_order_needs_no_warm_up():
    write_hints(f"{2 * UNIT}MiB", order="[0, 1, 2, 0, 1]")
    program = seed_program(UNIT, 3)
    done, _ = capped(*program)
    is_right(done, *program)
    steps = [s for s in the_set()["steps"] if s["step"] > 0]
    same("first step", (steps[0]["step"], steps[0]["planned"]), (1, True))
    same("steps without an order", [s["step"] for s in steps if not s["planned"]], [])


def what_is_restored_at_an_edge_is_in_before_the_next_step():
    """Between steps there is room: the cap grows by nothing, so what comes in is what the cap leaves free."""
    write_hints(f"{2 * UNIT}MiB", more="""  - id: back
    do: restore
    of: units
    when: {anchor: step, edge: exit}
""")
    program = seed_program(UNIT, 6)
    done, books = capped(*program)
    is_right(done, *program)
    check(last_step()["in_at_most_bytes"] <= 2 * UNIT * MIB, "over the cap")
    check(books["copied_in_bytes"] > 0, "nothing came in")


# ---- twelve units, room for six ----

def twelve_units_with_room_for_six_are_right_and_move_what_the_model_says():
    write_hints("96MiB")
    program = (GEMINI, "--units", UNITS, "--size", "16M", "--steps", 8)
    done, books = capped(*program)
    is_right(done, *program)
    step = last_step()
    came, went = Model(TWICE, 6).steady()
    same("moved in a step", (step["moved_in_bytes"], step["moved_out_bytes"]), (came * 16 * MIB, went * 16 * MIB))
    same("in at least", step["in_at_least_bytes"], came * 16 * MIB)
    check(books["pinned_peak"] >= 6 * 16 * MIB, f"{books['pinned_peak']} bytes of the host are pinned for six units that are out")


def results_are_the_same_whatever_runs_late():
    """R93. Every other order of late streams with optimizer states."""
    write_hints(SMALL_CAP, prefetch=2)
    forms = [(), ("--states",)]
    wanted = [checksum(bare(*SMALL, *form, "--steps", 3).stdout) for form in forms]
    for seed in range(1, SEEDS + 1):
        done, _ = capped(*SMALL, *forms[seed % 2], "--steps", 3, SIMCUDA_SCHED="random", SIMCUDA_SEED=seed)
        same(f"{forms[seed % 2]}, seed {seed}: checksum", checksum(done.stdout), wanted[seed % 2])


def last_step_ns(output):
    return int(re.search(r"last-step (\d+) ns", output).group(1))


def copies_run_beside_kernels():
    """R89. Copy engines half as fast as kernels: the last step takes a tenth more than its copies and kernels must, at the most."""
    speeds = {"SIMCUDA_SCHED": "timed", "SIMCUDA_BANDWIDTH": "25G", "SIMCUDA_COMPUTE": "50G",
              "SIMCUDA_COSTS": SOURCE / "tests" / "data" / "vmm_cost_a100_2mib.csv"} # R89
    program = (GEMINI, "--units", UNITS, "--size", f"{UNIT}M", "--steps", 7)
    write_hints(f"{6 * UNIT}MiB", prefetch=8)
    kernels = last_step_ns(bare(*program, **speeds).stdout)
    done, _ = capped(*program, **speeds)
    is_right(done, *program)
    model = Model(TWICE, 6)
    came, went = Model(TWICE, 6).steady()
    same("moved in", last_step()["moved_in_bytes"], came * UNIT * MIB)
    each = (UNIT * MIB) * 10**9 // (50 << 30) # a kernel that reads a unit; backward it is read and written anew after that
    turn = len(model.order) // 2 # the call of the last unit, forward and backward in one
    least = model.least_time(2 * each, lambda at: each if at < turn else 3 * each if at == turn else 2 * each)
    same("kernels of a step, in per mille of what they should take", round(1000 * kernels / (3 * UNITS * each)), 1000)
    took = last_step_ns(done.stdout)
    busiest = max(kernels, came * 2 * each, went * 2 * each)
    print(f"kernels {kernels} ns, busiest engine {busiest} ns, copies and kernels {least} ns, took {took} ns")
    check(busiest <= took <= 1.1 * least, f"the last step took {took} ns, and could have taken {least}")


def a_verified_hint_acts_in_mode_live():
    write_hints(SMALL_CAP)
    tool("hints", "lint", "hints.yaml")
    run(KEDGE, "verify", "--sim", "--hints", "hints.yaml", "--", *SMALL)
    done, books = capped(*SMALL, mode="live")
    is_right(done, *SMALL)
    same("mode", the_set()["mode"], "live")
    check(books["copied_out_bytes"] > UNITS * GRANULE, "nothing was moved")
    done, _ = capped(*SMALL, "--seed", 2, mode="shadow", capture="shadow.kcap")
    is_right(done, *SMALL, "--seed", 2)
    check(the_set("shadow.kcap")["on_paper"], "in shadow something was moved")


def r88_a_device_that_cannot_hold_them_all_is_enough():
    """R88: the device's own ledger says it. Half of what the units need, and the program's rest."""
    write_hints(SMALL_CAP)
    _, all_in = device_run(kedge_run, *SMALL)
    memory = all_in["device_0_peak"] - 4 * GRANULE
    run(KEDGE, "run", "--sim", "--", *SMALL, rc=3, SIMCUDA_MEMORY=memory)
    done, _ = capped(*SMALL, SIMCUDA_MEMORY=memory)
    is_right(done, *SMALL)


# ---- addresses that no call names ----

def kept_by_reason(capture="capped.kcap"):
    return {row["why"]: (row["count"], row["bytes"]) for row in the_set(capture)["kept"]}


def units_in_a_table_on_the_device_stay_in():
    write_hints(SMALL_CAP)
    for mode in ("poison", "trap"):
        done, _ = capped(*SMALL, "--host-pointers=0 3", mode=mode)
        is_right(done, *SMALL, "--host-pointers=0 3")
        same(f"{mode}: kept", kept_by_reason().get("pointer"), (2, 2 * GRANULE))
        check(moved(last_step()) > 0, f"{mode}: the others do not move")
    text = tool("report", "capped.kcap", "--view", "eviction")
    check("pointed to from data on the device" in text, text[-2000:])


def a_table_in_memory_of_the_host_is_met_in_trap():
    """No copy has shown these addresses to anyone: only a run in which everything is out finds the kernel that uses them."""
    write_hints(SMALL_CAP)
    done, books = capped(*SMALL, "--host-pointers=0 3", "--table", "host", mode="trap", rc=None)
    check(done.returncode != 0, "an unseen use went well")
    check("illegal address" in done.stdout, done.stdout[-2000:])
    same("faults", books["faults"], 1)
    run(KEDGE, "verify", "--sim", "--hints", "hints.yaml", "--", *SMALL, "--host-pointers=0 3", "--table", "host", rc=1)


# ---- managed memory ----

MANAGED = "    backing: managed\n"


def migrated(books):
    return books["migrated_in_bytes"], books["migrated_out_bytes"]


def managed_units_are_right_within_the_cap_and_move_what_the_model_says():
    """A move is a prefetch. The device's own books: no page comes unasked, and what is resident is the cap and the rest."""
    write_hints("96MiB", more=MANAGED)
    program = (GEMINI, "--units", UNITS, "--size", "16M", "--steps", 8)
    _, all_in = device_run(kedge_run, *program)
    done, books = capped(*program)
    is_right(done, *program)
    step = last_step()
    came, went = Model(TWICE, 6).steady()
    same("moved in a step", (step["moved_in_bytes"], step["moved_out_bytes"]), (came * 16 * MIB, went * 16 * MIB))
    steps = the_set()["steps"]
    same("moved in all, and by the device", (sum(s["moved_in_bytes"] for s in steps), sum(s["moved_out_bytes"] for s in steps)),
         migrated(books))
    same("page faults, pages that the device sent out, maps", [books[k] for k in ("page_faults", "pages_evicted", "maps")], [0, 0, 0])
    rest = all_in["device_0_peak"] - UNITS * 16 * MIB
    check(books["device_0_peak"] <= 96 * MIB + rest, f"the device held {books['device_0_peak']} bytes, beside {rest} of the rest")
    same("pinned", books["pinned_peak"], 0)


def managed_units_that_a_kernel_finds_in_memory_come_by_themselves():
    """No call names them, in trap either: that is a page fault, and no failure."""
    write_hints(SMALL_CAP, more=MANAGED)
    for mode in ("poison", "trap"):
        for table in ("device", "host"):
            hidden = (*SMALL, "--host-pointers=0 3", "--table", table)
            done, books = capped(*hidden, mode=mode)
            is_right(done, *hidden)
            same(f"{mode}, {table}: kept", kept_by_reason(), {})
            same(f"{mode}, {table}: faults of the device", books["faults"], 0)
            check(books["page_faults"] > 0, f"{mode}, {table}: no page came by itself")
            check(moved(last_step()) > 0, f"{mode}, {table}: nothing moves")


def managed_units_are_right_whatever_runs_late():
    write_hints(SMALL_CAP, prefetch=2, more=MANAGED)
    for shape in ((), ("--streams", 3), ("--entrance", "stream", "--streams", 2), ("--graph",), ("--states",)):
        if shape == ("--graph",):
            write_hints("24MiB", more=MANAGED)
        wanted = checksum(bare(*SMALL, *shape).stdout)
        for schedule in ("lazy", "random"):
            done, books = capped(*SMALL, *shape, SIMCUDA_SCHED=schedule)
            same(f"{shape}, {schedule}: checksum", checksum(done.stdout), wanted)
            check(min(migrated(books)) > 0 or shape == ("--graph",), f"{shape}, {schedule}: nothing was moved")


def a_device_that_uses_no_managed_memory_has_pinned_memory_for_it():
    write_hints(SMALL_CAP, more=MANAGED)
    done, books = capped(*SMALL, SIMCUDA_MANAGED="off")
    is_right(done, *SMALL)
    same("migrated", migrated(books), (0, 0))
    check(books["pinned_peak"] >= 6 * GRANULE, f"{books['pinned_peak']} bytes of the host are pinned")
    same("said", done.stdout.count("device 0 does not use managed memory beside the host"), 1)


def r88_managed_units_fit_a_device_that_cannot_hold_them_all():
    write_hints(SMALL_CAP, more=MANAGED)
    _, all_in = device_run(kedge_run, *SMALL)
    memory = all_in["device_0_peak"] - 4 * GRANULE
    done, books = capped(*SMALL, SIMCUDA_MEMORY=memory)
    is_right(done, *SMALL)
    same("page faults, pages that the device sent out", (books["page_faults"], books["pages_evicted"]), (0, 0))


# ---- shapes of programs ----

def other_shapes_of_the_program_are_right():
    write_hints(SMALL_CAP, prefetch=2)
    shapes = (("--streams", 3), ("--entrance", "stream"), ("--entrance", "stream", "--streams", 2), ("--update", "end"),
              ("--update", "none"), ("--sizes", "2M 6M 4M 2M 6M 4M 2M 2M 2M 2M 2M 2M"), ("--states", "--streams", 2))
    for i, shape in enumerate(shapes):
        done, _ = capped(*SMALL, *shape, SIMCUDA_SCHED=("eager", "lazy")[i % 2])
        is_right(done, *SMALL, *shape)
        check(moved(last_step()) > 0, f"{shape}: nothing was moved")


def two_models_share_a_cap():
    write_hints("24MiB", prefetch=2)
    for seed in range(1, min(SEEDS, 10) + 1):
        done, books = capped(*SMALL, "--threads", 2, SIMCUDA_SCHED="random", SIMCUDA_SEED=seed)
        is_right(done, *SMALL, "--threads", 2)
        check(books["copied_out_bytes"] > 2 * UNITS * GRANULE, f"seed {seed}: nothing was moved")
    same("sets", [s["device"] for s in sets()], [0])


def each_device_has_a_set_and_a_cap():
    write_hints(SMALL_CAP)
    two = ("--threads", 2, "--device", "0 1")
    _, all_in = device_run(kedge_run, *SMALL, *two, SIMCUDA_DEVICES=2)
    done, books = capped(*SMALL, *two, SIMCUDA_DEVICES=2)
    is_right(done, *SMALL, *two, SIMCUDA_DEVICES=2)
    same("sets", sorted(s["device"] for s in sets()), [0, 1])
    for device in (0, 1):
        peak = f"device_{device}_peak"
        check(books[peak] <= all_in[peak] - 5 * GRANULE, f"device {device} held {books[peak]} bytes, and {all_in[peak]} without a cap")


def what_a_graph_names_is_in_at_its_launch():
    """A launch needs all of it at once. Between launches it goes out for others; where it does not fit, the program is out of memory."""
    write_hints("24MiB")
    done, _ = capped(*SMALL, "--graph")
    is_right(done, *SMALL, "--graph")
    same("kept", kept_by_reason(), {})
    write_hints(SMALL_CAP)
    done, _ = capped(*SMALL, "--graph", rc=3)
    check("hint units: a call needs" in done.stdout, f"what was short is not said: {done.stdout[-2000:]}")


# ---- traces ----

def replay_under_four_fifths(trace, entrance):
    """Each tensor is filled after its birth and looked at before its death: real contents, in the order of a real program."""
    cap = trace_facts(trace)["max_bytes"] * 4 // 5
    write_hints(cap, program="kedge-replay")
    done, books = capped(REPLAY, "--api", entrance, "--steps", "pass", "--passes", 2, trace, KEDGE_ANCHORS="log",
                         timeout=300)
    check("pages checked" in done.stdout, done.stdout[-800:])
    ended = [s for s in the_set()["steps"] if s["ended"]]
    check(all(s["in_at_most_bytes"] <= cap for s in ended), f"{trace.name}: more than the cap of {cap} was in")
    check(books["copied_out_bytes"] > 0 and books["copied_in_bytes"] > 0, f"{trace.name}: nothing has moved")
    print(f"{trace.name}, {entrance}: {books['copied_in_bytes']} bytes in, {books['copied_out_bytes']} out, cap {cap}")


def own_traces_are_whole_under_four_fifths_of_their_peak():
    for trace in own_traces():
        for entrance in ("sync", "stream"):
            if trace.stat().st_size < 100000: # the larger one is a whole model, and takes a minute
                replay_under_four_fifths(trace, entrance)


def foreign_traces_are_whole_under_four_fifths_of_their_peak():
    found = sorted(foreign_traces(), key=lambda path: path.stat().st_size)
    for trace in found[1:5]: # the smallest file has the largest blocks, and takes as long as the others together
        replay_under_four_fifths(trace, "stream")


def all_traces_are_whole_under_four_fifths_of_their_peak():
    for trace in own_traces() + foreign_traces():
        for entrance in ("sync", "stream"):
            replay_under_four_fifths(trace, entrance)


# ---- trouble ----

def a_killed_program_leaves_its_steps():
    write_hints(SMALL_CAP)
    command = [str(c) for c in (KEDGE, "run", "--sim", "--capture", "killed.kcap", "--", *SMALL, "--steps", 1000000, "--log")]
    with subprocess.Popen(command, env=environment(KEDGE_HINTS="hints.yaml", KEDGE_HINTS_MODE="poison"), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as family:
        begun = 0
        for line in family.stdout:
            begun += line == "START step\n"
            if begun == 20:
                time.sleep(0.01) # somewhere in a step
                os.killpg(family.pid, signal.SIGKILL)
                break
        family.communicate()
    same("steps that had begun", begun, 20)
    steps = the_set("killed.kcap")["steps"]
    ended = [s["step"] for s in steps if s["ended"]]
    check(len(ended) >= 19, f"steps that have ended in the capture: {ended}")
    check(moved(steps[10]) > 0 and steps[10]["planned"], f"step 10: {steps[10]}")
    check("Eviction" in tool("report", "killed.kcap", "--all"), "the report has no section on eviction")


MOVERS = ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemHostAlloc", "cuMemcpyHtoDAsync",
          "cuMemcpyDtoHAsync", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventQuery", "cuStreamCreate",
          "cuStreamCreateWithPriority")
CODES = (2, 999) # in turns
FAILING = (GEMINI, "--units", 6, "--size", "2M", "--steps", 4)


def fails_well(fault, wanted):
    """Right, or out of memory or a failed call in the program's own words; nothing else."""
    done, _ = capped(*FAILING, rc=None, timeout=60, SIMCUDA_FAIL=fault)
    if not check(done.returncode in (0, 3), f"{fault}: exit {done.returncode}: {done.stdout[-1500:]}"):
        return
    if done.returncode == 0:
        same(f"{fault}: checksum", checksum(done.stdout), wanted)


def expect_failures(faults, more="", how="copied_out_bytes"):
    write_hints("6MiB", prefetch=2, more=more)
    wanted = checksum(bare(*FAILING).stdout)
    done, books = capped(*FAILING)
    same("no fault: checksum", checksum(done.stdout), wanted)
    own = device_run(kedge_run, *FAILING)[1][how]
    check(books[how] > own + 6 * GRANULE, "nothing was moved that could fail")
    for fault in faults:
        fails_well(fault, wanted)


def spread(count, most):
    """Numbers from 1 to count, at most so many, from end to end."""
    return sorted({1 + i * (count - 1) // max(1, most - 1) for i in range(most)}) if count > most else range(1, count + 1)


def any_call_may_fail():
    write_hints("6MiB", prefetch=2)
    _, books = capped(*FAILING)
    most = 12 * min(SEEDS, 10)
    expect_failures([f"*:{n}:{CODES[i % 2]}" for i, n in enumerate(spread(books["driver_calls"], most))])


def any_call_that_moves_may_fail():
    expect_failures([f"{call}:{n}:{CODES[i % 2]}" for call in MOVERS for i, n in enumerate((1, 2, 3, 5, 8, 13, 21))])


def any_call_that_moves_pages_may_fail():
    calls = ("cuMemAllocManaged", "cuMemPrefetchAsync", "cuMemFree", "cuDeviceGetAttribute", "cuEventRecord", "cuStreamWaitEvent")
    expect_failures([f"{call}:{n}:{code}" for call in calls for n in (1, 2, 5, 13) for code in (2, 801, 999)]
                    + [f"{call}:{n}+:2" for call in calls[:2] for n in (1, 4)], MANAGED, "migrated_out_bytes")


def calls_that_move_may_fail_from_some_time_on():
    expect_failures([f"{call}:{n}+:2" for call in MOVERS for n in (1, 12)])


main(the_seed_moves_512_mib_in_a_step_768_by_lesser_rules_and_1024_where_no_step_is_told, a_stated_order_needs_no_warm_up,
     what_is_restored_at_an_edge_is_in_before_the_next_step,
     twelve_units_with_room_for_six_are_right_and_move_what_the_model_says, results_are_the_same_whatever_runs_late,
     copies_run_beside_kernels, a_verified_hint_acts_in_mode_live, r88_a_device_that_cannot_hold_them_all_is_enough,
     managed_units_are_right_within_the_cap_and_move_what_the_model_says,
     managed_units_that_a_kernel_finds_in_memory_come_by_themselves, managed_units_are_right_whatever_runs_late,
     a_device_that_uses_no_managed_memory_has_pinned_memory_for_it, r88_managed_units_fit_a_device_that_cannot_hold_them_all,
     any_call_that_moves_pages_may_fail,
     units_in_a_table_on_the_device_stay_in, a_table_in_memory_of_the_host_is_met_in_trap, other_shapes_of_the_program_are_right,
     two_models_share_a_cap, each_device_has_a_set_and_a_cap, what_a_graph_names_is_in_at_its_launch, a_killed_program_leaves_its_steps,
     own_traces_are_whole_under_four_fifths_of_their_peak, foreign_traces_are_whole_under_four_fifths_of_their_peak,
     all_traces_are_whole_under_four_fifths_of_their_peak, any_call_may_fail, any_call_that_moves_may_fail, calls_that_move_may_fail_from_some_time_on)
