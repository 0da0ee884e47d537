/* SPDX-License-Identifier: MIT */
#include "tests/bench/peers.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define KiB (UINT64_C(1) << 10)
#define MiB (UINT64_C(1) << 20)

static void *must(void *ptr)
{
    if (!ptr)
        abort();
    return ptr;
}

static uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) / unit * unit;
}

/* ---- a hash map from addresses, with chains of nodes ---- */

struct entry {
    struct entry *next;
    uint64_t key;
    void *value;
};

struct hash {
    struct entry **slots;
    size_t size, count; /* size is a power of two */
};

static struct entry **slot_of(const struct hash *hash, uint64_t key)
{
    return &hash->slots[(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (hash->size - 1)];
}

static void grow_hash(struct hash *hash)
{
    struct hash bigger = {
            must(calloc(hash->size * 2, sizeof(struct entry *))), hash->size * 2, hash->count};

    for (size_t i = 0; i < hash->size; i++) {
        struct entry *next;

        for (struct entry *at = hash->slots[i]; at; at = next) {
            struct entry **slot = slot_of(&bigger, at->key);

            next = at->next;
            at->next = *slot;
            *slot = at;
        }
    }
    free(hash->slots);
    *hash = bigger;
}

static void hash_add(struct hash *hash, uint64_t key, void *value)
{
    struct entry *entry = must(malloc(sizeof *entry));
    struct entry **slot;

    if (hash->count >= hash->size)
        grow_hash(hash);
    slot = slot_of(hash, key);
    *entry = (struct entry){*slot, key, value};
    *slot = entry;
    hash->count++;
}

static void *hash_take(struct hash *hash, uint64_t key)
{
    for (struct entry **at = slot_of(hash, key); *at; at = &(*at)->next) {
        struct entry *entry = *at;
        void *value = entry->value;

        if (entry->key != key)
            continue;
        *at = entry->next;
        hash->count--;
        free(entry);
        return value;
    }
    abort();
}

static void hash_init(struct hash *hash)
{
    *hash = (struct hash){must(calloc(1024, sizeof(struct entry *))), 1024, 0};
}

/* ---- the list ---- */

struct piece {
    struct piece *prev, *next;
    uint64_t base, size;
};

struct list_pool {
    struct peer peer;
    pthread_mutex_t mutex;
    struct piece *first;
    struct hash live; /* address -> struct piece */
    uint64_t next_address;
};

static void unlink_piece(struct list_pool *pool, const struct piece *piece)
{
    if (piece->prev)
        piece->prev->next = piece->next;
    else
        pool->first = piece->next;
    if (piece->next)
        piece->next->prev = piece->prev;
}

static void insert_piece(struct list_pool *pool, struct piece *piece)
{
    struct piece *before = NULL;
    struct piece *after = pool->first;

    while (after && after->base < piece->base) {
        before = after;
        after = after->next;
    }
    if (before && before->base + before->size == piece->base) {
        before->size += piece->size;
        free(piece);
        piece = before;
    } else {
        piece->prev = before;
        piece->next = after;
        *(before ? &before->next : &pool->first) = piece;
        if (after)
            after->prev = piece;
    }
    if (after && piece->base + piece->size == after->base) {
        piece->size += after->size;
        unlink_piece(pool, after);
        free(after);
    }
}

static struct piece *smallest_fit(const struct list_pool *pool, uint64_t size)
{
    struct piece *best = NULL;

    for (struct piece *at = pool->first; at; at = at->next)
        if (at->size >= size && (!best || at->size < best->size))
            best = at;
    return best;
}

static struct piece *new_piece(uint64_t base, uint64_t size)
{
    struct piece *piece = must(malloc(sizeof *piece));

    *piece = (struct piece){.base = base, .size = size};
    return piece;
}

static void grow_list(struct list_pool *pool, uint64_t size)
{
    uint64_t bytes = round_up(size > pool->peer.reserved ? size : pool->peer.reserved, 2 * MiB);

    insert_piece(pool, new_piece(pool->next_address, bytes));
    pool->next_address += bytes + 2 * MiB; /* not a neighbour of the last one */
    pool->peer.reserved += bytes;
    pool->peer.grown++;
}

static uint64_t list_alloc(struct peer *peer, uint64_t size)
{
    struct list_pool *pool = (struct list_pool *)peer;
    struct piece *piece, *taken;

    size = round_up(size, 256);
    pthread_mutex_lock(&pool->mutex);
    piece = smallest_fit(pool, size);
    if (!piece) {
        grow_list(pool, size);
        piece = smallest_fit(pool, size);
    }
    taken = new_piece(piece->base, size);
    piece->base += size;
    piece->size -= size;
    if (piece->size == 0) {
        unlink_piece(pool, piece);
        free(piece);
    }
    hash_add(&pool->live, taken->base, taken);
    pthread_mutex_unlock(&pool->mutex);
    return taken->base;
}

static void list_free(struct peer *peer, uint64_t ptr)
{
    struct list_pool *pool = (struct list_pool *)peer;

    pthread_mutex_lock(&pool->mutex);
    insert_piece(pool, hash_take(&pool->live, ptr));
    pthread_mutex_unlock(&pool->mutex);
}

struct peer *peer_list(void)
{
    struct list_pool *pool = must(calloc(1, sizeof *pool));

