/* SPDX-License-Identifier: MIT */
/*
 * verdict.h - whether a program fits on a device, from a run on one that is large enough.
 *
 *     trial (trial.h) ─► bytes of the fullest device ─► + context and libraries (devices.h) ─► fits?
 *                              │ only the upper end is too much, or it died of memory it may not need
 *                              └─► a second trial on a device of just that size
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_VERDICT_H
#define KEDGE_TOOLS_VERDICT_H

#include "tools/estimate/trial.h"

enum verdict_answer {
    VERDICT_FITS,
    VERDICT_CLOSE, /* it fits only since its allocator gives back what it keeps in its cache */
    VERDICT_NOT,
    VERDICT_FAILED, /* the program failed, and not for memory: nothing is known */
};

struct verdict {
    enum verdict_answer answer;
    struct trial_use use;
    uint64_t least, most; /* bytes that it needs of the device in all */
    int64_t spare;        /* of the device, above `most` */
    struct trial trial;   /* the run on a device that is large enough */
};

/*
 * Runs the program once or twice. `request->memory` is chosen here. 0, or an exit code after one
 * line on stderr. verdict_done frees *ret in both cases.
 */
int verdict_find(struct trial_request request, struct verdict *ret);
void verdict_done(struct verdict *verdict);

/* "exit status 3", "signal 11"; the caller frees it. */
char *verdict_new_end(const struct verdict *verdict);

#endif
