/* SPDX-License-Identifier: MIT */
/* live_at.h - what a capture has about the live allocation at an address. */
#ifndef KEDGE_TESTS_LIVE_AT_H
#define KEDGE_TESTS_LIVE_AT_H

#include "tracker/reader/read.h"

/* NULL: there is none. */
static inline const struct read_live *live_at(const struct read_capture *capture, uint64_t addr)
{
    for (size_t i = 0; i < capture->live_count; i++)
        if (capture->live[i].addr == addr)
            return &capture->live[i];
    return NULL;
}

#endif
