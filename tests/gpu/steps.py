# SPDX-License-Identifier: MIT
"""The steps of a visit to a GPU, by worth. Each is a function that yields records, one for each thing that it has found out.

A record is a dictionary: `name`, `wrong` (sentences; empty: as it should be), or `skipped` (why), and what else is worth keeping.
It is written down as soon as it is there, so a step that is cut off loses what it was at and nothing before.
"""
import contextlib
import json
import re
import sys
import tempfile

import runs
from runs import FIGURES, HERE, KEDGE, LIBRARY, Program, binary, human, python_script, script, torch_script, trainer

ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
WINDOW = ("--from", "SOT_CALL_0", "--to", "SOT_CALL_428")

# ---- questions and facts: gpu_*_test --------------------------------------------------------

# What may differ under kedge, and the rule that says so: where a block lies in the driver's memory, what is refused, figures.
MAY_DIFFER = re.compile(r"attribute\.(small|large|interior)\.(RANGE_\w+|MAPPING_\w+|BUFFER_ID|MEMORY_BLOCK_ID)$"  # R21
                        r"|attribute\.stream_ordered\.(RANGE_\w+|MAPPING_\w+|BUFFER_ID|MEMORY_BLOCK_ID)$"  # R79
                        r"|attribute\.freed\."  # a freed block is still the pool's
                        r"|ipc\.|dma_buf$"  # R23
                        r"|code\.capture\.\w+\.free$"  # R2, R12: a free makes no call that a capture could forbid
                        r"|cost\.|reuse\.|alignment_of_all$|free_memory_lost$|lost_after_resets$|look_ups\.")
STATUS = {0: "passed", 77: "skipped"}


def ask(device, program, case, more, limit):
    """One case of one program: its status and its facts."""
    run = device.execute([program, case], limit, more)
    found = dict(re.findall(r"^fact (\S+) (.*)$", run["output"], re.M))
    word = STATUS.get(run["status"], f"failed ({run['status']})")
    return {"status": word, "facts": found, "output": "" if word in STATUS.values() else (run["output"] + run["errors"])[-3000:]}


def differences(alone, kedge):
    """Where both ran: [(name, alone, under kedge)] of the facts that are not the same and must be."""
    if {alone["status"], kedge["status"]} != {"passed"}:
        return []
    a, b = alone["facts"], kedge["facts"]
    return [(n, a.get(n, "nothing"), b.get(n, "nothing")) for n in sorted(set(a) | set(b))
            if a.get(n) != b.get(n) and not MAY_DIFFER.match(n)]


def ask_program(device, program):
    """Every case, alone and under kedge."""
    more = {"TEST_GPU_ON_SIM": "1", "SIMCUDA_SCHED": "lazy", "SIMCUDA_MEMORY": "2G", "SIMCUDA_DEVICES": "2"} if device.simulated else {}
    kedge = {"LD_PRELOAD": LIBRARY, "KEDGE_TRACE": "off", "KEDGE_POOL": "placement=export-safe"}
    subject = program.name.removeprefix("gpu_").removesuffix("_test")
    for case in device.execute([program, "--list"], 30)["output"].split():
        if device.is_late():
            yield {"name": f"{subject}.{case}", "skipped": "out of time"}
            continue
        alone = ask(device, program, case, more, 60)
        under = ask(device, program, case, more | kedge, 60)
        wrong = [f"{who}: {found['status']}" for who, found in (("alone", alone), ("under kedge", under))
                 if found["status"] not in STATUS.values()]
        wrong += [f"{name}: {a} alone, {b} under kedge" for name, a, b in differences(alone, under)]
        yield {"name": f"{subject}.{case}", "wrong": wrong, "alone": alone, "kedge": under}


def questions(device):
    """What kedge relies on and nobody has seen on a GPU: costs of mappings, numbers of streams, events, handles, forms"""
    yield from ask_program(device, binary("tests", "gpu", "gpu_questions_test"))


def facts(device):
    """What the driver answers, alone and under kedge"""
    for program in sorted(binary("tests", "gpu").glob("gpu_*_test")):
        if program.name != "gpu_questions_test":
            yield from ask_program(device, program)


# ---- programs in four modes ----------------------------------------------------------------


