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
# in_empty VARIABLE=VALUE... COMMAND...: its output and its messages; every place where a file could be left is the empty folder
in_empty() { (cd empty && env HOME="$PWD" TMPDIR="$PWD" XDG_CACHE_HOME="$PWD" "$@" 2>&1); }
ours() { in_empty LD_PRELOAD="$lib" "$@"; }

# of the shell, which has had a child, by the shell alone; and of a child
script='/bin/true; f=(/proc/$$/fd/*) t=(/proc/$$/task/*); echo ${#f[@]} ${#t[@]}; ls /proc/self/fd | wc -l; ls /proc/self/task | wc -l; echo done'
check "descriptors and threads" "$(ours bash -c "$script")" "$(in_empty bash -c "$script")"
check "lines on stderr" "$(ours /bin/true)" ""
check "a bad variable is no matter before CUDA" "$(ours KEDGE_MODE=nonsense KEDGE_X=1 /bin/true)" ""
check "names that only look like ours" "$(ours KEDGE_X=1 python3 -c 'import ctypes; l=ctypes.CDLL(None); print([hasattr(l, n) for n in ("curl_x", "cuserid_x", "cudaX", "cu", "ncurses_x", "nvtxX")])')" \
    "[False, False, False, False, False, False]"
check "a bad variable is told when a name of ours is looked up" \
    "$(ours KEDGE_X=1 python3 -c 'import ctypes; hasattr(ctypes.CDLL(None), "cuMemAlloc_v2")' | grep -c "unknown variable KEDGE_X")" "1"
check "exit status" "$(ours bash -c 'exit 7'; echo $?)" "7"
check "files" "$(ls -A empty)" ""
exit $fail
