/* SPDX-License-Identifier: MIT */
#include "tracker/capture/capevents.h"

#include "alloc/base/lock.h"
#include "tracker/base/counter.h"
#include "tracker/capture/capdefs.h"
#include "tracker/capture/caplive.h"
#include "tracker/capture/caplog.h"
#include "tracker/capture/capoom.h"
#include "tracker/capture/capplace.h"
#include "tracker/capture/capstate.h"
#include "tracker/capture/captotal.h"
#include "tracker/capture/capture.h"
#include "tracker/format/eventcode.h"
#include "tracker/format/formatsum.h"
#include "tracker/stacks/intern.h"
#include "tracker/stacks/thread.h"
#include "tracker/where/anchor.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#define OPEN_RANGES 512u

/* ---- events ---- */

static uint64_t take_seq(struct format_header *header, uint64_t seq)
{
    if (seq == 0)
        return __atomic_load_n(&header->last_seq, __ATOMIC_RELAXED);
    counter_raise(&header->last_seq, seq);
    return seq;
}

static uint32_t capevents_make_head(enum format_event_kind kind, unsigned flags, int device)
{
    return (uint32_t)kind | (uint32_t)(flags & 0xffu) << 8 | (uint32_t)(uint16_t)device << 16;
}

static __attribute__((noinline)) void announce(struct thread *thread)
{
    struct format_def_thread def = {.def.kind = FORMAT_DEF_THREAD};
    char name[THREAD_NAME_MAX + 1] = "";

    thread->is_announced = true;
    (void)prctl(PR_GET_NAME, name, 0, 0, 0);
    def.def.id = thread->number;
    def.tid = thread->tid;
    def.name = intern_string(name, strnlen(name, THREAD_NAME_MAX));
    capstate_degraded(capdefs_sync(def.name, 0));
    capstate_degraded(capdefs_put(&def.def, sizeof def, NULL, 0));
}

/* Writes the name of a thread into the file before its first event. */
static inline void announce_thread(void)
{
    struct thread *thread = thread_self();

    if (thread && __builtin_expect(!thread->is_announced, 0))
        announce(thread);
}

static void capevents_put_event(struct format_event *event, uint32_t string, uint32_t stack)
{
    capstate_degraded(capdefs_sync(string, stack));
    if (!capstate_has_log())
        return;
    announce_thread();
    capstate_degraded(caplog_append(event, 0));
}

/* The result of a call: the error of the opening, or an unreported one. */
static int trouble_or(int r)
{
    return r < 0 ? r : capstate_trouble();
}

static unsigned alloc_flags(const struct capture_alloc_info *info)
{
    return (info->api == API_STREAM ? FORMAT_ALLOC_STREAM : 0)
            | (info->native ? FORMAT_ALLOC_NATIVE : 0) | (info->rule >= 0 ? FORMAT_ALLOC_HINTED : 0)
            | (info->stream_capture ? FORMAT_ALLOC_CAPTURE : 0)
            | (unsigned)info->memclass << FORMAT_ALLOC_CLASS_SHIFT;
}

static uint32_t tag_path(const struct tag *tag)
{
    return tag->anchor && tag->path ? intern_number(tag->path) : 0;
}

/* The allocating thread frees the block and has allocated at most one other block since. */
static bool is_temporary(const struct caplive_birth *birth)
{
    const struct thread *thread = thread_self();

    return thread && thread->number == birth->thread && thread->blocks - birth->ordinal <= 1;
}

static void block_died_locked(
        struct format_header *header, const struct caplive_change *change, bool is_temporary)
{
    captotal_died(header, change);
    if (change->gone_class < MEMCLASS_DEVICE_END)
        capplace_died(
                change->gone_birth.place, change->gone_device, change->gone_size, is_temporary);
}

static void block_died(struct format_header *header, const struct caplive_change *change,
        bool is_temporary, uint64_t seq)
{
    lock_take_leaf(&captotal_figures);
    captotal_comes(header, seq);
    block_died_locked(header, change, is_temporary);
    lock_drop_leaf(&captotal_figures);
}

