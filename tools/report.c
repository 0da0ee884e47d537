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

char *report_end_text(const struct read_capture *capture)
{
    switch (capture->state) {
    case FORMAT_STATE_CLEAN:
        return vec_text(
                capture->oom_count ? "by itself, after running out of memory" : "by itself");
    case FORMAT_STATE_OOM:
        return vec_text("out of memory (still running, or ended without a word)");
    case FORMAT_STATE_SIGNAL:
        return vec_format("signal %u", capture->state_detail);
    case FORMAT_STATE_OPEN:
        break;
    }
    return vec_text("not ended by itself: still running, or killed");
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

struct report_owner *report_owners(const struct report *report, size_t *ret_count)
{
    const struct trace *trace = report->load.trace;
    struct keytable index = {0};
    size_t room = 16;
    struct report_owner *owners = vec_new(room, sizeof(*owners));
    size_t count = 0;

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        if (block->born < report->window.first || block->born >= report->window.last)
            continue;
        const char *name = symbols_owner(report->symbols, block->stack);
        uint32_t *at = keytable_at(&index, keytable_text(name), TRACE_NONE);
        if (*at == TRACE_NONE) {
            *at = (uint32_t)count;
            VEC_PUSH(owners, count, room) =
                    (struct report_owner){.name = *name ? name : "(unknown)"};
        }
        struct report_owner *owner = &owners[*at];
        owner->allocated += block->size;
        owner->allocated_count++;
        if (block->died >= report->window.last) {
            owner->live += block->size;
            owner->live_count++;
        }
    }
    keytable_done(&index);
    if (count)
        qsort(owners, count, sizeof(*owners), compare_owners);
    *ret_count = count;
    return owners;
}

uint32_t report_peak(const struct report *report)
{
    uint32_t at = report->figures.max_at;

    return at == TRACE_NEVER ? report->window.last : at + 1;
}

bool report_has_high(const struct report *report)
{
    return report->load.place_count && !report->from && !report->to
            && report->load.complete_from > report->window.first;
}

bool report_has_anchor(const struct report *report, size_t anchor)
{
    uint32_t enter = report->load.trace->anchors[anchor].enter;

    return enter != TRACE_NEVER && enter >= report->window.first && enter < report->window.last;
}
