/* SPDX-License-Identifier: MIT */
#include "tests/unit/alloc/fake_driver.h"

#include "alloc/base/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE (UINT64_C(2) << 20)

enum fence_state {
    FENCE_FREE,
    FENCE_RECORDED,
    FENCE_PUT,
};

static void misuse(struct fake_driver *fake, const char *what)
{
    fake->misuses++;
    fake->misuse = what;
}

/* Every call begins here, with the mutex taken. Returns what the call is to fail with, or 0. */
static int enter(struct fake_driver *fake, const char *name)
{
    bool is_locked = lock_assert_none(name) != 0;

    pthread_mutex_lock(&fake->mutex);
    fake->calls++;
    if (is_locked)
        fake->locked++;
    if (fake->freeze_at && fake->calls > fake->freeze_at)
        fake->after_freeze++;
    if (fake->freeze_at && fake->calls == fake->freeze_at)
        pool_freeze(fake->freeze_pool);
    if (fake->fail_at > 0 && (!fake->fail_name || strcmp(fake->fail_name, name) == 0)
            && --fake->fail_at == 0) {
        fake->fired = true;
        fake->fail_at = fake->fail_all;
        return fake->fail_code;
    }
    return 0;
}

static int leave(struct fake_driver *fake, int r)
{
    pthread_mutex_unlock(&fake->mutex);
    return r;
}

/* ── pieces ── */

static struct fake_piece *add_piece(struct fake_driver *fake, enum fake_piece_kind kind,
        devptr_t base, uint64_t size, uint64_t owner)
{
    for (int i = fake->piece_free; i < FAKE_PIECES; i++) {
        if (fake->pieces[i].kind == FAKE_NOTHING) {
            if (i >= fake->piece_top)
                fake->piece_top = i + 1;
            fake->piece_free = i + 1;
            fake->pieces[i] = (struct fake_piece){kind, base, size, owner, .flag = false};
            return &fake->pieces[i];
        }
    }
    abort(); /* the test is larger than the fake */
}

static void drop_piece(struct fake_driver *fake, struct fake_piece *piece)
{
    int i = (int)(piece - fake->pieces);

    piece->kind = FAKE_NOTHING;
    if (i < fake->piece_free)
        fake->piece_free = i;
}

/* The n-th piece to look at, where looking begins at `first`: what is asked for next mostly lies behind what was found last. */
static struct fake_piece *nth_from(struct fake_driver *fake, int first, int n)
{
    int i = first + n;

    return &fake->pieces[i < fake->piece_top ? i : i - fake->piece_top];
}

static struct fake_piece *find_piece(
        struct fake_driver *fake, enum fake_piece_kind kind, devptr_t base)
{
    int first = fake->piece_found[kind];

    for (int n = 0; n < fake->piece_top; n++) {
        struct fake_piece *piece = nth_from(fake, first, n);

        if (piece->kind == kind && piece->base == base) {
            fake->piece_found[kind] = (int)(piece - fake->pieces);
            return piece;
        }
    }
    return NULL;
}

/* Memory that has pages at this address. */
static struct fake_piece *find_memory(struct fake_driver *fake, devptr_t at)
{
    int first = fake->piece_used;

    for (int n = 0; n < fake->piece_top; n++) {
        struct fake_piece *piece = nth_from(fake, first, n);

        if ((piece->kind == FAKE_PLAIN || piece->kind == FAKE_MANAGED
                    || (piece->kind == FAKE_MAPPING && piece->flag))
                && at >= piece->base && at < piece->base + piece->size) {
            fake->piece_used = (int)(piece - fake->pieces);
            return piece;
        }
    }
    return NULL;
}

static bool overlaps(
        struct fake_driver *fake, enum fake_piece_kind kind, devptr_t base, uint64_t size)
{
    for (int i = 0; i < fake->piece_top; i++) {
        const struct fake_piece *piece = &fake->pieces[i];

        if (piece->kind == kind && base < piece->base + piece->size && piece->base < base + size)
            return true;
    }
    return false;
}

static void hold(struct fake_driver *fake, int64_t by)
{
    fake->held += (uint64_t)by;
    if (fake->held > fake->held_high)
        fake->held_high = fake->held;
}

static uint64_t pages(uint64_t size)
{
    return (size + GRANULE - 1) & ~(GRANULE - 1);
}

