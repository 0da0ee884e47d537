#!/bin/bash
# SPDX-License-Identifier: MIT
#
# R43: with KEDGE_MODE=off the driver sees the very same calls as without kedge, argument by argument, on each route; and the
# pointers that look-ups hand out are the driver's own. With kedge on, the log differs, or this test would prove nothing.
set -u
lib=$TEST_BUILD/libkedge.so
tests=$TEST_BUILD/tests/unit
export LD_LIBRARY_PATH=$TEST_BUILD/sim SIMCUDA_MEMORY=2G KEDGE_TRACE=off
fail=0

# The one test that is the same program with and without kedge; addresses of host memory differ from run to run.
run() {
    SIMCUDA_LOG=$1 TEST_ROUTE=$2 "$tests/hooks_$2_test" content_survives_in_neighbours a_stream_may_go_while_its_memory_waits \
        bad_frees_get_the_drivers_code >"$1.out" 2>&1 || { cat "$1.out"; fail=1; }
    grep -v '^#' "$1" | sed -E 's/0x(7f|55|56)[0-9a-f]+/HOST/g' >"$1.calls"
}
for route in linked dlsym gpa; do
    (run "plain.$route" "$route"); LD_PRELOAD=$lib KEDGE_MODE=off run "off.$route" "$route"
    LD_PRELOAD=$lib run "on.$route" "$route"
    [ -s "plain.$route.calls" ] || { echo "no log"; fail=1; }
    diff "plain.$route.calls" "off.$route.calls" >diff.out || { echo "$route: off differs from no kedge"; head -20 diff.out; fail=1; }
    cmp -s "plain.$route.calls" "on.$route.calls" && { echo "$route: on does not differ"; fail=1; }
done
exit $fail
