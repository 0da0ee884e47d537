# SPDX-License-Identifier: MIT
"""What a pipeline sends backward and keeps to the end of the step: PaddlePaddle #34230 as a PyTorch script over NCCL.

The script holds too much, --mended is the same script mended by hand; neither knows of kedge. Its ranks come from torchrun, its ranges
from NVTX. Of the captures of all ranks suggest makes one hint, by Python call site and by what the memory is given to, which waits
for the second forward receive. Nobody edits the file:

    mended, plain ─► suggest ─► verify ─► live: the mended script's peak in each rank, whatever the number of micro-batches
                                └─► a device between the peaks (R88); the twin that copies what was sent is stopped (R86)
"""
import dataclasses
import json
import re

import loop

PACKAGE, TITLE = "torch", "A pipeline over NCCL, on a PyTorch script that states nothing"
MB = loop.MB
GRANULE = 2 * MB # of physical memory
SENT = 4 * MB # bytes that go back for each micro-batch
STEPS = 2
SCRIPT = "torch_pipeline.py"
MADE = ("Stage.backward", "inputs.grad.bfloat16()")
COPIED = ("Stage.step", "sent_copies = [m.cpu() for m in sent]")
HINT = "backward" # by suggest, from the function's name
section = loop.section


@dataclasses.dataclass
class Pipeline:
    """So many processes, each of them a stage. It is in no short part: its trainer in C is in regress.seeds.s34230."""
    name: str
    stages: int
    envs: tuple
    script: str = SCRIPT
    why: str | None = None

    def rows(self, short):
        return [] if short else [Row(self, env) for env in self.envs]


