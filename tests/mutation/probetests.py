# SPDX-License-Identifier: MIT
"""Which tests notice a change: what tests/mutation/probe knows of tests, of changes and of what became of them."""
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import probesites

ROOM = 4096  # PROBE_MAX of probe_site.h
SKIPPED = 77


class Test:
    """A test as ctest has it, or one that is made by hand."""

    def __init__(self, name, command, folder, env, timeout):
        self.name, self.command, self.folder, self.timeout = name, command, folder, timeout
        self.env = dict(pair.split("=", 1) for pair in env)
        self.seconds, self.reached, self.is_good, self.stamp = 0.0, set(), False, ""
        self.lock = threading.Lock()  # a test has one folder to run in

    def run(self, work, limit, number=0, reached=None):
        """Its exit status; None: over its time."""
        env = {**os.environ, **self.env, "TEST_KEDGE_PROBE": str(number)}
        if reached:
            env["TEST_KEDGE_REACHED"] = str(reached)
        with self.lock, open(work / "out" / f"{threading.get_ident()}", "wb") as out, \
                subprocess.Popen(self.command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                 start_new_session=True) as process:
            try:
                return process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                return None
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)  # what it left behind, too
                except ProcessLookupError:
                    pass

    def reach(self, work, keys):
        """Runs as it is; which places it passes through."""
        marks = work / "out" / f"{threading.get_ident()}.reached"
        marks.write_bytes(bytes(ROOM))
        begun = time.monotonic()
        status = self.run(work, self.timeout, 0, marks)
        self.seconds = time.monotonic() - begun
        self.is_good = status == 0
        self.reached = {keys[i] for i, mark in enumerate(marks.read_bytes()) if mark and i in keys}
        return status

    def nearness(self, file):
        folder, module = file.split("/")[0], pathlib.PurePath(file).stem
        program = pathlib.PurePath(self.command[0]).stem
        is_unit = self.name.startswith(("unit.", "race.", "fuzz."))
        if program == f"{module}_test" or f".{module}." in self.name:
            return 0
        if is_unit:
            return 1 if f"unit/{folder}" in str(self.folder) else 2
        return 3

    def cost(self, file):
        """What comes first: a test of the module is worth twice the time of one of its folder, and so on."""
        return (self.seconds + 0.02) * 2 ** self.nearness(file)


class Change:
    def __init__(self, site, seed):
        self.site, self.seed, self.number = site, seed, 0
        self.state, self.by, self.ran, self.spent = "open", "", [], 0.0

    def is_noticed(self, test, work):
        """A test that fails does so twice: load and chance fail it once."""
        limit = min(test.timeout, 10 + 10 * test.seconds)
        begun = time.monotonic()
        status = test.run(work, limit, self.number)
        found = status is None or (status not in (0, SKIPPED) and test.run(work, limit, self.number) not in (0, SKIPPED))
        self.spent += time.monotonic() - begun
        return found

    def hunt(self, tests, work, limit):
        near = sorted((test for test in tests if test.is_good and self.site.key in test.reached),
                      key=lambda test: test.cost(self.site.file))
        if not near:
            self.state = "not reached"
            return
        self.state, spent = "survived", self.spent
        for test in near:
            if self.spent - spent > limit:
                return
            mark = f"{test.name} {test.stamp}".strip()  # what has changed since is another test
            if mark in self.ran:
                continue
            self.ran.append(mark)
            if self.is_noticed(test, work):
                self.state, self.by = "caught", test.name
                return


def compiles(compiler, flags, folder, text):
    """Whether a source of this text does."""
    path = folder / f".probe.{threading.get_ident()}.c"
    path.write_bytes(text)
    done = subprocess.run([compiler, *flags, "-w", "-fsyntax-only", str(path)], capture_output=True, check=False)
    path.unlink()
    return done.returncode == 0


def draw(sites, seed, count, fits):
    """`count` of the places, as many of each kind as there are, in the seed's order; those that do not fit are drawn again."""
    rows = {kind: [] for kind in probesites.KINDS}
    for site in sorted(sites, key=lambda site: site.rank(seed)):
        rows[site.kind].append(site)
    drawn = []
    while len(drawn) < count and any(rows.values()):
        for kind in probesites.KINDS:
            while rows[kind]:
                site = rows[kind].pop(0)
                if fits(site):
                    drawn.append(site)
                    break
    return drawn[:count]


def equivalents(path):
    """{key: reason}: an entry is a key, and lines below it, indented, that say why nothing can notice it."""
    out, key = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        if line.startswith(("#", " ")) or not line.strip():
            if line.startswith(" ") and key:
                out[key] = f"{out[key]} {line.strip()}".strip()
        else:
            key = line.strip()
            out[key] = ""
    for entry, reason in out.items():
        if not reason:
            sys.exit(f"{path.name}: no reason is said for: {entry}")
    return out


def hunt_all(work, jobs, tests, changes, limit, state=None):
    rest = sorted((change for change in changes if change.state == "open"), key=lambda change: (change.seed, bool(change.ran)))

    def one(change):
        change.hunt(tests, work, limit)
        if change.state == "caught":
            print(f"caught {change.site.file}:{change.site.line} by {change.by}", flush=True)
        else:
            print(line_of(change), flush=True)
        if state:
            state.note_change(change)
            state.save()

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, rest))


def line_of(change):
    site = change.site
    return f"{change.state} {site.file}:{site.line} {site.key.split(' ', 1)[1]}   [{len(change.ran)} tests, {change.spent:.0f} s]"


def report(changes, known, folders):
    """Prints the table; whether nine of ten were noticed in each folder."""
    print(f"{'seed':5} {'folder':8} changes caught equivalent survived not reached")
    strong = True
    for seed in sorted({change.seed for change in changes}):
        for folder in folders:
            mine = [change for change in changes if change.site.file.split("/")[0] == folder and change.seed == seed]
            alike = [change for change in mine if change.site.key in known and change.state != "caught"]
            count = {state: sum(1 for change in mine if change.state == state and change not in alike)
                     for state in ("caught", "survived", "not reached")}
            print(f"{seed:<5} {folder:8} {len(mine):7} {count['caught']:6} {len(alike):10} {count['survived']:8} {count['not reached']:11}")
            strong = strong and count["caught"] * 10 >= 9 * (len(mine) - len(alike))
    for change in changes:
        if change.state != "caught" and change.site.key not in known:
            print(line_of(change))
        if change.state == "caught" and change.site.key in known:
            print(f"no equivalent, {change.by} notices it: {change.site.key}")
    return strong