    pool->peer = (struct peer){.alloc = list_alloc, .free = list_free};
    pthread_mutex_init(&pool->mutex, NULL);
    pool->next_address = UINT64_C(1) << 40;
    hash_init(&pool->live);
    return &pool->peer;
}

/* ---- the map: a treap by (size, address) ---- */

struct map_block {
    struct map_block *prev, *next; /* in the segment */
    uint64_t base, size;
    bool is_free, small;
};

struct node {
    struct node *left, *right;
    uint64_t priority;
    struct map_block *block;
};

struct map_pool {
    struct peer peer;
    pthread_mutex_t mutex;
    struct node *small, *large;
    struct hash live; /* address -> struct map_block */
    uint64_t next_address;
    uint64_t random;
};

static bool is_before(const struct map_block *block, uint64_t size, uint64_t base)
{
    return block->size != size ? block->size < size : block->base < base;
}

static void split_tree(
        struct node *at, uint64_t size, uint64_t base, struct node **left, struct node **right)
{
    while (at) {
        if (is_before(at->block, size, base)) {
            *left = at;
            left = &at->right;
            at = at->right;
        } else {
            *right = at;
            right = &at->left;
            at = at->left;
        }
    }
    *left = NULL;
    *right = NULL;
}

static struct node *join_trees(struct node *left, struct node *right)
{
    struct node *root = NULL;
    struct node **link = &root;

    while (left && right) {
        if (left->priority > right->priority) {
            *link = left;
            link = &left->right;
            left = left->right;
        } else {
            *link = right;
            link = &right->left;
            right = right->left;
        }
    }
    *link = left ? left : right;
    return root;
}

static void map_insert(struct map_pool *pool, struct map_block *block)
{
    struct node **link = block->small ? &pool->small : &pool->large;
    struct node *node = must(malloc(sizeof *node));

    pool->random = pool->random * UINT64_C(6364136223846793005) + 1;
    *node = (struct node){.priority = pool->random >> 16, .block = block};
    while (*link && (*link)->priority > node->priority)
        link = is_before((*link)->block, block->size, block->base) ? &(*link)->right
                                                                   : &(*link)->left;
    split_tree(*link, block->size, block->base, &node->left, &node->right);
    *link = node;
    block->is_free = true;
}

static void map_remove(struct map_pool *pool, struct map_block *block)
{
    struct node **link = block->small ? &pool->small : &pool->large;
    struct node *node;

    while ((*link)->block != block)
        link = is_before((*link)->block, block->size, block->base) ? &(*link)->right
                                                                   : &(*link)->left;
    node = *link;
    *link = join_trees(node->left, node->right);
    free(node);
    block->is_free = false;
}

static struct map_block *lower_bound(const struct node *at, uint64_t size)
{
    struct map_block *found = NULL;

    while (at) {
        if (at->block->size < size) {
            at = at->right;
        } else {
            found = at->block;
            at = at->left;
        }
    }
    return found;
}

static struct map_block *grow_map(struct map_pool *pool, uint64_t size)
{
    struct map_block *block = must(calloc(1, sizeof *block));

    block->small = size <= MiB;
    block->size = block->small ? 2 * MiB : size < 10 * MiB ? 20 * MiB : round_up(size, 2 * MiB);
    block->base = pool->next_address;
    pool->next_address += block->size + 2 * MiB;
    pool->peer.reserved += block->size;
    pool->peer.grown++;
    return block;
}

static void split_block(struct map_pool *pool, struct map_block *block, uint64_t size)
{
    struct map_block *rest = must(malloc(sizeof *rest));

    *rest = (struct map_block){.prev = block,
            .next = block->next,
            .base = block->base + size,
            .size = block->size - size,
            .small = block->small};
    if (rest->next)
        rest->next->prev = rest;
    block->next = rest;
    block->size = size;
    map_insert(pool, rest);
}

static uint64_t map_alloc(struct peer *peer, uint64_t size)
{
    struct map_pool *pool = (struct map_pool *)peer;
    struct map_block *block;

    size = round_up(size, 512);
    pthread_mutex_lock(&pool->mutex);
    block = lower_bound(size <= MiB ? pool->small : pool->large, size);
    if (block)
        map_remove(pool, block);
    else
        block = grow_map(pool, size);
    if (block->size - size >= (block->small ? 512 : MiB + 1))
        split_block(pool, block, size);
    hash_add(&pool->live, block->base, block);
    pthread_mutex_unlock(&pool->mutex);
    return block->base;
}

/* The block and the one after it become one. */
static void merge(struct map_pool *pool, struct map_block *block, struct map_block *after)
{
    (void)pool;
    block->size += after->size;
    block->next = after->next;
    if (after->next)
        after->next->prev = block;
    free(after);
}

static void map_free(struct peer *peer, uint64_t ptr)
{
    struct map_pool *pool = (struct map_pool *)peer;
    struct map_block *block;

    pthread_mutex_lock(&pool->mutex);
    block = hash_take(&pool->live, ptr);
    if (block->next && block->next->is_free) {
        map_remove(pool, block->next);
        merge(pool, block, block->next);
    }
    if (block->prev && block->prev->is_free) {
        struct map_block *before = block->prev;

        map_remove(pool, before);
        merge(pool, before, block);
        block = before;
    }
    map_insert(pool, block);
    pthread_mutex_unlock(&pool->mutex);
}

struct peer *peer_map(void)
{
    struct map_pool *pool = must(calloc(1, sizeof *pool));

    pool->peer = (struct peer){.alloc = map_alloc, .free = map_free};
    pthread_mutex_init(&pool->mutex, NULL);
    pool->next_address = UINT64_C(1) << 40;
    pool->random = 1;
    hash_init(&pool->live);
    return &pool->peer;
}
