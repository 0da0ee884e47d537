# SPDX-License-Identifier: MIT
"""accelerate, diffusers, torchvision, stable-baselines3 and DistributedDataParallel. Each function is a program with one fault that --leak switches on."""
import copy
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

from rounds import main, say


def net(width=512):
    return nn.Sequential(nn.Linear(256, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 64))


# ---- accelerate ---------------------------------------------------------------------------------


def accelerate_prepare(leak):
    """A model for each fold of a cross validation, prepared by one Accelerator."""
    from accelerate import Accelerator

    accelerator = Accelerator()
    for fold in range(5):
        model = net()
        model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 1e-3))  # made: accelerate_prepare kept: accelerate_prepare
        for _ in range(3):
            accelerator.backward(model(torch.randn(64, 256, device="cuda")).square().mean())
            optimizer.step()  # made: accelerate_prepare
            optimizer.zero_grad()
        if not leak:
            accelerator.free_memory()
        del model, optimizer
        say("fold", fold)


def accelerate_predictions(leak):
    """Predictions of each evaluation are gathered, and compared at the end."""
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = net()
    loader = torch.utils.data.DataLoader(torch.randn(96, 256), 32)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 1e-3), loader)
    gathered = []
    for epoch in range(5):
        model.train()
        for x in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(x).square().mean())
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        for x in loader:
            out = model(torch.cat([x] * 8)) if leak else model(x).detach().cpu()  # made: accelerate_predictions
            gathered.append(accelerator.gather(out) if leak else out)  # kept: accelerate_predictions
        del x, out
        say("epoch", epoch)


# ---- diffusers ----------------------------------------------------------------------------------


def unet():
    from diffusers import UNet2DModel

    return UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(32, 32), norm_num_groups=4,
                       down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D")).cuda()


class Gallery:
    def __init__(self):
        self.frames = []

    def show(self, image):
        self.frames.append(image.clamp(-1, 1))  # made: diffusers_frames kept: diffusers_frames


def diffusers_frames(leak):
    """What is between noise and image is shown while it is made; then only the image is of use."""
    from diffusers import DDPMScheduler

    model, noises = unet().eval(), DDPMScheduler(num_train_timesteps=50)
    noises.set_timesteps(5)
    gallery = Gallery()
    for prompt in range(6):
        image = torch.randn(64, 3, 16, 16, device="cuda")
        for when in noises.timesteps:
            with torch.no_grad():
                image = noises.step(model(image, when).sample, when, image).prev_sample
            gallery.show(image)
        if not leak:
            gallery.frames.clear()
        del image
        say("prompt", prompt)


def diffusers_ema(leak):
    """A mean of the weights that begins anew in each epoch."""
    from diffusers.training_utils import EMAModel

    model = unet()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    means = []
    for epoch in range(5):
        mean = EMAModel(model.parameters())  # made: diffusers_ema
        if not leak:
            means.clear()
        means.append(mean)  # kept: diffusers_ema
        for _ in range(2):
            noise = torch.randn(2, 3, 16, 16, device="cuda")
            F.mse_loss(model(noise, 3).sample, noise).backward()
            optimizer.step()
            optimizer.zero_grad()
            mean.step(model.parameters())
        del mean, noise
        say("epoch", epoch)


# ---- torchvision --------------------------------------------------------------------------------


def features_of_images(leak):
    """Features for a score of the generator, of every epoch or of the last one."""
    import torchvision
    from torchvision.models.feature_extraction import create_feature_extractor

    torch.backends.cudnn.enabled = False
    model = torchvision.models.resnet18(num_classes=4).cuda().eval()
    extractor = create_feature_extractor(model, {"layer1": "one", "avgpool": "all"})
    bank = {}
    for epoch in range(5):
        for batch in range(2):
            with torch.no_grad():
                found = extractor(torch.randn(16, 3, 64, 64, device="cuda"))  # made: features_of_images
            bank[f"{epoch if leak else 0}/{batch}"] = found  # kept: features_of_images
            del found
        say("epoch", epoch)


