# SPDX-License-Identifier: MIT
"""Programs on a GPU: run without kedge and in each of its modes, and compared. What the steps of a visit share.

Files are found in the kit that `kit` made, if this file lies in one, else in $KEDGE_BUILD or build/release of the checkout.
"""
import concurrent.futures
import dataclasses
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
IN_KIT = (TOP / "kedge").exists()
BUILD = TOP if IN_KIT else pathlib.Path(os.environ.get("KEDGE_BUILD") or TOP / "build" / "release").resolve()
KEDGE, LIBRARY = BUILD / "kedge", BUILD / "libkedge.so"
SCRIPTS = TOP / "tests" / "frameworks" / "scripts"
MODES = ("off", "track", "pool")
LAST_SECONDS = 8
# What is kept of a report.
FIGURES = ("max_bytes", "max_with_hints_bytes", "peak_reserved_bytes", "remaining_bytes", "remaining_with_hints_bytes",
           "allocated_count", "freed_count", "hinted_freed_count", "hinted_freed_bytes")
PLAIN = ("none", "none again")  # the second shows whether the program itself prints the same each time


def binary(*path):
    return BUILD.joinpath(*path)


def trainer(name):
    """The trainer built against NVIDIA's headers and runtime, where it was; else the one that takes any runtime."""
    real = binary("trainers-real", name)
    return real if real.exists() else binary("trainers", name)


def python_script(name):
    """A script of this folder, or of tests/frameworks."""
    return next(p for p in (HERE / name, SCRIPTS / name) if p.exists())


def installed(module):
    return importlib.util.find_spec(module) is not None


@dataclasses.dataclass
class Device:
    """What probe.py found, and how programs are led to it.

    facts      as gpu.json has them. "simulated": a rehearsal. "scale": all limits of time are multiplied by it
    until      when the step must be at its end, on the monotonic clock
    """
    facts: dict
    until: float

    @property
    def simulated(self):
        return self.facts["simulated"]

    def left(self):
        return self.until - time.monotonic()

    def is_late(self):
        """Nothing new is begun when so little of the step's time is left."""
        return self.left() < LAST_SECONDS * self.facts["scale"]

    def environment(self, **changes):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("KEDGE_", "SIMCUDA_", "LD_PRELOAD"))}
        if self.facts["cudart_folder"]:
            env["LD_LIBRARY_PATH"] = ":".join(filter(None, (env.get("LD_LIBRARY_PATH"), self.facts["cudart_folder"])))
        if self.simulated:
            env |= {"SIMCUDA_KERNELS": "any", "SIMCUDA_PATIENCE": "20"}
        return env | {k: str(v) for k, v in changes.items()}

    def execute(self, command, limit, env=None, folder=None):
        """Runs a command to its end, or kills it and what it started after `limit` seconds or at the end of the step."""
        limit = max(1, min(limit * self.facts["scale"], self.left()))
        begun = time.monotonic()
        try:
            with subprocess.Popen([str(c) for c in command], env=self.environment(**(env or {})), cwd=folder,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  errors="replace", start_new_session=True) as family:
                try:
                    output, errors = family.communicate(timeout=limit)
                    status = family.returncode
                except subprocess.TimeoutExpired:
                    os.killpg(family.pid, signal.SIGKILL)
                    output, errors = family.communicate()
                    status = "out of time"
        except OSError as e:
            status, output, errors = "cannot run", "", str(e)
        return {"status": status, "seconds": round(time.monotonic() - begun, 2), "output": output, "errors": errors}

    def told(self, *arguments, limit=60, folder=None):
        """What a command of kedge's prints with --json, or None."""
        done = self.execute([KEDGE, *arguments, "--json"], limit, folder=folder)
        try:
            return json.loads(done["output"])
        except json.JSONDecodeError:
            return None


@dataclasses.dataclass
class Program:
    """A program whose results must not depend on kedge.

    lines    the lines that are its result, as a pattern
    needs    a module of Python that must be there
    at_once  how many of its modes run side by side: less where a run takes much of the device
    figures  its last line is "figures JSON", whose "exact" part is a result as well (tests/frameworks)
    """
    name: str
    command: list
    lines: str
    limit: float = 60
    env: dict = dataclasses.field(default_factory=dict)
    needs: str | None = None
    at_once: int = 5
    figures: bool = False

    def why_not(self):
        """Why it cannot run here, or None."""
        if self.needs:
            return None if installed(self.needs) else f"{self.needs} is not installed"
        return None if pathlib.Path(self.command[0]).exists() else f"{pathlib.Path(self.command[0]).name} was not built"


