/* SPDX-License-Identifier: MIT */
/*
 * A small program of its own for where_test: loads libraries, asks from each, prints the sites.
 *
 *     where_helper LIBRARY...     per library: "site <hex> elsewhere <hex> base <hex>"
 *
 * Each library is closed again before the next one is opened, so that the next may land at the same address.
 */
#include "tests/unit/tracker/where_lib.h"
#include "tracker/where/where.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

__attribute__((noinline)) static void ask(uint64_t size, struct tag *ret_tag)
{
    (void)where_am_i(NULL, size, 0, ret_tag);
    __asm__ volatile("" ::: "memory"); /* no tail call: this frame is part of the site */
}

static lib_fn find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    lib_fn function = NULL;

    memcpy(&function, &symbol, sizeof function);
    return function;
}

int main(int argc, char **argv)
{
    struct where_opts opts = {.unwind = {.ops = {dlopen, dlsym}}};
    struct where_stats stats;

    if (where_init(&opts) < 0)
        return 2;
    for (int i = 1; i < argc; i++) {
        void *library =
                dlopen(argv[i], RTLD_NOW | RTLD_LOCAL); /* nothing was mapped since dlclose */
        struct tag tag = {0};
        struct tag other = {0};
        Dl_info info;

        if (!library) {
            (void)fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
        where_modules_changed();
        find(library, "lib_ask")(ask, &tag);
        find(library, "lib_ask_elsewhere")(ask, &other);
        (void)dladdr(dlsym(library, "lib_ask"), &info);
        printf("site %016" PRIx64 " elsewhere %016" PRIx64 " base %" PRIxPTR "\n", tag.site,
                other.site, (uintptr_t)info.dli_fbase);
        (void)dlclose(library);
    }
    where_stats(&stats);
    printf("nameless %" PRIu64 " program %s\n", stats.no_build_id, where_program());
    return 0;
}
