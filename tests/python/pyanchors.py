#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kedge's Python module, end to end: what an unmodified training loop becomes, and that nothing else changes.

    pyanchors.py CASE

The frameworks are torchlike.py and paddlelike.py by the names of torch and paddle: they have what is hooked and nothing else;
tests/frameworks runs the real ones. Each case runs under every CPython 3.10 to 3.15 that is found (pystacks.py).
"""
import json
import pathlib
import sys

from pystacks import HERE, BUILD, PARTS, check, failures, fresh, interpreters, run, same, tool_json
from regresskit import KEDGE, SIM

LIKE = PARTS / "like"
OURS = BUILD / "python"
MB = 1 << 20
WEIGHTS, BATCH, LAYER, LOSS, GRADIENT, STATE, EVAL, OTHER = (n * MB for n in (32, 1, 2, 3, 4, 5, 6, 7))


def kedged(*command, **options):
    """The program under kedge; what `kedge run` itself says is left out of the output."""
    done = run(KEDGE, "run", "--sim", "--", *command, **options)
    done.stdout = "".join(line for line in done.stdout.splitlines(True) if not line.startswith("kedge run: "))
    return done


def train(python, kind, script="looplike.py", **changes):
    """The program's output, and {(path, instance): (count, bytes)} of what was allocated directly there."""
    fresh("run.kcap")
    done = run(KEDGE, "run", "-q", "--sim", "--capture", "run.kcap", "--", python, HERE / script, kind,
               **{"PYTHONPATH": LIKE, **changes})
    anchors = tool_json("report", "run.kcap")["anchors"]
    return done.stdout, {(a["name"], a["instance"]): (a["allocated_count"], a["allocated_bytes"]) for a in anchors}


def each(case):
    def cases():
        for minor, python in interpreters():
            before = len(failures)
            case(python)
            if len(failures) > before:
                print(f"  under CPython 3.{minor}")
                return

    cases.__name__ = case.__name__
    return cases


def within(anchors, path, instance):
    """Bytes of an instance without those nested in it, as sizes are told apart: what `anchors[]` counts includes the inner ones."""
    return anchors.get((path, instance), (0, 0))[1]


STEP = {"step/data": BATCH, "step/forward": 3 * LAYER, "step/backward": GRADIENT, "step/optimizer": STATE}


@each
def a_training_loop_that_says_nothing_has_steps_and_phases(python):
    output, anchors = train(python, "plain")
    # The first batch comes before anything says that there is a training; the loader ends with one more question.
    same("data before", within(anchors, "data", 0), BATCH)
    for instance in range(3):
        for path, size in STEP.items():
            if path != "step/data":
                same(f"{path} {instance}", within(anchors, path, instance), size)
    same("data", [within(anchors, "step/data", i) for i in range(3)], [BATCH, BATCH, 0])
    # Of the first step, the loss is computed in no phase.
    same("steps", [within(anchors, "step", i) for i in range(4)],
         [LOSS + sum(STEP.values()) - BATCH, LOSS + sum(STEP.values()), LOSS + sum(STEP.values()), 3 * EVAL])
    same("forward after", within(anchors, "step/forward", 3), 3 * EVAL)
    same("paths", {path for path, _ in anchors} - {""}, {"data", "step", *STEP})
    # four outermost calls; no inner one was slower for it, and no module is left with a hook
    check(output.endswith("slow 4 hooked []\n"), f"told: {output}")


@each
def modules_have_their_names_where_that_is_wanted(python):
    _, anchors = train(python, "plain", KEDGE_ANCHORS="python=modules")
    for instance in range(3):
        for path, size in (("", 3 * LAYER), ("/first", LAYER), ("/second", LAYER), ("/second.norm", LAYER)):
            same(f"forward{path} {instance}", within(anchors, f"step/forward{path}", instance), size)
        same(f"backward {instance}", within(anchors, "step/backward", instance), GRADIENT)
    same("paths", {path for path, _ in anchors} - {""},
         {"data", "step", *STEP, "step/forward/first", "step/forward/second", "step/forward/second.norm"})


