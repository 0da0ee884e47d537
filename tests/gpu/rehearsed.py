#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`kit` and `visit`, rehearsed on the simulated device.

    rehearsed.py r44_a_kit_is_packed_and_visits      the kit, from a folder of its own: every step that needs no PyTorch
    rehearsed.py a_step_that_crashes_or_hangs_ends_nothing
    rehearsed.py r44_a_whole_visit                   with PyTorch, where tests/frameworks/setup has fetched it
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "regress"))
# pylint: disable=wrong-import-position
from regresskit import BUILD, SIM, check, main, same, skip  # noqa: E402

FILES = {"README.md", "facts.txt", "results.jsonl", "log.txt", "gpu.json"}
KIT_MOST = 45 << 20
BACK_MOST = 16 << 20  # bytes in a file of results
# What a visit without PyTorch must have found out at least: records that are as they should be, by step.
LEAST = {"questions": 15, "facts": 30, "programs": 13, "eviction": 2}


def run(*line, limit, **env):
    done = subprocess.run([str(x) for x in line], env=os.environ | {k: str(v) for k, v in env.items()}, timeout=limit, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    print(done.stdout[-6000:])
    return done.returncode


def records(out):
    return [json.loads(line) for line in (out / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def right(found, step):
    return sum(r["step"] == step and not r.get("wrong") and not r.get("skipped") for r in found)


def check_files(out):
    same("files of the results", {p.name for p in out.iterdir()}, FILES)
    check(all(p.stat().st_size < BACK_MOST for p in out.iterdir()), "a file of the results is too large")


def r44_a_kit_is_packed_and_visits():
    kit, out = pathlib.Path("kit").resolve(), pathlib.Path("out").resolve()
    same("kit", run(HERE / "kit", "--build", BUILD, kit, limit=300), 0)
    check(sum(p.stat().st_size for p in kit.rglob("*") if p.is_file()) < KIT_MOST, "the kit is too large")
    status = run(kit / "tests" / "gpu" / "visit", "--sim", "--seconds", 1440, "--out", out, *LEAST, limit=1500, KEDGE_SIM=SIM,
                 KEDGE_BUILD="/nowhere")
    same("visit", status, 0)
    check_files(out)
    found = records(out)
    for step, least in LEAST.items():
        check(right(found, step) >= least, f"{step}: {right(found, step)} as they should be, not {least}")
    page = (out / "README.md").read_text(encoding="utf-8")
    for title in ("## Programs", "## With hints", "## Hooks that were reached"):
        check(title in page, f"README.md has no {title!r}")
    check("DIFFERENT" not in (out / "facts.txt").read_text(encoding="utf-8"), "facts.txt: something differs")


def read(path):
    """Nothing, where the process has ended meanwhile."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


STEPS = '''

def crash(device):
    """A step that dies"""
    yield {"name": "first", "wrong": []}
    import os
    os.kill(os.getpid(), 11)


def hang(device):
    """A step that never ends, with a child that never ends"""
    yield {"name": "second", "wrong": []}
    import subprocess
    import time
    subprocess.Popen(["sleep", "1000.125"], start_new_session=True)
    time.sleep(1000)


def last(device):
    """A step behind these"""
    yield {"name": "third", "wrong": ["found"]}


STEPS = [(crash, 60), (hang, 8), (last, 60)]
'''


def a_step_that_crashes_or_hangs_ends_nothing():
    place, out = pathlib.Path("here/tests/gpu").resolve(), pathlib.Path("out").resolve()
    word = f"1000.{os.getpid()}"  # by which its process is known
    shutil.copytree(HERE, place, ignore=shutil.ignore_patterns("results", "__pycache__"))
    with open(place / "steps.py", "a", encoding="utf-8") as file:
        file.write(STEPS.replace("1000.125", word))
    status = run(place / "visit", "--sim", "--out", out, limit=200, KEDGE_BUILD=BUILD, KEDGE_SIM=SIM)
    same("visit", status, 1)
    same("records", [(r["step"], r["name"]) for r in records(out)], [("crash", "first"), ("hang", "second"), ("last", "third")])
    left = [p for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if word.encode() in read(p)]
    same("processes that are left", left, [])
    page = (out / "README.md").read_text(encoding="utf-8")
    for line in ("| crash |", "ended with -11", "ended with -9", "- last: third: found"):
        check(line in page, f"README.md has no {line!r}")


def r44_a_whole_visit():
    out = pathlib.Path("out").resolve()
    folder = pathlib.Path(os.environ.get("KEDGE_FRAMEWORKS") or HERE.parents[1] / "build" / "frameworks")
    if not (folder / "torch" / "complete").exists():
        skip(f"no PyTorch in {folder}: run tests/frameworks/setup torch")
    status = run(HERE.parent / "frameworks" / "in", "torch", HERE / "visit", "--sim", "--seconds", 2400, "--out", out, limit=2500,
                 KEDGE_BUILD=BUILD, TEST_BUILD=BUILD, KEDGE_SIM=SIM)
    same("visit", status, 0)
    check_files(out)
    for step, least in (LEAST | {"torch": 12, "hints": 2, "eviction": 3, "whatif": 2, "figures": 14}).items():
        found = right(records(out), step)
        check(found >= least, f"{step}: {found} as they should be, not {least}")


if __name__ == "__main__":
    main(r44_a_kit_is_packed_and_visits, a_step_that_crashes_or_hangs_ends_nothing, r44_a_whole_visit)
