# SPDX-License-Identifier: MIT
"""Small trainings by other people's trainers and loops, on the simulated device (same_program.py)."""
import copy
import itertools

import torch
from torch.utils.data import DataLoader

from same_told import HurtOptimizer, Rows, digest, fail, hurt, tell, tell_files, told, train_in_each_fault

INNER = ("inner", "interrupt", "exit", "backward")


# ---- transformers, peft -------------------------------------------------------------------------


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0))


def train_transformers():
    model = gpt2()
    hurt(model.transformer.h[1].mlp.c_fc, *INNER)
    train_by_trainer(hurt(model, "forward"))


def train_peft():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(gpt2(), LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"))
    hurt(model.base_model.model.transformer.h[1].mlp.c_fc, *INNER)
    train_by_trainer(hurt(model, "forward"))
    tell("merged", model.merge_and_unload())


def train_by_trainer(model):
    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments
    from transformers.utils import logging

    logging.disable_progress_bar()

    class Late(TrainerCallback):
        def on_step_end(self, args, state, control, **named):
            fail("callback")

        def on_log(self, args, state, control, logs, **named):
            print("  log", {name: value for name, value in logs.items() if "runtime" not in name and "per_second" not in name})

    def text(i):
        ids = torch.arange(16) + i
        return {"input_ids": ids, "labels": ids}

    def train():
        arguments = TrainingArguments("out", max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=2, logging_steps=1,
                                      save_steps=2, report_to=[], eval_strategy="no", disable_tqdm=True)
        one = Trainer(model, arguments, train_dataset=Rows(8, text), eval_dataset=Rows(8, text), optimizers=(optimizer, None), callbacks=[Late()])
        one.remove_callback(PrinterCallback)  # it tells the time
        try:
            print("  result", one.train().training_loss)
            print("  evaluation", one.evaluate()["eval_loss"])
        finally:
            tell("prepared", one.model_wrapped)
            tell_files("out")

    model.cuda()
    optimizer = HurtOptimizer((p for p in model.parameters() if p.requires_grad), 0.01)
    train_in_each_fault(model, optimizer, train)


def train_generate():
    """Greedy, by chance, by beams and as a streamer gets it, six tokens each: the device's kernels would say anything about an end."""
    from transformers.generation.streamers import BaseStreamer

    class Told(BaseStreamer):
        def put(self, value):
            fail("callback")
            print("  streamed", told(value))

        def end(self):
            print("  streamed all")

    model = hurt(gpt2(), "forward").cuda().eval()
    hurt(model.transformer.h[1].mlp.c_fc, "inner", "interrupt", "exit")
    left = []
    model._has_unfinished_sequences = lambda *args, **named: bool(left and left.pop())
    ways = {"greedy": {}, "sampled": {"do_sample": True, "top_k": 8}, "beams": {"num_beams": 2}, "streamed": {"streamer": Told()}}

    def train():
        torch.manual_seed(1)
        ids = torch.arange(8, device="cuda").view(2, 4)
        for way, named in ways.items():
            left[:] = [True] * 6
            first = ids[:1] if way == "streamed" else ids
            texts = model.generate(first, attention_mask=torch.ones_like(first), max_new_tokens=6, eos_token_id=63, pad_token_id=63, **named)
            print(" ", way, tuple(texts.shape), told(texts))

    train_in_each_fault(model, None, train)


# ---- accelerate ---------------------------------------------------------------------------------


def new_net():
    return hurt(torch.nn.Sequential(hurt(torch.nn.Linear(8, 8), *INNER), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)), "forward")


def sample(i):
    return torch.full((8,), float(i + 1)), torch.tensor([float(i)])


