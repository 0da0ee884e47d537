/* SPDX-License-Identifier: MIT */
#include "tools/suggest/suggest_growth.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/patterns/patterns.h"
#include "tools/suggest/suggest_candidates.h"
#include "tools/symbols/framekind.h"
#include "tools/symbols/sitekey.h"
#include "tracker/hints/apicalls.h"

/* Calls of one name in anchors of one folded name. */
struct receives {
    uint32_t path;
    uint32_t *calls; /* ascending */
    size_t count, room;
    bool is_unordered; /* their times do not ascend */
};

struct group {
    uint32_t *blocks; /* ascending */
    size_t count, room;
    bool is_doubtful;
    uint32_t place; /* number of its call site */
    uint32_t sent;  /* path of the anchors that all are sent in, TRACE_NONE: several names */
};

struct work {
    const struct trace *trace;
    struct keytable paths; /* folded -> number */
    uint32_t *path;        /* per anchor */
    uint32_t *sent;        /* per block: its last send, a call; TRACE_NONE */
    struct keytable kinds; /* path -> receives */
    struct receives *receives;
    size_t receives_count, receives_room;
    uint64_t *python;       /* per stack: the program's innermost line, 0 without one */
    struct keytable places; /* (site, path, that line) -> group */
    struct keytable sites;  /* (site, that line) -> number */
    struct group *groups;
    size_t group_count, group_room;
};

/* ---- reading ---- */

static void suggest_growth_number_paths(struct work *w)
{
    char glob[RULE_GLOB_MAX];

    w->path = vec_new(w->trace->anchor_count, sizeof(*w->path));
    for (size_t i = 0; i < w->trace->anchor_count; i++) {
        suggest_candidates_fold(w->trace->anchors[i].path, SUGGEST_CANDIDATES_FOLD_RUNS, glob);
        w->path[i] = keytable_number(&w->paths, keytable_text(glob));
    }
}

static uint64_t suggest_growth_time_of(const struct work *w, uint32_t call)
{
    return w->trace->events[w->trace->calls[call].at].time_ns;
}

static void add_receive(struct work *w, uint32_t call)
{
    uint32_t path = w->path[w->trace->calls[call].anchor];
    uint32_t number = keytable_number(&w->kinds, (struct key){path, 0, 0});

    if (number == w->receives_count)
        VEC_PUSH(w->receives, w->receives_count, w->receives_room) =
                (struct receives){.path = path};
    struct receives *receives = &w->receives[number];
    if (receives->count)
        receives->is_unordered |= suggest_growth_time_of(w, receives->calls[receives->count - 1])
                > suggest_growth_time_of(w, call);
    VEC_PUSH(receives->calls, receives->count, receives->room) = call;
}

static void list_calls(struct work *w)
{
    const struct trace *trace = w->trace;

    w->sent = vec_new(trace->block_count, sizeof(*w->sent));
    for (size_t i = 0; i < trace->block_count; i++)
        w->sent[i] = TRACE_NONE;
    for (uint32_t i = 0; i < trace->call_count; i++) {
        const struct trace_call *call = &trace->calls[i];
        if (call->number == APICALL_ncclSend && call->buffer[0].block != TRACE_NONE)
            w->sent[call->buffer[0].block] = i;
        if (call->number == APICALL_ncclRecv)
            add_receive(w, i);
    }
}

/* All layers of a framework may share a native site; the program's line distinguishes them. */
static void name_stacks(struct work *w)
{
    struct sitekey keys[SITEKEY_MAX];

    w->python = vec_new(w->trace->stack_count, sizeof(*w->python));
    for (uint32_t i = 0; i < w->trace->stack_count; i++) {
        struct trace_block block = {.stack = i};
        size_t count = sitekey_list(w->trace, &block, keys);
        for (size_t k = 0; k < count && !w->python[i]; k++)
            if (keys[k].has_line
                    && framekind_is_program(keys[k].frame->function, keys[k].frame->file))
                w->python[i] = keys[k].key;
    }
}