@each
def a_checkpoint_that_another_thread_computes_again_is_in_the_backward(python):
    for words in ("python=steps", "python=modules"):
        _, anchors = train(python, "checkpoint", KEDGE_ANCHORS=words)
        for instance in range(3):
            same(f"{words}: forward {instance}", within(anchors, "step/forward", instance), 3 * LAYER)
            same(f"{words}: backward {instance}", within(anchors, "step/backward", instance), 3 * LAYER + GRADIENT)


@each
def an_exception_closes_what_it_leaves(python):
    for words in ("python=steps", "python=modules"):
        output, anchors = train(python, "fails", KEDGE_ANCHORS=words)
        check("hooked []" in output, f"{words}: told {output}")
        same(f"{words}: steps", [within(anchors, "step", i) for i in range(3)],
             [LOSS + sum(STEP.values()) - BATCH, LOSS + sum(STEP.values()) + BATCH, 3 * EVAL])
        same(f"{words}: forward", [within(anchors, "step/forward", i) for i in range(4)], [3 * LAYER, 0, 3 * LAYER, 3 * EVAL])


@each
def an_optimizer_that_calls_the_model_has_the_phases_in_it(python):
    _, anchors = train(python, "closure")
    for instance in range(3):
        same(f"forward {instance}", within(anchors, "step/optimizer/forward", instance), 3 * LAYER)
        same(f"backward {instance}", within(anchors, "step/optimizer/backward", instance), GRADIENT)
        same(f"optimizer {instance}", within(anchors, "step/optimizer", instance), 3 * LAYER + LOSS + GRADIENT + STATE)


@each
def a_step_of_two_optimizers_is_one(python):
    _, anchors = train(python, "gan")
    half = 3 * LAYER + LOSS + GRADIENT
    same("steps", [within(anchors, "step", i) for i in range(4)],
         [half + STATE, 2 * half + OTHER + BATCH + STATE, 2 * half + OTHER + BATCH + STATE, half + OTHER + 3 * EVAL])


@each
def a_loop_of_paddles_has_the_same_phases(python):
    output, anchors = train(python, "plain", script="looppaddle.py")
    same("data before", within(anchors, "data", 0), BATCH)
    for instance in range(3):
        for path, size in STEP.items():
            if path != "step/data":
                same(f"{path} {instance}", within(anchors, path, instance), size)
    same("data", [within(anchors, "step/data", i) for i in range(3)], [BATCH, BATCH, 0])
    same("steps", [within(anchors, "step", i) for i in range(4)],
         [LOSS + sum(STEP.values()) - BATCH, LOSS + sum(STEP.values()), LOSS + sum(STEP.values()), 3 * EVAL])
    same("forward after", within(anchors, "step/forward", 3), 3 * EVAL)
    same("paths", {path for path, _ in anchors} - {""}, {"data", "step", *STEP})
    # a second backward from inside one, and a batch that fails, are told as well
    same("output", output, "plain: 3 steps\ntraced False of kedge []\n")
    output, anchors = train(python, "fails", script="looppaddle.py")
    same("output", output, "fails: 2 steps\ntraced False of kedge []\n")
    same("forward", [within(anchors, "step/forward", i) for i in range(4)], [3 * LAYER, 0, 3 * LAYER, 3 * EVAL])
    for words in ("python=off", "nvtx"):
        _, anchors = train(python, "plain", script="looppaddle.py", KEDGE_ANCHORS=words)
        same(f"{words}: paths", {path for path, _ in anchors} - {""}, set())


@each
def what_paddle_traces_asks_one_question(python):
    output, anchors = train(python, "compiled", script="looppaddle.py")
    same("output", output, "compiled: 3 steps\ntraced True of kedge ['wrapper']\n")
    same("forward", [within(anchors, "step/forward", i) for i in range(3)], [3 * LAYER + LOSS] * 3)
    # a static graph is made, not run
    _, anchors = train(python, "static", script="looppaddle.py")
    same("paths", {path for path, _ in anchors} - {""}, set())


@each
def inference_has_no_steps(python):
    _, anchors = train(python, "inference")
    same("paths", {path for path, _ in anchors} - {""}, {"data", "forward"})
    same("forward", [within(anchors, "forward", i) for i in range(4)], [3 * LAYER] * 3 + [3 * EVAL])


