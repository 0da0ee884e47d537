/* SPDX-License-Identifier: MIT */
/* How a door comes to stand in for a library's function, and finds it again. */
#include "preload/doors.h"
#include "preload/guard.h"
#include "preload/msg.h"
#include "preload/resolve.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct search {
    const char *base;
    void *handle;
};

enum {
    CALLERS = 16, /* a power of two */
};

/* Places whose object calls the first library that was found. Others are asked for one of their own each time. */
static __thread const void *callers[CALLERS] __attribute__((tls_model("initial-exec")));

static const void **plain_caller(const void *caller)
{
    return &callers[(uintptr_t)caller / 4 % CALLERS];
}

static int is_library(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    const char *base = slash ? slash + 1 : info->dlpi_name;

    (void)size;
    if (!base || strncmp(base, search->base, strlen(search->base)) != 0)
        return 0;
    search->handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    return search->handle ? 1 : 0;
}

void door_keep(const void *address)
{
    Dl_info info;

    if (address && dladdr(address, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/*
 * In the object that an address lies in, and what it is linked with. By a handle of its own: a link map is none, the loader has
 * lists to search only for what somebody has opened, and crashes where a library came with another one.
 */
static void *look_beside(const void *address, const char *name)
{
    struct link_map *map = NULL;
    Dl_info info;
    void *handle;
    void *found;

    if (!address || !dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return NULL;
    handle = dlopen(map->l_name[0] ? map->l_name : NULL, RTLD_LAZY | RTLD_NOLOAD);
    found = handle ? resolve_real_dlsym()(handle, name) : NULL;
    if (!found) /* NOLINTNEXTLINE(concurrency-mt-unsafe): as in resolve.c, the message is the thread's own */
        (void)dlerror(); /* it was not the program that asked */
    if (handle)
        (void)dlclose(handle);
    return found;
}

void *door_beside(const void *real, const char *name)
{
    void *found;

    guard_push();
    found = look_beside(real, name);
    guard_pop();
    return found;
}

/* Behind us in the global scope, or in a library that somebody loaded. */
static void *look_around(const struct door_library *library, const char *name)
{
    struct search search = {library->base, NULL};
    void *found = resolve_next(name);

    if (found)
        return found;
    (void)dl_iterate_phdr(is_library, &search);
    return search.handle ? resolve_real_dlsym()(search.handle, name) : NULL;
}

static void *find(const struct door_library *library, _Atomic(void *) *real, const char *name,
        const void *ours, const void *caller)
{
    void *known = atomic_load_explicit(real, memory_order_acquire);
    void *found = look_beside(caller, name);

    if (!found || found == ours)
        found = known ? known : look_around(library, name);
    if (!known && found && atomic_compare_exchange_strong(real, &known, found)) {
        door_keep(found);
        known = found;
    }
    if (known && found == known)
        *plain_caller(caller) = caller;
    return found;
}

void *door_real(const struct door_library *library, _Atomic(void *) *real, const char *name,
        const void *ours, const void *caller)
{
    void *found = atomic_load_explicit(real, memory_order_acquire);

    if (found && *plain_caller(caller) == caller)
        return found;
    guard_push();
    found = find(library, real, name, ours, caller);
    guard_pop();
    return found;
}

void *door_take(struct door_library *library, void *handle, const char *name, void *ours,
        _Atomic(void *) *real)
{
    void *none = NULL;
    void *found;

    found = handle == RTLD_DEFAULT ? ours : resolve_real_dlsym()(handle, name);
    if (found == ours) /* in the global scope: a name that only we have is not to be found */
        return resolve_next(name) ? NULL : RESOLVE_HIDE;
    if (!found)
        return NULL;
    if (atomic_compare_exchange_strong(real, &none, found)) {
        door_keep(found);
        return ours;
    }
    if (none == found)
        return ours;
    if (!atomic_exchange(&library->is_second_told, true))
        msg_warn("a second %s is loaded, which is not watched", library->base);
    return NULL;
}
