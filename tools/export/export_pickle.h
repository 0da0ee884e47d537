/* SPDX-License-Identifier: MIT */
/*
 * export_pickle.h - writes Python objects as a pickle, without buffering them.
 *
 * Only the subset that the viewer at pytorch.org/memory_viz reads: protocol 4 with dictionaries,
 * lists, pairs, numbers, texts and references to earlier objects; at most 1000 elements are
 * appended at a time.
 *
 *     export_pickle_begin_dict(p); export_pickle_text(p, "size"); export_pickle_uint(p, 4096);
 *     export_pickle_end_dict(p);
 *     export_pickle_begin_list(p, &list); export_pickle_item(p, &list); ...;
 *     export_pickle_end_list(p);
 *
 * Source: PEP 307, PEP 3154, pickletools. Threads: none. Memory: vec.h, for the numbers of texts.
 */
#ifndef KEDGE_TOOLS_EXPORT_PICKLE_H
#define KEDGE_TOOLS_EXPORT_PICKLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/base/keytable.h"

struct export_pickle {
    FILE *out;
    struct keytable texts; /* text -> its memo number */
    uint32_t kept;         /* number of memo entries */
};

struct export_pickle_list {
    unsigned waiting; /* elements that are not appended yet */
};

/* The head; then exactly one object; then the end, which frees the memory. */
void export_pickle_begin(struct export_pickle *pickle, FILE *out);
void export_pickle_end(struct export_pickle *pickle);

/* Between them keys and values in turn, at most 1000 pairs. */
void export_pickle_begin_dict(struct export_pickle *pickle);
void export_pickle_end_dict(struct export_pickle *pickle);

/* export_pickle_item comes before each element. */
void export_pickle_begin_list(struct export_pickle *pickle, struct export_pickle_list *list);
/* The same; the number refers to the list later. */
uint32_t export_pickle_keep_list(struct export_pickle *pickle, struct export_pickle_list *list);
void export_pickle_item(struct export_pickle *pickle, struct export_pickle_list *list);
void export_pickle_end_list(struct export_pickle *pickle);

/* Makes the object just written available for references; returns its number. */
uint32_t export_pickle_keep(struct export_pickle *pickle);
void export_pickle_refer(struct export_pickle *pickle, uint32_t kept);

void export_pickle_uint(struct export_pickle *pickle, uint64_t value); /* below 2^63 */
void export_pickle_bool(struct export_pickle *pickle, bool value);
/* as in export_names_utf8 */
void export_pickle_text(struct export_pickle *pickle, const char *text);
void export_pickle_pair(struct export_pickle *pickle, uint64_t first, uint64_t second);

#endif
