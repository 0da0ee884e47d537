#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: pyparts.c pyloop.c pyhost.c
"""Anchors of Python's frameworks, end to end: what an unmodified training loop becomes, and that nothing changes for it.

    pyanchors.py CASE

The frameworks are torchlike.py and paddlelike.py by the names of torch and paddle: they have what is watched and nothing else;
tests/frameworks runs the real ones. Each case runs under every CPython 3.10 to 3.15 that is found (pystacks.py).
"""
import json
import pathlib
import sys

from pystacks import HERE, PARTS, SHARED, check, failures, fresh, interpreters, run, same, tool_json
from regresskit import KEDGE, SIM

LIKE = PARTS / "like"
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
    output, anchors = train(python, "plain", KEDGE_ANCHORS="python=steps")
    # The first batch comes before anything says that there is a training; the loader ends with one more question.
    same("data before", within(anchors, "data", 0), BATCH)
    for instance in range(3):
        for path, size in STEP.items():
            if path != "step/data":
                same(f"{path} {instance}", within(anchors, path, instance), size)
    same("data", [within(anchors, "step/data", i) for i in range(3)], [BATCH, BATCH, 0])
    # Of the first step, the loss is computed in no phase.
    same("steps", [within(anchors, "step", i) for i in range(4)],
         [LOSS + sum(STEP.values()) - BATCH, LOSS + sum(STEP.values()), LOSS + sum(STEP.values()), 0])
    same("forward after", within(anchors, "eval/forward", 0), 3 * EVAL)
    same("paths", {path for path, _ in anchors} - {""}, {"data", "step", *STEP, "eval", "eval/forward"})
    same("output", output, "hooked []\n")


@each
def modules_have_their_names(python):
    _, anchors = train(python, "plain")
    for instance in range(3):
        for path, size in (("", 3 * LAYER), ("/first", LAYER), ("/second", LAYER), ("/second.norm", LAYER)):
            same(f"forward{path} {instance}", within(anchors, f"step/forward{path}", instance), size)
        same(f"backward {instance}", within(anchors, "step/backward", instance), GRADIENT)
    same("paths", {path for path, _ in anchors} - {""},
         {"data", "step", "eval", *STEP, *(f"{outer}/forward{inner}" for outer in ("step", "eval")
                                           for inner in ("", "/first", "/second", "/second.norm"))})


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
             [LOSS + sum(STEP.values()) - BATCH, LOSS + sum(STEP.values()) + BATCH, 0])
        same(f"{words}: forward", [within(anchors, "step/forward", i) for i in range(3)], [3 * LAYER, 0, 3 * LAYER])


@each
def the_step_after_any_trouble_is_right(python):
    output, anchors = train(python, "", script="looptrouble.py")
    sizes = [size for name, size in json.loads(output).items()]
    for path in ("step/forward", "step/backward", "step/optimizer"):
        told = [size for (where, _), (count, size) in sorted(anchors.items()) if where == path and size > 2048]
        same(path, sorted(told), sorted(sizes))
    paths = {path.partition("forward/")[0] + "forward" if "forward/" in path else path for path, _ in anchors} - {""}
    known = {"step", "step/forward", "step/backward", "step/optimizer", "step/optimizer/forward", "step/data", "eval", "eval/forward",
             "forward"}
    same("paths", paths - known, set())


@each
def steps_of_other_kinds_end_where_they_should(python):
    # MiB of the steps that have any, and of their forwards
    for kind, steps, forwards in (("in-backward", [3] * 3, [2] * 3), ("in-thread", [3] * 3, [2] * 3), ("scaler", [3] * 4, [2] * 4),
                                  # the second optimizer takes part in the first one's steps until it has stepped twice
                                  ("models", [3, 3, 6, 3, 3], [2] * 6),
                                  # a second thread has steps from the end of its first one on
                                  ("threads", [3] * 5, [2] * 5),
                                  # until its call outlasts the other thread's, it counts as that one's
                                  ("overlap", [7, 3, 3], [4, 2, 2, 2])):
        _, anchors = train(python, kind, script="loopsteps.py")
        told = [size // MB for (path, _), (_, size) in sorted(anchors.items()) if path == "step" and size]
        same(f"{kind}: steps", told, steps)
        told = [size // MB for (path, _), (_, size) in sorted(anchors.items()) if path == "step/forward"]
        same(f"{kind}: forward", told, forwards)


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
         [half + STATE, 2 * half + OTHER + BATCH + STATE, 2 * half + OTHER + BATCH + STATE, half + OTHER])


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
         [LOSS + sum(STEP.values()) - BATCH, LOSS + sum(STEP.values()), LOSS + sum(STEP.values()), 0])
    same("forward after", within(anchors, "eval/forward", 0), 3 * EVAL)
    same("paths", {path for path, _ in anchors} - {""}, {"data", "step", *STEP, "eval", "eval/forward"})
    # a second backward from inside one, and a batch that fails, are told as well
    same("output", output, "plain: 3 steps\ntraced False of kedge []\n")
    # as paddle.Model does
    output, minimized = train(python, "minimizes", script="looppaddle.py")
    same("anchors of minimize", minimized, anchors)
    output, anchors = train(python, "fails", script="looppaddle.py")
    same("output", output, "fails: 2 steps\ntraced False of kedge []\n")
    same("forward", [within(anchors, "step/forward", i) for i in range(3)], [3 * LAYER, 0, 3 * LAYER])
    for words in ("python=off", "nvtx"):
        _, anchors = train(python, "plain", script="looppaddle.py", KEDGE_ANCHORS=words)
        same(f"{words}: paths", {path for path, _ in anchors} - {""}, set())


