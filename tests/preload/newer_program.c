/* SPDX-License-Identifier: MIT */
/*
 * A program of CUDA 13.1 and later on the stub of such a driver (newer_driver.c). It asks for every form of newer_driver.def by
 * both forms of cuGetProcAddress, for every version, with and without per-thread streams, and by dlsym; calls what it gets with
 * arguments that are all different; and looks at what the driver has received. Exit 0: all of it is what arrives natively.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*look_1)(const char *, void **, int, uint64_t);
typedef int (*look_2)(const char *, void **, int, uint64_t, int *);
typedef int (*call_9)(
        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

struct form {
    const char *symbol, *name;
    int from;
    unsigned per_thread;
    const char *parameters;
};

static const struct form forms[] = {
#define FORM(symbol, name, from, per_thread, parameters) \
    {#symbol, name, from, per_thread, parameters},
#include "tests/preload/newer_driver.def"
};

enum {
    FORMS = sizeof forms / sizeof *forms,
};

static const int versions[] = {10000, 11030, 12000, 12010, 12020, 12030, 12050, 12060, 12080, 12090,
        13000, 13010, 13020, 13030, 13040, 13050, 13060, 14000};

static uint64_t memory[9][64]; /* zeros, which kedge may read and the driver may write */
static const char **newer_symbol;
static uint64_t *newer_arg;
static int of_driver, calls, wrong;
static void *ran_with;

static void function(void *data)
{
    ran_with = data;
}

static int callback(void *data, void *node, const void *was, const void *is, unsigned status)
{
    (void)node;
    (void)was;
    (void)is;
    ran_with = data;
    return (int)status;
}

/* No address of a number here is that of anything, and no two are alike. */
static uint64_t argument(const char *parameters, size_t i)
{
    switch (parameters[i]) {
    case 'i':
        return 3 + i;
    case 'n':
        return 0x1000000 * (i + 1);
    case 'z':
        return 0;
    case 'f':
        return (uint64_t)(uintptr_t)function;
    case 'c':
        return (uint64_t)(uintptr_t)callback;
    default:
        return (uint64_t)(uintptr_t)memory[i];
    }
}

/* A function of the program's may have been given to the driver in another's place, which calls it. */
static int runs(char kind, const uint64_t *got, const uint64_t *given)
{
    ran_with = NULL;
    if (kind == 'f')
        ((void (*)(void *))(uintptr_t)got[0])((void *)(uintptr_t)got[1]);
    else if (((int (*)(void *, void *, const void *, const void *, unsigned))(uintptr_t)got[0])(
                     (void *)(uintptr_t)got[1], NULL, NULL, NULL, 7)
            != 7)
        return 0;
    return ran_with == (void *)(uintptr_t)given[1];
}

static int arrived(const char *parameters, const uint64_t *given)
{
    for (size_t i = 0; parameters[i]; i++) {
        if (parameters[i] == 'f' || parameters[i] == 'c') {
            if (!runs(parameters[i], &newer_arg[i], &given[i]))
                return 0;
            i++;
        } else if (parameters[i] == 'i' ? (uint32_t)newer_arg[i] != given[i]
                                        : newer_arg[i] != given[i]) {
            return 0;
        }
    }
    return 1;
}

static void call(void *fn, const struct form *form, const char *route, int version, unsigned flag)
{
    uint64_t g[9] = {0};
    int result;

    for (size_t i = 0; form->parameters[i]; i++)
        g[i] = argument(form->parameters, i);
    *newer_symbol = NULL;
    calls++;
    result = ((call_9)fn)(g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8]);
    if (result == 0 && *newer_symbol && strcmp(*newer_symbol, form->symbol) == 0
            && arrived(form->parameters, g))
        return;
    wrong++;
    printf("%s by %s, version %d, flag %u: %s received (", form->symbol, route, version, flag,
            *newer_symbol ? *newer_symbol : "nobody has");
    for (size_t i = 0; form->parameters[i]; i++)
        printf("%s%llx for %llx", i ? ", " : "", (unsigned long long)newer_arg[i],
                (unsigned long long)g[i]);
    printf("), result %d\n", result);
}

/* The form that the driver has for this request, NULL = none. */
static const struct form *wanted(const char *name, int version, unsigned flag)
{
    const struct form *best = NULL;

    for (int i = 0; i < FORMS; i++)
        if (strcmp(forms[i].name, name) == 0 && forms[i].per_thread == flag
                && forms[i].from <= version && forms[i].from <= of_driver
                && (!best || forms[i].from > best->from))
            best = &forms[i];
    return best || !flag ? best : wanted(name, version, 0);
}

static void ask(const struct form *of, int version, unsigned flag, look_1 one, look_2 two)
{
    const struct form *form = wanted(of->name, version, flag);
    void *fn = NULL;
    int status = -1;
    int result = one(of->name, &fn, version, flag);

    if (form && result == 0 && fn)
        call(fn, form, "cuGetProcAddress", version, flag);
    else if (form || fn)
        wrong++, printf("%s %d: %d from cuGetProcAddress\n", of->name, version, result);
    fn = NULL;
    result = two(of->name, &fn, version, flag, &status);
    if (form && result == 0 && fn && status == 0)
        call(fn, form, "cuGetProcAddress_v2", version, flag);
    else if (form || fn)
        wrong++, printf("%s %d: %d from cuGetProcAddress_v2\n", of->name, version, result);
}

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    look_2 first = driver ? (look_2)dlsym(driver, "cuGetProcAddress_v2") : NULL;
    look_1 one = NULL;
    look_2 two = NULL;

    setvbuf(stdout, NULL, _IOLBF, 0);
    newer_symbol = driver ? dlsym(driver, "newer_symbol") : NULL;
    newer_arg = driver ? dlsym(driver, "newer_arg") : NULL;
    if (!first || !newer_symbol || !newer_arg)
        return 2;
    ((void (*)(int *))dlsym(driver, "cuDriverGetVersion"))(&of_driver);
    ((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
    if (first("cuGetProcAddress", (void **)&one, 11030, 0, NULL) != 0
            || first("cuGetProcAddress", (void **)&two, of_driver, 0, NULL) != 0)
        return 2;
    for (int i = 0; i < FORMS; i++) {
        void *fn = dlsym(driver, forms[i].symbol);

        if (fn)
            call(fn, &forms[i], "dlsym", 0, forms[i].per_thread);
        for (size_t k = 0; k < sizeof versions / sizeof *versions; k++)
            for (unsigned flag = 0; flag <= 2; flag += 2)
                ask(&forms[i], versions[k], flag, one, two);
    }
    printf("driver %d: %d calls, %d wrong\n", of_driver, calls, wrong);
    return wrong > 0 || calls < 500;
}
