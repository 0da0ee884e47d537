# SPDX-License-Identifier: MIT
"""What programs do with modules, optimizers and losses beside calling them: copied, saved, scripted, traced, compiled, exported."""
import copy
import io
import pickle

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("a module that fails")


def told(name, work):
    try:
        print(name, type(work()).__name__)
    except Exception as error:  # the same one without kedge
        print(name, "fails:", type(error).__name__, str(error).splitlines()[0])


model = Model().cuda()
x = torch.ones(4, 8, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scripted = torch.jit.script(model)
saved = io.BytesIO()


def loss():
    return F.mse_loss(model(x), x)


def step():
    loss().backward()
    optimizer.step()


def scaled():
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda"):
        value = loss()
    scaler.scale(value).backward()
    scaler.step(optimizer)
    scaler.update()


def closure():
    optimizer.zero_grad()
    value = loss()
    value.backward()
    return value


told("step", step)
told("deepcopy", lambda: copy.deepcopy(model)(x))
told("pickle", lambda: pickle.loads(pickle.dumps(model))(x))
told("save", lambda: torch.save(model, saved))
print("modules that the saved model names:", sorted(m.decode() for m in {b"torch", b"kedge"} if m in saved.getvalue()))
told("script", lambda: torch.jit.script(model)(x))
told("scripted", lambda: scripted(x))
told("trace", lambda: torch.jit.trace(model, x)(x))
told("symbolic trace", lambda: torch.fx.symbolic_trace(model)(x))
told("compile", lambda: torch.compile(model, backend="eager", fullgraph=True)(x))
told("compile a function", lambda: torch.compile(loss, backend="eager", fullgraph=True)())
told("export", lambda: torch.export.export(model, (x,)))
told("compiled step", lambda: (loss().backward(), torch.compile(optimizer.step, backend="eager")()))
told("scaled", scaled)
told("checkpoint", lambda: checkpoint(model, x.clone().requires_grad_(), use_reentrant=False).sum().backward())
told("reentrant checkpoint", lambda: checkpoint(model, x.clone().requires_grad_(), use_reentrant=True).sum().backward())
told("closure", lambda: torch.optim.LBFGS(model.parameters(), max_iter=2).step(closure))
for _ in range(2):
    told("fails", lambda: Fails()(x))
    told("step", step)
print("hooked:", [name for name, module in model.named_modules() if module._forward_hooks or module._forward_pre_hooks])
