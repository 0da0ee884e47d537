#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The trainers alone on the simulated device: right, and the same whatever order the device runs its streams in.

Every trainer compares its sums with the host's itself and exits 1 on a difference; here the printed checksums are
compared between orders as well, and what else other tests rely on: ledgers, pauses, exit statuses, memory.
"""
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

SOURCE = pathlib.Path(os.environ.get("TEST_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("TEST_BUILD", SOURCE / "build" / "dev"))
SIM = BUILD / "sim"
TRAINERS = BUILD / "trainers"
SANITIZE = os.environ.get("TEST_SANITIZE", "")
SEEDS = range(1, 4 if SANITIZE else 11)
BLOCK = 3538944


def fail(what):
    print(f"FAILED: {what}")
    sys.exit(1)


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def environment(**changes):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KEDGE_", "SIMCUDA_", "LD_PRELOAD", "NVTX_"))}
    env["LD_LIBRARY_PATH"] = str(SIM)
    env.update({k: str(v) for k, v in changes.items()})
    return env


def run(name, *arguments, rc=0, timeout=300, **changes):
    command = [str(TRAINERS / name), *map(str, arguments)]
    done = subprocess.run(command, env=environment(**changes), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=timeout, text=True, errors="replace", check=False)
    if done.returncode != rc:
        print(done.stdout[-4000:])
        fail(f"{name} {' '.join(map(str, arguments))} {changes}: exit {done.returncode}, wanted {rc}")
    return done.stdout


def checksum(output):
    found = re.findall(r"^checksum (0x[0-9a-f]{16})$", output, re.M)
    if len(found) != 1:
        fail(f"{len(found)} checksums in: {output[-1000:]}")
    return found[0]


def ledger(output, name):
    found = re.search(rf"^ledger {name} (.*)$", output, re.M)
    words = found.group(1).split() if found else fail(f"no ledger {name}")
    return {k: int(v) for k, v in zip(words[::2], words[1::2])}


def orders():
    """The device's orders: at once, as late as may be, and at random, up to two steps behind the host."""
    yield {"SIMCUDA_SCHED": "eager"}
    yield {"SIMCUDA_SCHED": "lazy"}
    for seed in SEEDS:
        yield {"SIMCUDA_SCHED": "random", "SIMCUDA_SEED": seed, "SIMCUDA_LAG": seed % 3}


def same_in_every_order(*commands):
    """Every command in every order, and all of them print one checksum."""
    wanted, runs = None, 0
    for order in orders():
        for command in commands:
            got = checksum(run(*command, **order))
            wanted = wanted or got
            runs += 1
            if got != wanted:
                fail(f"{command} {order}: checksum {got}, before it was {wanted}")
    print(f"{runs} runs, all {wanted}")


def sot_small():
    same_in_every_order(*(("sot", "--form", form, "--graph", "small", "--entrance", entrance)
                          for form in ("pt", "pir", "pir-inputs-fixed", "pt-output-cleanup-off")
                          for entrance in ("sync", "stream")))


def sot_full():
    commands = [("sot", "--form", form, "--graph", "full", "--entrance", entrance, "--streams", streams)
                for form, entrance, streams in (("pt", "sync", 1), ("pir", "stream", 4))]
    wanted = None
    for order in ({"SIMCUDA_SCHED": "eager"}, {"SIMCUDA_SCHED": "lazy"},
                  {"SIMCUDA_SCHED": "random", "SIMCUDA_SEED": 5, "SIMCUDA_LAG": 1}):
        for command in commands:
            got = checksum(run(*command, **order))
            wanted = wanted or got
            if got != wanted:
                fail(f"{command} {order}: checksum {got}, before it was {wanted}")


def sot_shapes():
    """What the backward takes of an input that it needs no buffer of changes nothing, unless it reads it."""
    plain = [("sot", "--form", form, "--graph", "shapes", "--backward-takes", takes, "--entrance", entrance, "--streams", streams)
             for form, takes, entrance, streams in (("pir-unused-fixed", "tensor", "sync", 1), ("pir-buffers-fixed", "tensor", "stream", 4),
                                                    ("pir-unused-fixed", "shape", "stream", 1))]
    reads = ("sot", "--form", "pir-unused-fixed", "--graph", "shapes", "--backward-takes", "buffer")
    for commands in (plain, (reads,)):
        got = {checksum(run(*command, SIMCUDA_SCHED=order, SIMCUDA_LAG=1)) for command in commands for order in ("eager", "lazy", "random")}
        if len(got) != 1:
            fail(f"{commands}: checksums {got}")
    if checksum(run(*reads)) == checksum(run(*plain[0])):
        fail("a backward that reads the buffers has the same result")
    run("sot", "--form", "pir-buffers-fixed", "--graph", "shapes", "--backward-takes", "buffer", rc=2)


