/* SPDX-License-Identifier: MIT */
/* covers: whatif.c loadcsv.c counting.c playback.c workload.c */
/* What `kedge whatif` plays and how it counts: inputs, the driver that is behind, passes. */
#include "tests/check.h"

#include "tests/bench/models/models.h"
#include "tools/base/rowtrace.h"
#include "tools/load/load.h"
#include "tools/replay/playback.h"
#include "tools/replay/whatif.h"

#include <errno.h>

#define MIB (UINT64_C(1) << 20)

static FILE *open_text(const char *text)
{
    FILE *in = fmemopen((void *)(size_t)text, strlen(text), "r");
    REQUIRE(in != NULL);
    return in;
}

/* ── the driver ── */

TEST(a_fence_passes_when_the_program_is_so_many_events_further)
{
    struct counting counting;
    struct driver driver = counting_driver(&counting);
    uint64_t early, late;

    counting.lag = 2;
    counting_step(&counting);
    CHECK_EQ(driver.fence_record(driver.self, 0, &early), 0);
    counting_step(&counting);
    CHECK_EQ(driver.stream_record(driver.self, 3, &late), 0);
    CHECK_EQ(driver.fence_query(driver.self, early), -EAGAIN);
    counting_step(&counting);
    CHECK_EQ(driver.fence_query(driver.self, early), 0);
    CHECK_EQ(driver.fence_query(driver.self, late), -EAGAIN);
    /* a wait lets it pass, and everything before it */
    CHECK_EQ(driver.fence_wait(driver.self, late, 1), 0);
    CHECK_EQ(driver.fence_query(driver.self, late), 0);
    CHECK_EQ(counting.calls[COUNTING_WAIT], 1);
    CHECK_EQ(counting.calls[COUNTING_EVENT], 2);
    CHECK_EQ(counting.calls[COUNTING_QUERY], 4);
    driver.fence_put(driver.self, late);
    CHECK_EQ(counting_calls(&counting), 7);
    counting_done(&counting);
}

TEST(what_is_held_counts_segments_and_handles)
{
    struct counting counting;
    struct driver driver = counting_driver(&counting);
    devptr_t segment;
    uint64_t handle;

    CHECK_EQ(driver.mem_alloc(driver.self, 1, 0, 5 * MIB, &segment), 0);
    CHECK_EQ(driver.handle_create(driver.self, 0, 2 * MIB, &handle), 0);
    CHECK_EQ(counting.reserved, 7 * MIB);
    CHECK_EQ(driver.mem_free(driver.self, 1, segment), 0);
    CHECK_EQ(driver.mem_free(driver.self, 1, segment + 512), -EINVAL);
    CHECK_EQ(counting.reserved, 2 * MIB);
    CHECK_EQ(driver.handle_release(driver.self, handle), 0);
    CHECK_EQ(counting.reserved, 0);
    CHECK_EQ(counting.reserved_high, 7 * MIB);
    counting_done(&counting);
}

