/* SPDX-License-Identifier: MIT */
#include "tests/check.h"

#include "preload/elfsym.h"

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

TEST(an_unknown_object_may_have_anything)
{
    CHECK(elfsym_may_have(NULL, "malloc"));
}
