/* SPDX-License-Identifier: MIT */
/* A library that asks for memory: built four times, with different build-ids and, twice, with none. */
#include "tests/unit/tracker/where_lib.h"

#ifndef VARIANT
#    define VARIANT 0
#endif

static volatile int sink;

/* Two calls deep, and no tail calls, so that there are frames to hash. */
__attribute__((noinline)) static void inner(ask_fn ask, struct tag *ret_tag)
{
    ask(4096, ret_tag);
    sink = VARIANT + 5; /* not 0, so that each variant is as long */
}

void lib_ask(ask_fn ask, struct tag *ret_tag)
{
    inner(ask, ret_tag);
    sink = 1;
}

void lib_ask_elsewhere(ask_fn ask, struct tag *ret_tag)
{
    sink = 2;
    inner(ask, ret_tag);
    sink = 3;
}
