/* SPDX-License-Identifier: MIT */
#include "tools/load/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/load/carried.h"
#include "tools/load/inorder.h"
#include "tools/symbols/bundle.h"
#include "tools/trace/stacks.h"

/* Maps the reader's numbers to the trace's. */
struct translation {
    struct load *load;
    const struct read_capture *capture;
    struct trace *trace;
    uint32_t main_thread; /* the reader's number, 0 = unknown */
    struct stacks stacks;
    struct keytable anchors; /* (path number, instance) */
    struct keytable threads; /* thread number */
    /* index in the trace of the thread asked for last: the next event usually has the same */
    uint32_t last_thread;
    struct keytable numbers; /* seq -> block, for blocks whose uses are recorded */
    struct keytable others; /* address -> index in load->others while it is live, else TRACE_NONE */
    struct keytable_values heaps;          /* (device, heap) -> bytes */
    struct keytable_values limbo;          /* address -> when the block there died, ns */
    struct keytable_values live;           /* device -> bytes */
    uint64_t held[FORMAT_DEVICES_MAX + 1]; /* by heaps of a device, the last entry: of all others */
    struct carried carried;
    size_t born; /* entries of `carried` that are in the trace */
};

static uint32_t load_stack_of(struct translation *tr, uint32_t leaf, uint32_t pystack)
{
    return stacks_number(&tr->stacks, leaf, pystack);
}

static uint32_t load_thread_of(struct translation *tr, uint32_t number)
{
    struct load *load = tr->load;

    if (tr->last_thread < load->thread_count && load->threads[tr->last_thread] == number)
        return tr->last_thread;
    tr->last_thread = keytable_number(&tr->threads, (struct key){number, 0, 0});
    if (tr->last_thread == load->thread_count)
        VEC_PUSH(load->threads, load->thread_count, load->thread_room) = number;
    return tr->last_thread;
}

/* The instance of a path; an event may name one whose enter was lost. "" is the root. */
static uint32_t load_anchor_of(struct translation *tr, uint32_t path, uint32_t instance)
{
    const char *text = reader_string(tr->capture, path);

    if (!*text)
        return 0;
    uint32_t *known = keytable_at(&tr->anchors, (struct key){path, instance, 0}, TRACE_NONE);
    if (*known == TRACE_NONE)
        *known = trace_add_anchor(tr->trace, text, instance);
    return *known;
}

/* Live bytes of a device. */
static uint64_t *live_on(struct translation *tr, int device)
{
    return keytable_value(&tr->live, (struct key){(uint64_t)(int64_t)device, 0, 0});
}

static void load_add_birth(struct translation *tr, const struct read_event *event)
{
    uint32_t stack = load_stack_of(tr, event->stack, event->pystack);
    struct trace_block birth = {.address = event->addr,
            .size = event->size,
            .site = stacks_site(&tr->stacks, stack),
            .born_ns = event->time_ns,
            .stack = stack,
            .anchor = load_anchor_of(tr, event->path_number, event->instance),
            .nth = event->nth,
            .thread = load_thread_of(tr, event->thread),
            .rule = -1,
            .device = (int16_t)event->device,
            .memclass = event->memclass,
            .native = (event->flags & FORMAT_ALLOC_NATIVE) != 0,
            .stream = (event->flags & FORMAT_ALLOC_STREAM) != 0,
            .stream_number = format_stream_number(event->stream),
            .is_main = event->thread && event->thread == tr->main_thread};

    uint32_t block = trace_add_alloc(tr->trace, &birth);
    if (event->seq && event->size >= FORMAT_USE_BYTES
            && tr->capture->kind_count[FORMAT_EVENT_USE] > 0)
        *keytable_at(&tr->numbers, (struct key){event->seq, 0, 0}, block) = block;
    trace_set_stream(tr->trace, event->stream, birth.stream);
    *live_on(tr, event->device) += event->size;
}

/* The other memory at an address, TRACE_NONE if there is none now. */
static uint32_t *other_at(struct translation *tr, uint64_t address)
{
    return keytable_at(&tr->others, (struct key){address, 0, 0}, TRACE_NONE);
}

