/* SPDX-License-Identifier: MIT */
/*
 * grams.h - which pieces of a sequence occur equally often.
 *
 * A gram is a piece of 1, 2, 4, 8, ... symbols. Inside of a loop that runs K times, all grams that occur once in each round occur K times,
 * and there are the more of them the longer the round; so the numbers that many grams have in common are the guesses at how often
 * something is repeated. Of each number the gram at the most even distances, from end to end, stands for the others.
 *
 * Threads: none. Memory: vec.h. Time: n for each length, log n lengths.
 */
#ifndef KEDGE_TOOLS_GRAMS_H
#define KEDGE_TOOLS_GRAMS_H

#include <stddef.h>
#include <stdint.h>

struct progress;

/* Occurrences of one gram, rising. */
struct grams_guess {
    uint32_t *at;
    uint32_t count;
    uint64_t weight; /* occurrences of all grams that it stands for */
    double uneven;   /* 0: at even distances from end to end */
};

struct grams {
    struct grams_guess *guesses; /* the most promising first */
    size_t count, room;
};

/* Numbers 0, 1, ... for the hashes, in order of appearance. Returns how many there are. */
uint32_t grams_number(const uint64_t *hashes, uint32_t count, uint32_t *ret_symbols);

/*
 * At most `most` guesses with at least two occurrences each, no two of one number. `order`, if not NULL: the places of the
 * symbols in the order in which they follow one another, a lane behind the other; what is told are places.
 */
void grams_guess(const uint32_t *symbols, const uint32_t *order, uint32_t count, size_t most,
        struct progress *progress, struct grams *ret);
void grams_done(struct grams *grams);

#endif
