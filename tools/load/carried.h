/* SPDX-License-Identifier: MIT */
/*
 * carried.h - what lived before the first event that is on record.
 *
 * A bounded log (ring) keeps what is younger than `since`, and of threads that record little more than that. Of those older events
 * nobody knows which others stood between them: what was allocated then may have been freed then. So blocks are taken from what is
 * certain alone. Live at `since` was what the live table has with a lower number, and what a younger event frees without having
 * allocated it; of the latter no stack is known.
 *
 *     live table, events of the log ─► carried_find ─► births by number ─► load.c puts each before the first event with a higher one
 *
 * A log without an end of that kind (agg, one with gaps that nobody can place) has since 0: every event of it stands.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_CARRIED_H
#define KEDGE_TOOLS_CARRIED_H

#include "tools/base/keytable.h"
#include "tracker/reader/read.h"

/* A block whose birth is not on record, or on record alone. */
struct carried_birth {
    struct read_live what; /* seq 0: all that is known are address, size and device */
    uint32_t thread;       /* 0 = not known */
    bool is_other;         /* no memory of this process's devices (load_other) */
};

/* What a heap held from the driver. */
struct carried_heap {
    int device;
    uint64_t heap;
    uint64_t before; /* bytes, when the record begins, as far as its first event tells */
    uint64_t last;   /* bytes, at its end */
};

struct carried {
    uint64_t since; /* events up to this number say nothing of blocks */
    struct carried_birth *births;
    size_t count, room;
    struct carried_heap *heaps; /* of which there are events */
    size_t heap_count, heap_room;
    /* Bytes that heaps without an event hold all the time, by device; the last one: of others. */
    uint64_t silent[FORMAT_DEVICES_MAX + 1];
};

/* Of a capture in which events are missing; carried_done gives it back. */
void carried_find(struct read_capture *capture, struct carried *ret);
void carried_done(struct carried *carried);

#endif
