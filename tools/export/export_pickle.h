/* SPDX-License-Identifier: MIT */
/*
 * export_pickle.h - Python objects as a pickle, written as they come.
 *
 * Only what the viewer at pytorch.org/memory_viz reads: protocol 4 with dictionaries, lists, pairs, numbers, texts and references to
 * what was written before; at most 1000 elements are appended at a time.
 *
 *     export_pickle_begin_dict(p); export_pickle_text(p, "size"); export_pickle_uint(p, 4096); export_pickle_end_dict(p);
 *     export_pickle_begin_list(p, &list); export_pickle_item(p, &list); ...; export_pickle_end_list(p);
 *
 * Source: PEP 307, PEP 3154, pickletools. Threads: none. Memory: vec.h; what is kept are numbers of texts.
 */
#ifndef KEDGE_TOOLS_EXPORT_PICKLE_H
#define KEDGE_TOOLS_EXPORT_PICKLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/base/keytable.h"

struct export_pickle {
    FILE *out;
    struct keytable texts; /* text -> its number among what can be referred to */
    uint32_t kept;         /* how much can be */
};

struct export_pickle_list {
    unsigned waiting; /* elements that are not appended yet */
};

/* The head; then exactly one object; then the end, which gives memory back. */
void export_pickle_begin(struct export_pickle *pickle, FILE *out);
void export_pickle_end(struct export_pickle *pickle);

/* Between them keys and values in turn, at most 1000 pairs. */
void export_pickle_begin_dict(struct export_pickle *pickle);
void export_pickle_end_dict(struct export_pickle *pickle);

/* export_pickle_item comes before each element. */
void export_pickle_begin_list(struct export_pickle *pickle, struct export_pickle_list *list);
/* The same; the list can be referred to by the number. */
uint32_t export_pickle_keep_list(struct export_pickle *pickle, struct export_pickle_list *list);
void export_pickle_item(struct export_pickle *pickle, struct export_pickle_list *list);
void export_pickle_end_list(struct export_pickle *pickle);

/* The object just written can be referred to from here on, by the number. */
uint32_t export_pickle_keep(struct export_pickle *pickle);
void export_pickle_refer(struct export_pickle *pickle, uint32_t kept);

void export_pickle_uint(struct export_pickle *pickle, uint64_t value); /* below 2^63 */
void export_pickle_bool(struct export_pickle *pickle, bool value);
void export_pickle_text(struct export_pickle *pickle, const char *text); /* as export_names_utf8 */
void export_pickle_pair(struct export_pickle *pickle, uint64_t first, uint64_t second);

#endif
