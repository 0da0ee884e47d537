/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 of CUDA 13.1 and later without a device: the forms of newer_driver.def. Each notes what it has received and
 * succeeds. NEWER_VERSION says which CUDA it is of; a look-up answers as drivers do: the newest form that is newer neither
 * than what was asked for nor than the driver.
 *
 * All parameters are numbers or addresses, so each function takes as many registers and words of stack as the longest form
 * has; whoever reads the note knows how many of them the caller has filled.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern const char *newer_symbol;
extern uint64_t newer_arg[9];
const char *newer_symbol; /* of the last form that was called */
uint64_t newer_arg[9];

/* clang-format off */
#define RECEIVES(linkage, symbol)                                                          \
    linkage int symbol(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, \
            uint64_t, uint64_t);                                                           \
    linkage int symbol(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, \
            uint64_t g, uint64_t h, uint64_t i)                                            \
    {                                                                                      \
        const uint64_t given[9] = {a, b, c, d, e, f, g, h, i};                             \
        memcpy(newer_arg, given, sizeof given);                                            \
        newer_symbol = #symbol;                                                            \
        return 0;                                                                          \
    }
/* clang-format on */
#define FORM(symbol, ...)   RECEIVES(extern, symbol)
#define HIDDEN(symbol, ...) RECEIVES(static, symbol)
#include "tests/preload/newer_driver.def"

static int version_of_driver(void)
{
    const char *text = getenv("NEWER_VERSION");

    return text ? atoi(text) : 13050;
}

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    return flags ? 1 : 0;
}

int cuDriverGetVersion(int *ret_version);
int cuDriverGetVersion(int *ret_version)
{
    *ret_version = version_of_driver();
    return 0;
}

int cuGetProcAddress(const char *name, void **ret_fn, int version, uint64_t flags);
int cuGetProcAddress_v2(
        const char *name, void **ret_fn, int version, uint64_t flags, int *ret_status);

static const struct {
    const char *name;
    int from;
    unsigned per_thread;
    void *fn;
} forms[] = {
#define FORM(symbol, name, from, per_thread, parameters) {name, from, per_thread, (void *)symbol},
#include "tests/preload/newer_driver.def"
        {"cuInit", 2000, 0, (void *)cuInit},
        {"cuDriverGetVersion", 2020, 0, (void *)cuDriverGetVersion},
        {"cuGetProcAddress", 11030, 0, (void *)cuGetProcAddress},
        {"cuGetProcAddress", 12000, 0, (void *)cuGetProcAddress_v2},
};

static void *newest(const char *name, int version, unsigned per_thread)
{
    void *fn = NULL;
    int from = 0;

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, name) == 0 && forms[i].per_thread == per_thread
                && forms[i].from <= version && forms[i].from <= version_of_driver()
                && forms[i].from > from) {
            from = forms[i].from;
            fn = forms[i].fn;
        }
    return fn;
}

int cuGetProcAddress_v2(
        const char *name, void **ret_fn, int version, uint64_t flags, int *ret_status)
{
    *ret_fn = flags & 2 ? newest(name, version, 2) : NULL;
    if (!*ret_fn)
        *ret_fn = newest(name, version, 0);
    if (ret_status)
        *ret_status = *ret_fn ? 0 : 1;
    return 0;
}

int cuGetProcAddress(const char *name, void **ret_fn, int version, uint64_t flags)
{
    int status;

    (void)cuGetProcAddress_v2(name, ret_fn, version, flags, &status);
    return status ? 500 : 0;
}