/* The free was only late. */
static void died_before(
        struct format_header *header, const struct caplive_change *change, uint64_t seq)
{
    counter_add(&header->lost.implied_frees, UINT64_MAX);
    lock_take_leaf(&captotal_figures);
    captotal_comes(header, seq);
    if (is_temporary(&change->gone_birth))
        capplace_was_temporary(change->gone_birth.place, change->gone_size);
    lock_drop_leaf(&captotal_figures);
}

static void count_alloc(struct format_header *header, const struct capture_alloc_info *info,
        const struct format_live *slot, const struct caplive_birth *birth,
        const struct caplive_change *change)
{
    if (change->is_implied)
        counter_add(&header->lost.implied_frees, 1);
    lock_take_leaf(&captotal_figures);
    captotal_comes(header, slot->state >> 1);
    /* First end the earlier block at this address, or the peak would count both. */
    if (change->is_implied)
        block_died_locked(header, change, false);
    if (change->is_new)
        captotal_born(header, info->memclass, info->tag->device, info->tag->size);
    if (change->is_new && info->memclass < MEMCLASS_DEVICE_END)
        capplace_born(birth->place, info->tag->device, slot->size, slot->state >> 1, slot->time_ns);
    if (change->is_over) {
        captotal_comes(header, 0); /* the free has a number of its own, which came before */
        block_died_locked(header, change, false);
    }
    lock_drop_leaf(&captotal_figures);
    if (change->is_over)
        counter_add(&header->lost.unknown_frees, UINT64_MAX);
}

static void capevents_note_birth(const struct capture_alloc_info *info,
        const struct format_live *slot, struct caplive_birth *ret_birth)
{
    struct thread *thread = thread_self();
    struct capplace_key key = {slot->stack, slot->pystack, slot->path, info->tag->device};
    int r = 0;

    *ret_birth = (struct caplive_birth){.context = info->context};
    if (info->memclass >= MEMCLASS_DEVICE_END)
        return;
    ret_birth->place = capplace_find(&key, &r);
    if (thread) {
        ret_birth->thread = thread->number;
        ret_birth->ordinal = ++thread->blocks;
    }
    capstate_degraded(r);
}

int capture_alloc(const struct capture_alloc_info *info)
{
    const struct tag *tag = info->tag;
    struct caplive_change change;
    struct caplive_birth birth;
    int r;
    struct format_header *header = capstate_begin(true, &r);

    if (!header)
        return r;
    struct format_event event; /* not zeroed: each field of its kind is set below */

    event.seq = take_seq(header, info->seq);
    event.time_ns = capstate_time();
    struct format_live slot; /* as `event` */

    slot.state = event.seq << 1 | 1;
    slot.addr = info->ptr;
    slot.size = tag->size;
    slot.stream = info->stream;
    slot.time_ns = event.time_ns;
    slot.stack = tag->stack;
    slot.path = tag_path(tag);
    slot.instance = tag->instance;
    slot.nth = tag->nth;
    slot.device = (int16_t)tag->device;
    slot.flags = (uint8_t)alloc_flags(info);
    slot.hint = 0;
    slot.rule = info->rule;
    slot.pystack = tag->pystack;
    slot.use_flags = 0;
    slot.uses = (struct format_uses){.first_use = 0};
    slot.gap_begin = 0;
    slot.use_count = 0;
    slot.sum = formatsum_live(&slot);

    event.head = capevents_make_head(
            info->memclass < MEMCLASS_DEVICE_END ? FORMAT_EVENT_ALLOC : FORMAT_EVENT_OTHER_ALLOC,
            slot.flags, tag->device);
    event.u.alloc.addr = slot.addr;
    event.u.alloc.size = slot.size;
    event.u.alloc.stream = slot.stream;
    event.u.alloc.stack = slot.stack;
    event.u.alloc.path = slot.path;
    event.u.alloc.instance = slot.instance;
    event.u.alloc.nth = slot.nth;
    event.u.alloc.pystack = slot.pystack;
    capstate_degraded(capdefs_sync_python(slot.pystack));
    capevents_put_event(&event, slot.path, slot.stack);
    capevents_note_birth(info, &slot, &birth);
    capstate_degraded(caplive_alloc(&slot, &birth, &change));
    count_alloc(header, info, &slot, &birth, &change);
    return trouble_or(r);
}

