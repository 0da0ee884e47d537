#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A name that is not there without kedge is not there with it. With KEDGE_MODE=off every look-up finds what it finds without
# kedge. Otherwise it finds something exactly where it does then (with a driver that was opened locally, our own export stands
# for what the driver has, and for nothing else). The driver is the stub of a new one, which lacks most functions.
set -u
program=$TEST_BUILD/tests/preload/absent_program
export LD_LIBRARY_PATH=$TEST_BUILD/tests/preload/newer KEDGE_TRACE=off
fail=0
found() { awk '{ print $1, $2, $3 == "nowhere" ? "nowhere" : "found" }' "$1"; }
for how in none global local; do
    "$program" $how >alone.$how || exit 1
    grep -q nowhere alone.$how || { echo "$how: nothing is missing, so nothing is tested"; fail=1; }
    for mode in off track pool; do
        KEDGE_MODE=$mode LD_PRELOAD=$TEST_BUILD/libkedge.so "$program" $how >$mode.$how || { echo "$how $mode: failed"; fail=1; }
    done
    diff alone.$how off.$how >diff.out || { echo "$how: off differs"; head diff.out; wc -l <diff.out; fail=1; }
    for mode in track pool; do
        if [ $how = local ]; then # what the driver has is found by all routes
            awk '{ has[$1, $2] = $3 } $1 == "driver" { for (r in route) print r, $2, $3 == "nowhere" ? "nowhere" : "found" }
                 $1 != "driver" { route[$1] = 1 }' alone.$how
            grep '^driver' alone.$how | while read -r _ name where; do
                echo "driver $name $([ "$where" = nowhere ] && echo nowhere || echo found)"; done
        else
            found alone.$how
        fi | sort >wanted
        found $mode.$how | sort >got
        diff wanted got >diff.out || { echo "$how $mode: differs"; head diff.out; wc -l <diff.out; fail=1; }
    done
done
exit $fail
