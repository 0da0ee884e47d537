/* SPDX-License-Identifier: MIT */
#include "tools/evict/evictsets.h"

#include <stdlib.h>

#include "tools/base/vec.h"

static struct evictsets_set *evictsets_set_of(struct evictsets *sets, int rule, int device)
{
    for (size_t i = 0; i < sets->count; i++)
        if (sets->at[i].rule == rule && sets->at[i].device == device)
            return &sets->at[i];
    VEC_PUSH(sets->at, sets->count, sets->room) =
            (struct evictsets_set){.rule = rule, .device = device};
    return &sets->at[sets->count - 1];
}

static void evictsets_add_step(struct evictsets_set *set, const struct read_evict *step)
{
    if (set->count == 0)
        set->step = step;
    if (set->warm_up == set->count && !(step->what.flags & FORMAT_EVICT_PLANNED))
        set->warm_up++;
    set->count++;
    if (!(step->what.flags & FORMAT_EVICT_RUNNING))
        set->ended = set->count;
}

/* The reader has the steps of a set next to each other. */
struct evictsets evictsets_find(const struct read_capture *capture)
{
    struct evictsets sets = {0};

    for (size_t i = 0; i < capture->evict_count; i++)
        evictsets_add_step(
                evictsets_set_of(&sets, capture->evict[i].rule, capture->evict[i].what.device),
                &capture->evict[i]);
    for (size_t i = 0; i < capture->kept_count; i++)
        (void)evictsets_set_of(&sets, capture->kept[i].rule, capture->kept[i].device);
    for (size_t i = 0; i < capture->short_count; i++)
        (void)evictsets_set_of(&sets, capture->shorts[i].rule, capture->shorts[i].device);
    return sets;
}

void evictsets_done(struct evictsets *sets)
{
    free(sets->at);
    *sets = (struct evictsets){0};
}

static int evictsets_by_moved(const void *left, const void *right)
{
    const struct format_evict *a = *(const struct format_evict *const *)left;
    const struct format_evict *b = *(const struct format_evict *const *)right;

    return vec_order(
            a->moved_in + a->moved_out, b->moved_in + b->moved_out, vec_order(a->step, b->step, 0));
}

const struct format_evict *evictsets_median(const struct evictsets_set *set)
{
    size_t count = set->ended > set->warm_up ? set->ended - set->warm_up : 0;
    const struct format_evict **rows = vec_new(count, sizeof(const struct format_evict *));

    for (size_t i = 0; i < count; i++)
        rows[i] = &set->step[set->warm_up + i].what;
    vec_sort((void *)rows, count, sizeof(const struct format_evict *), evictsets_by_moved);
    const struct format_evict *median = count ? rows[(count - 1) / 2] : NULL;
    free((void *)rows);
    return median;
}

struct format_evict evictsets_sum(const struct evictsets_set *set)
{
    struct format_evict sum = {0};

    for (size_t i = 0; i < set->count; i++) {
        const struct format_evict *what = &set->step[i].what;

        sum.moved_in += what->moved_in;
        sum.moved_out += what->moved_out;
        sum.count_in += what->count_in;
        sum.count_out += what->count_out;
        sum.dropped += what->dropped;
        sum.late += what->late;
        sum.layout_ns += what->layout_ns;
        sum.evict_ns += what->evict_ns;
        sum.stall_ns += what->stall_ns;
        sum.in_bytes_high = max_of(sum.in_bytes_high, what->in_bytes_high);
    }
    return sum;
}

uint64_t evictsets_bound(const struct format_evict *what)
{
    return what->bound || what->flags & FORMAT_EVICT_PLANNED ? what->bound : UINT64_MAX;
}

bool evictsets_is_paper(const struct evictsets_set *set)
{
    return set->count && set->step[set->count - 1].what.flags & FORMAT_EVICT_PAPER;
}

bool evictsets_is_short(const struct read_short *what, const struct evictsets_set *set)
{
    return what->rule == set->rule && what->device == set->device;
}

const struct read_short *evictsets_most_short(
        const struct read_capture *capture, const struct evictsets_set *set, uint64_t *ret_count)
{
    const struct read_short *most = NULL;

    *ret_count = 0;
    for (size_t i = 0; i < capture->short_count; i++) {
        const struct read_short *what = &capture->shorts[i];

        if (!evictsets_is_short(what, set))
            continue;
        (*ret_count)++;
        if (!most || what->needed > most->needed)
            most = what;
    }
    return most;
}

const char *evictsets_label(const struct evictsets_set *set, size_t number)
{
    if (number >= set->ended)
        return "unfinished";
    return number < set->warm_up && set->warm_up < set->count ? "warm-up" : "step";
}

/* ---- blocks that stay ---- */

static const struct {
    const char *word, *text;
} whys[FORMAT_KEPT_COUNT] = {
        [FORMAT_KEPT_NONE] = {"unknown", "for a reason that this kedge does not know"},
        [FORMAT_KEPT_GRAPH] = {"graph", "named by a graph"},
        [FORMAT_KEPT_SHOWN] = {"shown", "shown to another process or library"},
        [FORMAT_KEPT_REGISTERED] = {"registered", "registered with NCCL"},
        [FORMAT_KEPT_POINTER] = {"pointer", "pointed to from data on the device"},
        [FORMAT_KEPT_UNTOLD] = {"untold_launch",
                "live at a launch whose parameters the driver does not tell"},
        [FORMAT_KEPT_HINT] = {"pin", "held by a pin hint"},
        [FORMAT_KEPT_HOST] = {"host_memory", "no host memory for the content"},
        [FORMAT_KEPT_DRIVER] = {"driver", "refused by the driver"},
        [FORMAT_KEPT_UNUSED] = {"unused",
                "named by no call in the step that was learnt (while there is room)"},
        [FORMAT_KEPT_NEEDED] = {"needed", "named by a call after its release, and brought back"},
};

const char *evictsets_why_text(enum format_kept_why why)
{
    return whys[why].text;
}

const char *evictsets_why_word(enum format_kept_why why)
{
    return whys[why].word;
}

static int evictsets_largest_first(const void *left, const void *right)
{
    const struct evictsets_kept *a = left;
    const struct evictsets_kept *b = right;

    int order = vec_order(a->why, b->why, vec_order(a->stack, b->stack, 0));

    return vec_order(b->sum.bytes, a->sum.bytes, order);
}

struct evictsets_kept *evictsets_group_kept(
        const struct load *load, const struct evictsets_set *set, size_t *ret_count)
{
    const struct read_capture *capture = load->capture;
    struct evictsets_kept *groups = vec_new(capture->kept_count, sizeof(*groups));
    size_t count = 0;

    for (size_t i = 0; i < capture->kept_count; i++) {
        const struct read_kept *kept = &capture->kept[i];
        size_t at = 0;

        if (kept->rule != set->rule || kept->device != set->device)
            continue;
        while (at < count
                && (groups[at].stack != load->kept_stacks[i] || groups[at].why != kept->why))
            at++;
        if (at == count)
            groups[count++] = (struct evictsets_kept){
                    .stack = load->kept_stacks[i], .why = kept->why, .anchor = kept->path};
        trace_sum_add(&groups[at].sum, kept->size);
    }
    VEC_SORT(groups, count, evictsets_largest_first);
    *ret_count = count;
    return groups;
}