TEST(calls_for_handles_and_mappings_are_told_apart_with_their_bytes)
{
    struct counting counting;
    struct driver driver = counting_driver(&counting);
    struct counting before;
    struct counting_storage since;
    uint64_t handle[2];

    for (int i = 0; i < 2; i++) {
        CHECK_EQ(driver.handle_create(driver.self, 0, 2 * MIB, &handle[i]), 0);
        CHECK_EQ(driver.map(driver.self, 64 * MIB + 2 * MIB * (unsigned)i, 2 * MIB, handle[i]), 0);
    }
    before = counting;
    CHECK_EQ(driver.set_access(driver.self, HEAP_MAPPED, 1, 0, 64 * MIB, 4 * MIB, DRIVER_ACCESS_RW),
            0);
    CHECK_EQ(driver.unmap(driver.self, 64 * MIB, 4 * MIB), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(driver.handle_release(driver.self, handle[i]), 0);
    since = counting_storage_since(&counting, &before);
    CHECK_EQ(since.creates, 0);
    CHECK_EQ(since.maps, 0);
    CHECK_EQ(since.accesses, 1);
    CHECK_EQ(since.accessed_bytes, 4 * MIB);
    CHECK_EQ(since.unmaps, 1);
    CHECK_EQ(since.unmapped_bytes, 4 * MIB);
    CHECK_EQ(since.releases, 2);
    CHECK_EQ(counting.storage.creates, 2);
    CHECK_EQ(counting.storage.maps, 2);
    CHECK_EQ(counting.calls[COUNTING_HANDLE], 4);
    CHECK_EQ(counting.calls[COUNTING_MAPPING], 4);
    counting_done(&counting);
}

TEST(backed_segments_take_granules_and_small_ones_share_them)
{
    struct counting counting;
    struct driver driver = counting_driver(&counting);
    devptr_t large, small[3];

    counting.backed = true;
    CHECK_EQ(driver.mem_alloc(driver.self, 1, 0, 2 * MIB + 1, &large), 0);
    CHECK_EQ(counting.reserved, 4 * MIB);
    /* three that share one granule */
    for (int i = 0; i < 3; i++)
        CHECK_EQ(driver.mem_alloc(driver.self, 1, 0, MIB / 2 + 1, &small[i]), 0);
    CHECK_EQ(counting.reserved, 6 * MIB);
    CHECK_EQ(counting.packed, 3 * (MIB / 2 + 512));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(driver.mem_free(driver.self, 1, small[i]), 0);
    CHECK_EQ(counting.reserved, 4 * MIB);
    CHECK_EQ(counting.packed, 0);
    CHECK_EQ(driver.mem_alloc(driver.self, 1, 0, MIB, &small[0]), 0);
    CHECK_EQ(counting.reserved, 6 * MIB);
    CHECK_EQ(driver.mem_free(driver.self, 1, large), 0);
    CHECK_EQ(counting.reserved, 2 * MIB);
    CHECK_EQ(counting.reserved_high, 6 * MIB);
    counting_done(&counting);
}

TEST(a_wait_within_another_call_is_one_only_if_the_device_is_behind)
{
    struct counting counting;
    struct driver driver = counting_driver(&counting);
    uint64_t fence;

    counting.lag = 5;
    counting_step(&counting);
    CHECK_EQ(driver.fence_record(driver.self, 0, &fence), 0);
    counting_wait_within(&counting);
    CHECK_EQ(counting.waits, 1);
    CHECK_EQ(counting.calls[COUNTING_WAIT], 0);
    CHECK_EQ(driver.fence_query(driver.self, fence), 0);
    counting_wait_within(&counting);
    CHECK_EQ(counting.waits, 1);
    counting_step(&counting);
    CHECK_EQ(driver.fence_record(driver.self, 0, &fence), 0);
    CHECK_EQ(driver.fence_query(driver.self, fence), -EAGAIN);
    counting_catch_up(&counting);
    CHECK_EQ(driver.fence_query(driver.self, fence), 0);
    CHECK_EQ(counting.waits, 1);
    counting_done(&counting);
}

TEST(the_books_of_the_driver_are_those_of_the_pool)
{
    struct counting counting;
    struct playback playback;
    struct pool_opts opts;
    struct pool_stats stats;

    pool_opts_init(&opts);
    REQUIRE_EQ(playback_open(&playback, &counting, &opts, NULL, 400), 0);
    for (uint32_t i = 0; i < 400; i++) {
        struct playback_ask ask = {.size = (i * 7919 % 900 + 1) << 14, .stream = i % 5};
        REQUIRE_EQ(playback_take(&playback, i, &ask), 0);
        if (i % 3)
            CHECK_EQ(playback_give(&playback, i - 1, i % 2 ? (i - 1) % 5 : 3), 0);
        pool_stats(playback.pool, -1, &stats);
        CHECK_EQ(counting.reserved, stats.reserved);
    }
    CHECK_EQ(counting.reserved_high, stats.reserved_high);
    playback_close(&playback);
    CHECK_EQ(counting.reserved, 0);
    counting_done(&counting);
}

/* ── inputs ── */

static void read_csv(const char *text, bool sync, struct workload *ret)
{
    FILE *in = open_text(text);
    struct rowtrace steps;

    REQUIRE_EQ(rowtrace_read_stream(in, "t.csv", &steps), 0);
    struct trace *trace = load_rowtrace(&steps, sync);
    workload_from_trace(trace, 0, (uint32_t)trace->event_count, ret);
    ret->skipped_count += steps.failed_count;
    trace_free(trace);
    rowtrace_done(&steps);
    (void)fclose(in);
}

TEST(the_log_of_rmm_is_read)
{
    struct workload w;

    read_csv(ROWTRACE_RMM_HEAD "\n"
                               "41,10:21:05.118223,allocate,0x7f00,4096,0x2\n"
                               "41,10:21:05.2,allocate failure,0x0,99999999,0x2\n"
                               "42,10:21:06.1,allocate,8f00,100,0\n"
                               "41,10:21:06.2,free,0x7f00,4096,0x3\n"
                               "41,10:21:06.3,allocate,0x7f00,512,0x2\n",
            false, &w);
    CHECK_EQ(w.block_count, 3);
    CHECK_EQ(w.event_count, 4);
    CHECK_EQ(w.skipped_count, 1);
    CHECK_EQ(w.stream_count, 3);
    CHECK_EQ(w.blocks[0].stream, w.blocks[2].stream);
    CHECK(w.events[2].is_free && w.events[2].block == 0);
    CHECK(w.events[2].stream != w.blocks[0].stream);
    CHECK_EQ(w.peak_live, 4196);
    CHECK_EQ(w.peak_live_512, 4096 + 512);
    CHECK_EQ(w.left_count, 2);
    workload_done(&w);
}

TEST(faults_of_an_rmm_log_have_their_place)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
            {"Thread,Time,Action\n",
                    "r.log:1:1: the first line must be " ROWTRACE_HEAD ", or " ROWTRACE_RMM_HEAD},
            {ROWTRACE_RMM_HEAD "\n", "r.log:2:1: no allocations"},
            {ROWTRACE_RMM_HEAD "\n1,2\n", "r.log:2:4: Thread, Time and Action must be there"},
            {ROWTRACE_RMM_HEAD "\n1,2,alloc,0x1,1,0\n",
                    "r.log:2:5: Action must be allocate, free or allocate failure"},
            {ROWTRACE_RMM_HEAD "\n1,2,allocate,0xg,1,0\n",
                    "r.log:2:14: Pointer must be a hexadecimal number"},
            {ROWTRACE_RMM_HEAD "\n1,2,allocate,0x1,-1,0\n", "r.log:2:18: Size must be a number"},
            {ROWTRACE_RMM_HEAD "\n1,2,allocate,0x1,1,s\n",
                    "r.log:2:20: Stream must be a hexadecimal number, and the last column"},
            {ROWTRACE_RMM_HEAD "\n1,2,allocate,0x1,1,0,9\n",
                    "r.log:2:22: Stream must be a hexadecimal number, and the last column"},
            {ROWTRACE_RMM_HEAD "\n1,2,free,0x1,1,0\n", "r.log:2:10: this is not allocated"},
            {ROWTRACE_RMM_HEAD "\n1,2,allocate,0x1,8,0\n\n1,2,allocate,0x1,8,0\n",
                    "r.log:4:14: this is allocated already"},
            {ROWTRACE_RMM_HEAD "\n1,2,allocate,0x1,8,0\n1,2,free,0x1,9,0\n",
                    "r.log:3:14: freed with another size than it was allocated with"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FILE *in = open_text(cases[i].text);
        struct rowtrace steps;
        CHECK_EQ(rowtrace_read_stream(in, "r.log", &steps), -EINVAL);
        CHECK_STR_EQ(steps.error, cases[i].error);
        rowtrace_done(&steps);
        (void)fclose(in);
    }
}

