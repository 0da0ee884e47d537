#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What kedge says on stderr, and that it says it once, when the first CUDA call comes.
set -u
export LD_LIBRARY_PATH=$TEST_BUILD/sim TEST_ROUTE=dlsym KEDGE_CAPTURE=lines.kcap
fail=0

# said COUNT PATTERN NAME=VALUE...: so many lines in all, one of them like this; the program's own result is unchanged.
said() {
    local count=$1 pattern=$2; shift 2
    rm -f lines.kcap
    env "$@" "$TEST_BUILD/tests/unit/hooks_dlsym_test" r19_sync_memory_comes_from_segments >out.txt 2>err.txt
    local lines; lines=$(grep -c '^kedge\[' err.txt)
    if [ "$lines" != "$count" ] || { [ -n "$pattern" ] && ! grep -qE "$pattern" err.txt; }; then
        echo "$*: wanted $count lines with '$pattern', got:"; cat err.txt; fail=1
    fi
}
P=LD_PRELOAD=$TEST_BUILD/libkedge.so
said 0 '' $P
said 1 'KEDGE_MODE: bad value .*pool\|track\|off' $P KEDGE_MODE=fast
said 1 'unknown variable KEDGE_HINT is ignored; did you mean KEDGE_HINTS\?' $P KEDGE_HINT=x
said 0 '' $P KEDGE_HINT=x KEDGE_LOG=off
said 1 'mode pool, driver .*libcuda.so.1' $P KEDGE_LOG=info
said 0 '' $P NVTX_INJECTION64_PATH=/other/tool.so
said 1 'no-such.yaml.*hints are ignored' $P KEDGE_HINTS=no-such.yaml
said 1 'KEDGE_HINTS needs KEDGE_MODE=pool' $P KEDGE_HINTS=x.yaml KEDGE_MODE=track
said 1 'kedge' $P KEDGE_CAPTURE=/nonexistent/folder/x.kcap
said 1 'PyTorch caches memory by itself' "$P:$TEST_BUILD/tests/preload/libc10_cuda.so"
said 0 '' "$P:$TEST_BUILD/tests/preload/libc10_cuda.so" PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync
# PyTorch looks whether this one is there, not what it says
said 0 '' "$P:$TEST_BUILD/tests/preload/libc10_cuda.so" PYTORCH_NO_CUDA_MEMORY_CACHING=0

# caches MAY LIBRARY OFF-SWITCH: a library of that name makes one line, and none with the switch
caches() {
    mkdir -p "$(dirname "$3")"
    cp "$TEST_BUILD/tests/preload/libasking.so" "$3"
    said 1 "$1 $2 memory by itself" "$P:$PWD/$3"
    [ -z "$4" ] || said 0 '' "$P:$PWD/$3" "$4"
}
caches PaddlePaddle caches libpaddle.so FLAGS_use_system_allocator=1
caches JAX caches xla_cuda_plugin.so XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async
# settings that only some versions know, or that mean something else in some
said 1 'PaddlePaddle may cache memory by itself' "$P:$PWD/libpaddle.so" FLAGS_use_cuda_malloc_async_allocator=1
said 1 'JAX may cache memory by itself' "$P:$PWD/xla_cuda_plugin.so" XLA_PYTHON_CLIENT_ALLOCATOR=platform
caches TensorFlow caches libtensorflow_framework.so.2 TF_GPU_ALLOCATOR=cuda_malloc_async
caches CuPy 'may cache' cupy/cuda/memory.cpython-311-x86_64-linux-gnu.so ''
caches RMM 'may cache' librmm.so ''

said 1 "log pattern 'x' is ignored: .*two letters" $P "KEDGE_ANCHORS=log=x,log=Epoch {}"
said 1 'KEDGE_ANCHORS: bad value .lag. .*nvtx\|marks\|log' $P KEDGE_ANCHORS=lag
said 0 '' $P "KEDGE_ANCHORS=nvtx,log=Epoch {}/*,log=step {}:*|step over,kernel=*gemm*,kernel=sum"

# another tool that has NVTX's variable is behind us, for a program's programs too
got=$(env "$P" NVTX_INJECTION64_PATH=/other/tool.so bash -c 'bash -c "echo \$NVTX_INJECTION64_PATH_BEHIND_KEDGE"')
[ "$got" = /other/tool.so ] || { echo "the tool behind us became $got"; fail=1; }
# and the only one again in those of them that want none of us
for none in KEDGE_MODE=off KEDGE_ANCHORS=log; do
    got=$(env "$P" NVTX_INJECTION64_PATH=/other/tool.so env "$none" env | grep '^NVTX')
    [ "$got" = NVTX_INJECTION64_PATH=/other/tool.so ] || { echo "with $none NVTX's tool is $got"; fail=1; }
    got=$(env -u NVTX_INJECTION64_PATH "$P" env "$none" env | grep '^NVTX')
    [ -z "$got" ] || { echo "with $none there is no tool, and $got"; fail=1; }
done
exit $fail
