/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

#define STACK_LINES        8
#define REPORT_OOM_ON_PAGE 1u /* the last one */

/* ---- the largest holders ---- */

/*
 * Holders with the same way through the program, together: two native ways to a Python function are
 * one.
 */
struct report_owner {
    char *way;      /* title.h */
    uint32_t stack; /* of the first */
    uint64_t bytes, count;
};

struct report_owners {
    struct report_owner *list; /* most bytes first, FORMAT_OOM_HOLDERS at most */
    size_t count;
    uint64_t other_bytes; /* of all others */
};

static const struct vec_key report_oom_by_bytes[] = {VEC_DOWN(struct report_owner, bytes)};

/* All blocks live then; equal ways are joined. */
static void owners_of_events(
        const struct report *report, const struct load_oom *oom, struct report_owners *owners)
{
    size_t count;
    struct model_live *rows = model_live_by_stack(report->load.trace, oom->device, oom->at, &count);
    char **ways = title_ways(report->symbols, TITLE_STACKS(rows), count);
    struct keytable index = {0};
    size_t room = 0;

    owners->list = vec_grow(NULL, 1, sizeof(*owners->list), &room);
    for (size_t i = 0; i < count; i++) {
        uint32_t at = keytable_number(&index, keytable_text(ways[i]));

        if (at == owners->count)
            VEC_PUSH(owners->list, owners->count, room) =
                    (struct report_owner){.way = vec_text(ways[i]), .stack = rows[i].stack};
        owners->list[at].bytes += rows[i].bytes;
        owners->list[at].count += rows[i].count;
    }
    keytable_done(&index);
    title_done(ways, count);
    free(rows);
    VEC_SORT_BY(owners->list, owners->count, report_oom_by_bytes);
    for (; owners->count > FORMAT_OOM_HOLDERS; owners->count--) {
        owners->other_bytes += owners->list[owners->count - 1].bytes;
        free(owners->list[owners->count - 1].way);
    }
}

/*
 * The record has only the largest stacks. If several of them share a way, others may be missing, so
 * each stack is a row.
 */
static void owners_of_record(
        const struct report *report, const struct load_oom *oom, struct report_owners *owners)
{
    char **titles = title_rows(report->symbols, TITLE_STACKS(oom->holder), oom->holder_count);

    owners->list = vec_new(oom->holder_count, sizeof(*owners->list));
    owners->count = oom->holder_count;
    for (unsigned i = 0; i < oom->holder_count; i++)
        owners->list[i] = (struct report_owner){.way = vec_text(titles[i]),
                .stack = oom->holder[i].stack,
                .bytes = oom->holder[i].bytes,
                .count = oom->holder[i].count};
    title_done(titles, oom->holder_count);
    VEC_SORT_BY(owners->list, owners->count, report_oom_by_bytes);
    owners->other_bytes = oom->why->what.other_bytes;
}

/*
 * The largest holders on the device when an allocation failed, for a failure with a record: from
 * the events or, if these are missing, the record's largest stacks, each by itself.
 * report_oom_owners_done frees them.
 */
static struct report_owners report_oom_owners(
        const struct report *report, const struct load_oom *oom)
{
    struct report_owners owners = {0};

    if (report_oom_is_told(report, oom))
        owners_of_events(report, oom, &owners);
    else
        owners_of_record(report, oom, &owners);
    return owners;
}

static void report_oom_owners_done(struct report_owners *owners)
{
    for (size_t i = 0; i < owners->count; i++)
        free(owners->list[i].way);
    free(owners->list);
}

/* ---- text ---- */

static void print_size(const char *word, uint64_t bytes)
{
    printf("  %-24s %s\n", word, render_bytes(bytes).text);
}

static void print_size_if_any(const char *word, uint64_t bytes)
{
    if (bytes)
        print_size(word, bytes);
}