static void group_blocks(struct work *w, struct model_window window, uint64_t min_size)
{
    const struct trace *trace = w->trace;

    for (uint32_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        if (block->born < window.first || block->born >= window.last || block->native
                || !block->anchor || block->size < min_size
                || !(block->site || w->python[block->stack]))
            continue;
        struct key key = {block->site, w->path[block->anchor], w->python[block->stack]};
        uint32_t number = keytable_number(&w->places, key);
        if (number == w->group_count)
            VEC_PUSH(w->groups, w->group_count, w->group_room) = (struct group){
                    .place = keytable_number(&w->sites, (struct key){key.a, 0, key.c})};
        struct group *group = &w->groups[number];
        VEC_PUSH(group->blocks, group->count, group->room) = i;
        group->is_doubtful |= block->shared || patterns_doubt_of(block) != PATTERNS_DOUBTS;
    }
}

/* ---- one group ---- */

static uint32_t suggest_growth_parent_of(const struct work *w, uint32_t block)
{
    return w->trace->anchors[w->trace->blocks[block].anchor].parent;
}

/* Blocks of one instance of the outer anchor, made in several instances of the inner one. */
struct run {
    const uint32_t *blocks;
    size_t count, instances;
};

/* The run that starts with the first of `count` blocks. */
static struct run suggest_growth_run_of(const struct work *w, const uint32_t *blocks, size_t count)
{
    const struct trace_block *all = w->trace->blocks;
    struct run run = {blocks, 1, 1};

    for (; run.count < count
            && suggest_growth_parent_of(w, blocks[run.count])
                    == suggest_growth_parent_of(w, blocks[0]);
            run.count++)
        run.instances += all[blocks[run.count]].anchor != all[blocks[run.count - 1]].anchor;
    return run;
}

/* Whether none of them is freed before the last one is made. */
static bool suggest_growth_is_kept(const struct work *w, const struct run *run)
{
    uint32_t last = w->trace->blocks[run->blocks[run->count - 1]].born;

    for (size_t i = 0; i < run->count; i++)
        if (w->trace->blocks[run->blocks[i]].died < last)
            return false;
    return true;
}

/* How many live at a time, 0: they do not grow. *ret_run: those of one outer anchor's instance. */
static uint64_t growth_of(const struct work *w, const struct group *group, struct run *ret_run)
{
    uint64_t most = 0;
    struct run run;

    for (size_t i = 0; i < group->count; i += run.count) {
        uint32_t parent = suggest_growth_parent_of(w, group->blocks[i]);

        run = suggest_growth_run_of(w, &group->blocks[i], group->count - i);
        if (parent == TRACE_NONE || parent == 0)
            return 0; /* they grow from step to step: no anchor's end can be named */
        if (run.instances < SUGGEST_GROWTH_INSTANCES)
            continue;
        if (!suggest_growth_is_kept(w, &run))
            return 0;
        if (most == 0)
            *ret_run = run; /* only the last one may lack its end */
        most = run.count > most ? run.count : most;
    }
    return most;
}

/* Whether each was sent, and all to one rank. The last run may not have come to its send. */
static bool are_sent(const struct work *w, const struct group *group)
{
    const struct trace_call *calls = w->trace->calls;
    uint32_t first = w->sent[group->blocks[0]];

    for (size_t i = 0; i < group->count; i++) {
        const struct trace_block *block = &w->trace->blocks[group->blocks[i]];
        bool is_open = w->trace->anchors[block->anchor].exit == TRACE_NEVER;
        uint32_t sent = w->sent[group->blocks[i]];
        if (sent == TRACE_NONE && (i == 0 || !is_open))
            return false;
        if (sent != TRACE_NONE
                && (calls[sent].comm != calls[first].comm || calls[sent].peer != calls[first].peer))
            return false;
    }
    return true;
}

