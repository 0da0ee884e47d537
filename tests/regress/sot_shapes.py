#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Paddle pull request 69043: inputs of which the backward wants the shape alone, and whose buffers are held until then."""
import pathlib
import re

from regresskit import KEDGE, SOT, bare, check, checksum, data, expect_ledger, kedge_run, ledger, main, run, same, tool, tool_json

SAVED = 980 << 20 # 20 inputs of 24.5, 49 and 98 MiB
COUNT = 20
GRANULE = 2 << 20
HELD, DROPPED = "pir-unused-fixed", "pir-buffers-fixed"
# Between both peaks.
TIGHT = "9900M"


def sot(form, takes="shape"):
    return SOT, "--graph", "shapes", "--form", form, "--backward-takes", takes


def capture(form, name, takes="shape", **env):
    return kedge_run(*sot(form, takes), capture=f"{name}.kcap", **env)


def suggest():
    """The hints of both forms; returns what suggest says and the checksum without hints."""
    plain = checksum(capture(HELD, "held").stdout)
    same("checksum of the other form", checksum(capture(DROPPED, "dropped").stdout), plain)
    return tool_json("suggest", "--good", "dropped.kcap", "--bad", "held.kcap", "-o", "hints.yaml", "--force"), plain


def keep_meta():
    """As suggest writes them, but for kernels that are given the address and read nothing."""
    path = pathlib.Path("hints.yaml")
    text = path.read_text(encoding="utf-8")
    same("releases to be made keep-meta", text.count("do: release\n"), 3)
    path.write_text(text.replace("do: release\n", "do: keep-meta\n"), encoding="utf-8")


def verify(takes="shape", rc=0):
    return run(KEDGE, "verify", "--sim", "--hints", "hints.yaml", "--", *sot(HELD, takes), rc=rc, timeout=600).stdout


def live(name, takes="shape", mode="live", **env):
    return capture(HELD, name, takes, KEDGE_HINTS="hints.yaml", KEDGE_HINTS_MODE=mode, **env)


def reports_are_the_published_ones():
    rows = {r["form"]: r["max_allocated_mib"] for r in data("s69043.csv")}
    same("forms", sorted(rows), sorted((HELD, DROPPED)))
    peaks = {}
    for form, mib in rows.items():
        done = capture(form, form)
        j = tool_json("report", f"{form}.kcap")
        expect_ledger(j, ledger(done.stdout, "whole"), form)
        same(f"{form}, Max memory in MiB", f"{j['max_bytes'] / 2**20:.2f}", mib)
        peaks[form] = j["max_bytes"]
    same("difference", peaks[HELD] - peaks[DROPPED], SAVED)
    d = tool_json("diff", f"{DROPPED}.kcap", f"{HELD}.kcap")
    same("late frees", (d["late_frees"], d["late_bytes"], d["freed_in_anchor"]), (COUNT, SAVED, 0))


def proves_the_saving():
    """By the device's own ledger (R88), with hints.yaml and its receipt."""
    tight = {"SIMCUDA_MEMORY": TIGHT, "SIMCUDA_LAG": 1}
    refused = capture(HELD, "tight-held", rc=3, **tight)
    check("cudaErrorMemoryAllocation" in refused.stdout, f"no word of memory: {refused.stdout[-500:]}")
    same("checksums on the small device", checksum(live("tight-live", **tight).stdout),
         checksum(capture(DROPPED, "tight-dropped", **tight).stdout))
    # Not by luck of a size: without kedge the one form fits as well and the other does not.
    check(bare(*sot(HELD), rc=None, **tight).returncode == 3, "native: the form that holds them fits")
    bare(*sot(DROPPED), **tight)


