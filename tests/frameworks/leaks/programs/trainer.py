# SPDX-License-Identifier: MIT
"""Hugging Face's Trainer and peft on a small GPT-2. Each function is a program with one fault that --leak switches on."""
import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.utils import logging

from rounds import main, say

logging.disable_progress_bar()


def gpt2():
    return GPT2LMHeadModel(GPT2Config(vocab_size=1024, n_positions=64, n_embd=128, n_layer=2, n_head=4, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0))


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = (torch.arange(64) + i) % 256
        return {"input_ids": ids, "labels": ids}


class Said(TrainerCallback):
    def __init__(self, kind):
        self.kind = kind

    def on_step_end(self, args, state, control, **named):
        if self.kind == "step":
            say("step", state.global_step)

    def on_evaluate(self, args, state, control, **named):
        if self.kind == "evaluation":
            say("evaluation", state.global_step)

    def on_epoch_end(self, args, state, control, **named):
        if self.kind == "epoch":
            say("epoch", state.epoch)


def arguments(**named):
    return TrainingArguments("out", per_device_train_batch_size=4, per_device_eval_batch_size=4, report_to=[], disable_tqdm=True, save_strategy="no",
                             logging_strategy="no", **named)


def trained(kind, said, callbacks=(), model=None, **named):
    trainer = kind(model or gpt2(), arguments(**named), train_dataset=torch.utils.data.Subset(Texts(), range(16)), eval_dataset=torch.utils.data.Subset(Texts(), range(8)),
                   callbacks=[Said(said), *callbacks])
    trainer.train()  # made: callback_hooks
    return trainer


class ConfidenceTrainer(Trainer):
    """Looks at how sure the model is of the last token."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        sure = outputs.logits.softmax(-1)  # made: trainer_outputs
        self.confidence.append(sure if self.leak else sure.max().item())  # kept: trainer_outputs
        return (loss, outputs) if return_outputs else loss


def trainer_outputs(leak):
    ConfidenceTrainer.confidence, ConfidenceTrainer.leak = [], leak
    trained(ConfidenceTrainer, "step", max_steps=8)


class PerplexityTrainer(Trainer):
    """Keeps what the evaluation gave, to compare it with the last one's."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.evaluations = []

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        loss, logits, labels = super().prediction_step(model, inputs, False, ignore_keys)  # made: trainer_evaluations
        self.evaluations.append(logits)  # kept: trainer_evaluations
        return loss, None, None

    def evaluate(self, *args, **named):
        if not self.leak:
            self.evaluations.clear()
        return super().evaluate(*args, **named)


def trainer_evaluations(leak):
    PerplexityTrainer.leak = leak
    trained(PerplexityTrainer, "evaluation", max_steps=12, eval_strategy="steps", eval_steps=2)


class BestWeights(TrainerCallback):
    """Remembers the weights of each epoch, to go back to the best ones."""

    def __init__(self, leak):
        self.leak, self.weights = leak, {}

    def on_epoch_end(self, args, state, control, model=None, **named):
        if not self.leak:
            self.weights.clear()
        self.weights[state.global_step] = {name: value.detach().clone() for name, value in model.state_dict().items()}  # made: callback_weights kept: callback_weights


def callback_weights(leak):
    trained(Trainer, "epoch", [BestWeights(leak)], num_train_epochs=5, max_steps=20)


class GradientWatch(TrainerCallback):
    """A hook on the embedding collects its gradients; it is to be there once."""

    def __init__(self, leak):
        self.leak, self.handles, self.seen = leak, [], []

    def on_step_begin(self, args, state, control, model=None, **named):
        if self.leak or not self.handles:
            self.seen.append([])
            self.handles.append(model.transformer.wte.weight.register_hook(self.seen[-1].append))  # kept: callback_hooks
        if not self.leak:
            self.seen[0].clear()


def callback_hooks(leak):
    trained(Trainer, "step", [GradientWatch(leak)], max_steps=9)


def peft_adapters(leak):
    """An adapter for each customer is trained and merged into nothing; it is to be deleted."""
    model = get_peft_model(gpt2().cuda(), LoraConfig(r=64, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True), adapter_name="base")
    ids = torch.arange(64, device="cuda").view(2, 32)
    for customer in range(6):
        name = f"customer{customer}"
        model.add_adapter(name, LoraConfig(r=64, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True))  # made: peft_adapters kept: peft_adapters
        model.set_adapter(name)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 1e-3)
        for _ in range(2):
            model(ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        del optimizer
        if not leak:
            model.set_adapter("base")
            model.delete_adapter(name)
        say("customer", customer)


main({f.__name__: f for f in (trainer_outputs, trainer_evaluations, callback_weights, callback_hooks, peft_adapters)})
