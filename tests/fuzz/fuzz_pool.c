/* SPDX-License-Identifier: MIT */
/* Any string of bytes, taken as a program (pool_model.h): the pool keeps every promise. */
#define KEDGE_CHECK_NO_MAIN
#include "tests/check.h"

#include "tests/unit/alloc/pool_model.h"

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length);

struct check_state check_state;

/* What is broken stands on stdout. */
static _Noreturn void broken(void)
{
    (void)fflush(stdout);
    __builtin_trap();
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length)
{
    struct model_floors floors = {0};

    check_state.thread = pthread_self();
    if (setjmp(check_state.stop) != 0)
        broken();
    model_run(input, length, false, &floors);
    if (atomic_load(&check_state.failures) != 0 || floors.violations != 0)
        broken();
    return 0;
}
