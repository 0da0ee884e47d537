# SPDX-License-Identifier: MIT
"""What a context of autograd keeps though the backward pass does not need it: published cases as plain PyTorch scripts.

Each script holds too much, and --mended is the same script mended by hand; neither knows of kedge. Anchors are the modules that the
model has anyway (KEDGE_ANCHORS=python=modules), hints pick by Python call site:

    mended, bad ─► suggest ─► verify ─► live: the mended script's peak, by the report and by the device
                                          └─► a device between the peaks (R88); the twin that does read is stopped (R86)
"""
import dataclasses
import json
import re

import harness
import loop

PACKAGE, TITLE = "torch", "Kept without need, on PyTorch scripts that state nothing"
MB = loop.MB
GRANULE = 2 * MB # of physical memory: what a release of a whole block may miss
HINT = re.compile(r'((?:  # .*\n)+)  - id: "(.*)"\n.*\n    pick: \{site: \[(.*?)\]')
section = loop.section


@dataclasses.dataclass
class Kept(loop.Loop):
    """One script.

    culprit   texts of the lines that ask for what is kept
    function  that these lines are in
    count     late frees
    reads     the option of the twin whose backward pass does read what is kept, and the text of the line that reads it
    reader    a function on the native stack of that read
    """
    function: str = ""
    count: int = 0
    reads: tuple = ()
    reader: str = ""
    good: tuple = ("--mended",)

    def rows(self, short):
        return [Row(self, env) for env in self.envs if not short or env in self.short]