/* `ends_itself`: nothing frees it, so it is not a temporary block of a thread. */
static int put_free(const struct capture_free_info *info, bool ends_itself)
{
    struct caplive_change change;
    struct anchor_place place;
    int device = info->device;
    int r;
    struct format_header *header = capstate_begin(false, &r);

    if (!header)
        return r;
    struct format_event event; /* as in capture_alloc */

    event.seq = take_seq(header, info->seq);
    event.time_ns = capstate_time();
    if (caplive_free(info->ptr, event.seq, &change) == 0) {
        block_died(header, &change, !ends_itself && is_temporary(&change.gone_birth), event.seq);
        device = change.gone_device;
    } else if (change.is_counted) {
        died_before(header, &change, event.seq);
        device = change.gone_device >= 0 ? change.gone_device : device;
    } else {
        counter_add(&header->lost.unknown_frees, 1);
    }
    anchor_here(&place);
    event.head = capevents_make_head(
            change.gone_class < MEMCLASS_DEVICE_END ? FORMAT_EVENT_FREE : FORMAT_EVENT_OTHER_FREE,
            (info->api == API_STREAM ? FORMAT_ALLOC_STREAM : 0)
                    | (info->native ? FORMAT_ALLOC_NATIVE : 0)
                    | (unsigned)change.gone_class << FORMAT_ALLOC_CLASS_SHIFT,
            device);
    event.u.free.addr = info->ptr;
    event.u.free.size = info->size ? info->size : change.gone_size;
    event.u.free.stream = info->stream;
    event.u.free.stack = event.u.free.pystack = 0; /* frees have no stacks */
    event.u.free.path = place.anchor ? intern_number(place.path) : 0;
    event.u.free.instance = place.instance;
    event.u.free.uses = info->uses ? *info->uses : change.gone_uses.times;
    event.u.free.use_count = change.gone_uses.count;
    event.u.free.use_flags = change.gone_uses.flags;
    capevents_put_event(&event, event.u.free.path, 0);
    return trouble_or(r);
}

int capture_free(const struct capture_free_info *info)
{
    return put_free(info, false);
}

#define GONE_AT_ONCE 64u

int capture_context_gone(uint64_t context, uint64_t seq)
{
    uint64_t addrs[GONE_AT_ONCE];
    uint32_t shard = 0, count;
    int r;

    if (!capstate_begin(false, &r)) /* nothing was allocated yet: there is no table either */
        return r;
    while (context != 0
            && (count = caplive_of_context(context, seq, &shard, addrs, GONE_AT_ONCE)) > 0)
        for (uint32_t i = 0; i < count; i++) {
            struct capture_free_info info = {
                    .ptr = addrs[i], .seq = seq, .api = API_SYNC, .device = -1};
            int told = put_free(&info, true);

            r = told < 0 ? told : r;
        }
    return r;
}

void capture_mapped(uint64_t key, uint64_t addr, uint64_t size)
{
    int r;

    if (capstate_begin(false, &r))
        caplive_mapped(key, addr, size);
}

static void capevents_put_edge(
        const struct edge *edge, uint64_t seq, uint64_t time_ns, bool before_start)
{
    struct format_event event = {
            .head = FORMAT_EVENT_EDGE | 0xffff0000u,
            .seq = seq,
            .time_ns = time_ns,
    };

    event.u.edge.kind = (uint32_t)edge->kind;
    event.u.edge.anchor = edge->anchor;
    event.u.edge.path = intern_number(edge->path);
    event.u.edge.instance = edge->instance;
    event.u.edge.before_start = before_start;
    capstate_degraded(capdefs_sync(event.u.edge.path, 0));
    capstate_degraded(caplog_append(&event, edge->thread));
}