static uint32_t load_step(struct translation *tr, const struct read_event *event)
{
    return trace_add_other(tr->trace, load_thread_of(tr, event->thread));
}

static void end_other(struct translation *tr, const struct read_event *event)
{
    uint32_t *at = other_at(tr, event->addr);
    uint32_t now = load_step(tr, event);

    if (*at != TRACE_NONE)
        tr->load->others[*at].died = now;
    *at = TRACE_NONE;
}

static void load_add_other(struct translation *tr, const struct read_event *event)
{
    struct load *load = tr->load;

    if (*other_at(tr, event->addr) != TRACE_NONE)
        end_other(tr, event); /* its free was not recorded */
    *other_at(tr, event->addr) = (uint32_t)load->other_count;
    VEC_PUSH(load->others, load->other_count, load->other_room) =
            (struct load_other){.memclass = event->memclass,
                    .address = event->addr,
                    .size = event->size,
                    .stack = load_stack_of(tr, event->stack, event->pystack),
                    .born = load_step(tr, event),
                    .died = TRACE_NEVER};
}

static void set_uses(struct translation *tr, uint32_t block, const struct format_uses *uses,
        uint64_t count, unsigned flags)
{
    tr->trace->blocks[block].use_flags = (uint8_t)flags;
    trace_set_uses(tr->trace, block,
            &(struct trace_uses){
                    uses->first_use, uses->last_use, uses->longest_gap, uses->gap_end, count});
}

/* The live table has the uses of live blocks. */
static void add_live_uses(struct translation *tr)
{
    for (size_t i = 0; i < tr->capture->live_count; i++) {
        const struct read_live *live = &tr->capture->live[i];
        uint32_t block = trace_find_live(tr->trace, live->addr);

        if (block != TRACE_NONE)
            set_uses(tr, block, &live->uses, live->use_count, live->use_flags);
    }
}

static void load_add_death(struct translation *tr, const struct read_event *event)
{
    const uint32_t *other = keytable_find(&tr->others, (struct key){event->addr, 0, 0});

    if (other && *other != TRACE_NONE && trace_find_live(tr->trace, event->addr) == TRACE_NONE) {
        end_other(tr, event); /* the writer did not know its class yet */
        return;
    }
    uint32_t block = trace_add_free(tr->trace, event->addr, load_thread_of(tr, event->thread));

    trace_set_stream(tr->trace, event->stream, (event->flags & FORMAT_ALLOC_STREAM) != 0);
    if (block == TRACE_NONE)
        return;
    *live_on(tr, tr->trace->blocks[block].device) -= tr->trace->blocks[block].size;
    tr->trace->blocks[block].died_ns = event->time_ns;
    set_uses(tr, block, &event->uses, event->use_count, event->use_flags);
}

static void add_edge(struct translation *tr, const struct read_event *event)
{
    static const enum trace_kind kinds[EDGE_KIND_COUNT] = {
            [EDGE_ENTER] = TRACE_ENTER, [EDGE_EXIT] = TRACE_EXIT, [EDGE_MARK] = TRACE_MARK};
    uint32_t anchor = load_anchor_of(tr, event->path_number, event->instance);

    if (anchor == 0 || (unsigned)event->edge >= EDGE_KIND_COUNT)
        return;
    trace_add_edge(tr->trace, kinds[event->edge], anchor, load_thread_of(tr, event->thread));
}

/* The bytes that a heap holds now. */
static uint64_t *heap_of(struct translation *tr, int device, uint64_t heap)
{
    return keytable_value(&tr->heaps, (struct key){(uint64_t)(int64_t)device, heap, 0});
}

/* The index of a device in `held`. */
static unsigned load_held_at(int device)
{
    return trace_has_totals(device) ? (unsigned)device : FORMAT_DEVICES_MAX;
}

