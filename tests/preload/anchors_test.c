/* SPDX-License-Identifier: MIT */
/* covers: source.c */
/* R90: a hint is keyed by what the program says of itself. Nothing that only looks like a step sets one off. */
#include "tests/preload/client.h"

#include "preload/base/kedge.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

enum {
    STEPS = 40,
    EACH = 3,
};

static char path[128];

static void hints_are(const char *pick)
{
    char text[512];
    int fd;

    (void)snprintf(path, sizeof path, "/tmp/kedge-test-anchors-%d.yaml", (int)getpid());
    (void)snprintf(text, sizeof text,
            "kedge-hints: 1\nhints:\n  - {id: a, do: release, pick: {%s}, when: {anchor: \"step\", "
            "edge: exit}}\n",
            pick);
    fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    REQUIRE(fchmod(fd, 0644) == 0 && close(fd) == 0);
    REQUIRE(setenv("KEDGE_HINTS", path, 1) == 0);
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trap", 1) == 0);
    client_init();
    (void)unlink(path);
}

/* One step of a loop as regular as any detector could wish, always from the same line. */
static void step(CUdeviceptr ptr[EACH])
{
    for (int i = 0; i < EACH; i++) {
        REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr[i], 8 * MB), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemsetD8_v2(ptr[i], 1, 4096), CUDA_SUCCESS);
    }
}

static void end_step(const CUdeviceptr ptr[EACH])
{
    for (int i = 0; i < EACH; i++)
        CHECK_EQ(cu->cuMemFree_v2(ptr[i]), CUDA_SUCCESS);
}

static bool is_released(CUdeviceptr ptr)
{
    unsigned char byte;
    CUresult r = cu->cuMemcpyDtoH_v2(&byte, ptr, 1);

    CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_INVALID_VALUE);
    return r == CUDA_ERROR_INVALID_VALUE;
}

TEST(r90_a_regular_loop_without_a_stated_anchor_releases_nothing)
{
    CUdeviceptr ptr[EACH];

    hints_are("size: 8388608");
    for (int i = 0; i < STEPS; i++) {
        step(ptr);
        KEDGE_MARK("other");
        for (int k = 0; k < EACH; k++)
            CHECK(!is_released(ptr[k]));
        end_step(ptr);
    }
    KEDGE_PUSH("step"); /* the same, stated */
    step(ptr);
    KEDGE_POP();
    for (int k = 0; k < EACH; k++)
        CHECK(is_released(ptr[k]));
    end_step(ptr);
}

TEST(r90_nth_counts_from_the_start_of_the_stated_anchor)
{
    CUdeviceptr ptr[EACH];

    hints_are("size: 8388608, nth: 1");
    for (int i = 0; i < 3; i++) {
        step(ptr); /* before the anchor: counts for nothing */
        end_step(ptr);
        KEDGE_PUSH("step");
        step(ptr);
        KEDGE_POP();
        for (int k = 0; k < EACH; k++)
            CHECK_EQ(is_released(ptr[k]), k == 1);
        end_step(ptr);
    }
}
