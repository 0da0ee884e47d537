/* SPDX-License-Identifier: MIT */
/*
 * calls.c - calls every function of a driver or a runtime with arguments that mean nothing, and prints the codes.
 *
 *     calls NAMES SKIP dlsym|gpa|linked [LIBRARY]
 *
 * NAMES  a file of "NAME KINDS" with a letter for each argument: p a pointer, n a number, h a handle or a function; "-" if that is
 *        not known. With `linked` the program has them itself (compiled with LINKED, calls_linked.h)
 * SKIP   a file of "ROUND NAME PATTERN": calls that are not made, since they end the program without kedge
 * gpa    found by cuGetProcAddress, in the form of the driver's own version and in that for per-thread streams
 *
 * The patterns, what stands in the arguments: z zeros; p pointers to zeroed memory; a, b both by turns; f one pointer. Where the
 * kinds are known: n no pointer and no handle, but numbers; q pointers and numbers; m the first pointer and numbers. There are two
 * rounds: before cuInit and after it (of a runtime two alike). Prints "NAME PATTERN" before a call, its code after it and what was
 * written through the pointers.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    NAMES_MAX = 4096,
    SKIP_MAX = 8192,
    ARGUMENTS = 12,
    PAGE = 8192,
    COUNT = 16,
    BUFFER = PAGE - COUNT,
    PATTERNS = 8,
    UNTYPED = 5, /* those that need no kinds */
    ROUNDS = 2,
    LARGEST = 100000, /* what is larger may be an address */
};

typedef int (*function)(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t,
        intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);
typedef int (*get_v1)(const char *, void **, int, uint64_t);

static const char patterns[PATTERNS + 1] = "zpabfnqm";
static struct {
    const char *name, *kinds; /* a letter for each argument, "": not known */
    function call;
} functions[NAMES_MAX];
static int count;
static char *skipped[SKIP_MAX];
static int skip_count;
static char *buffers[ARGUMENTS];

#ifdef LINKED
#    define NAME(name, kinds) int name(void);
#    include "calls_linked.h"
#    undef NAME
static void calls_find_linked(void)
{
#    define NAME(found, letters)          \
        functions[count].name = #found;   \
        functions[count].kinds = letters; \
        functions[count++].call = (function)(void *)(found);
#    include "calls_linked.h"
}
#else
static void calls_find_linked(void)
{
}
#endif

static void calls_note(const char *name, const char *kinds, void *fn)
{
    if (!fn || count == NAMES_MAX)
        return;
    functions[count].name = strdup(name);
    functions[count].kinds = strdup(kinds);
    functions[count++].call = (function)fn;
}

