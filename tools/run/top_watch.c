/* SPDX-License-Identifier: MIT */
#include "tools/run/top_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/base/cmdexit.h"
#include "tools/load/load.h"
#include "tools/report/report.h"
#include "tools/trace/stacks.h"

static const struct rowpick_field fields[] = {
        ROWPICK_UINT("live", struct top_watch_site, live_bytes),
        ROWPICK_UINT("peak", struct top_watch_site, peak_bytes),
        ROWPICK_UINT("rate", struct top_watch_site, recent_count)};
const struct rowpick_fields top_watch_fields = ROWPICK_FIELDS(fields);

static uint64_t top_watch_now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- call sites ----------------------------------------------------------------------------- */

/* Numbers of stacks never change in a file, so a site is found again in the next look. */
static struct top_watch_site *top_watch_site_of(
        struct top_watch *watch, struct stacks *stacks, const struct read_place *place)
{
    struct key key = {place->stack, place->pystack, place->is_other};
    uint32_t at = keytable_number(&watch->index, key);

    if (at == watch->site_count) {
        uint32_t stack = sitebook_add(&watch->book, key, stacks->trace,
                stacks_number(stacks, place->stack, place->pystack));
        VEC_PUSH(watch->sites, watch->site_count, watch->site_room) = (struct top_watch_site){
                .stack = stack == SITEBOOK_NONE ? 0 : stack, .is_other = place->is_other};
    }
    return &watch->sites[at];
}

static void top_watch_add_place(struct top_watch_site *site, const struct read_place *place)
{
    site->live_bytes += place->live_bytes;
    site->live_count += place->live_count;
    site->peak_bytes += place->peak_bytes;
    site->allocated_bytes += place->allocated_bytes;
    site->allocated_count += place->allocated_count;
}

static void top_watch_add_places(struct top_watch *watch)
{
    const struct read_capture *capture = watch->capture;
    struct stacks stacks = {.capture = capture, .trace = trace_new()};

    for (size_t i = 0; i < watch->site_count; i++)
        watch->sites[i] = (struct top_watch_site){.stack = watch->sites[i].stack,
                .is_other = watch->sites[i].is_other,
                .before_count = watch->sites[i].allocated_count};
    for (size_t i = 0; i < capture->place_count; i++)
        if (capture->place[i].allocated_count)
            top_watch_add_place(
                    top_watch_site_of(watch, &stacks, &capture->place[i]), &capture->place[i]);
    trace_free(stacks.trace);
    stacks_done(&stacks);
}

static void top_watch_list_sites(struct top_watch *watch)
{
    top_watch_add_places(watch);
    free(watch->rows);
    watch->rows = vec_new(watch->site_count, sizeof(*watch->rows));
    for (size_t i = 0; i < watch->site_count; i++) {
        struct top_watch_site *site = &watch->sites[i];
        if (watch->seconds > 0)
            site->recent_count = excess_of(site->allocated_count, site->before_count);
        watch->rows[i] = *site;
    }
    rowpick_sort(watch->rows, watch->site_count, sizeof(*watch->rows), &fields[0]);
    rowpick_sort(watch->rows, watch->site_count, sizeof(*watch->rows), watch->sort);
}

char **top_watch_titles(struct top_watch *watch, size_t count)
{
    char **titles = title_rows(watch->symbols, TITLE_STACKS(watch->rows), count);

    for (size_t i = 0; i < count; i++) {
        if (!watch->rows[i].is_other)
            continue;
        free(titles[i]);
        titles[i] = vec_text("(places beyond the bound of the table)");
    }
    return titles;
}

/* ---- the anchor ----------------------------------------------------------------------------- */

static bool says_where(const struct read_event *event)
{
    return event->kind == FORMAT_EVENT_ALLOC || event->kind == FORMAT_EVENT_OTHER_ALLOC
            || event->kind == FORMAT_EVENT_EDGE || event->kind == FORMAT_EVENT_CALL
            || event->kind == FORMAT_EVENT_LAUNCH || event->kind == FORMAT_EVENT_OOM;
}

/* The anchor of the newest event. After an exit the program is in the anchor around it. */
static void find_anchor(struct top_watch *watch, const struct read_capture *capture)
{
    free(watch->anchor);
    watch->anchor = NULL;
    watch->anchor_instance = 0;
    for (size_t i = capture->event_count; i > 0 && !watch->anchor; i--) {
        const struct read_event *event = &capture->event[i - 1];
        bool is_exit = event->kind == FORMAT_EVENT_EDGE && event->edge != EDGE_ENTER;
        const char *slash = is_exit ? strrchr(event->path, '/') : NULL;
        if (!says_where(event))
            continue;
        if (!is_exit)
            watch->anchor_instance = event->instance;
        watch->anchor = slash ? vec_format("%.*s", (int)(slash - event->path), event->path)
                : is_exit     ? vec_text("")
                              : vec_text(event->path);
    }
}

