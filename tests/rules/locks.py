#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""R36: no lock of kedge's is held in a driver call, in the loader, while unwinding, or at a file.

    locks.py trainers|captures|hints|workloads    programs under the watched library (locks_guest.c), all of which must be right
    locks.py preload_tests                        every test that preloads the library, once more with that one
    locks.py some_preload_tests                   one in eight of them
    locks.py seen.DOOR                            a lock is held there on purpose: status 87
"""
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "regress"), str(HERE.parent / "mutation")]
# pylint: disable=wrong-import-position
from regresskit import BUILD, LIBRARY, SIM, check, fail, main, needs, run, same # noqa: E402
import modes # noqa: E402
import mutations # noqa: E402

LOCKS = BUILD / "tests" / "rules" / "locks" / "libkedge.so"
HELD = 87
DOORS = ("driver", "loader", "unwind", "file", "once")
# A wait for a stream that runs late, and one that does not: (schedule, seed, lag).
ORDERS = [("random", 3, 1), ("lazy", 1, 0)]


def watched(command, ends=0, **env):
    """Runs a program under the watching library; returns what it met, by class."""
    needs(LOCKS)
    path = pathlib.Path("figures").absolute()
    path.unlink(missing_ok=True)
    settings = {"LD_PRELOAD": LOCKS, "LD_LIBRARY_PATH": SIM, "SIMCUDA_MEMORY": "2G", "TEST_LOCKS_FIGURES": path, **env}
    done = run(*command, rc=None, timeout=120, **settings)
    if done.returncode != ends or "LOCKS:" in done.stdout:
        print(done.stdout[-3000:])
        fail(f"{command}: exit {done.returncode}, wanted {ends}: {''.join(re.findall(r'LOCKS:.*', done.stdout))}")
    met = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            name, count = line.split()
            met[name] = met.get(name, 0) + int(count)
    return met


def expect(total, floors):
    print("met: " + ", ".join(f"{k} {v}" for k, v in sorted(total.items())))
    for name in floors:
        check(total.get(name, 0) > 0, f"no program came through the door '{name}'")


def add(total, met):
    for name, count in met.items():
        total[name] = total.get(name, 0) + count


def commands():
    for trainer, forms in modes.SHORT.items():
        for arguments in forms:
            for entrance in ("sync", "stream"):
                yield [modes.program(trainer), *(a.format(entrance) for a in arguments)]


def trainers():
    """Every trainer, form and allocation API, pooled, on late streams."""
    total = {}
    for command in commands():
        for sched, seed, lag in ORDERS:
            add(total, watched(command, KEDGE_TRACE="off", SIMCUDA_SCHED=sched, SIMCUDA_SEED=seed, SIMCUDA_LAG=lag))
    expect(total, ("driver", "loader", "unwind", "once"))


def captures():
    """The same with everything written down, pooled and only tracked."""
    total = {}
    for command in commands():
        for mode in ("pool", "track"):
            path = pathlib.Path("watched.kcap").absolute()
            path.unlink(missing_ok=True)
            add(total, watched(command, KEDGE_MODE=mode, KEDGE_TRACE="full", KEDGE_CAPTURE=path, KEDGE_ANCHORS="nvtx"))
            check(path.exists(), f"{command}: no capture was written")
    expect(total, ("driver", "loader", "unwind", "file"))


def hints():
    """Hints that act: in trap, and live with a receipt, on both allocation APIs."""
    total = {}
    for entrance in ("sync", "stream"):
        env = mutations.hint_as_suggested(entrance, "live")
        command = [str(mutations.SOT), "--form", "pir", "--graph", "small", "--entrance", entrance]
        for mode in ("shadow", "trap", "live"):
            add(total, watched(command, KEDGE_TRACE="off", **{**env, "KEDGE_HINTS_MODE": mode}))
    expect(total, ("driver", "loader", "unwind", "file", "malloc"))


def workloads():
    """What tests/mutation runs: hazards that no trainer meets often."""
    total = {}
    for name, workload in mutations.WORKLOADS.items():
        workload.ready()
        for sched, seed, lag in ORDERS:
            add(total, watched(workload.command, workload.ends, SIMCUDA_SCHED=sched, SIMCUDA_SEED=seed, SIMCUDA_LAG=lag,
                               **{"KEDGE_TRACE": "off", **workload.env}))
        print(f"{name}: right")
    expect(total, ("driver", "loader", "unwind", "sleep"))


def preloading_tests():
    """(name, command, environment) of the tests whose environment preloads libkedge.so: each case once, since what it holds does not
    depend on how it has found the functions (`.linked`, `.gpa`) or on when its streams run (`_late`)."""
    seen_cases = set()
    listing = subprocess.run(["ctest", "--test-dir", str(BUILD), "--show-only=json-v1"], capture_output=True, text=True,
                             check=True).stdout
    for test in json.loads(listing)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        env = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
        if str(LIBRARY) in env.get("LD_PRELOAD", "") and not {"slow", "bench", "gpu"} & set(properties.get("LABELS", [])):
            case = re.sub(r"(_late)?\.(dlsym|gpa|linked)\.", ".", test["name"])
            if case not in seen_cases:
                seen_cases.add(case)
                yield test["name"], test["command"], env


def preload_tests(share=1):
    """Every one, or one in so many."""
    ran = 0
    for name, command, env in list(preloading_tests())[::share]:
        env["LD_PRELOAD"] = env["LD_PRELOAD"].replace(str(LIBRARY), str(LOCKS))
        done = run(*command, rc=None, timeout=300, **env)
        ran += done.returncode == 0
        if done.returncode not in (0, 77) or "LOCKS:" in done.stdout:
            print(done.stdout[-3000:])
            fail(f"{name}: exit {done.returncode}: {''.join(re.findall(r'LOCKS:.*', done.stdout))}")
    print(f"{ran} tests were right")
    check(ran > 400 // share, "too few tests ran")


def some_preload_tests():
    preload_tests(8)


def seen(door):
    """The same program, with a lock held where it must not be."""
    command = [modes.program("loop"), "--steps", "2", "--entrance", "sync"]
    watched(command, KEDGE_CAPTURE=pathlib.Path("right.kcap").absolute())
    done = run(*command, rc=None, LD_PRELOAD=LOCKS, LD_LIBRARY_PATH=SIM, TEST_LOCKS_HOLD=door,
               KEDGE_CAPTURE=pathlib.Path("wrong.kcap").absolute())
    same(f"a lock held at {door}: exit", done.returncode, HELD)
    line = re.search(r"LOCKS: mask .* held in (\w+): ", done.stdout)
    check(line, "no line says so") and same("the door", line.group(1), "loader" if door == "once" else door)


CASES = {f"seen.{door}": functools.partial(seen, door) for door in DOORS}

if __name__ == "__main__":
    os.environ.pop("KEDGE_CAPTURE", None)
    main(trainers, captures, hints, workloads, preload_tests, some_preload_tests, **CASES)
