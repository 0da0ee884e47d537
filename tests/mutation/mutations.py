#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every fence, dependency and gate, switched off: the oracle must fire. Left alone: it never does.

    mutations.py without.WORD      runs the workloads that depend on the device WORD (mutant.def) until one of them goes wrong
    mutations.py untouched.NAME    runs one workload, as shipped, on all seeds: nothing goes wrong, and the floors hold (R92)
    mutations.py every_mutation_has_a_test

Which orders the streams run in is decided by a seed, and the same seeds are used for both, so that a firing is the mutation's doing.
"""
import functools
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
# pylint: disable=wrong-import-position
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
from oracle import ARRANGEMENTS, OLD_DRIVER, PROGRAM, beside  # noqa: E402
from regresskit import BUILD, KEDGE, LIBRARY, SIM, SOT, SOURCE, check, fail, kedge_run, main, needs, run, same, tool  # noqa: E402

MUTANT = BUILD / "tests" / "mutation" / "libkedge_mutant.so"
HAZARDS = str(BUILD / "tests" / "mutation" / "hazards")
# (schedule, seed, lag): tried in this order.
ORDERS = [("lazy", 1, 0), ("random", 1, 0), ("random", 2, 1), ("random", 3, 0), ("random", 4, 1), ("random", 5, 0),
          ("random", 6, 1), ("eager", 1, 1)]
# Threads meet differently each time, so a mutation gets more tries; what fires is then run without it.
TRIES = ORDERS + [("random", seed, seed % 2) for seed in range(7, 47)]
SEEDS = 20  # of tests/oracle, at each try
HINT = """kedge-hints: 1
hints:
  - {id: late, do: release, pick: {size: 8388608}, when: {anchor: "P", edge: exit}}
"""


EVICT = """kedge-hints: 1
hints:
  - {{id: blocks, do: evict, pick: {{size: ">=2MiB"}}, when: {{anchor: step, edge: enter}}, cap: {{device: {cap}}}, {more}}}
