/* SPDX-License-Identifier: MIT */
#include "tracker/capture/caplive.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "tracker/base/counter.h"
#include "tracker/capture/capture.h"

#include <errno.h>
#include <string.h>

#define SHARDS       64u
#define FIRST_EXTENT (256u << 10)
#define SLOT_BATCH   16u
#define FREE_FIRST   64u
#define DEBTS        16u

/* How far behind the newest number a freed address is remembered, and how often older ones are
 * removed; see caplive_forget_locked. */
#define MEMORY_OF_FREES (1u << 20)
#define FORGET_AFTER    (MEMORY_OF_FREES / 4)

/* State of an address. */
struct entry {
    uint64_t addr;
    uint64_t seq; /* of its last operation */
    uint64_t size;
    struct format_live *slot;   /* NULL = not in the file (no space) */
    struct usemap_range *range; /* the range through which uses find the slot; NULL = none yet */
    bool is_live;
    bool is_released; /* by a hint, counted */
    int16_t device;
    uint8_t memclass;
    bool is_early; /* freed at `seq` before its allocation was recorded: the allocation is late */
    uint32_t owed; /* frees that were counted before they were recorded */
    struct caplive_birth birth;
};

/* A block whose end was counted before its free was recorded: kept for that free. */
struct debt {
    uint64_t addr;        /* 0 = none */
    uint64_t born, until; /* the free's number is between these */
    struct caplive_change gone;
};

struct shard {
    struct lock lock;
    /* guarded by lock: */
    struct table index; /* struct entry; freed addresses, too */
    uint64_t newest_seq;
    uint64_t forgot_seq;        /* newest_seq when frees were last forgotten */
    struct format_live **spare; /* unused slots of the file */
    uint32_t spares, spare_max;
    /* one for each pending free; where frees never come, the latest ones */
    struct debt debt[DEBTS];
};

static struct cappool pool;
static struct shard shards[SHARDS];
static uint64_t *dropped; /* in the header; fixed by caplive_init */

void caplive_init(struct capfile *file)
{
    cappool_init(&pool, file, FORMAT_EXTENT_LIVE, sizeof(struct format_live), FIRST_EXTENT);
    dropped = &file->header->lost.live_dropped;
    for (uint32_t i = 0; i < SHARDS; i++) {
        table_clear(&shards[i].index);
        meta_put(shards[i].spare, shards[i].spare_max * sizeof(struct format_live *));
        shards[i] = (struct shard){.index = TABLE_OF(struct entry)};
        lock_init(&shards[i].lock, LOCK_RANK_CAPTURE);
    }
}

_Static_assert(SHARDS == UINT64_C(1) << (64 - 58), "shards by the upper 6 bits");

