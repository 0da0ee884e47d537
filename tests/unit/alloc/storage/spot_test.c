/* SPDX-License-Identifier: MIT */
/* covers: spot.c */
/* Where a request stands for the least storage. */
#include "alloc/heap/freelist.h"
#include "alloc/heap/streams.h"
#include "alloc/storage/spot.h"
#include "tests/unit/alloc/followed.h"
#include "tests/unit/alloc/layout.h"

TEST(a_gap_beside_a_free_block_is_filled_and_no_more)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct owned_block a, wall, c, wall_2, d;

    take(b, &a, 10 * MiB, STREAM);
    take(b, &wall, SLOT, STREAM);
    take(b, &c, 4 * MiB, STREAM);
    take(b, &wall_2, SLOT, STREAM);
    give(b, &a);
    give(b, &c);
    take(b, &d, 12 * MiB,
            STREAM); /* 10 and 4 are free: the first is widened by nothing, so it goes to the top */
    CHECK_EQ(bench_stats(b).granules_moved, 6);
    CHECK_EQ(b->fake->held, 18 * MiB);
    give(b, &d);
    take(b, &a, 4 * MiB, STREAM);
    take(b, &c, 8 * MiB, STREAM);
    CHECK_EQ(b->fake->held, 18 * MiB);
    check_data(b, &wall);
    check_data(b, &wall_2);
    bench_end(b);
}

TEST(a_request_widens_the_free_block_that_lacks_least)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct owned_block blocks[3], walls[3], big;
    uint64_t moved;

    for (int i = 0; i < 3; i++) {
        take(b, &blocks[i], (uint64_t)(i + 1) * 4 * MiB, STREAM);
        take(b, &walls[i], SLOT, STREAM);
    }
    for (int i = 0; i < 3; i++)
        give(b, &blocks[i]);
    take(b, &big, 20 * MiB, STREAM); /* takes 20 of the 24 MiB: what stays has gaps beside it */
    give(b, &walls[2]);
    give(b, &big);
    take(b, &blocks[0], 20 * MiB, STREAM);
    moved = bench_stats(b).granules_moved;
    give(b, &walls[0]);
    take(b, &blocks[1], 4 * MiB, STREAM);
    CHECK_LE(bench_stats(b).granules_moved - moved, 1);
    CHECK_EQ(b->fake->held, 30 * MiB);
    check_data(b, &walls[1]);
    bench_end(b);
}

/* 4 MiB free, a gap of 2, 10 free: 12 stand there, and the 2 that they lack come from what is left of the 10. */
static void ask_beside_surplus(struct bench *b)
{
    struct owned_block left, middle, right, wall, top, big;

    take(b, &left, 4 * MiB, STREAM);
    take(b, &middle, SLOT, STREAM);
    take(b, &right, 10 * MiB, STREAM);
    take(b, &wall, SLOT, STREAM);
    give(b, &middle);
    take(b, &top, 4 * MiB, STREAM);
    REQUIRE_EQ(bench_stats(b).granules_moved, 1);
    REQUIRE_EQ(b->fake->held, 20 * MiB);
    give(b, &left);
    give(b, &right);
    take(b, &big, 12 * MiB, STREAM);
    CHECK_NE(big.ptr, 0);
    CHECK_EQ(bench_stats(b).granules_moved, 2);
    CHECK_EQ(b->fake->held, 20 * MiB);
    CHECK_EQ(bench_stats(b).free, 2 * MiB);
    check_data(b, &wall);
    check_data(b, &top);
    check_data(b, &big);
    bench_end(b);
}

TEST(what_a_spot_has_too_much_moves_to_where_it_lacks_some)
{
    ask_beside_surplus(bench_with(1 * GiB, POOL_REMAP_EAGER, 0));
}

TEST(what_a_spot_has_too_much_counts_before_a_cap_is_passed)
{
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.cap = 20 * MiB;
    opts.remap = POOL_REMAP_EAGER;
    ask_beside_surplus(bench_new_with(1 * GiB, &opts));
}

