/* SPDX-License-Identifier: MIT */
#include "preload/submit.h"

#include "preload/life.h"

#include <stdatomic.h>

bool submit_begin(void)
{
    if (guard_depth() > 0 || !resolve_ready() || life_is_passive()
            || !(atomic_load(&guard_word) & GUARD_ACTING))
        return false;
    guard_push();
    guard_read_begin();
    return true;
}

void submit_end(void)
{
    guard_read_end();
    guard_pop();
}