/* fixed when the phase is CAPSTATE_OPEN: the ranges whose enter edges capevents_write_open_ranges
 * has written */
static struct edge open_range[OPEN_RANGES];
static size_t open_range_count;
static uint32_t open_range_newest;

void capevents_write_open_ranges(void)
{
    size_t count = anchor_open_ranges(open_range, OPEN_RANGES);

    open_range_count = count < OPEN_RANGES ? count : OPEN_RANGES;
    for (size_t i = 0; capstate_has_log() && i < open_range_count; i++) {
        if (open_range[i].anchor > open_range_newest)
            open_range_newest = open_range[i].anchor;
        capevents_put_edge(&open_range[i], 0, 0, true);
    }
}

/* True for the enter edge of a range that was open when the file was created: it is in the log
 * already. */
static bool capevents_is_written(const struct edge *edge)
{
    if (edge->kind != EDGE_ENTER || edge->anchor > open_range_newest)
        return false;
    for (size_t i = 0; i < open_range_count; i++)
        if (open_range[i].anchor == edge->anchor)
            return true;
    return false;
}

int capture_edge(const struct edge *edge, uint64_t seq)
{
    int r;
    struct format_header *header = capstate_begin(false, &r);

    if (!header || !capstate_has_log() || capevents_is_written(edge))
        return r;
    announce_thread();
    capevents_put_edge(edge, take_seq(header, seq), capstate_time(), false);
    return trouble_or(r);
}

int capture_hint(const struct capture_hint_info *info)
{
    bool releases = info->what == FORMAT_HINT_DEAD && info->mode == HINT_LIVE;
    bool is_first = false;
    uint64_t size = 0;
    int device = -1;
    int r;
    struct format_header *header = capstate_begin(false, &r);

    if (!header)
        return r;
    struct format_event event = {.seq = take_seq(header, info->seq), .time_ns = capstate_time()};

    caplive_hint(info->ptr, event.seq, (unsigned)info->what, info->rule, releases, &size, &is_first,
            &device);
    if (is_first) {
        lock_take_leaf(&captotal_figures);
        captotal_comes(header, event.seq);
        captotal_released(header, device, size);
        lock_drop_leaf(&captotal_figures);
    }
    event.head =
            capevents_make_head(FORMAT_EVENT_HINT, 0, info->device >= 0 ? info->device : device);
    event.u.hint.addr = info->ptr;
    event.u.hint.size = info->size ? info->size : size;
    event.u.hint.rule = info->rule;
    event.u.hint.what = (uint32_t)info->what;
    event.u.hint.stack = info->stack;
    event.u.hint.pystack = info->pystack;
    event.u.hint.path = info->edge ? intern_number(info->edge->path) : 0;
    event.u.hint.instance = info->edge ? info->edge->instance : 0;
    event.u.hint.mode = (uint32_t)info->mode;
    event.u.hint.result = (uint32_t)info->result;
    capstate_degraded(capdefs_sync_python(info->pystack));
    capevents_put_event(&event, event.u.hint.path, info->stack);
    return trouble_or(r);
}

int capture_call(const struct capture_call_info *info)
{
    struct anchor_place place;
    int r;
    struct format_header *header = capstate_begin(false, &r);

    if (!header || !capstate_has_log())
        return r;
    struct format_event event = {
            .head = (info->is_launch ? FORMAT_EVENT_LAUNCH : FORMAT_EVENT_CALL) | 0xffff0000u,
            .seq = take_seq(header, info->seq),
            .time_ns = capstate_time(),
    };

    anchor_here(&place);
    event.u.call.name = intern_string(info->name, strlen(info->name));
    event.u.call.path = place.anchor ? intern_number(place.path) : 0;
    event.u.call.instance = place.instance;
    event.u.call.comm = info->comm;
    event.u.call.peer = info->peer;
    for (unsigned i = 0; i < FORMAT_CALL_BUFFERS && info->buffer[i].arg; i++) {
        event.u.call.arg[i] = intern_string(info->buffer[i].arg, strlen(info->buffer[i].arg));
        event.u.call.addr[i] = info->buffer[i].ptr;
        capstate_degraded(capdefs_sync(event.u.call.arg[i], 0));
    }
    capstate_degraded(capdefs_sync(event.u.call.name, 0));
    capevents_put_event(&event, event.u.call.path, 0);
    return trouble_or(r);
}

