/* SPDX-License-Identifier: MIT */
#include "alloc/hints/hint.h"

#include "alloc/base/meta.h"
#include "alloc/base/wildcard.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* The parts of a pick that a rule states exactly, so that they can be hashed. A shape is a set of
 * these. */
enum hint_part {
    PART_SITE = 1 << 0,
    PART_SIZE = 1 << 1,
    PART_NTH = 1 << 2,
    PART_PATH = 1 << 3,
    PART_PYSITE = 1 << 4, /* never with PART_SITE: sites of both kinds make entries of two shapes */
    SHAPE_NAMED = 1 << 5, /* not part of a shape: marks Python call sites that rules name */
    SHAPE_SIZED = 1 << 6, /* not part of a shape: marks sizes that rules state exactly */
};

/* As bits of hints.shapes: PART_PYSITE is the highest part. */
#define SHAPES_WITHOUT_PYSITE ((1u << PART_PYSITE) - 1)

struct entry {
    uint64_t hash;
    uint32_t rule;
    uint32_t next; /* in its bucket, ascending by rule; 0 = none */
};

struct hints {
    const struct rule *rules;
    size_t count;
    uint32_t shapes; /* bit per shape in use */
    /* bit per power of two: a rule without an exact size matches a size between it and the next
     * one */
    uint64_t ranges;
    uint32_t mask; /* buckets - 1 */
    uint32_t *buckets;
    struct entry *entries; /* [0] is unused */
    uint32_t entry_count;
    uint32_t entry_room;
    /* written by any thread: results of the run, which only ever restrict rules */
    _Atomic(unsigned char) *learnt; /* per rule: enum hint_learnt */
    _Atomic(uint64_t) *tried;       /* per rule: blocks counted by hint_canary */
    atomic_bool live_refused;
};

static uint64_t hint_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
    return hash ^ hash >> 32;
}

#define PATH_HASH UINT64_C(0xcbf29ce484222325)

static uint64_t hash_byte(uint64_t hash, char byte)
{
    return (hash ^ (unsigned char)byte) * UINT64_C(0x100000001b3);
}

static uint64_t hash_path(const char *path)
{
    uint64_t hash = PATH_HASH;

    for (; *path; path++)
        hash = hash_byte(hash, *path);
    return hash;
}

/* Hash of the one path that a literal glob matches. */
static uint64_t hash_literal(const char *glob)
{
    uint64_t hash = PATH_HASH;
    bool is_plain;
    char byte;

    while ((byte = wildcard_next(&glob, &is_plain)) != '\0')
        hash = hash_byte(hash, byte);
    return hash;
}

static bool is_python(const struct rule_pick *pick, uint32_t site)
{
    return pick->python >> site & 1;
}

/* The shape without sites. */
static uint32_t shape_of(const struct rule *rule)
{
    const struct rule_pick *pick = &rule->pick;
    uint32_t shape = 0;

    if (pick->size_lo == pick->size_hi)
        shape |= PART_SIZE;
    if (pick->nth_lo == pick->nth_hi)
        shape |= PART_NTH;
    if (pick->inside[0] != '\0' && wildcard_is_literal(pick->inside))
        shape |= PART_PATH;
    return shape;
}

/* Hash of all parts of a shape except the site, which comes last: a stack may have many. */
static uint64_t hint_hash_of(uint32_t shape, uint64_t size, uint32_t nth, uint64_t path)
{
    uint64_t hash = hint_mix(UINT64_C(0x9e3779b97f4a7c15), shape);

    if (shape & PART_SIZE)
        hash = hint_mix(hash, size);
    if (shape & PART_NTH)
        hash = hint_mix(hash, nth);
    if (shape & PART_PATH)
        hash = hint_mix(hash, path);
    return hash;
}

static bool is_ended(const struct rule_when *when)
{
    return strnlen(when->anchor, sizeof(when->anchor)) < sizeof(when->anchor);
}

static bool hint_is_whole(const struct rule *rule)
{
    return strnlen(rule->id, sizeof(rule->id)) < sizeof(rule->id)
            && strnlen(rule->pick.inside, sizeof(rule->pick.inside)) < sizeof(rule->pick.inside)
            && strnlen(rule->pick.rank, sizeof(rule->pick.rank)) < sizeof(rule->pick.rank)
            && is_ended(&rule->when) && is_ended(&rule->otherwise)
            && strnlen(rule->pick.use.inside, RULE_GLOB_MAX) < RULE_GLOB_MAX
            && rule->pick.site_count <= RULE_SITES_MAX;
}

