/* SPDX-License-Identifier: MIT */
/*
 * import.h - makes a capture from another tool's record.
 *
 * A reader of one format (import_paddle, import_torch, import_rows) goes through its record in the
 * order of time and reports the events. This module keeps the state that the library keeps in a
 * program: numbers of texts, stacks and threads, open ranges, live blocks, totals, places and
 * peaks. The result is a file that every command reads like any other capture.
 *
 *     reader ─► import_time · import_alloc · import_free · ... ─► tracker/capmake ─► F.kcap
 *
 * Data that such a record lacks stays unknown in the capture: native stacks, uses, the program and
 * how it ended. Its frames have names and no code addresses: they are stored like Python frames,
 * and native ones are marked (FORMAT_PYTABLE_NATIVE), so that a stack keeps the other tool's order.
 *
 * Readers of captures know one address space: a block at an address that is live in another space
 * gets a free address.
 *
 * Memory: live blocks, and each address, text, frame and place once; not the events. Threads: none.
 * Errors of writing are kept until import_done.
 */
#ifndef KEDGE_TOOLS_IMPORT_H
#define KEDGE_TOOLS_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tracker/where/loglines.h"

struct import;

/* A text of `length` bytes that may be inside another. */
struct import_text {
    const char *at;
    size_t length;
};

/* A frame of a stack. `line` 0: unknown. */
struct import_frame {
    struct import_text function, file;
    uint32_t line;
    bool is_native; /* not Python */
};

/* A block at its allocation. */
struct import_block {
    uint64_t address, size;
    uint64_t stream; /* as format_stream makes it, 0 = unknown */
    uint32_t thread; /* from import_thread */
    uint32_t stack;  /* from import_stack, 0 = none */
    uint32_t space;  /* address space: a device or a process. 0: there is only one */
    int device;
    bool by_stream; /* it belongs to a stream, like memory of a stream-ordered API */
};

/* Counts for the line that is printed at the end. */
struct import_counts {
    uint64_t allocs, frees, before, anchors, failed;
    uint64_t live_bytes, peak_bytes;
    uint64_t shared; /* blocks at an address that was live elsewhere */
    uint64_t bad;    /* invalid parts of the record that were left out */
};

/*
 * `fd` as for capmake_new. `tool` and `file`: "PyTorch snapshot" and its path. `rank` may be NULL.
 */
struct import *import_new(int fd, const char *tool, const char *file, const char *rank);
void import_free_books(struct import *import);

/* The time of the following events: ns since 1970, or since any moment if there is no date. */
void import_time(struct import *import, uint64_t ns);

/* The number of a thread that the record calls `id`; from 1. */
uint32_t import_thread(struct import *import, uint64_t id);

/* The stack `outer` (0 = none) with one more frame inside it; from 1. */
uint32_t import_stack(struct import *import, uint32_t outer, const struct import_frame *frame);

/* A block from before the record, if all those are known: it counts as allocated at its begin. */
void import_before(struct import *import, const struct import_block *block);

void import_alloc(struct import *import, const struct import_block *block);

/*
 * A free, with address, space, size from the record (0 = none), device, stream, thread. A block
 * whose allocation is not recorded was live before the record; if its size is unknown, or if its
 * address was freed before, the free counts 0 bytes.
 */
void import_free(struct import *import, const struct import_block *freed);

/* Whether a block is live at this address of the space. */
bool import_is_live(const struct import *import, uint64_t address, uint32_t space);

/*
 * Two spaces prove to be one if a block of one is freed in the other: no block of the block's space
 * is live at its address, and one block of another space is, which is no larger.
 */
void import_join_by_free(struct import *import, const struct import_block *block);

/* The space that represents all spaces that are one with this one. */
uint32_t import_space(const struct import *import, uint32_t space);

/* Whether a block of another space is live at the block's address; *ret_space: that space. */
bool import_live_elsewhere(
        const struct import *import, const struct import_block *block, uint32_t *ret_space);

/* Spaces are processes: an address that one has freed is new in another. */
void import_has_processes(struct import *import);

