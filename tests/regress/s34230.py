#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Paddle issue 34230 from outside: 8 stages that keep what they send until the update, with hints and without.

The published table is of cards of 32510 MiB: the peak of the stages 1 to 7 grows with the micro-batches, and 768 are out of memory.
Here each row comes from `kedge ranks`, by the captures of all ranks. The program is the trainer `pipeline` without its mend.
"""
import pathlib
import re
import shutil

from regresskit import BUILD, KEDGE, bare, check, checksum, data, kedge_run, main, run, same, skip, tool, tool_json

PIPELINE = BUILD / "trainers" / "pipeline"
STAGES = 8
SEND = 16 << 20
SUMS = 40 # bytes that the trainer keeps of each micro-batch, to compare its results
CARD = {"SIMCUDA_MEMORY": "32510M", "OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1}
SHORT = (8, 16, 64)
LONG = (*SHORT, 256, 512)
GRADIENTS = """kedge-hints: 1
program: {{argv: "*trainers/pipeline*"}}
events:
  forward-recv: {{call: ncclRecv, inside: "*/forward"}}
hints:
  - id: sent-gradient
    do: release
    pick: {{size: 16MiB, inside: "*/backward", used-by: {{call: ncclSend, arg: sendbuff, inside: "*/backward"}}}}
    when: {{event: forward-recv, count: {count}, from: use}}
    else: {{anchor: "*/update", edge: exit}}
    expect: {{count: 1..8, bytes: 16MiB..128MiB}}
    wait: {wait}
    proof: the stage before has sent that input after it had received the gradient
"""
OUTPUTS = """kedge-hints: 1
hints:
  - id: sent-output
    do: {do}
    pick: {{size: 16MiB, inside: "*/forward", used-by: {{call: ncclSend, arg: sendbuff, inside: "*/forward"}}}}
    when: {when}
    else: {{anchor: "*/update", edge: exit}}
"""
# A stage has up to 8 forwards before the backward of the first of them.
AFTER_ITS_BACKWARD = '{event: {mark: "*/backward", edge: exit}, count: 8, from: free}'
AT_ONCE = '{anchor: "*/forward", edge: exit}'


def program(micro_batches, *options):
    return (PIPELINE, "--stages", STAGES, "--micro-batches", micro_batches, *options)


def startup(stage):
    return STAGES - stage - 1


def write_hints(form=GRADIENTS, **words):
    path = pathlib.Path("hints.yaml")
    path.write_text(form.format(**{"count": 2, "wait": "all-streams"} | words), encoding="utf-8")
    path.chmod(0o644)


def captured(name, *command, rc=0, mode=None, **changes):
    """One run; its output, and the row of each rank."""
    hints = {"KEDGE_HINTS": "hints.yaml", "KEDGE_HINTS_MODE": mode} if mode else {}
    done = kedge_run(*command, capture=f"{name}.kcap", rc=rc, KEDGE_TRACE="full", **hints, **CARD, **changes)
    rows = tool_json("ranks", *sorted(pathlib.Path().glob(f"{name}.kcap*")))["ranks"]
    same(f"{name}: ranks", [r["rank"] for r in rows], [str(stage) for stage in range(STAGES)])
    return done, rows


def without_hints(micro_batches):
    """The rows of a run, and its checksum."""
    done, rows = captured(f"plain-{micro_batches}", *program(micro_batches))
    return rows, checksum(done.stdout)


def grows(all_runs):
    """By one tensor for each micro-batch, on all stages that send backward."""
    least = min(all_runs)
    for m, (rows, _) in all_runs.items():
        for stage, row in enumerate(rows):
            more = row["peak_live_bytes"] - all_runs[least][0][stage]["peak_live_bytes"]
            each = SEND + SUMS if stage else SUMS
            same(f"{m} micro-batches, stage {stage}: more than with {least}", more, (m - least) * each)


def runs_out(name, rows, text):
    """Stage 1 alone has no memory left, and nobody else comes to the end."""
    check("pipeline: stage 1 of 8 is out of memory in micro-batch " in text, f"{name}: {text[-2000:]}")
    same(f"{name}: failed allocations", [r["oom_count"] > 0 for r in rows], [stage == 1 for stage in range(STAGES)])
    check("after running out of memory" in rows[1]["ended"], f"{name}: stage 1 {rows[1]['ended']}")
    same(f"{name}: came to the end", [r["ended"] for r in rows if r["ended"] == "exited with status 0"], [])


# ---- with hints ----

def is_flat(all_runs, plain):
    """Live send buffers are those that the mend of #34230 keeps; the peak is one for all micro-batches; nothing else changes."""
    _, mended = captured("mended-16", *program(16, "--mend"))
    for m, (rows, sum_of_all) in all_runs.items():
        same(f"{m} micro-batches: checksum", sum_of_all, plain[m][1])
        for stage, row in enumerate(rows):
            what = f"{m} micro-batches, stage {stage}"
            hint = row["hints"][0]
            same(f"{what}: mode", (row["hints_mode"], hint["mode"]), ("live", "live"))
            same(f"{what}: the program's own peak", row["peak_live_bytes"], plain[m][0][stage]["peak_live_bytes"])
            same(f"{what}: live send buffers", (hint["peak_live_count"], hint["peak_with_hints_count"]),
                 (m, min(m, startup(stage) + 2)) if stage else (0, 0))
            # The host is at most 16 backwards ahead, each with up to three tensors whose storage the device still needs.
            check(row["peak_reserved_bytes"] < row["peak_with_hints_bytes"] + 3 * 2 * STAGES * SEND,
                  f"{what}: {row['peak_reserved_bytes']} bytes held for {row['peak_with_hints_bytes']}")
            same(f"{what}: peak", row["peak_with_hints_bytes"] - SUMS * m, mended[stage]["peak_live_bytes"] - SUMS * 16)


