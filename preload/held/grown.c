/* SPDX-License-Identifier: MIT */
#include "preload/held/grown.h"

/*
 * FIRST: rounds that may fill up. PART: growth by less than 1/128 of what was live is not looked at.
 * Between what is compared at n rounds lie n / 4 of them, so a leak is seen when it has added 3 to 6 %
 * to the memory. LEAST: what libraries allocate late (a workspace, a buffer for communication) comes
 * once, and nobody looks for less.
 */
enum {
    FIRST = 4,
    SECOND = 6, /* the comparison after it; then 12, 24 ... */
    PART = 128,
    LEAST = 256 << 10,
};

bool grown_is_clear(uint64_t before, uint64_t live)
{
    uint64_t part = before / PART;

    return live > before && live - before >= (part > LEAST ? part : LEAST);
}

bool grown_round(struct grown *grown, uint64_t live)
{
    bool has_grown;

    if (grown->rounds++ == 0)
        *grown = (struct grown){.rounds = 1, .next = FIRST, .most = live, .least = UINT64_MAX};
    if (live > grown->newest)
        grown->newest = live;
    if (4 * grown->rounds > 3 * grown->next && live < grown->least)
        grown->least = live;
    if (grown->rounds < grown->next)
        return false;
    has_grown = grown->next > FIRST && grown_is_clear(grown->most, grown->least);
    grown->most = grown->newest;
    grown->least = UINT64_MAX;
    grown->next = grown->next == FIRST ? SECOND : 2 * grown->next;
    return has_grown;
}
