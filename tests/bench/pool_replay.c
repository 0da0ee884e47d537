/* SPDX-License-Identifier: MIT */
/*
 * pool_replay.c - a recorded allocation trace through the pool, with a driver that only counts.
 *
 *     pool_replay TRACE.csv sync|stream PASSES LAG
 *
 * TRACE.csv has rows op,id,size,stream,time with op `a` or `f`. Between passes everything still live is freed. The device
 * is LAG events behind the program (0: it is done at once); a host wait makes it catch up. Prints for each pass
 *
 *     E          peak live bytes (each block rounded to 512) / peak bytes held from the driver
 *     native     the same ratio if every block were a cuMemAlloc of its own on pages of 2 MiB (small ones packed)
 *     calls      segments, handles and mappings made or undone
 *     waits      by the host
 *
 * Exact and free of noise, so that figures can be compared from change to change.
 */
#include "alloc/pool.h"
#include "tests/bench/nodevice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct event {
    bool is_free;
    uint32_t id;
    uint64_t size;
    uint64_t stream;
};

/* The device: what is held from it, and how far it is. */
static struct {
    uint64_t held, held_high;
    uint64_t calls;
    uint64_t waits;
    uint64_t now; /* events so far */
    uint64_t lag;
    uint64_t caught_up; /* at least this event is done */
    devptr_t next_address;
    uint64_t next_handle;
    uint64_t sizes[1 << 20]; /* of handles, and of segments by page */
} device = {.next_address = PAGE};

static uint64_t pages(uint64_t size)
{
    return (size + PAGE - 1) & ~(PAGE - 1);
}

static void hold(int64_t by)
{
    device.calls++;
    device.held += (uint64_t)by;
    if (device.held > device.held_high)
        device.held_high = device.held;
}

static uint64_t *segment_size(devptr_t ptr)
{
    return &device.sizes[ptr / PAGE % (1 << 20)];
}

static int mem_alloc(void *self, uint64_t context, int number, uint64_t size, devptr_t *ret_ptr)
{
    (void)self;
    (void)context;
    (void)number;
    *ret_ptr = device.next_address;
    device.next_address += pages(size);
    *segment_size(*ret_ptr) = pages(size);
    hold((int64_t)pages(size));
    return 0;
}

static int mem_free(void *self, uint64_t context, devptr_t ptr)
{
    (void)self;
    (void)context;
    hold(-(int64_t)*segment_size(ptr));
    return 0;
}

static int memory(void *self, int number, uint64_t *ret_total, uint64_t *ret_free)
{
    (void)self;
    (void)number;
    *ret_total = UINT64_C(80) << 30;
    *ret_free = *ret_total - device.held;
    return 0;
}

static int address_reserve(void *self, int number, uint64_t size, uint64_t align, devptr_t *ret_ptr)
{
    (void)self;
    (void)number;
    device.next_address = (device.next_address + align - 1) & ~(align - 1);
    *ret_ptr = device.next_address;
    device.next_address += size;
    return 0;
}

static int handle_create(void *self, int number, uint64_t size, uint64_t *ret_handle)
{
    (void)self;
    (void)number;
    *ret_handle = ++device.next_handle;
    device.sizes[*ret_handle % (1 << 20)] = size;
    hold((int64_t)size);
    return 0;
}

static int handle_release(void *self, uint64_t handle)
{
    (void)self;
    hold(-(int64_t)device.sizes[handle % (1 << 20)]);
    return 0;
}

static int map(void *self, devptr_t ptr, uint64_t size, uint64_t handle)
{
    (void)self;
    (void)ptr;
    (void)size;
    (void)handle;
    device.calls++;
    return 0;
}

static int unmap(void *self, devptr_t ptr, uint64_t size)
{
    return map(self, ptr, size, 0);
}

static int set_access(void *self, enum heap_kind heap, uint64_t owner, int number, devptr_t ptr,
        uint64_t size, enum driver_access access)
{
    (void)heap;
    (void)owner;
    (void)number;
    (void)access;
    return map(self, ptr, size, 0);
}

/* A fence is the event at which it was recorded. */
static int fence_record(void *self, int number, uint64_t *ret_fence)
{
    (void)number;
    (void)self;
    *ret_fence = device.now;
    return 0;
}

static int stream_record(void *self, uint64_t stream, uint64_t *ret_fence)
{
    (void)stream;
    return fence_record(self, 0, ret_fence);
}

static int fence_query(void *self, uint64_t fence)
{
    (void)self;
    return fence <= device.caught_up || fence + device.lag <= device.now ? 0 : -EAGAIN;
}

static int fence_wait(void *self, uint64_t fence, uint32_t timeout_ms)
{
    (void)self;
    (void)timeout_ms;
    device.waits++;
    if (fence > device.caught_up)
        device.caught_up = fence;
    return 0;
}