static devptr_t new_address(struct fake_driver *fake, uint64_t size, uint64_t align)
{
    devptr_t base = (fake->next_address + align - 1) & ~(align - 1);

    fake->next_address = base + size + GRANULE;
    return base;
}

static int mem_alloc(void *self, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "mem_alloc");

    if (size == 0 || device < 0 || context == 0)
        misuse(fake, "mem_alloc of nothing");
    if (r == 0 && fake->held + pages(size) > fake->memory)
        r = DRIVER_OUT_OF_MEMORY;
    if (r != 0)
        return leave(fake, r);
    *ret_ptr = new_address(fake, size + fake->skew, GRANULE) + fake->skew;
    (void)add_piece(fake, FAKE_PLAIN, *ret_ptr, size, context);
    hold(fake, (int64_t)pages(size));
    fake->segments++;
    (void)leave(fake, 0);
    if (fake->on_call && strcmp(fake->on_call, "mem_alloc") == 0) {
        fake->on_call = NULL;
        pool_context_gone(fake->on_call_pool, fake->on_call_context);
    }
    return 0;
}

static int managed_alloc(void *self, enum heap_kind heap, uint64_t owner, int device, uint64_t size,
        devptr_t *ret_ptr, uint64_t *ret_context)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "managed_alloc");

    if (size == 0 || device < 0 || owner == 0)
        misuse(fake, "managed_alloc of nothing");
    if (r == 0 && fake->no_managed)
        r = DRIVER_NOT_SUPPORTED;
    if (r != 0)
        return leave(fake, r);
    *ret_context = heap == HEAP_MAPPED ? FAKE_CONTEXT : owner;
    *ret_ptr = new_address(fake, size + fake->skew, GRANULE) + fake->skew;
    (void)add_piece(fake, FAKE_MANAGED, *ret_ptr, size, *ret_context);
    fake->managed++;
    return leave(fake, 0);
}

/* `size` bytes of pages of a piece of managed memory are on the device, or none are; others go for them where it is full. */
static void put_pages(struct fake_driver *fake, struct fake_piece *piece, bool in, uint64_t size)
{
    for (int i = 0; in && !piece->flag && i < fake->piece_top; i++)
        if (fake->held + pages(size) > fake->memory && fake->pieces[i].kind == FAKE_MANAGED)
            put_pages(fake, &fake->pieces[i], false, 0);
    if (in && !piece->flag && fake->held + pages(size) > fake->memory)
        return;
    if (piece->flag != in) {
        hold(fake, in ? (int64_t)pages(size) : -(int64_t)piece->there);
        piece->there = in ? pages(size) : 0;
    }
    piece->flag = in;
}

static int free_managed(struct fake_driver *fake, struct fake_piece *piece)
{
    put_pages(fake, piece, false, 0);
    drop_piece(fake, piece);
    fake->managed--;
    return leave(fake, 0);
}

static int mem_free(void *self, uint64_t context, devptr_t ptr)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "mem_free");
    struct fake_piece *piece = find_piece(fake, FAKE_PLAIN, ptr);

    if (!piece)
        piece = find_piece(fake, FAKE_MANAGED, ptr);
    if (!piece || piece->owner != context) {
        misuse(fake, "mem_free of what is not there");
        return leave(fake, 1);
    }
    if (r != 0) {
        fake->lost++;
        return leave(fake, r);
    }
    if (piece->kind == FAKE_MANAGED)
        return free_managed(fake, piece);
    hold(fake, -(int64_t)pages(piece->size));
    drop_piece(fake, piece);
    fake->segments--;
    return leave(fake, 0);
}

static int granularity(void *self, int device, uint64_t *ret_size)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "granularity");

    (void)device;
    if (r == 0)
        *ret_size = fake->granularity;
    return leave(fake, r);
}

static int memory(void *self, int device, uint64_t *ret_total, uint64_t *ret_free)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "memory");

    (void)device;
    if (r == 0) {
        *ret_total = fake->memory;
        *ret_free = fake->memory - fake->held;
    }
    return leave(fake, r);
}

