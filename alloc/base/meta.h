/* SPDX-License-Identifier: MIT */
/*
 * meta.h - memory for our own structs, straight from the kernel.
 *
 * kedge may be called from the program's malloc, which may be replaced, or be in the middle of a
 * fork. So nothing in alloc/ uses it. Three forms suffice:
 *
 *     meta_get/meta_put   odd structs: size classes (powers of two) over 1 MiB pieces of mmap
 *     struct slab         many records of one size, by a 32-bit index, never moved, never unmapped
 *     struct span         a table in one reserved address range that is committed as it grows
 *
 * Records of a slab are type-stable: once allocated, the address stays readable for the life of the
 * process, so that readers without a lock may read a record and check afterwards whether it is
 * still the one they meant. All memory starts as zero; meta_get and slab_take return zeroed memory.
 * Threads: meta_get/meta_put any; slab and span belong to the caller's lock. Failure is NULL, 0 or
 * -ENOMEM, never fatal.
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

/* Small structs of odd sizes. meta_put takes the same size; NULL is allowed. */
void *meta_get(size_t size);
void meta_put(void *ptr, size_t size);

/* Grows an array of records of this size to at least `count` records. False: no memory, and it is
 * unchanged. */
bool meta_grow(void *io_array, uint32_t *io_room, uint64_t count, size_t record);

/* Usable bytes that we have from the kernel; it backs only touched pages. */
uint64_t meta_bytes(void);

/* In a forked child: resets the lock inside. */
void meta_forget(void);

/* A table that grows in place: `reserved` bytes of address space, the first `committed` of them
 * usable. */
struct span {
    char *base;
    size_t reserved;
    size_t committed;
};

/* A span that reserves its addresses when it is first committed. */
#define SPAN_OF(size)       \
    {                       \
        .reserved = (size), \
    }

/* Reserves `size` bytes of address space. 0 or -ENOMEM. */
int span_init(struct span *span, size_t size);
/* Makes the first `size` bytes usable (zeroed when new). 0 or -ENOMEM. */
int span_commit(struct span *span, size_t size);
void span_done(struct span *span);

/* Records of one size. Index 0 is never allocated, so that 0 can mean "none". */
struct slab {
    struct span span;
    uint32_t record;    /* bytes of a record */
    uint32_t top;       /* indices below were allocated at least once */
    uint32_t limit;     /* indices at or above do not exist */
    uint32_t free_head; /* chain through the first word of free records */
    uint32_t used;
};

/* At most `limit` records of `record` bytes (>= 4). 0 or -ENOMEM. */
int slab_init(struct slab *slab, uint32_t record, uint32_t limit);
void slab_done(struct slab *slab);
/* Allocates a zeroed record; 0 = no memory. */
uint32_t slab_take(struct slab *slab);
void slab_put(struct slab *slab, uint32_t index);
/* Ensures that the next `count` calls of slab_take succeed. 0 or -ENOMEM. */
int slab_prepare(struct slab *slab, uint32_t count);

static inline void *slab_at(const struct slab *slab, uint32_t index)
{
    return slab->span.base + (size_t)index * slab->record;
}

#endif
