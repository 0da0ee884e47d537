# SPDX-License-Identifier: MIT
"""What is a model's memory? Each model trains a few steps; then the script says how many bytes its own objects have, by kind.

    torch_kinds.py MODEL [--saved]

--saved: instead, what autograd saves in the forward of the last step (saved_tensors_hooks), which no other run does.
The last line is JSON: {"parameters": bytes ...}, each storage once. What is live then stays live to the end of the process."""
import json
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

STEPS = 6
torch.manual_seed(0)
torch.backends.cudnn.enabled = False


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-2, -1) / dim**0.5, -1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, dim))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """With tied weights, and its loss inside."""

    def __init__(self, vocab=600, dim=64, length=32):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        self.h = nn.ModuleList(Block(dim, 4) for _ in range(3))
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.lm_head.weight = self.wte.weight
        self.register_buffer("positions", torch.arange(length))

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(self.positions)
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.lm_head(x).flatten(0, 1), targets.flatten())


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1),
                                      nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(4))
        self.head = nn.Linear(512, 10)

    def forward(self, images, targets):
        return F.cross_entropy(self.head(self.features(images).flatten(1)), targets)


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(500, 48), nn.LSTM(48, 64, 2, batch_first=True), nn.Linear(64, 500)

    def forward(self, tokens, targets):
        return F.cross_entropy(self.head(self.lstm(self.embed(tokens))[0]).flatten(0, 1), targets.flatten())


class Net(nn.Sequential):
    def __init__(self, inside, outside):
        super().__init__(nn.Linear(inside, 256), nn.ReLU(), nn.Linear(256, outside))


def tokens(vocab, length=32):
    return [torch.randint(vocab, (8, length)).cuda() for _ in range(2)]


def images():
    return [torch.randn(8, 3, 16, 16).cuda(), torch.randint(10, (8,)).cuda()]


def size(tensors):
    """Bytes of their storages, each once."""
    found = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors if t is not None and t.is_cuda}
    return sum(found.values())


def tell(models, optimizers, more=(), gradients=()):
    params = [p for m in models for p in m.parameters()] + list(more)
    state = [v for o in optimizers for s in o.state.values() for v in s.values() if torch.is_tensor(v)]
    buffers = [b for m in models for b in m.buffers()]
    print(json.dumps({"parameters": size(params), "gradients": size([p.grad for p in params] + list(gradients)),
                      "optimizer state": size(state), "buffers": size(buffers)}))
    sys.stdout.flush()
    os._exit(0)


def saved_of(model, batch):
    """Bytes of the storages that autograd saves, without those of parameters, buffers and inputs."""
    found = {}

    def pack(tensor):
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(*batch)
    for known in [*model.parameters(), *model.buffers(), *batch]:
        found.pop(known.untyped_storage().data_ptr(), None)
    print(json.dumps({"saved": sum(found.values())}))
    sys.stdout.flush()
    os._exit(0)


def train(model, batch_of, optimizer, scaler=None, every=1, clear=True):
    for step in range(STEPS):
        batch = batch_of()
        if "--saved" in sys.argv and step == STEPS - 1:
            saved_of(model, batch)
        for _ in range(every):
            with torch.autocast("cuda", enabled=scaler is not None):
                loss = model(*batch)
            (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        if step < STEPS - 1 and clear:
            optimizer.zero_grad()


def plain(model, batch_of, optimizer=torch.optim.Adam, **how):
    model = model.cuda()
    optimizer = optimizer(model.parameters(), 1e-3)
    train(model, batch_of, optimizer, **how)
    tell([model], [optimizer])


def gan():
    """Two models of one class: the names must differ."""
    nets = [Net(64, 128).cuda(), Net(128, 1).cuda()]
    optimizers = [torch.optim.Adam(n.parameters()) for n in nets]
    for _ in range(STEPS):
        fake = nets[0](torch.randn(32, 64).cuda())
        optimizers[1].zero_grad()
        (nets[1](torch.randn(32, 128).cuda()) - nets[1](fake.detach())).mean().backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        nets[1](fake).mean().backward()
        optimizers[0].step()
    tell(nets, optimizers)


def ema():
    """A copy that is never called."""
    import copy
    model = CNN().cuda()
    copied = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    train(model, images, optimizer)
    tell([model, copied], [optimizer])


def loaded():
    """A state from a checkpoint, on the host at first; the model, too."""
    model = CNN()
    first = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 3, 16, 16), torch.zeros(2, dtype=torch.long)).backward()
    first.step()
    model = model.cuda()
    for p in model.parameters():
        p.grad = None
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.load_state_dict(first.state_dict())
    del first
    train(model, images, optimizer)
    tell([model], [optimizer])