static int address_reserve(void *self, int device, uint64_t size, uint64_t align, devptr_t *ret_ptr)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "address_reserve");

    (void)device;
    if (size % GRANULE)
        misuse(fake, "address_reserve of an odd size");
    if (r == 0 && fake->no_vmm)
        r = DRIVER_NOT_SUPPORTED;
    if (r == 0 && fake->range_max && size > fake->range_max)
        r = DRIVER_OUT_OF_MEMORY;
    if (r != 0)
        return leave(fake, r);
    *ret_ptr = new_address(fake, size, align);
    (void)add_piece(fake, FAKE_RANGE, *ret_ptr, size, 0);
    fake->ranges++;
    return leave(fake, 0);
}

static int address_free(void *self, devptr_t ptr, uint64_t size)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "address_free");
    struct fake_piece *piece = find_piece(fake, FAKE_RANGE, ptr);

    if (!piece || piece->size != size || overlaps(fake, FAKE_MAPPING, ptr, size)) {
        misuse(fake, "address_free of what is not there or still mapped");
        return leave(fake, 1);
    }
    if (r != 0) {
        fake->lost++;
        return leave(fake, r);
    }
    drop_piece(fake, piece);
    fake->ranges--;
    return leave(fake, 0);
}

static int handle_create(void *self, int device, uint64_t size, uint64_t *ret_handle)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "handle_create");

    (void)device;
    if (size == 0 || size % GRANULE)
        misuse(fake, "handle_create of an odd size");
    if (r == 0 && fake->held + size > fake->memory)
        r = DRIVER_OUT_OF_MEMORY;
    if (r != 0)
        return leave(fake, r);
    *ret_handle = ++fake->next_handle;
    (void)add_piece(fake, FAKE_HANDLE, *ret_handle, size, 0);
    hold(fake, (int64_t)size);
    fake->handles++;
    fake->creates++;
    return leave(fake, 0);
}

static int handle_release(void *self, uint64_t handle)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "handle_release");
    struct fake_piece *piece = find_piece(fake, FAKE_HANDLE, handle);

    if (!piece || piece->maps) {
        misuse(fake, "handle_release of what is not there or mapped");
        return leave(fake, 1);
    }
    if (r != 0) {
        fake->lost++;
        return leave(fake, r);
    }
    hold(fake, -(int64_t)piece->size);
    drop_piece(fake, piece);
    fake->handles--;
    return leave(fake, 0);
}

static bool is_reserved(struct fake_driver *fake, devptr_t base, uint64_t size)
{
    for (int i = 0; i < fake->piece_top; i++) {
        const struct fake_piece *piece = &fake->pieces[i];

        if (piece->kind == FAKE_RANGE && base >= piece->base
                && base + size <= piece->base + piece->size)
            return true;
    }
    return false;
}

static int map(void *self, devptr_t ptr, uint64_t size, uint64_t handle)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "map");
    struct fake_piece *piece = find_piece(fake, FAKE_HANDLE, handle);

    if (!piece || piece->size != size || ptr % GRANULE || !is_reserved(fake, ptr, size)
            || overlaps(fake, FAKE_MAPPING, ptr, size)) {
        misuse(fake, "map of what cannot be mapped there");
        return leave(fake, 1);
    }
    if (r == 0 && piece->maps && fake->no_aliases) {
        fake->refused++;
        r = DRIVER_NOT_SUPPORTED;
    }
    if (r != 0)
        return leave(fake, r);
    fake->aliases += piece->maps > 0;
    piece->maps++;
    (void)add_piece(fake, FAKE_MAPPING, ptr, size, handle);
    fake->mappings++;
    fake->maps++;
    return leave(fake, 0);
}

/* How many whole mappings make up a range, 0 = they do not. */
static int whole_mappings(struct fake_driver *fake, devptr_t ptr, uint64_t size)
{
    uint64_t done = 0;
    int count = 0;

    for (; done < size; count++) {
        const struct fake_piece *piece = find_piece(fake, FAKE_MAPPING, ptr + done);

        if (!piece)
            return 0;
        done += piece->size;
    }
    return done == size ? count : 0;
}

