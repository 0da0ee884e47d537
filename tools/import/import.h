/* SPDX-License-Identifier: MIT */
/*
 * import.h - a capture that is made of another tool's record.
 *
 * A reader of one format (import_paddle, import_torch, import_rows) goes through its record in the order of time and says what
 * happened. Here are the books that the library keeps in a program: numbers of texts, stacks and threads, open ranges, what is
 * live, totals, places and peaks. The result is a file that every command reads as any other capture.
 *
 *     reader ─► import_time · import_alloc · import_free · import_enter ... ─► tracker/capmake ─► F.kcap
 *
 * What such a record lacks stays unknown in the capture: native stacks, uses, the program and how it ended. Its frames have names
 * and no code addresses: they are held as Python frames are, and native ones among them are marked (FORMAT_PYTABLE_NATIVE), so that
 * a stack keeps the order in which the other tool has it.
 *
 * What reads captures takes an address for one of one space: a block at an address that is live in another one gets a free address.
 *
 * Memory: what is live, and each address, text, frame and place once; not the events. Threads: none. Errors of writing are kept until
 * import_done.
 */
#ifndef KEDGE_TOOLS_IMPORT_H
#define KEDGE_TOOLS_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tracker/where/loglines.h"

struct import;

/* A text of `length` bytes that may lie inside another. */
struct import_text {
    const char *at;
    size_t length;
};

/* A frame of a stack. `line` 0: not known. */
struct import_frame {
    struct import_text function, file;
    uint32_t line;
    bool is_native; /* not Python */
};

/* A block as it is allocated. */
struct import_block {
    uint64_t address, size;
    uint64_t stream; /* as format_stream makes it, 0 = not known */
    uint32_t thread; /* import_thread */
    uint32_t stack;  /* import_stack, 0 = none */
    uint32_t space;  /* a device, a process: addresses are of one. 0: there is one alone */
    int device;
    bool by_stream; /* it belongs to a stream, as memory of a stream-ordered API does */
};

/* What a record holds, for the line that is printed at the end. */
struct import_counts {
    uint64_t allocs, frees, before, anchors, failed;
    uint64_t live_bytes, peak_bytes;
    uint64_t shared; /* blocks at an address that was live elsewhere */
    uint64_t bad;    /* pieces of the record that make no sense and were left out */
};

/* `fd` as capmake_new wants it. `tool` and `file`: "PyTorch snapshot" and where it was. `rank` may be NULL. */
struct import *import_new(int fd, const char *tool, const char *file, const char *rank);
void import_free_books(struct import *import);

/* What happens from here on happens at this time: ns since 1970, or since any moment where the record has no date. */
void import_time(struct import *import, uint64_t ns);

/* The number of a thread that the record calls `id`; from 1. */
uint32_t import_thread(struct import *import, uint64_t id);

/* The stack that is `outer` (0 = none) with one more frame inside of it; from 1. */
uint32_t import_stack(struct import *import, uint32_t outer, const struct import_frame *frame);

/* A block that was live before the record begins, which is known of all such blocks; it counts as allocated at the beginning. */
void import_before(struct import *import, const struct import_block *block);

void import_alloc(struct import *import, const struct import_block *block);

/*
 * Of what is freed: address, space, size as the record says it (0 = nothing), device, stream,
 * thread. A block whose allocation is not on record was live before it began; if nothing says its
 * size, or if its address was freed before, the free is counted as one of nothing.
 */
void import_free(struct import *import, const struct import_block *freed);

/* Is a block live at this address of the space? */
bool import_is_live(const struct import *import, uint64_t address, uint32_t space);

/*
 * Two spaces prove to be one where what one of them has allocated is freed in the other: nothing of the block's space is live at
 * its address, and one block of another space is, which is no larger.
 */
void import_join_by_free(struct import *import, const struct import_block *block);

/* The one of those that a space is one with by now that stands for all of them. */
uint32_t import_space(const struct import *import, uint32_t space);

/* Is a block of another space live at the block's address? Then one of its space. */
bool import_live_elsewhere(
        const struct import *import, const struct import_block *block, uint32_t *ret_space);