@each
def what_paddle_traces_has_nothing_of_kedge(python):
    output, anchors = train(python, "compiled", script="looppaddle.py")
    same("output", output, "compiled: 3 steps\ntraced True of kedge []\n")
    same("forward", [within(anchors, "step/forward", i) for i in range(3)], [3 * LAYER + LOSS] * 3)
    # a static graph is made, not run
    _, anchors = train(python, "static", script="looppaddle.py")
    same("paths", {path for path, _ in anchors} - {""}, set())


# A program that puts other objects into the place of those that are asked whether it trains.
REPLACES = """
import gc, sys, weakref
import paddle
framework = sys.modules["paddle.base.framework"]
was = weakref.ref(framework.global_var)
paddle.global_var = framework.global_var = paddle.State()
gc.collect()
print(was() is not None)
class Model(paddle.nn.Layer):
    def forward(self, x):
        return x + 1
print([Model()(i) for i in range(3)])
"""


@each
def what_is_asked_stays_as_long_as_it_may_be_asked(python):
    env = {"PYTHONPATH": LIKE, "LD_LIBRARY_PATH": SIM}
    same("without", run(python, "-c", REPLACES, **env).stdout, "False\n[1, 2, 3]\n")
    same("with", kedged(python, "-c", REPLACES, **env).stdout, "True\n[1, 2, 3]\n")


@each
def r111_asking_objects_runs_none_of_their_code(python):
    was = run(python, HERE / "loopasked.py", PYTHONPATH=LIKE, LD_LIBRARY_PATH=SIM).stdout
    output, anchors = train(python, "", script="loopasked.py", KEDGE_ANCHORS="python=modules")
    same("code that ran", output, was)
    for path, count in (("step/forward", 4), ("eval/forward", 5), ("step/forward/_orig_mod", 2), ("eval/forward/_orig_mod/inner", 1)):
        same(path, sum(where == path for where, _ in anchors), count)


@each
def inference_has_no_steps(python):
    _, anchors = train(python, "inference")
    same("paths", {path for path, _ in anchors if "forward/" not in path} - {""}, {"eval", "eval/data", "eval/forward"})
    same("forward", [within(anchors, "eval/forward", i) for i in range(4)], [3 * LAYER] * 3 + [3 * EVAL])


@each
def nothing_happens_where_nobody_wants_it(python):
    for changes in ({"KEDGE_ANCHORS": "python=off"}, {"KEDGE_ANCHORS": "nvtx,marks"}):
        _, anchors = train(python, "plain", **changes)
        same(f"{changes}: paths", {path for path, _ in anchors} - {""}, set())


