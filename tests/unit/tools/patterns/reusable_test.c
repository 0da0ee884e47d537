/* SPDX-License-Identifier: MIT */
/* covers: reusable.c */
/* Who could have had whose memory; uses are at the times of the events between which they lie. */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/patterns/reusable.h"

#define KB UINT64_C(1024)

static void used(struct story *s, uint32_t block, uint64_t first, uint64_t last)
{
    trace_set_uses(s->trace, block, &(struct trace_uses){.first = first, .last = last, .count = 2});
}

static struct reusable_pair *find(struct story *s, size_t *ret_count)
{
    uint32_t blocks[16];

    for (uint32_t i = 0; i < s->trace->block_count; i++)
        blocks[i] = i;
    return reusable_find(s->trace, blocks, s->trace->block_count, ret_count);
}

TEST(a_block_that_is_done_with_gives_its_memory_to_the_next_of_its_size)
{
    struct story s = story_begin();
    uint32_t first = story_alloc(&s, 1, 4 * KB);
    uint32_t second = story_alloc(&s, 2, 4 * KB - 100); /* the same size when rounded */
    uint32_t smaller = story_alloc(&s, 3, 3 * KB);
    uint32_t elsewhere = story_alloc(&s, 4, 4 * KB);
    size_t count;

    used(&s, first, 10, 20);
    used(&s, second, 30, 40);
    used(&s, smaller, 30, 40);
    used(&s, elsewhere, 50, 60);
    s.trace->blocks[elsewhere].device = 1;
    struct reusable_pair *pairs = find(&s, &count);
    REQUIRE_EQ(count, 1);
    CHECK_EQ(pairs[0].first, first);
    CHECK_EQ(pairs[0].second, second);
    free(pairs);
    story_end(&s);
}

TEST(what_is_freed_before_the_other_is_born_needs_no_advice)
{
    struct story s = story_begin();
    uint32_t first = story_alloc(&s, 1, KB);
    size_t count;

    story_free(&s, first);
    uint32_t second = story_alloc(&s, 2, KB);
    used(&s, first, 10, 20);
    used(&s, second, 30, 40);
    struct reusable_pair *pairs = find(&s, &count);
    CHECK_EQ(count, 0);
    free(pairs);
    story_end(&s);
}

TEST(blocks_that_are_in_use_together_share_nothing)
{
    struct story s = story_begin();
    uint32_t first = story_alloc(&s, 1, KB);
    uint32_t second = story_alloc(&s, 2, KB);
    size_t count;

    used(&s, first, 10, 30);
    used(&s, second, 30, 40); /* one call names both */
    struct reusable_pair *pairs = find(&s, &count);
    CHECK_EQ(count, 0);
    free(pairs);
    story_end(&s);
}

/* Each block gives once and takes once; a block that took may give. */
TEST(memory_goes_from_block_to_block)
{
    struct story s = story_begin();
    uint32_t a = story_alloc(&s, 1, KB);
    uint32_t b = story_alloc(&s, 2, KB);
    uint32_t c = story_alloc(&s, 3, KB);
    uint32_t d = story_alloc(&s, 4, KB);
    size_t count;

    story_free(&s, a);
    used(&s, a, 10, 11);
    used(&s, b, 20, 21);
    used(&s, d, 22, 30); /* a's memory is b's by now, and b is done with */
    used(&s, c, 25, 26); /* nobody's: d is in use */
    struct reusable_pair *pairs = find(&s, &count);
    REQUIRE_EQ(count, 2);
    CHECK_EQ(pairs[0].first, a);
    CHECK_EQ(pairs[0].second, b);
    CHECK_EQ(pairs[1].first, b);
    CHECK_EQ(pairs[1].second, d);
    free(pairs);
    story_end(&s);
}

TEST(of_two_that_are_done_with_the_one_that_is_freed_last_gives)
{
    struct story s = story_begin();
    uint32_t soon = story_alloc(&s, 1, KB);
    uint32_t last = story_alloc(&s, 2, KB);
    uint32_t next = story_alloc(&s, 3, KB);
    size_t count;

    story_free(&s, soon);
    story_free(&s, last);
    used(&s, soon, 10, 20);
    used(&s, last, 10, 15);
    used(&s, next, 30, 40);
    struct reusable_pair *pairs = find(&s, &count);
    REQUIRE_EQ(count, 1);
    CHECK_EQ(pairs[0].first, last);
    CHECK_EQ(pairs[0].second, next);
    free(pairs);
    story_end(&s);
}
