# SPDX-License-Identifier: MIT
"""Anchors of the real PyTorch and PaddlePaddle: what a loop that says nothing becomes, and that nothing else changes."""
import collections
import dataclasses
import json
import pathlib
import re
import shutil
import tempfile

import harness
from harness import Case, Row, compare, execute, reports

PACKAGE, TITLE = "torch", "Anchors of programs that say nothing"
STEPS = 5
PART_STEPS = 4 # of torch_parts.py
RUNNING = re.compile(r", (seq|op_id|sizes|input_op_ids) = ")


def kedge(*options, capture=None):
    return [harness.KEDGE, "run", *options, *(["--capture", capture] if capture else []), "--"]


def anchors_of(report):
    """{path: [bytes allocated in each of its instances]}"""
    found = {}
    for anchor in sorted(report["anchors"], key=lambda a: a["instance"]):
        found.setdefault(anchor["name"], []).append(anchor["allocated_bytes"])
    return found


def phases(row, work):
    """Each step has its phases, as often as the script says, and from the second on each is as large as the last."""
    done = execute(row, kedge(capture=work / "run.kcap"), work)
    wrong = [] if done.status == 0 else [f"exit {done.status}: {done.errors.strip()[-800:]}"]
    if done.errors.count("PyTorch gets backend:cudaMallocAsync") != 1:
        wrong.append(f"the switch was not told once: {done.errors.strip()[:300]}")
    told = reports(work, "run")
    found = anchors_of(told[0]) if told else {}
    for path in ("step/forward", "step/backward", "step/optimizer"):
        sizes = found.get(path, [])
        if len(sizes) != STEPS:
            wrong.append(f"{path}: {len(sizes)} instances, {STEPS} steps")
        elif len(set(sizes[1:])) != 1 or sizes[1] == 0:
            wrong.append(f"{path}: {sizes} bytes")
    if len(found.get("step", [])) != STEPS + 1:
        wrong.append(f"step: {len(found.get('step', []))} instances")
    inside = sum(found.get("step", [])) / told[0]["allocated_bytes"] if told else 0
    return wrong, f"{STEPS} steps; {100 * inside:.1f} % of what was allocated is in them"


def paddle_phases(row, work):
    """The same of Paddle's script, whose batches repeat after three steps."""
    done = execute(row, kedge(capture=work / "run.kcap"), work)
    wrong = [] if done.status == 0 else [f"exit {done.status}: {done.errors.strip()[-800:]}"]
    told = reports(work, "run")
    found = anchors_of(told[0]) if told else {}
    for path in ("step/forward", "step/backward", "step/optimizer"):
        sizes = found.get(path, [])
        if len(sizes) != STEPS:
            wrong.append(f"{path}: {len(sizes)} instances, {STEPS} steps")
        elif sizes[1] != sizes[4] or sizes[0] == 0:
            wrong.append(f"{path}: {sizes} bytes")
    if len(found.get("step", [])) != STEPS + 1:
        wrong.append(f"step: {len(found.get('step', []))} instances")
    return wrong, f"{STEPS} steps; {sum(found.get('step', []))} of {told[0]['allocated_bytes'] if told else 0} bytes are in them"


def by_name(row, work):
    """Modules by name: every one that the model calls, in each forward."""
    done = execute(row, kedge(capture=work / "run.kcap"), work, KEDGE_ANCHORS="python=modules")
    wrong = [] if done.status == 0 else [f"exit {done.status}: {done.errors.strip()[-800:]}"]
    told = reports(work, "run")
    found = anchors_of(told[0]) if told else {}
    names = [n for layer in range(3) for n in (f"blocks.{layer}", f"blocks.{layer}/qkv", f"blocks.{layer}/norm1", f"blocks.{layer}/down")]
    for name in [*names, "tokens", "head"]:
        if len(found.get(f"step/forward/{name}", [])) != STEPS:
            wrong.append(f"{name}: {len(found.get(f'step/forward/{name}', []))} instances, {STEPS} steps")
    return wrong, f"{sum(path.startswith('step/forward/') for path in found)} paths of modules"


