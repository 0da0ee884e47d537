/* SPDX-License-Identifier: MIT */
#include "tools/compare/explain_pairs.h"

#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/compare/align.h"

#define NO_LINE TRACE_NONE

/* Blocks of one line in both runs. */
struct explain_pairs_line {
    uint32_t good, bad; /* how many */
    bool is_uneven;     /* one of them has no partner in this line */
};

/* The blocks of one anchor instance in one run. */
struct explain_pairs_list {
    const struct explain_pairs_side *side;
    const uint32_t *at;
    uint32_t count;
    uint32_t *line; /* by number of a block of the run: the number of its line in this anchor */
};

struct explain_pairs_work {
    struct explain_pairs_list good, bad;
    struct keytable lines;           /* key -> its number */
    struct explain_pairs_line *line; /* by number */
    size_t line_count, line_room;
};

static struct vec_lists explain_pairs_lists(const struct explain_pairs_side *side)
{
    const struct trace *trace = side->trace;
    uint32_t *anchors = vec_new(trace->block_count, sizeof(*anchors));

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        bool is_in = block->born >= side->window.first && block->born < side->window.last;
        anchors[i] = is_in ? block->anchor : TRACE_NONE;
    }
    struct vec_lists lists = vec_lists_new(anchors, trace->block_count, trace->anchor_count);
    free(anchors);
    return lists;
}

static void explain_pairs_find_lines(
        struct explain_pairs_work *work, struct explain_pairs_list *list, bool by_python)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct trace_block *block = &list->side->trace->blocks[list->at[i]];
        uint64_t python = by_python ? list->side->python[block->stack] : 0;
        uint32_t number = NO_LINE;
        if (block->site)
            number = keytable_number(&work->lines, (struct key){block->site, python, 0});
        if (number == work->line_count)
            VEC_PUSH(work->line, work->line_count, work->line_room) =
                    (struct explain_pairs_line){0};
        list->line[list->at[i]] = number;
    }
}

static void explain_pairs_all_lines(struct explain_pairs_work *work, bool by_python)
{
    keytable_done(&work->lines);
    work->lines = (struct keytable){0};
    work->line_count = 0;
    explain_pairs_find_lines(work, &work->good, by_python);
    explain_pairs_find_lines(work, &work->bad, by_python);
}

static void explain_pairs_join(const struct explain_pairs_work *work, uint32_t good, uint32_t bad)
{
    work->good.side->partner[good] = bad;
    work->bad.side->partner[bad] = good;
}

/* Takes the pairs of compare.h that have equal sites, or those of which both are left: how many. */
static uint32_t explain_pairs_take(
        const struct explain_pairs_work *work, const struct compare *compare, bool left)
{
    const struct explain_pairs_side *good = work->good.side;
    const struct explain_pairs_side *bad = work->bad.side;
    uint32_t count = 0;

    for (uint32_t i = 0; i < work->good.count; i++) {
        uint32_t id = work->good.at[i];
        uint32_t partner = compare->partner[id];
        if (partner == ALIGN_NONE)
            continue;
        bool is_alike = good->trace->blocks[id].site == bad->trace->blocks[partner].site;
        bool are_left = good->partner[id] == ALIGN_NONE && bad->partner[partner] == ALIGN_NONE;
        if (!(left ? are_left : is_alike))
            continue;
        explain_pairs_join(work, id, partner);
        count++;
    }
    return count;
}

/* Counts the blocks of each line of one run, and looks for those without a partner in it. */
static void explain_pairs_count(struct explain_pairs_work *work, bool is_good)
{
    const struct explain_pairs_list *mine = is_good ? &work->good : &work->bad;
    const struct explain_pairs_list *theirs = is_good ? &work->bad : &work->good;

    for (uint32_t i = 0; i < mine->count; i++) {
        uint32_t number = mine->line[mine->at[i]];
        uint32_t partner = mine->side->partner[mine->at[i]];
        if (number == NO_LINE)
            continue;
        struct explain_pairs_line *line = &work->line[number];
        line->good += is_good;
        line->bad += !is_good;
        if (partner == ALIGN_NONE || theirs->line[partner] != number)
            line->is_uneven = true;
    }
}

/* Whether its blocks are paired by their turn alone. */
static bool explain_pairs_by_turn(const struct explain_pairs_work *work, uint32_t number)
{
    if (number == NO_LINE)
        return false;
    const struct explain_pairs_line *line = &work->line[number];
    return line->is_uneven && line->good == line->bad;
}

