/* SPDX-License-Identifier: MIT */
/*
 * outfile.h - the destination of a command's output.
 *
 * a regular file      replaced when the new one is complete: a reader never sees half of it, and a
 *                     command that fails leaves the old one. The new one has the old one's mode
 *                     and, if permitted, its owner. Links are followed to their target.
 *                     Replaceable (R102, live captures kept): a file that kedge wrote, or that is
 *                     empty; any other with --force. A capture only by a capture, and never while
 *                     its process runs; an input of the command never. Checked before the command
 *                     begins, when it opens the file and when the new one replaces it.
 * no file yet         made the same way, with the mode of its kind whatever the umask
 * anything else       (a device, a pipe) written in place
 * "-"                 standard output; other output goes to standard error from then on
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
    OUTFILE_PRIVATE, /* new files get mode 0600, as captures do */
    OUTFILE_BUNDLE,  /* the same */
    OUTFILE_CAPTURE, /* the same */
    /*
     * new files get mode 0644, and only the owner may write: else the library refuses them (R54,
     * owner of hints)
     */
    OUTFILE_FOR_RUNS,
    OUTFILE_HINTS, /* the same. Users edit them: they replace a file only with --force */
};

struct outfile {
    int fd;
    char *path;             /* the file that is replaced, links followed; NULL = written in place */
    char *draft;            /* beside `path` until outfile_done */
    const char *who, *name; /* as given, for messages */
    enum outfile_kind kind;
    bool was_there;
};

/* --force, an option of each command that writes a file (struct cmd), which sets its offset. */
extern const struct args_option outfile_option;

/* Whether --force was given. */
void outfile_force(bool is_given);

/* The command reads this file, if it is one: it is not replaced. */
void outfile_reads(const char *path);

/*
 * Whether the file may be written, and its folder be there: 0, or -errno after one line on stderr
 * that begins with `who`, as for the functions below.
 */
int outfile_look(const char *who, const char *path, enum outfile_kind kind);

/*
 * 0, or -errno; then there is nothing to end. The caller keeps `who` and `path` valid until
 * outfile_done.
 */
int outfile_open(
        const char *who, const char *path, enum outfile_kind kind, struct outfile *ret_file);

/*
 * Ends it: with `is_whole` the new content replaces the file, else the old file stays unchanged. 0,
 * or -errno.
 */
int outfile_done(struct outfile *file, bool is_whole);

/* Writes all bytes: 0, or -errno. */
int outfile_write(
        const char *who, const char *path, enum outfile_kind kind, const char *text, size_t length);

#endif
