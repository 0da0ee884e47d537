/* SPDX-License-Identifier: MIT */
/* covers: peer_heap.c peer_torch.c peer_native.c */
/* The models of other allocators, rule by rule: what they round, cut, join, ask the driver for, and when they wait. */
#include "tests/check.h"

#include "tests/unit/tools/replay/peerkit.h"

#include "tests/bench/models/models.h"

/* ── sets of free blocks ── */

TEST(a_set_finds_the_smallest_that_fits_and_of_these_the_lowest)
{
    enum {
        COUNT = 600
    };
    struct counting counting = {0};
    struct peer_device device = {.counting = &counting};
    struct peer_heap heap;
    uint32_t in[COUNT];
    uint64_t seed = 7;

    peer_heap_init(&heap, &device);
    uint32_t set = peer_set(&heap, 1, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        in[i] = peer_segment(
                &heap, ((seed >> 20) % 100000) << 21, ((seed >> 40) % 50 + 1) * 512, set);
        peer_put(&heap, in[i]);
    }
    for (uint32_t round = 0; round < COUNT; round++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t want = ((seed >> 33) % 55 + 1) * 512;
        uint32_t best = 0;
        for (uint32_t i = 0; i < COUNT; i++) {
            const struct peer_block *block = peer_block(&heap, in[i]);
            const struct peer_block *than = peer_block(&heap, best);
            if (block->is_free && block->size >= want
                    && (!best || block->size < than->size
                            || (block->size == than->size && block->base < than->base)))
                best = in[i];
        }
        CHECK_EQ(peer_find(&heap, set, want), best);
        if (best && round % 3) {
            peer_pull(&heap, best);
            CHECK(!peer_block(&heap, best)->is_free);
        }
    }
    peer_heap_done(&heap);
}

TEST(a_block_that_is_cut_and_freed_is_whole_again)
{
    struct counting counting = {0};
    struct peer_device device = {.counting = &counting};
    struct peer_heap heap;

    peer_heap_init(&heap, &device);
    uint32_t set = peer_set(&heap, 1, 0);
    uint32_t other = peer_set(&heap, 2, 0);
    uint32_t a = peer_segment(&heap, 1 << 21, 4096, set);
    uint32_t b = peer_cut(&heap, a, 1024);
    uint32_t c = peer_cut(&heap, b, 1024);
    peer_free(&heap, a);
    peer_free(&heap, c);
    CHECK_EQ(peer_find(&heap, set, 2049), 0);
    peer_free(&heap, b);
    CHECK_EQ(peer_find(&heap, set, 4096), a);
    /* neighbours of another set are left alone */
    peer_pull(&heap, a);
    b = peer_cut(&heap, a, 1024);
    peer_block(&heap, b)->set = other;
    peer_free(&heap, b);
    peer_free(&heap, a);
    CHECK_EQ(peer_block(&heap, a)->size, 1024);
    CHECK_EQ(peer_find(&heap, other, 1), b);
    peer_heap_done(&heap);
}

/* ── PyTorch ── */

TEST(torch_rounds_to_512_and_asks_for_2_mib_20_mib_or_multiples_of_2_mib)
{
    static const struct {
        uint64_t size, rounded, segment;
    } cases[] = {
            {1, 512, 2 * MIB},
            {512, 512, 2 * MIB},
            {513, 1024, 2 * MIB},
            {MIB, MIB, 2 * MIB},
            {MIB + 1, MIB + 512, 20 * MIB},
            {10 * MIB - 512, 10 * MIB - 512, 20 * MIB},
            {10 * MIB, 10 * MIB, 10 * MIB},
            {11 * MIB, 11 * MIB, 12 * MIB},
            {64 * MIB + 1, 64 * MIB + 512, 66 * MIB},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bench b;
        begin(&b, &peer_torch);
        (void)take(&b, 0, cases[i].size, 1);
        CHECK_EQ(b.counting.reserved, cases[i].segment);
        CHECK_EQ(counting_calls(&b.counting), 1);
        end(&b);
        begin(&b, &peer_expandable); /* which cuts off whatever is left over */
        (void)take(&b, 0, cases[i].size, 1);
        CHECK_EQ(size_of(&b, 0), cases[i].rounded);
        end(&b);
    }
}