static void load_hold(struct translation *tr, unsigned at, uint64_t more)
{
    tr->held[at] += more;
    trace_add_reserved(tr->trace, at < FORMAT_DEVICES_MAX ? (int)at : -1, tr->held[at]);
}

static void add_reserved(struct translation *tr, const struct read_event *event)
{
    uint64_t *heap = heap_of(tr, event->device, event->heap);
    uint64_t more = event->size - *heap;

    *heap = event->size;
    load_hold(tr, load_held_at(event->device), more);
}

static void add_oom(struct translation *tr, const struct read_event *event)
{
    struct load *load = tr->load;
    uint32_t at = load_step(tr, event);

    VEC_PUSH(load->ooms, load->oom_count, load->oom_room) = (struct load_oom){
            .seq = event->seq,
            .requested = event->size,
            .free_bytes = event->free_bytes,
            .largest_free = event->largest_free,
            .live = event->seq > tr->carried.since ? *live_on(tr, event->device) : UINT64_MAX,
            .stack = load_stack_of(tr, event->stack, event->pystack),
            .anchor = load_anchor_of(tr, event->path_number, event->instance),
            .at = at,
            .device = event->device,
            .result = event->result,
    };
}

static void leave_limbo(
        struct translation *tr, const struct read_event *event, struct load_hint *hint)
{
    struct key key = {event->addr, 0, 0};

    if (keytable_find(&tr->limbo.numbers, key))
        hint->limbo_max_ns = max_of(
                hint->limbo_max_ns, excess_of(event->time_ns, *keytable_value(&tr->limbo, key)));
}

/* ---- hints ---- */

struct trace_sum load_sum(
        const struct load *load, const struct load_hint *hint, enum format_hint_what what)
{
    return load->complete_from == 0 ? hint->sums[what] : (struct trace_sum){UINT64_MAX, UINT64_MAX};
}

struct trace_sum load_released(const struct load *load, const struct load_hint *hint)
{
    return hint->mode == HINT_LIVE || load->complete_from != 0
            ? load_sum(load, hint, FORMAT_HINT_DEAD)
            : (struct trace_sum){0, 0};
}

struct trace_sum load_would(const struct load *load, const struct load_hint *hint)
{
    struct trace_sum would = load_sum(load, hint, FORMAT_HINT_WOULD_RELEASE);

    if (hint->mode != HINT_LIVE && load->complete_from == 0) {
        would.count += hint->sums[FORMAT_HINT_DEAD].count;
        would.bytes += hint->sums[FORMAT_HINT_DEAD].bytes;
    }
    return would;
}

uint64_t load_late(const struct load *load, const struct load_hint *hint)
{
    return load->complete_from == 0 ? load_touches(hint) + hint->sums[FORMAT_HINT_LATE_WRITE].count
                                    : UINT64_MAX;
}

uint64_t load_drifts(const struct load_hint *hint)
{
    uint64_t count = hint->sums[FORMAT_HINT_DRIFT].count;

    return count ? count : hint->drift != NULL;
}

uint64_t load_unlooked(const struct load_hint *hint)
{
    uint64_t looked =
            hint->sums[FORMAT_HINT_CLEAN].count + hint->sums[FORMAT_HINT_LATE_WRITE].count;

    return hint->mode == HINT_POISON ? excess_of(hint->sums[FORMAT_HINT_DEAD].count, looked) : 0;
}

uint64_t load_touches(const struct load_hint *hint)
{
    return hint->sums[FORMAT_HINT_LATE_TOUCH].count + hint->sums[FORMAT_HINT_VIOLATION].count;
}

/* For the event that was added last. */
static void count_held(struct load *load, const struct read_event *event)
{
    uint64_t before = load->held;

    if (event->what == FORMAT_HINT_HELD && (load->held += event->size) > load->held_most)
        load->held_most = load->held;
    if (event->what == FORMAT_HINT_LET_GO)
        load->held = excess_of(load->held, event->size);
    if (load->held != before)
        VEC_PUSH(load->holds, load->held_count, load->held_room) =
                (struct load_hold){(uint32_t)load->trace->event_count - 1, load->held};
}