def streams():
    same_in_every_order(*(("streams", "--entrance", e) for e in ("sync", "stream")))


def loop():
    same_in_every_order(*(("loop", "--steps", 8, "--entrance", e) for e in ("sync", "stream")))


def threads():
    same_in_every_order(*(("threads", "--entrance", e) for e in ("sync", "stream")))


def graphs():
    for entrance in ("sync", "stream"): # the captured step is another one there
        same_in_every_order(("graphs", "--entrance", entrance))


def gemini():
    """Shapes of a step that have nothing to do with each other's results; of each, streams and graphs change nothing."""
    for shape in ((), ("--host-pointers=2", "--table", "host"), ("--states", "--update", "end", "--order", "0 3 1 2 2 1"), ("--host-pointers", "--sizes", "8K 3M 5000000 2M"),
                  ("--update", "none", "--threads", 2, "--device", "0 1")):
        size = () if "--sizes" in shape else ("--units", 4, "--size", "2100000")
        plain = ("gemini", *size, *shape)
        wanted = checksum(run(*plain, SIMCUDA_DEVICES=2))
        for more in (("--streams", 3), ("--graph", "--entrance", "stream"), ("--streams", 2, "--graph")):
            for order in (*orders(), {"SIMCUDA_SCHED": "timed", "SIMCUDA_COMPUTE": "50G"}):
                got = checksum(run(*plain, *more, SIMCUDA_DEVICES=2, **order))
                if got != wanted:
                    fail(f"{plain} {more} {order}: checksum {got}, wanted {wanted}")
        if checksum(run(*plain, "--seed", 2, SIMCUDA_DEVICES=2)) == wanted:
            fail(f"{plain}: the seed changes nothing")


def gemini_needs_all_of_its_units_on_the_device():
    """12 units of 16 MiB and 2 MiB of small blocks of two kinds: they fit, or the program is out of memory and says so in one line."""
    run("gemini", SIMCUDA_MEMORY="196M")
    for entrance in ("sync", "stream"):
        output = run("gemini", "--entrance", entrance, rc=3, SIMCUDA_MEMORY="128M")
        if not re.fullmatch(r"\S+/gemini\.c:\d+: .* cudaErrorMemoryAllocation \(2\): out of memory\n", output):
            fail(f"{entrance}: more than one line, or another one: {output}")


def gemini_times_are_those_of_its_bytes():
    """A use reads its unit, an update reads or writes it once more; heads of 4 KiB come on top. In ns of the device's clock."""
    output = run("gemini", "--units", 3, "--size", "16M", "--order", "0 1 2 0 1", "--steps", 4, SIMCUDA_SCHED="timed",
                 SIMCUDA_COMPUTE="16G", SIMCUDA_BANDWIDTH="8G")
    found = re.search(r"^model 0: reserved (\d+) time (\d+) ns last-step (\d+) ns$", output, re.M)
    units, heads = (5 + 3) * (16 << 20), (5 + 3) * 4096
    wanted = (units + heads) / 2**34 * 1e9
    if not found or abs(int(found[3]) - wanted) > 1e-3 * wanted or abs(int(found[2]) - 4 * wanted) > 4e-3 * wanted:
        fail(f"wanted {wanted} ns a step: {output}")


def driverprog():
    same_in_every_order(*(("driverprog", *gpa, "--entrance", e) for gpa in ((), ("--gpa",)) for e in ("sync", "stream")))


