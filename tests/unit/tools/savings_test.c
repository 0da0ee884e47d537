/* SPDX-License-Identifier: MIT */
/* Max without parts of the lives of some blocks, against adding up event by event. */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/savings.h"

#define MB UINT64_C(0x100000)

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
    CHECK_EQ(savings_left(savings, NULL, 0), 7 * MB);
    CHECK_EQ(savings_left(savings, &(struct savings_stretch){1, 2, 4 * MB}, 1), 5 * MB);
    CHECK_EQ(savings_left(savings, &(struct savings_stretch){0, 4, 3 * MB}, 1), 4 * MB);
    CHECK_EQ(savings_left(savings, &(struct savings_stretch){2, 4, 3 * MB}, 1), 7 * MB);
    CHECK_EQ(savings_left(savings, &(struct savings_stretch){4, 3, 3 * MB}, 1), 7 * MB); /* empty */
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
    savings = savings_new(s.trace, (struct model_window){1, 3});
    CHECK_EQ(savings_left(savings, NULL, 0), 2 * MB);
    CHECK_EQ(savings_left(savings, &(struct savings_stretch){0, 9, 2 * MB}, 1), 0);
    savings_free(savings);
    savings = savings_new(s.trace, (struct model_window){2, 2});
    CHECK_EQ(savings_left(savings, NULL, 0), 0);
    savings_free(savings);
    story_end(&s);
}

static uint64_t added_up(
        const struct trace *trace, const struct savings_stretch *gone, size_t gone_count)
{
    uint64_t live = 0;
    uint64_t max = 0;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct trace_block *block = &trace->blocks[trace->events[i].block];
        uint64_t now;

        live = trace->events[i].kind == TRACE_ALLOC ? live + block->size : live - block->size;
        now = live;
        for (size_t k = 0; k < gone_count; k++)
            if (gone[k].from <= i && i < gone[k].to)
                now -= gone[k].bytes;
        max = now > max ? now : max;
    }
    return max;
}

static struct savings_stretch element_of(const void *stretches, size_t i)
{
    return ((const struct savings_stretch *)stretches)[i];
}

TEST(max_is_what_adding_up_every_event_gives)
{
    uint32_t seed = 5;

    for (unsigned round = 0; round < 200; round++) {
        struct story s = story_begin();
        uint32_t live[8] = {0};
        bool is_live[8] = {false};
        struct savings_stretch gone[16];
        size_t gone_count = 0;
        struct savings *savings;

        for (unsigned i = 0; i < 20 + round; i++) {
            unsigned at = (seed = seed * 1664525u + 1013904223u) >> 29;

            if (is_live[at])
                story_free(&s, live[at]);
            else
                live[at] = story_alloc(&s, at + 1, (seed >> 8) % 1000 + 1);
            is_live[at] = !is_live[at];
        }
        for (size_t b = 0; b < s.trace->block_count && gone_count < 16; b += 2) {
            const struct trace_block *block = &s.trace->blocks[b];
            uint32_t end =
                    block->died == TRACE_NEVER ? (uint32_t)s.trace->event_count : block->died;

            gone[gone_count++] = (struct savings_stretch){
                    block->born + (end - block->born) / 4, end, block->size};
        }
        savings = savings_new(s.trace, model_whole(s.trace));
        CHECK_EQ(savings_left(savings, gone, gone_count), added_up(s.trace, gone, gone_count));
        CHECK_EQ(savings_left_of_many(savings, element_of, gone, gone_count),
                added_up(s.trace, gone, gone_count));
        savings_free(savings);
        story_end(&s);
    }
}
