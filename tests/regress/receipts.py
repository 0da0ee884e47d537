#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# covers: evidence.c proof.c
"""What `kedge verify` learns of a hint and live obeys: launches that carry its address inside a larger parameter (R86)."""
import os
import pathlib
import re
import shutil

from regresskit import BUILD, KEDGE, SIM, SOURCE, check, kedge_run, main, run, same, tool, tool_json

PROGRAM = BUILD / "tests" / "regress" / "carry_program"
BYTES = 8 << 20
HINTS = f"""kedge-hints: 1
hints:
  - {{id: input, do: release, pick: {{size: {BYTES}, inside: "PHASE_*"}}, when: {{anchor: "PHASE_*", edge: exit}}}}
"""


def verify(*arguments, rc=0):
    return run(KEDGE, "verify", "--sim", "--hints", "hints.yaml", "--", PROGRAM, *arguments, rc=rc).stdout


def live(name):
    kedge_run(PROGRAM, capture=name, KEDGE_HINTS="hints.yaml", KEDGE_HINTS_MODE="live")
    report = tool_json("report", name)
    return report["hinted_freed_bytes"], [(h["do"], h["mode"], h["carried"], h["late_touches"]) for h in report["hints"]]


def r86_what_launches_carry_inside_is_keep_meta_by_the_receipt():
    pathlib.Path("hints.yaml").write_text(HINTS, encoding="utf-8")
    said = verify()
    check("hint input: launches carry its address inside a larger parameter; it is keep-meta by the receipt" in said, said[-500:])
    check("1 hint verified" in said, said[-500:])
    receipt = pathlib.Path("hints.yaml.receipt").read_text(encoding="utf-8")
    check("\nshadow clean 1\npoison clean 1\ntrap clean 1 " in receipt and receipt.endswith("\nkeep-meta input\n"), receipt)
    same("live", live("live.kcap"), (BYTES, [("keep-meta", "live", 1, 0)]))
    text = " ".join(tool("report", "live.kcap", "--all").split())
    for line in ("hint input is keep-meta by the receipt: launches carry its address inside a larger parameter",
                 "hint input: launches carried its address at 1 place, which keep-meta allows"):
        check(line in text, f"the report does not say: {line}")
    kedge_run(PROGRAM, capture="shadow.kcap", KEDGE_HINTS="hints.yaml")
    check("`kedge verify` makes it keep-meta" in tool("report", "shadow.kcap", "--all"), "the report of the shadow run does not say it")


def what_poison_did_not_check_is_said():
    """Late writes are found when the program frees the memory, which this one never does."""
    pathlib.Path("hints.yaml").write_text(HINTS, encoding="utf-8")
    line = "kedge verify: hint input: 1 of 1 blocks were not checked for late writes\nkedge verify: 1 hint verified"
    said = verify(0, "keep")
    check(line in said, said[-500:])


def r86_what_is_written_there_is_not_verified():
    """The trap run lets the launch through, and the device stops the kernel. No receipt of before is left."""
    pathlib.Path("hints.yaml").write_text(HINTS, encoding="utf-8")
    verify()
    said = verify(64, rc=1)
    check("not verified: hint input: trap: the program ended with exit code 1" in said, said[-500:])
    check(not pathlib.Path("hints.yaml.receipt").exists(), "an old receipt is left")
    same("live", live("live.kcap"), (0, [("release", "shadow", 1, 0)]))


# ---- what a receipt is for -----------------------------------------------------------------------

TRAIN = """\
import ctypes, os, sys
import net.model
import loss
relay = ctypes.CDLL(os.path.abspath("librelay.so"))
rt = ctypes.CDLL("libcudart.so.12")
me = ctypes.CDLL(None)
alloc = ctypes.cast(rt.cudaMalloc, ctypes.c_void_p)
steps = int(sys.argv[1])
def malloc():
    p = ctypes.c_void_p()
    assert relay.relay_alloc(alloc, ctypes.byref(p), ctypes.c_size_t(4 << 20)) == 0
    return p
for i in range(steps):
    me.kedge_push(b"step"); me.kedge_push(b"forward")
    x = net.model.scratch(malloc)
    rt.cudaMemset(x, 1, ctypes.c_size_t(4 << 20))
    me.kedge_pop()
    rt.cudaDeviceSynchronize(); rt.cudaFree(x)
    me.kedge_pop()
print("trained")
"""
MODEL = "def scratch(malloc):\n    return malloc()\n"
SCRIPT_HINTS = """kedge-hints: 1
program: {argv: "*train.py*"}
hints:
  - {id: scratch, do: release, pick: {site: ["p:model.py:scratch"], inside: "step/forward"}, when: {anchor: "step/forward", edge: exit}}
"""
HERE = pathlib.Path("job")