def compare(device, programs):
    """Each program without kedge, twice, and in each mode."""
    with tempfile.TemporaryDirectory(prefix="kedge-gpu-") as folder:
        for program in programs:
            why = program.why_not() or ("out of time" if device.is_late() else None)
            if why:
                yield {"name": program.name, "skipped": why}
                continue
            done = runs.run_modes(device, program, folder)
            cut_off = device.is_late() and any(run["status"] == "out of time" for run in done.values())
            wrong = [] if cut_off else runs.judge(program, done)
            for run in done.values():
                output, errors = run.pop("output"), run.pop("errors")
                if wrong:
                    run["output"], run["errors"] = output[-3000:], errors[-3000:]
                run["result"] = run["result"][-8:]
            record = {"skipped": "out of time"} if cut_off else {"wrong": wrong, "runs": done}
            yield {"name": program.name} | record


def programs(device):
    """Small programs without kedge and in each of its modes: the same results"""
    checksum = r"^checksum .*$"

    def sized(name, graph, at_once, entrance, limit):
        return Program(f"{name}, {entrance}", [trainer("sot"), "--form", "pir", "--graph", graph, "--entrance", entrance],
                       checksum + "|^ledger .*$", limit, at_once=at_once)

    def listed():
        for kind in ("dynamic", "static"):  # the real static runtime wants more of a driver than the simulated one has
            if kind == "dynamic" or not device.simulated:
                yield Program(f"plain, {kind} runtime", [binary("tests", "gpu", f"plain_{kind}")], checksum + "|^free is .*$")
        for entrance in ("sync", "stream"):
            yield sized("sot small", "small", 5, entrance, 30)
        for name in ("streams", "threads", "graphs", "driverprog"):
            for entrance in ("sync", "stream"):
                yield Program(f"{name}, {entrance}", [trainer(name), "--entrance", entrance], checksum, 30)
        for entrance in ("sync", "stream"):
            yield sized("sot full", "full", 1 if device.simulated else 2, entrance, 60)
    yield from compare(device, listed())


def torch(device):
    """PyTorch without kedge and in each mode: the same losses, the same figures of its own"""
    def listed():
        for words, env in (("cudaMallocAsync", ASYNC), ("its own cache", {})):
            yield torch_script(f"leak, {words}", "torch_leak.py", "--leak", env=env)
            yield torch_script(f"GPT, {words}", "torch_gpt.py", env=env)
            yield torch_script(f"CNN, {words}", "torch_cnn.py", env=env)
            yield script(f"graphs, profiler, Triton, large blocks, {words}", "torch_more.py", lines=r"^.+$", env=env)
        yield torch_script("GPT, no cache", "torch_gpt.py", env=NO_CACHE)
        yield torch_script("GPT, expandable segments", "torch_gpt.py", env=EXPANDABLE)
        yield torch_script("graphs of whole steps, cudaMallocAsync", "torch_graphs.py", env=ASYNC)
        # Handles are for blocks that nobody shares a segment with.
        yield script("tensors to another process", "torch_ipc.py", lines=r"^result .*$",
                     env={"KEDGE_POOL": "placement=export-safe"})
    yield from compare(device, listed())


def others(device):
    """CuPy and JAX without kedge and in each mode"""
    def listed():
        yield script("CuPy", "cupy_smoke.py", needs="cupy", lines=r"^result .*$")
        for allocator in ("platform", "cuda_async"):
            yield script(f"JAX, {allocator} allocator", "jax_smoke.py", needs="jax", lines=r"^loss .*$",
                         env={"XLA_PYTHON_CLIENT_ALLOCATOR": allocator})
    yield from compare(device, listed())


# ---- hints ---------------------------------------------------------------------------------


class Broken(Exception):
    """A command of a loop did not do what the next one needs."""


class Loop:
    """Commands of kedge's on one program, in a folder of its own."""

    def __init__(self, device, folder, env=None):
        self.device, self.folder, self.env, self.seconds = device, folder, env or {}, {}

    def command(self, name, *line, **env):
        done = self.device.execute(line, 120, self.env | env, self.folder)
        self.seconds[name] = done["seconds"]
        if done["status"] != 0:
            raise Broken(f"{name}: {done['status']}: {runs.tail(done)}")
        return done

    def recorded(self, name, *line, **env):
        """Under kedge run; returns what the program printed."""
        return self.command(name, KEDGE, "run", "--capture", f"{name}.kcap", "--", *line, **env)["output"]

    def report(self, name, *window):
        found = self.device.told("report", f"{name}.kcap", *window, folder=self.folder)
        if not found:
            raise Broken(f"report {name}: no figures")
        return found

    def verify(self, *line, **env):
        sim = ["--sim"] if self.device.simulated else []
        self.command("verify", KEDGE, "verify", *sim, "--hints", "hints.yaml", "--", *line, **env)


