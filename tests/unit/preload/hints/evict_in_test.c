/* SPDX-License-Identifier: MIT */
/* covers: evict_in.c */
/* What is asked of the pool before a call that names blocks which may be out, and what the program gets where that cannot be had. */
#include "preload/base/gate.h"
#include "preload/driver/contexts.h"
#include "preload/driver/device_stats.h"
#include "preload/driver/resolve.h"
#include "preload/hints/evict_in.h"
#include "preload/hints/evictlog.h"
#include "preload/hints/hints_run.h"
#include "tests/check.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    NAMES = 16,
    DEVICE = 0x1000,    /* its memory, which the pool does not know */
    BLOCK = 0x10000000, /* of the hint that evicts */
    BLOCK_BYTES = 0x200000,
    OTHER = BLOCK + 4 * BLOCK_BYTES, /* made by the same hint, freed since */
};

void *resolve_real[SLOT_COUNT];
struct hints_run hints_run;

static struct {
    struct pool_gate gate; /* as the first member of a pool */
    devptr_t named[NAMES];
    uint64_t length[NAMES];
    bool written[NAMES];
    unsigned names, begins, brings, ends, go_ons, keeps, shorts;
    devptr_t kept;
    enum pool_kept why;
    unsigned reading_at_bring;
    unsigned out;  /* pool_call_begin says so often that something is out */
    int bring_now; /* what pool_call_bring says */
    int name_now;
    uint64_t stream;
    unsigned streams_asked;
    unsigned captures;
    int lacking; /* the rule that a call is short of room by */
} pool;
static bool may_fence;
static int memory_type; /* what the driver says of the host's bytes; -1 = nothing */

struct pool *session_pool = (struct pool *)(void *)&pool;

bool session_may_fence(void)
{
    return may_fence;
}

bool hints_run_is_evict_rule(int rule)
{
    return rule == 1;
}

void session_sweep_stack(void)
{
}

void session_go_on_later(void)
{
}

unsigned gate_captures(void)
{
    return pool.captures;
}

void device_stats_all_reserved(void)
{
}

void evictlog_short(const struct pool_short *lacks)
{
    CHECK_EQ(lacks->needed, 30);
    pool.shorts++;
}

const struct rule *hint_rule(const struct hints *hints, int rule)
{
    static const struct rule rules[] = {{.action = ACTION_RELEASE}, {.action = ACTION_EVICT}};

    (void)hints;
    return &rules[rule];
}

int stream_here(CUstream handle, bool per_thread_call, struct stream *ret_stream)
{
    (void)per_thread_call;
    *ret_stream = (struct stream){.identity = (uintptr_t)handle + 1000};
    pool.streams_asked++;
    return 0;
}

int pool_call_name(
        struct pool *self, devptr_t lo, uint64_t len, bool is_written, struct pool_call *io_call)
{
    (void)self;
    if (pool.name_now)
        return pool.name_now;
    pool.named[pool.names % NAMES] = lo;
    pool.length[pool.names % NAMES] = len;
    pool.written[pool.names++ % NAMES] = is_written;
    if (lo < BLOCK + BLOCK_BYTES && lo + len > BLOCK)
        io_call->count++;
    return 0;
}

int pool_call_begin(struct pool *self, struct pool_call *io_call)
{
    (void)self;
    pool.begins++;
    pool.stream = io_call->stream;
    CHECK_GT(guard_thread.reading, 0);
    return pool.begins > pool.out ? 0 : -EAGAIN;
}

int pool_call_bring(struct pool *self, struct pool_call *io_call, struct pool_short *ret_short)
{
    (void)self;
    (void)io_call;
    pool.brings++;
    pool.reading_at_bring = guard_thread.reading;
    ret_short->needed = 30;
    ret_short->rule = pool.lacking;
    return pool.bring_now;
}

void pool_call_end(struct pool *self, struct pool_call *io_call)
{
    (void)self;
    (void)io_call;
    pool.ends++;
}