static bool can_match(const struct rule *rule)
{
    return rule->action != ACTION_NONE && rule->action != ACTION_RESTORE && rule->mode != HINT_OFF;
}

static void hint_add_entry(struct hints *hints, uint32_t index, uint32_t shape, uint64_t site)
{
    const struct rule *rule = &hints->rules[index];
    struct entry *entry = &hints->entries[++hints->entry_count];
    uint64_t path = shape & PART_PATH ? hash_literal(rule->pick.inside) : 0;
    uint32_t *bucket;

    entry->hash = hint_mix(hint_hash_of(shape, rule->pick.size_lo, rule->pick.nth_lo, path), site);
    entry->rule = index;
    bucket = &hints->buckets[entry->hash & hints->mask];
    entry->next = *bucket;
    *bucket = hints->entry_count;
}

/* The size 0 counts as 1. */
static unsigned power_of(uint64_t size)
{
    return 63 - (unsigned)__builtin_clzll(size | 1);
}

static void add_size(struct hints *hints, uint32_t index)
{
    const struct rule_pick *pick = &hints->rules[index].pick;

    if (pick->size_lo == pick->size_hi)
        hint_add_entry(hints, index, SHAPE_SIZED, pick->size_lo);
    else if (pick->size_lo < pick->size_hi)
        hints->ranges |= UINT64_MAX << power_of(pick->size_lo)
                & UINT64_MAX >> (63 - power_of(pick->size_hi));
}

static void add_rule(struct hints *hints, uint32_t index)
{
    const struct rule_pick *pick = &hints->rules[index].pick;
    uint32_t rest = shape_of(&hints->rules[index]);

    add_size(hints, index);
    if (pick->site_count == 0) {
        hints->shapes |= 1u << rest;
        hint_add_entry(hints, index, rest, 0);
    }
    for (uint32_t i = 0; i < pick->site_count; i++) {
        uint32_t shape = rest | (is_python(pick, i) ? PART_PYSITE : PART_SITE);

        hints->shapes |= 1u << shape;
        hint_add_entry(hints, index, shape, pick->site[i]);
        if (is_python(pick, i))
            hint_add_entry(hints, index, SHAPE_NAMED, pick->site[i]);
    }
}

/* Backwards, so that each bucket begins with the first rule of the file. */
static void add_all(struct hints *hints)
{
    for (size_t i = hints->count; i-- > 0;) {
        if (can_match(&hints->rules[i]))
            add_rule(hints, (uint32_t)i);
    }
}

int hint_new(const struct rule *rules, size_t n, struct hints **ret_hints)
{
    struct hints *hints;
    uint32_t buckets = 16;
    uint32_t entries = 1;

    if (n > INT32_MAX / (RULE_SITES_MAX * 4))
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        if (!hint_is_whole(&rules[i]))
            return -EINVAL;
        entries += 1 + (rules[i].pick.site_count ? 2 * rules[i].pick.site_count : 1);
    }
    while (buckets < entries * 2)
        buckets *= 2;
    hints = meta_get(sizeof(*hints));
    if (!hints)
        return -ENOMEM;
    hints->rules = rules;
    hints->count = n;
    hints->mask = buckets - 1;
    hints->entry_room = entries;
    hints->buckets = meta_get(buckets * sizeof(*hints->buckets));
    hints->entries = meta_get(entries * sizeof(*hints->entries));
    hints->learnt = meta_get(n + 1);
    hints->tried = meta_get((n + 1) * sizeof(*hints->tried));
    if (!hints->buckets || !hints->entries || !hints->learnt || !hints->tried) {
        hint_free(hints);
        return -ENOMEM;
    }
    add_all(hints);
    *ret_hints = hints;
    return 0;
}

void hint_free(struct hints *hints)
{
    if (!hints)
        return;
    if (hints->buckets)
        meta_put(hints->buckets, (hints->mask + (size_t)1) * sizeof(*hints->buckets));
    if (hints->entries)
        meta_put(hints->entries, hints->entry_room * sizeof(*hints->entries));
    if (hints->learnt)
        meta_put(hints->learnt, hints->count + 1);
    if (hints->tried)
        meta_put(hints->tried, (hints->count + 1) * sizeof(*hints->tried));
    meta_put(hints, sizeof(*hints));
}