static int unmap(void *self, devptr_t ptr, uint64_t size)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "unmap");
    int count = whole_mappings(fake, ptr, size);

    if (count == 0) {
        misuse(fake, "unmap of what is not mapped like that");
        return leave(fake, 1);
    }
    fake->unmap_calls++;
    if (r == 0 && count > 1 && fake->no_runs)
        r = 1;
    if (r != 0) {
        fake->lost += count == 1; /* several are asked for again, one by one */
        return leave(fake, r);
    }
    for (uint64_t done = 0; done < size;) {
        struct fake_piece *piece = find_piece(fake, FAKE_MAPPING, ptr + done);

        done += piece->size;
        find_piece(fake, FAKE_HANDLE, piece->owner)->maps--;
        drop_piece(fake, piece);
        fake->mappings--;
        fake->unmaps++;
    }
    return leave(fake, 0);
}

static int set_access(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
        uint64_t size, enum driver_access access)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "set_access");
    uint64_t covered = 0;

    (void)heap;
    (void)device;
    if (owner == 0 || size == 0)
        misuse(fake, "set_access for nobody or to nothing");
    for (int i = 0; r == 0 && i < fake->piece_top; i++) {
        struct fake_piece *piece = &fake->pieces[i];

        if (piece->kind != FAKE_MAPPING || piece->base < ptr
                || piece->base + piece->size > ptr + size)
            continue;
        piece->flag = access == DRIVER_ACCESS_RW;
        covered += piece->size;
    }
    if (r == 0 && covered != size)
        misuse(fake, "set_access of what is not mapped");
    return leave(fake, r);
}

/* ── fences ── */

static void join_clock(struct fake_clock *to, const struct fake_clock *from)
{
    for (int i = 0; i < FAKE_QUEUES; i++) {
        if (from->at[i] > to->at[i])
            to->at[i] = from->at[i];
    }
}

static bool has_passed(struct fake_driver *fake, const struct fake_clock *clock)
{
    for (int i = 0; i < FAKE_QUEUES; i++) {
        if (fake->streams[i].done < clock->at[i])
            return false;
    }
    return true;
}

static uint64_t new_fence(struct fake_driver *fake, const struct fake_clock *clock)
{
    uint64_t fence = ++fake->next_fence;

    if (fence >= FAKE_FENCES)
        abort();
    fake->fence_clocks[fence] = *clock;
    fake->fence_state[fence] = FENCE_RECORDED;
    fake->fences++;
    return fence;
}

/* -EBUSY while capturing; notes what must not have been called. */
static int fence_guard(struct fake_driver *fake, int r, uint64_t fence)
{
    if (fence && fake->fence_state[fence] != FENCE_RECORDED)
        misuse(fake, "a fence that was put is asked");
    if (fake->capturing) {
        fake->forbidden++;
        return -EBUSY;
    }
    return r;
}

static int fence_record(void *self, int device, uint64_t *ret_fence)
{
    struct fake_driver *fake = self;
    int r = fence_guard(fake, enter(fake, "fence_record"), 0);
    struct fake_clock clock;

    (void)device;
    if (r != 0)
        return leave(fake, r);
    for (int i = 0; i < FAKE_QUEUES; i++)
        clock.at[i] = fake->streams[i].submitted;
    *ret_fence = new_fence(fake, &clock);
    fake->records++;
    return leave(fake, 0);
}

static int stream_record(void *self, uint64_t stream, uint64_t *ret_fence)
{
    struct fake_driver *fake = self;
    int r = fence_guard(fake, enter(fake, "stream_record"), 0);
    struct fake_clock clock;

    if (stream == 0 || stream >= FAKE_STREAMS) {
        misuse(fake, "stream_record of an unknown stream");
        return leave(fake, 1);
    }
    if (r == 0 && fake->streams[stream].gone)
        r = -ENOENT;
    if (r != 0)
        return leave(fake, r);
    clock = fake->streams[stream].before;
    clock.at[stream] = fake->streams[stream].submitted;
    *ret_fence = new_fence(fake, &clock);
    fake->stream_records++;
    return leave(fake, 0);
}

static int fence_query(void *self, uint64_t fence)
{
    struct fake_driver *fake = self;
    int r = fence_guard(fake, enter(fake, "fence_query"), fence);

    if (r == 0)
        r = fake->query_result;
    if (r == 0)
        r = has_passed(fake, &fake->fence_clocks[fence]) ? 0 : -EAGAIN;
    return leave(fake, r);
}

/* ── streams ── */

