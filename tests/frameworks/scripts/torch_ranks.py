# SPDX-License-Identifier: MIT
"""Trains a GPT-2 on two ranks, which torchrun starts, over NCCL: ddp, by Hugging Face's Trainer; fsdp2, by PyTorch's fully_shard.

    torch_ranks.py ddp|fsdp2
"""
import os
import pathlib
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import same_told  # noqa: E402
import same_trainers  # noqa: E402

STEPS = 3


def fsdp2():
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dist.init_process_group("nccl")
    model = same_trainers.gpt2().cuda()
    for part in (*model.transformer.h, model):
        fully_shard(part, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    for step in range(STEPS):
        for half in range(2):
            model.set_requires_gradient_sync(half == 1)
            ids = (torch.arange(32) + step + half + 2 * dist.get_rank()).view(2, 16).cuda() % 64
            loss = model(ids, labels=ids).loss
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item().hex())
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    # Neither bytes nor norms: the device follows no table of addresses, by which FSDP puts gradients together and takes parameters apart.
    print("saved", [(name, tuple(value.shape), str(value.dtype)) for name, value in whole.items()])
    print("shards", [(tuple(p.to_local().shape), str(p.dtype)) for p in model.parameters()])


def ddp():
    same_told.now["once"] = True
    same_trainers.train_by_trainer(same_trainers.gpt2())


def main():
    if "RANK" not in os.environ:
        from torch.distributed.run import main as torchrun
        torchrun(["--standalone", "--nproc-per-node", "2", *sys.argv])
        return
    if os.environ["RANK"] != "0":
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        same_trainers.tell_files = lambda folder: None
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    {"ddp": ddp, "fsdp2": fsdp2}[sys.argv[1]]()
    dist.barrier()
    dist.destroy_process_group()


main()