TEST(whole_slots_get_a_place_that_begins_on_a_slot_and_all_of_it_can_move)
{
    struct bench *b = bench_new(1 * GiB);
    struct owned_block part, whole, other;
    struct pool_room room;

    take(b, &part, 1 * MiB, STREAM);
    take(b, &whole, 4 * MiB, STREAM);
    take(b, &other, 1 * MiB - 4096, STREAM);
    CHECK_EQ(whole.ptr, part.ptr + 2 * MiB);
    CHECK_EQ(other.ptr, part.ptr + 1 * MiB); /* what is before it is not lost */
    CHECK_EQ(b->fake->held, 6 * MiB);
    give(b, &whole);
    room = bench_room(b);
    CHECK_EQ(room.remappable + room.remappable_waiting, 4 * MiB);
    bench_end(b);
}

TEST(whole_slots_begin_anywhere_where_nothing_moves)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_NEVER, 0);
    struct owned_block part, whole;

    take(b, &part, 1 * MiB, STREAM);
    take(b, &whole, 4 * MiB, STREAM);
    CHECK_EQ(whole.ptr, part.ptr + 1 * MiB);
    bench_end(b);
}

/* A part that is free, a gap, a part that is free: 4 MiB stand there for one slot, and on slots only for two. */
TEST(whole_slots_begin_anywhere_on_a_full_device)
{
    struct bench *b = bench_with(10 * MiB, POOL_REMAP_EAGER, 0);
    struct owned_block wall, low, middle, high, wall_2, other, whole;
    devptr_t place;

    take(b, &wall, 1 * MiB, STREAM);
    take(b, &low, 1 * MiB, STREAM);
    take(b, &middle, SLOT, STREAM);
    take(b, &high, 1 * MiB, STREAM);
    take(b, &wall_2, 1 * MiB, STREAM);
    give(b, &middle);
    take(b, &other, 4 * MiB, STREAM); /* half of it stood in the middle */
    REQUIRE_EQ(b->fake->held, 8 * MiB);
    place = low.ptr;
    give(b, &low);
    give(b, &high);
    take(b, &whole, 4 * MiB, STREAM);
    CHECK_EQ(whole.ptr, place);
    CHECK_EQ(b->fake->held, 10 * MiB);
    check_data(b, &wall);
    check_data(b, &wall_2);
    check_data(b, &other);
    bench_end(b);
}

TEST(gaps_are_used_again_for_days)
{
    struct bench *b = bench_with(64 * MiB, POOL_REMAP_EAGER, 0);
    struct owned_block blocks[12] = {{0}};
    uint64_t state = 7;
    devptr_t lo = UINT64_MAX;
    devptr_t hi = 0;

    for (int i = 0; i < 20000; i++) {
        struct owned_block *mine;
        uint64_t size;

        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        mine = &blocks[(state >> 33) % 12];
        size = (1 + (state >> 40) % 34) * UNIT;
        if (mine->ptr) {
            CHECK_EQ(bench_free_on(b, mine->ptr, STREAM), 0);
            mine->ptr = 0;
            continue;
        }
        mine->ptr = bench_alloc_on(b, size, STREAM);
        if (!mine->ptr)
            continue;
        lo = mine->ptr < lo ? mine->ptr : lo;
        hi = mine->ptr + size > hi ? mine->ptr + size : hi;
    }
    BENCH_CHECK(b);
    CHECK_GT(bench_stats(b).granules_moved, 50);
    CHECK_EQ(b->fake->ranges, 1);
    CHECK_LE(hi - lo, 128 * MiB);
    bench_end(b);
}

/* ── against a look at every address ── */

/* Slots without storage below [base, base + size) if all of it is free for the stream or a gap; UINT64_MAX if it is not. */
static uint64_t missing_at(struct pool *pool, const struct segment *segment, devptr_t base,
        const struct want *want) POOL_LOCKED
{
    devptr_t top = segment->base + segment->top;
    devptr_t end = base + want->size;
    uint64_t slot = segment->slot;
    uint64_t missing = 0;

    for (devptr_t at = base; at < end && at < top;) {
        const struct block *block = block_at(pool, block_find(pool, at));
        devptr_t hi = min_of(end, block->node.base + block->node.size);

        if (block->state == BLOCK_DECOMMITTED)
            missing += round_up(hi, slot) - (at & ~(slot - 1));
        else if (block->state != BLOCK_FREE || (block->stream && block->stream != want->stream))
            return UINT64_MAX;
        at = hi;
    }
    return end > top ? missing + round_up(end, slot) - max_of(base & ~(slot - 1), top) : missing;
}

