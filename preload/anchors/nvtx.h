/* SPDX-License-Identifier: MIT */
/*
 * nvtx.h - ranges of an unmodified program, through NVTX's public injection interface.
 *
 * A library with NVTX 3 inside reads NVTX_INJECTION64_PATH at its first range, opens that file and
 * calls InitializeInjectionNvtx2 once, with access to the library's table of callbacks. kedge puts
 * its functions into the table:
 *
 *     constructor: setenv(NVTX_INJECTION64_PATH, our own file)
 *     each library: InitializeInjectionNvtx2 ─► CORE (push pop start end mark)
 *                                                        and CORE2 (domains, strings)
 *                                                    └─► anchor_* ─► dispatch_edge
 *
 * A tool that the variable already names (nsys) is called after kedge and sees every event, too
 * (nvtx_chain.h). kedge.h's marks take the same path, through kedge_push, kedge_pop and kedge_mark.
 *
 * What a range call returns to the program is what it returns without a tool. Wide strings are
 * turned into UTF-8. Handles of domains and strings are interned names: valid for ever, from any
 * library. Threads: any. No malloc.
 */
#ifndef KEDGE_PRELOAD_NVTX_H
#define KEDGE_PRELOAD_NVTX_H

#include <stdint.h>
#include <wchar.h>

/* In the constructor: offers `path` to NVTX, and keeps the tool that the variable names. */
void nvtx_offer(const char *path);

/*
 * The same where kedge is off: removes what a parent's kedge offered, so that the tool is the only
 * one again.
 */
void nvtx_withdraw(const char *path);

/* nvtxEventAttributes_t, version 2: `size` says how much of it the caller's version has. */
struct nvtx_attributes {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

/* Number of calls of NVTX into kedge in this thread (export_nvtx.c). */
extern __thread uint64_t nvtx_calls __attribute__((tls_model("initial-exec")));

/* The text interned, valid for ever; NULL for NULL. */
const char *nvtx_kept(const char *text);
const char *nvtx_narrow(const wchar_t *wide);

/* The name of an event; an event without text is still a range that will be closed. */
const char *nvtx_name(
        const struct nvtx_attributes *attributes, const char *(*text_of_handle)(const void *));

#endif