static void count_hint(
        struct translation *tr, const struct read_event *event, struct load_hint *hint)
{
    uint64_t touches = load_touches(hint);

    if ((unsigned)event->what >= FORMAT_HINT_COUNT)
        return;
    trace_sum_add(&hint->sums[event->what], event->size);
    count_held(tr->load, event);
    if (event->what == FORMAT_HINT_DEAD)
        *keytable_value(&tr->limbo, (struct key){event->addr, 0, 0}) = event->time_ns;
    if (event->what == FORMAT_HINT_UNMAPPED)
        leave_limbo(tr, event, hint);
    if (touches == 0 && (load_touches(hint) > 0 || event->what == FORMAT_HINT_CARRIED)) {
        hint->touch_stack = load_stack_of(tr, event->stack, event->pystack);
        hint->touched_block = trace_find_live(tr->trace, event->addr);
    }
    if (event->what == FORMAT_HINT_LATE_WRITE && hint->sums[event->what].count == 1) {
        hint->written_block = trace_find_last(tr->trace, event->addr);
        if (hint->written_block != TRACE_NONE)
            hint->written_at = event->addr - tr->trace->blocks[hint->written_block].address;
    }
}

static void load_add_hint(struct translation *tr, const struct read_event *event)
{
    bool is_release = event->what == FORMAT_HINT_DEAD || event->what == FORMAT_HINT_WOULD_RELEASE;
    uint32_t block = trace_find_live(tr->trace, event->addr);

    /* an old event may concern an earlier block at the address */
    if (is_release && event->seq > tr->carried.since)
        trace_add_release(tr->trace, event->addr,
                load_anchor_of(tr, event->path_number, event->instance), event->rule, event->mode);
    else
        (void)trace_add_other(tr->trace, load_thread_of(tr, event->thread));
    if (block != TRACE_NONE && event->what == FORMAT_HINT_PLANNED)
        tr->trace->blocks[block].rule = event->rule;
    if (block != TRACE_NONE && event->what == FORMAT_HINT_SKIPPED && event->rule < 0)
        tr->trace->blocks[block].shared = true;
    if (event->rule >= 0 && (size_t)event->rule < tr->load->hint_count)
        count_hint(tr, event, &tr->load->hints[event->rule]);
}

static void add_call(struct translation *tr, const struct read_event *event)
{
    struct trace_call call = {.name = reader_string(tr->capture, event->call),
            .anchor = load_anchor_of(tr, event->path_number, event->instance),
            .comm = event->comm,
            .peer = event->peer};

    for (unsigned i = 0; i < FORMAT_CALL_BUFFERS; i++)
        if (event->arg[i])
            call.buffer[i] = (struct trace_buffer){
                    reader_string(tr->capture, event->arg[i]), event->arg_addr[i], TRACE_NONE};
    trace_add_call(tr->trace, &call, load_thread_of(tr, event->thread));
}

static void add_launch(struct translation *tr, const struct read_event *event)
{
    trace_add_launch(tr->trace, reader_string(tr->capture, event->call),
            load_anchor_of(tr, event->path_number, event->instance),
            load_thread_of(tr, event->thread));
}

/* Skips a use of a block that is not recorded any more, or not yet: the block is unknown. */
static void add_use(struct translation *tr, const struct read_event *event)
{
    const uint32_t *block = keytable_find(&tr->numbers, (struct key){event->block, 0, 0});

    if (block)
        trace_add_use(tr->trace, *block, event->time_ns, load_thread_of(tr, event->thread),
                (event->use_flags & FORMAT_USE_MAY) != 0);
}