/* By other bits than those that the index hashes. */
static struct shard *shard_of(uint64_t addr)
{
    return &shards[addr * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

/* A freed address is remembered only to recognise late operations. An operation that is a million
 * numbers behind belongs to a thread that was stopped inside kedge for that long; it would count as
 * an unknown free. */
static void caplive_forget_locked(struct shard *shard)
{
    struct entry *entry = table_next(&shard->index, NULL);

    shard->forgot_seq = shard->newest_seq;
    while (entry) {
        bool is_stale = !entry->is_live && entry->seq + MEMORY_OF_FREES < shard->newest_seq;

        if (is_stale && entry->range)
            usemap_drop(entry->range);
        entry = is_stale ? table_remove(&shard->index, entry) : table_next(&shard->index, entry);
    }
}

/* The entry of an address, created if needed; NULL = no memory. */
static struct entry *entry_locked(struct shard *shard, uint64_t addr)
{
    struct entry *entry = table_find(&shard->index, addr);

    if (entry)
        return entry;
    /* before the index grows */
    if (shard->index.count >= shard->index.room / 4 * 3
            && shard->newest_seq - shard->forgot_seq > FORGET_AFTER)
        caplive_forget_locked(shard);
    return table_add(&shard->index, addr);
}

static void add_spares_locked(struct shard *shard, struct format_live *slots, uint32_t count)
{
    if (shard->spares + count > shard->spare_max) {
        uint32_t max = shard->spare_max ? 2 * shard->spare_max : FREE_FIRST;
        struct format_live **to = meta_get(max * sizeof(struct format_live *));

        if (!to)
            return; /* these slots stay empty for good */
        if (shard->spares > 0)
            memcpy(to, shard->spare, shard->spares * sizeof(struct format_live *));
        meta_put(shard->spare, shard->spare_max * sizeof(struct format_live *));
        shard->spare = to;
        shard->spare_max = max;
    }
    for (uint32_t i = 0; i < count; i++)
        shard->spare[shard->spares++] = &slots[i];
}

typedef uint64_t __attribute__((may_alias)) slot_word;

/* state is 0 while the slot is half written: a kill in between loses this one operation. Written
 * word by word, since a thread that uses a block that another one has just freed (a graph's launch
 * may) still writes a figure of the previous block (uses.c). */
static void write_slot(struct format_live *to, const struct format_live *from)
{
    slot_word *words = (slot_word *)(void *)to;
    const slot_word *source = (const slot_word *)(const void *)from;

    /* an exchange, since its acquire half keeps the later stores after it */
    (void)__atomic_exchange_n(&to->state, 0, __ATOMIC_ACQ_REL);
#pragma GCC unroll 32
    for (size_t i = 1; i < sizeof *to / sizeof *words; i++)
        __atomic_store_n(&words[i], source[i], __ATOMIC_RELAXED);
    __atomic_store_n(&to->state, from->state, __ATOMIC_RELEASE);
}

_Static_assert(offsetof(struct format_live, state) == 0
                && sizeof(uint64_t) == sizeof((struct format_live *)0)->state,
        "the state is the first word");

static void end_block(const struct entry *entry, struct caplive_change *ret_change)
{
    ret_change->gone_size = entry->size;
    ret_change->gone_hinted = entry->is_released ? entry->size : 0;
    ret_change->gone_device = entry->device;
    ret_change->gone_class = (enum memclass)entry->memclass;
    ret_change->gone_birth = entry->birth;
    if (entry->slot && liveuse_on())
        liveuse_died(entry->slot, entry->range, &ret_change->gone_uses);
    else
        ret_change->gone_uses = (struct use_figures){.count = 0};
}

/* ---- late frees ---- */

/* Replaces the oldest entry if none is free: the one that has waited longest may never come. */
static void note_debt_locked(struct shard *shard, const struct entry *entry, uint64_t until,
        const struct caplive_change *change)
{
    struct debt *debt = &shard->debt[0];

    for (uint32_t i = 1; i < DEBTS && debt->addr != 0; i++)
        if (shard->debt[i].addr == 0 || shard->debt[i].until < debt->until)
            debt = &shard->debt[i];
    *debt = (struct debt){.addr = entry->addr, .born = entry->seq, .until = until, .gone = *change};
}

static void settle_debt_locked(
        struct shard *shard, uint64_t addr, uint64_t seq, struct caplive_change *ret_change)
{
    for (uint32_t i = 0; i < DEBTS; i++) {
        struct debt *debt = &shard->debt[i];

        if (debt->addr != addr || debt->born >= seq || debt->until <= seq)
            continue;
        *ret_change = debt->gone;
        debt->addr = 0;
        break;
    }
    ret_change->is_counted = true;
}

/* ---- one operation ---- */

static void caplive_enter_locked(struct shard *shard, struct entry *entry,
        const struct format_live *slot, const struct caplive_birth *birth,
        struct caplive_change *ret_change)
{
    uint64_t seq = slot->state >> 1;

    if (seq > shard->newest_seq)
        shard->newest_seq = seq;
    if (entry->is_live) {
        end_block(entry, ret_change);
        note_debt_locked(shard, entry, seq, ret_change);
        ret_change->is_implied = true;
        entry->owed++;
    }
    entry->seq = seq;
    entry->birth = *birth;
    entry->size = slot->size;
    entry->device = slot->device;
    entry->memclass = slot->flags >> FORMAT_ALLOC_CLASS_SHIFT;
    entry->is_live = true;
    entry->is_released = false;
    entry->is_early = false;
    if (!entry->slot && shard->spares > 0)
        entry->slot = shard->spare[--shard->spares];
    if (entry->slot) {
        write_slot(entry->slot, slot);
        if (liveuse_on())
            liveuse_born(entry->slot, &entry->range);
    }
    ret_change->is_new = true;
}

int caplive_alloc(const struct format_live *slot, const struct caplive_birth *birth,
        struct caplive_change *ret_change)
{
    struct shard *shard = shard_of(slot->addr);
    struct format_live *fresh = NULL;
    uint32_t got = 0;
    bool is_lost = false;
    int r = 0;

    ret_change->is_counted = false;
    ret_change->is_new = false;
    ret_change->is_implied = false;
    ret_change->is_over = false;
    lock_take(&shard->lock);
    if (shard->spares == 0) {
        /* Growth makes system calls: drop the lock, then check again. */
        lock_drop(&shard->lock);
        fresh = cappool_take(&pool, SLOT_BATCH, &got, &r);
        lock_take(&shard->lock);
        if (fresh)
            add_spares_locked(shard, fresh, got);
    }
    struct entry *entry = entry_locked(shard, slot->addr);

    if (!entry) {
        is_lost = true;
        ret_change->is_new = true;
    } else if (entry->seq < slot->state >> 1) {
        caplive_enter_locked(shard, entry, slot, birth, ret_change);
        is_lost = !entry->slot;
    } else if (entry->is_early) {
        entry->is_early = false;
        ret_change->is_new = true;
        ret_change->is_over = true;
        ret_change->gone_size = slot->size;
        ret_change->gone_hinted = 0;
        ret_change->gone_uses = (struct use_figures){.count = 0};
        ret_change->gone_device = slot->device;
        ret_change->gone_class = (enum memclass)(slot->flags >> FORMAT_ALLOC_CLASS_SHIFT);
        ret_change->gone_birth = *birth;
    }
    lock_drop(&shard->lock);
    if (is_lost)
        counter_add(dropped, 1);
    return r;
}

static void leave_locked(
        struct shard *shard, struct entry *entry, uint64_t seq, struct caplive_change *ret_change)
{
    end_block(entry, ret_change);
    ret_change->is_counted = false;
    ret_change->is_new = true;
    ret_change->is_implied = false;
    ret_change->is_over = false;
    entry->is_live = false;
    entry->seq = seq;
    if (seq > shard->newest_seq)
        shard->newest_seq = seq;
    if (entry->slot) {
        __atomic_store_n(&entry->slot->state, 0, __ATOMIC_RELEASE);
        if (__builtin_expect(shard->spares < shard->spare_max, 1))
            shard->spare[shard->spares++] = entry->slot;
        else
            add_spares_locked(shard, entry->slot, 1);
        entry->slot = NULL;
    }
}

/* No live block there: its allocation is late, or was never recorded. */
static void remember_free_locked(struct shard *shard, uint64_t addr, uint64_t seq)
{
    struct entry *entry = entry_locked(shard, addr);

    if (!entry || entry->seq >= seq)
        return;
    entry->seq = seq;
    entry->is_early = true;
}

int caplive_free(uint64_t addr, uint64_t seq, struct caplive_change *ret_change)
{
    struct shard *shard = shard_of(addr);
    struct entry *entry;
    int r = -ENOENT;

    lock_take(&shard->lock);
    entry = table_find(&shard->index, addr);
    if (entry && entry->is_live && entry->seq < seq) {
        leave_locked(shard, entry, seq, ret_change);
        r = 0;
    } else {
        *ret_change = (struct caplive_change){.gone_device = -1};
        if (entry && entry->owed > 0 && entry->seq > seq) {
            entry->owed--;
            settle_debt_locked(shard, addr, seq, ret_change);
        } else {
            remember_free_locked(shard, addr, seq);
        }
    }
    lock_drop(&shard->lock);
    return r;
}

void caplive_hint(uint64_t addr, uint64_t seq, unsigned what, int rule, bool counts_release,
        uint64_t *ret_size, bool *ret_first_release, int *ret_device)
{
    struct shard *shard = shard_of(addr);
    struct entry *entry;

    *ret_size = 0;
    *ret_first_release = false;
    *ret_device = -1;
    lock_take(&shard->lock);
    entry = table_find(&shard->index, addr);
    if (entry && entry->is_live && entry->seq <= seq) {
        *ret_size = entry->size;
        *ret_device = entry->device;
        if (counts_release && !entry->is_released) {
            entry->is_released = true;
            *ret_first_release = true;
        }
        if (entry->slot && rule >= 0) {
            __atomic_store_n(&entry->slot->hint, (uint8_t)what, __ATOMIC_RELAXED);
            __atomic_store_n(&entry->slot->rule, (int32_t)rule, __ATOMIC_RELAXED);
        }
    }
    lock_drop(&shard->lock);
}

struct caplive_origin caplive_origin(uint64_t addr)
{
    struct shard *shard = shard_of(addr);
    struct caplive_origin origin = {0};
    const struct entry *entry;

    lock_take(&shard->lock);
    entry = table_find(&shard->index, addr);
    if (entry && entry->is_live && entry->slot)
        origin = (struct caplive_origin){
                entry->slot->stack, entry->slot->pystack, entry->slot->path};
    lock_drop(&shard->lock);
    return origin;
}

uint64_t caplive_seq(uint64_t addr, uint64_t most)
{
    struct shard *shard = shard_of(addr);
    const struct entry *entry;
    uint64_t seq = 0;

    lock_take(&shard->lock);
    entry = table_find(&shard->index, addr);
    if (entry && entry->is_live && entry->size <= most)
        seq = entry->seq;
    lock_drop(&shard->lock);
    return seq;
}

void caplive_mapped(uint64_t key, uint64_t addr, uint64_t size)
{
    struct shard *shard = shard_of(key);
    struct entry *entry;

    lock_take(&shard->lock);
    entry = table_find(&shard->index, key);
    if (entry && entry->is_live && entry->slot)
        liveuse_mapped(entry->slot, addr, size);
    lock_drop(&shard->lock);
}

uint32_t caplive_of_context(
        uint64_t context, uint64_t seq, uint32_t *io_shard, uint64_t *ret_addrs, uint32_t most)
{
    uint32_t count = 0;

    for (; *io_shard < SHARDS && count == 0; *io_shard += count == 0) {
        struct shard *shard = &shards[*io_shard];

        lock_take(&shard->lock);
        for (const struct entry *entry = table_next(&shard->index, NULL); entry && count < most;
                entry = table_next(&shard->index, entry))
            if (entry->is_live && entry->seq < seq && entry->birth.context == context)
                ret_addrs[count++] = entry->addr;
        lock_drop(&shard->lock);
    }
    return count;
}

static struct caplive_sum *caplive_sum_of(
        struct caplive_sum *sums, uint32_t room, uint32_t stack, uint32_t pystack)
{
    uint32_t at = ((stack ^ pystack << 16) * UINT32_C(0x9e3779b1) ^ pystack) & (room - 1);

    for (uint32_t i = 0; (stack | pystack) != 0 && i < room; i++, at = (at + 1) & (room - 1)) {
        struct caplive_sum *sum = &sums[at];

        if (at != 0
                && ((sum->stack == stack && sum->pystack == pystack)
                        || (sum->stack | sum->pystack) == 0)) {
            sum->stack = stack;
            sum->pystack = pystack;
            return &sums[at];
        }
    }
    return &sums[0];
}

void caplive_sum(int device, struct caplive_sum *sums, uint32_t room)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        lock_take(&shards[i].lock);
        for (const struct entry *entry = table_next(&shards[i].index, NULL); entry;
                entry = table_next(&shards[i].index, entry)) {
            struct caplive_sum *sum;

            if (!entry->is_live || !entry->slot || entry->device != device
                    || entry->memclass >= MEMCLASS_DEVICE_END)
                continue;
            sum = caplive_sum_of(sums, room, entry->slot->stack, entry->slot->pystack);
            sum->bytes += entry->size;
            sum->count++;
        }
        lock_drop(&shards[i].lock);
    }
}

uint32_t caplive_list(int device, struct capture_block *to, uint32_t room, uint64_t *ret_bytes)
{
    uint32_t count = 0;

    *ret_bytes = 0;
    for (uint32_t i = 0; i < SHARDS; i++) {
        lock_take(&shards[i].lock);
        for (const struct entry *entry = table_next(&shards[i].index, NULL); entry;
                entry = table_next(&shards[i].index, entry)) {
            if (!entry->is_live || !entry->slot || (device >= 0 && entry->device != device)
                    || entry->memclass >= MEMCLASS_DEVICE_END)
                continue;
            if (count < room)
                to[count] = (struct capture_block){
                        entry->addr, entry->size, entry->slot->stack, entry->slot->pystack};
            *ret_bytes += entry->size;
            count++;
        }
        lock_drop(&shards[i].lock);
    }
    return count;
}
