/* SPDX-License-Identifier: MIT */
#include "preload/hints/pins.h"

#include "preload/base/forklock.h"
#include "preload/driver/contexts.h"
#include "preload/driver/reach.h"
#include "preload/driver/session.h"
#include "preload/hints/evict_in.h"
#include "preload/hints/evictlog.h"
#include "preload/hints/graphnodes.h"
#include "preload/hints/hints_run.h"
#include "preload/hints/hit.h"

#include "tracker/capture/usemap.h"
#include "tracker/capture/uses.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "alloc/pool.h"

#include <errno.h>
#include <stdatomic.h>

/* One pin of one owner. */
struct pins_entry {
    struct pins_entry *next;
    devptr_t base;
    uint64_t alloc_seq;
    uint64_t part;
    uint64_t size;
    int rule;
    int device;
    bool first; /* the first of its kind on the block */
    bool noted; /* only recorded for its uses: not pinned */
    bool may;   /* found in a word of a larger parameter */
    enum pool_pin kind;
};

/*
 * Marks in place of a block: the node names memory that is unknown or not certain; it names unknown
 * memory that may be evicted; it runs on `device`.
 */
#define BASE_UNSEEN 0
#define BASE_UNTOLD 1
#define BASE_DEVICE 2

struct use {
    uint64_t base;
    bool is_sure; /* else perhaps no block */
};

/* The blocks that an owner names, each once. */
struct pins_uses {
    uint32_t count;
    bool unseen, untold; /* a node names memory that is unknown */
    struct use use[];
};

struct owner {
    uint64_t id;
    struct pins_entry *first;
    struct pins_uses *uses; /* NULL = not made since the last change */
    uint64_t devices;       /* result of pins_devices, 0 = not computed since the last change */
};

FORKLOCK(pins_lock);
/* by id, guarded by pins_lock */
static struct table owners[PINS_OWNER_COUNT];

/* ---- collecting ----------------------------------------------------------------------------- */

/* False: no memory. */
static bool pins_push(struct pins *pins, const struct pins_entry *like)
{
    struct pins_entry *entry = meta_get(sizeof *entry);

    if (!entry)
        return false;
    *entry = *like;
    entry->kind = pins->kind;
    entry->next = pins->first;
    pins->first = entry;
    return true;
}

static bool pins_add_entry(struct pins *pins, const struct pool_pinned *pinned, bool may)
{
    const struct pins_entry like = {.base = pinned->base,
            .alloc_seq = pinned->alloc_seq,
            .size = pinned->size,
            .rule = pinned->rule,
            .device = pinned->device,
            .first = pinned->first,
            .may = may};

    return pins_push(pins, &like);
}

static void note_base(struct pins *pins, devptr_t base, bool may)
{
    const struct pins_entry like = {
            .base = base, .rule = -1, .device = -1, .noted = true, .may = may};

    if (!pins_push(pins, &like))
        pins_unknown_graph(); /* its launches cannot be trusted */
}

static bool has_base(const struct pins_entry *from, const struct pins_entry *end, devptr_t base)
{
    while (from != end && from->base != base)
        from = from->next;
    return from != end;
}

/* Notes memory that is used whenever the owner is, without the blocks that were pinned just now. */
static void note_uses(struct pins *pins, const struct pins_entry *before, devptr_t lo, uint64_t len,
        enum touch how)
{
    const struct usemap_range *range = len ? usemap_first(lo, len) : NULL;
    devptr_t end = lo + len;

    if (pins->kind != POOL_PIN_GRAPH) {
        uses_shown(lo, len);
        return;
    }
    for (; range; range = usemap_next(range, &lo, end))
        if (!has_base(pins->first, before, range->lo))
            note_base(pins, range->lo, how == TOUCH_INSIDE);
}

/* From here on the block is not evicted, if its hint would do that. */
static void tell_pinned(const struct pins *pins, const struct pool_pinned *pinned)
{
    struct block_info info;

    if (pins->kind == POOL_PIN_GRAPH || !pinned->first || !evict_in_is_wanted())
        return;
    if (pool_find(session_pool, pinned->base, &info) == 0 && hints_run_is_evict_rule(info.rule))
        evictlog_pinned(&info, pins->registers ? FORMAT_KEPT_REGISTERED : FORMAT_KEPT_SHOWN);
}

static bool pins_collect_range(
        struct pins *pins, devptr_t lo, uint64_t len, enum touch how, const char *call)
{
    const struct pins_entry *before = pins->first;
    devptr_t from = lo;
    struct pool *pool = session_pool;
    struct pool_pinned pinned;
    struct pool_hit hit;
    uint64_t end = lo + len;
    int r = pool ? 0 : -ENOENT;

