/* SPDX-License-Identifier: MIT */
#include "preload/base/bounds.h"

#include <stddef.h>

atomic_uint bounds_waiting;
static atomic_uint reached;

static const char *const lines[BOUNDS_COUNT] = {
        [BOUNDS_STREAMS] =
                "more streams at one time than kedge keeps: the driver serves requests on further "
                "ones until some are destroyed",
        [BOUNDS_NUMBERS] = "more streams in this run than reports tell apart: later ones are one "
                           "stream there and for hints",
        [BOUNDS_DEVICES] = "more devices than kedge serves: the driver serves requests there",
        [BOUNDS_SPILLED] = "the driver had to serve requests of more memory pools than kedge "
                           "keeps: their high marks may be too high",
        [BOUNDS_HOSTFN] =
                "more host functions in graphs than kedge keeps: it may make calls inside "
                "of further ones",
        [BOUNDS_RECORDS] = "kedge has no record for one more block: the driver serves requests "
                           "until some are freed",
};

void bounds_reached(enum bounds_kind kind)
{
    unsigned bit = 1u << kind;

    if (!(atomic_fetch_or(&reached, bit) & bit))
        atomic_fetch_or(&bounds_waiting, bit);
}

const char *bounds_news(void)
{
    for (unsigned kind = 0; kind < BOUNDS_COUNT; kind++)
        if (atomic_fetch_and(&bounds_waiting, ~(1u << kind)) & 1u << kind)
            return lines[kind];
    return NULL;
}
