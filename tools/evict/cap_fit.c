/* SPDX-License-Identifier: MIT */
#include "tools/evict/cap_fit.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/hints/hint.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/replay/predict.h"
#include "tools/suggest/suggest_candidates.h"

enum {
    PICKS_MAX = 12, /* most picks tried with each other; the largest are */
};

/* A hint that was tried. */
struct trial {
    bool taken[PICKS_MAX];
    struct rule rule;
    bool is_exact, fits;
    uint64_t other;
    uint64_t lack;  /* bytes; 0 = it fits */
    uint64_t moved; /* in a step */
    struct swapsim sim;
};

struct work {
    const struct cap_fit_job *job;
    struct cap_fit *fit;
    struct rule_when when;
    uint32_t *begins;
    struct cap_sites_job sites_job;
    struct cap_sites sites;
    int *devices;
    size_t device_count, device_room;
};

/* ---- steps ---- */

/* Whether this edge begins each step, and occurs nowhere else. */
static bool is_steps(const struct cap_fit_job *job, const struct rule_when *when)
{
    const struct stated_steps *steps = job->steps;
    size_t matched = 0;
    struct edge edge;

    for (uint32_t i = 0; i < job->trace->event_count; i++)
        matched += predict_edge(job->trace, i, &edge) && hint_edge_matches(when, &edge);
    for (size_t i = 0; i < steps->count && matched == steps->count; i++)
        if (!predict_edge(job->trace, steps->spans[i].first, &edge)
                || !hint_edge_matches(when, &edge))
            return false;
    return matched == steps->count;
}

static bool find_when(const struct cap_fit_job *job, struct rule_when *ret_when)
{
    static const enum suggest_candidates_fold folds[] = {SUGGEST_CANDIDATES_FOLD_NOTHING,
            SUGGEST_CANDIDATES_FOLD_RUNS, SUGGEST_CANDIDATES_FOLD_DIGITS};
    const struct trace *trace = job->trace;
    const struct stated_steps_span *first = &job->steps->spans[0];

    for (size_t i = 0; i < sizeof(folds) / sizeof(*folds); i++) {
        *ret_when = (struct rule_when){.kind = EDGE_ENTER};
        suggest_candidates_fold(trace->anchors[first->anchor].path, folds[i], ret_when->anchor);
        if (is_steps(job, ret_when))
            return true;
    }
    return false;
}

/* ---- one hint ---- */

