/* SPDX-License-Identifier: MIT */
/*
 * sitekey.h - the call sites by which a hint can pick a block of a trace.
 *
 *     block ─► c: its native site · p: each Python frame, innermost first, without and with line
 *     trace + hints ─► named Python call sites per stack ─► tag.pysites ─► hint_plan
 *
 * The keys are those of the run: tracker/hints/pysite.h makes them, alloc/hints/hint.h says which
 * of them count. A Python stack that is another thread's (ambient) names no call site, as in the
 * run.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SITEKEY_H
#define KEDGE_TOOLS_SITEKEY_H

#include "alloc/hints/hint.h"
#include "tools/base/keytable.h"
#include "tools/trace/trace.h"

#define SITEKEY_MAX 257u /* for one block: its native site, and two for each of 128 frames */

/* A key and its frame: NULL for the native site; valid as long as the trace. */
struct sitekey {
    uint64_t key;
    const struct trace_pyframe *frame;
    bool has_line; /* for a frame: this line of the function alone */
};

/* The keys of a block, each once; their number. Without frames whose names a hint cannot write. */
size_t sitekey_list(const struct trace *trace, const struct trace_block *block,
        struct sitekey ret_keys[static SITEKEY_MAX]);

/* Equal sites have equal keys. */
struct key sitekey_key(const struct sitekey *key);

/* 0: the most readable. Python without a line, then with one, the program's first; then native. */
uint32_t sitekey_rank(const struct sitekey *key);

/* The call site of a block, equal in every run: the native one, else its Python stack. */
struct key sitekey_place(const struct trace *trace, const struct trace_block *block);

/* For hintfile_words.site: the text of a Python key; NULL for a native one. The caller frees it. */
char *sitekey_text(const struct sitekey *key);

/* Adds a site to a pick, which has room for it. */
void sitekey_pick(const struct sitekey *key, struct rule_pick *io_pick);

/* By stack, the Python call sites that these hints name; of_stack NULL: the hints name none. */
struct sitekey_named {
    const struct pysite **of_stack;
    struct pysite *room;
};

struct sitekey_named sitekey_name(const struct trace *trace, const struct hints *hints);
void sitekey_named_done(struct sitekey_named *named);

#endif