static int stream_wait_fence(void *self, uint64_t stream, uint64_t fence)
{
    (void)self;
    (void)stream;
    (void)fence;
    return 0;
}

static const struct driver driver = DRIVER_HERE;

static struct event *events;
static size_t event_count;
static uint32_t id_count;

static int read_trace(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[256];
    size_t room = 0;

    if (!file)
        return -1;
    while (fgets(line, sizeof(line), file)) {
        char op;
        unsigned id;
        unsigned long long size, stream;

        if (sscanf(line, "%c,%u,%llu,%llu", &op, &id, &size, &stream) != 4)
            continue;
        if (event_count == room) {
            room = room ? room * 2 : 4096;
            events = realloc(events, room * sizeof(*events));
            if (!events)
                abort();
        }
        events[event_count++] = (struct event){
                .is_free = op == 'f',
                .id = id,
                .size = size,
                .stream = 1 + stream,
        };
        if (id >= id_count)
            id_count = id + 1;
    }
    fclose(file);
    return 0;
}

/* Live bytes as they are counted and as native allocations would hold them. */
struct live {
    uint64_t rounded, rounded_high;
    uint64_t small, large, native_high;
};

static void count_live(struct live *live, uint64_t size, int sign)
{
    uint64_t rounded = (size + 511) & ~UINT64_C(511);
    uint64_t by = (uint64_t)(int64_t)sign;
    uint64_t native;

    live->rounded += by * rounded;
    if (size >= 1 << 20)
        live->large += by * pages(size);
    else
        live->small += by * rounded;
    native = live->large + pages(live->small);
    if (live->rounded > live->rounded_high)
        live->rounded_high = live->rounded;
    if (native > live->native_high)
        live->native_high = native;
}

static bool on_stream;
static struct pool *pool;

static devptr_t take(const struct event *event)
{
    struct pool_request request = {
            .size = event->size ? event->size : 1,
            .owner = 1,
            .stream = on_stream ? event->stream : 0,
            .api = on_stream ? API_STREAM : API_SYNC,
            .may_call = true,
            .may_fence = true,
            .may_wait = true,
    };
    struct outcome told;

    device.now++;
    if (pool_alloc(pool, &request, &told) != 0)
        abort();
    return told.ptr;
}

static void give(devptr_t ptr, const struct event *event)
{
    struct pool_free_request request = {
            .api = on_stream ? API_STREAM : API_SYNC,
            .stream = on_stream ? event->stream : 0,
            .may_fence = true,
    };
    struct outcome told;

    device.now++;
    if (pool_free(pool, ptr, &request, &told) != 0)
        abort();
}

static void pass(int number)
{
    devptr_t *ptrs = calloc(id_count, sizeof(*ptrs));
    const struct event **births = calloc(id_count, sizeof(const struct event *));
    struct live live = {0};
    uint64_t calls = device.calls;
    uint64_t waits = device.waits;
    uint64_t lag = device.lag;

    if (!ptrs || !births)
        abort();
    device.held_high = device.held;
    for (size_t i = 0; i < event_count; i++) {
        const struct event *event = &events[i];

        if (!event->is_free && !ptrs[event->id]) {
            ptrs[event->id] = take(event);
            births[event->id] = event;
            count_live(&live, event->size, 1);
        } else if (event->is_free && ptrs[event->id]) {
            give(ptrs[event->id], births[event->id]);
            ptrs[event->id] = 0;
            count_live(&live, births[event->id]->size, -1);
        }
    }
    printf("pass %d  E %.4f  native %.4f  live %.1f MiB  held %.1f MiB  calls %llu  waits %llu\n",
            number, (double)live.rounded_high / (double)device.held_high,
            (double)live.rounded_high / (double)live.native_high,
            (double)live.rounded_high / (1 << 20), (double)device.held_high / (1 << 20),
            (unsigned long long)(device.calls - calls), (unsigned long long)(device.waits - waits));
    for (uint32_t i = 0; i < id_count; i++) {
        if (ptrs[i])
            give(ptrs[i], births[i]);
    }
    device.lag = lag;
    free(ptrs);
    free(births);
}

int main(int argc, char **argv)
{
    struct pool_opts opts;
    const char *what = "";

    if (argc != 5 || read_trace(argv[1]) != 0)
        return 2;
    on_stream = strcmp(argv[2], "stream") == 0;
    device.lag = strtoull(argv[4], NULL, 10);
    pool_opts_init(&opts);
    if (pool_new(&driver, &opts, &pool) != 0)
        return 1;
    for (int i = 1; i <= atoi(argv[3]); i++)
        pass(i);
    if (pool_check(pool, &what) != 0) {
        printf("pool_check: %s\n", what);
        return 1;
    }
    return 0;
}
