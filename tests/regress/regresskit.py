# SPDX-License-Identifier: MIT
"""What the end-to-end tests share: running kedge and trainers on the simulated device, and comparing figures.

A test is a script of functions, named on the command line; ctest runs one function at a time in a directory of its
own. Everything goes through the command lines that a user has: nothing here knows a struct.
"""
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("TEST_BUILD", SOURCE / "build" / "release"))
KEDGE = BUILD / "kedge"
REPLAY = BUILD / "tests" / "bench" / "kedge-replay" # makes the allocations of a csv again through the CUDA runtime
MODELS = BUILD / "tests" / "bench" / "kedge-models" # kedge whose whatif has more models of allocators
LIBRARY = BUILD / "libkedge.so"
SIM = BUILD / "sim"
SOT = BUILD / "trainers" / "sot"
FULL_WINDOW = ("--from", "SOT_CALL_0", "--to", "SOT_CALL_428")
SMALL_WINDOW = ("--from", "SOT_CALL_0", "--to", "SOT_CALL_0")

failures = []


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def fail(what):
    """Counts a failure and goes on."""
    failures.append(what)
    print(f"FAILED: {what}")


def check(ok, what):
    if what is None or isinstance(what, bool): # a text is always true: such a check could not fail
        fail(f"check({ok!r}, {what!r}): the text comes last")
    if not ok:
        fail(what)
    return ok


def same(what, got, want):
    return check(got == want, f"{what}: got {got!r}, wanted {want!r}")


def environment(**changes):
    """The caller's environment without any setting of kedge's or of the simulated device's; changes on top."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("KEDGE_", "SIMCUDA_", "LD_PRELOAD", "NVTX_INJECTION"))}
    env.update({k: str(v) for k, v in changes.items() if v is not None})
    return env


def run(*command, rc=0, timeout=300, **changes):
    """Runs a command to its end; rc=None accepts any status. Output is stdout and stderr together."""
    line = " ".join(map(str, command))
    # A session of its own: what a command that hangs has started must not outlive the test.
    with subprocess.Popen([str(c) for c in command], env=environment(**changes), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True) as family:
        try:
            output, _ = family.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(family.pid, signal.SIGKILL)
            print(family.communicate()[0][-3000:])
            fail(f"{line}: not at its end after {timeout} s")
            sys.exit(1)
    done = subprocess.CompletedProcess(command, family.returncode, output)
    if rc is not None and done.returncode != rc:
        print(done.stdout[-6000:])
        fail(f"{line}: exit {done.returncode}, wanted {rc}")
        sys.exit(1)
    return done


def kedge_run(*command, capture=None, **options):
    """kedge run --sim [--capture F] -- command"""
    where = ["--capture", capture] if capture else []
    done = run(KEDGE, "run", "--sim", *where, "--", *command, **options)
    if capture and options.get("rc", 0) == 0:
        check(pathlib.Path(capture).exists(), f"{capture} was not written")
    return done


def memory_run(capture, trace):
    """memory_program, which opens a libcublas of its own. A preloaded one is not replaced by the simulated device's."""
    folder = BUILD / "tests" / "regress"
    return kedge_run(folder / "memory_program", capture=capture, KEDGE_TRACE=trace, LD_PRELOAD=folder / "libcublas.so.13")


def bare(*command, **options):
    """The same program on the simulated device with nothing preloaded: what kedge must not change."""
    return run(*command, LD_LIBRARY_PATH=SIM, **options)


def tool(*arguments, rc=0, **options):
    return run(KEDGE, *arguments, rc=rc, **options).stdout


def tool_json(*arguments, program=KEDGE, **options):
    """A command with --json; its standard output alone must be one JSON value."""
    done = subprocess.run([str(program), *map(str, arguments), "--json"], env=environment(), capture_output=True,
                          text=True, timeout=300, check=False)
    if done.returncode != options.get("rc", 0):
        print(done.stdout[-3000:], done.stderr[-3000:])
        fail(f"kedge {' '.join(map(str, arguments))} --json: exit {done.returncode}")
        sys.exit(1)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as e:
        print(done.stdout[-3000:])
        fail(f"kedge {' '.join(map(str, arguments))} --json: not JSON: {e}")
        sys.exit(1)


def checksum(output):
    """The line "checksum 0x..." (or "checksum: ..."), which every trainer prints."""
    found = re.findall(r"^checksum:? (?:0x)?([0-9a-f]{16})$", output, re.M)
    if len(found) != 1:
        print(output[-3000:])
        fail(f"{len(found)} checksums were printed")
        sys.exit(1)
    return found[0]


def ledger(output, name):
    """The trainer's own books, as it prints them: {allocs, frees, allocated, freed, live, peak}."""
    found = re.search(rf"^ledger {name} (.*)$", output, re.M)
    if not found:
        print(output[-3000:])
        fail(f"no ledger {name} was printed")
        sys.exit(1)
    words = found.group(1).split()
    return {k: int(v) for k, v in zip(words[::2], words[1::2])}


def expect_ledger(j, books, what):
    """A report against the program's own books, to the byte."""
    for key, book in (("allocated_count", "allocs"), ("freed_count", "frees"), ("allocated_bytes", "allocated"),
                      ("freed_bytes", "freed"), ("remaining_bytes", "live"), ("max_bytes", "peak")):
        same(f"{what}: {key} and the program's own {book}", j[key], books[book])