"""


def trainer(name, *arguments):
    return [str(BUILD / "trainers" / name), *arguments]


def hint_by_hand():
    path = pathlib.Path("hint.yaml")
    path.write_text(HINT, encoding="utf-8")
    path.chmod(0o644)
    return {"KEDGE_HINTS": path, "KEDGE_HINTS_MODE": "trap"}


def evict_by_hand(cap, more="prefetch: 1"):
    path = pathlib.Path(f"evict.{cap}.yaml")
    path.write_text(EVICT.format(cap=cap, more=more), encoding="utf-8")
    path.chmod(0o644)
    return {"KEDGE_HINTS": path, "KEDGE_HINTS_MODE": "poison"}


def hint_as_suggested(entrance, mode):
    """The way of the product: good and bad run, suggest. Not live, which needs a receipt of the very library that runs."""
    sot = ("--graph", "small", "--entrance", entrance)
    for form in ("pt", "pir"):
        kedge_run(SOT, "--form", form, *sot, capture=f"{form}.kcap")
    tool("suggest", "--good", "pt.kcap", "--bad", "pir.kcap", "-o", "hints.yaml", "--force")
    return {"KEDGE_HINTS": "hints.yaml", "KEDGE_HINTS_MODE": mode}


class Workload:
    """A program, what it needs around it, and the floors: figures that its runs together must not leave at 0."""

    def __init__(self, command, floors, env=None, prepare=None, ends=0):
        self.command, self.floors, self.ends = command, floors, ends
        self.env, self.prepare = dict(env or {}), prepare

    def ready(self):
        if self.prepare:
            self.env.update(self.prepare())
            self.prepare = None

    def run(self, library, order, **more):
        self.ready()
        sched, seed, lag = order
        return run(*self.command, rc=None, timeout=60, LD_PRELOAD=library, SIMCUDA_MEMORY="2G", SIMCUDA_SCHED=sched,
                   SIMCUDA_SEED=seed, SIMCUDA_LAG=lag, **{"LD_LIBRARY_PATH": SIM, "KEDGE_TRACE": "off", **self.env, **more})


NO_BARRIER = {"KEDGE_SYNC_FREE": 0} # or fences on the sync API would always find an idle device
TWO_DEVICES = {"SIMCUDA_DEVICES": 2}
OLD = {"LD_LIBRARY_PATH": f"{OLD_DRIVER}:{SIM}", "SIMCUDA_VERSION": 12040} # without cuCtxRecordEvent
SYNC_FLOORS = ("hits", "epochs", "host_waits", "reuses", "context_records")
LIMBO = ["limbo", "limbo_legacy", "limbo_thread", "limbo_device"]
STREAM_FLOORS = ("hits", "points", "reuses", "cross_stream_reuses", "pool_cross_reuses", "inserted_waits", "event_records")
EVICT_FLOORS = ("evict_outs", "evict_ins", "evict_waits", "unmaps", "stream_waits")
GEMINI = ("--units", "8", "--size", "2M", "--steps", "4", "--streams", "3")
WORKLOADS = {
    "streams_sync": Workload(trainer("streams", "--entrance", "sync"), SYNC_FLOORS, NO_BARRIER),
    "streams_stream": Workload(trainer("streams", "--entrance", "stream"), (*STREAM_FLOORS, "merges", "followed", "remaps", "unmaps")),
    # the same, written down: the hooks have other ways then (preload/request/quick.h)
    "streams_recorded": Workload(trainer("streams", "--entrance", "stream"), STREAM_FLOORS,
                                 {"KEDGE_TRACE": "ring", "KEDGE_CAPTURE": "recorded.%p.kcap"}),
    "threads_sync": Workload(trainer("threads", "--entrance", "sync"), SYNC_FLOORS, NO_BARRIER),
    "threads_stream": Workload(trainer("threads", "--entrance", "stream"), (*STREAM_FLOORS, "unmaps")),
    "loop_sync": Workload(trainer("loop", "--entrance", "sync"), ("hits", "epochs", "synchronizes", "reuses")),
    "graphs_sync": Workload(trainer("graphs", "--entrance", "sync"),
                            ("epochs", "captures", "graph_launches", "quarantined")),
    "graphs_stream": Workload(trainer("graphs", "--entrance", "stream"),
                              ("hits", "captures", "graph_launches")),
    "sot_released": Workload([str(SOT), "--form", "pir", "--graph", "small", "--entrance", "stream"],
                         ("epochs", "released", "unmaps"), prepare=functools.partial(hint_as_suggested, "stream", "trap")),
    "sot_touch": Workload([str(SOT), "--form", "pir", "--graph", "small", "--entrance", "sync", "--touch-released=launch"],
                          (), prepare=functools.partial(hint_as_suggested, "sync", "trap"), ends=3),
    "late_use": Workload([HAZARDS, "late_use"], ("epochs", "released"), prepare=hint_by_hand),
    **{name: Workload([HAZARDS, name], ("epochs", "released", "unmaps"), TWO_DEVICES, prepare=hint_by_hand) for name in LIMBO},
    **{f"old_{name}": Workload([HAZARDS, name], ("synchronizes", "released", "unmaps"), TWO_DEVICES | OLD, prepare=hint_by_hand)
       for name in LIMBO},
    "two_devices": Workload([HAZARDS, "two_devices"], ("epochs", "reuses"), NO_BARRIER | TWO_DEVICES),
    "short_streams": Workload([HAZARDS, "short_streams"], ("points", "reuses", "cross_stream_reuses")),
    "freed_capture": Workload([HAZARDS, "freed_capture"], ("captures", "graph_launches", "quarantined")),
    "moved_graph": Workload([HAZARDS, "moved_graph"], ("captures", "graph_launches", "quarantined", "granules_moved"),
                            {"KEDGE_POOL": "remap=eager"}),
    "aliased": Workload([HAZARDS, "aliased"], ("points", "reuses", "granules_aliased", "alias_reuses", "unmaps"),
                        {"KEDGE_POOL": "remap=eager"}),
    "by_launch": Workload([HAZARDS, "by_launch"], ("points", "event_records", "stream_waits")),
    "by_graph": Workload([HAZARDS, "by_graph"], ("points", "event_records", "stream_waits", "graph_launches")),
    "record_flight": Workload([HAZARDS, "record_flight"], ("points", "event_records", "stream_waits")),
    "graph_memory": Workload([HAZARDS, "graph_memory"], ("captures", "graph_launches", "reuses")),
    "shown": Workload([HAZARDS, "shown"], ("epochs", "reuses")),
    "evict_sync": Workload(trainer("gemini", *GEMINI, "--entrance", "sync"), EVICT_FLOORS,
                           prepare=functools.partial(evict_by_hand, "8MiB")),
    "evict_stream": Workload(trainer("gemini", *GEMINI, "--entrance", "stream"), EVICT_FLOORS,
                             prepare=functools.partial(evict_by_hand, "8MiB")),
    "evict_clean": Workload(trainer("gemini", *GEMINI, "--update", "none", "--entrance", "sync"), EVICT_FLOORS,
                            prepare=functools.partial(evict_by_hand, "8MiB", "clean: yes, prefetch: 2")),
    "evict_stay": Workload([HAZARDS, "evict_stay"], ("evict_outs", "evict_ins", "evict_waits"),
                           prepare=functools.partial(evict_by_hand, "8MiB", "prefetch: 0")),
    "fence_flight": Workload([HAZARDS, "fence_flight"], ("captures", "epochs", "context_records"), NO_BARRIER),
}

class Program(Workload):
    """A test of another suite, which must be red with the mutant. It makes no figures."""

    def run(self, library, order, **more):
        sched, seed, lag = order
        return run(*self.command, rc=None, timeout=60, LD_PRELOAD=library, LD_LIBRARY_PATH=SIM, SIMCUDA_MEMORY="2G",
                   SIMCUDA_SCHED=sched, SIMCUDA_SEED=seed, SIMCUDA_LAG=lag, KEDGE_TRACE="off", TEST_ROUTE="dlsym", **more)


class Seeds(Workload):
    """Random legal programs of tests/oracle, other seeds at each try. The seed decides the schedule too."""

    def run(self, library, order, **more):
        arguments, environment, _ = ARRANGEMENTS[self.command]
        changes = {"LD_LIBRARY_PATH": SIM} | environment | beside(self.command) | more
        return run(PROGRAM, *arguments, 1 + SEEDS * TRIES.index(order), SEEDS, rc=None, timeout=300, LD_PRELOAD=library,
                   KEDGE_TRACE="off", **changes)


class Script(Workload):
    """The same, for a script that chooses by itself which of its programs get the library."""

    def run(self, library, order, **more):
        return run(*self.command, rc=None, timeout=60, TEST_BUILD=BUILD, TEST_OFF_LIBRARY=library, **more)


UNIT = BUILD / "tests" / "unit"
FAR_EVENT = "another_threads_own_stream" # which nobody else can name
EVENT = ["a_stream", "the_legacy_stream", "the_threads_own_stream", FAR_EVENT, "another_device"]
ORDER = ["a_free_on_a_blocking_stream_comes_behind_the_default_stream",
         "an_allocation_on_a_blocking_stream_comes_behind_the_default_stream",
         "allocations_and_frees_on_the_default_stream_order_the_blocking_ones", "a_free_beside_a_capture_is_an_operation"]
LATE = ["a_stream_that_comes_in_a_capture_comes_behind_the_free", "a_stream_that_comes_in_a_later_capture_comes_behind_the_free",
        "an_own_stream_that_comes_in_a_capture_comes_behind_the_free",
        "a_stream_that_comes_while_the_first_one_captures_comes_behind_the_free"]
TOLD = ["host_functions_and_events_tell_of_threads_own_streams", "host_functions_tell_of_the_default_stream"]
# Each hangs for ten seconds where it shows: one of a kind is enough. The others of preload.stalls hang, too.
EARLY = ["r71_a_free_is_not_behind_its_streams_later_wait",
         "r71_a_free_by_the_sync_api_is_not_behind_a_later_wait",
         "r69_r71_a_free_on_the_default_stream_is_not_behind_a_blocking_stream_that_comes_later"]
BESIDE = ["r10_r71_a_free_beside_a_capture_is_not_behind_its_streams_later_wait"]
AT_ONCE = ["r69_r71_looking_at_the_default_stream_puts_no_stream_behind_another"]
STALL = ["r104_nobody_waits_for_memory_that_is_freed_behind_a_wait",
         "r104_a_full_device_gives_what_needs_no_wait_first"]
PROGRAMS = {
    "host_function": Program([str(UNIT / "hooks_dlsym_test"), "r38_a_free_in_a_host_function_makes_no_driver_call"], ()),
    "host_node": Program([str(UNIT / "process_dlsym_test"), "r38_a_free_in_a_host_node_of_a_graph_makes_no_driver_call"], ()),
    "sticky": Program([str(UNIT / "errors_gpa_test"), "r34_after_a_sticky_error_nothing_is_recycled"], ()),
    **{name: Program([str(UNIT / "stream_order_dlsym_test"), f"r69_{name}"], ()) for name in (*ORDER, *LATE, *TOLD)},
    "two_contexts": Program([str(UNIT / "stream_order_dlsym_test"),
                             "r69_default_streams_that_are_numbered_within_a_context_are_two"], ()),
    "refused": Program([str(UNIT / "errors_gpa_test"), "r01_r26_r103_a_question_that_is_refused_says_nothing_about_the_work"], ()),
    "default_stream": Program([str(UNIT / "hooks_dlsym_test"),
                               "r69_a_free_on_the_default_stream_joins_the_blocking_streams"], ()),
    "own_streams": Program([str(UNIT / "own_streams_dlsym_test"), "r69_own_streams_of_two_threads_are_two_streams"], ()),
    "late_stream": Program([str(UNIT / "hooks_dlsym_test"),
                            "r69_a_blocking_stream_that_comes_after_the_free_meets_it"], ()),
    "ending": Program([str(UNIT / "race_dlsym_test"), "r01_r26_a_context_that_is_being_ended_still_has_work"], ()),
    "ended": Program([str(UNIT / "race_dlsym_test"),
                      "r26_r76_mapped_memory_stays_until_the_work_of_its_context_is_over"], ()),
    "many_captures": Program([str(UNIT / "graphs_pins_dlsym_test"), "r12_any_number_of_captures_may_run_at_once"], ()),
    "free_beside_begin": Program([str(UNIT / "graphs_pins_dlsym_test"),
                                  "r12_a_free_beside_the_begin_of_a_capture_is_not_lost"], ()),
    "doomed_stream": Program([str(UNIT / "graphs_ends_dlsym_test"), "r80_a_stream_that_is_destroyed_ends_its_capture"], ()),
    "graph_room": Program([str(UNIT / "oom_gpa_test"), "r81_an_upload_of_a_graph_gets_what_heaps_can_spare"], ()),
    "peer_access": Program([str(UNIT / "bounds_dlsym_test"), "r30_access_to_a_peer_belongs_to_contexts"], ()),
    "unrecorded": Program([str(UNIT / "stream_order_dlsym_test"), "r69_what_cannot_be_recorded_is_not_handed_out"], ()),
    "many_contexts": Program([str(UNIT / "race_dlsym_test"), "r01_fences_cover_any_number_of_contexts"], ()),
    "many_pools": Program([str(UNIT / "bounds_dlsym_test"), "r81_what_any_pool_has_free_goes_before_a_request_is_refused"], ()),
    "destroyed_pool": Program([str(UNIT / "bounds_dlsym_test"), "r77_nor_does_it_keep_what_is_free_beside_a_live_block"], ()),
    "asked_in_vain": Program([str(UNIT / "graphs_pins_dlsym_test"), "r80_a_question_that_fails_means_captured"], ()),
    "own_graph": Program([str(UNIT / "graphs_ends_dlsym_test"),
                          "r80_a_capture_into_a_graph_of_the_programs_own_leaves_it_its_pins"], ()),
    "set_node": Program([str(UNIT / "graphs_ends_dlsym_test"),
                         "r80_a_node_that_named_nothing_gives_back_what_it_was_set_to"], ()),
    "moved_child": Program([str(UNIT / "graphs_ends_dlsym_test"), "r80_a_child_that_was_moved_ends_with_its_parent"], ()),
    "inner_node": Program([str(UNIT / "graphs_ends_dlsym_test"),
                           "r80_a_node_inside_of_a_child_gives_back_what_it_was_set_to"], ()),
    "set_clone": Program([str(UNIT / "graphs_ends_dlsym_test"),
                          "r80_setting_a_node_changes_nothing_of_the_clone"], ()),
    "pool_with_pins": Program([str(UNIT / "corners_dlsym_test"), "r01_r77_a_destroyed_pool_keeps_what_work_is_pending_on"], ()),
    "idle_end": Program([str(UNIT / "race_dlsym_test"), "r01_r26_the_end_of_an_idle_context_holds_nothing_up"], ()),
    "busy_end": Program([str(UNIT / "race_dlsym_test"),
                         "r01_r26_the_end_of_a_busy_context_holds_up_what_its_work_may_name"], ()),
    "end_and_growth": Program([str(UNIT / "race_dlsym_test"),
                               "r104_nobody_waits_for_another_threads_end_of_a_context_while_growth_serves"], ()),
    "end_and_memory": Program([str(UNIT / "race_dlsym_test"),
                               "r104_nobody_waits_for_another_threads_end_of_a_context_while_memory_is_free_elsewhere"], ()),
    "free_beside_capture": Program([str(UNIT / "quiet_dlsym_test"), "r61_r75_a_free_waits_while_another_thread_captures"], ()),
    "drift": Program([str(UNIT / "hints_drift_dlsym_test"),
                      "r57_r109_what_drifts_is_not_released_and_what_comes_before_and_after_it_is"], ()),
    **{f"event_{where}": Program([str(UNIT / "hints_events_dlsym_test"),
                                  f"r57_storage_waits_for_work_before_the_event_on_{where}"], ()) for where in EVENT},
    "poison": Program([str(UNIT / "hints_poison_dlsym_test"),
                       "r57_a_write_before_the_edge_that_is_queued_still_is_not_late"], ()),
    **{name: Program([str(UNIT / "underway_dlsym_test"), f"r66_{test}"], ()) for name, test in {
        "in_progress": "what_a_call_in_progress_names_stays_until_the_device_has_its_work",
        "stays_in": "what_may_go_out_stays_in_while_a_call_is_in_progress"}.items()},
    "held": Program([str(UNIT / "hints_hold_dlsym_test"), "r57_a_held_block_outlives_late_work_on_the_stream_api"], ()),
    "ends": Program([str(UNIT / "hints_meta_dlsym_test"), "r110_the_end_of_a_block_is_not_the_next_one_in_live"], ()),
    "shared": Program([str(UNIT / "hints_alias_dlsym_test"),
                       "r57_a_small_released_block_faults_while_its_storage_serves_others"], ()),
    "shared_late": Program([str(UNIT / "hints_alias_dlsym_test"),
                            "r57_storage_is_nobody_elses_before_every_stream_is_past_the_edge"], ()),
    **{name: Program(["sh", "-c", 'timeout 10 "$0" "$1" || { echo it hangs; exit 1; }', str(UNIT / "stalls_dlsym_test"), name], ())
       for name in (*EARLY, *BESIDE, *AT_ONCE, *STALL)},
    "old_driver": Program(["env", f"LD_LIBRARY_PATH={OLD_DRIVER}", "SIMCUDA_VERSION=12040", "SIMCUDA_DEVICES=2", "sh", "-c",
                           'timeout 10 "$0" "$1" || { echo it hangs; exit 1; }',
                           str(UNIT / "devices_dlsym_test"), "r01_a_copy_between_peers_is_waited_for"], ()),
    "host_flag": Program(["sh", "-c", 'timeout 10 "$0" "$1" || { echo it hangs; exit 1; }',
                          str(UNIT / "bounds_dlsym_test"), "r104_a_request_does_not_wait_for_the_host"], ()),
    "many_streams": Program(["env", "SIMCUDA_SCHED=eager", str(UNIT / "bounds_dlsym_test"), "r107_streams_that_have_gone_leave_nothing_behind"], ()),
    "stalled": Program([str(UNIT / "bounds_dlsym_test"), "r104_nobody_waits_for_many_pools_of_a_stream_that_is_stalled"], ()),
    "switched_off": Script([str(SOURCE / "tests" / "preload" / "off_is_off.sh")], ()),
}

# How a run can go wrong: exit status and what it says.
ORACLE = (86, r"^.*ORACLE: ")
FAULT = (3, r"\(700\)")
SPOILT = (3, r"\(901\)")
STALE = (1, r"^stale losses: [1-9]")
SUM = (1, r"^wrong sum ")
FOREIGN = (1, r"^another tenant's bytes: [1-9]")
HANGS = (1, r"^it hangs")
RED = (1, r"^FAILED \w+|CHECK.*failed|off differs from no kedge in its calls")
# word -> how it shows, and where. Every one of these workloads must show it on some seed.
MUTATIONS = {
    "fence": (ORACLE, ["streams_sync", "streams_stream", "threads_sync", "threads_stream"]), # R4: in each multi-stream scenario
    "epoch": (ORACLE, ["streams_sync", "threads_sync"]),
    "point": (ORACLE, ["streams_stream", "threads_stream"]),
    "least": (ORACLE, ["streams_stream", "threads_stream"]),
    "cut": (ORACLE, ["streams_stream"]),
    "drop": (ORACLE, ["streams_stream", "threads_stream"]),
    "wait": (ORACLE, ["streams_stream", "threads_stream"]),
    "adopt": (ORACLE, ["streams_stream"]),
    "behind": (ORACLE, ["streams_stream"]),
    "record": (ORACLE, ["by_launch", "by_graph"]),
    "turn": (ORACLE, ["record_flight"]),
    "stream": (ORACLE, ["streams_stream", "threads_stream"]),
    "thread-stream": (ORACLE, ["streams_stream"]),
    "ptsz": (ORACLE, ["own_streams"]),
    "owner": (ORACLE, ["streams_stream"]),
    "stream-gone": (ORACLE, ["short_streams"]),
    "contexts": (ORACLE, ["two_devices"]),
    "reach": (ORACLE, ["two_devices"]),
    "barrier": (STALE, ["loop_sync"]),
    "barrier-beside": (RED, ["free_beside_capture"]),
    "young": (RED, ["idle_end", "busy_end"]),
    "leave": (RED, ["pool_with_pins"]),
    "grace": (FAULT, ["late_use"]),
    "reader": (FAULT, ["late_use"]),
    "touch": (FAULT, ["sot_touch"]),
    "limbo": (FAULT, ["sot_released", *LIMBO]), # the words epoch and fence, where a hint released something
    "limbo-device": (FAULT, ["limbo_device"]), # the word contexts likewise
    "limbo-old": (FAULT, [f"old_{name}" for name in LIMBO]), # the word drain likewise
    "limbo-event": (RED, [f"event_{where}" for where in EVENT if where != FAR_EVENT]), # the word point, for wait: event
    "limbo-far-event": (RED, [f"event_{FAR_EVENT}"]), # the word epoch likewise
    "gate-fence": (SPOILT, ["graphs_sync"]),
    "gate-flight": (SPOILT, ["fence_flight"]),
    "gate-memory": (ORACLE, ["graph_memory"]), # the words gate-fence and quarantine, on the stream API
    "quarantine": (ORACLE, ["freed_capture"]),
    "capture-end": (RED, ["many_captures"]),
    "ninth": (RED, ["many_captures"]),
    "capture-gone": (RED, ["doomed_stream"]),
    "again": (RED, ["graph_room"]),
    "peers": (RED, ["peer_access"]),
    "refused": (RED, ["unrecorded"]),
    "many-contexts": (RED, ["many_contexts"]),
    "heaps": (RED, ["many_pools"]),
    "destroyed": (RED, ["destroyed_pool"]),
    "capture-begin": (RED, ["free_beside_begin"]),
    "capture-asked": (RED, ["asked_in_vain"]),
    "own-graph": (RED, ["own_graph"]),
    "node": (RED, ["set_node"]),
    "inner-graph": (RED, ["moved_child", "inner_node"]),
    "clone": (RED, ["set_clone"]),
    "pin": (FAULT, ["moved_graph"]),
    "shown": (FOREIGN, ["shown"]),
    "vacate": (ORACLE, ["aliased"]),
    "unmap": (FAULT, ["aliased"]),
    "uses": (FAULT, ["evict_sync", "evict_stream", "evict_clean"]),
    "copy": (FAULT, ["evict_sync", "evict_stream"]),
    "arrive": (SUM, ["evict_sync", "evict_stream"]),
    "stay": (FAULT, ["evict_stay"]),
    "expect": (RED, ["drift"]),
    "poison": (RED, ["poison"]),
    "hold": (ORACLE, ["held"]),
    "parts": (RED, ["shared"]),
    "gap": (RED, ["ends"]),
    "underway": (RED, ["in_progress", "stays_in"]),
    "limbo-alias": (((1, 86), RED[1] + "|" + ORACLE[1]), ["shared_late"]), # the words epoch and fence, for backend: alias
    "callback": (RED, ["host_function", "host_node"]),
    "off": (RED, ["switched_off"]),
    "operation": (RED, ["default_stream", "late_stream", *ORDER, *LATE]),
    "meeting": (RED, ["default_stream", "late_stream", *TOLD]),
    "second": (RED, ["late_stream", *LATE]),
    "notice": (RED, TOLD),
    "quick-stream": (ORACLE, ["streams_stream", "streams_recorded"]),
    "freeze": (RED, ["sticky"]),
    "patience": (RED, ["stalled"]),
    "quiet": (HANGS, ["host_flag"]),
    "ends": (RED, ["end_and_growth", "end_and_memory"]),
    "gone": (RED, ["many_streams"]),
    "early": (HANGS, EARLY),
    "beside": (HANGS, BESIDE),
    "at-once": (HANGS, AT_ONCE),
    "stall": (HANGS, STALL),
    "held-up": (HANGS, ["old_driver"]),
    "asked": (RED, ["refused"]),
    "numbers": (RED, ["two_contexts"]),
    "ending": (RED, ["ending"]),
    "early-end": (RED, ["ended"]),
}
# Where random programs show it, in which arrangement (tests/oracle): the oracle, a fault, a code that cannot be, stale data.
WRONG = ((1, 3, 86, 139), r"ORACLE: |illegal address|stale: |wrong: |\((1|901)\)$|ended with status 139$")
IN_SEEDS = {
    "fence": ["plain", "tight", "late", "threads"],
    "epoch": ["plain", "hints"],
    "point": ["plain", "late"],
    "least": ["plain"],
    "cut": ["plain"],
    "drop": ["plain"],
    "wait": ["plain"],
    "adopt": ["plain"],
    "behind": ["plain"],
    "split": ["plain"],
    "whole": ["plain"],
    "stream": ["plain"],
    "thread-stream": ["plain"],
    "owner": ["late"],
    "contexts": ["plain", "late"],
    "reach": ["late"],
    "plain-free": ["late"],
    "drain": ["old"],
    "context-gone": ["plain"],
    "move": ["eager", "moves"],
    "alias": ["eager"],
    "vacate": ["eager"],
    "unmap": ["eager"],
    "gate-fence": ["plain"],
    "uses": ["evict"],
    "copy": ["evict"],
    "arrive": ["evict"],
    "readv": ["evict"],
    "unhooked": ["dense"],
    # bugs that others have had in public: public_bugs.md
    "handle": ["plain"],
    "taken": ["plain"],
    "over": ["dense"],
    "current": ["dense"],
    "undone": ["dense-mapped"],
    "books": ["dense-hints"],
    "used": ["dense"],
    "unknown": ["dense"],
    "halfway": ["dense"],
    "put": ["dense"],
}
# Pins keep what captured calls name although nobody knows of the capture, so both are off for gate-memory. The operation that an
# allocation or a free on the legacy stream is orders the threads' own streams too, so it is off where those are taken for it. So does
# the event that it gets when they come, which is off with the operation, and with the first stream.
WORDS = {"limbo": ("epoch", "fence"), "limbo-alias": ("epoch", "fence"), "limbo-device": ("contexts",), "limbo-old": ("drain",), "limbo-event": ("point",),
         "limbo-far-event": ("epoch",), "gate-memory": ("gate-fence,quarantine",), "ptsz": ("ptsz,operation",),
         "operation": ("operation,early",), "second": ("second,early",)}


def shows(done, how):
    codes = how[0] if isinstance(how[0], tuple) else (how[0],)
    return done.returncode in codes and re.search(how[1], done.stdout, re.M) is not None


def clean(workload, library, order, **more):
    """A run in which nothing goes wrong."""
    done = workload.run(library, order, **more)
    wrong = [how[1] for how in (ORACLE, FAULT, SPOILT, STALE, SUM, FOREIGN) if re.search(how[1], done.stdout, re.M)]
    if done.returncode != workload.ends or wrong:
        print(done.stdout[-3000:])
        fail(f"{workload.command}, {order}, {library.name}: exit {done.returncode}, wanted {workload.ends} {wrong}")


def places(name):
    """(how it shows, workload, what that is called) of everything that must show the mutation."""
    how, workloads = MUTATIONS.get(name, (None, []))
    yield from ((how, (WORKLOADS | PROGRAMS)[w], w) for w in workloads)
    yield from ((WRONG, Seeds(a, ()), f"seeds, {a}") for a in IN_SEEDS.get(name, ()))


def without(name):
    needs(LIBRARY, MUTANT)
    for word in WORDS.get(name, (name,)):
        for how, workload, where in places(name):
            for tries, order in enumerate(TRIES, 1):
                done = workload.run(MUTANT, order, TEST_KEDGE_MUTATE=word)
                if shows(done, how):
                    line = next(line for line in done.stdout.splitlines() if re.search(how[1], line))
                    print(f"without {word}, {where}, try {tries}, {order}: exit {done.returncode}: {line[:150]}")
                    clean(workload, LIBRARY, order)
                    break
            else:
                print(done.stdout[-2000:])
                fail(f"without {word}, {where}: right on all of {len(TRIES)} tries, so nobody needs it or nobody sees it")


def figures(path):
    if not path.exists():
        return {}
    return {k: int(v) for k, v in (line.split() for line in path.read_text(encoding="utf-8").splitlines())}


def untouched(name):
    """The library that ships on every seed; then the mutant with no word, which is the same and can count."""
    workload = WORKLOADS[name]
    total = {}
    needs(LIBRARY, MUTANT)
    for order in ORDERS:
        path = pathlib.Path("figures").absolute()
        path.unlink(missing_ok=True)
        for library, more in ((LIBRARY, {}), (MUTANT, {"TEST_KEDGE_FIGURES": path})):
            clean(workload, library, order, **more)
        found = figures(path)
        same(f"{name}, {order}: faults", found.get("faults", 0), 0)
        same(f"{name}, {order}: captures invalidated", found.get("captures_invalidated", 0), 0)
        for key, value in found.items():
            total[key] = total.get(key, 0) + value
    print(f"{name}, {len(ORDERS)} orders: " + ", ".join(f"{k} {v}" for k, v in total.items()))
    for floor in workload.floors:
        check(total.get(floor, 0) > 0, f"{name} exercised no {floor}")


def every_mutation_has_a_test():
    """The table in mutant.def, the tests here, and the enum in alloc/base/mutation.h name the same things."""
    text = (SOURCE / "tests" / "mutation" / "mutant.def").read_text(encoding="utf-8")
    words = re.findall(r'^MUTATION\(\w+,\s*"([\w-]+)"\)', text, re.M)
    used = {w for name in {**MUTATIONS, **IN_SEEDS} for words_of in WORDS.get(name, (name,)) for w in words_of.split(",")}
    same("words of mutant.def and tests", sorted(used), sorted(words))
    same("arrangements of seeds", sorted({a for places_of in IN_SEEDS.values() for a in places_of} - set(ARRANGEMENTS)), [])
    same("workloads and tests", sorted({w for _, ws in MUTATIONS.values() for w in ws} | {"graphs_stream"}),
         sorted(WORKLOADS | PROGRAMS))
    ours = (SOURCE / "tests" / "mutation" / "mutant.c").read_text(encoding="utf-8")
    for bit in re.findall(r"^ +(POOL_MUTATE_\w+)", (SOURCE / "alloc" / "base" / "mutation.h").read_text(encoding="utf-8"), re.M):
        check(f"= {bit}," in ours, f"{bit} of alloc/base/mutation.h is never switched off")
    listed = (SOURCE / "tests" / "mutation" / "CMakeLists.txt").read_text(encoding="utf-8")
    same("mutations in CMakeLists.txt and here", sorted(re.findall(r"\br\d\w*:([\w-]+)", listed)), sorted({**MUTATIONS, **IN_SEEDS}))
    listed = re.search(r"foreach\(workload ([^)]*)\)", listed).group(1)
    same("workloads in CMakeLists.txt and here", sorted(listed.split()), sorted(WORKLOADS))
    # And a word that does not exist is refused, else a test of it would prove nothing.
    done = WORKLOADS["streams_sync"].run(MUTANT, ORDERS[0], TEST_KEDGE_MUTATE="no-such-word")
    same("an unknown word", done.returncode, 2)


CASES = {f"without.{name}": functools.partial(without, name) for name in {**MUTATIONS, **IN_SEEDS}}
CASES.update({f"untouched.{name}": functools.partial(untouched, name) for name in WORKLOADS})

if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join([*CASES, "every_mutation_has_a_test"]))
        sys.exit(os.EX_OK)
    main(every_mutation_has_a_test, **CASES)
