/* SPDX-License-Identifier: MIT */
/*
 * reader.h - a capture while it is being read: its source of bytes, and the results so far.
 *
 * The parts of read.h (readpart.h) use it. Not for others.
 * Threads: a reader belongs to one.
 */
#ifndef KEDGE_TRACKER_READER_H
#define KEDGE_TRACKER_READER_H

#include "tracker/reader/read.h"

struct read_node {
    uint32_t parent;
    uint32_t module;
    uint64_t offset;
    bool is_there;
};

struct read_pycode {
    struct format_def_pycode def;
    unsigned char *lines;
};

struct read_pynode {
    uint32_t parent, code;
    int32_t lasti;
    bool is_entry;
};

/* The records of a chunk, sorted by seq and time, coded as in a chunk of a file. */
struct read_chunk {
    uint64_t seq, time_ns; /* of the first record */
    size_t begin, end;     /* in `log` */
    size_t order;          /* order of reading */
};

struct read_private {
    unsigned char *log;
    size_t log_used;
    struct read_chunk *chunk; /* sorted by seq, time and order */
    size_t chunks;
    char **string; /* [number], [0] = "" */
    uint32_t strings;
    struct read_node *node; /* [number] */
    uint32_t nodes;
    uint32_t modules;
    struct read_pycode *code; /* [number] */
    uint32_t codes;
    struct read_pynode *pynode; /* [number] */
    uint32_t pynodes;
    char exe[1025], host[65], rank[33], program[97];
    char args[2049];
};

/* The source of bytes: a descriptor, or memory. */
struct read_source {
    int fd; /* -1 = memory */
    const unsigned char *bytes;
    uint64_t length;
};

/* A definition found before its number is checked. */
struct read_found {
    uint64_t offset; /* in `arena` */
    uint32_t kind;
};

/* Figures of the log, to compare with others. Highest numbers: over all records that have one. */
struct read_logged {
    uint64_t allocs, alloc_bytes, frees, failures; /* of device memory */
    uint64_t newest_seq, largest;                  /* bytes of a block */
    uint64_t chunks, newest_chunk;
    uint32_t string, node, pynode; /* the highest numbers */
};

#define READ_TALLY 0x100u /* in `parts`: call read_tally */

struct reader {
    struct read_source source;
    unsigned parts; /* READ_*, READ_TALLY */
    struct read_capture *capture;
    struct read_error *error;
    struct format_header header;
    struct format_extent *extent;
    uint32_t extents;
    uint32_t bad_extents;

    /* the bytes of all definitions in a row */
    unsigned char *arena;
    size_t arena_used, arena_size;
    struct read_found *found;
    size_t found_count, found_size;
    uint32_t seen[FORMAT_DEF_KIND_COUNT];
    bool is_short; /* out of memory */

    struct read_logged logged;
    size_t live_size, other_size, chunk_size, log_size, oom_size, place_size;
};

/* Fills in the error, and returns r. */
__attribute__((format(printf, 4, 5))) int reader_fail(
        struct reader *reader, int r, uint64_t offset, const char *text, ...);
int reader_no_memory(struct reader *reader);

/* Counts an invalid record that is left out, or a changed part of an area. Both return 0. */
int reader_pass_over(struct reader *reader);
int reader_leave_out(struct reader *reader, enum read_area area);

/* Makes space for one more element in an array that doubles. 0 or -ENOMEM. */
int reader_make_room(void **array, size_t *size, size_t count, size_t element);

/* Reads bytes at an offset; false = not all exist. */
bool reader_fetch(const struct read_source *source, uint64_t offset, void *to, size_t length);

/* Calls `take` for each record of `unit` bytes in extents of a kind. The first 8 bytes of a record
 * change, or are 0, whenever the rest changes: a record that changed while it was read has 0 there.
 * `log_head` is 0, or the size of a head at the record's start that says how much of the rest is
 * written. */
int reader_each(struct reader *reader, enum format_extent_kind kind, size_t unit, size_t log_head,
        int (*take)(struct reader *reader, const unsigned char *at));

/* The same for `length` bytes of adjacent records, a multiple of `unit`, into `bytes`, which has
 * space for two copies; the caller scans them. False = not all exist. */
bool reader_records(struct reader *reader, uint64_t offset, unsigned char *bytes, size_t length,
        size_t unit, size_t log_head, enum format_extent_kind kind);

/* True if the bytes may change while they are read. */
bool reader_is_moving(const struct reader *reader);

/* Notes the numbers in a record: 0 = none. */
void reader_note_numbers(struct reader *reader, uint32_t string, uint32_t stack, uint32_t pystack);

#endif
