/* SPDX-License-Identifier: MIT */
/*
 * The loader's exports. They say that something came or went (context_changed), so that nobody has to ask the loader at each
 * request: that takes a lock of its, which stays taken for ever in the child of a fork that hits such a moment.
 *
 * RTLD_DEEPBIND makes a library look into its own dependencies first, libc among them, so that neither
 * our symbols nor our dlsym is found by it or by a runtime that it brings along: the flag is taken away, with one line.
 *
 * The C library finds $ORIGIN, RUNPATH and the namespace by its caller's address, so these two leave by a jump, like dlsym: this
 * file is compiled with sibling calls whatever the build type says (CMakeLists.txt), and tests/preload proves it. No work
 * may follow the real call, and no local variable may have its address taken.
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

/* The next one in line, which is another preload's or the C library's; found once. */
static void *export_dlopen_next_of(const char *name, _Atomic(void *) *known)
{
    void *fn = atomic_load_explicit(known, memory_order_relaxed);

    if (!fn) {
        fn = resolve_next(name);
        atomic_store_explicit(known, fn, memory_order_relaxed);
    }
    return fn;
}

/* noinline: whatever happens in here, the frame of the export is gone before the jump. */
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

/* Another namespace has a libc of its own, and nothing of ours in it. */
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

/* Told behind the call: what is told before is looked at too early. dlopen cannot, coverage.c makes up for it. */
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