/* A call may name a block several times: of consecutive repeats the first is recorded. */
void capture_use(uint64_t block, uint64_t time_ns, uint32_t flags)
{
    struct thread *thread = thread_self();
    struct format_header *header;
    int r;

    if (!thread || (thread->use_block == block && thread->use_ns == time_ns))
        return;
    header = capstate_begin(false, &r);
    if (!header)
        return;
    struct format_event event; /* as in capture_alloc */

    thread->use_block = block;
    thread->use_ns = time_ns;
    event.head = FORMAT_EVENT_USE | 0xffff0000u;
    event.seq = take_seq(header, 0);
    event.time_ns = time_ns;
    event.u.use.block = block;
    event.u.use.flags = flags;
    capevents_put_event(&event, 0, 0);
}

uint32_t capture_pystack(devptr_t ptr)
{
    int r;

    return capstate_begin(false, &r) ? caplive_origin(ptr).pystack : 0;
}

/* Writes the record of area E; the event is also in the log. */
static void capevents_put_oom(struct format_header *header, const struct capture_oom_info *info,
        const struct format_event *event, struct format_oom_holder *ret_top)
{
    const struct tag *tag = info->tag;
    struct format_oom record = {
            .state = __atomic_add_fetch(&header->oom_count, 1, __ATOMIC_RELAXED) << 1 | 1,
            .seq = event->seq,
            .time_ns = event->time_ns,
            .requested = tag->size,
            .stream = info->stream,
            .stack = tag->stack,
            .path = event->u.oom.path,
            .instance = tag->instance,
            .call = info->call ? intern_string(info->call, strlen(info->call)) : 0,
            .device = tag->device,
            .result = (uint32_t)info->result,
            .flags = info->flags,
            .pystack = tag->pystack,
            .free_bytes = info->free_bytes,
            .total_bytes = info->total_bytes,
            .native_bytes = captotal_native(header, tag->device),
            .heaps = info->heaps,
            .ladder = info->ladder,
            .free_elsewhere = info->free_elsewhere,
            .hint_held = info->hint_held,
    };

    capoom_holders(&record,
            __atomic_load_n(&header->total.allocated_count, __ATOMIC_RELAXED)
                    + __atomic_load_n(&header->total.freed_count, __ATOMIC_RELAXED));
    *ret_top = record.holder[0];
    capstate_degraded(capdefs_sync(record.path, tag->stack));
    capstate_degraded(capdefs_sync(record.call, 0));
    capstate_degraded(capdefs_sync_python(tag->pystack));
    capstate_degraded(capoom_put(&record));
}

int capture_oom(const struct capture_oom_info *info, struct format_oom_holder *ret_top)
{
    const struct tag *tag = info->tag;
    struct format_oom_holder top = {0};
    struct format_header *header;
    int r;

    if (ret_top)
        *ret_top = top;
    header = capstate_begin(true, &r);
    if (!header)
        return r;
    struct format_event event = {
            .head = capevents_make_head(FORMAT_EVENT_OOM, 0, tag->device),
            .seq = take_seq(header, info->seq),
            .time_ns = capstate_time(),
    };

    capstate_set(FORMAT_STATE_OOM, 0);
    event.u.oom.size = tag->size;
    event.u.oom.free_bytes = info->free_bytes;
    event.u.oom.largest_free =
            info->flags & FORMAT_OOM_HEAPS ? info->heaps.largest_free : UINT64_MAX;
    event.u.oom.stack = tag->stack;
    event.u.oom.path = tag_path(tag);
    event.u.oom.instance = tag->instance;
    event.u.oom.pystack = tag->pystack;
    event.u.oom.result = (uint32_t)info->result;
    capevents_put_oom(header, info, &event, &top);
    if (ret_top)
        *ret_top = top;
    capevents_put_event(&event, event.u.oom.path, tag->stack);
    return trouble_or(r);
}

