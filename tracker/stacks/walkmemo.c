/* SPDX-License-Identifier: MIT */
#include "tracker/stacks/walkmemo.h"

#include "alloc/base/meta.h"
#include "tracker/stacks/cfirule.h"
#include "tracker/stacks/thread.h"
#include "tracker/stacks/unwind.h"

#include <stddef.h>
#include <string.h>

enum {
    WORDS_MAX = 96, /* words of a stack: the default depth, with a word for rbp in each frame */
    SETS = 128,     /* a power of two */
    WAYS = 4,       /* stacks of a set */
    SPOTS = 128,    /* a power of two */
    LOOKS_MAX = 8,
    PAUSE_MAX = 255,
    WORDS_AT_ONCE = 8, /* compared before the next jump; the last word is repeated to fill up */
};

#define FACTOR UINT64_C(0x9e3779b97f4a7c15)

struct walk {
    struct walkmemo_from from; /* sp 0: unused */
    uintptr_t bp_mask;         /* 0: no frame depends on the first one's rbp */
    struct walkmemo_known known;
    unsigned count; /* words of the stack, not 0: their values, and their offsets from rsp */
    uint64_t value[WORDS_MAX];
    uint32_t distance[WORDS_MAX];
};

/* If one set cannot hold all stacks with the same stack pointer, some words in which those stacks
 * differ select the set, too. Any words do: they only decide where to search. */
struct spot {
    uintptr_t sp; /* 0: unused */
    uint32_t count;
    uint32_t distance[LOOKS_MAX];
};

struct walkmemo {
    uint32_t turn;  /* the entry of a set to replace next */
    uint32_t pause; /* number of stacks not tried after the last failure, */
    uint32_t left;  /* and the number left of them */
    struct spot spot[SPOTS];
    struct walk walk[SETS][WAYS];
};

/* The index of the set (WAYS walks) for this stack. */
__attribute__((no_sanitize("address"))) static inline unsigned walkmemo_set_of(
        const struct walkmemo *memo, uintptr_t sp)
{
    uint64_t hash = sp * FACTOR;
    const struct spot *spot = &memo->spot[hash >> 32 & (SPOTS - 1)];

    if (spot->sp == sp)
        for (unsigned i = 0; i < spot->count; i++)
            hash = (hash ^ hash >> 32 ^ unwind_stack_word(sp + spot->distance[i])) * FACTOR;
    return (unsigned)(hash >> 40 & (SETS - 1));
}

/* No sanitizer: the words read are between other functions' variables, all of them in the thread's
 * own stack. */
__attribute__((no_sanitize("address"))) static bool words_are_same(
        const struct walk *walk, uintptr_t sp)
{
    const uint64_t *value = walk->value;
    const uint64_t *end = value + walk->count;
    const uint32_t *distance = walk->distance;
    uint64_t differ;

    do {
        differ = 0;
#pragma GCC unroll 8
        for (unsigned i = 0; i < WORDS_AT_ONCE; i++)
            differ |= unwind_stack_word(sp + distance[i]) ^ value[i];
        value += WORDS_AT_ONCE;
        distance += WORDS_AT_ONCE;
    } while (differ == 0 && value < end);
    return differ == 0;
}

static inline bool is_from(const struct walk *walk, const struct walkmemo_from *from)
{
    return walk->from.sp == from->sp && walk->from.ip == from->ip
            && walk->from.caller == from->caller && walk->from.generation == from->generation
            && walk->from.is_own == from->is_own
            && ((walk->from.bp ^ from->bp) & walk->bp_mask) == 0;
}

const struct walkmemo_known *walkmemo_find(
        const struct thread *thread, const struct walkmemo_from *from)
{
    const struct walk *walk;

    if (!thread->walkmemo)
        return NULL;
    walk = thread->walkmemo->walk[walkmemo_set_of(thread->walkmemo, from->sp)];
    for (unsigned i = 0; i < WAYS; i++, walk++)
        if (is_from(walk, from) && words_are_same(walk, from->sp))
            return &walk->known;
    return NULL;
}