    while (r == 0 && lo < end) {
        r = pool_pin(pool, lo, end - lo, pins->kind, &pinned, &hit);
        if (r == -EBUSY)
            return call && hit_must_stop(&hit, lo, how, call);
        if (r != 0)
            break;
        if (pins->kind == POOL_PIN_SHOWN && !pins->frees) /* perhaps to other devices */
            reach_add(REACH_ANY, pinned.device);
        if (!pins_add_entry(pins, &pinned, how == TOUCH_INSIDE))
            r = -ENOMEM; /* the pin itself stays for good */
        tell_pinned(pins, &pinned);
        lo = pinned.end;
    }
    if (r == -ENOMEM)
        hints_run_stop("there is no memory to note what may not be released");
    if (uses_on())
        note_uses(pins, before, from, len, how);
    return false;
}

bool pins_collect(struct pins *pins, devptr_t lo, uint64_t len, enum touch how, const char *call)
{
    struct evict_in bring;
    bool stops;

    if (pins->kind == POOL_PIN_GRAPH || pins->frees || !evict_in_is_wanted())
        return pins_collect_range(pins, lo, len, how, call);
    if (!session_may_fence()) {
        evict_in_later(lo, len);
        return pins_collect_range(pins, lo, len, how, call);
    }
    pins->refused = evict_in_pinned(&bring, lo, len);
    stops = pins->refused != CUDA_SUCCESS || pins_collect_range(pins, lo, len, how, call);
    (void)evict_in_end(&bring, CUDA_SUCCESS);
    return stops;
}

/* A copy of a list whose entries are not pinned yet. */
static struct pins_entry *copy_of(const struct pins_entry *list)
{
    struct pins_entry *copies = NULL;

    for (; list; list = list->next) {
        struct pins_entry *copy = meta_get(sizeof *copy);

        if (!copy)
            break;
        *copy = *list;
        copy->next = copies;
        copies = copy;
    }
    return copies;
}

void pins_copy(struct pins *pins, enum pins_owner owner, uint64_t id)
{
    struct pins_entry *copies;
    const struct owner *known;

    lock_take(&pins_lock);
    known = table_find(&owners[owner], id);
    copies = copy_of(known ? known->first : NULL);
    lock_drop(&pins_lock);
    while (copies) {
        struct pins_entry *next = copies->next;

        if (copies->noted
                || pool_repin(session_pool, copies->base, copies->alloc_seq, copies->kind) == 0) {
            copies->next = pins->first;
            pins->first = copies;
        } else {
            meta_put(copies, sizeof *copies); /* the block was freed meanwhile */
        }
        copies = next;
    }
}

void pins_undo(struct pins *pins)
{
    while (pins->first) {
        struct pins_entry *entry = pins->first;

        pins->first = entry->next;
        if (!entry->noted)
            pool_unpin(session_pool, entry->base, entry->alloc_seq, entry->kind);
        meta_put(entry, sizeof *entry);
    }
}

void pins_keep(struct pins *pins)
{
    while (pins->first) {
        struct pins_entry *entry = pins->first;

        pins->first = entry->next;
        meta_put(entry, sizeof *entry);
    }
}

/* ---- owners --------------------------------------------------------------------------------- */

/* The owner's list is about to change. */
static void forget_uses_locked(struct owner *owner)
{
    if (owner->uses)
        meta_put(
                owner->uses, sizeof *owner->uses + owner->uses->count * sizeof owner->uses->use[0]);
    owner->uses = NULL;
    owner->devices = 0;
}

/* Whether the entry is a mark and not a block. */
static bool pins_is_mark(const struct pins_entry *entry)
{
    return entry->base <= BASE_DEVICE;
}

/* Gives the list to the owner; entries that cannot be noted stay pinned for good. */
void pins_give_back(struct pins *pins, enum pins_owner owner, uint64_t id)
{
    struct pins_entry *last = pins->first;
    struct owner *known;

    while (last && last->next)
        last = last->next;
    if (!last)
        return;
    lock_take(&pins_lock);
    owners[owner].bytes = sizeof *known;
    known = table_add(&owners[owner], id);
    if (known) {
        forget_uses_locked(known);
        last->next = known->first;
        known->first = pins->first;
        pins->first = NULL;
    }
    lock_drop(&pins_lock);
    pins_keep(pins);
}

void pins_give(struct pins *pins, enum pins_owner owner, uint64_t id, uint64_t part)
{
    if (id == 0) {
        pins_undo(pins);
        return;
    }
    if (part != PINS_SAME_PARTS)
        for (struct pins_entry *at = pins->first; at; at = at->next)
            at->part = at->base == BASE_DEVICE ? 0 : part; /* the device of a node stays the same */
    pins_give_back(pins, owner, id);
}

