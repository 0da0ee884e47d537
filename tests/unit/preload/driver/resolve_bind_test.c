/* SPDX-License-Identifier: MIT */
/* covers: resolve.c route.c */
/* Which library is the driver, whatever comes in between; which look-ups get a hook; and when counts of them are news. */
#include "preload/base/elfsym.h"
#include "preload/base/guard.h"
#include "preload/base/linked.h"
#include "preload/base/msg.h"
#include "preload/caller/coverage.h"
#include "preload/caller/variables.h"
#include "preload/lookup/route.h"
#include "tests/check.h"

#include <dlfcn.h>
#include <link.h>

/* Hooks: one instruction each, so that they have addresses. */
#define HOOK(symbol, ...) __asm__(".text\n.globl " #symbol "\n" #symbol ":\n\tret\n");
#include "preload/base/hooks.def"

static unsigned warned;
static char unhooked[64], runtime[64];

bool coverage_is_memory(const char *name)
{
    return strncmp(name, "cuMem", 5) == 0;
}

void coverage_unhooked(const char *name)
{
    (void)snprintf(unhooked, sizeof unhooked, "%s", name);
}

void coverage_runtime(const char *name)
{
    (void)snprintf(runtime, sizeof runtime, "%s", name);
}

bool elfsym_may_have(const struct link_map *object, const char *name)
{
    (void)object;
    (void)name;
    return true;
}

const char *linked_before_us(const char *name)
{
    (void)name;
    return NULL;
}

struct linked linked_for(const void *caller, const char *name)
{
    (void)caller;
    (void)name;
    return (struct linked){.own = NULL};
}

bool linked_is_code(const void *address)
{
    (void)address;
    return true;
}

bool variables_stands_next(const char *name)
{
    (void)name;
    return false;
}

void msg_warn(const char *format, ...)
{
    CHECK(strncmp(format, "a second driver", 15) == 0);
    warned++;
}

/* ---- the loader's list: what the first search for the driver is told, and in the midst of it another thread's ---- */

static const char *lists[2];
static unsigned searches;

int __real_dl_iterate_phdr(
        int (*callback)(struct dl_phdr_info *info, size_t size, void *data), void *data);
int __wrap_dl_iterate_phdr(
        int (*callback)(struct dl_phdr_info *info, size_t size, void *data), void *data);

int __wrap_dl_iterate_phdr(
        int (*callback)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
    struct dl_phdr_info info = {.dlpi_name = NULL};

    if (searches >= 2 || !lists[searches])
        return __real_dl_iterate_phdr(callback, data);
    info.dlpi_name = lists[searches++];
    if (searches == 1 && lists[1])
        CHECK(resolve_ready());
    return callback(&info, sizeof info, data);
}

static void *function(void *library, const char *name)
{
    void *found = dlsym(library, name);

    REQUIRE(found != NULL);
    return found;
}

static void *open_driver(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    REQUIRE(library != NULL);
    return library;
}

static void *hook(void)
{
    return route_hook(SLOT_cuMemAlloc_v2);
}

static uint64_t counted(enum resolve_slot slot, enum resolve_route route)
{
    uint64_t counts[ROUTE_COUNT];

    (void)resolve_counts(slot, counts);
    return counts[route];
}

TEST(without_a_driver_nothing_is_bound)
{
    CHECK(!resolve_ready());
    CHECK_STR_EQ(resolve_driver_path(), "");
    CHECK(!resolve_has(SLOT_cuMemAlloc_v2));
    CHECK_EQ(REAL(cuMemAlloc_v2)(NULL, 0), CUDA_ERROR_NOT_FOUND);
}