bool hint_is_for(const struct rule *rule, const char *rank)
{
    return rule->pick.rank[0] == '\0' || wildcard_match(rule->pick.rank, rank);
}

size_t hint_count(const struct hints *hints)
{
    return hints->count;
}

const struct rule *hint_rule(const struct hints *hints, int rule)
{
    return rule >= 0 && (size_t)rule < hints->count ? &hints->rules[rule] : NULL;
}

static bool has_site(const struct rule_pick *pick, uint64_t site, bool of_python)
{
    for (uint32_t i = 0; i < pick->site_count; i++) {
        if (pick->site[i] == site && is_python(pick, i) == of_python)
            return true;
    }
    return pick->site_count == 0;
}

/* Compares numbers first: globs only if all of them match. `site`: the site of the probe. */
static bool hint_matches(
        const struct rule_pick *pick, const struct tag *tag, uint64_t site, bool of_python)
{
    return tag->size >= pick->size_lo && tag->size <= pick->size_hi && tag->nth >= pick->nth_lo
            && tag->nth <= pick->nth_hi && has_site(pick, site, of_python)
            && (pick->device < 0 || pick->device == tag->device)
            && (pick->stream == 0 || pick->stream == tag->stream)
            && (pick->thread == RULE_THREAD_ANY || tag->is_main)
            && (pick->inside[0] == '\0' || wildcard_match(pick->inside, tag->path));
}

/* For an existing rule. */
static enum hint_learnt learnt_of(const struct hints *hints, uint32_t rule)
{
    return (enum hint_learnt)atomic_load_explicit(&hints->learnt[rule], memory_order_relaxed);
}

static bool is_off(const struct hints *hints, uint32_t rule)
{
    return learnt_of(hints, rule) == HINT_LEARNT_OFF;
}

enum hint_learnt hint_learnt(const struct hints *hints, int rule)
{
    return hint_rule(hints, rule) ? learnt_of(hints, (uint32_t)rule) : HINT_LEARNT_OFF;
}

bool hint_learn(struct hints *hints, int rule, enum hint_learnt what)
{
    unsigned char was = (unsigned char)hint_learnt(hints, rule);

    while (was < what)
        if (atomic_compare_exchange_weak(&hints->learnt[rule], &was, (unsigned char)what))
            return true;
    return false;
}

bool hint_refuse_live(struct hints *hints)
{
    return !atomic_exchange(&hints->live_refused, true);
}

/* The mode that a rule of this mode may have now. Findings against a release do not restrict a
 * hold, which protects. */
static enum hint_mode mode_now(const struct hints *hints, uint32_t rule, enum hint_mode mode)
{
    bool is_held_back;

    if (hints->rules[rule].action == ACTION_HOLD)
        return mode;
    is_held_back = learnt_of(hints, rule) != HINT_LEARNT_NOTHING
            || (mode == HINT_LIVE
                    && atomic_load_explicit(&hints->live_refused, memory_order_relaxed));

    return is_held_back && mode != HINT_OFF ? HINT_SHADOW : mode;
}

bool hint_may(const struct hints *hints, int rule, enum hint_mode mode)
{
    return hint_rule(hints, rule) && !is_off(hints, (uint32_t)rule)
            && mode_now(hints, (uint32_t)rule, mode) == mode;
}

/* The first rule with this hash that matches, from this entry of a bucket on; `best` if none comes
 * before it. */
__attribute__((noinline)) static uint32_t hint_judge(const struct hints *hints, uint32_t at,
        uint64_t site, bool of_python, const struct tag *tag, uint32_t best)
{
    uint64_t hash = hints->entries[at].hash;

    for (; at; at = hints->entries[at].next) {
        const struct entry *entry = &hints->entries[at];

        if (entry->rule >= best)
            return best;
        if (entry->hash == hash && !is_off(hints, entry->rule)
                && hint_matches(&hints->rules[entry->rule].pick, tag, site, of_python))
            return entry->rule;
    }
    return best;
}

/* The first entry of a bucket with this hash, 0 = none, as for nearly all requests. */
static inline uint32_t hint_find(const struct hints *hints, uint64_t hash)
{
    uint32_t at = hints->buckets[hash & hints->mask];

    while (at && hints->entries[at].hash != hash)
        at = hints->entries[at].next;
    return at;
}

