#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: export_module.c held.c heldwalk.c capheld.c captotal.c
"""The module `kedge` (tools/python) in programs, under every CPython 3.10 to 3.15 that is found.

    pymodule.py CASE

heldlike.py stands in for PyTorch; tests/frameworks asks the real one.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

from pyanchors import each
from pystacks import PARTS, check, failures, fresh, run, same, tool_json
from regresskit import KEDGE, environment

MODULE = pathlib.Path(os.environ["TEST_SOURCE"], "tools/python")
MIB = 1 << 20
BEGIN = "import json, kedge, likememory as m\ntold = {}\n"
END = "\njson.dump(told, open('told.json', 'w'))\n"


def program(python, text, *before, **changes):
    """What the program has told, run by the commands that stand before it."""
    fresh("told.json", "run.kcap")
    pathlib.Path("program.py").write_text(BEGIN + text + END, encoding="utf-8")
    run(*before, python, "program.py", PYTHONPATH=f"{MODULE}:{PARTS / 'held'}", **changes)
    return json.loads(pathlib.Path("told.json").read_text(encoding="utf-8"))


UNDER = (KEDGE, "run", "--sim", "--capture", "run.kcap", "--")


@each
def without_the_library_all_of_it_does_nothing(python):
    text = """
with kedge.anchor("part") as a, kedge.measure() as used:
    kedge.mark("moment")
@kedge.anchor("again")
def answer(n): return n + 1
told["answer"] = answer(41)
told["all"] = [kedge.active(), kedge.live(), kedge.peak(), kedge.held(answer), kedge.snapshot("not.kcap"), used.before, used.after,
               used.peak, used.growth]
"""
    for before, changes in (((), {}), (UNDER, {"KEDGE_MODE": "off"})):
        told = program(python, text, *before, **changes)
        same("answers", told, {"answer": 42, "all": [False] + [None] * 8})
        check(not pathlib.Path("not.kcap").exists(), "a snapshot of nothing was written")
    # With the library, before there is memory.
    same("answers", program(python, text, *UNDER)["all"], [True, None, None, None, None, 0, 0, 0, 0])


@each
def figures_are_those_of_the_driver(python):
    told = program(python, """
import threading
kept = [m.empty(3 << 20)]
told["begin"] = [kedge.live(), kedge.peak(), kedge.active()]
with kedge.measure() as outer:
    a = m.empty(8 << 20); m.free(a)
    told["inside"] = [outer.peak, outer.growth]
    with kedge.measure() as inner:
        b = m.empty(5 << 20)
        c = m.empty(1 << 20); m.free(c)
    told["inner"] = [inner.before, inner.peak, inner.growth, inner.after]
    m.free(b)
    def other():
        with kedge.measure() as one:
            d = m.empty(16 << 20); m.free(d)
        told["other"] = [one.peak, one.growth]
    thread = threading.Thread(target=other); thread.start(); thread.join()
    kept.append(m.empty(2 << 20))
told["outer"] = [outer.before, outer.peak, outer.growth, outer.after]
with kedge.measure() as none: pass
told["none"] = [none.peak, none.growth]
told["end"] = [kedge.live(), kedge.peak()]
""", *UNDER)
    same("begin", told["begin"], [3 * MIB, 3 * MIB, True])
    same("inside", told["inside"], [8 * MIB, 0])
    same("inner", told["inner"], [3 * MIB, 6 * MIB, 5 * MIB, 8 * MIB])
    same("of a thread", told["other"], [16 * MIB, 0])
    same("outer", told["outer"], [3 * MIB, 16 * MIB, 2 * MIB, 5 * MIB])
    same("of nothing", told["none"], [0, 0])
    same("end", told["end"], [5 * MIB, 19 * MIB])
    same("the report's peak", tool_json("report", "run.kcap")["max_bytes"], 19 * MIB)


@each
def anchors_are_in_the_capture(python):
    program(python, r"""
@kedge.anchor("deco")
def f(): m.empty(1 << 20)
with kedge.anchor("epoch"):
    m.empty(1 << 20)
    for name in ("validation", "a \0 b", 7):
        with kedge.anchor(name):
            m.empty(1 << 20)
    try:
        with kedge.anchor("fails"):
            m.empty(1 << 20)
            raise ValueError
    except ValueError:
        pass
    kedge.mark("said")
    m.empty(1 << 20)
