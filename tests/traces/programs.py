#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that allocate, by seed: `programs.py SEED OUT` writes the requests of one as `op,id,size,stream,time_us`.

The same seed gives the same bytes with each Python from 3.11 on. A program is one step of 150 to 1,500 rows that can be played as
often as one likes; nothing is live before it or after it. Rules of placement are chosen with even seeds in sight. Nobody looks at
single programs of odd seeds: they are there to be held out, and both halves are always printed.

Families: *small* has less than 64 MiB live, *wide* has requests of 0.9 GiB to 16 GiB among smaller ones, *middle* is between.

Sizes, by one law a strand:
  octaves   each octave from the least to the largest size is as likely as another
  few       two to eight sizes, each as likely as another
  odd       as octaves, and never a multiple of 512
  whole     whole slots of 2 MiB
  layers    those of a transformer: a few widths times a number of tokens, statistics, now and then logits

Structures, one to three of them one after the other or at once (each is a *strand*):
  comb      blocks side by side; every other one goes, and what comes is a bit larger, smaller, or of any size
  stash     a set of blocks leaves and comes back while others work
  caches    caches that grow: the new block comes, a bit larger, before the old one goes
  layers    forward passes allocate, backward passes free in reverse, with gradients and workspaces between
  phases    the same for training, and between it evaluation: other sizes, nothing kept
  pipeline  micro-batches under way: what came first goes first
  lifetimes blocks live as long as chance says, below a limit
Half of the programs begin with weights, which stay.

Streams, one to eight (a program of several streams is played both with known and with unknown order):
  side      most blocks on the first stream, some on others, as for communication
  stages    one stream after the other
  random    any stream
  strands   each strand has its own
Some programs free blocks on one further stream, which waits for all.
"""
import pathlib
import random
import sys
import typing

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SLOT = 2 * MIB
WIDE = GIB * 9 // 10 # a request of this size makes a program a wide one
SMALL = 64 * MIB     # live, below which a program is a small one
FEWEST, MOST = 150, 1500
# By half of the seed, so that each family and number of streams has as many even seeds as odd ones.
FAMILIES = ("middle", "wide", "middle", "small", "middle", "wide")
SEVERAL = (False, True, False, False, True)


class Made(typing.NamedTuple):
    seed: int
    family: str
    streams: int
    words: str # laws, structures and the rule for streams
    rows: list # (op, id, size, stream, time_us)

    def csv(self):
        return "op,id,size,stream,time_us\n" + "".join(f"{o},{i},{n},{s},{t}\n" for o, i, n, s, t in self.rows)


class Dice:
    """Made of random() alone: all else in Python's module may change from version to version."""
    def __init__(self, seed):
        self.random = random.Random(seed).random

    def below(self, count):
        return int(self.random() * count)

    def between(self, least, most):
        return least + self.below(most - least + 1)

    def chance(self, share):
        return self.random() < share

    def one(self, items):
        return items[self.below(len(items))]

    def shuffled(self, items):
        items = list(items)
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]
        return items

    def octaves(self, least, most):
        while True:
            octave = 1 << self.between(least.bit_length() - 1, most.bit_length() - 1)
            size = octave + self.below(octave)
            if least <= size <= most:
                return size