/* ---- following a walk ----------------------------------------------------------------------- */

/* A chain of frames followed outwards, with the words that it depends on. */
struct chain {
    struct walk *walk;
    uintptr_t high; /* end of the thread's stack */
    uintptr_t sp, bp;
    uintptr_t bp_at; /* where rbp was read; 0: from the first frame */
    bool is_bad;
};

/* Reads and records a word of the stack; fails outside of it. */
__attribute__((no_sanitize("address"))) static uint64_t walkmemo_word_at(
        struct chain *chain, uintptr_t at)
{
    if (at % sizeof at == 0 && at >= chain->walk->from.sp && at <= chain->high - sizeof at)
        return unwind_stack_word(at);
    chain->is_bad = true;
    return 0;
}

static void note_word(struct chain *chain, uintptr_t at, uint64_t value)
{
    struct walk *walk = chain->walk;
    uintptr_t distance = at - walk->from.sp;

    if (walk->count == WORDS_MAX || distance > UINT32_MAX) {
        chain->is_bad = true;
        return;
    }
    walk->value[walk->count] = value;
    walk->distance[walk->count] = (uint32_t)distance;
    walk->count++;
}

/* The frame depends on rbp: from here on its source matters. */
static void need_bp(struct chain *chain)
{
    if (chain->bp_at == 0)
        chain->walk->bp_mask = UINTPTR_MAX;
    else
        note_word(chain, chain->bp_at, chain->bp);
}

/* The beginning of the caller's frame; 0: the rule does not define it. */
static uintptr_t cfa_of(struct chain *chain, const struct cfirule *rule)
{
    uintptr_t at = (rule->is_by_bp ? chain->bp : chain->sp) + (uintptr_t)(intptr_t)rule->cfa;
    uintptr_t cfa;

    if (rule->is_by_bp)
        need_bp(chain);
    if (rule->kind != CFIRULE_ALIGNED)
        return rule->kind == CFIRULE_PLAIN ? at : 0;
    cfa = walkmemo_word_at(chain, at);
    if (!chain->is_bad)
        note_word(chain, at, cfa);
    return cfa;
}

/* Follows one frame outwards, which must lead to `caller`. */
static bool follow_frame(struct chain *chain, const struct cfirule *rule, uintptr_t caller)
{
    uintptr_t cfa = cfa_of(chain, rule);

    if (cfa <= chain->sp || walkmemo_word_at(chain, cfa - sizeof cfa) != caller)
        return false;
    note_word(chain, cfa - sizeof cfa, caller);
    if (rule->has_bp) {
        chain->bp_at =
                (rule->kind == CFIRULE_ALIGNED ? chain->bp : cfa) + (uintptr_t)(intptr_t)rule->bp;
        chain->bp = walkmemo_word_at(chain, chain->bp_at);
    }
    chain->sp = cfa;
    return !chain->is_bad;
}

static bool follow_walk(struct chain *chain, void *const *ips, unsigned count, bool is_whole)
{
    for (unsigned i = 0; i < count; i++) {
        uintptr_t ip = (uintptr_t)ips[i];
        struct cfirule rule = {.kind = CFIRULE_OTHER};

        if (i + 1 == count && !is_whole)
            return true; /* its caller does not matter */
        rule = cfirule_known(ip);
        if (i + 1 == count)
            return rule.kind == CFIRULE_END;
        if (!follow_frame(chain, &rule, (uintptr_t)ips[i + 1]))
            return false;
    }
    return false;
}

static void repeat_last(struct walk *walk)
{
    while (walk->count % WORDS_AT_ONCE != 0) {
        walk->value[walk->count] = walk->value[walk->count - 1];
        walk->distance[walk->count] = walk->distance[walk->count - 1];
        walk->count++;
    }
}

/* Following a stack costs as much as its walk: where stacks cannot be recorded, tries become rarer,
 * and where there are more stacks than entries, they are occasional. */
