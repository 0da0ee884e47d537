#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Wrong hints, and programs that hide what comes of them: `kedge verify` accepts none, live corrupts none (R108)."""
import itertools
import pathlib
import re

from regresskit import BUILD, KEDGE, bare, check, main, run, same

PROGRAM = BUILD / "tests" / "regress" / "wrong_program"
HINTS = """kedge-hints: 1
hints:
  - {id: scratch, do: %s, pick: {size: 4MiB, inside: "step/forward"}, when: {anchor: "step/forward", edge: exit}}
"""
USES = ("named", "table", "copy", "written")
HIDES = ("ignored", "silent", "caught", "digest", "thread", "child", "leaves", "killed", "closed")
# Of what these do not all is seen, so no hint in them is verified.
UNSEEN = {"daemon": "no capture: the program did not use CUDA, or kedge was not in it",
          "unseen": "no capture: the program did not use CUDA, or kedge was not in it",
          "execs": "process .* did not end by itself: it was killed, or became another program"}
RECEIPT = pathlib.Path("hints.yaml.receipt")


def command(use, hide, shell=False):
    words = [PROGRAM, use, hide]
    return ["sh", "-c", f"{' '.join(map(str, words))} 2>/dev/null; true"] if shell else words


def verify(words, *options, rc=1):
    return run(KEDGE, "verify", "--sim", *options, "--hints", "hints.yaml", "--", *words, rc=rc).stdout


def battery(cases):
    """Each: verified, and run live with the receipt that the right program has won. Prints how many of what."""
    counts = {"programs": 0, "refused": 0, "accepted": 0, "live": 0, "corrupted": 0}
    receipts = {}
    for use, hide, shell, action, options in cases:
        pathlib.Path("hints.yaml").write_text(HINTS % action, encoding="utf-8")
        if action not in receipts:
            verify(command("right", "ignored"), rc=0)
            receipts[action] = RECEIPT.read_text(encoding="utf-8")
        words = command(use, hide, shell)
        what = f"{use} {hide}{' in a shell' if shell else ''}, {action} {' '.join(options)}"
        said = run(KEDGE, "verify", "--sim", *options, "--hints", "hints.yaml", "--", *words, rc=None)
        refused = said.returncode == 1 and not RECEIPT.exists()
        counts["programs"] += 1
        counts["refused" if refused else "accepted"] += 1
        check(refused, f"{what} is accepted: {said.stdout[-600:]}")
        RECEIPT.write_text(receipts[action], encoding="utf-8")
        live = run(KEDGE, "run", "-q", "--sim", "--hints", "hints.yaml", "--hints-mode", "live", "--", *words, rc=None,
                   KEDGE_LOG="off", KEDGE_TRACE="off")
        RECEIPT.unlink()
        plain = bare(*words, rc=None)
        counts["live"] += 1
        if (live.stdout, live.returncode) != (plain.stdout, plain.returncode):
            counts["corrupted"] += 1
            check(False, f"{what}: live prints {live.stdout[-300:]!r} instead of {plain.stdout[-300:]!r}")
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    check(counts["programs"] > 0, "nothing was tried")


def r108_wrong_hints_in_programs_that_hide_it_are_refused():
    """Every use and every way to hide it once, with the outputs compared and without in turn."""
    pairs = [(USES[i % len(USES)], hide) for i, hide in enumerate((*HIDES, *UNSEEN))] + [("table", "silent"), ("table", "child")]
    battery([(use, hide, i % 3 == 2, "release", ("--outputs", "any") if i % 2 else ())
             for i, (use, hide) in enumerate(pairs)])


def r108_no_wrong_hint_is_accepted_in_any_combination():
    battery([(use, hide, shell, action, options)
             for use, hide, shell, action, options in itertools.product(
                 USES, (*HIDES, *UNSEEN), (False, True), ("release", "keep-meta"), ((), ("--outputs", "any")))
             # what keep-meta promises is that only kernels are given the address
             if action == "release" or use not in ("named", "written") or not options])


