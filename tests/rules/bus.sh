#!/bin/bash
# SPDX-License-Identifier: MIT
# covers: bus.c export_signal.c
#
# R101, a store into the capture never ends the program: whatever is done to the file, the program goes on, and what it did about
# SIGBUS itself is as without kedge.
set -u
program=$TEST_BUILD/tests/rules/bus_program
export LD_LIBRARY_PATH=$TEST_BUILD/sim SIMCUDA_ORACLE=off SIMCUDA_SCHED=eager
ulimit -c 0
fail=0 runs=0
failed() { echo "FAILED: $*"; fail=1; }

# run NAME COMMAND...
run() {
    local name=$1; shift
    rm -f ./*.kcap; : >other
    { timeout 60 "$@"; } >"$name" 2>"$name.err"
    echo "status $?" >>"$name"
    runs=$((runs + 1))
}
under() {
    run under env LD_PRELOAD="$TEST_BUILD/libkedge.so" KEDGE_CAPTURE="$PWD/c.kcap" KEDGE_TRACE="$1" "$program" "$2" "$3" "$4"
}

for handler in none before after ignored; do
    for end in quiet own sent; do
        run bare "$program" none $handler $end
        for action in none cut half; do
            under full $action $handler $end
            cmp -s bare under || failed "$action, $handler, $end: $(diff bare under; cat under.err)"
        done
    done
done
run bare "$program" none none quiet
for trace in full ring agg; do
    for action in none cut half garbage zeroes replaced removed; do
        under $trace $action none quiet
        cmp -s bare under || failed "$action, $trace: $(diff bare under; cat under.err)"
        if [ $action = cut ]; then
            grep -q '^kedge\[' under.err || failed "$action, $trace: nothing is said"
        fi
    done
done
echo "$runs runs"
exit $fail
