#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: export_python.c
"""Python stacks, end to end: unmodified programs under kedge on the simulated device, against what traceback says.

    pystacks.py CASE

Each case runs under every CPython 3.10 to 3.15 that is found in PATH and beside it, the system's first.
"""
import glob
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
from regresskit import BUILD, LIBRARY, SIM, SOURCE, check, environment, fail, failures, run, same, skip, tool, tool_json  # noqa: E402

HERE = SOURCE / "tests" / "python"
PARTS = BUILD / "tests" / "python"
DEPTH = 128  # PYFRAME_DEPTH_MAX
MINORS = range(10, 16)
REFUSED = "its version is not one of CPython 3.10 to 3.15"
WHO = "import sys; print(sys.version_info[1], getattr(sys, '_is_gil_enabled', lambda: True)(), sys.executable, sep='\\n')"


def interpreters(minors=MINORS):
    """(minor, path) of each interpreter of these versions that can be run, the system's first."""
    names = ["/usr/bin/python3"]
    for minor in minors:
        for folder in os.environ.get("PATH", "").split(":"):
            names.append(f"{folder}/python3.{minor}")
        names += sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/3.{minor}.*/bin/python3.{minor}")))
    found = {}
    for name in names:
        if not os.access(name, os.X_OK):
            continue
        done = subprocess.run([name, "-c", WHO], capture_output=True, text=True, check=False)
        lines = done.stdout.split("\n")
        if done.returncode or int(lines[0]) not in minors or lines[1] != "True":
            continue
        found.setdefault(os.path.realpath(lines[2]), int(lines[0]))
    if not found:
        skip(f"no CPython 3.{minors[0]} to 3.{minors[-1]} in PATH")
    return [(minor, path) for path, minor in found.items()]


def settings(capture, **changes):
    return {"LD_PRELOAD": LIBRARY, "LD_LIBRARY_PATH": SIM, "SIMCUDA_MEMORY": "64G", "KEDGE_TRACE": "full",
            "KEDGE_CAPTURE": capture, "KEDGE_LOG": "info", **changes}


def fresh(*names):
    for name in names:
        pathlib.Path(name).unlink(missing_ok=True)


def program(python, case, **changes):
    """What the program noted, and its output."""
    fresh("told.json", "run.kcap")
    done = run(python, HERE / "program.py", case, "told.json", PARTS / "libpyworker.so",
               **settings(pathlib.Path("run.kcap").resolve(), **changes))
    return {int(size): where for size, where in json.loads(pathlib.Path("told.json").read_text()).items()}, done.stdout


def dump(capture):
    """{size: (ambient, native frames, [(function, file, line), ...])}"""
    done = subprocess.run([str(PARTS / "pydump"), str(capture)], env=environment(), capture_output=True, check=False)
    if done.returncode:
        fail(f"pydump {capture}: exit {done.returncode}")
        sys.exit(1)
    blocks = {}
    for line in done.stdout.decode("latin-1").split("\n")[:-1]:
        head, *words = line.split("\t")
        size, ambient, native = map(int, head.split())
        frames = [(words[i].encode("latin-1").decode(), words[i + 1], int(words[i + 2])) for i in range(0, len(words), 3)]
        blocks[size] = (bool(ambient), native, frames)
    return blocks


def name_of(function):
    """co_name of a qualified name."""
    return function.rsplit(".", 1)[-1]


def churn(python, count, seed=1):
    fresh("told.json", "run.kcap")
    run(python, HERE / "churn.py", count, "told.json", seed, **settings(pathlib.Path("run.kcap").resolve()))
    told = {int(size): [tuple(row) for row in rows] for size, rows in json.loads(pathlib.Path("told.json").read_text()).items()}
    blocks = dump("run.kcap")
    wrong = 0
    for size, want in told.items():
        ambient, native, frames = blocks.get(size, (False, 0, []))
        got = [(file, name_of(function), line) for function, file, line in frames]
        if got != want[:DEPTH] or ambient or not native:
            wrong += 1
            if wrong <= 3:
                at = next((i for i, (ours, theirs) in enumerate(zip(got, want)) if ours != theirs), min(len(got), len(want)))
                fail(f"{python}: size {size}: {'ambient, ' if ambient else ''}{native} native frames, same up to {at}\n"
                     f"  kedge, {len(got)}:     {got[at:at + 4]}\n  traceback, {len(want)}: {want[at:at + 4]}")
    print(f"{python}: {len(told)} allocations, {wrong} mismatches")
    check(len(told) >= count, f"{python}: {len(told)} allocations, {count} were asked for")
    same(f"{python}: mismatches", wrong, 0)


