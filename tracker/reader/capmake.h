/* SPDX-License-Identifier: MIT */
/*
 * capmake.h - a capture made from data, for tools that have the record of another tool.
 *
 * libkedge.so writes down its own process, while it runs, with the stacks that it walks (capture.h). This file knows no process: its
 * caller brings the records of format.h and the numbers in them, and keeps the books; here they get their sums and their place in
 * the file.
 *
 *     capmake_new ─► capmake_def · capmake_event · capmake_live · capmake_place · capmake_oom ─► capmake_done
 *
 * The calls may come in any order. The header is written by capmake_done: what was not finished is no capture. Memory: five blocks of
 * 64 KiB, however long the capture is.
 *
 * Each call returns 0 or -errno. After an error all later calls return the same one and write nothing. Threads: none.
 */
#ifndef KEDGE_TRACKER_CAPMAKE_H
#define KEDGE_TRACKER_CAPMAKE_H

#include "tracker/format/eventcode.h"
#include "tracker/format/format.h"

#include <stddef.h>

struct capmake;

/* `fd` is an empty regular file, open for writing; it stays the caller's. NULL: no memory. */
struct capmake *capmake_new(int fd);
void capmake_free(struct capmake *make); /* NULL is fine */

/* A definition of `bytes` with `text` behind it (NULL without); def->bytes and def->length are filled here. -E2BIG: longer than a block. */
int capmake_def(struct capmake *make, struct format_def *def, size_t bytes, const void *text,
        size_t length);

int capmake_event(struct capmake *make, const struct format_event *event);

/* Their sums are filled here. */
int capmake_live(struct capmake *make, struct format_live *slot);
int capmake_place(struct capmake *make, struct format_place *place);
int capmake_oom(struct capmake *make, struct format_oom *oom);

/* Writes what is left, the directory and the header, of which magic, version, directory, size and sum are filled here. */
int capmake_done(struct capmake *make, struct format_header *header);

#endif
