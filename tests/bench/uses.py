#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What kedge adds to a submission, in instructions from the entry of the hook to its return: with use recording off, one load
and one branch (R66), whatever is asked for; with it on, so much a call and so much an address, without a malloc or a lock.
The driver's own instructions are left out, and so is the clock, which is asked once a call.

Unoptimised builds have no limit for the number itself. Exit 0, 1, or 77 with the reason."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
sys.dont_write_bytecode = True
import callgrind # pylint: disable=wrong-import-position
from hot import is_optimised # pylint: disable=wrong-import-position
from regresskit import BUILD, LIBRARY, SIM, check, environment, failures, skip # pylint: disable=wrong-import-position

PROGRAM = BUILD / "tests" / "bench" / "hot_launch"
CALLS = 2000
OFF_LIMIT = 56 # the load, the branch, the look at the stream; the rest hands eleven arguments on
SET_LIMIT = 300 # a call with one address
PARAMS_LIMIT = 380 # a kernel's three parameters, two of them addresses, beyond that
GRAPH_LIMIT = 450 # a launch of a graph that names two blocks
EVENT_LIMIT = 75 # an event that is recorded and waited for, which orders nothing
ORDER_LIMIT = 750 # which orders memory
SYSTEM_LIBRARIES = ("libc.so", "ld-linux", "vdso")


def instructions(call, live, uses):
    path = pathlib.Path(f"callgrind.{os.getpid()}.out").absolute()
    file = pathlib.Path(f"uses.{os.getpid()}.kcap").absolute()
    env = environment(LD_LIBRARY_PATH=SIM, LD_PRELOAD=LIBRARY, KEDGE_TRACE=f"agg,uses={uses}", KEDGE_STACKS="off",
                      KEDGE_ANCHORS="none", KEDGE_CAPTURE=file) # launches of graphs are anchors too
    file.unlink(missing_ok=True)
    _, own, calls = callgrind.count([PROGRAM, call, live, CALLS], path, env)
    path.unlink()
    file.unlink(missing_ok=True)
    mine = sum(n for (ob, _), n in own.items() if "libkedge.so" in ob)
    called = {to for (ob, _, there, to), n in calls.items() if "libkedge.so" in ob and any(s in there for s in SYSTEM_LIBRARIES)}
    return mine / CALLS, called


def main():
    limits = is_optimised()
    # a compiler that does not optimise clears a struct by a call
    harmless = ("clock_gettime",) if limits else ("clock_gettime", "memset", "memcpy")
    why = callgrind.available()
    if not PROGRAM.exists() or not LIBRARY.exists():
        skip("not built")
    if why:
        skip(why)
    on = {}
    print(f"{'call':8}{'live':>8}{'off':>8}{'on':>8}")
    for call, live in (("set", 100), ("sum", 100), ("copy", 100), ("graph", 100), ("set", 10000)):
        off, _ = instructions(call, live, "off")
        on[call, live], called = instructions(call, live, "on")
        print(f"{call:8}{live:8}{off:8.1f}{on[call, live]:8.1f}")
        check(not limits or off <= OFF_LIMIT, f"{call}: {off:.1f} instructions with uses off, at most {OFF_LIMIT}")
        check(off < on[call, live], f"{call}: recording uses costs nothing: is it on?")
        check(all(any(word in name for word in harmless) for name in called), f"{call}: calls {sorted(called)}")
    for call, limit in (("event", EVENT_LIMIT), ("order", ORDER_LIMIT)):
        off, called = instructions(call, 100, "off")
        print(f"{call:8}{100:8}{off:8.1f}")
        check(not limits or off <= limit, f"{call}: {off:.1f} instructions for a record and a wait, at most {limit}")
        check(all(any(word in name for word in harmless) for name in called), f"{call}: calls {sorted(called)}")
    check(not limits or on["set", 100] <= SET_LIMIT, f"a set: at most {SET_LIMIT} instructions")
    more = on["sum", 100] - on["set", 100]
    check(not limits or more <= PARAMS_LIMIT, f"parameters: {more:.1f}, at most {PARAMS_LIMIT}")
    check(not limits or on["graph", 100] <= GRAPH_LIMIT, f"a graph: at most {GRAPH_LIMIT} instructions")
    check(on["set", 10000] <= 1.2 * on["set", 100], "depends on the live blocks")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