TEST(torch_cuts_off_512_bytes_of_a_small_block_and_more_than_1_mib_of_a_large_one)
{
    struct bench b;

    begin(&b, &peer_torch);
    devptr_t first = take(&b, 0, 2 * MIB - 512, 1); /* large: 20 MiB, the rest is cut off */
    CHECK_EQ(take(&b, 1, 2 * MIB, 1), first + 2 * MIB - 512);
    CHECK_EQ(b.counting.reserved, 20 * MIB);
    end(&b);

    begin(&b, &peer_torch);
    (void)take(&b, 0, 19 * MIB, 1); /* 1 MiB is left over: too little */
    CHECK_EQ(size_of(&b, 0), 20 * MIB);
    (void)take(&b, 1, 19 * MIB - 512, 1);
    CHECK_EQ(size_of(&b, 1), 19 * MIB - 512);
    end(&b);

    begin(&b, &peer_torch);
    first = take(&b, 0, MIB, 1);
    (void)take(&b, 1, MIB - 512, 1);
    CHECK_EQ(take(&b, 2, 1, 1), first + 2 * MIB - 512); /* the last 512 bytes */
    CHECK_EQ(b.counting.reserved, 2 * MIB);
    end(&b);
}

TEST(torch_takes_the_best_fit_and_joins_what_is_free)
{
    struct bench b;

    begin(&b, &peer_torch);
    devptr_t first = take(&b, 0, 4 * MIB, 1);
    (void)take(&b, 1, 2 * MIB, 1);
    devptr_t third = take(&b, 2, 3 * MIB, 1);
    (void)take(&b, 3, 11 * MIB, 1);
    give(&b, 0, 1);
    give(&b, 2, 1);
    CHECK_EQ(take(&b, 4, 3 * MIB, 1), third);
    give(&b, 4, 1);
    give(&b, 1, 1); /* 4 + 2 + 3 */
    CHECK_EQ(take(&b, 5, 9 * MIB, 1), first);
    CHECK_EQ(b.counting.reserved, 20 * MIB);
    end(&b);
}

TEST(torch_keeps_streams_and_sizes_apart)
{
    struct bench b;

    begin(&b, &peer_torch);
    (void)take(&b, 0, 512, 1);
    (void)take(&b, 1, 512, 2);
    CHECK_EQ(b.counting.reserved, 4 * MIB);
    (void)take(&b, 2, 2 * MIB, 1);
    give(&b, 2, 1);
    (void)take(&b, 3, MIB, 1); /* small: not from the 20 MiB */
    CHECK_EQ(b.counting.reserved, 4 * MIB + 20 * MIB);
    (void)take(&b, 4, MIB, 1);
    CHECK_EQ(b.counting.reserved, 6 * MIB + 20 * MIB);
    end(&b);
}

TEST(torch_has_a_block_of_several_streams_back_when_its_event_has_passed)
{
    struct bench b;

    begin(&b, &peer_torch);
    b.counting.lag = 3;
    devptr_t first = take(&b, 0, 12 * MIB, 1);
    give(&b, 0, 9); /* event 2 */
    CHECK(take(&b, 1, 12 * MIB, 1) != first);
    CHECK(take(&b, 2, 12 * MIB, 1) != first);
    CHECK_EQ(take(&b, 3, 12 * MIB, 1), first); /* event 5 */
    CHECK_EQ(b.counting.calls[COUNTING_EVENT], 1);
    CHECK_EQ(b.counting.calls[COUNTING_QUERY], 3);
    give(&b, 1, 1); /* of one stream: at once, whatever the device does */
    CHECK_EQ(b.counting.calls[COUNTING_EVENT], 1);
    (void)take(&b, 4, 12 * MIB, 1);
    CHECK_EQ(b.counting.reserved, 36 * MIB);
    end(&b);
}

