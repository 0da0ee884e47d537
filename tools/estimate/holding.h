/* SPDX-License-Identifier: MIT */
/*
 * holding.h - what the process that took most of a device held at its peak.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_HOLDING_H
#define KEDGE_TOOLS_HOLDING_H

#include "tools/answer/answer.h"
#include "tools/estimate/verdict.h"
#include "tools/report/report.h"

/* What it held by line of the program, and of what kind that was. */
struct holding {
    struct report report;       /* of its blocks */
    const struct report *inner; /* of its tensors, if there is a record of them, else the same */
    struct answer answer;
    bool is_open;
};

/* Without a capture of that process `is_open` is false. `top`: lines to list; 0: 10. */
void holding_open(const struct verdict *verdict, uint64_t top, struct holding *holding);
void holding_close(struct holding *holding);

#endif
