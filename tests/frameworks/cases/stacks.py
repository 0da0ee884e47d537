# SPDX-License-Identifier: MIT
"""The stack of each allocation in a capture against a witness's of the same allocation.

The witness is the simulated device (tests/sim/driver/sim_stacks.h): native frames by glibc's backtrace(), Python frames by the
interpreter's own interface. The simulated runtime calls it above kedge, once for each allocation that a program gets; a
program that calls the driver itself has nobody above kedge, and is compared where kedge hands each request to the driver
(KEDGE_MODE=track). Two lines are of one allocation if they are the n-th of one address in one process: nobody gets an address
before its last tenant has given it back.

Right is a native stack whose frames (module, offset) are the witness's from the innermost out, without those of CUDA, kedge,
libc and the loader, and that ends where the witness's ends or where tracker/DESIGN.md says that it may: at the interpreter's
loop, where the thread has Python frames to go on with, or at the depth. Right is a Python stack whose frames (function, file,
line) are the witness's. Where the thread has none, kedge may show another thread's, and must say so.
"""
import collections
import os
import re
import subprocess

DEPTH = 48  # frames that are looked at (KEDGE_STACKS depth=), kedge's own among them
OWN = 4  # kedge's own frames in a walk, at most
SITE = 16  # frames after which a walk may end at the interpreter's loop
PYTHON_DEPTH = 128
# What no stack shows, by the file's name.
STRIPPED = re.compile(r"libcuda\.so|libcudart[.-]|libkedge|libc\.so\.6$|ld-linux|linux-vdso|libpthread|libdl\.so")
TOLD = 3  # of what is wrong, how many in words

Line = collections.namedtuple("Line", "who tid address size native python")


def parse(text):
    """A line of the witness or of stacks_of."""
    words = text.split("\t")
    count = int(words[4])
    native, rest = words[5 : 5 + count], words[6 + count :]
    if len(rest) != 3 * int(words[5 + count]):
        raise ValueError(f"{len(rest)} words for {words[5 + count]} Python frames")
    return Line(words[0], int(words[1]), int(words[2], 16), int(words[3]), native,
                [(rest[i], rest[i + 1], int(rest[i + 2])) for i in range(0, len(rest), 3)])


def witnessed(path):
    """{address: its allocations in their order} of a process."""
    lines = collections.defaultdict(list)
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        line = parse(text)
        lines[line.address].append(line)
    # Below kedge, its own segments are among the driver's calls: what the runtime said of an address is all of it.
    return {address: [x for x in found if x.who == "program"] or found for address, found in lines.items()}


def captured(reader, capture):
    """(pid, allocations in their order) of a capture."""
    done = subprocess.run([str(reader), str(capture)], capture_output=True, text=True, errors="replace", check=True)
    pid, *lines = done.stdout.splitlines()
    return int(pid.removeprefix("pid ")), [parse(x) for x in lines]


def is_stripped(frame):
    return STRIPPED.match(os.path.basename(frame.rpartition("+")[0])) is not None


def outside(frames):
    """The frames above the library under test: what a walk of its own sees behind its own frames."""
    first = 0
    while first < len(frames) and re.match(r"libcuda\.so|libkedge", os.path.basename(frames[first].rpartition("+")[0])):
        first += 1
    return frames[first:]


def native_fault(ours, theirs, has_python):
    """What is wrong with a native stack, None if nothing. `theirs`: all frames of the witness, with its marks."""
    seen = [(at, x) for at, x in enumerate(outside(theirs), 1) if not is_stripped(x)]
    for n, (frame, (_, wanted)) in enumerate(zip(ours, seen)):
        if frame != wanted.rstrip("*"):
            return f"native frame {n} is {frame}, the witness has {wanted}"
    if len(ours) > len(seen):
        return f"{len(ours)} native frames, the witness has {len(seen)}"
    # where a walk of kedge had to end: the first loop behind the frames of a site
    loops = [at for at, x in seen[: len(ours)] if x.endswith("*") and has_python]
    if any(at > SITE for at in loops[:-1]) or (loops and loops[-1] > SITE and loops[-1] != seen[len(ours) - 1][0]):
        return f"{len(ours)} native frames go on behind the interpreter's loop"
    if len(ours) == len(seen):
        return None
    last = seen[len(ours) - 1][0] if ours else 0
    if loops and loops[-1] == last and last > SITE - OWN:
        return None
    if DEPTH - OWN <= last <= DEPTH:
        return None
    return f"ends after {len(ours)} native frames of {len(seen)}, at {ours[-1] if ours else 'none'}"


def python_fault(ours, whose, theirs):
    if whose == "ambient" or not ours:
        return f"no Python frames of its own, the witness has {len(theirs)}" if theirs else None
    wanted = theirs[:PYTHON_DEPTH]
    for n, (frame, other) in enumerate(zip(ours, wanted)):
        if frame != other:
            return f"Python frame {n} is {frame}, the witness has {other}"
    return None if len(ours) == len(wanted) else f"{len(ours)} Python frames, the witness has {len(wanted)}"


def compare(allocations, lines):
    """A process's. {compared, native, python: of these right; own: with Python frames of their own; wrong: sentences}
    Addresses of graphs' memory are left out: each launch allocates there, and nobody asks for it.
    """
    graphs = {x.address for x in allocations if x.who == "graph"}
    allocations = [x for x in allocations if x.address not in graphs]
    lines = {address: found for address, found in lines.items() if address not in graphs}
    told = {"compared": 0, "native": 0, "python": 0, "own": 0, "wrong": []}
    turn = collections.Counter()
    for n, ours in enumerate(allocations, 1):
        found = lines.get(ours.address, [])
        at = turn[ours.address]
        turn[ours.address] += 1
        name = f"allocation {n} (0x{ours.address:x}, {ours.size} bytes)"
        if at >= len(found):
            told["wrong"].append(f"{name}: the witness has none")
            continue
        theirs = found[at]
        if (theirs.tid, theirs.size) != (ours.tid, ours.size):
            told["wrong"].append(f"{name} of thread {ours.tid}: the witness has {theirs.size} bytes of thread {theirs.tid}")
            continue
        native = native_fault(ours.native, theirs.native, ours.who == "own" and bool(ours.python))
        python = python_fault(ours.python, ours.who, theirs.python)
        told["compared"] += 1
        told["own"] += bool(theirs.python)
        told["native"] += native is None
        told["python"] += python is None
        told["wrong"] += [f"{name}: {x}" for x in (native, python) if x]
    for address, found in lines.items():
        if found[0].who == "program" and len(found) > turn[address]:
            told["wrong"].append(f"0x{address:x}: {len(found)} allocations by the witness, {turn[address]} in the capture")
    return told


def check(reader, captures, log):
    """All processes of a run: captures, and the witness's files, which begin with `log`."""
    told = {"compared": 0, "native": 0, "python": 0, "own": 0, "wrong": []}
    files = {int(path.name.rpartition(".")[2]): path for path in log.parent.glob(log.name + ".*")}
    for capture in captures:
        pid, allocations = captured(reader, capture)
        lines = witnessed(files.pop(pid)) if pid in files else {}
        for key, value in compare(allocations, lines).items():
            told[key] += value
    for pid, path in files.items():
        if any(found[0].who == "program" for found in witnessed(path).values()):
            told["wrong"].append(f"process {pid} has no capture")
    if len(told["wrong"]) > TOLD:
        told["wrong"][TOLD:] = [f"and {len(told['wrong']) - TOLD} more"]
    return told
