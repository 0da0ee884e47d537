#!/bin/bash
# SPDX-License-Identifier: MIT
#
# R99, no descriptor of ours: a program that closes, replaces or exhausts its descriptors at any moment has the same output, the
# same exit status and the same bytes in its files as without kedge, and gets the same numbers.
#
#     descriptors.sh KIND     sync, stream, graph, ipc, evict (descriptors_program.c), python (descriptors_program.py)
#
# Where the library has descriptors of its own depends on the way in which it records and is started, not on what the program does
# with the device, so `sync` is run in each way; the others with a log that grows for as long as they run, and without a pool.
set -u
kind=$1
program="$TEST_BUILD/tests/rules/descriptors_program $kind"
moments="0 1 2 3 4 5"
traces="full" ways="full track"
[ "$kind" != sync ] || { traces="ring full agg" ways="ring full agg track started"; }
python=$(command -v python3)
if [ "$kind" = python ]; then
    [ -n "$python" ] || { echo "SKIP: no python3"; exit 77; }
    program="$python $TEST_SOURCE/tests/rules/descriptors_program.py" moments="0 1 2 3"
fi
export LD_LIBRARY_PATH=$TEST_BUILD/sim SIMCUDA_ORACLE=off SIMCUDA_SCHED=eager PYTHONDONTWRITEBYTECODE=1
[ "$kind" = ipc ] && export KEDGE_POOL=sync=mapped
if [ "$kind" = evict ]; then # on the device there is room for one block in three
    hint() { printf '  - {id: %s, do: evict, pick: {size: %s, inside: "*MODEL"}, when: {anchor: step, edge: enter}, cap: {device: %s}, backing: %s}\n' \
        "$1" "$2" "$2" "$1"; }
    { echo "kedge-hints: 1"; echo "hints:"; hint host-pinned 2MiB; hint host-mmap 4MiB; hint managed 6MiB; } >hints.yaml
    chmod 600 hints.yaml
    export KEDGE_HINTS=$PWD/hints.yaml KEDGE_HINTS_MODE=trial
fi
fail=0 runs=0 asked=0 moved=0
failed() { echo "FAILED: $*"; fail=1; }

# run NAME COMMAND...: output and status in NAME
run() {
    local name=$1; shift
    rm -f records.* ./*.kcap
    timeout 60 "$@" >"$name" 2>"$name.err" </dev/null
    echo "status $?" >>"$name"
    runs=$((runs + 1))
}

# moves: counts the runs whose capture says that blocks of all three hints went out and came in
moves() {
    asked=$((asked + 1))
    [ "$("$TEST_BUILD/kedge" report c.kcap --view eviction 2>&1 | grep -c "^  step [1-9].*iB  *[1-9][.0-9]* MiB ")" -lt 3 ] || moved=$((moved + 1))
}

# compare WHAT: each way of being under kedge with the program alone
compare() {
    local what=$1; shift
    if [ "$kind" != ipc ]; then # the simulated device's own exports keep descriptors, too
        run bare "$@"
        grep -q "^status 0" bare || failed "$what: not even alone: $(cat bare bare.err)"
    fi
    for trace in $traces; do
        run $trace env LD_PRELOAD="$TEST_BUILD/libkedge.so" KEDGE_CAPTURE="$PWD/c.kcap" KEDGE_TRACE=$trace "$@"
        [ "$kind" != evict ] || moves
    done
    run track env LD_PRELOAD="$TEST_BUILD/libkedge.so" KEDGE_CAPTURE="$PWD/c.kcap" KEDGE_MODE=track "$@"
    [ "$kind" != sync ] || run started "$TEST_BUILD/kedge" run -q --capture c.kcap -- "$@"
    for way in $ways; do
        grep -q "^status 0" $way || failed "$what, $way: $(cat $way $way.err)"
        [ "$kind" = ipc ] || cmp -s bare $way || failed "$what, $way differs: $(diff bare $way)"
    done
}

for action in close over full; do
    for moment in $moments; do
        compare "$action at $moment" $program $action "$moment"
    done
done

# as few descriptors as the program needs alone
if [ "$kind" != ipc ]; then
    limited='ulimit -n $1; shift; exec "$@"'
    for limit in $(seq 4 12); do
        run bare bash -c "$limited" bash "$limit" $program none 0
        grep -q "^status 0" bare && break
    done
    grep -q "^status 0" bare || failed "no limit is enough: $(cat bare bare.err)"
    for mode in pool track; do
        run limited bash -c "$limited" bash "$limit" env LD_PRELOAD="$TEST_BUILD/libkedge.so" KEDGE_CAPTURE="$PWD/c.kcap" KEDGE_MODE=$mode \
            $program none 0
        cmp -s bare limited || failed "with $limit descriptors, $mode: $(diff bare limited; cat limited.err)"
    done
    echo "$limit descriptors are enough"
fi
if [ "$kind" = evict ]; then
    echo "blocks moved in $moved of $asked runs"
    [ "$moved" = "$asked" ] || failed "in some nothing moved"
fi
echo "$runs runs"
exit $fail