def places(case, least):
    """Each allocation of places.py against what the frames themselves said."""
    for _, python in interpreters():
        fresh("told.json", "run.kcap")
        run(python, HERE / "places.py", case, "told.json", PARTS / "libpyworker.so", **settings(pathlib.Path("run.kcap").resolve()))
        told = {int(size): [tuple(row) for row in rows] for size, rows in json.loads(pathlib.Path("told.json").read_text()).items()}
        blocks = dump("run.kcap")
        wrong = 0
        for size, want in told.items():
            ambient, _, frames = blocks.get(size, (False, 0, []))
            got = [(file, function, line) for function, file, line in frames]
            if got != want[:DEPTH] or ambient:
                wrong += 1
                if wrong <= 2:
                    fail(f"{python}: size {size}:\n  kedge  {got[:6]}\n  frames {want[:6]}")
        print(f"{python}: {len(told)} allocations, {wrong} mismatches")
        check(len(told) >= least, f"{python}: {len(told)} allocations, at least {least} were expected")
        same(f"{python}: mismatches", wrong, 0)


def functions_that_look_alike_are_told_apart():
    places("lookalikes", 2700)


def frames_that_begin_and_end_are_as_the_interpreter_has_them():
    places("moments", 400)


def threads_of_c_that_call_python_have_its_frames():
    places("threads", 130)


def lines_equal_what_traceback_prints():
    churn(interpreters()[0][1], 5000)


def other_versions_too():
    rest = interpreters()[1:]
    if not rest:
        skip("one interpreter is all there is")
    for _, python in rest:
        churn(python, 700)


def all_versions_at_length():
    for seed, (_, python) in enumerate(interpreters()):
        churn(python, 20000, seed + 2)


def expect_told(python, told, blocks):
    for size, where in told.items():
        ambient, _, frames = blocks.get(size, (False, 0, []))
        if where is None:
            check(not frames, f"{python}: size {size} has a stack: {frames[:3]}")
            continue
        function, line = where
        own = [frame for frame in frames if name_of(frame[0]) != "alloc"]
        same(f"{python}: size {size}: ambient", ambient, function.startswith("ambient "))
        if not check(own, f"{python}: size {size} has no Python stack"):
            continue
        same(f"{python}: size {size}: function", name_of(own[0][0]), function.split()[-1])
        if line:
            same(f"{python}: size {size}: line", own[0][2], line)


def threads_without_frames_carry_the_ambient_stack():
    for _, python in interpreters():
        for case in ("steps", "beside"):
            told, _ = program(python, case)
            check(len(told) == 30, f"{python}: {len(told)} allocations")
            expect_told(python, told, dump("run.kcap"))


def forks_do_no_harm():
    for _, python in interpreters():
        told, _ = program(python, "forks")
        expect_told(python, told, dump("run.kcap"))


def sub_interpreters_do_no_harm():
    for _, python in interpreters():
        told, _ = program(python, "sub_interpreters")
        expect_told(python, told, dump("run.kcap"))


def an_interpreter_that_ends_does_no_harm():
    for _, python in interpreters():
        told, _ = program(python, "ends")
        check(70000 in told, "the request after the end was noted")
        blocks = dump("run.kcap")
        check(70000 in blocks, f"{python}: the request after the end is in the capture")
        expect_told(python, told, blocks)


SHARED = """if True:
    import os, sys, sysconfig
    name = sysconfig.get_config_var("INSTSONAME") or ""
    print(os.path.join(sysconfig.get_config_var("LIBDIR"), name) if ".so" in name else "", sys.base_prefix, sep="\\n")
"""


