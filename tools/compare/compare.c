/* SPDX-License-Identifier: MIT */
#include "tools/compare/compare.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/compare/align.h"

struct work {
    const struct compare_side *good, *bad;
    struct vec_lists good_lists, bad_lists; /* blocks by anchor instance, in the order of birth */
    uint32_t *partner;                      /* as compare.partner */
    bool *taken;                            /* bad block has a partner */
    uint64_t *good_python, *bad_python;     /* per stack; NULL: one of the runs has no Python */
    struct keytable tokens;
    struct compare *out;
};

static uint64_t *list_python(const struct trace *trace)
{
    uint64_t *python = vec_new(trace->stack_count, sizeof(*python));

    for (uint32_t i = 0; i < trace->stack_count; i++)
        python[i] = trace_python(trace, i);
    return python;
}

static bool takes_part(const struct compare_side *side, const struct trace_block *block)
{
    return block->born >= side->window.first && block->born < side->window.last;
}

static struct vec_lists list_by_anchor(const struct compare_side *side)
{
    const struct trace *trace = side->trace;
    uint32_t *anchors = vec_new(trace->block_count, sizeof(*anchors));

    for (size_t i = 0; i < trace->block_count; i++)
        anchors[i] = takes_part(side, &trace->blocks[i]) ? trace->blocks[i].anchor : TRACE_NONE;
    struct vec_lists lists = vec_lists_new(anchors, trace->block_count, trace->anchor_count);
    free(anchors);
    return lists;
}

/* Criteria by which blocks of the two runs are alike, strictest first. */
enum likeness {
    LIKE_PYTHON, /* site, size and Python stack: a framework has one site for all its layers */
    LIKE_SITE,   /* site and size: Python lines may have moved */
    LIKE_SIZE,   /* size: a rebuilt library has other sites */
};

static struct key compare_key_of(
        const uint64_t *python, const struct trace_block *block, enum likeness like)
{
    return (struct key){like == LIKE_SIZE ? 0 : block->site, block->size,
            like == LIKE_PYTHON ? python[block->stack] : 0};
}

static void pair(struct work *work, uint32_t good, uint32_t bad)
{
    work->partner[good] = bad;
    work->taken[bad] = true;
}

/* The blocks of one anchor instance that are being paired, good and bad. */
struct table {
    const uint32_t *good, *bad;
    uint32_t good_count, bad_count;
};

static void pair_in_order(struct work *work, const struct table *table, enum likeness like)
{
    uint32_t *a = vec_new(table->good_count, sizeof(*a));
    uint32_t *b = vec_new(table->bad_count, sizeof(*b));
    uint32_t *good = vec_new(table->good_count, sizeof(*good)); /* those without a partner so far */
    uint32_t *bad = vec_new(table->bad_count, sizeof(*bad));
    uint32_t *partner = vec_new(table->good_count, sizeof(*partner));
    uint32_t good_count = 0;
    uint32_t bad_count = 0;

    for (uint32_t i = 0; i < table->good_count; i++) {
        uint32_t id = table->good[i];
        if (work->partner[id] != ALIGN_NONE)
            continue;
        a[good_count] = keytable_number(&work->tokens,
                compare_key_of(work->good_python, &work->good->trace->blocks[id], like));
        good[good_count++] = id;
    }
    for (uint32_t i = 0; i < table->bad_count; i++) {
        uint32_t id = table->bad[i];
        if (work->taken[id])
            continue;
        b[bad_count] = keytable_number(&work->tokens,
                compare_key_of(work->bad_python, &work->bad->trace->blocks[id], like));
        bad[bad_count++] = id;
    }
    align_sequences(a, good_count, b, bad_count, partner);
    for (uint32_t i = 0; i < good_count; i++) {
        if (partner[i] != ALIGN_NONE)
            pair(work, good[i], bad[partner[i]]);
    }
    free(a);
    free(b);
    free(good);
    free(bad);
    free(partner);
}

/* Pairs alike blocks in order. */
static void pair_leftovers(struct work *work, const struct table *table, enum likeness like)
{
    struct keytable heads = {0}; /* key of alike blocks -> first waiting good index + 1 */
    uint32_t *next = vec_new(table->good_count, sizeof(*next));

    for (uint32_t i = table->good_count; i > 0; i--) {
        uint32_t id = table->good[i - 1];
        const struct trace_block *block = &work->good->trace->blocks[id];
        if (work->partner[id] != ALIGN_NONE)
            continue;
        uint32_t *head = keytable_at(&heads, compare_key_of(work->good_python, block, like), 0);
        next[i - 1] = *head;
        *head = i;
    }
    for (uint32_t i = 0; i < table->bad_count; i++) {
        uint32_t id = table->bad[i];
        const struct trace_block *block = &work->bad->trace->blocks[id];
        if (work->taken[id])
            continue;
        uint32_t *head = keytable_find(&heads, compare_key_of(work->bad_python, block, like));
        if (!head || *head == 0)
            continue;
        uint32_t waiting = *head - 1;
        *head = next[waiting];
        pair(work, table->good[waiting], id);
    }
    keytable_done(&heads);
    free(next);
}

