# SPDX-License-Identifier: MIT
"""A snapshot that PyTorch recorded of its own run, imported: its figures are PyTorch's, and its segments are kedge's blocks."""
import json
import subprocess

import anchors
import harness

PACKAGE, TITLE = "torch", "Snapshots of PyTorch"

# What `kedge report` says of the snapshot, and what PyTorch counted itself.
SAME = {"max_bytes": "requested_bytes.all.peak", "remaining_bytes": "requested_bytes.all.current",
        "allocated_bytes": "requested_bytes.all.allocated", "freed_bytes": "requested_bytes.all.freed",
        "allocated_count": "allocation.all.allocated", "freed_count": "allocation.all.freed",
        "peak_reserved_bytes": "reserved_bytes.all.peak"}


def imported(row, work):
    """The recorder works with PyTorch's own cache alone, of which kedge sees the segments."""
    done = anchors.execute(row, anchors.kedge("--api", "framework", capture=work / "run.kcap"), work)
    if done.status != 0:
        return [f"exit {done.status}: {done.errors.strip()[-800:]}"], ""
    made = subprocess.run([str(harness.KEDGE), "import", "snapshot.pickle", "-o", "snapshot.kcap", "--json"], cwd=work,
                          env=harness.environment(), capture_output=True, text=True, timeout=harness.TIMEOUT, check=False)
    if made.returncode != 0 or json.loads(made.stdout)["left_out_count"]:
        return [f"kedge import: {made.stdout} {made.stderr}"], ""
    segments, tensors = (anchors.reports(work, name)[0] for name in ("run", "snapshot"))
    said = done.figures["exact"]
    wrong = [f"{key}: {tensors[key]}, PyTorch says {said[name]}" for key, name in SAME.items() if tensors[key] != said[name]]
    if segments["max_bytes"] != tensors["peak_reserved_bytes"]:
        wrong.append(f"segments: {segments['max_bytes']}, in the snapshot {tensors['peak_reserved_bytes']}")
    mine = sum(r["bytes"] for r in tensors["live"] if any(f["file"].endswith("/torch_snapshot.py") for f in r["stack"] if f.get("python")))
    if mine == 0:
        wrong.append("no stack reaches the script")
    return wrong, f"{tensors['allocated_count']} allocations of tensors in {segments['allocated_count']} segments"


section = anchors.section
CASES = [anchors.Look("snapshot_imported", anchors.BOTH, "torch_snapshot.py", look=imported, short=("torch",))]