void pins_take(struct pins *pins, enum pins_owner owner, uint64_t id)
{
    pins_take_parts(pins, owner, id, 0, UINT64_MAX, -1);
}

/* Moves entries of these parts out of a list, at most `most`. */
static struct pins_entry *split_off(
        struct pins_entry **first, uint64_t lo, uint64_t hi, int device, unsigned most)
{
    struct pins_entry **link = first;
    struct pins_entry *found = NULL;

    while (*link && most > 0) {
        struct pins_entry *entry = *link;

        if (entry->part < lo || entry->part >= hi || (device >= 0 && entry->device != device)) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        entry->next = found;
        found = entry;
        most--;
    }
    return found;
}

static void take_entries(struct pins *pins, enum pins_owner owner, uint64_t id, uint64_t lo,
        uint64_t hi, int device, unsigned most)
{
    struct owner *known;

    lock_take(&pins_lock);
    known = table_find(&owners[owner], id);
    if (known) {
        forget_uses_locked(known);
        pins->first = split_off(&known->first, lo, hi, device, most);
        if (!known->first)
            (void)table_remove(&owners[owner], known);
    }
    lock_drop(&pins_lock);
}

void pins_take_parts(
        struct pins *pins, enum pins_owner owner, uint64_t id, uint64_t lo, uint64_t hi, int device)
{
    take_entries(pins, owner, id, lo, hi, device, UINT32_MAX);
}

void pins_take_one(struct pins *pins, enum pins_owner owner, uint64_t id)
{
    take_entries(pins, owner, id, 0, UINT64_MAX, -1, 1);
}

void pins_map_parts(struct pins *pins, uint64_t (*map)(uint64_t part, void *arg), void *arg)
{
    uint64_t part = 0;
    uint64_t mapped = 0;

    for (struct pins_entry *at = pins->first; at; at = at->next) {
        if (at->part != part)
            mapped = map(at->part, arg);
        part = at->part;
        at->part = mapped;
    }
}

void pins_shared(const struct pins *pins, const char *call, bool ends_hints)
{
    for (const struct pins_entry *at = pins->first; at; at = at->next) {
        if (at->first && !at->noted)
            hit_shared(at->base, at->size, at->device);
        if (ends_hints && at->rule >= 0)
            hints_run_rule_off(at->rule, call);
    }
}

/* ---- captures ------------------------------------------------------------------------------- */

static void pins_hand_over(enum pins_owner from, uint64_t id, uint64_t graph)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);

    pins_take(&pins, from, id);
    if (graph)
        pins_give_back(&pins, PINS_OF_GRAPH, graph);
    else
        pins_undo(&pins);
}

void pins_for_captures(devptr_t ptr)
{
    uint64_t capture = 0;

    while ((capture = gate_next(capture)) != 0) {
        struct pins pins = PINS_NONE(POOL_PIN_SHOWN);

        pins.frees = true;
        (void)pins_collect(&pins, ptr, 1, TOUCH_POINTER, NULL);
        pins_give(&pins, PINS_OF_CAPTURE, capture, 0);
        if (gate_next(capture - 1)
                != capture) /* that capture has ended meanwhile, and may not have seen this block */
            pins_hand_over(PINS_OF_CAPTURE, capture, 0);
    }
}

/* The capture's pins go to this graph, or are ended. */
static void end_graph(uint64_t captured, uint64_t graph)
{
    pins_hand_over(PINS_OF_GRAPH, captured, graph);
    graphnodes_gone(captured);
}

bool pins_capture_ended(const struct gate_capture *capture, uint64_t graph)
{
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    bool is_gone = false;

    if (!graph && capture->stays) {
        /* the graph that the capture extended, with its earlier nodes */
        graph = graphnodes_owner(capture->graph);
    } else if (capture->graph && capture->graph != graph) {
        end_graph(capture->graph, graph);
        is_gone = true;
    }
    if (gate_next(capture->number - 1) != capture->number) {
        pins_hand_over(PINS_OF_CAPTURE, capture->number, graph);
        return is_gone;
    }
    pins_copy(&pins, PINS_OF_CAPTURE,
            capture->number); /* other captures of this number run (GATE_UNLISTED) */
    pins_settle(&pins, graph != 0, PINS_OF_GRAPH, graph, 0);
    return is_gone;
}

/* ---- uses ----------------------------------------------------------------------------------- */

static atomic_bool unknown_graph;

void pins_unknown_graph(void)
{
    atomic_store_explicit(&unknown_graph, true, memory_order_relaxed);
}

void pins_unseen(struct pins *pins)
{
    note_base(pins, BASE_UNSEEN, false);
}

void pins_untold(struct pins *pins)
{
    note_base(pins, BASE_UNTOLD, false);
}