f()
f()
""", *UNDER)
    same("anchors", [a["name"] for a in tool_json("report", "run.kcap")["anchors"]],
         ["epoch", "epoch/validation", "epoch/a   b", "epoch/7", "epoch/fails", "epoch/said", "deco", "deco"])


@each
def a_tensor_tells_who_holds_it(python):
    told = program(python, """
import torch
class Box: pass
box = Box()
box.items = [torch.Tensor(1 << 20)]
def inside():
    mine = box.items[0]
    return list(kedge.held(mine)), kedge.held(mine).kind
told["held"], told["kind"] = inside()
told["alone"] = kedge.held(torch.Tensor(1 << 20))
told["others"] = [kedge.held(3), kedge.held(box), kedge.held(None)]
told["text"] = repr(kedge.held(box.items[0]))
with kedge.measure() as used:
    for _ in range(5):
        kedge.held(box.items[0])
told["growth"] = used.growth
many = [torch.Tensor(2 << 20) for _ in range(450)]  # larger than it, and more than a report looks for
told["small"] = list(kedge.held(box.items[0]))
""", *UNDER, KEDGE_HELD="oom,seconds=600")
    for paths in told["held"], told["small"]:  # CPython 3.10 keeps arguments on the caller's stack
        if "3.10" in run(python, "-V").stdout:
            paths.remove("1 reference of a running call or of C code")
    same("held", sorted(told["held"]), ["box.items[0]", "local 'mine' of inside program.py:10"])
    same("kind", told["kind"], "tensor")
    same("among many", told["small"], ["box.items[0]"])
    same("others", told["others"], [None] * 3)
    check(told["alone"] is None or "3.10" in run(python, "-V").stdout, f"what nothing else refers to: {told['alone']}")
    check(told["text"].startswith("tensor\n  box.items[0]"), told["text"])
    same("what a walk leaves", told["growth"], 0)
    told = program(python, "import torch\nx = torch.Tensor(1 << 20)\ntold['held'] = kedge.held(x)", *UNDER, KEDGE_HELD="none")
    same("where nobody wants it", told["held"], None)


@each
def a_snapshot_is_a_capture_and_shows_itself(python):
    fresh("now.kcap")
    told = program(python, """
import os
a = m.empty(4 << 20)
os.makedirs("folder", exist_ok=True)
now = kedge.snapshot("folder/now.kcap")
m.free(a)
m.empty(9 << 20)
told["path"], told["file"], told["text"] = now.path, os.fspath(now), repr(now)
told["report"] = now.report("--json")
told["page"] = now._repr_html_()
told["left"] = sorted(os.listdir("folder"))
try:
    kedge.snapshot("missing/now.kcap")
except OSError as error:
    told["error"] = type(error).__name__
""", *UNDER)
    same("names", [told["path"], told["file"], told["text"], told["left"]],
         ["folder/now.kcap"] * 2 + ["<kedge.Snapshot folder/now.kcap>", ["now.kcap"]])
    report = json.loads(told["report"])
    same("what it has", [report["max_bytes"], report["remaining_bytes"], report["complete"]], [4 * MIB, 4 * MIB, True])
    same("read by a command", tool_json("report", "folder/now.kcap")["max_bytes"], 4 * MIB)
    same("the capture itself", tool_json("report", "run.kcap")["max_bytes"], 9 * MIB)
    check(re.match(r'<iframe srcdoc="&lt;!DOCTYPE html&gt;', told["page"]) and told["page"].endswith("</iframe>"), told["page"][:200])
    same("the folder's error", told["error"], "FileNotFoundError")


@each
def a_child_of_a_fork_has_none(python):
    told = program(python, """
import os
a = m.empty(1 << 20)
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, repr((kedge.active(), kedge.live(), kedge.peak(), kedge.snapshot("child.kcap"))).encode())
    os._exit(0)