/* Plain pieces have many blocks: nothing is known of their content. */
static void work_on_content(
        struct fake_driver *fake, struct fake_piece *piece, const struct fake_item *item)
{
    struct fake_piece *handle = piece;

    if (piece->kind == FAKE_PLAIN)
        return;
    if (piece->kind == FAKE_MAPPING)
        handle = find_piece(fake, FAKE_HANDLE, piece->owner);
    switch (item->work) {
    case FAKE_USE:
        break;
    case FAKE_WRITE:
        handle->content = item->value;
        break;
    case FAKE_CHECK:
        fake->wrong += handle->content != item->value;
        break;
    case FAKE_OUT:
        *item->host = handle->content;
        break;
    case FAKE_IN:
        handle->content = *item->host;
        break;
    case FAKE_PAGES_OUT:
    case FAKE_PAGES_IN:
        put_pages(fake, piece, item->work == FAKE_PAGES_IN, item->size);
        break;
    }
}

/* The device does this work on a piece. */
static void work_on(
        struct fake_driver *fake, struct fake_piece *piece, const struct fake_item *item)
{
    uint64_t at = item->base > piece->poisoned ? item->base - piece->poisoned : 0;

    if (item->poisons) {
        piece->poisoned = item->base;
        piece->intact = item->size;
    } else if (piece->poisoned && at < piece->intact && item->base + item->size > piece->poisoned) {
        piece->intact = at;
    }
    if (piece->kind == FAKE_MANAGED && item->work < FAKE_OUT && !item->looks) {
        fake->page_faults += !piece->flag;
        put_pages(fake, piece, true, piece->base + piece->size - item->base);
    }
    if (item->work != FAKE_USE)
        work_on_content(fake, piece, item);
}

static bool step_locked(struct fake_driver *fake, struct fake_stream *stream)
{
    const struct fake_item *item;

    if (stream->done == stream->submitted)
        return false;
    item = &stream->items[stream->done];
    if (item->fence && !has_passed(fake, &fake->fence_clocks[item->fence]))
        return false;
    stream->done++;
    if (!item->size)
        return true;
    for (uint64_t at = item->base; at < item->base + item->size;) {
        struct fake_piece *piece = find_memory(fake, at);

        if (!piece) {
            fake->faults++;
            return true;
        }
        work_on(fake, piece, item);
        at = piece->base + piece->size;
    }
    return true;
}

static int fence_wait(void *self, uint64_t fence, uint32_t timeout_ms)
{
    struct fake_driver *fake = self;
    int r = fence_guard(fake, enter(fake, "fence_wait"), fence);
    bool moved = true;

    (void)timeout_ms;
    fake->waits++;
    moved = fake->slow == 0;
    fake->slow -= fake->slow > 0;
    while (r == 0 && !fake->hangs && moved && !has_passed(fake, &fake->fence_clocks[fence])) {
        moved = false;
        for (int i = 0; i < FAKE_QUEUES; i++)
            moved |= step_locked(fake, &fake->streams[i]);
    }
    if (r == 0 && !has_passed(fake, &fake->fence_clocks[fence]))
        r = -EAGAIN;
    return leave(fake, r);
}

static uint64_t submit_locked(struct fake_driver *fake, uint64_t number, struct fake_item item)
{
    struct fake_stream *stream = &fake->streams[number];

    if (stream->submitted == stream->room) {
        stream->room = stream->room ? stream->room * 2 : 64;
        stream->items = realloc(stream->items, stream->room * sizeof(*stream->items));
        if (!stream->items)
            abort();
    }
    stream->items[stream->submitted++] = item;
    return stream->submitted;
}

static int stream_wait_fence(void *self, uint64_t stream, uint64_t fence)
{
    struct fake_driver *fake = self;
    int r = fence_guard(fake, enter(fake, "stream_wait_fence"), fence);

    if (stream == 0 || stream >= FAKE_STREAMS) {
        misuse(fake, "stream_wait_fence of an unknown stream");
        return leave(fake, 1);
    }
    if (r != 0)
        return leave(fake, r);
    (void)submit_locked(fake, stream, (struct fake_item){.fence = fence});
    join_clock(&fake->streams[stream].before, &fake->fence_clocks[fence]);
    fake->stream_waits++;
    return leave(fake, 0);
}

