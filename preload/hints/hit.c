/* SPDX-License-Identifier: MIT */
#include "preload/hints/hit.h"

#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/caller/coverage.h"
#include "preload/driver/session.h"
#include "preload/hints/hints_run.h"
#include "tracker/capture/capture.h"
#include "tracker/capture/uses.h"
#include "tracker/python/pystack.h"
#include "tracker/where/where.h"

#include <errno.h>
#include <stdio.h>

enum {
    SEEN_MAX = 512,
    MSG_FRAME = 128, /* bytes of a frame's name in a line */
};

/* (rule, stacks) already reported: the same place is not reported twice. */
FORKLOCK(seen_lock);
static struct {
    int rule;
    uint32_t stack, pystack;
    enum format_hint_what what;
} seen[SEEN_MAX]; /* guarded by seen_lock */
static unsigned seen_count;

static bool hit_is_first(int rule, uint32_t stack, uint32_t pystack, enum format_hint_what what)
{
    bool first = true;

    lock_take(&seen_lock);
    for (unsigned i = 0; i < seen_count && first; i++)
        first = seen[i].rule != rule || seen[i].stack != stack || seen[i].pystack != pystack
                || seen[i].what != what;
    if (first && seen_count < SEEN_MAX) {
        seen[seen_count].rule = rule;
        seen[seen_count].stack = stack;
        seen[seen_count].pystack = pystack;
        seen[seen_count++].what = what;
    }
    lock_drop(&seen_lock);
    return first;
}

/* Describes the Python frame, as words after " by "; "": unknown. */
static void hit_name_python(uint32_t pystack, const char *what, char ret_text[static MSG_FRAME])
{
    size_t used = (size_t)snprintf(ret_text, MSG_FRAME, "%s%s ", what,
            pystack & FORMAT_PYSTACK_AMBIENT ? " beside" : " by");

    if (!pystack_text(pystack, ret_text + used, MSG_FRAME - used))
        *ret_text = '\0';
}

static void hit_warn(const struct pool_hit *hit, devptr_t ptr, const char *call, uint32_t pystack)
{
    char used[MSG_FRAME], made[MSG_FRAME];

    hit_name_python(pystack, "used", used);
    hit_name_python(capture_pystack(hit->base), "allocated", made);
    msg_warn("hint %s: %s touches %p, storage of %lu bytes at %p that the hint released%s%s%s%s%s; "
             "the call is stopped%s%s",
            hint_rule(hints_run.hints, hit->rule)->id, call, (void *)(uintptr_t)ptr,
            (unsigned long)hit->size, (void *)(uintptr_t)hit->base, *used || *made ? " (" : "",
            used, *used && *made ? ", " : "", made, *used || *made ? ")" : "",
            *capture_path() ? "; both stacks are in " : "", capture_path());
}

static void hit_tell(
        const struct pool_hit *hit, enum format_hint_what what, devptr_t ptr, const char *call)
{
    struct capture_hint_info info = {
            .what = what,
            .mode = hit->mode,
            .rule = hit->rule,
            .ptr = hit->base,
            .size = hit->size,
            .device = -1,
    };

    coverage_look(); /* a stack walk must not pass through unloaded code */
    info.stack = where_stack();
    info.pystack = where_pystack();
    if (!hit_is_first(hit->rule, info.stack, info.pystack, what))
        return;
    info.seq = session_seq();
    session_report(capture_hint(&info));
    if (what == FORMAT_HINT_VIOLATION)
        hit_warn(hit, ptr, call, info.pystack);
}

/*
 * Whether a kernel may get the address. Inside larger parameters `kedge verify` decides that (R86,
 * guard of hints).
 */
static bool hit_may_carry(const struct pool_hit *hit, enum touch how)
{
    const struct rule *rule = hint_rule(hints_run.hints, hit->rule);

    if (how == TOUCH_INSIDE)
        return rule->action == ACTION_KEEP_META || !hint_mode_stops(hit->mode);
    return how == TOUCH_PARAM && rule->action == ACTION_KEEP_META && !rule->inside_only;
}

/*
 * In shadow, blocks are adjacent, and this block's address may be the end of the block before it
 * (R110, end of a block): a kernel gets it directly behind an address inside that block, as [begin,
 * end). In the modes that act there is a gap between them.
 */
static bool hit_may_be_end(const struct pool_hit *hit, devptr_t ptr, enum touch how)
{
    uint32_t begin = guard_thread.word;
    struct block_info before;

    return hit->mode == HINT_SHADOW && how == TOUCH_PARAM && ptr == hit->base && begin != 0
            && pool_find(session_pool, ptr - 1, &before) == 0 && before.base + before.size == ptr
            && begin - hit_word(before.base) < hit_word(ptr) - hit_word(before.base);
}

bool hit_must_stop(const struct pool_hit *hit, devptr_t ptr, enum touch how, const char *what)
{
    if (hit_may_carry(hit, how) || hit_may_be_end(hit, ptr, how)) {
        hit_tell(hit, FORMAT_HINT_CARRIED, ptr, what);
        return false;
    }
    if (!hint_mode_stops(hit->mode) || (how == TOUCH_INSIDE && hit->mode != HINT_TRAP)) {
        hit_tell(hit, FORMAT_HINT_LATE_TOUCH, ptr, what);
        return false;
    }
    hit_tell(hit, FORMAT_HINT_VIOLATION, ptr, what);
    if (hit->mode == HINT_LIVE)
        hints_run_fall_back();
    return true;
}

void hit_written(const struct outcome *written)
{
    struct capture_hint_info info = {
            .what = FORMAT_HINT_LATE_WRITE,
            .mode = written->mode,
            .rule = written->rule,
            .ptr = written->ptr + written->rounded,
            .size = written->size - written->rounded,
            .seq = written->seq,
            .device = written->device,
    };

    session_report(capture_hint(&info));
    if (hit_is_first(written->rule, 0, 0, info.what))
        msg_warn("hint %s: storage of %lu bytes at %p was written after its release was due; the "
                 "first changed byte is %lu%s%s",
                hint_rule(hints_run.hints, written->rule)->id, (unsigned long)written->size,
                (void *)(uintptr_t)written->ptr, (unsigned long)written->rounded,
                *capture_path() ? "; the allocation's stack is in " : "", capture_path());
}

void hit_shared(devptr_t base, uint64_t size, int device)
{
    struct capture_hint_info info = {
            .what = FORMAT_HINT_SKIPPED,
            .mode = HINT_OFF,
            .rule = -1,
            .ptr = base,
            .size = size,
            .seq = session_seq(),
            .device = device,
            .result = EBUSY,
    };

    uses_shown(base, size);
    session_report(capture_hint(&info));
}
