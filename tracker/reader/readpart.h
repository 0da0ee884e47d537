/* SPDX-License-Identifier: MIT */
/*
 * readpart.h - the parts of read.h, which read.c calls. All use reader.h.
 *
 *     read.c      header, directory, entry points, queries
 *     readlive.c  areas A and E: records of one size
 *     readlog.c   area D: the records of each chunk, sorted
 *     readwalk.c  the events of all chunks, in order
 *     readplace.c area C: places
 *     readrecord.c area F: the framework's own record
 *     readdefs.c  area B: strings, modules, stacks, rules ...
 *     readtally.c do totals, live table, places and events agree?
 *
 * Not for others.
 * Threads: a reader belongs to one.
 * Prefixes: read_.
 */
#ifndef KEDGE_TRACKER_READPART_H
#define KEDGE_TRACKER_READPART_H

#include "tracker/reader/reader.h"

/* The parts, in this order: records with numbers first, then the definitions. Each returns 0 or
 * -errno. */
int read_live_table(struct reader *reader);
int read_events(struct reader *reader); /* depending on `parts` only the newest ones, or none */
int read_failures(struct reader *reader);
int read_places(struct reader *reader);
int read_record(struct reader *reader);
int read_definitions(struct reader *reader);

/* Call after all parts, if none is damaged: counts contradictions in damaged[READ_AREA_TOTALS] or
 * [READ_AREA_DEFS], or in `torn`. */
void read_tally(struct reader *reader);

/* For read_walk_new: sorts by the first records. */
void read_sort_chunks(struct read_private *private);

#endif
