/* SPDX-License-Identifier: MIT */
/*
 * sitebook.h - call sites of several captures in one trace, each once.
 *
 *     capture 1 ─► its trace ─┐
 *     capture 2 ─► its trace ─┼─ by a key ─► one trace with a stack for each site ─► titles later
 *     ...                     ┘
 *
 * The caller chooses the key, which defines a site. The first stack with a key represents the site.
 * Texts are copied.
 * Threads: none. Memory: vec.h; at most SITEBOOK_MAX sites.
 */
#ifndef KEDGE_TOOLS_SITEBOOK_H
#define KEDGE_TOOLS_SITEBOOK_H

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/trace/trace.h"

#define SITEBOOK_MAX  (1u << 16)
#define SITEBOOK_NONE TRACE_NONE

/* sitebook_new, sitebook_done. */
struct sitebook {
    struct trace *trace;       /* stacks and modules, no blocks and no events */
    struct keytable sites;     /* key -> stack */
    struct keytable modules;   /* (path, build) -> module */
    struct keytable text_keys; /* text -> index in `texts` */
    struct vec_texts texts;
};

struct sitebook sitebook_new(void);
void sitebook_done(struct sitebook *book);

/* The stack of a key; SITEBOOK_NONE: it is not in the book. */
uint32_t sitebook_find(const struct sitebook *book, struct key key);

/* The stack of a key; a new one gets `from`'s, stack 0 is 0. SITEBOOK_NONE: the book is full. */
uint32_t sitebook_add(
        struct sitebook *book, struct key key, const struct trace *from, uint32_t stack);

/* The number of a library in book->trace: libraries of the same path and build are one. */
uint32_t sitebook_module(struct sitebook *book, const struct trace_module *module);

#endif
