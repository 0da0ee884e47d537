# SPDX-License-Identifier: MIT
"""The loop on unmodified PyTorch scripts that say nothing: from a run that holds too much to a run that fits.

Each script has a good and a bad form and knows nothing of kedge; no NVTX, no marks, no option of a command beyond those that
the README shows. The row goes through the README's commands and asserts what each of them finds:

    run good, run bad ─► report (who grows) · diff (who is late) ─► suggest ─► verify ─► run with the hints, live

The peak with hints must be the predicted one to the byte, and on a device between the two peaks the bad form must run out of
memory, the bad form with hints and the good form must finish (R88; in a whole run with streams a step late as well).
"""
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

import harness

PACKAGE, TITLE = "torch", "The loop, on PyTorch scripts that state nothing"
BOTH = ("torch", "torch-2024")
MB = 1 << 20
README_ROW = "torch.loop_leak"
README_BEGIN = f"<!-- lines of tests/frameworks: {README_ROW} -->"


class Wrong(Exception):
    """What is not as it must be; what follows could say nothing any more."""


@dataclasses.dataclass
class Loop:
    """One script.

    bad      the option that makes it hold too much
    culprit  text of the one line of the script that asks for what is held: rows and hints are called by it
    late     bytes that the bad form frees late, or never
    hinted   bytes of them that hints can release: blocks of 2 MiB and more, of steps that ended
    used     bytes of them that the bad form still uses: they must get no hint
    good     the option that makes it hold no more than it needs, of scripts that need one
    unlike   {environment: (hinted, used)} where another version uses more: a parameter that is passed by value counts as a use of
             whatever it holds, and PyTorch's lists of tensors hold addresses of the launch before
    """
    name: str
    script: str
    bad: tuple
    culprit: str
    late: int
    hinted: int
    used: int = 0
    good: tuple = ()
    unlike: dict = dataclasses.field(default_factory=dict)
    envs: tuple = BOTH
    short: tuple = ()
    why: str | None = None

    def rows(self, short):
        return [Row(self, env) for env in self.envs if not short or env in self.short]


