/* SPDX-License-Identifier: MIT */
#include "tools/trace/stated_steps.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/base/filename.h"
#include "tools/base/keytable.h"
#include "tools/base/vec.h"

enum {
    ALONE_MIN = 3, /* instances of a family whose name does not mark steps */
    NAMED_MIN = 2,
};

struct family {
    char *path;
    struct stated_steps_span *spans;
    size_t count, room;
    uint64_t work;
    uint32_t depth;
    bool is_named, overlaps;
};

struct families {
    struct family *families;
    size_t count, room;
    struct keytable numbers;
    uint64_t *work; /* allocations, or uses, before each event */
};

char *stated_steps_fold(const char *path)
{
    char *folded = vec_text(path);
    char *out = folded;

    for (const char *in = path; *in; in++) {
        bool digit = *in >= '0' && *in <= '9';
        if (digit && out > folded && out[-1] == '#')
            continue;
        *out++ = *(digit ? "#" : in);
    }
    *out = '\0';
    return folded;
}

bool stated_steps_says_step(const char *path)
{
    const char *last = filename_of(path);

    return strcasestr(last, "step") || strcasestr(last, "iter") || strcasestr(last, "batch");
}

static void add_span(
        struct families *families, const struct trace *trace, struct stated_steps_span span)
{
    char *path = stated_steps_fold(trace->anchors[span.anchor].path);
    uint32_t number = keytable_number(&families->numbers, keytable_text(path));

    if (number == families->count) {
        struct family *fresh = &VEC_PUSH(families->families, families->count, families->room);
        *fresh = (struct family){.path = path, .is_named = stated_steps_says_step(path)};
        for (const char *c = path; *c; c++)
            fresh->depth += *c == '/';
    } else {
        free(path);
    }
    struct family *family = &families->families[number];
    VEC_PUSH(family->spans, family->count, family->room) = span;
}

static int stated_steps_by_first(const void *a, const void *b)
{
    const struct stated_steps_span *x = a;
    const struct stated_steps_span *y = b;

    return vec_order(x->first, y->first, 0);
}

/* Ends each mark at the next one; counts the work in each. */
static void stated_steps_finish(struct families *families, struct family *family, uint32_t end)
{
    VEC_SORT(family->spans, family->count, stated_steps_by_first);
    for (size_t i = 0; i < family->count; i++) {
        struct stated_steps_span *span = &family->spans[i];
        uint32_t next = i + 1 < family->count ? family->spans[i + 1].first : end;
        if (span->behind == TRACE_NEVER)
            span->behind = next;
        family->overlaps = family->overlaps || span->behind > next;
        family->work += families->work[span->behind] - families->work[span->first];
    }
}

static void count_work(struct families *families, const struct trace *trace, bool by_uses)
{
    for (size_t i = 0; by_uses && i < trace->use_count; i++)
        families->work[trace->uses[i].at]++;
    for (size_t i = 0; i < trace->event_count; i++)
        families->work[i + 1] +=
                families->work[i] + (!by_uses && trace->events[i].kind == TRACE_ALLOC);
}

static bool is_repeated(const struct family *family)
{
    return !family->overlaps && family->work > 0 && family->count >= ALONE_MIN;
}

static bool may_be(const struct family *family, uint64_t work)
{
    if (family->overlaps || family->work == 0)
        return false;
    if (family->is_named)
        return family->count >= NAMED_MIN;
    return is_repeated(family) && family->depth == 0 && 2 * family->work >= work;
}

static bool stated_steps_is_better(const struct family *one, const struct family *than)
{
    if (one->is_named != than->is_named)
        return one->is_named;
    if (one->depth != than->depth)
        return one->depth < than->depth;
    return one->work > than->work;
}

