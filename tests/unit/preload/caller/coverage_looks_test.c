/* SPDX-License-Identifier: MIT */
/* covers: coverage.c */
/* When the loader is asked what came and went, and what the capture is told of calls that were seen and of those that were not. */
#include "preload/base/elfsym.h"
#include "preload/base/msg.h"
#include "preload/caller/bypass.h"
#include "preload/caller/coverage.h"
#include "tests/check.h"
#include "tracker/base/config.h"
#include "tracker/capture/capture.h"
#include "tracker/stacks/intern.h"
#include "tracker/where/anchor.h"

#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <unistd.h>

enum {
    OFTEN = 16,   /* requests of a thread that ask after something was opened or closed */
    APART = 1024, /* and how many do not, between two that do */
    HOOK = 3,     /* the one that has counts */
};

/* ---- what coverage.c asks ------------------------------------------------------------------- */

atomic_uint context_epoch = 1;
atomic_bool resolve_news;

/* The loader, with two objects beside one that has no dynamic section; behind the headers of each stands one that is not its. */
static unsigned long long adds, subs;
static size_t known =
        offsetof(struct dl_phdr_info, dlpi_subs) + sizeof subs; /* bytes that it fills */
static unsigned looks;
static const ElfW(Phdr) headers[3][3] = {
        {{.p_type = PT_LOAD}, {.p_type = PT_DYNAMIC, .p_vaddr = 0x80}},
        {{.p_type = PT_DYNAMIC, .p_vaddr = 0x40}, {.p_type = PT_LOAD},
                {.p_type = PT_DYNAMIC, .p_vaddr = 0x80}},
        {{.p_type = PT_LOAD}, {.p_type = PT_DYNAMIC, .p_vaddr = 0x40},
                {.p_type = PT_DYNAMIC, .p_vaddr = 0x80}}};
static const char *wants[3]; /* what the second of the objects is linked with, up to NULL */
static bool has_interpreter; /* the third one is one */

int __wrap_dl_iterate_phdr(
        int (*callback)(struct dl_phdr_info *info, size_t size, void *data), void *data);

int __wrap_dl_iterate_phdr(
        int (*callback)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
    int r = 0;

    for (uintptr_t i = 1; i <= 3 && r == 0; i++) {
        struct dl_phdr_info info = {.dlpi_addr = i * 0x1000,
                .dlpi_phdr = headers[i - 1],
                .dlpi_phnum = i == 1 ? 1 : 2,
                .dlpi_adds = adds,
                .dlpi_subs = subs};

        r = callback(&info, known, data);
    }
    return r;
}

void elfsym_each_wanted(const struct link_map *object, void (*tell)(const char *name))
{
    CHECK_EQ((uintptr_t)object->l_ld, object->l_addr + 0x40);
    for (unsigned i = 0; object->l_addr == 0x2000 && i < 3 && wants[i]; i++)
        tell(wants[i]);
}

bool elfsym_may_have(const struct link_map *object, const char *name)
{
    CHECK_STR_EQ(name, "PyGILState_GetThisThreadState");
    CHECK_EQ((uintptr_t)object->l_ld, object->l_addr + 0x40);
    return has_interpreter && object->l_addr == 0x3000;
}

static unsigned long long changes;

void bypass_loader_says(uint64_t now)
{
    changes = now;
    looks++;
}

static const char *cached; /* the launcher's word that a framework is to keep its cache */

const char *config_env(char *const *env, const char *name)
{
    CHECK(env == environ);
    return strcmp(name, "_KEDGE_CACHED") == 0 ? cached : NULL;
}

static struct bypass_caching frameworks[] = {
        {"first", "libfirst*", "FIRST=0", false, true},
        {"second", "libsecond*", "SECOND=0", true, true},
        {"third", "libthird*", "THIRD=0", true, false},
};

int bypass_caching_framework(unsigned which, struct bypass_caching *ret_caching)
{
    if (which >= sizeof frameworks / sizeof *frameworks)
        return -ENOENT;
    *ret_caching = frameworks[which];
    return 0;
}