TEST(the_library_of_that_name_is_the_driver_and_another_one_is_not_watched)
{
    void *first = open_driver(FIRST_DRIVER), *second;

    CHECK(route_dlsym(first, "cuMemAlloc_v2") == hook());
    CHECK_STR_EQ(resolve_driver_path(), FIRST_DRIVER);
    CHECK(resolve_has(SLOT_cuMemAlloc_v2));
    CHECK(!resolve_has(SLOT_cuMemFree_v2)); /* which it lacks */
    CHECK((void *)REAL(cuMemAlloc_v2) == function(first, "cuMemAlloc_v2"));
    CHECK(!route_dlsym(first, "cuMemFree_v2"));
    CHECK(!route_dlsym(first, "cuMemLater"));
    second = open_driver(SECOND_DRIVER);
    for (int i = 0; i < 2; i++)
        CHECK(!route_dlsym(second, "cuMemAlloc_v2"));
    CHECK_EQ(warned, 1);
    CHECK_EQ(counted(SLOT_cuMemAlloc_v2, ROUTE_DLSYM), 1);
    CHECK(route_dlsym(first, "cuMemAlloc_v2") == hook());
    CHECK_EQ(warned, 1);
    CHECK_EQ(counted(SLOT_cuMemAlloc_v2, ROUTE_DLSYM), 2);
    route_note_unwatched(second, "cuMemLater");
    CHECK_STR_EQ(unhooked, "");
    route_note_unwatched(first, "cuMemLater");
    CHECK_STR_EQ(unhooked, "cuMemLater");
    route_note_unwatched(first, "cudaMallocLater");
    CHECK_STR_EQ(runtime, "");
}

/* Two threads find two drivers: the one that is there first stays, in all that is known of it. */
TEST(a_driver_that_another_thread_has_bound_meanwhile_stays)
{
    void *first = open_driver(FIRST_DRIVER), *second = open_driver(SECOND_DRIVER);

    lists[0] = SECOND_DRIVER;
    lists[1] = FIRST_DRIVER;
    CHECK(resolve_ready());
    CHECK_EQ(searches, 2);
    CHECK_STR_EQ(resolve_driver_path(), FIRST_DRIVER);
    CHECK((void *)REAL(cuMemAlloc_v2) == function(first, "cuMemAlloc_v2"));
    CHECK(!route_dlsym(second, "cuMemAlloc_v2"));
    CHECK(route_dlsym(first, "cuMemAlloc_v2") == hook());
}

TEST(two_threads_that_find_the_same_driver_both_have_it)
{
    void *first = open_driver(FIRST_DRIVER);

    lists[0] = lists[1] = FIRST_DRIVER;
    CHECK(resolve_ready());
    CHECK_EQ(searches, 2);
    CHECK(route_dlsym(first, "cuMemAlloc_v2") == hook());
}

TEST(an_answer_of_the_driver_becomes_a_hook_by_its_function_or_by_its_range)
{
    void *first = open_driver(FIRST_DRIVER), *fn;
    static char somewhere[5]; /* each address becomes a function of its row */

    REQUIRE(resolve_ready());
    fn = function(first, "cuMemAlloc_v2");
    route_answer("cuMemAlloc", 12000, 0, &fn);
    CHECK(fn == hook());
    fn = &somewhere
                 [0]; /* no function that the driver exports: the row that has the version counts */
    route_answer("cuMemAlloc", 3020, 0, &fn);
    CHECK(fn == hook());
    fn = &somewhere[0];
    route_answer("cuMemAlloc", 3019, 0, &fn);
    CHECK(fn == &somewhere[0]);
    CHECK_STR_EQ(unhooked, "cuMemAlloc");
    route_answer("cuMemAlloc", HOOKS_NEWEST + 1, 0, &fn);
    CHECK(fn == &somewhere[0]);
    route_answer("cuMemFree", 12000, 0, &fn);
    CHECK(fn == route_hook(SLOT_cuMemFree_v2));
    CHECK((void *)REAL(cuMemFree_v2) == &somewhere[0]); /* this row's function all the same */
    fn = function(first, "cuMemLater");                 /* of a later driver */
    route_answer("cuMemHostAlloc", 12000, 0, &fn);
    CHECK(fn == function(first, "cuMemLater"));
    CHECK_STR_EQ(unhooked, "cuMemHostAlloc");
    fn = &somewhere[1];
    route_answer("cuGetProcAddress", 11999, 0, &fn);
    CHECK(fn == route_hook(SLOT_cuGetProcAddress));
    fn = &somewhere[2];
    route_answer("cuGetProcAddress", 12000, 0, &fn);
    CHECK(fn == route_hook(SLOT_cuGetProcAddress_v2));
    fn = &somewhere[3];
    route_answer("cuMemAllocAsync", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &fn);
    CHECK(fn == route_hook(SLOT_cuMemAllocAsync_ptsz));
    fn = &somewhere[4];
    route_answer("cuMemAllocManaged", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &fn);
    CHECK(fn == route_hook(SLOT_cuMemAllocManaged)); /* which has no such form */
    CHECK_EQ(counted(SLOT_cuMemAlloc_v2, ROUTE_GPA), 2);
    CHECK_EQ(counted(SLOT_cuMemHostAlloc, ROUTE_GPA), 0);
}

