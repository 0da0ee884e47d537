/* SPDX-License-Identifier: MIT */
/* covers: datakind.c framekind.c inside.c */
#include "tests/check.h"
#include "tests/unit/tools/story.h"

#include "tools/load/datakind.h"
#include "tools/symbols/symcache.h"

static const char names[] = "kedge-symbols\t1\n"
                            "m\t-\t1\t/usr/lib/libtorch_cuda.so\t\n"
                            "f\t10\nl\tat::cuda::getNewWorkspace()+0x28\t\t0\n"
                            "f\t20\nl\tat::native::addmm(at::Tensor const&)\t\t0\n";

/* A block of a stack whose first frame is at this offset. */
static uint32_t alloc_at(struct story *s, uint64_t offset, uint64_t size)
{
    struct trace_frame frames[] = {{0, offset}, {0, 0x20}};
    uint32_t block = story_alloc(s, offset, size);

    s->trace->blocks[block].stack = trace_add_stack(s->trace, frames, 2, false);
    return block;
}

/* What stays, and what its phase frees: of 2.15 a thread of the backward pass frees its own. */
TEST(a_workspace_of_cublas_is_neither_an_activation_nor_temporary_nor_unknown)
{
    struct story s = story_begin();
    struct trace_module module = {.path = (char *)(uintptr_t) "/usr/lib/libtorch_cuda.so",
            .identity = 1,
            .is_program = true};
    struct read_data look = {.kind = FORMAT_DATA_LOOK};
    struct read_capture capture = {.data = &look, .data_count = 1};
    char *why = NULL;
    struct symcache *cache = symcache_read(names, sizeof(names) - 1, &why);

    REQUIRE(cache != NULL);
    (void)trace_add_module(s.trace, &module);
    s.trace->names = cache;
    (void)story_enter(&s, "step");
    (void)story_enter(&s, "forward");
    uint32_t kept = alloc_at(&s, 0x10, 8 << 20);
    uint32_t passing = alloc_at(&s, 0x10, 8 << 20);
    uint32_t activation = alloc_at(&s, 0x20, 4096);
    uint32_t temporary = alloc_at(&s, 0x20, 8192);
    story_free(&s, passing);
    story_free(&s, temporary);
    story_exit(&s);
    (void)story_enter(&s, "backward");
    story_free(&s, activation);
    story_exit(&s);
    story_exit(&s);
    uint32_t outside = alloc_at(&s, 0x20, 512);

    struct load load = {.trace = s.trace, .capture = &capture};
    struct datakinds kinds = datakind_find(&load);
    REQUIRE(kinds.of != NULL);
    CHECK_EQ(kinds.of[kept], DATAKIND_WORKSPACES);
    CHECK_EQ(kinds.of[passing], DATAKIND_WORKSPACES);
    CHECK_EQ(kinds.of[activation], DATAKIND_ACTIVATIONS);
    CHECK_EQ(kinds.of[temporary], DATAKIND_TEMPORARY);
    CHECK_EQ(kinds.of[outside], DATAKIND_UNKNOWN);
    CHECK_STR_EQ(datakind_name(DATAKIND_WORKSPACES), "workspaces");
    datakind_done(&kinds);
    symcache_free(cache);
    story_end(&s);
}

/* A row of so many storages of 4096 bytes. */
static struct read_held walked(uint32_t walk, uint64_t count, const char *text)
{
    return (struct read_held){
            .walk = walk, .bytes = 4096 * count, .count = count, .text = (char *)(uintptr_t)text};
}

