/* SPDX-License-Identifier: MIT */
/* covers: variables.c */
/* A library with variables that are named like functions of the driver, opened in each way. It runs as without kedge. */
#include "tests/check.h"

#include <dlfcn.h>
#include <pthread.h>

static void *library;

static int number(const char *function)
{
    int (*fn)(void) = (int (*)(void))dlsym(library, function);

    REQUIRE(fn);
    return fn();
}

static void *address(const char *function)
{
    void *(*fn)(void) = (void *(*)(void))dlsym(library, function);

    REQUIRE(fn);
    return fn();
}

static void open_it(const char *path, int mode)
{
    library = dlopen(path, RTLD_NOW | mode);
    REQUIRE(library);
}

static void check_use(void)
{
    CHECK_EQ(number("variables_are_unset"), 1);
    CHECK_EQ(number("variables_load"), 0);
    CHECK_EQ(number("variables_are_unset"), 0);
    CHECK_EQ(number("variables_use"), 0);
}

TEST(a_library_has_its_variables)
{
    open_it(VARIABLES_PATH, RTLD_LOCAL);
    check_use();
}

TEST(variables_in_the_global_scope_are_found_and_called_by_nobody)
{
    open_it(VARIABLES_PATH, RTLD_GLOBAL);
    check_use();
    CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == address("variables_at"));
    CHECK(dlsym(dlopen(NULL, RTLD_NOW), "cuMemAlloc_v2") == address("variables_at"));
    CHECK(dlsym(library, "cuMemAlloc_v2") == address("variables_at"));
}

/* Called by it, in its constructor. */
TEST(a_constructor_fills_them)
{
    open_it(CONSTRUCTS_PATH, RTLD_LOCAL);
    CHECK_EQ(number("variables_are_unset"), 0);
    CHECK_EQ(number("variables_use"), 0);
}

/* Closed and opened again, it may lie elsewhere, and everything of it is new. */
TEST(each_time_that_it_is_opened)
{
    for (int i = 0; i < 3; i++) {
        open_it(VARIABLES_PATH, RTLD_LOCAL);
        check_use();
        CHECK_EQ(dlclose(library), 0);
    }
}

static void *use_in_thread(void *unused)
{
    (void)unused;
    return (void *)(size_t)number("variables_use");
}

TEST(in_several_threads)
{
    pthread_t threads[4];
    void *result;

    open_it(VARIABLES_PATH, RTLD_LOCAL);
    check_use();
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, use_in_thread, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        REQUIRE(pthread_join(threads[i], &result) == 0);
        CHECK(result == NULL);
    }
}
