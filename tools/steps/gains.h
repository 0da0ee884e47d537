/* SPDX-License-Identifier: MIT */
/*
 * gains.h - after how many rounds a figure's gains repeat, by its values at the ends of rounds.
 *
 *     1 2 3 4 5              one round, 1 each
 *     0 0 1 1 2 2 3          two rounds, 1 each
 *     1 2 1 3 4 3 5 6 5      three rounds, 2 each: the trend at the same place of each repetition
 *     0 0 3 3 7 7 8          two rounds: the rises come evenly, their bytes differ; 8/3 each
 *
 * Pure. Threads: none. Memory: vec.h, 16 bytes per round during the call.
 */
#ifndef KEDGE_TOOLS_GAINS_H
#define KEDGE_TOOLS_GAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes and blocks at the end of a round, that differ from those of the one before. */
struct trend_change {
    uint32_t round;
    uint64_t bytes, blocks;
};

struct gains {
    uint32_t period; /* rounds; 0: they do not repeat */
    uint32_t times;  /* how often the period fits into the rounds, rounded down; at least twice */
    int64_t each;    /* bytes in a period */
    bool is_mean;    /* each has other bytes, and comes as evenly */
};

/*
 * The shortest period of the gains of `rounds` rounds in those from `since` on, by the bytes. As
 * trend_of (trend.h) has its arguments.
 */
struct gains gains_find(
        const struct trend_change *changes, size_t count, uint32_t rounds, uint32_t since);

#endif
