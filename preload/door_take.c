/* SPDX-License-Identifier: MIT */
/* How a door comes to stand in for a library's function, and finds it again. */
#include "preload/doors.h"
#include "preload/guard.h"
#include "preload/msg.h"
#include "preload/resolve.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

struct search {
    const char *base;
    void *handle;
};

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

void *door_real(const struct door_library *library, _Atomic(void *) *real, const char *name)
{
    void *found = atomic_load_explicit(real, memory_order_acquire);
    struct search search = {library->base, NULL};
    void *none = NULL;

    if (found)
        return found;
    guard_push();
    found = resolve_next(name);
    if (!found) {
        (void)dl_iterate_phdr(is_library, &search);
        found = search.handle ? resolve_real_dlsym()(search.handle, name) : NULL;
    }
    guard_pop();
    if (found && !atomic_compare_exchange_strong(real, &none, found))
        found = none; /* another thread has taken one meanwhile */
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
