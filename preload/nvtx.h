/* SPDX-License-Identifier: MIT */
/*
 * nvtx.h - ranges of an unmodified program, through NVTX's public injection interface.
 *
 * A library with NVTX 3 inside looks at NVTX_INJECTION64_PATH at its first range, opens that file and calls
 * InitializeInjectionNvtx2 with a way to its table of callbacks, once per library. We put our functions into it:
 *
 *     constructor: setenv(NVTX_INJECTION64_PATH, our own file) if unset
 *     each library: InitializeInjectionNvtx2 ─► CORE (push pop start end mark) and CORE2 (domains, registered strings)
 *                                                    └─► anchor_* ─► conduct_edge
 *
 * A variable that somebody else has set (nsys) stays, with one line when CUDA starts: NVTX anchors are off then. kedge.h's
 * marks come the same way, through kedge_push, kedge_pop and kedge_mark.
 *
 * What a range call returns to the program is what it returns without a tool. Wide strings are turned into UTF-8.
 * Handles of domains and strings are interned names: valid for ever, from any library. Threads: any. No malloc.
 */
#ifndef KEDGE_PRELOAD_NVTX_H
#define KEDGE_PRELOAD_NVTX_H

#include <stdbool.h>

/* In the constructor: offers `path` to NVTX unless somebody else is there. */
void nvtx_offer(const char *path);

/* Whether somebody else's tool has NVTX. */
bool nvtx_is_foreign(void);

#endif