os.wait()
told["child"] = os.read(read, 1000).decode()
""", *UNDER)
    same("in the child", told["child"], "(False, None, None, None)")


def bounds_of_tests_hold_or_fail():
    """The plugin of pytest, in an interpreter that has it."""
    python = next((p for p in (sys.executable, "/usr/bin/python3")
                   if subprocess.run([p, "-c", "import pytest"], capture_output=True, check=False).returncode == 0), None)
    if python is None:
        print("SKIP: no Python with pytest here")
        sys.exit(77)
    pathlib.Path("test_it.py").write_text("""
import gc, pytest, likememory as m
kept, once = [], []
mark = pytest.mark.device_memory
@pytest.fixture
def held():
    a = m.empty(8 << 20)
    yield a
    m.free(a)
def use(size): m.free(m.empty(size))
@mark(peak="2MiB", growth=0)
def test_fits(held): use(2 << 20)
@mark(peak="2MiB")
def test_peak(held): use((2 << 20) + 512)
@mark(growth=0)
def test_growth(): kept.append(m.empty(1 << 20))
@mark(growth="1 MiB")
def test_growth_allowed(): kept.append(m.empty(1 << 20))
@mark(growth=0, repeat=3)
def test_made_once(held):
    if not once: once.append(m.empty(1 << 20))
@mark(growth="1MiB", repeat=3)
def test_grows_each_time(): kept.append(m.empty(1 << 20))
@mark(peak=1, growth=0)
def test_raises(): use(1 << 20); raise ValueError("its own")
@pytest.mark.parametrize("size", (1, 3))
@mark(peak=2 << 20)
def test_sizes(size): use(size << 20)
@mark(peak="two")
def test_odd(): pass
@mark(2)
def test_positional(): pass
def test_plain(): kept.append(m.empty(32 << 20))
""", encoding="utf-8")

    def tests(*before, options=(), rc=1):
        fresh("told.xml", "run.kcap")
        done = run(*before, python, "-m", "pytest", "-p", "kedge.pytest_plugin", "-p", "no:cacheprovider", "-rA", "--junit-xml=told.xml",
                   *options, "test_it.py", PYTHONPATH=f"{MODULE}:{PARTS / 'held'}", rc=rc)
        return {name: word for word, name in re.findall(r"^(PASSED|FAILED|ERROR) test_it.py::(\S+)", done.stdout, re.M)}, done.stdout

    words, output = tests(*UNDER)
    passed = ["test_fits", "test_growth_allowed", "test_made_once", "test_sizes[1]", "test_plain"]
    failed = ["test_peak", "test_growth", "test_grows_each_time", "test_raises", "test_sizes[3]"]
    same("by name", words, {**dict.fromkeys(passed, "PASSED"), **dict.fromkeys(failed, "FAILED"), "test_odd": "ERROR", "test_positional": "ERROR"})
    for line in ("device memory of test_peak: its peak is 2.00 MiB above the 8.00 MiB at its start, at most 2.00 MiB were wanted",
                 "device memory of test_growth: it leaves 1.00 MiB, at most 0.00 B were wanted",
                 "device memory of test_grows_each_time: of 3 times all but the first leave 2.00 MiB, at most 1.00 MiB were wanted",
                 "ValueError: its own", "'two' is no size, as 512MiB is", "device_memory takes peak=, growth= and repeat=, not 2"):
        check(line in output, f"not said: {line}\n{output[-6000:]}")
    told = pathlib.Path("told.xml").read_text(encoding="utf-8")
    check('<property name="device_memory_peak" value="2097152" />' in told, "the peak is no property of a test")
    check("test test_fits" in {a["name"] for a in tool_json("report", "run.kcap")["anchors"]}, "a test is no anchor")
    words, output = tests(options=("-k", "fits or plain or growth"))
    same("without kedge", ["3 skipped" in output, "kedge is not in this process" in output], [True, True])  # test_plain has no driver
    words, output = tests(options=("-k", "fits", "--device-memory=fail"))
    same("as a failure", [words, "kedge is not in this process: kedge run [--sim] -- pytest" in output], [{"test_fits": "ERROR"}, True])


CASES = (without_the_library_all_of_it_does_nothing, figures_are_those_of_the_driver, anchors_are_in_the_capture,
         a_tensor_tells_who_holds_it, a_snapshot_is_a_capture_and_shows_itself, a_child_of_a_fork_has_none, bounds_of_tests_hold_or_fail)

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[1]]()
    sys.exit(bool(failures))
