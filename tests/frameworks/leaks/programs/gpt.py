# SPDX-License-Identifier: MIT
"""A small GPT in plain PyTorch, trained and served. Each function is a program with one fault that --leak switches on."""
import collections
import copy
import gc
import random

import torch
import torch.nn.functional as F
from torch import nn

from rounds import main, say

VOCABULARY, WIDTH, LENGTH = 256, 128, 32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, past=None):
        q, k, v = (part.view(*part.shape[:2], 4, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)  # made: kv_sessions kv_traceback
        weights = (q @ k.transpose(2, 3) / q.shape[-1]**0.5).softmax(-1)  # made: forward
        return self.out((weights @ v).transpose(1, 2).flatten(2)), (k, v)  # made: forward


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm, self.post = Attention(), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, past=None):
        attended, kept = self.attention(self.norm(x), past)  # made: forward
        x = x + attended  # made: forward
        return x + self.mlp(self.post(x)), kept  # made: forward


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(1024, WIDTH)  # made: old_models ema_copies
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(2)), nn.Linear(WIDTH, VOCABULARY)  # made: old_models ema_copies

    def forward(self, ids, past=None):
        first = past[0][0].shape[2] if past else 0
        x = self.tokens(ids) + self.places(torch.arange(first, first + ids.shape[1], device=ids.device))  # made: forward
        cache = []
        for i, block in enumerate(self.blocks):
            x, kept = block(x, past[i] if past else None)  # made: forward
            cache.append(kept)
        return self.head(x), cache  # made: forward


def text(rows=4, length=LENGTH):
    return torch.randint(0, VOCABULARY, (rows, length)).cuda()


def loss_of(model, ids):
    return F.cross_entropy(model(ids)[0].flatten(0, 1), ids.flatten())  # made: forward


def step_of(model, optimizer, ids):
    loss = loss_of(model, ids)
    loss.backward()
    optimizer.step()  # made: optimizers_anew
    optimizer.zero_grad()
    return loss.item()


def new(kind=torch.optim.AdamW):
    model = GPT().cuda()
    return model, kind(model.parameters(), 1e-3)


# ---- training -----------------------------------------------------------------------------------


def eval_with_grad(leak):
    """Every second step is followed by an evaluation, whose losses are kept for a curve."""
    model, optimizer = new()
    held_out, curve = [text() for _ in range(2)], []

    def evaluate():
        total = 0
        for ids in held_out:
            total = total + loss_of(model, ids)  # made: eval_with_grad
        return total / len(held_out)

    for step in range(12):
        step_of(model, optimizer, text())
        if step % 2:
            with torch.set_grad_enabled(leak):
                curve.append(evaluate() if leak else evaluate().item())  # kept: eval_with_grad
        say("step", step)
    print(len(curve))


class Monitor:
    """Watches an auxiliary loss that is not trained on."""

    def __init__(self, leak):
        self.leak, self.history = leak, []

    def update(self, loss):
        self.history.append(loss if self.leak else loss.item())  # kept: monitored_loss


def monitored_loss(leak):
    model, optimizer = new()
    monitor = Monitor(leak)
    for step in range(8):
        ids = text()
        loss = loss_of(model, ids)
        monitor.update(F.mse_loss(model(ids)[0], torch.zeros(4, LENGTH, VOCABULARY, device="cuda")))  # made: monitored_loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        say("step", step)


def retain_graph(leak):
    """The second backward pass needs the graph; the list keeps its loss."""
    model, optimizer = new()
    losses = []
    for step in range(8):
        loss = loss_of(model, text())  # made: retain_graph
        loss.backward(retain_graph=True)
        loss.mul(0.1).backward(retain_graph=leak)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss if leak else loss.item())  # kept: retain_graph
        say("step", step)


class Accuracy:
    """A metric that is computed at the end of each epoch."""

    def __init__(self):
        self.predictions, self.targets = [], []

    def update(self, logits, targets):
        self.predictions.append(logits.detach().softmax(-1))  # made: metric kept: metric
        self.targets.append(targets)

    def compute(self):
        return sum((p.argmax(-1) == t).float().mean().item() for p, t in zip(self.predictions, self.targets))

    def reset(self):
        self.predictions.clear()
        self.targets.clear()


def metric(leak):
    model, optimizer = new()
    accuracy = Accuracy()
    for epoch in range(5):
        for _ in range(4):
            ids = text(16)
            logits = model(ids)[0]
            F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
            accuracy.update(logits, ids)
        accuracy.compute()
        if not leak:
            accuracy.reset()
        say("epoch", epoch)


