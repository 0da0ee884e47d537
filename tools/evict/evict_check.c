/* SPDX-License-Identifier: MIT */
#include "tools/evict/evict_check.h"

#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/evict/swapsim.h"

/*
 * Steps of a set are recorded from the one on in which its first block was made
 * (alloc/swap/swapstep.c), and simulated from 0 on.
 */
struct work {
    const struct read_capture *capture;
    struct rule *rules; /* in the run's order */
    bool *stays;        /* per block */
};

static bool evict_check_is_of(const struct read_evict *told, uint32_t rule, int device)
{
    return (uint32_t)told->rule == rule && told->what.device == device;
}

static uint64_t first_told(const struct read_capture *capture, uint32_t rule, int device)
{
    for (size_t i = 0; i < capture->evict_count; i++)
        if (evict_check_is_of(&capture->evict[i], rule, device))
            return capture->evict[i].what.step; /* they are in order */
    return 0;
}

/* The last cap that the run recorded up to this step, else the first one. */
static uint64_t told_cap(
        const struct read_capture *capture, uint32_t rule, int device, uint64_t step)
{
    uint64_t cap = UINT64_MAX;
    bool is_known = false;

    step += first_told(capture, rule, device);
    for (size_t i = 0; i < capture->evict_count; i++) {
        const struct read_evict *told = &capture->evict[i];

        if (!evict_check_is_of(told, rule, device) || (is_known && told->what.step > step))
            continue;
        cap = told->what.cap;
        is_known = true;
    }
    return cap;
}

static uint64_t cap_of(const void *self, uint32_t rule, int device, uint64_t step)
{
    const struct work *work = self;
    const struct rule_evict *what = &work->rules[rule].evict;

    if (what->cap > 0 && !what->less_other)
        return what->cap;
    return told_cap(work->capture, rule, device, step);
}

static void take_rules(
        struct work *work, const struct load *load, const struct rule *rules, size_t count)
{
    work->rules = vec_new(count, sizeof(*work->rules));
    for (size_t i = 0; i < count; i++) {
        work->rules[i] = rules[i];
        work->rules[i].mode = i < load->hint_count ? load->hints[i].mode : HINT_OFF;
        if (work->rules[i].mode == HINT_TRAP)
            work->rules[i].evict.policy = RULE_POLICY_CPU;
    }
}

/* Blocks are identified by the number of their allocation. */
static void mark_kept(struct work *work, const struct load *load)
{
    const struct trace *trace = load->trace;
    struct keytable kept = {0};

    work->stays = vec_new(trace->block_count, sizeof(*work->stays));
    for (size_t i = 0; i < load->capture->kept_count; i++)
        (void)keytable_at(&kept, (struct key){load->capture->kept[i].seq, 0, 0}, 0);
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];

        if (event->kind == TRACE_ALLOC && event->seq > 0
                && keytable_find(&kept, (struct key){event->seq, 0, 0}))
            work->stays[event->block] = true;
    }
    keytable_done(&kept);
}

static const struct read_evict *find_told(
        const struct read_capture *capture, const struct swapsim_set *set, uint64_t step)
{
    step += first_told(capture, set->rule, set->device);
    for (size_t i = 0; i < capture->evict_count; i++) {
        const struct read_evict *told = &capture->evict[i];

        if (evict_check_is_of(told, set->rule, set->device) && told->what.step == step)
            return told;
    }
    return NULL;
}

static void compare_set(
        const struct work *work, const struct swapsim_set *set, struct evict_check *moved)
{
    bool is_told = false;

    for (size_t i = 0; i < set->count; i++) {
        const struct swapsim_step *step = &set->steps[i];
        const struct read_evict *told = find_told(work->capture, set, step->step);

        if (!told)
            continue;
        is_told = true;
        moved->in += step->moved_in;
        moved->out += step->moved_out;
        if (told->what.moved_in != step->moved_in || told->what.moved_out != step->moved_out)
            VEC_PUSH(moved->wrong, moved->wrong_count, moved->wrong_room) =
                    (struct evict_check_step){told, step->moved_in, step->moved_out};
    }
    moved->untold += !is_told;
}

static const char *evict_check_trouble_of(const struct load *load)
{
    if (load->complete_from > 0)
        return load_lacks(load->capture);
    if (load->trace->use_count == 0)
        return "the capture has no order of uses (KEDGE_TRACE=full,uses=order records it)";
    return NULL;
}

int evict_check_compare(const struct load *load, const struct rule *rules, size_t count,
        struct evict_check *ret_moved)
{
    struct work work = {.capture = load->capture};
    struct swapsim_job job = {
            .trace = load->trace, .rule_count = count, .cap = cap_of, .self = &work};
    struct swapsim sim;

    *ret_moved = (struct evict_check){.trouble = evict_check_trouble_of(load)};
    if (ret_moved->trouble)
        return 0;
    take_rules(&work, load, rules, count);
    mark_kept(&work, load);
    job.rules = work.rules;
    job.stays = work.stays;
    int r = swapsim_run(&job, &sim);
    for (size_t i = 0; i < sim.count && r == 0; i++)
        compare_set(&work, &sim.sets[i], ret_moved);
    swapsim_done(&sim);
    free(work.rules);
    free(work.stays);
    return r;
}

void evict_check_done(struct evict_check *moved)
{
    free(moved->wrong);
    *moved = (struct evict_check){.wrong_count = 0};
}
