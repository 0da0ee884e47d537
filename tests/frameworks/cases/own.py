# SPDX-License-Identifier: MIT
"""What only PyTorch's own allocator has: each works under plain `kedge run`, which finds the name in the script and leaves the
allocator alone."""
import anchors
import harness

PACKAGE, TITLE = "torch", "What PyTorch's own allocator has alone"


def kept(what):
    def look(row, work):
        """The same output, figures and exit as without kedge, and one line that says why nothing is switched."""
        bare = harness.execute(row, [], work)
        wrong = [] if bare.status == 0 else [f"without kedge: exit {bare.status}: {bare.errors.strip()[-800:]}"]
        done = harness.execute(row, anchors.kedge(capture=work / "run.kcap"), work)
        wrong += harness.compare(bare, done, ())
        if done.errors.count(f"names {what}, which backend:cudaMallocAsync lacks") != 1:
            wrong.append(f"it is not said that {what} is why: {done.errors.strip()[:300]}")
        told = harness.reports(work, "run")
        if not told or told[0]["allocated_count"] == 0:
            wrong.append("the capture has no allocation")
        return wrong, f"as without kedge, because {row.case.script} names {what}"
    return look


def plugged(row, work):
    """An allocator of the program's own asks the driver for each tensor, and kedge sees it."""
    wrong, sentence = kept("CUDAPluggableAllocator")(row, work)
    told = harness.reports(work, "run")
    asked = harness.execute(row, [], work).figures["exact"]["taken"]
    if told and told[0]["allocated_count"] != asked:
        wrong.append(f"{told[0]['allocated_count']} allocations, the allocator was asked {asked} times")
    return wrong, f"{sentence}; {asked} tensors, each seen"


section = anchors.section
SETTINGS = "settings of PyTorch's own allocator"
CASES = [
    anchors.Look("own_mempool", ("torch",), "torch_mempool.py", look=kept("MemPool"), short=("torch",)),
    anchors.Look("own_history", anchors.BOTH, "torch_snapshot.py", look=kept("PyTorch's memory history"), short=("torch",)),
    anchors.Look("own_settings", anchors.BOTH, "torch_settings.py", look=kept(SETTINGS)),
    anchors.Look("own_settings_late", anchors.BOTH, "torch_settings.py", ("late",), look=kept(SETTINGS)),
    anchors.Look("own_ipc", anchors.BOTH, "torch_shared.py", look=kept("CUDA tensors of other processes (torch.multiprocessing)")),
    anchors.Look("own_pluggable", anchors.BOTH, "torch_pluggable.py", look=plugged),
]