/* Of all places that begin at `to` or before. */
static uint64_t least_missing(struct pool *pool, const struct segment *segment, devptr_t to,
        const struct want *want) POOL_LOCKED
{
    uint64_t least = UINT64_MAX;

    for (devptr_t at = segment->base; at <= to; at += 4 * KiB)
        least = min_of(least, missing_at(pool, segment, at, want));
    return least;
}

static devptr_t start_of(struct pool *pool, const struct spot *spot) POOL_LOCKED
{
    const struct segment *segment = segment_at(pool, spot->segment);

    return spot->first ? block_at(pool, spot->first)->node.base + spot->skip
                       : segment->base + segment->top;
}

/* Where the search ends as soon as no place can lack less, it ends no sooner, whatever the size of a slot. */
static uint64_t check_places(uint64_t slot)
{
    uint64_t widened = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct layout layout = layout_of_handles(seed, 1 * GiB, slot, false);
        struct pool *pool = layout.pool;
        struct heap *heap;

        lock_take(&pool->lock);
        heap = layout_heap(pool);
        for (uint64_t size = 512 * KiB; size <= 24 * MiB; size += 1536 * KiB) {
            const struct segment *segment = segment_at(pool, heap->arena);
            struct want want = {.size = size, .align = 512, .stream = streams_find(pool, 1)};
            struct spot spot;
            devptr_t top = segment->base + segment->top;
            uint64_t least = least_missing(pool, segment, top, &want);

            if (least == 0)
                continue; /* a run of free blocks: nobody looks for a spot then */
            REQUIRE_EQ(spot_find(pool, heap, &want, &spot), 0);
            CHECK_EQ(spot.missing, least);
            CHECK_GE(spot.bytes, size);
            /* all that it lacks is above the top: no gap is as good */
            if (start_of(pool, &spot) + spot.bytes >= top + spot.missing)
                CHECK_GT(least_missing(pool, segment, top - size, &want), least);
            widened += spot.first && spot.missing < size;
        }
        lock_drop(&pool->lock);
        layout_end(&layout);
    }
    return widened;
}

TEST(no_other_place_lacks_less)
{
    CHECK_GT(check_places(2 * MiB), 30);
}

TEST(no_other_place_lacks_less_where_slots_are_large)
{
    CHECK_GT(check_places(4 * MiB), 0);
}

/* What there is of each kind, and how far the range goes. */
struct books {
    uint64_t free, gaps, top;
};

static struct books books_of(struct pool *pool) POOL_LOCKED
{
    const struct heap *heap = layout_heap(pool);
    const struct segment *segment = segment_at(pool, heap->arena);
    struct books books = {.top = segment->top};

    for (uint32_t at = segment->first; at; at = block_at(pool, at)->next) {
        const struct block *block = block_at(pool, at);

        books.free += block->state == BLOCK_FREE ? block->node.size : 0;
        books.gaps += block->state == BLOCK_DECOMMITTED ? block->node.size : 0;
    }
    return books;
}

/* The blocks of a spot: BUSY, in a row, long enough, and without storage where it says so. */
static void check_taken(struct pool *pool, const struct spot *spot, devptr_t start, uint32_t first,
        uint32_t last) POOL_LOCKED
{
    uint64_t bytes = 0;
    uint64_t missing = 0;

    CHECK_EQ(block_at(pool, first)->node.base, start);
    for (uint32_t at = first;; at = block_at(pool, at)->next) {
        const struct block *block = block_at(pool, at);

        REQUIRE_EQ(block->state, BLOCK_BUSY);
        bytes += block->node.size;
        if (!*spot_handles(pool, block))
            missing += block->node.size;
        if (at == last)
            break;
    }
    CHECK_GE(bytes, spot->bytes);
    CHECK_LT(bytes, spot->bytes + segment_at(pool, spot->segment)->slot); /* no more than that */
    CHECK_EQ(missing, spot->missing);
}

