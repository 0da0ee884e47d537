/* SPDX-License-Identifier: MIT */
/*
 * capold.h - existing captures: does their process live, and may a new capture take the name
 * (R102, live captures stay)?
 *
 * A process that writes a capture has it mapped, so /proc/PID/maps shows it, for captures of this
 * host. Where that cannot be read, the capture counts as being written. A capture of another host
 * counts as being written until it is closed.
 *
 * Descriptors are opened and closed within a call.
 * Threads: one at a time; the caller ensures it. No lock, no malloc.
 */
#ifndef KEDGE_TRACKER_CAPOLD_H
#define KEDGE_TRACKER_CAPOLD_H

#include "tracker/format/format.h"

enum capold {
    CAPOLD_NONE,  /* no such file, or unreadable (errno says which) */
    CAPOLD_ENDED, /* a capture that no process writes any more, or an empty file */
    CAPOLD_LIVE,  /* a capture whose process lives */
    CAPOLD_OTHER, /* anything else */
};

/* *ret_header is the capture's, zeroed if there is none. It is too large for a local variable of a
 * thread with a small stack. */
enum capold capold_look(const char *path, struct format_header *ret_header);

/* Removes the capture at `path`, so that one of the run `run` can take its place. 0, or: -EBUSY its
 * process lives or another process is removing it, -EEXIST it belongs to this run, -EINVAL it is no
 * capture, another -errno. `space` is scratch memory. */
int capold_remove(const char *path, const char *run, struct format_header *space);

#endif
