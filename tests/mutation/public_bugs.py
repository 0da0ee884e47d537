#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bugs that others have had in public, planted into kedge: the random programs of tests/oracle must find each again.

    public_bugs.py CASE           a test, by name
    public_bugs.py write          makes public_bugs.md: the first seed that finds each, and how many of the first do
    public_bugs.py first [WORD...]  which seed is the first in each arrangement, to choose one

What is planted is a word of mutant.def. Nothing of the tools is here but the addresses and what was wrong.
"""
import collections
import concurrent.futures
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
# pylint: disable=wrong-import-position
from oracle import ARRANGEMENTS, CHUNK, LIBRARY, MUTANT, PROGRAM, WORKERS, beside, found_by, until_end, words_of_mutants  # noqa: E402
from regresskit import SOURCE, check, failures, main, needs, same  # noqa: E402

TABLE = SOURCE / "tests" / "mutation" / "public_bugs.md"
SEEDS = 200  # of each arrangement
Bug = collections.namedtuple("Bug", "tool address word arrangement what")
BUGS = [
    Bug("RMM", "https://github.com/rapidsai/rmm/issues/2489", "taken", "plain",
        "a stream took over another one's free blocks and waited for it, but recorded no event behind that wait: a third stream "
        "that took them next waited for too little"),
    Bug("RMM", "https://github.com/rapidsai/rmm/issues/649", "handle", "plain",
        "a new stream has the handle of a destroyed one, and got at once what the old one's work still used"),
    Bug("CuPy", "https://github.com/cupy/cupy/issues/5069", "thread-stream", "plain",
        "the default streams of all threads have one handle, and free blocks were kept by handle"),
    Bug("CuPy", "https://github.com/cupy/cupy/pull/5191", "current", "dense",
        "memory came from the default pool although the program had made another one current"),
    Bug("PyTorch", "https://github.com/pytorch/pytorch/pull/106235", "over", "dense",
        "a capture counted as over before the call that ends it: what another thread did in between spoilt it"),
    Bug("PyTorch", "https://github.com/pytorch/pytorch/issues/193982", "gate-fence", "plain",
        "events were recorded and queried that a capture in progress forbids"),
    Bug("HAMi-core", "https://github.com/Project-HAMi/HAMi-core/issues/306", "undone", "dense-mapped",
        "where a call after the allocation failed, the request was refused and its memory stayed lost"),
    Bug("HAMi-core", "https://github.com/Project-HAMi/HAMi-core/issues/310", "books", "dense-hints",
        "a free was booked on the device of the current context, not on the block's"),
    Bug("HAMi-core", "https://github.com/Project-HAMi/HAMi-core/issues/67", "unknown", "dense",
        "memory that a graph had allocated could not be freed, since no request for it had been seen"),
    Bug("HAMi-core", "https://github.com/Project-HAMi/HAMi-core/issues/191", "used", "dense",
        "cuMemGetInfo said that all memory was free while the process held some"),
    Bug("vLLM", "https://github.com/vllm-project/vllm/pull/34602", "halfway", "dense",
        "where memory ran out halfway, what had been got until then stayed lost"),
    Bug("vLLM", "https://github.com/vllm-project/vllm/pull/45552", "uses", "evict",
        "blocks went out to the host while the device still used them"),
    Bug("Paddle", "https://github.com/PaddlePaddle/Paddle/pull/64621", "put", "dense",
        "events that were needed no more were never destroyed"),
    Bug("ONNX Runtime", "https://github.com/microsoft/onnxruntime/pull/12913", "cut", "plain",
        "the rest of a block that was split belonged to no stream, so anybody got it at once"),
]


def all_seeds(bug):
    """(first seed that finds the bug, how many of SEEDS do). What is wrong as shipped does not count: nothing is."""
    jobs = [(bug.arrangement, at, CHUNK, MUTANT, {"TEST_KEDGE_MUTATE": bug.word}) for at in range(1, SEEDS, CHUNK)]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as workers:
        wrong = [seed for _, _, found in workers.map(until_end, jobs) for seed, _, _ in found]
    return min(wrong, default=None), len(wrong)


def write():
    needs(PROGRAM, MUTANT, LIBRARY)
    rows = []
    for bug in BUGS:
        first, number = all_seeds(bug)
        check(first is not None, f"{bug.address}: {bug.word} is found by none of {SEEDS} seeds of {bug.arrangement}")
        rows.append(f"| {bug.tool} | [{bug.address.rsplit('/', 1)[-1]}]({bug.address}) | {bug.what} | `{bug.word}` | {bug.arrangement} "
                    f"| {first} | {number} |")
        print(rows[-1], flush=True)
    TABLE.write_text(f"""# Public bugs of such tools, found again by seeds

Made by `tests/mutation/public_bugs.py write`. Each bug is planted into kedge as a word of `mutant.def`, and the seeds 1 to {SEEDS}
of an arrangement of [tests/oracle](../oracle/README.md) are run: the first that goes wrong, and how many do. As shipped none does.

| tool | bug | what was wrong | word | arrangement | first seed | of {SEEDS} |
|---|---|---|---|---|---|---|
""" + "\n".join(rows) + "\n", encoding="utf-8")


def first_seeds(*words):
    """Where to look for a bug: the first seed of each arrangement."""
    for word in words or [bug.word for bug in BUGS]:
        for name in ARRANGEMENTS:
            print(word, name, found_by(word, name, SEEDS), flush=True)


def found_again(bug):
    hit = found_by(bug.word, bug.arrangement, SEEDS)
    print(f"{bug.address}: {bug.word}, {bug.arrangement}: {hit}", flush=True)
    check(hit is not None, f"{bug.address}: none of {SEEDS} seeds of {bug.arrangement} finds it")


def r92_seeds_find_public_bugs_of_such_tools_again():
    """Each by a seed that is right as shipped."""
    needs(PROGRAM, MUTANT, LIBRARY)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as workers:
        list(workers.map(found_again, BUGS))


def the_table_has_these_bugs():
    text = TABLE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w -]+) \| \[\w+\]\((\S+)\) \| (.*) \| `([\w-]+)` \| ([\w-]+) \| (\d+) \| (\d+) \|$", text, re.M)
    same("rows", [row[:5] for row in rows], [(bug.tool, bug.address, bug.what, bug.word, bug.arrangement) for bug in BUGS])
    check(all(int(row[6]) > 0 and int(row[5]) <= SEEDS for row in rows), "a bug that no seed finds")
    same("words that are none", sorted({bug.word for bug in BUGS} - set(words_of_mutants())), [])
    check(len(BUGS) >= 10 and len({bug.tool for bug in BUGS}) >= 4, "ten bugs of four tools")


if __name__ == "__main__":
    for arrangement in ARRANGEMENTS:
        beside(arrangement)
    if sys.argv[1:2] in (["write"], ["first"]):
        {"write": write, "first": first_seeds}[sys.argv[1]](*sys.argv[2:])
        sys.exit(1 if failures else os.EX_OK)
    main(r92_seeds_find_public_bugs_of_such_tools_again, the_table_has_these_bugs)
