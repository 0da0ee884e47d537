#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The unwinding of C++ is libgcc's, with libkedge.so in the process: in a library that comes later,
# pthread_cancel runs destructors, exceptions are caught, and every _Unwind_ function is bound to libgcc_s. The control shows
# that this can fail: with libunwind in the global scope it does.
set -u
rm -rf work && mkdir work && cd work || exit 1
fail() { echo "FAILED: $*"; exit 1; }
compiler=$(command -v g++ || command -v clang++) || fail "no C++ compiler"
cat >lib.cc <<'CC'
#include <stdexcept>
#include <unistd.h>
static int destroyed;
struct guard {
    ~guard() { __atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST); }
};
static int ready;
static __attribute__((noinline)) void sleep_deep(int depth)
{
    guard g;
    if (depth > 0)
        sleep_deep(depth - 1);
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    while (depth == 0)
        sleep(1);
}
extern "C" void *lib_sleep(void *) { sleep_deep(3); return nullptr; }
extern "C" int lib_ready() { return __atomic_load_n(&ready, __ATOMIC_ACQUIRE); }
extern "C" int lib_destroyed() { return __atomic_load_n(&destroyed, __ATOMIC_SEQ_CST); }
static __attribute__((noinline)) void throw_deep(int depth, int (*ask)())
{
    guard g;
    if (depth == 0)
        throw std::runtime_error(ask() == 0 ? "thrown" : "no memory");
    throw_deep(depth - 1, ask);
}
/* Throws from below an allocation's stack, catches, throws on, catches: how many objects were destroyed on the way. */
extern "C" int lib_throw(int (*ask)())
{
    int before = lib_destroyed();
    try {
        try {
            throw_deep(3, ask);
        } catch (const std::runtime_error &) {
            guard g;
            throw;
        }
    } catch (const std::exception &error) {
        return error.what()[0] == 't' ? lib_destroyed() - before : -1;
    }
    return -2;
}
CC
cat >program.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long long *, size_t);
static int ask(void) { unsigned long long ptr; return cuMemAlloc_v2(&ptr, 4096); }
int main(int argc, char **argv)
{
    void *context, *library, *result;
    pthread_t thread;
    if (argc != 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || ask())
        return 2;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return puts(dlerror()), 2;
    int thrown = ((int (*)(int (*)(void)))dlsym(library, "lib_throw"))(ask);
    int (*destroyed)(void) = (int (*)(void))dlsym(library, "lib_destroyed");
    int before = destroyed();
    pthread_create(&thread, NULL, (void *(*)(void *))dlsym(library, "lib_sleep"), NULL);
    while (!((int (*)(void))dlsym(library, "lib_ready"))())
        usleep(1000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("thrown %d cancelled %d %s\n", thrown, destroyed() - before, result == PTHREAD_CANCELED ? "yes" : "no");
    return 0;
}
C
"$compiler" -shared -fPIC -O1 -o lib.so lib.cc || fail "the library does not compile"
gcc -O1 -o program program.c "$TEST_BUILD/sim/libcuda.so.1" -pthread || fail "the program does not compile"
readelf -d program | grep -q 'libstdc++\|libgcc_s' && fail "the program brings the C++ library along: nothing comes late"
export LD_LIBRARY_PATH=$TEST_BUILD/sim KEDGE_TRACE=off
want="thrown 5 cancelled 4 yes"

said=$(LD_PRELOAD=$TEST_BUILD/libkedge.so LD_DEBUG=bindings LD_DEBUG_OUTPUT=bindings ./program "$PWD/lib.so")
echo "with kedge: $said"
[ "$said" = "$want" ] || fail "not: $want"
cat bindings.* >all
grep -q "libunwind" all && fail "libkedge.so has loaded an unwinder"
# "binding file A [0] to B [0]: normal symbol `_Unwind_Resume' [GCC_3.0]"
bound=$(sed -n "s/.*binding file \(.*\) \[0\] to \(.*\) \[0\]: .*symbol .\(_Unwind_[A-Za-z_]*\)'.*/\3 \1 \2/p" all)
echo "$bound" | awk '{n = split($3, part, "/"); print $1, "->", part[n]}' | sort | uniq -c
echo "$bound" | grep -q "_Unwind_Resume .*lib.so .*libgcc_s.so.1$" || fail "the library does not bind _Unwind_Resume to libgcc_s"
echo "$bound" | grep -q "_Unwind_RaiseException .*libstdc++.* .*libgcc_s.so.1$" || fail "libstdc++ does not bind to libgcc_s"
echo "$bound" | grep -v "libgcc_s.so.1$" && fail "these are not bound to libgcc_s"

ldconfig -p | grep -q "libunwind.so.8" || { echo "no libunwind.so.8 here: no control"; exit 0; }
control=$(LD_PRELOAD=libunwind.so.8:$TEST_BUILD/libkedge.so ./program "$PWD/lib.so")
echo "control:    $control"
[ "$control" != "$want" ] || fail "the control did not fail, so this test cannot either"