static void fence_put(void *self, uint64_t fence)
{
    struct fake_driver *fake = self;

    (void)enter(fake, "fence_put");
    if (fence == 0 || fake->fence_state[fence] != FENCE_RECORDED)
        misuse(fake, "a fence is put twice");
    else
        fake->fences--;
    fake->fence_state[fence] = FENCE_PUT;
    (void)leave(fake, 0);
}

/* ── poison ── */

static const struct fake_piece *find_inside(
        const struct fake_driver *fake, enum fake_piece_kind kind, devptr_t ptr)
{
    for (int i = 0; i < fake->piece_top; i++) {
        const struct fake_piece *piece = &fake->pieces[i];

        if (piece->kind == kind && ptr - piece->base < piece->size)
            return piece;
    }
    return NULL;
}

uint64_t fake_storage(struct fake_driver *fake, devptr_t ptr)
{
    const struct fake_piece *piece;
    uint64_t byte;

    pthread_mutex_lock(&fake->mutex);
    piece = find_inside(fake, FAKE_MAPPING, ptr);
    byte = piece ? (piece->owner << 40) + (ptr - piece->base) : 0;
    pthread_mutex_unlock(&fake->mutex);
    return byte;
}

static int poison(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
        uint64_t size, uint64_t fence)
{
    struct fake_driver *fake = self;
    int r = fence_guard(fake, enter(fake, "poison"), fence);

    (void)heap;
    (void)device;
    if (owner == 0 || size == 0)
        misuse(fake, "poison for nobody or to nothing");
    if (r != 0)
        return leave(fake, r);
    (void)submit_locked(fake, 0, (struct fake_item){.fence = fence});
    (void)submit_locked(fake, 0, (struct fake_item){.base = ptr, .size = size, .poisons = true});
    fake->poisons++;
    return leave(fake, 0);
}

static int poison_read(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
        uint64_t size, uint64_t *ret_intact)
{
    struct fake_driver *fake = self;
    int r = fence_guard(fake, enter(fake, "poison_read"), 0);
    const struct fake_piece *piece = find_inside(fake, FAKE_MAPPING, ptr);

    (void)heap;
    (void)device;
    if (owner == 0 || !piece || !piece->flag || piece->poisoned != ptr)
        misuse(fake, "poison is looked for where none has come to");
    else if (r == 0)
        *ret_intact = piece->intact < size ? piece->intact : size;
    fake->poison_reads++;
    return leave(fake, r);
}

/* ── readers ── */

static uint64_t readers_snapshot(void *self)
{
    struct fake_driver *fake = self;
    uint64_t snapshot;

    pthread_mutex_lock(&fake->mutex);
    snapshot = ++fake->next_snapshot;
    memcpy(fake->snapshots[snapshot % FAKE_SNAPSHOTS], fake->readers, sizeof(fake->readers));
    pthread_mutex_unlock(&fake->mutex);
    return snapshot;
}

static int readers_passed(void *self, uint64_t snapshot)
{
    struct fake_driver *fake = self;
    const uint64_t *then = fake->snapshots[snapshot % FAKE_SNAPSHOTS];
    int r = 0;

    pthread_mutex_lock(&fake->mutex);
    for (int i = 0; i < FAKE_READERS; i++) {
        if (then[i] % 2 && fake->readers[i] == then[i])
            r = -EAGAIN;
    }
    pthread_mutex_unlock(&fake->mutex);
    return r;
}

/* ── content ── */

static int host_take(void *self, uint64_t size, bool pinned, void **ret_host)
{
    struct fake_driver *fake = self;
    int r = enter(fake, "host_take");

    (void)pinned;
    if (r == 0 && fake->host_max && fake->host + size > fake->host_max)
        r = DRIVER_OUT_OF_MEMORY;
    if (r != 0)
        return leave(fake, r);
    *ret_host = calloc(1, sizeof(uint64_t));
    fake->host += size;
    if (fake->host > fake->host_high)
        fake->host_high = fake->host;
    return leave(fake, 0);
}

static void host_give(void *self, void *host, uint64_t size, bool pinned)
{
    struct fake_driver *fake = self;

    (void)pinned;
    (void)enter(fake, "host_give");
    fake->host -= size;
    free(host);
    (void)leave(fake, 0);
}

