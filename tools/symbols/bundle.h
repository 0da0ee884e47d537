/* SPDX-License-Identifier: MIT */
/*
 * bundle.h - a capture and the names of its frames in one file, for machines without the program's
 * files.
 *
 *     kedge-bundle/about          what it is, for people; the first line is "kedge-bundle 1"
 *     kedge-bundle/symbols        symcache.h
 *     kedge-bundle/capture.kcap   as it was written
 *     kedge-bundle/modules/...    files with the names, if wanted, named by symfile_packed_name
 *
 * A tar archive, compressed with zstd (libarchive). The folder that `tar x` makes of it works too.
 * Every command that reads captures reads bundles (load.h). Reads any bytes: the unpacked size is
 * bounded by the length of the file (64 MiB and 1024 times that, apart from empty blocks of a
 * capture of at most 64 GiB).
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

/* Whether the path looks like one: a folder, or a file that begins like such an archive. */
bool bundle_is(const char *path);

/* Whether the first file in it shows that kedge packed it. A folder never counts. */
bool bundle_begins(const char *path);

/* 0, or -1 with a message for the user (the caller frees it). */
int bundle_open(const char *path, struct read_capture **ret_capture, struct symcache **ret_names,
        char **ret_why);

/*
 * The files under modules/. They are unpacked when the first one is asked for, since they may be
 * large and the names in the bundle are usually enough; then all are, to unnamed files under
 * $TMPDIR, within the same bounds.
 */
struct bundle_modules *bundle_modules_new(const char *path);
void bundle_modules_free(struct bundle_modules *modules);

/* A path to open the file while `modules` lives; the caller frees it. NULL: it is not there. */
char *bundle_module(struct bundle_modules *modules, const char *name);

/* The error of unpacking them, NULL = none. */
const char *bundle_modules_why(const struct bundle_modules *modules);

/* A file to pack. */
struct bundle_file {
    char *path; /* on this machine */
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
