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
        const struct stream *other = streams_at(pool, set->stream[at]);

        if (set->point[at] <= max_of(other->timeline.passed, other->since))
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

const struct fence_set *stream_wait_set(const struct pool *pool, uint32_t stream)
{
    struct fence_set *told = &streams_at(pool, stream)->told;

    for (uint32_t at = told->count; at-- > 0;) {
        if (told->point[at] <= streams_at(pool, told->stream[at])->since)
            stream_wait_drop(told, at);
    }
    return told;
}
