/* SPDX-License-Identifier: MIT */
#include "preload/driver/resolve.h"

#include "preload/base/elfsym.h"
#include "preload/base/guard.h"
#include "preload/base/linked.h"
#include "preload/base/mark.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

typedef void *(*dlsym_fn)(void *, const char *);

/* Never NULL, so that a hook that is entered during binding has something to call. */
void *resolve_real[SLOT_COUNT] = {[0 ... SLOT_COUNT - 1] = (void *)resolve_missing};

static const char *const slot_symbol[SLOT_COUNT] = {
#define HOOK(symbol, ...)    [SLOT_##symbol] = #symbol,
#define CALL(symbol, params) [SLOT_##symbol] = #symbol,
#include "preload/base/hooks.def"
};

/* A program may look up many names, few of which are hooks: their length rules most of them out. */
static const uint8_t slot_length[SLOT_COUNT] = {
#define HOOK(symbol, ...)    [SLOT_##symbol] = sizeof #symbol - 1,
#define CALL(symbol, params) [SLOT_##symbol] = sizeof #symbol - 1,
#include "preload/base/hooks.def"
};

static const char *const export_names[EXPORT_COUNT] = {
#define EXPORT(symbol) #symbol,
#include "preload/base/hooks.def"
};

/*
 * Entries of the served libcuda itself. They differ from what kedge calls where another preload is
 * in between.
 */
static void *own[SLOT_HOOKS];
static _Atomic(uintptr_t) driver_base; /* load address of the served libcuda, 0 = none yet */
static atomic_bool bound;
static char driver_path[PATH_MAX];

enum {
    STRIPES = 8, /* a power of two */
};

static _Atomic(uint64_t) counts[SLOT_HOOKS][ROUTE_CALLED];
static _Alignas(64) _Atomic(uint64_t) calls[STRIPES][SLOT_HOOKS];
static atomic_bool is_noted[SLOT_HOOKS]; /* the bits of most hooks stay 0 */
static _Atomic(uint64_t) export_counts[EXPORT_COUNT];
atomic_bool resolve_news;

