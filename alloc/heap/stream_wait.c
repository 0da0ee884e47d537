/* SPDX-License-Identifier: MIT */
#include "alloc/heap/stream_wait.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/streams.h"

/* Position of a stream in a set; `count` if absent. */
static uint32_t stream_wait_place_of(const struct fence_set *set, uint32_t stream)
{
    uint32_t at = 0;

    while (at < set->count && set->stream[at] != stream)
        at++;
    return at;
}

/* Removes an entry; the others keep their order. */
static void stream_wait_drop(struct fence_set *set, uint32_t at)
{
    set->count--;
    for (; at < set->count; at++) {
        set->stream[at] = set->stream[at + 1];
        set->point[at] = set->point[at + 1];
    }
}

static void drop_passed(const struct pool *pool, struct fence_set *set) POOL_LOCKED
{
    for (uint32_t at = set->count; at-- > 0;) {
        if (set->point[at] <= streams_at(pool, set->stream[at])->timeline.passed)
            stream_wait_drop(set, at);
    }
}

static void stream_wait_note_in(
        const struct pool *pool, struct fence_set *set, uint32_t other, uint64_t point) POOL_LOCKED
{
    if (fence_set_add(set, other, point) == 0)
        return;
    drop_passed(pool, set);
    if (set->count == FENCE_SET_MAX)
        stream_wait_drop(set, 0);
    (void)fence_set_add(set, other, point);
}

void stream_wait_note(struct pool *pool, uint32_t stream, uint32_t other, uint64_t point)
{
    stream_wait_note_in(pool, &streams_at(pool, stream)->behind, other, point);
}

void stream_wait_tell(struct pool *pool, uint32_t stream, uint32_t other, uint64_t point)
{
    stream_wait_note_in(pool, &streams_at(pool, stream)->told, other, point);
}

uint64_t stream_wait_upto(const struct fence_set *set, uint32_t other)
{
    uint32_t at = stream_wait_place_of(set, other);

    if (at == set->count)
        return 0;
    return POOL_IS_WITHOUT(BEHIND) ? UINT64_MAX : set->point[at];
}

bool stream_wait_covers(const struct pool *pool, uint32_t stream, uint32_t other, uint64_t point)
{
    const struct stream *at = streams_at(pool, stream);

    return point
            <= max_of(stream_wait_upto(&at->behind, other), stream_wait_upto(&at->told, other));
}

uint64_t stream_wait_told(const struct pool *pool, uint32_t stream, uint32_t other)
{
    return stream_wait_upto(&streams_at(pool, stream)->told, other);
}

static void stream_wait_forget_in(struct fence_set *set, uint32_t other)
{
    uint32_t at = stream_wait_place_of(set, other);

    if (at < set->count)
        stream_wait_drop(set, at);
}

void stream_wait_forget(struct pool *pool, uint32_t other)
{
    streams_at(pool, other)->behind.count = 0;
    streams_at(pool, other)->told.count = 0;
    for (uint32_t i = 1; i < pool->streams.top; i++) {
        stream_wait_forget_in(&streams_at(pool, i)->behind, other);
        stream_wait_forget_in(&streams_at(pool, i)->told, other);
    }
}