def verify(*command, rc=0, **changes):
    return run(KEDGE, "verify", "--sim", "--hints", "hints.yaml", "--", *command, rc=rc, **CARD, **changes).stdout


def with_hints(micro_batches):
    done, rows = captured(f"hinted-{micro_batches}", *program(micro_batches), mode="live")
    return rows, checksum(done.stdout)


def with_hints_the_peak_is_the_same_for_all_micro_batches():
    write_hints()
    tool("hints", "lint", "--strict", "hints.yaml") # a reviewer has nothing to ask
    verify(*program(10))
    is_flat({m: with_hints(m) for m in SHORT}, {m: without_hints(m) for m in SHORT})


def with_hints_what_is_held_is_the_same_where_frees_wait():
    """cudaFree waits for the device, so nothing is on its way out of it: peak reserved is one for all micro-batches, too."""
    write_hints()
    verify(*program(10, "--entrance", "sync"))
    held = {}
    for m in (16, 64, 100):
        done, rows = captured(f"sync-{m}", *program(m, "--entrance", "sync"), mode="live")
        same(f"{m} micro-batches: checksum", checksum(done.stdout), checksum(bare(*program(m), **CARD).stdout))
        held[m] = [(row["peak_reserved_bytes"], [h["peak_with_hints_count"] for h in row["hints"]]) for row in rows]
        same(f"{m} micro-batches: held, live send buffers", held[m], held[16])


def ranks_of_mpirun_have_the_table_of_forked_ones():
    if not shutil.which("mpirun"):
        skip("no mpirun; tools/setup installs Open MPI's")
    launched = ("mpirun", "--oversubscribe", "-np", STAGES, PIPELINE, "--micro-batches", 16)
    write_hints()
    tables = {}
    for name, command in (("mpirun", launched), ("forked", program(16))):
        verify(*command)
        done, rows = captured(name, *command, mode="live")
        tables[name] = checksum(done.stdout), [(r["rank"], r["peak_live_bytes"], r["peak_with_hints_bytes"], r["hints"]) for r in rows]
        same(f"{name}: live send buffers of stage 1 and 7", [rows[s]["hints"][0]["peak_with_hints_count"] for s in (1, 7)], [8, 2])
    same("mpirun and forked ranks", tables["mpirun"], tables["forked"])


def suggested(*captures):
    """What suggest says of them; the file is hints.yaml."""
    j = tool_json("suggest", *captures, "-o", "hints.yaml", "--force")
    sent = j["hints"][0]
    same("hint", (sent["id"], sent["inside"], sent["when"], sent["receives"], sent["else"]),
         ("alloc-gradient", "step/*/backward", "step/*/forward", 2, "step/*/update"))
    same("piles up", j["piled_up"], {"count": 16, "bytes": 16 * SEND})
    text = pathlib.Path("hints.yaml").read_text(encoding="utf-8")
    check("    mode: trap\n" in text and '    proof: "to be answered: when the 2nd ncclRecv in step/*/forward after the send is over, '
          'why has the peer read the whole buffer?"\n' in text, text)
    check("the hint releases each at the 2nd ncclRecv in step/*/forward after the send, else at the exit of step/*/update" in text, text)
    return j, text


