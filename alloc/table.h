/* SPDX-License-Identifier: MIT */
/*
 * table.h - hash tables: the only include of uthash.
 *
 * uthash ends the process when its malloc fails, unless HASH_NONFATAL_OOM is set before the include; and it uses malloc,
 * which alloc/ must not. Both are settled here once: include this header, never <uthash.h>.
 *
 * With HASH_NONFATAL_OOM an item that could not be added has `hh.tbl == NULL` afterwards: TABLE_ADDED(item) says whether
 * it is in. Zero the item before adding it.
 * For cold tables (heaps, streams, call sites). Hot look-ups have structures of their own (granule.h, hint.c).
 * Threads: the caller's lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_TABLE_H
#define KEDGE_ALLOC_TABLE_H

#include "alloc/meta.h"

#include <string.h>

#define HASH_NONFATAL_OOM      1
#define uthash_malloc(sz)      meta_get(sz)
#define uthash_free(ptr, sz)   meta_put(ptr, sz)
#define uthash_nonfatal_oom(e) ((void)(e))
#include <uthash.h>

/* True if the last HASH_ADD of this item found memory. */
#define TABLE_ADDED(item) ((item)->hh.tbl != NULL)

#endif