def train_accelerate():
    from accelerate import Accelerator

    net = new_net()
    optimizer = HurtOptimizer(net.parameters(), 0.01)

    def steps(accelerator, model, prepared, loader, schedule):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    print("  norm", accelerator.clip_grad_norm_(model.parameters(), 1.0).item())
                prepared.step()
                schedule.step()
                prepared.zero_grad()
                fail("callback")
                print("  loss", accelerator.gather(loss).item(), prepared.step_was_skipped, schedule.get_last_lr())

    def train():
        accelerator = Accelerator(gradient_accumulation_steps=2, mixed_precision="fp16", project_dir="out")
        parts = accelerator.prepare(net, optimizer, DataLoader(Rows(8, sample), 2), torch.optim.lr_scheduler.StepLR(optimizer, 2))
        try:
            steps(accelerator, *parts)
            accelerator.save_state("out")
            accelerator.load_state("out")
        finally:
            tell("prepared", *parts[:2])
            tell_files("out")
            for part in (net, optimizer):  # the next one prepares them anew
                for name in ("forward", "_original_forward", "step"):
                    vars(part).pop(name, None)

    train_in_each_fault(net, optimizer, train)


# ---- lightning ----------------------------------------------------------------------------------


def train_lightning():
    import lightning
    from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint, StochasticWeightAveraging
    from lightning.pytorch.loggers import CSVLogger

    class Lit(lightning.LightningModule):
        """by_hand: it calls the optimizer itself."""

        def __init__(self, by_hand):
            super().__init__()
            self.net, self.automatic_optimization = new_net(), not by_hand
            self.optimizer = HurtOptimizer(self.net.parameters(), 0.01)

        def training_step(self, batch, i):
            x, y = batch
            loss = torch.nn.functional.mse_loss(self.net(x), y)
            self.log("loss", loss)
            if self.automatic_optimization:
                return loss
            self.optimizers().zero_grad()
            self.manual_backward(loss)
            self.optimizers().step()
            return None

        def validation_step(self, batch, i):
            self.log("val_loss", self.net(batch[0]).mean())

        def configure_optimizers(self):
            return [self.optimizer], [torch.optim.lr_scheduler.StepLR(self.optimizer, 1)]

    globals()["Lit"], Lit.__qualname__ = Lit, "Lit"  # so that it can be pickled

    class Late(lightning.Callback):
        def on_train_batch_end(self, *args):
            fail("callback")

    def train(model, **named):
        lightning.seed_everything(1, verbose=False)
        trainer = lightning.Trainer(max_epochs=2, accelerator="gpu", devices=1, enable_progress_bar=False, logger=CSVLogger("out"),
                                    log_every_n_steps=1, **named)
        try:
            trainer.fit(model, DataLoader(Rows(8, sample), 2), DataLoader(Rows(4, sample), 2))
            print("  metrics", {name: value.item() for name, value in trainer.callback_metrics.items()})
            print("  validated", trainer.validate(model, DataLoader(Rows(4, sample), 2), verbose=False))
        finally:
            tell("in trainer", trainer.model or model)
            tell_files("out")

    for by_hand in (False, True):
        model = Lit(by_hand)
        named = {} if by_hand else {"accumulate_grad_batches": 2, "gradient_clip_val": 1.0, "precision": "16-mixed"}
        train_in_each_fault(model, model.optimizer,
                            lambda: train(model, callbacks=[Late(), LearningRateMonitor(), ModelCheckpoint("out/saved", save_last=True)], **named))
    train(Lit(False), callbacks=[StochasticWeightAveraging(0.01, 1)])


# ---- diffusers ----------------------------------------------------------------------------------


def train_diffusers():
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
    from diffusers.optimization import get_cosine_schedule_with_warmup
    from diffusers.training_utils import EMAModel

    unet = UNet2DModel(sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8), norm_num_groups=4,
                       down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D")).cuda()
    hurt(unet.conv_in, *INNER)
    hurt(unet, "forward")
    unet.enable_gradient_checkpointing()
    noises = DDPMScheduler(num_train_timesteps=10)
    optimizer = HurtOptimizer(unet.parameters(), 0.01)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, 200)
    mean = EMAModel(unet.parameters(), model_cls=UNet2DModel, model_config=unet.config)

    def train():
        torch.manual_seed(1)
        for images in DataLoader(Rows(4, lambda i: torch.full((1, 8, 8), i / 4)), 2):
            noise, when = torch.randn(images.shape).cuda(), torch.randint(0, 10, (2,)).cuda()
            guess = unet(noises.add_noise(images.cuda(), noise, when), when, return_dict=False)[0]
            loss = torch.nn.functional.mse_loss(guess, noise)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            mean.step(unet.parameters())
            fail("callback")
            print("  loss", loss.item())
        pipeline = DDPMPipeline(unet, noises)
        pipeline.set_progress_bar_config(disable=True)
        print("  image", digest(pipeline(2, torch.manual_seed(2), num_inference_steps=2, output_type="np").images.tobytes()))
        pipeline.save_pretrained("out")
        tell_files("out")

    train_in_each_fault(unet, optimizer, train)
    print("mean", told(mean.state_dict()))