/* ---- looks ---------------------------------------------------------------------------------- */

static int open_capture(const struct top_watch *watch, struct read_capture **ret_capture)
{
    struct read_error error = {.text = ""};
    int r = read_open_parts(
            watch->path, READ_NEWEST | READ_FAILURES | READ_PLACES, ret_capture, &error);

    if (r == 0)
        return CMD_DONE;
    (void)fprintf(stderr, "kedge: %s: %s\n", watch->path, *error.text ? error.text : strerror(-r));
    return CMD_BAD;
}

static bool is_same_run(const struct read_capture *a, const struct read_capture *b)
{
    return a->pid == b->pid && a->start_real_ns == b->start_real_ns;
}

/* If a run has ended, its peaks are those of all views (inorder.h), which need all events. */
static void top_watch_settle(const char *path, struct read_capture **io_capture)
{
    struct read_capture *parts = *io_capture;
    struct load load = {0};

    if (parts->counted_late == 0 || load_open(path, &load) != 0)
        return;
    if (is_same_run(load.capture, parts)) {
        *io_capture = load.capture;
        load.capture = parts;
    }
    load_close(&load);
}

/* Takes ownership of the capture. */
static void top_watch_take_look(struct top_watch *watch, struct read_capture *capture)
{
    uint64_t now = top_watch_now_ns();

    find_anchor(watch, capture);
    if (watch->has_ended)
        top_watch_settle(watch->path, &capture);
    if (watch->capture) {
        watch->before = watch->capture->total;
        watch->seconds = (double)(now - watch->looked_ns) / 1e9;
    }
    read_close(watch->capture);
    watch->capture = capture;
    watch->looked_ns = now;
    top_watch_list_sites(watch);
}

int top_watch_look(struct top_watch *watch)
{
    struct read_capture *capture;
    bool has_ended = top_process_has_ended(
            &watch->running); /* before the look, which then covers the whole run */
    int r = open_capture(watch, &capture);

    if (r != CMD_DONE)
        return r;
    if (watch->capture && !is_same_run(watch->capture, capture)) {
        read_close(capture);
        watch->has_ended = watch->is_replaced = true;
        return CMD_DONE;
    }
    watch->has_ended = has_ended || capture->state == FORMAT_STATE_CLEAN;
    top_watch_take_look(watch, capture);
    return CMD_DONE;
}

int top_watch_open(const char *path, const struct rowpick_field *sort, struct top_watch *ret_watch)
{
    struct read_capture *header;
    int r;

    *ret_watch = (struct top_watch){
            .path = vec_text(path), .running = {.fd = -1}, .sort = sort, .book = sitebook_new()};
    ret_watch->symbols = symbols_new(ret_watch->book.trace);
    r = open_capture(ret_watch, &header);
    if (r != CMD_DONE)
        return r;
    ret_watch->running = top_process_of(path, header->host, (pid_t)header->pid);
    read_close(header);
    return top_watch_look(ret_watch);
}

void top_watch_close(struct top_watch *watch)
{
    top_process_done(&watch->running);
    read_close(watch->capture);
    symbols_free(watch->symbols);
    sitebook_done(&watch->book);
    keytable_done(&watch->index);
    free(watch->sites);
    free(watch->rows);
    free(watch->anchor);
    free(watch->path);
}

static char *top_watch_state_of(const struct top_watch *watch)
{
    if (watch->is_replaced)
        return vec_text("another run writes this file now");
    if (!watch->has_ended)
        return vec_text(watch->running.is_known ? "running" : "running, or killed on its host");
    if (watch->capture->state == FORMAT_STATE_OPEN || watch->capture->state == FORMAT_STATE_OOM)
        return vec_format("killed, or ended without a word%s",
                watch->capture->oom_count ? "; it had run out of memory" : "");
    return report_end_text(watch->capture);
}

char *top_watch_state(const struct top_watch *watch)
{
    char *state = top_watch_state_of(watch);
    char *more;

    if (!read_is_damaged(watch->capture))
        return state;
    more = vec_format("%s; the capture is damaged: figures are wrong or incomplete", state);
    free(state);
    return more;
}
