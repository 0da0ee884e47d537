/* SPDX-License-Identifier: MIT */
/*
 * capold.h - captures that are there already: does their process live, and may a new capture take the name (R102)?
 *
 * A process that writes a capture has it mapped, so /proc/PID/maps tells, where the capture is of this host. Where that cannot be
 * read, the capture counts as written. A capture of another host counts as written until it was closed.
 *
 * Descriptors are opened and closed within a call. Threads: one at a time; the caller sees to it. No lock, no malloc.
 */
#ifndef KEDGE_TRACKER_CAPOLD_H
#define KEDGE_TRACKER_CAPOLD_H

#include "tracker/format/format.h"

enum capold {
    CAPOLD_NONE,  /* there is no such file, or it cannot be read (errno says which) */
    CAPOLD_ENDED, /* a capture that nobody writes any more, or an empty file */
    CAPOLD_LIVE,  /* a capture whose process lives */
    CAPOLD_OTHER, /* anything else */
};

/* *ret_header is the capture's; zeroes where there is none. It is large: no variable of a thread with a small stack. */
enum capold capold_look(const char *path, struct format_header *ret_header);

/*
 * Removes the capture at `path`, so that one of the run `run` takes its place. 0, or: -EBUSY its process lives or another process
 * is about to do the same, -EEXIST it is of this run itself, -EINVAL it is no capture, another -errno. `space` is written to.
 */
int capold_remove(const char *path, const char *run, struct format_header *space);

#endif
