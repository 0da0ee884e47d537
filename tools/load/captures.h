/* SPDX-License-Identifier: MIT */
/*
 * captures.h - the captures that a run has written, found by name and time.
 *
 * Of each only the header is read, where the writer keeps its totals. What is no regular file is
 * passed over.
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
    uint64_t peak_with_hints; /* peak_live where hints released nothing */
    uint64_t oom_count;
    bool is_late;  /* the peaks may be others in the order of the events (inorder.h) */
    char rank[32]; /* "" = none */
};

struct captures {
    struct captures_file *file; /* by path */
    size_t count, room;
};

/* A path in which each % is one, as KEDGE_CAPTURE has it: "%%". The caller frees it. */
char *captures_quote(const char *path);

/*
 * The folder of a value of KEDGE_CAPTURE up to its first pattern, as it is called, with its last
 * slash; "" is the current one. The caller frees it. *ret_rest is what stands behind it in `name`.
 */
char *captures_folder(const char *name, const char **ret_rest);

/*
 * `name` is a value of KEDGE_CAPTURE: a pattern with %h, %r and %p, also in its folders, or a name,
 * which other ranks and processes make FILE.N and FILE.N.M of. Only captures of the run `run`
 * (format_header).
 */
void captures_find(const char *name, const char *run, struct captures *ret);

/*
 * The process has ended by a signal that it could not write down, as its parent knows: the capture
 * says so from here on. Nothing where the process said something itself, lives, or is another one
 * than `pid`.
 */
void captures_ended_by(const char *path, uint32_t pid, int number);

/*
 * Where the process of a capture has ended, nobody counts any more: the header gets its seal, and
 * what has no sum of its own gets one together (formatsum_seal, formatsum_loose_live). Nothing
 * where it lives, or the capture is damaged.
 */
void captures_seal(const char *path);

/* Every capture in a folder, of other formats and cut off ones too, and what cannot be opened:
 * whoever opens it says why. Paths alone. */
void captures_find_any(const char *folder, struct captures *ret);
void captures_done(struct captures *captures);

/*
 * Every file that the library may have made of this name: any host and rank, any process, and ".N"
 * behind names that were taken. `each` may remove it.
 */
void captures_each(const char *name, void (*each)(void *self, const char *path), void *self);

/* False: it is no capture of this format. */
bool captures_read_header(const char *path, struct format_header *ret_header);

/* The one of process `pid`; where it has none, the one that held most. NULL = there is none at all.
 * */
struct captures_file *captures_main(const struct captures *captures, uint32_t pid);

#endif