def an_embedded_interpreter_comes_late_and_goes():
    count = 0
    for _, python in interpreters():
        library, home = run(python, "-c", SHARED).stdout.split("\n")[:2]
        if not os.path.exists(library):
            continue
        count += 1
        fresh("run.kcap")
        # 3.12.1 with ctypes does not survive a second start, with or without kedge
        times = 2 if run(PARTS / "pyembed", library, home, 2, rc=None, LD_LIBRARY_PATH=SIM).returncode == 0 else 1
        print(f"{library}: started {times} times")
        done = run(PARTS / "pyembed", library, home, times, **settings(pathlib.Path("run.kcap").resolve()))
        check("Python stacks of CPython 3." in done.stdout, f"{library}: nothing is said: {done.stdout}")
        blocks = dump("run.kcap")
        for size in (1000, 1500, 3001, 3002)[:times + 2]:
            same(f"{library}: Python frames of {size}", blocks[size][2], [])
        for size in (2001, 2002)[:times]:
            same(f"{library}: functions of {size}", [name_of(frame[0]) for frame in blocks[size][2]], ["inside", "<module>"])
            same(f"{library}: lines of {size}", [frame[2] for frame in blocks[size][2]], [3, 5])
    if not count:
        skip("no interpreter here has a libpython3.so to load")


def modes_choose_the_stacks():
    _, python = interpreters()[0]
    for mode, has_native, has_python in (("auto", True, True), ("native", True, False), ("python", False, True),
                                         ("off", False, False)):
        told, _ = program(python, "steps", KEDGE_STACKS=mode)
        blocks = dump("run.kcap")
        for size in told:
            _, native, frames = blocks[size]
            same(f"{mode}: native frames of {size}", native > 0, has_native)
            same(f"{mode}: Python frames of {size}", len(frames) > 0, has_python)


def reports_tell_python_lines():
    _, python = interpreters()[0]
    told, output = program(python, "steps")
    check("Python stacks of CPython 3." in output, f"the program's output says nothing: {output}")
    # the most at one place: the worker's, whose sizes are largest; an own one of forward()
    text = tool("report", "run.kcap", "--all", "--native", "--top", 100)
    check(re.search(r"^note +Python stacks of CPython 3\.", text, re.M), "the note is in the report")
    line = told[50003][1]
    check(f"forward {HERE / 'program.py'}:{line}\n" in text, f"forward's line {line} is not in the report:\n{text}")
    check("(no Python in this thread; another was in)" in text, "the worker's stack is not marked")
    j = tool_json("report", "run.kcap", "--top", 100)
    rows = [row for row in j["live"] if any(frame["function"].endswith("forward") for frame in row["stack"])]
    same("rows of forward", len(rows), 1)
    lines = [frame for frame in rows[0]["stack"] if frame.get("python")]
    same("functions", [frame["function"] for frame in lines], ["alloc", "forward", "steps", "<module>"])
    same("line", lines[1]["line"], line)
    same("innermost", rows[0]["python_site"].split()[0], "alloc")
    same("native frames above", [frame.get("python", False) for frame in rows[0]["stack"]][0], False)
    check(not any(frame["function"].startswith("_PyEval_") for frame in rows[0]["stack"]), "the interpreter's loop is shown")
    ambient = [row for row in j["live"] if any(frame.get("ambient") for frame in row["stack"])]
    same("rows of the worker", sum(row["count"] for row in ambient), 5)


def layers(python):
    """good.kcap and bad.kcap of frameworklike.py, agg.kcap of bad without events; the lines of its functions by their words."""
    for form, capture, trace in (("good", "good.kcap", "full"), ("bad", "bad.kcap", "full"), ("bad", "agg.kcap", "agg")):
        fresh(capture)
        run(python, HERE / "frameworklike.py", form, **settings(pathlib.Path(capture).resolve(), KEDGE_TRACE=trace))
    lines = (HERE / "frameworklike.py").read_text().split("\n")
    return {word: 1 + next(i for i, line in enumerate(lines) if word in line)
            for word in ("cuMemAlloc_v2", "empty(2 <<", "empty(4 <<", "empty(8 <<")}