void pool_evict_go_on(struct pool *self)
{
    (void)self;
    pool.go_ons++;
}

void pool_evict_keep(struct pool *self, devptr_t ptr, enum pool_kept why)
{
    (void)self;
    pool.kept = ptr;
    pool.why = why;
    pool.keeps++;
}

int pool_find(struct pool *self, devptr_t ptr, struct block_info *ret)
{
    (void)self;
    if (ptr < BLOCK || ptr >= BLOCK + BLOCK_BYTES)
        return -ENOENT;
    *ret = (struct block_info){.base = BLOCK, .size = BLOCK_BYTES, .rule = 1};
    return 0;
}

static CUresult attribute(void *value, CUpointer_attribute what, CUdeviceptr ptr)
{
    int type = ptr >= DEVICE && ptr < DEVICE + 64 ? CU_MEMORYTYPE_DEVICE : memory_type;

    CHECK_EQ(what, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    if (type < 0)
        return CUDA_ERROR_INVALID_VALUE;
    *(unsigned *)value = (unsigned)type;
    return CUDA_SUCCESS;
}

static struct evict_in bring;

static void start(void)
{
    memset(&pool, 0, sizeof pool);
    pool.gate.evicts = 1;
    may_fence = true;
    memory_type = -1;
    hints_run.hints = (struct hints *)(void *)&pool;
    resolve_real[SLOT_cuPointerGetAttribute] = (void *)(uintptr_t)attribute;
    evict_in_made(BLOCK, BLOCK_BYTES);
    evict_in_made(OTHER, BLOCK_BYTES);
}

/* NOLINTNEXTLINE(performance-no-int-to-ptr): handles are numbers here */
#define STREAM ((CUstream)(uintptr_t)0x40)

static void begin(void)
{
    start();
    guard_read_begin();
    evict_in_begin(&bring, STREAM);
}

static CUresult end(void)
{
    CUresult result = evict_in_end(&bring, CUDA_SUCCESS);

    guard_read_end();
    CHECK_EQ(guard_thread.reading, 0);
    CHECK(guard_thread.bring == NULL);
    CHECK_EQ(pool.ends, 1);
    return result;
}

TEST(what_names_nothing_asks_for_nothing)
{
    begin();
    CHECK(!evict_in_name(0x1000, 8, true));
    CHECK_EQ(evict_in_ready(), CUDA_SUCCESS);
    CHECK_EQ(end(), CUDA_SUCCESS);
    CHECK_EQ(pool.begins, 0);
    CHECK_EQ(pool.streams_asked, 0);
}

TEST(what_is_in_is_not_brought)
{
    begin();
    CHECK(!evict_in_name(BLOCK + 64, 8, true));
    CHECK_EQ(evict_in_ready(), CUDA_SUCCESS);
    CHECK_EQ(end(), CUDA_SUCCESS);
    CHECK_EQ(pool.begins, 1);
    CHECK_EQ(pool.brings, 0);
    CHECK_EQ(pool.stream, 0x40 + 1000);
    CHECK(pool.written[0]);
}

TEST(what_is_out_is_brought_outside_of_all_sections_until_it_is_in)
{
    begin();
    guard_read_begin(); /* as of an event that the call is */
    pool.out = 2;
    CHECK(!evict_in_name(BLOCK, 8, false));
    CHECK_EQ(evict_in_ready(), CUDA_SUCCESS);
    CHECK_EQ(guard_thread.reading, 2);
    guard_read_end();
    CHECK_EQ(end(), CUDA_SUCCESS);
    CHECK_EQ(pool.begins, 3);
    CHECK_EQ(pool.brings, 2);
    CHECK_EQ(pool.names, 1);
    CHECK_EQ(pool.reading_at_bring, 0);
    CHECK_EQ(pool.shorts, 0);
}

static void refuse(int said, CUresult result, unsigned shorts)
{
    begin();
    pool.out = 1;
    pool.bring_now = said;
    CHECK(!evict_in_name(BLOCK, 8, false));
    CHECK_EQ(evict_in_ready(), result);
    CHECK_EQ(guard_thread.reading, 1);
    CHECK_EQ(end(), result);
    CHECK_EQ(pool.begins, 1);
    CHECK_EQ(pool.shorts, shorts);
}

TEST(what_does_not_fit_is_no_call_and_is_told)
{
    refuse(DRIVER_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, 1);
}

TEST(what_a_capture_keeps_from_being_moved_is_told_apart)
{
    begin();
    pool.out = 1;
    pool.captures = 1;
    pool.lacking = -1;
    pool.bring_now = DRIVER_OUT_OF_MEMORY;
    CHECK(!evict_in_name(BLOCK, 8, false));
    CHECK_EQ(evict_in_ready(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(pool.shorts, 0);
}

TEST(what_cannot_be_moved_is_no_call)
{
    refuse(CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS, 0);
    refuse(-EBUSY, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 0);
    refuse(-ENOMEM, CUDA_ERROR_OUT_OF_MEMORY, 0);
}

TEST(what_cannot_be_noted_is_no_call)
{
    begin();
    pool.name_now = -ENOMEM;
    CHECK(evict_in_name(BLOCK, 8, false));
    CHECK_EQ(end(), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(what_nobody_tells_is_all_and_stays)
{
    start();
    CHECK(!evict_in_all()); /* no call that could use it */
    CHECK_EQ(pool.keeps, 0);
    begin();
    CHECK(!evict_in_all());
    CHECK_EQ(pool.keeps, 0);
    CHECK_EQ(evict_in_ready(), CUDA_SUCCESS);
    CHECK_EQ(pool.keeps, 1);
    CHECK_EQ(pool.kept, 0);
    CHECK_EQ(pool.why, POOL_KEPT_UNTOLD);
    CHECK_EQ(bring.call.count, 1);
    CHECK_EQ(end(), CUDA_SUCCESS);
}

TEST(a_pin_holds_while_it_is_made)
{
    start();
    guard_read_begin();
    pool.out = 1;
    CHECK_EQ(evict_in_pinned(&bring, BLOCK, BLOCK_BYTES), CUDA_SUCCESS);
    CHECK_EQ(pool.brings, 1);
    CHECK_EQ(pool.ends, 0);
    CHECK_EQ(end(), CUDA_SUCCESS);
}

/* ---- addresses among data ------------------------------------------------------------------- */

static uint64_t data[16384];

/* How many blocks a copy of them names beside its own. */
static unsigned look(devptr_t dst, const void *src, uint64_t size)
{
    begin();
    CHECK(!evict_in_data(dst, src, size));
    CHECK_EQ(pool.keeps, 0);
    CHECK_EQ(evict_in_ready(), CUDA_SUCCESS);
    CHECK_EQ(end(), CUDA_SUCCESS);
    CHECK_EQ(pool.keeps, pool.names);
    return pool.names;
}

TEST(an_address_among_data_keeps_its_block)
{
    data[5] = BLOCK + 4096;
    CHECK_EQ(look(DEVICE, data, 64), 1);
    CHECK_EQ(pool.kept, BLOCK + 4096);
    CHECK_EQ(pool.why, POOL_KEPT_POINTER);
    CHECK_EQ(pool.named[0], BLOCK + 4096);
    CHECK(!pool.written[0]);
    CHECK_EQ(look(DEVICE, data, 40), 0);
    CHECK_EQ(look(DEVICE, data, 47), 0);
    CHECK_EQ(look(DEVICE, data, 48), 1);
    CHECK_EQ(look(DEVICE, &data[5], 7), 0);
    CHECK_EQ(look(DEVICE, &data[5], 8), 1); /* nothing else */
}

TEST(words_are_where_the_device_has_them_aligned)
{
    data[5] = BLOCK;
    CHECK_EQ(look(DEVICE + 4, data, 64), 0);
    CHECK_EQ(look(DEVICE + 4, (char *)data + 4, 60), 1);
}

TEST(what_is_no_block_of_the_hint_is_data)
{
    data[5] = OTHER;
    CHECK_EQ(look(DEVICE, data, 64), 0);
    data[5] = BLOCK - 1;
    CHECK_EQ(look(DEVICE, data, 64), 0);
    data[5] = BLOCK + BLOCK_BYTES;
    CHECK_EQ(look(DEVICE, data, 64), 0);
}

TEST(large_data_is_looked_at_from_its_beginning)
{
    data[5] = 0;
    data[8191] = BLOCK;
    CHECK_EQ(look(DEVICE, data, sizeof data), 1);
    data[8191] = 0;
    data[8192] = BLOCK;
    CHECK_EQ(look(DEVICE, data, sizeof data), 0);
    data[8192] = 0;
}

TEST(what_stays_on_the_host_is_not_followed)
{
    static uint64_t other[16];

    data[5] = BLOCK;
    CHECK_EQ(look((uintptr_t)other, data, 64), 0);
    CHECK_EQ(look(BLOCK, data, 64), 1);
}

static unsigned look_at_type(int type, const void *src)
{
    begin();
    memory_type = type;
    CHECK(!evict_in_data(DEVICE, src, 64));
    CHECK_EQ(end(), CUDA_SUCCESS);
    return pool.names;
}

TEST(only_what_the_host_may_read_is_read)
{
    data[5] = BLOCK;
    CHECK_EQ(look_at_type(CU_MEMORYTYPE_HOST, data), 1);
    CHECK_EQ(look_at_type(0, data), 1); /* so later drivers call what they do not know */
    CHECK_EQ(look_at_type(CU_MEMORYTYPE_DEVICE, (void *)8), 0);
    CHECK_EQ(look_at_type(-1, NULL), 0);
}

TEST(what_is_no_memory_is_the_drivers_to_refuse)
{
    long page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(
            NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(pages != MAP_FAILED);
    REQUIRE(munmap(pages + page, (size_t)page) == 0);
    CHECK_EQ(look_at_type(-1, pages + page), 0);
    CHECK_EQ(look_at_type(-1, pages + page - 32), 0);
    CHECK_EQ(look_at_type(-1, (void *)(uintptr_t)(BLOCK + 64)), 0); /* a block, which may be out */
}

TEST(an_address_in_data_that_is_not_copied_keeps_nothing)
{
    begin();
    pool.out = 1;
    pool.bring_now = DRIVER_OUT_OF_MEMORY;
    data[5] = BLOCK;
    CHECK(!evict_in_data(DEVICE, data, 64));
    CHECK_EQ(evict_in_ready(), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(end(), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(pool.keeps, 0);
}

TEST(many_addresses_are_all_kept)
{
    for (unsigned i = 0; i < 32; i++)
        data[i] = BLOCK + 8 * i;
    begin();
    CHECK(!evict_in_data(DEVICE, data, 256));
    CHECK_EQ(evict_in_ready(), CUDA_SUCCESS);
    CHECK_EQ(end(), CUDA_SUCCESS);
    CHECK_EQ(pool.keeps, 32);
    memset(data, 0, sizeof data);
}

/* ---- ahead ---------------------------------------------------------------------------------- */

TEST(moves_ahead_begin_outside_of_sections_alone)
{
    start();
    evict_in_go_on();
    CHECK_EQ(pool.go_ons, 0);
    pool.gate.ahead = 1;
    guard_read_begin();
    evict_in_go_on();
    guard_read_end();
    CHECK_EQ(pool.go_ons, 0);
    may_fence = false; /* a capture runs */
    evict_in_go_on();
    CHECK_EQ(pool.go_ons, 0);
    may_fence = true;
    evict_in_go_on();
    CHECK_EQ(pool.go_ons, 1);
}