/*
 * Spaces are processes, each with books of its own on what it has told of: an address that one has
 * freed is new in another.
 */
void import_has_processes(struct import *import);

/*
 * The most that was live on a device, and what is; UINT64_MAX: it has no such figure. After
 * import_done.
 */
void import_device_bytes(
        const struct import *import, int device, uint64_t *ret_peak, uint64_t *ret_live);

/* The two spaces are one. */
void import_join(struct import *import, uint32_t one, uint32_t other);

/* How many blocks lay at an address that was live in another space. Their addresses in the capture are others. */
uint64_t import_shared(const struct import *import);

/* All heaps of the device hold this many bytes from the driver from here on. Devices beyond 15 have no such figure. */
void import_reserved(struct import *import, int device, uint64_t bytes);

/* An allocation failed. `free_bytes` of the device, UINT64_MAX = not known. */
void import_oom(struct import *import, const struct import_block *request, uint64_t free_bytes);

/*
 * Ranges, as tracker/where/anchor.h has them: a thread's ranges nest, and a thread without any is in the one that was entered last. A group
 * tells apart who opens them; where `is_single`, entering ends what the group has open in this thread.
 */
void import_enter(struct import *import, uint32_t thread, uint32_t group, bool is_single,
        struct import_text name);

/* Ends the innermost range of the group with this name; without a name, whichever is innermost. Nothing where there is none. */
void import_leave(
        struct import *import, uint32_t thread, uint32_t group, const struct import_text *name);

/* Something for the reader of the report. 0 a fact, 1 a warning. */
__attribute__((format(printf, 3, 4))) void import_note(
        struct import *import, unsigned severity, const char *format, ...);

/* A piece of the record makes no sense and is left out: the capture is marked as incomplete. */
void import_bad(struct import *import);

/* The record ends in the middle: what the program did afterwards is not known. */
void import_cut_off(struct import *import);

/* Writes the rest. 0 or -errno. */
int import_done(struct import *import, struct import_counts *ret_counts);

/* ---- the readers ---- */

/* Which process wrote what of a record of several. Each is a device of the capture. */
struct import_processes {
    uint32_t *of_space; /* by space, as the reader numbers them: the process */
    size_t space_count, space_room;
    struct import_process {
        char *name; /* as the record has it: "[default0]", "thread 4711" */
        int device;
    } * list;
    size_t count, room;
    bool by_launcher; /* its prefixes say so; else threads do */
    bool is_sure;     /* no two of them may be one process */
};

void import_processes_done(struct import_processes *processes);

/*
 * What a reader returns that knows only now how many processes wrote the record: it wants to read
 * it once more, from the beginning.
 */
#define IMPORT_AGAIN (-1)

/* What they are given. */
struct import_job {
    const char *path;
    FILE *in;         /* at its beginning */
    uint64_t size;    /* of a regular file, else 0 */
    const char *what; /* what it looks like, of a regular file that is none of these; NULL */
    struct loglines patterns; /* log lines that are anchors */
    struct import *import;
    struct import_processes processes; /* count 0: one process, or not known yet */
};

/* What a record is called, for users and in the capture. */
#define IMPORT_PADDLE "Paddle allocator log"
#define IMPORT_TORCH  "PyTorch snapshot"
#define IMPORT_ROWS   "allocation csv"
#define IMPORT_RMM    "RMM log"

/* Each: 0, or CMD_BAD after one line on stderr. The head is the file's first bytes. */
int import_paddle(struct import_job *job); /* or IMPORT_AGAIN, once, of a regular file */
int import_torch(struct import_job *job);
int import_rows(struct import_job *job);
int import_rmm(struct import_job *job);
bool import_is_torch(const unsigned char *head, size_t length);
bool import_is_rows(const char *line, bool *ret_rmm);

/* A file that is none of these, by its first bytes: what it is and what to do, NULL = not known. `ret_is_sure`: no log begins so. */
const char *import_what(const unsigned char *head, size_t length, bool *ret_is_sure);

#endif
