# SPDX-License-Identifier: MIT
"""What the programs of this folder share: their command line, and a line with PyTorch's own figure after each round.

    PROGRAM.py NAME [--leak]      NAME: a function of the program
"""
import argparse
import random

import numpy
import torch


def main(programs):
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(programs))
    parser.add_argument("--leak", action="store_true")
    args = parser.parse_args()
    for seed in (random.seed, numpy.random.seed, torch.manual_seed):
        seed(0)
    programs[args.name](args.leak)


def say(kind, number):
    print(kind, number, torch.cuda.memory_allocated(), flush=True)