/* The most bytes live on a device, and those live now; UINT64_MAX: unknown. After import_done. */
void import_device_bytes(
        const struct import *import, int device, uint64_t *ret_peak, uint64_t *ret_live);

/* The two spaces are one. */
void import_join(struct import *import, uint32_t one, uint32_t other);

/* Blocks at an address that was live in another space. In the capture they have other addresses. */
uint64_t import_shared(const struct import *import);

/* All heaps of the device, up to 15, hold this many bytes from the driver from here on. */
void import_reserved(struct import *import, int device, uint64_t bytes);

/* An allocation failed. `free_bytes` of the device, UINT64_MAX = unknown. */
void import_oom(struct import *import, const struct import_block *request, uint64_t free_bytes);

/*
 * Ranges, as in tracker/where/anchor.h: a thread's ranges nest, and a thread without any is in the
 * one that was entered last. A group identifies the source of ranges; with `is_single`, entering
 * ends the group's open range in this thread.
 */
void import_enter(struct import *import, uint32_t thread, uint32_t group, bool is_single,
        struct import_text name);

/* Ends the group's innermost range of this name, if any; without a name, its innermost of all. */
void import_leave(
        struct import *import, uint32_t thread, uint32_t group, const struct import_text *name);

/* The path of the range that the thread is in; NULL = none. Valid until the next enter or leave. */
const char *import_range(const struct import *import, uint32_t thread);

/* A note for the reader of the report. 0 a fact, 1 a warning. */
__attribute__((format(printf, 3, 4))) void import_note(
        struct import *import, unsigned severity, const char *format, ...);

/* A part of the record is invalid and left out: the capture is marked as incomplete. */
void import_bad(struct import *import);

/* The record ends in the middle: later events of the program are unknown. */
void import_cut_off(struct import *import);

/* Writes the rest. 0 or -errno. */
int import_done(struct import *import, struct import_counts *ret_counts);

/* ---- the readers ---- */

/* The process of each part of a record of several. Each is a device of the capture. */
struct import_processes {
    uint32_t *of_space; /* by space, as the reader numbers them: the process */
    size_t space_count, space_room;
    struct import_process {
        char *name; /* in the record's form: "[default0]", "thread 4711" */
        int device;
    } * list;
    size_t count, room;
    bool by_launcher; /* known by its prefixes; else by its threads */
    bool is_sure;     /* all of them are certainly different processes */
};

void import_processes_done(struct import_processes *processes);

/* Returned by a reader that knows the processes only now, and has to read the record once more. */
#define IMPORT_AGAIN (-1)

/* A thread of the program enters or leaves a range, by another record than the reader's. */
struct import_edge {
    uint64_t ns; /* as import_time */
    struct import_text name;
    uint32_t thread;
    bool is_enter;
};

/* The input of a reader. */
struct import_job {
    const char *path;
    FILE *in;         /* at its beginning */
    uint64_t size;    /* of a regular file, else 0 */
    const char *what; /* its apparent format, for a regular file that is none of these; NULL */
    struct loglines patterns;        /* log lines that are anchors */
    const struct import_edge *edges; /* in the order of time; for import_torch */
    size_t edge_count;
    struct import *import;
    struct import_processes processes; /* count 0: one process, or not known yet */
};

/* The name of a record's format, for users and in the capture. */
#define IMPORT_PADDLE "Paddle allocator log"
#define IMPORT_TORCH  "PyTorch snapshot"
#define IMPORT_ROWS   "allocation csv"
#define IMPORT_RMM    "RMM log"

/* Each returns 0, or CMD_BAD after one line on stderr. The head is the file's first bytes. */
int import_paddle(struct import_job *job); /* or IMPORT_AGAIN, once, for a regular file */
int import_torch(struct import_job *job);
int import_rows(struct import_job *job);
int import_rmm(struct import_job *job);
bool import_is_torch(const unsigned char *head, size_t length);
bool import_is_rows(const char *line, bool *ret_rmm);

/*
 * For a file of another format, by its first bytes: its description with advice, NULL = unknown.
 * *ret_is_sure: no log begins like that.
 */
const char *import_what(const unsigned char *head, size_t length, bool *ret_is_sure);

#endif
