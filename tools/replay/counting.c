/* SPDX-License-Identifier: MIT */
#include "tools/replay/counting.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/base/vec.h"

#define COUNTING_GRANULE ((uint64_t)2 << 20)
#define COUNTING_SHARED  ((uint64_t)1 << 20) /* smaller segments share granules, */
#define COUNTING_QUANTUM ((uint64_t)512)     /* in multiples of this */
/*
 * More than any device has, and no more than that: the pool reserves host addresses for its index
 * in proportion, and ThreadSanitizer and valgrind leave it few.
 */
#define COUNTING_TOTAL ((uint64_t)1 << 40)

static devptr_t counting_take_range(struct counting *counting, uint64_t size, uint64_t align)
{
    devptr_t at = round_up(counting->next, align);

    counting->next = at + size;
    return at;
}

static void counting_add_call(struct counting *counting, enum counting_kind kind)
{
    counting->calls[kind]++;
}

uint64_t counting_calls(const struct counting *counting)
{
    uint64_t sum = 0;

    for (int i = 0; i < COUNTING_KIND_COUNT; i++)
        sum += counting->calls[i];
    return sum;
}

struct counting_storage counting_storage_since(
        const struct counting *counting, const struct counting *before)
{
    const struct counting_storage *now = &counting->storage;
    const struct counting_storage *then = &before->storage;

    return (struct counting_storage){
            .creates = now->creates - then->creates,
            .releases = now->releases - then->releases,
            .maps = now->maps - then->maps,
            .unmaps = now->unmaps - then->unmaps,
            .accesses = now->accesses - then->accesses,
            .unmapped_bytes = now->unmapped_bytes - then->unmapped_bytes,
            .accessed_bytes = now->accessed_bytes - then->accessed_bytes,
    };
}

static uint32_t counting_hold(struct counting *counting, uint64_t size, uint64_t taken)
{
    VEC_PUSH(counting->sizes, counting->size_count, counting->size_room) = size;
    counting->reserved += taken;
    if (counting->reserved > counting->reserved_high)
        counting->reserved_high = counting->reserved;
    return (uint32_t)counting->size_count - 1;
}

/*
 * The rise of bytes held (modulo 2^64) when a segment of `size` bytes comes, or goes (`is_gone`).
 */
static uint64_t change_by(struct counting *counting, uint64_t size, bool is_gone)
{
    uint64_t whole = counting->packed;

    if (!counting->backed)
        return is_gone ? 0 - size : size;
    if (size >= COUNTING_SHARED) {
        size = round_up(size, COUNTING_GRANULE);
        return is_gone ? 0 - size : size;
    }
    size = round_up(size, COUNTING_QUANTUM);
    counting->packed += is_gone ? 0 - size : size;
    return round_up(counting->packed, COUNTING_GRANULE) - round_up(whole, COUNTING_GRANULE);
}

static int counting_mem_alloc(
        void *self, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr)
{
    struct counting *counting = self;

    (void)context;
    (void)device;
    counting_add_call(counting, COUNTING_SEGMENT);
    *ret_ptr = counting_take_range(counting, size, COUNTING_GRANULE);
    *keytable_at(&counting->segments, (struct key){*ret_ptr, 0, 0}, 0) =
            counting_hold(counting, size, change_by(counting, size, false));
    return 0;
}

int counting_give_back(struct counting *counting, devptr_t ptr)
{
    const uint32_t *number = keytable_find(&counting->segments, (struct key){ptr, 0, 0});

    if (!number)
        return -EINVAL;
    counting->reserved += change_by(counting, counting->sizes[*number], true);
    counting->sizes[*number] = 0;
    return 0;
}

static int counting_mem_free(void *self, uint64_t context, devptr_t ptr)
{
    (void)context;
    counting_add_call(self, COUNTING_SEGMENT);
    return counting_give_back(self, ptr);
}

static int counting_granularity(void *self, int device, uint64_t *ret_size)
{
    (void)device;
    counting_add_call(self, COUNTING_OTHER);
    *ret_size = COUNTING_GRANULE;
    return 0;
}

static int counting_memory(void *self, int device, uint64_t *ret_total, uint64_t *ret_free)
{
    (void)device;
    counting_add_call(self, COUNTING_OTHER);
    *ret_total = COUNTING_TOTAL;
    *ret_free = COUNTING_TOTAL;
    return 0;
}

static int counting_reserve(
        void *self, int device, uint64_t size, uint64_t align, devptr_t *ret_ptr)
{
    (void)device;
    counting_add_call(self, COUNTING_OTHER);
    *ret_ptr = counting_take_range(self, size, align ? align : COUNTING_GRANULE);
    return 0;
}

static int counting_range(void *self, devptr_t ptr, uint64_t size)
{
    (void)ptr;
    (void)size;
    counting_add_call(self, COUNTING_OTHER);
    return 0;
}

/* Makes a handle; handle 0 would mean none. */
static int counting_create(void *self, int device, uint64_t size, uint64_t *ret_handle)
{
    struct counting *counting = self;

    (void)device;
    counting_add_call(counting, COUNTING_HANDLE);
    counting->storage.creates++;
    *ret_handle = (uint64_t)counting_hold(counting, size, size) + 1;
    return 0;
}

