/* SPDX-License-Identifier: MIT */
/*
 * A program whose device memory is held in many ways, each block of a size of its own; scan.py compares what kedge says of each.
 *
 *     scan_program oom | end | ask          prints "plant NAME BYTES" for each; then asks for too much, ends, or waits for a line
 *     scan_program many                     many blocks of malloc, and a request that fails
 *     scan_program spin | refuse            a thread runs that has the address; the system refuses process_vm_readv
 *     scan_program beside                   threads that allocate, begin, end, load, unload and fail, until a line comes
 */
#include "tests/sim/base/program_abi.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KB ((size_t)1 << 10)

struct node {
    struct node *next;
    void *memory;
};

struct buffers {
    int count;
    void *small, *big;
};

/* Also where no code reads it. */
#define KEPT __attribute__((used))

KEPT static void *weights;
KEPT static struct {
    const char *name;
    struct buffers buffers;
} state;
KEPT static void *table[8];
KEPT static struct node *queue;
KEPT static char *view;
KEPT static void *first_of_two, *second_of_two;
KEPT static struct buffers *shared_one, *shared_two;
KEPT static uintptr_t hidden;
KEPT static cudaStream_t stream; /* an address in the driver's memory */
KEPT static __thread void *mine;
KEPT static char *big_chunk; /* of malloc's, mapped for itself */
static pthread_barrier_t barrier;

static size_t next = 64 * KB;

/* A block of a size that no other one has. */
__attribute__((noinline)) static void *take(const char *name)
{
    void *ptr = NULL;

    next += 64 * KB;
    if (cudaMalloc(&ptr, next) != cudaSuccess)
        exit(3);
    printf("plant %s %zu\n", name, next);
    return ptr;
}

/* Nothing that a call has left over stays on the stack. */
__attribute__((noinline)) static void wipe(void)
{
    volatile char over[64 * KB];

    for (size_t i = 0; i < sizeof over; i++)
        over[i] = 0;
}

__attribute__((noinline)) static void plant_static(void)
{
    KEPT static void *cache;

    cache = take("static");
}

__attribute__((noinline)) static void plant_list(void)
{
    for (int i = 0; i < 3; i++) {
        struct node *node = malloc(sizeof *node);

        *node = (struct node){queue, take("list")};
        queue = node;
        next -= 64 * KB; /* all have one size */
    }
    next += 64 * KB;
}

__attribute__((noinline)) static void plant_library(void)
{
    void *library = dlopen(LIBRARY_PATH, RTLD_NOW | RTLD_LOCAL);
    void (*keep)(void *) = library ? (void (*)(void *))dlsym(library, "scan_keep") : NULL;

    if (!keep)
        exit(4);
    keep(take("library"));
}

__attribute__((noinline)) static void plant_all(void)
{
    weights = take("global");
    plant_static();
    state.buffers.big = take("member");
    table[3] = take("element");
    plant_list();
    mine = take("tls");
    view = (char *)take("inside") + 4096;
    plant_library();
    first_of_two = second_of_two = take("two");
    shared_one = shared_two = calloc(1, sizeof *shared_one);
    shared_one->big = take("shared");
    hidden = ~(uintptr_t)take("hidden");
    if (cudaStreamCreate(&stream) != cudaSuccess
            || cudaMemsetAsync(take("leaked"), 0, KB, stream) != cudaSuccess)
        exit(11);
    big_chunk = malloc(1024 * KB);
    *(void **)(void *)(big_chunk + 512 * KB) = take("chunk");
}

__attribute__((noinline)) static void worker_waits(void)
{
    void *volatile local = take("worker_local");

    mine = take("worker_tls");
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_barrier_wait(&barrier);
    if (!local)
        exit(5);
}

static void *worker(void *unused)
{
    worker_waits();
    return unused;
}

__attribute__((noinline)) static void fail(void)
{
    void *ptr = NULL;

    if (cudaMalloc(&ptr, (size_t)1 << 46) == cudaSuccess)
        exit(6);
}

/* ---- beside others -------------------------------------------------------------------------- */

static atomic_bool is_over;

