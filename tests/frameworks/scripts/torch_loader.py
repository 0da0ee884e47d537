# SPDX-License-Identifier: MIT
"""A DataLoader with worker processes and pinned memory feeds a model."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import torch_figures


class Squares(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, i):
        return torch.full((1000,), float(i)), torch.tensor(float(i * i))


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1000, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(2):
        for x, y in DataLoader(Squares(), batch_size=16, num_workers=2, pin_memory=True):
            loss = (model(x.cuda(non_blocking=True)).squeeze(1) - y.cuda(non_blocking=True)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(f"epoch {epoch} loss {loss.item()!r}")
    torch_figures.tell()


if __name__ == "__main__":
    main()
