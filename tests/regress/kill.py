#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kill -9 at any moment: the capture is complete, because the live table itself lies in the file.

The program's own books (books.c) say what it held. The capture may differ by operations that were under way when the
kill came, one for each thread, and by nothing else.
"""
import itertools
import mmap
import os
import pathlib
import signal
import struct
import subprocess
import time

from regresskit import BUILD, KEDGE, SOT, check, environment, expect_ledger, fail, human, main, tool, tool_json

PROGRAM = BUILD / "tests" / "regress" / "books"
BOOKS = struct.Struct("<qqqq96x")
KILLS = 12


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
            time.sleep(0.001)
        os.kill(child_of(family.pid), signal.SIGKILL)
        family.wait(timeout=60)


def explained(difference, pendings):
    """Is the difference the sum of some of the operations under way?"""
    return any(sum(c) == difference for n in range(len(pendings) + 1) for c in itertools.combinations(pendings, n))


def killed(entrance, mode):
    threads = 4
    for kill in range(KILLS):
        pathlib.Path("books").unlink(missing_ok=True)
        capture = f"kill{kill}.kcap"
        wanted = 50 * 3 ** (kill % 7) # from the first allocations to deep into the run

        def ready():
            try:
                return sum(b[3] for b in read_books("books", threads)) >= wanted
            except (OSError, ValueError, struct.error):
                return False

        kill_when((PROGRAM, "books", threads, entrance), capture, ready, KEDGE_MODE=mode)
        books = read_books("books", threads)
        j = tool_json("report", capture)
        pendings = [b[2] for b in books if b[2]]
        held, blocks = sum(b[0] for b in books), sum(b[1] for b in books)
        # An operation can be in the capture and not yet in the books (done), or in neither (not begun). It is never in
        # the books alone, because the program writes after the call.
        check(explained(j["remaining_bytes"] - held, pendings),
              f"kill {kill}: capture has {j['remaining_bytes']} live bytes, the program {held}, under way: {pendings}")
        live = j["allocated_count"] - j["freed_count"]
        check(explained(live - blocks, [1 if p > 0 else -1 for p in pendings]),
              f"kill {kill}: capture has {live} live blocks, the program {blocks}, under way: {pendings}")
        print(f"kill {kill}: {sum(b[3] for b in books)} operations, {human(held)} in {blocks} blocks, "
              f"{len(pendings)} under way")


def capture_is_complete_on_the_sync_entrance():
    killed("sync", "pool")


def capture_is_complete_on_the_stream_entrance():
    killed("stream", "pool")


def capture_is_complete_when_only_tracking():
    killed("sync", "track")


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
    main(capture_is_complete_on_the_sync_entrance, capture_is_complete_on_the_stream_entrance,
         capture_is_complete_when_only_tracking, a_paused_trainer_is_reported_to_the_byte)
