/* SPDX-License-Identifier: MIT */
#include "alloc/index/starts.h"

#include <errno.h>
#include <string.h>

#define STARTS_SMALL ((size_t)1 << 20) /* up to this size the memory comes from meta_get */

int starts_init(struct starts *starts, uint64_t size)
{
    uint64_t words[STARTS_LEVELS];
    uint64_t count;
    size_t total;
    char *mem;
    int r;

    memset(starts, 0, sizeof(*starts));
    starts->units = (size + STARTS_UNIT - 1) / STARTS_UNIT;
    count = starts->units;
    for (int i = 0; i < STARTS_LEVELS; i++) {
        count = (count + 63) / 64;
        words[i] = count;
        starts->bits_size += count * sizeof(uint64_t);
    }
    total = starts->bits_size + starts->units * sizeof(uint32_t);
    if (total <= STARTS_SMALL) {
        mem = starts->small = meta_get(total);
        if (!mem)
            return -ENOMEM;
    } else {
        r = span_init(&starts->span, total);
        if (r != 0)
            return r;
        r = span_commit(&starts->span, starts->bits_size);
        if (r != 0) {
            span_done(&starts->span);
            return r;
        }
        mem = starts->span.base;
    }
    for (int i = STARTS_LEVELS - 1; i >= 0; i--) {
        starts->bits[i] = (uint64_t *)(void *)mem;
        mem += words[i] * sizeof(uint64_t);
    }
    starts->index = (uint32_t *)(void *)mem;
    return 0;
}

void starts_done(struct starts *starts)
{
    if (starts->small)
        meta_put(starts->small, starts->bits_size + starts->units * sizeof(uint32_t));
    else
        span_done(&starts->span);
    memset(starts, 0, sizeof(*starts));
}

int starts_grow(struct starts *starts, uint64_t size)
{
    uint64_t units = (size + STARTS_UNIT - 1) / STARTS_UNIT;
    int r;

    if (units > starts->units)
        return -ENOMEM;
    if (units <= starts->usable)
        return 0;
    if (!starts->small) {
        r = span_commit(&starts->span, starts->bits_size + units * sizeof(uint32_t));
        if (r != 0)
            return r;
    }
    starts->usable = units;
    return 0;
}

void starts_set(struct starts *starts, uint64_t offset, uint32_t block)
{
    uint64_t at = offset / STARTS_UNIT;

    starts->index[at] = block;
    for (int i = 0; i < STARTS_LEVELS; i++) {
        uint64_t *word = &starts->bits[i][at / 64];
        uint64_t old = *word;

        *word = old | UINT64_C(1) << at % 64;
        if (old)
            return;
        at /= 64;
    }
}

void starts_clear(struct starts *starts, uint64_t offset)
{
    uint64_t at = offset / STARTS_UNIT;

    starts->index[at] = 0;
    for (int i = 0; i < STARTS_LEVELS; i++) {
        uint64_t *word = &starts->bits[i][at / 64];

        *word &= ~(UINT64_C(1) << at % 64);
        if (*word)
            return;
        at /= 64;
    }
}

uint32_t starts_before(const struct starts *starts, uint64_t offset)
{
    uint64_t at = offset / STARTS_UNIT;
    int level = 0;

    if (starts->usable == 0)
        return 0;
    if (at >= starts->usable)
        at = starts->usable - 1;
    for (;;) {
        uint64_t word = starts->bits[level][at / 64] & UINT64_MAX >> (63 - at % 64);

        if (word) {
            at = at / 64 * 64 + 63 - (uint64_t)__builtin_clzll(word);
            break;
        }
        /* Nothing in this word: the level above finds the previous nonempty word; the top level is
         * scanned. */
        at /= 64;
        if (at == 0)
            return 0;
        at = level == STARTS_LEVELS - 1 ? at * 64 - 1 : at - 1;
        if (level < STARTS_LEVELS - 1)
            level++;
    }
    while (level > 0) {
        level--;
        at = at * 64 + 63 - (uint64_t)__builtin_clzll(starts->bits[level][at]);
    }
    return starts->index[at];
}
