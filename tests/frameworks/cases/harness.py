# SPDX-License-Identifier: MIT
"""What the frameworks' cases share: one script of a framework, without kedge and in each of its modes, compared.

A case is data (Case); a *row* is a case in one environment under one way of allocating. A row runs its script on the
simulated device

    bare            without kedge, with the device's log
    off track pool  under `kedge run --api framework --mode MODE`; in one of them the stack of each allocation is compared
                    with a witness's (stacks.py)
    eager mapped    as pool with another word of KEDGE_POOL, where the case asks for it (VARIANTS)
    lazy, random    as pool, where the case asks for it: streams run late, in orders that CUDA allows; the witness looks on
    mutant          under a late schedule, with a library in which one safety device is switched off (tests/mutation):
                    something must show

Scripts know nothing of kedge. What a script prints must be the same to the byte in every run. Its last line may be
"figures {JSON}": {"exact": ...} is compared as well, {"apart": ...} (reserved and free memory) is only told, and
{"step_ms": x, "steps": n} is the least CPU time of n steps. Everything else is asked of the command line that a user has.
"""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import stacks

HERE = pathlib.Path(__file__).resolve().parents[1]
SOURCE = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("TEST_BUILD", SOURCE / "build" / "release")).resolve()
FOLDER = pathlib.Path(os.environ.get("KEDGE_FRAMEWORKS", SOURCE / "build" / "frameworks")).resolve()
KEDGE = BUILD / "kedge"
STACKS_OF = BUILD / "tests" / "frameworks" / "stacks_of"
MUTANT = BUILD / "tests" / "mutation" / "libkedge_mutant.so"
WITNESS = BUILD / "tests" / "frameworks" / "libwitness.so"
MODES = ("off", "track", "pool")
VARIANTS = {"eager": "remap=eager", "mapped": "sync=mapped"} # of pool: KEDGE_POOL
TIMEOUT = 300 # seconds; a run takes a few, this is for one that hangs
ENDINGS = 4 # tries, where a script dies at its end
PREMATURE = 86 # the witness ended the program
SCHEDULES = (("lazy", 1), ("random", 1))
MUTANT_SCHEDULES = [("lazy", 1)] + [("random", seed) for seed in range(1, 9)]
# Requests to the driver for device memory that succeeded. cuMemCreate is how expandable segments grow.
REQUESTS = re.compile(r"^\d+ t\d+ (cuMemAlloc(?:_v2|Async|FromPoolAsync|Pitch_v2|Managed)?(?:_ptsz)?|cuMemCreate) .*= 0$", re.M)


@dataclasses.dataclass
class Case:
    """One script of a framework.

    name     what the case shows, in words with underscores
    envs     the environments (locks/ENV.txt) that it runs in
    script   a file in scripts/, with its arguments
    apis     {label: environment variables}: the ways of allocating, each a row
    short    the rows of the short part: True for all, or a set of (environment, label)
    memory   of the simulated device
    modes    kedge's modes
    variants of VARIANTS, which are run as modes are
    anchors  {path: how often it was open} in the capture of each process that has anchors, of those that kedge makes of Python;
             processes says how many those are
    witness  run under late schedules as well
    driver   it asks the driver itself for memory, so that the runtime's witness sees nothing: libwitness.so stands above kedge
    mutant   {label: a word of tests/mutation/mutant.def that must show in this case}
    unshown  {label: why none shows there}
    why      the case cannot run here, and this is the reason: it stands in the table
    less     {label: (sentence, keys)}: what is not the same there, and why; these keys of `exact` are not compared
             ("output" and "seen" lift the comparison of what is printed, and of how many allocations were seen)
    around   {label: (words before kedge's command, words between it and python)}
    """
    name: str
    envs: tuple
    script: str
    args: tuple = ()
    apis: dict = dataclasses.field(default_factory=lambda: {"default": {}})
    short: object = False
    memory: str = "8G"
    modes: tuple = MODES
    variants: tuple = ()
    anchors: dict | None = None
    processes: int = 1
    witness: bool = False
    driver: bool = False
    mutant: dict = dataclasses.field(default_factory=dict)
    unshown: dict = dataclasses.field(default_factory=dict)
    why: str | None = None
    less: dict = dataclasses.field(default_factory=dict)
    around: dict = dataclasses.field(default_factory=dict)

    def rows(self, short):
        for env in self.envs:
            for api in self.apis:
                if not short or self.short is True or (self.short and (env, api) in self.short):
                    yield Row(self, env, api)


