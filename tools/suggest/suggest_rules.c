/* SPDX-License-Identifier: MIT */
#include "tools/suggest/suggest_rules.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/wildcard.h"
#include "tools/base/keytable.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/patterns/patterns.h"
#include "tools/replay/predict.h"
#include "tools/suggest/suggest_candidates.h"
#include "tools/suggest/suggest_cover.h"
#include "tools/suggest/suggest_lastuse.h"
#include "tools/symbols/framekind.h"
#include "tracker/hints/apicalls.h"

/* Trying each hint alone takes two passes over the events: some seconds at most. */
#define EFFECTS_COST_MAX ((size_t)400 << 20)

struct work {
    const struct suggest_rules_job *job;
    /* per block: the event of the exit that it is late by, TRACE_NEVER if it is not late */
    uint32_t *late_exit;
    uint32_t *late_anchor;
    bool *idle;                           /* a hint that does not lower the peak was left out */
    const struct suggest_growth **grower; /* per block: its grower, NULL */
    bool *refused;                        /* per grower of the job: its hint was dropped */
    struct suggest_rules *out;
};

static const struct trace_block *suggest_rules_block_at(const struct work *work, uint32_t id)
{
    return &work->job->trace->blocks[id];
}

static struct suggest_rules_hint make_hint(
        const struct work *work, const struct suggest_candidates *found, uint32_t number)
{
    const struct candidate *candidate = &found->list[number];
    const struct suggest_cover_set *set = &found->sets[number];
    uint32_t first = TRACE_NONE;
    struct suggest_rules_hint hint = {.key = candidate->key,
            .rule = {.action = ACTION_RELEASE,
                    .mode = HINT_SHADOW,
                    .pick = {.size_lo = candidate->size_lo,
                            .size_hi = candidate->size_hi,
                            .nth_lo = candidate->nth_lo,
                            .nth_hi = candidate->nth_hi,
                            .device = -1},
                    .when = {.kind = EDGE_EXIT},
                    .min_size = work->job->min_size}};

    sitekey_pick(&candidate->key, &hint.rule.pick);
    memcpy(hint.rule.pick.inside, found->globs[candidate->inside], RULE_GLOB_MAX);
    memcpy(hint.rule.when.anchor, found->globs[candidate->when], RULE_GLOB_MAX);
    for (uint32_t i = 0; i < set->count; i++)
        if (found->items[set->first + i] < first)
            first = found->items[set->first + i];
    hint.stack = suggest_rules_block_at(work, first)->stack;
    return hint;
}

/* ---- growers ---- */

/* Whether the block has a call site that a hint can pick it by. */
static bool is_placed(const struct trace *trace, const struct trace_block *block)
{
    struct sitekey keys[SITEKEY_MAX];

    return !block->native && sitekey_list(trace, block, keys) > 0;
}

static bool suggest_rules_has_key(
        const struct trace *trace, const struct trace_block *block, struct sitekey key)
{
    struct sitekey keys[SITEKEY_MAX];
    size_t count = sitekey_list(trace, block, keys);

    for (size_t i = 0; i < count; i++)
        if (keys[i].key == key.key && !keys[i].frame == !key.frame)
            return true;
    return false;
}

/* Whether the grower's blocks have this Python call site, and no others made in such anchors. */
static bool is_its_key(const struct work *work, const struct suggest_growth *grower,
        const bool *is_inside, struct sitekey key)
{
    enum {
        UNKNOWN,
        HAS_NOT,
        HAS
    };
    const struct trace *trace = work->job->trace;
    char *known = vec_new(trace->stack_count, 1); /* per stack */
    bool is_its = true;

    for (size_t i = 0; i < trace->block_count && is_its; i++) {
        const struct trace_block *block = &trace->blocks[i];
        bool is_mine = work->grower[i] == grower;
        bool may_match =
                !block->native && block->size >= work->job->min_size && is_inside[block->anchor];
        if (!is_mine && !may_match)
            continue;
        if (known[block->stack] == UNKNOWN)
            known[block->stack] = suggest_rules_has_key(trace, block, key) ? HAS : HAS_NOT;
        is_its = (known[block->stack] == HAS) == is_mine;
    }
    free(known);
    return is_its;
}