TEST(torch_does_not_join_a_block_that_waits)
{
    for (uint64_t lag = 0; lag <= 100; lag += 100) {
        struct bench b;

        begin(&b, &peer_torch);
        b.counting.lag = lag;
        (void)take(&b, 0, 10 * MIB - 512, 1);
        (void)take(&b, 1, 10 * MIB, 1);
        CHECK_EQ(b.counting.reserved, 20 * MIB);
        give(&b, 0, 9);
        give(&b, 1, 1);
        (void)take(&b, 2, 20 * MIB, 1);
        CHECK_EQ(b.counting.reserved, lag ? 40 * MIB : 20 * MIB);
        end(&b);
    }
}

TEST(torch_asks_the_oldest_event_of_each_stream_only)
{
    struct bench b;

    begin(&b, &peer_torch);
    b.counting.lag = 100;
    for (uint32_t i = 0; i < 6; i++)
        (void)take(&b, i, 12 * MIB, 1);
    for (uint32_t i = 0; i < 6; i++)
        give(&b, i, 8 + i % 2);
    (void)take(&b, 6, 12 * MIB, 1);
    CHECK_EQ(b.counting.calls[COUNTING_EVENT], 6);
    CHECK_EQ(b.counting.calls[COUNTING_QUERY], 2);
    end(&b);
}

/* ── PyTorch, expandable segments ── */

TEST(expandable_segments_grow_in_pages_by_what_the_end_lacks)
{
    struct bench b;

    begin(&b, &peer_expandable);
    (void)take(&b, 0, 512, 1);
    CHECK_EQ(b.counting.reserved, 2 * MIB);
    devptr_t first = take(&b, 1, 15 * MIB, 1);
    CHECK_EQ(b.counting.reserved, 22 * MIB);
    CHECK_EQ(take(&b, 2, 10 * MIB, 1), first + 15 * MIB); /* 5 are there, 5 are lacking */
    CHECK_EQ(b.counting.reserved, 42 * MIB);
    (void)take(&b, 3, 30 * MIB, 1); /* 15 and 15 */
    CHECK_EQ(b.counting.reserved, 62 * MIB);
    (void)take(&b, 4, 5 * MIB, 1); /* all of the end */
    CHECK_EQ(b.counting.reserved, 62 * MIB);
    (void)take(&b, 5, 41 * MIB, 1);
    CHECK_EQ(b.counting.reserved, 122 * MIB);
    CHECK_EQ(b.counting.calls[COUNTING_HANDLE], 1 + 1 + 1 + 1 + 3);
    CHECK_EQ(b.counting.calls[COUNTING_MAPPING], 7 + 5);
    end(&b);
}

TEST(expandable_segments_cut_off_512_bytes_of_a_large_block_too)
{
    struct bench b;

    begin(&b, &peer_expandable);
    devptr_t first = take(&b, 0, 20 * MIB - 512, 1);
    CHECK_EQ(take(&b, 1, 2 * MIB, 1), first + 20 * MIB - 512);
    CHECK_EQ(b.counting.reserved, 40 * MIB);
    end(&b);
}

TEST(expandable_segments_prefer_a_hole_to_the_end_that_can_grow)
{
    struct bench b;

    begin(&b, &peer_expandable);
    devptr_t first = take(&b, 0, 6 * MIB, 1);
    (void)take(&b, 1, 10 * MIB, 1); /* 4 are left at the end */
    give(&b, 0, 1);
    CHECK_EQ(take(&b, 2, 3 * MIB, 1), first); /* although 4 would fit better than 6 */
    CHECK_EQ(take(&b, 3, 3 * MIB, 1), first + 3 * MIB);
    CHECK_EQ(take(&b, 4, 3 * MIB, 1), first + 16 * MIB);
    CHECK_EQ(b.counting.reserved, 20 * MIB);
    end(&b);
}

TEST(expandable_segments_keep_a_hole_that_nothing_fits_in)
{
    struct bench b;

    begin(&b, &peer_expandable);
    (void)take(&b, 0, 20 * MIB, 1);
    (void)take(&b, 1, 20 * MIB, 1);
    give(&b, 0, 1);
    (void)take(&b, 2, 40 * MIB, 1);
    CHECK_EQ(b.counting.reserved, 80 * MIB);
    end(&b);
}

