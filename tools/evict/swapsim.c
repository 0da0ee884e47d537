/* SPDX-License-Identifier: MIT */
#include "tools/evict/swapsim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/hints/evict.h"
#include "alloc/hints/hint.h"
#include "tools/base/vec.h"
#include "tools/replay/predict.h"

#define NS_PER_S 1000000000.0

struct unit {
    uint32_t block; /* TRACE_NONE: freed */
    uint64_t size;
    uint64_t there_ns; /* when its copy in is done */
    uint64_t call;     /* the last call that named it */
    bool has_content;  /* it was in once */
    bool is_on_host;   /* the host has the same content: it was not used since it came in */
    bool is_in;
    bool is_old;  /* made before this step */
    bool is_used; /* in this step */
};

/* State of a set during the simulation. */
struct player {
    struct evict *evict;
    struct unit *units; /* by number */
    size_t unit_count;
    size_t unit_room;
    uint32_t *named; /* by the call */
    size_t named_count, named_room;
    uint64_t calls;
    uint64_t in_bytes, out_bytes; /* out: with content */
    struct swapsim_step now;
    uint64_t begun_ns, waited_before;
};

/* Per device: when its two copy queues become free. */
struct link {
    int device;
    uint64_t in_free, out_free;
};

struct run {
    const struct swapsim_job *job;
    struct swapsim *out;
    struct player *players; /* of the sets */
    size_t player_room;
    uint32_t *set_of, *unit_of; /* per block; TRACE_NONE: no set */
    struct trace_use *uses;     /* those of one call next to each other */
    struct link *links;
    size_t link_count, link_room;
    uint64_t in_bytes, in_high; /* of all sets; since the last event */
    uint64_t waited_ns;         /* total waits of calls */
};

bool swapsim_has_evict(const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rules[i].action == ACTION_EVICT && rules[i].mode != HINT_OFF)
            return true;
    return false;
}

/* ---- uses, call by call ---- */

static int by_call(const void *a, const void *b)
{
    const struct trace_use *x = a;
    const struct trace_use *y = b;

    int order = vec_order(x->thread, y->thread, vec_order(x->block, y->block, 0));

    return vec_order(x->at, y->at, vec_order(x->time_ns, y->time_ns, order));
}

static bool is_one_call(const struct trace_use *a, const struct trace_use *b)
{
    return a->at == b->at && a->time_ns == b->time_ns && a->thread == b->thread;
}

/* ---- sets ---- */

static int open_set(struct run *run, uint32_t rule, int device, uint32_t *ret_set)
{
    const struct rule_evict *what = &run->job->rules[rule].evict;
    struct evict_opts opts = {
            .cap = UINT64_MAX,
            .victim = what->victim,
            .prefetch = what->policy == RULE_POLICY_AUTO ? what->prefetch : 0,
            .cyclic = what->cyclic,
            .order = what->order,
            .order_count = what->order_count,
    };
    struct player player = {.evict = NULL};

    for (*ret_set = 0; *ret_set < run->out->count; ++*ret_set)
        if (run->out->sets[*ret_set].rule == rule && run->out->sets[*ret_set].device == device)
            return 0;
    int r = evict_new(&opts, &player.evict);
    if (r < 0)
        return r;
    run->players =
            vec_grow(run->players, run->out->count + 1, sizeof(*run->players), &run->player_room);
    run->players[run->out->count] = player;
    VEC_PUSH(run->out->sets, run->out->count, run->out->room) =
            (struct swapsim_set){.rule = rule, .device = device};
    return 0;
}

/* A percentage of `bytes`, which may be close to UINT64_MAX. */
static uint64_t swapsim_share_of(uint64_t bytes, uint32_t percent)
{
    return bytes / 100 * percent + bytes % 100 * percent / 100;
}

static int set_cap(struct run *run, uint32_t number)
{
    const struct swapsim_set *set = &run->out->sets[number];
    const struct rule_evict *what = &run->job->rules[set->rule].evict;
    struct player *player = &run->players[number];
    uint64_t cap = what->cap;

    if (what->policy == RULE_POLICY_CUDA)
        cap = UINT64_MAX;
    else if (run->job->cap)
        cap = run->job->cap(run->job->self, set->rule, set->device, player->now.step);
    else if (cap == 0 || what->less_other)
        return -ENODATA;
    player->now.cap = cap;
    evict_set_cap(player->evict, cap, swapsim_share_of(cap, what->warmup_percent));
    return 0;
}