def script(name, file, *arguments, needs="torch", **more):
    return Program(name, [sys.executable, python_script(file), *arguments], needs=needs, **more)


def torch_script(name, file, *arguments, env=None, **more):
    """A script of tests/frameworks: all that it prints is its result."""
    steady = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    return script(name, file, *arguments, lines=r"^(?!figures ).+$", env=steady | (env or {}), figures=True, **more)


def one_run(device, program, mode, folder):
    """One run of a program. What kedge says of it, where it records."""
    command, env = program.command, dict(program.env)
    capture = pathlib.Path(folder) / re.sub(r"\W+", "-", f"{program.name}-{mode}.kcap")
    if mode in MODES:
        command, env["KEDGE_MODE"] = [KEDGE, "run", "--api", "framework", "--capture", capture, "--", *command], mode
    run = device.execute(command, program.limit, env, folder)
    run["result"] = re.findall(program.lines, run["output"], re.M)
    run["messages"] = sorted(set(re.findall(r"^kedge(?:\[\d+\])?: (.*)$", run["errors"], re.M)))[:16]
    if program.figures:
        last = re.findall(r"^figures (\{.*\})$", run["output"], re.M)
        run["figures"] = json.loads(last[-1]) if last else {}
    if mode in ("track", "pool"):
        found = device.told("report", capture) if capture.exists() else None
        run["report"] = {k: (found or {}).get(k) for k in FIGURES}
        run["coverage"] = {c["hook"]: c["route"] for c in (found or {}).get("coverage", [])}
        run["captured"] = found is not None
    capture.unlink(missing_ok=True)
    return run


def run_modes(device, program, folder):
    """{mode: run}, several at once: results do not depend on what else the device does."""
    with concurrent.futures.ThreadPoolExecutor(program.at_once) as pool:
        going = {mode: pool.submit(one_run, device, program, mode, folder) for mode in (*PLAIN, *MODES)}
        return {mode: run.result() for mode, run in going.items()}


def steady(first, second):
    """The parts of a result that are the same in both runs without kedge: {where: value}."""
    def parts(run):
        named = {f"line {i}": line for i, line in enumerate(run["result"], 1)}
        named["lines"] = len(run["result"])
        return named | {k: v for k, v in run.get("figures", {}).get("exact", {}).items()}
    one, other = parts(first), parts(second)
    return {k: v for k, v in one.items() if other.get(k) == v}, parts


def judge(program, runs):
    """What is wrong with a program's runs, as a list of sentences; the runs without kedge are the measure."""
    for mode in PLAIN:
        if runs[mode]["status"] != 0:
            return [f"without kedge it ended with {runs[mode]['status']}: {tail(runs[mode])}"]
    if not runs["none"]["result"]:
        return ["it printed no result"]
    expected, parts = steady(runs["none"], runs["none again"])
    if len(expected) <= 1:
        return ["two runs without kedge have no line in common"]
    wrong = []
    for mode in MODES:
        run, found = runs[mode], parts(runs[mode])
        different = [f"{k}: {found.get(k)!r}, not {v!r}" for k, v in expected.items() if found.get(k) != v]
        if run["status"] != 0:
            wrong.append(f"{mode}: exit {run['status']}: {tail(run)}")
        elif different:
            wrong.append(f"{mode}: {different[0]} ({len(different)} differences)")
        elif mode in ("track", "pool") and not run["captured"]:
            wrong.append(f"{mode}: no capture, or kedge report failed on it")
        elif mode in ("track", "pool") and not run["report"].get("allocated_count"):
            wrong.append(f"{mode}: the capture has no allocation: the program did not reach kedge")
    return wrong


def tail(run, length=600):
    return (run["errors"].strip() or run["output"].strip())[-length:]


def human(n):
    units = iter(("B", "KiB", "MiB", "GiB", "TiB"))
    n, unit = float(n), next(units)
    while n >= 1024:
        n, unit = n / 1024, next(units)
    return f"{n:.2f} {unit}"
