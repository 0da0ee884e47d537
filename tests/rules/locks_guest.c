/* SPDX-License-Identifier: MIT */
/*
 * locks_guest.c - the library that ships, watched at every door to the outside.
 *
 * R36: no lock of kedge's is held in a driver call, in the loader, while unwinding, or at a file. Each of these may wait: for
 * the GPU, for the loader's lock, for a disk. The library here is linked from the very objects of libkedge.so; the linker
 * (--wrap) puts the functions below between them and libc, and the simulated device calls at the head of each driver call.
 * Where one of them finds a lock held, the program ends with status 87 and one line:
 *
 *     LOCKS: mask 0x2 held in driver: cuMemAlloc_v2
 *
 * Also looked at: malloc and sleeping (the program may have replaced the one, the other says how long), and that nothing but
 * a line to stderr happens inside pthread_once, which makes other threads wait like a lock. The capture gate (R67) is no
 * lock of lock.h; it is the one exception (R67).
 *
 * TEST_LOCKS_FIGURES names a file to which "class number" lines are appended at the end, so that a run in which a class was
 * never met proves nothing. TEST_LOCKS_HOLD=driver|loader|unwind|file|once holds a lock where it must not be: to see it red.
 * Threads: any. Nothing here takes a lock, those deliberate ones apart.
 */
#include "alloc/base/lock.h"
#include "alloc/pool.h"
#include "tests/sim/base/program_abi.h"
#include "tests/sim/base/simcuda.h"
#include "tracker/capture/capfile.h"
#include "tracker/stacks/unwind.h"
#include "tracker/where/where.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum door {
    DOOR_DRIVER,
    DOOR_LOADER,
    DOOR_UNWIND,
    DOOR_FILE,
    DOOR_LINE, /* to stderr */
    DOOR_MALLOC,
    DOOR_SLEEP,
    DOOR_ONCE,
    DOOR_CLASSES,
};

static const char *const class_names[DOOR_CLASSES] = {
        "driver", "loader", "unwind", "file", "line", "malloc", "sleep", "once"};
static atomic_ulong met[DOOR_CLASSES];
static __thread unsigned once_depth __attribute__((tls_model("initial-exec")));

enum {
    STATUS_HELD = 87,
};

/* ---- what is looked at ---------------------------------------------------------------------- */

static void look(enum door door, const char *what)
{
    bool waits = once_depth > 0 && door != DOOR_LINE;

    atomic_fetch_add_explicit(&met[door], 1, memory_order_relaxed);
    if (lock_held == 0 && !waits)
        return;
    (void)dprintf(STDERR_FILENO, "LOCKS: mask 0x%x%s held in %s: %s\n", lock_held,
            waits ? " and pthread_once" : "", class_names[door], what);
    _exit(STATUS_HELD);
}

/* A program that wants to be called as well is called behind us. */
static _Atomic(void (*)(const char *)) program_hook;

static void set_program_hook(void (*hook)(const char *))
{
    atomic_store(&program_hook, hook);
}

static void on_driver_call(const char *call)
{
    void (*next)(const char *) = atomic_load(&program_hook);

    look(DOOR_DRIVER, call);
    if (next)
        next(call);
}

/* ---- a lock held on purpose ----------------------------------------------------------------- */

static struct lock wrong_lock = LOCK_INIT(LOCK_RANK_PRELOAD);
static enum door wrong_door = DOOR_CLASSES;
static char figures_path[256];

__attribute__((constructor)) static void read_words(void)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): before the program begins */
    const char *hold = getenv("TEST_LOCKS_HOLD");
    const char *path = getenv("TEST_LOCKS_FIGURES");
    /* NOLINTEND(concurrency-mt-unsafe) */

    (void)snprintf(figures_path, sizeof figures_path, "%s", path ? path : "");
    if (!hold)
        return;
    for (unsigned i = 0; i < DOOR_CLASSES; i++)
        if (strcmp(hold, class_names[i]) == 0)
            wrong_door = (enum door)i;
    if (wrong_door == DOOR_CLASSES) {
        (void)dprintf(STDERR_FILENO, "TEST_LOCKS_HOLD: there is no door '%s'\n", hold);
        _exit(2);
    }
}