static struct link *link_of(struct run *run, int device)
{
    for (size_t i = 0; i < run->link_count; i++)
        if (run->links[i].device == device)
            return &run->links[i];
    VEC_PUSH(run->links, run->link_count, run->link_room) = (struct link){.device = device};
    return &run->links[run->link_count - 1];
}

/* ---- moves ---- */

static uint64_t copy_ns(const struct run *run, uint64_t bytes)
{
    if (run->job->bandwidth == 0)
        return 0;
    return (uint64_t)((double)bytes * NS_PER_S / (double)run->job->bandwidth);
}

static void swapsim_go_out(struct run *run, uint32_t number, struct unit *unit, uint64_t now_ns)
{
    struct swapsim_set *set = &run->out->sets[number];
    struct player *player = &run->players[number];
    struct link *link = link_of(run, set->device);

    unit->is_in = false;
    run->in_bytes -= unit->size;
    player->in_bytes -= unit->size;
    player->out_bytes += unit->size;
    set->host_high = max_of(set->host_high, player->out_bytes);
    if (unit->is_on_host) {
        player->now.dropped += unit->size;
        return;
    }
    unit->is_on_host = true;
    player->now.moved_out += unit->size;
    player->now.count_out++;
    link->out_free =
            max_of(max_of(link->out_free, unit->there_ns), now_ns) + copy_ns(run, unit->size);
}

static void swapsim_come_in(struct run *run, uint32_t number, struct unit *unit, uint64_t now_ns)
{
    const struct swapsim_set *set = &run->out->sets[number];
    struct player *player = &run->players[number];
    struct link *link = link_of(run, set->device);

    unit->is_in = true;
    run->in_bytes += unit->size;
    player->in_bytes += unit->size;
    run->in_high = max_of(run->in_high, run->in_bytes);
    player->now.in_bytes_high = max_of(player->now.in_bytes_high, player->in_bytes);
    if (!unit->has_content) {
        unit->has_content = true;
        return;
    }
    player->out_bytes -= unit->size;
    player->now.moved_in += unit->size;
    player->now.count_in++;
    link->in_free =
            max_of(max_of(link->in_free, link->out_free), now_ns) + copy_ns(run, unit->size);
    unit->there_ns = link->in_free;
}

static void make_moves(
        struct run *run, uint32_t number, const struct evict_moves *moves, uint64_t now_ns)
{
    struct player *player = &run->players[number];

    for (uint32_t i = 0; i < moves->count + moves->ahead; i++) {
        struct unit *unit = &player->units[moves->move[i].unit];

        if (moves->move[i].in)
            swapsim_come_in(run, number, unit, now_ns);
        else
            swapsim_go_out(run, number, unit, now_ns);
    }
}

/* Of the units that a call has named, each once. */
static uint64_t demand_of(struct player *player)
{
    uint64_t bytes = 0;

    player->calls++;
    for (size_t i = 0; i < player->named_count; i++) {
        struct unit *unit = &player->units[player->named[i]];

        bytes += unit->call == player->calls ? 0 : unit->size;
        unit->call = player->calls;
    }
    return bytes;
}

static void note_short(
        struct run *run, uint32_t number, uint64_t needed, uint64_t room, uint32_t at)
{
    struct swapsim_short *shorts = &run->out->sets[number].shorts;

    if (shorts->count++ > 0 && shorts->needed >= needed)
        return;
    shorts->needed = needed;
    shorts->room = room;
    shorts->at = at;
}

/* Sends out everything that the call does not name. */
static void swapsim_send_others_out(struct run *run, uint32_t number, uint64_t now_ns)
{
    struct player *player = &run->players[number];
    struct evict_moves moves;

    for (size_t i = 0; i < player->named_count; i++)
        evict_hold(player->evict, player->named[i]);
    (void)evict_make_room(player->evict, UINT64_MAX, &moves);
    for (size_t i = 0; i < player->named_count; i++)
        evict_let_go(player->evict, player->named[i]);
    make_moves(run, number, &moves, now_ns);
}

