/* SPDX-License-Identifier: MIT */
/*
 * capfile.h - the file of a capture: created, mapped, grown by extents.
 *
 * Space is allocated on disk before it is mapped, so that a full disk is an error of a call and no SIGBUS in a store (but where
 * the file system writes elsewhere than it allocated, or somebody cuts the file). The log leaves a sixteenth of the file system
 * free, at most 256 MiB. No descriptor is kept, since a program may close all of them: growth opens the path again and checks
 * device and inode.
 *
 *     page 0 HEADER + directory │ extent │ extent │ ...   claimed by one atomic add, so threads grow at the same time
 *
 * Threads: any; makes system calls, no kedge lock may be held. Nothing is ever unmapped: another thread may be storing.
 * Prefixes: cappool_.
 */
#ifndef KEDGE_TRACKER_CAPFILE_H
#define KEDGE_TRACKER_CAPFILE_H

#include "alloc/base/lock.h"
#include "tracker/format/format.h"

#include <stdbool.h>
#include <stdint.h>

struct capfile {
    /* fixed when it is created */
    char path[4096]; /* absolute */
    uint64_t device, inode;
    struct format_header *header;
    struct format_extent *directory;
};

/*
 * Around file work: its calls are points where a cancelled thread of the program would end, in the middle of ours.
 * capfile_end wants what capfile_begin returned.
 */
int capfile_begin(void);
void capfile_end(int cancel_state);

/*
 * Creates `path` (made absolute) with header and directory. `fill` (NULL = none) writes the header's other fields; the file has
 * its name when that is done, where the file system can do so (O_TMPFILE), else a little before. 0, -EEXIST, -ENOSPC or what
 * the kernel says; then no file is left.
 */
int capfile_create(
        struct capfile *file, const char *path, void (*fill)(struct format_header *header));

/* A new extent, zeroed, mapped and in the directory. 0 or -errno; *ret_base is page-aligned. */
int capfile_grow(
        struct capfile *file, enum format_extent_kind kind, uint64_t bytes, void **ret_base);

/*
 * A store at `at` met no file: it was cut, or has gone. True: `at` is in a capture, and from its page on there is memory now, of
 * zeroes, that is nobody's file; so the store can be made again. Async-signal-safe.
 */
bool capfile_fault(const void *at);

/*
 * Units of one size out of extents of one kind, each handed out once. When an extent is used up the next one is grown
 * to an eighth of what is there, within [first, CAPFILE_EXTENT_MAX], or to less where that does not fit; by one thread, for which
 * the others wait for two seconds at most.
 */
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
    uint64_t step_max; /* of an extent: what fitted last, when not all did */
    bool is_growing;   /* a thread is at it */
    bool is_broken;    /* growth failed: no more attempts */
};

void cappool_init(struct cappool *pool, struct capfile *file, enum format_extent_kind kind,
        uint32_t unit, uint64_t first);

/*
 * At most `wanted` adjoining units (at least 1): their address, and how many in *ret_count. NULL if there are none;
 * *ret_error is then -errno for the call that met the trouble, 0 for later ones.
 */
void *cappool_take(struct cappool *pool, uint32_t wanted, uint32_t *ret_count, int *ret_error);

#endif
