# SPDX-License-Identifier: MIT
"""A recommender: bags of ids, embeddings with sparse gradients, a dense part above them."""
import torch
import torch.nn.functional as F
from torch import nn

import torch_figures

torch.manual_seed(0)
users, items = nn.Embedding(20000, 32, sparse=True).cuda(), nn.Embedding(50000, 32, sparse=True).cuda()
dense = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
rows = torch.optim.SGD([*users.parameters(), *items.parameters()], lr=0.1)
rest = torch.optim.Adagrad(dense.parameters(), lr=0.01)
data = torch.Generator().manual_seed(1)
steps = torch_figures.Steps()
for step in range(6):
    with steps:
        count = 256 + 64 * (step % 3)
        who = torch.randint(0, 20000, (count,), generator=data).cuda()
        what = torch.randint(0, 50000, (count,), generator=data).cuda()
        clicked = torch.randint(0, 2, (count,), generator=data).float().cuda()
        guess = dense(torch.cat([users(who), items(what)], 1)).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(guess, clicked)
        loss.backward()
        sparse = users.weight.grad
        for optimizer in (rows, rest):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    print(f"step {step} loss {loss.item()!r} gradient {sparse.layout} of {tuple(sparse._values().shape)}")
    del sparse
torch_figures.tell(steps)
