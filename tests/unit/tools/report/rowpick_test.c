/* SPDX-License-Identifier: MIT */
/* covers: rowpick.c */
/* Rows in the order of a figure, and texts that a filter finds. */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/report/rowpick.h"

struct row {
    char name;
    uint64_t bytes;
    double cost;
};

static const struct rowpick_field fields[] = {
        ROWPICK_UINT("bytes", struct row, bytes), ROWPICK_REAL("cost", struct row, cost)};
static const struct rowpick_fields all = ROWPICK_FIELDS(fields);

static const char *order(struct row *rows, size_t count, const char *field)
{
    static char names[16];

    rowpick_sort(rows, count, sizeof(*rows), rowpick_find(&all, field));
    for (size_t i = 0; i < count; i++)
        names[i] = rows[i].name;
    names[count] = '\0';
    return names;
}

TEST(the_largest_comes_first_and_equal_rows_stay_in_order)
{
    struct row rows[] = {{'a', 7, 0.5}, {'b', 9, 2}, {'c', 7, -1}, {'d', 8, 2}};

    CHECK_STR_EQ(order(rows, 4, "bytes"), "bdac");
    CHECK_STR_EQ(order(rows, 4, "cost"), "bdac");
    CHECK_STR_EQ(order(rows, 1, "bytes"), "b");
    CHECK_STR_EQ(order(rows, 0, "bytes"), "");
    CHECK(rowpick_find(&all, "byte") == NULL);
    CHECK(rowpick_find(&all, "name") == NULL);
}

/* A double has 53 bits, and byte figures have more. */
TEST(numbers_of_64_bits_are_told_apart)
{
    struct row rows[] = {{'a', UINT64_MAX - 1, 0}, {'b', UINT64_MAX, 0}, {'c', UINT64_MAX - 2, 0}};

    CHECK_STR_EQ(order(rows, 3, "bytes"), "bac");
}

TEST(without_a_field_rows_stay_as_they_are)
{
    struct row rows[] = {{'a', 1, 0}, {'b', 2, 0}};

    CHECK_STR_EQ(order(rows, 2, "nothing"), "ab");
}

TEST(a_filter_finds_text_whatever_the_case)
{
    struct story s = story_begin();
    struct symbols *symbols = symbols_new(s.trace);
    struct rowpick_filter *filter = rowpick_new("Attend", symbols, s.trace->stack_count);

    CHECK(rowpick_has_text(filter, "gpt/block.ATTEND.3"));
    CHECK(!rowpick_has_text(filter, "attic"));
    CHECK(!rowpick_has_text(filter, NULL));
    CHECK(rowpick_has_text(NULL, NULL));
    CHECK(rowpick_has_stack(NULL, 0));
    CHECK(!rowpick_has_stack(filter, 0));
    rowpick_done(filter);
    filter = rowpick_new("no stack", symbols, s.trace->stack_count);
    CHECK(rowpick_has_stack(filter, 0));
    CHECK(rowpick_has_stack(filter, 0)); /* as it is remembered */
    rowpick_done(filter);
    rowpick_done(NULL);
    symbols_free(symbols);
    story_end(&s);
}

TEST(a_filter_finds_functions_lines_and_files)
{
    static const char *const found[] = {
            "step", "train.py:60", "step TRAIN.py:60", "/opt/gpt/train"};
    static const char *const missing[] = {"train.py:61", "step:60", "other"};
    struct story s = story_begin();
    const struct trace_pyframe frame = {
            .function = "step", .file = "/opt/gpt/train.py", .line = 60, .is_entry = true};
    uint32_t stack = trace_add_stack(s.trace, NULL, 0, false);

    trace_set_python(s.trace, stack, &frame, 1, false);
    struct symbols *symbols = symbols_new(s.trace);
    for (size_t i = 0; i < sizeof(found) / sizeof(*found); i++) {
        struct rowpick_filter *filter = rowpick_new(found[i], symbols, s.trace->stack_count);
        CHECK(rowpick_has_stack(filter, stack));
        rowpick_done(filter);
    }
    for (size_t i = 0; i < sizeof(missing) / sizeof(*missing); i++) {
        struct rowpick_filter *filter = rowpick_new(missing[i], symbols, s.trace->stack_count);
        CHECK(!rowpick_has_stack(filter, stack));
        rowpick_done(filter);
    }
    symbols_free(symbols);
    story_end(&s);
}