static void load_add_event(struct translation *tr, const struct read_event *event)
{
    static void (*const adders[FORMAT_EVENT_KIND_COUNT])(
            struct translation *, const struct read_event *) = {
            [FORMAT_EVENT_ALLOC] = load_add_birth,
            [FORMAT_EVENT_FREE] = load_add_death,
            [FORMAT_EVENT_EDGE] = add_edge,
            [FORMAT_EVENT_HINT] = load_add_hint,
            [FORMAT_EVENT_RESERVED] = add_reserved,
            [FORMAT_EVENT_OOM] = add_oom,
            [FORMAT_EVENT_OTHER_ALLOC] = load_add_other,
            [FORMAT_EVENT_OTHER_FREE] = end_other,
            [FORMAT_EVENT_CALL] = add_call,
            [FORMAT_EVENT_LAUNCH] = add_launch,
            [FORMAT_EVENT_USE] = add_use,
    };

    if ((unsigned)event->kind < FORMAT_EVENT_KIND_COUNT && adders[event->kind])
        adders[event->kind](tr, event);
}

/* ---- blocks that lived before the first recorded event ---- */

static void load_add_carried(struct translation *tr, const struct carried_birth *birth)
{
    const struct read_live *what = &birth->what;
    size_t at = tr->trace->event_count;
    const struct read_event event = {.seq = what->seq,
            .addr = what->addr,
            .size = what->size,
            .stack = what->stack,
            .pystack = what->pystack,
            .path_number = what->path_number,
            .instance = what->instance,
            .path = what->path,
            .nth = what->nth,
            .stream = what->stream,
            .time_ns = what->time_ns,
            .flags = what->flags,
            .memclass = what->memclass,
            .thread = birth->thread,
            .device = what->device};

    birth->is_other ? load_add_other(tr, &event) : load_add_birth(tr, &event);
    for (; at < tr->trace->event_count; at++)
        tr->trace->events[at].time_ns = what->time_ns;
}

/* Blocks that were born before the event `seq`. */
static void add_carried_before(struct translation *tr, uint64_t seq)
{
    const struct carried *carried = &tr->carried;

    for (; tr->born < carried->count && carried->births[tr->born].what.seq < seq; tr->born++)
        load_add_carried(tr, &carried->births[tr->born]);
}

/* Bytes that heaps hold at the start of the record. */
static void begin_reserved(struct translation *tr)
{
    const struct carried *carried = &tr->carried;
    uint64_t before[FORMAT_DEVICES_MAX + 1];

    memcpy(before, carried->silent, sizeof(before));
    for (size_t i = 0; i < carried->heap_count; i++) {
        const struct carried_heap *heap = &carried->heaps[i];
        *heap_of(tr, heap->device, heap->heap) = heap->before;
        before[load_held_at(heap->device)] += heap->before;
    }
    for (unsigned at = 0; at <= FORMAT_DEVICES_MAX; at++)
        if (before[at] > 0)
            load_hold(tr, at, before[at]);
}

/* The first thread of a process has the process's number. */
static uint32_t main_thread_of(const struct read_capture *capture)
{
    for (size_t i = 0; i < capture->thread_count; i++)
        if (capture->thread[i].tid == capture->pid)
            return capture->thread[i].number;
    return 0;
}

static void make_hints(struct load *load)
{
    const struct read_capture *capture = load->capture;

    load->hint_count = capture->rule_count;
    load->hints = vec_new(load->hint_count, sizeof(*load->hints));
    for (size_t i = 0; i < load->hint_count; i++) {
        load->hints[i].id = capture->rule[i].id;
        load->hints[i].mode = capture->rule[i].mode;
        load->hints[i].action = capture->rule[i].action;
        load->hints[i].touched_block = TRACE_NONE;
        load->hints[i].written_block = TRACE_NONE;
        load->hints[i].drift = capture->rule[i].has_drifted ? &capture->rule[i].drift : NULL;
    }
}

/* Whether the event concerns a block and is so old that events after it are missing. */
static bool is_passed_over(const struct translation *tr, const struct read_event *event)
{
    static const bool is_of_blocks[FORMAT_EVENT_KIND_COUNT] = {[FORMAT_EVENT_ALLOC] = true,
            [FORMAT_EVENT_FREE] = true,
            [FORMAT_EVENT_OTHER_ALLOC] = true,
            [FORMAT_EVENT_OTHER_FREE] = true,
            [FORMAT_EVENT_RESERVED] = true};

    return event->seq <= tr->carried.since && (unsigned)event->kind < FORMAT_EVENT_KIND_COUNT
            && is_of_blocks[event->kind];
}

