# SPDX-License-Identifier: MIT
"""Training runs whose peak of device memory is to be known: small models, three steps, PyTorch and torchvision alone.

    configs.py                 the names
    configs.py NAME...         trains, each in a process of its own; a line of JSON for each: max_memory_allocated, max_memory_reserved, and the bytes that
                               are requested (before PyTorch's allocator rounds them) at the end of the last forward pass

counted.py counts the same on the CPU.
"""
import dataclasses
import json
import os
import sys
import typing

import torch
from torch import nn
from torch.nn import functional as F

import models

STEPS = 3
VISION, TOKENS = "images", "tokens"


@dataclasses.dataclass
class Config:
    """One run. `batch` is the shape of the input; of tokens it has rows and length."""
    model: typing.Callable[[], nn.Module]
    batch: tuple
    kind: str = VISION
    classes: int = 10
    loss: str = "cross_entropy"
    optimizer: str = "AdamW"
    settings: dict = dataclasses.field(default_factory=dict)
    amp: torch.dtype | None = None
    micro_batches: int = 1
    channels_last: bool = False
    in_backward: bool = False  # the optimizer steps a parameter as soon as it has its gradient
    average: bool = False      # a second copy of the parameters (EMA)


def gpt(**settings):
    return lambda: models.Transformer(causal=True, **settings)


def bert(**settings):
    return lambda: models.Transformer(causal=False, **settings)


def vision(name, **settings):
    def make():
        import torchvision  # only where it is used
        return getattr(torchvision.models, name)(num_classes=settings.pop("num_classes", 10), **settings)
    return make


TEXT = {"kind": TOKENS, "classes": 8000}
SGD = {"optimizer": "SGD", "settings": {"lr": .1, "momentum": .9}}
DIFFUSION = {"kind": "noise", "loss": "mse_loss"}

CONFIGS = {
    "mlp_adam": Config(lambda: models.mlp(1024, 4), (256, 1024), kind="rows", loss="mse_loss", optimizer="Adam"),
    "mlp_sgd": Config(lambda: models.mlp(1024, 4), (256, 1024), kind="rows", loss="mse_loss", **SGD),
    "resnet18_sgd": Config(vision("resnet18"), (8, 3, 128, 128), **SGD),
    "resnet18_fp16_channels_last": Config(vision("resnet18"), (8, 3, 128, 128), amp=torch.float16, channels_last=True, **SGD),
    "resnet50_adamw": Config(vision("resnet50"), (4, 3, 128, 128)),
    "mobilenet_v3_sgd": Config(vision("mobilenet_v3_small"), (8, 3, 128, 128), **SGD),
    "convnext_tiny_adamw": Config(vision("convnext_tiny"), (2, 3, 128, 128)),
    "vit_b_16_adam": Config(vision("vit_b_16"), (2, 3, 224, 224), optimizer="Adam"),
    "vit_b_16_bf16": Config(vision("vit_b_16"), (2, 3, 224, 224), amp=torch.bfloat16),
    "vit_l_16_adam": Config(vision("vit_l_16", num_classes=1000), (1, 3, 224, 224), loss="sum", optimizer="Adam"),
    "vit_l_16_in_backward": Config(vision("vit_l_16", num_classes=1000), (1, 3, 224, 224), loss="sum", optimizer="Adam", in_backward=True),
    "gpt_adamw": Config(gpt(), (4, 256), **TEXT),
    "gpt_sgd": Config(gpt(), (4, 256), **TEXT, **SGD),
    "gpt_fused_adamw": Config(gpt(), (4, 256), settings={"fused": True}, **TEXT),
    "gpt_bf16": Config(gpt(), (4, 256), amp=torch.bfloat16, **TEXT),
    "gpt_checkpointing": Config(gpt(checkpointing=True), (4, 256), **TEXT),
    "gpt_accumulation": Config(gpt(), (2, 256), micro_batches=4, **TEXT),
    "gpt_written_out_attention": Config(gpt(written_out=True, dropout=.1), (4, 256), **TEXT),
    "bert_adamw": Config(bert(written_out=True, dropout=.1), (4, 256), **TEXT),
    "bert_fp16_accumulation": Config(bert(dropout=.1), (2, 256), amp=torch.float16, micro_batches=2, **TEXT),
    "moe_adamw": Config(gpt(experts=4), (4, 256), **TEXT),
    "unet_adam": Config(lambda: models.UNet(3, 2), (2, 3, 128, 128), kind="masks", classes=2, optimizer="Adam"),
    "lstm_sgd": Config(lambda: models.Recurrent("LSTM", 8000, 512), (16, 64), **TEXT, **SGD),
    "gru_adam": Config(lambda: models.Recurrent("GRU", 8000, 512), (16, 64), optimizer="Adam", **TEXT),
    "diffusion_ema": Config(lambda: models.Denoiser(3), (4, 3, 64, 64), average=True, **DIFFUSION),
    "diffusion_bf16_checkpointing": Config(lambda: models.Denoiser(3, checkpointing=True), (4, 3, 64, 64), amp=torch.bfloat16, **DIFFUSION),
}


