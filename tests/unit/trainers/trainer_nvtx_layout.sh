#!/bin/bash
# SPDX-License-Identifier: MIT
# nvtx.h of ours against the toolkit's: the same program prints the same numbers.
set -eu

cuda=${CUDA_HOME:-/usr/local/cuda}
if [ ! -f "$cuda/include/nvtx3/nvToolsExt.h" ]; then
    echo "SKIP: no CUDA toolkit with nvtx3"
    exit 77
fi
source=$TEST_SOURCE/tests/unit/trainers/trainer_nvtx_layout.c
trainers=$TEST_SOURCE/tests/trainers
"$CC" -std=gnu11 -D_GNU_SOURCE -I"$trainers/include" "$source" -o ours
"$CC" -std=gnu11 -D_GNU_SOURCE -I"$trainers/include-real" -isystem "$cuda/include" "$source" -o theirs
./ours >ours.txt
./theirs >theirs.txt
diff ours.txt theirs.txt
wc -l <ours.txt
