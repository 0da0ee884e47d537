/* SPDX-License-Identifier: MIT */
/*
 * carried.h - the blocks that lived before the first recorded event.
 *
 * A bounded log (ring) keeps the events after `since`, and also older ones of threads that record
 * little. Events are missing between these older ones: a block that was allocated then may have
 * been freed then. So only certain blocks are used. A block was live at `since` if the live table
 * has it with a lower number, or if a later event frees it without a recorded allocation; such a
 * block has no known stack.
 *
 *     live table, log ─► carried_find ─► births by number ─► load.c inserts each before
 *     the first event with a higher number
 *
 * A log without such a limit (agg, or one with gaps at unknown places) has since 0: all its events
 * are used.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_CARRIED_H
#define KEDGE_TOOLS_CARRIED_H

#include "tools/base/keytable.h"
#include "tracker/reader/read.h"

/* A block whose birth is not in the log, or only in the live table. */
struct carried_birth {
    struct read_live what; /* seq 0: only address, size and device are known */
    uint32_t thread;       /* 0 = unknown */
    bool is_other;         /* not memory of this process's devices (load_other) */
};

/* Bytes that a heap held from the driver. */
struct carried_heap {
    int device;
    uint64_t heap;
    uint64_t before; /* at the start of the record, by its first event */
    uint64_t last;   /* at its end */
};

struct carried {
    uint64_t since; /* events up to this number are not used for blocks */
    struct carried_birth *births;
    size_t count, room;
    struct carried_heap *heaps; /* heaps with events */
    size_t heap_count, heap_room;
    /* Bytes that heaps without an event hold all the time, by device; the last entry: on others. */
    uint64_t silent[FORMAT_DEVICES_MAX + 1];
};

/* For a capture in which events are missing; carried_done frees it. */
void carried_find(struct read_capture *capture, struct carried *ret);
void carried_done(struct carried *carried);

#endif