/* False: too many picks for one hint. */
static bool make_rule(const struct work *work, const bool *taken, struct rule *ret_rule)
{
    *ret_rule = (struct rule){.action = ACTION_EVICT,
            .mode = HINT_SHADOW,
            .pick = {.size_lo = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = work->when,
            .evict = {.cap = UINT64_MAX, .warmup_percent = 100, .prefetch = 1, .cyclic = true},
            .min_size = work->job->min_size};
    for (size_t i = 0; i < work->sites.pick_count && i < PICKS_MAX; i++) {
        const struct cap_sites_pick *pick = &work->sites.picks[i];

        if (!taken[i])
            continue;
        if (ret_rule->pick.site_count == RULE_SITES_MAX)
            return false;
        sitekey_pick(&pick->key, &ret_rule->pick);
        ret_rule->pick.size_lo = min_of(ret_rule->pick.size_lo, pick->size_lo);
        ret_rule->pick.size_hi = max_of(ret_rule->pick.size_hi, pick->size_hi);
    }
    return true;
}

/* The blocks that the rule matches; false: one of them has to stay. */
static bool match_blocks(const struct work *work, const struct rule *rule, uint32_t *ret_rule_of)
{
    const struct trace *trace = work->job->trace;
    struct predict_match *matches = vec_new(trace->block_count, sizeof(*matches));
    bool is_exact = predict_matches(trace, rule, 1, matches) == 0;

    for (uint32_t i = 0; i < trace->block_count; i++) {
        bool is_taken = matches[i].rule == 0 && !matches[i].small && !trace->blocks[i].native
                && trace->blocks[i].size > 0;

        ret_rule_of[i] = is_taken ? 0 : TRACE_NONE;
        is_exact =
                is_exact && (!is_taken || cap_sites_may_match(&work->sites_job, &work->sites, i));
    }
    free(matches);
    return is_exact;
}

/* Bytes of all other blocks, on the device where that is most; rule_of NULL: all blocks. */
static int other_of(const struct work *work, const uint32_t *rule_of, uint64_t *ret_bytes)
{
    int r = 0;

    *ret_bytes = 0;
    for (size_t i = 0; i < work->device_count && r == 0; i++) {
        struct predict_beside beside = {.rule_of = rule_of, .device = work->devices[i]};
        struct predict_held held;

        r = predict_held(work->job->trace, NULL, 0, &beside, &held);
        if (r == 0)
            *ret_bytes = max_of(*ret_bytes, held.other);
    }
    return r;
}

static const struct swapsim_short *worst_short(const struct swapsim *sim)
{
    const struct swapsim_short *worst = NULL;

    for (size_t i = 0; i < sim->count; i++) {
        const struct swapsim_short *shorts = &sim->sets[i].shorts;

        if (shorts->count
                && (!worst || shorts->needed - shorts->room > worst->needed - worst->room))
            worst = shorts;
    }
    return worst;
}

/* The sum of the sets' median steps; all sets began at the same edges. */
static struct cap_fit_step step_of(const struct swapsim *sim)
{
    struct cap_fit_step step = {0};

    for (size_t i = 0; i < sim->count; i++) {
        const struct swapsim_step *median = swapsim_median(&sim->sets[i]);

        if (!median)
            continue;
        step.moved_in += median->moved_in;
        step.moved_out += median->moved_out;
        step.bound += sim->sets[i].bound;
        step.recorded_ns = max_of(step.recorded_ns, median->recorded_ns);
        step.waited_ns = max_of(step.waited_ns, median->waited_ns);
    }
    return step;
}

/* Simulates with the room that all other blocks leave. */
static int cap_fit_play(const struct work *work, struct trial *trial)
{
    struct rule live = trial->rule;
    struct swapsim_job job = {.trace = work->job->trace,
            .rules = &live,
            .rule_count = 1,
            .bandwidth = work->job->bandwidth};
    uint64_t room = work->job->size - trial->other;

    trial->rule.evict.cap = room / SWAPSIM_GRANULE * SWAPSIM_GRANULE;
    live.evict.cap = trial->rule.evict.cap;
    live.mode = HINT_LIVE;
    int r = swapsim_run(&job, &trial->sim);
    if (r != 0)
        return r;
    const struct swapsim_short *worst = worst_short(&trial->sim);
    const struct cap_fit_step step = step_of(&trial->sim);
    trial->lack = worst ? worst->needed - worst->room : 0;
    trial->moved = step.moved_in + step.moved_out;
    return 0;
}

/* 0, or -errno; a trial that is not exact is no hint. */
static int try_picks(const struct work *work, struct trial *trial)
{
    uint32_t *rule_of = vec_new(work->job->trace->block_count, sizeof(*rule_of));
    int r = 0;

    trial->is_exact = make_rule(work, trial->taken, &trial->rule)
            && match_blocks(work, &trial->rule, rule_of);
    if (trial->is_exact)
        r = other_of(work, rule_of, &trial->other);
    free(rule_of);
    if (!trial->is_exact || r != 0)
        return r;
    if (trial->other + SWAPSIM_GRANULE <= work->job->size)
        r = cap_fit_play(work, trial);
    else
        trial->lack = trial->other + SWAPSIM_GRANULE - work->job->size;
    trial->fits = r == 0 && trial->lack == 0;
    return r;
}

static bool cap_fit_is_better(const struct trial *one, const struct trial *than)
{
    if (one->lack != than->lack)
        return one->lack < than->lack;
    return one->moved < than->moved;
}

/* ---- choosing picks ---- */

/* The best hint with one more pick; *io_best with is_exact false: none yet. */
static int add_one(const struct work *work, const struct trial *now, struct trial *ret_best)
{
    size_t count = min_of(work->sites.pick_count, PICKS_MAX);
    int r = 0;

    *ret_best = (struct trial){.is_exact = false};
    for (size_t i = 0; i < count && r == 0; i++) {
        struct trial trial = {.is_exact = false};

        if (now->taken[i])
            continue;
        memcpy(trial.taken, now->taken, sizeof(trial.taken));
        trial.taken[i] = true;
        r = try_picks(work, &trial);
        if (r == 0 && trial.is_exact
                && (!ret_best->is_exact || cap_fit_is_better(&trial, ret_best))) {
            swapsim_done(&ret_best->sim);
            *ret_best = trial;
        } else {
            swapsim_done(&trial.sim);
        }
    }
    return r;
}

/* Few picks: a further one must make it fit, or save a good part of the moved bytes. */
static int cap_fit_choose(const struct work *work, struct trial *ret_chosen)
{
    struct trial next;
    int r;

    *ret_chosen = (struct trial){.is_exact = false};
    for (;;) {
        r = add_one(work, ret_chosen, &next);
        if (r != 0 || !next.is_exact
                || (ret_chosen->fits
                        && (!next.fits
                                || next.moved + ret_chosen->moved / 16 >= ret_chosen->moved)))
            break;
        swapsim_done(&ret_chosen->sim);
        *ret_chosen = next;
    }
    swapsim_done(&next.sim);
    return r;
}

/* ---- the answer ---- */

static void cap_fit_tell_failure(struct cap_fit *fit, const struct trial *trial)
{
    const struct swapsim_short *worst = worst_short(&trial->sim);

    fit->answer = CAP_FIT_NOTHING;
    if (!trial->is_exact)
        return;
    fit->answer = worst ? CAP_FIT_CALL : CAP_FIT_OTHER;
    fit->other = trial->other;
    if (worst) {
        fit->needed = worst->needed;
        fit->room = worst->room;
        fit->at = worst->at;
    }
}

static int tell_found(const struct work *work, const struct trial *trial)
{
    const struct trace *trace = work->job->trace;
    struct predict_beside beside = {
            .rule_of = trial->sim.rule_of, .in_most = trial->sim.in_most, .device = -1};
    struct predict_held held = {0};
    struct cap_fit *fit = work->fit;
    int r = predict_held(trace, NULL, 0, &beside, &held);

    fit->answer = CAP_FIT_FOUND;
    fit->rule = trial->rule;
    fit->other = trial->other;
    fit->reserved = held.reserved;
    fit->step = step_of(&trial->sim);
    for (size_t i = 0; i < trial->sim.count; i++)
        fit->host += trial->sim.sets[i].host_high;
    fit->picks = vec_new(PICKS_MAX, sizeof(*fit->picks));
    for (size_t i = 0; i < PICKS_MAX; i++)
        if (trial->taken[i])
            fit->picks[fit->pick_count++] = work->sites.picks[i];
    for (uint32_t i = 0; i < trace->block_count; i++) {
        if (trial->sim.rule_of[i] != TRACE_NONE)
            trace_sum_add(&fit->managed, trace->blocks[i].size);
        else if (work->sites.class_of[i] == CAP_SITES_LASTING)
            trace_sum_add(&fit->mixed, trace->blocks[i].size);
    }
    return r;
}

static int cap_fit_find_hint(struct work *work)
{
    struct trial trial = {.is_exact = false};
    int r = 0;

    for (int with_passing = 0; with_passing < 2 && r == 0 && !trial.fits; with_passing++) {
        progress_step((uint64_t)with_passing, 2);
        swapsim_done(&trial.sim);
        cap_sites_done(&work->sites);
        work->sites_job.with_passing = with_passing > 0;
        cap_sites_find(&work->sites_job, &work->sites);
        memcpy(work->fit->left, work->sites.left, sizeof(work->fit->left));
        r = cap_fit_choose(work, &trial);
    }
    if (r == 0 && trial.fits)
        r = tell_found(work, &trial);
    else if (r == 0)
        cap_fit_tell_failure(work->fit, &trial);
    swapsim_done(&trial.sim);
    return r;
}

static void find_devices(struct work *work)
{
    const struct trace *trace = work->job->trace;

    for (size_t i = 0; i < trace->block_count; i++) {
        int device = trace->blocks[i].device < 0 ? 0 : trace->blocks[i].device;
        bool is_known = false;

        for (size_t k = 0; k < work->device_count; k++)
            is_known = is_known || work->devices[k] == device;
        if (!is_known)
            VEC_PUSH(work->devices, work->device_count, work->device_room) = device;
    }
}

static int cap_fit_search(struct work *work)
{
    const struct stated_steps *steps = work->job->steps;
    struct cap_fit *fit = work->fit;
    int r = other_of(work, NULL, &fit->before);

    if (r != 0)
        return r;
    if (fit->before <= work->job->size) {
        fit->answer = CAP_FIT_FITS;
        return 0;
    }
    if (steps->count < CAP_FIT_STEPS_MIN) {
        fit->answer = CAP_FIT_FEW_STEPS;
        return 0;
    }
    if (!find_when(work->job, &work->when)) {
        fit->answer = CAP_FIT_MIXED_STEPS;
        return 0;
    }
    return cap_fit_find_hint(work);
}

int cap_fit_find(const struct cap_fit_job *job, struct cap_fit *ret_fit)
{
    struct work work = {.job = job, .fit = ret_fit};

    *ret_fit = (struct cap_fit){.answer = CAP_FIT_NOTHING};
    work.begins = vec_new(job->steps->count, sizeof(*work.begins));
    for (size_t i = 0; i < job->steps->count; i++)
        work.begins[i] = job->steps->spans[i].first;
    work.sites_job = (struct cap_sites_job){.trace = job->trace,
            .begins = work.begins,
            .begin_count = job->steps->count,
            .min_size = job->min_size};
    find_devices(&work);
    int r = cap_fit_search(&work);
    cap_sites_done(&work.sites);
    free(work.begins);
    free(work.devices);
    return r;
}

void cap_fit_done(struct cap_fit *fit)
{
    free(fit->picks);
    *fit = (struct cap_fit){.answer = CAP_FIT_NOTHING};
}

double cap_fit_slowdown(const struct cap_fit_step *step)
{
    if (step->recorded_ns == 0)
        return 0;
    return (double)(step->recorded_ns + step->waited_ns) / (double)step->recorded_ns;
}
