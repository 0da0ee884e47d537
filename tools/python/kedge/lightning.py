# SPDX-License-Identifier: MIT
"""kedge in PyTorch Lightning: Trainer(callbacks=[kedge.lightning.Anchors()])."""
import sys

import kedge

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    from lightning.pytorch import Callback

PARTS = {"train_epoch": "epoch", "train_batch": "train", "validation": "validation", "validation_batch": "validate",
         "test": "test", "predict": "predict", "sanity_check": "sanity check"}


class Anchors(Callback):
    """Parts of the run become anchors of the capture: epoch, train, validation, validate ... log: each epoch's memory is logged as
    device_memory/peak, the most bytes inside of it above those at its begin, and device_memory/growth, in bytes."""

    def __init__(self, log=True):
        super().__init__()
        self.log_memory, self.open, self.epoch = log, [], None

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
        if self.log_memory and self.epoch.peak is not None:
            self.log("device_memory/peak", float(self.epoch.peak))
            self.log("device_memory/growth", float(self.epoch.growth))
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
