/* SPDX-License-Identifier: MIT */
/* covers: export_take.c */
/*
 * Libraries that call the runtime that they are linked with, whichever way they came into the process. What came as the
 * dependency of another library has no list of its own for the loader to search (R97).
 */
#include "tests/preload/last_error.h"

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

static void check_gets_12(ask_fn ask)
{
    CHECK_EQ(ask(4096), cudaSuccess);
    CHECK_EQ(ask(too_much), cudaErrorMemoryAllocation);
    check_runtimes(cudaErrorMemoryAllocation, cudaSuccess);
}

static void check_gets_13(ask_fn ask)
{
    CHECK_EQ(ask(4096), cudaSuccess);
    CHECK_EQ(ask(too_much), cudaErrorMemoryAllocation);
    check_runtimes(cudaSuccess, cudaErrorMemoryAllocation);
}

static void check_in_each_order(int flags_12, int flags_13, bool is_13_first)
{
    void *with_12, *with_13;

    if (is_13_first) {
        with_13 = opened(BEHIND_13_PATH, flags_13);
        check_gets_13(asker(with_13, "ask_behind_13"));
    }
    with_12 = opened(BEHIND_12_PATH, flags_12);
    check_gets_12(asker(with_12, "ask_behind_12"));
    with_13 = opened(BEHIND_13_PATH, flags_13);
    check_gets_13(asker(with_13, "ask_behind_13"));
    check_gets_12(asker(with_12, "ask_behind_12"));
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

TEST(r97_each_library_has_its_own_runtime_the_older_first)
{
    check_in_each_order(RTLD_LOCAL, RTLD_LOCAL, false);
}

TEST(r97_each_library_has_its_own_runtime_the_newer_first)
{
    check_in_each_order(RTLD_LOCAL, RTLD_LOCAL, true);
}

TEST(r97_each_library_has_its_own_runtime_the_older_global)
{
    check_in_each_order(RTLD_GLOBAL, RTLD_LOCAL, false);
}

TEST(r97_each_library_has_its_own_runtime_the_newer_global)
{
    check_in_each_order(RTLD_LOCAL, RTLD_GLOBAL, true);
}

TEST(r97_each_library_has_its_own_runtime_both_global)
{
    check_in_each_order(RTLD_GLOBAL, RTLD_GLOBAL, false);
}

/* Its maker forgot to link it with a runtime; the library that brings it along is linked with one. */
TEST(r97_a_library_without_a_runtime_has_that_of_its_user)
{
    check_gets_13(asker(opened(BEHIND_13_PATH, RTLD_LOCAL), "ask_behind_13"));
    check_gets_12(asker(opened(BRINGS_12_PATH, RTLD_LOCAL), "ask_brings_12"));
}

TEST(r97_a_library_without_a_runtime_has_that_of_another)
{
    (void)opened("libcudart.so.12", RTLD_GLOBAL);
    check_gets_12(asker(opened(BARE_PATH, RTLD_LOCAL | RTLD_LAZY), "ask_bare"));
}

static uintptr_t place_of(ask_fn ask)
{
    Dl_info info;

    REQUIRE(dladdr((void *)ask, &info));
    return (uintptr_t)info.dli_fbase;
}

/* The same addresses, another library with another runtime. */
TEST(r97_a_library_in_the_place_of_another_has_its_own_runtime)
{
    uintptr_t place = 0;
    int exchanged = 0;

    (void)opened("libcudart.so.12", RTLD_LOCAL); /* they stay, so that only the users come and go */
    (void)opened("libcudart.so.13", RTLD_LOCAL);
    for (int i = 0; i < 6; i++) {
        void *user = opened(i % 2 ? USER_12_PATH : USER_13_PATH, RTLD_LOCAL);
        ask_fn ask = asker(user, i % 2 ? "ask_user_12" : "ask_user_13");

        if (i % 2)
            check_gets_12(ask);
        else
            check_gets_13(ask);
        exchanged += place == place_of(ask);
        place = place_of(ask);
        REQUIRE(dlclose(user) == 0);
    }
    if (exchanged == 0)
        SKIP("the loader put each library elsewhere");
}

static ask_fn asked_meanwhile;

static void *ask_meanwhile(void *data)
{
    (void)data;
    CHECK_EQ(asked_meanwhile(4096), cudaSuccess);
    return NULL;
}

/* Found by the library that is being opened. */
extern __attribute__((visibility("default"))) void while_a_library_begins(void);
void while_a_library_begins(void)
{
    pthread_t thread;

    REQUIRE_EQ(pthread_create(&thread, NULL, ask_meanwhile, NULL), 0);
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
}

/* Whoever opens a library holds the loader's lock, and its constructor may wait for a thread that comes through an export. */
TEST(r36_r97_a_thread_finds_its_runtime_while_another_holds_the_loaders_lock)
{
    asked_meanwhile = asker(opened(BEHIND_13_PATH, RTLD_LOCAL), "ask_behind_13");
    CHECK_EQ(asked_meanwhile(4096), cudaSuccess);
    (void)opened(BEGIN_PATH, RTLD_LOCAL);
}

/* Nothing of ours is in there: the runtime of that namespace is called, and asks a driver of that namespace. */
TEST(r97_a_dependency_in_another_namespace_is_left_alone)
{
    void *behind = dlmopen(LM_ID_NEWLM, BEHIND_13_PATH, RTLD_NOW);

    REQUIRE(behind);
    CHECK_EQ(asker(behind, "ask_behind_13")(4096), cudaSuccess);
    check_gets_13(asker(opened(BEHIND_13_PATH, RTLD_LOCAL), "ask_behind_13"));
}
