#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A program with the real libcudart_static.a: our hooks are in place for the four entries before the runtime gives up on the
# simulated driver (R42); without the dlsym hook interception drops to zero (R59).
set -u
prog=$TEST_BUILD/tests/unit/fetched_entries
[ -x "$prog" ] || { echo "SKIP: no libcudart_static.a"; exit 77; }
export LD_LIBRARY_PATH=$TEST_BUILD/sim KEDGE_CAPTURE=static.kcap
fail=0

run() { rm -f static.kcap; LD_PRELOAD=$1 "$prog" >"$2" 2>"$2.err" || { echo "$2:"; cat "$2" "$2.err"; fail=1; }; }
run "$TEST_BUILD/libkedge.so" with.out
run "$TEST_BUILD/libkedge_nodlsym.so" without.out
for entry in cuMemAlloc_v2 cuMemFree_v2 cuMemAllocAsync cuMemAllocAsync_ptsz cuMemFreeAsync cuMemFreeAsync_ptsz; do
    grep -q "^$entry cuGetProcAddress " with.out || { echo "$entry was not handed out"; fail=1; }
done
if grep -q cuGetProcAddress without.out; then
    echo "without the dlsym hook something was handed out:"; cat without.out; fail=1
fi
[ $fail = 0 ] || cat with.out
exit $fail
