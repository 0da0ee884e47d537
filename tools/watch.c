/* SPDX-License-Identifier: MIT */
#include "tools/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/cmd.h"
#include "tools/load.h"
#include "tools/report.h"
#include "tools/stacks.h"

static uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- call sites ----------------------------------------------------------------------------- */

static struct key site_key(uint32_t stack, uint32_t pystack, bool is_other)
{
    return (struct key){stack, pystack, is_other};
}

static void add_place(struct watch_site *site, const struct read_place *place)
{
    site->stack = place->stack;
    site->pystack = place->pystack;
    site->is_other = place->is_other;
    site->live_bytes += place->live_bytes;
    site->live_count += place->live_count;
    site->peak_bytes += place->peak_bytes;
    site->allocated_bytes += place->allocated_bytes;
    site->allocated_count += place->allocated_count;
}

/* Allocations since the look before, and this look's counts for the next one. Numbers of stacks never change in a file. */
static void add_recent(struct watch *watch, struct watch_site *site, bool is_first)
{
    uint32_t at =
            keytable_number(&watch->counts, site_key(site->stack, site->pystack, site->is_other));

    watch->count_of =
            vec_grow(watch->count_of, (size_t)at + 1, sizeof(*watch->count_of), &watch->count_room);
    if (!is_first && site->allocated_count > watch->count_of[at])
        site->recent_count = site->allocated_count - watch->count_of[at];
    watch->count_of[at] = site->allocated_count;
}

static void list_sites(struct watch *watch, bool is_first)
{
    const struct read_capture *capture = watch->capture;
    struct keytable index = {0};

    free(watch->sites);
    watch->sites = vec_new(capture->place_count, sizeof(*watch->sites));
    for (size_t i = 0; i < capture->place_count; i++) {
        const struct read_place *place = &capture->place[i];
        struct key key = site_key(place->stack, place->pystack, place->is_other);
        if (place->allocated_count == 0)
            continue;
        add_place(&watch->sites[keytable_number(&index, key)], place);
    }
    watch->site_count = keytable_count(&index);
    keytable_done(&index);
    for (size_t i = 0; i < watch->site_count; i++)
        add_recent(watch, &watch->sites[i], is_first);
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a < b) - (a > b);
}

static int by_live(const void *left, const void *right)
{
    const struct watch_site *a = left;
    const struct watch_site *b = right;
    int r = compare_u64(a->live_bytes, b->live_bytes);

    r = r ? r : compare_u64(a->allocated_bytes, b->allocated_bytes);
    r = r ? r : compare_u64(b->stack, a->stack);
    return r ? r : compare_u64(b->pystack, a->pystack);
}

static int by_peak(const void *left, const void *right)
{
    const struct watch_site *a = left;
    const struct watch_site *b = right;
    int r = compare_u64(a->peak_bytes, b->peak_bytes);

    return r ? r : by_live(left, right);
}

static int by_rate(const void *left, const void *right)
{
    const struct watch_site *a = left;
    const struct watch_site *b = right;
    int r = compare_u64(a->recent_count, b->recent_count);

    return r ? r : by_live(left, right);
}

void watch_sort(struct watch *watch, enum watch_order order)
{
    static int (*const compare[WATCH_ORDER_COUNT])(const void *, const void *) = {
            [WATCH_LIVE] = by_live, [WATCH_PEAK] = by_peak, [WATCH_RATE] = by_rate};

    watch->order = order;
    VEC_SORT(watch->sites, watch->site_count, compare[order]);
}

/* Its stack in the book; the capture is asked once. */
static uint32_t book_stack(struct watch *watch, const struct watch_site *site)
{
    struct key key = site_key(site->stack, site->pystack, site->is_other);
    uint32_t known = sitebook_find(&watch->book, key);

    if (known != SITEBOOK_NONE)
        return known;
    struct trace *trace = trace_new();
    struct stacks stacks = {.capture = watch->capture, .trace = trace};
    known = sitebook_add(
            &watch->book, key, trace, stacks_number(&stacks, site->stack, site->pystack));
    stacks_done(&stacks);
    trace_free(trace);
    return known == SITEBOOK_NONE ? 0 : known;
}

