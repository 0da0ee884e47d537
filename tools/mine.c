/* SPDX-License-Identifier: MIT */
#include "tools/mine.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/wildcard.h"
#include "tools/keytable.h"
#include "tools/predict.h"
#include "tools/vec.h"

/* Trying each hint alone costs two passes over the events: some seconds at most. */
#define EFFECTS_COST_MAX ((size_t)400 << 20)

void mine_fold(const char *path, enum mine_fold fold, char ret_glob[static RULE_GLOB_MAX])
{
    size_t n = 0;

    while (*path) {
        bool is_folded = fold != MINE_FOLD_NOTHING && *path >= '0' && *path <= '9';
        if (n + 2 >= RULE_GLOB_MAX) {
            ret_glob[n++] = '*';
            break;
        }
        ret_glob[n] = *path++;
        if (is_folded)
            ret_glob[n] = fold == MINE_FOLD_DIGITS ? '?' : '*';
        n++;
        while (is_folded && fold == MINE_FOLD_RUNS && *path >= '0' && *path <= '9')
            path++;
    }
    ret_glob[n] = '\0';
}

struct work {
    const struct mine_job *job;
    /* per block: the event of the exit that it is late by, TRACE_NEVER if it is not late */
    uint32_t *late_exit;
    uint32_t *late_anchor;
    bool *covered;
    bool *idle; /* a hint that does not lower the peak was left out */
    struct mine *out;
};

/* A set of blocks under consideration: all of one site that are large enough. */
struct field {
    uint32_t *blocks; /* sorted by (size, nth) */
    size_t count;
};

/* What a hint is being looked for: the anchors of the pick and of the `when`. */
struct shape {
    char inside[RULE_GLOB_MAX];
    char when[RULE_GLOB_MAX];
};

static const struct trace_block *block_at(const struct work *work, uint32_t id)
{
    return &work->job->trace->blocks[id];
}

static const char *path_of(const struct work *work, uint32_t anchor)
{
    return work->job->trace->anchors[anchor].path;
}

static bool is_inside(const struct work *work, const struct shape *shape, uint32_t id)
{
    return wildcard_match(shape->inside, path_of(work, block_at(work, id)->anchor));
}

/* The exit at which a hint of this shape would release this block, freed by then or not; TRACE_NEVER: none comes. */
static uint32_t find_exit(const struct work *work, const struct shape *shape, uint32_t id)
{
    const struct trace *trace = work->job->trace;
    const struct trace_block *block = block_at(work, id);

    if (wildcard_match(shape->when, path_of(work, block->anchor)))
        return trace->anchors[block->anchor].exit;
    for (uint32_t at = block->born + 1; at < trace->event_count; at++) {
        const struct trace_event *event = &trace->events[at];
        if (event->kind == TRACE_EXIT && wildcard_match(shape->when, path_of(work, event->anchor)))
            return at;
    }
    return TRACE_NEVER;
}

/*
 * Would a hint of this shape release this block exactly when the good run proves it dead? Or never: the last step of a run
 * that ran out of memory, or just ended, has no exit, and what it holds says nothing against a hint.
 */
static bool is_right(const struct work *work, const struct shape *shape, uint32_t id)
{
    return find_exit(work, shape, id) == work->late_exit[id];
}

static bool is_wanted(const struct work *work, const struct shape *shape, uint32_t id)
{
    return !work->covered[id] && work->late_exit[id] != TRACE_NEVER && is_inside(work, shape, id)
            && is_right(work, shape, id);
}

static void cover(struct work *work, const struct shape *shape, const struct field *field,
        const struct rule_pick *pick)
{
    struct mine_hint hint = {.rule = {.action = ACTION_RELEASE,
                                     .mode = HINT_SHADOW,
                                     .pick = *pick,
                                     .when = {.kind = EDGE_EXIT},
                                     .min_size = work->job->min_size}};
    uint32_t first = TRACE_NONE;

    memcpy(hint.rule.pick.inside, shape->inside, RULE_GLOB_MAX);
    memcpy(hint.rule.when.anchor, shape->when, RULE_GLOB_MAX);
    for (size_t i = 0; i < field->count; i++) {
        uint32_t id = field->blocks[i];
        const struct trace_block *block = block_at(work, id);
        if (!is_inside(work, shape, id) || block->size < pick->size_lo
                || block->size > pick->size_hi || block->nth < pick->nth_lo
                || block->nth > pick->nth_hi)
            continue;
        work->covered[id] = true;
        first = id < first ? id : first;
    }
    hint.stack = first == TRACE_NONE ? 0 : block_at(work, first)->stack;
    VEC_PUSH(work->out->hints, work->out->hint_count, work->out->hint_room) = hint;
}

