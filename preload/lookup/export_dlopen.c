/* SPDX-License-Identifier: MIT */
/*
 * The loader's exports. They report that a library was loaded or closed (context_changed), so that
 * requests need not ask the loader each time: that takes a lock of the loader, which stays taken
 * for ever in the child of a fork that happens at such a moment.
 *
 * With RTLD_DEEPBIND a library searches its own dependencies first, libc among them, so that
 * neither it nor a runtime that it loads would find our symbols or our dlsym: the flag is removed,
 * with one line.
 *
 * The C library finds $ORIGIN, RUNPATH and the namespace by its caller's address, so these two end
 * with a jump, like dlsym: this file is compiled with sibling calls in every build type
 * (CMakeLists.txt), and tests/preload proves it. No work may follow the real call, and no local
 * variable may have its address taken.
 */
#include "preload/anchors/output.h"
#include "preload/anchors/pyhost.h"
#include "preload/base/exports.h"
#include "preload/caller/variables.h"
#include "preload/driver/contexts.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

typedef void *(*dlopen_fn)(const char *, int);
typedef void *(*dlmopen_fn)(Lmid_t, const char *, int);
typedef int (*dlclose_fn)(void *);

/* The next definition of the function, another preload's or the C library's; looked up once. */
static void *export_dlopen_next_of(const char *name, _Atomic(void *) *known)
{
    void *fn = atomic_load_explicit(known, memory_order_relaxed);

    if (!fn) {
        fn = resolve_next(name);
        atomic_store_explicit(known, fn, memory_order_relaxed);
    }
    return fn;
}

/* noinline: whatever this function does, the export has no frame left when it jumps. */
__attribute__((noinline)) static int binds_as_usual(int mode)
{
    if (!life_is_wanted())
        return mode;
    export_deepbind();
    return mode & ~RTLD_DEEPBIND;
}

__attribute__((noinline)) static void library_comes(const char *file)
{
    context_changed();
    output_library_comes();
    variables_check();
    pyhost_library_comes(file);
    atomic_store_explicit(&variables_may_come, true, memory_order_relaxed);
}

__attribute__((visibility("default"))) void *dlopen(const char *file, int mode)
{
    static _Atomic(void *) known;
    dlopen_fn real = (dlopen_fn)export_dlopen_next_of("dlopen", &known);

    library_comes(file);
    if (mode & RTLD_DEEPBIND)
        mode = binds_as_usual(mode);
    return real ? real(file, mode) : NULL;
}

/* Another namespace has a libc of its own, and no library of ours in it. */
__attribute__((visibility("default"))) void *dlmopen(Lmid_t nsid, const char *file, int mode)
{
    static _Atomic(void *) known;
    dlmopen_fn real = (dlmopen_fn)export_dlopen_next_of("dlmopen", &known);

    library_comes(file);
    if (nsid == LM_ID_BASE && (mode & RTLD_DEEPBIND))
        mode = binds_as_usual(mode);
    if (nsid != LM_ID_BASE && life_is_wanted())
        export_namespace(__builtin_return_address(0));
    return real ? real(nsid, file, mode) : NULL;
}

/*
 * Reports the close after the call: before it, other threads would look too early. dlopen cannot
 * (it ends with a jump); coverage.c makes up for that.
 */
__attribute__((visibility("default"))) int dlclose(void *handle)
{
    static _Atomic(void *) known;
    dlclose_fn real = (dlclose_fn)export_dlopen_next_of("dlclose", &known);
    int r;

    export_close_begins();
    r = real ? real(handle) : -1;
    export_close_ends();
    context_changed();
    return r;
}