/* Adds an event, and records its time for the block or anchor that it changes. */
static void translate_event(struct translation *tr, const struct read_event *event)
{
    struct trace *trace = tr->trace;

    if (is_passed_over(tr, event))
        return;
    add_carried_before(tr, event->seq);
    size_t before = trace->event_count;
    if (tr->load->complete_from == TRACE_NEVER && event->seq > tr->capture->complete_after_seq) {
        /* it stands for the missing events: complete from event 0 on means the whole run */
        if (before == 0)
            before = trace_add_other(trace, 0) + 1u;
        tr->load->complete_from = (uint32_t)before;
    }
    load_add_event(tr, event);
    for (; before < trace->event_count; before++) {
        trace->events[before].time_ns = event->time_ns;
        trace->events[before].seq = event->seq;
    }
}

static void translate_events(struct translation *tr)
{
    size_t count = tr->capture->event_count;
    struct read_walk *walk = read_walk_new(tr->load->capture, true);
    const struct read_event *event;
    size_t done = 0;

    if (!walk)
        vec_out_of_memory();
    if (tr->carried.since > 0)
        add_carried_before(tr, tr->carried.since + 1);
    progress_begin("reading");
    for (; (event = read_walk_next(walk)); done++) {
        translate_event(tr, event);
        if ((done & 0xffff) == 0)
            progress_step(done, count);
    }
    progress_end();
    read_walk_free(walk);
    if (done < count)
        vec_out_of_memory();
    add_carried_before(tr, UINT64_MAX);
}

static void translate(struct translation *tr)
{
    const struct read_capture *capture = tr->capture;

    if (!capture->has_all_events)
        carried_find(tr->load->capture, &tr->carried);
    /* for all events; unused room costs no memory */
    trace_reserve(tr->trace, capture->event_count + tr->carried.count + 2,
            capture->kind_count[FORMAT_EVENT_ALLOC] + tr->carried.count);
    begin_reserved(tr);
    tr->load->complete_from = capture->has_all_events ? 0 : TRACE_NEVER;
    translate_events(tr);
    /* the place of missing events is unknown */
    if (capture->lost.events_dropped || read_is_damaged(capture))
        tr->load->complete_from = TRACE_NEVER;
    add_live_uses(tr);
    trace_place_calls(tr->trace);
}

/* ---- reasons of failed allocations ---- */

/* The failure in the log that a record describes, NULL: it is not there, or has another record. */
static struct load_oom *oom_of(
        struct load *load, const struct keytable *ooms, const struct read_oom *why)
{
    uint32_t at =
            keytable_get(ooms, (struct key){why->what.seq, why->what.requested, 0}, UINT32_MAX);

    return at < load->oom_count && !load->ooms[at].why ? &load->ooms[at] : NULL;
}

/* Live bytes of the device then, added up from the record of the failure. */
static uint64_t live_of_record(const struct format_oom *what)
{
    uint64_t bytes = what->other_bytes;

    for (unsigned i = 0; i < what->holder_count; i++)
        bytes += what->holder[i].bytes;
    return bytes;
}

static void add_reason(
        struct translation *tr, const struct keytable *ooms, const struct read_oom *why)
{
    struct load_oom *oom = oom_of(tr->load, ooms, why);