def r88_hints_take_980_mib_off_to_the_byte_and_the_device_proves_it():
    j, plain = suggest()
    same("one hint for each function", sorted(h["id"] for h in j["hints"]), ["alloc-eager-add", "alloc-eager-cast", "alloc-eager-transpose"])
    same("hinted sizes", sum(h["bytes"] for h in j["hints"]), SAVED)
    written = pathlib.Path("hints.yaml").read_bytes()
    said = verify()
    check(f"3 hints verified, {COUNT} releases, 980.00 MiB" in said, "verify does not say what was released")
    check("not checked" not in said, "blocks that poison has checked are told as others")
    same("checksum with hints", checksum(live("live").stdout), plain)
    same("the file as suggest wrote it", pathlib.Path("hints.yaml").read_bytes(), written)
    held, dropped, hinted = (tool_json("report", f"{name}.kcap") for name in ("held", "dropped", "live"))
    same("released", (hinted["hinted_freed_count"], hinted["hinted_freed_bytes"]), (COUNT, SAVED))
    same("Max memory with hints", hinted["max_with_hints_bytes"], held["max_bytes"] - SAVED)
    same("Max memory of the form that drops them", hinted["max_with_hints_bytes"], dropped["max_bytes"])
    less = held["peak_reserved_bytes"] - hinted["peak_reserved_bytes"]
    check(less >= SAVED - COUNT * GRANULE, f"reserved falls by {less} bytes only")
    same("predicted Max memory", j["predicted_max_bytes"], hinted["max_with_hints_bytes"])
    tool("check", "live.kcap", "--predicted", "hints.yaml", f"hint_releases=={COUNT}")
    proves_the_saving()


def one_run_finds_them_by_itself():
    """From its own last uses: the same hints as from two runs; and none where a kernel is given the address in the backward."""
    two = suggest()[0]
    for takes, late in (("shape", COUNT), ("tensor", 0)):
        capture(HELD, takes, takes, KEDGE_TRACE="full")
        one = tool_json("suggest", f"{takes}.kcap", "-o", f"{takes}.yaml", rc=0 if late else 1)
        same(f"{takes}: late frees", (one["late_frees"], one["late_bytes"]), (late, SAVED if late else 0))
        if late:
            same("the same hints", *([(h["id"], h["count"], h["bytes"], h["when"]) for h in j["hints"]] for j in (one, two)))
            same("the same prediction", one["predicted_max_bytes"], two["predicted_max_bytes"])


def expect_stopped(name, done, ids, plain):
    """The call was not made, the program saw why, and the capture has both stacks. Nothing wrong was ever computed."""
    same(f"{name}: the program's own answer to a failed call", done.returncode, 3)
    check("checksum" not in done.stdout or checksum(done.stdout) == plain, f"{name}: a wrong result")
    check(any(f"hint {i}: cuLaunchKernel touches" in done.stdout for i in ids), f"{name}: no hint is named: {done.stdout[-800:]}")
    stopped = [h for h in tool_json("report", f"{name}.kcap")["hints"] if h["violations"] > 0]
    same(f"{name}: hints that stopped a call", len(stopped), 1)
    for stack, function in (("used_by", "run_gradient"), ("allocated_by", "alloc_eager")):
        check(function in [f["function"] for f in stopped[0][stack]], f"{name}: {function} is not in {stack}")


def r86_r87_a_backward_that_reads_a_buffer_is_stopped_and_gets_no_receipt():
    """A twin whose backward reads the buffers: right without hints; shadow tells, trap stops it. A backward that gives a
    kernel the address is stopped as well: what the kernel does with it cannot be seen."""
    ids = [h["id"] for h in suggest()[0]["hints"]]
    for takes in ("buffer", "tensor"):
        plain = checksum(bare(*sot(HELD, takes)).stdout)
        same(f"{takes}: checksum in shadow", checksum(live(f"{takes}-shadow", takes, "shadow").stdout), plain)
        expect_stopped(f"{takes}-trap", live(f"{takes}-trap", takes, "trap", rc=None), ids, plain)
        said = verify(takes, rc=1)
        check(any(f"not verified: hint {i}: " in said for i in ids), f"{takes}: verify names no hint: {said[-500:]}")
        check(not pathlib.Path("hints.yaml.receipt").exists(), f"{takes}: there is a receipt")
        # The receipt of a run that does not read is none for a run that does (R108).
        verify()
        same(f"{takes}: checksum with another run's receipt", checksum(live(f"{takes}-live", takes).stdout), plain)


