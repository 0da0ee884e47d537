# SPDX-License-Identifier: MIT
"""Lightning. Each function is a program with one fault that --leak switches on."""
import logging
import warnings

import lightning
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from rounds import main, say

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Net(lightning.LightningModule):
    def __init__(self, leak):
        super().__init__()
        self.leak = leak
        self.enc, self.dec = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)), nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 256))

    def training_step(self, batch, i):
        return F.mse_loss(self.dec(self.enc(batch)), batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


class OutputsNet(Net):
    """Means over an epoch; what they are made of is to be cleared."""

    def __init__(self, leak):
        super().__init__(leak)
        self.training_step_outputs = []

    def training_step(self, batch, i):
        out = self.dec(self.enc(batch))  # made: lightning_outputs
        self.training_step_outputs.append(out.detach())  # kept: lightning_outputs
        return F.mse_loss(out, batch)

    def on_train_epoch_end(self):
        print(len(self.training_step_outputs))
        if not self.leak:
            self.training_step_outputs.clear()


class ValidNet(Net):
    """The codes of each validation, for a projector."""

    def __init__(self, leak):
        super().__init__(leak)
        self.codes = {}

    def validation_step(self, batch, i):
        code = self.enc(batch)
        self.codes[self.current_epoch if self.leak else 0, i] = torch.cat([code] * 8)  # made: lightning_validation kept: lightning_validation


class LossNet(Net):
    """A second loss is only looked at."""

    def __init__(self, leak):
        super().__init__(leak)
        self.seen = []

    def training_step(self, batch, i):
        code = self.enc(batch)  # made: lightning_loss
        out = self.dec(code)  # made: lightning_loss
        self.look(out, batch)
        return F.mse_loss(out.detach() + 0 * self.dec(code.detach()), batch)

    def look(self, out, batch):
        score = (out - batch).abs().mean()  # made: lightning_loss
        self.seen.append(score if self.leak else score.item())  # kept: lightning_loss


class Said(lightning.Callback):
    def __init__(self, kind):
        self.kind = kind

    def on_train_batch_end(self, trainer, module, outputs, batch, i):
        if self.kind == "step":
            say("step", trainer.global_step)

    def on_train_epoch_end(self, trainer, module):
        if self.kind == "epoch":
            say("epoch", trainer.current_epoch)


class Batches(lightning.Callback):
    """Keeps batches, to look at those with the largest loss."""

    def __init__(self, leak):
        self.leak, self.batches = leak, []

    def on_train_batch_end(self, trainer, module, outputs, batch, i):
        self.batches.append((outputs["loss"], batch))  # kept: lightning_batches
        if not self.leak:
            del self.batches[:-2]


def fit(net, said, *callbacks, validate=False, epochs=4, **named):
    loader = DataLoader(torch.randn(256 * 4, 256), 256)
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="gpu", devices=1, enable_progress_bar=False, logger=False, enable_checkpointing=False,
                                num_sanity_val_steps=0, enable_model_summary=False, callbacks=[*callbacks, Said(said)], **named)
    trainer.fit(net, loader, DataLoader(torch.randn(512, 256), 256) if validate else None)  # made: lightning_batches


def lightning_outputs(leak):
    fit(OutputsNet(leak), "epoch")


def lightning_validation(leak):
    fit(ValidNet(leak), "epoch", validate=True, epochs=6)


def lightning_loss(leak):
    fit(LossNet(leak), "step", epochs=3)


def lightning_batches(leak):
    fit(Net(leak), "step", Batches(leak), epochs=5)


main({f.__name__: f for f in (lightning_outputs, lightning_validation, lightning_loss, lightning_batches)})