    if (!oom) {
        VEC_PUSH(tr->load->ooms, tr->load->oom_count, tr->load->oom_room) = (struct load_oom){
                .seq = why->what.seq,
                .requested = why->what.requested,
                .free_bytes = why->what.free_bytes,
                .largest_free = why->what.flags & FORMAT_OOM_HEAPS ? why->what.heaps.largest_free
                                                                   : UINT64_MAX,
                .live = UINT64_MAX,
                .stack = load_stack_of(tr, why->what.stack, why->what.pystack),
                .anchor = load_anchor_of(tr, why->what.path, why->what.instance),
                .at = TRACE_NEVER,
                .device = why->what.device,
                .result = (int)why->what.result,
        };
        oom = &tr->load->ooms[tr->load->oom_count - 1];
    }
    oom->number = why->number;
    oom->why = why;
    if (oom->live == UINT64_MAX && tr->capture->lost.live_dropped == 0)
        oom->live = live_of_record(&why->what);
    oom->holder_count = why->what.holder_count;
    for (unsigned i = 0; i < oom->holder_count; i++)
        oom->holder[i] = (struct load_holder){.bytes = why->what.holder[i].bytes,
                .count = why->what.holder[i].count,
                .stack = load_stack_of(tr, why->what.holder[i].stack, why->what.holder[i].pystack)};
}

static int oom_by_seq(const void *left, const void *right)
{
    const struct load_oom *a = left;
    const struct load_oom *b = right;

    return vec_order(a->seq, b->seq, vec_order(a->number, b->number, 0));
}

static void add_reasons(struct translation *tr)
{
    struct load *load = tr->load;
    struct keytable ooms = {0}; /* (seq, bytes) -> the first such failure in the log */

    for (uint32_t i = 0; i < load->oom_count; i++)
        (void)keytable_at(&ooms, (struct key){load->ooms[i].seq, load->ooms[i].requested, 0}, i);
    for (size_t i = 0; i < tr->capture->oom_record_count; i++)
        add_reason(tr, &ooms, &tr->capture->oom[i]);
    keytable_done(&ooms);
    VEC_SORT(load->ooms, load->oom_count, oom_by_seq);
}

static void load_add_places(struct translation *tr)
{
    struct load *load = tr->load;

    load->places = vec_new(tr->capture->place_count, sizeof(*load->places));
    for (size_t i = 0; i < tr->capture->place_count; i++) {
        const struct read_place *place = &tr->capture->place[i];

        load->places[load->place_count++] =
                (struct load_place){load_stack_of(tr, place->stack, place->pystack), place};
    }
}

static void add_kept(struct translation *tr)
{
    const struct read_capture *capture = tr->capture;

    tr->load->kept_stacks = vec_new(capture->kept_count, sizeof(*tr->load->kept_stacks));
    for (size_t i = 0; i < capture->kept_count; i++)
        tr->load->kept_stacks[i] =
                load_stack_of(tr, capture->kept[i].stack, capture->kept[i].pystack);
    tr->load->held_stacks = vec_new(capture->held_count, sizeof(*tr->load->held_stacks));
    for (size_t i = 0; i < capture->held_count; i++)
        tr->load->held_stacks[i] =
                load_stack_of(tr, capture->held[i].stack, capture->held[i].pystack);
}

void load_capture(const char *path, struct read_capture *capture, struct load *ret_load)
{
    struct load load = {.path = vec_text(path), .capture = capture, .trace = trace_new()};
    struct translation tr = {.load = &load,
            .capture = capture,
            .trace = load.trace,
            .main_thread = main_thread_of(capture),
            .stacks = {.capture = capture, .trace = load.trace}};

    load.trace->rank = capture->rank;
    make_hints(&load);
    translate(&tr);
    add_reasons(&tr);
    load_add_places(&tr);
    add_kept(&tr);
    stacks_done(&tr.stacks);
    keytable_done(&tr.anchors);
    keytable_done(&tr.threads);
    keytable_done(&tr.others);
    keytable_done(&tr.numbers);
    keytable_values_done(&tr.heaps);
    keytable_values_done(&tr.limbo);
    keytable_values_done(&tr.live);
    carried_done(&tr.carried);
    inorder_settle(&load);
    if (load.complete_from != 0 && capture->counted_late > 0)
        load.trace->live_most = capture->total.peak_bytes;
    *ret_load = load;
}