/* The most readable site of the grower alone: a function of the program, else a line; else any. */
static struct sitekey choose_key(const struct work *work, const struct suggest_growth *grower)
{
    const struct trace *trace = work->job->trace;
    struct sitekey keys[SITEKEY_MAX];
    size_t count = sitekey_list(trace, suggest_rules_block_at(work, grower->blocks[0]), keys);
    size_t chosen = count;
    bool *is_inside = vec_new(trace->anchor_count, sizeof(*is_inside));

    for (size_t i = 0; i < trace->anchor_count; i++)
        is_inside[i] = wildcard_match(grower->inside, trace->anchors[i].path);
    for (int has_line = 0; has_line < 2; has_line++)
        for (size_t i = 0; i < count && chosen == count; i++)
            if (keys[i].frame && keys[i].has_line == (has_line > 0)
                    && framekind_is_program(keys[i].frame->function, keys[i].frame->file)
                    && is_its_key(work, grower, is_inside, keys[i]))
                chosen = i;
    free(is_inside);
    return keys[chosen < count ? chosen : 0]; /* the native one, or the innermost function */
}

static struct suggest_rules_hint make_grown(
        const struct work *work, const struct suggest_growth *grower)
{
    struct suggest_rules_hint hint = {.key = choose_key(work, grower),
            .grower = grower,
            .stack = suggest_rules_block_at(work, grower->blocks[0])->stack,
            .rule = {.action = ACTION_RELEASE,
                    .mode = HINT_TRAP,
                    .pick = {.size_lo = work->job->min_size,
                            .size_hi = UINT64_MAX,
                            .nth_hi = UINT32_MAX,
                            .device = -1,
                            .use = {.call = APICALL_ncclSend}},
                    .when = {.kind = EDGE_CALL,
                            .call = APICALL_ncclRecv,
                            .count = grower->receives,
                            .from = RULE_FROM_USE},
                    .otherwise = {.kind = EDGE_EXIT},
                    .min_size = work->job->min_size}};

    sitekey_pick(&hint.key, &hint.rule.pick);
    memcpy(hint.rule.pick.inside, grower->inside, RULE_GLOB_MAX);
    memcpy(hint.rule.pick.use.inside, grower->sent, RULE_GLOB_MAX);
    memcpy(hint.rule.when.anchor, grower->received, RULE_GLOB_MAX);
    memcpy(hint.rule.otherwise.anchor, grower->closing, RULE_GLOB_MAX);
    return hint;
}

/*
 * Blocks at a site that shares blocks are counted elsewhere, as are blocks whose hint was dropped.
 * A block of several growers belongs to the first.
 */
static void mark_grown(struct work *work, const struct keytable *shared)
{
    const struct growers *growers = work->job->growers;

    for (size_t i = 0; growers && i < growers->count; i++) {
        const struct suggest_growth *grower = &growers->list[i];
        struct key place =
                sitekey_place(work->job->trace, suggest_rules_block_at(work, grower->blocks[0]));
        if (work->refused[i] || work->grower[grower->blocks[0]] || keytable_find(shared, place)
                || !is_placed(work->job->trace, suggest_rules_block_at(work, grower->blocks[0])))
            continue;
        for (size_t k = 0; k < grower->count; k++)
            work->grower[grower->blocks[k]] = grower;
    }
}

static bool is_marked(const struct work *work, const struct suggest_growth *grower)
{
    return work->grower[grower->blocks[0]] == grower;
}

