#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a pair of allocation and free costs when everything is written down: native stack, live table, places, all events.

In instructions, and as a multiple of one bare unw_backtrace of the same stack of 46 frames, both warm, counted in the same run:
the whole pair, hooks and pool included, is at most 1.5 of them, since a stack that was walked before is not walked again (2.0 with
64 stacks that take turns, since some are). `mixed` has blocks of many sizes that are cut and joined, as a training step has. `record`
is what of it kedge takes to know and to write down (where_am_i or its halves, capture_alloc, capture_free). `python` and `pyc` are
the same below 33 Python frames, whose stack is taken too, of code that was compiled in the process or read from a .pyc. The driver's
own instructions are left out. Unoptimised builds have no limit for the numbers.

Exit 0, 1, or 77 with the reason."""
import os
import pathlib
import py_compile
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
sys.dont_write_bytecode = True
import callgrind # pylint: disable=wrong-import-position
from hot import is_optimised # pylint: disable=wrong-import-position
from regresskit import BUILD, LIBRARY, SIM, check, environment, failures, skip # pylint: disable=wrong-import-position

PROGRAM = BUILD / "tests" / "bench" / "record_pair"
DEEP = BUILD / "tests" / "bench" / "librecord_deep.so"
LIMIT = 1.5
# Of many stacks from one stack pointer some are walked again. Which share a place among the remembered ones depends on where the
# stack lies, which the environment's size decides: with four of them 0.07 to 0.25 of the walks, and 1.09 to 1.55 in all.
LIMIT_OF_MANY, WALKED = 2.0, 0.5
USES_LIMIT = 150 # what recorded uses cost a pair
RECORD = ("where_am_i", "where_begin", "where_end", "capture_alloc", "capture_free")
FRAMES = 46
PYTHON_FRAMES = 33
# 33 frames of Python, each of another function, then native ones up to FRAMES.
MODULE = "import ctypes, sys\nlibrary = ctypes.CDLL(sys.argv[1])\n" + "".join(f"""
def down_{level}():
    return down_{level + 1}()
""" for level in range(1, PYTHON_FRAMES - 1)) + f"""
def down_{PYTHON_FRAMES - 1}():
    return library.record_deep(sys.argv[2].encode(), int(sys.argv[3]), ctypes.c_long(int(sys.argv[4])))
"""
SCRIPTS = {"python": MODULE + "\ndown_1()\n", "pyc": "import sys; sys.path.insert(0, sys.argv[5]); import deep; deep.down_1()"}
FILE_NAME = 64 # characters of the file's name in the code of a .pyc, wherever this runs: they are looked at
PAIRS = 4096 # several turns of the long way that each thread takes now and then
# allocation API, stacks that take turns, what is recorded
CASES = [("stream", 1, "full,uses=off"), ("python", 1, "full,uses=off"), ("pyc", 1, "full,uses=off"),
         ("stream", 1, "full"), ("sync", 1, "full"), ("stream", 64, "full"), ("stream", 1, "ring"), ("stream", 1, "agg"), ("mixed", 1, "ring"),
         ("python", 1, "full"), ("python", 64, "full"), ("pyc", 1, "full"), ("pyc", 64, "full")]


def cost(entrance, stacks, trace, **more):
    """Instructions: of a bare unwinding, of a pair's record, of its unwinding, of the whole pair."""
    path = pathlib.Path("callgrind.out").absolute()
    capture = pathlib.Path("record.kcap")
    capture.unlink(missing_ok=True)
    env = environment(LD_LIBRARY_PATH=SIM, LD_PRELOAD=LIBRARY, KEDGE_TRACE=trace, KEDGE_STACKS="auto",
                      KEDGE_CAPTURE=capture.absolute(), KEDGE_SYNC_FREE=0, **more)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        source = pathlib.Path(folder, "d" * (FILE_NAME - len(folder) - len("//deep.py")), "deep.py")
        source.parent.mkdir()
        source.write_text(MODULE, encoding="utf-8")
        py_compile.compile(str(source), doraise=True)
        check(len(str(source)) == FILE_NAME, f"{source} has {len(str(source))} characters")
        command = [PROGRAM, entrance, stacks, PAIRS]
        if entrance in SCRIPTS:
            command = [os.path.realpath(sys.executable), "-c", SCRIPTS[entrance], DEEP, "stream", stacks, PAIRS, source.parent]
        out, own, calls = callgrind.count(command, path, env)
    path.unlink()
    found = re.search(r"^frames (\d+) pairs (\d+)$", out, re.M)
    check(found and int(found[1]) == FRAMES, f"the stack has {found and found[1]} frames, not {FRAMES}")
    bare = sum(n for (_, fn, to, _), n in calls.items() if fn == "bare" and "libunwind" in to)
    whole = callgrind.share(own, calls, "libkedge.so", "libcuda.so")
    record = sum(n for (ob, fn, _, to), n in calls.items() if "libkedge.so" in ob and to in RECORD and fn not in RECORD)
    walks = {fn: n for (ob, fn, _, to), n in calls.items() if "libkedge.so" in ob and to == "walk_tables"}
    unwound = sum(walks.values())
    record += sum(n for fn, n in walks.items() if fn not in RECORD)
    walked = sum(n for (_, _, _, to), n in calls.items() if to == "pystack_here")
    check((walked > 100 * PAIRS) == (entrance in SCRIPTS), f"{entrance}: {walked / PAIRS:.0f} instructions for Python's frames")
    begun = {fn: n for (ob, fn, _, to), n in calls.items() if "libkedge.so" in ob and to == "where_begin"}
    short = sum(begun.get(name, 0) for name in ("hooks_mem_alloc_placed",))
    check(short > 0.95 * sum(begun.values()), f"{entrance}: not on the short way: {begun}")
    check(capture.exists() and capture.stat().st_size > 0, "nothing was recorded")
    return bare / PAIRS, record / PAIRS, unwound / PAIRS, whole / PAIRS


def main():
    why = callgrind.available()
    if not PROGRAM.exists() or not LIBRARY.exists():
        skip("not built")
    if why:
        skip(why)
    print(f"{'entrance':10}{'stacks':>8}{'trace':>15}{'unwinding':>12}{'record':>10}{'ratio':>8}{'whole':>10}{'ratio':>8}")
    records = {}
    for entrance, stacks, trace in CASES:
        bare, record, unwound, whole = cost(entrance, stacks, trace)
        what = f"{entrance} {stacks} {trace}"
        records[what] = record
        if not check(bare > 0 and record > unwound, f"{what}: nothing was unwound or written"):
            continue
        check(unwound < (WALKED if stacks > 1 else 0.001) * bare, f"{what}: {unwound / bare:.3f} of the stacks were walked again")
        print(f"{entrance:10}{stacks:8}{trace:>15}{bare:12.0f}{record:10.0f}{record / bare:8.2f}{whole:10.0f}{whole / bare:8.2f}")
        limit = LIMIT_OF_MANY if stacks > 1 else LIMIT
        check(not is_optimised() or whole <= limit * bare, f"{what}: {whole / bare:.3f} bare unwindings, at most {limit}")
    for entrance in ("stream", "python", "pyc"):
        more = records[f"{entrance} 1 full"] - records[f"{entrance} 1 full,uses=off"]
        check(0 < more and (not is_optimised() or more <= USES_LIMIT), f"{entrance}: uses cost {more:.0f}, at most {USES_LIMIT}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
