/* SPDX-License-Identifier: MIT */
#include "tests/sim/memory/sim_contents.h"

#include "tests/sim/base/sim_core.h"
#include "tests/sim/memory/sim_va.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static void *pieces; /* tsearch; never overlap */

/* Pieces that overlap are equal, so that a search finds one that has a byte in common. */
static int order(const void *a, const void *b)
{
    const struct sim_piece *x = a, *y = b;

    if (x->end <= y->addr)
        return -1;
    return x->addr >= y->end;
}

static struct sim_piece *find(uint64_t addr, uint64_t end)
{
    const struct sim_piece key = {.addr = addr, .end = end};
    struct sim_piece *const *found = tfind(&key, &pieces, order);

    return found ? *found : NULL;
}

static void add(uint64_t addr, uint64_t end, bool is_digest)
{
    struct sim_piece *piece = sim_new(sizeof(*piece));

    *piece = (struct sim_piece){.addr = addr, .end = end, .is_digest = is_digest};
    (void)tsearch(piece, &pieces, order);
}

void sim_contents_forget(uint64_t addr, uint64_t size)
{
    uint64_t end = addr + size;
    struct sim_piece *piece;

    while (size && (piece = find(addr, end)) != NULL) {
        struct sim_piece rest = *piece;

        (void)tdelete(piece, &pieces, order);
        free(piece);
        if (rest.addr < addr)
            add(rest.addr, addr, rest.is_digest);
        if (rest.end > end)
            add(end, rest.end, rest.is_digest);
    }
}

static void write_as(uint64_t addr, uint64_t size, bool is_digest)
{
    struct sim_piece *piece;

    if (size == 0 || !sim_va_has(addr))
        return;
    piece = find(addr, addr + size);
    if (piece && piece->addr == addr && piece->end == addr + size && piece->is_digest == is_digest
            && !piece->is_open)
        return; /* the same bytes again, as in each step of a program */
    sim_contents_forget(addr, size);
    add(addr, addr + size, is_digest);
}

void sim_contents_write(uint64_t addr, uint64_t size)
{
    write_as(addr, size, false);
}

void sim_contents_write_digest(uint64_t addr, uint64_t size)
{
    write_as(addr, size, true);
}

/* The first piece that has a byte in [addr, end), cut to it; false: there is none. */
static bool first_piece(uint64_t addr, uint64_t end, struct sim_piece *ret_piece)
{
    const struct sim_piece *piece;
    bool found = false;

    while (addr < end && (piece = find(addr, end)) != NULL) {
        found = true;
        *ret_piece = (struct sim_piece){.addr = piece->addr > addr ? piece->addr : addr,
                .end = piece->end < end ? piece->end : end,
                .is_digest = piece->is_digest};
        end = ret_piece->addr; /* there may be one before it */
    }
    return found;
}

void sim_contents_copy(uint64_t dst, uint64_t src, uint64_t size)
{
    uint64_t at = src, end = src + size;
    struct sim_piece piece;

    if (!sim_va_has(dst))
        return;
    if (!sim_va_has(src)) {
        sim_contents_write(dst, size);
        return;
    }
    sim_contents_forget(dst, size);
    for (; first_piece(at, end, &piece); at = piece.end)
        write_as(dst + (piece.addr - src), piece.end - piece.addr, piece.is_digest);
}

/* ── content in pinned memory ── */

struct kept {
    uint64_t host, size, sum;
    struct sim_piece *piece; /* offsets */
    size_t count;
};

static void *keeps; /* tsearch, by `host` */

static int order_of_keeps(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;

    return x->host < y->host ? -1 : x->host > y->host;
}

static uint64_t sum_with(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15U;
    return sum ^ sum >> 32;
}

/* Four sums side by side: one alone waits for each of its multiplications. */
static uint64_t sum_of(uint64_t host, uint64_t size)
{
    const unsigned char *bytes = (const unsigned char *)(uintptr_t)host;
    uint64_t sum[4] = {size, 1, 2, 3}, at = 0, word[4];

    for (; size - at >= sizeof(word); at += sizeof(word)) {
        memcpy(word, bytes + at, sizeof(word));
        for (unsigned i = 0; i < 4; i++)
            sum[i] = sum_with(sum[i], word[i]);
    }
    memset(word, 0, sizeof(word));
    memcpy(word, bytes + at, size - at);
    for (unsigned i = 0; i < 4; i++)
        sum[i] = sum_with(sum[i], word[i]);
    return sum_with(sum_with(sum_with(sum[0], sum[1]), sum[2]), sum[3]);
}

static struct kept *kept_at(uint64_t host)
{
    const struct kept key = {.host = host};
    struct kept *const *found = tfind(&key, &keeps, order_of_keeps);

    return found ? *found : NULL;
}

static size_t pieces_of(uint64_t src, uint64_t size, struct sim_piece *ret_pieces)
{
    struct sim_piece piece;
    size_t count = 0;

    for (uint64_t at = src; first_piece(at, src + size, &piece); at = piece.end, count++)
        if (ret_pieces)
            ret_pieces[count] = (struct sim_piece){
                    .addr = piece.addr - src, .end = piece.end - src, .is_digest = piece.is_digest};
    return count;
}

void sim_contents_keep(uint64_t host, uint64_t src, uint64_t size)
{
    struct kept *kept = kept_at(host);

    if (!sim_va_has(src))
        return;
    if (!kept) {
        kept = sim_new(sizeof(*kept));
        kept->host = host;
        (void)tsearch(kept, &keeps, order_of_keeps);
    }
    free(kept->piece);
    kept->size = size;
    kept->sum = sum_of(host, size);
    kept->count = pieces_of(src, size, NULL);
    kept->piece = sim_new((kept->count + 1) * sizeof(*kept->piece));
    (void)pieces_of(src, size, kept->piece);
}

void sim_contents_fetch(uint64_t dst, uint64_t host, uint64_t size)
{
    const struct kept *kept = kept_at(host);

    if (!kept || kept->size != size || kept->sum != sum_of(host, size)) {
        sim_contents_write(dst, size);
        return;
    }
    sim_contents_forget(dst, size);
    for (size_t i = 0; i < kept->count; i++)
        write_as(dst + kept->piece[i].addr, kept->piece[i].end - kept->piece[i].addr,
                kept->piece[i].is_digest);
}

uint64_t sim_contents_known(uint64_t addr, uint64_t most)
{
    const struct sim_piece *piece = most ? find(addr, addr + 1) : NULL;

    if (!piece)
        return 0;
    return piece->end - addr < most ? piece->end - addr : most;
}

bool sim_contents_piece(uint64_t addr, struct sim_piece *ret_piece)
{
    const struct sim_piece *piece = find(addr, addr + 1), *before;

    if (!piece)
        return false;
    *ret_piece = *piece;
    before = find(piece->addr - 1, piece->addr);
    return !before || !before->is_open;
}

void sim_contents_open(uint64_t addr)
{
    struct sim_piece *piece = find(addr, addr + 1);

    if (piece)
        piece->is_open = true;
}

bool sim_contents_has_digest(uint64_t addr, uint64_t size)
{
    struct sim_piece piece;
    uint64_t at = addr;

    if (!sim_va_has(addr))
        return false;
    for (; first_piece(at, addr + size, &piece); at = piece.end)
        if (piece.is_digest || piece.addr > at)
            return true;
    return at < addr + size;
}

void sim_contents_doubt(uint64_t addr)
{
    struct sim_piece *piece = find(addr, addr + 1);

    if (piece)
        piece->is_digest = true;
}