static void print_request(const struct report *report, const struct load_oom *oom)
{
    const struct read_oom *why = oom->why;

    printf("  %-24s %s", "requested",
            why && oom->requested == 0 ? "(the call names no size)"
                                       : render_bytes(oom->requested).text);
    if (why && *why->call)
        render_print(stdout, " by %s", why->call);
    printf(" on device %d", oom->device);
    if (why && format_stream_number(why->what.stream))
        printf(", stream %u", format_stream_number(why->what.stream) - 1u);
    if (why && why->what.flags & FORMAT_OOM_CAPTURE)
        printf(", while capturing");
    putchar('\n');
    render_print(stdout, "  %-24s %s\n", "anchor",
            oom->anchor ? report->load.trace->anchors[oom->anchor].path : "(none)");
}

/* The kind of memory that was short. */
enum report_lack {
    REPORT_LACK_ALL,   /* free bytes at all, or unknown */
    REPORT_LACK_HERE,  /* free bytes outside segments of the other API */
    REPORT_LACK_WHOLE, /* a large enough piece: the sum is large enough */
};

static enum report_lack report_oom_lack(const struct format_oom *what)
{
    if (!(what->flags & FORMAT_OOM_HEAPS) || what->requested == 0
            || what->heaps.free < what->requested)
        return REPORT_LACK_ALL;
    return what->heaps.free - what->free_elsewhere < what->requested ? REPORT_LACK_HERE
                                                                     : REPORT_LACK_WHOLE;
}

/*
 * The main question of a user: too much memory, fragmented memory, or memory in segments of the
 * other API?
 */
static void print_verdict(const struct report *report, const struct format_oom *what)
{
    enum report_lack lack = report_oom_lack(what);

    if (lack == REPORT_LACK_ALL)
        return;
    printf("  %s%s were free in the pool, but ", report->ink.bold,
            render_bytes(what->heaps.free).text);
    if (lack == REPORT_LACK_HERE)
        printf("%s of it beside memory of the other API", render_bytes(what->free_elsewhere).text);
    else
        printf("in pieces: fragmentation");
    printf("%s\n", report->ink.off);
}

static void print_heaps(const struct report *report, const struct format_oom *what)
{
    const struct format_oom_heaps *heaps = &what->heaps;

    printf("  %-24s %s, live %s", "reserved by kedge", render_bytes(heaps->held).text,
            render_bytes(heaps->live).text);
    if (heaps->held)
        printf(" (utilisation %.2f)", (double)heaps->used / (double)heaps->held);
    putchar('\n');
    printf("  %-24s %s, largest block %s\n", "  free in the pool", render_bytes(heaps->free).text,
            render_bytes(heaps->largest_free).text);
    print_size_if_any("  of it, for the other API", what->free_elsewhere);
    printf("  %-24s %s, and %s whose work has not passed\n", "  whole free handles",
            render_bytes(heaps->remappable).text, render_bytes(heaps->remappable_waiting).text);
    print_size_if_any("  handles unmapped", heaps->cached);
    print_size_if_any("  waiting for the device", heaps->waiting);
    print_size_if_any("  kept for others", heaps->kept);
    print_size_if_any("  of it, held by hints", what->hint_held);
    if (heaps->limbo + heaps->husk)
        printf("  %-24s %s gone, %s on the way\n", "  released by hints",
                render_bytes(heaps->husk).text, render_bytes(heaps->limbo).text);
    print_verdict(report, what);
}

static void print_ladder(const struct format_oom *what)
{
    const struct format_oom_ladder *ladder = &what->ladder;

    printf("  %-24s waits %" PRIu32 ", trims %" PRIu32 " (%s), moved %s\n", "tried", ladder->waits,
            ladder->trims, render_bytes(ladder->trimmed_bytes).text,
            render_bytes(ladder->moved_bytes).text);
    printf("  %-24s %" PRIu32 "\n", "  attempts to grow", ladder->attempts);
}

static void print_holders(const struct report *report, const struct load_oom *oom)
{
    struct report_owners owners = report_oom_owners(report, oom);
    uint64_t others = owners.other_bytes;

    if (owners.count)
        puts("  live then, by stack:");
    for (size_t i = 0; i < owners.count; i++) {
        if (i >= report->top) {
            others += owners.list[i].bytes;
            continue;
        }
        printf("    %12s %8" PRIu64 "  ", render_bytes(owners.list[i].bytes).text,
                owners.list[i].count);
        render_label(stdout, owners.list[i].way, 27, 8);
    }
    report_oom_owners_done(&owners);
    if (others)
        printf("    %12s           others\n", render_bytes(others).text);
}

