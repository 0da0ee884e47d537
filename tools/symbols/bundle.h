/* SPDX-License-Identifier: MIT */
/*
 * bundle.h - a capture and the names of its frames in one file, for machines that have not the program's files.
 *
 *     kedge-bundle/about          what it is, for people; the first line is "kedge-bundle 1"
 *     kedge-bundle/symbols        symcache.h
 *     kedge-bundle/capture.kcap   as it was written
 *     kedge-bundle/modules/...    files that names came from, if they were asked for: as symfile_packed_name calls them
 *
 * A tar archive, compressed with zstd (libarchive). The folder that `tar x` makes of it is as good. Whatever reads captures
 * reads bundles (load.h). Reads any bytes: what it unpacks is bounded by the length of the file (64 MiB and 1024 times that, empty
 * blocks of a capture of at most 64 GiB aside).
 *
 * Threads: none. Memory: vec.h; the capture is unpacked to a file without a name under $TMPDIR.
 */
#ifndef KEDGE_TOOLS_BUNDLE_H
#define KEDGE_TOOLS_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/symbols/symcache.h"
#include "tracker/reader/read.h"

struct bundle_modules;

/* Does it look like one: a folder, or a file that begins as such an archive does? */
bool bundle_is(const char *path);

/* Is it one, told by the first file in it: kedge packed it. A folder is none. */
bool bundle_begins(const char *path);

/* 0, or -1 with a message for the user (the caller frees it). */
int bundle_open(const char *path, struct read_capture **ret_capture, struct symcache **ret_names,
        char **ret_why);

/*
 * The files under modules/. Nothing is unpacked before the first one is asked for, since they may be large and the names in the
 * bundle are enough for most; then all are, to files without names under $TMPDIR, within the same bounds.
 */
struct bundle_modules *bundle_modules_new(const char *path);
void bundle_modules_free(struct bundle_modules *modules);

/* A path under which the file can be opened while `modules` lives, the caller's to free; NULL: it is not there. */
char *bundle_module(struct bundle_modules *modules, const char *name);

/* What went wrong with unpacking them, NULL nothing. */
const char *bundle_modules_why(const struct bundle_modules *modules);

/* What goes into one. */
struct bundle_file {
    char *path; /* here */
    char *name; /* under modules/ */
};

struct bundle_parts {
    const char *capture; /* path */
    const char *about, *symbols;
    size_t symbols_length;
    const struct bundle_file *files;
    size_t file_count;
};

/* Writes it to `fd`: 0, or -1 with a message. */
int bundle_write(int fd, const struct bundle_parts *parts, uint64_t *ret_bytes, char **ret_why);

#endif