static void choose_hints(struct work *work)
{
    struct suggest_candidates_job job = {.bad = work->job->trace,
            .good = work->job->good,
            .late_exit = work->late_exit,
            .late_anchor = work->late_anchor,
            .min_size = work->job->min_size,
            .looks_max = SUGGEST_CANDIDATES_LOOKS_MAX};
    struct suggest_candidates found = suggest_candidates_find(&job);
    uint32_t *taken = vec_new(found.count, sizeof(*taken));

    const struct growers *growers = work->job->growers;
    size_t count = suggest_cover_choose(
            found.sets, found.count, found.items, work->job->trace->block_count, taken);
    work->out->hints = vec_new(count + (growers ? growers->count : 0), sizeof(*work->out->hints));
    for (size_t i = 0; growers && i < growers->count; i++)
        if (is_marked(work, &growers->list[i]))
            work->out->hints[work->out->hint_count++] = make_grown(work, &growers->list[i]);
    for (size_t i = 0; i < count; i++)
        work->out->hints[work->out->hint_count++] = make_hint(work, &found, taken[i]);
    work->out->is_cut = found.is_cut;
    free(taken);
    suggest_candidates_done(&found);
}

/* The sites at which a block was shared in this run. */
static void add_shared_sites(const struct trace *trace, struct keytable *sites)
{
    for (size_t i = 0; trace && i < trace->block_count; i++)
        if (trace->blocks[i].shared)
            (void)keytable_at(sites, sitekey_place(trace, &trace->blocks[i]), 0);
}

/*
 * Whether a use was recorded after the exit that the block is late by. If its uses are partly
 * known, the last recorded one still counts.
 */
static bool is_used_after(const struct work *work, const struct compare_late *late)
{
    const struct trace *trace = work->job->trace;
    uint64_t exit_ns = trace->events[trace->anchors[late->anchor].exit].time_ns;

    return exit_ns && trace_uses(trace, suggest_rules_block_at(work, late->bad)).last >= exit_ns;
}

/*
 * The anchor at whose exit the block may be released: the one that the good run names or, if the
 * block is used after that, the next outer one after all its uses; TRACE_NONE: there is none, or
 * not all uses may have been seen.
 */
static uint32_t suggest_rules_anchor_of(const struct work *work, const struct compare_late *late)
{
    const struct trace_block *block = suggest_rules_block_at(work, late->bad);

    if (!is_used_after(work, late))
        return late->anchor;
    return patterns_doubt_of(block) == PATTERNS_DOUBTS
            ? suggest_lastuse_late_by(work->job->trace, block)
            : TRACE_NONE;
}

/* The late frees that can have hints; the others are counted. */
static void sort_out_late(struct work *work)
{
    const struct suggest_rules_job *job = work->job;
    struct keytable shared = {0};

    add_shared_sites(job->trace, &shared);
    add_shared_sites(job->good, &shared);
    mark_grown(work, &shared);
    for (size_t i = 0; i < job->late_count; i++) {
        const struct compare_late *late = &job->late[i];
        const struct trace_block *block = suggest_rules_block_at(work, late->bad);
        struct trace_sum *other = NULL;
        if (work->grower[late->bad])
            continue;
        uint32_t anchor = suggest_rules_anchor_of(work, late);
        if (block->size < job->min_size)
            other = &work->out->small;
        else if (!is_placed(job->trace, block))
            other = &work->out->unplaced;
        else if (keytable_find(&shared, sitekey_place(job->trace, block)))
            other = &work->out->shared;
        else if (anchor == TRACE_NONE)
            other = &work->out->used;
        if (other) {
            trace_sum_add(other, block->size);
            continue;
        }
        work->late_exit[late->bad] = job->trace->anchors[anchor].exit;
        work->late_anchor[late->bad] = anchor;
    }
    keytable_done(&shared);
}

struct rule *suggest_rules_rules(const struct suggest_rules *mine)
{
    struct rule *rules = vec_new(mine->hint_count, sizeof(*rules));

    for (size_t i = 0; i < mine->hint_count; i++)
        rules[i] = mine->hints[i].rule;
    return rules;
}

/* Applies these hints with the code that acts in the run. */
static int match(const struct trace *trace, const struct suggest_rules *mine,
        struct predict_match *ret_matches)
{
    struct rule *rules = suggest_rules_rules(mine);
    int r = predict_matches(trace, rules, mine->hint_count, ret_matches);

    free(rules);
    return r;
}