@dataclasses.dataclass
class Row:
    case: Loop
    env: str
    work: pathlib.Path = None

    @property
    def name(self):
        return f"{self.env}.loop_{self.case.name}"

    def run(self, full):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="kedge-loop-"))
        result = {"row": self.name, "env": self.env, "case": self.case.name, "wrong": [], "verdict": "from report to hints"}
        try:
            self.loop(result, full)
        except Wrong as wrong:
            result["wrong"].append(str(wrong))
        finally:
            shutil.rmtree(self.work, ignore_errors=True)
        result.setdefault("sentence", "broken off")
        return result

    def command(self, *line, rc=0, **env):
        """A command of kedge's, or the script's, in the environment of the wheels. Nothing is walked where memory grows, which it does
        in each of these runs, unless KEDGE_HELD says so: a walk takes up to three seconds, and other rows are about them."""
        for _ in range(harness.ENDINGS):
            done = subprocess.run([str(x) for x in (harness.HERE / "in", self.env, *line)], cwd=self.work, text=True,
                                  errors="replace", env=harness.environment(**{"SIMCUDA_MEMORY": "8G", "KEDGE_HELD": "none", **env}),
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.TIMEOUT, check=False)
            if done.returncode == rc or not harness.died_at_its_end(done.returncode, done.stderr):
                break
            harness.say_again(line)
        if rc is not None and done.returncode != rc:
            raise Wrong(f"{' '.join(map(str, line[:5]))} ...: exit {done.returncode} instead of {rc}: {done.stderr.strip()[-1200:]}")
        return done

    def script(self, *form):
        return ["python", harness.HERE / "scripts" / self.case.script, *form]

    def told(self, *line, rc=0):
        return json.loads(self.command("kedge", *line, "--json", rc=rc).stdout)

    def loop(self, result, full):
        case, wrong = self.case, result["wrong"]
        to_hint, in_use = case.unlike.get(self.env, (case.hinted, case.used))
        bad = self.script(*case.bad)

        def same(what, found, expected):
            if found != expected:
                wrong.append(f"{what}: {found!r}, not {expected!r}")

        self.command("kedge", "run", "--capture", "good.kcap", "--", *self.script(*case.good))
        plain = self.command("kedge", "run", "--capture", "bad.kcap", "--", *bad)
        place = f"{case.script}:{line_of(case.script, case.culprit)}"

        # one command each finds it
        report = self.command("kedge", "report", "bad.kcap", "--all").stdout
        grown = " ".join(report.partition("\nGrows\n")[2].split("\n")[:2]) # its title may stand below
        if place not in grown:
            wrong.append(f"report: what grows most is not at {place}: {grown or 'nothing grows'!r}")
        check = " ".join(self.command("kedge", "check", "bad.kcap", "growth==0", rc=1).stdout.split())
        amount = grown.split(",")[0].strip()
        if place not in check or f": {amount}, " not in check:
            wrong.append(f"check does not say that {place} grows by {amount}: {check}")
        diff = self.told("diff", "good.kcap", "bad.kcap")
        same("diff: late bytes", diff["late_bytes"], case.late)
        same("diff: advice", diff["advice"], None)
        if not diff["groups"]:
            raise Wrong("diff finds nothing")
        if place not in diff["groups"][0]["title"]:
            wrong.append(f"diff: the largest group is not at {place}: {diff['groups'][0]['title']!r}")
        titles = [g["title"] for key in ("groups", "never_freed_groups", "extra_groups") for g in diff[key]]
        wrong += [f"diff: a title of the framework's own: {t}" for t in titles if f"{case.script}:" not in t]

        suggested = self.told("suggest", "--good", "good.kcap", "--bad", "bad.kcap", "-o", "hints.yaml")
        same("suggest: bytes with a hint", suggested["covered"]["bytes"], to_hint)
        same("suggest: bytes still in use", suggested["used_after"]["bytes"], in_use)
        wrong += [f"suggest: a title of the framework's own: {h['title']}" for h in suggested["hints"] if f"{case.script}:" not in h["title"]]

        self.command("kedge", "verify", "--sim", "--hints", "hints.yaml", "--", *bad)
        live = ["kedge", "run", "--hints", "hints.yaml", "--hints-mode", "live", "--capture"]
        hinted = self.command(*live, "live.kcap", "--", *bad)
        same("output with hints", hinted.stdout, plain.stdout)
        after = self.told("report", "live.kcap")
        before = self.told("report", "bad.kcap")
        same("live peak with hints", after["max_with_hints_bytes"], suggested["predicted_max_bytes"])
        same("released", after["hinted_freed_bytes"], to_hint)
        self.between(result, full, live, bad, before, after)
        if self.name == README_ROW:
            wrong += [f"README.md shows what nobody prints: {line}" for line in self.not_as_in_readme()]
        result["sentence"] = (f"live {before['max_bytes'] / MB:.2f} MiB -> {after['max_with_hints_bytes'] / MB:.2f} MiB, as predicted; "
                              f"reserved {before['peak_reserved_bytes'] / MB:.0f} -> {after['peak_reserved_bytes'] / MB:.0f} MiB "
                              f"(predicted {suggested['predicted_peak_reserved_bytes'] / MB:.0f}); "
                              f"{len(suggested['hints'])} hints, {after['hinted_freed_count']} releases; "
                              f"on {result['between'] / MB:.0f} MiB out of memory without, finished with")

    def between(self, result, full, live, bad, before, after):
        """The device proves it: on one between the two peaks only the form with hints, and the good one, finish."""
        small = (before["max_bytes"] + after["peak_reserved_bytes"]) // 2 // MB * MB
        result["between"] = small
        if not after["peak_reserved_bytes"] < small < before["max_bytes"]:
            raise Wrong(f"there is no device between {after['peak_reserved_bytes']} and {before['max_bytes']} bytes")
        for what, late in {"": {}, " a step late": {"SIMCUDA_LAG": 1}}.items() if full else [("", {})]:
            at = {"SIMCUDA_MEMORY": small, **late}
            for words, line in [("under kedge", ["kedge", "run", "--capture", "oom.kcap", "--", *bad]), ("without kedge", bad)][:2 if full else 1]:
                done = self.command(*line, rc=None, **at)
                if done.returncode == 0 or "out of memory" not in done.stderr:
                    result["wrong"].append(f"on {small} bytes{what}, {words}: not out of memory: exit {done.returncode}")
                if line[0] == "kedge" and not re.search(r"most is held by \S+ \w+\.py:\d+: ", done.stderr):
                    result["wrong"].append(f"on {small} bytes{what}: the line about it does not name the script's: {done.stderr.strip()[-400:]}")
            for words, line in [("with hints", [*live, "small.kcap", "--", *bad]),
                                ("the good form", ["kedge", "run", "--capture", "small.kcap", "--", *self.script(*self.case.good)])][:2 if full else 1]:
                done = self.command(*line, rc=None, **at)
                if done.returncode != 0:
                    result["wrong"].append(f"on {small} bytes{what}, {words}: exit {done.returncode}: {done.stderr.strip()[-600:]}")


    def not_as_in_readme(self):
        """The lines of the top README's first screen that its commands do not print."""
        shutil.copy(harness.HERE / "scripts" / self.case.script, self.work)
        line = ["python", self.case.script, *self.case.bad, "--steps", "20"]
        good = [word for word in line if word not in self.case.bad]
        printed = []
        for status, words in ((1, ["run", "--capture", "leak.kcap", "--", *line]), (0, ["run", "--capture", "mended.kcap", "--", *good]),
                              (0, ["check", "mended.kcap", "growth==0"])):
            done = self.command("kedge", *words, rc=status, SIMCUDA_MEMORY="400M", KEDGE_HELD=None)
            printed += [done.stderr, done.stdout, "$ kedge " + " ".join(words).replace("growth==0", "'growth==0'")]
        return harness.not_in_readme(README_BEGIN, printed, 11)


def line_of(script, text):
    lines = (harness.HERE / "scripts" / script).read_text(encoding="utf-8").splitlines()
    found = [number for number, line in enumerate(lines, 1) if text in line]
    if len(found) != 1:
        raise Wrong(f"{script} has {len(found)} lines with {text!r}")
    return found[0]


def section(done):
    """The rows of results.md."""
    yield "| row | what the commands found |"
    yield "|---|---|"
    for result in done:
        yield f"| {result['row']} | {'**wrong**: ' + '; '.join(result['wrong']) if result['wrong'] else result['sentence']} |"


CASES = [
    Loop("leak", "torch_leak.py", ("--leak",), "loss = F.cross_entropy(model(inputs), targets)  # of the curve",
         late=487 * MB + MB // 2 + 80, hinted=480 * MB, short=("torch",)),
    Loop("kept", "torch_kept.py", ("--keep",), "return x + self.down(", late=72 * MB, hinted=72 * MB),
    Loop("retain", "torch_retain.py", ("--retain",), "return x + self.down(", late=619233300, hinted=590 * MB,
         unlike={"torch-2024": (570 * MB, 12 * MB)}),
    Loop("kept_and_used", "torch_kept.py", ("--keep", "--use"), "return x + self.down(", late=72 * MB, hinted=48 * MB, used=20 * MB),
]