char **watch_titles(struct watch *watch, size_t count)
{
    uint32_t *stacks = vec_new(count, sizeof(*stacks));

    for (size_t i = 0; i < count; i++)
        stacks[i] = book_stack(watch, &watch->sites[i]);
    char **titles = title_rows(watch->symbols, stacks, sizeof(*stacks), 0, count);
    for (size_t i = 0; i < count; i++) {
        if (!watch->sites[i].is_other)
            continue;
        free(titles[i]);
        titles[i] = vec_text("(places beyond the bound of the table)");
    }
    free(stacks);
    return titles;
}

/* ---- hints, anchor, rates ------------------------------------------------------------------- */

static bool is_released(enum format_hint_what what)
{
    return what == FORMAT_HINT_DEAD || what == FORMAT_HINT_UNMAPPED
            || what == FORMAT_HINT_WOULD_RELEASE;
}

static void list_hints(struct watch *watch)
{
    const struct read_capture *capture = watch->capture;

    free(watch->hints);
    watch->hint_count = capture->rule_count;
    watch->hints = vec_new(watch->hint_count, sizeof(*watch->hints));
    for (size_t i = 0; i < watch->hint_count; i++)
        watch->hints[i].rule = &capture->rule[i];
    for (size_t i = 0; i < capture->live_count; i++) {
        const struct read_live *live = &capture->live[i];
        if (live->rule < 0 || (size_t)live->rule >= watch->hint_count)
            continue;
        trace_sum_add(&watch->hints[live->rule].matched, live->size);
        if (is_released(live->hint))
            trace_sum_add(&watch->hints[live->rule].released, live->size);
    }
}

static bool says_where(const struct read_event *event)
{
    return event->kind == FORMAT_EVENT_ALLOC || event->kind == FORMAT_EVENT_OTHER_ALLOC
            || event->kind == FORMAT_EVENT_EDGE || event->kind == FORMAT_EVENT_CALL
            || event->kind == FORMAT_EVENT_LAUNCH || event->kind == FORMAT_EVENT_OOM;
}

/* Where the newest event was. Behind an exit the program is in what was open around it. */
static void find_anchor(struct watch *watch)
{
    const struct read_capture *capture = watch->capture;

    free(watch->anchor);
    watch->anchor = NULL;
    for (size_t i = capture->event_count; i > 0 && !watch->anchor; i--) {
        const struct read_event *event = &capture->event[i - 1];
        bool is_exit = event->kind == FORMAT_EVENT_EDGE && event->edge != EDGE_ENTER;
        const char *slash = is_exit ? strrchr(event->path, '/') : NULL;
        if (!says_where(event))
            continue;
        watch->anchor_instance = is_exit ? 0 : event->instance;
        watch->anchor = slash ? vec_format("%.*s", (int)(slash - event->path), event->path)
                : is_exit     ? vec_text("")
                              : vec_text(event->path);
    }
}

static double rate(uint64_t before, uint64_t now, double seconds)
{
    return now > before ? (double)(now - before) / seconds : 0;
}

static struct watch_rates rates_of(
        const struct read_capture *before, const struct read_capture *now, uint64_t elapsed_ns)
{
    double seconds = (double)elapsed_ns / 1e9;

    if (!before || elapsed_ns == 0)
        return (struct watch_rates){.is_known = false};
    return (struct watch_rates){.is_known = true,
            .seconds = seconds,
            .allocations = rate(before->total.allocated_count, now->total.allocated_count, seconds),
            .frees = rate(before->total.freed_count, now->total.freed_count, seconds),
            .bytes = rate(before->total.allocated_bytes, now->total.allocated_bytes, seconds)};
}

static void remember(struct watch *watch)
{
    if (watch->history_count == WATCH_HISTORY)
        memmove(watch->history, watch->history + 1, (WATCH_HISTORY - 1) * sizeof(*watch->history));
    else
        watch->history_count++;
    watch->history[watch->history_count - 1] = watch->capture->total.live_bytes;
}

/* ---- the peaks of a run that has ended ------------------------------------------------------ */

static struct key place_of_file(const struct read_place *place)
{
    return (struct key){(uint64_t)place->stack << 32 | place->pystack,
            (uint64_t)place->path_number << 32 | (uint32_t)place->device, place->is_other};
}

