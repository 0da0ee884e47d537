/* SPDX-License-Identifier: MIT */
/*
 * lookups.c - asks a driver every look-up that a program can make, and judges the answers.
 *
 *     lookups record FILE NAMES HOW [VERSIONS]           without kedge: writes the answers, compares hooks.def with them
 *     lookups off|track|pool FILE NAMES HOW [VERSIONS]   under kedge in that mode: compares the answers with the recorded ones
 *
 * NAMES     a file of names, one a line
 * HOW       none, local, global: how the driver is opened; linked: the program is linked with it (compiled with LINKED)
 * VERSIONS  every how manieth CUDA version is asked for (1)
 *
 * Asked, for each name: dlsym by the driver's handle, RTLD_DEFAULT, RTLD_NEXT and the program's own handle, dlvsym, before and
 * after the driver is opened; both forms of cuGetProcAddress with each version and flag, before and after cuInit; in a linked
 * program the weak references to all hooks.
 *
 * The right answer: in mode off the driver's own. Otherwise the hook of the row of hooks.def whose function the driver gave;
 * the hook of the row with this name, version and flag if what it gave is no exported function (R100); else the driver's own. Codes, statuses
 * and pointers that were left alone are always the driver's.
 *
 * Prints the differences, at most SHOWN, and "lookups: N comparisons, N differences". Exit 0; 2: nothing could be asked.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAMES_MAX = 4096,
    ROWS_MAX = 1024,
    CACHE = 8192, /* a power of two, more than there are functions */
    SHOWN = 12,
    PER_THREAD = 2, /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
};

/* Where a pointer leads. A driver's function is its offset there. */
enum {
    PLACE_UNTOUCHED = -1,
    PLACE_NULL = -2,
    PLACE_ELSEWHERE = -3,
    PLACE_MISSING = -4, /* an export of kedge that is no row */
    PLACE_HOOK = -1000, /* and the number of a row below it */
};

struct answer {
    int32_t code, status;
    int64_t place;
};

struct row {
    const char *symbol, *name;
    int from, to;
    unsigned per_thread;
    int64_t place; /* the offset of its function in the driver */
};

typedef int (*get_v1)(const char *, void **, int, uint64_t);
typedef int (*get_v2)(const char *, void **, int, uint64_t, int *);

static struct row rows[] = {
#define HOOK(symbol, name, from, to, per_thread, ...) \
    {#symbol, name, from, to, per_thread, PLACE_NULL},
#include "preload/base/hooks.def"
};
enum {
    ROWS = sizeof rows / sizeof *rows,
};

static const int versions[] = {2000, 3000, 3020, 4000, 5000, 6050, 7000, 8000, 10000, 10020, 11000,
        11020, 11030, 11040, 11060, 11070, 11080, 12000, 12010, 12020, 12030, 12040, 12050, 12080,
        13000, 13010, 13050, 13060, 99000};

#ifdef LINKED
#    define HOOK(symbol, ...) extern int symbol(void) __attribute__((weak));
#    include "preload/base/hooks.def"
static int (*const weak[])(void) = {
#    define HOOK(symbol, ...) symbol,
#    include "preload/base/hooks.def"
};
#endif

static char *names[NAMES_MAX];
static int name_count;
static const char *mode;
static int version_step = 1;
static FILE *record;
static uintptr_t driver_base;
static uint64_t comparisons, differences;
static struct {
    const void *fn;
    int64_t place;
} cache[CACHE];

static void lookups_differ(const char *what, const char *name, const char *why)
{
    if (differences++ < SHOWN)
        printf("%s %s: %s\n", what, name, why);
}

/* ---- where a pointer leads -------------------------------------------------------------------- */

static int64_t lookups_hook_place(const char *symbol)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].symbol, symbol) == 0)
            return PLACE_HOOK - i;
    return PLACE_MISSING;
}

static int64_t lookups_find_place(const void *fn)
{
    Dl_info info;

    if (!dladdr(fn, &info) || !info.dli_fname)
        return PLACE_ELSEWHERE;
    if ((uintptr_t)info.dli_fbase == driver_base)
        return (int64_t)((uintptr_t)fn - driver_base);
    if (!strstr(info.dli_fname, "libkedge"))
        return PLACE_ELSEWHERE;
    return info.dli_sname ? lookups_hook_place(info.dli_sname) : PLACE_MISSING;
}

static int64_t lookups_place(const void *fn)
{
    size_t slot = ((uintptr_t)fn >> 4) * 0x9E3779B97F4A7C15 >> 51;

    if (!fn)
        return PLACE_NULL;
    while (cache[slot].fn && cache[slot].fn != fn)
        slot = (slot + 1) & (CACHE - 1);
    if (!cache[slot].fn) {
        cache[slot].place = lookups_find_place(fn);
        cache[slot].fn = fn;
    }
    return cache[slot].place;
}