static void birth(struct trace *trace, uint64_t address, uint64_t size, enum memclass memclass)
{
    struct trace_block birth = {.address = address,
            .size = size,
            .memclass = memclass,
            .native = memclass != MEMCLASS_POOLED,
            .stream = true,
            .rule = -1};

    (void)trace_add_alloc(trace, &birth);
    trace_set_stream(trace, 70, true);
}

TEST(of_a_capture_the_pools_blocks_are_played_with_their_streams)
{
    struct trace *trace = trace_new();
    struct workload w;

    birth(trace, 0x3000, 100, MEMCLASS_POOLED);
    birth(trace, 0x1000, 200, MEMCLASS_POOLED);
    birth(trace, 0x2000, 300, MEMCLASS_DRIVER);
    (void)trace_add_free(trace, 0x1000, 0);
    trace_set_stream(trace, 71, true);
    (void)trace_add_free(trace, 0x3000, 0);
    trace_set_stream(trace, 0, false);
    (void)trace_add_free(trace, 0x9000, 0); /* nobody's */
    workload_from_trace(trace, 0, (uint32_t)trace->event_count, &w);
    CHECK_EQ(w.block_count, 2);
    CHECK_EQ(w.skipped_count, 1);
    CHECK_EQ(w.event_count, 4);
    CHECK_EQ(w.blocks[0].size, 100);
    CHECK_EQ(w.stream_count, 2);
    CHECK_EQ(w.events[2].stream, 2);
    CHECK_EQ(w.events[3].stream, 0);
    workload_done(&w);

    /* from the second event on: what was live then comes first, by address */
    birth(trace, 0x4000, 400, MEMCLASS_POOLED);
    workload_from_trace(trace, 2, (uint32_t)trace->event_count, &w);
    CHECK_EQ(w.block_count, 3);
    CHECK_EQ(w.blocks[0].size, 200);
    CHECK_EQ(w.blocks[1].size, 100);
    CHECK_EQ(w.left_count, 1);
    workload_done(&w);

    /* from the sixth on: that one alone, the others had died before */
    workload_from_trace(trace, 6, (uint32_t)trace->event_count, &w);
    CHECK_EQ(w.block_count, 1);
    CHECK_EQ(w.blocks[0].size, 400);
    workload_done(&w);
    trace_free(trace);
}

