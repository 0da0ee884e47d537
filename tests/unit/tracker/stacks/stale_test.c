/* SPDX-License-Identifier: MIT */
/* covers: export_dlopen.c */
/* Code that was walked through goes away and other code comes to lie in its place. */
#include "tests/unit/tracker/track_help.h"

#include "tracker/stacks/intern.h"
#include "tracker/stacks/modules.h"

#include <link.h>
#include <stdlib.h>

typedef void (*ask_fn)(void *argument);
typedef void (*stale_fn)(ask_fn ask, void *argument);

struct place {
    uintptr_t base;
    struct tag tag;
};

static void ask(void *argument)
{
    (void)where_am_i(NULL, 4096, 0, argument);
    __asm__ volatile("" ::: "memory");
}

/* Opened, asked through and, if wanted, closed again. */
static void *ask_through(const char *path, struct place *ret_place)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "stale_ask") : NULL;
    stale_fn function;
    Dl_info info;

    if (!symbol)
        SKIP("no such library for this machine");
    REQUIRE(dladdr(symbol, &info));
    ret_place->base = (uintptr_t)info.dli_fbase;
    memcpy(&function, &symbol, sizeof function);
    where_modules_changed(); /* what the preloaded library does when the loader's count has changed */
    function(ask, &ret_place->tag);
    return library;
}

#define FUNCTION_BYTES 16384 /* more than any function in here has, a sanitizer's code included */

/* The frames of a stack: ask, the library, and then those of this file up to `function`. */
static bool reaches(uint32_t stack, const char *library, const void *function, size_t bytes)
{
    struct intern_frame frame[64];
    unsigned count = intern_frames(stack, frame, 64);
    const struct intern_module *second = count > 1 ? intern_module_at(frame[1].module) : NULL;

    if (!second || !strstr(intern_text(second->path), library))
        return false;
    for (unsigned i = 2; i < count; i++) {
        const struct intern_module *module = intern_module_at(frame[i].module);
        uintptr_t ip = module ? (uintptr_t)(frame[i].offset + module->bias) : 0;

        if (ip >= (uintptr_t)function && ip < (uintptr_t)function + bytes)
            return true;
    }
    return false;
}

static const char large[] = STALE_LARGE, small[] = STALE_SMALL;

/* One, the other in its place, and the first one again, all from one place in here. */
__attribute__((noinline)) static void one_then_other(const char *path, const char *then)
{
    const char *const paths[] = {path, then, path};
    struct place places[3] = {0};

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    for (size_t i = 0; i < 3; i++) {
        void *library = ask_through(paths[i], &places[i]);

        if (places[i].base != places[0].base)
            SKIP("the loader put the second library elsewhere");
        CHECK(reaches(places[i].tag.stack, strrchr(paths[i], '/') + 1, (const void *)one_then_other,
                FUNCTION_BYTES));
        REQUIRE_EQ(dlclose(library), 0);
    }
    CHECK_EQ(places[2].tag.site, places[0].tag.site);
    CHECK_EQ(places[2].tag.stack, places[0].tag.stack);
    CHECK_NE(places[1].tag.site, places[0].tag.site);
}

TEST(a_smaller_frame_in_the_place_of_a_larger_one_is_walked_rightly)
{
    one_then_other(large, small);
}

TEST(a_larger_frame_in_the_place_of_a_smaller_one_is_walked_rightly)
{
    one_then_other(small, large);
}

/* Nobody tells that the second one came; that the first one went was told. */
TEST(a_library_that_comes_untold_is_walked_rightly)
{
    struct place before = {0};
    struct tag tags[2];
    stale_fn function;
    void *library, *symbol;
    Dl_info info;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    /* its list is noted before, so that this takes no place then */
    library = dlopen(large, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library);
    where_modules_changed();
    (void)dlclose(library);
    where_modules_changed();
    library = ask_through(small, &before);
    (void)dlclose(library);
    where_modules_changed();
    library = dlopen(large, RTLD_NOW | RTLD_LOCAL);
    symbol = library ? dlsym(library, "stale_ask") : NULL;
    REQUIRE(symbol && dladdr(symbol, &info));
    if ((uintptr_t)info.dli_fbase != before.base)
        SKIP("the loader put the second library elsewhere");
    memcpy(&function, &symbol, sizeof function);
    for (int i = 0; i < 2; i++)
        function(ask, &tags[i]);
    for (int i = 0; i < 2; i++)
        CHECK(reaches(tags[i].stack, "large", (const void *)main, FUNCTION_BYTES));
}

static size_t pages_mapped(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    REQUIRE(file && fscanf(file, "%lu", &pages) == 1); // NOLINT(cert-err34-c)
    (void)fclose(file);
    return pages;
}

/* Two libraries come and go in turn: how many pages more that took after the first hundred times. */
static size_t pages_for_a_thousand(void)
{
    struct place place = {0};
    size_t before = 0;

    for (int i = 0; i < 1100; i++) {
        void *library = ask_through(i % 2 ? small : large, &place);

        (void)dlclose(library);
        where_modules_changed();
        if (i == 99)
            before = pages_mapped();
    }
    return pages_mapped() - before;
}

/* A plugin that is opened and closed for each step must not cost memory for each. */
TEST(libraries_that_come_and_go_take_no_memory)
{
#if defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer maps memory of its own for each library");
#endif
    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    CHECK_LT(pages_for_a_thousand(), 100);
}

/* ---- many libraries, and then one that comes and goes ---- */

enum {
    COPIES = 80
};

static void copy_small(char *to, const char *directory, int number)
{
    char name[32], command[2 * TRACK_PATH_MAX + 16];

    (void)snprintf(name, sizeof name, "lib%d.so", number);
    track_path(to, directory, name);
    (void)snprintf(command, sizeof command, "cp '%s' '%s'", small, to);
    REQUIRE_EQ(system(command), 0); // NOLINT(cert-env33-c)
}

/* More lists of modules than are kept have been there before: the two that come again and again are among the kept ones all the same. */
TEST(what_comes_and_goes_after_many_others_takes_no_memory_either)
{
    const char *directory = track_scratch();
    struct place place = {0};

#if defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer maps memory of its own for each library");
#endif
    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    for (int i = 0; i < COPIES; i++) {
        char path[TRACK_PATH_MAX], open_path[TRACK_PATH_MAX + 8];

        copy_small(path, directory, i);
        (void)snprintf(open_path, sizeof open_path, "./%s", path);
        (void)ask_through(open_path, &place);
    }
    CHECK_LT(pages_for_a_thousand(), 100);
    track_sweep();
}
