/* SPDX-License-Identifier: MIT */
#include "tools/check/against.h"

#include <inttypes.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"

static uint64_t against_value(const struct compare *compare, enum claim_figure figure)
{
    if (figure == CLAIM_LATE)
        return compare->late_count + compare->never_count;
    if (figure == CLAIM_EXTRA)
        return compare->extra_remaining.count;
    return excess_of(compare->remaining.bytes, compare->remaining_good.bytes);
}

/*
 * For late, percent of this run that was compared; else percent of the run that has more, in pairs.
 */
static uint64_t against_percent(const struct compare *compare, enum claim_figure figure)
{
    bool is_late = figure == CLAIM_LATE;
    uint64_t part = is_late ? compare->looked.count : compare->paired.count;
    uint64_t all = compare->all.count;

    if (!is_late && compare->all_good.count > all)
        all = compare->all_good.count;
    return all ? part * 100 / all : 0;
}

static char *against_why(const struct against *against, enum claim_figure figure)
{
    uint64_t percent = against_percent(against->compare, figure);

    if (!against->bad_ended)
        return vec_text("not known: the run was cut off before its end");
    if (!against->good_ended && figure != CLAIM_EXTRA)
        return vec_text("not known: the other run was cut off before its end");
    if (against->lacks)
        return vec_text(against->lacks);
    if (percent >= against->pairs)
        return NULL;
    return vec_format("not known: %" PRIu64 " %% of the allocations %s, at least %" PRIu64
                      " %% are needed (--pairs)",
            percent, figure == CLAIM_LATE ? "could be looked at" : "have a partner",
            against->pairs);
}

struct claim_range against_range(
        const struct against *against, enum claim_figure figure, char **ret_why)
{
    uint64_t value = against_value(against->compare, figure);

    *ret_why = against_why(against, figure);
    if (!*ret_why)
        return (struct claim_range){value, value};
    return (struct claim_range){figure == CLAIM_LATE ? value : 0, UINT64_MAX};
}