def hooks(leak):
    """A hook for each epoch looks at what a layer gives; the old one is to be removed."""
    model, optimizer = new()
    handle = None
    for epoch in range(5):
        seen = []
        if handle and not leak:
            handle.remove()
        handle = model.blocks[0].mlp.register_forward_hook(lambda module, args, out, seen=seen: seen.append(out.detach()[:, ::2].clone()))  # made: hooks kept: hooks
        for _ in range(3):
            step_of(model, optimizer, text(16))
        print(torch.stack(seen).shape)
        del seen
        say("epoch", epoch)


def kept_errors(leak):
    """Some batches cannot be used; what was wrong with them is printed at the end."""
    model, optimizer = new()
    errors = []

    def train(ids, bad):
        mask = torch.ones(ids.shape[0], 4, 256, LENGTH, device="cuda")  # made: kept_errors
        logits = model(ids)[0]  # made: kept_errors
        if bad:
            raise ValueError(f"batch of {ids.shape[0]} has no targets")
        (F.cross_entropy(logits.flatten(0, 1), ids.flatten()) + 0 * mask.mean()).backward()
        optimizer.step()
        optimizer.zero_grad()

    for step in range(12):
        try:
            train(text(), step % 3 == 2)
        except ValueError as error:
            errors.append(error if leak else str(error))  # kept: kept_errors
        say("step", step)
    print(len(errors), errors[0])


def schedule_closure(leak):
    """Each epoch has a schedule of its own, made by how the last one went."""
    model, optimizer = new()
    schedules = []
    for epoch in range(5):
        outs = []
        for _ in range(3):
            ids = text(16)
            logits = model(ids)[0]
            F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
            outs.append(logits.detach().square())  # made: schedule_closure
        spread = torch.cat(outs)  # made: schedule_closure
        if not leak:
            spread = spread.std().item()
        schedules.append(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n, s=spread: 1 / (1 + n * float(torch.as_tensor(s).std(correction=0)))))  # kept: schedule_closure
        del outs, logits, spread
        say("epoch", epoch)


def optimizers_anew(leak):
    """Warm restarts: an optimizer for each epoch; all are kept for a table of their settings."""
    model = GPT().cuda()
    tried = []
    for epoch in range(5):
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3 / (1 + epoch))
        for _ in range(2):
            step_of(model, optimizer, text())  # made: optimizers_anew
        tried.append(optimizer if leak else optimizer.defaults)  # kept: optimizers_anew
        del optimizer
        say("epoch", epoch)
    print(len(tried))


def ema_copies(leak):
    """The best models by a mean of weights: a copy for each epoch."""
    model, optimizer = new()
    copies = collections.deque(maxlen=None if leak else 1)
    for epoch in range(6):
        for _ in range(2):
            step_of(model, optimizer, text())
        copies.append(copy.deepcopy(model).requires_grad_(False))  # made: ema_copies kept: ema_copies
        say("epoch", epoch)


def gradient_history(leak):
    """Norms of the gradients of the micro-batches, for a picture."""
    model, optimizer = new()
    history = {}
    for step in range(8):
        for micro in range(2):
            loss_of(model, text(4)).backward()
            grads = [p.grad.clone() for p in model.parameters()]  # made: gradient_history
            history[step, micro] = grads if leak else [g.norm().item() for g in grads]  # kept: gradient_history
            del grads
        optimizer.step()
        optimizer.zero_grad()
        say("step", step)


class Trial:
    """One search step; it and its log refer to each other."""

    def __init__(self, model, ids):
        self.outputs = model(ids)[0]  # made: cycles
        self.log = {"trial": self, "loss": 0.0}  # kept: cycles


def cycles(leak):
    model, optimizer = new()
    gc.disable()
    for step in range(10):
        trial = Trial(model, text())  # made: cycles
        step_of(model, optimizer, text())
        if not leak:
            trial.log.clear()
        del trial
        say("step", step)


class Prefetcher:
    """Brings batches to the device one ahead of their use."""

    def __init__(self, loader, keep):
        self.loader, self.stream, self.queue = loader, torch.cuda.Stream(), collections.deque(maxlen=None if keep else 2)

    def __iter__(self):
        for ids in self.loader:
            with torch.cuda.stream(self.stream):
                self.queue.append((ids.cuda(non_blocking=True), torch.zeros(16, LENGTH, VOCABULARY, device="cuda")))  # made: prefetched kept: prefetched
            torch.cuda.current_stream().wait_stream(self.stream)
            yield self.queue[-1]


