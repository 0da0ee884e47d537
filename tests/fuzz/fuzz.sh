#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fuzz.sh PROGRAM|none CORPUS RUNS LENGTH: RUNS new inputs of at most LENGTH bytes for a libFuzzer program.
#
# A crash, a leak, an input that hangs (10 s) or 1 GiB of memory in use fails; the input then lies in found/ of the test's
# folder and is printed. The fuzzer starts from a copy of the corpus and changes nothing else.
set -eu
program=$1 corpus=$2 runs=$3 length=$4

[ "$program" != none ] || { echo "SKIP: this clang has no libFuzzer (Debian: libclang-rt-dev)"; exit 77; }
rm -rf corpus found
cp -r "$corpus" corpus
mkdir found
if ! "$program" -runs="$runs" -seed=1 -max_len="$length" -timeout=10 -rss_limit_mb=1024 -artifact_prefix=found/ \
    corpus >output 2>&1; then
    tail -n 60 output
    for input in found/*; do
        [ ! -f "$input" ] || { echo "$input, base64:"; base64 -w 0 "$input"; echo; }
    done
    exit 1
fi
tail -n 1 output
# A fuzzer that finds nothing new to keep does not see what it is to explore.
before=$(find "$corpus" -type f | wc -l)
after=$(find corpus -type f | wc -l)
echo "$before inputs in the corpus, $((after - before)) more found"
[ "$after" -gt "$before" ] || { echo "FAILED: nothing new was found"; exit 1; }
