/* SPDX-License-Identifier: MIT */
#include "tracker/capture/capplace.h"

#include "alloc/base/meta.h"
#include "tracker/base/counter.h"
#include "tracker/capture/capdefs.h"
#include "tracker/format/formatsum.h"
#include "tracker/stacks/intern.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define INDEX_BITS   17u
#define INDEX_SIZE   (1u << INDEX_BITS)
#define FIRST_EXTENT (64u << 10)
#define BATCH        16u
#define DEVICES \
    (FORMAT_DEVICES_MAX + 1u) /* the last one counts all devices without totals of their own */
#define ANYWHERE "(other anchors)"
#define OTHER    UINT32_MAX /* as a stack: all places without a record of their own */

_Static_assert(INDEX_SIZE >= 2 * CAPPLACE_MAX, "a probe ends");

/* A place in memory: only the figures are read back from the file. */
struct place {
    struct capplace_key key;
    struct format_place *record;
    uint64_t sum; /* checksum of the record as last written */
};

static struct cappool pool;
static struct format_header *header; /* fixed by capplace_init, as the next two */
static struct place *places;         /* [number] */
static uint32_t *table;              /* numbers by hash, 0 = none; published last */
static _Atomic uint32_t any_path;    /* the string for anchors without a place */

static struct lock lock = LOCK_INIT(LOCK_RANK_CAPTURE);
/* guarded by lock: */
static uint32_t count;
static struct format_place *spare;
static uint32_t spares;

/* Number of each device's "other" place, 0 = none yet. */
static _Atomic uint32_t other[DEVICES];

void capplace_init(struct capfile *file)
{
    cappool_init(&pool, file, FORMAT_EXTENT_PLACES, sizeof(struct format_place), FIRST_EXTENT);
    header = file->header;
    if (places)
        meta_unmap(places, (CAPPLACE_MAX + 1) * sizeof *places);
    if (table)
        meta_unmap(table, INDEX_SIZE * sizeof *table);
    places = meta_map((CAPPLACE_MAX + 1) * sizeof *places);
    table = meta_map(INDEX_SIZE * sizeof *table);
    any_path = 0;
    count = spares = 0;
    for (uint32_t i = 0; i < DEVICES; i++)
        atomic_store_explicit(&other[i], 0, memory_order_relaxed);
    lock_init(&lock, LOCK_RANK_CAPTURE);
}

void capplace_fork_child(void)
{
    lock_init(&lock, LOCK_RANK_CAPTURE);
}

static uint32_t device_index(int device)
{
    return device >= 0 && device < (int)FORMAT_DEVICES_MAX ? (uint32_t)device : FORMAT_DEVICES_MAX;
}

/* ---- lookup ---- */