def r108_a_process_without_a_capture_speaks_against_the_hints():
    """The second of two processes may write no file: what it does is on no record."""
    pathlib.Path("hints.yaml").write_text(HINTS % "release", encoding="utf-8")
    blind = f"(ulimit -f 0; {PROGRAM} right silent)"
    said = verify(["bash", "-c", f"{PROGRAM} right silent; {blind}"])
    check(re.search(r"not verified: plain: kedge\[\d+\]: (no capture: |capture )", said), said[-500:])
    said = verify(command("right", "dies"))
    check(re.search(r"not verified: plain: process \d+ \(.*\) did not end by itself: it was killed", said), said[-500:])


def r109_a_hint_that_counts_what_two_threads_ask_for_is_refused():
    """Which of them comes first is chance, although it is the same one in each run here."""
    counted = HINTS.replace('"step/forward"},', '"step/forward", nth: 0},', 1)
    pathlib.Path("hints.yaml").write_text(counted % "release", encoding="utf-8")
    column = counted.splitlines()[2].index("nth: 0") + len("nth: ") + 1 + len("release") - len("%s")
    same("said", verify(command("right", "turns")).splitlines()[-1],
         f"kedge verify: not verified: hint scratch: shadow: hints.yaml:3:{column}: nth counts what several threads ask for in one "
         "instance of step/forward: their order is chance")
    verify(command("right", "ignored"), rc=0)
    pathlib.Path("hints.yaml").write_text(HINTS % "release", encoding="utf-8") # all of them
    verify(command("right", "turns"), rc=0)


def a_right_hint_in_the_same_programs_is_accepted():
    pathlib.Path("hints.yaml").write_text(HINTS % "release", encoding="utf-8")
    for hide in HIDES:
        said = verify(command("right", hide, hide == "child"), rc=0)
        check("1 hint verified" in said and RECEIPT.exists(), f"{hide}: {said[-400:]}")
        RECEIPT.unlink(missing_ok=True)


def r108_what_is_not_seen_to_its_end_is_not_verified():
    pathlib.Path("hints.yaml").write_text(HINTS % "release", encoding="utf-8")
    for hide, why in UNSEEN.items():
        said = verify(command("right", hide))
        check(re.search(f"^kedge verify: not verified: plain: {why}", said, re.M) and not RECEIPT.exists(), f"{hide}: {said[-400:]}")


def what_the_runs_print_is_compared():
    pathlib.Path("hints.yaml").write_text(HINTS % "release", encoding="utf-8")
    for options, held in (((), ""), (("--outputs", "any"), "; not held against the hints")):
        said = verify(command("table", "ignored"), *options)
        check(re.search(rf'^kedge verify: poison: standard output: line 1 is "sum \w+" instead of "sum \w+"{held}$', said, re.M),
              said[-500:])
        check("not verified: trap: the device has faulted in process" in said, said[-500:])
    by_mode = f"test $KEDGE_HINTS_MODE = poison && echo worse; exec {PROGRAM} right ignored"
    said = verify(["sh", "-c", by_mode])
    check('not verified: poison: the program prints something else than without releases: standard output: line 1, "worse", is new'
          in said, said[-500:])
    verify(["sh", "-c", by_mode], "--outputs", "any", rc=0)
    # what differs between two runs without hints does not count
    addresses = r"for i in {1..20}; do printf '0x7f000000%x000\n' $((RANDOM % 5)); done" # of which some are equal by chance
    noisy = f"date +%N; {addresses}; echo pid $$; {PROGRAM} right ignored; echo took $(date +%N)s >&2"
    said = verify(["bash", "-c", noisy], rc=0)
    same("runs", [line for line in said.splitlines() if line.endswith(" run")],
         [f"kedge verify: {name} run" for name in ("plain", "shadow", "second", "poison", "trap")])
    same("options", run(KEDGE, "verify", "--outputs", "none", "--hints", "hints.yaml", "--", "true", rc=2).stdout,
         "kedge verify: --outputs none: same or any\n")


if __name__ == "__main__":
    main(r108_wrong_hints_in_programs_that_hide_it_are_refused, r108_no_wrong_hint_is_accepted_in_any_combination,
         r108_a_process_without_a_capture_speaks_against_the_hints,
         r109_a_hint_that_counts_what_two_threads_ask_for_is_refused,
         a_right_hint_in_the_same_programs_is_accepted, r108_what_is_not_seen_to_its_end_is_not_verified,
         what_the_runs_print_is_compared)
