/* SPDX-License-Identifier: MIT */
/* covers: bypass.c */
/* Who asks for memory behind a shared runtime, where no stack was taken. */
#include "preload/caller/bypass.h"
#include "tests/check.h"
#include "tracker/base/config.h"
#include "tracker/stacks/intern.h"
#include "tracker/stacks/modules.h"

enum {
    FRAMES = 16, /* of a walk, at most */
    RUNTIME = 1,
    OTHER,
    LISTED,
};

/* Modules by number; an address is its module's number, above 9 that of none. */
static const struct intern_module modules[] = {
        [RUNTIME] = {.path = RUNTIME, .kind = INTERN_MODULE_CUDA},
        [OTHER] = {.path = OTHER, .kind = INTERN_MODULE_PROGRAM},
        [LISTED] = {.path = LISTED, .kind = INTERN_MODULE_PROGRAM},
};
static const char *frames; /* a digit for each */

uint32_t modules_at(uintptr_t address)
{
    return address <= LISTED ? (uint32_t)address : 0;
}

const struct intern_module *intern_module_at(uint32_t module)
{
    return module ? &modules[module] : NULL;
}

const char *intern_text(uint32_t string)
{
    return string == LISTED ? "/lib/libc.so.6" : "/lib/libother.so";
}

unsigned intern_frames(uint32_t leaf, struct intern_frame *ret_frames, unsigned max)
{
    (void)leaf;
    (void)ret_frames;
    (void)max;
    return 0;
}

const char *config_env(char *const *env, const char *name)
{
    (void)env;
    (void)name;
    return NULL;
}

int __wrap_backtrace(void **buffer, int size);

/* The C library may have used more of the buffer than it has found frames. */
int __wrap_backtrace(void **buffer, int size)
{
    int n = (int)strlen(frames);

    CHECK_EQ(size, FRAMES);
    for (int i = 0; i < size; i++)
        buffer[i] = (void *)(uintptr_t)(i < n ? frames[i] - '0' : LISTED);
    return n;
}

TEST(the_first_frame_outside_of_cuda_is_who_asks)
{
    static const struct {
        const char *frames;
        bool wants;
    } cases[] = {{"", false}, {"1", false}, {"11", false}, {"12", false}, {"13", true}, {"3", true},
            {"193", true}, {"11111113", true}, {"123", false}, {"132", true}, {"9", false},
            {"1111111111111111", false}, {"1111111111111113", true}};
    struct tag tag = {.stack = 0};
    const void *runtime = (const void *)(uintptr_t)RUNTIME;

    bypass_init("libc.so*"); /* it is there */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        frames = cases[i].frames;
        if (bypass_wants(&tag, runtime, NULL) != cases[i].wants) {
            printf("    \"%s\"\n", frames);
            CHECK(false);
        }
    }
}

TEST(where_the_caller_or_its_asker_is_known_nothing_is_walked)
{
    struct tag tag = {.stack = 0};
    const void *at[10];

    for (uintptr_t i = 0; i < 10; i++)
        at[i] = (const void *)i;
    frames = "3";
    bypass_init("libc.so*");
    CHECK(!bypass_wants(&tag, at[OTHER], NULL));
    CHECK(bypass_wants(&tag, at[LISTED], NULL));
    CHECK(!bypass_wants(&tag, at[RUNTIME], at[OTHER]));
    CHECK(bypass_wants(&tag, at[RUNTIME], at[LISTED]));
    CHECK(!bypass_wants(&tag, at[9], NULL));
    CHECK(bypass_spares(at[OTHER], NULL));
    CHECK(!bypass_spares(at[LISTED], NULL));
    CHECK(!bypass_spares(at[RUNTIME], NULL)); /* a library of the list is there */
    CHECK(bypass_spares(at[RUNTIME], at[OTHER]));
    CHECK(!bypass_spares(at[9], NULL));
}
