/* SPDX-License-Identifier: MIT */
/* covers: compare_coverage.c */
/* What is said of allocations that a comparison has passed over. */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/compare/compare_coverage.h"

static char *printed(const struct compare *compare, const struct trace *trace)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    REQUIRE(out != NULL);
    compare_coverage_print(out, compare, trace, trace);
    REQUIRE_EQ(fclose(out), 0);
    return text;
}

/* The reason that most have is the one that is told, if only by one. */
TEST(the_reason_of_most_is_told)
{
    static const char *const words[] = {"3 of them lie in no anchor",
            "3 of them lie in anchors that the good run never",
            "3 of them lie in anchors that the run never left", "3 of them have no partner",
            "3 of them may have been used unseen"};
    struct story s = story_begin();

    for (unsigned most = 0; most < 5; most++) {
        CHECK_ROW(words[most]);
        struct compare compare = {.all = {.count = 11, .bytes = 11},
                .lone_good_anchor = TRACE_NONE,
                .lone_bad_anchor = TRACE_NONE};
        struct trace_sum *const sums[] = {&compare.outside, &compare.lone_bad, &compare.unfinished,
                &compare.unpaired, &compare.unjudged};
        for (unsigned i = 0; i < 5; i++)
            sums[i]->count = i == most ? 3 : 2;
        char *text = printed(&compare, s.trace);
        CHECK(strstr(text, words[most]) != NULL);
        CHECK(strstr(text, "none of 11 allocations") != NULL);
        free(text);
    }
    story_end(&s);
}

TEST(half_of_all_is_enough)
{
    struct compare compare = {.all = {.count = 4}, .looked = {.count = 2}};
    struct story s = story_begin();
    char *text = printed(&compare, s.trace);

    CHECK_STR_EQ(text, "");
    CHECK(!compare_coverage_is_little(&compare));
    compare.looked.count = 1;
    CHECK(compare_coverage_is_little(&compare) && compare_coverage_is_unknown(&compare));
    compare.late_count = 1;
    CHECK(!compare_coverage_is_unknown(&compare));
    free(text);
    story_end(&s);
}
