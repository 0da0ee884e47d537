/* SPDX-License-Identifier: MIT */
/* covers: savings.c */
/* Max without parts of the lives of some blocks, against adding up event by event. */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/patterns/savings.h"

#define MB UINT64_C(0x100000)

static struct savings_stretch element_of(const void *stretches, size_t i)
{
    return ((const struct savings_stretch *)stretches)[i];
}

/* Max without some stretches, all of row 0. */
static uint64_t left_without(
        const struct savings *savings, const struct savings_stretch *gone, size_t count)
{
    struct savings_stretches of = {
            .stretch_of = element_of, .context = gone, .count = count, .row_count = 1};
    uint64_t left_of_row;
    uint64_t left = savings_left(savings, &of, &left_of_row);

    CHECK_EQ(left_of_row, left);
    return left;
}

/* The same without one. */
static uint64_t left_without_one(
        const struct savings *savings, uint32_t from, uint32_t to, uint64_t bytes)
{
    return left_without(
            savings, &(struct savings_stretch){.from = from, .to = to, .bytes = bytes}, 1);
}

TEST(max_without_a_block_moves_to_another_moment)
{
    struct story s = story_begin();
    uint32_t early = story_alloc(&s, 1, 3 * MB); /* 0 */
    uint32_t big = story_alloc(&s, 2, 4 * MB);   /* 1: 7 */
    struct savings *savings;

    story_free(&s, big);                        /* 2 */
    uint32_t late = story_alloc(&s, 3, 2 * MB); /* 3: 5 */
    story_free(&s, early);                      /* 4 */
    story_free(&s, late);                       /* 5 */
    savings = savings_new(s.trace, model_whole(s.trace));
    CHECK_EQ(left_without(savings, NULL, 0), 7 * MB);
    CHECK_EQ(left_without_one(savings, 1, 2, 4 * MB), 5 * MB);
    CHECK_EQ(left_without_one(savings, 0, 4, 3 * MB), 4 * MB);
    CHECK_EQ(left_without_one(savings, 2, 4, 3 * MB), 7 * MB);
    CHECK_EQ(left_without_one(savings, 4, 3, 3 * MB), 7 * MB); /* empty */
    savings_free(savings);
    story_end(&s);
}

/* Only blocks born in the window count, and stretches count as far as they lie in it. */
TEST(a_window_has_a_max_of_its_own)
{
    struct story s = story_begin();
    uint32_t before = story_alloc(&s, 1, 8 * MB); /* 0 */
    uint32_t inside = story_alloc(&s, 2, 2 * MB); /* 1 */
    struct savings *savings;

    story_free(&s, before); /* 2 */
    story_free(&s, inside); /* 3 */
    savings = savings_new(s.trace, (struct model_window){.first = 1, .last = 3});
    CHECK_EQ(left_without(savings, NULL, 0), 2 * MB);
    CHECK_EQ(left_without_one(savings, 0, 9, 2 * MB), 0);
    savings_free(savings);
    savings = savings_new(s.trace, (struct model_window){.first = 2, .last = 2});
    CHECK_EQ(left_without(savings, NULL, 0), 0);
    savings_free(savings);
    story_end(&s);
}

#define ALL UINT32_MAX

/* Max without the stretches of a row, or of all. */
static uint64_t added_up(const struct trace *trace, const struct savings_stretch *gone,
        size_t gone_count, uint32_t row)
{
    uint64_t live = 0;
    uint64_t max = 0;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct trace_block *block = &trace->blocks[trace->events[i].block];
        uint64_t now;

        live = trace->events[i].kind == TRACE_ALLOC ? live + block->size : live - block->size;
        now = live;
        for (size_t k = 0; k < gone_count; k++)
            if ((row == ALL || gone[k].row == row) && gone[k].from <= i && i < gone[k].to)
                now -= gone[k].bytes;
        max = now > max ? now : max;
    }
    return max;
}

#define ROWS 5u /* the last one has no stretch */

/* From somewhere in the life of every second block, in rows by turns. Returns how many. */
static size_t take_away(const struct trace *trace, struct savings_stretch *ret_gone, size_t room)
{
    size_t count = 0;

    for (size_t b = 0; b < trace->block_count && count < room; b += 2) {
        const struct trace_block *block = &trace->blocks[b];
        uint32_t end = block->died == TRACE_NEVER ? (uint32_t)trace->event_count : block->died;

        ret_gone[count] = (struct savings_stretch){block->born + (end - block->born) / 4, end,
                (uint32_t)count % (ROWS - 1), block->size};
        count++;
    }
    return count;
}

TEST(max_without_each_row_is_what_adding_up_every_event_gives)
{
    uint32_t seed = 5;

    for (unsigned round = 0; round < 200; round++) {
        struct story s = story_begin();
        uint32_t live[8] = {0};
        bool is_live[8] = {false};
        struct savings_stretch gone[64];
        size_t gone_count;
        struct savings *savings;

        for (unsigned i = 0; i < 20 + round; i++) {
            unsigned at = (seed = seed * 1664525u + 1013904223u) >> 29;

            if (is_live[at])
                story_free(&s, live[at]);
            else
                live[at] = story_alloc(&s, at + 1, (seed >> 8) % 1000 + 1);
            is_live[at] = !is_live[at];
        }
        gone_count = take_away(s.trace, gone, sizeof(gone) / sizeof(*gone));
        savings = savings_new(s.trace, model_whole(s.trace));
        uint64_t left[ROWS];
        struct savings_stretches of = {
                .stretch_of = element_of, .context = gone, .count = gone_count, .row_count = ROWS};
        CHECK_EQ(savings_left(savings, &of, left), added_up(s.trace, gone, gone_count, ALL));
        for (uint32_t row = 0; row < ROWS; row++)
            CHECK_EQ(left[row], added_up(s.trace, gone, gone_count, row));
        savings_free(savings);
        story_end(&s);
    }
}