static bool has_gone;
static unsigned changed, came, opened;
static struct where_stats stats;

bool where_code_has_gone(void)
{
    return has_gone;
}

void where_modules_changed(void)
{
    changed++;
}

void where_modules_came(void)
{
    came++;
}

void where_library_opened(void)
{
    opened++;
}

void where_stats(struct where_stats *ret_stats)
{
    *ret_stats = stats;
}

uint64_t where_stacks_cut(void)
{
    return stats.stacks_cut;
}

static uint64_t anchors, names_refused;

uint64_t anchor_lost(void)
{
    return anchors;
}

void intern_counts(struct intern_counts *ret_counts)
{
    *ret_counts = (struct intern_counts){.refused = names_refused};
}

static uint64_t counts[ROUTE_COUNT], exports[2];

bool resolve_counts(enum resolve_slot slot, uint64_t ret_counts[ROUTE_COUNT])
{
    memcpy(ret_counts, counts, sizeof counts);
    return (int)slot == HOOK && counts[ROUTE_CALLED] > 0;
}

const char *resolve_symbol(enum resolve_slot slot)
{
    CHECK_EQ((int)slot, HOOK);
    return "cuHook";
}

uint64_t resolve_export_count(enum resolve_export export)
{
    return export < 2 ? exports[export] : 0;
}

const char *resolve_export_name(enum resolve_export export)
{
    return export == 0 ? "cudaFirst" : export == 1 ? "cudaSecond" : "cudaOther";
}

bool resolve_knows(const char *name)
{
    return strcmp(name, "cuMemAlloc_v2") == 0;
}

bool resolve_coverage_news(void)
{
    return atomic_exchange(&resolve_news, false);
}

/* ---- what it tells -------------------------------------------------------------------------- */

static char told[8192]; /* what came since the last look at it, with blanks */
static unsigned lines;

static void tell(const char *format, ...)
{
    size_t used = strlen(told);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(told + used, sizeof told - used, format, args);
    va_end(args);
}

int capture_coverage(const char *hook, const char *route, uint64_t count)
{
    tell("%s/%s=%lu ", hook, route, (unsigned long)count);
    lines++;
    return 0;
}

int capture_setting(const char *name, const char *value)
{
    tell("%s=%s ", name, value);
    return 0;
}

