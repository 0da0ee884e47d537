#!/bin/bash
# SPDX-License-Identifier: MIT
#
# With libunwind loaded as kedge loads it, pthread_cancel of a thread in a C++ library that comes later still runs
# destructors. The control shows that this can fail: with libunwind in the global scope it does not.
set -u
compiler=$(command -v g++ || command -v clang++) || { echo "no C++ compiler"; exit 1; }
cat > cancel_lib.cc <<'CC'
#include <unistd.h>
extern "C" {
int cancel_destructors;
int cancel_ready;
}
struct guard {
    ~guard() { __atomic_fetch_add(&cancel_destructors, 1, __ATOMIC_SEQ_CST); }
};
extern "C" void *cancel_run(void *)
{
    guard g;
    __atomic_store_n(&cancel_ready, 1, __ATOMIC_RELEASE);
    for (;;)
        sleep(1);
}
CC
"$compiler" -shared -fPIC -O1 -o libcancel.so cancel_lib.cc || exit 1
helper=$TEST_BUILD/tests/unit/cancel_helper
said=$("$helper" ./libcancel.so) || exit 1
echo "as kedge does:    $said"
case $said in
"destructors 1 engine libunwind") ;;
"destructors 1 engine "*) echo "SKIP: no libunwind.so.8 here"; exit 77 ;;
*) echo "failed: the destructor did not run"; exit 1 ;;
esac
control=$(LD_PRELOAD=libunwind.so.8 "$helper" ./libcancel.so)
echo "in global scope:  $control"
case $control in
"destructors 0 "*) exit 0 ;;
*) echo "failed: the control did not fail, so this test cannot either"; exit 1 ;;
esac
