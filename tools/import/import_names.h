/* SPDX-License-Identifier: MIT */
/*
 * import_names.h - the numbers of texts, stacks and threads in a capture made from another tool's
 * record.
 *
 * An object is defined in the capture at its first query, before its number is returned. Threads:
 * none. Memory: each text, frame and thread once.
 */
#ifndef KEDGE_TOOLS_IMPORT_NAMES_H
#define KEDGE_TOOLS_IMPORT_NAMES_H

#include "tools/base/keytable.h"
#include "tools/import/import.h"
#include "tracker/reader/capmake.h"

struct import_names {
    struct capmake *make;
    struct keytable texts, codes, nodes, threads;
};

/* 0 for an empty text. Texts longer than 4096 bytes are cut. */
uint32_t import_names_text(struct import_names *names, const char *text, size_t length);
uint32_t import_names_stack(
        struct import_names *names, uint32_t outer, const struct import_frame *frame);
uint32_t import_names_thread(struct import_names *names, uint64_t id);
void import_names_setting(struct import_names *names, const char *name, const char *value);
void import_names_done(struct import_names *names);

#endif
