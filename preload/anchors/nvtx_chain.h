/* SPDX-License-Identifier: MIT */
/*
 * nvtx_chain.h - another NVTX tool behind kedge, so that both get every event.
 *
 * NVTX loads one injection library. If the variable names another tool's, kedge calls that tool
 * with a table of its own for each library that emits ranges; its functions are then called after
 * ours, with the program's own arguments:
 *
 *     library's table ◄─ ours ── fills ── InitializeInjectionNvtx2 ─ a shadow table ─► the tool's
 *     nvtxRangePushA ─► push_a ─► records, then shadow[RangePushA] ─► the tool's; its result
 *
 * Events that kedge has no function for go from the shadow table straight into the library's table.
 * Handles of domains and strings and ids of ranges are the tool's; kedge keeps their names. If the
 * tool makes no handle, there is no name here either, unless the tool never gets handles: it has
 * declined, or has no functions for domains and strings. If the tool gives a second library other
 * functions than the first, that library belongs to the tool alone, with one line. Modules other
 * than CORE and CORE2, and extensions, belong to the tool alone.
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

/* In the constructor: the path of the tool's library, which need not exist. */
void nvtx_chain_set(const char *path);
bool nvtx_chain_is_set(void);

/* Whether the tool was found and has answered. */
bool nvtx_chain_is_open(void);

/* Whether the tool makes the handles of domains and strings, since it may get them back. */
bool nvtx_chain_makes_handles(void);

/*
 * A library asks for its callbacks: the tool is asked first. False: the library belongs to the tool
 * alone, which has filled the table.
 */
bool nvtx_chain_open(nvtx_get_table get_table);

/* The tool's function for an event; NULL = it has none. `module` as NVTX numbers them. */
nvtx_fn nvtx_chain_next(int module, unsigned id);

/*
 * Stores the name of a handle or the anchor of an id. Only with a tool: without one, handle and id
 * are name and anchor themselves.
 */
void nvtx_chain_name(const void *handle, const char *text);
const char *nvtx_chain_text(const void *handle);
void nvtx_chain_range(uint64_t id, uint64_t anchor);
uint64_t nvtx_chain_anchor(uint64_t id); /* and forgets it */

#endif
