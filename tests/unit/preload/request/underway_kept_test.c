/* SPDX-License-Identifier: MIT */
/* covers: underway.c */
/*
 * What calls of NCCL are about keeps its storage until it is said that they were given to the device, of each communicator and up to
 * the call that was asked about; also where there is no memory to note it.
 */
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/driver/life.h"
#include "preload/request/underway.h"
#include "tests/check.h"
#include "tracker/capture/capture.h"

#include "alloc/base/meta.h"

#include <errno.h>
#include <stdarg.h>

enum {
    BLOCKS = 16,
    FOREIGN = 99, /* an address that is no block's */
};

static const int first_comm, second_comm;
static struct underway call;

/* By the number of the block, which is its address: how often its storage is kept, and whether a release waits for it. */
static int kept[BLOCKS];
static bool waits[BLOCKS];
static int calls_kept; /* what was brought in and has to stay */
static int inside;     /* life */
static bool is_on = true;
static unsigned went_on;
static CUresult ready;

/* ---- what underway.c calls ------------------------------------------------------------------ */

struct pool *session_pool;

bool pool_collect(struct pool *pool, devptr_t ptr, bool is_named, struct pool_collected *ret)
{
    (void)pool;
    if (ptr >= BLOCKS)
        return false;
    *ret = (struct pool_collected){.base = ptr, .alloc_seq = ptr, .is_named = is_named};
    kept[ptr]++;
    return true;
}

void pool_call_made(struct pool *pool, const struct pool_collected *collected)
{
    (void)pool;
    kept[collected->base]--;
}

bool pool_waits_for_call(
        struct pool *pool, const struct pool_collected *collected, struct outcome *ret)
{
    (void)pool;
    *ret = (struct outcome){.rule = 5,
            .mode = HINT_LIVE,
            .ptr = collected->base,
            .size = collected->base * 100,
            .seq = collected->alloc_seq,
            .device = 3};
    return waits[collected->base];
}

void pool_call_end(struct pool *pool, struct pool_call *io_call)
{
    (void)pool;
    calls_kept -= (int)io_call->count;
}

CUresult evict_in_ready_slowly(struct evict_in *bring)
{
    calls_kept += (int)bring->call.count;
    return ready;
}

bool life_begin_edge(void)
{
    inside += is_on;
    return is_on;
}

void life_leave(void)
{
    inside--;
}

void session_go_on_later(void)
{
    CHECK_EQ(inside, 1);
    went_on++;
}

static struct capture_hint_info records[BLOCKS];
static unsigned record_count;

int capture_hint(const struct capture_hint_info *info)
{
    records[record_count++] = *info;
    return 7;
}

void session_report(int r)
{
    CHECK_EQ(r, 7);
}

static char said[256];

void msg_warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(said, sizeof said, format, args);
    va_end(args);
}

static bool lacks_memory;

void *__real_meta_get(size_t size);
void *__wrap_meta_get(size_t size);

