/* SPDX-License-Identifier: MIT */
/* The loader: libraries that bind deeply, live in another namespace, come late, go, and come back as something else. */
#include "tests/preload/client.h"
#include "tests/preload/said.h"

#include "tracker/reader/read.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *(*ask_fn)(void *, const char *);
typedef void *(*open_fn)(const char *, int);

/* How many lines with this text were said. */
static int said(const char *text)
{
    unsigned all;

    return (int)said_with(text, &all);
}

/* ---- RTLD_DEEPBIND ---------------------------------------------------------------------------- */

static const char *owner_of(const void *fn)
{
    const char *slash;
    Dl_info info;

    REQUIRE(fn);
    REQUIRE(dladdr(fn, &info) && info.dli_fname);
    slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

static void *sim_driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!handle || !dlsym(handle, "simcuda_calls"))
        SKIP("no simulated driver under LD_LIBRARY_PATH");
    return handle;
}

/* E-7b: with the flag its dlsym would be libc's, and it would get the driver's pointers. */
TEST(r41_a_library_that_binds_deeply_is_seen_and_told_once)
{
    void *driver = sim_driver();
    void *deep;
    ask_fn ask;

    said_begin();
    deep = dlopen(DEEP_PATH, RTLD_NOW | RTLD_DEEPBIND);
    REQUIRE(deep);
    REQUIRE(dlopen(DEEP_PATH, RTLD_NOW | RTLD_DEEPBIND) == deep);
    CHECK_EQ(said("RTLD_DEEPBIND"), 1);
    ask = (ask_fn)dlsym(deep, "deep_ask");
    REQUIRE(ask);
    CHECK_STR_EQ(owner_of(ask(driver, "cuMemAlloc_v2")), "libkedge.so");
}

/* R43: with KEDGE_MODE=off the loader does what it was asked for. */
TEST(r43_off_leaves_deep_binding_alone)
{
    void *driver, *deep;
    void *(*bound)(void);
    ask_fn ask;

    REQUIRE(setenv("KEDGE_MODE", "off", 1) == 0);
    driver = sim_driver();
    deep = dlopen(DEEP_PATH, RTLD_NOW | RTLD_DEEPBIND);
    REQUIRE(deep);
    ask = (ask_fn)dlsym(deep, "deep_ask");
    bound = (void *(*)(void))dlsym(deep, "deep_dlsym");
    REQUIRE(ask && bound);
    CHECK(strncmp(owner_of(bound()), "libc.so", 7) == 0);
    CHECK_STR_EQ(owner_of(ask(driver, "cuMemAlloc_v2")), "libcuda.so.1");
    CHECK_STR_EQ(owner_of(dlsym(driver, "cuMemAlloc_v2")), "libcuda.so.1");
}

/* E-8 for dlopen: RUNPATH and $ORIGIN are those of whoever calls, so the hook must not be the caller. */
TEST(r42_a_library_opens_what_lies_beside_it)
{
    void *deep = dlopen(DEEP_PATH, RTLD_NOW);
    open_fn opens;

    REQUIRE(deep);
    opens = (open_fn)dlsym(deep, "deep_open");
    REQUIRE(opens);
    CHECK(!dlopen("libdeep_sub.so", RTLD_NOW)); /* the program does not know the folder */
    CHECK(opens("libdeep_sub.so", RTLD_NOW | RTLD_DEEPBIND));
    CHECK(opens("libdeep_sub.so", RTLD_NOW));
}

/* ---- namespaces ------------------------------------------------------------------------------- */

TEST(r41_another_namespace_is_told_once_cuda_is_used)
{
    CUdeviceptr ptr;

    said_begin();
    REQUIRE(dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW));
    CHECK_EQ(said("dlmopen"), 0); /* a program without CUDA hears nothing */
    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    CHECK_EQ(said("dlmopen"), 1);
    REQUIRE(dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW));
    CHECK_EQ(said("dlmopen"), 1);
}

