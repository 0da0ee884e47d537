#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Real allocation traces through the pool: what it holds and how often it calls the driver, in four passes, with a device
# that keeps up, is 1000 and is 4000 events behind. Exact figures, no noise.
#
# Limits. sync: at most 1.05 x what native allocations would hold, in each pass (cuMemFree waits for the device natively),
# however far the device is behind (R74). stream: E of at least 0.90 with a device that keeps up, 0.80 in any case.
set -eu
traces=${KEDGE_TEST_TRACES:-}
[ -n "$traces" ] && [ -d "$traces/csv" ] || { echo "SKIP: no traces in KEDGE_TEST_TRACES"; exit 77; }
bad=0

for trace in "$traces"/csv/*.csv; do
    name=$(basename "$trace" .csv)
    for entrance in sync stream; do
        for lag in 0 1000 4000; do
            out=$("$TEST_BUILD/tests/bench/pool_replay" "$trace" "$entrance" 4 "$lag")
            printf '%-28s %-6s lag %-4d %s\n' "$name" "$entrance" "$lag" "$(tail -1 <<<"$out")"
            awk -v entrance="$entrance" -v lag="$lag" -v most=1.05 '
                { e = $4; native = $6; passes++ }
                entrance == "sync" && native > most * e { print "    " $0 ": above " most " x native"; bad = 1 }
                entrance == "stream" && e < (lag == 0 ? 0.90 : 0.80) { print "    " $0 ": too little"; bad = 1 }
                END { exit bad || passes != 4 }' <<<"$out" || bad=1
        done
    done
done
exit "$bad"