static int counting_release(void *self, uint64_t handle)
{
    struct counting *counting = self;

    counting_add_call(counting, COUNTING_HANDLE);
    counting->storage.releases++;
    counting->reserved -= counting->sizes[handle - 1];
    counting->sizes[handle - 1] = 0;
    return 0;
}

static int counting_map(void *self, devptr_t ptr, uint64_t size, uint64_t handle)
{
    struct counting *counting = self;

    (void)ptr;
    (void)size;
    (void)handle;
    counting_add_call(counting, COUNTING_MAPPING);
    counting->storage.maps++;
    return 0;
}

static int counting_unmap(void *self, devptr_t ptr, uint64_t size)
{
    struct counting *counting = self;

    (void)ptr;
    counting_add_call(counting, COUNTING_MAPPING);
    counting->storage.unmaps++;
    counting->storage.unmapped_bytes += size;
    return 0;
}

static int counting_access(void *self, enum heap_kind heap, uint64_t owner, int device,
        devptr_t ptr, uint64_t size, enum driver_access access)
{
    struct counting *counting = self;

    (void)heap;
    (void)owner;
    (void)device;
    (void)ptr;
    (void)access;
    counting_add_call(counting, COUNTING_MAPPING);
    counting->storage.accesses++;
    counting->storage.accessed_bytes += size;
    return 0;
}

/* A fence is the number of the event at which it was recorded; 0 would mean none. */
uint64_t counting_mark(const struct counting *counting)
{
    return counting->now + 1;
}

bool counting_has_passed(const struct counting *counting, uint64_t fence)
{
    return fence <= counting->caught_up || fence - 1 + counting->lag <= counting->now;
}

void counting_catch_up(struct counting *counting)
{
    counting->caught_up = counting_mark(counting);
}

void counting_wait_within(struct counting *counting)
{
    counting->waits += !counting_has_passed(counting, counting_mark(counting));
    counting_catch_up(counting);
}

static int counting_fence(void *self, int device, uint64_t *ret_fence)
{
    (void)device;
    counting_add_call(self, COUNTING_EVENT);
    *ret_fence = counting_mark(self);
    return 0;
}

static int counting_stream_fence(void *self, uint64_t stream, uint64_t *ret_fence)
{
    (void)stream;
    return counting_fence(self, 0, ret_fence);
}

static int counting_query(void *self, uint64_t fence)
{
    counting_add_call(self, COUNTING_QUERY);
    return counting_has_passed(self, fence) ? 0 : -EAGAIN;
}

static int counting_wait(void *self, uint64_t fence, uint32_t timeout_ms)
{
    struct counting *counting = self;

    (void)timeout_ms;
    counting_add_call(counting, COUNTING_WAIT);
    counting->waits++;
    if (fence > counting->caught_up)
        counting->caught_up = fence;
    return 0;
}

static int counting_stream_wait(void *self, uint64_t stream, uint64_t fence)
{
    (void)stream;
    (void)fence;
    counting_add_call(self, COUNTING_BEHIND);
    return 0;
}

static void counting_put(void *self, uint64_t fence)
{
    (void)fence;
    (void)self;
}

/* No other thread submits work here. */
static uint64_t counting_readers(void *self)
{
    (void)self;
    return 1;
}

static int counting_readers_passed(void *self, uint64_t snapshot)
{
    (void)self;
    (void)snapshot;
    return 0;
}

/* Each wait is over at once, so no time-out is reached. */
static uint64_t counting_clock(void *self)
{
    const struct counting *counting = self;

    return counting->now * counting->step_ns;
}

static uint64_t counting_move_ns(void *self, uint64_t size)
{
    const struct counting *counting = self;

    return counting->move_ns * (size / COUNTING_GRANULE);
}

struct driver counting_driver(struct counting *counting)
{
    *counting = (struct counting){.next = (devptr_t)1 << 40};
    return (struct driver){
            .self = counting,
            .mem_alloc = counting_mem_alloc,
            .mem_free = counting_mem_free,
            .granularity = counting_granularity,
            .memory = counting_memory,
            .address_reserve = counting_reserve,
            .address_free = counting_range,
            .handle_create = counting_create,
            .handle_release = counting_release,
            .map = counting_map,
            .unmap = counting_unmap,
            .set_access = counting_access,
            .fence_record = counting_fence,
            .stream_record = counting_stream_fence,
            .fence_query = counting_query,
            .fence_wait = counting_wait,
            .stream_wait_fence = counting_stream_wait,
            .fence_put = counting_put,
            .readers_snapshot = counting_readers,
            .readers_passed = counting_readers_passed,
            .clock_ns = counting_clock,
            .move_ns = counting_move_ns,
    };
}

void counting_done(struct counting *counting)
{
    keytable_done(&counting->segments);
    free(counting->sizes);
    *counting = (struct counting){.next = counting->next};
}

void counting_step(struct counting *counting)
{
    counting->now++;
}
