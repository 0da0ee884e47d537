/* SPDX-License-Identifier: MIT */
/* covers: fence.c */
#include "alloc/index/fence.h"
#include "tests/check.h"

#include <errno.h>

static struct fence_chain chain_of(uint32_t first, uint32_t count)
{
    return (struct fence_chain){.head = first, .tail = first + count - 1, .count = count};
}

/* Drops a use; the fence that is to be put, 0 = none yet. */
static uint64_t drop(struct fence_mark *mark)
{
    uint64_t fence = 0;
    bool put = false;

    return fence_drop(mark, &fence, &put) && put ? fence : 0;
}

TEST(a_chain_keeps_the_order_of_pushes)
{
    struct fence_chain chain = {0};
    uint32_t next[4] = {9, 9, 9, 9};

    for (uint32_t i = 1; i < 4; i++)
        fence_chain_push(&chain, i, 512 * i, &next[i], &next[chain.tail]);
    CHECK_EQ(chain.head, 1);
    CHECK_EQ(next[1], 2);
    CHECK_EQ(next[2], 3);
    CHECK_EQ(next[3], 0);
    CHECK_EQ(chain.tail, 3);
    CHECK_EQ(chain.count, 3);
    CHECK_EQ(chain.bytes, 512 * 6);
}

TEST(when_one_has_passed_all_before_it_have)
{
    struct fence_timeline timeline = {0};
    struct fence_mark *marks[4];

    for (uint32_t i = 0; i < 4; i++) {
        struct fence_chain chain = chain_of(1 + 10 * i, 2);

        marks[i] = fence_begin(&timeline, &chain);
        REQUIRE(marks[i] != NULL);
        CHECK_EQ(chain.head, 0); /* moved */
    }
    /* the driver was reached in another order, and by the second not yet */
    fence_recorded(&timeline, marks[2], 102);
    fence_recorded(&timeline, marks[0], 100);
    CHECK_EQ(fence_at_least(&timeline, 0), marks[0]);
    CHECK_EQ(fence_at_least(&timeline, 2), marks[2]);
    CHECK(fence_at_least(&timeline, 4) == NULL);
    CHECK_EQ(drop(marks[0]), 0); /* the timeline still has it */
    CHECK_EQ(drop(marks[2]), 0);

    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(fence_pass(&timeline, 3), marks[i]);
        CHECK_EQ(marks[i]->chain.head, 1 + 10 * i);
    }
    CHECK(fence_pass(&timeline, 3) == NULL);
    CHECK_EQ(timeline.passed, 3);
    CHECK_EQ(timeline.marks, 1);
    CHECK_EQ(drop(marks[0]), 100);
    CHECK_EQ(drop(marks[2]), 102);
    /* the second comes back from the driver when its blocks are long gone: its fence is put by it */
    CHECK_EQ(drop(marks[1]), 0);
    fence_recorded(&timeline, marks[1], 101);
    CHECK_EQ(drop(marks[1]), 101);
    CHECK_EQ(drop(marks[3]), 0);
    CHECK_EQ(fence_pass(&timeline, 4), marks[3]);
    CHECK_EQ(drop(marks[3]), 0); /* never recorded: nothing to put */
}

TEST(what_waited_for_a_fence_that_failed_comes_back)
{
    struct fence_timeline timeline = {0};
    struct fence_chain chain = chain_of(5, 3);
    struct fence_chain back;
    struct fence_mark *mark = fence_begin(&timeline, &chain);
    uint64_t needed = fence_next(&timeline);

    REQUIRE(mark != NULL);
    fence_failed(&timeline, mark, &back);
    CHECK_EQ(back.head, 5);
    CHECK_EQ(back.count, 3);
    CHECK(timeline.first == NULL && timeline.last == NULL);
    CHECK_EQ(timeline.marks, 0);
    CHECK_EQ(drop(mark), 0);
    CHECK_EQ(fence_next(&timeline), needed); /* the number stays used */
}

