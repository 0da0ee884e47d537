# SPDX-License-Identifier: MIT
"""Instructions below one function, counted by callgrind, by object: exact, and independent of the machine's load."""
import collections
import os
import re
import shutil
import subprocess


def available():
    """Why callgrind cannot run here; None if it can."""
    if not shutil.which("valgrind"):
        return "no valgrind"
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "true"],
                          capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"callgrind does not run: {done.stderr.strip().splitlines()[-1:]}"


def _name(table, text):
    number, name = re.fullmatch(r"\((\d+)\)(?: (.*))?", text).groups()
    if name is not None:
        table[number] = name
    return table[number]


def parse(path):
    """(instructions of each (object, function) by itself, those of calls (object, function) -> (object, function))."""
    objects, functions = {}, {}
    own, calls = collections.Counter(), collections.Counter()
    here = there = ("", "")
    is_call = False
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key == "ob":
            here = there = (_name(objects, value), here[1])
        elif key == "fn":
            here = (here[0], _name(functions, value))
            there = (here[0], there[1])
        elif key == "cob":
            there = (_name(objects, value), there[1])
        elif key == "cfn":
            there = (there[0], _name(functions, value))
        elif key == "calls":
            is_call = True
        elif re.match(r"[0-9+*-]", line) and len(line.split()) > 1:
            count = int(line.split()[1])
            if is_call:
                calls[here + there] += count
                there, is_call = (here[0], ""), False
            else:
                own[here] += count
    return own, calls


def count(command, path, env=None, timeout=250):
    """Runs a command that calls instrument_from_here (instrument.h), then a function `counted`, and in it maybe one `is_warm`, where counting
    begins anew. (Its output, own, calls) as of parse."""
    path.unlink(missing_ok=True)
    env = (os.environ if env is None else env) | {"SIMCUDA_PHYSICAL": "file"} # valgrind does not know how memory is mapped a second time
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={path}", "--instr-atstart=no", "--collect-atstart=no",
                           "--toggle-collect=counted", "--zero-before=is_warm", *map(str, command)],
                          env=env, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: exit {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    own, calls = parse(path)
    if not own:
        raise RuntimeError(f"{command}: nothing was counted: was it compiled without valgrind/callgrind.h?")
    return done.stdout, own, calls


def times(path, function):
    """How often that function was called."""
    functions, callee, count = {}, "", 0
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key == "fn":
            _name(functions, value)
        elif key == "cfn":
            callee = _name(functions, value)
        elif key == "calls" and callee == function:
            count += int(value.split()[0])
    return count


def share(own, calls, library, *without):
    """What `library` cost: its own instructions and those of what it called, but for what lies in `without`."""
    total = sum(n for (ob, _), n in own.items() if library in ob)
    return total + sum(n for (ob, _, to, _), n in calls.items()
                       if library in ob and library not in to and not any(name in to for name in without))
