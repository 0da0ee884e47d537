/* SPDX-License-Identifier: MIT */
/*
 * Libraries that call the runtime that they are linked with, whichever way they came into the process. What came as the
 * dependency of another library has no list of its own for the loader to search (R97).
 */
#include "tests/preload/linked.h"

typedef int (*ask_fn)(size_t size);

static void *opened(const char *path, int flags)
{
    void *handle = dlopen(path, RTLD_NOW | flags);

    if (!handle)
        printf("    %s\n", dlerror());
    REQUIRE(handle);
    return handle;
}

static ask_fn asker(void *library, const char *name)
{
    ask_fn ask = (ask_fn)dlsym(library, name);

    REQUIRE(ask);
    return ask;
}

static void check_gets_13(ask_fn ask)
{
    CHECK_EQ(ask(4096), cudaSuccess);
    CHECK_EQ(ask(too_much), cudaErrorMemoryAllocation);
    check_runtimes(cudaSuccess, cudaErrorMemoryAllocation);
}

TEST(r97_a_dependency_of_a_library_that_is_opened_calls_its_runtime)
{
    check_gets_13(asker(opened(BEHIND_13_PATH, RTLD_LOCAL), "ask_behind_13"));
}

TEST(r97_so_it_is_with_rtld_global)
{
    check_gets_13(asker(opened(BEHIND_13_PATH, RTLD_GLOBAL), "ask_behind_13"));
}

TEST(r97_so_it_is_with_kedge_switched_off)
{
    REQUIRE(setenv("KEDGE_MODE", "off", 1) == 0);
    check_gets_13(asker(opened(BEHIND_13_PATH, RTLD_LOCAL), "ask_behind_13"));
}

TEST(r97_so_it_is_while_calls_are_only_recorded)
{
    REQUIRE(setenv("KEDGE_MODE", "track", 1) == 0);
    check_gets_13(asker(opened(BEHIND_13_PATH, RTLD_LOCAL), "ask_behind_13"));
}

TEST(r97_a_dependency_of_a_dependency_calls_its_runtime)
{
    check_gets_13(asker(opened(FAR_BEHIND_13_PATH, RTLD_LOCAL), "ask_far_behind_13"));
}

TEST(r97_a_library_that_is_opened_after_its_dependency_calls_its_runtime)
{
    void *user = opened(USER_13_PATH, RTLD_LOCAL);

    check_gets_13(asker(opened(BEHIND_13_PATH, RTLD_LOCAL), "ask_behind_13"));
    check_gets_13(asker(user, "ask_user_13"));
}

TEST(r97_a_dependency_calls_its_runtime_from_its_constructor)
{
    void *behind = opened(BEHIND_BEGINS_PATH, RTLD_LOCAL);
    const int *began = dlsym(behind, "began_begins_13");

    REQUIRE(began);
    CHECK_EQ(*began, cudaSuccess);
    check_gets_13(asker(behind, "ask_behind_begins"));
}

/* Nothing of ours is in there: the runtime of that namespace is called, and asks a driver of that namespace. */
TEST(r97_a_dependency_in_another_namespace_is_left_alone)
{
    void *behind = dlmopen(LM_ID_NEWLM, BEHIND_13_PATH, RTLD_NOW);

    REQUIRE(behind);
    CHECK_EQ(asker(behind, "ask_behind_13")(4096), cudaSuccess);
    check_gets_13(asker(opened(BEHIND_13_PATH, RTLD_LOCAL), "ask_behind_13"));
}