static void *allocate(void *unused)
{
    static void *volatile kept[512];
    unsigned seed = (unsigned)(uintptr_t)pthread_self();

    while (!atomic_load(&is_over)) {
        unsigned at = (unsigned)rand_r(&seed) % 512;
        unsigned bytes = (unsigned)rand_r(&seed) % 64 ? (unsigned)rand_r(&seed) % 4096 : 1u << 18;
        void *fresh = malloc(bytes + 8);

        *(void **)fresh = fresh;
        free(__atomic_exchange_n(&kept[at], fresh, __ATOMIC_ACQ_REL));
        if (at == 0)
            usleep(500);
    }
    return unused;
}

static void *nothing(void *unused)
{
    return unused;
}

static void *begin_threads(void *unused)
{
    while (!atomic_load(&is_over)) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, nothing, NULL) == 0)
            (void)pthread_join(thread, NULL);
        usleep(300);
    }
    return unused;
}

static void *load(void *unused)
{
    while (!atomic_load(&is_over)) {
        void *library = dlopen(LIBRARY_PATH, RTLD_NOW | RTLD_LOCAL);

        if (!library)
            exit(7);
        (void)dlclose(library);
        usleep(300);
    }
    return unused;
}

/* Until a line comes; a request of this thread fails now and then. */
static void *fail_often(void *unused)
{
    while (!atomic_load(&is_over)) {
        fail();
        usleep(50000);
    }
    return unused;
}

static int beside(void)
{
    void *(*const others[])(void *) = {allocate, allocate, begin_threads, load, fail_often};
    pthread_t thread[5];

    weights = take("global");
    for (int i = 0; i < 5; i++)
        if (pthread_create(&thread[i], NULL, others[i], NULL) != 0)
            return 8;
    (void)fflush(stdout);
    (void)getchar();
    atomic_store(&is_over, true);
    for (int i = 0; i < 5; i++)
        (void)pthread_join(thread[i], NULL);
    return 0;
}

/* More blocks of malloc than a scan may take. */
static int many(void)
{
    weights = take("global");
    for (int i = 0; i < 2000; i++) {
        struct node *node = malloc(sizeof *node);

        *node = (struct node){queue, NULL};
        queue = node;
    }
    fail();
    return 0;
}

/* ---- what cannot be read --------------------------------------------------------------------- */

#ifdef OWN_MALLOC
/* Not glibc's, for who asks whose it is. */
extern void *__libc_malloc(size_t size); // NOLINT(bugprone-reserved-identifier)
__attribute__((visibility("default"))) void *malloc(size_t size)
{
    return __libc_malloc(size);
}
#endif

static void *spin(void *ptr)
{
    void *volatile local = ptr;

    while (!atomic_load(&is_over))
        ;
    return local;
}

static int beside_one_that_runs(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, spin, take("spins")) != 0)
        return 8;
    usleep(50000);
    wipe();
    fail();
    atomic_store(&is_over, true);
    return pthread_join(thread, NULL);
}

static int refused(void)
{
    struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, filter};

    weights = take("global");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 77;
    fail();
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------ */

static int plants(const char *how)
{
    pthread_t thread;
    void *volatile local;
    struct buffers *volatile through;

    if (pthread_barrier_init(&barrier, NULL, 2) != 0
            || pthread_create(&thread, NULL, worker, NULL) != 0
            || pthread_setname_np(thread, "waiter") != 0)
        return 9;
    (void)pthread_barrier_wait(&barrier);
    usleep(100000); /* it waits again */
    plant_all();
    local = take("local");
    through = calloc(1, sizeof *through);
    through->small = take("through");
    wipe();
    (void)fflush(stdout);
    if (strcmp(how, "oom") == 0)
        fail();
    else if (strcmp(how, "ask") == 0)
        (void)getchar();
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_join(thread, NULL);
    return local && through && shared_two && hidden ? 0 : 10;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    if (strcmp(argv[1], "beside") == 0)
        return beside();
    if (strcmp(argv[1], "spin") == 0)
        return beside_one_that_runs();
    if (strcmp(argv[1], "refuse") == 0)
        return refused();
    return strcmp(argv[1], "many") == 0 ? many() : plants(argv[1]);
}