static inline uint32_t probe(const struct hints *hints, uint64_t hash, uint64_t site,
        bool of_python, const struct tag *tag, uint32_t best)
{
    uint32_t at = hint_find(hints, hint_mix(hash, site));

    return at ? hint_judge(hints, at, site, of_python, tag, best) : best;
}

bool hint_has_pysites(const struct hints *hints)
{
    return (hints->shapes & ~SHAPES_WITHOUT_PYSITE) != 0;
}

/* Does a rule name this key? */
static bool hint_is_named(const struct hints *hints, uint64_t key)
{
    uint32_t at = hint_find(hints, hint_mix(hint_hash_of(SHAPE_NAMED, 0, 0, 0), key));

    return at && has_site(&hints->rules[hints->entries[at].rule].pick, key, true);
}

const struct pysite *hint_pysite(
        const struct hints *hints, const struct pysite *outer, uint64_t key, struct pysite *room)
{
    if (!hint_is_named(hints, key))
        return outer;
    for (const struct pysite *at = outer; at; at = at->outer) {
        if (at->key == key)
            return outer; /* a recursive function */
    }
    *room = (struct pysite){key, outer};
    return room;
}

bool hint_has_size(const struct hints *hints, uint64_t size)
{
    return hints->ranges >> power_of(size) & 1
            || hint_find(hints, hint_mix(hint_hash_of(SHAPE_SIZED, 0, 0, 0), size)) != 0;
}

/* The instance whose edge counts, 0 = the first that matches. */
static uint32_t instance_of(const struct rule_when *when, const struct tag *tag)
{
    return tag->anchor && when->count == 0 && when->kind == EDGE_EXIT
                    && wildcard_match(when->anchor, tag->path)
            ? tag->anchor
            : 0;
}

void hint_plan(const struct hints *hints, const struct tag *tag, struct plan *ret_plan)
{
    uint32_t shapes = tag->pysites ? hints->shapes : hints->shapes & SHAPES_WITHOUT_PYSITE;
    uint32_t best = UINT32_MAX;
    uint64_t path = 0;
    uint64_t hash;
    bool hashed = false;
    const struct rule *rule;

    *ret_plan = (struct plan){.rule = -1};
    for (; shapes; shapes &= shapes - 1) {
        uint32_t shape = (uint32_t)__builtin_ctz(shapes);

        if (shape & PART_PATH && !hashed) {
            path = hash_path(tag->path);
            hashed = true;
        }
        hash = hint_hash_of(shape, tag->size, tag->nth, path);
        if (!(shape & PART_PYSITE))
            best = probe(hints, hash, shape & PART_SITE ? tag->site : 0, false, tag, best);
        else
            for (const struct pysite *at = tag->pysites; at; at = at->outer)
                best = probe(hints, hash, at->key, true, tag, best);
    }
    if (best == UINT32_MAX)
        return;
    rule = &hints->rules[best];
    ret_plan->rule = (int)best;
    ret_plan->action = rule->action;
    ret_plan->mode = mode_now(hints, best, rule->mode);
    if (!rule_waits(rule))
        return;
    if (rule->action == ACTION_HOLD)
        return; /* its edge comes after the free, in any instance */
    ret_plan->small = tag->size < rule->min_size;
    if (rule->action == ACTION_EVICT)
        return; /* a step begins at the edge of any instance */
    ret_plan->unused = rule->pick.use.call > 0;
    ret_plan->shares = rule->backend == RULE_ALIAS;
    ret_plan->due_anchor = instance_of(&rule->when, tag);
    ret_plan->else_anchor = instance_of(&rule->otherwise, tag);
}

bool hint_edge_matches(const struct rule_when *when, const struct edge *edge)
{
    if (when->kind != edge->kind || !rule_is_set(when))
        return false;
    switch (when->kind) {
    case EDGE_CALL:
        return when->call == edge->call
                && (when->anchor[0] == '\0' || wildcard_match(when->anchor, edge->path));
    case EDGE_LAUNCH:
        return wildcard_match(when->anchor, edge->name);
    case EDGE_FREE:
        return when->rule == edge->rule;
    default:
        return wildcard_match(when->anchor, edge->path);
    }
}

uint64_t hint_edges_before(const struct rule_when *when, const struct edge *edge)
{
    return when->kind < EDGE_KIND_COUNT && wildcard_is_literal(when->anchor) ? edge->instance : 0;
}

/* ---- how long a block waits ---- */

