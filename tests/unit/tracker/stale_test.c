/* SPDX-License-Identifier: MIT */
/* Code that was walked through goes away and other code comes to lie in its place. */
#include "tests/unit/tracker/track_help.h"

#include "tracker/intern.h"
#include "tracker/modules.h"

#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
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
        struct where_stats stats;

        if (places[i].base != places[0].base)
            SKIP("the loader put the second library elsewhere");
        CHECK(reaches(places[i].tag.stack, strrchr(paths[i], '/') + 1, (const void *)one_then_other,
                FUNCTION_BYTES));
        where_stats(&stats);
        if (unwind_engine() == UNWIND_ENGINE_LIBUNWIND)
            CHECK_EQ(stats.long_walks, i);
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

/* Nobody tells that the second one came: the first walk through it does, and those after it are right. */
TEST(a_library_that_comes_untold_is_noticed_by_the_first_walk)
{
    struct where_stats stats;
    struct place before = {0};
    struct tag tags[2];
    stale_fn function;
    void *library, *symbol;
    Dl_info info;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    if (unwind_engine() != UNWIND_ENGINE_LIBUNWIND)
        SKIP("no libunwind.so.8 here");
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
    where_stats(&stats);
    CHECK_EQ(stats.long_walks, 1);
    CHECK(reaches(tags[1].stack, "large", (const void *)main, FUNCTION_BYTES));
}

/* What nobody walked through may come and go: libunwind stays. So may what comes back to its own place. */
TEST(libraries_that_no_walk_went_through_cost_nothing)
{
    struct place place = {0};
    struct where_stats stats;
    void *library;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    library = dlopen(large, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        SKIP("no such library for this machine");
    where_modules_changed();
    (void)dlclose(library);
    for (int i = 0; i < 300; i++) { /* more often than places are remembered */
        library = ask_through(small, &place);
        (void)dlclose(library);
        where_modules_changed();
    }
    (void)ask_through(small, &place); /* in its own place, so that the next one lies elsewhere */
    REQUIRE(dlopen(large, RTLD_NOW | RTLD_LOCAL) != NULL);
    (void)ask_through(small, &place);
    where_stats(&stats);
    CHECK_EQ(stats.long_walks, 0);
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

/* ---- threads ---- */

struct walker {
    sem_t go, done;
    const char *path;
    struct place place;
    uint64_t long_walks;
    bool wants_end;
};

static void *walk_when_told(void *argument)
{
    struct walker *walker = argument;

    for (;;) {
        struct where_stats before, after;
        void *library;

        (void)sem_wait(&walker->go);
        if (walker->wants_end)
            return NULL;
        where_stats(&before);
        library = ask_through(walker->path, &walker->place);
        (void)dlclose(library);
        where_stats(&after);
        walker->long_walks = after.long_walks - before.long_walks;
        (void)sem_post(&walker->done);
    }
}

static void tell(struct walker *walker, const char *path)
{
    walker->path = path;
    (void)sem_post(&walker->go);
    (void)sem_wait(&walker->done);
}

/* A thread that began to walk after the exchange has nothing wrong in its memory, and keeps the quick way. */
TEST(only_threads_that_walked_before_go_the_long_way)
{
    struct walker old = {0}, young = {0};
    pthread_t threads[2];
    uintptr_t base;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    if (unwind_engine() != UNWIND_ENGINE_LIBUNWIND)
        SKIP("no libunwind.so.8 here");
    REQUIRE_EQ(sem_init(&old.go, 0, 0) + sem_init(&old.done, 0, 0), 0);
    REQUIRE_EQ(sem_init(&young.go, 0, 0) + sem_init(&young.done, 0, 0), 0);
    REQUIRE_EQ(pthread_create(&threads[0], NULL, walk_when_told, &old), 0);
    tell(&old, large);
    base = old.place.base;
    tell(&old, small);
    if (old.place.base != base)
        SKIP("the loader put the second library elsewhere");
    CHECK_EQ(old.long_walks, 1);
    CHECK(reaches(old.place.tag.stack, "small", (const void *)walk_when_told, 1000));
    REQUIRE_EQ(pthread_create(&threads[1], NULL, walk_when_told, &young), 0);
    tell(&young, small);
    CHECK_EQ(young.long_walks, 0);
    CHECK(reaches(young.place.tag.stack, "small", (const void *)walk_when_told, 1000));
    CHECK_EQ(young.place.tag.site, old.place.tag.site);
    old.wants_end = young.wants_end = true;
    (void)sem_post(&old.go);
    (void)sem_post(&young.go);
    (void)pthread_join(threads[0], NULL);
    (void)pthread_join(threads[1], NULL);
}

/* ---- two threads that learn of it at once ---- */

static sem_t is_telling, may_go_on;
static _Atomic bool stops; /* the next one */

/* The first time that backtrace() is looked for, the thread that does it is stopped there. */
static void *open_slowly(const char *file, int flags)
{
    if (strstr(file, "libc.so") && atomic_exchange(&stops, false)) {
        (void)sem_post(&is_telling);
        (void)sem_wait(&may_go_on);
    }
    return track_dlopen(file, flags);
}

/* One thread is about to tell the unwinder that code was replaced; the other walks meanwhile, and must not trust libunwind. */
TEST(a_thread_does_not_walk_before_the_unwinder_knows)
{
    struct where_opts opts = {.unwind = {.ops = {open_slowly, dlsym}}};
    struct walker first = {0}, second = {0};
    pthread_t threads[2];

    REQUIRE_EQ(where_init(&opts), 0);
    if (unwind_engine() != UNWIND_ENGINE_LIBUNWIND)
        SKIP("no libunwind.so.8 here");
    REQUIRE_EQ(sem_init(&is_telling, 0, 0) + sem_init(&may_go_on, 0, 0), 0);
    REQUIRE_EQ(sem_init(&first.go, 0, 0) + sem_init(&first.done, 0, 0), 0);
    REQUIRE_EQ(sem_init(&second.go, 0, 0) + sem_init(&second.done, 0, 0), 0);
    REQUIRE_EQ(pthread_create(&threads[0], NULL, walk_when_told, &first), 0);
    REQUIRE_EQ(pthread_create(&threads[1], NULL, walk_when_told, &second), 0);
    tell(&first, large);
    tell(&second, large);
    if (first.place.base != second.place.base)
        SKIP("the loader put the library elsewhere");
    first.path = small;
    atomic_store(&stops, true);
    (void)sem_post(&first.go);
    (void)sem_wait(&is_telling);
    tell(&second, small);
    CHECK_EQ(second.long_walks, 1);
    CHECK(reaches(second.place.tag.stack, "small", (const void *)walk_when_told, 1000));
    (void)sem_post(&may_go_on);
    (void)sem_wait(&first.done);
    CHECK(reaches(first.place.tag.stack, "small", (const void *)walk_when_told, 1000));
    first.wants_end = second.wants_end = true;
    (void)sem_post(&first.go);
    (void)sem_post(&second.go);
    (void)pthread_join(threads[0], NULL);
    (void)pthread_join(threads[1], NULL);
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