static bool is_time(struct walkmemo *memo)
{
    if (memo->left == 0)
        return true;
    memo->left--;
    return false;
}

/* Two stacks with one stack pointer were in one set: separates them by a word. True: done, and both
 * have to be recorded anew. */
static bool walkmemo_tell_apart(
        struct walkmemo *memo, const struct walk *one, const struct walk *other)
{
    uintptr_t sp = one->from.sp;
    struct spot *spot = &memo->spot[sp * FACTOR >> 32 & (SPOTS - 1)];
    unsigned at = 0;

    while (at < one->count && at < other->count && one->value[at] == other->value[at])
        at++;
    if (at >= one->count || at >= other->count || one->distance[at] != other->distance[at])
        return false;
    if (spot->sp != sp)
        *spot = (struct spot){.sp = sp};
    if (spot->count == LOOKS_MAX)
        return false;
    spot->distance[spot->count++] = one->distance[at];
    for (unsigned i = 0; i < SETS; i++)
        for (unsigned j = 0; j < WAYS; j++)
            if (memo->walk[i][j].from.sp == sp)
                memo->walk[i][j].from.sp = 0; /* it would be searched for in another set */
    return true;
}

/* An unused entry of a set, else one of the others in turn. */
static struct walk *place_in(struct walkmemo *memo, struct walk *set, uint32_t generation)
{
    for (unsigned i = 0; i < WAYS; i++)
        if (set[i].from.sp == 0 || set[i].from.generation != generation)
            return &set[i];
    return &set[memo->turn++ % WAYS];
}

/* All entries of a set were taken. The pause varies: a fixed one could be in step with a loop of
 * the program. */
static void walkmemo_make_room(
        struct walkmemo *memo, const struct walk *set, const struct walk *walk)
{
    const struct walk *other = walk == set ? &set[WAYS - 1] : walk - 1;

    if (!is_from(other, &walk->from) || !walkmemo_tell_apart(memo, walk, other))
        memo->left = (uint32_t)(memo->turn * FACTOR >> 60);
}

void walkmemo_note(struct thread *thread, const struct walkmemo_from *from, void *const *ips,
        unsigned count, bool is_whole, const struct walkmemo_known *known)
{
    struct chain chain = {.sp = from->sp, .bp = from->bp};
    struct walkmemo *memo = thread->walkmemo;
    struct walk *set, *walk;
    uint32_t turn;

    if (!unwind_stack(thread, from->sp, &chain.high))
        return;
    if (!memo) {
        memo = meta_map(sizeof *memo);
        thread->walkmemo = memo;
    }
    if (!memo || !is_time(memo))
        return;
    set = memo->walk[walkmemo_set_of(memo, from->sp)];
    turn = memo->turn;
    walk = place_in(memo, set, from->generation);
    walk->from = *from;
    walk->known = *known;
    walk->bp_mask = 0;
    walk->count = 0;
    chain.walk = walk;
    if (!follow_walk(&chain, ips, count, is_whole) || walk->count == 0) {
        walk->from.sp = 0;
        memo->pause = memo->pause < PAUSE_MAX ? 2 * memo->pause + 1 : memo->pause;
        memo->left = memo->pause;
        return;
    }
    repeat_last(walk);
    memo->pause = 0;
    if (turn != memo->turn)
        walkmemo_make_room(memo, set, walk);
}

void walkmemo_forget(struct walkmemo *memo)
{
    if (!memo)
        return;
    for (unsigned i = 0; i < SETS; i++)
        for (unsigned j = 0; j < WAYS; j++)
            memo->walk[i][j].from.sp = 0;
    memset(memo->spot, 0, sizeof memo->spot);
    memo->pause = 0;
    memo->left = 0;
}

/* The record may go to another thread. */
static void walkmemo_thread_exit(struct thread *thread)
{
    walkmemo_forget(thread->walkmemo);
}

THREAD_AT_EXIT(walkmemo_thread_exit);