/* The units of a set that one call names. 0, or -ENOMEM. */
static int use_named(struct run *run, uint32_t number, uint64_t time_ns, uint32_t at)
{
    struct swapsim_set *set = &run->out->sets[number];
    struct player *player = &run->players[number];
    uint64_t demand = demand_of(player);
    uint64_t now_ns = time_ns + run->waited_ns;
    struct evict_moves moves;

    set->demand_high = max_of(set->demand_high, demand);
    if (run->job->rules[set->rule].evict.policy == RULE_POLICY_CPU)
        swapsim_send_others_out(run, number, now_ns);
    int r = evict_use(player->evict, player->named, (uint32_t)player->named_count, &moves);
    if (r == -ENOSPC)
        note_short(run, number, moves.needed, moves.room, at);
    if (r != 0)
        return r == -ENOSPC ? 0 : r;
    make_moves(run, number, &moves, now_ns);
    for (size_t i = 0; i < player->named_count; i++) {
        struct unit *unit = &player->units[player->named[i]];

        unit->is_used = true;
        unit->is_on_host = unit->is_on_host && run->job->rules[set->rule].evict.clean;
        if (unit->there_ns > time_ns + run->waited_ns)
            run->waited_ns = unit->there_ns - time_ns;
    }
    return 0;
}

/* The uses from here on that belong to one call; returns their number. */
static size_t play_call(struct run *run, size_t first, int *io_error)
{
    const struct trace_use *uses = run->uses;
    size_t end = first;

    for (; end < run->job->trace->use_count && is_one_call(&uses[first], &uses[end]); end++) {
        uint32_t set = run->set_of[uses[end].block];

        if (set == TRACE_NONE || run->unit_of[uses[end].block] == TRACE_NONE)
            continue;
        VEC_PUSH(run->players[set].named, run->players[set].named_count,
                run->players[set].named_room) = run->unit_of[uses[end].block];
    }
    for (uint32_t i = 0; i < run->out->count; i++) {
        if (run->players[i].named_count > 0 && *io_error == 0)
            *io_error = use_named(run, i, uses[first].time_ns, uses[first].at);
        run->players[i].named_count = 0;
    }
    return end - first;
}

/* ---- blocks ---- */

static int make_unit(struct run *run, uint32_t id)
{
    const struct trace_block *block = &run->job->trace->blocks[id];
    uint32_t index;

    if (run->set_of[id] == TRACE_NONE)
        return 0;
    struct player *player = &run->players[run->set_of[id]];
    uint64_t size = (block->size + SWAPSIM_GRANULE - 1) / SWAPSIM_GRANULE * SWAPSIM_GRANULE;
    int r = evict_add(player->evict, size, &index);
    if (r < 0)
        return r;
    player->units =
            vec_grow(player->units, (size_t)index + 1, sizeof(*player->units), &player->unit_room);
    for (; player->unit_count <= index; player->unit_count++)
        player->units[player->unit_count].block = TRACE_NONE;
    player->units[index] = (struct unit){.block = id, .size = size};
    run->unit_of[id] = index;
    if (run->job->stays && run->job->stays[id])
        evict_hold(player->evict, index);
    player->now.units++;
    player->now.bytes += size;
    return 0;
}

static void free_unit(struct run *run, uint32_t id)
{
    if (id == TRACE_NONE || run->unit_of[id] == TRACE_NONE)
        return;
    struct player *player = &run->players[run->set_of[id]];
    struct unit *unit = &player->units[run->unit_of[id]];

    if (unit->is_in) {
        run->in_bytes -= unit->size;
        player->in_bytes -= unit->size;
    } else if (unit->has_content) {
        player->out_bytes -= unit->size;
    }
    player->now.units--;
    player->now.bytes -= unit->size;
    evict_remove(player->evict, run->unit_of[id]);
    unit->block = TRACE_NONE;
    run->unit_of[id] = TRACE_NONE;
}

/* ---- steps ---- */