TEST(what_was_live_before_a_window_comes_in_the_order_of_addresses)
{
    static const uint64_t addresses[] = {0x1000, 0x4000, 0x2000, 0x3000};
    struct trace *trace = trace_new();
    struct workload w;

    for (size_t i = 0; i < 4; i++)
        birth(trace, addresses[i], addresses[i], MEMCLASS_POOLED);
    birth(trace, 0x500, 0x500, MEMCLASS_POOLED);
    workload_from_trace(trace, 4, (uint32_t)trace->event_count, &w);
    REQUIRE_EQ(w.block_count, 5);
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(w.blocks[i].size, 0x1000 * (i + 1));
    CHECK_EQ(w.blocks[4].size, 0x500);
    workload_done(&w);
    trace_free(trace);
}

TEST(sizes_add_up_to_what_64_bits_hold)
{
    static const char rows[] = ROWTRACE_RMM_HEAD "\n1,2,allocate,0x1,13835058055282163712,0\n"
                                                 "1,2,free,0x1,13835058055282163712,0\n"
                                                 "1,2,allocate,0x2,13835058055282163712,0\n"
                                                 "1,2,allocate,0x3,13835058055282163712,0\n";
    FILE *in = open_text(rows);
    struct rowtrace steps;

    CHECK_EQ(rowtrace_read_stream(in, "r.log", &steps), -EINVAL);
    CHECK_STR_EQ(steps.error, "r.log:5:18: sizes add up to more than 64 bits hold");
    rowtrace_done(&steps);
    (void)fclose(in);
}

TEST(of_a_capture_without_a_pool_the_drivers_blocks_are_played)
{
    struct trace *trace = trace_new();
    struct workload w;

    birth(trace, 0x1000, 200, MEMCLASS_DRIVER);
    birth(trace, 0x2000, 300, MEMCLASS_ARRAY);
    workload_from_trace(trace, 0, (uint32_t)trace->event_count, &w);
    CHECK_EQ(w.block_count, 1);
    CHECK_EQ(w.blocks[0].size, 200);
    CHECK_EQ(w.skipped_count, 1);
    workload_done(&w);
    trace_free(trace);
}

/* ── passes ── */

__attribute__((constructor)) static void offer_all_models(void)
{
    models_add();
}

static const struct whatif_policy *policy(const char *name)
{
    for (size_t i = 0; i < whatif_policy_count; i++) {
        if (strcmp(whatif_policies[i].name, name) == 0)
            return &whatif_policies[i];
    }
    REQUIRE(false);
    return NULL;
}

static const char two_blocks[] = "op,id,size,stream,time_us\n"
                                 "a,1,4194304,0,-1\na,2,6291456,0,2\nf,1,4194304,0,3\n";

TEST(what_is_left_is_freed_between_passes)
{
    struct workload w;

    read_csv(two_blocks, false, &w);
    CHECK_EQ(w.left_count, 1);
    for (size_t i = 0; i < whatif_policy_count; i++) {
        struct whatif_job job = {.workload = &w, .passes = 3};
        struct whatif answer;
        CHECK_EQ(whatif_run(&whatif_policies[i], &job, &answer), 0);
        CHECK_EQ(answer.pass_count, 3);
        CHECK(answer.peak_reserved >= 10 * MIB);
        CHECK(answer.e == (double)(10 * MIB) / (double)answer.peak_reserved);
        CHECK_EQ(answer.passes[1].peak_reserved, answer.passes[2].peak_reserved);
        whatif_done(&answer);
    }
    workload_done(&w);
}

