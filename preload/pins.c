/* SPDX-License-Identifier: MIT */
#include "preload/pins.h"

#include "preload/addrmap.h"
#include "preload/conduct.h"

#include "alloc/lock.h"
#include "alloc/meta.h"
#include "tracker/usemap.h"
#include "tracker/uses.h"

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
    bool first; /* of its kind on the block */
    bool noted; /* only for its uses: not pinned */
    bool may;   /* a word of a larger parameter */
    enum pool_pin kind;
};

/* A node names memory that nobody tells. */
#define BASE_UNSEEN 0

/* What an owner names, each block once. */
struct pins_uses {
    uint32_t count;
    bool unseen;
    uint64_t base[]; /* its lowest bit: perhaps none */
};

static struct lock pins_lock = LOCK_INIT(LOCK_RANK_PRELOAD);
/* guarded by pins_lock: the first entry of each owner, by its handle */
static struct addrmap pins_of[PINS_OWNER_COUNT];

void pins_fork_child(void)
{
    lock_init(&pins_lock, LOCK_RANK_PRELOAD);
}

/* ---- collecting ----------------------------------------------------------------------------- */

static bool add(struct pins *pins, const struct pool_pinned *pinned, bool may)
{
    struct pins_entry *entry = meta_get(sizeof *entry);

    if (!entry)
        return false;
    entry->base = pinned->base;
    entry->alloc_seq = pinned->alloc_seq;
    entry->rule = pinned->rule;
    entry->device = pinned->device;
    entry->size = pinned->size;
    entry->first = pinned->first;
    entry->may = may;
    entry->kind = pins->kind;
    entry->next = pins->first;
    pins->first = entry;
    return true;
}

static void note(struct pins *pins, devptr_t base, bool may)
{
    struct pins_entry *entry = meta_get(sizeof *entry);

    if (!entry) {
        pins_unknown_graph(); /* its launches are not to be trusted */
        return;
    }
    *entry = (struct pins_entry){.next = pins->first,
            .base = base,
            .rule = -1,
            .device = -1,
            .noted = true,
            .may = may,
            .kind = pins->kind};
    pins->first = entry;
}

static bool has_base(const struct pins_entry *from, const struct pins_entry *end, devptr_t base)
{
    while (from != end && from->base != base)
        from = from->next;
    return from != end;
}

/* What is used whenever the owner is, without the blocks that have just been pinned. */
static void note_uses(struct pins *pins, const struct pins_entry *before, devptr_t lo, uint64_t len,
        enum touch how)
{
    const struct usemap_range *range = len ? usemap_first(lo, len) : NULL;
    devptr_t end = lo + len;

    if (pins->kind != POOL_PIN_GRAPH) {
        uses_shown(lo, len);
        return;
    }
    while (range) {
        devptr_t next = usemap_end(range);

        if (!has_base(pins->first, before, range->lo))
            note(pins, range->lo, how == TOUCH_INSIDE);
        if (next >= end || next <= lo)
            return;
        lo = next;
        range = usemap_first(lo, end - lo);
    }
}

bool pins_collect(struct pins *pins, devptr_t lo, uint64_t len, enum touch how, const char *call)
{
    const struct pins_entry *before = pins->first;
    devptr_t from = lo;
    struct pool *pool = conduct_pool();
    struct pool_pinned pinned;
    struct pool_hit hit;
    uint64_t end = lo + len;
    int r = pool ? 0 : -ENOENT;

    while (r == 0 && lo < end) {
        r = pool_pin(pool, lo, end - lo, pins->kind, &pinned, &hit);
        if (r == -EBUSY)
            return call && conduct_hit(&hit, lo, how, call);
        if (r != 0)
            break;
        if (!add(pins, &pinned, how == TOUCH_INSIDE))
            r = -ENOMEM; /* the pin itself stays, for good */
        lo = pinned.end;
    }
    if (r == -ENOMEM)
        conduct_stop_hints("there is no memory to note what may not be released");
    if (uses_on())
        note_uses(pins, before, from, len, how);
    return false;
}

/* A copy of a list, its entries not pinned yet. */
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

static struct pins_entry *first_of(const struct addrmap_entry *known)
{
    return known ? (struct pins_entry *)(uintptr_t)known->value[0] : NULL;
}