static void explain_pairs_part(const struct explain_pairs_work *work)
{
    uint32_t *partners = work->good.side->partner;

    for (uint32_t i = 0; i < work->good.count; i++) {
        uint32_t id = work->good.at[i];
        uint32_t partner = partners[id];
        if (partner == ALIGN_NONE
                || !(explain_pairs_by_turn(work, work->good.line[id])
                        || explain_pairs_by_turn(work, work->bad.line[partner])))
            continue;
        partners[id] = work->bad.side->partner[partner] = ALIGN_NONE;
    }
}

/* Pairs blocks without a partner in order, by line. */
static void explain_pairs_in_order(const struct explain_pairs_work *work)
{
    struct keytable waiting = {0}; /* (line, how many of it were before) -> block of good */
    uint32_t *seen = vec_new(work->line_count, sizeof(*seen));

    for (uint32_t i = 0; i < work->good.count; i++) {
        uint32_t id = work->good.at[i];
        uint32_t line = work->good.line[id];
        if (line != NO_LINE && work->good.side->partner[id] == ALIGN_NONE)
            *keytable_at(&waiting, (struct key){line, seen[line]++, 0}, 0) = id;
    }
    for (size_t i = 0; i < work->line_count; i++)
        seen[i] = 0;
    for (uint32_t i = 0; i < work->bad.count; i++) {
        uint32_t id = work->bad.at[i];
        uint32_t line = work->bad.line[id];
        if (line == NO_LINE || work->bad.side->partner[id] != ALIGN_NONE)
            continue;
        const uint32_t *good = keytable_find(&waiting, (struct key){line, seen[line]++, 0});
        if (good)
            explain_pairs_join(work, *good, id);
    }
    free(seen);
    keytable_done(&waiting);
}

static void explain_pairs_anchor(struct explain_pairs_work *work, const struct compare *compare)
{
    uint32_t paired = explain_pairs_take(work, compare, false);

    if (paired == work->good.count && paired == work->bad.count)
        return;
    explain_pairs_all_lines(work, true);
    explain_pairs_count(work, true);
    explain_pairs_count(work, false);
    explain_pairs_part(work);
    explain_pairs_in_order(work);
    explain_pairs_all_lines(work, false);
    explain_pairs_in_order(work);
    (void)explain_pairs_take(work, compare, true);
}

static struct explain_pairs_list explain_pairs_list_of(const struct explain_pairs_side *side)
{
    const struct trace *trace = side->trace;

    for (size_t i = 0; i < trace->block_count; i++)
        side->partner[i] = ALIGN_NONE;
    return (struct explain_pairs_list){
            .side = side, .line = vec_new(trace->block_count, sizeof(uint32_t))};
}

static void explain_pairs_open(
        struct explain_pairs_list *list, const struct vec_lists *lists, uint32_t anchor)
{
    list->at = lists->at + lists->first[anchor];
    list->count = lists->first[anchor + 1] - lists->first[anchor];
}

void explain_pairs(const struct explain_pairs_side *good, const struct explain_pairs_side *bad,
        const struct compare *compare)
{
    struct explain_pairs_work work = {
            .good = explain_pairs_list_of(good), .bad = explain_pairs_list_of(bad)};
    struct vec_lists good_lists = explain_pairs_lists(good);
    struct vec_lists bad_lists = explain_pairs_lists(bad);
    struct keytable by_name = {0};

    for (uint32_t i = 0; i < bad->trace->anchor_count; i++)
        *keytable_at(&by_name, compare_anchor_key(&bad->trace->anchors[i]), 0) = i;
    for (uint32_t i = 0; i < good->trace->anchor_count; i++) {
        const uint32_t *anchor =
                keytable_find(&by_name, compare_anchor_key(&good->trace->anchors[i]));
        if (!anchor)
            continue;
        explain_pairs_open(&work.good, &good_lists, i);
        explain_pairs_open(&work.bad, &bad_lists, *anchor);
        explain_pairs_anchor(&work, compare);
    }
    keytable_done(&by_name);
    keytable_done(&work.lines);
    vec_lists_done(&good_lists);
    vec_lists_done(&bad_lists);
    free(work.good.line);
    free(work.bad.line);
    free(work.line);
}