static void put_back(struct pool *pool, uint32_t first, uint32_t last) POOL_LOCKED
{
    for (uint32_t at = first, next;; at = next) {
        bool is_last = at == last;

        next = block_at(pool, at)->next;
        if (*spot_handles(pool, block_at(pool, at)))
            spot_put_back(pool, at);
        else
            freelist_put_decommitted(pool, at);
        if (is_last)
            return;
    }
}

TEST(what_is_taken_is_what_was_found_and_goes_back_as_it_was)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct layout layout = layout_new(seed, 1 * GiB, NULL, false);
        struct pool *pool = layout.pool;

        for (uint64_t size = 512 * KiB; size <= 24 * MiB; size += 1536 * KiB) {
            struct want want = {.size = size, .align = 512};
            struct books before, after;
            uint32_t first, last;
            struct spot spot;
            devptr_t start;

            lock_take(&pool->lock);
            want.stream = streams_find(pool, 1);
            before = books_of(pool);
            REQUIRE_EQ(spot_find(pool, layout_heap(pool), &want, &spot), 0);
            start = start_of(pool, &spot);
            first = spot_take(pool, &spot, &last);
            REQUIRE(first != 0);
            check_taken(pool, &spot, start, first, last);
            put_back(pool, first, last);
            after = books_of(pool);
            lock_drop(&pool->lock);
            CHECK_EQ(after.free, before.free);
            CHECK_EQ(after.gaps, before.gaps);
            CHECK_EQ(after.top, before.top);
        }
        BENCH_CHECK(layout.b);
        layout_end(&layout);
    }
}

/* A question that was asked before is answered by what there is now. */
static uint64_t check_again(struct pool *pool, const struct want *want) POOL_LOCKED
{
    struct heap *heap = layout_heap(pool);
    const struct segment *segment = segment_at(pool, heap->arena);
    uint64_t least = least_missing(pool, segment, segment->base + segment->top, want);
    struct spot spots[3];
    uint32_t first, last;

    if (least == 0)
        return 0;
    REQUIRE_EQ(spot_find(pool, heap, want, &spots[0]), 0);
    first = spot_take(pool, &spots[0], &last);
    REQUIRE(first != 0);
    REQUIRE_EQ(spot_find(pool, heap, want, &spots[1]), 0);
    CHECK_EQ(spots[1].missing, least_missing(pool, segment, segment->base + segment->top, want));
    put_back(pool, first, last);
    REQUIRE_EQ(spot_find(pool, heap, want, &spots[2]), 0);
    CHECK_EQ(spots[2].missing, least);
    return spots[0].first && spots[1].missing != least;
}

TEST(a_spot_is_searched_anew_where_something_has_changed)
{
    uint64_t changed = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct layout layout = layout_new(seed, 1 * GiB, NULL, false);
        struct want want = {.align = 512};

        lock_take(&layout.pool->lock);
        want.stream = streams_find(layout.pool, 1);
        for (want.size = 512 * KiB; want.size <= 24 * MiB; want.size += 1536 * KiB)
            changed += check_again(layout.pool, &want);
        lock_drop(&layout.pool->lock);
        layout_end(&layout);
    }
    CHECK_GT(changed, 30);
}

/* The point that its block needs never comes then. */
TEST(r5_what_is_put_back_after_its_stream_was_lost_waits_for_all)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
    struct pool *pool = b->pool;
    struct want want = {.size = 10 * MiB, .align = 512};
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);
    struct spot spot;
    uint32_t first, last;

    fake_submit(b->fake, 1, a, 6 * MiB);
    b->fake->hangs = true;
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    lock_take(&pool->lock);
    want.stream = streams_find(pool, 1);
    REQUIRE_EQ(spot_find(pool, layout_heap(pool), &want, &spot), 0);
    CHECK_EQ(start_of(pool, &spot), a);
    first = spot_take(pool, &spot, &last);
    lock_drop(&pool->lock);
    pool_stream_lost(pool, 1);
    lock_take(&pool->lock);
    put_back(pool, first, last);
    lock_drop(&pool->lock);
    BENCH_CHECK(b);
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 2), a);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 2), a);
    bench_end(b);
}