def sot_ledgers_are_the_published_rows():
    """The program's own books of the window, counted while it runs on the device."""
    small = {form: ledger(run("sot", "--form", form, "--graph", "small"), "window") for form in ("pt", "pir")}
    if small["pir"] != {"allocs": 3, "frees": 1, "allocated": 3 * BLOCK, "freed": BLOCK, "live": 2 * BLOCK, "peak": 3 * BLOCK}:
        fail(f"small, pir: {small['pir']}")
    if small["pt"] != {"allocs": 3, "frees": 2, "allocated": 3 * BLOCK, "freed": 2 * BLOCK, "live": BLOCK, "peak": 3 * BLOCK}:
        fail(f"small, pt: {small['pt']}")
    shapes = [ledger(run("sot", "--form", form, "--graph", "shapes"), "whole")["peak"] for form in ("pir-unused-fixed", "pir-buffers-fixed")]
    if [f"{peak / 2**20:.2f}" for peak in shapes] != ["9707.65", "8727.65"] or shapes[0] - shapes[1] != 980 << 20:
        fail(f"shapes: {shapes}")
    for form, counts, peak in (("pt", (2939, 1841), "9.41"), ("pir", (3791, 1942), "13.11"),
                               ("pir-inputs-fixed", (3791, 2201), "11.92"), ("pt-output-cleanup-off", (2939, 1349), "11.92")):
        full = ledger(run("sot", "--form", form, "--graph", "full"), "window")
        got = (full["allocs"], full["frees"]), f"{full['peak'] / 2**30:.2f}"
        if got != (counts, peak):
            fail(f"full, {form}: {got}")


def full_graph_fits_in_2_gib_of_host_memory():
    run("sot", "--form", "pir", "--graph", "full")
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"{used >> 10} MiB")
    if used >= 2 << 20: # KiB
        fail(f"sot needed {used} KiB")


def device_memory_separates_the_forms():
    """Between the two peaks: the good form finishes, the bad one ends in OOM, on both allocation APIs and with late streams."""
    for entrance in ("sync", "stream"):
        for lag in (0, 1):
            late = {"SIMCUDA_MEMORY": "11G", "SIMCUDA_SCHED": "random", "SIMCUDA_SEED": 3, "SIMCUDA_LAG": lag}
            run("sot", "--form", "pt", "--graph", "full", "--entrance", entrance, **late)
            output = run("sot", "--form", "pir", "--graph", "full", "--entrance", entrance, rc=3, **late)
            if "cudaErrorMemoryAllocation" not in output:
                fail(f"no out of memory in {output[-1000:]}")


def late_touch_is_legal_without_hints():
    plain = checksum(run("sot", "--form", "pir", "--graph", "small"))
    for how in ("launch", "copy", "set"):
        touched = run("sot", "--form", "pir", "--graph", "small", f"--touch-released={how}")
        if checksum(touched) != plain:
            fail(f"{how}: the touch changed the result")
    run("sot", "--form", "pt", "--graph", "small", "--touch-released", rc=2)


def wait_for(what, ready):
    deadline = time.monotonic() + 60
    while not ready():
        if time.monotonic() > deadline:
            fail(f"no {what} within a minute")
        time.sleep(0.01)


def paused_trainer_has_books_and_goes_on():
    pathlib.Path("books").unlink(missing_ok=True)
    """--pause-at stands still until SIGUSR1, and the ledger file holds what the program has at that moment."""
    with open("out.txt", "w", encoding="utf-8") as out:
        trainer = subprocess.Popen([str(TRAINERS / "sot"), "--form", "pir", "--graph", "full", "--pause-at", "SOT_CALL_40",
                                    "--log", "--ledger", "books"], env=environment(), stdout=out, stderr=subprocess.STDOUT)
        text = lambda: pathlib.Path("out.txt").read_text(encoding="utf-8")
        wait_for("pause", lambda: "PAUSED" in text() or trainer.poll() is not None)
        books = struct.unpack_from("<6Q", pathlib.Path("books").read_bytes())
        told = re.search(r"^PAUSED SOT_CALL_40 live (\d+)$", text(), re.M)
        if not told or int(told.group(1)) != books[4] or books[2] - books[3] != books[4] or books[4] < 1 << 29:
            fail(f"paused with {told and told.group(0)}, books {books}")
        if "START SOT_CALL_40\n" not in text() or "END SOT_CALL_40" in text() or "END SOT_CALL_39\n" not in text():
            fail("the log is not that of a pause inside SOT_CALL_40")
        trainer.send_signal(signal.SIGUSR1)
        if trainer.wait(timeout=300) != 0:
            fail(f"exit {trainer.returncode} after the pause")
    books = struct.unpack_from("<6Q", pathlib.Path("books").read_bytes())
    if books[0] != books[1] or books[4] != 0:
        fail(f"books at the end: {books}")