static void print_one(const struct report *report, const struct load_oom *oom)
{
    print_request(report, oom);
    printf("  %-24s %s", "free on the device", render_bytes(oom->free_bytes).text);
    if (oom->why && oom->why->what.total_bytes != UINT64_MAX)
        printf(" of %s", render_bytes(oom->why->what.total_bytes).text);
    putchar('\n');
    if (oom->live != UINT64_MAX)
        print_size("live then", oom->live);
    if (oom->why) {
        if (oom->why->what.flags & FORMAT_OOM_HEAPS)
            print_heaps(report, &oom->why->what);
        print_size_if_any("by the driver itself", oom->why->what.native_bytes);
        if (oom->why->what.flags & FORMAT_OOM_HEAPS)
            print_ladder(&oom->why->what);
        report_waterfall_print_oom(report, oom);
        print_holders(report, oom);
        report_kinds_print_oom(report, oom);
        report_held_print(report, FORMAT_WALK_OOM, oom->number);
    } else {
        print_size("largest free block", oom->largest_free);
    }
    puts("  requested by:");
    report_stack_print(report, oom->stack, "    ", STACK_LINES);
}

static void report_oom_print_table(const struct load *load)
{
    puts("\n     number       requested    largest free  call");
    for (size_t i = 0; i < load->oom_count; i++) {
        const struct load_oom *oom = &load->ooms[i];
        render_print(stdout, "  %9" PRIu64 " %15s %15s  %s\n", oom->number,
                render_bytes(oom->requested).text, render_bytes(oom->largest_free).text,
                oom->why ? oom->why->call : "");
    }
}

void report_oom_print(const struct report *report)
{
    const struct load *load = &report->load;
    uint64_t times = answer_failures(load);

    if (load->oom_count == 0) {
        if (report->view)
            puts("this run did not run out of memory");
        return;
    }
    if (times > 1)
        printf("\n%sOut of memory%s (%" PRIu64 " times; the last one)\n", report->ink.red,
                report->ink.off, times);
    else
        printf("\n%sOut of memory%s\n", report->ink.red, report->ink.off);
    print_one(report, &load->ooms[load->oom_count - 1]);
    if (report->view != VIEW_OOM || load->oom_count == 1)
        return;
    printf("\n%sThe first one%s\n", report->ink.bold, report->ink.off);
    print_one(report, &load->ooms[0]);
    report_oom_print_table(load);
}

/* ---- JSON ---- */

static void json_heaps(struct json *json, const struct format_oom *what)
{
    const struct format_oom_heaps *heaps = &what->heaps;

    json_uint(json, "reserved_bytes", heaps->held);
    json_uint(json, "pool_live_bytes", heaps->live);
    json_uint(json, "pool_used_bytes", heaps->used);
    json_uint(json, "peak_reserved_bytes", heaps->held_high);
    json_uint(json, "pool_peak_live_bytes", heaps->live_high);
    json_uint(json, "pool_free_bytes", heaps->free);
    json_uint(json, "pool_free_elsewhere_bytes", what->free_elsewhere);
    json_uint(json, "hint_held_bytes", what->hint_held);
    json_uint(json, "remappable_bytes", heaps->remappable);
    json_uint(json, "remappable_waiting_bytes", heaps->remappable_waiting);
    json_uint(json, "cached_bytes", heaps->cached);
    json_uint(json, "waiting_bytes", heaps->waiting);
    json_uint(json, "retained_bytes", heaps->kept);
    json_uint(json, "limbo_bytes", heaps->limbo);
    json_uint(json, "released_bytes", heaps->husk);
    if (heaps->held)
        json_real(json, "e", (double)heaps->used / (double)heaps->held);
}

