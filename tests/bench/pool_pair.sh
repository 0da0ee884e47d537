#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Instructions of one allocation and one free on a hit, counted by callgrind: a run with twice the pairs less a run with
# once. Counts do not depend on the machine's load, so they can be a limit: 400 in an optimised build, however many
# blocks live.
set -eu
command -v valgrind >/dev/null || { echo "SKIP: no valgrind"; exit 77; }
build_type=$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$KEDGE_BUILD/CMakeCache.txt")
limit=400
[ "$build_type" = Debug ] && limit=4000
pairs=20000
bad=0

count() { # entrance live pairs
    valgrind --tool=callgrind --callgrind-out-file=callgrind.out "$KEDGE_BUILD/tests/bench/pool_pair" "$@" 2>&1 \
        | sed -n 's/^.*Collected : \([0-9]*\)$/\1/p'
}

printf '%-8s %10s %20s\n' entrance live instructions/pair
for entrance in sync stream; do
    for live in 100 2000 20000; do
        once=$(count "$entrance" "$live" "$pairs")
        twice=$(count "$entrance" "$live" $((2 * pairs)))
        each=$(((twice - once) / pairs))
        printf '%-8s %10d %20d\n' "$entrance" "$live" "$each"
        [ "$each" -le "$limit" ] || bad=1
    done
done
[ "$bad" = 0 ] || { echo "more than $limit instructions"; exit 1; }