static int content(void *self, enum heap_kind heap, uint64_t owner, int device, enum driver_way way,
        devptr_t ptr, void *host, uint64_t size, const uint64_t *after, uint32_t count,
        uint64_t *ret_fence)
{
    struct fake_driver *fake = self;
    uint64_t queue = way == DRIVER_OUT ? FAKE_STREAMS : FAKE_STREAMS + 1;
    static const enum fake_work works[2][2] = {
            {FAKE_OUT, FAKE_IN}, {FAKE_PAGES_OUT, FAKE_PAGES_IN}};
    const struct fake_piece *piece;
    struct fake_clock clock;
    int r = fence_guard(fake, enter(fake, "content"), 0);

    (void)heap;
    (void)device;
    piece = find_inside(fake, host ? FAKE_MAPPING : FAKE_MANAGED, ptr);
    if (owner == 0 || !piece
            || (host && (!piece->flag || piece->base != ptr || piece->size != size))
            || ptr + size > piece->base + piece->size)
        misuse(fake, "content of what is not there, or of nobody");
    if (r != 0)
        return leave(fake, r);
    for (uint32_t i = 0; i < count; i++) {
        (void)submit_locked(fake, queue, (struct fake_item){.fence = after[i]});
        join_clock(&fake->streams[queue].before, &fake->fence_clocks[after[i]]);
    }
    (void)submit_locked(fake, queue,
            (struct fake_item){
                    .base = ptr, .size = size, .work = works[host == NULL][way], .host = host});
    *(way == DRIVER_OUT ? &fake->outs : &fake->ins) += 1;
    *(way == DRIVER_OUT ? &fake->out_bytes : &fake->in_bytes) += size;
    clock = fake->streams[queue].before;
    clock.at[queue] = fake->streams[queue].submitted;
    *ret_fence = new_fence(fake, &clock);
    return leave(fake, 0);
}

static uint64_t clock_ns(void *self)
{
    struct fake_driver *fake = self;
    uint64_t now;

    pthread_mutex_lock(&fake->mutex);
    fake->time += 10000000; /* so that patience ends soon */
    now = fake->time;
    pthread_mutex_unlock(&fake->mutex);
    return now;
}

static uint64_t move_ns(void *self, uint64_t size)
{
    const struct fake_driver *fake = self;

    (void)size;
    return fake->move_ns;
}

/* ── the test's side ── */

struct fake_driver *fake_new(uint64_t bytes)
{
    struct fake_driver *fake = calloc(1, sizeof(*fake));

    if (!fake)
        abort();
    pthread_mutex_init(&fake->mutex, NULL);
    fake->memory = bytes;
    fake->granularity = GRANULE;
    fake->fail_code = FAKE_FAILURE;
    fake->next_address = UINT64_C(0x7f0000000000);
    fake->driver = (struct driver){
            .self = fake,
            .mem_alloc = mem_alloc,
            .mem_free = mem_free,
            .managed_alloc = managed_alloc,
            .granularity = granularity,
            .memory = memory,
            .address_reserve = address_reserve,
            .address_free = address_free,
            .handle_create = handle_create,
            .handle_release = handle_release,
            .map = map,
            .unmap = unmap,
            .set_access = set_access,
            .fence_record = fence_record,
            .stream_record = stream_record,
            .fence_query = fence_query,
            .fence_wait = fence_wait,
            .stream_wait_fence = stream_wait_fence,
            .fence_put = fence_put,
            .poison = poison,
            .poison_read = poison_read,
            .host_take = host_take,
            .host_give = host_give,
            .content = content,
            .clock_ns = clock_ns,
            .move_ns = move_ns,
            .readers_snapshot = readers_snapshot,
            .readers_passed = readers_passed,
    };
    return fake;
}

void fake_free(struct fake_driver *fake)
{
    for (int i = 0; i < FAKE_QUEUES; i++)
        free(fake->streams[i].items);
    pthread_mutex_destroy(&fake->mutex);
    free(fake);
}

uint64_t fake_submit(struct fake_driver *fake, uint64_t stream, devptr_t base, uint64_t size)
{
    uint64_t at;

    pthread_mutex_lock(&fake->mutex);
    at = submit_locked(fake, stream, (struct fake_item){.base = base, .size = size});
    pthread_mutex_unlock(&fake->mutex);
    return at;
}

