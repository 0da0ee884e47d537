/* SPDX-License-Identifier: MIT */
/*
 * waterfall.h - a device's memory at one moment, in parts that add up to the total, to the byte.
 *
 *     total = outside                   contexts, modules, driver, other processes, managed memory
 *           + past the pool             memory served by the driver, by library; graphs
 *           + frameworks' pools         segments of a framework's allocator, from any source
 *           + kedge, live               requested, and what rounding adds
 *           + kedge, free               held by the pool without a live block
 *           + free                      on the device
 *
 * The driver's figures of total and free are taken as exact. From the bytes in use, the bytes of
 * kedge's pool are subtracted first, then those that the driver holds for graphs, then those that
 * the program asked the driver for; the rest is outside. So inconsistent figures (memory that was
 * asked for and is not backed yet, a look in the middle of a change) make a part smaller, and never
 * the sum wrong: is_short. The libraries are known if the events of the moment are recorded; else
 * one part has all of it, without a name.
 *
 * Prints nothing. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_WATERFALL_H
#define KEDGE_TOOLS_WATERFALL_H

#include "tools/load/load.h"
#include "tools/symbols/symbols.h"

enum waterfall_part {
    WATERFALL_OUTSIDE,
    WATERFALL_LIBRARY,   /* outside the pool; name: the library's file, NULL: unknown */
    WATERFALL_GRAPHS,    /* held by the driver for graphs */
    WATERFALL_FRAMEWORK, /* name: the framework */
    WATERFALL_POOL,      /* held by kedge's pool, if its live bytes are unknown */
    WATERFALL_REQUESTED,
    WATERFALL_ROUNDING,
    WATERFALL_POOL_FREE,
    WATERFALL_FREE,
    WATERFALL_PARTS,
};

struct waterfall_row {
    enum waterfall_part part;
    const char *name; /* from the symbols object or the capture; NULL = none */
    uint64_t bytes;
};

struct waterfall {
    int device;
    uint64_t total;
    uint64_t time_ns;           /* of the moment, 0 = unknown */
    struct waterfall_row *rows; /* in the order of the parts, named rows largest first */
    size_t count, room;
    bool is_short;
};

/* At kedge's last look at the device; false: it never looked. waterfall_done frees it. */
bool waterfall_of_look(const struct load *load, struct symbols *symbols, unsigned device,
        struct waterfall *ret_waterfall);

/* At a failed allocation; false: the capture lacks the device's figures. */
bool waterfall_of_oom(const struct load *load, struct symbols *symbols, const struct load_oom *oom,
        struct waterfall *ret_waterfall);
void waterfall_done(struct waterfall *waterfall);

/* The word of a part in JSON. */
const char *waterfall_word(enum waterfall_part part);

/* Whether a part is one thing, and not several that cannot be told apart. */
bool waterfall_is_told_apart(const struct waterfall_row *row);

#endif