static void swapsim_end_step(struct run *run, uint32_t number, uint64_t time_ns, bool is_running)
{
    struct swapsim_set *set = &run->out->sets[number];
    struct player *player = &run->players[number];
    struct evict_figures figures;

    evict_figures(player->evict, &figures);
    player->now.uses = figures.uses;
    player->now.is_planned = figures.is_planned;
    player->now.is_replayed = figures.is_replayed;
    player->now.is_running = is_running;
    if (player->begun_ns && time_ns > player->begun_ns)
        player->now.recorded_ns = time_ns - player->begun_ns;
    player->now.waited_ns = run->waited_ns - player->waited_before;
    VEC_PUSH(set->steps, set->count, set->room) = player->now;
}

/* The first whole step is over: blocks that are in and were not named in it stay in. */
static void swapsim_keep_unused(struct run *run, uint32_t number)
{
    struct player *player = &run->players[number];

    for (size_t i = 0; i < player->unit_count; i++) {
        const struct unit *unit = &player->units[i];

        if (unit->block == TRACE_NONE || !unit->is_in || !unit->is_old || unit->is_used)
            continue;
        evict_hold(player->evict, (uint32_t)i);
        trace_sum_add(&run->out->sets[number].kept, unit->size);
    }
}

static int begin_step(struct run *run, uint32_t number, uint64_t time_ns)
{
    const struct rule *rule = &run->job->rules[run->out->sets[number].rule];
    struct player *player = &run->players[number];
    struct swapsim_step before = player->now;

    swapsim_end_step(run, number, time_ns, false);
    if (before.step == 1 && rule->mode != HINT_SHADOW && rule->evict.policy != RULE_POLICY_CPU)
        swapsim_keep_unused(run, number);
    evict_step(player->evict);
    player->now = (struct swapsim_step){.step = before.step + 1,
            .units = before.units,
            .bytes = before.bytes,
            .in_bytes_high = player->in_bytes};
    player->begun_ns = time_ns;
    player->waited_before = run->waited_ns;
    for (size_t i = 0; i < player->unit_count; i++) {
        player->units[i].is_old = true;
        player->units[i].is_used = false;
    }
    return set_cap(run, number);
}

/* The `when` of a set's hint begins a step. */
static int begin_steps(struct run *run, uint32_t at, const struct edge *edge)
{
    const struct swapsim_job *job = run->job;
    int r = 0;

    for (uint32_t i = 0; i < run->out->count && r == 0; i++)
        if (hint_edge_matches(&job->rules[run->out->sets[i].rule].when, edge))
            r = begin_step(run, i, job->trace->events[at].time_ns);
    return r;
}

/* Brings in the blocks of a restore hint. */
static void swapsim_bring_in(struct run *run, uint32_t at, const struct rule *rule)
{
    uint64_t now_ns = run->job->trace->events[at].time_ns + run->waited_ns;
    struct evict_moves moves;

    for (uint32_t i = 0; i < run->out->count; i++) {
        if ((int)run->out->sets[i].rule != rule->of)
            continue;
        (void)evict_bring(run->players[i].evict, &moves);
        make_moves(run, i, &moves, now_ns);
    }
}

static int pass_edge(struct run *run, uint32_t at)
{
    const struct swapsim_job *job = run->job;
    struct edge edge;

    if (!predict_edge(job->trace, at, &edge))
        return 0;
    int r = begin_steps(run, at, &edge);
    for (size_t i = 0; i < job->rule_count && r == 0; i++)
        if (job->rules[i].action == ACTION_RESTORE && job->rules[i].mode != HINT_OFF
                && hint_edge_matches(&job->rules[i].when, &edge))
            swapsim_bring_in(run, at, &job->rules[i]);
    return r;
}

/* ---- the whole run ---- */

static int find_sets(struct run *run)
{
    const struct swapsim_job *job = run->job;
    const struct trace *trace = job->trace;
    struct predict_match *matches = vec_new(trace->block_count, sizeof(*matches));
    int r = predict_matches(trace, job->rules, job->rule_count, matches);

    for (uint32_t i = 0; i < trace->block_count; i++) {
        const struct predict_match *match = &matches[i];
        int device = trace->blocks[i].device;

        run->set_of[i] = run->unit_of[i] = run->out->rule_of[i] = TRACE_NONE;
        if (r != 0 || match->rule == TRACE_NONE || match->small || trace->blocks[i].native
                || trace->blocks[i].size == 0 || job->rules[match->rule].action != ACTION_EVICT)
            continue;
        r = open_set(run, match->rule, device < 0 ? 0 : device, &run->set_of[i]);
        run->out->rule_of[i] = match->rule;
    }
    for (uint32_t i = 0; i < run->out->count && r == 0; i++)
        r = set_cap(run, i);
    free(matches);
    return r;
}