@each
def nothing_happens_where_nobody_wants_it(python):
    for changes in ({"KEDGE_ANCHORS": "python=off"}, {"KEDGE_ANCHORS": "nvtx,marks"}):
        output, anchors = train(python, "plain", **changes)
        same(f"{changes}: paths", {path for path, _ in anchors} - {""}, set())
        check("slow 0 hooked []" in output, f"{changes}: told {output}")
    # The module is on the path by hand, and the library says no.
    output, anchors = train(python, "plain", KEDGE_ANCHORS="python=off", PYTHONPATH=f"{OURS}:{LIKE}")
    same("by hand: paths", {path for path, _ in anchors} - {""}, set())
    # Without the library nobody says anything.
    done = run(python, HERE / "looplike.py", "plain", PYTHONPATH=f"{OURS}:{LIKE}", LD_LIBRARY_PATH=SIM)
    check(done.stdout == "slow 0 hooked []\n", f"without the library: {done.stdout}")


# What of the interpreter a program may look at.
LOOK = """
import json, sys, os
look = {"path": sys.path, "modules": sorted(sys.modules), "meta": [type(f).__name__ for f in sys.meta_path],
        "cache": sorted(sys.path_importer_cache), "argv": sys.argv, "stderr": None}
import torch, torch.optim.optimizer as o
look["loader"] = type(torch.__spec__.loader).__name__
look["attributes"] = sorted(vars(torch.__spec__.loader))
look["file"] = torch.__file__
print(json.dumps(look))
"""


def looks(python, *words, kedge=True, **changes):
    env = {"LD_LIBRARY_PATH": SIM, "PYTHONPATH": LIKE, "PYTHONDONTWRITEBYTECODE": "1", **changes}
    done = (kedged if kedge else run)(python, *words, **env)
    return json.loads(done.stdout.strip().split("\n")[-1])


@each
def the_interpreter_is_as_it_was(python):
    pathlib.Path("look.py").write_text(LOOK)
    for words in (["look.py"], ["-c", LOOK], ["-m", "look"], ["-s", "look.py"], ["-X", "importtime", "look.py"]):
        was = looks(python, *words, kedge=False)
        now = looks(python, *words)
        ours = set(now["modules"]) - set(was["modules"])
        same(f"{words}: modules of ours", ours, {"_kedge_import"})
        same(f"{words}: finders", now["meta"], ["Finder", *was["meta"]])
        for key in ("path", "argv", "loader", "attributes", "file", "cache"):
            same(f"{words}: {key}", now[key], was[key])


@each
def an_interpreter_that_heeds_no_path_is_left_alone(python):
    text = f"import sys; sys.path.append({str(LIKE)!r})\n" + LOOK
    for words in (["-I", "-c", text], ["-E", "-c", text], ["-S", "-c", text]):
        was = looks(python, *words, kedge=False)
        now = looks(python, *words)
        same(f"{words[0]}: modules", now["modules"], was["modules"])
        same(f"{words[0]}: finders", now["meta"], was["meta"])


