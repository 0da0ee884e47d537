/* SPDX-License-Identifier: MIT */
/*
 * grown.h - whether live memory has grown, compared at the same place of each round.
 *
 *     rounds   1 2 3 4 │ 5 6 │ 7 8 9 10 11 12 │ 13 ... 19 ... 24 │ ...    compared at 6, 12, 24 ...
 *              most of all before   ╰── least of the last quarter ──╯
 *
 * A leak is there at each later round, so the least of the newest rounds is above all that there ever
 * was up to the last comparison. What varies (batches of any size) is not: if rounds come in any
 * order, the 2 newest of 6 are above the 4 others in 1 of 15 programs, the 3 newest of 12 above the
 * first 6 in 1 of 84. What fills up in the first four rounds (an optimizer's state, a warm-up) is
 * part of what there was. A leak of each epoch is seen once an epoch has ended in the second or third
 * quarter of the rounds. n rounds have fewer than log2(n) comparisons that find growth.
 *
 * Pure: the caller knows what is live. Threads: one at a time.
 */
#ifndef KEDGE_PRELOAD_GROWN_H
#define KEDGE_PRELOAD_GROWN_H

#include <stdbool.h>
#include <stdint.h>

struct grown {
    uint64_t rounds, next; /* the next comparison; 0: the first one */
    uint64_t most;   /* live at any round up to the last comparison; at first, of the first round */
    uint64_t newest; /* the most of all rounds */
    uint64_t least;  /* of the last quarter before the next comparison */
};

/* A round is at its place, with `live` bytes. True: it is time to compare, and they have grown. */
bool grown_round(struct grown *grown, uint64_t live);

/* Whether `live` is clearly more than `before`. */
bool grown_is_clear(uint64_t before, uint64_t live);

#endif
