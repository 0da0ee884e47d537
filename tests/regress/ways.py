#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is recorded does not depend on the way that requests took through the hooks (preload/request/quick.h).

The same program three times: as it is, where most requests go the short way; with a hint that has to be asked about each request
and matches none, so that the stack comes before the pool; and with a library whose short way stays closed, which is
libkedge_mutant.so without a safety device that this program does not use. Everything in the captures that is no time and no
setting must be equal: events with their numbers, stacks and counts, the live table, totals, places, calls of hooks. That the
ways differ shows in what the driver was asked: on a stream the short way asks one question a call.
"""
import functools
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "replay"))
sys.dont_write_bytecode = True
import kcap # pylint: disable=wrong-import-position
from regresskit import BUILD, LIBRARY, SIM, check, main, needs, run, same # pylint: disable=wrong-import-position

PROGRAM = BUILD / "tests" / "bench" / "hot_pair"
MUTANT = BUILD / "tests" / "mutation" / "libkedge_mutant.so"
PAIRS = 3000 # several turns of the long way that each thread takes now and then
ENTRANCES = ("sync", "stream", "pool", "side")
HINT = """kedge-hints: 1
hints:
  - id: matches-nothing
    do: release
    pick: {size: ">=1", inside: "NOWHERE", nth: all}
    when: {anchor: "NOWHERE", edge: exit}
"""
# Lines to compare, and the places in them of the time, and of a stream, whose handle is another one in each process.
LINES = {"event": (3, 9), "live": (5, 4), "high": (3, None), "place": None, "total": None, "device": None, "class": None, "node": None,
         "lost": None, "unplaced": None, "coverage": None, "gpu": None}


def facts(path):
    kept = []
    for line in kcap.Capture(path).all():
        words = line.split(" ")
        if words[0] not in LINES:
            continue
        time, stream = LINES[words[0]] or (None, None)
        if time:
            words[time] = "-"
        if stream and int(words[stream]) > 2: # 0 none, 1 and 2 the default ones
            words[stream] = "stream"
        kept.append(" ".join(words))
    return kept


def recorded(name, entrance, library=LIBRARY, **settings):
    """(what the capture of a run says, questions that the driver was asked in its loop)."""
    path = pathlib.Path(f"{name}.kcap").absolute()
    path.unlink(missing_ok=True)
    out = run(PROGRAM, entrance, 100, "mixed", PAIRS, LD_LIBRARY_PATH=SIM, LD_PRELOAD=library, KEDGE_CAPTURE=path,
              KEDGE_TRACE="full", KEDGE_SYNC_FREE=0, KEDGE_POOL="chunk=64M", SIMCUDA_GRANULARITY="64M", **settings).stdout
    return facts(path), sum(map(int, re.findall(r"\bcu(?:CtxGetCurrent|StreamGetId)=(\d+)", out)))


def the_record_is_the_same(entrance):
    needs(PROGRAM, LIBRARY, MUTANT)
    hints = pathlib.Path("nothing.yaml").absolute()
    hints.write_text(HINT, encoding="utf-8")
    short, few = recorded("short", entrance)
    asked, _ = recorded("asked", entrance, KEDGE_HINTS=hints)
    long, many = recorded("long", entrance, library=MUTANT, TEST_KEDGE_MUTATE="poison")
    print(f"{entrance}: {len(short)} facts; questions in {PAIRS} pairs: {few} on the short way, {many} on the long one")
    check(sum(line.startswith("event 1 ") for line in short) >= PAIRS, "the loop is not in the capture")
    if entrance in ("stream", "pool", "side"):
        check(few <= 2.1 * PAIRS < 4 * PAIRS <= many, f"the ways were not two: {few} and {many} questions")
    for name, other in (("asked", asked), ("long", long)):
        for pair in zip(short, other):
            if not same(f"short and {name}", *pair):
                break
        same("facts", len(short), len(other))


CASES = {f"on_{entrance}": functools.partial(the_record_is_the_same, entrance) for entrance in ENTRANCES}

if __name__ == "__main__":
    main(**CASES)
