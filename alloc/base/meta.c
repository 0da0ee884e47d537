/* SPDX-License-Identifier: MIT */
#include "alloc/base/meta.h"

#include "alloc/base/lock.h"
#include "alloc/base/types.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#define ARRAY_FIRST    16 /* records of a growing array */
#define META_CLASS_MIN 4  /* log2: 16 bytes */
#define META_CLASS_MAX 20 /* log2: 1 MiB; larger allocations have mappings of their own */
#define META_PIECE     ((size_t)1 << META_CLASS_MAX)
#define META_PAGE      ((size_t)4096)
#define SPAN_STEP      ((size_t)256 << 10)

static struct lock meta_lock = LOCK_INIT(LOCK_RANK_META);
/* guarded by meta_lock: */
static void *free_list[META_CLASS_MAX + 1]; /* chained through the first word */
static char *piece;                         /* the piece being cut up, always zero */
static size_t piece_left;
/* any thread, relaxed */
static _Atomic uint64_t held_bytes;

static void *meta_map_pages(size_t size, int protection)
{
    void *ptr = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return ptr == MAP_FAILED ? NULL : ptr;
}

void *meta_map(size_t size)
{
    void *ptr;

    if (size == 0 || size > SIZE_MAX - META_PAGE)
        return NULL;
    ptr = meta_map_pages(round_up(size, META_PAGE), PROT_READ | PROT_WRITE);
    if (ptr)
        atomic_fetch_add_explicit(&held_bytes, round_up(size, META_PAGE), memory_order_relaxed);
    return ptr;
}

void meta_unmap(void *ptr, size_t size)
{
    if (!ptr)
        return;
    (void)munmap(ptr, round_up(size, META_PAGE));
    atomic_fetch_sub_explicit(&held_bytes, round_up(size, META_PAGE), memory_order_relaxed);
}

static unsigned meta_class_of(size_t size)
{
    unsigned class = META_CLASS_MIN;

    if (size > (size_t)1 << META_CLASS_MIN)
        class = 64 - (unsigned)__builtin_clzll(size - 1);
    return class;
}

/* Cuts from the piece, which is fresh from the kernel and so zero. The rest of an old piece that is
 * too small goes to the lists of the classes that fit it. */
static void *cut_locked(size_t size) TSA(requires_capability(meta_lock))
{
    void *ptr;

    if (piece_left < size) {
        while (piece_left >= (size_t)1 << META_CLASS_MIN) {
            unsigned class = 63 - (unsigned)__builtin_clzll(piece_left);

            *(void **)(void *)piece = free_list[class];
            free_list[class] = piece;
            piece += (size_t)1 << class;
            piece_left -= (size_t)1 << class;
        }
        piece = meta_map(META_PIECE);
        piece_left = piece ? META_PIECE : 0;
        if (!piece)
            return NULL;
    }
    ptr = piece;
    piece += size;
    piece_left -= size;
    return ptr;
}

void *meta_get(size_t size)
{
    unsigned class = meta_class_of(size);
    void *ptr;

    if (size == 0)
        return NULL;
    if (class > META_CLASS_MAX)
        return meta_map(size);
    lock_take(&meta_lock);
    ptr = free_list[class];
    if (ptr) {
        free_list[class] = *(void **)ptr;
        lock_drop(&meta_lock);
        memset(ptr, 0, size);
        return ptr;
    }
    ptr = cut_locked((size_t)1 << class);
    lock_drop(&meta_lock);
    return ptr;
}

void meta_put(void *ptr, size_t size)
{
    unsigned class = meta_class_of(size);

    if (!ptr)
        return;
    if (class > META_CLASS_MAX) {
        meta_unmap(ptr, size);
        return;
    }
    lock_take(&meta_lock);
    *(void **)ptr = free_list[class];
    free_list[class] = ptr;
    lock_drop(&meta_lock);
}

bool meta_grow(void *io_array, uint32_t *io_room, uint64_t count, size_t record)
{
    void **array = io_array;
    uint32_t room = *io_room ? *io_room : ARRAY_FIRST;
    void *at;

    if (count <= *io_room)
        return true;
    while (room < count && room <= UINT32_MAX / 2)
        room *= 2;
    at = room < count ? NULL : meta_get(room * record);
    if (!at)
        return false;
    if (*io_room)
        memcpy(at, *array, *io_room * record);
    meta_put(*array, *io_room * record);
    *array = at;
    *io_room = room;
    return true;
}

uint64_t meta_bytes(void)
{
    return atomic_load_explicit(&held_bytes, memory_order_relaxed);
}

void meta_forget(void)
{
    lock_init(&meta_lock, LOCK_RANK_META);
}

int span_init(struct span *span, size_t size)
{
    if (size == 0 || size > SIZE_MAX - SPAN_STEP)
        return -ENOMEM;
    span->reserved = round_up(size, META_PAGE);
    span->committed = 0;
    span->base = meta_map_pages(span->reserved, PROT_NONE);
    return span->base ? 0 : -ENOMEM;
}

int span_commit(struct span *span, size_t size)
{
    size_t to;

    if (size <= span->committed)
        return 0;
    if (size > span->reserved || (!span->base && span_init(span, span->reserved) < 0))
        return -ENOMEM;
    to = round_up(size, SPAN_STEP);
    if (to > span->reserved)
        to = span->reserved;
    if (mprotect(span->base + span->committed, to - span->committed, PROT_READ | PROT_WRITE) != 0)
        return -ENOMEM;
    atomic_fetch_add_explicit(&held_bytes, to - span->committed, memory_order_relaxed);
    span->committed = to;
    return 0;
}

void span_done(struct span *span)
{
    if (span->base) {
        (void)munmap(span->base, span->reserved);
        atomic_fetch_sub_explicit(&held_bytes, span->committed, memory_order_relaxed);
    }
    memset(span, 0, sizeof(*span));
}

int slab_init(struct slab *slab, uint32_t record, uint32_t limit)
{
    memset(slab, 0, sizeof(*slab));
    if (record < sizeof(uint32_t) || limit < 2)
        return -ENOMEM;
    slab->record = record;
    slab->limit = limit;
    slab->top = 1; /* 0 means none */
    return span_init(&slab->span, (size_t)record * limit);
}

void slab_done(struct slab *slab)
{
    span_done(&slab->span);
    memset(slab, 0, sizeof(*slab));
}

int slab_prepare(struct slab *slab, uint32_t count)
{
    uint32_t spare = slab->top - 1 - slab->used; /* records in the free chain */

    if (spare >= count)
        return 0;
    if (count - spare > slab->limit - slab->top)
        return -ENOMEM;
    return span_commit(&slab->span, (size_t)(slab->top + count - spare) * slab->record);
}

uint32_t slab_take(struct slab *slab)
{
    uint32_t index = slab->free_head;

    if (index) {
        slab->free_head = *(const uint32_t *)slab_at(slab, index);
        memset(slab_at(slab, index), 0, slab->record);
    } else {
        if (slab_prepare(slab, 1) != 0)
            return 0;
        index = slab->top++;
    }
    slab->used++;
    return index;
}

void slab_put(struct slab *slab, uint32_t index)
{
    *(uint32_t *)slab_at(slab, index) = slab->free_head;
    slab->free_head = index;
    slab->used--;
}