@dataclasses.dataclass
class Row(loop.Row):
    @property
    def name(self):
        return f"{self.env}.liveness_{self.case.name}"

    def command(self, *line, rc=0, **env):
        return super().command(*line, rc=rc, **{"KEDGE_ANCHORS": "python=modules", **env})

    def measured(self, name, *line):
        """A run under kedge: what it printed, its report, and its peak on the device's own ledger."""
        done = self.command("kedge", "run", "--capture", f"{name}.kcap", *line, SIMCUDA_STATS=self.work / f"{name}.stats")
        return done.stdout, self.told("report", f"{name}.kcap"), harness.read_stats(self.work / f"{name}.stats")["device_0_peak"]

    def verified(self, form, rc=0):
        return json.loads(self.command("kedge", "verify", "--sim", "--json", "--hints", "hints.yaml", "--", *form, rc=rc).stdout)

    def loop(self, result, full):
        case, wrong = self.case, result["wrong"]
        result["verdict"] = "as the script mended by hand"
        bad = self.script(*case.bad)

        def same(what, found, expected, within=0):
            if abs(found - expected) > within if within else found != expected:
                wrong.append(f"{what}: {found!r}, not {expected!r}")

        losses, mended, mended_peak = self.measured("good", "--", *self.script(*case.good))
        printed, before, _ = self.measured("bad", "--", *bad)
        same("losses of the bad form", printed, losses)
        if full:
            same("losses without kedge", self.command(*bad).stdout, losses)

        suggested = self.told("suggest", "--good", "good.kcap", "--bad", "bad.kcap", "-o", "hints.yaml")
        same("suggest: covered", suggested["covered"], {"count": case.count, "bytes": case.hinted})
        same("suggest: late bytes", suggested["late_bytes"], case.late)
        self.picked(wrong, suggested)

        verified = self.verified(bad)
        same("verify: releases in the trap run", sum(h["trapped_count"] for h in verified["hints"]), case.count)
        live = ["kedge", "run", "--hints", "hints.yaml", "--hints-mode", "live", "--capture"]
        printed, after, peak = self.measured("live", "--hints", "hints.yaml", "--hints-mode", "live", "--", *bad)
        same("losses with hints", printed, losses)
        same("releases", [after["hinted_freed_count"], after["hinted_freed_bytes"]], [case.count, case.hinted])
        same("live peak with hints, beside the prediction", after["max_with_hints_bytes"], suggested["predicted_max_bytes"])
        same("live peak with hints, beside the mended script's", after["max_with_hints_bytes"], mended["max_bytes"])
        same("the device's peak, beside the mended script's", peak, mended_peak, within=GRANULE)
        self.between(result, full, live, bad, before, after)
        if case.reads:
            self.stopped(wrong, full)
        result["sentence"] = (f"{len(suggested['hints'])} hint, {case.count} releases; live {before['max_bytes'] / MB:.2f} MiB -> "
                              f"{after['max_with_hints_bytes'] / MB:.2f} MiB, mended by hand {mended['max_bytes'] / MB:.2f} MiB; on the device "
                              f"{peak / MB:.0f} MiB, mended {mended_peak / MB:.0f} MiB; losses are equal to the bit; "
                              f"on {result['between'] / MB:.0f} MiB out of memory without, finished with"
                              + ("; a backward pass that reads is stopped" if case.reads else ""))

    def picked(self, wrong, suggested):
        """One hint, which picks by the Python call site and is called by it, and whose comment names a line that asks."""
        case = self.case
        lines = [f"{case.function} {case.script}:{loop.line_of(case.script, text)}" for text in case.culprit]
        hints = HINT.findall((self.work / "hints.yaml").read_text(encoding="utf-8"))
        if len(hints) != 1 or len(suggested["hints"]) != 1:
            raise loop.Wrong(f"suggest: {len(hints)} hints in the file, {len(suggested['hints'])} told, not 1")
        (comment, _, sites), title = hints[0], suggested["hints"][0]["title"]
        wrong += [f"a site that is no Python call site of {case.function}: {site}" for site in sites.split(", ")
                  if not site.startswith(f'"p:{case.script}:{case.function}')]
        if title not in lines:
            wrong.append(f"the hint is called {title!r}")
        if not any(line in comment for line in lines):
            wrong.append(f"no line that asks is named: {comment!r}")

    def stopped(self, wrong, full):
        """The twin that reads, with the hints of the form that does not: shadow tells, verify refuses, trap stops the call; live
        does no more than shadow, since its option is not that of the verified command."""
        reads = self.script(self.case.reads[0])
        identity = re.search(r'- id: "(.*)"', (self.work / "hints.yaml").read_text(encoding="utf-8"))[1]
        for mode in ("shadow", "trap", "live") if full else ("trap",):
            capture = f"reads.{mode}.kcap"
            stats = self.work / f"reads.{mode}.stats"
            done = self.command("kedge", "run", "--hints", "hints.yaml", "--hints-mode", mode, "--capture", capture, "--", *reads,
                                rc=None, SIMCUDA_STATS=stats)
            hint = self.told("report", capture)["hints"][0]
            wrong += [f"--reads, {mode}: {w}" for w in self.told_of(hint, identity)]
            if harness.read_stats(stats)["faults"] != 0:
                wrong.append(f"--reads, {mode}: the device met a fault, so a call got there")
            if mode != "trap":
                if done.returncode != 0 or hint["late_touches"] == 0 or hint["violations"] != 0:
                    wrong.append(f"--reads, {mode}: exit {done.returncode}, {hint['late_touches']} late, {hint['violations']} stopped")
                if mode == "live" and "live needs a receipt from `kedge verify` (the command is " not in done.stderr:
                    wrong.append(f"--reads, live: not told: {done.stderr.strip()[-600:]}")
                continue
            if done.returncode == 0 or hint["violations"] == 0:
                wrong.append(f"--reads, {mode}: exit {done.returncode}, {hint['violations']} calls were stopped")
            said = f"hint {identity}: cuLaunchKernel touches "
            if said not in done.stderr or "the call is stopped; both stacks are in" not in done.stderr:
                wrong.append(f"--reads, {mode}: not told: {done.stderr.strip()[-600:]}")
            if self.case.reads[1] not in done.stderr: # PyTorch's own trace of the error
                wrong.append(f"--reads, {mode}: the error does not come up at {self.case.reads[1]!r}")
        if full:
            refused = self.verified(reads, rc=1)
            if refused["verified"] or refused["failed_hint"] != identity:
                wrong.append(f"verify of --reads: {refused['failed_hint']}: {refused['reason']}")

    def told_of(self, hint, identity):
        """Both stacks: who asked, by Python lines; who read, by native functions. The reader's Python lines are not asserted: a use
        is recorded with its native stack."""
        if hint["id"] != identity:
            yield f"the report names {hint['id']}"
        asked = {(f["function"], f["line"]) for f in hint.get("allocated_by", ()) if (f["file"] or "").endswith(self.case.script)}
        if not asked & {(self.case.function, loop.line_of(self.case.script, text)) for text in self.case.culprit}:
            yield f"allocated by {sorted(asked)}"
        if not any(self.case.reader in (f["function"] or "") for f in hint.get("used_by", ())):
            yield f"used by {[f['function'] for f in hint.get('used_by', ())][:6]}"


CASES = [
    # PaddlePaddle #66278: the copy of a strided input, and what was put out
    Kept("unneeded", "torch_unneeded.py", (), ("rows = x.contiguous()", "mixed = rows @ matrix"), function="Mix.forward",
         late=144 * MB, hinted=144 * MB, count=36, envs=("torch",)),
    # PaddlePaddle #69043: the shape is needed, the buffer is not
    Kept("shape", "torch_shape.py", (), ("x = F.gelu(hidden)",), function="Tower.forward",
         late=96 * MB, hinted=96 * MB, count=12, reads=("--reads", "x @ penalty"), reader="cublasGemmEx", envs=("torch",)),
]
