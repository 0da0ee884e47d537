# SPDX-License-Identifier: MIT
"""Lightning trains an autoencoder whose training_step calls two Sequentials and a loss. Prints the names of its modules, each once, as JSON."""
import json

import lightning as L
import torch
from torch import nn

STEPS = 4
torch.manual_seed(0)


def sequential(*sizes):
    return nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2]))


class Autoencoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.enc, self.dec, self.loss = sequential(64, 32, 8), sequential(8, 32, 64), nn.MSELoss()

    def training_step(self, batch, _):
        return self.loss(self.dec(self.enc(batch)), batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


model = Autoencoder()
trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False)
trainer.fit(model, torch.utils.data.DataLoader(torch.rand(4 * STEPS, 64), 4))
print(json.dumps([name for name, _ in model.named_modules() if name]))