def suggest_finds_the_hint_in_the_captures_of_all_ranks():
    """Untouched. Of stage 1 alone there is one more, for its outputs: verify says that it is wrong, the last stage's capture that it would be."""
    captured("found", *program(16))
    j, text = suggested("found.kcap.1")
    same("stage 1 alone: lowers the peak by", j["hints"][0]["saves_bytes"], (16 - (startup(1) + 2)) * SEND)
    same("stage 1 alone: hints", [h["id"] for h in j["hints"]], ["alloc-gradient", "alloc-output"])
    check("# made from the capture of rank 1 alone: " in text, text)
    check("hint alloc-output: shadow: its storage is used after" in run(
        KEDGE, "verify", "--sim", "--hints", "hints.yaml", "--", *program(10), rc=1, **CARD).stdout, "verify lets the outputs pass")
    found = sorted(pathlib.Path().glob("found.kcap*"))
    j, text = suggested(*found)
    same("hints", [h["id"] for h in j["hints"]], ["alloc-gradient"])
    check("# made from the capture of rank 7; no hint takes what 7 other ranks may still use\n" in text, text)
    said = tool("suggest", *found, "-o", "hints.yaml", "--force")
    check("\nwritten to hints.yaml; next: kedge verify " in said, f"its one hint is in mode trap, and suggest says: {said[-300:]}")
    same("lowers the peak of stage 7 by", j["hints"][0]["saves_bytes"], (16 - (startup(7) + 2)) * SEND)
    verify(*program(10))
    is_flat({m: with_hints(m) for m in (8, 16)}, {m: without_hints(m) for m in (8, 16)}) # in mode trap 64 take 24 s


# ---- wrong hints ----

def a_count_of_1_is_stopped_where_storage_waits_for_the_receive_alone():
    """The first receive proves nothing: the stage before has sent that input and then stands still, with our gradient not yet read."""
    slow = program(24, "--delay", "3:5") # hosts are 16 backwards ahead; then there are 8 such moments
    right = checksum(bare(*slow, **CARD).stdout)
    write_hints(count=1, wait="event")
    done, _ = captured("one", *slow, mode="trap", rc=3, SIMCUDA_SCHED="lazy")
    check("illegal address" in done.stdout and "read by kedge_pack" in done.stdout, f"no late send: {done.stdout[-2000:]}")
    said = verify(*slow, rc=1, SIMCUDA_SCHED="lazy")
    check(re.search("not verified: (poison|trap): the program ended with exit code [13]", said), said[-500:])
    # A device that has sent in time by chance has read what is there.
    for seed in (1, 2):
        done, _ = captured(f"random-{seed}", *slow, mode="trap", rc=None, SIMCUDA_SCHED="random", SIMCUDA_SEED=seed)
        check(done.returncode == 3 or checksum(done.stdout) == right, f"seed {seed}: exit {done.returncode}: {done.stdout[-2000:]}")
    write_hints(count=2, wait="event") # which is right
    verify(*slow, SIMCUDA_SCHED="lazy")
    done, rows = captured("live", *slow, mode="live", SIMCUDA_SCHED="lazy")
    same("count 2, live: checksum", checksum(done.stdout), right)
    same("count 2, live: live send buffers of stage 1", rows[1]["hints"][0]["peak_with_hints_count"], 8)


def a_count_of_1_is_harmless_under_all_streams():
    slow = program(28, "--delay", "3:20")
    right = checksum(bare(*slow, **CARD).stdout)
    write_hints(count=1)
    verify(*slow)
    for mode in ("trap", "live"):
        done, _ = captured(mode, *slow, mode=mode)
        same(f"{mode}: checksum", checksum(done.stdout), right)


def an_output_that_goes_at_once_is_caught():
    """#34214: recomputing reads an output again that was sent, long after its send is over."""
    write_hints(OUTPUTS, do="release", when=AT_ONCE)
    again = program(16, "--recompute")
    done, _ = captured("released", *again, mode="trap", rc=None)
    check(done.returncode != 0 and "hint sent-output: " in done.stdout, f"exit {done.returncode}: {done.stdout[-2000:]}")
    check("hint sent-output: " in verify(*again, rc=1), "verify does not name the hint")
    verify(*program(16)) # which does not read it again