def r86_in_poison_a_backward_that_reads_is_named_and_spoils_its_result():
    """Nothing is stopped there: what is read is 0xff, which the program's own check of its sums notices. It never goes unseen."""
    suggest()
    for takes, status, late in (("shape", 0, 0), ("tensor", 0, 1), ("buffer", 1, 1)):
        done = live(takes, takes, "poison", rc=status)
        right = checksum(done.stdout) == checksum(bare(*sot(HELD, takes)).stdout)
        same(f"{takes}: the right result, a wrong sum seen", (right, "wrong sum" in done.stdout), (status == 0, status == 1))
        hints = tool_json("report", f"{takes}.kcap")["hints"]
        same(f"{takes}: late uses of each hint", [h["late_touches"] for h in hints], [late] * 3)
        same(f"{takes}: late writes, blocks that nobody wrote",
             tuple(sum(h[key] for h in hints) for key in ("late_writes", "unchanged_count")), (0, COUNT))
        for h in hints if late else ():
            for stack, function in (("used_by", "run_gradient"), ("allocated_by", "alloc_eager")):
                check(function in [f["function"] for f in h[stack]], f"{takes}: {function} is not in {stack}")


def r86_keep_meta_saves_the_same_where_kernels_are_given_the_address():
    predicted, plain = suggest()
    keep_meta()
    check(f"3 hints verified, {COUNT} releases, 980.00 MiB" in verify("tensor"), "verify does not say what was released")
    same("checksum with hints", checksum(live("live", "tensor").stdout), plain)
    held, hinted = (tool_json("report", f"{name}.kcap") for name in ("held", "live"))
    same("Max memory with hints", hinted["max_with_hints_bytes"], held["max_bytes"] - SAVED)
    less = held["peak_reserved_bytes"] - hinted["peak_reserved_bytes"]
    check(less >= SAVED - COUNT * GRANULE, f"reserved falls by {less} bytes only")
    same("each hint's address was carried, and no call stopped",
         [(h["do"], h["carried"] > 0, h["violations"]) for h in hinted["hints"]], [("keep-meta", True, 0)] * 3)
    tool("check", "live.kcap", "--predicted", "hints.yaml", f"hint_releases=={COUNT}",
         f"reserved=={predicted['predicted_peak_reserved_bytes']}")


def r57_r86_a_kernel_that_reads_behind_keep_meta_faults_and_verify_names_the_hint():
    """What a kernel does with an address cannot be seen: there the device stops it, before anything wrong is computed."""
    ids = [h["id"] for h in suggest()[0]["hints"]]
    keep_meta()
    verify("tensor")
    said = verify("buffer", rc=1)
    named = re.search(r"not verified: hint (\S+): (?:poison|trap): the program ended with exit code [13], ", said)
    if check(named and named.group(1) in ids, f"verify names no hint: {said[-500:]}"):
        told = said.split(f"hint {named.group(1)}: kernels were given its address", 1)[-1]
        check("run_gradient" in told and "alloc_eager" in told, f"verify does not show both stacks: {told}")
    check(not pathlib.Path("hints.yaml.receipt").exists(), "the receipt of the run that reads nothing is left")
    verify("tensor")
    done = live("trap", "buffer", "trap", rc=None)
    same("trap: the program's own answer to a fault", done.returncode, 3)
    check("cudaErrorIllegalAddress" in done.stdout and "checksum" not in done.stdout, f"trap: {done.stdout[-500:]}")
    # The receipt of the run that reads nothing is none for this one (R108).
    same("live: checksum with another run's receipt", checksum(live("live", "buffer").stdout), checksum(bare(*sot(HELD, "buffer")).stdout))


if __name__ == "__main__":
    main(reports_are_the_published_ones, r88_hints_take_980_mib_off_to_the_byte_and_the_device_proves_it, one_run_finds_them_by_itself,
         r86_in_poison_a_backward_that_reads_is_named_and_spoils_its_result,
         r86_keep_meta_saves_the_same_where_kernels_are_given_the_address,
         r57_r86_a_kernel_that_reads_behind_keep_meta_faults_and_verify_names_the_hint,
         r86_r87_a_backward_that_reads_a_buffer_is_stopped_and_gets_no_receipt)