/* Prints one line for any view: no figure of a damaged capture may be taken for right. */
static void tell_damage(const struct load *load)
{
    struct render_ink ink = render_ink(stderr);
    const char *separator = "";

    if (!read_is_damaged(load->capture))
        return;
    render_put(stderr, ink.red);
    (void)fprintf(stderr, "kedge: %s is damaged (", load->path);
    for (unsigned area = 0; area < READ_AREA_COUNT; area++) {
        if (load->capture->damaged[area] == 0)
            continue;
        (void)fprintf(stderr, "%s%s: %" PRIu64, separator, read_area_name(area),
                load->capture->damaged[area]);
        separator = ", ";
    }
    (void)fputs("): figures are wrong or incomplete", stderr);
    render_put(stderr, ink.off);
    (void)fputs("\n", stderr);
}

/* Conditions that are no damage, but that every view must mention. */
static void tell_oddities(const struct load *load)
{
    const struct read_capture *capture = load->capture;

    if (capture->bad_records > 0)
        (void)fprintf(stderr,
                "kedge: %s: %" PRIu64
                " record%s make%s no sense and left out: of a later kedge, or "
                "changed since\n",
                load->path, capture->bad_records, capture->bad_records == 1 ? "" : "s",
                capture->bad_records == 1 ? "s" : "");
    if (capture->torn > 0)
        (void)fprintf(stderr,
                "kedge: %s: totals and records differ, by no more than what was under way when the "
                "process was killed\n",
                load->path);
}

int load_open(const char *path, struct load *ret_load)
{
    bool is_bundle = bundle_is(path);
    struct read_error error = {.text = ""};
    struct read_capture *capture;
    struct symcache *names = NULL;
    char *why = NULL;

    progress_begin(is_bundle ? "unpacking" : "opening");
    int r = is_bundle ? bundle_open(path, &capture, &names, &why)
                      : read_begin(path, &capture, &error);
    progress_end();
    if (r < 0) {
        const char *text = *error.text ? error.text : strerror(-r);
        (void)fprintf(stderr, "kedge: %s: %s\n", path, why ? why : text);
        free(why);
        return 2;
    }
    load_capture(path, capture, ret_load);
    ret_load->names = names;
    ret_load->trace->names = names;
    if (is_bundle)
        ret_load->modules = ret_load->trace->modules_packed = bundle_modules_new(path);
    tell_damage(ret_load);
    tell_oddities(ret_load);
    return 0;
}

void load_close(struct load *load)
{
    trace_free(load->trace);
    read_close(load->capture);
    free(load->hints);
    free(load->holds);
    free(load->ooms);
    free(load->others);
    symcache_free(load->names);
    bundle_modules_free(load->modules);
    free(load->places);
    free(load->kept_stacks);
    free(load->held_stacks);
    free(load->threads);
    free(load->path);
    *load = (struct load){0};
}

bool load_refuses(const char *who, const struct load *load)
{
    if (read_is_damaged(load->capture))
        (void)fprintf(stderr, "%s: %s is damaged: nothing can be decided by it\n", who, load->path);
    return read_is_damaged(load->capture);
}

bool load_has_ended(const struct load *load)
{
    return load->capture->state == FORMAT_STATE_CLEAN && !read_is_damaged(load->capture);
}

bool load_is_imported(const struct read_capture *capture)
{
    for (size_t i = 0; i < capture->setting_count; i++)
        if (strcmp(capture->setting[i].name, "imported_from") == 0)
            return true;
    return false;
}

const char *load_lacks(const struct read_capture *capture)
{
    if (load_is_imported(capture))
        return "events are missing in the record that was imported";
    return capture->trace == FORMAT_TRACE_FULL ? "events are missing in the capture" : LOAD_LACKS;
}

uint64_t load_native_peak(const struct format_class classes[FORMAT_CLASSES_MAX])
{
    uint64_t most = 0;

    for (unsigned i = MEMCLASS_POOLED + 1; i < MEMCLASS_DEVICE_END; i++)
        most += classes[i].peak_bytes;
    return most;
}

bool load_lacks_reserved(const struct load *load)
{
    return load->capture && load_is_imported(load->capture)
            && load->capture->total.peak_reserved_bytes == 0;
}