# What of the interpreter a program may look at.
LOOK = """
import json, sys, os, inspect, traceback, warnings
look = {"path": sys.path, "modules": sorted(sys.modules), "meta": [repr(f).split(" at ")[0] for f in sys.meta_path],
        "hooks": [repr(f).split(" at ")[0] for f in sys.path_hooks], "cache": sorted(sys.path_importer_cache), "argv": sys.argv,
        "flags": repr(sys.flags), "PYTHON": {k: v for k, v in os.environ.items() if k.startswith("PYTHON")}}
import importlib.util as u
look["found"] = [u.find_spec("torch").loader.__class__.__name__ for _ in range(3)]
import torch, torch.optim.optimizer as o
look["loader"] = [type(torch.__spec__.loader).__name__, sorted(vars(torch.__spec__.loader))]
look["modules after"] = sorted(sys.modules)
class M(torch.nn.Module):
    def forward(self):
        warnings.warn("from inside", stacklevel=2)
        return inspect.stack()
sgd = torch.optim.SGD(lambda: look.setdefault("optimizer", [(f.function, f.lineno) for f in inspect.stack()]))
m = M()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    look["frames"] = [(f.function, f.lineno) for f in m()]
    sgd.step()
look["warnings"] = [(str(w.message), w.lineno) for w in told]
def same(f):
    return [f.__name__, f.__qualname__, str(inspect.signature(f)), f.__code__.co_code.hex(), sorted(vars(f)),
            f.__defaults__, f.__module__, getattr(f, "__wrapped__", None) is None]
look["functions"] = [same(f) for f in (torch.nn.Module.__call__, torch.nn.Module._call_impl, o.Optimizer.step, torch.optim.SGD.step,
                     torch.autograd.backward, torch.utils.data.dataloader._BaseDataLoaderIter.__next__)]
run = torch.autograd.Variable._execution_engine.run_backward
look["engine"] = [repr(type(run)), run.__name__, repr(run.__doc__)]
look["objects"] = [sorted(m.__dict__), sorted(sgd.__dict__), sorted(vars(M)), sorted(vars(torch.nn.Module))]
class Bad(torch.nn.Module):
    def forward(self):
        raise ValueError("bad")
try:
    Bad()()
except ValueError:
    look["traceback"] = traceback.format_exc()
print(json.dumps(look))
"""


def looks(python, *words, kedge=True, **changes):
    env = {"LD_LIBRARY_PATH": SIM, "PYTHONPATH": LIKE, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **changes}
    done = (kedged if kedge else run)(python, *words, **env)
    return json.loads(done.stdout.strip().split("\n")[-1])


@each
def r111_the_interpreter_is_as_it_was(python):
    pathlib.Path("look.py").write_text(LOOK)
    text = f"import sys; sys.path.append({str(LIKE)!r})\n" + LOOK
    for words in (["look.py"], ["-c", LOOK], ["-m", "look"], ["-s", "look.py"], ["-W", "error::DeprecationWarning", "look.py"],
                  ["-I", "-c", text], ["-E", "-c", text], ["-S", "-c", text], ["-P", "-c", text]):
        if words[0] == "-P" and run(python, "-P", "-c", "", rc=None).returncode:
            continue  # came with 3.11
        was = looks(python, *words, kedge=False)
        now = looks(python, *words)
        for key, value in was.items():
            same(f"{words[0]}: {key}", now[key], value)


# How interpreters are started; each says one line of its own.
STARTS = """
import importlib, importlib.resources, importlib.util, sys, warnings
sys.path.insert(0, sys.argv[1])
print(importlib.util.find_spec("torch") is not None, importlib.util.find_spec("torch.nn") is not None)
import space.inner
print(space.inner.__name__, space.__spec__.loader is not None, importlib.resources.files("torch").joinpath("data.txt").read_text())
import torch
torch.nn.M()()
importlib.reload(torch)
torch.nn.M()()
del sys.modules["torch"], sys.modules["torch.nn"]
import torch
torch.nn.M()()
"""
PACKAGE = {
    "torch/__init__.py": "import warnings\nwarnings.warn('at import', stacklevel=2)\nwarnings.warn('old', DeprecationWarning, stacklevel=2)\n"
                         "from . import nn\ndef is_grad_enabled():\n    return True\n",
    "torch/nn/__init__.py": "from .modules.module import Module\nclass M(Module):\n    def forward(self):\n        print('called')\n",
    "torch/nn/modules/__init__.py": "",
    "torch/nn/modules/module.py": "class Module:\n    def _call_impl(self, *args):\n        return self.forward(*args)\n"
                                  "    def __call__(self, *args):\n        return self._call_impl(*args)\n",
    "torch/data.txt": "some text",
    "space/inner.py": "",
}


@each
def r111_archives_packages_and_warnings_are_as_without(python):
    import zipfile

    pathlib.Path("starts.py").write_text(STARTS)
    with zipfile.ZipFile("all.zip", "w") as archive:
        for name, text in PACKAGE.items():
            archive.writestr(name, text)
            file = pathlib.Path("folder") / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    starts = ([], ["-W", "error"], ["-W", "error::UserWarning:__main__"], ["-I"], ["-S", "-W", "always"], ["-X", "importtime"])
    for where, some in (("all.zip", starts), ("folder", starts[:3])):
        for words in some:
            env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "LD_LIBRARY_PATH": SIM}
            was = run(python, *words, "starts.py", where, rc=None, **env)
            now = kedged(python, *words, "starts.py", where, rc=None, **env)
            told, wanted = now.stdout.splitlines(), was.stdout.splitlines()
            if "importtime" in words:  # times differ; what is imported in which order does not
                told, wanted = ([line.split("|")[-1] for line in lines] for lines in (told, wanted))
            same(f"{where} {words}", (now.returncode, told), (was.returncode, wanted))