def make_job():
    """A folder with a script, a package, a library, hints and data."""
    shutil.rmtree(HERE, ignore_errors=True)
    for package, version in (("net", "1.0"), ("other/net", "2.0")):
        (HERE / package).mkdir(parents=True)
        (HERE / package / "__init__.py").write_text("", encoding="utf-8")
        (HERE / package / "version.py").write_text(f"__version__ = '{version}'\n", encoding="utf-8")
        (HERE / package / "model.py").write_text(MODEL, encoding="utf-8")
    (HERE / "train.py").write_text(TRAIN, encoding="utf-8")
    (HERE / "loss.py").write_text("pass\n", encoding="utf-8")
    (HERE / "data").write_text("1", encoding="utf-8")
    (HERE / "hints.yaml").write_text(SCRIPT_HINTS, encoding="utf-8")
    shutil.copy(BUILD / "tests" / "regress" / "librelay.so", HERE / "librelay.so")


def job(*command, what="run", rc=0, **env):
    """kedge WHAT in the folder."""
    options = ("-q", "--hints-mode", "live") if what == "run" else ()
    return run("env", "-C", HERE, KEDGE, what, *options, "--sim", "--hints", "hints.yaml", "--", *command, rc=rc,
               PYTHONDONTWRITEBYTECODE=1, KEDGE_TRACE="off" if what == "run" else None, **env).stdout


def edit(name, old, new):
    path = HERE / name
    text = path.read_text(encoding="utf-8")
    check(old in text, f"{name} has no {old!r}: {text}")
    path.write_text(text.replace(old, new), encoding="utf-8")


def move_script():
    shutil.copy(HERE / "train.py", HERE / "other" / "train.py")
    return ("python3", "other/train.py", "3"), {"PYTHONPATH": "."}


def rebuild_library():
    shutil.copy(BUILD / "tests" / "regress" / "librelay_rebuilt.so", HERE / "new.so")
    (HERE / "new.so").rename(HERE / "librelay.so")


SAME = ("python3", "train.py", "3")
# What is changed, the command and the environment then (None: as before), and what is said of it where it is refused.
CHANGES = {
    "script edited": (lambda: edit("train.py", "trained", "done"), "train.py was changed since"),
    "script moved": (move_script, "the script is "),
    "module of a hinted site edited": (lambda: edit("net/model.py", "return", "return #"), "net/model.py was changed since"),
    "another module of its own edited": (lambda: edit("loss.py", "pass", "pass # 2"), "loss.py was changed since"),
    "argument, a number": (lambda: (("python3", "train.py", "5"), {}), None),
    "argument, any other": (lambda: (("python3", "train.py", "3", "--fast"), {}), "the command is "),
    "option of the interpreter": (lambda: (("python3", "-O", "train.py", "3"), {}), "the command is "),
    "library of a hinted site rebuilt": (rebuild_library, "librelay.so is of another build"),
    "another driver": (lambda: edit("hints.yaml.receipt", "driver 13.0", "driver 12.8"),
                       "the driver is 13.0, and 12.8 was verified"),
    "another build of kedge": (lambda: edit("hints.yaml.receipt", "kedge 0", "kedge 9"), "the kedge is "),
    "another version of a package": (lambda: edit("net/version.py", "1.0", "1.1"),
                                     "net/version.py says version 1.1, and 1.0 was verified"),
    "package in another folder": (lambda: (SAME, {"PYTHONPATH": "other"}), "the variables are "),
    "package found elsewhere by the script": (lambda: (SAME, {}), "which the receipt does not name"),
    "another rank": (lambda: (SAME, {"RANK": "3"}), "the rank is 3, and - was verified"),
    "hint file touched": (lambda: os.utime(HERE / "hints.yaml"), None),
    "hint file edited": (lambda: edit("hints.yaml", "scratch,", "scratch2,"), "the hints were changed since they were verified"),
    "variable that moves allocations": (lambda: (SAME, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}), "the variables are "),
    "any other variable": (lambda: (SAME, {"LANG": "C", "SEED": "2"}), None),
    "input, data": (lambda: edit("data", "1", "2"), None),
}
GPU = "Simulated device 0 GPU-73696d75-6c61-7465-642d-6465762d3030"
# The same with the receipt of a run on a GPU.
GPU_CHANGES = {
    "GPU of another name": (lambda: edit("hints.yaml.receipt", GPU, GPU.replace("0 GPU", "1 GPU")),
                            "this is Simulated device 0 GPU-73696d75"),
    "another GPU of the same name": (lambda: edit("hints.yaml.receipt", "GPU-73", "GPU-99"), None),
    "GPU, then simulated": (lambda: (SAME, {"KEDGE_SIM": SIM}), "this is the simulated device, and Simulated device 0 GPU-"),
}


