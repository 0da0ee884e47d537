/* SPDX-License-Identifier: MIT */
/*
 * ranksprint.h - prints the result of `kedge ranks`, as text and as JSON.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_RANKSPRINT_H
#define KEDGE_TOOLS_RANKSPRINT_H

#include "tools/base/render.h"
#include "tools/ranks/rankjob.h"
#include "tools/symbols/symbols.h"

struct ranksprint {
    const struct rankjob *jobs; /* in the order of their folders */
    size_t job_count;
    const struct ranksum_book *book;
    struct symbols *symbols; /* of the book's trace */
    bool by_anchor;
    uint64_t top; /* call sites, anchors, and captures of a large job */
};

void ranksprint_text(const struct ranksprint *print);
void ranksprint_json(const struct ranksprint *print);

/* The keys of that answer, into the open object; a page has no anchors. */
void ranksprint_json_keys(struct json *json, const struct ranksprint *print);

#endif
