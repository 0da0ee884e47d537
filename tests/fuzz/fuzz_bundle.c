/* SPDX-License-Identifier: MIT */
/* Any bundle and any table of names is read or refused: no crash, no leak, no endless work. */
#include "tools/symbols/bundle.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length);

static volatile uint64_t sink; /* so that nothing is left out */

/* Asks for what is in it and for what is not. */
static void use(const struct symcache *names)
{
    const struct trace_module wanted[] = {
            {.path = (char[]){"/x/lib.so"}, .build_id = {0xab, 0xcd}, .build_id_length = 2},
            {.path = (char[]){"/x/lib.so"}, .identity = 0x1234},
            {.path = (char[]){""}},
    };
    const struct dwarfnames_line *lines;
    const char *note;
    uint32_t number;
    size_t count;

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        if (!symcache_has_module(names, &wanted[i], &number, &note))
            continue;
        sink += strlen(note);
        for (uint64_t offset = 0; offset < 0x20; offset++) {
            if (!symcache_find(names, number, offset, &lines, &count))
                continue;
            for (size_t k = 0; k < count; k++)
                sink += strlen(lines[k].function) + (lines[k].file ? strlen(lines[k].file) : 0)
                        + lines[k].line;
        }
    }
}

static void read_names(const unsigned char *input, size_t length)
{
    char *why = NULL;
    struct symcache *names = symcache_read((const char *)input, length, &why);

    if (!names == !why)
        __builtin_trap(); /* promised: one of them */
    if (names)
        use(names);
    symcache_free(names);
    free(why);
}

static void read_bundle(const unsigned char *input, size_t length)
{
    struct read_capture *capture = NULL;
    struct symcache *names = NULL;
    char *why = NULL;
    char path[64];
    int fd = memfd_create("bundle", MFD_CLOEXEC);

    if (fd < 0 || write(fd, input, length) != (ssize_t)length)
        __builtin_trap();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    sink += bundle_is(path);
    if (bundle_open(path, &capture, &names, &why) == 0) {
        sink += capture->event_count;
        if (names)
            use(names);
    } else if (!why) {
        __builtin_trap(); /* promised: a line for the user */
    }
    read_close(capture);
    symcache_free(names);
    free(why);
    struct bundle_modules *modules = bundle_modules_new(path);
    char *file = bundle_module(modules, ".build-id/01/02");
    sink += file ? (uint64_t)file[0] : 0;
    free(file);
    bundle_modules_free(modules);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length)
{
    read_names(input, length);
    read_bundle(input, length);
    return 0;
}
