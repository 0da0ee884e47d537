/* SPDX-License-Identifier: MIT */
/*
 * cap_hint.h - `kedge suggest CAPTURE --cap SIZE`: prints and writes the evict hint with which the
 * program fits into SIZE.
 *
 * cap_fit.h finds it. Threads: none.
 */
#ifndef KEDGE_TOOLS_CAP_HINT_H
#define KEDGE_TOOLS_CAP_HINT_H

#include "tools/load/load.h"

#define CAP_HINT_BANDWIDTH (UINT64_C(24) << 30) /* bytes a second each way: the rate of PCIe 4.0 */

struct cap_hint_job {
    struct load *load;
    const char *output; /* NULL: no file is written */
    uint64_t size;      /* of each device */
    uint64_t min_size, bandwidth;
    bool json;
};

/* An exit code of the tool: CMD_NO if the run fits without a hint, or never. */
int cap_hint_suggest(const struct cap_hint_job *job);

#endif