static uint32_t sent_in(const struct work *w, const struct group *group)
{
    uint32_t path = w->path[w->trace->calls[w->sent[group->blocks[0]]].anchor];

    for (size_t i = 0; i < group->count; i++) {
        uint32_t sent = w->sent[group->blocks[i]];
        if (sent != TRACE_NONE && w->path[w->trace->calls[sent].anchor] != path)
            return TRACE_NONE;
    }
    return path;
}

/* Position of the first receive after a call. */
static size_t first_after(const struct receives *receives, uint32_t call)
{
    return vec_first_above(receives->calls, receives->count, call);
}

/* From the low-th on, the position of the first receive after this time. */
static size_t suggest_growth_first_later(
        const struct work *w, const struct receives *receives, size_t low, uint64_t time_ns)
{
    size_t high = receives->count;

    while (low < high) {
        size_t mid = receives->is_unordered ? low : low + (high - low) / 2;
        if (suggest_growth_time_of(w, receives->calls[mid]) <= time_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The smallest k that fits all of the group. */
static uint32_t count_needed(
        const struct work *w, const struct group *group, const struct receives *receives)
{
    uint32_t most = 0;

    for (size_t i = 0; i < group->count; i++) {
        uint32_t block = group->blocks[i];
        if (w->sent[block] == TRACE_NONE)
            continue;
        size_t first = first_after(receives, w->sent[block]);
        size_t later = suggest_growth_first_later(
                w, receives, first, trace_uses(w->trace, &w->trace->blocks[block]).last);
        most = later - first > most ? (uint32_t)(later - first) : most;
    }
    return most + 1 > SUGGEST_GROWTH_RECEIVES ? most + 1 : SUGGEST_GROWTH_RECEIVES;
}

/* The number of blocks that the k-th receive precedes their free. */
static size_t count_gains(const struct work *w, const struct group *group,
        const struct receives *receives, uint32_t k)
{
    size_t gains = 0;

    for (size_t i = 0; i < group->count; i++) {
        uint32_t block = group->blocks[i];
        if (w->sent[block] == TRACE_NONE)
            continue;
        size_t due = first_after(receives, w->sent[block]) + k - 1;
        gains += due < receives->count
                && w->trace->calls[receives->calls[due]].at < w->trace->blocks[block].died;
    }
    return gains;
}

/* The sender of these receives: the peer that the blocks are sent to, or another one? */
enum origin {
    ORIGIN_OTHER,   /* another rank of the same communicator */
    ORIGIN_UNKNOWN, /* another communicator, in the anchor of the sends: usually the other side */
    ORIGIN_APART,   /* likewise, in another anchor */
    ORIGIN_PEER,
};

static enum origin origin_of(
        const struct work *w, const struct group *group, const struct receives *receives)
{
    const struct trace_call *sent = &w->trace->calls[w->sent[group->blocks[0]]];
    enum origin origin = ORIGIN_PEER;

    for (size_t i = 0; i < receives->count; i++) {
        const struct trace_call *call = &w->trace->calls[receives->calls[i]];
        if (call->comm == sent->comm && call->peer != sent->peer)
            return ORIGIN_OTHER;
        if (call->comm != sent->comm)
            origin = group->sent == receives->path ? ORIGIN_UNKNOWN : ORIGIN_APART;
    }
    return origin;
}

/* NULL: none comes in time. */
static const struct receives *choose_receives(
        const struct work *w, const struct group *group, uint32_t *ret_k)
{
    const struct receives *best = NULL;
    enum origin best_origin = ORIGIN_OTHER;
    size_t best_gains = 0;

    for (size_t i = 0; i < w->receives_count; i++) {
        const struct receives *receives = &w->receives[i];
        uint32_t k = count_needed(w, group, receives);
        size_t gains = count_gains(w, group, receives, k);
        enum origin origin = origin_of(w, group, receives);
        if (origin == ORIGIN_OTHER || gains == 0 || origin < best_origin
                || (origin == best_origin && gains <= best_gains))
            continue;
        best = receives;
        best_origin = origin;
        best_gains = gains;
        *ret_k = k;
    }
    return best;
}

/* ---- the end of their lifetime ---- */

/* Whether it is the only anchor of its name in the anchor around it. */
static bool is_alone(const struct work *w, uint32_t anchor)
{
    const struct trace_anchor *all = w->trace->anchors;
    size_t count = 0;

    for (uint32_t i = 0; i < w->trace->anchor_count; i++)
        count += w->path[i] == w->path[anchor] && all[i].parent == all[anchor].parent;
    return count == 1;
}

/*
 * The last sibling anchor that begins when all blocks are made and before one is freed, if it
 * occurs once; else the anchor around theirs. Its digits are folded one by one: a `*` there would
 * match the names of inner anchors, too.
 */
static void name_closing(
        const struct work *w, const struct run *run, char ret_glob[static RULE_GLOB_MAX])
{
    const struct trace *trace = w->trace;
    uint32_t outer = suggest_growth_parent_of(w, run->blocks[0]);
    uint32_t made = trace->blocks[run->blocks[run->count - 1]].born;
    uint32_t closing = TRACE_NONE, died = TRACE_NEVER;

    for (size_t i = 0; i < run->count; i++)
        if (trace->blocks[run->blocks[i]].died < died)
            died = trace->blocks[run->blocks[i]].died;
    for (uint32_t i = 0; i < trace->anchor_count; i++) {
        const struct trace_anchor *anchor = &trace->anchors[i];
        if (anchor->parent == outer && anchor->enter > made && anchor->enter < died
                && (closing == TRACE_NONE || anchor->enter > trace->anchors[closing].enter))
            closing = i;
    }
    if (died != TRACE_NEVER && closing != TRACE_NONE && is_alone(w, closing))
        suggest_candidates_fold(
                trace->anchors[closing].path, SUGGEST_CANDIDATES_FOLD_RUNS, ret_glob);
    else
        suggest_candidates_fold(
                trace->anchors[outer].path, SUGGEST_CANDIDATES_FOLD_DIGITS, ret_glob);
}

/* ---- all of it ---- */

static void name_anchor(const struct work *w, uint32_t anchor, char ret_glob[static RULE_GLOB_MAX])
{
    suggest_candidates_fold(w->trace->anchors[anchor].path, SUGGEST_CANDIDATES_FOLD_RUNS, ret_glob);
}

static void suggest_growth_look_at(struct work *w, struct group *group, struct growers *ret)
{
    struct suggest_growth grower = {.count = group->count, .place = group->place};
    struct run run;

    grower.most = group->is_doubtful ? 0 : growth_of(w, group, &run);
    if (grower.most == 0 || !are_sent(w, group))
        return;
    group->sent = sent_in(w, group);
    const struct receives *receives = choose_receives(w, group, &grower.receives);
    if (!receives)
        return;
    for (size_t i = 0; i < group->count; i++)
        grower.bytes += w->trace->blocks[group->blocks[i]].size;
    name_anchor(w, w->trace->blocks[group->blocks[0]].anchor, grower.inside);
    if (group->sent != TRACE_NONE)
        name_anchor(w, w->trace->calls[w->sent[group->blocks[0]]].anchor, grower.sent);
    name_anchor(w, w->trace->calls[receives->calls[0]].anchor, grower.received);
    name_closing(w, &run, grower.closing);
    grower.blocks = group->blocks;
    group->blocks = NULL;
    VEC_PUSH(ret->list, ret->count, ret->room) = grower;
}

/* ---- one for several ---- */

/* A glob for both paths: "*" and their common end, in whole names; false: the last ones differ. */
static bool join_globs(char io_glob[static RULE_GLOB_MAX], const char *other)
{
    size_t own = strlen(io_glob), its = strlen(other), same = 0, whole = 0;

    if (strcmp(io_glob, other) == 0)
        return true;
    while (same < own && same < its && io_glob[own - same - 1] == other[its - same - 1])
        if (io_glob[own - ++same] == '/')
            whole = same;
    if (whole == 0 || whole == own)
        return false;
    memmove(&io_glob[1], &io_glob[own - whole], whole + 1);
    io_glob[0] = '*';
    return true;
}

static void suggest_growth_add_blocks(struct suggest_growth *io, const struct suggest_growth *other)
{
    uint32_t *blocks = vec_new(io->count + other->count, sizeof(*blocks));

    if (io->count)
        memcpy(blocks, io->blocks, io->count * sizeof(*blocks));
    memcpy(&blocks[io->count], other->blocks, other->count * sizeof(*blocks));
    free(io->blocks);
    io->blocks = blocks;
    io->count += other->count;
    io->bytes += other->bytes;
    VEC_SORT(io->blocks, io->count, vec_by_u32);
}

/* Extends the hint to the other's blocks, if names can express that; false: they cannot. */
static bool suggest_growth_join(struct suggest_growth *io, const struct suggest_growth *other)
{
    struct suggest_growth both = *io;

    if (both.place != other->place || !join_globs(both.inside, other->inside)
            || !join_globs(both.sent, other->sent) || !join_globs(both.received, other->received)
            || !join_globs(both.closing, other->closing))
        return false;
    *io = both;
    io->most = max_of(io->most, other->most);
    io->receives = (uint32_t)max_of(io->receives, other->receives);
    suggest_growth_add_blocks(io, other);
    return true;
}

/* Joined ones come before the single ones. */
static void join_all(struct growers *growers)
{
    struct growers all = {0};
    bool *is_in = vec_new(growers->count, sizeof(*is_in));

    for (size_t i = 0; i < growers->count; i++) {
        struct suggest_growth joined = growers->list[i];
        joined.blocks = NULL;
        joined.count = joined.bytes = 0;
        suggest_growth_add_blocks(&joined, &growers->list[i]);
        for (size_t k = i + 1; k < growers->count && !is_in[i]; k++)
            if (!is_in[k])
                is_in[k] = suggest_growth_join(&joined, &growers->list[k]);
        if (joined.count > growers->list[i].count)
            VEC_PUSH(all.list, all.count, all.room) = joined;
        else
            free(joined.blocks);
    }
    for (size_t i = 0; i < growers->count; i++)
        VEC_PUSH(all.list, all.count, all.room) = growers->list[i];
    free(growers->list);
    free(is_in);
    *growers = all;
}

void suggest_growth_find(const struct trace *trace, struct model_window window, uint64_t min_size,
        struct growers *ret_growers)
{
    struct work w = {.trace = trace};

    *ret_growers = (struct growers){0};
    if (trace->call_count == 0)
        return;
    suggest_growth_number_paths(&w);
    list_calls(&w);
    name_stacks(&w);
    group_blocks(&w, window, min_size);
    for (size_t i = 0; i < w.group_count; i++)
        suggest_growth_look_at(&w, &w.groups[i], ret_growers);
    join_all(ret_growers);
    for (size_t i = 0; i < w.group_count; i++)
        free(w.groups[i].blocks);
    for (size_t i = 0; i < w.receives_count; i++)
        free(w.receives[i].calls);
    keytable_done(&w.paths);
    keytable_done(&w.kinds);
    keytable_done(&w.places);
    keytable_done(&w.sites);
    free(w.path);
    free(w.python);
    free(w.sent);
    free(w.receives);
    free(w.groups);
}

void suggest_growth_done(struct growers *growers)
{
    for (size_t i = 0; i < growers->count; i++)
        free(growers->list[i].blocks);
    free(growers->list);
    *growers = (struct growers){0};
}
