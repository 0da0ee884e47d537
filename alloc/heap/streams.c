/* SPDX-License-Identifier: MIT */
#include "alloc/heap/streams.h"

/* Numbers go on from there: what is still known of earlier streams with this record (stream_wait.h)
 * covers none of them. */
static void streams_begin(struct fence_timeline *timeline, uint64_t number)
{
    timeline->given = timeline->begun = timeline->recorded = timeline->passed = number;
    timeline->is_streams = true;
}

uint32_t streams_make(struct pool *pool, uint64_t key)
{
    uint32_t index = streams_find(pool, key);
    struct stream *stream;

    if (index || key == 0)
        return index;
    index = slab_take(&pool->streams);
    if (!index)
        return 0;
    stream = streams_at(pool, index);
    if (table_put(&pool->stream_of, key, stream) != 0) {
        slab_put(&pool->streams, index);
        return 0;
    }
    stream->key = key;
    stream->index = index;
    stream->born = stream->leaving.number = ++pool->streams_born;
    stream->since = pool->points_given;
    streams_begin(&stream->timeline, stream->since);
    return index;
}

void streams_leave(struct pool *pool, struct stream *stream)
{
    stream->gone = true;
    order_insert(&pool->gone, &stream->leaving);
    pool->streams_gone++;
}

struct stream *streams_next_gone(const struct pool *pool, uint64_t *io_at)
{
    struct order_node *node = order_below(pool->gone, *io_at);

    if (!node)
        node = order_below(pool->gone, UINT64_MAX);
    *io_at = node->number;
    return (struct stream *)(void *)((char *)node - offsetof(struct stream, leaving));
}
