/* SPDX-License-Identifier: MIT */
#include "preload/cuda_abi.h"
#include "preload/guard.h"
#include "preload/life.h"
#include "preload/resolve.h"

#include <dlfcn.h>
#include <string.h>

/*
 * The choke point. For RTLD_NEXT and RTLD_DEFAULT the C library decides by its caller's address, so everything that is
 * not ours leaves by a jump: this file is compiled with sibling calls whatever the build type says (CMakeLists.txt), and
 * tests/preload proves it. No work may follow the real call.
 */
static void *ours(void *handle, const char *name)
{
    if (name[0] != 'c' || name[1] != 'u' || guard_depth() > 0 || handle == RTLD_NEXT
            || !life_is_wanted())
        return NULL;
    return handle == RTLD_DEFAULT ? NULL : resolve_dlsym(handle, name);
}

/* A name that only we have would make a program believe that there is a driver. */
static int hidden(const void *handle, const char *name)
{
    return handle == RTLD_DEFAULT && name[0] == 'c' && name[1] == 'u' && guard_depth() == 0
            && resolve_hides(name);
}

__attribute__((visibility("default"))) void *dlsym(void *restrict handle, const char *restrict name)
{
    void *(*real)(void *, const char *) = resolve_real_dlsym();
    void *hook = ours(handle, name);

    if (hook || !real)
        return hook;
    if (hidden(handle, name))
        handle = RTLD_NEXT; /* from our own place: not found, with the message that belongs to it */
    return real(handle, name);
}