CHILD = """
import multiprocessing, os, subprocess, sys, torch

class M(torch.nn.Module):
    def forward(self):
        torch.free(torch.empty(1 << 20))

def work():
    M()()

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            pool.apply(work)
    subprocess.run([sys.executable, "-c", "import child; child.work()"], check=True)
"""


@each
def children_of_every_kind_are_watched_too(python):
    pathlib.Path("child.py").write_text(CHILD)
    for old in pathlib.Path(".").glob("child-*.kcap*"):
        old.unlink()
    run(KEDGE, "run", "-q", "--sim", "--capture", "child-%p.kcap", "--", python, "child.py", PYTHONPATH=f"{LIKE}:.",
        PYTHONDONTWRITEBYTECODE="1")
    found = [{a["name"] for a in tool_json("report", file)["anchors"]} for file in pathlib.Path(".").glob("child-*.kcap")]
    same("children", sum("step/forward" in names for names in found), 4)


def embedded(python, text):
    """The command that runs the text in an interpreter which a C program loads and starts late; none where it has no library."""
    library, home = run(python, "-c", SHARED).stdout.split("\n")[:2]
    if pathlib.Path(library).exists():
        yield [PARTS / "pyembed", library, home, "1", text]


@each
def archives_and_environments_work(python):
    import zipfile

    with zipfile.ZipFile("app.pyz", "w") as archive:
        archive.write(HERE / "looplike.py", "__main__.py")
    run(python, "-m", "venv", "--without-pip", "--clear", "env")
    isolated = f"import sys, runpy; sys.path.insert(0, {str(LIKE)!r}); sys.argv = ['x']; runpy.run_path({str(HERE / 'looplike.py')!r})"
    for words in ([python, "app.pyz"], ["env/bin/python", HERE / "looplike.py"], [python, "-I", "-S", "-c", isolated],
                  *embedded(python, isolated)):
        fresh("run.kcap")
        run(KEDGE, "run", "-q", "--sim", "--capture", "run.kcap", "--", *words, PYTHONPATH=LIKE)
        anchors = {(a["name"], a["instance"]) for a in tool_json("report", "run.kcap")["anchors"]}
        check(("step/forward", 2) in anchors, f"{words}: {anchors}")


# Frameworks that are not what was expected.
ODD = {
    "empty": "",
    "other names": "import sys, types\nfor n in ('torch.optim', 'torch.optim.optimizer', 'torch.autograd'):\n"
                "    sys.modules[n] = types.ModuleType(n)\n",
    "other types": "import sys, types\ndef put(name, **members):\n    sys.modules[name] = m = types.ModuleType(name)\n"
                   "    vars(m).update(members)\nput('torch.nn.modules.module', Module=1)\nput('torch.autograd', Variable=len)\n"
                   "put('torch.optim.optimizer', Optimizer={})\nput('torch.utils.data.dataloader', _BaseDataLoaderIter=int)\n"
                   "sys.modules['torch.amp.grad_scaler'] = 7\nis_grad_enabled = None\n",
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


CASES = (a_training_loop_that_says_nothing_has_steps_and_phases, modules_have_their_names,
         a_checkpoint_that_another_thread_computes_again_is_in_the_backward, an_exception_closes_what_it_leaves,
         the_step_after_any_trouble_is_right, steps_of_other_kinds_end_where_they_should,
         a_loop_of_paddles_has_the_same_phases, what_paddle_traces_has_nothing_of_kedge,
         an_optimizer_that_calls_the_model_has_the_phases_in_it, a_step_of_two_optimizers_is_one,
         what_is_asked_stays_as_long_as_it_may_be_asked, r111_asking_objects_runs_none_of_their_code, inference_has_no_steps,
         nothing_happens_where_nobody_wants_it, r111_the_interpreter_is_as_it_was, r111_archives_packages_and_warnings_are_as_without,
         children_of_every_kind_are_watched_too, archives_and_environments_work, a_framework_that_is_another_one_does_no_harm)

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[sys.argv[1]]()
    sys.exit(bool(failures))