static struct rule_pick pick_all(const struct work *work, const struct field *field)
{
    return (struct rule_pick){
            .site = {block_at(work, field->blocks[0])->site},
            .site_count = 1,
            .size_lo = work->job->min_size,
            .size_hi = UINT64_MAX,
            .nth_lo = 0,
            .nth_hi = UINT32_MAX,
            .device = -1,
    };
}

/* How blocks are told apart at one step: by their size, or by their number. */
static uint64_t part_of(const struct trace_block *block, bool by_size)
{
    return by_size ? block->size : block->nth;
}

/* A run of neighbouring sizes (or numbers) all of whose blocks are right. */
struct run {
    uint64_t lo, hi;
    bool open, wanted; /* wanted: it holds something that no hint covers yet */
};

static void close_run(struct work *work, const struct shape *shape, const struct field *field,
        const struct rule_pick *base, bool by_size, struct run *run)
{
    struct rule_pick pick = *base;

    if (run->open && run->wanted) {
        if (by_size) {
            pick.size_lo = run->lo;
            pick.size_hi = run->hi;
        } else {
            pick.nth_lo = (uint32_t)run->lo;
            pick.nth_hi = (uint32_t)run->hi;
        }
        cover(work, shape, field, &pick);
    }
    *run = (struct run){0};
}

/*
 * One hint per run of neighbouring parts that are right throughout. `field` is sorted by the part. nth must be a number that
 * is counted on: UINT32_MAX stands for "not counted" in the run and can only be matched by all.
 */
static void split(struct work *work, const struct shape *shape, const struct field *field,
        const struct rule_pick *base, bool by_size)
{
    struct run run = {0};
    size_t i = 0;

    while (i < field->count) {
        uint64_t value = part_of(block_at(work, field->blocks[i]), by_size);
        bool right = by_size || value < UINT32_MAX;
        bool wanted = false;
        bool any = false;
        for (; i < field->count && part_of(block_at(work, field->blocks[i]), by_size) == value;
                i++) {
            uint32_t id = field->blocks[i];
            if (!is_inside(work, shape, id))
                continue;
            any = true;
            right = right && is_right(work, shape, id);
            wanted = wanted || is_wanted(work, shape, id);
        }
        if (!any)
            continue;
        if (!right) {
            close_run(work, shape, field, base, by_size, &run);
            continue;
        }
        if (!run.open)
            run = (struct run){.lo = value, .open = true};
        run.hi = value;
        run.wanted = run.wanted || wanted;
    }
    close_run(work, shape, field, base, by_size, &run);
}

static bool is_all_right(
        const struct work *work, const struct shape *shape, const struct field *field)
{
    for (size_t i = 0; i < field->count; i++) {
        if (is_inside(work, shape, field->blocks[i]) && !is_right(work, shape, field->blocks[i]))
            return false;
    }
    return true;
}

static bool any_wanted(
        const struct work *work, const struct shape *shape, const struct field *field)
{
    for (size_t i = 0; i < field->count; i++) {
        if (is_wanted(work, shape, field->blocks[i]))
            return true;
    }
    return false;
}

/* Each size by itself, split by nth. The field is sorted by (size, nth). */
static void split_sizes_by_nth(
        struct work *work, const struct shape *shape, const struct field *field)
{
    size_t i = 0;

    while (i < field->count) {
        struct field same = {.blocks = field->blocks + i};
        struct rule_pick pick = pick_all(work, field);
        pick.size_lo = pick.size_hi = block_at(work, field->blocks[i])->size;
        for (; i < field->count && block_at(work, field->blocks[i])->size == pick.size_lo; i++)
            same.count++;
        if (any_wanted(work, shape, &same))
            split(work, shape, &same, &pick, false);
    }
}

/* Hints for what is late in this field and fits this shape, coarsest first. */
static void solve(struct work *work, const struct shape *shape, const struct field *field)
{
    struct rule_pick all = pick_all(work, field);

    if (is_all_right(work, shape, field)) {
        cover(work, shape, field, &all);
        return;
    }
    split(work, shape, field, &all, true);
    if (any_wanted(work, shape, field))
        split_sizes_by_nth(work, shape, field);
}