# ---- torchvision --------------------------------------------------------------------------------


def train_torchvision():
    """As torchvision's own script for classification does."""
    import torchvision
    from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names
    from torchvision.transforms import v2

    model = torchvision.models.resnet18(num_classes=4).cuda()
    hurt(model.fc, *INNER)
    hurt(model, "forward")
    optimizer = HurtOptimizer(model.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    mean = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True)
    change = v2.Compose([v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), v2.PILToTensor(), v2.ToDtype(torch.float, scale=True),
                         v2.Normalize((0.5,) * 3, (0.2,) * 3), v2.RandomErasing()])
    fake = torchvision.datasets.FakeData(4, (3, 40, 40), 4, transform=change)
    mix = v2.MixUp(num_classes=4)

    def train():
        torch.manual_seed(1)
        scaler = torch.amp.GradScaler()
        model.train()
        for images, target in DataLoader(Rows(4, fake.__getitem__), 2, num_workers=1, pin_memory=True):
            with torch.amp.autocast("cuda"):
                loss = torch.nn.functional.cross_entropy(model(mix(images, target)[0].cuda()), target.cuda())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            mean.update_parameters(model)
            fail("callback")
            print("  loss", loss.item(), scaler.get_scale())
        schedule.step()
        model.eval()
        with torch.inference_mode(), torch.backends.cudnn.flags(enabled=False):  # it has no inference here
            print("  classes", told(model(torch.ones(2, 3, 32, 32).cuda())))

    train_in_each_fault(model, optimizer, train)
    tell("mean", mean)
    plain = torchvision.models.resnet18(num_classes=4).cuda().eval()
    print("nodes", get_graph_node_names(plain))
    torch.backends.cudnn.enabled = False
    features = create_feature_extractor(copy.deepcopy(plain), {"layer1": "one", "avgpool": "all"})
    print("features", told(features(torch.ones(2, 3, 32, 32).cuda())))
    print("weights", *itertools.islice(torchvision.models.list_models(module=torchvision.models), 5))


# ---- stable-baselines3 --------------------------------------------------------------------------


def train_ppo():
    """PPO collects rollouts on an environment of the host and trains on them."""
    import gymnasium
    import numpy
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    class Walk(gymnasium.Env):
        """Its state is that of a generator of its own and of what was done, kept small."""

        observation_space = gymnasium.spaces.Box(-1, 1, (8,), numpy.float32)
        action_space = gymnasium.spaces.Discrete(4)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.steps, self.numbers = 0, numpy.random.default_rng(3)
            return self.numbers.random(8, "f4"), {}

        def step(self, action):
            fail("loader")
            self.steps += 1
            return self.numbers.random(8, "f4") / (1 + int(action) % 4), 1.0 * (int(action) % 4), self.steps % 10 == 0, False, {}

    class Late(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            fail("callback")

    torch.distributions.Distribution.set_default_validate_args(False)  # the device's kernels decide as they like
    algorithm = PPO("MlpPolicy", Walk(), n_steps=32, batch_size=16, n_epochs=2, seed=1, device="cuda",
                    policy_kwargs={"optimizer_class": HurtOptimizer, "net_arch": [16, 16]})
    policy = algorithm.policy
    hurt(policy.mlp_extractor, "forward")
    hurt(policy.value_net, *INNER)

    def train():
        algorithm.set_random_seed(1)
        algorithm.learn(64, callback=Late())
        print("  timesteps", algorithm.num_timesteps, "updates", algorithm._n_updates,
              {name: value for name, value in algorithm.logger.name_to_value.items() if name.startswith("train/")})
        print("  action", told(algorithm.predict(numpy.ones((2, 8), "f4"), deterministic=True)[0].tolist()))

    train_in_each_fault(policy, policy.optimizer, train)
