/* SPDX-License-Identifier: MIT */
/* covers: sitebook.c */
#include "tests/check.h"

#include "tools/load/sitebook.h"
#include "tools/symbols/symbols.h"

/* A stack of one frame in a library of this build, and of one Python function. */
static uint32_t add_stack(struct trace *trace, uint8_t build, const char *function)
{
    struct trace_module module = {.path = (char[]){"/lib/own.so"},
            .build_id = {build},
            .build_id_length = 20,
            .is_program = true};
    struct trace_frame frame = {trace_add_module(trace, &module), 0x40};
    uint32_t stack = trace_add_stack(trace, &frame, 1, false);

    trace_set_python(
            trace, stack, &(struct trace_pyframe){function, "m.py", 7, true, false, 0}, 1, false);
    return stack;
}

static struct key key_of(uint64_t site)
{
    return (struct key){site, 0, 0};
}

TEST(a_key_has_the_stack_that_came_first_with_it)
{
    struct sitebook book = sitebook_new();
    struct trace *one = trace_new();
    struct trace *two = trace_new();
    char name[] = "forward";
    uint32_t first = sitebook_add(&book, key_of(1), one, add_stack(one, 1, name));

    name[0] = 'F'; /* the book has copies */
    CHECK_EQ(sitebook_add(&book, key_of(1), two, add_stack(two, 2, "other")), first);
    CHECK(sitebook_add(&book, key_of(2), two, add_stack(two, 2, "other")) != first);
    CHECK_EQ(sitebook_find(&book, key_of(1)), first);
    CHECK_EQ(sitebook_find(&book, key_of(3)), SITEBOOK_NONE);
    CHECK_EQ(sitebook_add(&book, key_of(4), two, 0), 0);
    trace_free(one);
    trace_free(two);
    const struct trace_stack *stack = &book.trace->stacks[first];
    CHECK_STR_EQ(book.trace->pyframes[stack->pyfirst].function, "forward");
    CHECK_EQ(book.trace->frames[stack->first].offset, 0x40);
    sitebook_done(&book);
}

TEST(libraries_of_one_path_and_build_are_one)
{
    struct sitebook book = sitebook_new();
    struct trace *trace = trace_new();

    for (uint8_t i = 0; i < 6; i++)
        (void)sitebook_add(&book, key_of(i + 1), trace, add_stack(trace, i % 2, "f"));
    CHECK_EQ(book.trace->module_count, 2);
    CHECK_EQ(book.trace->stack_count, 7); /* and the empty one */
    trace_free(trace);
    sitebook_done(&book);
}

TEST(a_stack_that_is_added_later_has_names_too)
{
    struct sitebook book = sitebook_new();
    struct trace *trace = trace_new();
    struct symbols *symbols = symbols_new(book.trace);

    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "f%u", i);
        uint32_t stack = sitebook_add(&book, key_of(i), trace, add_stack(trace, (uint8_t)i, name));
        char *wanted = vec_format("%s m.py:7", name);
        CHECK_STR_EQ(symbols_pysite(symbols, stack), wanted);
        free(wanted);
    }
    symbols_free(symbols);
    trace_free(trace);
    sitebook_done(&book);
}

TEST(a_full_book_takes_nothing_more)
{
    struct sitebook book = sitebook_new();
    struct trace *trace = trace_new();

    for (uint32_t i = 0; i < SITEBOOK_MAX; i++)
        (void)sitebook_add(&book, key_of(i), trace, 0);
    CHECK_EQ(sitebook_add(&book, key_of(SITEBOOK_MAX), trace, 0), SITEBOOK_NONE);
    CHECK_EQ(sitebook_add(&book, key_of(5), trace, 0), 0);
    trace_free(trace);
    sitebook_done(&book);
}