/* The shapes of the uncovered late blocks, each once; literal or folded. */
static void solve_shapes(struct work *work, const struct field *field, enum mine_fold fold)
{
    struct keytable seen = {0};

    for (size_t i = 0; i < field->count; i++) {
        uint32_t id = field->blocks[i];
        if (work->covered[id] || work->late_exit[id] == TRACE_NEVER)
            continue;
        struct shape shape;
        const char *inside = path_of(work, block_at(work, id)->anchor);
        const char *when = path_of(work, work->late_anchor[id]);
        /* A `*` in an outer anchor's name would match the inner names too, and so the inner anchor's exit. */
        bool is_outer = work->late_anchor[id] != block_at(work, id)->anchor;
        mine_fold(inside, fold, shape.inside);
        mine_fold(when, fold == MINE_FOLD_RUNS && is_outer ? MINE_FOLD_DIGITS : fold, shape.when);
        struct key key = keytable_text(shape.inside);
        key.c = keytable_text(shape.when).a;
        uint32_t *known = keytable_at(&seen, key, 0);
        if (*known)
            continue;
        *known = 1;
        if (any_wanted(work, &shape, field))
            solve(work, &shape, field);
    }
    keytable_done(&seen);
}

static int compare_blocks(const void *a, const void *b, void *blocks)
{
    uint32_t i = *(const uint32_t *)a;
    uint32_t k = *(const uint32_t *)b;
    const struct trace_block *x = (const struct trace_block *)blocks + i;
    const struct trace_block *y = (const struct trace_block *)blocks + k;

    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    if (x->nth != y->nth)
        return x->nth < y->nth ? -1 : 1;
    return (i > k) - (i < k);
}

/* All blocks that a hint could match, sorted by site, size and nth. */
static struct field list_blocks(const struct work *work)
{
    const struct trace *trace = work->job->trace;
    struct field field = {.blocks = vec_new(trace->block_count, sizeof(uint32_t))};

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        if (block->site && block->size >= work->job->min_size && !block->native)
            field.blocks[field.count++] = (uint32_t)i;
    }
    qsort_r(field.blocks, field.count, sizeof(*field.blocks), compare_blocks, trace->blocks);
    return field;
}

static void solve_sites(struct work *work, const struct field *all)
{
    size_t i = 0;

    while (i < all->count) {
        uint64_t site = block_at(work, all->blocks[i])->site;
        struct field field = {.blocks = all->blocks + i};
        for (; i < all->count && block_at(work, all->blocks[i])->site == site; i++)
            field.count++;
        solve_shapes(work, &field, MINE_FOLD_RUNS);
        solve_shapes(work, &field, MINE_FOLD_NOTHING);
    }
}

/* The sites of which a block was shared with somebody in this run. */
static void add_shared_sites(const struct trace *trace, struct keytable *sites)
{
    for (size_t i = 0; trace && i < trace->block_count; i++)
        if (trace->blocks[i].shared)
            (void)keytable_at(sites, (struct key){trace->blocks[i].site, 0, 0}, 0);
}

/*
 * Was it seen in use after the exit that it is late by? Where the uses of a block are known in part only, the last one that
 * was seen is still one.
 */
static bool is_used_after(const struct work *work, const struct compare_late *late)
{
    const struct trace *trace = work->job->trace;
    uint64_t exit_ns = trace->events[trace->anchors[late->anchor].exit].time_ns;

    return exit_ns && block_at(work, late->bad)->uses.last >= exit_ns;
}

/* The late frees that can have hints; the others are counted. */
static void sort_out_late(struct work *work)
{
    const struct mine_job *job = work->job;
    struct keytable shared = {0};

    add_shared_sites(job->trace, &shared);
    add_shared_sites(job->good, &shared);
    for (size_t i = 0; i < job->late_count; i++) {
        const struct compare_late *late = &job->late[i];
        const struct trace_block *block = block_at(work, late->bad);
        struct trace_sum *other = NULL;
        if (block->size < job->min_size)
            other = &work->out->small;
        else if (block->site == 0 || block->native)
            other = &work->out->unplaced;
        else if (keytable_find(&shared, (struct key){block->site, 0, 0}))
            other = &work->out->shared;
        else if (is_used_after(work, late))
            other = &work->out->used;
        if (other) {
            trace_sum_add(other, block->size);
            continue;
        }
        work->late_exit[late->bad] = job->trace->anchors[late->anchor].exit;
        work->late_anchor[late->bad] = late->anchor;
    }
    keytable_done(&shared);
}