def parts(row, work):
    """Modules that Lightning's training_step calls, and those in them: each has its name, and no other one has it."""
    done = execute(row, kedge(capture=work / "run.kcap"), work, KEDGE_ANCHORS="python=modules")
    lines = [line for line in done.output.splitlines() if line.startswith("[")]
    if done.status != 0 or not lines:
        return [f"exit {done.status}: {done.errors.strip()[-800:]}"], ""
    # each part is called inside of the one around it; the first forward is not inside of the optimizer
    names, told = {name.replace(".", "/") for name in json.loads(lines[-1])}, collections.Counter()
    for path, instances in anchors_of(reports(work, "run")[0]).items():
        before, forward, name = path.partition("forward/")
        told[name] += len(instances) if forward and before in ("step/", "step/optimizer/") else 0
    told = {name: count for name, count in told.items() if count}
    wrong = [] if told == dict.fromkeys(names, PART_STEPS) and len(names) == 9 else [f"modules: {told}, wanted {sorted(names)}"]
    return wrong, f"{len(told)} modules, each with a name of its own"


def untouched(row, work):
    """What a script prints is what it prints without kedge, with and without names of modules."""
    bare = execute(row, [], work)
    wrong = [] if bare.status == 0 else [f"without kedge: exit {bare.status}: {bare.errors.strip()[-800:]}"]
    for words in ("python=off", "python=steps", "python=modules"):
        done = execute(row, kedge("--api", "framework"), work, KEDGE_ANCHORS=words, KEDGE_TRACE="off")
        wrong += [f"{words}: {w}" for w in compare(bare, done, ())]
    return wrong, f"{len(bare.output.splitlines())} lines are the same"


def running_numbers(row, work):
    """emit_nvtx's running numbers are no part of a name, so instances of one path are as many as steps, or more."""
    done = execute(row, kedge(capture=work / "run.kcap"), work)
    wrong = [] if done.status == 0 else [f"exit {done.status}: {done.errors.strip()[-800:]}"]
    if done.output != "allocator: cudaMallocAsync\n":
        wrong.append(f"told: {done.output}")
    told = reports(work, "run")
    found = anchors_of(told[0]) if told else {}
    numbered = [path for path in found if RUNNING.search(path)]
    if numbered:
        wrong.append(f"{len(numbered)} paths with running numbers, one is {numbered[0]}")
    linear = [path for path in found if path.endswith("/aten::linear")]
    if not linear or any(len(found[path]) < 4 for path in linear):
        wrong.append(f"aten::linear: {[(path, len(found[path])) for path in linear]}")
    return wrong, f"{len(found)} paths"


@dataclasses.dataclass
class Told(Row):
    def run(self, full):
        work = pathlib.Path(tempfile.mkdtemp(prefix="kedge-anchors-"))
        try:
            wrong, sentence = self.case.look(self, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return {"row": self.name, "env": self.env, "case": self.case.name, "api": self.api, "wrong": wrong, "modes": {}, "less": "",
                "verdict": "as it should be", "sentence": sentence}


@dataclasses.dataclass
class Look(Case):
    look: object = None

    def rows(self, short):
        for env in self.envs:
            if not short or env in (self.short or ()):
                yield Told(self, env, "default")


def section(done):
    """The rows in results.md."""
    yield "| case | environment | what was found |"
    yield "|---|---|---|"
    for result in done:
        what = "**" + result["wrong"][0].splitlines()[0][:200] + "**" if result["wrong"] else result["sentence"]
        yield f"| {result['case'].replace('_', ' ')} | {result['env']} | {what} |"


BOTH = ("torch", "torch-2024")
GPT = ("torch_gpt.py", ("--steps", str(STEPS)))
CASES = [
    Look("anchors_phases", BOTH, *GPT, look=phases, short=("torch",)),
    Look("anchors_checkpoint", BOTH, "torch_gpt.py", ("--steps", str(STEPS), "--checkpoint"), look=phases),
    Look("anchors_modules", BOTH, *GPT, look=by_name),
    Look("anchors_parts", ("trainers",), "torch_parts.py", look=parts),
    Look("anchors_untouched", BOTH, "torch_modules.py", look=untouched),
    Look("anchors_paddle", ("paddle",), "paddle_train.py", ("--steps", str(STEPS)), look=paddle_phases),
    Look("anchors_paddle_static", ("paddle",), "paddle_train.py", ("--steps", str(STEPS), "--static"), look=paddle_phases),
    Look("anchors_paddle_untouched", ("paddle",), "paddle_train.py", ("--static", "--conv"), look=untouched),
    Look("anchors_numbers", BOTH, "torch_said.py", look=running_numbers),
]
