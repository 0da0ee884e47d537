/* SPDX-License-Identifier: MIT */
/*
 * scanwords.h - the state of a scan, and what becomes of each word that it reads.
 *
 *     an address of a live device block ─► a hit: the block, and the word's root or malloc's block
 *     an address of a block of malloc ───► the block is kept, with its root, to be read later on
 *     anything else ─────────────────────► nothing
 *
 * Threads: one, for as long as the scan takes; no lock held but that of scan.c. No malloc: the
 * memory is that of meta.h. What finds no room, or comes after the end of the time, is left out, and
 * `flags` say so.
 */
#ifndef KEDGE_PRELOAD_SCANWORDS_H
#define KEDGE_PRELOAD_SCANWORDS_H

#include "alloc/base/table.h"
#include "preload/scan/scanread.h"
#include "preload/scan/scanstack.h"
#include "tracker/capture/capture.h"

#include <stdbool.h>
#include <stdint.h>

#define SCANWORDS_PIECE (64u << 10) /* bytes that are read at once */

enum {
    SCAN_ROOTS_TOLD = 12, /* of a row */
    SCAN_FURTHER = 6,     /* of a block of malloc: a std::deque has four words with one address */
    SCAN_HEAP = 2,        /* bits of an id in a set: through malloc's memory, */
    SCAN_INSIDE = 1,      /* and not at the beginning */
};

enum scan_kind {
    SCAN_GLOBAL,
    SCAN_TLS,
    SCAN_STACK,
};

struct scan_root {
    uint64_t offset; /* ELF address; of thread-local memory: in it */
    uint32_t module; /* 0: of no known function */
    uint32_t thread; /* string number of its name, 0: the first one */
    uint32_t words;  /* of a stack: from the end of the frame, 0 = too far */
    enum scan_kind kind;
};

/* A block of malloc. */
struct scan_chunk {
    uint64_t address, size;
    uint32_t root, parent;          /* what it was reached from; parent 0: the root itself */
    uint32_t further[SCAN_FURTHER]; /* other roots, 0: none */
    bool has_more;                  /* and more of them */
};

struct scan_known { /* of `known` */
    uint64_t address;
    uint64_t chunk; /* 0: there is none */
};

struct scan_hit {
    uint32_t block;
    uint32_t root;  /* or, if it is 0, */
    uint32_t chunk; /* the block of malloc that has the word */
    bool is_inside;
};

/* Where words are taken from. root 0: each word is a root of its own; chunk not 0: they are its. */
struct scan_from {
    struct scan_root root_of_word; /* its offset is added to */
    uint32_t root, chunk;
};

/* The roots of a block: number, SCAN_HEAP and SCAN_INSIDE. */
struct scan_set {
    uint32_t id[SCAN_ROOTS_TOLD];
    uint8_t count;
    bool has_more;
};

struct scan {
    struct scanread read;
    struct scanstack stack;
    uint64_t piece[SCANWORDS_PIECE / sizeof(uint64_t)];
    uint32_t thread[SCANSTACK_THREADS];
    struct capture_block *block; /* by address */
    struct scan_set *set;
    uint32_t blocks, room;
    uint64_t low, high; /* of all blocks */
    struct scan_root *root;
    struct scan_chunk *chunk; /* from 1, as they were reached */
    struct scan_hit *hit;
    struct table known, rows;
    struct table inner; /* pages that are inside of a block of malloc: none begins there */
    uint32_t roots, chunks, hits, most;
    uint32_t drivers; /* blocks of malloc up to this one are the driver's */
    bool is_driver;   /* these are looked for */
    uint64_t end_ns;
    uint32_t flags; /* FORMAT_WALK_* */
};

/* CLOCK_MONOTONIC, in nanoseconds. */
uint64_t scanwords_clock(void);

/* Whether the time of the scan is over, which then is in its flags. */
bool scanwords_is_over(struct scan *scan);

/*
 * The number of the root of a word at `at` of its segment, in bytes, or of its frame, in words from
 * the frame's end; a new one, unless `from` has one. 0: no room.
 */
uint32_t scanwords_root_of(struct scan *scan, const struct scan_from *from, uint64_t at);

/* Takes a word; `at` as above. */
void scanwords_word(struct scan *scan, const struct scan_from *from, uint64_t at, uint64_t word);

/* Takes the words of [low, high), as far as they can be read; `low` is a multiple of 8. */
void scanwords_memory(struct scan *scan, const struct scan_from *from, uint64_t low, uint64_t high);

/* Takes the words of all blocks of malloc that are kept, and of those that are met by that. */
void scanwords_heap(struct scan *scan);

#endif
