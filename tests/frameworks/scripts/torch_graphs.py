# SPDX-License-Identifier: MIT
"""CUDA graphs: a whole training step, graphs that share a pool, graphed callables."""
import warnings

import torch
from torch import nn

import torch_figures

warnings.filterwarnings("ignore")
torch.manual_seed(0)


def mlp():
    return nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()


def whole_step():
    model, x = mlp(), torch.zeros(64, 256, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            model(x).sum().backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
    for _ in range(4):
        x.copy_(torch.randn(64, 256))
        graph.replay()
    print(f"a step: loss {loss.item()!r}")
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=graph.pool()):
        y = model(x).relu()
    second.replay()
    print(f"a second graph in its pool: {y[0, 0].item()!r}")
    graph.reset()
    second.reset()


def callables():
    model = torch.cuda.make_graphed_callables(mlp(), (torch.randn(8, 256, device="cuda"),))
    for _ in range(3):
        out = model(torch.randn(8, 256, device="cuda"))
        out.sum().backward()
    print(f"callables: {out[0, 0].item()!r}")


for part in (whole_step, callables):
    try:
        part()
    except RuntimeError as e:
        print(f"{part.__name__}: {str(e).splitlines()[0]}")
torch_figures.tell()