static void submit_work(struct fake_driver *fake, uint64_t stream, devptr_t base,
        enum fake_work work, uint64_t value)
{
    pthread_mutex_lock(&fake->mutex);
    (void)submit_locked(fake, stream,
            (struct fake_item){.base = base, .size = 1, .work = work, .value = value});
    pthread_mutex_unlock(&fake->mutex);
}

void fake_write(struct fake_driver *fake, uint64_t stream, devptr_t base, uint64_t value)
{
    submit_work(fake, stream, base, FAKE_WRITE, value);
}

void fake_check(struct fake_driver *fake, uint64_t stream, devptr_t base, uint64_t value)
{
    submit_work(fake, stream, base, FAKE_CHECK, value);
}

struct fake_clock fake_clock(struct fake_driver *fake)
{
    struct fake_clock clock;

    pthread_mutex_lock(&fake->mutex);
    for (int i = 0; i < FAKE_QUEUES; i++)
        clock.at[i] = fake->streams[i].submitted;
    pthread_mutex_unlock(&fake->mutex);
    return clock;
}

bool fake_step(struct fake_driver *fake, uint64_t stream)
{
    bool moved;

    pthread_mutex_lock(&fake->mutex);
    moved = step_locked(fake, &fake->streams[stream]);
    pthread_mutex_unlock(&fake->mutex);
    return moved;
}

void fake_drain(struct fake_driver *fake)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint64_t i = 0; i < FAKE_QUEUES; i++)
            moved |= fake_step(fake, i);
    }
}

bool fake_is_ordered(struct fake_driver *fake, uint64_t from, uint64_t at, uint64_t to)
{
    bool is_ordered;

    pthread_mutex_lock(&fake->mutex);
    is_ordered = from == to || fake->streams[from].done >= at
            || (to < FAKE_STREAMS && fake->streams[to].before.at[from] >= at);
    pthread_mutex_unlock(&fake->mutex);
    return is_ordered;
}

bool fake_is_done(struct fake_driver *fake, const struct fake_clock *clock)
{
    bool is_done;

    pthread_mutex_lock(&fake->mutex);
    is_done = has_passed(fake, clock);
    pthread_mutex_unlock(&fake->mutex);
    return is_done;
}

bool fake_is_accessible(struct fake_driver *fake, devptr_t base, uint64_t size)
{
    uint64_t faults;
    struct fake_stream stream = {.submitted = 1};
    struct fake_item item = {.base = base, .size = size, .looks = true};
    bool ok;

    pthread_mutex_lock(&fake->mutex);
    faults = fake->faults;
    stream.items = &item;
    (void)step_locked(fake, &stream);
    ok = fake->faults == faults;
    fake->faults = faults;
    pthread_mutex_unlock(&fake->mutex);
    return ok;
}

bool fake_is_reserved(struct fake_driver *fake, devptr_t ptr)
{
    bool is_in;

    pthread_mutex_lock(&fake->mutex);
    is_in = is_reserved(fake, ptr, 1);
    pthread_mutex_unlock(&fake->mutex);
    return is_in;
}

void fake_reader_enter(struct fake_driver *fake, unsigned reader)
{
    pthread_mutex_lock(&fake->mutex);
    fake->readers[reader] += 1 + fake->readers[reader] % 2;
    pthread_mutex_unlock(&fake->mutex);
}

void fake_reader_leave(struct fake_driver *fake, unsigned reader)
{
    pthread_mutex_lock(&fake->mutex);
    fake->readers[reader] += fake->readers[reader] % 2;
    pthread_mutex_unlock(&fake->mutex);
}

void fake_context_gone(struct fake_driver *fake, uint64_t context)
{
    pthread_mutex_lock(&fake->mutex);
    for (int i = 0; i < fake->piece_top; i++) {
        struct fake_piece *piece = &fake->pieces[i];

        if (piece->kind == FAKE_MANAGED && piece->owner == context) {
            put_pages(fake, piece, false, 0);
            drop_piece(fake, piece);
            fake->managed--;
        } else if (piece->kind == FAKE_PLAIN && piece->owner == context) {
            hold(fake, -(int64_t)pages(piece->size));
            drop_piece(fake, piece);
            fake->segments--;
        }
    }
    pthread_mutex_unlock(&fake->mutex);
}
