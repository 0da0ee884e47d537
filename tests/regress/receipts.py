#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `kedge verify` learns of a hint and live obeys: launches that carry its address inside a larger parameter (R86)."""
import pathlib

from regresskit import BUILD, KEDGE, check, kedge_run, main, run, same, tool, tool_json

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
    text = " ".join(tool("report", "live.kcap").split())
    for line in ("hint input is keep-meta by the receipt: launches carry its address inside a larger parameter",
                 "hint input: launches carried its address at 1 place, which keep-meta allows"):
        check(line in text, f"the report does not say: {line}")
    kedge_run(PROGRAM, capture="shadow.kcap", KEDGE_HINTS="hints.yaml")
    check("`kedge verify` makes it keep-meta" in tool("report", "shadow.kcap"), "the report of the shadow run does not say it")


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


if __name__ == "__main__":
    main(r86_what_launches_carry_inside_is_keep_meta_by_the_receipt, what_poison_did_not_check_is_said,
         r86_what_is_written_there_is_not_verified)