class Program:
    """The rows of a program while it is made."""
    def __init__(self, dice, room, streams, rule, unify):
        self.dice, self.room, self.streams, self.rule, self.unify = dice, room, streams, rule, unify
        self.rows, self.alive, self.live, self.peak, self.ids, self.now = [], {}, 0, 0, 0, 0
        self.strand, self.end, self.refused = 0, 0, 0

    def goes_on(self):
        return len(self.rows) + len(self.alive) + self.refused // 4 < self.end

    def put(self, op, block, size, stream):
        self.now += 1 + self.dice.below(20)
        self.rows.append((op, block, size, stream, self.now))

    def pick(self):
        """The stream of the next block."""
        usable = self.streams - self.unify
        if usable < 2 or (self.rule == "side" and not self.dice.chance(0.15)):
            return 0
        if self.rule == "side":
            return self.dice.between(1, usable - 1)
        if self.rule == "stages":
            return len(self.rows) * 8 // self.end % usable
        return self.dice.below(usable) if self.rule == "random" else self.strand % usable

    def take(self, size):
        """A new block, or none if there is no room for it."""
        if self.live + size > self.room or len(self.rows) + len(self.alive) + 2 > MOST:
            self.refused += 1
            return None
        block, self.ids, stream = self.ids, self.ids + 1, self.pick()
        self.alive[block] = (size, stream)
        self.live += size
        self.peak = max(self.peak, self.live)
        self.put("a", block, size, stream)
        return block

    def give(self, block):
        if block is not None:
            size, stream = self.alive.pop(block)
            self.live -= size
            self.put("f", block, size, self.streams - 1 if self.unify and self.dice.chance(0.2) else stream)

    def size(self, block):
        return self.alive[block][0]


# ---- sizes ----

def of_octaves(dice, least, most):
    return lambda: dice.octaves(least, most)


def of_few(dice, least, most):
    sizes = [dice.octaves(least, most) for _ in range(dice.between(2, 8))]
    return lambda: dice.one(sizes)


def of_odd(dice, least, most):
    return lambda: dice.octaves(least, most) // 512 * 512 + dice.between(1, 511)


