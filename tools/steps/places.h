/* SPDX-License-Identifier: MIT */
/*
 * places.h - what each place that allocates holds at the ends of rounds.
 *
 *     blocks ──► places_begin ──► places_follow, for each kind of rounds ──► changes, beyond
 *
 * A place is the stacks with the same Python calls, or a stack without any, or without stacks a
 * size.
 *
 * Threads: none. Memory: vec.h, 112 bytes per place, 4 per block, 28 per place and round after
 * which it holds another number of bytes. Time: the number of events for each kind of rounds.
 */
#ifndef KEDGE_TOOLS_PLACES_H
#define KEDGE_TOOLS_PLACES_H

#include "tools/steps/trend.h"
#include "tools/trace/trace.h"

struct holding {
    uint64_t bytes, blocks;
};

struct place {
    uint32_t stack;
    uint64_t size;
    struct holding now, before; /* before: at the end of the round before */
    struct holding most;        /* in this round */
    struct holding swing;       /* the most of a round beyond its beginning and its end */
    uint64_t at_last, at_end;   /* at the last allocation of all, and at the record's end */
    uint32_t requests;          /* in this round */
    uint32_t each, alike;       /* in the second round; rounds behind the first one with as many */
    bool is_touched;            /* in this round */
};

struct places {
    struct place *at;
    size_t count, room;
    uint32_t *of;      /* per block */
    uint32_t *touched; /* in this round */
    size_t touched_count, touched_room;
    uint64_t all, *ends; /* bytes of all places: now; at the end of each round */
    struct trend_change *changes;
    uint32_t *changed; /* the place of each */
    size_t change_count, change_room, changed_count, changed_room;
    uint32_t beyond; /* rounds' time that the run goes on behind the last one */
};

/* Per stack the first one of its place; the caller frees it. */
uint32_t *places_alike(const struct trace *trace);

/* The places of all blocks; `alike`: of places_alike. places_done frees *places. */
void places_begin(const struct trace *trace, const uint32_t *alike, struct places *places);
void places_done(struct places *places);

/*
 * Follows the record through the rounds, of which each ends before the event behind[i], and on to
 * `end`, an event. Sets the changes at their ends, the state of each place at `end`, and `beyond`.
 */
void places_follow(const struct trace *trace, const uint32_t *behind, uint32_t rounds, uint32_t end,
        struct places *places);

/* Whether it never held more behind the last round than at its end. */
bool places_rest(const struct place *place);

/*
 * What a place holds for good at `end`: all but the most that a round of its gave back, as the end
 * of one more round, `round`. False: no more than before.
 */
bool places_keep(const struct place *place, uint32_t round, struct trend_change *ret);

#endif
