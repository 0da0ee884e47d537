/* SPDX-License-Identifier: MIT */
#include "tools/check/pileup.h"

#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

enum {
    PILEUP_FALLS = 2, /* kept bytes that have fallen this often will fall again */
};

/* A place keeps more, or less, from the end of this row on. */
struct pileup_change {
    uint32_t place, row;
    uint64_t more; /* bytes, modulo 2^64 */
};

/* Bytes kept in the second half of the run, compared with those after the last step. */
struct pileup_course {
    uint64_t last, least;
    unsigned falls; /* times that they fell from at least that value to less */
    bool is_above;
};

/* Live bytes of a place after the second step, the last but one, and the last. */
struct pileup_place {
    uint32_t example; /* a block of it */
    struct trace_sum second, before, last;
};

struct pileup_work {
    const struct trace *trace;
    const struct stepview *view;
    uint32_t rows, half; /* finished steps; the first one of the second half */
    struct keytable numbers;
    struct pileup_change *changes;
    size_t change_count, change_room;
    struct pileup_place *places;
    size_t place_count, place_room;
};

/* The first row at whose end the event has happened; the number of rows if there is none. */
static uint32_t pileup_row_of(const struct pileup_work *w, uint32_t event)
{
    uint32_t low = 0, high = w->rows;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (w->view->rows[mid].behind > event)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Growers have the same key: stepview.c. */
static struct key pileup_key(uint32_t stack, uint64_t size)
{
    return (struct key){stack, stack ? 0 : size, 0};
}

static uint32_t pileup_place_of(struct pileup_work *w, uint32_t block)
{
    const struct trace_block *of = &w->trace->blocks[block];
    uint32_t place = keytable_number(&w->numbers, pileup_key(of->stack, of->size));

    if (place == w->place_count)
        VEC_PUSH(w->places, w->place_count, w->place_room) =
                (struct pileup_place){.example = block};
    return place;
}

/* A block that is live at the ends of the rows `from` .. `behind` - 1, at least one. */
static void pileup_add(struct pileup_work *w, uint32_t block, uint32_t from, uint32_t behind)
{
    uint32_t place = pileup_place_of(w, block);
    uint64_t size = w->trace->blocks[block].size;

    if (from <= 1 && behind > 1)
        trace_sum_add(&w->places[place].second, size);
    if (from + 2 <= w->rows && behind + 1 >= w->rows)
        trace_sum_add(&w->places[place].before, size);
    if (behind == w->rows)
        trace_sum_add(&w->places[place].last, size);
    if (behind == from + 1) /* replaced in the next step, and not kept */
        return;
    VEC_PUSH(w->changes, w->change_count, w->change_room) =
            (struct pileup_change){place, from, size};
    if (behind < w->rows)
        VEC_PUSH(w->changes, w->change_count, w->change_room) =
                (struct pileup_change){place, behind, 0 - size};
}

static void pileup_collect(struct pileup_work *w)
{
    for (uint32_t i = 0; i < w->trace->block_count; i++) {
        const struct trace_block *block = &w->trace->blocks[i];
        uint32_t from = pileup_row_of(w, block->born);
        uint32_t behind = block->died == TRACE_NEVER ? w->rows : pileup_row_of(w, block->died);

        if (behind > from)
            pileup_add(w, i, from, behind);
    }
}

static const struct vec_key pileup_by_place[] = {
        VEC_UP(struct pileup_change, place), VEC_UP(struct pileup_change, row)};

/* `kept` bytes at the ends of the rows `from` .. `behind` - 1. */
static void pileup_span(const struct pileup_work *w, struct pileup_course *course, uint64_t kept,
        uint32_t from, uint32_t behind)
{
    bool is_above = kept >= course->last;

    if (from >= behind || behind <= w->half)
        return;
    course->falls += course->is_above && !is_above;
    course->is_above = is_above;
    course->least = min_of(course->least, kept);
}

/* Bytes that rose and fell several times do not pile up, even if they are high at the end. */
static uint64_t pileup_gain(const struct pileup_course *course)
{
    return course->falls < PILEUP_FALLS ? excess_of(course->last, course->least) : 0;
}

/* One more block in the last step: it is unknown whether the next step would free it. */
static uint64_t pileup_newest(const struct pileup_place *place)
{
    bool is_more =
            place->last.count > place->before.count && place->last.count > place->second.count;

    return is_more ? max_of(excess_of(place->last.bytes, place->before.bytes), 1) : 0;
}

/* The changes from *at on that belong to the place; advances *at past them. */
static uint64_t pileup_of_place(const struct pileup_work *w, uint32_t place, size_t *at)
{
    struct pileup_course course = {.least = UINT64_MAX};
    size_t first = *at;
    uint32_t row = 0;
    uint64_t kept = 0;

    for (; *at < w->change_count && w->changes[*at].place == place; (*at)++)
        course.last += w->changes[*at].more;
    for (size_t i = first; i < *at; i++) {
        pileup_span(w, &course, kept, row, w->changes[i].row);
        row = w->changes[i].row;
        kept += w->changes[i].more;
    }
    pileup_span(w, &course, kept, row, w->rows);
    return max_of(pileup_gain(&course), pileup_newest(&w->places[place]));
}

static void pileup_places(struct pileup_work *w, struct pileup *ret)
{
    struct keytable growers = {0};

    for (size_t i = 0; i < w->view->grower_count; i++)
        (void)keytable_at(
                &growers, pileup_key(w->view->growers[i].stack, w->view->growers[i].size), 0);
    for (size_t place = 0, at = 0; place < w->place_count; place++) {
        const struct trace_block *block = &w->trace->blocks[w->places[place].example];
        struct key key = pileup_key(block->stack, block->size);
        uint64_t more = pileup_of_place(w, (uint32_t)place, &at);

        if (keytable_find(&growers, key))
            continue;
        ret->more += more;
        if (more <= ret->most)
            continue;
        ret->most = more;
        ret->stack = block->stack;
        ret->size = block->stack ? 0 : block->size;
    }
    keytable_done(&growers);
}

/*
 * Bytes that hints hold after the program's free at the end of the last step, beyond the least at
 * the end of an earlier one.
 */
static uint64_t pileup_held(const struct pileup_work *w, const struct load *load)
{
    uint64_t held = 0, least = UINT64_MAX;
    size_t next = 0;

    for (uint32_t row = 0; row < w->rows; row++) {
        for (; next < load->held_count && load->holds[next].at < w->view->rows[row].behind; next++)
            held = load->holds[next].bytes;
        if (row > 0 && held < least)
            least = held;
    }
    return held - least;
}

/* Bytes of a grower after a row, without those that live hints have released by then. */
static void pileup_released(
        const struct pileup_work *w, uint32_t row, const struct key *growers, uint64_t *io_stored)
{
    uint32_t behind = w->view->rows[row].behind;
    struct keytable numbers = {0};

    for (size_t i = 0; i < w->view->grower_count; i++)
        *keytable_at(&numbers, growers[i], 0) = (uint32_t)i;
    for (size_t i = 0; i < w->trace->block_count; i++) {
        const struct trace_block *block = &w->trace->blocks[i];
        bool is_released =
                block->mode == HINT_LIVE && block->released < behind && block->died >= behind;
        const uint32_t *number =
                is_released ? keytable_find(&numbers, pileup_key(block->stack, block->size)) : NULL;

        if (number)
            io_stored[*number] = excess_of(io_stored[*number], block->size);
    }
    keytable_done(&numbers);
}

static uint64_t pileup_stored(const struct pileup_work *w)
{
    size_t count = w->view->grower_count;
    struct key *keys = vec_new(count, sizeof(*keys));
    uint64_t *first = vec_new(count, sizeof(*first));
    uint64_t *last = vec_new(count, sizeof(*last));
    uint64_t stored = 0;

    for (size_t i = 0; i < count; i++) {
        keys[i] = pileup_key(w->view->growers[i].stack, w->view->growers[i].size);
        first[i] = w->view->growers[i].first;
        last[i] = w->view->growers[i].last;
    }
    pileup_released(w, 0, keys, first);
    pileup_released(w, w->rows - 1, keys, last);
    for (size_t i = 0; i < count; i++)
        stored += excess_of(last[i], first[i]);
    free(keys);
    free(first);
    free(last);
    return stored;
}

void pileup_find(const struct load *load, const struct stepview *view, struct pileup *ret)
{
    struct pileup_work w = {.trace = load->trace,
            .view = view,
            .rows = (uint32_t)view->grower_rows,
            .half = 1 + (uint32_t)(view->grower_rows - 1) / 2};

    *ret = (struct pileup){0};
    pileup_collect(&w);
    VEC_SORT_BY(w.changes, w.change_count, pileup_by_place);
    pileup_places(&w, ret);
    ret->held = pileup_held(&w, load);
    ret->stored = pileup_stored(&w);
    keytable_done(&w.numbers);
    free(w.changes);
    free(w.places);
}