static void json_holders(struct json *json, const struct report *report, const struct load_oom *oom)
{
    struct report_owners owners = report_oom_owners(report, oom);

    json_begin(json, "live_at_oom", '[');
    for (size_t i = 0; i < owners.count; i++) {
        const struct report_owner *owner = &owners.list[i];

        json_begin(json, NULL, '{');
        json_text(json, "title", owner->way);
        json_text(json, "site", symbols_site(report->symbols, owner->stack));
        json_text(json, "python_site", symbols_pysite(report->symbols, owner->stack));
        json_uint(json, "bytes", owner->bytes);
        json_uint(json, "count", owner->count);
        figures_json_stack(json, report->symbols, owner->stack, "stack");
        json_end(json, '}');
    }
    json_end(json, ']');
    json_uint(json, "other_bytes", owners.other_bytes);
    report_oom_owners_done(&owners);
}

static void json_reason(struct json *json, const struct report *report, const struct load_oom *oom)
{
    static const char *const lacks[] = {
            [REPORT_LACK_ALL] = "all", [REPORT_LACK_HERE] = "here", [REPORT_LACK_WHOLE] = "whole"};
    const struct format_oom *what = &oom->why->what;

    json_text(json, "call", oom->why->call);
    json_text(json, "lack", lacks[report_oom_lack(what)]);
    json_text(json, "api", what->flags & FORMAT_OOM_STREAM ? "stream" : "sync");
    json_bool(json, "by_driver", (what->flags & FORMAT_OOM_NATIVE) != 0);
    json_bool(json, "capturing", (what->flags & FORMAT_OOM_CAPTURE) != 0);
    json_known(json, "stream",
            format_stream_number(what->stream) ? format_stream_number(what->stream) - 1u
                                               : UINT64_MAX);
    json_known(json, "total_bytes", what->total_bytes);
    json_uint(json, "driver_bytes", what->native_bytes);
    if (what->flags & FORMAT_OOM_HEAPS)
        json_heaps(json, what);
    json_uint(json, "waits", what->ladder.waits);
    json_uint(json, "trims", what->ladder.trims);
    json_uint(json, "trimmed_bytes", what->ladder.trimmed_bytes);
    json_uint(json, "moved_bytes", what->ladder.moved_bytes);
    json_uint(json, "attempts", what->ladder.attempts);
    report_waterfall_json_oom(json, report, oom);
    json_holders(json, report, oom);
    report_kinds_json_oom(json, report, oom);
    report_held_json(json, report, FORMAT_WALK_OOM, oom->number, "held");
}

static void report_oom_json_one(
        struct json *json, const struct report *report, const struct load_oom *oom, const char *way)
{
    const struct trace_anchor *anchor = &report->load.trace->anchors[oom->anchor];

    json_begin(json, NULL, '{');
    json_uint(json, "number", oom->number);
    json_uint(json, "requested_bytes", oom->requested);
    json_uint(json, "device", (uint64_t)(oom->device < 0 ? 0 : oom->device));
    json_uint(json, "result", (uint64_t)oom->result);
    json_known(json, "live_bytes", oom->live);
    json_known(json, "free_bytes", oom->free_bytes);
    json_known(json, "largest_free_bytes", oom->largest_free);
    json_text(json, "anchor", anchor->path);
    json_uint(json, "instance", anchor->instance);
    json_text(json, "title", way);
    if (oom->why)
        json_reason(json, report, oom);
    figures_json_stack(json, report->symbols, oom->stack, "stack");
    json_end(json, '}');
}

void report_oom_json(struct json *json, const struct report *report)
{
    const struct load *load = &report->load;
    char **ways = title_ways(report->symbols, TITLE_STACKS(load->ooms), load->oom_count);

    json_uint(json, "oom_count", answer_failures(load));
    size_t shown = json_begin_rows(json, "ooms", load->oom_count, REPORT_OOM_ON_PAGE);
    for (size_t i = load->oom_count - shown; i < load->oom_count; i++)
        report_oom_json_one(json, report, &load->ooms[i], ways[i]);
    json_end(json, ']');
    title_done(ways, load->oom_count);
}