void pins_copy(struct pins *pins, enum pins_owner owner, uint64_t id)
{
    struct pins_entry *copies;

    lock_take(&pins_lock);
    copies = copy_of(first_of(addrmap_find(&pins_of[owner], id)));
    lock_drop(&pins_lock);
    while (copies) {
        struct pins_entry *next = copies->next;

        if (copies->noted
                || pool_repin(conduct_pool(), copies->base, copies->alloc_seq, copies->kind) == 0) {
            copies->next = pins->first;
            pins->first = copies;
        } else {
            meta_put(copies, sizeof *copies); /* gone meanwhile */
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
            pool_unpin(conduct_pool(), entry->base, entry->alloc_seq, entry->kind);
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
static void forget_uses_locked(struct addrmap_entry *known)
{
    struct pins_uses *uses = (struct pins_uses *)(uintptr_t)known->value[1];

    known->value[1] = 0;
    if (uses)
        meta_put(uses, sizeof *uses + uses->count * sizeof uses->base[0]);
}

/* The list becomes the owner's; what cannot be noted stays pinned for good. */
static void put(struct pins *pins, enum pins_owner owner, uint64_t id)
{
    struct pins_entry *last = pins->first;
    struct addrmap_entry *known;

    while (last && last->next)
        last = last->next;
    if (!last)
        return;
    lock_take(&pins_lock);
    known = addrmap_add(&pins_of[owner], id);
    if (known) {
        forget_uses_locked(known);
        last->next = first_of(known);
        known->value[0] = (uintptr_t)pins->first;
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
            at->part = part;
    put(pins, owner, id);
}

void pins_give_back(struct pins *pins, enum pins_owner owner, uint64_t id)
{
    put(pins, owner, id);
}

void pins_take(struct pins *pins, enum pins_owner owner, uint64_t id)
{
    pins_take_parts(pins, owner, id, 0, UINT64_MAX, -1);
}

/* Takes those entries out of a list that are of these parts, at most `most`. */
static struct pins_entry *split(
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

static void take(struct pins *pins, enum pins_owner owner, uint64_t id, uint64_t lo, uint64_t hi,
        int device, unsigned most)
{
    struct addrmap_entry *known;

    lock_take(&pins_lock);
    known = addrmap_find(&pins_of[owner], id);
    if (known) {
        struct pins_entry *first = first_of(known);

        forget_uses_locked(known);
        pins->first = split(&first, lo, hi, device, most);
        known->value[0] = (uintptr_t)first;
        if (!first)
            addrmap_remove(&pins_of[owner], known);
    }
    lock_drop(&pins_lock);
}

void pins_take_parts(
        struct pins *pins, enum pins_owner owner, uint64_t id, uint64_t lo, uint64_t hi, int device)
{
    take(pins, owner, id, lo, hi, device, UINT32_MAX);
}

void pins_take_one(struct pins *pins, enum pins_owner owner, uint64_t id)
{
    take(pins, owner, id, 0, UINT64_MAX, -1, 1);
}

static bool has_part(const struct pins_entry *entry, uint64_t part)
{
    while (entry && entry->part != part)
        entry = entry->next;
    return entry != NULL;
}

uint64_t pins_find_part(enum pins_owner owner, uint64_t part)
{
    uint64_t id = 0;

    lock_take(&pins_lock);
    for (uint32_t i = 0; i < pins_of[owner].capacity && id == 0; i++) {
        const struct addrmap_entry *known = &pins_of[owner].slots[i];

        if (known->key && has_part(first_of(known), part))
            id = known->key;
    }
    lock_drop(&pins_lock);
    return id;
}

void pins_shared(const struct pins *pins, const char *call, bool ends_hints)
{
    for (const struct pins_entry *at = pins->first; at; at = at->next) {
        if (at->first && !at->noted)
            conduct_shared(at->base, at->size, at->device);
        if (ends_hints && at->rule >= 0)
            conduct_hint_off(at->rule, call);
    }
}

/* ---- uses ----------------------------------------------------------------------------------- */

static atomic_bool unknown_graph;

void pins_unknown_graph(void)
{
    if (uses_on())
        atomic_store_explicit(&unknown_graph, true, memory_order_relaxed);
}

void pins_unseen(struct pins *pins)
{
    note(pins, BASE_UNSEEN, false);
}

/* Into a hash table of `room` places, a power of two; true: it was not there. */
static bool put_base(uint64_t *table, uint32_t room, const struct pins_entry *entry)
{
    uint64_t base = uses_base(entry->base) & ~UINT64_C(1);
    uint32_t at = (uint32_t)((base * UINT64_C(0x9e3779b97f4a7c15)) >> 33) & (room - 1);

    while (table[at] != 0 && (table[at] & ~UINT64_C(1)) != base)
        at = (at + 1) & (room - 1);
    if (table[at] == 0) {
        table[at] = base | entry->may;
        return true;
    }
    if (!entry->may)
        table[at] = base;
    return false;
}

/* NULL = no memory. */
static struct pins_uses *list_uses(const struct pins_entry *first)
{
    struct pins_uses *uses;
    uint64_t *table;
    uint32_t room = 2;
    uint32_t count = 0;
    bool unseen = false;

    for (const struct pins_entry *at = first; at; at = at->next)
        if (++count >= room / 2)
            room *= 2;
    table = meta_get(room * sizeof *table);
    if (!table)
        return NULL;
    count = 0;
    for (const struct pins_entry *at = first; at; at = at->next) {
        unseen |= at->base == BASE_UNSEEN;
        if (at->base != BASE_UNSEEN && put_base(table, room, at))
            count++;
    }
    uses = meta_get(sizeof *uses + count * sizeof uses->base[0]);
    if (uses) {
        uses->unseen = unseen;
        for (uint32_t i = 0; i < room; i++)
            if (table[i])
                uses->base[uses->count++] = table[i];
    }
    meta_put(table, room * sizeof *table);
    return uses;
}

static void use_all(const struct pins_uses *uses, uint64_t *moment)
{
    if (uses->unseen)
        uses_unseen(moment);
    for (uint32_t i = 0; i < uses->count; i++)
        uses_touch(uses->base[i] & ~UINT64_C(1), 1, uses->base[i] & 1 ? USE_MAY : USE_SURE, moment);
}

void pins_use(enum pins_owner owner, uint64_t id, uint64_t *moment)
{
    struct addrmap_entry *known;
    bool seen = !atomic_load_explicit(&unknown_graph, memory_order_relaxed);

    lock_take(&pins_lock);
    known = addrmap_find(&pins_of[owner], id);
    if (known) {
        struct pins_uses *uses = (struct pins_uses *)(uintptr_t)known->value[1];

        if (!uses) {
            uses = list_uses(first_of(known));
            known->value[1] = (uintptr_t)uses;
        }
        if (uses)
            use_all(uses, moment);
        else
            seen = false;
    }
    lock_drop(&pins_lock);
    if (!seen)
        uses_unseen(moment);
}
