#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Threads with 16 KiB of stack: what works there alone works under kedge, in each mode, and kedge needs at most NEED bytes of the stack
# more (kedge-run(1), REQUIREMENTS). Unoptimised builds have no limit for that number.
set -u
NEED=3328
program=$TEST_BUILD/tests/rules/small_stack_program
export LD_LIBRARY_PATH=$TEST_BUILD/sim SIMCUDA_DEVICES=2 SIMCUDA_MEMORY=2G SIMCUDA_ORACLE=off SIMCUDA_SCHED=eager
printf 'kedge-hints: 1\nhints:\n  - {id: r, do: release, pick: {size: 1048576, inside: "*MODEL"}, when: {anchor: "*MODEL", edge: exit}}\n' >hints.yaml
chmod 600 hints.yaml
grep -q "^CMAKE_BUILD_TYPE:[A-Z]*=Debug$" "$TEST_BUILD/CMakeCache.txt" && NEED=16384
fail=0 most=0
for kind in sync stream other memory graph event oom reset anchor; do
    bare=$("$program" $kind) || { echo "FAILED: $kind: not even alone"; fail=1; continue; }
    for way in KEDGE_TRACE=off KEDGE_TRACE=ring KEDGE_TRACE=full,uses=order KEDGE_TRACE=agg KEDGE_MODE=track KEDGE_MODE=off KEDGE_STACKS=fp \
        "KEDGE_POOL=sync=mapped,remap=eager,budget=2M" "KEDGE_HINTS=$PWD/hints.yaml"; do
        rm -f c.kcap
        if used=$(env LD_PRELOAD="$TEST_BUILD/libkedge.so" KEDGE_CAPTURE="$PWD/c.kcap" "$way" "$program" $kind 2>err); then
            [ $((used - bare)) -le $most ] || most=$((used - bare))
            [ $((used - bare)) -le $NEED ] || { echo "FAILED: $kind, $way: $((used - bare)) bytes more, at most $NEED"; fail=1; }
        else
            echo "FAILED: $kind, $way: status $?: $(tail -3 err)"
            fail=1
        fi
    done
done
echo "at most $most bytes of stack more"
exit $fail