def diffs_tell_python_lines():
    """All tensors come from one native site and one innermost line of Python: who is late is told by the lines around them."""
    python = interpreters()[0][1]
    at = layers(python)
    want = [("norm", at["empty(8 <<"], 6, 48 << 20), ("linear", at["empty(4 <<"], 6, 24 << 20)]

    def told(rows):
        found = []
        for row in rows:
            frames = [frame for frame in row["stack"] if frame.get("python")]
            same("innermost line", row["python_site"], f"empty frameworklike.py:{at['cuMemAlloc_v2']}")
            same("functions", [frames[0]["function"], frames[2]["function"]], ["empty", "<module>"])
            found.append((frames[1]["function"], frames[1]["line"], row["count"], row["bytes"]))
        return found

    j = tool_json("diff", "good.kcap", "bad.kcap", "--by", "site")
    same("groups by site", [(g["count"], g["bytes"], g["sizes"]) for g in j["groups"]], [(12, 72 << 20, [4 << 20, 8 << 20])])
    same("the site is native", "frameworklike.py" in j["groups"][0]["site"], False)
    same("no one line for two stacks", j["groups"][0]["python_site"], None)
    same("its Python stacks", told(j["groups"][0]["python_stacks"]), want)
    j = tool_json("diff", "good.kcap", "bad.kcap")
    same("groups by Python", told(j["groups"]), want)
    same("the site is native", "frameworklike.py" in j["groups"][0]["site"], False)
    text = tool("diff", "good.kcap", "bad.kcap", "--by", "site")
    check(re.search(rf"6 of them, 48\.00 MiB:\n(?: .*\n)*? +norm \S*frameworklike\.py:{at['empty(8 <<']}\n", text), f"norm is not told apart:\n{text}")
    check(re.search(rf"6 of them, 24\.00 MiB:\n(?: .*\n)*? +linear \S*frameworklike\.py:{at['empty(4 <<']}\n", text), f"nor is linear:\n{text}")
    text = tool("diff", "good.kcap", "bad.kcap", "--by", "python")
    for function, word, size in (("norm", "empty(8 <<", "48.00"), ("linear", "empty(4 <<", "24.00")):
        title = f"{function} frameworklike.py:{at[word]}" # `empty` is in all rows, and tells none apart
        check(f" {size} MiB  {title}\n" in text, f"no title {title}:\n{text}")
        check(title in [g["title"] for g in j["groups"]], f"nor in JSON: {[g['title'] for g in j['groups']]}")


def hints_and_failures_tell_python_lines():
    python = interpreters()[0][1]
    at = layers(python)
    fresh("hints.yaml")
    tool("suggest", "--good", "good.kcap", "--bad", "bad.kcap", "-o", "hints.yaml")
    text = pathlib.Path("hints.yaml").read_text(encoding="utf-8")
    same("hints", re.findall(r'id: "(\S+)"\n.*\n.*site: \[(\S+)\]', text), [("empty", '"p:frameworklike.py:empty"')])
    check(f"# empty frameworklike.py:{at['cuMemAlloc_v2']}\n" in text, f"no title with a line:\n{text}")
    check("build" not in text, f"a Python function is tied to builds:\n{text}")
    way = f"linear frameworklike.py:{at['empty(4 <<']}\n" # `empty` is in all rows, and tells none apart
    check(f"the first of them: {way}" in pathlib.Path("hints.yaml").read_text(), f"no {way}:\n{pathlib.Path('hints.yaml').read_text()}")
    fresh("oom.kcap")
    run(python, HERE / "frameworklike.py", "bad", rc=1, **settings(pathlib.Path("oom.kcap").resolve(), SIMCUDA_MEMORY="60M"))
    text = tool("report", "oom.kcap", "--view", "oom")
    check(re.search(rf"live then, by stack:\n +\S+ MiB +\d+  norm\s+frameworklike\.py:{at['empty(8 <<']}\s", text), f"norm is not named:\n{text}")
    holders = tool_json("report", "oom.kcap")["ooms"][0]["live_at_oom"]
    same("live_at_oom", [[f["function"] for f in h["stack"] if f.get("python")][1] for h in holders], ["norm", "linear"])
    same("their lines", {h["python_site"] for h in holders}, {f"empty frameworklike.py:{at['cuMemAlloc_v2']}"})


def views_without_events_tell_python_lines():
    at = layers(interpreters()[0][1])  # steps are one row
    for view, word, function in (("hwm", "empty(8 <<", "norm"), ("temporary", "empty(2 <<", "scratch")):
        text = tool("report", "agg.kcap", "--view", view, "--top", 100)
        same(f"--view {view}: lines of {function}", text.count(f"{function} {HERE / 'frameworklike.py'}:{at[word]}\n"), 1)
    j = tool_json("report", "agg.kcap", "--top", 100)
    same("Python lines of places", {p["python_site"] for p in j["places"] if p["allocated_count"]}, {f"empty frameworklike.py:{at['cuMemAlloc_v2']}"})
    same("blocks of norm at the maximum", sum(p["at_peak_count"] for p in j["places"] if any(f["function"] == "norm" for f in p["stack"])), 6)


