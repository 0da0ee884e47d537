/* SPDX-License-Identifier: MIT */
/*
 * waterfall.h - where a device's memory is at one moment: parts that add up to all of it, to the byte.
 *
 *     total = outside                   contexts, modules, the driver's own, other processes, managed memory: not told apart
 *           + past the pool             what the driver served by itself, by the library that asked; graphs
 *           + frameworks' pools         segments that a framework's allocator holds, from kedge's pool or past it
 *           + kedge, live               requested, and what rounding adds
 *           + kedge, free               what the pool holds and nobody lives in
 *           + free                      on the device
 *
 * The driver's figures of total and free hold. Of what is in use, what kedge's pool holds is taken first, then what the driver
 * holds for graphs, then what the program asked the driver for; the rest is outside. So figures that do not fit together (memory
 * that was asked for and is not backed yet, a look in the middle of something) make a part smaller and never the sum wrong: is_short.
 * Which library asked is known where the events of the moment are there; else one part has all of it, without a name.
 *
 * Prints nothing. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_WATERFALL_H
#define KEDGE_TOOLS_WATERFALL_H

#include "tools/load/load.h"
#include "tools/symbols/symbols.h"

enum waterfall_part {
    WATERFALL_OUTSIDE,
    WATERFALL_LIBRARY,   /* past the pool; name: its file, NULL: nobody knows who asked */
    WATERFALL_GRAPHS,    /* held by the driver for graphs */
    WATERFALL_FRAMEWORK, /* name: the framework */
    WATERFALL_POOL,      /* held by kedge's pool, and nobody knows how much of it lives */
    WATERFALL_REQUESTED,
    WATERFALL_ROUNDING,
    WATERFALL_POOL_FREE,
    WATERFALL_FREE,
    WATERFALL_PARTS,
};

struct waterfall_row {
    enum waterfall_part part;
    const char *name; /* of the symbols object or the capture; NULL = none */
    uint64_t bytes;
};

struct waterfall {
    int device;
    uint64_t total;
    uint64_t time_ns;           /* of the moment, 0 = not known */
    struct waterfall_row *rows; /* in the order of the parts, those with names largest first */
    size_t count, room;
    bool is_short;
};

/* When kedge looked at the device last; false: it never did. waterfall_done gives it back. */
bool waterfall_of_look(const struct load *load, struct symbols *symbols, unsigned device,
        struct waterfall *ret_waterfall);

/* When an allocation failed; false: the capture does not say what the device had. */
bool waterfall_of_oom(const struct load *load, struct symbols *symbols, const struct load_oom *oom,
        struct waterfall *ret_waterfall);
void waterfall_done(struct waterfall *waterfall);

/* The word of a part in JSON. */
const char *waterfall_word(enum waterfall_part part);

/* Is a part one thing, and not several that nobody can tell apart? */
bool waterfall_is_told_apart(const struct waterfall_row *row);

#endif
