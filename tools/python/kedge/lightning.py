# SPDX-License-Identifier: MIT
"""kedge in PyTorch Lightning: Trainer(callbacks=[kedge.lightning.Anchors()])."""
import sys

import kedge

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    from lightning.pytorch import Callback

PARTS = {"train_epoch": "epoch", "validation": "validation", "test": "test", "predict": "predict", "sanity_check": "sanity check"}


class Anchors(Callback):
    """Parts of the run become anchors of the capture: epoch, validation ... Steps are there without this. In bytes, the trainer's
    loggers get each epoch's device_memory/peak, the most inside of it above what was live at its begin, and device_memory/growth."""

    def __init__(self, log=True):
        super().__init__()
        self.log, self.open, self.epoch = log, [], None

    def enter(self, part):
        self.open.append((part, kedge.anchor(PARTS[part]).__enter__()))

    def leave(self, part):
        while any(name == part for name, _ in self.open):  # what an error has left open goes with it
            name, anchor = self.open.pop()
            anchor.__exit__()
            if name == part:
                break

    def on_train_epoch_start(self, trainer, module):
        self.epoch = kedge.measure().__enter__()
        self.enter("train_epoch")

    def on_train_epoch_end(self, trainer, module):
        self.leave("train_epoch")
        if self.epoch is None:
            return
        self.epoch.__exit__()
        if self.log and self.epoch.peak is not None:
            for logger in trainer.loggers:
                logger.log_metrics({"device_memory/peak": self.epoch.peak, "device_memory/growth": self.epoch.growth}, trainer.global_step)
        self.epoch = None

    def teardown(self, trainer, module, stage):
        while self.open:
            self.leave(self.open[-1][0])
        if self.epoch is not None:
            self.epoch.__exit__()
            self.epoch = None


def _hook(method, part):
    return lambda self, *arguments, **more: getattr(self, method)(part)


for _part in PARTS:
    for _when, _method in (("start", "enter"), ("end", "leave")):
        if not f"on_{_part}_{_when}" in vars(Anchors):
            setattr(Anchors, f"on_{_part}_{_when}", _hook(_method, _part))