static void find_families(struct families *families, const struct trace *trace)
{
    for (size_t i = 1; i < trace->anchor_count; i++) {
        const struct trace_anchor *anchor = &trace->anchors[i];
        if (anchor->enter == TRACE_NEVER)
            continue;
        uint32_t behind = anchor->exit == TRACE_NEVER ? TRACE_NEVER : anchor->exit + 1;
        add_span(families, trace, (struct stated_steps_span){anchor->enter, behind, (uint32_t)i});
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->kind == TRACE_MARK && event->anchor != TRACE_NONE && event->anchor != 0
                && trace->anchors[event->anchor].enter == TRACE_NEVER)
            add_span(families, trace,
                    (struct stated_steps_span){(uint32_t)i, TRACE_NEVER, event->anchor});
    }
}

static void find_families_by(struct families *families, const struct trace *trace, bool by_uses)
{
    *families = (struct families){.work = vec_new(trace->event_count + 1, sizeof(uint64_t))};
    count_work(families, trace, by_uses);
    find_families(families, trace);
    for (size_t i = 0; i < families->count; i++)
        stated_steps_finish(families, &families->families[i], (uint32_t)trace->event_count);
}

static void families_done(struct families *families)
{
    for (size_t i = 0; i < families->count; i++) {
        free(families->families[i].path);
        free(families->families[i].spans);
    }
    free(families->families);
    free(families->work);
    keytable_done(&families->numbers);
}

/* The steps; with `any`, else what is repeated, however little was allocated in it. NULL: none. */
static struct family *best_family(const struct families *families, uint64_t work, bool any)
{
    struct family *best = NULL;

    for (size_t i = 0; i < families->count; i++) {
        struct family *family = &families->families[i];
        if ((any ? is_repeated(family) : may_be(family, work))
                && (!best || stated_steps_is_better(family, best)))
            best = family;
    }
    return best;
}

/* Takes the path and the spans. */
static struct stated_steps take_family(struct family *family)
{
    struct stated_steps steps = {family->path, family->spans, family->count};

    family->path = NULL;
    family->spans = NULL;
    return steps;
}

static void stated_steps_find_by(const struct trace *trace, bool by_uses, struct stated_steps *ret)
{
    struct families families;

    find_families_by(&families, trace, by_uses);
    struct family *best = best_family(&families, families.work[trace->event_count], false);
    *ret = best ? take_family(best) : (struct stated_steps){0};
    families_done(&families);
}

static bool is_inside(const char *path, const char *outer)
{
    size_t length = strlen(outer);

    return strncmp(path, outer, length) == 0 && path[length] == '/';
}

static int by_depth(const void *a, const void *b)
{
    const struct family *x = a;
    const struct family *y = b;

    return vec_order(x->depth, y->depth, vec_order(y->work, x->work, 0));
}

/* Whether it is in one of the rounds but those around the first ones. */
static bool is_part(const char *path, const struct stated_steps *rounds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(path, rounds[i].family) == 0
                || (is_inside(path, rounds[i].family)
                        && !is_inside(rounds[0].family, rounds[i].family)))
            return true;
    return false;
}

size_t stated_steps_rounds(const struct trace *trace, struct stated_steps ret[STATED_ROUNDS])
{
    struct families families;
    size_t count = 0;

    find_families_by(&families, trace, false);
    VEC_SORT(families.families, families.count, by_depth);
    struct family *best = best_family(&families, families.work[trace->event_count], false);
    if (!best)
        best = best_family(&families, 0, true);
    if (best)
        ret[count++] = take_family(best);
    for (size_t i = 0; i < families.count && count > 0 && count < STATED_ROUNDS; i++) {
        struct family *family = &families.families[i];
        if (family->path && is_repeated(family) && !is_part(family->path, ret, count))
            ret[count++] = take_family(family);
    }
    families_done(&families);
    return count;
}

void stated_steps_find(const struct trace *trace, struct stated_steps *ret)
{
    stated_steps_find_by(trace, false, ret);
}

void stated_steps_find_by_uses(const struct trace *trace, struct stated_steps *ret)
{
    stated_steps_find_by(trace, true, ret);
}

void stated_steps_done(struct stated_steps *stated)
{
    free(stated->family);
    free(stated->spans);
    *stated = (struct stated_steps){0};
}
