#!/bin/bash
# SPDX-License-Identifier: MIT
#
# R100: on drivers of CUDA 13.0 to 13.5, and on one that is newer than any header that was read, every form of every name
# of newer_driver.def receives what it receives without kedge, in every mode. Of the newest driver one line is said.
set -u
program=$TEST_BUILD/tests/preload/newer_program
export LD_LIBRARY_PATH=$TEST_BUILD/tests/preload/newer KEDGE_CAPTURE=$PWD/newer.kcap KEDGE_TRACE=off
fail=0
for version in 13000 13010 13020 13030 13040 13050 14000; do
    export NEWER_VERSION=$version
    "$program" || { echo "alone: the test itself is wrong"; exit 1; }
    for mode in off track pool; do
        rm -f newer.kcap*
        KEDGE_MODE=$mode LD_PRELOAD=$TEST_BUILD/libkedge.so "$program" >out 2>err ||
            { echo "driver $version, mode $mode:"; head -20 out err; fail=1; }
        lines=$(grep -c 'newer than CUDA' err)
        [ "$lines" = $([ $version = 14000 ] && [ $mode != off ] && echo 1 || echo 0) ] ||
            { echo "driver $version, mode $mode: $lines lines about the driver"; cat err; fail=1; }
    done
done
exit $fail