/* Memory whose address is a small number where a count of 32 bits is wanted. */
static void calls_map_buffers(void)
{
    for (int i = 0; i < ARGUMENTS; i++) {
        buffers[i] = mmap((void *)((uintptr_t)(i + 1) << 32), PAGE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (buffers[i] == MAP_FAILED)
            exit(2);
        buffers[i] += COUNT;
    }
}

static void calls_find(const char *line, const char *route, void *library)
{
    get_v1 get = (get_v1)dlsym(library, "cuGetProcAddress");
    int (*ask_version)(int *) = (int (*)(int *))dlsym(library, "cuDriverGetVersion");
    char name[256], kinds[256];
    int version = 0;

    if (sscanf(line, "%255s %255s", name, kinds) != 2)
        exit(2);
    if (strcmp(route, "dlsym") == 0) {
        calls_note(name, kinds, dlsym(library, name));
        return;
    }
    if (!get || !ask_version || ask_version(&version) != 0)
        exit(2);
    for (uint64_t flags = 0; flags <= 2; flags += 2) {
        void *fn = NULL;

        if (get(name, &fn, version, flags) == 0)
            calls_note(name, kinds, fn);
    }
}

/* An argument of a function whose kinds are known; `pointers` stand before it. */
static intptr_t calls_argument(char pattern, char kind, int pointers, int i)
{
    if (kind == 'n')
        return COUNT;
    return kind == 'p' && (pattern == 'q' || (pattern == 'm' && pointers == 0))
            ? (intptr_t)buffers[i]
            : 0;
}

static void calls_argue(char pattern, const char *kinds, intptr_t arguments[ARGUMENTS])
{
    int length = (int)strlen(kinds);
    int pointers = 0;

    for (int i = 0; i < ARGUMENTS; i++) {
        bool is_pointer = pattern == 'p' || (pattern == 'a' && i % 2 == 0)
                || (pattern == 'b' && i % 2 == 1) || (pattern == 'f' && i == 0);

        memset(buffers[i], 0, BUFFER);
        arguments[i] = is_pointer ? (intptr_t)buffers[i] : 0;
        if (strchr("nqm", pattern) && i < length) {
            arguments[i] = calls_argument(pattern, kinds[i], pointers, i);
            pointers += kinds[i] == 'p';
        }
    }
}

static void calls_tell_buffers(void)
{
    static const char zeros[BUFFER];

    for (int i = 0; i < ARGUMENTS; i++) {
        int64_t value;

        if (memcmp(buffers[i], zeros, BUFFER) == 0)
            continue;
        memcpy(&value, buffers[i], sizeof value);
        if (value > -LARGEST && value < LARGEST)
            printf(" %d:%lld", i, (long long)value);
        else
            printf(" %d:*", i);
    }
}

static void calls_make(int which, char pattern)
{
    intptr_t a[ARGUMENTS];
    int code;

    calls_argue(pattern, functions[which].kinds, a);
    printf("%s %c", functions[which].name, pattern);
    code = functions[which].call(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    if (code >= 0 && code < LARGEST)
        printf(" %d", code);
    else
        printf(" other");
    calls_tell_buffers();
    putchar('\n');
}

static bool calls_is_skipped(int round, const char *name, char pattern)
{
    char text[256];

    snprintf(text, sizeof text, "%d %s %c", round, name, pattern);
    for (int i = 0; i < skip_count; i++)
        if (strcmp(skipped[i], text) == 0)
            return true;
    return false;
}

static void calls_run(int round, int which)
{
    int last = *functions[which].kinds == '-' ? UNTYPED : PATTERNS;

    for (int i = 0; i < last; i++)
        if (!calls_is_skipped(round, functions[which].name, patterns[i]))
            calls_make(which, patterns[i]);
}

static void calls_read(const char *path, void (*take)(const char *, const char *, void *),
        const char *route, void *library)
{
    FILE *file = fopen(path, "r");
    char line[256];

    if (!file)
        exit(2);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        take(line, route, library);
    }
    fclose(file);
}

static void calls_take_skip(const char *line, const char *route, void *library)
{
    (void)route;
    (void)library;
    if (skip_count < SKIP_MAX)
        skipped[skip_count++] = strdup(line);
}

int main(int argc, char **argv)
{
    void *library = NULL;
    void *init;

    if (argc < 4)
        return 2;
    calls_map_buffers();
    setvbuf(stdout, NULL, _IONBF, 0);
    if (argc > 4)
        library = dlopen(argv[4], RTLD_NOW);
    if (argc > 4 && !library)
        return 2;
    if (strcmp(argv[3], "linked") == 0)
        calls_find_linked();
    else
        calls_read(argv[1], calls_find, argv[3], library);
    calls_read(argv[2], calls_take_skip, NULL, NULL);
    init = library ? dlsym(library, "cuInit") : NULL;
    for (int round = 0; round < ROUNDS; round++) {
        printf("round %d\n", round);
        for (int i = 0; i < count; i++)
            calls_run(round, i);
        if (round == 0 && init)
            printf("cuInit %d\n", ((int (*)(unsigned))init)(0));
    }
    printf("calls: %d functions\n", count);
    return 0;
}
