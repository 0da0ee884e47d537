#!/bin/bash
# SPDX-License-Identifier: MIT
#
# R43: with KEDGE_MODE=off the constructor takes no key for memory of threads, of which a process has 1,024; with kedge on it does.
set -u
lib=$TEST_BUILD/libkedge.so
count=$TEST_BUILD/tests/preload/libcount.so
fail=0
check() { if [ "$2" "$3" "$4" ]; then :; else echo "$1: $2, not $3 $4"; fail=1; fi; }
# keys PRELOAD [VARIABLE=VALUE...]: the first that is free when a program ends
keys() { env "${@:2}" LD_PRELOAD="$count:$1" TEST_COUNTS=counts /bin/true && sed -n 's/^keys //p' counts; }

plain=$(keys "")
check "off" "$(keys "$lib" KEDGE_MODE=off)" = "$plain"
for mode in track pool; do check "$mode" "$(keys "$lib" KEDGE_MODE=$mode)" -gt "$plain"; done
exit $fail