/* Returns whether the lock was taken; it is not nested. */
static bool hold_wrongly(enum door door) TSA(no_thread_safety_analysis)
{
    if (door != wrong_door || lock_held != 0)
        return false;
    lock_take(&wrong_lock);
    return true;
}

static void let_go(bool held) TSA(no_thread_safety_analysis)
{
    if (held)
        lock_drop(&wrong_lock);
}

__attribute__((destructor)) static void write_figures(void)
{
    FILE *file;

    if (lock_violations() != 0) {
        (void)dprintf(STDERR_FILENO, "LOCKS: %lu rules of lock.h broken, last: %s\n",
                (unsigned long)lock_violations(), lock_last_violation());
        _exit(STATUS_HELD);
    }
    file = figures_path[0] ? fopen(figures_path, "ae") : NULL;
    if (!file)
        return;
    for (int i = 0; i < DOOR_CLASSES; i++)
        (void)fprintf(file, "%s %lu\n", class_names[i], atomic_load(&met[i]));
    (void)fclose(file);
}

/* ---- the loader ----------------------------------------------------------------------------- */

/* WRAP(type, name, parameters): what is called, and what calls. */
#define WRAP(type, name, ...)        \
    type __real_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__)

static void *(*real_dlsym)(void *, const char *);

/* Leaves by a jump, as the library's own dlsym does: the loader decides by its caller. */
static void *looked_dlsym(void *handle, const char *symbol)
{
    look(DOOR_LOADER, symbol);
    if (strcmp(symbol, "simcuda_set_call_hook") == 0)
        return (void *)set_program_hook;
    return real_dlsym(handle, symbol);
}

WRAP(void *, dlvsym, void *handle, const char *symbol, const char *version)
{
    void *found;

    look(DOOR_LOADER, "dlvsym");
    found = __real_dlvsym(handle, symbol, version);
    if (!found || strcmp(symbol, "dlsym") != 0)
        return found;
    real_dlsym = (__typeof__(real_dlsym))found;
    return (void *)looked_dlsym;
}

WRAP(void *, dlopen, const char *file, int flags)
{
    look(DOOR_LOADER, "dlopen");
    return __real_dlopen(file, flags);
}

WRAP(int, dladdr, const void *address, Dl_info *info)
{
    look(DOOR_LOADER, "dladdr");
    return __real_dladdr(address, info);
}

WRAP(int, dladdr1, const void *address, Dl_info *info, void **extra, int flags)
{
    look(DOOR_LOADER, "dladdr1");
    return __real_dladdr1(address, info, extra, flags);
}

WRAP(int, dl_iterate_phdr, int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
    look(DOOR_LOADER, "dl_iterate_phdr");
    return __real_dl_iterate_phdr(callback, data);
}

WRAP(void *, route_dlsym, void *handle, const char *name)
{
    bool held = hold_wrongly(DOOR_LOADER);
    void *found = __real_route_dlsym(handle, name);

    let_go(held);
    return found;
}

/* Here the driver is known for the first time, so that the device can be asked to call us. */
WRAP(bool, resolve_ready, void)
{
    static atomic_bool done;
    bool ready = __real_resolve_ready();
    void *device;

    if (ready && real_dlsym && !atomic_exchange(&done, true)) {
        device = __real_dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        __typeof__(&simcuda_set_call_hook) set = NULL;
        if (device)
            set = (__typeof__(set))real_dlsym(device, "simcuda_set_call_hook");
        if (set)
            set(on_driver_call);
    }
    return ready;
}

/* ---- unwinding ------------------------------------------------------------------------------ */

/* By a jump: the first frame is the caller's. */
WRAP(unwind_fn, unwind_walker, void)
{
    look(DOOR_UNWIND, "unwind_walker");
    return __real_unwind_walker();
}

WRAP(int, where_am_i, const void *caller, uint64_t size, int device, struct tag *ret_tag)
{
    bool held = hold_wrongly(DOOR_UNWIND);
    int r = __real_where_am_i(caller, size, device, ret_tag);

    let_go(held);
    return r;
}

/* ---- files ---------------------------------------------------------------------------------- */

WRAP(int, open, const char *path, int flags, ...)
{
    va_list list;
    mode_t mode;

    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
    look(DOOR_FILE, path);
    return __real_open(path, flags, mode);
}

WRAP(int, close, int fd)
{
    look(DOOR_FILE, "close");
    return __real_close(fd);
}

