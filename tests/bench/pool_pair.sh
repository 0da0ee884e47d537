#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Instructions of one allocation and one free on a hit, counted by callgrind: a run with twice the pairs less a run with
# once (the loop around them, about 50, included). Counts do not depend on the machine's load, so they can be a limit. In
# an optimised build: 650 for blocks of up to 1 MiB, of which most requests are, however many blocks live; larger ones are
# fitted exactly (cut, joined and indexed again each time) and have 2700.
set -eu
command -v valgrind >/dev/null || { echo "SKIP: no valgrind"; exit 77; }
build_type=$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$KEDGE_BUILD/CMakeCache.txt")
factor=1
[ "$build_type" = Debug ] && factor=6
pairs=20000
bad=0

count() { # entrance live size pairs
    valgrind --tool=callgrind --callgrind-out-file=callgrind.out "$KEDGE_BUILD/tests/bench/pool_pair" "$@" 2>&1 \
        | sed -n 's/^.*Collected : \([0-9]*\)$/\1/p'
}

printf '%-8s %8s %10s %20s %8s\n' entrance size live instructions/pair limit
for entrance in sync stream; do
    for size in 1024 400000 3145728; do
        limit=$((650 * factor))
        [ "$size" -le 1048576 ] || limit=$((2700 * factor))
        for live in 100 20000; do
            once=$(count "$entrance" "$live" "$size" "$pairs")
            twice=$(count "$entrance" "$live" "$size" $((2 * pairs)))
            each=$(((twice - once) / pairs))
            printf '%-8s %8d %10d %20d %8d\n' "$entrance" "$size" "$live" "$each" "$limit"
            [ "$each" -le "$limit" ] || bad=1
        done
    done
done
exit "$bad"