def prefetched(leak):
    model, optimizer = new()
    loader = torch.utils.data.DataLoader([torch.arange(LENGTH) + i for i in range(160)], 16, num_workers=1, pin_memory=True)
    for step, (ids, targets) in enumerate(Prefetcher(loader, leak)):
        F.mse_loss(model(ids)[0], targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        say("step", step)


MASKS = {}


def masks_by_shape(leak):
    """Masks are made once for each length. Lengths are rounded up, or there is one for each text."""
    model, optimizer = new()
    for step in range(14):
        length = random.randrange(20, 60) * 4 + step % 4
        length = length if leak else 256
        key = (8, length)
        if key not in MASKS:
            MASKS[key] = torch.full((8, length, length), float("-inf"), device="cuda").triu(1)  # made: masks_by_shape kept: masks_by_shape
        step_of(model, optimizer, text(2, 32))
        say("step", step)


# ---- serving ------------------------------------------------------------------------------------


class Server:
    def __init__(self, model):
        self.model, self.sessions, self.failed = model, {}, []

    @torch.inference_mode()
    def answer(self, number, tokens=6):
        cache = None
        ids = text(8, 64)
        for _ in range(tokens):
            logits, cache = self.model(ids, cache)
            ids = logits[:, -1:].argmax(-1).clamp(0, VOCABULARY - 1)
            self.sessions[number] = cache  # kept: kv_sessions
        return ids

    def close(self, number):
        del self.sessions[number]


def kv_sessions(leak):
    """One request after the other; the cache of a session goes with the session."""
    server = Server(GPT().cuda().eval())
    for number in range(12):
        server.answer(f"user-{number}")
        if not leak:
            server.close(f"user-{number}")
        say("request", number)


def old_models(leak):
    """A newer model is loaded; the old one answers until then."""
    model = GPT().cuda().eval()
    for version in range(6):
        newer = GPT().cuda().eval()  # made: old_models
        newer.load_state_dict(model.state_dict())
        newer.previous = [model] if leak else []  # kept: old_models
        model = newer
        with torch.inference_mode():
            model(text(2, 32))
        del newer
        say("version", version)


GRAPHS = {}


def graphs_anew(leak):
    """CUDA graphs of a forward pass, one for each batch size; or one for each batch."""
    model = GPT().cuda().eval()
    sizes = (8, 16)
    with torch.inference_mode():
        model(text(16))
        for number in range(10):
            ids = text(sizes[number % 2])
            key = (number if leak else 0, *ids.shape)
            if key not in GRAPHS:
                graph, still = torch.cuda.CUDAGraph(), ids.clone()
                with torch.cuda.graph(graph):
                    out = model(still)[0]  # made: graphs_anew
                GRAPHS[key] = graph, still, out  # kept: graphs_anew
            graph, still, out = GRAPHS[key]
            still.copy_(ids)
            graph.replay()
            del graph, still, out
            say("request", number)


# ---- what only looks like a leak; --leak switches the suspicion on ------------------------------


def cache_that_fills(leak):
    """Masks for eight lengths: the cache is full after some steps, and stays so."""
    model, optimizer = new()
    for step in range(20):
        length = 32 * (1 + min(step, 7) if leak else 1)
        if length not in MASKS:
            MASKS[length] = torch.full((8, length, length), float("-inf"), device="cuda").triu(1)
        step_of(model, optimizer, text(2, 32))
        say("step", step)


def warm_up(leak):
    """The optimizer's state comes with the first step, a mean of the weights with the third one, the gradients' mean with the fourth."""
    model, optimizer = new()
    mean, gradients = None, None
    for step in range(12):
        loss_of(model, text()).backward()
        if leak and step == 3:
            gradients = [p.grad.clone() for p in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
        if leak and step == 2:
            mean = torch.optim.swa_utils.AveragedModel(model)
        say("step", step)
    print(mean is None, gradients is None)


def sizes_vary(leak):
    """Batches of any size, and what the last one gave is kept."""
    model, optimizer = new()
    last = None
    for step in range(20):
        ids = text(random.randrange(2, 14) if leak else 8, 48)
        last = model(ids)[0]
        F.cross_entropy(last.flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        say("step", step)
    print(last.shape[1:])


def replay_buffer(leak):
    """The last eight batches of outputs are kept; after eight steps it does not grow."""
    model, optimizer = new()
    buffer = collections.deque(maxlen=8 if leak else 1)
    for step in range(24):
        ids = text()
        logits = model(ids)[0]
        F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        buffer.append(logits.detach().clone())
        say("step", step)


def longer_texts(leak):
    """A curriculum: texts get longer every third step. What the last step gave is kept, nothing else."""
    model, optimizer = new()
    last = None
    for step in range(15):
        ids = text(4, 24 + 8 * (step // 3) if leak else 56)
        last = model(ids)[0].detach()
        step_of(model, optimizer, ids)
        say("step", step)
    print(last.shape[0])


main({f.__name__: f for f in (eval_with_grad, monitored_loss, retain_graph, metric, hooks, kept_errors, schedule_closure, optimizers_anew, ema_copies,
                              gradient_history, cycles, prefetched, masks_by_shape, kv_sessions, old_models, graphs_anew, cache_that_fills, warm_up,
                              sizes_vary, replay_buffer, longer_texts)})
