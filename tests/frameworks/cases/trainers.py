# SPDX-License-Identifier: MIT
"""Other people's trainers, each once in every mode, with the pool's two other ways, and under late schedules: the loops of
tests/python/same without faults, two ranks by torchrun, and loops from the examples of PaddlePaddle and JAX. What is expected of their
anchors follows from preload/DESIGN.md and from what a script says it does, not from what was seen."""
import harness
from harness import Case
from jax import APIS as XLA
from paddle import BOTH as PADDLE
from torch import APIS, NCCL

PACKAGE, TITLE = "transformers", "Other people's trainers"
PACKAGES = ("transformers", "peft", "accelerate", "lightning", "diffusers", "torchvision", "stable_baselines3")
ENV = ("trainers",)
OFFLINE = {"HF_HUB_OFFLINE": "1"}
TENSORS = {name: APIS[name] | OFFLINE for name in ("async", "nocache")} # where every tensor reaches kedge
SEGMENTS = {"caching": APIS["caching"] | OFFLINE}
TWO_DEVICES = {name: NCCL[name] | OFFLINE | {"SIMCUDA_DEVICES": "2"} for name in ("async", "nocache")}
JAX = {name: XLA[name] for name in ("async", "platform")}
LIKE = {"variants": tuple(harness.VARIANTS), "witness": True}


def anchors(steps=0, forward=0, backward=None, data=0, before=0, evaluated=0, **named):
    """{path: how often}: so many steps that end, and one that does not; `before`: batches before the first forward."""
    steps_open = {"step": steps + 1, "step/optimizer": steps} if steps else {}
    found = {**steps_open, "step/forward": forward, "step/backward": steps if backward is None else backward, "step/data": data, "data": before,
             "eval": evaluated, "eval/forward": evaluated, **named}
    return {path: count for path, count in found.items() if count}


def of(kind, counts, apis=None, mutant=None):
    return Case(kind, ENV, "../../python/same_program.py", (kind, "--once"), apis=apis or TENSORS, anchors=counts, mutant=mutant or {}, **LIKE)


def ranks(kind, counts):
    return Case(f"{kind}_of_two_ranks", ENV, "torch_ranks.py", (kind,), apis=TWO_DEVICES, anchors=counts, processes=2, **LIKE)


# Trainer: 3 steps of 2 batches; it asks for a batch more than it needs, and at the end of each epoch in vain. Then an evaluation.
TRAINER = anchors(3, forward=6, backward=6, before=3, data=7, evaluated=1)
CASES = [
    of("transformers", TRAINER, apis=TENSORS | SEGMENTS),
    of("peft", TRAINER),
    of("generate", anchors(evaluated=4 * 6)),
    # 4 batches of 2 to a step; its loader is one batch ahead
    of("accelerate", anchors(2, forward=4, backward=4, before=2, data=3)),
    # Three trainings of 4 + 8 + 9 steps, each with an optimizer of its own, whose first two steps are in one `step`. The first one has a
    # scaler, which is given no closure: 8 forwards and backwards. The second one calls its optimizer itself: 8. The last one gives
    # closures in 2 of its 3 epochs; the third one sets the averaged batch norms: 3 forwards, and a closure without a backward.
    of("lightning", anchors(21, forward=8 + 8 + 3, backward=8 + 8, before=1, data=27, evaluated=26, step=20, eval=2 * 26,
                            **{"eval/data": 26, "step/optimizer/forward": 8 + 1, "step/optimizer/backward": 8})),
    # 2 batches, then a pipeline with 2 steps of inference
    of("diffusers", anchors(2, forward=2, before=1, data=2, evaluated=2)),
    # 2 batches, each through a transform that is a module, too. Then the model is asked, and a graph is made twice in training and
    # twice in evaluation, of 4 modules; the last one is run.
    of("torchvision", anchors(2, forward=2 * 2 + 2 * 4, before=1, data=2, evaluated=1 + 2 * 4 + 1)),
    # 64 actions, 8 minibatches: each calls four modules. Two bootstraps and an action at the end call three each.
    of("ppo", anchors(8, forward=8 * 4, evaluated=64 + 3 * 3), mutant={"nocache": "fence"}),
    ranks("ddp", anchors(3, forward=6, backward=6, before=3, data=8, evaluated=1)),
    ranks("fsdp2", anchors(3, forward=6, backward=6)),
    # 6 batches, 3 in each epoch; a loader is asked once in vain. The loss is a layer, and called in training and in evaluation (6), but
    # not where it predicts (3).
    Case("paddle_model", ("paddle",), "paddle_examples.py", ("fit",), apis=PADDLE,
         anchors=anchors(6, forward=2 * 6, before=1, data=2 * 4 + 2 * 4 + 4 - 1, evaluated=2 * 6 + 3), **LIKE),
    Case("paddle_loop", ("paddle",), "paddle_examples.py", ("loop",), apis=PADDLE,
         mutant={"system": "fence"},
         anchors=anchors(6, forward=6, before=1, data=2 * 4 - 1, evaluated=6, eval=6 + 2 * 4, **{"eval/data": 2 * 4}), **LIKE),
    Case("jax_classifier", ("jax",), "jax_examples.py", apis=JAX, driver=True, anchors={}, processes=0, **LIKE),
]


def word(result, mode):
    same = result["same"].get(mode)
    return "not run" if same is None else "same" if same else "**different**"


def line(result):
    late = result.get("witness") or {}
    steps = result.get("anchors") or {}
    other = "**not as expected**: " if any(": anchors" in w or "have anchors" in w for w in result["wrong"]) else ""
    seen = result["modes"].get("pool", {}).get("seen", 0)
    died = {**result["died"], "late": late.get("died", 0)}
    return " | ".join(["", result["case"].replace("_", " "), result["api"], *(word(result, m) for m in (*harness.MODES, *harness.VARIANTS)),
                       "%(runs)d / %(reuses)d / %(premature)d" % late if late else "-", f"{seen} of {result['requests']}",
                       other + (", ".join(f"{path} {count}" for path, count in steps.items()) or "none"),
                       ", ".join(f"{mode} {count}" for mode, count in died.items() if count) or "none", ""]).strip()


def section(done):
    """The rows in results.md."""
    yield ", ".join(f"{p} {harness.version_of(ENV[0], p)}" for p in PACKAGES) + f", on PyTorch {harness.version_of('torch', 'torch')}."
    yield "`remap=eager` and `sync=mapped` are words of `KEDGE_POOL`. *aborted*: runs that ended with \"terminate called without an active"
    yield "exception\" when all was printed, by mode; they were run again. *anchors*: how often each was open in a process, as expected.\n"
    yield "| trainer | allocator | off | track | pool | `remap=eager` | `sync=mapped` | late: runs / reuses / too early | seen | anchors | aborted |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    yield from (line(d) for d in done)
    lacking = {r.name for c in CASES for r in c.rows(False)} - {d["row"] for d in done}
    if lacking:
        yield "\nNot run: " + ", ".join(f"`{name}`" for name in sorted(lacking)) + "."
    yield "\nWith one safety device of the library switched off: " + "; ".join(
        f"`{d['case']}` ({d['api']}): {d['mutant']}" for d in done if d.get("mutant")) + "."
