/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/args.h"
#include "tools/base/vec.h"
#include "tools/steps/growth.h"

static const struct {
    const char *name, *question;
    const struct rowpick_fields *fields; /* NULL: its rows cannot be selected */
} views[VIEW_COUNT] = {
        [VIEW_ALL] = {"all", "the whole report: how much, who made the peak, what is left?", NULL},
        [VIEW_HWM] = {"hwm", "who held the memory when most was live, by stack?",
                &report_live_fields},
        [VIEW_LIVE] = {"live", "what is live at the end, by stack?", &report_live_fields},
        [VIEW_LEAKS] = {"leaks", "what is live at the end, by stack and anchor, of all devices?",
                &report_places_fields},
        [VIEW_TEMPORARY] = {"temporary", "where is memory asked for that is freed at once?",
                &report_places_fields},
        [VIEW_OOM] = {"oom", "why did allocations fail, and who held the memory then?", NULL},
        [VIEW_HINTS] = {"hints", "what did each hint match, release and refuse?", NULL},
        [VIEW_LIBRARIES] = {"libraries", "which libraries asked, for how much?",
                &report_libraries_fields},
        [VIEW_CLASSES] = {"classes", "how much is pooled, managed, for graphs, on the host ...?",
                NULL},
        [VIEW_SOURCES] = {"sources",
                "who asked, by library, kind and place; what is on the device?",
                &report_libraries_fields},
        [VIEW_ANCHORS] = {"anchors", "how much did each anchor allocate, free and keep?",
                &report_anchors_fields},
        [VIEW_STEPS] = {"steps", "what does each step hold, and what grows from round to round?",
                NULL},
        [VIEW_PATTERNS] = {"patterns", "which memory is held for nothing, and what to do about it?",
                &report_patterns_fields},
        [VIEW_STREAMS] = {"streams", "on which stream, by its number, does who ask for memory?",
                NULL},
        [VIEW_EVICTION] = {"eviction", "what went out and came in, step by step; what stays in?",
                NULL},
        [VIEW_FRAGMENTS] = {"fragments", "which lines keep how much free memory from going back?",
                NULL},
};

enum view report_view_named(const char *name)
{
    return (enum view)args_find(ARGS_NAMES(views, name, VIEW_COUNT), name);
}

const char *report_view_nearest(const char *name)
{
    return args_nearest(ARGS_NAMES(views, name, VIEW_COUNT), name);
}

void report_views_explain(void)
{
    puts("\nviews:");
    for (unsigned i = 0; i < VIEW_COUNT; i++)
        printf("  %-10s %s\n", views[i].name, views[i].question);
}

const struct rowpick_fields *report_view_fields(enum view view)
{
    return views[view].fields;
}

static uint64_t count_anchors(const struct report *report)
{
    uint64_t count = 0;

    for (size_t i = 1; i < report->load.trace->anchor_count; i++)
        count += report_has_anchor(report, i);
    return count;
}

static uint64_t count_places(const struct report *report, bool is_live)
{
    uint64_t count = 0;

    for (size_t i = 0; i < report->load.place_count && !report->from && !report->to; i++) {
        const struct read_place *place = report->load.places[i].what;
        count += is_live ? place->live_count != 0 : place->temporary_count != 0;
    }
    return count;
}

/* Prints nothing without a text. */
static void report_views_print_word(const char *before, const char *text)
{
    char *word = text ? render_word(text) : NULL;

    if (word)
        render_print(stdout, "%s%s", before, word);
    free(word);
}

static void report_views_print_start(const struct report *report)
{
    report_views_print_word("  kedge report ", report->path);
    report_views_print_word(" --from ", report->from);
    report_views_print_word(" --to ", report->to);
}

static void print_command(const struct report *report, enum view view)
{
    report_views_print_start(report);
    printf(" --view %-10s ", views[view].name);
}

/* "429 anchors", "1 place with memory left"; nothing for a count of 0. */
static void print_view(const struct report *report, enum view view, uint64_t count,
        const char *noun, const char *more)
{
    if (count == 0)
        return;
    print_command(report, view);
    printf("%" PRIu64 " %s%s%s\n", count, noun, render_s(count), more);
}

/* Steps that were stated, and what grows; else the view looks for steps. */
static void print_steps_view(const struct report *report)
{
    struct growth growth;

    growth_find(&report->load, report->window, &report->stated, &growth);
    size_t growers = growth.counts[TREND_GROWS];
    char *more = growers ? vec_format("; %zu call site%s grow%s", growers, render_s(growers),
                         growers == 1 ? "s" : "")
                         : vec_text("");

    if (report->stated.origin == STEPVIEW_STATED && report->stated.row_count) {
        print_view(report, VIEW_STEPS, report->stated.row_count, "step", more);
    } else if (!report_lacks_events(report)) {
        print_command(report, VIEW_STEPS);
        puts("looks for steps");
    }
    growth_done(&growth);
    free(more);
}

/* Views that the whole report has, and the first screen has not. */
static void print_not_whole(const struct report *report)
{
    if (report->load.capture->oom_count)
        print_view(report, VIEW_OOM, report->load.capture->oom_count, "failed request",
                ", and what was there");
    print_view(report, VIEW_HINTS, report->load.hint_count, "hint", "");
}

void report_views_print(const struct report *report)
{
    const struct read_capture *capture = report->load.capture;
    uint64_t allocated = report->figures.allocated_count;

    if (allocated == 0)
        return;
    printf("\n%s%s:%s\n", report->ink.bold, report->is_whole ? "More" : "Next", report->ink.off);
    if (!report->is_whole)
        print_not_whole(report);
    else if (capture->oom_count > 1)
        print_view(report, VIEW_OOM, capture->oom_count, "failed request", "");
    print_steps_view(report);
    print_view(report, VIEW_EVICTION, capture->evict_count, "step", " of eviction");
    print_view(report, VIEW_LEAKS, count_places(report, true), "place", " with memory left");
    if (capture->unseen.is_on)
        print_view(report, VIEW_PATTERNS, allocated, "block", " by patterns of use");
    if (!report->is_whole) {
        report_views_print_start(report);
        puts(" --all             all else: stacks, libraries, device");
        if (report->tensors) {
            report_views_print_start(report);
            puts(" --tensors --all   the same of tensors instead of segments");
        }
        return;
    }
    print_view(report, VIEW_ANCHORS, count_anchors(report), "anchor", "");
    print_view(report, VIEW_SOURCES, allocated, "request", " by library and kind");
    print_view(report, VIEW_TEMPORARY, count_places(report, false), "place", " of brief blocks");
}