/* A driver in another namespace is a second driver, and no concern of the first one's hooks. */
TEST(r41_a_driver_in_another_namespace_is_handed_out_as_it_is)
{
    void *second;
    CUdeviceptr ptr;

    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    said_begin();
    second = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    REQUIRE(second);
    CHECK_STR_EQ(owner_of(dlsym(second, "cuMemAlloc_v2")), "libcuda.so.1");
    CHECK_STR_EQ(owner_of(dlsym(second, "cuMemFree_v2")), "libcuda.so.1");
    CHECK_EQ(said("a second driver"), 1);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
}

/* ---- libraries that go ------------------------------------------------------------------------- */

static char capture_file[128];

static struct read_capture *read_now(void)
{
    struct read_capture *capture = NULL;
    struct read_error error;

    REQUIRE_EQ(read_open_parts(capture_file, READ_ALL, &capture, &error), 0);
    return capture;
}

typedef CUresult (*asker_fn)(__typeof__(&cuMemAlloc_v2), CUdeviceptr *, size_t);

static uintptr_t base_of(const void *fn)
{
    Dl_info info;

    REQUIRE(dladdr(fn, &info));
    return (uintptr_t)info.dli_fbase;
}

/* Asks for memory through this library, then closes it. Where it lay. */
static uintptr_t ask_through(const char *path, CUdeviceptr *ret_ptr)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    asker_fn ask = library ? (asker_fn)dlsym(library, "ask") : NULL;
    uintptr_t base;

    REQUIRE(ask);
    base = base_of((void *)ask);
    REQUIRE_EQ(ask(cu->cuMemAlloc_v2, ret_ptr, 4096), CUDA_SUCCESS);
    REQUIRE(dlclose(library) == 0);
    return base;
}

/* The file of the library that asked for this block. */
static const char *asked_by(const struct read_capture *capture, CUdeviceptr ptr)
{
    const struct read_event *event = NULL;
    struct read_frame frame;

    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].kind == FORMAT_EVENT_ALLOC && capture->event[i].addr == ptr)
            event = &capture->event[i];
    REQUIRE(event);
    REQUIRE(read_stack(capture, event->stack, &frame, 1) == 1);
    REQUIRE(frame.module);
    return frame.module->path;
}

/* The same addresses, another library: what is known about the first one must not be said of the second. */
TEST(a_library_in_the_place_of_another_is_known_by_its_own_name)
{
    CUdeviceptr first, second;
    struct read_capture *capture;
    uintptr_t place;

    snprintf(capture_file, sizeof capture_file, "/tmp/kedge-loader-%d.kcap", (int)getpid());
    (void)unlink(capture_file);
    REQUIRE(setenv("KEDGE_CAPTURE", capture_file, 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
    client_init();
    (void)ask_through(TWIN_A_PATH, &first); /* what is loaded on the way is loaded */
    place = ask_through(TWIN_A_PATH, &first);
    if (ask_through(TWIN_B_PATH, &second) != place)
        SKIP("the loader put the second library elsewhere");
    capture = read_now();
    CHECK(strstr(asked_by(capture, first), "twin_a"));
    CHECK(strstr(asked_by(capture, second), "twin_b"));
    read_close(capture);
    (void)unlink(capture_file);
}

/* ---- and what unwinders remember of them ---- */

static void ask_directly(void *ptr)
{
    REQUIRE_EQ(cu->cuMemAlloc_v2(ptr, 4096), CUDA_SUCCESS);
    __asm__ volatile("" ::: "memory");
}

static void *open_stale(const char *path, uintptr_t *ret_base, CUdeviceptr *ret_ptr)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*ask)(void (*)(void *), void *);

    REQUIRE(library);
    ask = (void (*)(void (*)(void *), void *))dlsym(library, "stale_ask");
    if (!ask)
        SKIP("no such library for this machine");
    *ret_base = base_of((void *)ask);
    ask(ask_directly, ret_ptr);
    return library;
}

