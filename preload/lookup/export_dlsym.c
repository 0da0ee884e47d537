/* SPDX-License-Identifier: MIT */
#include "preload/base/exports.h"
#include "preload/base/guard.h"
#include "preload/caller/variables.h"
#include "preload/driver/life.h"
#include "preload/lookup/route.h"

#include <dlfcn.h>

/*
 * Every look-up of the program passes here. For RTLD_NEXT and RTLD_DEFAULT the C library decides by
 * its caller's address, so every look-up that is not answered here ends with a jump: this file is
 * compiled with sibling calls in every build type (CMakeLists.txt), and tests/preload proves it. No
 * work may follow the real call. Only relevant names ask whether kedge is wanted: the question
 * reads the environment, and warns of errors in it.
 */
static void *ours(void *handle, const char *name, const void *caller)
{
    bool is_nccl = name[0] == 'n' && name[1] == 'c';
    bool is_nvtx = name[0] == 'n' && name[1] == 'v' && name[2] == 't' && name[3] == 'x';
    void *instead;

    if (guard_depth() > 0 || !(is_nccl || is_nvtx || (name[0] == 'c' && name[1] == 'u')))
        return NULL;
    if (!resolve_exports(name) && !route_notes(name))
        return NULL;
    if (!life_is_wanted())
        return route_instead(handle, name, caller, false);
    /*
     * a name that only kedge exports would make a program believe that there is a driver, or that
     * the driver has the function
     */
    if (handle == RTLD_NEXT)
        return route_instead(handle, name, caller, true);
    if (is_nccl || is_nvtx)
        return is_nccl ? export_nccl(handle, name) : export_nvtx(handle, name);
    if (handle == RTLD_DEFAULT)
        return route_instead(handle, name, caller, true);
    if (resolve_knows(name))
        return route_dlsym(handle, name);
    instead = route_instead(handle, name, caller, true);
    if (!instead && route_notes(name))
        route_note_unwatched(handle, name);
    return instead;
}

/* No local variable may have its address taken: the compiler would keep the frame, and call. */
__attribute__((visibility("default"))) void *dlsym(void *restrict handle, const char *restrict name)
{
    void *(*real)(void *, const char *) = resolve_next_dlsym();
    void *hook;

    variables_check();
    hook = ours(handle, name, __builtin_return_address(0));

    if (hook == RESOLVE_HIDE)
        return resolve_next(name); /* not found, with the loader's own message */
    if (hook || !real)
        return hook;
    return real(handle, name);
}
