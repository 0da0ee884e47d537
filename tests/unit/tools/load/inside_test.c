/* SPDX-License-Identifier: MIT */
/* covers: inside.c */
/* What a run's objects say of addresses in segments is said of the tensor that lay there then. */
#include "tests/check.h"
#include "tests/unit/tools/story.h"

#include "tools/base/vec.h"
#include "tools/load/inside.h"

#define SEGMENT UINT64_C(0x700000000000)
#define LATER   UINT64_C(500) /* the tensors' record begins so much later than the run */

/* A run whose objects said something, and its tensors; the clocks begin at different moments. */
struct scene {
    struct story story;
    struct read_capture run, tensors;
    struct load run_load, tensors_load;
};

static void begin(struct scene *scene)
{
    *scene = (struct scene){.story = story_begin(),
            .run = {.start_real_ns = 1000},
            .tensors = {.start_real_ns = 1000 + LATER}};
    scene->run_load.capture = &scene->run;
    scene->tensors_load = (struct load){.trace = scene->story.trace, .capture = &scene->tensors};
}

static void end(struct scene *scene)
{
    for (size_t i = 0; i < scene->tensors.data_count; i++)
        free(scene->tensors.data[i].text);
    for (size_t i = 0; i < scene->tensors.held_count; i++)
        free(scene->tensors.held[i].text);
    free(scene->tensors.data);
    for (size_t i = 0; i < scene->tensors.held_at_count; i++)
        free(scene->tensors.held_at[i].address);
    free(scene->tensors.held);
    free(scene->tensors.held_at);
    free(scene->tensors.walk);
    free(scene->tensors_load.held_stacks);
    story_end(&scene->story);
}

/* A tensor of this stack, from one moment of the run's clock to another; `until` 0: to the end. */
static uint32_t tensor(struct scene *scene, uint64_t offset, uint64_t size, uint32_t stack,
        uint64_t from, uint64_t until)
{
    struct trace *trace = scene->story.trace;
    uint32_t block;

    scene->story.next_address = SEGMENT + offset;
    block = story_alloc(&scene->story, 1, size);
    trace->blocks[block].born_ns = from - LATER;
    trace->blocks[block].stack = stack;
    trace->events[trace->blocks[block].born].seq = 10 + block;
    if (until) {
        story_free(&scene->story, block);
        trace->blocks[block].died_ns = until - LATER;
    }
    return block;
}

static struct read_data said(enum format_data kind, uint64_t offset, const char *name, uint64_t ns)
{
    return (struct read_data){.kind = kind,
            .root = 1,
            .address = SEGMENT + offset,
            .size = 4096,
            .time_ns = ns,
            .text = (char *)(uintptr_t)name};
}

TEST(a_name_is_the_tensors_that_lay_there_then)
{
    struct scene s;
    struct read_data data[] = {said(FORMAT_DATA_PARAMETER, 0, "w", 1000),
            said(FORMAT_DATA_GRADIENT, 4096, "w", 1000),
            {.kind = FORMAT_DATA_LOOK, .time_ns = 1000}, said(FORMAT_DATA_PARAMETER, 0, "w", 2000),
            said(FORMAT_DATA_GRADIENT, 4096, "w", 2000),
            said(FORMAT_DATA_STATE, 8192, "nowhere", 2000),
            {.kind = FORMAT_DATA_LOOK, .time_ns = 2000}};

    data[2].text = data[6].text = (char *)(uintptr_t) "";
    begin(&s);
    uint32_t weight = tensor(&s, 0, 4096, 0, 900, 0);
    uint32_t first = tensor(&s, 4096, 4096, 0, 950, 1500);
    uint32_t second = tensor(&s, 4096, 4096, 0, 1600, 0);
    s.run.data = data;
    s.run.data_count = sizeof(data) / sizeof(data[0]);
    inside_join(&s.run_load, &s.tensors_load);
    REQUIRE_EQ(s.tensors.data_count, 5); /* the parameter once, and what lay nowhere is left out */
    CHECK_EQ(s.tensors.data[0].seq, 10 + weight);
    CHECK_EQ(s.tensors.data[1].seq, 10 + first);
    CHECK_EQ(s.tensors.data[1].time_ns, 1000 - LATER);
    CHECK_EQ(s.tensors.data[2].kind, FORMAT_DATA_LOOK);
    CHECK_EQ(s.tensors.data[3].seq, 10 + second);
    CHECK_EQ(s.tensors.data[4].kind, FORMAT_DATA_LOOK);
    end(&s);
}