struct rule *mine_rules(const struct mine *mine)
{
    struct rule *rules = vec_new(mine->hint_count, sizeof(*rules));

    for (size_t i = 0; i < mine->hint_count; i++)
        rules[i] = mine->hints[i].rule;
    return rules;
}

/* What the code that acts in the run would do with these hints. */
static int match(const struct work *work, const struct mine *mine, struct predict_match *ret)
{
    struct rule *rules = mine_rules(mine);
    int r = predict_matches(work->job->trace, rules, mine->hint_count, ret);

    free(rules);
    return r;
}

/* The first hint that the acting code would apply to something that is not late by that exit; TRACE_NONE: all are exact. */
static uint32_t find_inexact(const struct work *work, const struct predict_match *matches)
{
    for (size_t i = 0; i < work->job->trace->block_count; i++) {
        if (matches[i].rule == TRACE_NONE || matches[i].small || work->job->trace->blocks[i].native)
            continue;
        if (matches[i].at != work->late_exit[i])
            return matches[i].rule;
    }
    return TRACE_NONE;
}

/* Drops what would release what must stay. */
static int check_hints(struct work *work, struct predict_match *matches)
{
    struct mine *out = work->out;

    for (;;) {
        int r = match(work, out, matches);
        if (r < 0)
            return r;
        uint32_t wrong = find_inexact(work, matches);
        if (wrong == TRACE_NONE || !out->hints)
            return 0;
        out->hint_count--;
        memmove(&out->hints[wrong], &out->hints[wrong + 1],
                (out->hint_count - wrong) * sizeof(*out->hints));
    }
}

/* Does one of the hints act on this block, at an exit or at the end of the run? */
static bool is_hinted(const struct work *work, const struct predict_match *matches, size_t id)
{
    return matches[id].rule < work->out->hint_count && !matches[id].small
            && !work->job->trace->blocks[id].native;
}

static void count_matches(struct work *work, const struct predict_match *matches)
{
    struct mine *out = work->out;

    for (size_t i = 0; i < work->job->trace->block_count; i++) {
        uint64_t size = work->job->trace->blocks[i].size;
        if (is_hinted(work, matches, i) && matches[i].at != TRACE_NEVER) {
            struct mine_hint *hint = &out->hints[matches[i].rule];
            hint->count++;
            hint->bytes += size;
            trace_sum_add(&out->covered, size);
        } else if (work->late_exit[i] != TRACE_NEVER) {
            trace_sum_add(work->idle[i] ? &out->idle : &out->mixed, size);
        }
    }
}

static void widen(struct rule_range *range, uint64_t number)
{
    range->lo = range->hi ? min_of(range->lo, number) : number;
    range->hi = max_of(range->hi, number);
}

/*
 * What each hint matches in the instances of its anchor: all that is due at one event is one instance, as in the run. One that
 * the run did not finish says nothing.
 */
static void set_expectations(struct work *work, const struct predict_match *matches)
{
    const struct trace *trace = work->job->trace;
    struct {
        uint32_t hint;
        struct rule_seen seen;
    } *instances = NULL;
    size_t count = 0, room = 0;
    struct keytable numbers = {0};

    for (size_t i = 0; i < trace->block_count; i++) {
        if (!is_hinted(work, matches, i) || matches[i].at == TRACE_NEVER)
            continue;
        struct key key = {matches[i].rule, matches[i].at, 0};
        uint32_t number = keytable_number(&numbers, key);
        if (number == count) {
            VEC_PUSH(instances, count, room).hint = matches[i].rule;
            instances[number].seen = (struct rule_seen){0, 0};
        }
        instances[number].seen.count++;
        instances[number].seen.bytes += trace->blocks[i].size;
    }
    for (size_t i = 0; i < count; i++) {
        struct rule_expect *expect = &work->out->hints[instances[i].hint].rule.expect;
        widen(&expect->count, instances[i].seen.count);
        widen(&expect->bytes, instances[i].seen.bytes);
    }
    keytable_done(&numbers);
    free(instances);
}

