# SPDX-License-Identifier: MIT
# covers: cmd_estimate.c reads.c trial.c verdict.c
"""`kedge estimate` of PyTorch scripts: what PyTorch itself counts, for each of its allocators."""
import json
import re
import subprocess

import anchors
import harness

PACKAGE, TITLE = "torch", "What a script needs, without a device"
MB = 1 << 20
DEVICE = "memory=4G,capability=9.0,sms=100,context=200M-600M,name=card"
KINDS = ("parameters", "gradients", "optimizer state")


def estimate(row, work, *words, options=(), device=DEVICE):
    """(the answer, PyTorch's own figures, all that was printed)."""
    line = [harness.HERE / "in", row.env, harness.KEDGE, "estimate", "--device", device, "--json", *options, "--", "python",
            harness.HERE / "scripts" / row.case.script, *words]
    done = subprocess.run([str(w) for w in line], cwd=work, env=harness.environment(), capture_output=True, text=True, check=False,
                          timeout=harness.TIMEOUT)
    answer = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    said = [json.loads(text)["exact"] for text in re.findall(r"^figures (\{.*\})$", done.stderr, re.M)]
    return answer | {"exit": done.returncode}, said, done.stderr


def counted(row, work):
    """What is taken from the device is what PyTorch reserves, what is in use what it counts, to the byte."""
    wrong, told = [], []
    for allocator in ("stated", "expandable", "async"):
        answer, said, errors = estimate(row, work, options=("--allocator", allocator))
        if answer["exit"] != 0 or len(said) != 1:
            return [f"{allocator}: exit {answer['exit']}: {errors.strip()[-800:]}"], ""
        told.append(f"{allocator} {answer['from_device_bytes'] / MB:.0f} MiB")
        if answer["from_device_bytes"] != said[0]["reserved"]:
            wrong.append(f"{allocator}: {answer['from_device_bytes']} bytes of the device, PyTorch reserves {said[0]['reserved']}")
        # The stream-ordered allocator's own peak is of sizes that it has rounded.
        if allocator != "async" and answer["in_use_bytes"] != said[0]["peak"]:
            wrong.append(f"{allocator}: {answer['in_use_bytes']} bytes in use, PyTorch counts {said[0]['peak']}")
        if (answer["need_most_bytes"], answer["answer"]) != (answer["from_device_bytes"] + 600 * MB, "fits"):
            wrong.append(f"{allocator}: {answer['answer']}, {answer['need_most_bytes']}")
        kinds = {kind["kind"] for kind in answer.get("kinds_at_max") or ()}
        if not kinds >= set(KINDS):
            wrong.append(f"{allocator}: kinds {sorted(kinds)}")
        if not any(row.case.script in line["title"] for line in answer["lines"]):
            wrong.append(f"{allocator}: no line of the script: {answer['lines'][:2]}")
    return wrong, ", ".join(told)


def sizes(row, work):
    """The line that reads a size which was not computed is told; sizes of small tensors are right, and are not told."""
    answer, said, errors = estimate(row, work, "sizes")
    places = [(place["size_of"], place["title"]) for place in answer.get("values_not_computed", ()) if place["size_of"]]
    if answer["exit"] != 0 or not said:
        return [f"exit {answer['exit']}: {errors.strip()[-800:]}"], ""
    line = 1 + next(n for n, text in enumerate((harness.HERE / "scripts" / row.case.script).read_text(encoding="utf-8").splitlines())
                    if "return values[values > 0]" in text)
    wrong = [] if places == [("nonzero", f"chosen {row.case.script}:{line}")] else [f"told: {places}"]
    return wrong, f"{places}"


def largest(row, work):
    """The largest batch fits, and the next one does not."""
    device = "memory=400M,capability=8.0,sms=100,context=100M-200M,name=card"
    answer, _, errors = estimate(row, work, "batch=1", options=("--find", "batch=1..20000"), device=device)
    if answer["exit"] != 0:
        return [f"exit {answer['exit']}: {errors.strip()[-800:]}"], ""
    best = answer["largest"]
    ends = [estimate(row, work, f"batch={best + more}", device=device)[0]["exit"] for more in (0, 1)]
    return [] if ends == [0, 1] and best > 1 else [f"{best}: exits {ends}"], f"batch={best} after {answer['tries']} runs"


section = anchors.section
CASES = [
    anchors.Look("estimate_counted", anchors.BOTH, "torch_sizes.py", look=counted, short=("torch",)),
    anchors.Look("estimate_sizes", ("torch",), "torch_sizes.py", look=sizes, short=("torch",)),
    anchors.Look("estimate_largest", ("torch",), "torch_sizes.py", look=largest),
]
