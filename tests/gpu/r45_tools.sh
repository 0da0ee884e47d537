#!/bin/bash
# SPDX-License-Identifier: MIT
#
# R45, on a GPU: compute-sanitizer's memcheck and nsys do their work with libkedge.so in the process, in the modes that pass
# everything through, and find nothing that they do not find without it. Pooled memory hides overruns between neighbours from
# memcheck, so KEDGE_MODE=pool is not compared here.
#
#     tests/gpu/r45_tools.sh [FOLDER]     the build folder; default $TEST_BUILD, else build/release. Exit 77: cannot here
set -u
build=${1:-${TEST_BUILD:-build/release}}
build=$(cd "$build" 2>/dev/null && pwd) || { echo "SKIP: no build folder"; exit 77; }
lib=$build/libkedge.so
program=$build/tests/gpu/plain_dynamic
PATH=$PATH:/usr/local/cuda/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail=0

nvidia-smi -L 2>/dev/null | grep -q GPU || { echo "SKIP: no GPU here"; exit 77; }
[ -x "$program" ] || { echo "SKIP: $program was not built (needs a CUDA toolkit)"; exit 77; }

# checked NAME [VARIABLE=VALUE...]: memcheck's findings, addresses and process numbers left out
checked() {
    local name=$1; shift
    env "$@" compute-sanitizer --tool memcheck --leak-check no "$program" >"$work/$name.log" 2>&1
    echo "status $?" >"$work/$name.found"
    grep -E '^=========' "$work/$name.log" | grep -vE 'COMPUTE-SANITIZER|Host Frame' \
        | sed -E 's/0x[0-9a-f]+/ADDRESS/g; s/\b(pid|process) [0-9]+/process/g' >>"$work/$name.found"
    grep -E '^checksum ' "$work/$name.log" >>"$work/$name.found"
}
# profiled NAME [VARIABLE=VALUE...]: how often each CUDA call was seen
profiled() {
    local name=$1; shift
    env "$@" nsys profile --trace=cuda --force-overwrite=true --output "$work/$name" "$program" >"$work/$name.log" 2>&1 \
        || { echo "nsys, $name: failed"; cat "$work/$name.log"; fail=1; }
    nsys stats --report cuda_api_sum --format csv "$work/$name.nsys-rep" 2>/dev/null | awk -F, '/cu(da)?[A-Z]/ {print $NF, $3}' | sort >"$work/$name.found"
    [ -s "$work/$name.found" ] || { echo "nsys, $name: saw no call"; fail=1; }
}
# same TOOL: without kedge against each mode
same() {
    local mode
    "$1" none LD_PRELOAD=
    for mode in off track; do
        "$1" "$mode" LD_PRELOAD="$lib" KEDGE_MODE=$mode KEDGE_CAPTURE="$work/$1.$mode.kcap"
        if [ "$1" = profiled ] && [ $mode = track ]; then
            continue # kedge's own questions are calls too: that it can be profiled is enough
        fi
        diff "$work/none.found" "$work/$mode.found" || { echo "$1: KEDGE_MODE=$mode differs"; fail=1; }
    done
}
ran=0
for tool in compute-sanitizer:checked nsys:profiled; do
    if command -v "${tool%%:*}" >/dev/null; then
        same "${tool##*:}"
        ran=$((ran + 1))
    else
        echo "not run: there is no ${tool%%:*}"
    fi
done
[ $ran -gt 0 ] || { echo "SKIP: neither compute-sanitizer nor nsys is installed"; exit 77; }
[ $fail = 0 ] && echo "$ran tools, nothing new"
exit $fail
