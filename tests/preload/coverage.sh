#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `kedge report` says what kedge saw and what it did not: hooks and their calls, memory functions without a hook, and that a
# framework keeps a pool of its own. A run without such a framework says nothing of one. Forms of before CUDA 3.2 are unwatched.
set -uo pipefail
export LD_LIBRARY_PATH=$TEST_BUILD/sim SIMCUDA_MEMORY=2G TEST_ROUTE=dlsym
kedge=$TEST_BUILD/kedge
lib=$TEST_BUILD/libkedge.so
fail=0
want() { grep -qE "$2" "$1" || { echo "$1 has no '$2':"; cat "$1"; fail=1; }; }

# record NAME PRELOAD PROGRAM TEST: the text and the JSON of a run's report, lines of the text that go on below themselves as one
record() {
    rm -f "$1".*
    LD_PRELOAD=$2 KEDGE_CAPTURE=$1.kcap "$TEST_BUILD/tests/unit/$3" "$4" >"$1.out" 2>"$1.err" \
        || { cat "$1.out" "$1.err"; fail=1; }
    "$kedge" report --all "$1.kcap" | sed -zE 's/\n {10}/ /g' >"$1.txt" && "$kedge" report --json "$1.kcap" >"$1.json" || { echo "$1: report failed"; fail=1; }
}
record plain "$lib" hooks_dlsym_test content_survives_in_neighbours
record cached "$lib:$TEST_BUILD/tests/preload/libc10_cuda.so" hooks_dlsym_test content_survives_in_neighbours
record old "$lib" lookup_dlsym_test r42_forms_that_no_program_of_cuda_11_8_uses_are_the_drivers
want plain.txt '^coverage  [0-9]+ hooks called, [1-9][0-9]* calls; [0-9]+ found by look-up, 0 linked'
want plain.txt '^unhooked .*cuMem[A-Z].*: looked up or linked by the program'
grep -q 'keeps a pool of its own' plain.txt && { echo "plain: a pool of whose?"; fail=1; }
want old.txt '^unhooked .*cuLaunchGrid.*: looked up or linked by the program'
want cached.txt '^framework PyTorch keeps a pool of its own: the figures are its segments, not tensors; set PYTORCH_CUDA_ALLOC_CONF='
python3 - <<'P' || fail=1
import json
plain, cached, old = (json.load(open(f"{name}.json")) for name in ("plain", "cached", "old"))
rows = {(row["hook"], row["route"]): row["count"] for row in plain["coverage"]}
assert rows["cuMemAlloc_v2", "called"] > 1 and rows["cuMemAlloc_v2", "dlsym"] == 1, rows
assert not any(route == "unhooked" for _, route in rows), rows
assert any(name.startswith("cuMem") for name in plain["unhooked"]), plain["unhooked"]
assert not set(plain["unhooked"]) & {hook for hook, _ in rows}, plain["unhooked"]
assert plain["unseen_calls"] == 0, plain["unseen_calls"]
assert plain["framework_pools"] == [], plain["framework_pools"]
for name in ("cuMemAlloc", "cuMemFree", "cuMemAllocHost", "cuArrayCreate", "cuMemGetInfo", "cuLaunch", "cuLaunchGrid"):
    assert name in old["unhooked"], (name, old["unhooked"])
assert cached["framework_pools"] == [{"framework": "PyTorch", "set": "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"}], cached
P
exit $fail
