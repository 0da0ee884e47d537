#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The PTX text of the tests for a GPU, through the toolkit's assembler where there is one: a kernel that no driver takes would
# show itself on the one machine that has a GPU.
set -euo pipefail
ptxas=$(command -v ptxas || ls /usr/local/cuda*/bin/ptxas 2>/dev/null | tail -1 || true)
if [[ -z $ptxas ]]; then
    echo "SKIP: no ptxas here"
    exit 77
fi
cat > print_kernels.c <<'EOF'
#include "tests/trainers/kernels.ptx.h"
#include <stdio.h>
#include <string.h>
static const char spin_ptx[] =
#include "spin.inc"
int main(int argc, char **argv)
{
    (void)argv;
    fputs(argc > 1 ? spin_ptx : kernels_ptx, stdout);
    return 0;
}
EOF
# The literal of gpu_device.c, up to its semicolon.
sed -n '/^static const char spin_ptx\[\] = /,/;$/p' "$TEST_SOURCE/tests/gpu/gpu_device.c" | sed 's/^static const char spin_ptx\[\] = //' > spin.inc
"$CC" -I"$TEST_SOURCE" -I. -o print_kernels print_kernels.c
./print_kernels > kernels.ptx
./print_kernels spin > spin.ptx
# The oldest GPU that this toolkit knows; the text asks for less.
arch=$("$ptxas" --help | grep -o "sm_[0-9][0-9]*'" | tr -d "'" | sort -t_ -k2 -n -u | head -1)
for file in kernels spin; do
    grep -q '\.entry' $file.ptx
    "$ptxas" -arch="$arch" -o $file.cubin $file.ptx
    echo "ok: $file.ptx on $arch"
done