WRAP(ssize_t, read, int fd, void *data, size_t size)
{
    look(DOOR_FILE, "read");
    return __real_read(fd, data, size);
}

WRAP(ssize_t, write, int fd, const void *data, size_t size)
{
    look(fd == STDERR_FILENO ? DOOR_LINE : DOOR_FILE, "write");
    return __real_write(fd, data, size);
}

WRAP(ssize_t, pwrite, int fd, const void *data, size_t size, off_t offset)
{
    look(DOOR_FILE, "pwrite");
    return __real_pwrite(fd, data, size, offset);
}

WRAP(int, fallocate, int fd, int mode, off_t offset, off_t length)
{
    look(DOOR_FILE, "fallocate");
    return __real_fallocate(fd, mode, offset, length);
}

WRAP(int, fstat, int fd, struct stat *ret)
{
    look(DOOR_FILE, "fstat");
    return __real_fstat(fd, ret);
}

WRAP(int, stat, const char *path, struct stat *ret)
{
    look(DOOR_FILE, path);
    return __real_stat(path, ret);
}

WRAP(int, rename, const char *from, const char *to)
{
    look(DOOR_FILE, to);
    return __real_rename(from, to);
}

WRAP(int, unlink, const char *path)
{
    look(DOOR_FILE, path);
    return __real_unlink(path);
}

WRAP(ssize_t, readlink, const char *path, char *text, size_t size)
{
    look(DOOR_FILE, path);
    return __real_readlink(path, text, size);
}

/* A mapping without a file is memory, and waits for nobody. */
WRAP(void *, mmap, void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (fd >= 0)
        look(DOOR_FILE, "mmap");
    return __real_mmap(at, size, protection, flags, fd, offset);
}

WRAP(int, capfile_create, struct capfile *file, const char *path,
        void (*fill)(struct format_header *header))
{
    bool held = hold_wrongly(DOOR_FILE);
    int r = __real_capfile_create(file, path, fill);

    let_go(held);
    return r;
}

/* ---- malloc, sleep, once -------------------------------------------------------------------- */

WRAP(void *, malloc, size_t size)
{
    look(DOOR_MALLOC, "malloc");
    return __real_malloc(size);
}

WRAP(void *, calloc, size_t count, size_t size)
{
    look(DOOR_MALLOC, "calloc");
    return __real_calloc(count, size);
}

WRAP(void *, realloc, void *old, size_t size)
{
    look(DOOR_MALLOC, "realloc");
    return __real_realloc(old, size);
}

WRAP(void, free, void *old)
{
    look(DOOR_MALLOC, "free");
    __real_free(old);
}

WRAP(int, nanosleep, const struct timespec *time, struct timespec *rest)
{
    look(DOOR_SLEEP, "nanosleep");
    return __real_nanosleep(time, rest);
}

WRAP(int, sched_yield, void)
{
    look(DOOR_SLEEP, "sched_yield");
    return __real_sched_yield();
}

/* The function that is to run once, for the trampoline; a thread is inside one at a time. */
static __thread void (*once_inner)(void) __attribute__((tls_model("initial-exec")));

static void once_inside(void)
{
    once_depth++;
    if (wrong_door == DOOR_ONCE) { /* the loader, where others wait for us */
        Dl_info info;
        (void)__wrap_dladdr((const void *)&figures_path, &info);
    }
    once_inner();
    once_depth--;
}

WRAP(int, pthread_once, pthread_once_t *once, void (*inner)(void))
{
    atomic_fetch_add_explicit(&met[DOOR_ONCE], 1, memory_order_relaxed);
    once_inner = inner;
    return __real_pthread_once(once, once_inside);
}

/* ---- the driver's table --------------------------------------------------------------------- */

static struct driver real_driver;

static int mem_alloc(void *self, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr)
{
    bool held = hold_wrongly(DOOR_DRIVER);
    int r = real_driver.mem_alloc(self, context, device, size, ret_ptr);

    let_go(held);
    return r;
}

WRAP(int, pool_new, const struct driver *driver, const struct pool_opts *opts, struct pool **ret)
{
    struct driver table = *driver;

    real_driver = *driver;
    table.mem_alloc = mem_alloc;
    return __real_pool_new(&table, opts, ret);
}
