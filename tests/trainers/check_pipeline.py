#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The trainer `pipeline` alone on the simulated device: 8 stages on cards of 32510 MiB, as in Paddle issue 34230.

Every stage compares all that it receives with the model itself and exits 1 on a difference; here: what is live, how runs end,
and that nothing is left of them.
"""
import collections
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import uuid

SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("TEST_BUILD", SOURCE / "build" / "dev"))
PIPELINE = BUILD / "trainers" / "pipeline"
SANITIZE = os.environ.get("TEST_SANITIZE", "")
STAGES = 8
SEND_MB = 16
ORACLE = 86
Done = collections.namedtuple("Done", "rc text rows checksum left")
Row = collections.namedtuple("Row", "gbs micro_batches card live reserved gradients checksum")


def fail(what):
    print(f"FAILED: {what}")
    sys.exit(1)


def check(right, what):
    if not right:
        fail(what)


def processes_of(mark):
    """[command line] of all processes that have `mark` in their environment."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes() and int(path.name) != os.getpid():
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            pass # ended meanwhile, or another user's
    return found


def environment(mark, **changes):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KEDGE_", "SIMCUDA_", "LD_PRELOAD", "NVTX_", "OMPI_"))}
    env.update(LD_LIBRARY_PATH=str(BUILD / "sim"), SIMCUDA_MEMORY="32510M", PIPELINE_TEST=mark)
    # mpirun wants to be told that root is meant
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    env.update({k: str(v) for k, v in changes.items()})
    return env


def left_behind(mark):
    """Its processes that do not go by themselves: mpirun has sent a signal to those of a job that fails, and does not wait for them."""
    for _ in range(100):
        left = processes_of(mark)
        if not left:
            break
        time.sleep(0.1)
    return left


def run(*arguments, rc=0, launcher=None, **changes):
    mark = uuid.uuid4().hex
    start = launcher or [str(PIPELINE), "--stages", str(STAGES)]
    done = subprocess.run([*start, *map(str, arguments)], env=environment(mark, **changes), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=500, check=False)
    left = left_behind(mark)
    lines = done.stdout.splitlines()
    fields = [line.split(",") for line in lines if line[:1].isdigit() and line.count(",") == 6]
    rows = [Row(*map(int, f[:3]), *map(float, f[3:5]), int(f[5]), f[6]) for f in fields]
    if rc is not None and done.returncode != rc:
        print(done.stdout[-4000:])
        fail(f"{arguments} {changes}: exit {done.returncode}, wanted {rc}")
    if rc == 0:
        check([r.card for r in rows] == list(range(STAGES)), f"{arguments}: no table in {done.stdout[-2000:]}")
        for r in rows: # each stage said the same of itself
            said = (f"stage {r.card}: peak live {r.live:.3f} MiB, peak reserved {r.reserved:.3f} MiB, live gradients {r.gradients}, "
                    f"checksum {r.checksum}")
            check(said in lines, f"no line: {said}")
    check(not left, f"{arguments}: left behind: {left}")
    return Done(done.returncode, done.stdout, rows, next((x for x in lines if x.startswith("checksum ")), None), left)


def mpirun():
    if not shutil.which("mpirun"):
        print("SKIP: no mpirun; tools/setup installs Open MPI's")
        sys.exit(77)
    return ["mpirun", "--oversubscribe", "-np", str(STAGES), str(PIPELINE)]


def empty_folder(name):
    folder = pathlib.Path(name).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def startup(stage):
    return STAGES - stage - 1


# ---- what is live ----

def peak_grows_by_a_gradient_for_each_micro_batch_but_on_stage_0():
    least = run("--micro-batches", 8).rows
    for m in (16, 64, 256):
        for now, before in zip(run("--micro-batches", m).rows, least):
            stage = now.card
            check(now.gbs == 4 * m and now.micro_batches == m, f"{now}")
            check(now.gradients == (m if stage else 0), f"{m} micro-batches, stage {stage}: {now.gradients} gradients")
            grown = (now.live - before.live, now.reserved - before.reserved)
            wanted = (m - 8) * SEND_MB if stage else 0
            # reserved: pools hold chunks of 32 MiB
            check(grown[0] == wanted and abs(grown[1] - wanted) <= 32, f"{m} micro-batches, stage {stage}: {grown}, wanted {wanted}")


def mended_peak_is_the_same_for_all_micro_batches():
    peaks = set()
    for m in (8, 16, 64, 256):
        mended = run("--micro-batches", m, "--mend")
        for row in mended.rows[1:]:
            check(row.gradients == min(m, startup(row.card) + 2), f"{m} micro-batches, stage {row.card}: {row.gradients} gradients")
        check((mended.rows[1].gradients, mended.rows[7].gradients) == (8, 2), f"{mended.rows}")
        peaks.add(tuple((row.live, row.reserved) for row in mended.rows))
        if m < 256:
            check(mended.checksum == run("--micro-batches", m).checksum, f"{m} micro-batches: the mend changed the result")
    check(len(peaks) == 1, f"peaks {peaks}")


def at_768_micro_batches_stage_1_is_out_of_memory_and_the_job_with_it():
    done = run("--micro-batches", 768, rc=3)
    check("pipeline: stage 1 of 8 is out of memory in micro-batch " in done.text, done.text)
    check("cudaErrorMemoryAllocation" in done.text and "pipeline_stage.c:" in done.text, done.text)
    check("pipeline: stage 1 of 8 ended with status 3; the others are stopped" in done.text, done.text)
    check(not done.rows, f"a table though a stage is missing: {done.rows}")
    mended = run("--micro-batches", 768, "--mend").rows
    check(mended[1].gradients == 8 and mended[1].live == run("--micro-batches", 8, "--mend").rows[1].live, f"{mended[1]}")


