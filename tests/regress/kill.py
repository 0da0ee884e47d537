#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kill -9 at any moment: the capture is complete, because the live table itself lies in the file.

The program's own books (books.c) say what it held. The capture may differ by operations that were under way when the
kill came, one for each thread, and by nothing else.
"""
import itertools
import math
import mmap
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time
from random import Random

from regresskit import BUILD, KEDGE, SOT, SOURCE, check, environment, expect_ledger, fail, human, main, tool, tool_json

sys.path.append(str(SOURCE / "tests" / "replay"))
import kcap # a reader made from FORMAT.md alone

PROGRAM = BUILD / "tests" / "regress" / "books"
BOOKS = struct.Struct("<qqqq96x")
KILLS = 37 # in each of the seven cases: 203 captures at least, since every fifth kill may come before there is one
THREADS = 4
OPERATIONS_MOST = 200000 # a ring of 1 MB has begun anew by then
AFTER_MOST = 0.003 # seconds
START_MOST = 0.05


def read_books(path, threads):
    with open(path, "rb") as f:
        with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            return [BOOKS.unpack_from(m, i * BOOKS.size) for i in range(threads)]


def child_of(pid):
    """kedge run may exec the program or stay above it; the program is the last of the line."""
    while True:
        try:
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        except OSError:
            return pid
        if not children:
            return pid
        pid = int(children[0])


def kill_when(command, capture, ready, **env):
    """Runs the program under kedge, kills it once ready() is true, and waits for the whole family."""
    with open("out.txt", "w", encoding="utf-8") as out:
        family = subprocess.Popen([str(KEDGE), "run", "--sim", "--capture", capture, "--", *map(str, command)],
                                  stdout=out, stderr=subprocess.STDOUT, env=environment(**env))
        deadline = time.monotonic() + 60
        while not ready():
            if family.poll() is not None or time.monotonic() > deadline:
                print(pathlib.Path("out.txt").read_text(encoding="utf-8")[-2000:])
                fail(f"{command[0]} ended or hung before it could be killed")
                family.kill()
                raise SystemExit(1)
            time.sleep(0.0002)
        os.kill(child_of(family.pid), signal.SIGKILL)
        family.wait(timeout=60)


def explained(difference, pendings):
    """Is the difference the sum of some of the operations under way?"""
    return any(sum(c) == difference for n in range(len(pendings) + 1) for c in itertools.combinations(pendings, n))


def live_table(path):
    """The sizes in a capture's live table, read as FORMAT.md says. Of two slots with one address the newer one counts."""
    capture = kcap.Capture(path)
    capture.definitions()
    capture.lines.clear()
    capture.live()
    slots = (line.split() for line in capture.lines) # in the order of seq
    return {address: int(size) for kind, _, address, size, *_ in slots if kind == "live"}.values()


def moment(random, kill):
    """ready() that is true when a random number of operations is done and a random time has passed since. Every fifth time
    counts from the start of the program, which may not have come to its first operation then."""
    wanted = int(math.exp(random.uniform(0, math.log(OPERATIONS_MOST)))) if kill % 5 else 0
    after = random.uniform(0, AFTER_MOST if wanted else START_MOST)

    def ready():
        try:
            if wanted and sum(b[3] for b in read_books("books", THREADS)) < wanted:
                return False
        except (OSError, ValueError, struct.error):
            return False
        time.sleep(after)
        return True

    return ready