@dataclasses.dataclass
class Row:
    case: Case
    env: str
    api: str

    @property
    def name(self):
        return f"{self.env}.{self.case.name}.{self.api}"

    @property
    def lifted(self):
        return self.case.less.get(self.api, ("", ()))[1]

    def run(self, full):
        return run_row(self, full)


@dataclasses.dataclass
class Done:
    """One run of a script: what came out."""
    status: int
    output: str
    errors: str
    figures: dict
    died: int = 0 # how often it died_at_its_end, of its ENDINGS


def lock_of(env):
    return (HERE / "locks" / f"{env}.txt").read_text(encoding="utf-8")


def is_ready(env):
    return (FOLDER / env / "complete").exists() and (FOLDER / "standins" / env / "complete").exists()


def version_of(env, package):
    found = re.search(rf"^{package}==(\S+)", lock_of(env), re.M)
    return found.group(1) if found else "?"


def python_of(env):
    found = re.search(r"^version *= *(\S+)", (FOLDER / env / "pyvenv.cfg").read_text(encoding="utf-8"), re.M)
    return found.group(1) if found else "?"


def environment(**changes):
    """The caller's environment without settings of kedge, of the device or of a framework's allocator; changes on top."""
    drop = ("KEDGE_", "SIMCUDA_", "LD_PRELOAD", "PYTORCH_", "FLAGS_", "XLA_", "JAX_", "CUPY_", "TF_", "RMM_",
            "NVTX_INJECTION")
    env = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
    env |= {"TEST_BUILD": str(BUILD), "KEDGE_FRAMEWORKS": str(FOLDER)}
    env |= {k: str(v) for k, v in changes.items() if v is not None}
    return env


def not_in_readme(begin, printed, least=3):
    """The lines of the top README between the line `begin` and the next end that none of the texts `printed` has, whole or as a part of
    a line; blanks do not count. One row if there are fewer than `least`."""
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    shown = [" ".join(line.split()) for line in text.partition(begin)[2].partition("<!-- end -->")[0].splitlines() if line.strip()]
    lines = [" ".join(line.split()) for one in printed for line in one.splitlines()]
    return [line for line in shown if not any(line in whole for whole in lines)] if len(shown) >= least else ["(no lines)"]


def died_at_its_end(status, errors):
    """CPython up to 3.13 ends a thread that asks for the interpreter after its end by unwinding it, which C++ answers with
    std::terminate. PyTorch's autograd threads meet that now and then, without kedge as well, when all is printed."""
    return status != 0 and "terminate called without an active exception" in errors


def say_again(tried):
    """A run that is repeated is printed, so that a log can be searched for how often that was."""
    print(f"died at its end, run again: {' '.join(map(str, tried))}", flush=True)


def keep(row, before, done):
    """What a run said that died at its end: $KEDGE_FRAMEWORKS/results/ROW.died.N."""
    folder = FOLDER / "results"
    folder.mkdir(exist_ok=True)
    number = len(list(folder.glob(f"{row.name}.died.*")))
    (folder / f"{row.name}.died.{number}").write_text(f"{' '.join(map(str, before))}\n{done.errors}", encoding="utf-8")


