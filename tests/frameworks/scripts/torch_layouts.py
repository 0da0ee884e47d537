# SPDX-License-Identifier: MIT
"""Small programs of many kinds of kernels, which print all that they compute: with every allocator the same.

What a kernel computes on the simulated device depends on what it reads. Memory that an allocator gives out again holds
other bytes than new memory, and other neighbours; none of them may enter a figure.
"""
import torch
import torch.nn.functional as F
from torch import nn

torch.backends.cudnn.enabled = False
torch.manual_seed(0)


def show(name, *tensors):
    print(name, *(t.detach().cpu().double().sum().item() for t in tensors))


def litter():
    """Freed blocks that are full, of many sizes."""
    del [torch.randn(n, device="cuda") for n in (1, 6, 64, 200, 384, 1000, 3000, 20000) for _ in range(6)][:]


def train(name, model, optimizer, batch, loss_of, steps=2):
    for step in range(steps):
        litter()
        loss = loss_of(model, *batch())
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        show(f"{name} step {step} loss", loss, norm)
        show(f"{name} step {step} gradients", *(p.grad for p in model.parameters()))
        show(f"{name} step {step} weights", *model.parameters())


class Block(nn.Module):
    def __init__(self, width=48, heads=4):
        super().__init__()
        self.tokens, self.norm1, self.norm2 = nn.Embedding(97, width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.up, self.down, self.head = (nn.Linear(width, 3 * width), nn.Linear(width, 4 * width),
                                                   nn.Linear(4 * width, width), nn.Linear(width, 97))
        self.heads = heads

    def forward(self, ids):
        x = self.tokens(ids)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return self.head(x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.1))


def gpt(dtype):
    model = Block().to("cuda", dtype)
    train(f"gpt {dtype}", model, torch.optim.AdamW(model.parameters(), foreach=True),
          lambda: (torch.randint(0, 97, (3, 19), device="cuda"),),
          lambda m, ids: F.cross_entropy(m(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), label_smoothing=0.1))


def cnn():
    model = nn.Sequential(nn.Conv2d(3, 9, 3, padding=1), nn.BatchNorm2d(9), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(9, 6, 3),
                          nn.GroupNorm(2, 6), nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 10)).cuda()
    train("cnn", model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
          lambda: (torch.randn(5, 3, 14, 14, device="cuda"), torch.randint(0, 10, (5,), device="cuda")),
          lambda m, x, y: F.cross_entropy(m(x), y))


def recurrent(kind):
    model = nn.ModuleList([kind(7, 20, num_layers=2), nn.Linear(20, 5)]).cuda()
    train(kind.__name__, model, torch.optim.Adam(model.parameters(), fused=True), lambda: (torch.randn(9, 6, 7, device="cuda"),),
          lambda m, x: m[1](m[0](x)[0]).square().mean())


def ppo():
    actor = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 6)).cuda()
    critic = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-3)
    for iteration in range(2):
        litter()
        with torch.no_grad():
            seen = torch.randn(256, 8, device="cuda")
            policy = torch.distributions.Categorical(logits=actor(seen), validate_args=False)
            done = policy.sample() % 6
            before, reward, value = policy.log_prob(done), (done == 0).float() - seen[:, 0].abs(), critic(seen).squeeze(-1)
            returns = torch.flip(torch.cumsum(torch.flip(reward, [0]), 0), [0]) * 0.99
            gain = returns - value
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        for part in torch.randperm(256, device="cuda").split(64):
            policy = torch.distributions.Categorical(logits=actor(seen[part]), validate_args=False)
            ratio = (policy.log_prob(done[part]) - before[part]).exp()
            loss = -torch.min(ratio * gain[part], ratio.clamp(0.8, 1.2) * gain[part]).mean()
            loss = loss + (critic(seen[part]).squeeze(-1) - returns[part]).pow(2).mean() - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
            optimizer.step()
            show(f"ppo iteration {iteration} loss", loss, norm)
            show(f"ppo iteration {iteration} gradients", *(p.grad for p in actor.parameters()))
        show(f"ppo iteration {iteration}", returns, gain, before, *actor.parameters(), *critic.parameters())


def operations():
    """Results that another kernel reads, or the host, one operation each."""
    leaves = []

    def a():
        leaves.append(torch.randn(37, 11, device="cuda", requires_grad=True))
        return leaves[-1]
    index = torch.randint(0, 11, (37, 1), device="cuda")
    rows = torch.randint(0, 37, (70,), device="cuda")
    for name, operation in {
            "cat": lambda: torch.cat([a(), a()]), "cat of columns": lambda: torch.cat([a(), a()[:, :3]], 1),
            "cat of four at once": lambda: torch.cat([torch.randn(64, 32, device="cuda") for _ in range(3)], 1),
            "cat of transposed": lambda: torch.cat([a().t(), a().t()]), "stack": lambda: torch.stack([a(), a()]),
            "flip": lambda: torch.flip(a(), [0, 1]), "roll": lambda: torch.roll(a(), 3, 0), "compare": lambda: a() > a(),
            "where": lambda: torch.where(a() > 0, a(), 0.0), "fill": lambda: a().masked_fill(a() > 0, 0.0),
            "max": lambda: torch.max(a(), 1), "aminmax": lambda: torch.aminmax(a()), "any": lambda: (a() > 0).any(1),
            "std": lambda: torch.std_mean(a(), 1), "norm": lambda: torch.linalg.vector_norm(a(), dim=1), "argmax": lambda: a().argmax(0),
            "sort": lambda: torch.sort(a(), 1), "sort of many": lambda: torch.sort(torch.randn(5000, device="cuda")),
            "topk": lambda: torch.topk(a(), 3), "median": lambda: torch.median(a(), 1), "cumprod": lambda: torch.cumprod(a(), 1),
            "select": lambda: a().index_select(0, rows), "index": lambda: a()[rows], "index of two": lambda: a()[rows, rows % 11],
            "gather": lambda: a().gather(1, index), "scatter": lambda: a().scatter_add(1, index, a()[:, :1]),
            "dropout": lambda: F.dropout(a()), "triu": lambda: torch.triu(a()), "arange": lambda: torch.arange(500, device="cuda"),
            "norm of weights": lambda: torch._weight_norm(a(), a()[:, :1], 0), "rms norm": lambda: nn.RMSNorm(11).cuda()(a()),
            "upsample": lambda: F.interpolate(a().view(1, 1, 37, 11), scale_factor=2),
            "unfold": lambda: F.unfold(a().view(1, 1, 37, 11), 3), "random": lambda: torch.empty(37, 11, device="cuda").t().normal_(),
            "bags": lambda: F.embedding_bag(rows.view(10, 7), a())}.items():
        litter()
        leaves.clear()
        result = operation()
        results = [t for t in ([result] if torch.is_tensor(result) else result) if torch.is_tensor(t)]
        show(name, *results)
        sums = [r.sum() for r in results if r.requires_grad]
        if sums:
            sum(sums).backward()
            show(f"{name} gradients", *(leaf.grad for leaf in leaves if leaf.grad is not None))


gpt(torch.float32)
gpt(torch.bfloat16)
cnn()
recurrent(nn.LSTM)
recurrent(nn.GRU)
ppo()
operations()