def outputs_that_the_program_frees_at_once_are_held():
    """#34214 itself: the program frees what it has only begun to send and, recomputing, reads again. Held, its results are right."""
    early = program(16, "--early-free", "--recompute")
    right = checksum(bare(*program(16, "--recompute"), **CARD).stdout)
    done, _ = captured("early", *early, rc=None)
    check(done.returncode != 0 and "\nchecksum 0x" not in done.stdout, "the early free did no harm: nothing is shown")
    write_hints(OUTPUTS, do="hold", when=AFTER_ITS_BACKWARD)
    said = verify(*early) # which is right only as long as it is held: it is, in all three runs
    check(re.search(r"1 hint verified, \d+ holds, ", said), f"verify says: {said[-300:]}")
    for mode, order in (("trap", "eager"), ("live", "eager"), ("live", "lazy")):
        pathlib.Path("hints.yaml.receipt").unlink(missing_ok=True) # a hold needs none
        done, rows = captured(f"held-{mode}-{order}", *early, mode=mode, SIMCUDA_SCHED=order)
        same(f"{mode}, {order}: checksum", checksum(done.stdout), right)
    # Nothing is held for ever: as much is live with 64 micro-batches, but the gradients, which the program keeps.
    done, more = captured("held-64", *program(64, "--early-free", "--recompute"), mode="live")
    for stage in range(STAGES):
        grown = more[stage]["peak_live_bytes"] - rows[stage]["peak_live_bytes"]
        same(f"stage {stage}: more with 64 micro-batches", grown, 48 * (SEND + SUMS) if stage else 48 * SUMS)


# ---- the published table ----

def mib(rows, stage, key):
    return rows[stage][key] / 2**20


def rows_are_those_of_the_seed(plain, hinted):
    """What is out of memory there is out of memory here, and what does not change there does not change here."""
    for seed in data("s34230.csv"):
        m, card = int(seed["micro_batches"]), int(seed["card"])
        has_ended = m in plain # else stage 1 ended, and with it the job
        same(f"{m} micro-batches, card {card}: out of memory", not has_ended, seed["develop_mb"] == "OOM")
        develop = f"{mib(plain[m][0], card, 'peak_live_bytes'):.0f}" if has_ended else "OOM"
        peak = mib(hinted[m][0], card, "peak_with_hints_bytes")
        if seed["pr_mb"] == "unchanged":
            same(f"{m} micro-batches, card {card}: unchanged", round(peak), round(mib(hinted[16][0], card, "peak_with_hints_bytes")))
        delta = f"{peak - float(develop):.0f}" if has_ended else ""
        print(f"{m * 4},{m},{card},{develop},{peak:.0f},{delta}   there {seed['develop_mb']},{seed['pr_mb']},{seed['delta_mb']}")


def the_published_table_is_had_from_all_ranks():
    write_hints()
    verify(*program(10))
    hinted = {m: with_hints(m) for m in (*LONG, 768)}
    plain = {m: without_hints(m) for m in LONG}
    grows(plain)
    rows_are_those_of_the_seed(plain, hinted)
    is_flat({m: hinted[m] for m in LONG}, plain)
    rows, _ = hinted[768]
    same("768: live send buffers of stage 1 and 7", [rows[s]["hints"][0]["peak_with_hints_count"] for s in (1, 7)], [8, 2])
    for stage, row in enumerate(rows):
        same(f"768: peak of stage {stage}", row["peak_with_hints_bytes"] - SUMS * 768, hinted[8][0][stage]["peak_with_hints_bytes"] - SUMS * 8)
    check(rows[1]["peak_live_bytes"] > 32510 << 20, "768 fit into the card without hints")
    print(tool("ranks", *sorted(pathlib.Path().glob("hinted-768.kcap*"))))


def without_hints_the_peak_grows_and_768_are_out_of_memory():
    grows({m: without_hints(m) for m in SHORT})
    done, rows = captured("plain-768", *program(768), rc=3)
    runs_out("768 micro-batches", rows, done.stdout)


if __name__ == "__main__":
    main(without_hints_the_peak_grows_and_768_are_out_of_memory, with_hints_the_peak_is_the_same_for_all_micro_batches,
         with_hints_what_is_held_is_the_same_where_frees_wait,
         suggest_finds_the_hint_in_the_captures_of_all_ranks, ranks_of_mpirun_have_the_table_of_forked_ones,
         a_count_of_1_is_stopped_where_storage_waits_for_the_receive_alone, a_count_of_1_is_harmless_under_all_streams, an_output_that_goes_at_once_is_caught, outputs_that_the_program_frees_at_once_are_held,
         the_published_table_is_had_from_all_ranks)