static const char *lookups_where(int64_t place, char text[64])
{
    if (place <= PLACE_HOOK)
        snprintf(text, 64, "kedge's %s", rows[PLACE_HOOK - place].symbol);
    else if (place >= 0)
        snprintf(text, 64, "the driver's at 0x%llx", (unsigned long long)place);
    else
        snprintf(text, 64, "%s",
                place == PLACE_UNTOUCHED      ? "untouched"
                        : place == PLACE_NULL ? "nothing"
                                              : "something else");
    for (int i = 0; place >= 0 && i < ROWS; i++)
        if (rows[i].place == place)
            snprintf(text, 64, "the driver's %s", rows[i].symbol);
    return text;
}

/* ---- the right answer ------------------------------------------------------------------------- */

/* The row that hooks.def has for a request; -1: none. */
static int lookups_row_of(const char *name, int version, uint64_t flags)
{
    bool per_thread = (flags & PER_THREAD) != 0;
    int plain = -1;

    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) != 0 || version < rows[i].from
                || version >= (rows[i].to ? rows[i].to : HOOKS_NEWEST + 1))
            continue;
        if ((rows[i].per_thread != 0) == per_thread)
            return i;
        if (!rows[i].per_thread)
            plain = i;
    }
    return plain;
}

/* The row whose function of the driver this is; of several that which is asked for. */
static int lookups_row_at(int64_t place, const char *name, bool is_symbol)
{
    int found = -1;

    for (int i = 0; place >= 0 && i < ROWS; i++)
        if (rows[i].place == place) {
            if (strcmp(is_symbol ? rows[i].symbol : rows[i].name, name) == 0)
                return i;
            found = found < 0 ? i : found;
        }
    return found;
}

/* Whether the driver exports a function that begins there. */
static bool lookups_is_exported(int64_t place)
{
    Dl_info info;

    return place >= 0 && dladdr((void *)(driver_base + (uintptr_t)place), &info) && info.dli_saddr
            && (uintptr_t)info.dli_saddr == driver_base + (uintptr_t)place;
}

/* What kedge is to answer where the driver answers `native`; version 0: not by cuGetProcAddress. */
static int64_t lookups_right(int64_t native, const char *name, int version, uint64_t flags)
{
    int row = lookups_row_at(native, name, version == 0);

    if (native < 0 || strcmp(mode, "off") == 0)
        return native;
    if (row < 0 && version > 0 && !lookups_is_exported(native))
        row = lookups_row_of(name, version, flags);
    return row >= 0 ? PLACE_HOOK - row : native;
}

/* Without kedge: the row for a request is the one whose function the driver gave. */
static void lookups_judge_row(int64_t native, const char *name, int version, uint64_t flags)
{
    int row = lookups_row_of(name, version, flags);
    int given = lookups_row_at(native, name, false);
    char why[160], text[64];

    if (!lookups_is_exported(native))
        return;
    comparisons++;
    /* a version that is newer than the driver gets what the driver has */
    if (row >= 0 ? rows[row].place == native || rows[row].place == PLACE_NULL
                 : given < 0 || version > HOOKS_NEWEST)
        return;
    snprintf(why, sizeof why, "version %d flags %d is %s, the row is %s", version, (int)flags,
            lookups_where(native, text), row < 0 ? "none" : rows[row].symbol);
    lookups_differ("hooks.def", name, why);
}

static void lookups_take(
        const char *what, const char *name, struct answer got, int version, uint64_t flags)
{
    struct answer native;
    char why[256], is[64], was[64], wanted[64];
    int64_t right;

    if (strcmp(mode, "record") == 0) {
        fwrite(&got, sizeof got, 1, record);
        if (version > 0 && got.code == 0 && got.place >= 0)
            lookups_judge_row(got.place, name, version, flags);
        return;
    }
    if (fread(&native, sizeof native, 1, record) != 1) {
        printf("the record is too short at %s %s\n", what, name);
        exit(2);
    }
    comparisons++;
    right = lookups_right(native.place, name, version, flags);
    if (got.code == native.code && got.status == native.status && got.place == right)
        return;
    snprintf(why, sizeof why, "version %d flags %d: %d %d %s, natively %d %d %s, right is %s",
            version, (int)flags, got.code, got.status, lookups_where(got.place, is), native.code,
            native.status, lookups_where(native.place, was), lookups_where(right, wanted));
    lookups_differ(what, name, why);
}

/* ---- the questions ---------------------------------------------------------------------------- */

static void lookups_ask_symbol(const char *what, const char *name, void *handle)
{
    struct answer got = {0, 0, lookups_place(dlsym(handle, name))};

    lookups_take(what, name, got, 0, 0);
}