/* ── Paddle ── */

TEST(paddle_asks_for_exactly_what_is_needed_in_multiples_of_256)
{
    struct bench b;

    begin(&b, &peer_paddle);
    (void)take(&b, 0, 1, 1);
    CHECK_EQ(b.counting.reserved, 256);
    (void)take(&b, 1, 3 * MIB + 257, 1);
    CHECK_EQ(b.counting.reserved, 256 + 3 * MIB + 512);
    end(&b);
}

TEST(paddle_gives_the_high_end_of_the_smallest_block_and_keeps_every_rest)
{
    struct bench b;

    begin(&b, &peer_paddle);
    devptr_t large = take(&b, 0, 8 * MIB, 1);
    devptr_t small = take(&b, 1, 4 * MIB, 1);
    give(&b, 0, 1);
    give(&b, 1, 1);
    CHECK_EQ(take(&b, 2, 3 * MIB, 1), small + MIB);
    CHECK_EQ(take(&b, 3, MIB - 256, 1), small + 256);
    CHECK_EQ(take(&b, 4, 256, 1), small);
    CHECK_EQ(take(&b, 5, 256, 1), large + 8 * MIB - 256);
    give(&b, 4, 1);
    give(&b, 2, 1);
    give(&b, 3, 1); /* between two that are free */
    CHECK_EQ(take(&b, 6, 4 * MIB, 1), small);
    CHECK_EQ(b.counting.reserved, 12 * MIB);
    end(&b);
}

TEST(paddle_asks_every_event_that_is_waited_for)
{
    struct bench b;

    begin(&b, &peer_paddle);
    b.counting.lag = 1000;
    for (uint32_t i = 0; i < 5; i++) {
        (void)take(&b, i, MIB, 1);
    }
    for (uint32_t i = 0; i < 5; i++)
        give(&b, i, 9);
    (void)take(&b, 5, MIB, 1);
    CHECK_EQ(b.counting.calls[COUNTING_QUERY], 5);
    CHECK_EQ(b.counting.reserved, 6 * MIB);
    (void)take(&b, 6, MIB, 2); /* another stream has its own */
    CHECK_EQ(b.counting.calls[COUNTING_QUERY], 5);
    b.counting.lag = 0;
    (void)take(&b, 7, MIB, 1);
    CHECK_EQ(b.counting.calls[COUNTING_QUERY], 10);
    CHECK_EQ(b.counting.reserved, 7 * MIB);
    (void)take(&b, 8, MIB, 1);
    CHECK_EQ(b.counting.calls[COUNTING_QUERY], 10);
    end(&b);
}

/* ── RMM ── */

TEST(rmm_grows_by_the_request_or_by_all_that_it_has)
{
    struct bench b;

    begin(&b, &peer_rmm);
    (void)take(&b, 0, 10 * MIB + 1, 1);
    CHECK_EQ(b.counting.reserved, 10 * MIB + 256);
    (void)take(&b, 1, MIB, 1);
    CHECK_EQ(b.counting.reserved, 20 * MIB + 512);
    (void)take(&b, 2, 30 * MIB, 1);
    CHECK_EQ(b.counting.reserved, 50 * MIB + 512);
    give(&b, 2, 1);
    (void)take(&b, 3, 29 * MIB, 1);
    CHECK_EQ(b.counting.reserved, 50 * MIB + 512);
    end(&b);
}

TEST(rmm_gives_the_low_end_and_a_block_belongs_to_the_stream_that_freed_it)
{
    struct bench b;

    begin(&b, &peer_rmm);
    devptr_t first = take(&b, 0, 8 * MIB, 1);
    give(&b, 0, 2);
    CHECK_EQ(take(&b, 1, 2 * MIB, 2), first);
    CHECK_EQ(b.counting.calls[COUNTING_BEHIND], 0);
    /* stream 1 has none: stream 2's, behind its event */
    CHECK_EQ(take(&b, 2, 2 * MIB, 1), first + 2 * MIB);
    CHECK_EQ(b.counting.calls[COUNTING_BEHIND], 1);
    /* what was left over stayed with stream 2 */
    CHECK_EQ(take(&b, 3, 2 * MIB, 2), first + 4 * MIB);
    CHECK_EQ(b.counting.calls[COUNTING_BEHIND], 1);
    CHECK_EQ(b.counting.reserved, 8 * MIB);
    CHECK_EQ(b.counting.calls[COUNTING_EVENT], 1);
    end(&b);
}

