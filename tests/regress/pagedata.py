# SPDX-License-Identifier: MIT
"""The timeline in a page's data, read without the page's scripts (tools/page/page_leaves.h, page_blocks.h, page_pack.h)."""
import base64
import itertools


def unpack(text):
    numbers, value, shift = [], 0, 0
    for byte in base64.b64decode(text, validate=True):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value)
            value, shift = 0, 0
    assert shift == 0, "the last number is cut"
    return numbers


def differences(text):
    return [-(number + 1) // 2 if number % 2 else number // 2 for number in unpack(text)]


def column(text, leaves):
    """Live bytes of a key at the moment of each leaf."""
    values, numbers, leaf = [], unpack(text), 0
    for gap, change in zip(numbers[::2], numbers[1::2]):
        leaf += gap
        last = values[-1] if values else 0
        values += [last] * (leaf - len(values))
        values.append(last + (-(change + 1) // 2 if change % 2 else change // 2))
    return values + [values[-1] if values else 0] * (leaves - len(values))


class Timeline:
    def __init__(self, line):
        leaves, blocks = line["leaves"], line["blocks"]
        self.count = leaves["count"]
        self.positions = [line["begin"] + sum_ for sum_ in itertools.accumulate(unpack(leaves["position"]))]
        self.at = [position + after for position, after in zip(self.positions, unpack(leaves["at"]))]
        self.live = list(itertools.accumulate(differences(leaves["live"])))
        self.reserved = list(itertools.accumulate(differences(leaves["reserved"])))
        self.sums = {key: unpack(leaves[key]) for key in ("allocated", "allocated_count", "freed", "freed_count")}
        self.anchors = [line["anchors"][number - 1] if number else None for number in unpack(leaves["anchor"])]
        self.groupings = {grouping["by"]: [column(text, self.count) for text in grouping["columns"]] for grouping in line["groupings"]}
        self.key_of_block = {grouping["by"]: unpack(grouping["of_block"]) for grouping in line["groupings"]}
        steps = line["steps"]
        begins, step_firsts = (list(itertools.accumulate(differences(steps[key]))) for key in ("begin", "first"))
        self.steps = [(line["begin"] + begin, line["begin"] + begin + length, first, first + more)
                      for begin, length, first, more in zip(begins, unpack(steps["length"]), step_firsts, unpack(steps["leaves"]))]
        firsts = list(itertools.accumulate(unpack(blocks["first"])))
        self.blocks = [(first, first + length, size) for first, length, size in zip(firsts, unpack(blocks["leaves"]), unpack(blocks["size"]))]

    def of_blocks(self, by):
        """Live bytes of the drawn blocks, by key (from 1, 0: none) and leaf."""
        changes = [[0] * (self.count + 1) for _ in range(len(self.groupings[by]) + 1)]
        for (first, behind, size), key in zip(self.blocks, self.key_of_block[by]):
            changes[key][first] += size
            changes[key][behind] -= size
        return [list(itertools.accumulate(row))[:-1] for row in changes]