/* Freed while the anchor instance that it was born in was still open. */
static bool dies_inside(const struct trace *trace, const struct trace_block *block)
{
    return block->died != TRACE_NEVER && block->died < trace->anchors[block->anchor].exit;
}

/* The instance around the bad block that corresponds to `of` around the good one; TRACE_NONE. */
static uint32_t counterpart(const struct work *work, uint32_t of, uint32_t bad_anchor)
{
    const struct trace_anchor *want = &work->good->trace->anchors[of];
    const struct trace *bad = work->bad->trace;

    for (uint32_t a = bad_anchor; a != TRACE_NONE; a = bad->anchors[a].parent) {
        if (bad->anchors[a].instance == want->instance
                && strcmp(bad->anchors[a].path, want->path) == 0)
            return a;
    }
    return TRACE_NONE;
}

/* Judges one pair: late, never freed, or in order. */
static void compare_judge(struct work *work, uint32_t good_id, uint32_t bad_id)
{
    const struct trace *good = work->good->trace;
    const struct trace *bad = work->bad->trace;
    const struct trace_block *g = &good->blocks[good_id];
    const struct trace_block *b = &bad->blocks[bad_id];
    struct compare *out = work->out;
    uint32_t a = g->anchor;

    trace_sum_add(&out->paired, b->size);
    if (b->anchor != 0)
        trace_sum_add(bad->anchors[b->anchor].exit == TRACE_NEVER ? &out->unfinished : &out->looked,
                b->size);
    if (g->died == TRACE_NEVER)
        return;
    while (a != 0 && g->died > good->anchors[a].exit)
        a = good->anchors[a].parent;
    if (a == 0) {
        if (b->died == TRACE_NEVER && work->bad->ended) {
            VEC_PUSH(out->never, out->never_count, out->never_room) =
                    (struct compare_late){good_id, bad_id, 0};
            out->never_bytes += b->size;
        }
        return;
    }
    uint32_t in_bad = counterpart(work, a, b->anchor);
    if (in_bad == TRACE_NONE || b->died < bad->anchors[in_bad].exit
            || bad->anchors[in_bad].exit == TRACE_NEVER)
        return;
    VEC_PUSH(out->late, out->late_count, out->late_room) =
            (struct compare_late){good_id, bad_id, in_bad};
    out->late_bytes += b->size;
}

/* Live at the end of what is compared. */
static bool remains(const struct compare_side *side, const struct trace_block *block)
{
    return block->died == TRACE_NEVER || block->died >= side->window.last;
}

static void judge_extra(struct work *work, uint32_t id)
{
    const struct trace_block *block = &work->bad->trace->blocks[id];
    struct compare *out = work->out;

    if (dies_inside(work->bad->trace, block)) {
        trace_sum_add(&out->freed_bad, block->size);
        return;
    }
    VEC_PUSH(out->extra, out->extra_count, out->extra_room) = id;
    out->extra_bytes += block->size;
    if (remains(work->bad, block))
        trace_sum_add(&out->extra_remaining, block->size);
}

static void judge_lone(struct work *work, const struct table *table)
{
    struct compare *out = work->out;

    for (uint32_t i = 0; i < table->good_count; i++) {
        const struct trace_block *block = &work->good->trace->blocks[table->good[i]];
        if (work->partner[table->good[i]] != ALIGN_NONE)
            continue;
        trace_sum_add(dies_inside(work->good->trace, block) ? &out->freed_good : &out->missing,
                block->size);
    }
    for (uint32_t i = 0; i < table->bad_count; i++) {
        uint32_t id = table->bad[i];
        const struct trace_block *block = &work->bad->trace->blocks[id];
        if (work->taken[id])
            continue;
        if (block->anchor != 0)
            trace_sum_add(&out->unpaired, block->size);
        judge_extra(work, id);
    }
}

static struct table table_of(const struct work *work, uint32_t good_anchor, uint32_t bad_anchor)
{
    const uint32_t *gf = work->good_lists.first;
    const uint32_t *bf = work->bad_lists.first;

    return (struct table){
            .good = work->good_lists.at + gf[good_anchor],
            .good_count = gf[good_anchor + 1] - gf[good_anchor],
            .bad = work->bad_lists.at + bf[bad_anchor],
            .bad_count = bf[bad_anchor + 1] - bf[bad_anchor],
    };
}

