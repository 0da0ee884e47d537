#!/bin/bash
# SPDX-License-Identifier: MIT
#
# R43: with KEDGE_MODE=off the driver sees the very same calls as without kedge, argument by argument, on each route, and the
# process asks for memory of the host as often as without kedge. With kedge on, both differ, or this test would prove nothing.
# What look-ups hand out is compared by loader_test.c. TEST_OFF_LIBRARY: the library, if not the one that ships (tests/mutation).
set -u
lib=${TEST_OFF_LIBRARY:-$TEST_BUILD/libkedge.so}
tests=$TEST_BUILD/tests/unit
count=$TEST_BUILD/tests/preload/libcount.so
export LD_LIBRARY_PATH=$TEST_BUILD/sim SIMCUDA_MEMORY=2G KEDGE_TRACE=off
fail=0

# run NAME ROUTE [PRELOAD [VARIABLE=VALUE...]]: tests that are the same program with and without kedge. Addresses of host
# memory differ from run to run.
run() {
    local name=$1 route=$2 preload=$count${3:+:$3}; shift 3
    rm -f "$name" "$name".* # the device appends to its log
    env "$@" LD_PRELOAD="$preload" SIMCUDA_LOG="$name" TEST_ROUTE="$route" TEST_COUNTS="$name.counts" \
        "$tests/hooks_${route}_test" content_survives_in_neighbours a_stream_may_go_while_its_memory_waits \
        bad_frees_get_the_drivers_code >"$name.out" 2>&1 || { cat "$name.out"; fail=1; }
    grep -v '^#' "$name" | sed -E 's/0x(7f|55|56)[0-9a-f]+/HOST/g' >"$name.calls"
}
for route in linked dlsym gpa; do
    run "plain.$route" "$route" ""
    run "off.$route" "$route" "$lib" KEDGE_MODE=off
    run "on.$route" "$route" "$lib" KEDGE_SYNC_FREE=auto
    for what in calls counts; do
        [ -s "plain.$route.$what" ] || { echo "no $what"; fail=1; }
        diff "plain.$route.$what" "off.$route.$what" >diff.out \
            || { echo "$route: off differs from no kedge in its $what"; head -20 diff.out; fail=1; }
        cmp -s "plain.$route.$what" "on.$route.$what" && { echo "$route: on does not differ in its $what"; fail=1; }
    done
done
[ $fail = 0 ] && paste plain.dlsym.counts off.dlsym.counts on.dlsym.counts && wc -l plain.dlsym.calls on.dlsym.calls
exit $fail