@each
def a_sitecustomize_that_is_there_stays(python):
    there = pathlib.Path("there")
    there.mkdir(exist_ok=True)
    say = "import sys; print('site', __name__, __file__, sys.modules[__name__].__dict__ is globals())"
    path = f"{there.resolve()}:{LIKE}"
    for text, code in ((say, 0), (say + "\nraise RuntimeError('mine')", 0), (say + "\nimport nowhere_at_all", 0)):
        (there / "sitecustomize.py").write_text(text)
        program = "import sitecustomize, torch; print(sitecustomize.__file__)" if text == say else "import torch; print(1)"
        was = run(python, "-c", program, PYTHONPATH=path, LD_LIBRARY_PATH=SIM, PYTHONDONTWRITEBYTECODE="1")
        now = kedged(python, "-c", program, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1")
        same(f"{text}: output", now.stdout, was.stdout)
    (there / "sitecustomize.py").unlink()
    (there / "usercustomize.py").write_text("print('user')")
    was = run(python, "-c", "pass", PYTHONPATH=path)
    now = kedged(python, "-c", "pass", PYTHONPATH=path)
    same("usercustomize", now.stdout, was.stdout)
    done = kedged(python, "-c", "import sitecustomize", rc=None, PYTHONPATH=LIKE)
    was = run(python, "-c", "import sitecustomize", rc=None, PYTHONPATH=LIKE)
    same("without one", (done.returncode, done.stdout), (was.returncode, was.stdout))


CHILD = """
import multiprocessing, os, subprocess, sys

def finders():
    return [type(f).__name__ for f in sys.meta_path][0]

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.apply(finders))
    print("exec", subprocess.run([sys.executable, "-c", "import sys; print(type(sys.meta_path[0]).__name__)"],
                                 stdout=subprocess.PIPE, check=True).stdout.decode().strip())
"""


@each
def children_of_every_kind_have_it_too(python):
    pathlib.Path("child.py").write_text(CHILD)
    done = kedged(python, "child.py", PYTHONDONTWRITEBYTECODE="1")
    same("children", done.stdout, "fork Finder\nspawn Finder\nforkserver Finder\nexec Finder\n")


@each
def archives_and_environments_work(python):
    import zipfile

    with zipfile.ZipFile("app.pyz", "w") as archive:
        archive.write(HERE / "looplike.py", "__main__.py")
    fresh("run.kcap")
    run(KEDGE, "run", "-q", "--sim", "--capture", "run.kcap", "--", python, "app.pyz", PYTHONPATH=LIKE)
    anchors = {(a["name"], a["instance"]) for a in tool_json("report", "run.kcap")["anchors"]}
    check(("step/forward", 2) in anchors, f"archive: {anchors}")
    run(python, "-m", "venv", "--without-pip", "--clear", "env")
    fresh("run.kcap")
    run(KEDGE, "run", "-q", "--sim", "--capture", "run.kcap", "--", "env/bin/python", HERE / "looplike.py", PYTHONPATH=LIKE)
    anchors = {(a["name"], a["instance"]) for a in tool_json("report", "run.kcap")["anchors"]}
    check(("step/forward", 2) in anchors, f"environment: {anchors}")


# Frameworks that are not what was expected.
ODD = {
    "empty": "",
    "no hooks": "import sys, types\nfor n in ('torch.optim', 'torch.optim.optimizer', 'torch.autograd'):\n"
                "    sys.modules[n] = types.ModuleType(n)\n",
    "hooks that fail": "import sys, types\nm = types.ModuleType('torch.optim.optimizer')\nsys.modules[m.__name__] = m\n"
                       "def register_optimizer_step_pre_hook(h): raise RuntimeError('no')\n"
                       "m.register_optimizer_step_pre_hook = register_optimizer_step_pre_hook\n",
    "fails": "raise ValueError('torch is broken')",
}


@each
def a_framework_that_is_another_one_does_no_harm(python):
    for name, text in ODD.items():
        folder = pathlib.Path("odd") / "torch"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text(text)
        program = "import importlib.util as u; print(u.find_spec('torch').name)\n" \
                  "try:\n    import torch\nexcept ValueError as e:\n    print(e)\n" \
                  "else:\n    import importlib; importlib.reload(torch)\nprint('done')"
        env = {"PYTHONPATH": str(folder.parent.resolve()), "PYTHONDONTWRITEBYTECODE": "1"}
        was = run(python, "-c", program, **env)
        now = kedged(python, "-c", program, **env)
        same(name, now.stdout, was.stdout)
    # under a compiler that traces, the hooks are nothing
    program = "import torch\ntorch.compiler.tracing = True\nclass M(torch.nn.Module):\n    def forward(self): return 1\n" \
              "print(M()(), torch.optim.Optimizer(lambda: 0).step(), torch.nn.Module.slow)"
    now = kedged(python, "-c", program, PYTHONPATH=LIKE)
    same("tracing", now.stdout, "1 None 1\n")


CASES = (a_training_loop_that_says_nothing_has_steps_and_phases, modules_have_their_names_where_that_is_wanted,
         a_checkpoint_that_another_thread_computes_again_is_in_the_backward, an_exception_closes_what_it_leaves,
         a_loop_of_paddles_has_the_same_phases, what_paddle_traces_asks_one_question,
         an_optimizer_that_calls_the_model_has_the_phases_in_it, a_step_of_two_optimizers_is_one, inference_has_no_steps,
         nothing_happens_where_nobody_wants_it, the_interpreter_is_as_it_was,
         an_interpreter_that_heeds_no_path_is_left_alone, a_sitecustomize_that_is_there_stays,
         children_of_every_kind_have_it_too, archives_and_environments_work, a_framework_that_is_another_one_does_no_harm)

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[1]]()
    sys.exit(bool(failures))