def site_keys_are_those_of_native_stacks():
    _, python = interpreters()[0]
    sites = {}
    for mode in ("native", "auto"):
        program(python, "steps", KEDGE_STACKS=mode)
        j = tool_json("report", "run.kcap", "--top", 100)
        sites[mode] = sorted({row["site"] for row in j["live"]})
    same("sites", sites["auto"], sites["native"])
    keys = {}
    for mode in ("native", "auto"):
        program(python, "steps", KEDGE_STACKS=mode)
        done = subprocess.run([str(PARTS / "pydump"), "--sites", "run.kcap"], env=environment(), capture_output=True,
                              text=True, check=True)
        keys[mode] = done.stdout
    check(keys["native"].count("\n") == 30, "thirty allocations have keys")
    same("keys", keys["auto"], keys["native"])


def has_frame_in_loop(capture):
    """Whether any native stack of a capture has a frame in the function by which an interpreter names its loop."""
    rows = tool_json("report", capture)["live"]
    return any(line["function"].split("+")[0] == "_PyEval_EvalFrameDefault" for row in rows for line in row["stack"])


def native_stacks_end_where_python_goes_on():
    """But not before the frames that a site is made of; and without Python stacks they are whole."""
    for minor, python in interpreters():
        blocks, sites = {}, {}
        for mode in ("native", "auto"):
            told, _ = program(python, "deep", KEDGE_STACKS=f"{mode},depth=120")
            blocks[mode] = dump("run.kcap")
            done = subprocess.run([str(PARTS / "pydump"), "--sites", "run.kcap"], env=environment(), capture_output=True,
                                  text=True, check=True)
            sites[mode] = sorted(done.stdout.split("\n"))
            if mode == "native":
                has_loop = has_frame_in_loop("run.kcap")
        # A compiler may tear the loop out of the function that names it: Debian's gcc 16 does in 3.14 and 3.15.
        check(has_loop or minor >= 14, f"{python}: no frame is in the interpreter's loop")
        same(f"{python}: sites", sites["auto"], sites["native"])
        same(f"{python}: allocations", sorted(blocks["auto"]), sorted(told))
        for size in told:
            levels, native, whole = size // 100000, blocks["auto"][size][1], blocks["native"][size][1]
            names = [name_of(frame[0]) for frame in blocks["auto"][size][2]]
            same(f"{python}: Python functions behind {levels}", names[:5], ["behind", "<lambda>", "<lambda>", "deep", "<module>"])
            check(8 <= native <= whole, f"{python}: {native} native frames of {whole} behind {levels}")
            if levels >= 14 and has_loop:
                check(native < whole - 5, f"{python}: {native} native frames of {whole} behind {levels}: not ended at the loop")
            elif levels >= 14:
                same(f"{python}: native frames behind {levels}, no loop among them", native, whole)


def refused_in_words(who, words, output):
    """One line says why, and the capture says it; native stacks are there, Python stacks are not."""
    said = [line for line in output.split("\n") if "no Python stacks" in line]
    same(f"{who}: lines", len(said), 1)
    check(said and said[0].endswith(f"no Python stacks: {words}"), f"{who}: {said}, wanted {words}")
    report = tool_json("report", "run.kcap")
    check(f"no Python stacks: {words}" in json.dumps(report), f"{who}: the capture does not say why")
    blocks = dump("run.kcap").values()
    check(blocks, f"{who}: nothing is in the capture")
    check(all(native > 0 and not frames for _, native, frames in blocks), f"{who}: not native stacks alone")


def unknown_versions_are_refused_in_words():
    for library, words in (("fake_future", "CPython 3.15.0: it publishes no table of offsets"),
                           ("fake_past", f"CPython 3.9.18: {REFUSED}"),
                           ("fake_alpha", f"CPython 3.12.0a1: {REFUSED}"),
                           ("fake_free", "CPython 3.13.0: it is a free-threaded build"),
                           ("fake_tableless", "CPython 3.13.0: it publishes no table of offsets"),
                           ("fake_heads", "CPython 3.11.2: its objects or its functions are not the usual ones")):
        fresh("run.kcap")
        fake = PARTS / f"lib{library}.so"
        env = settings(pathlib.Path("run.kcap").resolve(), LD_PRELOAD=f"{LIBRARY}:{fake}", SIMCUDA_MEMORY="4G")
        done = run(BUILD / "trainers" / "loop", "--steps", 1, **env)
        refused_in_words(library, words, done.stdout)