/* ---- reserved bytes ---- */

static struct lock heap_lock = LOCK_INIT(LOCK_RANK_CAPTURE);
/* guarded by heap_lock: */
static struct {
    uint64_t heap, seq, bytes;
    uint64_t most; /* the largest recorded value */
    int device;
} heaps[FORMAT_HEAPS_MAX];
static uint32_t heap_count;

static uint64_t reserved_on_locked(int device, bool any)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < heap_count; i++)
        if (any || heaps[i].device == device)
            bytes += heaps[i].bytes;
    return bytes;
}

static void set_reserved_locked(struct format_header *header, int device)
{
    struct format_totals *totals = captotal_of(header, device);
    uint64_t all = reserved_on_locked(device, true);

    __atomic_store_n(&header->total.reserved_bytes, all, __ATOMIC_RELAXED);
    counter_raise(&header->total.peak_reserved_bytes, all);
    if (totals) {
        uint64_t here = reserved_on_locked(device, false);

        __atomic_store_n(&totals->reserved_bytes, here, __ATOMIC_RELAXED);
        counter_raise(&totals->peak_reserved_bytes, here);
    }
}

/* The row of the heap; FORMAT_HEAPS_MAX: the table is full. */
static uint32_t heap_row_locked(int device, uint64_t heap)
{
    uint32_t i;

    for (i = 0; i < heap_count && (heaps[i].heap != heap || heaps[i].device != device); i++)
        ;
    if (i == heap_count && heap_count < FORMAT_HEAPS_MAX) {
        heaps[i].heap = heap;
        heaps[i].device = device;
        heaps[i].seq = heaps[i].bytes = heaps[i].most = 0;
        heap_count++;
    }
    return i;
}

/* Sets the bytes that the heap holds. *io_high becomes 0 unless it is a higher value that was not
 * recorded. */
static bool set_heap(struct format_header *header, int device, uint64_t heap, uint64_t bytes,
        uint64_t seq, uint64_t *io_high)
{
    uint64_t high = *io_high;
    uint32_t i;

    *io_high = 0;
    lock_take(&heap_lock);
    i = heap_row_locked(device, heap);
    if (i < FORMAT_HEAPS_MAX && high > bytes && high > heaps[i].most) {
        uint64_t before = heaps[i].bytes;

        *io_high = heaps[i].most = heaps[i].bytes = high;
        set_reserved_locked(header, device);
        heaps[i].bytes = before;
    }
    if (i < FORMAT_HEAPS_MAX && heaps[i].seq <= seq) {
        heaps[i].seq = seq;
        heaps[i].bytes = bytes;
        heaps[i].most = bytes > heaps[i].most ? bytes : heaps[i].most;
    }
    set_reserved_locked(header, device);
    lock_drop(&heap_lock);
    return i < FORMAT_HEAPS_MAX;
}

static void put_reserved(int device, uint64_t heap, uint64_t bytes, uint64_t seq)
{
    struct format_event event = {
            .head = capevents_make_head(FORMAT_EVENT_RESERVED, 0, device),
            .seq = seq,
            .time_ns = capstate_time(),
    };

    event.u.reserved.heap = heap;
    event.u.reserved.bytes = bytes;
    capevents_put_event(&event, 0, 0);
}

int capture_reserved(int device, uint64_t heap, uint64_t bytes, uint64_t high, uint64_t seq)
{
    int r;
    struct format_header *header = capstate_begin(true, &r);

    if (!header)
        return r;
    seq = take_seq(header, seq);
    if (!set_heap(header, device, heap, bytes, seq, &high))
        capstate_degraded(-ENOBUFS);
    if (high != 0)
        put_reserved(device, heap, high, seq);
    put_reserved(device, heap, bytes, seq);
    return trouble_or(r);
}

void capevents_fork_child(void)
{
    lock_init(&heap_lock, LOCK_RANK_CAPTURE);
    lock_init(&captotal_figures, LOCK_RANK_CAPTURE);
    capplace_fork_child();
}