TEST(names_of_hooks_are_known_and_others_are_not)
{
    static const char *const others[] = {
            "", "c", "cu", "cuM", "cuMemAlloc_v", "cuMemAlloc_v3", "cudaMalloc", "xcuMemAlloc_v2"};

    CHECK(resolve_knows("cuMemAlloc_v2"));
    CHECK(resolve_knows("cuGetProcAddress"));
    CHECK(resolve_exports("cudaMalloc"));
    CHECK(!resolve_exports("cudaMallocLater"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(!resolve_knows(others[i]));
    CHECK(route_notes("cudaMallocLater") && route_notes("cudaFreeLater"));
    CHECK(route_notes("cudaHostAllocLater") && route_notes("cuMemLater"));
    CHECK(!route_notes("cudaMemcpy") && !route_notes("cuCtxCreate"));
}

/* At the first call, and whenever their number has grown sixteenfold. */
TEST(calls_are_news_as_their_number_grows)
{
    for (unsigned i = 1; i <= 70000; i++) {
        bool is_news = i == 1 || i == 17 || i == 257 || i == 4097 || i == 65537;

        resolve_note(SLOT_cuMemAlloc_v2, ROUTE_CALLED);
        CHECK_EQ(resolve_has_news(), is_news);
        CHECK_EQ(resolve_coverage_news(), is_news);
    }
    CHECK(!resolve_coverage_news());
}

TEST(calls_are_counted_by_the_way_that_they_came)
{
    uint64_t counts[ROUTE_COUNT] = {9, 9, 9, 9};

    CHECK(!resolve_counts(SLOT_cuMemAlloc_v2, counts));
    for (int route = 0; route < ROUTE_COUNT; route++)
        CHECK_EQ(counts[route], 0);
    for (int i = 0; i < 3; i++)
        resolve_note(SLOT_cuMemAlloc_v2, ROUTE_CALLED);
    CHECK(resolve_counts(SLOT_cuMemAlloc_v2, counts));
    CHECK_EQ(counts[ROUTE_CALLED], 3);
    CHECK_EQ(counts[ROUTE_LINKED], 3); /* never given out */
    resolve_note(SLOT_cuMemAlloc_v2, ROUTE_GPA);
    resolve_note(SLOT_cuMemAlloc_v2, ROUTE_DLSYM);
    resolve_note(SLOT_cuMemAlloc_v2, ROUTE_DLSYM);
    CHECK(resolve_counts(SLOT_cuMemAlloc_v2, counts));
    CHECK_EQ(counts[ROUTE_CALLED], 3);
    CHECK_EQ(counts[ROUTE_LINKED], 0);
    CHECK_EQ(counts[ROUTE_GPA], 1);
    CHECK_EQ(counts[ROUTE_DLSYM], 2);
    CHECK(!resolve_counts(SLOT_cuMemFree_v2, counts));
    resolve_note(SLOT_cuMemFree_v2, ROUTE_GPA);
    CHECK(resolve_counts(SLOT_cuMemFree_v2, counts));
    CHECK_EQ(counts[ROUTE_GPA], 1);
    (void)resolve_coverage_news();
    resolve_note_export((enum resolve_export)1);
    CHECK(resolve_coverage_news());
    resolve_note_export((enum resolve_export)1);
    CHECK(!resolve_coverage_news());
    CHECK_EQ(resolve_export_count((enum resolve_export)1), 2);
    CHECK_EQ(resolve_export_count((enum resolve_export)0), 0);
}
