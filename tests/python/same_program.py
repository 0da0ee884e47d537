# SPDX-License-Identifier: MIT
"""A small trainer that tells everything about its objects, with a fault in each step. What it prints is what a program can see.

    same_program.py torch|transformers|peft [FOLDER]      FOLDER: for what is saved
"""
import copy
import hashlib
import inspect
import io
import os
import pickle
import sys
import tempfile
import traceback
import warnings
import weakref

import torch
from torch import nn

torch.manual_seed(0)
KIND = sys.argv[1]
FAULTS = (None, "forward", "inner", "backward", "optimizer", "loader", "interrupt", "exit", "in except")


class Fault(RuntimeError):
    pass


class Hurt(nn.Linear):
    """Fails where it is told to."""

    def forward(self, x):
        if now["fault"] == "inner":
            raise Fault("inner")
        if now["fault"] == "interrupt":
            raise KeyboardInterrupt
        if now["fault"] == "exit":
            raise SystemExit(3)
        return super().forward(x)


class HurtGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if now["fault"] == "backward":
            raise Fault("backward")
        return gradient


class HurtOptimizer(torch.optim.AdamW):
    def step(self, closure=None):
        if now["fault"] == "optimizer":
            raise Fault("optimizer")
        return super().step(closure)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        if now["fault"] == "loader":
            raise Fault("loader")
        return torch.full((8,), float(i + 1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = Hurt(8, 8), nn.Linear(8, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x):
        if now["fault"] == "forward":
            raise Fault("forward")
        warnings.warn("from a forward", stacklevel=2)
        return HurtGradient.apply(self.layer(self.down(self.up(x)).unsqueeze(1))).square().mean()


now = {"fault": None}


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def saved(what):
    buffer = io.BytesIO()
    try:
        torch.save(what, buffer)
    except Exception as error:  # told the same way with and without
        return f"{type(error).__name__} {str(error)[:80]}"
    return digest(buffer.getvalue())


def told(value, deep=0):
    """A value without its address."""
    if isinstance(value, torch.Tensor):
        return f"tensor {digest(value.detach().numpy().tobytes())}"
    if isinstance(value, dict) and deep < 3:
        return {str(told(key, 3)): told(item, deep + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)) and deep < 3:
        return [told(item, deep + 1) for item in value]
    return repr(value) if isinstance(value, (int, float, str, bool, type(None))) else type(value).__qualname__


def tell(title, model, optimizer):
    print(title, saved(model), saved(optimizer.state_dict() if optimizer else None))
    for name, module in model.named_modules():
        print("  module", name, type(module).__qualname__, told(vars(module)), weakref.getweakrefcount(module), sys.getrefcount(module))
    if optimizer:
        print("  optimizer", told(vars(optimizer)), weakref.getweakrefcount(optimizer), sys.getrefcount(optimizer))


def tell_framework():
    """What a framework, a compiler or another tool asks of PyTorch."""
    parts = sys.modules["torch.nn.modules.module"]
    print("global", {name: len(value) for name, value in vars(parts).items() if name.startswith("_global") and hasattr(value, "__len__")},
          {name: len(value) for name, value in vars(sys.modules["torch.optim.optimizer"]).items() if name.startswith("_global")},
          "handles", torch.utils.hooks.RemovableHandle.next_id)
    for function in (nn.Module.__call__, nn.Module._call_impl, torch.optim.AdamW.step, torch.optim.Optimizer.zero_grad,
                     torch.autograd.backward, torch.autograd.grad, torch.Tensor.backward, torch.amp.GradScaler.step,
                     torch.utils.data.dataloader._BaseDataLoaderIter.__next__):
        print("function", function.__qualname__, function.__module__, inspect.signature(function), sorted(vars(function)),
              digest(function.__code__.co_code), hasattr(function, "__wrapped__"))
    print("path", sys.path, [type(finder).__name__ for finder in sys.meta_path],
          sorted(name for name in sys.modules if "kedge" in name or "customize" in name))


def plain(model, optimizer):
    for batch in torch.utils.data.DataLoader(Data(), batch_size=2):
        loss = model(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("  loss", loss.item())


def attempt(work):
    try:
        work()
    except BaseException as error:
        lines = traceback.format_exc().splitlines()
        print("  caught", type(error).__name__, error, digest("\n".join(lines).encode()), len(lines))
        if now["fault"] == "in except":
            raise
        return error
    return None


def train_plain():
    model = Model()
    optimizer = HurtOptimizer(model.parameters(), 0.01)
    for fault in FAULTS:
        for now["fault"] in (fault, None):
            tell(f"before {fault}", model, optimizer)
            if fault == "in except":
                try:
                    raise Fault("around")
                except Fault:
                    attempt(lambda: plain(model, optimizer))
                    tell("inside", copy.deepcopy(model), None)
            else:
                attempt(lambda: plain(model, optimizer))
            tell(f"after {fault}", model, optimizer)
    now["fault"] = None
    print("pickled", type(pickle.loads(pickle.dumps(model))).__name__, "copied", saved(copy.deepcopy(model)))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    with torch.inference_mode(), torch.profiler.profile() as profile:
        layer(torch.ones(2, 3, 8))
    print("operations", sorted(event.key for event in profile.key_averages()))
    traced = []
    compiled = torch.compile(model.down, backend=lambda graph, _: (traced.append(graph.code), graph.forward)[1])
    print("compiled", compiled(torch.ones(2, 8)).sum().item(), digest("".join(traced).encode()), torch._dynamo.utils.counters["frames"])
    print("scripted", digest(torch.jit.script(model.down).code.encode()))
    print("traced", digest(torch.fx.symbolic_trace(model.down).code.encode()))


def train_transformers():
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    class Texts(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            if now["fault"] == "loader":
                raise Fault("loader")
            ids = torch.arange(16) + i
            return {"input_ids": ids, "labels": ids}

    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0))
    trained(wrapped(model), Trainer, TrainingArguments, Texts())


def wrapped(model):
    """With LoRA's adapters where peft was asked for."""
    if KIND != "peft":
        return model
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"))


def trained(model, trainer, arguments, data):
    folder = tempfile.mkdtemp()
    for fault in (None, "loader", None):
        now["fault"] = fault
        one = trainer(model=model, args=arguments(output_dir=folder, max_steps=3, per_device_train_batch_size=2, report_to=[], save_strategy="no",
                                                  eval_strategy="no", use_cpu=True, disable_tqdm=True, gradient_accumulation_steps=2, logging_steps=1),
                      train_dataset=data, eval_dataset=data)
        tell(f"before {fault}", model, one.optimizer)
        attempt(lambda: print("  result", round(one.train().training_loss, 9)))
        attempt(lambda: print("  evaluation", round(one.evaluate()["eval_loss"], 9)))
        tell(f"after {fault}", model, getattr(one.optimizer, "optimizer", one.optimizer))


tell_framework()
{"torch": train_plain, "transformers": train_transformers, "peft": train_transformers}[KIND]()
tell_framework()
print("environment", {key: value for key, value in os.environ.items() if key.startswith("PYTHON") and key != "PYTHONUNBUFFERED"})
sys.exit(5)