def execute(row, before, work, **env):
    """Runs the row's script, anew where it died_at_its_end; `before` stands between the wrapper and python (kedge run ...)."""
    died = 0
    for _ in range(ENDINGS):
        done = execute_once(row, before, work, **env)
        if not died_at_its_end(done.status, done.errors):
            break
        died += 1
        keep(row, before, done)
        say_again((row.env, row.case.script, row.api, *before))
        for name in ("SIMCUDA_LOG", "SIMCUDA_STATS", "SIMCUDA_STACKS"): # they are appended to, or there for each process
            for left in env[name].parent.glob(env[name].name + "*") if env.get(name) else ():
                left.unlink()
    done.died = died
    return done


def execute_once(row, before, work, **env):
    outside, inside = row.case.around.get(row.api, ((), ()))
    line = [HERE / "in", row.env, *outside, *before, *inside, "python", HERE / "scripts" / row.case.script, *row.case.args]
    settings = {"SIMCUDA_MEMORY": row.case.memory, **row.case.apis[row.api], **env}
    # A session of its own: what a script that hangs has started must not outlive it.
    with subprocess.Popen([str(x) for x in line], cwd=work, env=environment(**settings), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                          start_new_session=True) as family:
        try:
            output, errors = family.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(family.pid, signal.SIGKILL)
            output, errors = family.communicate()
            errors += f"\nnot at its end after {TIMEOUT} s"
    figures = {}
    found = re.search(r"^figures (\{.*\})\n?\Z", output, re.M)
    if found:
        figures = json.loads(found.group(1))
        output = output[:found.start()]
    return Done(family.returncode, output, errors, figures)


def under_kedge(mode, capture):
    return [KEDGE, "run", "--api", "framework", "--mode", mode, "--capture", capture, "--"]


def captures(work, name):
    """The captures of a run: of its processes, the first one first."""
    return sorted(work.glob(f"{name}.kcap*"), key=lambda p: (len(p.name), p.name))


def reports(work, name, *more):
    """What `kedge report --json` says of each of them."""
    told = []
    for capture in captures(work, name):
        done = subprocess.run([str(KEDGE), "report", str(capture), "--json", "--top", "1000000", *more], env=environment(),
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"kedge report {capture.name}: {done.stderr.strip()[:300]}")
        told.append(json.loads(done.stdout))
    return told


def first_difference(a, b):
    la, lb = a.splitlines(), b.splitlines()
    for x, y in zip(la, lb):
        if x != y:
            return f"{x[:160]!r} became {y[:160]!r}"
    return f"{len(la)} lines became {len(lb)}"


def compare(bare, done, lifted):
    """What differs from the run without kedge, as sentences."""
    wrong = []
    if done.status != bare.status:
        wrong.append(f"exit {done.status}, {bare.status} without kedge: {done.errors.strip()[-800:]}")
    elif done.output != bare.output and "output" not in lifted:
        wrong.append(f"output: {first_difference(bare.output, done.output)}")
    was, now = bare.figures.get("exact", {}), done.figures.get("exact", {})
    for key in sorted(set(was) | set(now)) if done.status == bare.status else ():
        if key not in lifted and was.get(key) != now.get(key):
            wrong.append(f"{key}: {was.get(key)} became {now.get(key)}")
    return wrong


def seen_in(report):
    """(allocations of device memory, those of graphs apart; those; how many have a stack that reaches a line of the script) in a capture."""
    count, graphs = (sum(c["allocated_count"] for c in report["classes"] if c["device_memory"] and (c["name"] == "graph") == wanted)
                     for wanted in (False, True))
    scripts = str(HERE.parent) + "/"
    named = sum(p["allocated_count"] for p in report["places"] if any((f["file"] or "").startswith(scripts) for f in p["stack"]))
    return count, graphs, named


