#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How fast a capture grows: what all events of a run take, for each pair of an allocation and its free.

A run is made twice, with all events and with none: what the file is longer by is their price, space that was set aside
included.
"""
import os
import pathlib

from regresskit import BUILD, REPLAY, check, kedge_run, main, needs, skip, tool_json

TRAINERS = BUILD / "trainers"
LIMIT = 64


def price(what, start):
    """start(capture, **environment) makes the run."""
    sizes = {}
    for trace in ("agg", "full"):
        capture = pathlib.Path(f"{what}.{trace}.kcap")
        start(capture, KEDGE_TRACE=trace)
        sizes[trace] = capture.stat().st_size
    pairs = tool_json("report", f"{what}.full.kcap")["freed_count"]
    each = (sizes["full"] - sizes["agg"]) / pairs
    print(f"{what:32}{pairs:8} pairs{each:8.1f} bytes each")
    check(pairs >= 4000, f"{what}: only {pairs} pairs")
    check(0 < each <= LIMIT, f"{what}: {each:.1f} bytes for a pair, at most {LIMIT}")


def trainer(name, *arguments):
    needs(TRAINERS / name)
    price(name, lambda capture, **env: kedge_run(TRAINERS / name, *arguments, capture=capture, **env))


def a_pair_of_a_training_loop():
    trainer("loop", "--steps", "1000")


def a_pair_of_four_threads():
    trainer("threads", "--entrance", "stream", "--rounds", "2500")


def a_pair_of_a_real_training_step():
    folder = os.environ.get("KEDGE_TEST_TRACES")
    if not folder:
        skip("KEDGE_TEST_TRACES is not set")
    paths = sorted(pathlib.Path(folder).glob("**/*-train-*.csv"))
    if not paths:
        skip(f"no trace of a training step in {folder}")
    for path in paths:
        price(path.stem, lambda capture, path=path, **env: kedge_run(
            REPLAY, path, "--api", "stream", capture=capture, **env))


if __name__ == "__main__":
    main(a_pair_of_a_training_loop, a_pair_of_four_threads, a_pair_of_a_real_training_step)