/* What a walk tells is of the block that lives at its address then, from its allocation to its free. */
TEST(a_walk_tells_the_kind_of_what_is_unknown_else)
{
    struct story s = story_begin();
    struct read_held held[] = {walked(7, 1, "tensor\nkept"),
            walked(1, 2, "parameter\nparameters of models[*]"),
            walked(1, 2,
                    "saved for backward\ngraph of curve[*]\na graph that no named tensor keeps"),
            walked(1, 2, "saved for backward\nbatches[*]\ngraph of curve[*]"),
            walked(1, 2,
                    "saved for backward\nnot looked for: of small blocks only the largest are")};
    struct read_data data[] = {{.kind = FORMAT_DATA_BUFFER,
                                       .seq = 1,
                                       .root = 1,
                                       .size = 4096,
                                       .text = (char *)(uintptr_t) "mean"},
            {.kind = FORMAT_DATA_LOOK}};
    struct format_def_walk walk = {.def = {.id = 1}, .why = FORMAT_WALK_GROWN, .time_ns = 100};
    struct trace_module module = {.path = (char *)(uintptr_t) "/usr/lib/libtorch_cuda.so"};
    uint64_t at[4][2];
    struct read_held_at held_at[4];
    uint32_t of[4][2];

    (void)trace_add_module(s.trace, &module);
    uint32_t named = story_alloc(&s, 1, 4096);
    uint32_t earlier = alloc_at(&s, 0x30, 4096);
    for (size_t row = 0; row < 4; row++)
        for (size_t i = 0; i < 2; i++) {
            of[row][i] = alloc_at(&s, 0x100 * (row + 1), 4096);
            s.trace->blocks[of[row][i]].stack = s.trace->blocks[of[row][0]].stack;
            at[row][i] = s.trace->blocks[of[row][i]].address;
        }
    at[0][1] = s.trace->blocks[named].address;
    for (size_t row = 0; row < 4; row++)
        held_at[row] = (struct read_held_at){1, (uint32_t)row, at[row], 2};
    story_free(&s, earlier);
    s.trace->blocks[earlier].died_ns = 50;
    uint64_t next = s.next_address;
    s.next_address = s.trace->blocks[earlier].address;
    uint32_t later = alloc_at(&s, 0x40, 4096);
    s.next_address = next;
    uint32_t equal = alloc_at(&s, 0x100, 4096);
    uint32_t as_some = alloc_at(&s, 0x300, 4096);
    s.trace->blocks[equal].stack = s.trace->blocks[of[0][0]].stack;
    s.trace->blocks[as_some].stack = s.trace->blocks[of[2][0]].stack;
    for (uint32_t i = later; i <= as_some; i++)
        s.trace->blocks[i].born_ns = 200;
    s.trace->events[s.trace->blocks[named].born].seq = 1;

    struct read_capture capture = {.data = data,
            .data_count = 2,
            .held = held,
            .held_count = 5,
            .held_at = held_at,
            .held_at_count = 4,
            .walk = &walk,
            .walk_count = 1};
    struct load load = {.trace = s.trace, .capture = &capture};
    struct datakinds kinds = datakind_find(&load);
    REQUIRE(kinds.of != NULL);
    CHECK_EQ(kinds.of[named], DATAKIND_BUFFERS); /* as the look says, whatever the walk */
    CHECK_EQ(kinds.of[of[0][0]], DATAKIND_PARAMETERS);
    CHECK_EQ(kinds.of[of[1][0]], DATAKIND_ACTIVATIONS);
    CHECK_EQ(kinds.of[of[2][0]], DATAKIND_UNKNOWN); /* a variable has it, too */
    CHECK_EQ(kinds.of[of[2][1]], DATAKIND_UNKNOWN);
    CHECK_EQ(kinds.of[of[3][0]], DATAKIND_ACTIVATIONS);
    CHECK_EQ(kinds.of[of[3][1]], DATAKIND_ACTIVATIONS);
    /* One lived then, and no row has it: the call site tells nothing. */
    CHECK_EQ(kinds.of[of[0][1]], DATAKIND_UNKNOWN);
    CHECK_EQ(kinds.of[equal], DATAKIND_UNKNOWN);
    CHECK_EQ(kinds.of[as_some], DATAKIND_UNKNOWN);
    datakind_done(&kinds);

    /* It came after the walk: all of the call site that lived then are parameters. */
    s.trace->blocks[of[0][1]].born_ns = 200;
    kinds = datakind_find(&load);
    CHECK_EQ(kinds.of[of[0][1]], DATAKIND_PARAMETERS);
    CHECK_EQ(kinds.of[equal], DATAKIND_PARAMETERS);
    CHECK_EQ(kinds.of[as_some], DATAKIND_UNKNOWN);
    datakind_done(&kinds);

    held[2].bytes -= 2048; /* these are smaller than their blocks, as in segments */
    at[3][1] = s.trace->blocks[earlier].address;
    kinds = datakind_find(&load);
    CHECK_EQ(kinds.of[of[1][0]], DATAKIND_UNKNOWN);
    CHECK_EQ(kinds.of[of[3][0]], DATAKIND_UNKNOWN); /* not all of the row is found */
    CHECK_EQ(kinds.of[earlier], DATAKIND_UNKNOWN);  /* had ended */
    CHECK_EQ(kinds.of[later], DATAKIND_UNKNOWN);    /* came to its address after the walk */
    datakind_done(&kinds);
    story_end(&s);
}
