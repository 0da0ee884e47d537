/* SPDX-License-Identifier: MIT */
#include "preload/pins.h"

#include "preload/addrmap.h"
#include "preload/conduct.h"

#include "alloc/lock.h"
#include "alloc/meta.h"

#include <errno.h>

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
    enum pool_pin kind;
};

static struct lock pins_lock = LOCK_INIT(LOCK_RANK_PRELOAD);
/* guarded by pins_lock: the first entry of each owner, by its handle */
static struct addrmap pins_of[PINS_OWNER_COUNT];

void pins_fork_child(void)
{
    lock_init(&pins_lock, LOCK_RANK_PRELOAD);
}

/* ---- collecting ----------------------------------------------------------------------------- */

static bool add(struct pins *pins, const struct pool_pinned *pinned)
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
    entry->kind = pins->kind;
    entry->next = pins->first;
    pins->first = entry;
    return true;
}

bool pins_collect(struct pins *pins, devptr_t lo, uint64_t len, enum touch how, const char *call)
{
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
        if (!add(pins, &pinned))
            r = -ENOMEM; /* the pin itself stays, for good */
        lo = pinned.end;
    }
    if (r == -ENOMEM)
        conduct_stop_hints("there is no memory to note what may not be released");
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

        if (pool_repin(conduct_pool(), copies->base, copies->alloc_seq, copies->kind) == 0) {
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
        if (at->first)
            conduct_shared(at->base, at->size, at->device);
        if (ends_hints && at->rule >= 0)
            conduct_hint_off(at->rule, call);
    }
}