TEST(the_pool_alone_holds_what_is_live_and_asks_for_nothing_again)
{
    struct workload w;
    struct whatif_job job = {.workload = &w, .passes = 2};
    struct whatif answer;

    read_csv(two_blocks, false, &w);
    CHECK_EQ(whatif_run(policy("kedge"), &job, &answer), 0);
    CHECK_EQ(answer.peak_reserved, 10 * MIB);
    CHECK(answer.passes[0].driver_calls > 0);
    CHECK(answer.passes[0].calls[COUNTING_HANDLE] > 0);
    CHECK_EQ(answer.passes[1].driver_calls, 0);
    whatif_done(&answer);
    workload_done(&w);
}

TEST(a_lag_is_in_passes_and_the_sync_entrance_feels_it)
{
    struct workload w;
    struct whatif_job job = {.workload = &w, .passes = 4, .lag = 1};
    struct whatif answer;
    uint64_t calls;

    read_csv(two_blocks, true, &w);
    CHECK_EQ(w.stream_count, 0);
    CHECK_EQ(whatif_run(policy("kedge"), &job, &answer), 0);
    calls = answer.passes[3].calls[COUNTING_WAIT] + answer.passes[3].calls[COUNTING_QUERY];
    CHECK(calls > 0);
    whatif_done(&answer);
    workload_done(&w);

    read_csv(two_blocks, false, &w);
    CHECK_EQ(whatif_run(policy("torch"), &job, &answer), 0);
    CHECK_EQ(answer.peak_reserved, 20 * MIB); /* the same stream: at once */
    whatif_done(&answer);
    workload_done(&w);
}

TEST(streams_that_the_program_orders_wait_for_nothing_else)
{
    struct workload w;
    struct whatif answer;

    read_csv("op,id,size,stream,time_us\na,1,67108864,1,1\nf,1,67108864,1,2\n"
             "a,2,67108864,2,3\nf,2,67108864,2,4\na,3,67108864,1,5\nf,3,67108864,1,6\n",
            false, &w);
    for (int ordered = 0; ordered < 2; ordered++) {
        struct whatif_job job = {.workload = &w, .passes = 2, .lag = 1, .is_ordered = ordered};

        CHECK_EQ(whatif_run(policy("kedge"), &job, &answer), 0);
        CHECK_EQ(answer.peak_reserved, 64 * MIB);
        CHECK_EQ(answer.passes[0].calls[COUNTING_BEHIND], ordered ? 0 : 2);
        CHECK_EQ(answer.passes[1].calls[COUNTING_BEHIND], ordered ? 0 : 2);
        whatif_done(&answer);
    }
    workload_done(&w);
}

TEST(without_a_pool_each_free_waits_and_gives_back)
{
    struct workload w;
    struct whatif_job job = {.workload = &w, .passes = 1, .lag = 1, .backed = true};
    struct whatif answer;

    read_csv("op,id,size,stream,time_us\na,1,3145728,0,1\nf,1,3145728,0,2\n"
             "a,2,1000,0,3\na,3,2097152,0,4\nf,3,2097152,0,5\n",
            false, &w);
    CHECK_EQ(whatif_run(policy("native"), &job, &answer), 0);
    CHECK_EQ(answer.peak_reserved, 4 * MIB);
    CHECK_EQ(answer.passes[0].driver_calls, 6);
    CHECK_EQ(answer.passes[0].calls[COUNTING_SEGMENT], 6);
    CHECK_EQ(answer.passes[0].waits, 3);
    whatif_done(&answer);
    job.backed = false;
    CHECK_EQ(whatif_run(policy("native"), &job, &answer), 0);
    CHECK_EQ(answer.peak_reserved, 3 * MIB);
    whatif_done(&answer);
    workload_done(&w);
}

TEST(the_sync_side_of_the_pool_is_asked_whatever_the_program_uses)
{
    struct workload w;
    struct whatif_job job = {.workload = &w, .passes = 1};
    struct whatif of_policy, of_program;

    read_csv(two_blocks, false, &w);
    CHECK_EQ(whatif_run(policy("kedge-sync"), &job, &of_policy), 0);
    CHECK_EQ(of_policy.passes[0].calls[COUNTING_HANDLE], 0);
    CHECK(of_policy.passes[0].calls[COUNTING_SEGMENT] > 0);
    job.sync = true;
    CHECK_EQ(whatif_run(policy("kedge"), &job, &of_program), 0);
    CHECK_EQ(of_program.peak_reserved, of_policy.peak_reserved);
    CHECK_EQ(of_program.passes[0].driver_calls, of_policy.passes[0].driver_calls);
    whatif_done(&of_program);
    whatif_done(&of_policy);
    workload_done(&w);
}