/* The count at which a block is due that begins to wait now, or at `edge`, which is not yet
 * counted. */
static uint64_t hint_due_at(const struct rule_when *when, uint64_t now, const struct edge *edge)
{
    return now + when->count + (edge && hint_edge_matches(when, edge));
}

void hint_wait_begin(const struct rule *rule, const struct plan *plan,
        const struct hint_counts *now, struct hint_wait *ret_wait)
{
    const struct rule_when *when = &rule->when;
    const struct rule_when *otherwise = &rule->otherwise;

    *ret_wait = (struct hint_wait){
            .when_anchor = plan->due_anchor,
            .else_anchor = plan->else_anchor,
            .at = {UINT64_MAX, UINT64_MAX},
            .unused = rule->pick.use.call > 0,
    };
    if (when->from == RULE_FROM_ALLOC)
        ret_wait->at.when = hint_due_at(when, now->when, NULL);
    if (otherwise->from == RULE_FROM_ALLOC)
        ret_wait->at.otherwise = hint_due_at(otherwise, now->otherwise, NULL);
}

bool hint_wait_use(const struct rule *rule, const struct edge *call, uint32_t arg,
        const struct hint_counts *now, struct hint_wait *io_wait)
{
    const struct rule_use *use = &rule->pick.use;

    if (use->call == 0 || use->call != call->call || use->arg != arg
            || (use->inside[0] != '\0' && !wildcard_match(use->inside, call->path)))
        return false;
    io_wait->unused = false;
    if (rule->when.from == RULE_FROM_USE)
        io_wait->at.when = hint_due_at(&rule->when, now->when, call);
    if (rule->otherwise.from == RULE_FROM_USE)
        io_wait->at.otherwise = hint_due_at(&rule->otherwise, now->otherwise, call);
    return true;
}

bool hint_wait_free(
        const struct rule *rule, const struct hint_counts *now, struct hint_wait *io_wait)
{
    if (rule->action != ACTION_HOLD || io_wait->unused)
        return false;
    io_wait->at.when = hint_due_at(&rule->when, now->when, NULL);
    io_wait->at.otherwise = hint_due_at(&rule->otherwise, now->otherwise, NULL);
    return true;
}

bool hint_count_edge(
        const struct rule *rule, const struct edge *edge, struct hint_counts *io_counts)
{
    bool is_when = hint_edge_matches(&rule->when, edge);
    bool is_else = hint_edge_matches(&rule->otherwise, edge);

    io_counts->when += is_when;
    io_counts->otherwise += is_else;
    return is_when || is_else;
}

/* `anchor`: the instance that counts, 0 = any. */
static bool is_reached(const struct rule_when *when, uint32_t anchor, uint64_t at, uint64_t now,
        const struct edge *edge)
{
    if (when->count > 0)
        return at <= now;
    if (anchor)
        return when->kind == edge->kind && anchor == edge->anchor;
    return hint_edge_matches(when, edge);
}

bool hint_wait_is_due(const struct rule *rule, const struct hint_wait *wait,
        const struct hint_counts *now, const struct edge *edge)
{
    return !wait->unused
            && (is_reached(&rule->when, wait->when_anchor, wait->at.when, now->when, edge)
                    || is_reached(&rule->otherwise, wait->else_anchor, wait->at.otherwise,
                            now->otherwise, edge));
}

bool hint_is_due(const struct hints *hints, const struct plan *plan, const struct edge *edge)
{
    const struct rule *rule = hint_rule(hints, plan->rule);

    return rule && is_reached(&rule->when, plan->due_anchor, UINT64_MAX, 0, edge);
}

void hint_canary(struct hints *hints, struct plan *io_plan)
{
    const struct rule *rule = hint_rule(hints, io_plan->rule);
    uint64_t number;

    if (!rule || rule->canary <= 1 || io_plan->mode != HINT_LIVE || !hint_acts(io_plan)
            || !action_releases(rule->action))
        return;
    number = atomic_fetch_add_explicit(&hints->tried[io_plan->rule], 1, memory_order_relaxed) + 1;
    if (number <= (uint64_t)HINT_CANARY * rule->canary && number % rule->canary != 0)
        io_plan->mode = HINT_SHADOW;
}

bool hint_acts(const struct plan *plan)
{
    return plan->rule >= 0 && action_unmaps(plan->action) && !plan->small
            && hint_mode_acts(plan->mode);
}