def interpreters_before_3_10_keep_their_native_stacks():
    for _, python in interpreters(range(8, 10)):
        version = run(python, "-c", "import platform; print(platform.python_version())").stdout.strip()
        told, output = program(python, "steps")
        same(f"{python}: allocations", sorted(dump("run.kcap")), sorted(told))
        refused_in_words(python, f"CPython {version}: {REFUSED}", output)


# ---- hints by Python call site ----

PICK = "  - {{id: {0}, do: release, pick: {{site: [{1}]}}, when: {{anchor: \"step_*\", edge: exit}}}}\n"


def write_hints(path, *sites):
    path.write_text("kedge-hints: 1\ndefaults: {min-size: 0}\nhints:\n"
                    + "".join(PICK.format(f"h{i}", site) for i, site in enumerate(sites)))
    path.chmod(0o644)
    return path


def hinted(python, *sites, form="bad", **changes):
    """The report on frameworklike.py below hints, one for each list of sites, in order; and the output."""
    fresh("hints.yaml", "run.kcap", "calls.log")
    changes = {"KEDGE_HINTS": write_hints(pathlib.Path("hints.yaml").resolve(), *sites), "KEDGE_HINTS_MODE": "shadow", **changes}
    done = run(python, HERE / "frameworklike.py", form, **settings(pathlib.Path("run.kcap").resolve(), **changes))
    return tool_json("report", "run.kcap"), done.stdout


def matched(report):
    return [(hint["matched_count"], hint["matched_bytes"] >> 20) for hint in report["hints"]]


def hints_pick_by_python_call_site():
    """The tensors of a model come from one native stack and one line of Python: the lines around them tell which is which."""
    for _, python in interpreters():
        script = (HERE / "frameworklike.py").read_text().split("\n")
        norm, made = (1 + next(i for i, text in enumerate(script) if word in text) for word in ("empty(8 <<", "made = ["))
        file = "p:frameworklike.py"

        def picks(*sites, **changes):
            return matched(hinted(python, *sites, **changes)[0])

        same(f"{python}: one function", picks(f'"{file}:norm"'), [(6, 48)])
        # a call that the interpreter has not specialised yet may have another native site
        sites = [tuple(row.split()) for row in subprocess.run([str(PARTS / "pydump"), "--sites", "run.kcap"], env=environment(), text=True,
                                                              capture_output=True, check=True).stdout.strip().split("\n")]
        common = statistics.mode(key for _, key in sites)
        native = [int(size) >> 20 for size, key in sites if key == common]
        same(f"{python}: sizes of one native site", (len(native) > 14, set(native)), (True, {2, 4, 8}))
        same(f"{python}: one line of it", picks(f'"{file}:norm:{norm}"'), [(6, 48)])
        same(f"{python}: another line", picks(f'"{file}:norm:{norm + 1}"'), [(0, 0)])
        same(f"{python}: another file", picks('"p:frameworklike:norm"'), [(0, 0)])
        same(f"{python}: two alternatives", picks(f'"{file}:norm", "{file}:linear"'), [(12, 72)])
        same(f"{python}: a line further out", picks(f'"{file}:<module>:{made}"'), [(12, 72)])
        same(f"{python}: the innermost function", picks(f'"{file}:empty"'), [(18, 84)])
        same(f"{python}: the first one of the file", picks(f'"{file}:norm"', f'"{file}:<module>"', f'"{file}:linear"'),
             [(6, 48), (12, 36), (0, 0)])
        same(f"{python}: in another order", picks(f'"{file}:<module>:{made}"', f'"{file}:empty"', f'"{file}:norm"'),
             [(12, 72), (6, 12), (0, 0)])
        others = [size for size in native if size != 8]
        same(f"{python}: native ones beside them", picks(f'"{file}:norm", c:0000000000000001', f"c:{common}"),
             [(6, 48), (len(others), sum(others))])
        same(f"{python}: in one hint", picks(f'"{file}:norm:{norm}", c:{common}', f'"{file}:<module>"')[0],
             (6 + len(others), 48 + sum(others)))
        report, output = hinted(python, f'"{file}:norm"', KEDGE_HINTS_MODE="trap")
        same(f"{python}: in trap", [(hint["would_count"], hint["would_bytes"] >> 20) for hint in report["hints"]], [(6, 48)])
        check("call site" not in output, f"{python}: hints that can match were complained of: {output}")


