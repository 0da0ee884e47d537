#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Names of anchors are the program's own bytes: a suggested hint is for the one anchor of its name, by way of its file."""
import pathlib
import random

from regresskit import KEDGE, check, kedge_run, main, run, same, tool, tool_json

# Globs, quotes of YAML and of shells, controls, characters that are obeyed, bytes that are no UTF-8.
PIECES = [b"*", b"?", b"[", b"]", b"\\", b"\\\\", b"\\x", b"\\*", b"'", b'"', b": ", b" #", b"\n", b"\t", b"\x1b[0m", b"\x7f",
          b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc3\xa4", b"\xe2\x80\xa8", b"\xc2\x85", b"\xef\xbb\xbf", b"\xe2\x80\xae",
          b"\xf0\x9f\x98\x80", b"-", b"{", b"}", b"%", b"&", b"a", b"ff", b"x"]
PROGRAM = """\
import ctypes, sys
rt = ctypes.CDLL("libcudart.so.12")
me = ctypes.CDLL(None)
names = [bytes.fromhex(line) for line in open("names").read().split()]
kept = {bytes.fromhex(line) for line in open("kept").read().split()}
late = []
for name in names:
    me.kedge_push(name)
    p = ctypes.c_void_p()
    assert rt.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(4 << 20)) == 0
    if name not in kept and sys.argv[1] == "good":
        assert rt.cudaFree(p) == 0
    elif name not in kept:
        late.append(p)
    me.kedge_pop()
for p in late:
    assert rt.cudaFree(p) == 0
"""


def drawn(dice, count):
    """Names, and for each another one that a careless glob for it would match as well."""
    names, kept = [], []
    while len(names) < count:
        pieces = [dice.choice(PIECES) for _ in range(dice.randint(1, 9))]
        special = [i for i, piece in enumerate(pieces) if piece not in (b"a", b"ff", b"x")]
        if not special:
            continue
        other = list(pieces)
        other[dice.choice(special)] = dice.choice([b"a", b"xx", b""])
        name, near = (b"<" + b"".join(p) + b">" for p in (pieces, other))
        if name not in names + kept and near not in names + kept:
            names.append(name)
            kept.append(near)
    return names, kept


def put_program(names, kept, dice):
    every = names + kept
    dice.shuffle(every)
    pathlib.Path("names").write_text("\n".join(name.hex() for name in every), encoding="ascii")
    pathlib.Path("kept").write_text("\n".join(name.hex() for name in kept), encoding="ascii")
    pathlib.Path("program*'\\.py").write_text(PROGRAM, encoding="utf-8")


def a_suggested_hint_is_for_the_anchor_of_that_name_alone():
    for seed in range(8):
        dice = random.Random(seed)
        names, kept = drawn(dice, 24)
        put_program(names, kept, dice)
        for kind in ("good", "bad"):
            kedge_run("python3", "program*'\\.py", kind, capture=f"{kind}.kcap")
        tool("suggest", "--good", "good.kcap", "--bad", "bad.kcap", "-o", "hints.yaml", "--force")
        tool("hints", "lint", "hints.yaml", rc=None)
        kedge_run("python3", "program*'\\.py", "bad", capture="again.kcap", KEDGE_HINTS="hints.yaml")
        hints = tool_json("report", "again.kcap")["hints"]
        same(f"seed {seed}: hints", len(hints), len(names))
        same(f"seed {seed}: blocks that each matched", {h["matched_count"] for h in hints}, {1})


def a_glob_that_ends_within_an_escape_is_refused_with_its_place():
    for value in ("'step\\'", '"step\\\\"', "step\\"):
        pathlib.Path("bad.yaml").write_text("kedge-hints: 1\nhints:\n  - id: a\n    do: release\n    pick: {size: 4MiB}\n"
                                            f"    when: {{anchor: {value} , edge: exit}}\n", encoding="utf-8")
        said = run(KEDGE, "hints", "lint", "bad.yaml", rc=2).stdout
        check(said.count("\n") == 1 and "bad.yaml:6:20: anchor ends in a single \\ " in said, said)


if __name__ == "__main__":
    main(a_suggested_hint_is_for_the_anchor_of_that_name_alone, a_glob_that_ends_within_an_escape_is_refused_with_its_place)
