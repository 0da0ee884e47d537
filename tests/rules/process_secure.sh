#!/bin/bash
# SPDX-License-Identifier: MIT
#
# R51: a program with more rights than its caller reads no variable of ours and writes no file. The rights are those of a
# group: a copy of the program is set-gid, which needs a caller who may give files to another group. Without the bit, the same
# program is served by kedge, or this test would prove nothing.
set -u
program=$TEST_BUILD/tests/rules/process_secure
fail=0
check() { if [ "$2" != "$3" ]; then echo "$1: '$2', not '$3'"; fail=1; fi; }

rm -rf plain secure ./*.kcap ./*.out
cp "$program" plain
cp "$program" secure
group=$(getent group nogroup nobody daemon | head -1 | cut -d: -f1)
if [ -z "$group" ] || ! chgrp "$group" secure 2>/dev/null || ! chmod 2755 secure; then
    echo "SKIP: no right to give a file to another group"
    exit 77
fi
run() { env KEDGE_CAPTURE="$PWD/$1.kcap" KEDGE_TRACE=full KEDGE_MODE=pool KEDGE_LOG=debug KEDGE_NONSENSE=1 "./$1" >"$1.out" 2>"$1.err" \
    || { cat "$1.out" "$1.err"; fail=1; }; }
run secure
if grep -q '^secure 0' secure.out; then
    echo "SKIP: set-gid programs are not secure here (nosuid mount, or the caller is in the group)"
    exit 77
fi
check "handed out" "$(sed -n 's/^handed //p' secure.out)" libcuda.so.1
check "calls besides the program's own" "$(sed -n 's/^calls //p' secure.out)" 0
check "NVTX's variable" "$(sed -n 's/^nvtx //p' secure.out)" untouched
check "lines on stderr" "$(cat secure.err)" ""
check "files" "$(ls ./*.kcap 2>/dev/null)" ""
run plain
check "without the bit: secure" "$(sed -n 's/^secure //p' plain.out)" 0
check "without the bit: handed out" "$(sed -n 's/^handed //p' plain.out)" libkedge.so
check "without the bit: NVTX's variable" "$(sed -n 's/^nvtx //p' plain.out)" offered
check "without the bit: files" "$(ls ./*.kcap)" ./plain.kcap
grep -q 'unknown variable KEDGE_NONSENSE' plain.err || { echo "without the bit: the unknown variable is not named"; fail=1; }
exit $fail
