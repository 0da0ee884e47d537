/* SPDX-License-Identifier: MIT */
#include "tracker/capture/capoom.h"

#include "alloc/base/meta.h"
#include "tracker/capture/caplive.h"
#include "tracker/format/formatsum.h"
#include "tracker/python/pycode.h"
#include "tracker/stacks/intern.h"

#include <string.h>

#define SLOTS    (FORMAT_OOM_FIRST + FORMAT_OOM_LAST)
#define SUMS_MAX (1u << 16)

static struct cappool pool;
static struct lock oom_lock = LOCK_INIT(LOCK_RANK_CAPTURE);
/* guarded by oom_lock: */
static struct format_oom *slots[SLOTS]; /* NULL = no record yet */
static struct {
    bool is_known;
    uint64_t generation, others;
    int32_t device;
    uint32_t count;
    struct format_oom_holder holder[FORMAT_OOM_HOLDERS];
} last;

void capoom_init(struct capfile *file)
{
    cappool_init(&pool, file, FORMAT_EXTENT_OOM, sizeof(struct format_oom),
            SLOTS * sizeof(struct format_oom));
    memset(slots, 0, sizeof slots);
    memset(&last, 0, sizeof last);
    lock_init(&oom_lock, LOCK_RANK_CAPTURE);
}

/* ---- the largest holders ---- */

/* Inserts a sum into the sorted list of the largest. */
static void capoom_rank(struct format_oom *record, const struct caplive_sum *sum)
{
    struct format_oom_holder new = {
            .bytes = sum->bytes, .count = sum->count, .stack = sum->stack, .pystack = sum->pystack};
    uint32_t at = record->holder_count;

    if (at == FORMAT_OOM_HOLDERS) {
        at--;
        if (record->holder[at].bytes >= new.bytes) {
            record->other_bytes += new.bytes;
            return;
        }
        record->other_bytes += record->holder[at].bytes;
    } else {
        record->holder_count++;
    }
    for (; at > 0 && record->holder[at - 1].bytes < new.bytes; at--)
        record->holder[at] = record->holder[at - 1];
    record->holder[at] = new;
}

static void add_up(struct format_oom *record)
{
    struct pycode_counts python;
    struct intern_counts counts;
    struct caplive_sum *sums;
    uint32_t room = 64;

    intern_counts(&counts);
    pycode_counts(&python);
    while (room < SUMS_MAX && room / 2 < counts.nodes + python.nodes)
        room *= 2;
    sums = meta_map(room * sizeof *sums);
    if (!sums)
        return;
    caplive_sum(record->device, sums, room);
    record->other_bytes = sums[0].bytes;
    for (uint32_t i = 1; i < room; i++)
        if (sums[i].bytes > 0)
            capoom_rank(record, &sums[i]);
    meta_unmap(sums, room * sizeof *sums);
}

void capoom_holders(struct format_oom *record, uint64_t generation)
{
    bool is_same;

    lock_take(&oom_lock);
    is_same = last.is_known && last.generation == generation && last.device == record->device;
    if (is_same) {
        memcpy(record->holder, last.holder, sizeof last.holder);
        record->holder_count = last.count;
        record->other_bytes = last.others;
    }
    lock_drop(&oom_lock);
    if (is_same)
        return;
    add_up(record);
    lock_take(&oom_lock);
    last.is_known = true;
    last.generation = generation;
    last.device = record->device;
    last.count = record->holder_count;
    last.others = record->other_bytes;
    memcpy(last.holder, record->holder, sizeof last.holder);
    lock_drop(&oom_lock);
}

/* ---- slots ---- */

static uint32_t capoom_slot_of(uint64_t number)
{
    if (number <= FORMAT_OOM_FIRST)
        return (uint32_t)number - 1;
    return FORMAT_OOM_FIRST + (uint32_t)((number - FORMAT_OOM_FIRST - 1) % FORMAT_OOM_LAST);
}

/* Like a live slot: state is 0 while the other fields are being written. */
static void write_record(struct format_oom *to, const struct format_oom *from)
{
    (void)__atomic_exchange_n(&to->state, 0, __ATOMIC_ACQ_REL);
    memcpy((char *)to + sizeof to->state, (const char *)from + sizeof from->state,
            sizeof *to - sizeof to->state);
    to->sum = formatsum_oom(from);
    __atomic_store_n(&to->state, from->state, __ATOMIC_RELEASE);
}

int capoom_put(const struct format_oom *record)
{
    uint32_t at = capoom_slot_of(record->state >> 1);
    struct format_oom *fresh = NULL;
    uint32_t got = 0;
    bool is_empty;
    int r = 0;

    lock_take(&oom_lock);
    is_empty = !slots[at];
    lock_drop(&oom_lock);
    if (is_empty) /* growth makes system calls: without the lock */
        fresh = cappool_take(&pool, 1, &got, &r);
    lock_take(&oom_lock);
    if (!slots[at])
        slots[at] = fresh;
    /* The thread was delayed here for 16 further failures: its record is too old. */
    if (slots[at] && slots[at]->state < record->state)
        write_record(slots[at], record);
    lock_drop(&oom_lock);
    return r;
}