# ---- results ----

def results_are_the_same_in_every_order():
    orders = [{"SIMCUDA_SCHED": "random", "SIMCUDA_SEED": n, "SIMCUDA_LAG": n % 3} for n in range(1, 6)]
    orders += [{"SIMCUDA_SCHED": "eager"}, {"SIMCUDA_SCHED": "lazy"}]
    if SANITIZE: # each form once: its memory is the same in every order
        orders = orders[:1]
    for recompute in ((), ("--recompute",)):
        sums = {run("--micro-batches", 10, "--steps", 2, "--entrance", entrance, *form, *recompute, **order).checksum
                for entrance in ("sync", "stream") for form in ((), ("--mend",)) for order in orders}
        check(len(sums) == 1 and None not in sums, f"{recompute}: {sums}")


def slow_stage_changes_nothing():
    plain = run("--mend")
    for stage in (0, 3, 7):
        slow = run("--mend", "--delay", f"{stage}:5")
        check(slow.rows == plain.rows, f"stage {stage} is slow: {slow.rows}, else {plain.rows}")


def early_free_is_caught_by_the_device():
    """Outputs that are freed right after their send: their peer has not taken them, and recomputing reads them."""
    for schedule in ("eager", "lazy", "random"):
        for more in ((), ("--recompute",)):
            done = run("--early-free", "--delay", "2:20", *more, rc=ORACLE, SIMCUDA_SCHED=schedule)
            check("ORACLE: kedge_pack" in done.text and "tenant left" in done.text, done.text[-3000:])
            check("ended with status 86; the others are stopped" in done.text, done.text[-1000:])
    # The send is over, and the output is read again all the same.
    done = run("--early-free", "--recompute", rc=None, SIMCUDA_ORACLE="off")
    check(done.rc in (1, 3) and ("wrong sum" in done.text or "IllegalAddress" in done.text), f"{done.rc}: {done.text[-2000:]}")


# ---- how it is started, and how it ends ----

def mpirun_and_forked_ranks_give_one_table():
    launcher = mpirun()
    for form in ((), ("--mend",)):
        forked, launched = (run("--micro-batches", 16, *form, launcher=way) for way in (None, launcher))
        check(launched.rows == forked.rows and launched.checksum == forked.checksum, f"{launched.rows} {forked.rows}")
    done = run("--micro-batches", 768, rc=3, launcher=launcher)
    check("pipeline: stage 1 of 8 is out of memory in micro-batch " in done.text, done.text)
    # Any launcher that says the rank will do.
    folder = empty_folder("two" * 40) # a long path
    ranks = [subprocess.Popen([str(PIPELINE), "--micro-batches", "4"], stdout=subprocess.PIPE, text=True,
                              env=environment("two", SLURM_PROCID=rank, SLURM_NTASKS=2, TMPDIR=folder)) for rank in (0, 1)]
    texts = [r.communicate(timeout=100)[0] for r in ranks]
    check([r.returncode for r in ranks] == [0, 0] and texts[0].count("\n16,4,") == 2, f"{texts}")
    check(not list(folder.iterdir()), f"left behind: {list(folder.iterdir())}")


def nothing_is_left_of_a_program_that_is_killed():
    folder = empty_folder("killed")
    for number in (signal.SIGKILL, signal.SIGTERM):
        mark = uuid.uuid4().hex
        job = subprocess.Popen([str(PIPELINE), "--stages", "8", "--delay", "4:60000"], env=environment(mark, TMPDIR=folder),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while (len(processes_of(mark)) < STAGES + 1 or list(folder.iterdir())) and time.monotonic() < until:
            time.sleep(0.05)
        job.send_signal(number)
        job.wait(timeout=60)
        while processes_of(mark) and time.monotonic() < until:
            time.sleep(0.05)
        check(not processes_of(mark), f"after signal {number}: {processes_of(mark)}")
        check(not list(folder.iterdir()), f"after signal {number}: {list(folder.iterdir())}")
        check(number == signal.SIGKILL or job.returncode == 128 + signal.SIGTERM, f"exit {job.returncode}")


def statuses_say_what_happened():
    for arguments in (("--micro-batches", 7), ("--stages", 1), ("--stages", 99), ("--send-bytes", 6), ("--send-bytes", "1T"),
                      ("--delay", 3), ("--delay", "3:0"), ("--entrance", "sideways"), ("--nothing",), ("more",),
                      ("--early-free", "--entrance", "sync"), ("--base-bytes", "16M")):
        run(*arguments, rc=2)
    check("2.00 MiB asked for" in run("--send-bytes", "2M", "--base-bytes", "4M", "--micro-batches", 64, rc=3, SIMCUDA_MEMORY="96M").text,
          "the sizes are not those that were asked for")


def main():
    tests = {f.__name__: f for f in (peak_grows_by_a_gradient_for_each_micro_batch_but_on_stage_0,
                                     mended_peak_is_the_same_for_all_micro_batches,
                                     at_768_micro_batches_stage_1_is_out_of_memory_and_the_job_with_it,
                                     results_are_the_same_in_every_order, slow_stage_changes_nothing,
                                     early_free_is_caught_by_the_device, mpirun_and_forked_ranks_give_one_table,
                                     nothing_is_left_of_a_program_that_is_killed, statuses_say_what_happened)}
    if len(sys.argv) != 2 or sys.argv[1] not in tests:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(tests)}")
    tests[sys.argv[1]]()


if __name__ == "__main__":
    main()