def make_gpu():
    """The simulated device without what it is known by stands for a real one."""
    shutil.copytree(SIM, "gpu")
    library = pathlib.Path("gpu", "libcuda.so.1")
    real = library.resolve()
    image = real.read_bytes()
    library.unlink()
    library.write_bytes(image.replace(b"simcuda_stats", b"nocuda__stats"))
    library.chmod(0o755)
    return pathlib.Path("gpu").resolve()


def listed():
    """The table of kedge-verify(1): the change, and whether it is refused."""
    page = (SOURCE / "tools" / "man" / "kedge-verify.1").read_text(encoding="utf-8")
    table = page.split(".SH RECEIPT", 1)[1].split(".nf\n", 1)[1].split(".fi\n", 1)[0]
    return dict(re.match(r"(\S.*?)  +(refused|accepted)", line).groups() for line in table.splitlines() if not line.startswith(" "))


def r108_a_receipt_is_refused_after_the_changes_that_the_man_page_lists():
    make_job()
    elsewhere = "package found elsewhere by the script"
    edit("train.py", "import net.model", "if os.path.exists('use-other'): sys.path.insert(0, 'other')\nimport net.model")
    job(*SAME, what="verify")
    shutil.copytree(HERE, "before")
    gpu = make_gpu()
    found = {}
    changes = {**CHANGES, "simulated, then a GPU": (lambda: (SAME, {"KEDGE_SIM": gpu}), "permits a trap run on a GPU"),
               **GPU_CHANGES}
    for name, (change, why) in changes.items():
        if found and list(found)[-1] == "simulated, then a GPU":
            job(*SAME, what="verify", KEDGE_SIM=gpu)
            check(f"\ndevice {GPU}\n" in (HERE / "hints.yaml.receipt").read_text(encoding="utf-8"), "the receipt names no GPU")
            shutil.rmtree("before")
            shutil.copytree(HERE, "before")
        shutil.rmtree(HERE)
        shutil.copytree("before", HERE)
        if name == elsewhere:
            (HERE / "use-other").touch()
        command, env = change() or (SAME, {})
        said = job(*command, **{"KEDGE_SIM": gpu if name in GPU_CHANGES else None, **env})
        refused = "hints stay in shadow" in said or "release and evict nothing more" in said
        found[name] = "refused" if refused else "accepted"
        check("trained" in said or "done" in said, f"{name}: the program did not run: {said}")
        check((why or "") in said and refused == (why is not None), f"{name}: {said}")
        print(f"{name}: {found[name]}: {said.strip().splitlines()[0][-150:] if refused else ''}")
    for folder in ("before", "gpu", HERE):
        shutil.rmtree(folder)
    same("the table of kedge-verify(1)", listed(), found)


def r108_a_script_that_cannot_be_named_gets_no_receipt():
    make_job()
    edit("hints.yaml", "*train.py*", "*python*")
    said = job("sh", "-c", "python3 - 3 < train.py", what="verify", rc=1)
    check("not verified: the script came through standard input" in said, said[-300:])
    said = job("bash", "-c", "python3 <(cat train.py) 3", what="verify", rc=1, PYTHONPATH=".")
    check("cannot be read as a file" in said, said[-300:])
    shutil.rmtree(HERE)


def r108_children_are_covered_by_the_receipt():
    """Python's own children have numbers of descriptors in their command, which are others in each run."""
    make_job()
    edit("hints.yaml", "*train.py*", "*spawn_main*")
    edit("train.py", "import net.model", """import net.model
if __name__ == "__main__":
    import multiprocessing, subprocess
    for i in range(int(sys.argv[2])): os.open("/dev/null", os.O_RDONLY)
    multiprocessing.get_context("spawn").Process(target=print).start()
    sys.exit()
""")
    job("python3", "train.py", "3", "0", what="verify")
    said = job("python3", "train.py", "3", "5")
    check("trained" in said and "shadow" not in said, said)
    shutil.rmtree(HERE)


if __name__ == "__main__":
    main(r86_what_launches_carry_inside_is_keep_meta_by_the_receipt, what_poison_did_not_check_is_said,
         r86_what_is_written_there_is_not_verified, r108_a_receipt_is_refused_after_the_changes_that_the_man_page_lists,
         r108_a_script_that_cannot_be_named_gets_no_receipt, r108_children_are_covered_by_the_receipt)
