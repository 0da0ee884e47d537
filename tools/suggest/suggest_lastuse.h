/* SPDX-License-Identifier: MIT */
/*
 * suggest_lastuse.h - late frees of one run by its own uses: the second source of late frees
 * besides compare.h.
 *
 *     SOT_CALL_3 [ alloc x ─ use ─ last use ───] ─── … ─── free x        late by SOT_CALL_3's exit
 *
 * A block is late by the innermost anchor around its birth whose exit came after its last use and
 * before its free; one that was never used, by the innermost whose exit came before its free.
 * Blocks that may have been used unseen are not judged (patterns.h). The last recorded use need not
 * be the last real one (pointers in device memory): hints made from this must be verified before
 * they act.
 *
 * Pure apart from memory. Threads: none.
 */
#ifndef KEDGE_TOOLS_SUGGEST_LASTUSE_H
#define KEDGE_TOOLS_SUGGEST_LASTUSE_H

#include "tools/compare/compare.h"

/*
 * The innermost anchor around its birth after whose exit the block was not used any more, or never
 * used, and that exited before its free; TRACE_NONE: none. The caller checks whether all its uses
 * were seen (patterns.h).
 */
uint32_t suggest_lastuse_late_by(const struct trace *trace, const struct trace_block *block);

/* Late blocks of the window as of compare_runs (`good` is TRACE_NONE); compare_done frees them. */
void suggest_lastuse_late(
        const struct trace *trace, struct model_window window, struct compare *ret_late);

#endif