/* NULL = no memory. */
static struct pins_uses *list_uses(const struct pins_entry *first)
{
    struct table bases = TABLE_OF(struct use);
    struct pins_uses *uses = NULL;
    bool unseen = false;
    bool untold = false;
    bool full = false;

    for (const struct pins_entry *at = first; at && !full; at = at->next) {
        struct use *use = pins_is_mark(at) ? NULL : table_add(&bases, uses_base(at->base));

        unseen |= at->base == BASE_UNSEEN;
        untold |= at->base == BASE_UNTOLD;
        full = !use && !pins_is_mark(at);
        if (use)
            use->is_sure |= !at->may;
    }
    if (!full)
        uses = meta_get(sizeof *uses + bases.count * sizeof uses->use[0]);
    if (uses) {
        uses->unseen = unseen;
        uses->untold = untold;
    }
    for (const struct use *use = table_next(&bases, NULL); use && uses;
            use = table_next(&bases, use))
        uses->use[uses->count++] = *use;
    table_clear(&bases);
    return uses;
}

static inline __attribute__((always_inline)) void use_all(
        const struct use *uses, uint32_t count, uint64_t *moment)
{
    for (uint32_t i = 0; i < count; i++)
        uses_touch(uses[i].base, 1, uses[i].is_sure ? USE_SURE : USE_MAY, moment);
}

/* Without the lock, some blocks at a time: each use is an event of the log, which may grow. */
static __attribute__((noinline, cold)) void use_in_order(
        enum pins_owner owner, uint64_t id, uint64_t *moment)
{
    struct use some[64];
    uint32_t from = 0;
    uint32_t count;

    do {
        struct owner *known;

        lock_take(&pins_lock);
        known = table_find(&owners[owner], id);
        for (count = 0; known && known->uses && from < known->uses->count && count < 64; from++)
            some[count++] = known->uses->use[from];
        lock_drop(&pins_lock);
        use_all(some, count, moment);
    } while (count == 64);
}

void pins_use(enum pins_owner owner, uint64_t id, uint64_t *moment)
{
    struct owner *known;
    bool seen = !atomic_load_explicit(&unknown_graph, memory_order_relaxed);
    bool in_order = uses_have_order();

    lock_take(&pins_lock);
    known = table_find(&owners[owner], id);
    if (known && !known->uses)
        known->uses = list_uses(known->first);
    if (known && known->uses) {
        seen &= !known->uses->unseen;
        if (!in_order)
            use_all(known->uses->use, known->uses->count, moment);
    } else if (known) {
        seen = false;
    }
    lock_drop(&pins_lock);
    if (__builtin_expect(in_order, 0))
        use_in_order(owner, id, moment);
    if (!seen)
        uses_unseen(moment);
}

/* Device -1: unknown. */
static void pins_note_device(struct pins *pins, int device)
{
    const struct pins_entry *before = pins->first;

    note_base(pins, BASE_DEVICE, false);
    if (pins->first != before)
        pins->first->device = device;
}

void pins_runs_on(struct pins *pins, uint64_t devices)
{
    if (devices == REACH_ALL)
        pins_note_device(pins, -1);
    for (int i = 0; i < DEVICES_MAX && devices != REACH_ALL; i++)
        if (devices >> i & 1)
            pins_note_device(pins, i);
}

static uint64_t list_devices(const struct pins_entry *first)
{
    uint64_t devices = 0;
    bool is_known = false;

    for (const struct pins_entry *at = first; at; at = at->next) {
        is_known |= at->base == BASE_DEVICE;
        if (at->base == BASE_DEVICE || !at->noted)
            devices |= reach_bit(at->device);
    }
    return is_known ? devices : REACH_ALL;
}

uint64_t pins_devices(enum pins_owner owner, uint64_t id)
{
    uint64_t devices = REACH_ALL;
    struct owner *known;

    if (atomic_load_explicit(&unknown_graph, memory_order_relaxed))
        return devices;
    lock_take(&pins_lock);
    known = table_find(&owners[owner], id);
    if (known && !known->devices)
        known->devices = list_devices(known->first);
    if (known)
        devices = known->devices;
    lock_drop(&pins_lock);
    return devices;
}

bool pins_bring(enum pins_owner owner, uint64_t id)
{
    bool untold = atomic_load_explicit(&unknown_graph, memory_order_relaxed);
    bool stops = false;
    struct owner *known;

    lock_take(&pins_lock);
    known = table_find(&owners[owner], id);
    if (known && !known->uses)
        known->uses = list_uses(known->first);
    if (known)
        untold |= !known->uses || known->uses->untold;
    for (uint32_t i = 0; known && known->uses && i < known->uses->count && !stops; i++)
        stops = evict_in_name(known->uses->use[i].base, 1, false);
    lock_drop(&pins_lock);
    return stops || (untold && evict_in_all());
}
