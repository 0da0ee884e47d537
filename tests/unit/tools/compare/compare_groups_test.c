/* SPDX-License-Identifier: MIT */
/* covers: compare_groups.c */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/compare/compare_groups.h"

#define MB (UINT64_C(1) << 20)

/* One native frame; Python frames innermost first, all of "m.py". */
static uint32_t stack_of(struct trace *trace, const char *const *functions, uint32_t count)
{
    struct trace_frame native = {TRACE_NONE, 0x1234};
    struct trace_pyframe frames[4] = {{0}};
    uint32_t stack = trace_add_stack(trace, &native, 1, false);

    for (uint32_t i = 0; i < count; i++)
        frames[i] = (struct trace_pyframe){functions[i], "m.py", 10 + i, i + 1 == count, false, 0};
    if (count)
        trace_set_python(trace, stack, frames, count, false);
    return stack;
}

static uint32_t take(struct story *story, uint64_t size, uint32_t stack)
{
    uint32_t block = story_alloc(story, 7, size);

    story->trace->blocks[block].stack = stack;
    return block;
}

/* Three ways through Python to one site, one of them twice with other native frames, and one without Python. */
static struct compare_groups grouped(
        struct story *story, struct symbols **ret_symbols, enum compare_groups_by by)
{
    static const char *const norm[] = {"empty", "norm"};
    static const char *const linear[] = {"empty", "linear"};
    struct compare_groups groups = {.trace = story->trace, .by = by};
    uint32_t stacks[] = {stack_of(story->trace, linear, 2), stack_of(story->trace, norm, 2),
            stack_of(story->trace, norm, 2), stack_of(story->trace, NULL, 0)};

    for (unsigned i = 0; i < 4; i++)
        (void)take(story, (i + 1) * MB, stacks[i]);
    *ret_symbols = groups.symbols = symbols_new(story->trace);
    for (uint32_t i = 0; i < 4; i++)
        compare_groups_add(&groups, i);
    compare_groups_finish(&groups);
    return groups;
}

TEST(a_site_has_its_python_stacks_apart)
{
    struct story story = story_begin();
    struct symbols *symbols;
    struct compare_groups groups = grouped(&story, &symbols, COMPARE_GROUPS_SITE);

    REQUIRE_EQ(groups.count, 1);
    CHECK_EQ(groups.rows[0].count, 4);
    CHECK_EQ(groups.rows[0].bytes, 10 * MB);
    CHECK_EQ(groups.rows[0].size_count, 4);
    REQUIRE_EQ(groups.rows[0].stack_count, 3);
    CHECK_EQ(groups.rows[0].stacks[0].bytes, 5 * MB); /* norm, by two native ways */
    CHECK_EQ(groups.rows[0].stacks[0].count, 2);
    CHECK_EQ(groups.rows[0].stacks[1].bytes, 4 * MB); /* no Python */
    CHECK(symbols_pysite(symbols, groups.rows[0].stacks[1].stack) == NULL);
    CHECK_EQ(groups.rows[0].stacks[2].bytes, MB);
    compare_groups_done(&groups);
    symbols_free(symbols);
    story_end(&story);
}

TEST(by_python_each_stack_is_a_group_and_the_rest_stays_with_its_site)
{
    struct story story = story_begin();
    struct symbols *symbols;
    struct compare_groups groups = grouped(&story, &symbols, COMPARE_GROUPS_PYTHON);

    REQUIRE_EQ(groups.count, 3);
    CHECK_EQ(groups.rows[0].bytes, 5 * MB);
    CHECK_EQ(groups.rows[1].bytes, 4 * MB);
    CHECK_EQ(groups.rows[2].bytes, MB);
    for (size_t i = 0; i < groups.count; i++)
        CHECK_EQ(groups.rows[i].stack_count, 1);
    compare_groups_done(&groups);
    symbols_free(symbols);
    story_end(&story);
}
