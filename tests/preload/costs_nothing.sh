#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A program without CUDA, under the preload: same output, no file, no descriptor left, no thread, no line.
set -u
lib=$TEST_BUILD/libkedge.so
fail=0
check() { if [ "$2" != "$3" ]; then echo "$1: '$2', not '$3'"; fail=1; fi; }

rm -rf empty
mkdir empty
script='ls /proc/self/fd | wc -l; ls /proc/self/task | wc -l; echo done'
plain=$(bash -c "$script" 2>&1)
ours=$(cd empty && HOME=$PWD TMPDIR=$PWD XDG_CACHE_HOME=$PWD LD_PRELOAD=$lib bash -c "$script" 2>&1)
check "descriptors and threads" "$ours" "$plain"
check "lines on stderr" "$(LD_PRELOAD=$lib /bin/true 2>&1)" ""
check "a bad variable is no matter before CUDA" "$(LD_PRELOAD=$lib KEDGE_MODE=nonsense KEDGE_X=1 /bin/true 2>&1)" ""
check "names that only look like ours" "$(LD_PRELOAD=$lib KEDGE_X=1 python3 -c 'import ctypes; l=ctypes.CDLL(None); print([hasattr(l, n) for n in ("curl_x", "cuserid_x", "cudaX", "cu")])' 2>\&1)" \
    "[False, False, False, False]"
check "files" "$(ls -A empty)" ""
check "exit status" "$(LD_PRELOAD=$lib bash -c 'exit 7'; echo $?)" "7"
exit $fail
