# SPDX-License-Identifier: MIT
"""Two runs of the same programs, line by line: what may differ, and by which rule (README.md has the reasons)."""
import collections
import re

# (code without kedge, code under kedge) that a rule allows. ANY: whatever was injected or would have come.
ANY = None
ALLOWED = {
    "oom": {(2, ANY)}, # the call is made once more, and answers what it would have
    "served": {(ANY, ANY)},
    "after": {(ANY, ANY)},
    "R2": {(900, 0), (900, 1), (0, 1), (900, 700)},
    "R9": {(1, 0), (1, 906), (1, 700)},
    "R21": {(500, 0)},
    "R23": {(0, 801), (1, 801), (201, 801), (700, 801), (709, 801)},
    "R34": {(700, 0), (700, 1)},
    "R38": {(800, 0)},
}
LINE = re.compile(r"^(\d+) (\d+) (\S+)(.*?)(?: spared:(\S+))?$")


class Run:
    """What `codes` printed: per program its lines, how it ended, and which call of ours was made to fail."""

    def __init__(self, text):
        self.programs = collections.OrderedDict()
        self.failed = {}
        self.stopped = set()
        self.died = {}
        lines = []
        for line in text.splitlines():
            if line.startswith("SEED "):
                key = tuple(int(x) for x in line.split()[1:])
                lines = self.programs.setdefault(key, [])
            elif line.startswith("FAILED "):
                self.failed[key] = line.split()[1]
            elif line.startswith("STOPPED "):
                self.stopped.add(key)
            elif line.startswith("DIED "):
                self.died[key] = line
            else:
                lines.append(line)


class Comparison:
    def __init__(self, injected_inside=False):
        self.inside = injected_inside  # the reference is one program for all its variants
        self.spared = collections.Counter()
        self.differences = []
        self.calls = 0
        self.names = set()
        self.refusals = collections.Counter()
        self.stopped = 0
        self.broken = collections.Counter()  # calls of ours that were made to fail

    def _may(self, rule, want, got):
        pairs = ALLOWED.get(rule, set())
        if pairs & {(ANY, ANY), (want, ANY), (want, got)}:
            return True
        return self.inside and rule == "oom" and want == 2

    def _line(self, want, got):
        if want == got:
            return True
        w, g = LINE.match(want), LINE.match(got)
        if not w or not g or not g.group(5) or w.group(1, 3, 4) != g.group(1, 3, 4):
            return False
        self.spared[g.group(5)] += 1
        return self._may(g.group(5), int(w.group(2)), int(g.group(2)))

    def _count(self, line):
        m = LINE.match(line)
        if m:
            self.calls += 1
            self.names.add(m.group(3))
            if m.group(2) != "0":
                self.refusals[int(m.group(2))] += 1

    def add(self, native, kedge):
        for key, got in kedge.programs.items():
            want = native.programs.get((key[0], 0) if self.inside else key)
            if want is None:
                self.differences.append((key, [], "no such program", "a program"))
                continue
            if key in kedge.failed:
                self.broken[kedge.failed[key]] += 1
            if key in kedge.stopped:
                self.stopped += 1
                want = want[:len(got)]
            for line in got:
                self._count(line)
            for i in range(max(len(want), len(got))):
                w = want[i] if i < len(want) else "the end"
                g = got[i] if i < len(got) else "the end"
                if not self._line(w, g):
                    before = want[max(0, i - 6):i]
                    self.differences.append((key, before, w, g, kedge.failed.get(key)))
                    break
        for key, how in list(native.died.items()) + list(kedge.died.items()):
            self.differences.append((key, [], "a program that ends", how))
