/* SPDX-License-Identifier: MIT */
#include "tools/report.h"

#include <stdlib.h>
#include <string.h>

#include "tools/keytable.h"
#include "tools/vec.h"

const char *report_mode_name(enum hint_mode mode)
{
    static const char *const names[HINT_MODE_COUNT] = {"off", "shadow", "trap", "live"};
    return (unsigned)mode < HINT_MODE_COUNT ? names[mode] : "?";
}

static char *end_by_exit(const struct read_capture *capture)
{
    const char *more = capture->oom_count ? ", after running out of memory" : "";

    if (capture->state_detail & FORMAT_EXIT_KNOWN)
        return vec_format("exited with status %u%s", capture->state_detail & 0xffu, more);
    return vec_format("exited%s", more);
}

char *report_end_text(const struct read_capture *capture)
{
    if (read_is_damaged(capture))
        return vec_text("not known: the capture is damaged");
    switch (capture->state) {
    case FORMAT_STATE_CLEAN:
        return end_by_exit(capture);
    case FORMAT_STATE_OOM:
        return vec_text("still running, or killed; out of memory");
    case FORMAT_STATE_SIGNAL:
        return vec_format("signal %u", capture->state_detail);
    case FORMAT_STATE_OPEN:
        break;
    }
    return vec_text("still running, or killed");
}

static int compare_owners(const void *a, const void *b)
{
    const struct report_owner *x = a;
    const struct report_owner *y = b;

    if (x->live != y->live)
        return x->live < y->live ? 1 : -1;
    if (x->allocated != y->allocated)
        return x->allocated < y->allocated ? 1 : -1;
    return strcmp(x->name, y->name);
}

struct owners {
    struct report_owner *rows;
    size_t count, room;
    struct keytable index;
};

static struct report_owner *owner_of(
        struct owners *owners, const struct report *report, uint32_t stack)
{
    const char *name = symbols_owner(report->symbols, stack);
    uint32_t *at = keytable_at(&owners->index, keytable_text(name), TRACE_NONE);

    if (*at == TRACE_NONE) {
        *at = (uint32_t)owners->count;
        VEC_PUSH(owners->rows, owners->count, owners->room) =
                (struct report_owner){.name = *name ? name : "(unknown)"};
    }
    return &owners->rows[*at];
}

static void add_blocks(struct owners *owners, const struct report *report)
{
    const struct trace *trace = report->load.trace;

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        if (block->born < report->window.first || block->born >= report->window.last)
            continue;
        struct report_owner *owner = owner_of(owners, report, block->stack);
        owner->allocated += block->size;
        owner->allocated_count++;
        if (block->died >= report->window.last) {
            owner->live += block->size;
            owner->live_count++;
        }
    }
}

static void add_places(struct owners *owners, const struct report *report)
{
    for (size_t i = 0; i < report->load.place_count; i++) {
        const struct load_place *place = &report->load.places[i];
        if (place->what->allocated_count == 0)
            continue;
        struct report_owner *owner = owner_of(owners, report, place->stack);
        owner->allocated += place->what->allocated_bytes;
        owner->allocated_count += place->what->allocated_count;
        owner->live += place->what->live_bytes;
        owner->live_count += place->what->live_count;
    }
}

struct report_owner *report_owners(const struct report *report, size_t *ret_count)
{
    struct owners owners = {0};

    if (report_has_high(report))
        add_places(&owners, report);
    else
        add_blocks(&owners, report);
    keytable_done(&owners.index);
    if (owners.count)
        qsort(owners.rows, owners.count, sizeof(*owners.rows), compare_owners);
    *ret_count = owners.count;
    return owners.rows;
}

uint32_t report_peak(const struct report *report)
{
    uint32_t at = report->figures.max_at;

    return at == TRACE_NEVER ? report->window.last : at + 1;
}

bool report_has_high(const struct report *report)
{
    return report->load.place_count && !report->from && !report->to && report_lacks_events(report);
}

bool report_lacks_events(const struct report *report)
{
    return report->load.complete_from > report->window.first;
}

bool report_has_anchor(const struct report *report, size_t anchor)
{
    uint32_t enter = report->load.trace->anchors[anchor].enter;

    return enter != TRACE_NEVER && enter >= report->window.first && enter < report->window.last;
}
