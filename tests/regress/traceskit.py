# SPDX-License-Identifier: MIT
"""What tests and tables of the pool's utilisation share: the traces, their variants, the generator's programs, and `kedge whatif`."""
import csv
import math
import os
import pathlib
import random
import sys
import tempfile

from regresskit import MODELS, SOURCE, skip, tool_json

sys.path.insert(0, str(SOURCE / "tests" / "traces"))
import programs # pylint: disable=wrong-import-position

MIB = 1 << 20
# Models of allocators that a program could run with, as they are set up without tuning; gates compare with them. The first ones
# were defaults until 2026.
FORMER = ("torch", "torch-expandable", "paddle", "rmm", "async")
PEERS = (*FORMER, "torch-split", "paddle-vmm", "paddle-vmm-full", "gmlake")
# What could be held if all were known beforehand: shown, and no gate.
BOUNDS = ("stalloc",)


def foreign(least=0):
    folder = os.environ.get("KEDGE_TEST_TRACES")
    if not folder:
        skip("KEDGE_TEST_TRACES is not set")
    found = sorted((pathlib.Path(folder) / "csv").glob("*.csv"))
    if not found:
        skip(f"no csv file in {folder}/csv")
    return [path for path in found if allocations(path) > least]


def allocations(path):
    with open(path, newline="", encoding="utf-8") as f:
        return sum(row["op"] == "a" for row in csv.DictReader(f))


def own(name):
    return SOURCE / "tests" / "traces" / f"{name}.csv"


def whatif(path, *arguments):
    """{policy: its figures}."""
    answer = tool_json("whatif", path, *arguments, program=MODELS)
    return {p["policy"]: p for p in answer.get("policies", [answer])}


def mib(size):
    return f"{size / MIB:9.1f}"


def lags(path):
    """{how far the device is behind: the same in passes}."""
    with open(path, encoding="utf-8") as f:
        return {"no lag": 0, "50 events": 50 / sum(1 for _ in f), "half a pass": 0.5, "a pass": 1}


def mean_and_worst(logs):
    return math.exp(sum(logs) / len(logs)), math.exp(min(logs))


def variants(path):
    """(name, rows) of requests that a like program could have made: other sizes, a part of the window, another start."""
    with open(path, newline="", encoding="utf-8") as f:
        rows = [(row["op"], row["id"], int(row["size"] or 0), int(row["time_us"])) for row in csv.DictReader(f)]
    start, rest = [row for row in rows if row[3] < 0], [row for row in rows if row[3] >= 0]
    dice = random.Random(path.stem)
    for share in (0.5, 0.9):
        yield f"first {share}", start + rest[:int(len(rest) * share)]
    live = {row[1]: row for row in start}
    skipped = len(rest) * 3 // 10
    for row in rest[:skipped]:
        if row[0] == "a":
            live[row[1]] = row
        else:
            live.pop(row[1], None)
    yield "without the first 0.3", dice.sample(list(live.values()), len(live)) + rest[skipped:]
    for scale in (0.7, 1.25):
        yield f"sizes x {scale}", [(op, i, n if n < 65536 else int(n * scale), t) for op, i, n, t in rows]
    for which in (1, 2):
        scales = {}
        yield f"each size x 0.75 to 1.3, {which}", [
            (op, i, n if n < 65536 else int(n * scales.setdefault(n, dice.uniform(0.75, 1.3))), t) for op, i, n, t in rows]
    if len(start) > 10:
        yield "start in another order", dice.sample(start, len(start)) + rest
    yield "lifetimes permuted", start + with_other_ends(rest, dice)
    yield "another program behind it", rows + [(op, 100000 + int(i), n, t + rows[-1][3]) for op, i, n, t in another(path)]


def with_other_ends(rows, dice):
    """Frees that stand near each other in the log, in another order. Each block is still freed behind its allocation."""
    made = {row[1]: number for number, row in enumerate(rows) if row[0] == "a"}
    at = [number for number, row in enumerate(rows) if row[0] == "f"]
    rows = list(rows)
    for first, number in enumerate(at):
        other = at[min(first + dice.randrange(1, 50), len(at) - 1)]
        if made.get(rows[other][1], -1) < number:
            (_, one, m, t), (_, two, n, u) = rows[number], rows[other]
            rows[number], rows[other] = ("f", two, n, t), ("f", one, m, u)
    return rows


def another(path):
    """What a smaller program asks for, from its beginning."""
    with open(path.with_name("lm-small-step-150.csv"), newline="", encoding="utf-8") as f:
        rows = [(row["op"], row["id"], int(row["size"] or 0), int(row["time_us"])) for row in csv.DictReader(f)]
    return [(op, i, n, t - rows[0][3]) for op, i, n, t in rows]


def with_itself(path):
    """(number, name, file) of a trace and its variants. The files are gone afterwards: they are made of other people's traces."""
    yield 0, "itself", path
    with tempfile.TemporaryDirectory() as folder:
        played = pathlib.Path(folder) / "variant.csv"
        for number, (name, rows) in enumerate(variants(path), 1):
            played.write_text("op,id,size,stream,time_us\n" + "".join(f"{op},{i},{n},0,{t}\n" for op, i, n, t in rows), encoding="utf-8")
            yield number, name, played


def on_streams(path):
    """(name, file): the same requests, by several streams. A second one that has a part of the blocks, as for communication; stages
    of a pipeline with a stream each; and blocks that three streams have at random."""
    with open(path, newline="", encoding="utf-8") as f:
        rows = [(row["op"], row["id"], row["size"], row["time_us"]) for row in csv.DictReader(f)]
    dice = random.Random(path.stem)
    picks = {"a second stream": lambda part: int(dice.random() < 0.15), "stages": lambda part: int(part * 12) % 3,
             "at random": lambda part: dice.randrange(3)}
    with tempfile.TemporaryDirectory() as folder:
        played = pathlib.Path(folder) / "streams.csv"
        for name, pick in picks.items():
            streams = {}
            for number, (op, block, _, _) in enumerate(rows):
                if op == "a":
                    streams[block] = pick(number / len(rows))
            played.write_text("op,id,size,stream,time_us\n" + "".join(f"{op},{i},{n},{streams[i]},{t}\n" for op, i, n, t in rows),
                              encoding="utf-8")
            yield name, played


def program(seed, folder):
    """(what the generator makes of a seed, its file)."""
    made = programs.make(seed)
    path = pathlib.Path(folder) / f"seed-{seed}.csv"
    path.write_text(made.csv(), encoding="utf-8")
    return made, path
