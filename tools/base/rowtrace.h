/* SPDX-License-Identifier: MIT */
/*
 * rowtrace.h - an allocation trace in a csv file, or in a log of RMM (RMM_LOG_FILE,
 * logging_resource_adaptor).
 *
 *     op,id,size,stream,time_us
 *     a,0,2097152,0,-1            live before the recording began
 *     a,1,4096,0,1772688692031319
 *     f,1,4096,0,1772688692032623
 *
 *     Thread,Time,Action,Pointer,Size,Stream
 *     4021,10:21:05.118223,allocate,0x7f2c40000000,4096,0x2
 *     4021,10:21:05.120117,free,0x7f2c40000000,4096,0x2
 *
 * Action is allocate, free or "allocate failure". Pointer and stream are hexadecimal, with 0x or
 * not. A failure may lack its pointer. Rows of size 0 are ignored. Threads and times do not matter:
 * rows are in the order of the calls.
 *
 * An id, or a pointer, names one block from its `a` to its `f` and may be used again afterwards.
 * All rows are checked when read: an invalid line gives one message `file:line:column: what`.
 *
 * Knows nothing of CUDA. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_ROWTRACE_H
#define KEDGE_TOOLS_ROWTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/base/rowread.h"

#define ROWTRACE_HEAD     "op,id,size,stream,time_us"
#define ROWTRACE_RMM_HEAD "Thread,Time,Action,Pointer,Size,Stream"

struct rowtrace_block {
    uint64_t id, size;
    uint32_t stream; /* index in streams */
};

struct rowtrace_row {
    uint64_t time_us; /* 0: before the recording began, or a log of RMM */
    uint32_t block;
    uint32_t stream; /* index in streams: where it was allocated or freed */
    bool is_free;
};

/* An allocation that failed. */
struct rowtrace_failure {
    size_t row;    /* it comes before this row */
    uint64_t size; /* 0: unknown */
    uint32_t stream;
};

struct rowtrace {
    struct rowtrace_row *rows;
    struct rowtrace_block *blocks;
    uint64_t *streams; /* the numbers in the file, in order of appearance */
    size_t row_count, block_count, stream_count;
    size_t row_room, block_room, stream_room;
    struct rowtrace_failure *failures;
    size_t failed_room;
    size_t alloc_count, before_count, failed_count;
    /* rowtrace_read_rmm: invalid rows, which it skips, the first in `error`; lines that are no
     * rows */
    size_t odd_count, other_count;
    bool is_cut; /* the last row was cut off */
    uint64_t peak_bytes;
    char error[ROWREAD_ERROR_MAX]; /* "file:line:column: what" */
};

/* 0, or -errno with `error` filled (-EINVAL: invalid line, no regular file). Then rowtrace_done. */
int rowtrace_read(const char *path, struct rowtrace *ret_steps);
int rowtrace_read_stream(FILE *in, const char *name, struct rowtrace *ret_steps);
/*
 * A log of RMM whose first line may be missing, and which may contain other lines: they are
 * counted. -EINVAL if it has no allocation.
 */
int rowtrace_read_rmm(FILE *in, const char *name, struct rowtrace *ret_steps);
/* Whether the text, up to its end, is a row of such a log. */
bool rowtrace_is_rmm(const char *line);
void rowtrace_done(struct rowtrace *steps);

#endif