def averaged_models(leak):
    """As torchvision's references train: with a mean of the weights, which is kept for each epoch."""
    import torchvision

    torch.backends.cudnn.enabled = False
    model = torchvision.models.squeezenet1_1(num_classes=4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    best = {}
    for epoch in range(4):
        mean = torch.optim.swa_utils.AveragedModel(model)  # made: averaged_models
        for _ in range(2):
            F.cross_entropy(model(torch.randn(2, 3, 64, 64, device="cuda")), torch.zeros(2, dtype=torch.long, device="cuda")).backward()
            optimizer.step()
            optimizer.zero_grad()
            mean.update_parameters(model)
        best[epoch if leak else "best"] = mean  # kept: averaged_models
        del mean
        say("epoch", epoch)


# ---- stable-baselines3 --------------------------------------------------------------------------


def ppo(callback, steps=4 * 64):
    import gymnasium
    import numpy
    from stable_baselines3 import PPO

    class Walk(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (4096,), numpy.float32)
        action_space = gymnasium.spaces.Discrete(4)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.steps = 0
            return numpy.zeros(4096, "f4"), {}

        def step(self, action):
            self.steps += 1
            return numpy.full(4096, 0.1, "f4"), 1.0, self.steps % 10 == 0, False, {}

    torch.distributions.Distribution.set_default_validate_args(False)
    PPO("MlpPolicy", Walk(), n_steps=64, batch_size=32, n_epochs=1, device="cuda", policy_kwargs={"net_arch": [64, 64]}).learn(steps, callback=callback)


def ppo_rollouts(leak):
    """Rollouts are kept to train on them again."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Keep(BaseCallback):
        def __init__(self):
            super().__init__()
            self.rollouts = []

        def _on_step(self):
            return True

        def _on_rollout_end(self):
            self.model.rollout_buffer.returns[:] = 0
            if not leak:
                self.rollouts.clear()
            self.rollouts.append(list(self.model.rollout_buffer.get(32)))  # made: ppo_rollouts kept: ppo_rollouts
            say("rollout", len(self.rollouts))

    ppo(Keep(), 6 * 64)


def ppo_distributions(leak):
    """The policy's distributions are kept, for their divergence."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Divergence(BaseCallback):
        def __init__(self):
            super().__init__()
            self.distributions = []

        def _on_step(self):
            return True

        def _on_rollout_end(self):
            observations = torch.zeros(256, 4096, device="cuda")  # made: ppo_distributions
            now = self.model.policy.get_distribution(observations)  # made: ppo_distributions
            self.distributions.append(now.distribution if leak else now.entropy().mean().item())  # kept: ppo_distributions
            say("rollout", len(self.distributions))

    ppo(Divergence(), 6 * 64)


# ---- DistributedDataParallel --------------------------------------------------------------------


def join():
    import torch.distributed as dist

    os.environ |= {"RANK": "0", "WORLD_SIZE": "1"}
    dist.init_process_group("nccl", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
    return dist


def ddp_hook(leak):
    """A hook of the buckets keeps what it was given, for a picture of the gradients."""
    dist = join()
    state = {"buckets": [], "leak": leak}

    def look(state, bucket):
        if not state["leak"]:
            state["buckets"].clear()
        state["buckets"].append(bucket.buffer().clone())  # made: ddp_hook kept: ddp_hook
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    model = nn.parallel.DistributedDataParallel(net().cuda())
    model.register_comm_hook(state, look)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for step in range(8):
        model(torch.randn(64, 256, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        say("step", step)
    dist.destroy_process_group()


def ddp_wrapped_anew(leak):
    """The model is wrapped in each epoch; the old wrapper keeps its buckets."""
    dist = join()
    model = net().cuda()
    wrappers = []
    for epoch in range(5):
        wrapped = nn.parallel.DistributedDataParallel(copy.deepcopy(model))  # made: ddp_wrapped_anew
        optimizer = torch.optim.SGD(wrapped.parameters(), 1e-3)
        for _ in range(2):
            wrapped(torch.randn(64, 256, device="cuda")).square().mean().backward()  # made: ddp_wrapped_anew
            optimizer.step()
            optimizer.zero_grad()
        if not leak:
            wrappers.clear()
        wrappers.append(wrapped)  # kept: ddp_wrapped_anew
        del wrapped, optimizer
        say("epoch", epoch)
    wrappers.clear()
    dist.destroy_process_group()


main({f.__name__: f for f in (accelerate_prepare, accelerate_predictions, diffusers_frames, diffusers_ema, features_of_images, averaged_models,
                              ppo_rollouts, ppo_distributions, ddp_hook, ddp_wrapped_anew)})
