/* SPDX-License-Identifier: MIT */
/*
 * capmake.h - makes a capture from data, for tools that convert another tool's record.
 *
 * libkedge.so records its own process while it runs, with the stacks that it walks (capture.h).
 * This file knows no process: its caller supplies the records of format.h with the numbers in them,
 * and keeps the totals; this file adds the sums and places the records in the file.
 *
 *     capmake_new ─► capmake_def · capmake_event · capmake_live · capmake_place · capmake_oom
 *                 ─► capmake_done
 *
 * The calls may come in any order. capmake_done writes the header: an unfinished file is no
 * capture. Memory: five blocks of 64 KiB, for a capture of any length.
 *
 * Each call returns 0 or -errno. After an error all later calls return the same one and write
 * nothing.
 * Threads: none.
 */
#ifndef KEDGE_TRACKER_CAPMAKE_H
#define KEDGE_TRACKER_CAPMAKE_H

#include "tracker/format/eventcode.h"
#include "tracker/format/format.h"

#include <stddef.h>

struct capmake;

/* `fd` is an empty regular file, open for writing; the caller keeps it. NULL: no memory. */
struct capmake *capmake_new(int fd);
void capmake_free(struct capmake *make); /* NULL is allowed */

/* Writes a definition of `bytes`, followed by `text` (NULL = none); fills in def->bytes and
 * def->length. -E2BIG: longer than a block. */
int capmake_def(struct capmake *make, struct format_def *def, size_t bytes, const void *text,
        size_t length);

int capmake_event(struct capmake *make, const struct format_event *event);

/* These fill in the record's sum. */
int capmake_live(struct capmake *make, struct format_live *slot);
int capmake_place(struct capmake *make, struct format_place *place);
int capmake_oom(struct capmake *make, struct format_oom *oom);

/* Writes the remaining blocks, the directory and the header; fills in the header's magic, version,
 * directory, size and sum. */
int capmake_done(struct capmake *make, struct format_header *header);

#endif