/* If late by that very exit; of a grower: if not due before its last use; others: if not due. */
static bool is_right(const struct work *work, size_t id, const struct predict_match *match)
{
    const struct trace *trace = work->job->trace;
    const struct suggest_growth *grower = work->out->hints[match->rule].grower;

    if (!grower)
        return match->at == work->late_exit[id];
    if (match->at == TRACE_NEVER || match->at >= trace->blocks[id].died)
        return true;
    return work->grower[id] == grower
            && trace->events[match->at].time_ns >= trace_uses(trace, &trace->blocks[id]).last;
}

/* Marks hints that the acting code applies to a block not late by that exit; true: there is one. */
static bool find_inexact(
        const struct work *work, const struct predict_match *matches, bool *io_wrong)
{
    bool any = false;

    for (size_t i = 0; i < work->job->trace->block_count; i++) {
        if (matches[i].rule == TRACE_NONE || matches[i].small || work->job->trace->blocks[i].native
                || is_right(work, i, &matches[i]))
            continue;
        io_wrong[matches[i].rule] = any = true;
    }
    return any;
}

/* Whether a block of another run must stay past this event. */
typedef bool (*stays)(const struct trace *trace, const struct trace_block *block, uint32_t at);

/* In the good run: blocks that live. */
static bool suggest_rules_is_alive(
        const struct trace *trace, const struct trace_block *block, uint32_t at)
{
    (void)trace;
    return block->died > at;
}

/* In another rank: blocks that it still uses, or may use. */
static bool suggest_rules_is_needed(
        const struct trace *trace, const struct trace_block *block, uint32_t at)
{
    return block->died > at
            && (block->shared || patterns_doubt_of(block) != PATTERNS_DOUBTS
                    || trace_uses(trace, block).last >= trace->events[at].time_ns);
}

/* The hints that the acting code would apply to a block that must stay in this run. */
static int find_wrong(const struct work *work, const struct trace *trace, stays must_stay,
        bool *io_wrong, bool *io_any)
{
    struct predict_match *matches = vec_new(trace->block_count, sizeof(*matches));
    int r = match(trace, work->out, matches);

    for (size_t i = 0; r == 0 && i < trace->block_count; i++) {
        if (matches[i].rule == TRACE_NONE || matches[i].at == TRACE_NEVER
                || !must_stay(trace, &trace->blocks[i], matches[i].at))
            continue;
        io_wrong[matches[i].rule] = *io_any = true;
    }
    free(matches);
    return r;
}

static int find_wrong_elsewhere(const struct work *work, bool *io_wrong, bool *io_any)
{
    const struct suggest_rules_job *job = work->job;
    int r = job->good ? find_wrong(work, job->good, suggest_rules_is_alive, io_wrong, io_any) : 0;

    for (size_t i = 0; r == 0 && i < job->rank_count; i++)
        if (job->ranks[i] != job->trace)
            r = find_wrong(work, job->ranks[i], suggest_rules_is_needed, io_wrong, io_any);
    return r;
}

/* Drops hints that would release a block that must stay. */
static int check_hints(struct work *work, struct predict_match *matches)
{
    struct suggest_rules *out = work->out;
    bool any = true;
    int r = 0;

    while (any && r == 0) {
        bool *wrong = vec_new(out->hint_count, sizeof(*wrong));
        size_t kept = 0;
        r = match(work->job->trace, out, matches);
        any = r == 0 && find_inexact(work, matches, wrong);
        if (r == 0)
            r = find_wrong_elsewhere(work, wrong, &any);
        for (size_t i = 0; any && i < out->hint_count; i++)
            if (!wrong[i])
                out->hints[kept++] = out->hints[i];
        if (any)
            out->hint_count = kept;
        free(wrong);
    }
    return r;
}

/* Whether one of the hints acts on this block, at an exit or at the end of the run. */
static bool is_hinted(const struct suggest_rules *out, const struct trace *trace,
        const struct predict_match *matches, size_t id)
{
    return matches[id].rule < out->hint_count && !matches[id].small && !trace->blocks[id].native;
}