@contextlib.contextmanager
def loop(device, record, env=None):
    """A Loop whose failure becomes a sentence of the record."""
    with tempfile.TemporaryDirectory(prefix="kedge-gpu-") as folder:
        made = Loop(device, folder, env)
        try:
            yield made
        except Broken as broken:
            if device.is_late():
                record["skipped"] = "out of time"
            else:
                record["wrong"].append(str(broken))
        record["seconds_of"] = made.seconds


def good_and_bad(device, name, good, bad, window=(), env=None, result=r"^.+$"):
    """A good and a bad form: suggest, verify, the bad form with its hints. Yields one record."""
    record = {"name": name, "wrong": []}
    with loop(device, record, env) as at:
        plain = at.recorded("bad", *bad)
        at.recorded("good", *good)
        at.command("suggest", KEDGE, "suggest", "--good", "good.kcap", "--bad", "bad.kcap", "-o", "hints.yaml")
        at.verify(*bad)
        hinted = at.recorded("hinted", *bad, KEDGE_HINTS=f"{at.folder}/hints.yaml", KEDGE_HINTS_MODE="live")
        reports = {n: at.report(n, *window) for n in ("bad", "good", "hinted")}
        record["reports"] = {n: {k: r.get(k) for k in FIGURES} for n, r in reports.items()}
        if re.findall(result, plain, re.M) != re.findall(result, hinted, re.M):
            record["wrong"].append("the output with hints is another one")
        if not reports["hinted"]["hinted_freed_bytes"]:
            record["wrong"].append("no hint released anything")
        if reports["hinted"]["peak_reserved_bytes"] >= reports["bad"]["peak_reserved_bytes"]:
            record["wrong"].append("the device held no less with hints")
    return record


def hints(device):
    """The loop of the README: record, suggest, verify, run with hints"""
    leak = [sys.executable, python_script("torch_leak.py")]
    if runs.installed("torch"):
        yield good_and_bad(device, "PyTorch, a curve of losses", leak, [*leak, "--leak"], env=ASYNC)
    else:
        yield {"name": "PyTorch, a curve of losses", "skipped": "torch is not installed"}
    if device.is_late():
        yield {"name": "sot, full graph", "skipped": "out of time"}
        return
    sot = [trainer("sot"), "--graph", "full", "--form"]
    yield good_and_bad(device, "sot, full graph", [*sot, "pt"], [*sot, "pir"], WINDOW, result=r"^checksum .*$")


def eviction(device):
    """More than a cap allows: units go out to the host and come in again"""
    for entrance in ("stream", "sync"):
        record = {"name": f"gemini under a cap, {entrance}", "wrong": []}
        line = [trainer("gemini"), "--entrance", entrance, "--streams", "2"]
        with loop(device, record) as at:
            plain = at.command("plain", *line)["output"]
            capped = at.recorded("capped", *line, KEDGE_HINTS=HERE / "gemini_capped.yaml", KEDGE_HINTS_MODE="poison")
            record["reports"] = {"capped": {k: at.report("capped").get(k) for k in FIGURES}}
            record["eviction"] = [{k: v for k, v in e.items() if k != "steps"} for e in at.report("capped").get("eviction", [])]
            if re.findall(r"^checksum .*$", plain, re.M) != re.findall(r"^checksum .*$", capped, re.M):
                record["wrong"].append("the checksum under the cap is another one")
            if not record["eviction"]:
                record["wrong"].append("nothing went out")
        yield record
    if not runs.installed("torch"):
        yield {"name": "PyTorch with Adam on 60 %", "skipped": "torch is not installed"}
        return
    record = {"name": "PyTorch with Adam on 60 %", "wrong": []}
    line = [sys.executable, python_script("torch_adam.py"), "--steps", "9"]
    with loop(device, record, {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}) as at:
        plain = at.command("all", KEDGE, "run", "--trace", "full,uses=order", "--capture", "all.kcap", "--", *line)["output"]
        held = at.report("all")["peak_reserved_bytes"]
        cap = held * 6 // 10 >> 21 << 21
        at.command("suggest", KEDGE, "suggest", "all.kcap", "--cap", cap, "-o", "hints.yaml")
        capped = at.command("capped", KEDGE, "run", "--trace", "full,uses=order", "--hints", "hints.yaml", "--hints-mode", "poison",
                            "--capture", "capped.kcap", "--", *line)["output"]
        reports = {n: at.report(n) for n in ("all", "capped")}
        record["cap"], record["reports"] = cap, {n: {k: r.get(k) for k in FIGURES} for n, r in reports.items()}
        record["eviction"] = [{k: v for k, v in e.items() if k != "steps"} for e in reports["capped"].get("eviction", [])]
        if plain != capped:
            record["wrong"].append("the output under the cap is another one")
        if reports["capped"]["peak_reserved_bytes"] >= held:
            record["wrong"].append(f"the device held {human(reports['capped']['peak_reserved_bytes'])}, no less than without the cap")
    yield record


