/* SPDX-License-Identifier: MIT */
/*
 * suggest_lastuse.h - what one run frees late by its own uses: the other source of late frees beside compare.h.
 *
 *     SOT_CALL_3 [ alloc x ─ use ─ last use ───] ─── … ─── free x        late by SOT_CALL_3's exit
 *
 * A block is late by the innermost anchor around its birth whose exit came after its last use and before its free; one that
 * was never used, by the innermost whose exit came before its free. Blocks that may have been used unseen are not judged
 * (patterns.h). A last use that was seen is not the last one that there was (pointers in device memory): hints that
 * are made from this are to be verified before they act.
 *
 * Pure apart from memory. Threads: none.
 */
#ifndef KEDGE_TOOLS_SUGGEST_LASTUSE_H
#define KEDGE_TOOLS_SUGGEST_LASTUSE_H

#include "tools/compare/compare.h"

/*
 * The innermost anchor around its birth by whose exit the block was not used any more, or not at all, and not freed either;
 * TRACE_NONE: none. Whether all its uses were seen is for the caller to ask (patterns.h).
 */
uint32_t suggest_lastuse_late_by(const struct trace *trace, const struct trace_block *block);

/* Late blocks of the window as compare_runs would list them (`good` is TRACE_NONE); compare_done gives the memory back. */
void suggest_lastuse_late(
        const struct trace *trace, struct model_window window, struct compare *ret_late);

#endif
