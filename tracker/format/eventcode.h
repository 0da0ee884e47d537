/* SPDX-License-Identifier: MIT */
/*
 * eventcode.h - a record of area D: its form in memory, its bytes in the file, and the conversion.
 *
 * In memory a record is `struct format_event`, wide and easy to extend. In the file it is 4 bytes
 * and the differences from the values expected after the earlier records of the same chunk: numbers
 * continue, threads and places repeat, times and addresses are near each other. An allocation takes
 * about 20 bytes, a free about 15. The expected values are in `struct eventcode`, one per chunk,
 * all zero at the chunk's start, so that each chunk can be read alone.
 *
 *     struct format_event ─ eventcode_put ─► bytes ─ eventcode_get ─► the same struct format_event
 *
 * A new field: a member of the struct, and a row at the end of its kind's list in eventcode.c. A
 * new kind: a list, and a case in the two switches there. Neither may use another's slot of `struct
 * eventcode` once a version is released, since an older reader skips unknown fields and must stay
 * in step.
 *
 * Threads: none inside; a chunk has one writer at a time. No system call, no memory, no lock.
 */
#ifndef KEDGE_TRACKER_EVENTCODE_H
#define KEDGE_TRACKER_EVENTCODE_H

#include "tracker/format/format.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes that must be free in a chunk for eventcode_put: the longest record, and the overhang of its
 * last store. */
#define EVENTCODE_ROOM 192u

/* Any record. `head` is kind | flags << 8 | (uint16_t)device << 16; fields that are not in the
 * kind's list in eventcode.c are not stored. */
struct format_event {
    uint32_t head;
    uint32_t thread;
    uint64_t seq;
    uint64_t time_ns; /* since start_mono_ns */
    union {
        struct {
            uint64_t addr, size, stream;
            uint32_t stack, path, instance, nth;
            uint32_t pystack;
        } alloc;
        struct {
            uint64_t addr, size, stream; /* size 0 = the freed block is unknown */
            uint32_t stack, path, instance, pystack;
            struct format_uses uses;
            uint64_t use_count;
            uint32_t use_flags; /* FORMAT_USE_* */
        } free;
        struct {
            uint32_t kind, anchor; /* enum edge_kind; anchor instance id */
            uint32_t path, instance;
            uint32_t before_start; /* 1: the range was open when the capture began */
        } edge;
        struct {
            uint64_t addr, size;
            int32_t rule;   /* -1 = none */
            uint32_t what;  /* enum format_hint_what */
            uint32_t stack; /* of the access; 0 = none */
            uint32_t path, instance;
            uint32_t mode, result; /* enum hint_mode; CUresult or errno, 0 = success */
            uint32_t pystack;      /* of the access */
        } hint;
        struct {
            uint64_t heap, bytes; /* bytes held by this heap now */
        } reserved;
        struct {
            uint64_t size, free_bytes; /* UINT64_MAX = not known */
            uint64_t largest_free;
            uint32_t stack, path, instance, result;
            uint32_t pystack;
        } oom;
        struct {
            uint32_t name; /* name of the function, a string like the names of its arguments */
            uint32_t path, instance;
            uint32_t arg[FORMAT_CALL_BUFFERS]; /* 0 = no such buffer */
            uint64_t addr[FORMAT_CALL_BUFFERS];
            uint64_t comm; /* handle */
            int32_t peer;  /* rank in it, -1 = none */
        } call;
        struct {
            uint64_t block; /* seq of its allocation */
            uint32_t flags; /* FORMAT_USE_MAY */
        } use;
    } u;
};

/* The values with which a record's fields are compared. The slots of all kinds together. */
enum eventcode_slot {
    EVENTCODE_THREAD,
    EVENTCODE_SEQ,
    EVENTCODE_TIME,
    EVENTCODE_FLAGS, /* and device */
    EVENTCODE_ADDR,
    EVENTCODE_STREAM,
    EVENTCODE_STACK,
    EVENTCODE_PYSTACK,
    EVENTCODE_FREE_STACK,
    EVENTCODE_FREE_PYSTACK,
    EVENTCODE_PATH,
    EVENTCODE_INSTANCE,
    EVENTCODE_ANCHOR,
    EVENTCODE_HEAP,
    EVENTCODE_HELD,
    EVENTCODE_CALL,
    EVENTCODE_CALL_PATH,
    EVENTCODE_CALL_INSTANCE,
    EVENTCODE_CALL_ADDR,
    EVENTCODE_CALL_COMM,
    EVENTCODE_USE_BLOCK,
    EVENTCODE_SLOT_COUNT,
};

struct eventcode {
    uint64_t last[EVENTCODE_SLOT_COUNT];
};

/* Writes a record to `to`, where EVENTCODE_ROOM bytes must be free. Returns its length, 0 for a
 * kind without a list. */
size_t eventcode_put(struct eventcode *code, const struct format_event *event, unsigned char *to);

/* Reads the record at `from`, of `left` available bytes. Returns its length; 0 = invalid, and
 * following records cannot be found. For an unknown kind *ret_event is all zero except `head` =
 * FORMAT_EVENT_NONE. */
size_t eventcode_get(struct eventcode *code, const unsigned char *from, size_t left,
        struct format_event *ret_event);

#endif