def anchors_of(report):
    """{path: how often} of the phases that kedge makes of what a framework does; those of NVTX have a colon in their names, modules lie
    inside of forwards."""
    found = {}
    for anchor in report["anchors"]:
        if ":" not in anchor["name"] and "forward/" not in anchor["name"]:
            found[anchor["name"]] = found.get(anchor["name"], 0) + 1
    return found


def wrong_anchors(case, told):
    """The anchors that are not as the case says, as sentences."""
    found = [anchors for anchors in map(anchors_of, told) if anchors]
    if case.anchors is None or found == [case.anchors] * case.processes:
        return []
    return [f"anchors {anchors}, not {case.anchors}" for anchors in found if anchors != case.anchors] or \
        [f"{len(found)} processes have anchors, not {case.processes}"]


def run_row(row, full=True):
    """Runs a row. Returns {what: figure or text} for the table; ["wrong"] holds what is not as it must be."""
    result = {"row": row.name, "env": row.env, "case": row.case.name, "api": row.api, "wrong": [], "modes": {},
              "less": row.case.less.get(row.api, ("", ()))[0]}
    if row.case.why:
        return result | {"why": row.case.why}
    work = pathlib.Path(tempfile.mkdtemp(prefix="kedge-frameworks-"))
    wrong = result["wrong"]
    try:
        log = work / "driver.log"
        bare = execute(row, [], work, SIMCUDA_LOG=log, SIMCUDA_STATS=work / "stats")
        asked = [m[0] for m in REQUESTS.finditer(log.read_text(encoding="utf-8", errors="replace"))] if log.exists() else []
        requests, captured = len(asked), sum(" captured " in line for line in asked)
        result |= {"died": {"bare": bare.died}, "same": {}, "status": bare.status, "requests": requests, "step_ms": {"bare": bare.figures.get("step_ms")},
                   "apart": {"bare": bare.figures.get("apart")}, "exact": bare.figures.get("exact"), "steps": bare.figures.get("steps")}
        if bare.status != 0:
            wrong.append(f"without kedge: exit {bare.status}: {bare.errors.strip()[-1500:]}")
            return result
        # Native stacks in one mode: names of functions take kedge report some seconds of a framework's libraries. A program
        # that calls the driver itself has a witness only there, so only where its calls get there.
        watched = "pool" if read_stats(work / "stats").get("births") else "track"
        # That `off` is as if kedge was not there needs no framework (preload.life.r43_off_is_as_if_not_there).
        for mode in (*(m for m in row.case.modes if full or m != "off"), *row.case.variants):
            log = work / f"{mode}.stacks"
            done = execute(row, under_kedge("pool" if mode in VARIANTS else mode, work / f"{mode}.kcap"), work,
                           KEDGE_STACKS=None if mode == watched else "python", KEDGE_POOL=VARIANTS.get(mode),
                           SIMCUDA_STACKS=log if mode == watched else None)
            differs = compare(bare, done, row.lifted)
            wrong += [f"{mode}: {w}" for w in differs]
            result["same"][mode], result["died"][mode] = not differs, done.died
            result["step_ms"][mode] = done.figures.get("step_ms")
            result["apart"][mode] = done.figures.get("apart")
            if mode != "off" and done.status == bare.status:
                told = reports(work, mode)
                seen, graphs, named = (sum(x) for x in zip(*map(seen_in, told))) if told else (0, 0, 0)
                # A captured request is an allocation at each launch of its graph: at least one for each of them.
                recorded, seen = seen + graphs, seen + min(graphs, captured)
                result["modes"][mode] = {"seen": seen, "recorded": recorded, "named": named, "e": told[0].get("e") if told else None,
                                         "complete": all(r["complete"] for r in told)}
                if seen != requests and "seen" not in row.lifted:
                    wrong.append(f"{mode}: {seen} allocations in the capture, {requests} in the driver's log without kedge")
                wrong += [f"{mode}: {w}" for w in wrong_anchors(row.case, told)]
                result["anchors"] = next(filter(None, map(anchors_of, told)), {})
                if not result["modes"][mode]["complete"]:
                    wrong.append(f"{mode}: a capture is not complete")
                if mode == watched:
                    result["stacks"] = {"mode": mode} | stacks.check(STACKS_OF, captures(work, mode), log)
                    wrong += [f"{mode}: {w}" for w in result["stacks"].pop("wrong")]
        if row.case.witness:
            result["witness"] = witness(row, bare, work, SCHEDULES if full else SCHEDULES[1:], any(" cuMemCreate " not in line for line in asked))
        if row.api in row.case.mutant and full:
            result["mutant"] = mutant(row, row.case.mutant[row.api], bare, work, wrong)
        wrong += result.get("witness", {}).pop("wrong", [])
        return result
    finally:
        shutil.rmtree(work, ignore_errors=True)