def human(n):
    """As the tools print: divided as double by 1024 as often as needed, two decimals."""
    units = iter(("B", "KiB", "MiB", "GiB", "TiB"))
    n, unit = float(n), next(units)
    while n >= 1024:
        n, unit = n / 1024, next(units)
    return f"{n:.2f} {unit}"


def data(name):
    """The rows of a table; published sizes in KB, MB, GB are binary ones, and get the units that the tools print."""
    with open(SOURCE / "tests" / "data" / name, newline="", encoding="utf-8") as f:
        return [{key: re.sub(r"^([\d.]+ [KMGT])B$", r"\1iB", value) for key, value in row.items()} for row in csv.DictReader(f)]


def seed_row(graph, form):
    return next(r for r in data("s66278.csv") if r["graph"] == graph and r["form"] == form)


def expect_report(capture, window, row):
    """Both faces of the report, text and JSON, against one row of the seed."""
    text = tool("report", capture, *window)
    for label, value in (("Remaining memory", row["remaining"]), ("Max memory", row["max"]),
                         ("Allocated memory", row["allocated"]), ("Allocated count", row["allocated_count"]),
                         ("Freed memory", row["freed"]), ("Freed count", row["freed_count"])):
        found = re.search(rf"^\W*{label}\b[^\d\n]*([\d.]+(?: ?(?:[KMGT]i)?B\b)?)", text, re.M | re.I)
        if not found:
            print(text)
        check(found, f"report has no line {label}") and same(
            f"report, {label}", re.sub(r"(?<=\d)(?=[A-Z])", " ", found.group(1).strip()), value)
    j = tool_json("report", capture, *window)
    for key, value in (("remaining_bytes", row["remaining"]), ("max_bytes", row["max"]),
                       ("allocated_bytes", row["allocated"]), ("freed_bytes", row["freed"])):
        same(f"report --json, {key}", human(j[key]), value)
    same("report --json, allocated_count", j["allocated_count"], int(row["allocated_count"]))
    same("report --json, freed_count", j["freed_count"], int(row["freed_count"]))
    return j


LOG_FIGURES = ("remaining_bytes", "max_bytes", "allocated_bytes", "allocated_count", "freed_bytes", "freed_count")


def same_by_log(good, bad, window, row):
    """NAME.log, what Paddle's allocator says of a run, gives the figures of NAME.kcap: whole, in the window, by anchor, beside each other."""
    for name in (good, bad):
        tool("import", f"{name}.log", "-o", f"{name}.log.kcap")
        for where in ((), window):
            captured, logged = (tool_json("report", f"{name}{kind}.kcap", *where) for kind in ("", ".log"))
            for figure in LOG_FIGURES:
                same(f"{name}, {where or 'whole'}: {figure} from the log", logged[figure], captured[figure])
            anchors = [[{k: a[k] for k in ("name", "instance", *LOG_FIGURES)} for a in j["anchors"]] for j in (captured, logged)]
            same(f"{name}, {where or 'whole'}: anchors from the log", anchors[1], anchors[0])
    expect_report(f"{bad}.log.kcap", window, row)
    captured, logged = (tool_json("diff", f"{good}{kind}.kcap", f"{bad}{kind}.kcap") for kind in ("", ".log"))
    for figure in ("late_frees", "late_bytes", "freed_in_anchor"):
        same(f"{figure} from the logs", logged[figure], captured[figure])


def needs(*paths):
    """A part that is not built here is a broken build, not a skip."""
    for path in paths:
        if not pathlib.Path(path).exists():
            fail(f"{path} is not there")
            sys.exit(1)


# ---- traces ----

def foreign_traces():
    folder = os.environ.get("KEDGE_TEST_TRACES")
    if not folder:
        skip("KEDGE_TEST_TRACES is not set")
    root = pathlib.Path(folder)
    found = sorted((root / "csv").glob("*.csv") if (root / "csv").is_dir() else root.glob("*.csv"))
    if not found:
        skip(f"no csv file in {folder}")
    return found


def own_traces():
    found = sorted((SOURCE / "tests" / "traces").glob("*.csv"))
    check(found, "there is no trace of our own in tests/traces")
    return found


def trace_facts(path):
    """What a reader of the file alone can say: allocations, frees, peak of live bytes, bytes left."""
    live, peak, total, sizes, frees = 0, 0, 0, {}, 0
    with open(path, newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            if row["op"] == "a":
                sizes[row["id"]] = int(row["size"])
                live += int(row["size"])
                total += int(row["size"])
                peak = max(peak, live)
            else:
                live -= sizes[row["id"]]
                frees += 1
    return {"allocated_count": len(sizes), "freed_count": frees, "max_bytes": peak, "allocated_bytes": total}


def main(*tests, **more):
    names = {t.__name__: t for t in tests} | more
    wanted = sys.argv[1:]
    if not wanted or any(w not in names for w in wanted):
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(names)}")
    # What an earlier run left here, a receipt above all, must not help this one.
    if pathlib.Path.cwd().is_relative_to(BUILD / "tests" / "run"):
        for old in pathlib.Path().iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    for w in wanted:
        names[w]()
    print("FAILED: " + "; ".join(failures) if failures else "ok")
    sys.exit(1 if failures else 0)
