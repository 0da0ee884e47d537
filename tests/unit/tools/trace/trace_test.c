/* SPDX-License-Identifier: MIT */
/* covers: trace.c stacks.c */
/* Which range is open around another one. */
#include "tests/check.h"

#include "tools/base/vec.h"
#include "tools/trace/trace.h"

static uint32_t enter(struct trace *trace, const char *path, uint32_t thread)
{
    uint32_t anchor = trace_add_anchor(trace, path, TRACE_NONE);

    trace_add_edge(trace, TRACE_ENTER, anchor, thread);
    return anchor;
}

static uint32_t parent_of_new(struct trace *trace, const char *path, uint32_t thread)
{
    uint32_t anchor = enter(trace, path, thread);

    return trace->anchors[anchor].parent;
}

static void leave(struct trace *trace, uint32_t anchor, uint32_t thread)
{
    trace_add_edge(trace, TRACE_EXIT, anchor, thread);
}

TEST(the_parent_is_the_innermost_open_range_that_the_path_names)
{
    struct trace *trace = trace_new();
    uint32_t a = enter(trace, "a", 0);
    uint32_t again = enter(trace, "a", 0);
    uint32_t ab = enter(trace, "a/b", 0);

    CHECK_EQ(trace->anchors[a].parent, 0);
    CHECK_EQ(trace->anchors[again].parent,
            0); /* its path does not say that it is in the first one */
    CHECK_EQ(trace->anchors[ab].parent, again);
    CHECK_EQ(parent_of_new(trace, "a/b/c", 0), ab);
    CHECK_EQ(parent_of_new(trace, "a/x/c", 0), again);
    CHECK_EQ(parent_of_new(trace, "ab/c", 0), 0);
    CHECK_EQ(parent_of_new(trace, "a/b/c", 1), 0); /* nothing of thread 0 */
    leave(trace, again, 0);
    CHECK_EQ(parent_of_new(trace, "a/b/c", 0), ab); /* it is open yet */
    CHECK_EQ(parent_of_new(trace, "a/d", 0), a);
    leave(trace, ab, 1); /* not open there */
    leave(trace, ab, 0);
    CHECK_EQ(parent_of_new(trace, "a/b/d", 0), a);
    leave(trace, a, 0);
    CHECK_EQ(parent_of_new(trace, "a/b/d", 0), 0);
    trace_free(trace);
}

#define OPEN_MAX 64u

/* The same by looking through all that are open. */
struct plain {
    uint32_t anchor[OPEN_MAX], thread[OPEN_MAX];
    size_t count;
};

static uint32_t plain_parent(
        const struct plain *plain, const struct trace *trace, const char *path, uint32_t thread)
{
    for (size_t i = plain->count; i-- > 0;) {
        const char *outer = trace->anchors[plain->anchor[i]].path;
        size_t length = strlen(outer);
        if (plain->thread[i] == thread && strncmp(path, outer, length) == 0 && path[length] == '/')
            return plain->anchor[i];
    }
    return 0;
}

static void plain_leave(struct plain *plain, size_t at)
{
    plain->count--;
    memmove(&plain->anchor[at], &plain->anchor[at + 1], (plain->count - at) * sizeof(uint32_t));
    memmove(&plain->thread[at], &plain->thread[at + 1], (plain->count - at) * sizeof(uint32_t));
}

TEST(parents_are_those_that_a_look_at_all_open_ranges_finds)
{
    static const char *const paths[] = {
            "a", "a/b", "a/b/c", "a/b/c/d", "a/x", "ab", "ab/c", "b", "b/a", "b/a/b", "/", "/a"};
    struct trace *trace = trace_new();
    struct plain plain = {.count = 0};
    uint32_t seed = 3;
    size_t nested = 0;

    for (unsigned i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (plain.count == OPEN_MAX || (plain.count && seed >> 31)) {
            size_t at = (seed >> 8) % plain.count; /* in any order */
            leave(trace, plain.anchor[at], plain.thread[at]);
            plain_leave(&plain, at);
            continue;
        }
        const char *path = paths[(seed >> 8) % (sizeof(paths) / sizeof(*paths))];
        uint32_t thread = (seed >> 20) % 3;
        uint32_t parent = plain_parent(&plain, trace, path, thread);
        uint32_t anchor = enter(trace, path, thread);
        CHECK_EQ(trace->anchors[anchor].parent, parent);
        nested += parent != 0;
        plain.anchor[plain.count] = anchor;
        plain.thread[plain.count++] = thread;
    }
    CHECK(nested > 1000);
    trace_free(trace);
}

/* Each would be compared with all that are open: 15 billion comparisons. */
TEST(two_hundred_thousand_ranges_may_stay_open)
{
    enum {
        COUNT = 100000
    };
    struct trace *trace = trace_new();
    uint32_t *outer = vec_new(COUNT, sizeof(*outer));
    size_t wrong = 0;

    for (uint32_t i = 0; i < COUNT; i++) {
        char path[40];
        (void)snprintf(path, sizeof(path), "step_%u", i);
        outer[i] = enter(trace, path, 0);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        char path[40];
        (void)snprintf(path, sizeof(path), "step_%u/forward", i);
        wrong += parent_of_new(trace, path, 0) != outer[i];
    }
    CHECK_EQ(wrong, 0);
    for (uint32_t i = 0; i < COUNT; i++) /* the outermost first */
        leave(trace, outer[i], 0);
    CHECK_EQ(parent_of_new(trace, "step_7/backward", 0), 0);
    free(outer);
    trace_free(trace);
}