/* Four blocks of 1.5 MiB: a granule each where they stand alone, three for all of them where they are packed. */
static const char odd_blocks[] = "op,id,size,stream,time_us\n"
                                 "a,1,1572864,0,1\na,2,1572864,0,2\na,3,1572864,0,3\n"
                                 "a,4,1572864,0,4\n";

TEST(mapped_memory_packs_what_plain_memory_does_not)
{
    struct workload w;
    struct whatif_job job = {.workload = &w, .passes = 1, .backed = true};
    struct whatif mapped;

    read_csv(odd_blocks, false, &w);
    CHECK_EQ(whatif_run(policy("kedge-mapped"), &job, &mapped), 0);
    CHECK_EQ(mapped.peak_reserved, 6 * MIB);
    CHECK_EQ(mapped.passes[0].calls[COUNTING_SEGMENT], 0);
    CHECK_EQ(mapped.passes[0].calls[COUNTING_HANDLE], 3);
    whatif_done(&mapped);
    workload_done(&w);
}

/* By which the second pass gets memory from the driver, or gives it back. */
static uint64_t calls_of_second_pass(const char *name, struct whatif_job *job)
{
    struct whatif answer;

    CHECK_EQ(whatif_run(policy(name), job, &answer), 0);
    uint64_t calls =
            answer.passes[1].calls[COUNTING_HANDLE] + answer.passes[1].calls[COUNTING_SEGMENT];
    whatif_done(&answer);
    return calls;
}

TEST(r78_at_a_wait_pools_give_back_what_is_above_their_threshold)
{
    struct workload w;
    struct whatif_job job = {.workload = &w, .passes = 2, .lag = 9, .steps = 1};

    read_csv(two_blocks, false, &w);
    CHECK_EQ(calls_of_second_pass("kedge", &job), 0);
    CHECK_EQ(calls_of_second_pass("async", &job), 0);
    job.waits = WHATIF_WAITS_PASS;
    CHECK_EQ(calls_of_second_pass("kedge", &job), 10); /* five handles made and given back */
    CHECK_EQ(calls_of_second_pass("async", &job), 1);  /* given back within the wait */
    job.threshold = 64 * MIB;
    CHECK_EQ(calls_of_second_pass("kedge", &job), 0);
    CHECK_EQ(calls_of_second_pass("async", &job), 0);
    workload_done(&w);
}

TEST(steps_end_with_a_wait_too)
{
    struct workload w;
    struct whatif_job job = {.workload = &w, .passes = 1, .steps = 2, .waits = WHATIF_WAITS_STEP};
    struct whatif answer;

    read_csv("op,id,size,stream,time_us\na,1,4194304,0,1\nf,1,4194304,0,2\n"
             "a,2,2097152,0,3\nf,2,2097152,0,4\n",
            false, &w);
    CHECK_EQ(whatif_run(policy("kedge"), &job, &answer), 0);
    CHECK_EQ(answer.passes[0].calls[COUNTING_HANDLE], 6); /* two and one, made and given back */
    whatif_done(&answer);
    job.steps = 1;
    CHECK_EQ(whatif_run(policy("kedge"), &job, &answer), 0);
    CHECK_EQ(answer.passes[0].calls[COUNTING_HANDLE], 4);
    whatif_done(&answer);
    workload_done(&w);
}

TEST(blocks_of_two_devices_are_served_apart)
{
    struct trace *trace = trace_new();
    struct workload w;
    struct whatif_job job = {.workload = &w, .passes = 1};
    struct whatif answer;

    for (int i = 0; i < 2; i++) {
        struct trace_block birth = {
                .address = 1 + (uint64_t)i, .size = 1000, .stream = true, .device = (int16_t)i};
        (void)trace_add_alloc(trace, &birth);
    }
    workload_from_trace(trace, 0, (uint32_t)trace->event_count, &w);
    trace_free(trace);
    CHECK_EQ(w.device_count, 2);
    CHECK_EQ(whatif_run(policy("torch"), &job, &answer), 0);
    CHECK_EQ(answer.peak_reserved, 4 * MIB);
    whatif_done(&answer);
    CHECK_EQ(whatif_run(policy("kedge"), &job, &answer), 0);
    CHECK_EQ(answer.peak_reserved, 4 * MIB);
    whatif_done(&answer);
    workload_done(&w);
}