def loop_has_books_after_kill_9():
    pathlib.Path("books").unlink(missing_ok=True) # an earlier run's would be taken for this one's
    trainer = subprocess.Popen([str(TRAINERS / "loop"), "--seconds", "100", "--ledger", "books"], env=environment())
    operations = lambda: sum(struct.unpack_from("<2Q", pathlib.Path("books").read_bytes()))
    wait_for("operation", lambda: pathlib.Path("books").exists() and pathlib.Path("books").stat().st_size == 4096
             and operations() > 300)
    trainer.kill()
    trainer.wait()
    allocs, frees, allocated, freed, live, peak = struct.unpack_from("<6Q", pathlib.Path("books").read_bytes())
    print(f"{allocs} allocations, {frees} frees, {live} live, peak {peak}")
    # the counters are written one after the other, the live bytes first, so that a kill may come between them
    largest = 6422528
    if not 0 < live <= peak + largest or abs(allocated - freed - live) > largest or not 0 <= allocs - frees < 40:
        fail("books that do not add up")


def statuses_say_what_happened():
    for arguments in ((), ("--form", "pt"), ("--form", "nothing", "--graph", "small"), ("--form", "pt", "--graph", "huge"),
                      ("--form", "pt", "--graph", "small", "--streams", "0"), ("--form", "pt", "--graph", "small", "more")):
        run("sot", *arguments, rc=2)
    for wrong in ("--units 0", "--size 1", "--size 9001", "--sizes 8K,9K --units 3", "--order 12", "--order ,", "--host-pointers=12",
                  "--update never", "--table x", "--streams 17", "--steps 0", "--threads x", "more"):
        if run("gemini", *wrong.split(" "), rc=2).count("\n") != 1:
            fail(f"gemini {wrong}: more than a line")
    for name in ("loop", "streams", "threads", "graphs", "gemini", "pipeline", "driverprog"):
        run(name, "--entrance", "sideways", rc=2)
        run(name, "--nothing", rc=2)
    output = run("loop", rc=3, SIMCUDA_MEMORY="4M")
    if "cudaErrorMemoryAllocation" not in output or "loop.c:" not in output:
        fail(f"the error does not say what and where: {output}")
    output = run("driverprog", rc=3, SIMCUDA_FAIL="cuLaunchKernel:3:719")
    if "cuLaunchKernel" not in output or "719" not in output:
        fail(f"the error does not say what and where: {output}")


