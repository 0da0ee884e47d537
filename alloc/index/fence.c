/* SPDX-License-Identifier: MIT */
#include "alloc/index/fence.h"

#include <errno.h>

static void append(struct fence_timeline *timeline, struct fence_mark *mark)
{
    mark->next = NULL;
    mark->prev = timeline->last;
    mark->is_listed = true;
    if (timeline->last)
        timeline->last->next = mark;
    else
        timeline->first = mark;
    timeline->last = mark;
    timeline->marks++;
    timeline->bytes += mark->chain.bytes;
}

struct fence_mark *fence_begin(struct fence_timeline *timeline, struct fence_chain *chain)
{
    struct fence_mark *mark = meta_get(sizeof(*mark));

    if (!mark)
        return NULL;
    mark->number = timeline->begun = ++timeline->given;
    mark->users = 2; /* the timeline and the caller */
    if (chain) {
        mark->chain = *chain;
        *chain = (struct fence_chain){0};
    }
    append(timeline, mark);
    return mark;
}

void fence_recorded(struct fence_timeline *timeline, struct fence_mark *mark, uint64_t fence)
{
    mark->fence = fence;
    mark->recorded = true;
    if (mark->number > timeline->recorded)
        timeline->recorded = mark->number;
}

/* False if it is no longer listed (a later mark has passed). */
static bool unlink_mark(struct fence_timeline *timeline, struct fence_mark *mark)
{
    if (!mark->is_listed)
        return false;
    if (mark->prev)
        mark->prev->next = mark->next;
    else
        timeline->first = mark->next;
    if (mark->next)
        mark->next->prev = mark->prev;
    else
        timeline->last = mark->prev;
    mark->is_listed = false;
    timeline->marks--;
    timeline->bytes -= mark->chain.bytes;
    return true;
}

void fence_move(struct fence_timeline *from, struct fence_mark *mark, struct fence_timeline *to,
        struct fence_chain *chain)
{
    (void)unlink_mark(from, mark);
    mark->number = to->begun = ++to->given;
    mark->chain = *chain;
    *chain = (struct fence_chain){0};
    append(to, mark);
    fence_recorded(to, mark, mark->fence);
}

void fence_turn(struct fence_timeline *timeline, struct fence_mark *mark)
{
    if (unlink_mark(timeline, mark))
        append(timeline, mark);
}

void fence_failed(
        struct fence_timeline *timeline, struct fence_mark *mark, struct fence_chain *ret_chain)
{
    *ret_chain = (struct fence_chain){0};
    if (!unlink_mark(timeline, mark))
        return; /* covered by a later mark that has passed: nothing waits for it */
    *ret_chain = mark->chain;
    mark->chain = (struct fence_chain){0};
    mark->users--; /* the timeline's; the caller keeps its own */
}

struct fence_mark *fence_at_least(const struct fence_timeline *timeline, uint64_t number)
{
    struct fence_mark *mark = timeline->first;

    while (mark && (!mark->recorded || mark->number < number))
        mark = mark->next;
    return mark;
}

struct fence_mark *fence_pass(struct fence_timeline *timeline, uint64_t number)
{
    struct fence_mark *mark = timeline->first;

    if (number > timeline->passed)
        timeline->passed = number;
    if (!mark || mark->number > timeline->passed)
        return NULL;
    (void)unlink_mark(timeline, mark);
    return mark;
}

void fence_use(struct fence_mark *mark)
{
    mark->users++;
}

bool fence_drop(struct fence_mark *mark, uint64_t *ret_fence, bool *ret_put)
{
    *ret_put = false;
    if (--mark->users > 0)
        return false;
    *ret_put = mark->recorded;
    *ret_fence = mark->fence;
    meta_put(mark, sizeof(*mark));
    return true;
}

int fence_set_add(struct fence_set *set, uint32_t stream, uint64_t point)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->stream[i] == stream) {
            if (point > set->point[i])
                set->point[i] = point;
            return 0;
        }
    }
    if (set->count == FENCE_SET_MAX)
        return -ENOSPC;
    set->stream[set->count] = stream;
    set->point[set->count] = point;
    set->count++;
    return 0;
}