TEST(a_holder_is_that_of_the_tensors_and_the_rest_has_none)
{
    struct scene s;
    struct read_held held[] = {{.walk = 1, .text = (char *)(uintptr_t) "tensor\nother"},
            {.walk = 2, .bytes = 12288, .count = 3, .text = (char *)(uintptr_t) "tensor\nkept[*]"}};
    struct format_def_walk walks[] = {{.def = {.id = 2},
            .why = FORMAT_WALK_END,
            .time_ns = 2000,
            .failures = 7,
            .bytes = 1 << 21,
            .count = 1}};
    uint64_t addresses[] = {SEGMENT, SEGMENT + 4096, SEGMENT + 8192, SEGMENT + 12288};
    struct read_held_at at = {.walk = 2, .row = 0, .address = addresses, .count = 4};

    begin(&s);
    (void)tensor(&s, 0, 4096, 3, 900, 0);
    (void)tensor(&s, 4096, 4096, 4, 950, 0);
    (void)tensor(&s, 8192, 4096, 3, 950, 0);
    (void)tensor(&s, 12288, 4096, 3, 950, 1900); /* is gone when the walk is made */
    (void)tensor(&s, 16384, 512, 4, 960, 0);
    s.run.held = held;
    s.run.held_count = 2;
    s.run.walk = walks;
    s.run.walk_count = 1;
    s.run.held_at = &at;
    s.run.held_at_count = 1;
    inside_join(&s.run_load, &s.tensors_load);
    REQUIRE_EQ(s.tensors.held_count, 3);
    CHECK_EQ(s.tensors.held[0].bytes, 8192);
    CHECK_EQ(s.tensors.held[0].count, 2);
    CHECK_EQ(s.tensors_load.held_stacks[0], 3);
    CHECK_STR_EQ(s.tensors.held[0].text, "tensor\nkept[*]");
    CHECK_EQ(s.tensors.held[1].bytes, 4096);
    CHECK_EQ(s.tensors_load.held_stacks[1], 4);
    CHECK_EQ(s.tensors.held[2].bytes, 512);
    CHECK_STR_EQ(s.tensors.held[2].text, "no tensor\nno Python object");
    REQUIRE_EQ(s.tensors.walk_count, 1);
    CHECK_EQ(s.tensors.walk[0].bytes, 3 * 4096 + 512);
    CHECK_EQ(s.tensors.walk[0].count, 4);
    CHECK_EQ(s.tensors.walk[0].failures, 0);
    const char **told = inside_told(&s.tensors_load);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_STR_EQ(told[i], "tensor\nkept[*]");
    CHECK(told[3] == NULL);
    CHECK(told[4] == NULL);
    free(told);
    end(&s);
}

TEST(of_a_walk_with_too_many_rows_the_rest_is_not_said_to_have_no_holder)
{
    struct scene s;
    struct read_held held[200];
    struct format_def_walk walk = {.def = {.id = 1}, .why = FORMAT_WALK_END, .time_ns = 2000};

    for (size_t i = 0; i < 200; i++)
        held[i] = (struct read_held){.walk = 1, .text = (char *)(uintptr_t) "tensor\nkept"};
    begin(&s);
    (void)tensor(&s, 0, 4096, 0, 900, 0);
    s.run.held = held;
    s.run.held_count = 200;
    s.run.walk = &walk;
    s.run.walk_count = 1;
    inside_join(&s.run_load, &s.tensors_load);
    CHECK_EQ(s.tensors.held_count, 0);
    CHECK_EQ(s.tensors.walk[0].bytes, 4096);
    end(&s);
}

TEST(each_walk_has_rows_and_addresses_of_its_own)
{
    struct scene s;
    struct read_held held[] = {{.walk = 1, .text = (char *)(uintptr_t) "tensor\nfirst"},
            {.walk = 2, .text = (char *)(uintptr_t) "tensor\nsecond"}};
    struct format_def_walk walks[] = {{.def = {.id = 1}, .why = FORMAT_WALK_GROWN, .time_ns = 1500},
            {.def = {.id = 2}, .why = FORMAT_WALK_GROWN, .time_ns = 2000}};
    uint64_t addresses[] = {SEGMENT, SEGMENT + 4096};
    struct read_held_at at[] = {{.walk = 1, .address = &addresses[0], .count = 1},
            {.walk = 2, .address = &addresses[1], .count = 1}};
    const char **told;

    begin(&s);
    uint32_t first = tensor(&s, 0, 4096, 0, 900, 1800);
    uint32_t second = tensor(&s, 4096, 4096, 0, 1900, 0);
    s.run.held = held;
    s.run.held_count = s.run.held_at_count = s.run.walk_count = 2;
    s.run.walk = walks;
    s.run.held_at = at;
    inside_join(&s.run_load, &s.tensors_load);
    told = inside_told(&s.tensors_load);
    REQUIRE(told[first] != NULL);
    CHECK_STR_EQ(told[first], "tensor\nfirst");
    REQUIRE(told[second] != NULL);
    CHECK_STR_EQ(told[second], "tensor\nsecond");
    free(told);
    end(&s);
}
