#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A name that is not there without kedge is not there with it. With KEDGE_MODE=off every look-up finds what it finds without
# kedge. Otherwise it finds something exactly where it does then, also where driver, runtime and NCCL were opened locally, and for
# a library that is found through the one that needs it. The driver is the stub of a new one, which lacks most functions.
set -u
program=$TEST_BUILD/tests/preload/absent_program
others="$TEST_BUILD/sim/libcudart.so.12 $TEST_BUILD/sim/nccl/libnccl.so.2"
export LD_LIBRARY_PATH=$TEST_BUILD/tests/preload/newer KEDGE_TRACE=off
fail=0
found() { awk '{ print $1, $2, $3 == "nowhere" ? "nowhere" : "found" }' "$1"; }
for how in none global local plugin; do
    [ $how = plugin ] && others=$TEST_BUILD/tests/preload/libabsent_plugin.so
    # shellcheck disable=SC2086 # a list of words
    "$program" $how $others >alone.$how || exit 1
    grep -q nowhere alone.$how || { echo "$how: nothing is missing, so nothing is tested"; fail=1; }
    for mode in off track pool; do
        KEDGE_MODE=$mode LD_PRELOAD=$TEST_BUILD/libkedge.so "$program" $how $others >$mode.$how || { echo "$how $mode: failed"; fail=1; }
    done
    diff alone.$how off.$how >diff.out || { echo "$how: off differs"; head diff.out; wc -l <diff.out; fail=1; }
    for mode in track pool; do
        found alone.$how | sort >wanted
        found $mode.$how | sort >got
        diff wanted got >diff.out || { echo "$how $mode: differs"; head diff.out; wc -l <diff.out; fail=1; }
    done
done
exit $fail
