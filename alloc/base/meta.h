/* SPDX-License-Identifier: MIT */
/*
 * meta.h - memory for our own structs, straight from the kernel.
 *
 * The program's malloc may be what called us, may be replaced, may be in the middle of a fork. So nothing in alloc/ uses
 * it. Three shapes are enough:
 *
 *     meta_get/meta_put       odd structs: size classes (powers of two) over 1 MiB pieces of mmap
 *     struct slab             many records of one size, named by a 32-bit index, never moved, never unmapped
 *     struct span             a table in one reserved stretch of addresses that is committed as it grows
 *
 * Records of a slab are type-stable: once handed out, the address stays readable for the life of the process, so that
 * readers without a lock may look at a record and check afterwards whether it still was the one they meant.
 * All memory starts as zero; meta_get and slab_take hand out zeroed memory.
 * Threads: meta_get/meta_put any; slab and span belong to the caller's lock. Failure is NULL, 0 or -ENOMEM, never fatal.
 * Prefixes: slab_, span_.
 */
#ifndef KEDGE_ALLOC_META_H
#define KEDGE_ALLOC_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whole pages, zeroed; NULL if the kernel refuses. */
void *meta_map(size_t size);
void meta_unmap(void *ptr, size_t size);

/* Small structs of odd sizes. Give back with the same size. NULL is fine to put. */
void *meta_get(size_t size);
void meta_put(void *ptr, size_t size);

/* Makes an array of records of this many bytes hold `count` of them at least. False: no memory, and it is as it was. */
bool meta_grow(void *io_array, uint32_t *io_room, uint64_t count, size_t record);

/* Bytes that we hold from the kernel for ourselves, usable ones; it backs of them what was touched. */
uint64_t meta_bytes(void);

/* In a forked child: the lock inside starts anew. */
void meta_forget(void);

/* A table that grows in place: `reserved` bytes of address space, the first `committed` of them usable. */
struct span {
    char *base;
    size_t reserved;
    size_t committed;
};

/* One that reserves its addresses when it is first committed. */
#define SPAN_OF(size)       \
    {                       \
        .reserved = (size), \
    }

/* Reserves `size` bytes of address space. 0 or -ENOMEM. */
int span_init(struct span *span, size_t size);
/* Makes the first `size` bytes usable (zeroed when new). 0 or -ENOMEM. */
int span_commit(struct span *span, size_t size);
void span_done(struct span *span);

/* Records of one size. Index 0 is never handed out, so that 0 can mean "none". */
struct slab {
    struct span span;
    uint32_t record;    /* bytes of a record */
    uint32_t top;       /* indices below were handed out at least once */
    uint32_t limit;     /* indices at or above do not exist */
    uint32_t free_head; /* chain through the first word of free records */
    uint32_t used;
};

/* At most `limit` records of `record` bytes (>= 4). 0 or -ENOMEM. */
int slab_init(struct slab *slab, uint32_t record, uint32_t limit);
void slab_done(struct slab *slab);
/* Index of a zeroed record, 0 if there is no memory. */
uint32_t slab_take(struct slab *slab);
void slab_put(struct slab *slab, uint32_t index);
/* Makes sure that the next `count` calls of slab_take succeed. 0 or -ENOMEM. */
int slab_prepare(struct slab *slab, uint32_t count);

static inline void *slab_at(const struct slab *slab, uint32_t index)
{
    return slab->span.base + (size_t)index * slab->record;
}

#endif