static void lookups_ask_symbols(const char *when, void *driver)
{
    void *self = dlopen(NULL, RTLD_NOW);
    char what[64];

    for (int i = 0; i < name_count; i++) {
        snprintf(what, sizeof what, "RTLD_DEFAULT%s", when);
        lookups_ask_symbol(what, names[i], RTLD_DEFAULT);
        snprintf(what, sizeof what, "RTLD_NEXT%s", when);
        lookups_ask_symbol(what, names[i], RTLD_NEXT);
        snprintf(what, sizeof what, "dlopen(NULL)%s", when);
        lookups_ask_symbol(what, names[i], self);
        if (driver) {
            struct answer got = {0, 0, PLACE_NULL};

            lookups_ask_symbol("dlsym", names[i], driver);
            got.place = lookups_place(dlvsym(driver, names[i], "libcuda.so.1"));
            /* a look-up with a version is not intercepted: the loader's own answer */
            got.place = got.place <= PLACE_HOOK ? PLACE_MISSING : got.place;
            lookups_take("dlvsym", names[i], got, 0, 0);
        }
    }
}

static void lookups_ask_driver(const char *form, get_v1 v1, get_v2 v2)
{
    const int count = sizeof versions / sizeof *versions;

    for (int i = 0; i < name_count; i++)
        for (int v = 0; v < count; v += version_step)
            for (uint64_t flags = 0; flags < 4; flags++) {
                void *fn = (void *)cache;
                struct answer got = {-1, -1, PLACE_UNTOUCHED};
                int version = versions[count - 1 - v];

                got.code = v2 ? v2(names[i], &fn, version, flags, &got.status)
                              : v1(names[i], &fn, version, flags);
                if (fn != (void *)cache)
                    got.place = lookups_place(fn);
                lookups_take(form, names[i], got, version, flags);
            }
}

static void lookups_ask_forms(void *driver)
{
    get_v1 v1 = (get_v1)dlsym(driver, "cuGetProcAddress");
    get_v2 v2 = (get_v2)dlsym(driver, "cuGetProcAddress_v2");

    if (v1)
        lookups_ask_driver("cuGetProcAddress", v1, NULL);
    if (v2)
        lookups_ask_driver("cuGetProcAddress_v2", NULL, v2);
}

/*
 * The loader binds a weak reference, so that it finds the export of a function that the driver lacks. Such a function must answer
 * CUDA_ERROR_NOT_FOUND (500), whatever the mode.
 */
static void lookups_ask_weak(void)
{
#ifdef LINKED
    for (int i = 0; i < ROWS; i++) {
        struct answer got = {0, 0, lookups_place((void *)weak[i])};

        if (rows[i].place == PLACE_NULL && got.place == PLACE_HOOK - i) {
            got.place = PLACE_NULL;
            got.code = ((int (*)(long, long, long, long, long, long, long, long))weak[i])(
                               0, 0, 0, 0, 0, 0, 0, 0)
                            == 500
                    ? 0
                    : 1;
        } else if (strcmp(mode, "off") == 0 && got.place == PLACE_HOOK - i) {
            got.place = rows[i].place; /* the export passes on to it */
        }
        lookups_take("weak", rows[i].symbol, got, 0, 0);
    }
#endif
}

/* ---- arranging -------------------------------------------------------------------------------- */

static bool lookups_read_names(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[256];

    while (file && name_count < NAMES_MAX && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        names[name_count++] = strdup(line);
    }
    return file && fclose(file) == 0 && name_count > 0;
}

static void lookups_know_driver(void *driver)
{
    Dl_info info;

    /* no hook: the driver's own in every mode */
    if (!dladdr(dlsym(driver, "cuDriverGetVersion"), &info))
        exit(2);
    driver_base = (uintptr_t)info.dli_fbase;
    memset(cache, 0, sizeof cache);
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(mode, "record") == 0)
            rows[i].place = lookups_place(dlsym(driver, rows[i].symbol));
        else if (fread(&rows[i].place, sizeof rows[i].place, 1, record) != 1)
            exit(2);
        if (strcmp(mode, "record") == 0)
            fwrite(&rows[i].place, sizeof rows[i].place, 1, record);
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 4 ? argv[4] : "";
    int scope = strcmp(how, "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
    void *driver = NULL;
    int (*init)(unsigned);

    if (argc < 5 || !lookups_read_names(argv[3]))
        return 2;
    mode = argv[1];
    version_step = argc > 5 ? atoi(argv[5]) : 1;
    record = fopen(argv[2], strcmp(mode, "record") == 0 ? "w" : "r");
    if (!record)
        return 2;
    if (strcmp(how, "linked") != 0)
        lookups_ask_symbols(" without a driver", NULL);
    if (strcmp(how, "none") != 0) {
        driver = dlopen("libcuda.so.1", RTLD_NOW | scope);
        if (!driver)
            return 2;
        lookups_know_driver(driver);
        lookups_ask_symbols("", driver);
        lookups_ask_weak();
        lookups_ask_forms(driver);
        init = (int (*)(unsigned))dlsym(driver, "cuInit");
        printf("cuInit %d\n", init(0));
        lookups_ask_forms(driver);
    }
    printf("lookups: %llu comparisons, %llu differences\n", (unsigned long long)comparisons,
            (unsigned long long)differences);
    return fclose(record) != 0 ? 2 : 0;
}
