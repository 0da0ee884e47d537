/* SPDX-License-Identifier: MIT */
#include "tools/evict/cap_sites.h"

#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/patterns/patterns.h"
#include "tools/suggest/suggest_cover.h"

/* ---- classes ---- */

/* The first begin of a step after the block's birth. */
static size_t first_begin(const struct cap_sites_job *job, const struct trace_block *block)
{
    return vec_first_above(job->begins, job->begin_count, block->born);
}

static bool lives_through(
        const struct cap_sites_job *job, const struct trace_block *block, size_t step)
{
    return step + 1 < job->begin_count && block->died > job->begins[step + 1];
}

/* Per block: whether it was used in the first whole step of its life. */
static bool *find_used(const struct cap_sites_job *job)
{
    const struct trace *trace = job->trace;
    bool *used = vec_new(trace->block_count, sizeof(*used));

    for (size_t i = 0; i < trace->use_count; i++) {
        const struct trace_use *use = &trace->uses[i];
        size_t step = first_begin(job, &trace->blocks[use->block]);

        if (lives_through(job, &trace->blocks[use->block], step) && use->at > job->begins[step]
                && use->at <= job->begins[step + 1])
            used[use->block] = true;
    }
    return used;
}

static enum cap_sites_class class_of_seen(
        const struct cap_sites_job *job, const struct trace_block *block, bool is_used)
{
    size_t step = first_begin(job, block);

    if (lives_through(job, block, step))
        return is_used ? CAP_SITES_LASTING : CAP_SITES_UNUSED;
    if (job->begin_count == 0 || block->died <= job->begins[0] || step + 1 >= job->begin_count)
        return CAP_SITES_NEUTRAL;
    return CAP_SITES_PASSING;
}

static enum cap_sites_class classify(const struct cap_sites_job *job,
        const struct trace_block *block, const struct keytable *shared, bool is_used)
{
    struct sitekey keys[SITEKEY_MAX];

    if (block->native)
        return CAP_SITES_DRIVER;
    if (block->size < job->min_size)
        return CAP_SITES_SMALL;
    if (sitekey_list(job->trace, block, keys) == 0)
        return CAP_SITES_UNPLACED;
    if (keytable_find(shared, sitekey_place(job->trace, block)))
        return CAP_SITES_SHARED;
    if (patterns_doubt_of(block) != PATTERNS_DOUBTS)
        return CAP_SITES_UNSEEN;
    return class_of_seen(job, block, is_used);
}

static void classify_all(const struct cap_sites_job *job, struct cap_sites *sites)
{
    const struct trace *trace = job->trace;
    bool *used = find_used(job);
    struct keytable shared = {0};

    for (size_t i = 0; i < trace->block_count; i++)
        if (trace->blocks[i].shared || patterns_doubt_of(&trace->blocks[i]) == PATTERNS_SHOWN)
            (void)keytable_at(&shared, sitekey_place(trace, &trace->blocks[i]), 0);
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        enum cap_sites_class what = classify(job, block, &shared, used[i]);

        sites->class_of[i] = (uint8_t)what;
        if (what >= CAP_SITES_SMALL && lives_through(job, block, first_begin(job, block)))
            trace_sum_add(&sites->left[what], block->size);
    }
    keytable_done(&shared);
    free(used);
}

bool cap_sites_may_match(
        const struct cap_sites_job *job, const struct cap_sites *sites, uint32_t block)
{
    enum cap_sites_class what = (enum cap_sites_class)sites->class_of[block];

    return what == CAP_SITES_LASTING || what == CAP_SITES_NEUTRAL || what == CAP_SITES_SMALL
            || what == CAP_SITES_DRIVER || (job->with_passing && what == CAP_SITES_PASSING);
}

static bool cap_sites_is_wanted(
        const struct cap_sites_job *job, const struct cap_sites *sites, uint32_t block)
{
    enum cap_sites_class what = (enum cap_sites_class)sites->class_of[block];

    return what == CAP_SITES_LASTING
            || (job->with_passing && what == CAP_SITES_PASSING
                    && trace_uses(job->trace, &job->trace->blocks[block]).count > 1);
}

