/* SPDX-License-Identifier: MIT */
#include "preload/scan/scanwords.h"

#include <time.h>

#define SCAN_CHUNK_MAX (16u << 20) /* bytes of a block of malloc */
#define SCAN_INNER_MAX (UINT64_C(1) << 30)
#define SCAN_TRIES     2 /* addresses that may be looked at, for each block of malloc */

uint64_t scanwords_clock(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool scanwords_is_over(struct scan *scan)
{
    if (scanwords_clock() >= scan->end_ns)
        scan->flags |= FORMAT_WALK_CUT;
    return (scan->flags & FORMAT_WALK_CUT) != 0;
}

/* The number of the block that contains an address, UINT32_MAX: none. */
static uint32_t scanwords_block_of(const struct scan *scan, uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = scan->blocks;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (scan->block[middle].addr + scan->block[middle].size <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < scan->blocks && scan->block[low].addr <= address ? low : UINT32_MAX;
}

uint32_t scanwords_root_of(struct scan *scan, const struct scan_from *from, uint64_t at)
{
    if (from->chunk)
        return scan->chunk[from->chunk].root;
    if (from->root)
        return from->root;
    if (scan->roots >= scan->most) {
        scan->flags |= FORMAT_WALK_CUT;
        return 0;
    }
    scan->root[++scan->roots] = from->root_of_word;
    if (from->root_of_word.kind == SCAN_STACK)
        scan->root[scan->roots].words = at <= FORMAT_FRAME_WORDS_MAX ? (uint32_t)at : 0;
    else
        scan->root[scan->roots].offset += at;
    return scan->roots;
}

static void scanwords_reach_again(
        struct scan *scan, struct scan_chunk *chunk, const struct scan_from *from, uint64_t at)
{
    uint32_t root = from->chunk ? scan->chunk[from->chunk].root : from->root;

    if (chunk->has_more || root == chunk->root)
        return;
    for (int i = 0; i < SCAN_FURTHER; i++) {
        if (root && chunk->further[i] == root)
            return;
        if (chunk->further[i] == 0) {
            chunk->further[i] = scanwords_root_of(scan, from, at);
            return;
        }
    }
    chunk->has_more = true;
}

/* Memory that was never written has what earlier blocks left there, heads too: such overlap others. */
static void scanwords_mark_inner(struct scan *scan, uint64_t address, uint64_t size)
{
    uint64_t end = address + (size < SCAN_INNER_MAX ? size : SCAN_INNER_MAX);

    for (uint64_t page = (address + SCANREAD_PAGE - 1) / SCANREAD_PAGE;
            (page + 1) * SCANREAD_PAGE <= end; page++)
        (void)table_add(&scan->inner, page);
}

/* Keeps the block of malloc that a word is the address of. */
static void scanwords_follow(
        struct scan *scan, const struct scan_from *from, uint64_t at, uint64_t word)
{
    uint64_t address, size;
    struct scan_known *known;
    uint32_t root;

    if (word % 8 != 0 || !scanread_map_of(&scan->read, word))
        return;
    known = table_find(&scan->known, word & ~UINT64_C(15));
    if (known) {
        if (known->chunk > scan->drivers)
            scanwords_reach_again(scan, &scan->chunk[known->chunk], from, at);
        return;
    }
    if (table_find(&scan->inner, word / SCANREAD_PAGE))
        return;
    root = scan->chunks < scan->most && scan->known.count < SCAN_TRIES * (uint64_t)scan->most
            ? scanwords_root_of(scan, from, at)
            : 0;
    known = root ? table_add(&scan->known, word & ~UINT64_C(15)) : NULL;
    if (!known) {
        scan->flags |= FORMAT_WALK_CUT;
        return;
    }
    if (!scanread_chunk(&scan->read, word, &address, &size))
        return;
    known->chunk = ++scan->chunks;
    scan->chunk[scan->chunks] = (struct scan_chunk){
            .address = address, .size = size, .root = root, .parent = from->chunk};
    scanwords_mark_inner(scan, address, size);
}

void scanwords_word(struct scan *scan, const struct scan_from *from, uint64_t at, uint64_t word)
{
    uint32_t block =
            word >= scan->low && word < scan->high ? scanwords_block_of(scan, word) : UINT32_MAX;

    if (block == UINT32_MAX) {
        scanwords_follow(scan, from, at, word);
        return;
    }
    if (scan->is_driver)
        return;
    if (scan->hits >= scan->most) {
        scan->flags |= FORMAT_WALK_CUT;
        return;
    }
    scan->hit[scan->hits++] = (struct scan_hit){.block = block,
            .root = from->chunk ? 0 : scanwords_root_of(scan, from, at),
            .chunk = from->chunk,
            .is_inside = word != scan->block[block].addr};
}

/* The words of [low, high) of a few pages, of which the one may have other blocks. */
static void scanwords_pages(
        struct scan *scan, const struct scan_from *from, uint64_t low, uint64_t high)
{
    for (uint64_t at = low; at + sizeof(uint64_t) <= high; at += sizeof(uint64_t)) {
        const uint64_t *page = scanread_page(&scan->read, at / SCANREAD_PAGE);
        uint64_t word = page ? page[at % SCANREAD_PAGE / sizeof *page] : 0;

        if (word > UINT16_MAX)
            scanwords_word(scan, from, at - low, word);
    }
}

void scanwords_memory(struct scan *scan, const struct scan_from *from, uint64_t low, uint64_t high)
{
    if (high - low <= SCANREAD_PAGE) {
        scanwords_pages(scan, from, low, high);
        return;
    }
    for (uint64_t at = low; at < high && !scanwords_is_over(scan); at += SCANWORDS_PIECE) {
        size_t got = scanread_some(scan->piece, at,
                             high - at < SCANWORDS_PIECE ? high - at : SCANWORDS_PIECE)
                / sizeof(uint64_t);

        for (size_t i = 0; i < got; i++)
            if (scan->piece[i] > UINT16_MAX)
                scanwords_word(scan, from, at - low + i * sizeof(uint64_t), scan->piece[i]);
    }
}

void scanwords_heap(struct scan *scan)
{
    for (uint32_t i = scan->drivers + 1; i <= scan->chunks && !scanwords_is_over(scan); i++) {
        const struct scan_chunk *chunk = &scan->chunk[i];
        struct scan_from from = {.chunk = i};

        if (chunk->size > SCAN_CHUNK_MAX)
            scan->flags |= FORMAT_WALK_PARTS;
        scanwords_memory(scan, &from, chunk->address,
                chunk->address + (chunk->size < SCAN_CHUNK_MAX ? chunk->size : SCAN_CHUNK_MAX));
    }
}