def killed(entrance, mode, trace):
    """KILLS captures of a program that was killed, each against the program's own books."""
    # Each moment can be had again, as near as threads allow: KILL_SEED=... on the test's command line.
    seed = os.environ.get("KILL_SEED") or str(int.from_bytes(os.urandom(6), "big"))
    print(f"KILL_SEED={seed}")
    random = Random(f"{seed} {entrance} {mode} {trace}")
    caught = began = 0
    for kill in range(KILLS):
        pathlib.Path("books").unlink(missing_ok=True)
        capture = f"kill{kill}.kcap"
        kill_when((PROGRAM, "books", THREADS, entrance), capture, moment(random, kill), KEDGE_MODE=mode, KEDGE_TRACE=trace)
        try:
            books = read_books("books", THREADS)
        except (OSError, ValueError):
            books = [(0, 0, 0, 0)] * THREADS # killed before it had any
        pendings = [b[2] for b in books if b[2]]
        held, blocks, operations = (sum(b[i] for b in books) for i in (0, 1, 3))
        if not pathlib.Path(capture).exists():
            # The first operation of a program makes the file: none is done yet.
            check(operations == 0, f"kill {kill}: no capture after {operations} operations")
            print(f"kill {kill}: before there was a capture")
            continue
        j = tool_json("report", capture) # whatever is there can be read
        check(j["damaged"] == [], f"kill {kill}: what a kill leaves is called damage: {j['damaged']}")
        table = live_table(capture)
        # An operation can be in the capture and not yet in the books (done), or in neither (not begun). It is never in
        # the books alone, because the program writes after the call. Bytes and blocks are two stores in the books and in
        # the totals, so a kill in between leaves an operation in one of them.
        for what, live_bytes, live in (("report", j["remaining_bytes"], j["allocated_count"] - j["freed_count"]),
                                       ("live table", sum(table), len(table))):
            check(explained(live_bytes - held, pendings),
                  f"kill {kill}: {what} has {live_bytes} live bytes, the program {held}, under way: {pendings}")
            check(explained(live - blocks, [1 if p > 0 else -1 for p in pendings]),
                  f"kill {kill}: {what} has {live} live blocks, the program {blocks}, under way: {pendings}")
        print(f"kill {kill}: {operations} operations, {human(held)} in {blocks} blocks, {len(pendings)} under way")
        began += operations > 0
        caught += bool(pendings)
    # Else the figures above would say little.
    check(began > KILLS // 2, f"only {began} of {KILLS} kills came behind the first operation")
    check(caught > 0, "no kill came while an operation was under way")


def capture_is_complete_on_the_sync_entrance_with_a_full_log():
    killed("sync", "pool", "full")


def capture_is_complete_on_the_sync_entrance_with_a_ring():
    killed("sync", "pool", "ring,mb=1")


def capture_is_complete_on_the_sync_entrance_with_places_only():
    killed("sync", "pool", "agg")


def capture_is_complete_on_the_stream_entrance_with_a_full_log():
    killed("stream", "pool", "full")


def capture_is_complete_on_the_stream_entrance_with_a_ring():
    killed("stream", "pool", "ring,mb=1")


def capture_is_complete_on_the_stream_entrance_with_places_only():
    killed("stream", "pool", "agg")


def capture_is_complete_when_only_tracking():
    killed("sync", "track", "full")


def a_paused_trainer_is_reported_to_the_byte():
    """The full graph, killed while it stands still in the middle: nothing is under way, so every figure is exact."""
    for form, entrance in (("pir", "sync"), ("pt", "stream")):
        capture = f"{form}.kcap"
        command = (SOT, "--form", form, "--graph", "full", "--entrance", entrance, "--pause-at", "SOT_CALL_200",
                   "--ledger", "sot.books")
        kill_when(command, capture, lambda: "PAUSED" in pathlib.Path("out.txt").read_text(encoding="utf-8"))
        names = ("allocs", "frees", "allocated", "freed", "live", "peak")
        books = dict(zip(names, struct.unpack_from("<6Q", pathlib.Path("sot.books").read_bytes())))
        check(books["live"] > 1 << 30, f"only {books['live']} bytes were live in the middle")
        expect_ledger(tool_json("report", capture), books, f"{form}, killed")
        text = tool("report", capture)
        check("contiguous_copy" in text or "alloc_output" in text, "the report has no stack of the trainer")


if __name__ == "__main__":
    main(capture_is_complete_on_the_sync_entrance_with_a_full_log,
         capture_is_complete_on_the_sync_entrance_with_a_ring,
         capture_is_complete_on_the_sync_entrance_with_places_only,
         capture_is_complete_on_the_stream_entrance_with_a_full_log,
         capture_is_complete_on_the_stream_entrance_with_a_ring,
         capture_is_complete_on_the_stream_entrance_with_places_only,
         capture_is_complete_when_only_tracking,
         a_paused_trainer_is_reported_to_the_byte)
