#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a pair of allocation and free costs while a thousand hints act on other allocations, beside the same pair without hints: at most
1.3 times its instructions, on the short path all the time, and not one call of the driver more (R55). Both allocation APIs.

--recorded (record_pair, deep in a stack that was walked before): hints by native call site, by Python call site, by size and by anchor
path, none of which matches. They are asked of each request, and where they ask for Python, from Python. Without a record (hot_pair,
KEDGE_TRACE=off) a pair takes no stack, so hints must not need one: they state sizes, exact ones and ranges, which decide first.

Hints act from trap on; what they do to requests that none of them matches is the same in live. Unoptimised builds have no limit for the
numbers. Exit 0, 1, or 77 with the reason."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
sys.dont_write_bytecode = True
import callgrind # pylint: disable=wrong-import-position
import hot # pylint: disable=wrong-import-position
import record # pylint: disable=wrong-import-position
from regresskit import LIBRARY, check, failures, run, skip # pylint: disable=wrong-import-position

HINTS = 1000
LIMIT = 1.3
OTHER = 1 << 30 # a size that nobody asks for
PICKS = {
    "native": lambda i: f'site: ["c:{i + 1:016x}"]',
    "python": lambda i: f'site: ["p:elsewhere.py:Layer{i}.forward"]',
    "sizes": lambda i: f"size: {OTHER + i}" if i % 2 else f'size: "{OTHER + i * 8}..{OTHER + i * 8 + 4}"',
    "anchors": lambda i: f'inside: "step/layer{i}"',
}
# The kinds of pick are told apart before the allocation API matters: each is looked at on one of them.
RECORDED = [("sync", "native"), ("stream", "native"), ("stream", "sizes"), ("stream", "anchors"), ("python", "python"),
            ("python", "native")]
BARE = [("sync", "1024", "sizes"), ("stream", "1024", "sizes"), ("side", "1024", "sizes"), ("stream", "mixed", "sizes")]


def acting(kind):
    """Settings with hints of this kind; none without."""
    if not kind:
        return {}
    path = pathlib.Path(f"{kind}.yaml").absolute()
    path.write_text("kedge-hints: 1\nhints:\n" + "".join(
        f"  - {{id: h{i}, do: release, pick: {{{PICKS[kind](i)}}}, when: {{anchor: step, edge: exit}}}}\n" for i in range(HINTS)),
        encoding="utf-8")
    path.chmod(0o644)
    return {"KEDGE_HINTS": path, "KEDGE_HINTS_MODE": "trap"}


def limited(what, plain, hinted):
    print(f"{what:34}{plain:10.0f}{hinted:10.0f}{hinted / plain:8.2f}")
    check(not hot.is_optimised() or hinted <= LIMIT * plain, f"{what}: {hinted:.0f} instructions, {plain:.0f} without hints")


def driver_calls(entrance, workload, kind):
    """Calls of the driver, system calls and mallocs of the loop; without valgrind, which makes some of its own."""
    env = {k: v for k, v in hot.settings(TEST_HOT_SECCOMP=1, **acting(kind)).items() if k.startswith(("KEDGE_", "LD_", "TEST_"))}
    out = run(hot.PROGRAM, entrance, 100, workload, 60, **env).stdout
    return re.search(r"mallocs.*", out)[0]


def print_head():
    print(f"{'':34}{'without':>10}{'hints':>10}{'ratio':>8}")


def bare():
    why = callgrind.available()
    for entrance, workload, kind in BARE:
        plain, hinted = (driver_calls(entrance, workload, which) for which in (None, kind))
        check(hinted == plain, f"{entrance} {workload} {kind}: {hinted}, without hints {plain}")
        check("calls cu" in plain, f"{entrance}: no call was counted: {plain}")
    if why:
        return 1 if failures else skip(why)
    print_head()
    for entrance, workload, kind in BARE:
        plain, hinted = (hot.instructions(entrance, workload, 100, **acting(which))[0] for which in (None, kind))
        limited(f"{entrance} {workload}, {kind}", plain, hinted)
    return 1 if failures else 0


def recorded():
    if why := callgrind.available():
        skip(why)
    print_head()
    plain = {}
    for entrance, kind in RECORDED:
        if entrance not in plain:
            plain[entrance] = record.cost(entrance, 1, "ring")[-1]
        limited(f"{entrance}, recorded, {kind}", plain[entrance], record.cost(entrance, 1, "ring", **acting(kind))[-1])
    return 1 if failures else 0


def main():
    if not hot.PROGRAM.exists() or not LIBRARY.exists():
        skip("not built")
    return recorded() if "--recorded" in sys.argv else bare()


if __name__ == "__main__":
    sys.exit(main())
