# SPDX-License-Identifier: MIT
"""The example of Hugging Face's "Model training anatomy": bert-large, rows of 512 tokens, Trainer, AdamW. What is held at its peak.

    in trainers python estimate/bert.py [old] [attn=eager|sdpa] [TRAINING_ARGUMENT=VALUE...]

`old` does what PyTorch 1.10 did and newer versions do not: softmax keeps its input beside its result for the backward pass, and zero_grad()
leaves zeros where newer versions leave nothing.
"""
import json
import sys
import tempfile
import warnings

import torch
import transformers

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
ROWS, TOKENS = 24, 512


class SoftmaxThatKeepsItsInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, dim, dtype):
        result = torch.softmax(scores, dim, dtype)
        ctx.save_for_backward(scores, result)
        ctx.dim = dim
        return result

    @staticmethod
    def backward(ctx, grad):
        scores, result = ctx.saved_tensors
        return torch._softmax_backward_data(grad, result, ctx.dim, scores.dtype), None, None


def as_in_1_10(model):
    def softmax(scores, dim=None, _stacklevel=3, dtype=None):
        scores = scores.float() if torch.is_autocast_enabled("cuda") else scores  # which autocast does before it
        return SoftmaxThatKeepsItsInput.apply(scores, dim, dtype)

    torch.nn.functional.softmax = softmax
    model.zero_grad = lambda set_to_none=False: torch.nn.Module.zero_grad(model, False)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return ROWS

    def __getitem__(self, _):
        return {"input_ids": torch.randint(100, 30000, (TOKENS,)), "labels": torch.tensor(0)}


def used():
    free, total = torch.cuda.mem_get_info()
    return (total - free) >> 20


def main(words):
    old = "old" in words
    settings = {key: json.loads(value) if value[0] in "0123456789tf" else value for key, value in (w.split("=") for w in words if "=" in w)}
    torch.ones((1, 1)).to("cuda")
    before = used()
    config = transformers.BertConfig(vocab_size=30522, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
                                     num_labels=2, attn_implementation=settings.pop("attn", "eager"))
    model = transformers.BertForSequenceClassification(config).to("cuda")
    if old:
        as_in_1_10(model)
    loaded = used() - before
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(folder, max_steps=settings.pop("max_steps", 2), report_to="none", save_strategy="no", disable_tqdm=True,
                                                   logging_strategy="no", **settings)
        transformers.Trainer(model=model, args=arguments, train_dataset=Rows()).train()
    print(f"model {loaded} MiB, trained {used() - before} MiB, max_memory_allocated {torch.cuda.max_memory_allocated() >> 20} MiB, "
          f"max_memory_reserved {torch.cuda.max_memory_reserved() >> 20} MiB")


main(sys.argv[1:])