/* ---- picks ---- */

/* A call site, with the origins of its blocks: blocks of one origin have the same call sites. */
struct site {
    struct sitekey key;
    uint32_t *origins;
    size_t count, room;
};

struct elem {
    uint64_t size;
    uint32_t block;
    bool may_match;
};

struct search {
    const struct cap_sites_job *job;
    struct cap_sites *sites;
    struct site *found;
    size_t found_count, found_room;
    struct keytable numbers; /* of call sites */
    uint32_t *first, *next;  /* per origin its first block, per block the next one; TRACE_NONE */
    size_t origin_count;
    struct elem *elems; /* of the current site */
    size_t elem_count, elem_room;
    struct cap_sites_pick *picks; /* all exact ones */
    size_t pick_count, pick_room;
    struct suggest_cover_set *sets;
    size_t set_count, set_room;
    uint32_t *items;
    size_t item_count, item_room;
};

/* Blocks that a hint could act on, by origin; the last one of each first. */
static void find_origins(struct search *s)
{
    const struct trace *trace = s->job->trace;
    struct keytable origins = {0};

    s->first = vec_new(trace->block_count, sizeof(*s->first));
    s->next = vec_new(trace->block_count, sizeof(*s->next));
    for (uint32_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];

        if (block->native || block->size < s->job->min_size)
            continue;
        uint32_t number = keytable_number(&origins, (struct key){block->stack, block->site, 0});
        s->next[i] = number < s->origin_count ? s->first[number] : TRACE_NONE;
        s->first[number] = i;
        s->origin_count = max_of(s->origin_count, (size_t)number + 1);
    }
    keytable_done(&origins);
}

static bool has_wanted(const struct search *s, size_t origin)
{
    for (uint32_t i = s->first[origin]; i != TRACE_NONE; i = s->next[i])
        if (cap_sites_is_wanted(s->job, s->sites, i))
            return true;
    return false;
}

static void add_call_site(struct search *s, const struct sitekey *key)
{
    bool is_new;

    (void)keytable_number_new(&s->numbers, sitekey_key(key), &is_new);
    if (is_new)
        VEC_PUSH(s->found, s->found_count, s->found_room) = (struct site){.key = *key};
}

/* Adds the origin to a call site of wanted blocks. */
static void add_origin(struct search *s, const struct sitekey *key, size_t origin)
{
    const uint32_t *number = keytable_find(&s->numbers, sitekey_key(key));
    struct site *site = number && s->found ? &s->found[*number] : NULL;

    if (site)
        VEC_PUSH(site->origins, site->count, site->room) = (uint32_t)origin;
}

static size_t list_keys(
        const struct search *s, size_t origin, struct sitekey ret_keys[static SITEKEY_MAX])
{
    return sitekey_list(s->job->trace, &s->job->trace->blocks[s->first[origin]], ret_keys);
}

/* The call sites of wanted blocks, then all origins with these sites. */
static void find_call_sites(struct search *s)
{
    struct sitekey keys[SITEKEY_MAX];

    for (size_t i = 0; i < s->origin_count; i++)
        for (size_t k = 0, count = has_wanted(s, i) ? list_keys(s, i, keys) : 0; k < count; k++)
            add_call_site(s, &keys[k]);
    for (size_t i = 0; i < s->origin_count; i++)
        for (size_t k = 0, count = list_keys(s, i, keys); k < count; k++)
            add_origin(s, &keys[k], i);
}

static int cap_sites_by_size(const void *a, const void *b)
{
    const struct elem *x = a;
    const struct elem *y = b;

    return vec_order(x->size, y->size, vec_order(x->block, y->block, 0));
}