void msg_warn(const char *format, ...)
{
    char line[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    tell("[%.24s] ", line);
}

static void are_told(const char *expected)
{
    CHECK_STR_EQ(told, expected);
    told[0] = '\0';
}

/* ---- the loader ----------------------------------------------------------------------------- */

/* Whether the next request of this thread asks. */
static bool asks(void)
{
    unsigned before = looks;

    coverage_look();
    return looks != before;
}

static void check_often(unsigned often)
{
    for (unsigned i = 0; i < often; i++) {
        CHECK(!coverage_is_quiet());
        CHECK(asks());
    }
    for (unsigned i = 0; i < APART; i++)
        CHECK(!asks());
}

TEST(a_request_asks_the_loader_after_news_and_then_seldom)
{
    check_often(OFTEN);
    check_often(1);
    check_often(1);
    atomic_fetch_add(&context_epoch, 1);
    check_often(OFTEN);
    check_often(1);
    has_gone = true; /* walks must not go through what is gone: each request asks */
    for (int i = 0; i < 3000; i++) {
        CHECK(!coverage_is_quiet());
        CHECK(asks());
    }
    has_gone = false;
    check_often(0);
    check_often(1);
}

TEST(quiet_requests_count_as_those_that_did_not_ask)
{
    for (int i = 0; i < OFTEN; i++)
        CHECK(asks());
    for (int i = 0; i < APART; i++)
        CHECK(i % 2 ? coverage_is_quiet() : !asks());
    CHECK(!coverage_is_quiet());
    CHECK(asks());
    CHECK(coverage_is_quiet());
    resolve_tell_news();
    CHECK(!coverage_is_quiet());
}

TEST(what_came_and_what_went_is_noticed_once)
{
    adds = 5;
    has_interpreter = true;
    coverage_look();
    CHECK_EQ(changes, 5);
    CHECK_EQ(changed, 0);
    CHECK_EQ(came, 0);
    CHECK_EQ(opened, 1);
    coverage_look();
    CHECK_EQ(opened, 1);
    subs = 2;
    coverage_look();
    CHECK_EQ(changes, 7);
    CHECK_EQ(changed, 1);
    coverage_look();
    CHECK_EQ(changed, 1);
    adds = 6;
    has_interpreter = false;
    coverage_look();
    CHECK_EQ(opened, 1);
    CHECK_EQ(came, 0);
    adds = 7;
    has_gone = true;
    coverage_look();
    CHECK_EQ(came, 1);
    coverage_look();
    CHECK_EQ(came, 1);
}

TEST(a_loader_that_does_not_count_changes_nothing)
{
    adds = 5;
    subs = 5;
    known--;
    has_interpreter = true;
    coverage_look();
    CHECK_EQ(changes, 0);
    CHECK_EQ(changed, 0);
    CHECK_EQ(opened, 0);
    known = sizeof(struct dl_phdr_info);
    coverage_look();
    CHECK_EQ(changes, 10);
    CHECK_EQ(changed, 1);
    CHECK_EQ(opened, 1);
}

TEST(a_framework_that_caches_is_told_once)
{
    adds = 1;
    coverage_look();
    are_told("[second caches memory by ] framework-pool.second=SECOND=0 "
             "framework-library.second=libsecond* [third may cache memory b] "
             "framework-pool.third=THIRD=0 framework-library.third=libthird* ");
    coverage_look();
    are_told("");
    frameworks[0].is_on = true;
    cached = "1";    /* the capture has it, and nobody advises against it */
    coverage_look(); /* nothing came */
    are_told("");
    adds = 2;
    coverage_look();
    are_told("framework-pool.first=FIRST=0 framework-library.first=libfirst* ");
    cached = NULL;
}

/* ---- counts --------------------------------------------------------------------------------- */

TEST(names_for_memory_are_told_from_others)
{
    static const char *const memory[] = {"cuMemAlloc_v2", "cuArrayCreate", "cuMipmappedArrayCreate",
            "cuIpcGetMemHandle", "cuMulticastCreate", "cuImportExternalMemory",
            "cuExternalMemoryGetMappedBuffer", "cuGraphAddMemcpyNode",
            "cuGraphMemFreeNodeGetParams", "cuLaunchKernel", "cuTexRefSetAddress",
            "cuGraphicsResourceGetMappedPointer", "cuMem"};
    static const char *const others[] = {"cuCtxCreate", "cuStreamCreate", "cuMe", "", "cudaMalloc",
            "cuGraphAddNode", "cuGraphicsResourceGetMapped", "xcuMemAlloc"};

    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        CHECK(coverage_is_memory(memory[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(!coverage_is_memory(others[i]));
}

TEST(counts_are_told_when_there_is_news_and_only_those_that_are_new)
{
    coverage_tell(false);
    are_told("");
    counts[ROUTE_DLSYM] = 1;
    counts[ROUTE_GPA] = 2;
    counts[ROUTE_CALLED] = 3;
    exports[1] = 4;
    coverage_tell(false); /* no news */
    are_told("");
    resolve_tell_news();
    coverage_tell(false);
    are_told("cuHook/dlsym=1 cuHook/cuGetProcAddress=2 cuHook/called=3 cudaSecond/symbol=4 ");
    counts[ROUTE_CALLED] = 30;
    counts[ROUTE_LINKED] = 5;
    resolve_tell_news();
    coverage_tell(false);
    are_told("cuHook/called=30 cuHook/symbol=5 ");
    exports[0] = exports[1] = 9;
    coverage_tell(true);
    are_told("cudaFirst/symbol=9 cudaSecond/symbol=9 ");
    coverage_tell(true);
    are_told("");
}

TEST(functions_without_a_hook_are_counted_by_name_and_way)
{
    coverage_unhooked("cuMemNew");
    CHECK(resolve_has_news());
    coverage_tell(false);
    are_told("cuMemNew/unhooked=1 ");
    coverage_unhooked("cuMemNew");
    CHECK(!resolve_has_news()); /* once per name */
    coverage_runtime("cudaMallocNew");
    coverage_runtime("cuMemNew");
    coverage_tell(false);
    are_told("cuMemNew/unhooked=2 cudaMallocNew/dlsym=1 cuMemNew/dlsym=1 ");
}

/* What does not fit is left out, and a long name is cut. */
TEST(there_is_room_for_192_names_of_55_bytes)
{
    char name[16];

    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof name, "cuMem%03d", i);
        coverage_unhooked(name);
    }
    coverage_unhooked("cuMem000");
    coverage_unhooked("cuMem199"); /* which is not one of them */
    coverage_tell(false);
    CHECK_EQ(lines, 192);
    CHECK(strncmp(told, "cuMem000/unhooked=2 cuMem001/unhooked=1 ", 40) == 0);
    CHECK(strstr(told, "cuMem191/unhooked=1 ") != NULL);
    CHECK(!strstr(told, "cuMem192"));
    CHECK(!resolve_has_news());
    coverage_unhooked("cuMem199");
    CHECK(!resolve_has_news());
}

TEST(a_name_of_more_than_55_bytes_is_cut)
{
    char name[80] = "", expected[96];

    for (int i = 0; i < 7; i++)
        strcat(name, "cuMem12345");
    coverage_unhooked(name);
    coverage_unhooked(name); /* known by what there is room for */
    coverage_tell(false);
    (void)snprintf(expected, sizeof expected, "%.55s/unhooked=2 ", name);
    are_told(expected);
}

/* Looked at when the first libraries are there, and again at the end. */
TEST(what_libraries_are_linked_with_is_told_if_it_has_no_hook)
{
    wants[0] = "cuMemAlloc_v2"; /* a hook */
    wants[1] = "cuMemNew";
    wants[2] = "printf";
    adds = 1;
    coverage_look();
    coverage_tell(false);
    CHECK(strstr(told, "cuMemNew/unhooked=1 ") != NULL);
    CHECK(!strstr(told, "cuMemAlloc_v2") && !strstr(told, "printf"));
    told[0] = '\0';
    adds = 2;
    wants[0] = "cuCtxNew"; /* not for memory */
    wants[1] = "cMemNew";
    wants[2] = "cuIpcNew";
    coverage_look();
    coverage_tell(false);
    CHECK(!strstr(told, "New"));
    coverage_tell(true);
    CHECK(strstr(told, "cuIpcNew/unhooked=1 ") != NULL);
    CHECK(!strstr(told, "cuCtxNew") && !strstr(told, "cMemNew"));
}

/* A definition in the capture is for good, so they are told at the first, at each doubling, and at the end. */
TEST(losses_are_told_as_they_double)
{
    static const struct {
        uint64_t now;
        bool ends;
        const char *told;
    } cases[] = {{1, false, "stacks_cut=1 "}, {1, true, ""}, {2, false, "stacks_cut=2 "},
            {3, false, ""}, {4, false, "stacks_cut=4 "}, {7, false, ""},
            {9, false, "stacks_cut=9 "}, {10, false, ""}, {10, true, "stacks_cut=10 "},
            {10, true, ""}};

    coverage_tell(true);
    are_told("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stats.stacks_cut = cases[i].now;
        coverage_tell(cases[i].ends);
        are_told(cases[i].told);
    }
    stats.stacks_lost = 1;
    stats.nth_lost = 2;
    anchors = 3;
    names_refused = 4;
    coverage_tell(false); /* of the others nobody has told news */
    are_told("");
    resolve_tell_news();
    coverage_tell(false);
    are_told("stacks_lost=1 nth_lost=2 anchors_lost=3 names_lost=4 ");
    anchors = 5;
    resolve_tell_news();
    coverage_tell(false);
    are_told("");
    coverage_tell(true);
    are_told("anchors_lost=5 ");
}
