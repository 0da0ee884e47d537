#!/bin/bash
# SPDX-License-Identifier: MIT
# covers: export_asan.c
#
# What else stands before or beside kedge when a program starts: a preload that answers look-ups, a second copy of the library,
# the runtime of a sanitizer, another C library, a backend that kedge run selects. The program runs as without it, and the figures are right, or one line says why not.
set -u
kedge=$TEST_BUILD/kedge
lib=$TEST_BUILD/libkedge.so
sim=$TEST_BUILD/sim
fail=0
check() { if [ "$2" != "$3" ]; then echo "$1: '$2', not '$3'"; fail=1; fi; }

cat >program.c <<'EOF'
#include <cuda_runtime_api.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *kept, *gone;
    if (argc > 1)
        fprintf(stderr, "RuntimeError: %s. If you need it, please file an issue\n", argv[1]);
    for (int i = 0; i < 3; i++)
        if (cudaMalloc(&kept, 10 << 20) || cudaMalloc(&gone, 5 << 20) || cudaFree(gone))
            return 1;
    return puts("ok") < 0;
}
EOF
# make NAME FLAGS...
make() {
    local name=$1; shift
    gcc -I"$TEST_SOURCE/tests/trainers/include" -I"$TEST_SOURCE" -w program.c -o "$name" "$@" \
        -L"$sim" -l:libcudart.so.13 -l:libcuda.so.1 -Wl,--no-as-needed,-rpath,"$sim" -ldl
}
# run VARIABLE=VALUE... PROGRAM: what it printed, and what it held at most
run() {
    rm -f t.kcap*
    echo "$(env "${@:1:$#-1}" "$kedge" run --sim --capture t.kcap -- "${@: -1}" 2>err)" "$(sed -n 's/.*peak live //p' err)"
}
# said PART: in how many lines of the last run
said() { grep -c -- "$1" err; }

make program || exit 1
right="ok 35.00 MiB"
check "alone" "$(run A=1 ./program)" "$right"

# a quota library as there are some: it looks functions up for the program
cat >quota.c <<'EOF'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
static void *(*real)(void *, const char *);
static int (*allocate)(unsigned long long *, size_t);
static int (*look_up)(const char *, void **, int, unsigned long long, int *);
static void load(void)
{
    void *driver;
    if (allocate)
        return;
    real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    allocate = real(driver, "cuMemAlloc_v2");
    look_up = real(driver, "cuGetProcAddress_v2");
}
#ifdef LATE
#define called()
#define asked(name) (name[0] == 'c' && name[1] == 'u')
#else
#define called() load()
#define asked(name) 1
#endif
int cuMemAlloc_v2(unsigned long long *ptr, size_t size)
{
    called();
    return allocate(ptr, size);
}
int cuGetProcAddress_v2(const char *name, void **fn, int version, unsigned long long flags, int *status)
{
    called();
    int r = look_up(name, fn, version, flags, status);
    if (r == 0 && strcmp(name, "cuMemAlloc") == 0)
        *fn = (void *)cuMemAlloc_v2;
    return r;
}
void *dlsym(void *handle, const char *name)
{
    if (asked(name))
        load();
    if (!real)
        real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (strcmp(name, "cuMemAlloc_v2") == 0)
        return (void *)cuMemAlloc_v2;
    return strcmp(name, "cuGetProcAddress_v2") == 0 ? (void *)cuGetProcAddress_v2 : real(handle, name);
}
EOF
gcc -w -shared -fPIC quota.c -o quota.so -ldl || exit 1
check "behind a preload that answers look-ups" "$(run "LD_PRELOAD=$PWD/quota.so" ./program)" "$right"
check "that is said" "$(said 'quota.so, which answers look-ups')" 1

# the same, which gets ready when the program looks up a function of the driver, as HAMi-core does
gcc -w -DLATE -shared -fPIC quota.c -o late.so -ldl || exit 1
check "a late preload alone" "$(LD_LIBRARY_PATH=$sim LD_PRELOAD=$PWD/late.so ./program)" "ok"
check "behind a preload that waits for a look-up" "$(run "LD_PRELOAD=$PWD/late.so" ./program)" "$right"

# another copy of the library
mkdir -p other && cp "$lib" other/
check "beside another copy" "$(run "LD_PRELOAD=$PWD/other/libkedge.so" ./program)" "$right"
check "captures of one copy" "$(ls t.kcap* | wc -l)" 1
check "that is said" "$(said 'another libkedge.so')" 1
rm -f t.kcap*
LD_LIBRARY_PATH=$sim LD_PRELOAD=$PWD/other/libkedge.so:$lib KEDGE_CAPTURE=t.kcap ./program >out 2>err
check "both by hand" "$(cat out) $("$kedge" report t.kcap | sed -n 's/^Max memory: *//p')" "$right"
check "captures of one copy by hand" "$(ls t.kcap* | wc -l)" 1
check "that is said by hand" "$(said 'another libkedge.so.*stands aside')" 1
LD_PRELOAD=$PWD/other/libkedge.so:$lib /bin/true >err 2>&1
check "nothing is said without CUDA" "$(cat err)" ""

# runtimes that want to come first; ThreadSanitizer's has more thread-local memory than there is under an auditor
for sanitizer in address thread; do
    if make sanitized -fsanitize=$sanitizer 2>/dev/null && LD_LIBRARY_PATH=$sim ./sanitized >/dev/null 2>&1; then
        check "with -fsanitize=$sanitizer" "$(run A=1 ./sanitized)" "$right"
        echo 'exec ./sanitized' >script.sh
        check "in a script with -fsanitize=$sanitizer" "$(rm -f t.kcap*; "$kedge" run --sim --capture t.kcap -- bash script.sh 2>/dev/null)" "ok"
    else
        echo "no runtime for -fsanitize=$sanitizer here"
    fi
done

# PyTorch's words for what its backend has not, which kedge run selects: said once what to do
words="cudaMallocAsync does not yet support createOrIncrefPool"
for words in "$words" "cudaMallocAsync"; do
    rm -f t.kcap*
    "$kedge" run --sim --capture t.kcap -- ./program "$words" >out 2>err
    check "after '$words'" "$(said 'use kedge run --api framework')" "$((${#words} > 20))"
done
for api in sync framework; do
    rm -f t.kcap*
    "$kedge" run --sim --api $api --capture t.kcap -- ./program "RuntimeError: invalid device pointer: 0x7f0000000000" >out 2>err
    check "after an invalid pointer, --api $api" "$(said 'use kedge run --api framework')" "$([ $api = sync ] && echo 1 || echo 0)"
done

# a program of musl's; its loader need not be here for this
make foreign -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1
run A=1 ./foreign >/dev/null
check "a program of another C library" "$(said './foreign is a program of another C library')" 1
exit $fail
