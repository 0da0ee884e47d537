#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tests/sim/base/sim_abi.h against the CUDA toolkit's header: prototypes, sizes, offsets, values.
# Exit 0 same, 1 different, 77 no toolkit of CUDA 13 here.
set -u
source=${TEST_SOURCE:-$(cd "$(dirname "$0")/../../.." && pwd)}
include=
for home in "${CUDA_HOME:-}" /usr/local/cuda; do
    if [ -n "$home" ] && grep -qE '^#define CUDA_VERSION 13[0-9]{3}' "$home/include/cuda.h" 2>/dev/null; then
        include=$home/include
        break
    fi
done
if [ -z "$include" ]; then
    echo "SKIP: no CUDA 13 toolkit in \$CUDA_HOME or /usr/local/cuda" >&2
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-cc}" -std=gnu11 -I "$source" -o "$work/ours" "$source/tests/unit/sim/sim_abi_layout.c" || exit 1
"${CC:-cc}" -std=gnu11 -isystem "$include" -I "$source" -DABI_TOOLKIT -o "$work/toolkit" \
    "$source/tests/unit/sim/sim_abi_layout.c" || exit 1
"$work/ours" >"$work/ours.txt" && "$work/toolkit" >"$work/toolkit.txt" || exit 1
diff "$work/toolkit.txt" "$work/ours.txt"