/* All sizes from `first` to before `end` may match: a pick, if it contains wanted blocks. */
static void add_pick(struct search *s, const struct site *site, size_t first, size_t end)
{
    bool is_all = first == 0 && end == s->elem_count;
    struct cap_sites_pick pick = {.key = site->key,
            .size_lo = is_all ? s->job->min_size : s->elems[first].size,
            .size_hi = is_all ? UINT64_MAX : s->elems[end - 1].size,
            .stack = TRACE_NONE};
    struct suggest_cover_set set = {
            .first = (uint32_t)s->item_count, .rank = 2 * sitekey_rank(&site->key) + !is_all};
    uint32_t earliest = TRACE_NONE;

    for (size_t i = first; i < end; i++) {
        uint32_t block = s->elems[i].block;

        if (!cap_sites_is_wanted(s->job, s->sites, block))
            continue;
        VEC_PUSH(s->items, s->item_count, s->item_room) = block;
        set.count++;
        trace_sum_add(&pick.sum, s->elems[i].size);
        if (block < earliest)
            earliest = block;
    }
    if (earliest == TRACE_NONE)
        return;
    pick.stack = s->job->trace->blocks[earliest].stack;
    VEC_PUSH(s->picks, s->pick_count, s->pick_room) = pick;
    VEC_PUSH(s->sets, s->set_count, s->set_room) = set;
}

/* The end of the blocks of one size; *ret_may: all of them may match. */
static size_t end_of_size(const struct search *s, size_t first, bool *ret_may)
{
    size_t end = first;

    *ret_may = true;
    for (; end < s->elem_count && s->elems[end].size == s->elems[first].size; end++)
        *ret_may = *ret_may && s->elems[end].may_match;
    return end;
}

static void try_site(struct search *s, const struct site *site)
{
    size_t first = 0;

    s->elem_count = 0;
    for (size_t i = 0; i < site->count; i++)
        for (uint32_t b = s->first[site->origins[i]]; b != TRACE_NONE; b = s->next[b])
            VEC_PUSH(s->elems, s->elem_count, s->elem_room) = (struct elem){
                    s->job->trace->blocks[b].size, b, cap_sites_may_match(s->job, s->sites, b)};
    VEC_SORT(s->elems, s->elem_count, cap_sites_by_size);
    for (size_t at = 0; at < s->elem_count;) {
        bool may;
        size_t end = end_of_size(s, at, &may);

        if (!may) {
            if (first < at)
                add_pick(s, site, first, at);
            first = end;
        }
        at = end;
    }
    if (first < s->elem_count)
        add_pick(s, site, first, s->elem_count);
}

static int cap_sites_most_first(const void *a, const void *b)
{
    const struct cap_sites_pick *x = a;
    const struct cap_sites_pick *y = b;

    /* stacks are in the order in which they came: keys differ from build to build */
    int order = vec_order(x->stack, y->stack, vec_order(x->key.key, y->key.key, 0));

    return vec_order(y->sum.bytes, x->sum.bytes, order);
}

static void choose_picks(struct search *s)
{
    struct cap_sites *sites = s->sites;
    uint32_t *taken = vec_new(s->pick_count, sizeof(*taken));
    size_t count = suggest_cover_choose(
            s->sets, s->set_count, s->items, s->job->trace->block_count, taken);

    sites->picks = vec_new(count, sizeof(*sites->picks));
    for (size_t i = 0; i < count && s->picks; i++)
        sites->picks[sites->pick_count++] = s->picks[taken[i]];
    VEC_SORT(sites->picks, sites->pick_count, cap_sites_most_first);
    free(taken);
}

void cap_sites_find(const struct cap_sites_job *job, struct cap_sites *ret_sites)
{
    struct search s = {.job = job, .sites = ret_sites};

    *ret_sites = (struct cap_sites){.class_of = vec_new(job->trace->block_count, 1)};
    classify_all(job, ret_sites);
    find_origins(&s);
    find_call_sites(&s);
    for (size_t i = 0; i < s.found_count; i++)
        try_site(&s, &s.found[i]);
    choose_picks(&s);
    for (size_t i = 0; i < s.found_count; i++)
        free(s.found[i].origins);
    free(s.found);
    keytable_done(&s.numbers);
    free(s.first);
    free(s.next);
    free(s.elems);
    free(s.picks);
    free(s.sets);
    free(s.items);
}

void cap_sites_done(struct cap_sites *sites)
{
    free(sites->class_of);
    free(sites->picks);
    *sites = (struct cap_sites){.pick_count = 0};
}
