/* SPDX-License-Identifier: MIT */
/*
 * capfile.h - the file of a capture: creation, mapping, growth by extents.
 *
 * Space is allocated on disk before it is mapped, so that a full disk is an error of a call and not
 * a SIGBUS in a store (except where the file system writes elsewhere than it allocated, or the file
 * is truncated). The log leaves a sixteenth of the file system free, at most 256 MiB. No descriptor
 * is kept, since a program may close all of them: growth opens the path again and checks device and
 * inode.
 *
 *     page 0 HEADER + directory │ extent │ extent │ ...   claimed by one atomic add, in parallel
 *
 * Threads: any; makes system calls, no kedge lock may be held. Nothing is ever unmapped: another
 * thread may be storing.
 * Prefixes: cappool_.
 */
#ifndef KEDGE_TRACKER_CAPFILE_H
#define KEDGE_TRACKER_CAPFILE_H

#include "alloc/base/lock.h"
#include "tracker/format/format.h"

#include <stdbool.h>
#include <stdint.h>

struct capfile {
    /* fixed at creation */
    char path[4096]; /* absolute */
    uint64_t device, inode;
    struct format_header *header;
    struct format_extent *directory;
};

/* Around file operations: they are cancellation points, where a thread of the program could end
 * inside kedge. Pass the result of capfile_begin to capfile_end. */
int capfile_begin(void);
void capfile_end(int cancel_state);

/* Creates `path` (made absolute) with header and directory. `fill` (NULL = none) writes the
 * header's other fields; the file gets its name after that if the file system supports it
 * (O_TMPFILE), else a little earlier. 0, -EEXIST, -ENOSPC or another error of the kernel; then no
 * file is left. */
int capfile_create(
        struct capfile *file, const char *path, void (*fill)(struct format_header *header));

/* A store at `at` had no file behind it: the file was truncated or removed. True: `at` is in a
 * capture, and from its page on there is now zeroed private memory, so the store can be repeated.
 * Async-signal-safe. */
bool capfile_fault(const void *at);

/* A new extent, zeroed, mapped and in the directory. 0 or -errno; *ret_base is page-aligned. */
int capfile_grow(
        struct capfile *file, enum format_extent_kind kind, uint64_t bytes, void **ret_base);

/* Units of one size from extents of one kind, each handed out once. When an extent is used up the
 * next one is an eighth of the present size, within [first, CAPFILE_EXTENT_MAX], or less where that
 * does not fit; one thread grows, and the others wait for it at most two seconds. */
#define CAPFILE_EXTENT_MAX (256u << 20)

struct cappool {
    /* fixed */
    struct capfile *file;
    enum format_extent_kind kind;
    uint32_t unit;
    uint64_t first;

    struct lock lock;
    /* guarded by lock: */
    struct {
        char *base;
        uint64_t bytes;
    } extent[FORMAT_EXTENTS_MAX];
    uint32_t extents;
    uint32_t current;
    uint64_t used; /* of the current extent */
    uint64_t total;
    /* bytes of an extent: the last size that fitted, when a larger one did not */
    uint64_t step_max;
    bool is_growing; /* a thread is growing it */
    bool is_broken;  /* growth failed: no more attempts */
};

void cappool_init(struct cappool *pool, struct capfile *file, enum format_extent_kind kind,
        uint32_t unit, uint64_t first);

/* At most `wanted` adjacent units (at least 1): their address, and their number in *ret_count.
 * NULL: none; *ret_error is then -errno for the call that met the error, 0 for later ones. */
void *cappool_take(struct cappool *pool, uint32_t wanted, uint32_t *ret_count, int *ret_error);

#endif