TEST(rmm_joins_the_lists_of_streams_before_it_grows)
{
    struct bench b;

    begin(&b, &peer_rmm);
    devptr_t first = take(&b, 0, 8 * MIB, 1);
    give(&b, 0, 1);
    (void)take(&b, 1, 4 * MIB, 1);
    (void)take(&b, 2, 4 * MIB, 1);
    give(&b, 1, 1);
    give(&b, 2, 2);
    CHECK_EQ(take(&b, 3, 8 * MIB, 3), first);
    CHECK_EQ(b.counting.reserved, 8 * MIB);
    CHECK_EQ(b.counting.calls[COUNTING_BEHIND], 2);
    end(&b);
}

/* ── cudaMallocAsync ── */

TEST(async_has_another_streams_block_when_the_device_is_past_its_free)
{
    struct bench b;

    begin(&b, &peer_async);
    b.counting.lag = 3;
    devptr_t first = take(&b, 0, 32 * MIB, 1);
    CHECK_EQ(b.counting.reserved, 32 * MIB);
    give(&b, 0, 1);
    CHECK_EQ(take(&b, 1, 32 * MIB, 1), first); /* its own: at once */
    give(&b, 1, 1);                            /* event 4 */
    CHECK(take(&b, 2, 32 * MIB, 2) != first);
    CHECK(take(&b, 3, 33 * MIB, 2) != first);
    CHECK_EQ(b.counting.reserved, 32 * MIB + 32 * MIB + 64 * MIB);
    CHECK_EQ(take(&b, 4, 32 * MIB - 1, 2), first);
    CHECK_EQ(counting_calls(&b.counting), 7); /* each request is one call, and so is each free */
    end(&b);
}

TEST(async_gives_back_whole_pieces_when_the_program_waits)
{
    struct bench b;

    begin(&b, &peer_async);
    (void)take(&b, 0, 16 * MIB, 1);
    (void)take(&b, 1, 16 * MIB, 1);
    (void)take(&b, 2, 20 * MIB, 1);
    CHECK_EQ(b.counting.reserved, 64 * MIB);
    give(&b, 0, 1);
    b.peer->waited(b.self, 0);
    CHECK_EQ(b.counting.reserved, 64 * MIB);
    give(&b, 1, 2); /* whoever freed its blocks */
    b.peer->waited(b.self, 64 * MIB);
    CHECK_EQ(b.counting.reserved, 64 * MIB);
    b.peer->waited(b.self, 0);
    CHECK_EQ(b.counting.reserved, 32 * MIB);
    give(&b, 2, 1);
    b.peer->waited(b.self, 0);
    CHECK_EQ(b.counting.reserved, 0);
    (void)take(&b, 3, MIB, 2);
    CHECK_EQ(b.counting.reserved, 32 * MIB);
    CHECK_EQ(counting_calls(&b.counting), 7); /* within the wait */
    end(&b);
}

TEST(async_blocks_that_are_joined_keep_the_later_free)
{
    struct bench b;

    begin(&b, &peer_async);
    b.counting.lag = 4;
    devptr_t first = take(&b, 0, 16 * MIB, 1);
    (void)take(&b, 1, 16 * MIB, 1);
    give(&b, 0, 1); /* 3 */
    give(&b, 1, 1); /* 4 */
    (void)take(&b, 2, KIB, 2);
    (void)take(&b, 3, KIB, 2);
    CHECK(take(&b, 4, 32 * MIB, 2) != first); /* 7: one of the two frees has passed */
    CHECK_EQ(take(&b, 5, 32 * MIB, 2), first);
    end(&b);
}