CUresult resolve_missing(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

dlsym_fn resolve_real_dlsym(void)
{
    /* dlsym became part of libc in 2.34; 2.2.5 is the first version of x86-64 */
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5"};
    static _Atomic(void *) found;
    void *fn = atomic_load_explicit(&found, memory_order_relaxed);

    /* kedge exports no versioned dlsym, so this cannot find itself */
    for (size_t i = 0; !fn && i < sizeof versions / sizeof *versions; i++)
        fn = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    atomic_store_explicit(&found, fn, memory_order_relaxed);
    return (dlsym_fn)fn;
}

void *resolve_look_up(void *handle, const char *name)
{
    dlsym_fn fn = resolve_real_dlsym();
    void *found = fn ? fn(handle, name) : NULL;

    /* prevents a tail call, which would change the caller that dlsym sees */
    __asm__ volatile("" : "+r"(found));
    return found;
}

void *resolve_next(const char *name)
{
    return resolve_look_up(RTLD_NEXT, name);
}

/* A look-up with the real dlsym's version skips the unversioned exports of other preloads. */
dlsym_fn resolve_next_dlsym(void)
{
    static _Atomic(void *) found;
    void *fn = atomic_load_explicit(&found, memory_order_relaxed);

    if (!fn) {
        fn = resolve_look_up(RTLD_NEXT, "dlsym");
        atomic_store_explicit(&found, fn, memory_order_relaxed);
    }
    return fn ? (dlsym_fn)fn : resolve_real_dlsym();
}

static uintptr_t object_base(const void *address)
{
    Dl_info info;

    return dladdr(address, &info) ? (uintptr_t)info.dli_fbase : 0;
}

/* ---- finding the driver ------------------------------------------------------------- */

bool resolve_is_driver_name(const char *path)
{
    const char *base = linked_base(path);

    return strncmp(base, "libcuda.so", 10) == 0 && (base[10] == '\0' || base[10] == '.');
}

static int find_driver_object(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    if (!info->dlpi_name || !resolve_is_driver_name(info->dlpi_name)
            || strlen(info->dlpi_name) >= PATH_MAX)
        return 0;
    memcpy(data, info->dlpi_name, strlen(info->dlpi_name) + 1);
    return 1;
}

/*
 * The driver's handle, never closed, and its path; `hint` is a function of an object that may be
 * it, or NULL.
 */
static void *driver_handle(const void *hint, char path[PATH_MAX])
{
    const int flags = RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE;
    void *handle = NULL;
    Dl_info info;

    if (dl_iterate_phdr(find_driver_object, path))
        return dlopen(path, flags);
    if (!hint)
        hint = resolve_look_up(RTLD_NEXT, "cuDriverGetVersion"); /* a driver of another name */
    if (hint && linked_is_code(hint) && dladdr(hint, &info) && info.dli_fname
            && strlen(info.dli_fname) < PATH_MAX) {
        memcpy(path, info.dli_fname, strlen(info.dli_fname) + 1);
        handle = dlopen(path, flags);
    }
    return handle && resolve_look_up(handle, "cuInit") ? handle : NULL;
}

/* ---- binding -------------------------------------------------------------------------------- */

void resolve_adopt(enum resolve_slot slot, void *fn)
{
    if (fn && !resolve_has(slot))
        __atomic_store_n(&resolve_real[slot], fn, __ATOMIC_RELAXED);
}

/*
 * Another preload between kedge and the driver that has the function is called in the driver's
 * place.
 */
static void *next_in_line(int slot, void *fn, uintptr_t base)
{
    void *next = resolve_look_up(RTLD_NEXT, slot_symbol[slot]);

    return fn && next && next != fn && object_base(next) != base && linked_is_code(next) ? next
                                                                                         : fn;
}

/*
 * A preload that answers look-ups may load what its functions need at the program's first look-up
 * (HAMi-core does). kedge answers that one itself, so it makes one here before it calls them. The
 * preload may call hooks meanwhile, which come here again.
 */
static void wake_next_in_line(void *handle)
{
    static __thread bool is_waking __attribute__((tls_model("initial-exec")));
    dlsym_fn next = resolve_next_dlsym();

    if (is_waking || next == resolve_real_dlsym())
        return;
    is_waking = true;
    (void)next(handle, "cuInit");
    is_waking = false;
}

static bool bind_driver(const void *hint)
{
    char path[PATH_MAX];
    void *handle = driver_handle(hint, path);
    struct link_map *object = NULL;
    uintptr_t none = 0;
    uintptr_t base;

    if (!handle)
        return false;
    base = object_base(resolve_look_up(handle, "cuInit"));
    if (base == 0)
        return false;
    if (atomic_compare_exchange_strong(&driver_base, &none, base))
        memcpy(driver_path, path, sizeof path);
    else if (none != base)
        return atomic_load(&bound);
    if (dlinfo(handle, RTLD_DI_LINKMAP, (void *)&object) != 0)
        object = NULL;
    wake_next_in_line(handle);
    for (int slot = 0; slot < SLOT_COUNT; slot++) {
        void *fn;

        if (!elfsym_may_have(object, slot_symbol[slot]))
            continue; /* a failed look-up allocates */
        fn = resolve_look_up(handle, slot_symbol[slot]);
        if (slot < SLOT_HOOKS)
            __atomic_store_n(&own[slot], fn, __ATOMIC_RELAXED);
        resolve_adopt((enum resolve_slot)slot, next_in_line(slot, fn, base));
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps the message per thread */
    (void)dlerror(); /* clears the message: our failed look-ups are not the program's */
    if (!atomic_exchange_explicit(&bound, true, memory_order_acq_rel))
        mark_driver(false);
    guard_clear(GUARD_UNBOUND);
    return true;
}

bool resolve_bind(const void *hint)
{
    bool ready;

    if (atomic_load_explicit(&bound, memory_order_acquire))
        return true;
    guard_push();
    ready = bind_driver(hint);
    guard_pop();
    return ready;
}

bool resolve_ready(void)
{
    return resolve_bind(NULL);
}

bool resolve_has(enum resolve_slot slot)
{
    return __atomic_load_n(&resolve_real[slot], __ATOMIC_RELAXED) != (void *)resolve_missing;
}

bool resolve_is_own(enum resolve_slot slot, const void *fn)
{
    return __atomic_load_n(&own[slot], __ATOMIC_RELAXED) == fn
            || __atomic_load_n(&resolve_real[slot], __ATOMIC_RELAXED) == fn;
}

bool resolve_driver_exports(enum resolve_slot slot)
{
    return __atomic_load_n(&own[slot], __ATOMIC_RELAXED) != NULL;
}

bool resolve_in_driver(const void *address)
{
    uintptr_t base = object_base(address);

    return base != 0 && base == atomic_load(&driver_base);
}

bool resolve_is_ours(const void *address)
{
    return address && object_base(address) == object_base((const void *)resolve_missing);
}

const char *resolve_symbol(enum resolve_slot slot)
{
    return slot_symbol[slot];
}

/* ---- counts of hooks ----------------------------------------------------------------- */

static unsigned stripe_of_thread(void)
{
    static atomic_uint threads;
    static __thread unsigned number __attribute__((tls_model("initial-exec")));

    if (number == 0)
        number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % STRIPES + 1;
    return number - 1;
}

/* True at the first, the 17th, the 257th ... */
static bool is_news(uint64_t before)
{
    return (before & (before - 1)) == 0 && before != 1
            && (before == 0 || __builtin_ctzll(before) % 4 == 0);
}

void resolve_note(enum resolve_slot slot, enum resolve_route route)
{
    _Atomic(uint64_t) *count =
            route == ROUTE_CALLED ? &calls[stripe_of_thread()][slot] : &counts[slot][route];

    if (!is_news(atomic_fetch_add_explicit(count, 1, memory_order_relaxed)))
        return;
    /* the first count is news */
    atomic_store_explicit(&is_noted[slot], true, memory_order_relaxed);
    resolve_tell_news();
}

void resolve_note_export(enum resolve_export export)
{
    if (atomic_fetch_add_explicit(&export_counts[export], 1, memory_order_relaxed) == 0)
        resolve_tell_news();
}

bool resolve_counts(enum resolve_slot slot, uint64_t ret_counts[ROUTE_COUNT])
{
    uint64_t given = 0;
    uint64_t called = 0;

    if (!atomic_load_explicit(&is_noted[slot], memory_order_relaxed)) {
        memset(ret_counts, 0, ROUTE_COUNT * sizeof *ret_counts);
        return false;
    }
    for (int route = 0; route < ROUTE_CALLED; route++) {
        ret_counts[route] = atomic_load_explicit(&counts[slot][route], memory_order_relaxed);
        given += ret_counts[route];
    }
    for (int i = 0; i < STRIPES; i++)
        called += atomic_load_explicit(&calls[i][slot], memory_order_relaxed);
    ret_counts[ROUTE_CALLED] = called;
    ret_counts[ROUTE_LINKED] = given > 0 ? 0 : called;
    return given + called > 0;
}

uint64_t resolve_export_count(enum resolve_export export)
{
    return atomic_load_explicit(&export_counts[export], memory_order_relaxed);
}

const char *resolve_export_name(enum resolve_export export)
{
    return export_names[export];
}

bool resolve_coverage_news(void)
{
    return atomic_load_explicit(&resolve_news, memory_order_relaxed)
            && atomic_exchange(&resolve_news, false);
}

const char *resolve_driver_path(void)
{
    return atomic_load_explicit(&bound, memory_order_acquire) ? driver_path : "";
}

int resolve_slot(const char *symbol)
{
    size_t length = strlen(symbol);

    for (int slot = 0; slot < SLOT_HOOKS; slot++)
        if (slot_length[slot] == length && memcmp(slot_symbol[slot], symbol, length) == 0)
            return slot;
    return -1;
}

bool resolve_knows(const char *name)
{
    return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z'
            && resolve_slot(name) >= 0;
}

static bool is_export(const char *name)
{
    for (int export = 0; export < EXPORT_COUNT; export ++)
        if (strcmp(export_names[export], name) == 0)
            return true;
    return false;
}

bool resolve_exports(const char *name)
{
    return resolve_slot(name) >= 0 || is_export(name);
}
