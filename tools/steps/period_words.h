/* SPDX-License-Identifier: MIT */
/*
 * period_words.h - words of a sequence of allocations: 1, 2, 4, 8 or 16 consecutive ones of a
 * thread or stream.
 *
 * Equal words have equal numbers, so that comparing two is comparing two numbers. After the
 * sequence comes a second one: the same allocations in random order, each in its own lane. Two
 * pieces of that have in common what two pieces of any sequence have by chance.
 *
 * Threads: none. Memory: vec.h, 48 bytes per allocation, and up to 60 more while they are made.
 * Time: n for each length.
 */
#ifndef KEDGE_TOOLS_PERIOD_WORDS_H
#define KEDGE_TOOLS_PERIOD_WORDS_H

#include "tools/steps/period.h"

enum {
    PERIOD_WORDS_SIZES = 5, /* index k is for words of 1 << k allocations */
};

/* Criteria for equal allocations. */
enum period_words_sameness {
    PERIOD_WORDS_ALL,  /* call site and size */
    PERIOD_WORDS_SITE, /* call site alone: sizes vary with the batch */
    PERIOD_WORDS_BITS, /* call site, and size up to a factor of two */
    PERIOD_WORDS_SAMENESSES
};

struct period_words {
    /* Allocations; as many follow in random order, and one that stands for "none". */
    uint32_t count;
    uint32_t kinds; /* of allocations */
    uint32_t *next; /* [i]: the next allocation in the same lane */
    /* [k][i]: number of the word that begins with allocation i */
    uint32_t *ids[PERIOD_WORDS_SIZES];
};

/* Allocations before `start` stay in place and are not part of the random order. */
void period_words_make(const struct period_alloc *allocs, uint32_t start, uint32_t count,
        enum period_words_sameness same, struct period_words *ret);
void period_words_done(struct period_words *words);

#endif