def inputs(config, device):
    """What the model is given, and what the loss compares with."""
    rows = config.batch[0]
    if config.kind == TOKENS:
        tokens = torch.randint(0, config.classes, config.batch).to(device)
        return (tokens,), tokens
    images = torch.rand(config.batch).to(device)
    if config.channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    if config.kind == "rows":
        return (images,), images
    if config.kind == "noise":
        return (images, torch.randint(0, 1000, (rows,)).to(device)), torch.rand(config.batch).to(device)
    shape = (rows, *config.batch[2:]) if config.kind == "masks" else (rows,)
    return (images,), torch.randint(0, config.classes, shape).to(device)


def loss_of(config, given, target):
    """In 32 bits, as autocast does it on a device."""
    if config.loss == "sum":
        return given.sum()
    given = given.float()
    if config.kind == TOKENS:
        return F.cross_entropy(given.flatten(0, 1), target.flatten())
    return getattr(F, config.loss)(given, target)


def forward(config, model, device):
    given, target = inputs(config, device)
    with torch.autocast(device, dtype=config.amp, enabled=config.amp is not None):
        return loss_of(config, model(*given), target) / config.micro_batches, (given, target)


def build(config, device):
    """Made on the device, so that no time goes into numbers."""
    with torch.device("meta"):
        model = config.model()
    model = model.to_empty(device=device)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.zero_()
    return model.to(memory_format=torch.channels_last) if config.channels_last else model


def optimizer_of(config, parameters, **more):
    return getattr(torch.optim, config.optimizer)(parameters, **config.settings, **more)


def step_in_backward(config, model):
    """As PyTorch's tutorial "How to save memory by fusing the optimizer step into the backward pass"."""
    optimizers = {p: optimizer_of(config, [p], foreach=False) for p in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)


def train(config, device="cuda"):
    model = build(config, device)
    optimizer = None
    if config.in_backward:
        step_in_backward(config, model)
    else:
        optimizer = optimizer_of(config, model.parameters())
    averaged = [p.detach().clone() for p in model.parameters()] if config.average else []
    scaler = torch.amp.GradScaler(device, enabled=config.amp == torch.float16)
    held = 0
    for _ in range(STEPS):
        for _ in range(config.micro_batches):
            loss, batch = forward(config, model, device)
            held = torch.cuda.memory_stats()["requested_bytes.all.current"]
            scaler.scale(loss).backward()
            del loss, batch
        if optimizer:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        if averaged:
            torch._foreach_lerp_(averaged, [p.detach() for p in model.parameters()], .01)
    torch.cuda.synchronize()
    return {"after_forward": held, "max_memory_allocated": torch.cuda.max_memory_allocated(), "max_memory_reserved": torch.cuda.max_memory_reserved()}


def main(names):
    if not names:
        print("\n".join(CONFIGS))
    for name in names:
        child = os.fork()  # before CUDA is there: PyTorch is imported once
        if child == 0:
            print(json.dumps({"config": name, "torch": torch.__version__.split("+", maxsplit=1)[0], **train(CONFIGS[name])}), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{name} failed")


if __name__ == "__main__":
    main(sys.argv[1:])
