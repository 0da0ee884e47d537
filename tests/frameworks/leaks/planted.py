# SPDX-License-Identifier: MIT
"""The planted leaks: which program, whose library, and what an answer has to say. Written before kedge was asked, but for this: the
lines of `optimizers_anew`, `cycles` and `lightning_batches` got a second mark, the rounds other words, and `callback_weights` and
`ppo_distributions`, which at first leaked nothing, their fault.

Which lines are right stands in the programs: `# made: NAME` where the memory comes from, `# kept: NAME` where something takes hold
of it. (`# made: forward` are the lines of the GPT's forward pass; they are right for a case whose graphs or outputs come from there.)
"""
import dataclasses
import pathlib
import re

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


@dataclasses.dataclass(frozen=True)
class Planted:
    """One program.

    holder    words of which one must stand in the answer: the object that has to let go
    forward   lines of the forward pass are right, too
    rounds    other words for the program's round than that which it prints, with how many of them make one of its rounds
    harmless  nothing leaks; --leak switches on what looks like a leak
    """
    name: str
    program: str
    library: str
    what: str
    holder: tuple = ()
    forward: bool = False
    rounds: dict = dataclasses.field(default_factory=dict)
    harmless: bool = False

    def lines(self):
        """{(file, line)} of the lines that are right."""
        path, wanted = PROGRAMS / f"{self.program}.py", {self.name} | ({"forward"} if self.forward else set())
        found = set()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            mark = re.search(r"#.*$", line)
            words = set(re.findall(r"\w+", mark[0])) - {"made", "kept"} if mark and re.search(r"made:|kept:", mark[0]) else set()
            if words & wanted:
                found.add((path.name, number))
        return found


CASES = [
    Planted("eval_with_grad", "gpt", "PyTorch", "evaluation without `no_grad`; the curve keeps losses with their graphs", ("curve",), True),
    Planted("monitored_loss", "gpt", "PyTorch", "an attribute keeps a loss that nobody calls backward on", ("history",), True),
    Planted("retain_graph", "gpt", "PyTorch", "`retain_graph=True`, and a list of losses", ("losses",), True),
    Planted("metric", "gpt", "PyTorch", "a metric keeps predictions, and is not reset", ("predictions",), rounds={"step": 4}),
    Planted("hooks", "gpt", "PyTorch", "a hook for each epoch appends to a list of its own", ("hook", "closure", "seen", "__defaults__"), False, rounds={"step": 3}),
    Planted("kept_errors", "gpt", "PyTorch", "caught errors keep the frames that they left", ("errors", "__traceback__", "traceback"), True),
    Planted("schedule_closure", "gpt", "PyTorch", "a schedule's function has a tensor as default", ("schedules", "lr_lambdas", "__defaults__"), rounds={"step": 3}),
    Planted("optimizers_anew", "gpt", "PyTorch", "an optimizer for each epoch, all kept", ("tried",), rounds={"step": 2}),
    Planted("ema_copies", "gpt", "PyTorch", "a copy of the model for each epoch", ("copies",), rounds={"step": 2}),
    Planted("gradient_history", "gpt", "PyTorch", "copies of gradients in a dict", ("history",)),
    Planted("cycles", "gpt", "PyTorch", "reference cycles, with the collector off", ("log", "(?:a )?cycle that only the collector", "a cycle that the collector"), True),
    Planted("prefetched", "gpt", "PyTorch DataLoader", "a prefetcher keeps all batches", ("queue",)),
    Planted("masks_by_shape", "gpt", "PyTorch", "a global cache by shape that never hits", ("MASKS",)),
    Planted("kv_sessions", "gpt", "PyTorch", "the KV caches of all requests", ("sessions",), rounds={"eval": 6}),
    Planted("old_models", "gpt", "PyTorch", "a new model keeps the one that it replaces", ("previous",)),
    Planted("graphs_anew", "gpt", "CUDA graphs", "a graph is captured for each request", ("GRAPHS",), True),
    Planted("trainer_outputs", "trainer", "transformers", "`compute_loss` keeps probabilities with their graph", ("confidence",)),
    Planted("trainer_evaluations", "trainer", "transformers", "logits of each evaluation", ("evaluations",), rounds={"step": 2, "eval": 2}),
    Planted("callback_weights", "trainer", "transformers", "a callback keeps the weights of each epoch", ("weights",)),
    Planted("callback_hooks", "trainer", "transformers", "a hook more in each step", ("seen",)),
    Planted("peft_adapters", "trainer", "peft", "adapters are added and not deleted", (r"customer\d", r"lora_[AB]"), rounds={"step": 2}),
    Planted("lightning_outputs", "lit", "Lightning", "outputs of an epoch are not cleared", ("training_step_outputs",), rounds={"step": 4}),
    Planted("lightning_validation", "lit", "Lightning", "codes of each validation", ("codes",), rounds={"step": 4, "eval": 2}),
    Planted("lightning_loss", "lit", "Lightning", "a second loss with its graph", ("seen",)),
    Planted("lightning_batches", "lit", "Lightning", "a callback keeps batches", ("batches",)),
    Planted("accelerate_prepare", "others", "accelerate", "what was prepared stays with the Accelerator", ("_models", "_optimizers", "accelerator"), rounds={"step": 3}),
    Planted("accelerate_predictions", "others", "accelerate", "predictions with their graphs", ("gathered",), rounds={"step": 3, "eval": 3}),
    Planted("diffusers_frames", "others", "diffusers", "images on the way from noise", ("frames",), rounds={"eval": 5}),
    Planted("diffusers_ema", "others", "diffusers", "an EMAModel for each epoch", ("means", "shadow_params"), rounds={"step": 2}),
    Planted("features_of_images", "others", "torchvision", "features of each epoch", ("bank",), rounds={"eval": 2}),
    Planted("averaged_models", "others", "torchvision", "an AveragedModel for each epoch", ("best",), rounds={"step": 2}),
    Planted("ppo_rollouts", "others", "stable-baselines3", "a callback keeps rollouts", ("rollouts",)),
    Planted("ppo_distributions", "others", "stable-baselines3", "a callback keeps distributions with their graphs", ("distributions",)),
    Planted("ddp_hook", "others", "DDP", "a communication hook keeps buckets", ("buckets",)),
    Planted("ddp_wrapped_anew", "others", "DDP", "wrapped anew in each epoch", ("wrappers",), rounds={"step": 2}),
    Planted("cache_that_fills", "gpt", "PyTorch", "a cache that is full after eight steps", harmless=True),
    Planted("warm_up", "gpt", "PyTorch", "optimizer, mean of weights and copies come in the first four steps", harmless=True),
    Planted("sizes_vary", "gpt", "PyTorch", "batches of any size", harmless=True),
    Planted("replay_buffer", "gpt", "PyTorch", "the last eight outputs are kept", harmless=True),
    Planted("longer_texts", "gpt", "PyTorch", "texts get longer every third step", harmless=True),
]
