/* SPDX-License-Identifier: MIT */
/*
 * outfile.h - where the output of a command goes.
 *
 *     a regular file      replaced when the new one is whole: a reader never sees half of it, and a command that fails leaves the
 *                         old one. The new one has the old one's mode and, where the system lets us, its owner. Links are
 *                         followed: the file that they lead to is replaced.
 *     nothing there yet   made the same way, with the mode of its kind whatever the umask
 *     anything else       (a device, a pipe) written where it stands
 *     "-"                 standard output; what the command prints besides goes to standard error from then on
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_OUTFILE_H
#define KEDGE_TOOLS_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>

enum outfile_kind {
    OUTFILE_FOR_RUNS, /* new ones 0644, and nobody but the owner may write: else the library refuses them (R54) */
    OUTFILE_PRIVATE, /* new ones 0600, as captures */
};

struct outfile {
    int fd;
    char *path; /* of the file that is replaced, links followed; NULL = it is written where it stands */
    char *draft; /* stands beside `path` until outfile_done */
};

/* 0, or -errno; then there is nothing to end. */
int outfile_open(const char *path, enum outfile_kind kind, struct outfile *ret_file);

/* Ends it: with `is_whole` the new content takes its place, else the old file stays as it was. 0, or -errno. */
int outfile_done(struct outfile *file, bool is_whole);

/* All of it: 0, or -errno after one line on stderr that begins with `who`. */
int outfile_write(
        const char *who, const char *path, enum outfile_kind kind, const char *text, size_t length);

/* Is there a regular file with something in it, which a command should not replace unasked? */
bool outfile_is_taken(const char *path);

#endif
