# SPDX-License-Identifier: MIT
"""PyTorch on a device of 60 % of what a script needs: what Adam holds goes out to the host and comes in again.

The script knows nothing of kedge. The hint is the one that `suggest --cap` writes of a run on a device that holds all:

    run on a large device ─► suggest --cap 60 % ─► verify ─► live on a device of 60 %: the same output to the bit
                                                         └─► without the hint out of memory
                                                         └─► check --predicted: moved as predicted, peak as predicted, by the device, too
"""
import dataclasses

import harness
import loop

PACKAGE, TITLE = "torch", "More than the device holds, on a PyTorch script that states nothing"
MB = loop.MB
GRANULE = 2 * MB
PERCENT = 60


@dataclasses.dataclass
class Evict:
    """One script.

    memory   of the device that holds all
    within   bytes by which a step may move more or less than was predicted of it
    verifies it goes through verify and mode live, else mode poison alone, whose moves are the same. The trap run of verify
             takes everything out that a call does not name: too long where calls name most of what there is
    """
    name: str
    script: str
    args: tuple
    within: int = 0
    memory: str = "8G"
    verifies: bool = True
    envs: tuple = ("torch",)
    short: tuple = ()
    why: str | None = None

    def rows(self, short):
        return [Row(self, env) for env in self.envs if not short or env in self.short]


@dataclasses.dataclass
class Row(loop.Row):
    @property
    def name(self):
        return f"{self.env}.evict_{self.case.name}"

    def loop(self, result, full):
        case, wrong = self.case, result["wrong"]
        result["verdict"] = f"on {PERCENT} % of the device as on all of it"
        script = self.script(*case.args)

        def same(what, found, expected):
            if found != expected:
                wrong.append(f"{what}: {found!r}, not {expected!r}")

        recorded = self.command("kedge", "run", "--trace", "full,uses=order", "--capture", "all.kcap", "--", *script,
                                SIMCUDA_MEMORY=case.memory).stdout
        if full:
            same("output without kedge", self.command(*script, SIMCUDA_MEMORY=case.memory).stdout, recorded)
        needs = self.told("check", "all.kcap", "reserved>0")["checks"][0]["at_most"]
        small = needs * PERCENT // 100 // GRANULE * GRANULE
        suggested = self.told("suggest", "all.kcap", "--cap", small, "-o", "hints.yaml")
        same("suggest: answer", suggested["answer"], "found")
        if suggested["predicted_peak_reserved_bytes"] > small:
            wrong.append(f"suggest: {suggested['predicted_peak_reserved_bytes']} bytes predicted for a device of {small}")
        self.stopped(wrong, full, script, small)
        mode = "live" if full and case.verifies else "poison"
        self.finishes(wrong, mode, script, small, recorded)
        step = self.compared(wrong, mode, suggested)
        result["sentence"] = (f"needs {needs / MB:.0f} MiB; on {small / MB:.0f} MiB out of memory without the hint, finished with it: "
                              f"{step['moved_in_bytes'] / MB:.0f} MiB in and {step['moved_out_bytes'] / MB:.0f} MiB out in a step, as predicted"
                              f"{f' within {case.within / MB:.0f} MiB' if case.within else ''} "
                              f"(no order of moves brings in less than {step['in_at_least_bytes'] / MB:.0f} MiB); output is equal to the bit")

    def stopped(self, wrong, full, script, small):
        """Without the hint it does not fit, whichever allocator it has."""
        ways = [("under kedge", ["kedge", "run", "--capture", "oom.kcap", "--", *script], {}), ("without kedge", script, {}),
                ("in the driver's pool", script, {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})]
        for words, line, env in ways if full else ways[:1]:
            done = self.command(*line, rc=None, SIMCUDA_MEMORY=small, **env)
            if done.returncode == 0 or "out of memory" not in done.stderr:
                wrong.append(f"on {small} bytes, {words}: not out of memory: exit {done.returncode}: {done.stderr.strip()[-300:]}")

    def finishes(self, wrong, mode, script, small, recorded):
        if mode == "live":
            self.command("kedge", "verify", "--sim", "--hints", "hints.yaml", "--", *script, SIMCUDA_MEMORY=small)
        stats = self.work / "small.stats"
        done = self.command("kedge", "run", "--trace", "full,uses=order", "--hints", "hints.yaml", "--hints-mode", mode, "--capture",
                            "small.kcap", "--", *script, SIMCUDA_MEMORY=small, SIMCUDA_STATS=stats)
        if done.stdout != recorded:
            wrong.append(f"{mode} on {small} bytes: {harness.first_difference(recorded, done.stdout)}")
        books = harness.read_stats(stats)
        if not 0 < books["device_0_peak"] <= small or books["faults"] != 0:
            wrong.append(f"{mode} on {small} bytes: the device's peak is {books['device_0_peak']}, {books['faults']} faults")

    def compared(self, wrong, mode, suggested):
        """What was moved is what follows from the run, and what was predicted of a step. The median step as it is told."""
        checked = self.told("check", "small.kcap", "--predicted", "hints.yaml", rc=None)
        wrong += [f"check: {c['expression']}: {c['at_least']}" for c in checked["checks"] if c["answer"] != "yes"]
        wrong += [f"check: {figure} is not compared" for figure in ("moved_in", "moved_out", *(["reserved"] if mode == "live" else []))
                  if not any(c["figure"] == figure for c in checked["checks"])]
        told = self.told("report", "small.kcap")["eviction"]
        if len(told) != 1 or told[0]["median_step"] is None:
            raise loop.Wrong(f"report: {len(told)} hints have moved something, or there was no step")
        step = next(s for s in told[0]["steps"] if s["step"] == told[0]["median_step"])
        for key in ("moved_in_bytes", "moved_out_bytes", "in_at_least_bytes"):
            if abs(step[key] - suggested["step"][key]) > self.case.within:
                wrong.append(f"step {step['step']}: {key} {step[key]}, predicted {suggested['step'][key]}")
        if not 0 < step["in_at_least_bytes"] <= step["moved_in_bytes"]:
            wrong.append(f"step {step['step']}: {step['moved_in_bytes']} bytes in, and there is an order with {step['in_at_least_bytes']}")
        return step


section = loop.section

CASES = [
    # Nine steps: the first five of them still carry what the warm-up has left, and the median step is to be one of those that repeat
    Evict("adam", "torch_adam.py", ("--steps", "9"), short=("torch",)),
    # The optimizer's default: a launch names 640 MiB of each of its lists. What else is named, by stale words in these lists, is not the
    # same where blocks have other addresses: some of its blocks of 64 MiB
    Evict("adam_foreach", "torch_adam.py", ("--foreach", "--depth", "24", "--width", "4096", "--batch", "16", "--steps", "4"), memory="16G",
          within=256 * MB, verifies=False),
]
