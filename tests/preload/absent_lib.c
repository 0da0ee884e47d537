/* SPDX-License-Identifier: MIT */
/* A library that makes look-ups of its own: compiled once as a plugin that is linked with the driver, once as what that is linked with. */
#include <dlfcn.h>

#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)

__attribute__((visibility("default"))) void *NAME(ABSENT_LIB, _default)(const char *name);
__attribute__((visibility("default"))) void *NAME(ABSENT_LIB, _next)(const char *name);

/* The answer is held, so that the call is made from here and is no jump. */
void *NAME(ABSENT_LIB, _default)(const char *name)
{
    void *volatile found = dlsym(RTLD_DEFAULT, name);

    return found;
}

void *NAME(ABSENT_LIB, _next)(const char *name)
{
    void *volatile found = dlsym(RTLD_NEXT, name);

    return found;
}
