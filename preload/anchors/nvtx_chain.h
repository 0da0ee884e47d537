/* SPDX-License-Identifier: MIT */
/*
 * nvtx_chain.h - another NVTX tool behind kedge, so that both get every event.
 *
 * NVTX has room for one injection library. If the variable names another tool's, that tool is called by us, with a table of its
 * own for each library that emits ranges; its functions are then called behind ours, with the program's own arguments:
 *
 *     library's table ◄─ ours ──── fills ──── InitializeInjectionNvtx2 ── a shadow table ─► the tool's
 *     nvtxRangePushA ─► push_a ─► story, then shadow[RangePushA] ─► the tool; its result is the program's
 *
 * Events that kedge has no function for go from the shadow table straight into the library's table. Handles of domains and
 * strings and ids of ranges are the tool's; kedge keeps the names behind them. A handle that the tool does not make has no
 * name here either, unless the tool is never given one: it has declined, or has functions, but none for domains and strings. If the tool gives a second library other functions than the first, that library belongs to the tool
 * alone, with one line. Modules other than CORE and CORE2, and extensions, belong to the tool alone.
 *
 * Threads: any. One short lock per look-up of a handle, only where there is a tool. Memory: meta.h.
 */
#ifndef KEDGE_PRELOAD_NVTX_CHAIN_H
#define KEDGE_PRELOAD_NVTX_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NVTX_ETID_CALLBACKS = 1,
    NVTX_MODULE_CORE = 1,
    NVTX_MODULE_CORE2 = 5,
    NVTX_SLOTS = 24, /* more than any module has */
};

typedef void (*nvtx_fn)(void);
typedef const void *(*nvtx_get_table)(uint32_t id);

struct nvtx_callbacks {
    size_t size;
    int (*module_table)(int module, nvtx_fn ***ret_table, unsigned *ret_size);
};

/* In the constructor: the tool's library; it need not be there. */
void nvtx_chain_set(const char *path);
bool nvtx_chain_is_set(void);

/* The tool was there, and has answered. */
bool nvtx_chain_is_open(void);

/* The handles of domains and strings are those that the tool makes, since it may be given them. */
bool nvtx_chain_makes_handles(void);

/* A library asks to be filled: the tool is asked first. False: the library is the tool's alone, it has filled it. */
bool nvtx_chain_open(nvtx_get_table get_table);

/* The tool's function for an event; NULL = it has none. `module` as NVTX counts them. */
nvtx_fn nvtx_chain_next(int module, unsigned id);

/* What a handle or an id stands for. Only where there is a tool: without one they are what they stand for. */
void nvtx_chain_name(const void *handle, const char *text);
const char *nvtx_chain_text(const void *handle);
void nvtx_chain_range(uint64_t id, uint64_t anchor);
uint64_t nvtx_chain_anchor(uint64_t id); /* and forgets it */

#endif