static void take_over(const struct read_capture *from, struct read_capture *to)
{
    struct keytable places = {0};

    to->total = from->total;
    to->peak_stored_512 = from->peak_stored_512;
    memcpy(to->device_total, from->device_total, sizeof(to->device_total));
    memcpy(to->class_total, from->class_total, sizeof(to->class_total));
    memcpy(to->high, from->high, sizeof(to->high));
    for (uint32_t i = 0; i < from->place_count; i++)
        (void)keytable_at(&places, place_of_file(&from->place[i]), i);
    for (size_t i = 0; i < to->place_count; i++) {
        const uint32_t *at = keytable_find(&places, place_of_file(&to->place[i]));
        if (!at)
            continue;
        to->place[i].peak_bytes = from->place[*at].peak_bytes;
        to->place[i].peak_count = from->place[*at].peak_count;
        to->place[i].high_bytes = from->place[*at].high_bytes;
        to->place[i].high_count = from->place[*at].high_count;
    }
    keytable_done(&places);
}

/* As every view of the whole capture has them (inorder.h): a look has some parts of it alone. */
static void watch_settle(const char *path, struct read_capture *capture)
{
    struct load load = {0};

    if (capture->counted_late == 0 || load_open(path, &load) != 0)
        return;
    if (load.capture->pid == capture->pid)
        take_over(load.capture, capture);
    load_close(&load);
}

/* ---- looks ---------------------------------------------------------------------------------- */

static int open_capture(const struct watch *watch, struct read_capture **ret_capture)
{
    struct read_error error = {.text = ""};
    unsigned parts = READ_NEWEST | READ_FAILURES | READ_PLACES;
    int r;

    /* which hint matched what is only in the live table */
    if (!watch->capture || watch->capture->rule_count)
        parts |= READ_LIVE;
    r = read_open_parts(watch->path, parts, ret_capture, &error);
    if (r == 0)
        return CMD_DONE;
    (void)fprintf(stderr, "kedge: %s: %s\n", watch->path, *error.text ? error.text : strerror(-r));
    return CMD_BAD;
}

static bool is_same_run(const struct read_capture *a, const struct read_capture *b)
{
    return a->pid == b->pid && a->start_real_ns == b->start_real_ns;
}

int watch_look(struct watch *watch)
{
    struct read_capture *capture;
    bool has_ended =
            running_has_ended(&watch->running); /* before the look: it has all of the run then */
    int r = open_capture(watch, &capture);
    uint64_t now = now_ns();

    if (r != CMD_DONE)
        return r;
    if (watch->capture && !is_same_run(watch->capture, capture)) {
        read_close(capture);
        watch->has_ended = watch->is_replaced = true;
        return CMD_DONE;
    }
    bool is_first = watch->capture == NULL;
    watch->has_ended = has_ended || capture->state == FORMAT_STATE_CLEAN;
    if (watch->has_ended)
        watch_settle(watch->path, capture);
    watch->rates = rates_of(watch->capture, capture, now - watch->looked_ns);
    read_close(watch->capture);
    watch->capture = capture;
    watch->looked_ns = now;
    list_sites(watch, is_first);
    watch_sort(watch, watch->order);
    list_hints(watch);
    find_anchor(watch);
    remember(watch);
    return CMD_DONE;
}

int watch_open(const char *path, enum watch_order order, struct watch *ret_watch)
{
    struct read_capture *header;
    int r;

    *ret_watch = (struct watch){
            .path = vec_text(path), .running = {.fd = -1}, .order = order, .book = sitebook_new()};
    ret_watch->symbols = symbols_new(ret_watch->book.trace);
    r = open_capture(ret_watch, &header);
    if (r != CMD_DONE)
        return r;
    ret_watch->running = running_of(path, header->host, (pid_t)header->pid);
    read_close(header);
    return watch_look(ret_watch);
}

void watch_close(struct watch *watch)
{
    running_done(&watch->running);
    read_close(watch->capture);
    symbols_free(watch->symbols);
    sitebook_done(&watch->book);
    keytable_done(&watch->counts);
    free(watch->count_of);
    free(watch->sites);
    free(watch->hints);
    free(watch->anchor);
    free(watch->path);
}

static char *state_of(const struct watch *watch)
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

char *watch_state(const struct watch *watch)
{
    char *state = state_of(watch);
    char *more;

    if (!read_is_damaged(watch->capture))
        return state;
    more = vec_format("%s; the capture is damaged: figures are wrong or incomplete", state);
    free(state);
    return more;
}
