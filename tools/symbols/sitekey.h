/* SPDX-License-Identifier: MIT */
/*
 * sitekey.h - by which call sites a hint can pick a block of a trace.
 *
 *     block ─► c: its native site · p: each Python frame of its stack, innermost first, without a line and with it
 *     trace + hints ─► of each stack the Python call sites that the hints name ─► tag.pysites ─► hint_plan
 *
 * The keys are those of the run: tracker/hints/pysite.h makes them, alloc/hints/hint.h says which of them count. A Python stack that is
 * another thread's (ambient) names no call site, as in the run.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SITEKEY_H
#define KEDGE_TOOLS_SITEKEY_H

#include "alloc/hints/hint.h"
#include "tools/trace/trace.h"

#define SITEKEY_MAX 257u /* of one block: its native site, and two of each of 128 frames */

/* A key, and the frame that it is of: NULL for the native site; it lives as long as the trace. */
struct sitekey {
    uint64_t key;
    const struct trace_pyframe *frame;
    bool has_line; /* of a frame: this line of the function alone */
};

/* The keys of a block, no key twice; how many. Frames whose names no hint can write are left out. */
size_t sitekey_list(const struct trace *trace, const struct trace_block *block,
        struct sitekey ret_keys[static SITEKEY_MAX]);

/* For hintfile_words.site: the text of a Python key, which the caller frees; NULL of a native one. */
char *sitekey_text(const struct sitekey *key);

/* One more site to a pick, which has room for it. */
void sitekey_pick(const struct sitekey *key, struct rule_pick *io_pick);

/* The Python call sites of each stack, by its number, that these hints name; of_stack NULL: they name none at all. */
struct sitekey_named {
    const struct pysite **of_stack;
    struct pysite *room;
};

struct sitekey_named sitekey_name(const struct trace *trace, const struct hints *hints);
void sitekey_named_done(struct sitekey_named *named);

#endif
