/* SPDX-License-Identifier: MIT */
/*
 * NCCL's registration of user buffers: a registered buffer is mapped into other processes and network cards until it is
 * deregistered, so its block is pinned (R80). The two functions are NCCL's, not CUDA's: a program that is linked with NCCL
 * comes through our exports, one that loads it gets ours from dlsym for the function that its library has.
 */
#include "preload/conduct.h"
#include "preload/doors.h"
#include "preload/guard.h"
#include "preload/life.h"
#include "preload/msg.h"
#include "preload/pins.h"
#include "preload/resolve.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

/* nccl.h's, in our own words: a communicator is a pointer, a result an enum. */
typedef int (*register_fn)(void *, void *, size_t, void **);
typedef int (*deregister_fn)(void *, void *);

enum {
    NCCL_SUCCESS = 0,
    NCCL_SYSTEM_ERROR = 2, /* what NCCL gives where the system has no such thing */
};

#pragma GCC visibility push(default)
int ncclCommRegister(void *comm, void *buffer, size_t size, void **ret_handle);
int ncclCommDeregister(void *comm, void *handle);
#pragma GCC visibility pop

static _Atomic(void *) real_register;
static _Atomic(void *) real_deregister;

static int find_nccl(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    const char *base = slash ? slash + 1 : info->dlpi_name;

    (void)size;
    if (!base || strncmp(base, "libnccl.so", 10) != 0)
        return 0;
    *(void **)data = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    return *(void **)data ? 1 : 0;
}

/* The next one in the global scope, else that of a libnccl that somebody loaded. */
static void *real_of(_Atomic(void *) *real, const char *symbol)
{
    void *found = atomic_load_explicit(real, memory_order_acquire);
    void *library = NULL;

    if (found)
        return found;
    guard_push();
    found = resolve_next(symbol);
    if (!found) {
        (void)dl_iterate_phdr(find_nccl, &library);
        found = library ? resolve_real_dlsym()(library, symbol) : NULL;
    }
    guard_pop();
    atomic_store_explicit(real, found, memory_order_release);
    return found;
}

static _Atomic(void *) *slot_of(const char *name, void **ret_ours)
{
    if (strcmp(name, "ncclCommRegister") == 0) {
        *ret_ours = (void *)ncclCommRegister;
        return &real_register;
    }
    if (strcmp(name, "ncclCommDeregister") == 0) {
        *ret_ours = (void *)ncclCommDeregister;
        return &real_deregister;
    }
    return NULL;
}

void *door_nccl(void *handle, const char *name)
{
    void *ours = NULL;
    _Atomic(void *) *real = slot_of(name, &ours);
    void *none = NULL;
    void *found;

    if (!real)
        return NULL;
    if (handle == RTLD_DEFAULT) /* a name that only we have is not to be found */
        return resolve_next(name) ? NULL : RESOLVE_HIDE;
    found = resolve_real_dlsym()(handle, name);
    if (!found || found == ours)
        return NULL;
    if (!atomic_compare_exchange_strong(real, &none, found) && none != found) {
        msg_warn("a second libnccl is loaded: what it registers is not watched, passing through");
        return NULL;
    }
    return ours;
}

int ncclCommRegister(void *comm, void *buffer, size_t size, void **ret_handle)
{
    void *found = real_of(&real_register, "ncclCommRegister");
    register_fn real = (register_fn)found;
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    int result;

    if (!real)
        return NCCL_SYSTEM_ERROR;
    resolve_note_door(DOOR_ncclCommRegister);
    if (!life_begin_edge())
        return real(comm, buffer, size, ret_handle);
    guard_read_begin();
    (void)pins_collect(&pins, (devptr_t)(uintptr_t)buffer, size, TOUCH_POINTER, NULL);
    pins_shared(&pins, __func__, true);
    life_leave(); /* NCCL calls the driver, and our hooks, for memory of its own */
    result = real(comm, buffer, size, ret_handle);
    guard_read_end();
    if (result == NCCL_SUCCESS && ret_handle)
        pins_give(&pins, PINS_OF_NCCL, (uint64_t)(uintptr_t)*ret_handle, 0);
    else
        pins_undo(&pins);
    return result;
}

int ncclCommDeregister(void *comm, void *handle)
{
    void *found = real_of(&real_deregister, "ncclCommDeregister");
    deregister_fn real = (deregister_fn)found;
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    int result;

    if (!real)
        return NCCL_SYSTEM_ERROR;
    resolve_note_door(DOOR_ncclCommDeregister);
    if (life_begin_edge()) {
        pins_take(&pins, PINS_OF_NCCL, (uint64_t)(uintptr_t)handle);
        life_leave();
    }
    result = real(comm, handle);
    pins_end(&pins, result == NCCL_SUCCESS, PINS_OF_NCCL, (uint64_t)(uintptr_t)handle);
    return result;
}
