/* SPDX-License-Identifier: MIT */
#include "alloc/streams.h"

uint32_t streams_make(struct pool *pool, uint64_t key)
{
    struct stream *stream;
    uint32_t index;

    if (key == 0)
        return 0;
    stream = table_get(&pool->stream_of, key);
    if (stream) {
        pool->last_stream = stream;
        return stream->index;
    }
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
    return index;
}
