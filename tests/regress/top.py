#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: cmd_top.c top_process.c top_screen.c
"""`kedge top` beside programs that run on the simulated device, as text, as JSON and on the screen of a terminal."""
import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from contextlib import contextmanager

from regresskit import BUILD, KEDGE, SOT, check, environment, fail, main, run, same, tool_json

BOOKS = BUILD / "tests" / "regress" / "books"
AT = "SOT_CALL_100"
PAUSED = (SOT, "--form", "pt", "--graph", "full", "--entrance", "stream", "--pause-at", AT, "--ledger", "sot.books")
LEAVE = b"\033[?7h\033[?25h\033[?1049l" # as top_screen.c ends: wrap, cursor, the screen that was there before
THREADS = 4
# `kedge run` knows by which signal, and writes it behind the end: a last look may come before that
KILLED = ("killed, or ended without a word", "signal 9")
WAIT = 60 # seconds for what comes at once


def wait_until(ready, what):
    end = time.monotonic() + WAIT
    while not ready():
        if time.monotonic() > end:
            fail(f"{what}: not within {WAIT} s")
            raise SystemExit(1)
        time.sleep(0.01)


def program_below(pid):
    """kedge run may stay above the program."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(children[0]) if children else pid


@contextmanager
def program(*command, ready):
    """A program under kedge; gives kedge's process and the program's pid, and ends both."""
    pathlib.Path("x.kcap").unlink(missing_ok=True)
    with open("out.txt", "wb") as out:
        family = subprocess.Popen([str(KEDGE), "run", "--sim", "--capture", "x.kcap", "--", *map(str, command)], stdout=out,
                                  stderr=out, env=environment(), start_new_session=True)
    try:
        wait_until(ready, command[0])
        yield family, program_below(family.pid)
    finally:
        if family.poll() is None:
            os.killpg(family.pid, signal.SIGKILL)
        family.wait()


def is_paused():
    return "PAUSED" in pathlib.Path("out.txt").read_text(encoding="utf-8")


def is_at_work():
    """It has done some operations, and by then its capture is there."""
    return pathlib.Path("x.kcap").exists() and json.loads(once("x.kcap"))["allocated_count"] > 1000


def once(word, *options):
    return run(KEDGE, "top", word, "--once", "--json", *options).stdout


def has_ledger(look, what):
    """The figures of a look are those that the trainer wrote down itself."""
    names = ("allocs", "frees", "allocated", "freed", "live", "peak")
    books = dict(zip(names, struct.unpack_from("<6Q", pathlib.Path("sot.books").read_bytes())))
    check(books["live"] > 0, f"{what}: nothing is live")
    same(what, {key: look[field] for key, field in (
        ("allocs", "allocated_count"), ("frees", "freed_count"), ("allocated", "allocated_bytes"),
        ("freed", "freed_bytes"), ("live", "live_bytes"), ("peak", "peak_live_bytes"))}, books)
    same(f"{what}, sites", sum(site["live_bytes"] for site in look["sites"]), books["live"])
    same(f"{what}, state", (look["running"], look["state"], look["anchor"]), (True, "running", AT))


def a_paused_trainer_is_shown_to_the_byte():
    with program(*PAUSED, ready=is_paused) as (family, pid):
        by_file, by_pid, by_parent = (json.loads(once(word, "--top", 1000)) for word in ("x.kcap", pid, family.pid))
        has_ledger(by_file, "by its file")
        has_ledger(by_pid, "by its pid")
        for look in by_pid, by_parent: # kedge run stays above it, or is it
            check(look.pop("capture").endswith("/x.kcap"), "the capture has another name")
        same("by the pid of kedge run", by_parent, by_pid)
        same("whose", by_pid["pid"], pid)
        text = run(KEDGE, "top", pid).stdout # no terminal: one look
        check(f"pid {pid}, running for 0:00:" in text and f"anchor      {AT}" in text, text)
        check("  call site (by live)" in text and "\033" not in text, text)


def a_killed_program_ends_the_view_and_is_told():
    with program(BOOKS, "books", THREADS, "sync", ready=is_at_work) as (_, pid):
        with open("looks.json", "wb") as out:
            view = subprocess.Popen([KEDGE, "top", str(pid), "--json", "--interval", "0.1"], stdout=out)
        wait_until(lambda: pathlib.Path("looks.json").read_bytes().count(b"\n") > 8, "nine looks")
        os.kill(pid, signal.SIGKILL)
        same("kedge top", view.wait(timeout=WAIT), 0)
    looks = [json.loads(line) for line in pathlib.Path("looks.json").read_text(encoding="utf-8").splitlines()]
    same("running", [look["running"] for look in looks], [True] * (len(looks) - 1) + [False])
    check(looks[-1]["state"] in KILLED, f"how it ended: {looks[-1]['state']}")
    counts = [look["allocated_count"] for look in looks]
    check(counts == sorted(counts) and counts[0] < counts[-1], f"allocations: {counts}")
    same("rates of the first look", looks[0]["allocations_per_second"], None)
    for before, look in zip(looks, looks[1:]):
        rate = (look["allocated_count"] - before["allocated_count"]) / look["seconds"]
        check(abs(look["allocations_per_second"] - rate) <= rate / 1e4, f"a rate of {look['allocations_per_second']}, not {rate}")
        check(look["live_bytes"] <= look["peak_live_bytes"] and look["oom_count"] == 0, f"{look}")
    report = tool_json("report", "x.kcap")
    # Totals and events may differ by the operation that each thread had under way.
    difference = report["allocated_count"] - counts[-1]
    check(abs(difference) <= THREADS, f"the last look lacks {difference} allocations")


def a_program_that_exits_is_told_with_its_status():
    with program(*PAUSED, ready=is_paused) as (family, pid):
        view = subprocess.Popen([KEDGE, "top", "x.kcap", "--json", "--interval", "600"], stdout=subprocess.PIPE)
        wait_until(lambda: select.select([view.stdout], [], [], 0)[0], "a look")
        os.kill(pid, signal.SIGUSR1) # it goes on, to its end; the last look comes then, not after ten minutes
        looks = [json.loads(line) for line in view.communicate(timeout=WAIT)[0].splitlines()]
        family.wait(timeout=WAIT)
    same("looks", [(look["running"], look["state"]) for look in looks], [(True, "running"), (False, "exited with status 0")])
    text = run(KEDGE, "top", "x.kcap").stdout
    check(", exited with status 0\n" in text, text)


def what_cannot_be_watched_is_told_in_one_line():
    pathlib.Path("nonsense").write_text("nonsense", encoding="ascii")
    for word, why in ((os.getpid(), f"kedge top: process {os.getpid()} does not run under kedge"),
                      (2**22 + 1, f"kedge top: no process {2**22 + 1}"), ("9" * 30, "kedge top: no process 9999"),
                      ("nonsense", "kedge: nonsense: not a kedge capture"), ("nowhere", "kedge: nowhere: No such file or directory"),
                      (".", "kedge: .: not a regular file")):
        said = run(KEDGE, "top", word, "--once", rc=2).stdout
        check(said.startswith(why) and said.count("\n") == 1, f"{word}: {said}")
    for options in (("--interval", "0"), ("--interval", "nan"), ("--interval", "1s"), ("--sort", "size")):
        said = run(KEDGE, "top", "nowhere", *options, rc=2).stdout
        check(said.startswith(f"kedge top: {options[0]} {options[1]}: ") and said.count("\n") == 1, said)
    # The names of a program are no commands to a terminal.
    run(BUILD / "tests" / "unit" / "capture_maker", "good", "\033[7m.kcap")
    text = run(KEDGE, "top", "\033[7m.kcap").stdout
    check("capture_maker good ?[7m.kcap" in text and "\033" not in text, text)


# ---- on a terminal ----

class Terminal:
    """`kedge top` on a terminal of its own."""

    def __init__(self, word, *options):
        self.master, self.slave = pty.openpty()
        self.resize(30, 100)
        self.before = termios.tcgetattr(self.slave)
        env = environment(TERM="xterm", LANG="C.UTF-8", NO_COLOR=1, LC_ALL=None)
        # a session whose terminal it is, so that keys are signals, too
        self.view = subprocess.Popen([KEDGE, "top", str(word), "--interval", "0.1", *options], stdin=self.slave, stdout=self.slave,
                                     stderr=self.slave, env=env, start_new_session=True,
                                     preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.seen = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536)
        return self.seen

    def wait_for(self, text, begin=None):
        """In what is drawn from now on, or behind the first `begin` bytes."""
        begin = len(self.read()) if begin is None else begin
        wait_until(lambda: text in self.read()[begin:], f"{text!r} on the screen")

    def press(self, key):
        os.write(self.master, key)

    def last_frame(self):
        frame = self.read().rsplit(b"\033[H", 1)[1].split(LEAVE)[0].decode()
        return frame.replace("\033[K", "").replace("\033[J", "").replace("\r", "").split("\n")

    def ended(self, status):
        """It is over, and the terminal is as it was."""
        wait_until(lambda: (self.read(), self.view.poll() is not None)[1], "kedge top ends")
        same("status", self.view.returncode, status)
        same("terminal", termios.tcgetattr(self.slave), self.before)
        seen = self.read()
        same("alternate screen", (seen.count(b"\033[?1049h"), seen.count(b"\033[?1049l")), (1, 1))
        check(LEAVE in seen, "wrap and cursor were not given back")
        os.close(self.master)
        os.close(self.slave)


def the_screen_follows_keys_and_size_and_gives_the_terminal_back():
    with program(BOOKS, "books", 2, "sync", ready=is_at_work) as (_, pid):
        top = Terminal(pid, "--sort", "peak")
        top.wait_for(b"(q quits)")
        check(not termios.tcgetattr(top.slave)[3] & (termios.ECHO | termios.ICANON), "keys are shown, or wait for a line")
        frame = top.last_frame()
        check(frame[0].startswith("program     books books 2 sync") and f"pid {pid}, running for" in frame[1], f"{frame}")
        check(all(len(line) <= 100 for line in frame) and len(frame) <= 30, f"{frame}")
        check(any("call site (by peak)" in line for line in frame), f"{frame}")
        top.press(b"x") # no key of kedge's
        top.resize(14, 40)
        os.kill(top.view.pid, signal.SIGWINCH)
        wait_until(lambda: len(top.last_frame()) <= 14 and max(map(len, top.last_frame())) <= 40, "a smaller screen")
        check(top.last_frame()[0].startswith("program") and top.last_frame()[1].endswith(">"), f"{top.last_frame()}")
        top.press(b"q")
        top.ended(0)


def signals_give_the_terminal_back():
    with program(BOOKS, "books", 2, "sync", ready=is_at_work) as (_, pid):
        for number in signal.SIGTERM, signal.SIGHUP, signal.SIGABRT:
            top = Terminal(pid)
            top.wait_for(b"(q quits)")
            os.kill(top.view.pid, number)
            top.ended(-number)
        top = Terminal(pid)
        top.wait_for(b"(q quits)")
        top.press(b"\003") # Ctrl-C
        top.ended(-signal.SIGINT)
        # While it is stopped the terminal is the shell's.
        top = Terminal(pid)
        top.wait_for(b"(q quits)")
        os.kill(top.view.pid, signal.SIGTSTP)
        same("stopped", os.WIFSTOPPED(os.waitpid(top.view.pid, os.WUNTRACED)[1]), True)
        same("terminal of a stopped one", termios.tcgetattr(top.slave), top.before)
        begin = len(top.read())
        os.kill(top.view.pid, signal.SIGCONT)
        top.wait_for(b"\033[?1049h", begin)
        top.press(b"q")
        wait_until(lambda: (top.read(), top.view.poll() is not None)[1], "kedge top ends")
        same("terminal in the end", termios.tcgetattr(top.slave), top.before)


def the_screen_ends_with_the_program():
    with program(BOOKS, "books", 2, "sync", ready=is_at_work) as (_, pid):
        top = Terminal(pid, "--interval", "600")
        top.wait_for(b"(q quits)", begin=0)  # the only frame for ten minutes may be there already
        os.kill(pid, signal.SIGKILL)
        top.ended(0)
    behind = top.seen.split(LEAVE)[1].decode()
    check(any(f"pid {pid}, {how}\r\n" in behind for how in KILLED) and "q quits" not in behind, behind)


if __name__ == "__main__":
    main(a_paused_trainer_is_shown_to_the_byte, a_killed_program_ends_the_view_and_is_told,
         a_program_that_exits_is_told_with_its_status, what_cannot_be_watched_is_told_in_one_line,
         the_screen_follows_keys_and_size_and_gives_the_terminal_back, signals_give_the_terminal_back,
         the_screen_ends_with_the_program)
