/* SPDX-License-Identifier: MIT */
/*
 * outfile.h - where the output of a command goes.
 *
 *     a regular file      replaced when the new one is whole: a reader never sees half of it, and a command that fails leaves the
 *                         old one. The new one has the old one's mode and, where the system lets us, its owner. Links are
 *                         followed: the file that they lead to is replaced.
 *                         Which ones are (R102): one that kedge wrote, or that is empty; any other with --force. A capture only by
 *                         a capture, and never while its process lives; what the command reads never. Looked at before the
 *                         command begins, when it opens the file and when the new one takes its place.
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

#include "tools/base/args.h"

enum outfile_kind {
    OUTFILE_NONE,
    OUTFILE_PRIVATE, /* new ones 0600, as captures */
    OUTFILE_BUNDLE,  /* the same */
    OUTFILE_CAPTURE, /* the same */
    OUTFILE_FOR_RUNS, /* new ones 0644, and nobody but the owner may write: else the library refuses them (R54) */
    OUTFILE_HINTS, /* the same. People edit them: they replace a file with --force alone */
};

struct outfile {
    int fd;
    char *path; /* of the file that is replaced, links followed; NULL = it is written where it stands */
    char *draft;            /* stands beside `path` until outfile_done */
    const char *who, *name; /* as given, for messages */
    enum outfile_kind kind;
    bool was_there;
};

/* --force, an option of each command that writes a file (struct cmd); its offset is the command's business. */
extern const struct args_option outfile_option;

/* Was it given? */
void outfile_force(bool is_given);

/* The command reads this file, if it is one: it is not replaced. */
void outfile_reads(const char *path);

/* May it be written? 0, or -errno after one line on stderr that begins with `who`. So do the functions below. */
int outfile_look(const char *who, const char *path, enum outfile_kind kind);

/* 0, or -errno; then there is nothing to end. `who` and `path` stay the caller's and are needed until the end. */
int outfile_open(
        const char *who, const char *path, enum outfile_kind kind, struct outfile *ret_file);

/* Ends it: with `is_whole` the new content takes its place, else the old file stays as it was. 0, or -errno. */
int outfile_done(struct outfile *file, bool is_whole);

/* All of it: 0, or -errno. */
int outfile_write(
        const char *who, const char *path, enum outfile_kind kind, const char *text, size_t length);

#endif