static void count_matches(struct work *work, const struct predict_match *matches)
{
    struct suggest_rules *out = work->out;

    for (size_t i = 0; i < work->job->trace->block_count; i++) {
        const struct trace_block *block = &work->job->trace->blocks[i];
        uint64_t size = block->size;
        if (is_hinted(out, work->job->trace, matches, i) && matches[i].at != TRACE_NEVER) {
            struct suggest_rules_hint *hint = &out->hints[matches[i].rule];
            hint->least = hint->count ? min_of(hint->least, size) : size;
            hint->most = max_of(hint->most, size);
            hint->count++;
            hint->bytes += size;
            hint->unused += trace_uses(work->job->trace, block).count == 0
                    && patterns_doubt_of(block) == PATTERNS_DOUBTS;
            trace_sum_add(hint->grower ? &out->grown : &out->covered, size);
        } else if (work->grower[i]) { /* the run ended before the hint was due */
            trace_sum_add(&out->grown, size);
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
 * The matches of each hint per instance of its anchor: all that are due at one event are one
 * instance, as in the run. An instance that the run did not finish does not count.
 */
static void expect_matches(
        struct suggest_rules *out, const struct trace *trace, const struct predict_match *matches)
{
    struct {
        uint32_t hint;
        struct rule_seen seen;
    } *instances = NULL;
    size_t count = 0, room = 0;
    struct keytable numbers = {0};

    for (size_t i = 0; i < trace->block_count; i++) {
        if (!is_hinted(out, trace, matches, i) || matches[i].at == TRACE_NEVER)
            continue;
        /* events count the blocks held then, anchors the blocks made in them */
        if (rule_counts(&out->hints[matches[i].rule].rule) && trace->blocks[i].died < matches[i].at)
            continue;
        struct key key = {matches[i].rule, matches[i].at, 0};
        uint32_t number = keytable_number(&numbers, key);
        if (number >= count) {
            VEC_PUSH(instances, count, room).hint = matches[i].rule;
            instances[number].seen = (struct rule_seen){0, 0};
        }
        instances[number].seen.count++;
        instances[number].seen.bytes += trace->blocks[i].size;
    }
    for (size_t i = 0; i < count; i++) {
        struct rule_expect *expect = &out->hints[instances[i].hint].rule.expect;
        widen(&expect->count, instances[i].seen.count);
        widen(&expect->bytes, instances[i].seen.bytes);
    }
    keytable_done(&numbers);
    free(instances);
}

static int set_expectations(struct work *work, const struct predict_match *matches)
{
    const struct suggest_rules_job *job = work->job;
    int r = 0;

    expect_matches(work->out, job->trace, matches);
    for (size_t i = 0; r == 0 && i < job->rank_count; i++) {
        const struct trace *trace = job->ranks[i];
        if (trace == job->trace)
            continue;
        struct predict_match *found = vec_new(trace->block_count, sizeof(*found));
        r = match(trace, work->out, found);
        if (r == 0)
            expect_matches(work->out, trace, found);
        free(found);
    }
    return r;
}

/* Max of the window with only the releases of hints that have use[hint]; NULL: of all hints. */
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
    struct suggest_rules *out = work->out;
    bool *use = vec_new(out->hint_count, sizeof(*use));
    size_t tried = out->hint_count;

    if (tried * work->job->trace->event_count > EFFECTS_COST_MAX)
        tried = 0;
    out->max_before = max_with(work, matches, use);
    out->max_after = max_with(work, matches, NULL);
    for (size_t i = 0; i < out->hint_count; i++)
        use[i] = true;
    for (size_t i = 0; i < tried; i++) {
        progress_step(i, tried);
        use[i] = false;
        out->hints[i].gain = max_with(work, matches, use) - out->max_after;
        out->hints[i].effect =
                out->hints[i].gain ? SUGGEST_RULES_EFFECT_PEAK : SUGGEST_RULES_EFFECT_NONE;
        use[i] = true;
    }
    /* Two hints may each be enough: then neither is missed alone, and still each has an effect. */
    memset(use, 0, out->hint_count * sizeof(*use));
    for (size_t i = 0; i < tried; i++) {
        if (out->hints[i].effect != SUGGEST_RULES_EFFECT_NONE)
            continue;
        use[i] = true;
        if (max_with(work, matches, use) < out->max_before)
            out->hints[i].effect = SUGGEST_RULES_EFFECT_PEAK;
        use[i] = false;
    }
    free(use);
}

/*
 * Leaves out hints without an effect, if the others achieve the same without them and match nothing
 * more: the first hint that matches a block takes it, so a block of an omitted hint may fall to a
 * later one, in this run or in another.
 */
static int drop_idle(struct work *work, struct predict_match *matches)
{
    struct suggest_rules *out = work->out;
    struct suggest_rules all = *out;
    struct predict_match *kept = vec_new(work->job->trace->block_count, sizeof(*kept));

    out->hints = vec_new(all.hint_count, sizeof(*out->hints));
    out->hint_count = 0;
    for (size_t i = 0; i < all.hint_count; i++)
        if (all.hints[i].effect != SUGGEST_RULES_EFFECT_NONE)
            out->hints[out->hint_count++] = all.hints[i];
    bool *wrong = vec_new(all.hint_count, sizeof(*wrong));
    int r = match(work->job->trace, out, kept);
    bool worse =
            r < 0 || max_with(work, kept, NULL) > all.max_after || find_inexact(work, kept, wrong);
    if (!worse)
        r = find_wrong_elsewhere(work, wrong, &worse);
    worse = worse || r < 0;
    free(wrong);
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

static void begin_anew(struct work *work)
{
    size_t blocks = work->job->trace->block_count;

    suggest_rules_done(work->out);
    memset(work->idle, 0, blocks * sizeof(*work->idle));
    for (size_t i = 0; i < blocks; i++) {
        work->late_exit[i] = TRACE_NEVER;
        work->grower[i] = NULL;
    }
}

/* The hints that hold and, if the job asks for that, only those that lower the peak. */
static int find_hints(struct work *work, struct predict_match *matches)
{
    begin_anew(work);
    sort_out_late(work);
    choose_hints(work);
    int r = check_hints(work, matches);
    if (r == 0)
        find_effects(work, matches);
    if (r == 0 && work->job->only_effective)
        r = drop_idle(work, matches);
    return r;
}

/* Whether a grower's hint was dropped; then its blocks count as other late frees. */
static bool refuse_dropped(struct work *work)
{
    const struct growers *growers = work->job->growers;
    bool any = false;

    for (size_t i = 0; growers && i < growers->count; i++) {
        bool is_dropped = is_marked(work, &growers->list[i]);
        for (size_t k = 0; k < work->out->hint_count; k++)
            is_dropped = is_dropped && work->out->hints[k].grower != &growers->list[i];
        work->refused[i] |= is_dropped;
        any |= is_dropped;
    }
    return any;
}

int suggest_rules_hints(const struct suggest_rules_job *job, struct suggest_rules *ret_mine)
{
    size_t blocks = job->trace->block_count;
    struct suggest_rules out = {0};
    struct work work = {.job = job, .out = &out};
    struct predict_match *matches = vec_new(blocks, sizeof(*matches));
    int r;

    work.late_exit = vec_new(blocks, sizeof(*work.late_exit));
    work.late_anchor = vec_new(blocks, sizeof(*work.late_anchor));
    work.idle = vec_new(blocks, sizeof(*work.idle));
    work.grower = vec_new(blocks, sizeof(const struct suggest_growth *));
    work.refused = vec_new(job->growers ? job->growers->count : 0, sizeof(*work.refused));
    do {
        r = find_hints(&work, matches);
    } while (r == 0 && refuse_dropped(&work));
    if (r == 0) {
        count_matches(&work, matches);
        r = set_expectations(&work, matches);
    }
    if (r == 0)
        *ret_mine = out;
    else
        suggest_rules_done(&out);
    free(work.late_exit);
    free(work.late_anchor);
    free(work.idle);
    free((void *)work.grower);
    free(work.refused);
    free(matches);
    return r;
}

void suggest_rules_done(struct suggest_rules *mine)
{
    free(mine->hints);
    *mine = (struct suggest_rules){0};
}