static int play_all(struct run *run)
{
    const struct trace *trace = run->job->trace;
    size_t next = 0;
    int r = 0;

    for (uint32_t i = 0; i <= trace->event_count && r == 0; i++) {
        while (next < trace->use_count && run->uses[next].at <= i)
            next += play_call(run, next, &r);
        run->out->in_most[i] = run->in_high;
        run->in_high = run->in_bytes;
        if (i == trace->event_count || r != 0)
            break;
        if (trace->events[i].kind == TRACE_ALLOC)
            r = make_unit(run, trace->events[i].block);
        else if (trace->events[i].kind == TRACE_FREE)
            free_unit(run, trace->events[i].block);
        else
            r = pass_edge(run, i);
    }
    return r;
}

static uint64_t last_ns(const struct trace *trace)
{
    uint64_t last = 0;

    for (size_t i = 0; i < trace->event_count; i++)
        last = max_of(last, trace->events[i].time_ns);
    return last;
}

static void end_sets(struct run *run)
{
    for (uint32_t i = 0; i < run->out->count; i++) {
        run->out->sets[i].bound = evict_bound(run->players[i].evict);
        swapsim_end_step(run, i, last_ns(run->job->trace), true);
    }
}

int swapsim_run(const struct swapsim_job *job, struct swapsim *ret_sim)
{
    const struct trace *trace = job->trace;
    struct run run = {.job = job,
            .out = ret_sim,
            .players = vec_new(1, sizeof(struct player)),
            .player_room = 1};

    *ret_sim = (struct swapsim){.in_most = vec_new(trace->event_count + 1, sizeof(uint64_t)),
            .rule_of = vec_new(trace->block_count, sizeof(uint32_t))};
    run.set_of = vec_new(trace->block_count, sizeof(*run.set_of));
    run.unit_of = vec_new(trace->block_count, sizeof(*run.unit_of));
    run.uses = vec_new(trace->use_count, sizeof(*run.uses));
    if (trace->use_count)
        memcpy(run.uses, trace->uses, trace->use_count * sizeof(*run.uses));
    VEC_SORT(run.uses, trace->use_count, by_call);
    int r = find_sets(&run);
    if (r == 0)
        r = play_all(&run);
    if (r == 0)
        end_sets(&run);
    for (size_t i = 0; i < ret_sim->count; i++) {
        evict_free(run.players[i].evict);
        free(run.players[i].units);
        free(run.players[i].named);
    }
    free(run.players);
    free(run.set_of);
    free(run.unit_of);
    free(run.uses);
    free(run.links);
    return r;
}

void swapsim_done(struct swapsim *sim)
{
    for (size_t i = 0; i < sim->count; i++)
        free(sim->sets[i].steps);
    free(sim->sets);
    free(sim->in_most);
    free(sim->rule_of);
    *sim = (struct swapsim){.count = 0};
}

static int swapsim_by_moved(const void *left, const void *right)
{
    const struct swapsim_step *a = *(const struct swapsim_step *const *)left;
    const struct swapsim_step *b = *(const struct swapsim_step *const *)right;

    return vec_order(
            a->moved_in + a->moved_out, b->moved_in + b->moved_out, vec_order(a->step, b->step, 0));
}

const struct swapsim_step *swapsim_median(const struct swapsim_set *set)
{
    const struct swapsim_step **rows = vec_new(set->count, sizeof(const struct swapsim_step *));
    size_t count = 0;

    for (size_t i = 0; i < set->count; i++)
        if (set->steps[i].is_planned && !set->steps[i].is_running)
            rows[count++] = &set->steps[i];
    size_t from = count > 1;
    vec_sort((void *)(rows + from), count - from, sizeof(const struct swapsim_step *),
            swapsim_by_moved);
    const struct swapsim_step *median = count ? rows[from + (count - from - 1) / 2] : NULL;
    free((void *)rows);
    return median;
}
