/* SPDX-License-Identifier: MIT */
#include "alloc/heap/streams.h"

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
    stream->born = ++pool->streams_born;
    return index;
}
