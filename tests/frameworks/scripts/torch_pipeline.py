# SPDX-License-Identifier: MIT
"""A model that is cut into stages, one process and one device each, is trained 1F1B over NCCL.

    torchrun --nproc-per-node 3 torch_pipeline.py

Gradients go back to the stage before as bfloat16. Each is sent long before the step ends, but the stage holds them all until then.
--mended: a stage drops what the second forward receive after its send shows to have arrived. --uses: what was sent is copied to
the host at the end of the step.
"""
import argparse
import collections
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.cuda import nvtx

parser = argparse.ArgumentParser()
parser.add_argument("--mended", action="store_true")
parser.add_argument("--uses", action="store_true")
parser.add_argument("--micro-batches", type=int, default=8)
parser.add_argument("--steps", type=int, default=2)
args = parser.parse_args()

WIDTH, TOKENS = 512, 4096 # of a micro-batch


class Stage:
    def __init__(self, rank, stages):
        self.rank, self.before, self.after = rank, rank - 1, rank + 1
        self.first, self.last = rank == 0, rank == stages - 1
        self.warm_up = min(stages - rank - 1, args.micro_batches)
        self.model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(2))).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.samples = torch.Generator().manual_seed(1)
        self.losses = []

    def exchange(self, send=None, to=None, receive=None):
        """One tensor to a stage, one from a stage: both at once, as neither waits for the other."""
        message = None
        calls = [dist.P2POp(dist.isend, send, to)] if to is not None else []
        if receive is not None:
            message = torch.empty(TOKENS, WIDTH, dtype=torch.bfloat16, device="cuda")
            calls.append(dist.P2POp(dist.irecv, message, receive))
        for work in dist.batch_isend_irecv(calls):
            work.wait()
        torch.cuda.synchronize() # as Megatron does
        return message

    def receive_forward(self, gradient=None):
        """The next input; with a gradient, that goes to the same stage."""
        if self.first:
            return torch.randn(TOKENS, WIDTH, generator=self.samples).cuda().requires_grad_()
        with nvtx.range("receive-forward"):
            message = self.exchange(gradient, self.before if gradient is not None else None, self.before)
        return message.float().requires_grad_()

    def forward(self, inputs):
        with nvtx.range("forward"):
            outputs = self.model(inputs)
            return outputs.square().mean() if self.last else outputs

    def backward(self, inputs, outputs, gradient):
        """What goes to the stage before."""
        with nvtx.range("backward"):
            outputs.backward(gradient)
            return None if self.first else inputs.grad.bfloat16()

    def send_forward(self, outputs, receive):
        if self.last:
            self.losses.append(outputs.detach())
            return None
        with nvtx.range("receive-backward" if receive else "send-forward"):
            message = self.exchange(outputs.detach().bfloat16(), self.after, self.after if receive else None)
        return message.float() if receive else None

    def receive_backward(self):
        with nvtx.range("receive-backward"):
            return self.exchange(receive=self.after).float()

    def send_backward(self, gradient):
        with nvtx.range("send-backward"):
            self.exchange(gradient, self.before)

    def step(self):
        waiting, sent = collections.deque(), collections.deque()
        for _ in range(self.warm_up):
            inputs = self.receive_forward()
            waiting.append((inputs, self.forward(inputs)))
            self.send_forward(waiting[-1][1], receive=False)
        if args.micro_batches > self.warm_up:
            inputs = self.receive_forward()
        for left in reversed(range(args.micro_batches - self.warm_up)):
            waiting.append((inputs, self.forward(inputs)))
            gradient = self.send_forward(waiting[-1][1], receive=True)
            sent.append(self.backward(*waiting.popleft(), gradient))
            if left:
                inputs = self.receive_forward(sent[-1])
                if args.mended and len(sent) > 1:
                    sent.popleft()
            elif not self.first:
                self.send_backward(sent[-1])
        while waiting:
            gradient = self.receive_backward()
            sent.append(self.backward(*waiting.popleft(), gradient))
            if not self.first:
                self.send_backward(sent[-1])
        if args.uses and not self.first:
            sent_copies = [m.cpu() for m in sent]
            print("copied", len(sent_copies))
        with nvtx.range("update"):
            self.optimizer.step()
            self.optimizer.zero_grad()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("nccl")
    torch.manual_seed(dist.get_rank())
    stage = Stage(dist.get_rank(), dist.get_world_size())
    for number in range(args.steps):
        with nvtx.range("train-step"):
            stage.step()
        if stage.last:
            print(number, *(loss.item().hex() for loss in stage.losses))
            stage.losses.clear()
    dist.destroy_process_group()


main()