def flat():
    """Parameters are slices of one storage, as FSDP's are; and so are the gradients."""
    model = CNN().cuda()
    params = list(model.parameters())
    whole, grads = (torch.zeros(sum(p.numel() for p in params), device="cuda") for _ in range(2))
    at = 0
    for p in params:
        whole[at:at + p.numel()].copy_(p.detach().flatten())
        p.data = whole[at:at + p.numel()].view_as(p)
        p.grad = grads[at:at + p.numel()].view_as(p)
        at += p.numel()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        grads.zero_()
        model(*images()).backward()
        optimizer.step()
    tell([model], [optimizer])


def functional():
    """No module: weights are in the optimizer alone."""
    weights = [torch.randn(256, 256, device="cuda", requires_grad=True) for _ in range(3)]
    optimizer = torch.optim.Adam(weights)
    for _ in range(STEPS):
        x = torch.randn(64, 256).cuda()
        for w in weights:
            x = torch.tanh(x @ w)
        x.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    tell([], [optimizer], more=weights)


def lbfgs():
    """Its state has lists, and its closure runs the model."""
    model = Net(64, 16).cuda()
    optimizer = torch.optim.LBFGS(model.parameters(), history_size=3, max_iter=4)
    for _ in range(3):
        x = torch.randn(32, 64).cuda()

        def closure():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss
        optimizer.step(closure)
    state = optimizer.state[next(iter(optimizer.state))]
    inner = [t for v in state.values() for t in (v if isinstance(v, list) else [v]) if torch.is_tensor(t)]
    print(json.dumps({"parameters": size(model.parameters()), "gradients": size([p.grad for p in model.parameters()]),
                      "optimizer state": size(inner), "buffers": 0}))
    sys.stdout.flush()
    os._exit(0)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4 * STEPS

    def __getitem__(self, i):
        ids = torch.arange(i, i + 16) % 90
        return {"input_ids": ids, "labels": ids}


def tiny():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(vocab_size=96, n_positions=16, n_embd=32, n_layer=2, n_head=2))


def hf():
    """Hugging Face's Trainer, whose optimizer stands in one of accelerate's. What is live is asked for in a callback."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Late(TrainerCallback):
        def on_optimizer_step(self, args, state, control, model=None, optimizer=None, **named):
            if state.global_step == STEPS - 1:
                tell([model], [getattr(optimizer, "optimizer", optimizer)])

    arguments = TrainingArguments("out", per_device_train_batch_size=4, max_steps=STEPS, save_strategy="no", report_to=[], disable_tqdm=True,
                                  logging_strategy="no")
    Trainer(tiny(), arguments, train_dataset=Rows(), callbacks=[Late()]).train()


def accelerate():
    from accelerate import Accelerator
    accelerator = Accelerator()
    model = tiny()
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), torch.utils.data.DataLoader(Rows(), 4))
    for step, batch in enumerate(loader):
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        if step == STEPS - 1:
            tell([model], [optimizer.optimizer])
        optimizer.zero_grad()


def lightning():
    """Its step calls parts of the module, never the module."""
    import lightning as L

    class Lit(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = nn.Sequential(nn.Linear(16, 64), nn.ReLU()), nn.Linear(64, 96)

        def training_step(self, batch, i):
            return F.cross_entropy(self.dec(self.enc(batch["input_ids"].float())), batch["labels"][:, 0])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

        def on_train_batch_end(self, outputs, batch, i):
            if i == STEPS - 1:
                tell([self], [self.optimizers().optimizer])

    trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False)
    trainer.fit(Lit(), torch.utils.data.DataLoader(Rows(), 4))


MODELS = {
    "gpt": lambda: plain(GPT(), lambda: tokens(600)),
    "cnn": lambda: plain(CNN(), images),
    "lstm": lambda: plain(LSTM(), lambda: tokens(500)),
    "sgd": lambda: plain(CNN(), images, torch.optim.SGD),
    "scaler": lambda: plain(CNN(), images, scaler=torch.amp.GradScaler("cuda") if hasattr(torch.amp, "GradScaler") else None),
    "accumulate": lambda: plain(GPT(), lambda: tokens(600), every=2),
    "kept": lambda: plain(LSTM(), lambda: tokens(500), clear=False),
    "hf": hf, "accelerate": accelerate, "lightning": lightning,
    "gan": gan, "ema": ema, "loaded": loaded, "flat": flat, "functional": functional, "lbfgs": lbfgs,
}

if __name__ == "__main__":
    MODELS[sys.argv[1]]()