@dataclasses.dataclass
class Row(loop.Row):
    stages: int = 0

    @property
    def name(self):
        return f"{self.env}.liveness_{self.case.name}"

    def form(self, *options):
        return ["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", self.stages, *self.script(*options)[1:]]

    def ranks(self, name, *options, hints=(), rc=0, **env):
        """A run under kedge: what it printed and said, and the row of each rank."""
        done = self.command("kedge", "run", *hints, "--capture", f"{name}.%r.kcap", "--", *self.form(*options), rc=rc, **env)
        return done, self.told("ranks", *(f"{name}.{rank}.kcap" for rank in range(self.stages)))["ranks"]

    def alive(self, rank, micro_batches):
        """How many of its messages a mended stage holds."""
        return min(micro_batches, self.stages - rank + 1) if rank else 0

    def loop(self, result, full):
        wrong = result["wrong"]
        result["verdict"] = "as the script mended by hand"
        self.stages = self.case.stages
        live = ("--hints", "hints.yaml", "--hints-mode", "live")

        def same(what, found, expected):
            if found != expected:
                wrong.append(f"{what}: {found!r}, not {expected!r}")

        done, mended = self.ranks("mended", "--mended")
        plain, before = self.ranks("plain", KEDGE_TRACE="full,uses=on")
        same("losses of the plain form", plain.stdout, done.stdout)
        if full:
            same("losses without kedge", self.command(*self.form()).stdout, plain.stdout)
        suggested = self.told("suggest", *(f"plain.{rank}.kcap" for rank in range(self.stages)), "-o", "hints.yaml")
        same("suggest: hints", [(h["id"], h["key"], h["when"], h["receives"], h["else"]) for h in suggested["hints"]],
             [(HINT, "p:torch_pipeline.py:Stage.backward", "*/receive-forward", 2, "*/update")])
        last = self.stages - 1 # which has the most to gain
        same("suggest: made from", suggested["made_from"], f"plain.{last}.kcap")
        same("suggest: predicted peak", suggested["predicted_max_bytes"], mended[last]["peak_live_bytes"])
        checked = json.loads(self.command("kedge", "verify", "--sim", "--json", "--hints", "hints.yaml", "--", *self.form()).stdout)
        same("verify: releases in the trap run", checked["hints"][0]["trapped_count"], STEPS * 8 * (self.stages - 1))
        done, after = self.ranks("live", hints=live)
        same("losses with hints", done.stdout, plain.stdout)
        for rank, (least, most, now) in enumerate(zip(mended, before, after)):
            same(f"rank {rank}: plain peak", most["peak_live_bytes"], least["peak_live_bytes"] + SENT * (8 - self.alive(rank, 8) if rank else 0))
            same(f"rank {rank}: peak with hints", now["peak_with_hints_bytes"], least["peak_live_bytes"])
            if now["peak_reserved_bytes"] > least["peak_reserved_bytes"] + GRANULE:
                wrong.append(f"rank {rank}: reserved {now['peak_reserved_bytes']}, mended by hand {least['peak_reserved_bytes']}")
            told = [(h["peak_live_count"], h["peak_with_hints_count"]) for h in now["hints"]]
            if rank:
                same(f"rank {rank}: messages that live", told, [(8, self.alive(rank, 8))])
        self.stopped(wrong, live)
        if full:
            self.grown(wrong, before, after, live)
        result["sentence"] = "; ".join(
            f"rank {rank}: live {most['peak_live_bytes'] / MB:.2f} MiB -> {now['peak_with_hints_bytes'] / MB:.2f} MiB, mended by hand "
            f"{least['peak_live_bytes'] / MB:.2f} MiB, reserved {most['peak_reserved_bytes'] / MB:.0f} -> {now['peak_reserved_bytes'] / MB:.0f} "
            f"MiB, mended {least['peak_reserved_bytes'] / MB:.0f} MiB" for rank, (least, most, now) in enumerate(zip(mended, before, after)) if rank
        ) + "; losses are equal to the bit; " + full * "the same peak at 12 micro-batches; " + "a copy of what was sent is stopped"

    def grown(self, wrong, before, after, live):
        """With more micro-batches only the plain form's peak is higher; a device between the two is enough with hints alone."""
        plain, more = self.ranks("plain-12", "--micro-batches", "12")
        done, flat = self.ranks("live-12", "--micro-batches", "12", hints=live)
        if done.stdout != plain.stdout:
            wrong.append("12 micro-batches: other losses with hints")
        for rank in range(self.stages):
            grown = more[rank]["peak_live_bytes"] - before[rank]["peak_live_bytes"]
            # a loss of 512 bytes is kept for each micro-batch
            if grown // MB * MB != (4 * SENT if rank else 0):
                wrong.append(f"rank {rank}: the plain peak grows by {grown} for 4 micro-batches")
            grown = flat[rank]["peak_with_hints_bytes"] - after[rank]["peak_with_hints_bytes"]
            if grown // MB != 0:
                wrong.append(f"rank {rank}: the peak with hints grows by {grown} for 4 micro-batches")
        small = {"SIMCUDA_MEMORY": 212 * MB} # 24 messages are 96 MiB beside what rank 1 needs anyway
        many = ("--micro-batches", "28", "--steps", "1")
        done = self.command("kedge", "run", "--capture", "oom.%r.kcap", "--", *self.form(*many), rc=None, **small)
        if done.returncode == 0 or "out of memory" not in done.stderr:
            wrong.append(f"on 212 MiB: not out of memory: exit {done.returncode}: {done.stderr.strip()[-300:]}")
        self.command("kedge", "run", *live, "--capture", "fits.%r.kcap", "--", *self.form(*many), **small)

    def stopped(self, wrong, live):
        """The twin that copies what it sent: the call is stopped, and both stacks are told."""
        done, _ = self.ranks("copied", "--uses", hints=live, rc=None)
        said = re.search(rf"hint {HINT}: (cuMemcpy\w+) touches .*the call is stopped", done.stderr)
        if done.returncode == 0 or not said:
            wrong.append(f"--uses: exit {done.returncode}, not told: {done.stderr.strip()[-600:]}")
            return
        if COPIED[1] not in done.stderr: # PyTorch's own trace of the error
            wrong.append(f"--uses: the error does not come up at {COPIED[1]!r}")
        hints = [self.told("report", f"copied.{rank}.kcap")["hints"][0] for rank in range(1, self.stages)]
        touched = [h for h in hints if h["violations"]]
        if not touched:
            wrong.append("--uses: no report has a stopped call")
        for hint in touched:
            for key, (function, text) in {"allocated_by": MADE, "used_by": COPIED}.items():
                frames = {(f["function"], f["line"]) for f in hint[key] if (f["file"] or "").endswith(SCRIPT)}
                if (function, loop.line_of(SCRIPT, text)) not in frames:
                    wrong.append(f"--uses: {key} {sorted(frames)}")


CASES = [Pipeline("pipeline", stages=3, envs=("torch",))]
