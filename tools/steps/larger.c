/* SPDX-License-Identifier: MIT */
#include "tools/steps/larger.h"

#include <stdlib.h>

enum {
    LARGER_STEADY = 2,  /* one of so many places asks for more in the same rounds */
    LARGER_UNKNOWN = 8, /* likewise */
    LARGER_LEAST = 3,   /* places */
};

/* A round in which a place asks for other bytes than in the one before. */
struct asking {
    uint32_t round;
    bool is_more;
};

struct askings {
    struct asking *list;
    size_t count, room;
    uint32_t *place; /* of each */
    size_t place_count, place_room;
    bool *is_active; /* per place: it allocates in the last round */
};

static bool larger_is_replaced(const struct trend_figures *is)
{
    return is->trend <= TREND_UNKNOWN && !is->adds_blocks && is->rises > 1;
}

static void end_round(const struct larger_run *run, uint32_t round, uint64_t *now, uint64_t *before,
        struct askings *askings)
{
    for (size_t i = 0; i < run->places; i++) {
        if (now[i] != before[i]) {
            VEC_PUSH(askings->list, askings->count, askings->room) =
                    (struct asking){round, now[i] > before[i]};
            VEC_PUSH(askings->place, askings->place_count, askings->place_room) = (uint32_t)i;
        }
        askings->is_active[i] = now[i] > 0;
        before[i] = now[i];
        now[i] = 0;
    }
}

static struct askings find_askings(const struct larger_run *run)
{
    struct askings askings = {.is_active = vec_new(run->places, sizeof(*askings.is_active))};
    uint64_t *now = vec_new(run->places, sizeof(*now));
    uint64_t *before = vec_new(run->places, sizeof(*before));
    uint32_t event = 0;

    for (uint32_t round = 0; round < run->rounds; round++) {
        for (; event < run->behind[round]; event++) {
            const struct trace_event *at = &run->trace->events[event];

            if (trace_is_of_block(at) && at->kind == TRACE_ALLOC)
                now[run->of[at->block]] += run->trace->blocks[at->block].size;
        }
        end_round(run, round, now, before, &askings);
    }
    free(now);
    free(before);
    return askings;
}

static void askings_done(struct askings *askings)
{
    free(askings->list);
    free(askings->place);
    free(askings->is_active);
}

/* The rounds in which a place rose, from the first judged rise on. */
static size_t rises_of(const struct trend_change *changes, const struct vec_lists *by_place,
        size_t place, uint32_t since, uint32_t *rises)
{
    uint64_t before = 0;
    size_t count = 0;

    for (size_t k = by_place->first[place]; k < by_place->first[place + 1]; k++) {
        const struct trend_change *change = &changes[by_place->at[k]];

        if (change->round >= since && change->bytes > before)
            rises[count++] = change->round;
        before = change->bytes;
    }
    return count;
}

/* Whether a place asks for more in just these rounds, and never for less since the first one. */
static bool asks_in(const struct askings *askings, const struct vec_lists *by_place, size_t place,
        const uint32_t *rounds, size_t count)
{
    size_t next = 0;

    for (size_t k = by_place->first[place]; k < by_place->first[place + 1]; k++) {
        const struct asking *asking = &askings->list[by_place->at[k]];

        if (count == 0 || asking->round < rounds[0])
            continue;
        if (next == count || !asking->is_more || asking->round != rounds[next])
            return false;
        next++;
    }
    return count > 0 && next == count;
}

static enum trend larger_verdict(const struct larger_run *run, const struct askings *askings,
        const struct vec_lists *asked_by, const struct trend_figures *figures,
        const uint32_t *rises, size_t count, enum trend trend)
{
    size_t active = 0, with = 0;

    for (size_t i = 0; i < run->places; i++) {
        if (figures[i].trend != TREND_STEADY || !askings->is_active[i])
            continue;
        active++;
        with += asks_in(askings, asked_by, i, rises, count);
    }
    if (with >= LARGER_LEAST && LARGER_STEADY * with >= active)
        return TREND_STEADY;
    return with >= LARGER_LEAST && LARGER_UNKNOWN * with >= active ? TREND_UNKNOWN : trend;
}

void larger_judge(const struct larger_run *run, const struct trend_change *changes,
        const struct vec_lists *by_place, struct trend_figures *figures)
{
    size_t replaced = 0;

    for (size_t i = 0; i < run->places; i++)
        replaced += larger_is_replaced(&figures[i]);
    if (!replaced)
        return;
    struct askings askings = find_askings(run);
    struct vec_lists asked_by = vec_lists_new(askings.place, askings.count, run->places);
    uint32_t *rises = vec_new(run->rounds, sizeof(*rises));
    struct trend_figures *found = vec_new(run->places, sizeof(*found));

    for (size_t i = 0; i < run->places; i++) {
        found[i] = figures[i];
        if (!larger_is_replaced(&figures[i]))
            continue;
        size_t count = rises_of(changes, by_place, i, figures[i].since, rises);
        found[i].trend =
                larger_verdict(run, &askings, &asked_by, figures, rises, count, figures[i].trend);
        if (found[i].trend != figures[i].trend)
            found[i].why = TREND_LARGER;
    }
    for (size_t i = 0; i < run->places; i++)
        figures[i] = found[i];
    free(found);
    free(rises);
    vec_lists_done(&asked_by);
    askings_done(&askings);
}
