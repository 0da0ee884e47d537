/* SPDX-License-Identifier: MIT */
#define KEDGE_CHECK_NO_MAIN
#include "tests/unit/alloc/parts.h"

#include "alloc/base/meta.h"
#include "alloc/heap/tally.h"

int parts_fail;

static bool fails(void)
{
    return parts_fail > 0 && --parts_fail == 0;
}

void *__real_meta_get(size_t size);
void *__wrap_meta_get(size_t size);
uint32_t __real_slab_take(struct slab *slab);
uint32_t __wrap_slab_take(struct slab *slab);
int __real_span_init(struct span *span, size_t size);
int __wrap_span_init(struct span *span, size_t size);
int __real_span_commit(struct span *span, size_t size);
int __wrap_span_commit(struct span *span, size_t size);

void *__wrap_meta_get(size_t size)
{
    return fails() ? NULL : __real_meta_get(size);
}

uint32_t __wrap_slab_take(struct slab *slab)
{
    return fails() ? 0 : __real_slab_take(slab);
}

int __wrap_span_init(struct span *span, size_t size)
{
    return fails() ? -ENOMEM : __real_span_init(span, size);
}

int __wrap_span_commit(struct span *span, size_t size)
{
    return fails() ? -ENOMEM : __real_span_commit(span, size);
}

struct segment parts_segment(devptr_t base)
{
    return (struct segment){
            .kind = SEGMENT_PLAIN,
            .base = base,
            .size = PARTS_SIZE,
            .raw_base = base,
            .raw_size = PARTS_SIZE,
            .context = BENCH_CONTEXT,
    };
}

int parts_add(struct pool *pool, struct heap *heap, devptr_t base, uint32_t *ret_segment)
{
    struct segment like = parts_segment(base);
    int r = segment_add(pool, heap, &like, ret_segment);

    if (r == 0)
        tally_reserved(heap, PARTS_SIZE);
    return r;
}

void parts_remove(struct pool *pool, uint32_t segment)
{
    tally_reserved(segment_at(pool, segment)->heap, -(int64_t)PARTS_SIZE);
    segment_remove(pool, segment);
}

struct parts parts_begin(void)
{
    struct parts parts = {.b = bench_new(GiB), .random = 11};
    struct pool *pool = parts.b->pool;

    parts.pool = pool;
    lock_take(&pool->lock);
    parts.heap = heap_get(pool, HEAP_PLAIN, BENCH_CONTEXT, 0);
    REQUIRE(parts.heap);
    REQUIRE_EQ(parts_add(pool, parts.heap, PARTS_BASE, &parts.segment), 0);
    lock_drop(&pool->lock);
    return parts;
}

void parts_end(struct parts *parts)
{
    struct pool *pool = parts->pool;

    BENCH_CHECK(parts->b);
    lock_take(&pool->lock);
    if (parts->segment)
        parts_remove(pool, parts->segment);
    lock_drop(&pool->lock);
    bench_end(parts->b);
}

uint64_t parts_random(struct parts *parts, uint64_t below)
{
    return bench_random(&parts->random, below);
}