def read_stats(path):
    """The figures of SIMCUDA_STATS, summed over the processes of a run."""
    figures = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        key, _, value = line.rpartition(" ")
        if value.isdigit():
            figures[key] = figures.get(key, 0) + int(value)
    return figures


def witness(row, bare, work, schedules, is_seen):
    """Under late schedules: what the script prints stays, and no memory is handed out too early. is_seen: by calls that libwitness.so
    stands in front of."""
    told = {"runs": 0, "reuses": 0, "premature": 0, "wrong": []}
    if row.case.driver and not WITNESS.exists():
        return told | {"wrong": [f"no {WITNESS.name} in this build"]}
    # Above kedge; of a library that is preloaded before, kedge run would stand in front.
    above = ["sh", "-c", f'LD_PRELOAD={WITNESS}:$LD_PRELOAD exec "$@"', "sh"] if row.case.driver else []
    for schedule, seed in schedules:
        stats = work / f"stats.{schedule}.{seed}"
        done = execute(row, [*under_kedge("pool", work / "late.kcap"), *above], work, SIMCUDA_SCHED=schedule, SIMCUDA_SEED=seed,
                       SIMCUDA_STATS=stats)
        told["runs"] += 1
        told["died"] = told.get("died", 0) + done.died
        told["reuses"] += read_stats(stats).get("reuses", 0)
        if row.case.driver and is_seen and not read_stats(stats).get("births"):
            told["wrong"].append(f"{schedule} {seed}: the witness saw no allocation")
        told["premature"] += done.status == PREMATURE
        differs = compare(bare, done, row.lifted)
        if differs and done.status == bare.status: # a script may leave an order open: then it is open without kedge, too
            differs = compare(execute(row, [], work, SIMCUDA_SCHED=schedule, SIMCUDA_SEED=seed), done, row.lifted)
        told["wrong"] += [f"{schedule} {seed}: {w}" for w in differs]
    return told


def mutant(row, word, bare, work, wrong):
    """With one safety device switched off, a late schedule must show it: the witness, or an output that is neither that of the
    run without kedge nor that of such a run under the same schedule: a script may leave an order open."""
    if not MUTANT.exists():
        wrong.append(f"no {MUTANT.name} in this build")
        return None
    objects = f"{WITNESS}:{MUTANT}" if row.case.driver else MUTANT
    for schedule, seed in MUTANT_SCHEDULES:
        done = execute(row, ["env", f"LD_PRELOAD={objects}"], work, TEST_KEDGE_MUTATE=word, KEDGE_MODE="pool",
                       KEDGE_TRACE="off", SIMCUDA_SCHED=schedule, SIMCUDA_SEED=seed)
        if done.status == PREMATURE or (done.output != bare.output and done.output != execute(
                row, [], work, SIMCUDA_SCHED=schedule, SIMCUDA_SEED=seed).output):
            how = "premature reuse" if done.status == PREMATURE else "another output"
            return f"without {word}: {how} ({schedule} {seed})"
    wrong.append(f"without {word} nothing showed in {len(MUTANT_SCHEDULES)} tries")
    return None