/* The frames of a block's stack: how many lie in the program. */
static unsigned program_frames(const struct read_capture *capture, CUdeviceptr ptr)
{
    struct read_frame frames[READ_FRAMES_MAX];
    unsigned found = 0;

    for (size_t i = 0; i < capture->event_count; i++) {
        const struct read_event *event = &capture->event[i];
        unsigned count;

        if (event->kind != FORMAT_EVENT_ALLOC || event->addr != ptr)
            continue;
        count = read_stack(capture, event->stack, frames, READ_FRAMES_MAX);
        found = 0;
        for (unsigned k = 0; k < count; k++)
            found += frames[k].module && frames[k].module->is_main;
    }
    return found;
}

/*
 * How large a frame is is remembered by address. Another frame there must not end the stack early or end the program; nobody
 * calls anything of ours here, the loader's own count says that something went.
 */
enum {
    TURNS = 12
};

/* One and the other in turn; places settle after some turns, since kedge notes new ones in memory of its own. */
static void walk_through_both(bool asks_between)
{
    struct read_capture *capture;
    CUdeviceptr ptr[TURNS], between;
    uintptr_t base[TURNS];
    int exchanged = 0;

    snprintf(capture_file, sizeof capture_file, "/tmp/kedge-loader-%d.kcap", (int)getpid());
    (void)unlink(capture_file);
    REQUIRE(setenv("KEDGE_CAPTURE", capture_file, 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr[0], 4096), CUDA_SUCCESS);
    for (int i = 0; i < TURNS; i++) {
        void *library = open_stale(i % 2 ? STALE_SMALL : STALE_LARGE, &base[i], &ptr[i]);

        REQUIRE(dlclose(library) == 0);
        exchanged += i > 0 && base[i] == base[i - 1];
        if (asks_between)
            REQUIRE_EQ(cu->cuMemAlloc_v2(&between, 4096), CUDA_SUCCESS);
    }
    if (exchanged == 0)
        SKIP("the loader put the second library elsewhere");
    capture = read_now();
    CHECK(program_frames(capture, ptr[0])
            >= 3); /* ask_directly, a function and a test of this file, main */
    for (int i = 1; i < TURNS; i++)
        CHECK_EQ(program_frames(capture, ptr[i]), program_frames(capture, ptr[0]));
    read_close(capture);
    (void)unlink(capture_file);
}

TEST(a_frame_of_another_size_at_the_same_address_is_walked_rightly)
{
    walk_through_both(false);
}

/* That one went was seen before the other came: then it is the coming that must be seen. */
TEST(so_it_is_when_the_close_was_seen_before)
{
    walk_through_both(true);
}

/* ---- the loader's own lock ----------------------------------------------------------------------- */

static CUcontext context;
static CUresult asked_meanwhile;

static CUdeviceptr ask_once(void)
{
    CUdeviceptr ptr = 0;

    asked_meanwhile = cu->cuMemAlloc_v2(&ptr, 4096);
    return ptr;
}

static void *ask_meanwhile(void *data)
{
    CUdeviceptr ptr;

    (void)data;
    REQUIRE_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    ptr = ask_once();
    if (asked_meanwhile == CUDA_SUCCESS)
        asked_meanwhile = cu->cuMemFree_v2(ptr);
    return NULL;
}

/* Found by the library that is being opened. */
extern __attribute__((visibility("default"))) void while_a_library_begins(void);
void while_a_library_begins(void)
{
    pthread_t thread;

    REQUIRE_EQ(pthread_create(&thread, NULL, ask_meanwhile, NULL), 0);
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
}

/*
 * A thread opens a library and holds the loader's lock; its constructor waits for another thread, as it would for a lock of
 * a framework's allocator. That one asks for memory, and must not need the loader for it. Otherwise neither ever ends.
 */