static uint32_t capplace_hash_of(const struct capplace_key *key)
{
    uint64_t stacks = (uint64_t)key->stack << 32 | key->pystack;
    uint64_t rest = (uint64_t)key->path << 32 | (uint32_t)key->device;
    uint64_t hash = (stacks * UINT64_C(0x9e3779b97f4a7c15)) ^ rest;

    hash = (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(hash >> (64 - INDEX_BITS));
}

static bool capplace_is_same(const struct capplace_key *a, const struct capplace_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The place's number; 0 = none, and *ret_at is where to insert it. */
static uint32_t capplace_look_up(const struct capplace_key *key, uint32_t *ret_at)
{
    uint32_t at = capplace_hash_of(key);

    for (;; at = (at + 1) & (INDEX_SIZE - 1)) {
        /* acquire: pairs with capplace_enter_locked, so the key is complete */
        uint32_t number = __atomic_load_n(&table[at], __ATOMIC_ACQUIRE);

        *ret_at = at;
        if (number == 0 || capplace_is_same(&places[number].key, key))
            return number;
    }
}

/* Another thread may take the last record between two tries, so this repeats until no more can be
 * had. */
static struct format_place *take_record(int *ret_error)
{
    struct format_place *fresh = NULL;
    uint32_t got = 0;

    for (;;) {
        struct format_place *record = NULL;

        lock_take(&lock);
        if (fresh) {
            /* records of another thread's batch stay unused */
            spare = fresh;
            spares = got;
        }
        if (spares > 0) {
            spares--;
            record = spare++;
        }
        lock_drop(&lock);
        if (record)
            return record;
        fresh = cappool_take(
                &pool, BATCH, &got, ret_error); /* makes system calls: without the lock */
        if (!fresh)
            return NULL;
    }
}

static uint32_t capplace_enter_locked(
        const struct capplace_key *key, struct format_place *record, uint32_t at)
{
    uint32_t number = ++count;

    places[number].key = *key;
    places[number].record = record;
    record->stack = key->stack == OTHER ? 0 : key->stack;
    record->pystack = key->pystack;
    record->path = key->path;
    record->device = (int16_t)key->device;
    record->flags = key->stack == OTHER ? FORMAT_PLACE_OTHER : 0;
    struct format_place whole = *record;

    whole.state = (uint64_t)number << 1 | 1;
    places[number].sum = record->sum = formatsum_place(&whole);
    __atomic_store_n(&record->state, (uint64_t)number << 1 | 1, __ATOMIC_RELEASE);
    __atomic_store_n(&table[at], number, __ATOMIC_RELEASE);
    return number;
}

/* An unbounded number of anchors (a name for each step) must leave records for stacks, which are
 * more informative. */
static bool capplace_has_room(const struct capplace_key *key, uint32_t now)
{
    if (key->stack == OTHER)
        return now < CAPPLACE_MAX;
    return now
            < (key->path == 0 || key->path == atomic_load_explicit(&any_path, memory_order_relaxed)
                            ? CAPPLACE_MAX - DEVICES
                            : CAPPLACE_MAX - CAPPLACE_STACKS);
}

/* Adds a place, unless another thread has added it meanwhile. 0 = full, or no record. */
static uint32_t capplace_add(const struct capplace_key *key, int *ret_error)
{
    struct format_place *record;
    uint32_t number, at;
    bool is_open;

    lock_take(&lock);
    is_open = capplace_has_room(key, count);
    lock_drop(&lock);
    if (!is_open)
        return 0;
    record = take_record(ret_error);
    if (!record)
        return 0;
    lock_take(&lock);
    number = capplace_look_up(key, &at);
    if (number == 0 && capplace_has_room(key, count))
        number = capplace_enter_locked(key, record, at);
    lock_drop(&lock);
    return number;
}

/* The first allocation of a device creates its "other" place, so that it exists when the table is
 * full. */
static uint32_t capplace_find_other(int device, int *ret_error)
{
    uint32_t index = device_index(device);
    struct capplace_key key = {OTHER, 0, 0, index < FORMAT_DEVICES_MAX ? device : -1};
    uint32_t number = atomic_load_explicit(&other[index], memory_order_relaxed);

    if (number == 0) {
        number = capplace_add(&key, ret_error);
        atomic_store_explicit(&other[index], number, memory_order_relaxed);
    }
    return number;
}

/* The place of the stack for all anchors without a place. */
static uint32_t find_anywhere(struct capplace_key key, int *ret_error)
{
    uint32_t number, at;

    if (atomic_load_explicit(&any_path, memory_order_relaxed) == 0) {
        uint32_t path = intern_string(ANYWHERE, sizeof ANYWHERE - 1);

        if (path == 0 || capdefs_sync(path, 0) < 0)
            return 0;
        atomic_store_explicit(&any_path, path, memory_order_relaxed);
    }
    key.path = atomic_load_explicit(&any_path, memory_order_relaxed);
    number = capplace_look_up(&key, &at);
    return number ? number : capplace_add(&key, ret_error);
}

uint32_t capplace_find(const struct capplace_key *key, int *ret_error)
{
    uint32_t number, rest, at;

    *ret_error = 0;
    if (__builtin_expect(!places || !table, 0))
        return 0;
    number = capplace_look_up(key, &at);
    if (__builtin_expect(number != 0, 1))
        return number;
    rest = capplace_find_other(key->device, ret_error);
    number = capplace_add(key, ret_error);
    if (number == 0 && key->path != 0)
        number = find_anywhere(*key, ret_error);
    if (number != 0)
        return number;
    counter_add(&header->places_lost, 1);
    return rest;
}

/* ---- figures ---- */

static inline __attribute__((always_inline)) void grow_locked(
        struct place *place, size_t at, uint64_t by)
{
    *(uint64_t *)(void *)((char *)place->record + at) += by;
    place->sum += formatsum_growth(at, by);
}

/* Adds `by` to one figure of a place, and updates the sum. */
#define GROW(place, figure, by) grow_locked(place, offsetof(struct format_place, figure), by)

/* The place has held its present bytes at each peak since its last change. The number is stored
 * last: see format.h. */
static void settle_locked(struct place *place, uint64_t number)
{
    struct format_place *record = place->record;

    if (record->peak == number)
        return;
    GROW(place, at_peak_bytes, record->live_bytes - record->at_peak_bytes);
    GROW(place, at_peak_count, record->live_count - record->at_peak_count);
    place->sum += formatsum_growth(offsetof(struct format_place, peak), number - record->peak);
    __atomic_store_n(&record->peak, number, __ATOMIC_RELEASE);
}

/* A kill in between leaves the mark, and figures that lack only this operation. */
static void begin_change_locked(struct place *place)
{
    __atomic_store_n(&place->record->changing, FORMAT_PLACE_CHANGING, __ATOMIC_RELAXED);
    atomic_thread_fence(memory_order_release);
}

static void end_change_locked(struct place *place)
{
    place->record->sum = place->sum;
    __atomic_store_n(&place->record->changing, 0, __ATOMIC_RELEASE);
}

static void place_born_locked(struct place *place, uint64_t size)
{
    const struct format_place *record = place->record;

    GROW(place, allocated_bytes, size);
    GROW(place, allocated_count, 1);
    GROW(place, live_count, 1);
    GROW(place, live_bytes, size);
    if (record->live_bytes > record->peak_bytes)
        GROW(place, peak_bytes, record->live_bytes - record->peak_bytes);
    if (record->live_count > record->peak_count)
        GROW(place, peak_count, record->live_count - record->peak_count);
}

void capplace_born(uint32_t place, int device, uint64_t size, uint64_t seq, uint64_t time_ns)
{
    uint32_t index = device_index(device);
    struct place *of = place ? &places[place] : NULL;

    if (of)
        begin_change_locked(of);
    if (index < FORMAT_DEVICES_MAX) {
        struct format_high *high = &header->high[index];

        if (of)
            settle_locked(of, high->number);
        high->live_bytes += size;
        if (high->live_bytes > high->peak_bytes) {
            high->seq = seq;
            high->time_ns = time_ns;
        }
    }
    if (of) {
        place_born_locked(of, size);
        end_change_locked(of);
    }
}

static void temporary_locked(struct place *place, uint64_t size)
{
    GROW(place, temporary_count, 1);
    GROW(place, temporary_bytes, size);
}

void capplace_died(uint32_t place, int device, uint64_t size, bool is_temporary)
{
    uint32_t index = device_index(device);
    struct place *of = place ? &places[place] : NULL;

    if (of)
        begin_change_locked(of);
    if (index < FORMAT_DEVICES_MAX) {
        struct format_high *high = &header->high[index];

        if (high->live_bytes > high->peak_bytes) {
            /* The number first: while live bytes are above the peak, no reader uses the places'
             * older figures. */
            __atomic_store_n(&high->number, high->number + 1, __ATOMIC_RELEASE);
            __atomic_store_n(&high->peak_bytes, high->live_bytes, __ATOMIC_RELEASE);
        }
        if (of)
            settle_locked(of, high->number);
        high->live_bytes -= size;
    }
    if (of) {
        GROW(of, live_count, UINT64_MAX);
        GROW(of, live_bytes, 0 - size);
        if (is_temporary)
            temporary_locked(of, size);
        end_change_locked(of);
    }
}

void capplace_was_temporary(uint32_t place, uint64_t size)
{
    struct place *of = place ? &places[place] : NULL;

    if (!of)
        return;
    begin_change_locked(of);
    temporary_locked(of, size);
    end_change_locked(of);
}
