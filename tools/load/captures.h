/* SPDX-License-Identifier: MIT */
/*
 * captures.h - finds the captures that a run has written, by name and time.
 *
 * Only the header of each is read, which has the writer's totals. Files that are not regular are
 * ignored.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_CAPTURES_H
#define KEDGE_TOOLS_CAPTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracker/format/format.h"

struct captures_file {
    char *path;
    uint32_t pid;
    uint64_t peak_live, peak_reserved;
    uint64_t native_peak;     /* load_native_peak */
    uint64_t peak_with_hints; /* peak_live if hints released nothing */
    uint64_t oom_count;
    bool is_late;  /* the order of the events may give other peaks (inorder.h) */
    char rank[32]; /* "" = none */
};

struct captures {
    struct captures_file *file; /* by path */
    size_t count, room;
};

/* A path with each % as "%%", as in KEDGE_CAPTURE. The caller frees it. */
char *captures_quote(const char *path);

/*
 * The folder of a KEDGE_CAPTURE value up to its first pattern, as written, with its last slash; ""
 * is the current one. The caller frees it. *ret_rest is the rest of `name`.
 */
char *captures_folder(const char *name, const char **ret_rest);

/*
 * `name` is a KEDGE_CAPTURE value: a pattern with %h, %r and %p, also in its folders, or a name,
 * from which other ranks and processes make FILE.N and FILE.N.M. Only captures of the run `run`
 * (format_header).
 */
void captures_find(const char *name, const char *run, struct captures *ret);

/*
 * The process was ended by a signal that it could not record, as its parent knows: records that in
 * the capture. No effect if the process recorded an end itself, still runs, or is not `pid`.
 */
void captures_ended_by(const char *path, uint32_t pid, int number);

/*
 * If the process of a capture has ended, its counts are final: seals the header and writes
 * checksums for parts that have none (formatsum_seal, formatsum_loose_live). No effect if the
 * process runs or the capture is damaged.
 */
void captures_seal(const char *path);

/* Paths of all captures in a folder, also unreadable ones: opening one later prints the reason. */
void captures_find_any(const char *folder, struct captures *ret);
void captures_done(struct captures *captures);

/*
 * Every file that the library may have made from this name: any host, rank and process, and ".N"
 * after names that were taken. `each` may remove it.
 */
void captures_each(const char *name, void (*each)(void *self, const char *path), void *self);

/* False: it is no capture of this format. */
bool captures_read_header(const char *path, struct format_header *ret_header);

/* The capture of process `pid`, else the one that held most. NULL = there is none. */
struct captures_file *captures_main(const struct captures *captures, uint32_t pid);

#endif