TEST(a_failed_fence_whose_work_a_later_one_covered_gives_nothing_back)
{
    struct fence_timeline timeline = {0};
    struct fence_chain chain = chain_of(5, 3);
    struct fence_chain back;
    struct fence_mark *slow = fence_begin(&timeline, &chain);
    struct fence_mark *quick = fence_begin(&timeline, NULL);

    REQUIRE(slow && quick);
    fence_recorded(&timeline, quick, 7);
    CHECK_EQ(fence_pass(&timeline, quick->number), slow);
    CHECK_EQ(drop(slow), 0);
    CHECK_EQ(fence_pass(&timeline, quick->number), quick);
    CHECK_EQ(drop(quick), 0);
    CHECK_EQ(drop(quick), 7);
    fence_failed(&timeline, slow, &back);
    CHECK_EQ(back.head, 0);
    CHECK_EQ(drop(slow), 0);
}

TEST(the_fence_is_put_when_the_last_asker_is_back)
{
    struct fence_timeline timeline = {0};
    struct fence_mark *mark = fence_begin(&timeline, NULL);

    REQUIRE(mark != NULL);
    fence_recorded(&timeline, mark, 55);
    CHECK_EQ(drop(mark), 0); /* recorded */
    fence_use(mark);         /* two threads ask */
    fence_use(mark);
    CHECK_EQ(fence_pass(&timeline, 1), mark);
    CHECK_EQ(drop(mark), 0); /* the timeline's use */
    CHECK_EQ(drop(mark), 0);
    CHECK_EQ(drop(mark), 55);
}

TEST(r01_something_freed_now_needs_a_record_that_begins_later)
{
    struct fence_timeline timeline = {0};
    uint64_t early = fence_next(&timeline);
    struct fence_mark *mark = fence_begin(&timeline, NULL);
    uint64_t late = fence_next(&timeline);

    REQUIRE(mark != NULL);
    CHECK_EQ(mark->number, early);
    CHECK_GT(late, mark->number);
    fence_recorded(&timeline, mark, 1);
    CHECK_EQ(fence_at_least(&timeline, early), mark);
    CHECK(fence_at_least(&timeline, late) == NULL);
    (void)drop(mark);
    CHECK_EQ(fence_pass(&timeline, 1), mark);
    CHECK_EQ(drop(mark), 1);
}

TEST(r70_a_set_takes_the_maximum_of_each_stream)
{
    struct fence_set set = {0};

    CHECK_EQ(fence_set_add(&set, 1, 5), 0);
    CHECK_EQ(fence_set_add(&set, 2, 9), 0);
    CHECK_EQ(fence_set_add(&set, 1, 3), 0);
    CHECK_EQ(set.count, 2);
    CHECK_EQ(set.stream[0], 1);
    CHECK_EQ(set.point[0], 5);
    CHECK_EQ(fence_set_add(&set, 1, 7), 0);
    CHECK_EQ(fence_set_add(&set, 3, 1), 0);
    CHECK_EQ(set.count, 3);
    CHECK_EQ(set.point[0], 7);
    CHECK_EQ(set.stream[1], 2);
    CHECK_EQ(set.point[1], 9);
    CHECK_EQ(set.stream[2], 3);
    CHECK_EQ(set.point[2], 1);
}

TEST(a_stream_too_many_changes_nothing)
{
    struct fence_set full = {0};

    for (uint32_t i = 1; i <= FENCE_SET_MAX; i++)
        CHECK_EQ(fence_set_add(&full, i, i), 0);
    CHECK_EQ(fence_set_add(&full, 99, 1), -ENOSPC);
    CHECK_EQ(full.count, FENCE_SET_MAX);
    CHECK_EQ(full.stream[FENCE_SET_MAX - 1], FENCE_SET_MAX);
    CHECK_EQ(full.point[0], 1);
    CHECK_EQ(fence_set_add(&full, 1, 60), 0);
    CHECK_EQ(full.point[0], 60);
}