def uses_that_are_too_late_are_told_with_both_python_stacks():
    """The native stack of all tensors is one, and so is that of all their uses: what tells them apart is Python's."""
    for _, python in interpreters():
        script = (HERE / "frameworklike.py").read_text().split("\n")
        made, clears, first, second = (1 + next(i for i, text in enumerate(script) if word in text)
                                       for word in ("cuMemAlloc_v2", "cuMemsetD8_v2", "return clear(ptr)", "late\", first_late"))

        def functions(stack):
            return [(frame["function"], frame["line"]) for frame in stack if frame.get("python")][:3]

        fresh("raw.kcap")
        raw = run(python, HERE / "frameworklike.py", "late", RAW_NAME=1,
                  **settings(pathlib.Path("raw.kcap").resolve(), KEDGE_HINTS=write_hints(pathlib.Path("hints.yaml").resolve(), '"p:frameworklike.py:norm"'),
                             KEDGE_HINTS_MODE="trap")).stdout
        check("used by a?[31mb" in raw and "\x1b" not in raw, f"{python}: a name is told raw: {raw!r}")
        for mode, told in (("shadow", "late_touches"), ("trap", "violations")):
            report, output = hinted(python, '"p:frameworklike.py:norm"', form="late", KEDGE_HINTS_MODE=mode)
            hint = report["hints"][0]
            # Of 12 uses each place is told once. A call that the interpreter has not specialised yet may have another native stack.
            check(2 <= hint[told] <= 4, f"{python}: {mode}: {hint[told]} touches of two lines")
            same(f"{python}: {mode}: toucher", functions(hint["used_by"]), [("clear", clears), ("first_late", first), ("<module>", second)])
            same(f"{python}: {mode}: allocation", functions(hint["allocated_by"])[:2],
                 [("empty", made), ("norm", 1 + next(i for i, text in enumerate(script) if "empty(8 <<" in text))])
            norm = 1 + next(i for i, text in enumerate(script) if "empty(8 <<" in text)
            same(f"{python}: {mode}: lines", (hint["used_by_title"], hint["allocated_by_title"]),
                 (f"clear frameworklike.py:{clears}", f"norm frameworklike.py:{norm}"))
            text = tool("report", "run.kcap", "--view", "hints")
            check(f"used by: clear frameworklike.py:{clears}\n" in text and f"8.00 MiB allocated by: norm frameworklike.py:{norm}\n" in text,
                  f"{python}: no Python first:\n{text}")
            lines = [line for line in output.split("\n") if "the call is stopped" in line]
            same(f"{python}: {mode}: lines of it", len(lines), hint["violations"])
            for line in lines:
                check(f"(used by clear frameworklike.py:{clears}, allocated by empty frameworklike.py:{made}); the call is stopped; "
                      "both stacks are in " in line, f"{python}: {line}")


def frames_of_another_thread_are_picked_by_no_hint():
    """A thread without Python frames carries those of the thread that waits for it, or of another one: nobody may act by them."""
    for _, python in interpreters():
        told, _ = program(python, "steps", KEDGE_HINTS=write_hints(pathlib.Path("hints.yaml").resolve(), '"p:program.py:<module>"'))
        same(f"{python}: matched", matched(tool_json("report", "run.kcap"))[0][0],
             sum(not where[0].startswith("ambient") for where in told.values()))


def r55_hints_that_pick_nothing_change_no_call_of_the_driver():
    """R55, for a file that names call sites of Python."""
    def calls(sites, **changes):
        _, output = hinted(python, *sites, form="good", SIMCUDA_LOG=pathlib.Path("calls.log").resolve(), **changes)
        rows = [re.sub(r"^\d+ t\d+ ", "", row) for row in pathlib.Path("calls.log").read_text().split("\n") if not row.startswith("#")]
        names = [re.match(r"\w*", row)[0] for row in rows]
        return [name for name in names if name not in ("cuCtxGetCurrent", "cuStreamGetId", "cuFuncGetParamInfo", "cuKernelGetParamInfo")], output

    for _, python in interpreters():
        without, _ = calls(['"p:a.py:f"'], KEDGE_HINTS="off")
        several, _ = calls([f'"p:frameworklike.py:norm:{line}", "p:other.py:f{line}"' for line in range(1000, 1100)])
        check(len(without) > 20, f"{python}: {len(without)} calls")
        same(f"{python}: calls of the driver", several, without)


