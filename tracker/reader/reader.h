/* SPDX-License-Identifier: MIT */
/*
 * reader.h - a capture while it is read: where its bytes come from, and what has been read so far.
 *
 * The parts of read.h (readpart.h) stand on it. Not for others. Threads: a reader belongs to one.
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

/* The records of a chunk, by seq and time, coded as in a chunk of a file. */
struct read_chunk {
    uint64_t seq, time_ns; /* of the first record */
    size_t begin, end;     /* in `log` */
    size_t order;          /* of reading */
};

struct read_private {
    unsigned char *log;
    size_t log_used;
    struct read_chunk *chunk; /* by seq, time and order */
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

/* Where bytes come from: a descriptor, or memory. */
struct read_source {
    int fd; /* -1 = memory */
    const unsigned char *bytes;
    uint64_t length;
};

/* A definition that was found, before its number can be trusted. */
struct read_found {
    uint64_t offset; /* in `arena` */
    uint32_t kind;
};

/* What the log says, for others to agree with. Highest numbers: of any record that names one. */
struct read_logged {
    uint64_t allocs, alloc_bytes, frees, failures; /* of device memory */
    uint64_t newest_seq, largest;                  /* bytes of a block */
    uint64_t chunks, newest_chunk;
    uint32_t string, node, pynode; /* the highest numbers */
};

#define READ_TALLY 0x100u /* among `parts`: read_tally is to be called */

struct reader {
    struct read_source source;
    unsigned parts; /* READ_*, READ_TALLY */
    struct read_capture *capture;
    struct read_error *error;
    struct format_header header;
    struct format_extent *extent;
    uint32_t extents;
    uint32_t bad_extents;

    /* every definition's bytes, one after the other */
    unsigned char *arena;
    size_t arena_used, arena_size;
    struct read_found *found;
    size_t found_count, found_size;
    uint32_t seen[FORMAT_DEF_KIND_COUNT];
    bool is_short; /* of memory */

    struct read_logged logged;
    size_t live_size, other_size, chunk_size, log_size, oom_size, place_size;
};

/* Fills in why, and returns r. */
__attribute__((format(printf, 4, 5))) int reader_fail(
        struct reader *reader, int r, uint64_t offset, const char *text, ...);
int reader_no_memory(struct reader *reader);

/*
 * Counts a record that makes no sense and is left out, or a part of an area that was changed. Both
 * return 0.
 */
int reader_pass_over(struct reader *reader);
int reader_leave_out(struct reader *reader, enum read_area area);

/* One more element in an array that doubles. 0 or -ENOMEM. */
int reader_make_room(void **array, size_t *size, size_t count, size_t element);

/* Bytes at an offset; false = not all there. */
bool reader_fetch(const struct read_source *source, uint64_t offset, void *to, size_t length);

/*
 * Calls `take` for each record of `unit` bytes in extents of a kind. Records start with 8 bytes
 * that are another value, or 0, whenever the rest is: one that changed while it was read comes with
 * 0 there. `log_head` is 0, or the bytes at a record's start that say how much of the rest is
 * written by now.
 */
int reader_each(struct reader *reader, enum format_extent_kind kind, size_t unit, size_t log_head,
        int (*take)(struct reader *reader, const unsigned char *at));

/*
 * The same for `length` bytes of records in a row, at most `unit` times some number, into `bytes`,
 * which has room for two copies; the caller looks through them. False = not all there.
 */
bool reader_records(struct reader *reader, uint64_t offset, unsigned char *bytes, size_t length,
        size_t unit, size_t log_head, enum format_extent_kind kind);

/* Whether the bytes may change while they are read. */
bool reader_is_moving(const struct reader *reader);

/* A record names these: 0 = it names none. */
void reader_note_numbers(struct reader *reader, uint32_t string, uint32_t stack, uint32_t pystack);

#endif
