# SPDX-License-Identifier: MIT
"""A small model, trained with kedge's callback by Lightning or by Hugging Face's Trainer; prints what was logged of memory."""
import json
import logging
import sys
import warnings

import torch
from torch import nn

import kedge

warnings.filterwarnings("ignore")
KEPT = []  # 1 MiB an epoch


def lightning():
    import lightning as L
    from lightning.pytorch.loggers import CSVLogger

    import kedge.lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def training_step(self, batch, i):
            return self.layer(batch).square().mean()

        def validation_step(self, batch, i):
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

        def on_validation_end(self):
            KEPT.append(torch.empty(1 << 20, dtype=torch.uint8, device="cuda"))
            torch.empty(16 << 20, dtype=torch.uint8, device="cuda")

    class Logger(CSVLogger):
        def log_metrics(self, metrics, step=None):
            rows.append({k: v for k, v in metrics.items() if k.startswith("device_memory")})

    rows = []
    trainer = L.Trainer(max_epochs=2, accelerator="cuda", devices=1, logger=Logger("logs"), enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, num_sanity_val_steps=0, callbacks=[kedge.lightning.Anchors()])
    data = torch.utils.data.DataLoader(torch.ones(12, 8), batch_size=4)
    trainer.fit(Net(), data, data)
    return rows


def transformers():
    from transformers import Trainer, TrainerCallback, TrainingArguments

    import kedge.transformers

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def forward(self, x, labels=None):
            return {"loss": self.layer(x).square().mean(), "logits": self.layer(x)}

    class Keeps(TrainerCallback):
        def on_epoch_end(self, args, state, control, **more):
            KEPT.append(torch.empty(1 << 20, dtype=torch.uint8, device="cuda"))
            torch.empty(16 << 20, dtype=torch.uint8, device="cuda")

    data = [{"x": torch.ones(8), "labels": torch.ones(1)}] * 12
    trainer = Trainer(Net(), TrainingArguments("out", num_train_epochs=2, per_device_train_batch_size=4, per_device_eval_batch_size=4, report_to=[],
                                               disable_tqdm=True, save_strategy="no", eval_strategy="epoch", logging_strategy="epoch"),
                      train_dataset=data, eval_dataset=data, callbacks=[Keeps(), kedge.transformers.Anchors()])
    trainer.train()
    return [{k: v for k, v in row.items() if k.startswith("device_memory")} for row in trainer.state.log_history if "loss" in row]


print("told", json.dumps({"lightning": lightning, "transformers": transformers}[sys.argv[1]]()))
