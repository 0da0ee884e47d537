/* SPDX-License-Identifier: MIT */
/*
 * export_live.h - a set of places, with a search for the nearest taken one.
 *
 * A bit for each place, and for each 64 bits one that says whether any is set: a search reads as
 * many words as there are levels.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EXPORT_LIVE_H
#define KEDGE_TOOLS_EXPORT_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT_LIVE_LEVELS 6 /* 64^6 places: more than there are numbers */
#define EXPORT_LIVE_NONE   SIZE_MAX

struct export_live {
    uint64_t *level[EXPORT_LIVE_LEVELS]; /* [0]: the places */
    size_t words[EXPORT_LIVE_LEVELS];
};

/* Starts with none of `count` places taken. export_live_done frees it. */
void export_live_begin(struct export_live *live, size_t count);
void export_live_done(struct export_live *live);

void export_live_set(struct export_live *live, size_t place, bool is_taken);

/* The last taken place below `place`. Below: the first one from it on; EXPORT_LIVE_NONE. */
size_t export_live_before(const struct export_live *live, size_t place);
size_t export_live_from(const struct export_live *live, size_t place);

#endif