static void ask_while_a_library_begins(const char *stacks)
{
    CUdeviceptr ptr;

    REQUIRE(setenv("KEDGE_STACKS", stacks, 1) == 0);
    REQUIRE(setenv("KEDGE_CAPTURE", "/tmp/kedge-loader-begins-%p.kcap", 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuCtxGetCurrent(&context), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    asked_meanwhile = CUDA_ERROR_UNKNOWN;
    REQUIRE(dlopen(BEGIN_PATH, RTLD_NOW | RTLD_LOCAL));
    CHECK_EQ(asked_meanwhile, CUDA_SUCCESS);
    snprintf(capture_file, sizeof capture_file, "/tmp/kedge-loader-begins-%d.kcap", (int)getpid());
    (void)unlink(capture_file);
}

TEST(r36_memory_is_had_while_another_thread_holds_the_loaders_lock)
{
    ask_while_a_library_begins("auto");
}

TEST(r36_so_it_is_without_stacks)
{
    ask_while_a_library_begins("off");
}

TEST(r36_so_it_is_with_frame_pointers)
{
    ask_while_a_library_begins("fp");
}

/* ---- how often the loader is asked ------------------------------------------------------------- */

static atomic_bool counts_questions;
static atomic_uint questions;

typedef int (*iterate_fn)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
static iterate_fn libc_iterates;

__attribute__((constructor)) static void find_iterate(void)
{
    libc_iterates = (iterate_fn)dlsym(RTLD_NEXT, "dl_iterate_phdr");
}

/* Found before libc's by everybody in this process. */
extern __attribute__((visibility("default"))) int dl_iterate_phdr(
        int (*call)(struct dl_phdr_info *, size_t, void *), void *data);
int dl_iterate_phdr(int (*call)(struct dl_phdr_info *, size_t, void *), void *data)
{
    if (atomic_load(&counts_questions))
        atomic_fetch_add(&questions, 1);
    if (!libc_iterates) /* others begin before us */
        find_iterate();
    return libc_iterates(call, data);
}

/*
 * The loader's list has a lock. A fork copies it as it is, and nobody opens it again in the child, which then hangs at its next
 * dlopen. So an allocation does not take it.
 */
TEST(r39_an_allocation_takes_no_lock_of_the_loaders)
{
    CUdeviceptr ptr;

    unsigned asked;

    REQUIRE(setenv("KEDGE_CAPTURE", "/tmp/kedge-loader-asks-%p.kcap", 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
    client_init();
    for (int i = 0; i < 3000; i++) {
        if (i == 100)
            atomic_store(&counts_questions, true);
        REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    }
    asked = atomic_load(&questions);
    CHECK_LE(asked, 3); /* one in 1024 */
    CHECK(dlopen(TWIN_A_PATH, RTLD_NOW | RTLD_LOCAL));
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    CHECK_LT(asked, atomic_load(&questions)); /* what comes is looked at */
    snprintf(capture_file, sizeof capture_file, "/tmp/kedge-loader-asks-%d.kcap", (int)getpid());
    (void)unlink(capture_file);
}

static atomic_bool enough;

static void *ask_on_and_on(void *data)
{
    CUdeviceptr ptr;

    REQUIRE_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    while (!atomic_load(&enough)) {
        REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    }
    return data;
}

TEST(r39_a_child_may_open_libraries_whatever_the_parent_was_at)
{
    pthread_t threads[3];

    REQUIRE(setenv("KEDGE_CAPTURE", "/tmp/kedge-loader-fork-%p.kcap", 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuCtxGetCurrent(&context), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, ask_on_and_on, NULL), 0);
    for (int i = 0; i < 300; i++) {
        int status = 0;
        pid_t child = fork();

        REQUIRE(child >= 0);
        if (child == 0) {
            alarm(20); /* a child that hangs is a failure */
            _exit(dlopen(TWIN_A_PATH, RTLD_NOW | RTLD_LOCAL) ? 0 : 1);
        }
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(pthread_join(threads[i], NULL), 0);
    snprintf(capture_file, sizeof capture_file, "/tmp/kedge-loader-fork-%d.kcap", (int)getpid());
    (void)unlink(capture_file);
}

/* A framework that is imported after the first CUDA call is told of as well, once. */
TEST(a_framework_that_comes_late_is_noticed)
{
    CUdeviceptr ptr;

    client_init();
    said_begin();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    CHECK_EQ(said("caches memory by itself"), 0);
    REQUIRE(dlopen(FRAMEWORK_PATH, RTLD_NOW | RTLD_LOCAL));
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    CHECK_EQ(said("PyTorch caches memory by itself"), 1);
}
