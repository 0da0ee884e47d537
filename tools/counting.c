/* SPDX-License-Identifier: MIT */
#include "tools/counting.h"

#define COUNTING_GRANULE ((uint64_t)2 << 20)
/* More than any device has. Not more than that: the pool reserves addresses of the host for its index in proportion, and
 * ThreadSanitizer leaves it little. */
#define COUNTING_TOTAL ((uint64_t)1 << 42)

static devptr_t take_range(struct counting *counting, uint64_t size, uint64_t align)
{
    devptr_t at = (counting->next + align - 1) & ~(align - 1);

    counting->next = at + size;
    return at;
}

static int counting_mem_alloc(
        void *self, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr)
{
    (void)context;
    (void)device;
    *ret_ptr = take_range(self, size, COUNTING_GRANULE);
    return 0;
}

static int counting_mem_free(void *self, uint64_t context, devptr_t ptr)
{
    (void)self;
    (void)context;
    (void)ptr;
    return 0;
}

static int counting_granularity(void *self, int device, uint64_t *ret_size)
{
    (void)self;
    (void)device;
    *ret_size = COUNTING_GRANULE;
    return 0;
}

static int counting_memory(void *self, int device, uint64_t *ret_total, uint64_t *ret_free)
{
    (void)self;
    (void)device;
    *ret_total = COUNTING_TOTAL;
    *ret_free = COUNTING_TOTAL;
    return 0;
}

static int counting_reserve(
        void *self, int device, uint64_t size, uint64_t align, devptr_t *ret_ptr)
{
    (void)device;
    *ret_ptr = take_range(self, size, align ? align : COUNTING_GRANULE);
    return 0;
}

static int counting_range(void *self, devptr_t ptr, uint64_t size)
{
    (void)self;
    (void)ptr;
    (void)size;
    return 0;
}

static int counting_create(void *self, int device, uint64_t size, uint64_t *ret_handle)
{
    struct counting *counting = self;

    (void)device;
    (void)size;
    *ret_handle = ++counting->next_handle;
    return 0;
}

static int counting_release(void *self, uint64_t handle)
{
    (void)self;
    (void)handle;
    return 0;
}

static int counting_map(void *self, devptr_t ptr, uint64_t size, uint64_t handle)
{
    (void)self;
    (void)ptr;
    (void)size;
    (void)handle;
    return 0;
}

static int counting_access(void *self, enum heap_kind heap, uint64_t owner, int device,
        devptr_t ptr, uint64_t size, enum driver_access access)
{
    (void)self;
    (void)heap;
    (void)owner;
    (void)device;
    (void)ptr;
    (void)size;
    (void)access;
    return 0;
}

static int counting_fence(void *self, uint64_t *ret_fence)
{
    struct counting *counting = self;

    *ret_fence = ++counting->next_handle;
    return 0;
}

static int counting_stream_fence(void *self, uint64_t stream, uint64_t *ret_fence)
{
    (void)stream;
    return counting_fence(self, ret_fence);
}

static int counting_passed(void *self, uint64_t fence)
{
    (void)self;
    (void)fence;
    return 0;
}

static int counting_wait(void *self, uint64_t fence, uint32_t timeout_ms)
{
    (void)timeout_ms;
    return counting_passed(self, fence);
}

static int counting_stream_wait(void *self, uint64_t stream, uint64_t fence)
{
    (void)stream;
    return counting_passed(self, fence);
}

static void counting_put(void *self, uint64_t fence)
{
    (void)counting_passed(self, fence);
}

static uint64_t counting_readers(void *self)
{
    (void)self;
    return 1;
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
            .unmap = counting_range,
            .set_access = counting_access,
            .fence_record = counting_fence,
            .stream_record = counting_stream_fence,
            .fence_query = counting_passed,
            .fence_wait = counting_wait,
            .stream_wait_fence = counting_stream_wait,
            .fence_put = counting_put,
            .readers_snapshot = counting_readers,
            .readers_passed = counting_passed,
    };
}
