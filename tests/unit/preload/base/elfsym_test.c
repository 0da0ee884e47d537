/* SPDX-License-Identifier: MIT */
/* covers: elfsym.c */
#include "tests/check.h"

#include "preload/base/elfsym.h"

#include <dlfcn.h>
#include <link.h>

static struct link_map *object_of(const char *name)
{
    void *handle = dlopen(name, RTLD_NOW);
    struct link_map *object = NULL;

    REQUIRE(handle);
    REQUIRE(dlinfo(handle, RTLD_DI_LINKMAP, (void *)&object) == 0);
    return object;
}

TEST(what_the_loader_finds_may_be_there)
{
    static const char *const names[] = {
            "malloc", "qsort", "strtol", "environ", "pthread_create", "dlsym", "write", "fork"};
    struct link_map *libc = object_of("libc.so.6");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK(dlsym(libc, names[i]));
        CHECK(elfsym_may_have(libc, names[i]));
    }
}

TEST(what_the_loader_does_not_find_is_not_there)
{
    static const char *const names[] = {"cuMemAlloc_v2", "", "mallo", "mallocc", "no such thing"};
    struct link_map *libc = object_of("libc.so.6");
    struct link_map *libm = object_of("libm.so.6");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(!elfsym_may_have(libc, names[i]));
    CHECK(elfsym_may_have(libm, "cos"));
    CHECK(!elfsym_may_have(libc, "cos"));
    CHECK(!elfsym_may_have(libm, "malloc")); /* it uses it, and does not have it */
}

static bool wants_dlsym, wants_own;

static void listen(const char *name)
{
    wants_dlsym |= strcmp(name, "dlsym") == 0;
    wants_own |= strcmp(name, "main") == 0 || strcmp(name, "cos") == 0;
}

TEST(what_a_program_takes_from_others_is_told)
{
    struct link_map *self = dlopen(NULL, RTLD_NOW);

    elfsym_each_wanted(self, listen);
    CHECK(wants_dlsym);
    CHECK(!wants_own);
    wants_own = false;
    elfsym_each_wanted(object_of("libm.so.6"), listen);
    CHECK(!wants_own); /* that one has it itself */
}

TEST(an_unknown_object_may_have_anything)
{
    CHECK(elfsym_may_have(NULL, "malloc"));
}

TEST(a_function_is_where_the_loader_finds_it)
{
    /* of pthread_cond_wait the library has two versions, on most machines */
    static const char *const names[] = {
            "malloc", "qsort", "strtol", "dlsym", "fork", "pthread_cond_wait"};
    struct link_map *libc = object_of("libc.so.6");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_EQ(elfsym_function(libc, names[i]), dlsym(libc, names[i]));
    CHECK(!elfsym_function(libc, "cuMemAlloc_v2"));
    CHECK(!elfsym_function(object_of("libm.so.6"), "malloc"));
}

TEST(what_a_library_is_called_and_needs_is_told)
{
    struct link_map *libm = object_of("libm.so.6");

    CHECK_STR_EQ(elfsym_soname(libm), "libm.so.6");
    CHECK_STR_EQ(elfsym_needed(libm, 0), "libc.so.6");
    CHECK(!elfsym_needed(libm, 9));
    CHECK(!elfsym_soname(dlopen(NULL, RTLD_NOW)));
}

TEST(what_an_object_wants_is_not_what_it_has)
{
    CHECK(elfsym_wants(dlopen(NULL, RTLD_NOW), "dlsym"));
    CHECK(!elfsym_wants(object_of("libm.so.6"), "cos"));
    CHECK(!elfsym_wants(object_of("libm.so.6"), "cuMemAlloc_v2"));
}
