/* SPDX-License-Identifier: MIT */
/* covers: datakind.c framekind.c */
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
