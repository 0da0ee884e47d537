/* SPDX-License-Identifier: MIT */
/*
 * pin.h - blocks whose storage is used through other means than the program's pointers (R80, pins).
 *
 * An export, a registration, a descriptor or a captured graph names an address for longer than a
 * call lasts. Such a block is pinned: no hint releases it, and, depending on the kind, its memory
 * is not reused either, unless its memory pool is destroyed:
 *
 *     kind     while the program holds it   after its free
 *     LIVE     no release                   as any block (a descriptor of freed memory is unusable)
 *     HINT     no release                   as any block: only a hint pinned it (do: pin)
 *     GRAPH    no release                   kept until the graph is destroyed, or the device full
 *     SHOWN    no release                   kept until the last such pin is removed (R12, R24)
 *     HELD     (only by its own hint)       kept until the hint that holds it lets go
 *
 * A pin is a count per block and kind; the caller knows who holds it. The flag BLOCK_PINNED means
 * that there is a record.
 * Does not call the driver.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_PIN_H
#define KEDGE_ALLOC_PIN_H

#include "alloc/heap/records.h"

/* The pin record of a block; an entry of the pool's table, so valid until a pin of another block is
 * added or removed. */
struct pin {
    uint64_t block; /* its index */
    uint32_t count[POOL_PIN_COUNT];
    bool kept; /* freed, and kept only for the pins */
};

/* Adds a pin to a block. 0 or -ENOMEM. */
int pin_add(struct pool *pool, uint32_t index, enum pool_pin kind) POOL_LOCKED;

/* Number of pins of a kind. */
uint32_t pin_count(const struct pool *pool, uint32_t index, enum pool_pin kind) POOL_LOCKED;

/* Does only a hint keep the block, or would it? */
bool pin_is_hold(const struct pool *pool, uint32_t index) POOL_LOCKED;

/* Removes a pin. A block that was kept for it becomes PENDING. */
void pin_remove(struct pool *pool, uint32_t index, enum pool_pin kind) POOL_LOCKED;

/* The program frees a pinned block. True: the block is kept (BLOCK_KEPT, counted). */
bool pin_keep(struct pool *pool, uint32_t index) POOL_LOCKED;

/* The device is full: frees blocks that only graphs keep. Returns their number. */
uint32_t pin_let_graphs_go(struct pool *pool, int device) POOL_LOCKED;

/* The heap leaves, because its memory pool was destroyed: its pinned blocks wait for the work
 * submitted so far and are freed. */
void pin_leave(struct pool *pool, const struct heap *heap) POOL_LOCKED;

/* Removes the block's record with all its pins. */
void pin_forget(struct pool *pool, uint32_t index) POOL_LOCKED;

#endif
