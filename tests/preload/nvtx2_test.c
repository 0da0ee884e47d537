/* SPDX-License-Identifier: MIT */
/*
 * NVTX 2, a library with functions: a program that is linked with it, one that looks them up (Paddle), and a library that
 * knows of injection libraries itself, in which case nothing is told twice.
 */
#include "tests/preload/told.h"

#include <dlfcn.h>
#include <wchar.h>

int nvtxRangePushA(const char *name);
int nvtxRangePushW(const wchar_t *name);
int nvtxRangePop(void);
uint64_t nvtxRangeStartA(const char *name);
void nvtxRangeEnd(uint64_t id);
void nvtxMarkA(const char *name);
int nvtx2_count(void);

static const char all[] =
        "+outer +outer/wide -outer/wide !outer/moment -outer +first +second -first -second";

TEST(a_program_that_is_linked_with_it_is_heard)
{
    uint64_t first, second;

    told_begin();
    (void)told();
    CHECK_EQ(nvtxRangePushA("outer"), -2);
    CHECK_EQ(nvtxRangePushW(L"wide"), -2);
    CHECK_STR_EQ(told_path(), "outer/wide");
    CHECK_EQ(nvtxRangePop(), -2);
    nvtxMarkA("moment");
    CHECK_EQ(nvtxRangePop(), -2);
    first = nvtxRangeStartA("first");
    second = nvtxRangeStartA("second");
    CHECK_NE(first, second);
    nvtxRangeEnd(first);
    nvtxRangeEnd(second);
    CHECK_STR_EQ(told(), all);
    CHECK_EQ(nvtx2_count(), 9);
}

static void by_look_up(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*push)(const char *), (*pop)(void), (*count)(void);
    uint64_t (*start)(const char *), id;
    void (*end)(uint64_t);
    void (*mark)(const char *);

    REQUIRE(library);
    told_set();
    push = (int (*)(const char *))dlsym(library, "nvtxRangePushA");
    pop = (int (*)(void))dlsym(library, "nvtxRangePop");
    start = (uint64_t(*)(const char *))dlsym(library, "nvtxRangeStartA");
    end = (void (*)(uint64_t))dlsym(library, "nvtxRangeEnd");
    mark = (void (*)(const char *))dlsym(library, "nvtxMarkA");
    count = (int (*)(void))dlsym(library, "nvtx2_count");
    REQUIRE(push && pop && start && end && mark && count);
    CHECK(dlsym(library, "nvtxRangePushEx") == NULL);
    told_begin();
    (void)told();
    CHECK_EQ(push("step"), -2);
    mark("moment");
    CHECK_STR_EQ(told_path(), "step");
    CHECK_EQ(pop(), -2);
    id = start("epoch");
    CHECK_NE(id, 0);
    end(id);
    CHECK_STR_EQ(told(), "+step !step/moment -step +epoch -epoch");
    CHECK_EQ(count(), 5);
}

TEST(a_program_that_looks_its_functions_up_is_heard)
{
    by_look_up(NVTX2_PLAIN_PATH);
}

TEST(a_library_that_tells_us_by_itself_is_heard_once)
{
    by_look_up(NVTX2_INJECTS_PATH);
}
