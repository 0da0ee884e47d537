/* SPDX-License-Identifier: MIT */
#include "alloc/holder.h"

#include <errno.h>

static int step_free(struct holder *holder)
{
    if (holder->freed || holder->state == HOLDER_GONE)
        return -EINVAL;
    holder->freed = true;
    if (holder->state == HOLDER_LIVE || holder->state == HOLDER_HUSK)
        holder->state = HOLDER_GONE;
    return 0;
}

int holder_step(struct holder *holder, enum holder_event event)
{
    /* What follows a state without the program's free; GONE = the event cannot happen. */
    static const enum holder_state next[HOLDER_STATE_COUNT][HOLDER_EVENT_COUNT] = {
            [HOLDER_LIVE] = {HOLDER_DEAD, HOLDER_GONE, HOLDER_GONE, HOLDER_GONE},
            [HOLDER_DEAD] = {HOLDER_GONE, HOLDER_LIMBO, HOLDER_GONE, HOLDER_GONE},
            [HOLDER_LIMBO] = {HOLDER_GONE, HOLDER_GONE, HOLDER_HUSK, HOLDER_GONE},
            [HOLDER_HUSK] = {HOLDER_GONE, HOLDER_GONE, HOLDER_GONE, HOLDER_GONE},
            [HOLDER_GONE] = {HOLDER_GONE, HOLDER_GONE, HOLDER_GONE, HOLDER_GONE},
    };
    enum holder_state to;

    if (event == HOLDER_EVENT_FREE)
        return step_free(holder);
    to = next[holder->state][event];
    if (to == HOLDER_GONE)
        return -EINVAL;
    holder->state = to == HOLDER_HUSK && holder->freed ? HOLDER_GONE : to;
    return 0;
}

bool holder_is_released(const struct holder *holder)
{
    return !holder->freed
            && (holder->state == HOLDER_DEAD || holder->state == HOLDER_LIMBO
                    || holder->state == HOLDER_HUSK);
}