NO_PYTHON_SITES = "hints by Python call site match nothing"


def hints_say_when_no_python_call_site_can_match():
    _, python = interpreters()[0]

    def said(sites, **changes):
        _, output = hinted(python, sites, **changes)
        return [line.split(": ", 2)[-1] for line in output.split("\n") if NO_PYTHON_SITES in line]

    site = '"p:frameworklike.py:norm"'
    for stacks in ("native", "fp", "off"):
        same(stacks, said(site, KEDGE_STACKS=stacks), [f"{NO_PYTHON_SITES}: KEDGE_STACKS takes no Python stacks"])
        same(f"{stacks}, matched", matched(tool_json("report", "run.kcap")), [(0, 0)])
        same(f"{stacks}, native sites", said("c:0000000000000001", KEDGE_STACKS=stacks), [])
        same(f"{stacks}, hints are off", said(site, KEDGE_STACKS=stacks, KEDGE_HINTS_MODE="off"), [])
    for stacks in ("auto", "python"):
        same(stacks, said(site, KEDGE_STACKS=stacks), [])
        same(f"{stacks}, matched", matched(tool_json("report", "run.kcap")), [(6, 48)])
    for library, why in ((None, "there is no Python interpreter in this process so far"),
                         ("fake_past", f"CPython 3.9.18: {REFUSED}")):
        env = settings(pathlib.Path("run.kcap").resolve(), KEDGE_HINTS=pathlib.Path("hints.yaml").resolve(), SIMCUDA_MEMORY="4G")
        if library:
            env["LD_PRELOAD"] = f"{LIBRARY}:{PARTS / f'lib{library}.so'}"
        fresh("run.kcap")
        done = run(BUILD / "trainers" / "loop", "--steps", 1, **env)
        lines = [line.split(": ", 2)[-1] for line in (done.stdout).split("\n") if NO_PYTHON_SITES in line]
        same(f"{library}", lines, [f"{NO_PYTHON_SITES}: {why}"])


def hints_wait_for_an_interpreter_that_comes_late():
    """What was said at load holds as long as there is none."""
    for _, python in interpreters():
        library, home = run(python, "-c", SHARED).stdout.split("\n")[:2]
        if not os.path.exists(library):
            continue
        fresh("run.kcap")
        path = write_hints(pathlib.Path("hints.yaml").resolve(), '"p:<string>:inside"')
        done = run(PARTS / "pyembed", library, home, 1, **settings(pathlib.Path("run.kcap").resolve(), KEDGE_HINTS=path))
        check(f"{NO_PYTHON_SITES}: there is no Python interpreter" in done.stdout, f"{library}: nothing is said: {done.stdout}")
        same(f"{library}: matched", matched(tool_json("report", "run.kcap"))[0][0], 1)
        return
    skip("no interpreter here has a libpython3.so to load")


CASES = (lines_equal_what_traceback_prints, other_versions_too, all_versions_at_length,
         functions_that_look_alike_are_told_apart, frames_that_begin_and_end_are_as_the_interpreter_has_them,
         threads_of_c_that_call_python_have_its_frames,
         threads_without_frames_carry_the_ambient_stack, forks_do_no_harm, sub_interpreters_do_no_harm,
         an_interpreter_that_ends_does_no_harm, an_embedded_interpreter_comes_late_and_goes, modes_choose_the_stacks, reports_tell_python_lines,
         diffs_tell_python_lines, hints_and_failures_tell_python_lines, views_without_events_tell_python_lines, site_keys_are_those_of_native_stacks,
         native_stacks_end_where_python_goes_on, unknown_versions_are_refused_in_words,
         interpreters_before_3_10_keep_their_native_stacks, hints_pick_by_python_call_site,
         uses_that_are_too_late_are_told_with_both_python_stacks, frames_of_another_thread_are_picked_by_no_hint, r55_hints_that_pick_nothing_change_no_call_of_the_driver,
         hints_say_when_no_python_call_site_can_match, hints_wait_for_an_interpreter_that_comes_late)

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[1]]()
    sys.exit(bool(failures))
