/* SPDX-License-Identifier: MIT */
/*
 * pin.h - blocks whose storage somebody outside the program's own pointers relies on (R80).
 *
 * An export, a registration, a descriptor or a captured graph names an address for longer than a call lasts. Such a block
 * is pinned: no hint releases it, and, depending on who relies on it, its memory is not handed out again either, unless its memory
 * pool is destroyed:
 *
 *     kind          while the program holds it    after its free
 *     LIVE          no release                    as any block (a descriptor of freed memory is nobody's)
 *     HINT          no release                    as any block: it was nobody's but a hint's (do: pin)
 *     GRAPH         no release                    kept until the graph is gone, or the device is full
 *     SHOWN         no release                    kept until the last such pin is gone (R12, R24)
 *     HELD          (no hint but its own)         kept until the hint that holds it lets go
 *
 * A pin is a count per block and kind; who holds it is the caller's to know. The flag BLOCK_PINNED says that there is a
 * record. Does not call the driver. Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_PIN_H
#define KEDGE_ALLOC_PIN_H

#include "alloc/heap/records.h"

/* The record of a block; of the pool's table, so good until the next pin of another block comes or goes. */
struct pin {
    uint64_t block; /* its index */
    uint32_t count[POOL_PIN_COUNT];
    bool kept; /* freed, and kept for the pins alone */
};

/* One pin more on a block. 0 or -ENOMEM. */
int pin_add(struct pool *pool, uint32_t index, enum pool_pin kind) POOL_LOCKED;

/* How many of a kind there are. */
uint32_t pin_count(const struct pool *pool, uint32_t index, enum pool_pin kind) POOL_LOCKED;

/* Is it a hint alone that keeps the block, or would? */
bool pin_is_hold(const struct pool *pool, uint32_t index) POOL_LOCKED;

/* One pin less. A block that was kept for it goes its way: PENDING. */
void pin_remove(struct pool *pool, uint32_t index, enum pool_pin kind) POOL_LOCKED;

/* The program frees a pinned block. true: it is to be kept (BLOCK_KEPT, counted), and is. */
bool pin_keep(struct pool *pool, uint32_t index) POOL_LOCKED;

/* The device is full: what only graphs keep goes its way. Returns how many blocks did. */
uint32_t pin_let_graphs_go(struct pool *pool, int device) POOL_LOCKED;

/* The heap leaves, because its memory pool was destroyed: what pins keep of it waits for the work that was submitted so far, and goes. */
void pin_leave(struct pool *pool, const struct heap *heap) POOL_LOCKED;

/* The block's record goes, whatever relied on it. */
void pin_forget(struct pool *pool, uint32_t index) POOL_LOCKED;

#endif