void *__wrap_meta_get(size_t size)
{
    return lacks_memory ? NULL : __real_meta_get(size);
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Of a communicator, about blocks `from` to `to`; left to be given later. */
static void park(const int *comm, devptr_t from, devptr_t to)
{
    call.comm = comm;
    for (devptr_t i = from; i <= to; i++)
        underway_collect(&call, i, true);
    underway_park(&call);
    CHECK(!call.first);
}

/* Which blocks keep their storage, as bits. */
static unsigned keeps(void)
{
    unsigned which = 0;

    for (unsigned i = 0; i < BLOCKS; i++)
        which |= (unsigned)(kept[i] > 0) << i;
    return which;
}

TEST(a_call_that_is_over_lets_its_blocks_go)
{
    uint64_t before = meta_bytes();

    for (int i = 0; i < 20000; i++) {
        underway_collect(&call, 1, true);
        underway_collect(&call, 2, false);
        underway_collect(&call, FOREIGN, true);
        CHECK_EQ(keeps(), 6);
        underway_over(&call);
        CHECK_EQ(keeps(), 0);
        if (i == 0)
            before = meta_bytes();
    }
    CHECK_EQ(went_on, 20000);
    underway_over(&call); /* of nothing */
    CHECK_EQ(went_on, 20000);
    CHECK_EQ(inside, 0);
    CHECK_EQ(meta_bytes(), before);
}

TEST(what_is_parked_goes_with_the_answer_about_its_communicator)
{
    uint64_t early, late;

    CHECK_EQ(underway_parked(), 0);
    underway_park(&call); /* nothing */
    CHECK_EQ(underway_parked(), 0);
    park(&first_comm, 1, 2);
    early = underway_parked();
    CHECK_NE(early, 0);
    park(&first_comm, 5, 6);
    park(&second_comm, 3, 4);
    late = underway_parked();
    CHECK_LT(early, late);
    CHECK_EQ(keeps(), 0x7e);
    underway_given(&first_comm, 0); /* nothing had been parked when it was asked */
    CHECK_EQ(keeps(), 0x7e);
    underway_given(&first_comm, early);
    CHECK_EQ(keeps(), 0x78);
    underway_given(&first_comm, early);
    CHECK_EQ(keeps(), 0x78);
    underway_given(&second_comm, late);
    CHECK_EQ(keeps(), 0x60);
    underway_given(&first_comm, late);
    CHECK_EQ(keeps(), 0);
    CHECK_EQ(inside, 0);
}

/* As long as kedge is not on nothing of the pool's is touched. */
TEST(nothing_is_let_go_where_kedge_is_not_on)
{
    underway_collect(&call, 1, true);
    is_on = false;
    underway_over(&call);
    CHECK_EQ(keeps(), 2);
    CHECK_EQ(inside, 0);
    CHECK_EQ(went_on, 0);
}

/* In place of a block that cannot be noted the whole section lasts, in which nothing is unmapped (R66). */
TEST(without_memory_a_section_stands_for_the_blocks)
{
    lacks_memory = true;
    underway_collect(&call, 1, true);
    CHECK(call.reads);
    CHECK_EQ(guard_thread.reading, 1);
    CHECK_EQ(kept[1], 0);
    underway_collect(&call, 2, true); /* one section for all */
    CHECK_EQ(guard_thread.reading, 1);
    CHECK_EQ(kept[2], 0);
    underway_over(&call);
    CHECK(!call.reads);
    CHECK_EQ(guard_thread.reading, 0);
    lacks_memory = false;
    underway_collect(&call, 3, true);
    CHECK(!call.reads);
    CHECK_EQ(keeps(), 8);
    underway_over(&call);
    CHECK_EQ(keeps(), 0);
    lacks_memory = true;
    underway_collect(&call, 4, true);
    underway_park(&call); /* no other thread can end the section: it lasts */
    CHECK(!call.reads);
    underway_over(&call);
    CHECK_EQ(guard_thread.reading, 1);
}

TEST(what_was_brought_in_stays_in_as_long)
{
    struct evict_in bring = {.call = {.count = 3}};

    call.comm = &first_comm;
    CHECK(underway_bring(&call, &bring));
    CHECK_EQ(calls_kept, 3);
    CHECK_EQ(bring.call.count, 0); /* it is not submit_end's to let go any more */
    underway_collect(&call, 1, true);
    underway_park(&call);
    CHECK_EQ(calls_kept, 3);
    underway_given(&first_comm, underway_parked());
    CHECK_EQ(calls_kept, 0);
    CHECK_EQ(keeps(), 0);
    CHECK(underway_bring(&call, &bring)); /* nothing had to come in */
    CHECK(!call.first);
    bring.call.count = 2;
    lacks_memory = true;
    CHECK(!underway_bring(&call, &bring));
    CHECK_EQ(bring.call.count, 2);
    lacks_memory = false;
    ready = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK(!underway_bring(&call, &bring));
    CHECK(!call.first);
}

TEST(what_is_never_given_is_told_at_the_end_once_for_each_block)
{
    struct evict_in bring = {.call = {.count = 1}};

    underway_end();
    CHECK_EQ(record_count, 0);
    CHECK_STR_EQ(said, "");
    park(&first_comm, 5, 6);
    waits[5] = true;
    underway_end();
    CHECK_EQ(record_count, 1);
    CHECK(strncmp(said, "1 blocks ", 9) == 0);
    record_count = 0;
    park(&first_comm, 1, 3);
    park(&second_comm, 2, 4); /* two of them a second time */
    CHECK(underway_bring(&call, &bring));
    underway_park(&call);
    waits[1] = waits[2] = waits[4] = true; /* no hint has released the third */
    underway_end();
    CHECK_EQ(record_count, 3);
    for (unsigned i = 0; i < record_count; i++) {
        devptr_t ptr = records[i].ptr;

        CHECK(ptr < BLOCKS && waits[ptr]);
        waits[ptr % BLOCKS] = false;
        CHECK_EQ(records[i].what, FORMAT_HINT_REFUSED);
        CHECK_EQ(records[i].mode, HINT_LIVE);
        CHECK_EQ(records[i].rule, 5);
        CHECK_EQ(records[i].size, ptr * 100);
        CHECK_EQ(records[i].seq, ptr);
        CHECK_EQ(records[i].device, 3);
        CHECK_EQ(records[i].result, EINPROGRESS);
    }
    CHECK(strncmp(said, "3 blocks ", 9) == 0);
    CHECK_EQ(keeps(), 0x7e); /* they stay as they are */
    underway_end();
    CHECK_EQ(record_count, 3);
    underway_given(&first_comm, underway_parked());
    CHECK_EQ(keeps(), 0x7e);
}