static void compare_anchor(struct work *work, uint32_t good_anchor, uint32_t bad_anchor)
{
    struct table table = table_of(work, good_anchor, bad_anchor);

    work->out->anchors_paired++;
    if (work->good_python) {
        pair_in_order(work, &table, LIKE_PYTHON);
        pair_leftovers(work, &table, LIKE_PYTHON);
    }
    pair_in_order(work, &table, LIKE_SITE);
    pair_leftovers(work, &table, LIKE_SITE);
    pair_leftovers(work, &table, LIKE_SIZE);
    for (uint32_t i = 0; i < table.good_count; i++) {
        if (work->partner[table.good[i]] != ALIGN_NONE)
            compare_judge(work, table.good[i], work->partner[table.good[i]]);
    }
    judge_lone(work, &table);
}

struct key compare_anchor_key(const struct trace_anchor *anchor)
{
    struct key key = keytable_text(anchor->path);

    key.c = key.c << 32 | anchor->instance;
    return key;
}

static void compare_anchors(struct work *work)
{
    const struct trace *good = work->good->trace;
    const struct trace *bad = work->bad->trace;
    struct keytable by_name = {0};

    for (size_t i = 0; i < good->anchor_count; i++)
        *keytable_at(&by_name, compare_anchor_key(&good->anchors[i]), 0) = (uint32_t)i;
    bool *met = vec_new(good->anchor_count, sizeof(*met));
    for (size_t i = 0; i < bad->anchor_count; i++) {
        const uint32_t *partner = keytable_find(&by_name, compare_anchor_key(&bad->anchors[i]));
        if (partner) {
            compare_anchor(work, *partner, (uint32_t)i);
            met[*partner] = true;
            continue;
        }
        struct table table = table_of(work, 0, (uint32_t)i);
        if (work->out->anchors_lone_bad++ == 0)
            work->out->lone_bad_anchor = (uint32_t)i;
        for (uint32_t k = 0; k < table.bad_count; k++) {
            trace_sum_add(&work->out->lone_bad, bad->blocks[table.bad[k]].size);
            judge_extra(work, table.bad[k]);
        }
    }
    for (size_t i = 0; i < good->anchor_count; i++) {
        if (met[i])
            continue;
        struct table table = table_of(work, (uint32_t)i, 0);
        if (work->out->anchors_lone_good++ == 0)
            work->out->lone_good_anchor = (uint32_t)i;
        table.bad_count = 0;
        judge_lone(work, &table);
    }
    free(met);
    keytable_done(&by_name);
}

/* Counts the compared blocks of one run, and those that remain. */
static void count_side(const struct compare_side *side, struct trace_sum *all,
        struct trace_sum *remaining, struct trace_sum *outside)
{
    for (size_t i = 0; i < side->trace->block_count; i++) {
        const struct trace_block *block = &side->trace->blocks[i];
        if (!takes_part(side, block))
            continue;
        trace_sum_add(all, block->size);
        if (remains(side, block))
            trace_sum_add(remaining, block->size);
        if (outside && block->anchor == 0)
            trace_sum_add(outside, block->size);
    }
}

bool compare_has_end(const struct compare_side *side)
{
    return side->ended || side->window.last < side->trace->event_count;
}

void compare_runs(const struct compare_side *good, const struct compare_side *bad,
        struct compare *ret_compare)
{
    struct compare out = {.lone_good_anchor = TRACE_NONE, .lone_bad_anchor = TRACE_NONE};
    struct work work = {.good = good, .bad = bad, .out = &out};

    work.good_lists = list_by_anchor(good);
    work.bad_lists = list_by_anchor(bad);
    work.partner = vec_new(good->trace->block_count, sizeof(*work.partner));
    work.taken = vec_new(bad->trace->block_count, sizeof(*work.taken));
    for (size_t i = 0; i < good->trace->block_count; i++)
        work.partner[i] = ALIGN_NONE;
    if (good->trace->pyframe_count && bad->trace->pyframe_count) {
        work.good_python = list_python(good->trace);
        work.bad_python = list_python(bad->trace);
    }
    count_side(good, &out.all_good, &out.remaining_good, NULL);
    count_side(bad, &out.all, &out.remaining, &out.outside);
    compare_anchors(&work);
    free(work.good_python);
    free(work.bad_python);
    vec_lists_done(&work.good_lists);
    vec_lists_done(&work.bad_lists);
    free(work.taken);
    keytable_done(&work.tokens);
    out.partner = work.partner;
    *ret_compare = out;
}

void compare_done(struct compare *compare)
{
    free(compare->late);
    free(compare->never);
    free(compare->extra);
    free(compare->partner);
    *compare = (struct compare){0};
}