# ---- predictions and figures ---------------------------------------------------------------


def printed_figures(output):
    last = re.findall(r"^figures (\{.*\})$", output, re.M)
    return json.loads(last[-1]) if last else {}


def whatif(device):
    """What `kedge whatif` says that allocators would hold, beside what they hold"""
    if not runs.installed("torch"):
        yield {"name": "GPT", "skipped": "torch is not installed"}
        return
    for name, arguments in (("GPT", ("--dim", "256", "--seq", "256", "--variable")), ("GPT with checkpoints", ("--checkpoint",))):
        record = {"name": name, "wrong": []}
        line = [sys.executable, python_script("torch_gpt.py"), *arguments]
        with loop(device, record) as at:
            at.recorded("requests", *line, KEDGE_MODE="track", **ASYNC)
            model = device.told("whatif", "requests.kcap", "--policy", "torch,torch-expandable,async,kedge", folder=at.folder)
            said = {p["policy"]: p["peak_reserved_bytes"] for p in (model or {}).get("policies", [])}
            held = {}
            for policy, env in (("torch", {}), ("torch-expandable", EXPANDABLE), ("async", ASYNC)):
                found = printed_figures(at.command(policy, *line, **env)["output"])
                held[policy] = found.get("apart", {}).get("max_reserved")
            at.recorded("kedge", *line, **ASYNC)
            held["kedge"] = at.report("kedge")["peak_reserved_bytes"]
            record["policies"] = {p: {"predicted": said.get(p), "held": held.get(p)} for p in held}
            record["wrong"] += [f"{p}: no figure" for p, v in record["policies"].items() if not v["predicted"] or not v["held"]]
        yield record


def figures(device):
    """What PyTorch itself says that scripts need, to compare with the simulated device"""
    if not runs.installed("torch"):
        yield {"name": "scripts", "skipped": "torch is not installed"}
        return
    scripts = [("torch_gpt.py",), ("torch_gpt.py", "--autocast"), ("torch_gpt.py", "--checkpoint"), ("torch_cnn.py",), ("torch_lstm.py",),
               ("torch_embedding.py",), ("torch_streams.py",)]
    for file, *arguments in scripts:
        for words, env in (("its own cache", {}), ("cudaMallocAsync", ASYNC)):
            name = " ".join((file, *arguments)) + f", {words}"
            if device.is_late():
                yield {"name": name, "skipped": "out of time"}
                continue
            done = device.execute([sys.executable, python_script(file), *arguments], 60, env)
            found = printed_figures(done["output"])
            if done["status"] == "out of time" and device.is_late():
                yield {"name": name, "skipped": "out of time"}
                continue
            wrong = [] if found else [f"no figures: {done['status']}: {runs.tail(done)}"]
            yield {"name": name, "wrong": wrong, "max_allocated": found.get("exact", {}).get("max_allocated"),
                   "max_reserved": found.get("apart", {}).get("max_reserved")}


def tools(device):
    """compute-sanitizer and nsys find nothing under kedge that they do not find without"""
    done = device.execute([sys.executable, HERE / "watched_by_tools.py"], 120, {"KEDGE_BUILD": runs.BUILD})
    if done["status"] == 77:
        yield {"name": "compute-sanitizer, nsys", "skipped": done["output"].strip().removeprefix("SKIP: ")}
    else:
        yield {"name": "compute-sanitizer, nsys", "output": done["output"][-3000:],
               "wrong": [] if done["status"] == 0 else [f"exit {done['status']}: {runs.tail(done)}"]}


# By worth. (step, seconds at most): what a step leaves over is the next ones'.
STEPS = [(questions, 70), (facts, 80), (programs, 90), (torch, 150), (hints, 70), (eviction, 60), (whatif, 60), (figures, 60), (tools, 60),
         (others, 60)]