def of_whole(dice, least, most):
    return lambda: max(SLOT, dice.octaves(least, most) // SLOT * SLOT)


def of_layers(dice, least, most):
    """Tokens times a width, for activations, and four bytes a token, for statistics."""
    tokens, width = 64 * dice.between(1, 64), 1 << dice.between(6, 10)
    while tokens * width * 8 > most:
        tokens, width = max(1, tokens // 2), max(32, width // 2)
    while tokens * width * 32 < most:
        tokens *= 2
    sizes = [tokens * width * n for n in (2, 2, 2, 6, 8, 4)] + [tokens * 4, tokens * 4]
    logits = min(most, tokens * dice.between(1000, 50000) * 4)
    return lambda: max(least, logits if dice.chance(0.02) else dice.one(sizes))


LAWS = {"octaves": of_octaves, "few": of_few, "odd": of_odd, "whole": of_whole, "layers": of_layers}


def with_wide(dice, inner, room):
    """Some requests of 0.9 to 16 GiB, of a few sizes or of any, among those of another law."""
    most = min(16 * GIB, room // 3)
    share = dice.one((0.02, 0.05, 0.1, 0.2, 0.4))
    sizes = [dice.octaves(WIDE, most) for _ in range(dice.between(1, 3))] if dice.chance(0.6) else None
    grain = dice.one((1, 512, MIB, SLOT))
    return lambda: inner() if not dice.chance(share) else max(
        WIDE, (dice.one(sizes) if sizes else dice.octaves(WIDE, most)) // grain * grain)


# ---- structures: each yields where another strand may go on ----

def comb(p, size):
    stay = []
    while p.goes_on():
        same = size() if p.dice.chance(0.5) else 0
        teeth = []
        for _ in range(p.dice.between(6, 30)):
            teeth.append(p.take(same or size()))
            yield
        for block in p.dice.shuffled(teeth[::2]) if p.dice.chance(0.5) else teeth[::2]:
            p.give(block)
            yield
        stay += teeth[1::2]
        for _ in range(p.dice.between(2, 12)):
            other = size() if not same else same * p.dice.one((2, 3, 5, 6, 9)) // 4
            stay.append(p.take(max(KIB, other)))
            yield
        stay = p.dice.shuffled(stay)
        cut = p.dice.below(len(stay) + 1) if p.dice.chance(0.6) else len(stay)
        for block in stay[:cut]:
            p.give(block)
            yield
        stay = stay[cut:]
    for block in stay:
        p.give(block)
        yield


def stash(p, size):
    sizes = [size() for _ in range(p.dice.between(6, 25))]
    held = []
    while p.goes_on():
        for number in sizes:
            held.append(p.take(number))
            yield
        yield from at_work(p, size, p.dice.between(4, 20))
        for block in held if p.dice.chance(0.5) else held[::-1]:
            p.give(block)
            yield
        held = []
        yield from at_work(p, size, p.dice.between(4, 20))


def at_work(p, size, count):
    """Blocks of which four at most live at once."""
    window = []
    for _ in range(count):
        window.append(p.take(size()))
        yield
        if len(window) > p.dice.below(4):
            p.give(window.pop(0))
            yield
    for block in window:
        p.give(block)
        yield


def caches(p, size):
    while p.goes_on():
        held = [p.take(size()) for _ in range(p.dice.between(2, 16))]
        held = [block for block in held if block is not None]
        step = p.dice.one((0, 0, 64 * KIB, SLOT))
        for _ in range(p.dice.between(2, 8)):
            for place, old in enumerate(held):
                grown = p.size(old) + (step or p.size(old) // p.dice.between(4, 20) + 1)
                new = p.take(grown)
                yield
                if new is not None:
                    p.give(old)
                    held[place] = new
                if p.dice.chance(0.3):
                    yield from at_work(p, size, 2)
        for block in p.dice.shuffled(held):
            p.give(block)
            yield


def layers(p, size):
    shape = [[size() for _ in range(p.dice.between(1, 6))] for _ in range(p.dice.between(3, 14))]
    while p.goes_on():
        yield from trained(p, shape)


def trained(p, shape):
    kept = []
    for sizes in shape:
        workspace = p.take(max(KIB, max(sizes) // 2))
        yield
        kept.append([p.take(number) for number in sizes])
        yield
        p.give(workspace)
        yield
    gradients = []
    for sizes, blocks in zip(shape[::-1], kept[::-1]):
        gradients.append(p.take(max(KIB, sizes[0] // 2)))
        flowing = p.take(sizes[-1])
        yield
        for block in blocks[::-1]:
            p.give(block)
        p.give(flowing)
        yield
    for block in gradients:
        p.give(block)
        yield


def phases(p, size):
    shape = [[size() for _ in range(p.dice.between(1, 5))] for _ in range(p.dice.between(3, 10))]
    part = p.dice.one((5, 6, 11, 14))
    other = [max(KIB, number * part // 8) for sizes in shape for number in sizes]
    while p.goes_on():
        for _ in range(p.dice.between(1, 3)):
            yield from trained(p, shape)
        result = []
        for _ in range(p.dice.between(1, 3)):
            window = []
            for number in other:
                window.append(p.take(number))
                yield
                if len(window) > 2:
                    p.give(window.pop(0))
            result.append(p.take(min(other)))
            for block in window:
                p.give(block)
                yield
        for block in result:
            p.give(block)
            yield


def pipeline(p, size):
    shape = [size() for _ in range(p.dice.between(1, 8))]
    depth, varied = p.dice.between(2, 16), p.dice.chance(0.4)
    queue = []
    while p.goes_on():
        queue.append([p.take(size() if varied else number) for number in shape])
        yield
        if len(queue) > depth:
            for block in queue.pop(0):
                p.give(block)
            yield
    for block in (block for blocks in queue for block in blocks):
        p.give(block)
        yield


def lifetimes(p, size):
    most, held = p.room * p.dice.between(2, 8) // 8, []
    while p.goes_on():
        number = size()
        while held and (p.live + number > most or len(held) > 400):
            p.give(held.pop(p.dice.below(len(held))))
        held.append(p.take(number))
        yield
        if p.dice.chance(0.45):
            p.give(held.pop(p.dice.below(len(held))))
            yield
    for block in p.dice.shuffled(held):
        p.give(block)
        yield


STRUCTURES = {"comb": comb, "stash": stash, "caches": caches, "layers": layers, "phases": phases, "pipeline": pipeline,
              "lifetimes": lifetimes}


# ---- programs ----

def sizes_of(dice, family, room):
    """(name of the law, the law) for a strand."""
    name = dice.one(tuple(LAWS))
    if family == "small":
        least, most = KIB, max(16 * KIB, room // dice.one((4, 8, 16, 64)))
    else:
        most = min(WIDE - MIB, room // dice.one((6, 12, 24, 80)))
        least = dice.one((KIB, max(KIB, most // 1024), most // 32, most // 4))
    law = LAWS[name](dice, least, most)
    return (name, law) if family != "wide" else (f"{name}+wide", with_wide(dice, law, room))


def at_once(p, strands):
    running = list(enumerate(strands))
    while running:
        at = p.dice.below(len(running))
        p.strand = running[at][0]
        for _ in range(p.dice.between(1, 6)):
            if next(running[at][1], p) is p:
                running.pop(at)
                break


def play(p, dice, family, end):
    """Strands up to a number of rows; their words."""
    count, together = dice.one((1, 1, 2, 2, 3)), dice.chance(0.5)
    words, strands, begin = [], [], len(p.rows)
    for number in range(count):
        name, law = sizes_of(dice, family, p.room)
        structure = dice.one(tuple(STRUCTURES))
        words.append(f"{structure}({name})")
        strands.append(STRUCTURES[structure](p, law))
    p.refused = 0
    if together:
        p.end = end
        at_once(p, strands)
    else:
        for number, strand in enumerate(strands):
            p.strand, p.refused, p.end = number, 0, begin + (end - begin) * (number + 1) // count
            for _ in strand:
                pass
    return (" & " if together else ", ").join(words)


def weights(p, dice, family):
    _, law = sizes_of(dice, family, p.room)
    blocks, part = [], p.room * dice.between(1, 5) // 10
    for _ in range(dice.between(5, 60)):
        size = law()
        if p.live + size <= part:
            blocks.append(p.take(size))
    return blocks


def room_of(dice, family):
    if family == "small":
        return dice.between(6 * MIB, SMALL - 4 * MIB)
    return dice.octaves(128 * MIB, 32 * GIB) if family == "middle" else dice.octaves(6 * GIB, 120 * GIB)


def kind(seed):
    """The family of a seed, and whether it has several streams."""
    return FAMILIES[seed // 2 % len(FAMILIES)], SEVERAL[seed // 2 % len(SEVERAL)]


def attempt(seed, turn):
    dice = Dice(seed * 64 + turn)
    family, several = kind(seed)
    streams = dice.one((2, 2, 3, 3, 4, 5, 6, 8)) if several else 1
    rule = dice.one(("side", "stages", "random", "strands")) if several else "alone"
    p = Program(dice, room_of(dice, family), streams, rule, int(streams > 2 and dice.chance(0.3)))
    p.end = dice.octaves(FEWEST + 50, MOST - 100)
    end, stay = p.end, weights(p, dice, family) if dice.chance(0.5) else []
    words = ["weights"] if stay else []
    while len(p.rows) < end * 3 // 4 and len(words) < 6:
        words.append(play(p, dice, family, end - len(stay)))
    for block in stay if dice.chance(0.5) else stay[::-1]:
        p.give(block)
    used = len({row[3] for row in p.rows})
    return p, Made(seed, family, used, "; ".join([*words, rule]), p.rows)


def fits(p, made):
    """Whether it is what its seed asks for."""
    largest = max((size for _, _, size, _, _ in made.rows), default=0)
    family = "wide" if largest >= WIDE else "small" if p.peak < SMALL else "middle"
    return (family, made.streams > 1) == kind(made.seed) and FEWEST <= len(made.rows) <= MOST


def make(seed):
    """The program of a seed."""
    for turn in range(64):
        p, made = attempt(seed, turn)
        if fits(p, made):
            assert not p.alive and p.live == 0
            return made
    raise ValueError(f"no program of seed {seed}")


def main():
    if len(sys.argv) != 3 or not sys.argv[1].isdecimal():
        sys.exit("usage: programs.py SEED OUT")
    made = make(int(sys.argv[1]))
    pathlib.Path(sys.argv[2]).write_text(made.csv(), encoding="utf-8")
    print(f"seed {made.seed}: {made.family}, {made.streams} streams, {len(made.rows)} rows: {made.words}")


if __name__ == "__main__":
    main()