/* Max of the window if only the releases of the hints with use[hint] happened; NULL: of all. */
static uint64_t max_with(
        const struct work *work, const struct predict_match *matches, const bool *use)
{
    const struct trace *trace = work->job->trace;
    uint32_t *at = vec_new(trace->block_count, sizeof(*at));

    for (size_t i = 0; i < trace->block_count; i++) {
        bool taken = matches[i].rule != TRACE_NONE && (!use || use[matches[i].rule]);
        at[i] = taken ? matches[i].at : TRACE_NEVER;
    }
    uint64_t max = model_max(trace, work->job->window, at);
    free(at);
    return max;
}

static void find_effects(struct work *work, const struct predict_match *matches)
{
    struct mine *out = work->out;
    bool *use = vec_new(out->hint_count, sizeof(*use));
    size_t tried = out->hint_count;

    if (tried * work->job->trace->event_count > EFFECTS_COST_MAX)
        tried = 0;
    out->max_before = max_with(work, matches, use);
    out->max_after = max_with(work, matches, NULL);
    for (size_t i = 0; i < out->hint_count; i++)
        use[i] = true;
    for (size_t i = 0; i < tried; i++) {
        use[i] = false;
        out->hints[i].gain = max_with(work, matches, use) - out->max_after;
        out->hints[i].effect = out->hints[i].gain ? MINE_EFFECT_PEAK : MINE_EFFECT_NONE;
        use[i] = true;
    }
    /* Two hints may each be enough: then neither is missed alone, and still each has an effect. */
    memset(use, 0, out->hint_count * sizeof(*use));
    for (size_t i = 0; i < tried; i++) {
        if (out->hints[i].effect != MINE_EFFECT_NONE)
            continue;
        use[i] = true;
        if (max_with(work, matches, use) < out->max_before)
            out->hints[i].effect = MINE_EFFECT_PEAK;
        use[i] = false;
    }
    free(use);
}

/* Leaves out the hints without an effect, if the others do as much without them. */
static int drop_idle(struct work *work, struct predict_match *matches)
{
    struct mine *out = work->out;
    struct mine all = *out;
    struct predict_match *kept = vec_new(work->job->trace->block_count, sizeof(*kept));

    out->hints = vec_new(all.hint_count, sizeof(*out->hints));
    out->hint_count = 0;
    for (size_t i = 0; i < all.hint_count; i++)
        if (all.hints[i].effect != MINE_EFFECT_NONE)
            out->hints[out->hint_count++] = all.hints[i];
    int r = match(work, out, kept);
    bool worse = r < 0 || max_with(work, kept, NULL) > all.max_after;
    free(worse ? out->hints : all.hints);
    if (worse)
        *out = all;
    for (size_t i = 0; i < work->job->trace->block_count && !worse; i++) {
        work->idle[i] = matches[i].rule != TRACE_NONE && kept[i].rule == TRACE_NONE;
        matches[i] = kept[i];
    }
    free(kept);
    if (!worse)
        find_effects(work, matches);
    return r;
}

int mine_hints(const struct mine_job *job, struct mine *ret_mine)
{
    size_t blocks = job->trace->block_count;
    struct mine out = {0};
    struct work work = {.job = job, .out = &out};
    struct predict_match *matches = vec_new(blocks, sizeof(*matches));

    work.late_exit = vec_new(blocks, sizeof(*work.late_exit));
    work.late_anchor = vec_new(blocks, sizeof(*work.late_anchor));
    work.covered = vec_new(blocks, sizeof(*work.covered));
    work.idle = vec_new(blocks, sizeof(*work.idle));
    for (size_t i = 0; i < blocks; i++)
        work.late_exit[i] = TRACE_NEVER;
    sort_out_late(&work);
    struct field all = list_blocks(&work);
    solve_sites(&work, &all);
    int r = check_hints(&work, matches);
    if (r == 0)
        find_effects(&work, matches);
    if (r == 0 && job->only_effective)
        r = drop_idle(&work, matches);
    if (r == 0) {
        count_matches(&work, matches);
        set_expectations(&work, matches);
        *ret_mine = out;
    } else {
        mine_done(&out);
    }
    free(all.blocks);
    free(work.late_exit);
    free(work.late_anchor);
    free(work.covered);
    free(work.idle);
    free(matches);
    return r;
}

void mine_done(struct mine *mine)
{
    free(mine->hints);
    *mine = (struct mine){0};
}