def sabotaged(name, *arguments, how, **order):
    """Runs a trainer with something broken under it; returns whether it noticed by itself."""
    command = [str(TRAINERS / name), *map(str, arguments)]
    done = subprocess.run(command, env=environment(LD_PRELOAD=TRAINERS / "libsaboteur.so", SABOTAGE=how, **order),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    if done.returncode not in (0, 1):
        print(done.stdout[-2000:])
        fail(f"{name}, {how}: exit {done.returncode}")
    return done.returncode == 1 and ("wrong sum" in done.stdout or "stale losses" in done.stdout)


def what_goes_wrong_is_noticed():
    """The trainers' checks are able to fail: memory written behind their back, blocks reused too early, a free that does
    not wait. None of it is told to the oracle."""
    if not sabotaged("sot", "--form", "pir", "--graph", "small", how="scribble"):
        fail("sot does not notice that its output was overwritten")
    if not sabotaged("loop", how="nowait", SIMCUDA_SCHED="lazy"):
        fail("loop does not notice that a loss had not arrived when it read it")
    if not sabotaged("gemini", how="scribble"):
        fail("gemini does not notice that its activation was overwritten")
    late = [{"SIMCUDA_SCHED": "lazy"}] + [{"SIMCUDA_SCHED": "random", "SIMCUDA_SEED": n, "SIMCUDA_LAG": 1} for n in SEEDS]
    for name in ("streams", "threads"):
        noticed = sum(sabotaged(name, how="reuse", **order) for order in late)
        print(f"{name}: reuse without waiting noticed in {noticed} of {len(late)} orders")
        if noticed < len(late) // 2:
            fail(f"{name} hardly notices that blocks are reused while they are in use")


def toolkit():
    for root in filter(None, (os.environ.get("CUDA_HOME"), "/usr/local/cuda")):
        if (pathlib.Path(root) / "include" / "cuda_runtime_api.h").exists():
            return pathlib.Path(root)
    skip("no CUDA toolkit")


def both_header_sets_mean_the_same_functions():
    """Each source, compiled against our headers and the toolkit's, asks for the same symbols."""
    cuda = toolkit()
    here = SOURCE / "tests" / "trainers"
    ours = ["-I", here / "include", "-I", here / "include-nccl"]
    theirs = ["-I", here / "include-real", "-isystem", cuda / "include", "-idirafter", here / "include-nccl"] # or NCCL's own
    common = [os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-c", "-I", SOURCE]
    compared = 0
    for source in sorted(here.glob("*.c")):
        symbols = []
        for headers in (ours, theirs):
            subprocess.run([*map(str, (*common, *headers, source)), "-o", "object.o"], check=True)
            listed = subprocess.run(["nm", "-g", "object.o"], check=True, capture_output=True, text=True).stdout
            symbols.append(sorted(set(re.findall(r"\b((?:cu|cuda|nccl)[A-Z]\w+)$", listed, re.M))))
        if symbols[0] != symbols[1]:
            fail(f"{source.name}: {set(symbols[0]) ^ set(symbols[1])}")
        compared += len(symbols[0])
        print(f"{source.name}: {len(symbols[0])} symbols of CUDA")
    if compared < 30:
        fail("hardly any symbol was compared")


def nvcc_program_runs():
    """What nvcc makes of <<<>>>: registration before main, launches by handle, on the simulated runtime."""
    cuda = toolkit()
    nvcc = cuda / "bin" / "nvcc"
    if not nvcc.exists():
        skip("no nvcc")
    source = SOURCE / "tests" / "trainers" / "nvcc_program.cu"
    for mode in ("legacy", "per-thread"):
        subprocess.run([str(nvcc), "-cudart", "shared", "-arch", "sm_90", f"--default-stream={mode}", "-I", str(SOURCE), "-o",
                        "program", str(source)], check=True, timeout=300)
        done = subprocess.run([str(pathlib.Path("program").resolve())], env=environment(SIMCUDA_SCHED="lazy"),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        print(done.stdout)
        if done.returncode != 0 or "right" not in done.stdout:
            fail(f"{mode}: exit {done.returncode}")


def exports_are_those_of_the_real_runtime():
    real = toolkit() / "lib64" / "libcudart.so.13"
    if not real.exists() or not shutil.which("nm"):
        skip("no libcudart.so.13 of the toolkit")
    names = []
    for library in (real, SIM / "libcudart.so.13"):
        listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True)
        names.append(set(re.findall(r"(\w+)@@libcudart\.so\.13$", listed.stdout, re.M)))
    # What came after this toolkit is refused by name; unit.runtime compares it with the newest package.
    refused = (SOURCE / "tests" / "sim" / "runtime" / "runtime_absent.def").read_text(encoding="utf-8")
    too_many = {n for n in names[1] - names[0] if f"RUNTIME_ABSENT({n})" not in refused}
    if not names[0] or names[0] - names[1] or too_many:
        fail(f"missing: {sorted(names[0] - names[1])}, too many: {sorted(too_many)}")
    print(f"{len(names[0])} names")


def main():
    tests = {f.__name__: f for f in (sot_small, sot_full, sot_shapes, streams, loop, threads, graphs, driverprog,
                                     gemini, gemini_needs_all_of_its_units_on_the_device, gemini_times_are_those_of_its_bytes,
                                     sot_ledgers_are_the_published_rows, full_graph_fits_in_2_gib_of_host_memory,
                                     device_memory_separates_the_forms, late_touch_is_legal_without_hints,
                                     paused_trainer_has_books_and_goes_on, loop_has_books_after_kill_9,
                                     statuses_say_what_happened, what_goes_wrong_is_noticed,
                                     both_header_sets_mean_the_same_functions, nvcc_program_runs,
                                     exports_are_those_of_the_real_runtime)}
    if len(sys.argv) != 2 or sys.argv[1] not in tests:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(tests)}")
    tests[sys.argv[1]]()


if __name__ == "__main__":
    main()
