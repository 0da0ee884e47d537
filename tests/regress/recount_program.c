/* SPDX-License-Identifier: MIT */
/*
 * recount_program.c - a program that does what a seed says, and writes down by itself what it did.
 *
 *     recount_program LOG SEED [option=number ...]
 *
 * LOG is a shared mapping (struct book), so that a kill -9 cannot take it away. Each call that
 * allocates, frees or uses memory and each edge of a range has a record in it: its place in the one
 * order of all threads, its thread, device, stream, interface, bytes, address and result, and the
 * lines of this file that asked. A record is begun before its call and done after it. With locked=1
 * (the default) one call is under way at a time, so the order of the records is that of the calls.
 * recount.py computes from the log alone what the reports have to say.
 *
 * Every block is given its end when it is allocated: within its range, with its range, with its
 * step, when the thread ends, by any other thread, or never. With late=1 some that end with their
 * range end in the next one, or never; all else is the same. With resets=N each thread resets
 * device 0 so often, which ends what all threads have there, but for handles.
 */
#include "tests/sim/base/simcuda.h"

#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <nvtx.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RECORDS = 1 << 18,
    BLOCKS = 512, /* of one thread */
    SHARED = 64,
    STREAMS = 4,
    DEVICES = 2,
    THREADS = 8,
    DEPTH = 4,
};

#define KB     ((size_t)1 << 10)
#define MB     ((size_t)1 << 20)
#define HANDLE (2 * MB)

enum what {
    ALLOC = 1,
    FREE,
    ENTER,
    LEAVE,
    USE,
    RESET,
};

enum api {
    SYNC,
    ASYNC,
    MANAGED,
    PITCH,
    ARRAY,
    HANDLES,
    GRAPH,
    POOL,
    HOST,
    REGISTERED,
    APIS,
};

/* When a block is freed. */
enum life {
    WITHIN,     /* at random within its range, or with it */
    WITH_RANGE, /* with its range */
    WITH_STEP,
    WITH_RUN,
    ANYWHERE, /* by any thread */
    LATE,     /* would be WITH_RANGE, but is freed with the next range */
    NEVER,
};

/* Read by recount.py: the layout is part of the log. */
struct record {
    _Atomic uint32_t state; /* 0: none, 1: begun, 2: done */
    uint32_t what;
    uint32_t thread;
    uint32_t device;
    int32_t stream; /* -1: none, 0: a default stream, else the n-th of the device */
    uint32_t api;
    int32_t result;
    uint32_t line; /* of the call */
    uint32_t site; /* which site_n asked */
    uint32_t site_line;
    uint64_t address;
    uint64_t bytes;
    uint64_t block; /* number of the ALLOC's record, in FREE and USE */
    char name[32];
    uint32_t step_line; /* where step() asked, 0: elsewhere */
    uint32_t phase_line;
    uint64_t rest[1];
};

struct book {
    _Atomic uint64_t count; /* records begun */
    uint64_t closed;        /* the program came to its end */
    uint64_t held[DEVICES]; /* by the device itself, at the end */
    uint64_t peak[DEVICES];
    uint64_t copied_in, copied_out;
    uint64_t tids[THREADS + 1];
    uint64_t rest[1];
    struct record records[RECORDS];
};

struct block {
    uint64_t number;
    void *ptr;
    void *mapped; /* of a handle */
    void *graph;
    size_t bytes;
    enum api api;
    enum life life;
    int device;
    int stream;
    int depth; /* of its range */
    uint32_t range;
    uint64_t ordinal; /* of its thread, by which chance picks: the same with late=0 and late=1 */
};

struct request {
    size_t bytes;
    struct block *block;
    struct record *record;
};

struct worker {
    uint64_t random;
    int number;
    int depth;
    int device; /* that is current, -1: none yet */
    uint32_t range;
    uint64_t ordinal;
    uint64_t resets;                /* of device 0 that it has seen */
    uint32_t step_line, phase_line; /* as in a record */
    size_t count;
    struct block blocks[BLOCKS];
};

struct option {
    const char *name;
    uint64_t value;
};

enum {
    OPT_THREADS,
    OPT_DEVICES,
    OPT_STEPS,
    OPT_OPS,
    OPT_APIS, /* a bit for each */
    OPT_LATE,
    OPT_RESETS,
    OPT_HUGE, /* one in so many requests is of HUGE_BYTES */
    OPT_USES,
    OPT_LOCKED,
    OPT_QUIET, /* threads that keep a little, allocate nothing more and wait */
    OPT_SHARED,
    OPT_LEAK, /* one in so many blocks is never freed */
    OPT_BIG,
    OPT_REUSE, /* uses are of any block of the thread, not of the open range alone */
    OPT_TRIMS, /* each step ends with a trim of the pools of its devices */
    OPT_SHOWN, /* one in so many acts shows a block to other processes */
    OPTIONS,
};

static struct option options[OPTIONS] = {{"threads", 1}, {"devices", 1}, {"steps", 6}, {"ops", 8},
        {"apis", 3}, {"late", 0}, {"resets", 0}, {"huge", 0}, {"uses", 1}, {"locked", 1},
        {"quiet", 0}, {"shared", 0}, {"leak", 40}, {"big", 8}, {"reuse", 0}, {"trims", 0},
        {"shown", 0}};

static struct book *book;
static uint64_t seed;
static void *driver;
static pthread_mutex_t world = PTHREAD_MUTEX_INITIALIZER;
static cudaStream_t streams[DEVICES][STREAMS];
static cudaMemPool_t pools[DEVICES];
static struct block shared[SHARED];
static size_t shared_count;
static uint64_t resets_done; /* guarded by world */
static pthread_barrier_t quiet_ready;
static atomic_bool quiet_over;

#define DRIVER(symbol) ((__typeof__(&(symbol)))dlsym(driver, #symbol))

static uint64_t opt(int which)
{
    return options[which].value;
}

static uint64_t next_random(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static uint64_t below(struct worker *w, uint64_t n)
{
    return (next_random(w) >> 16) % n;
}

static void die(const char *what, int code)
{
    fprintf(stderr, "recount_program: %s: %d\n", what, code);
    _exit(EXIT_FAILURE);
}

/* ---- the log ---- */

static struct record *begin(struct worker *w, enum what what)
{
    uint64_t n = atomic_fetch_add(&book->count, 1);
    struct record *r = &book->records[n];

    if (n >= RECORDS)
        die("the log is full", (int)n);
    r->what = what;
    r->thread = (uint32_t)w->number;
    r->device = (uint32_t)w->device;
    r->stream = -1;
    return r;
}

static void begun(struct record *r)
{
    atomic_store(&r->state, 1);
}

static void done(struct record *r, int result)
{
    r->result = result;
    atomic_store(&r->state, 2);
}

static void lock(void)
{
    if (opt(OPT_LOCKED))
        (void)pthread_mutex_lock(&world);
}

static void unlock(void)
{
    if (opt(OPT_LOCKED))
        (void)pthread_mutex_unlock(&world);
}

/* What a reset took away is no block of any thread any more; a handle belongs to no context. */
static void forget_gone(struct worker *w)
{
    if (w->resets == resets_done)
        return;
    w->resets = resets_done;
    w->device = -1;
    for (size_t i = w->count; i-- > 0;) {
        if (w->blocks[i].device == 0 && w->blocks[i].api != HANDLES)
            w->blocks[i] = w->blocks[--w->count];
    }
}

static void lock_for(struct worker *w)
{
    lock();
    forget_gone(w);
}

static void use_device(struct worker *w, int device)
{
    if (w->device != device && cudaSetDevice(device) != cudaSuccess)
        die("cudaSetDevice", device);
    w->device = device;
}

/* ---- one function for each way to ask, so that each is a call site of its own ---- */

/* Notes the line of a call by which memory may be asked for. */
#define FROM(line_, call_) ((line_) = __LINE__, call_)

/* The line of the call behind it is the one of the record. */
#define LINE(request) ((request)->record->line = __LINE__)

/* What is done after the call, so that no caller is left out of the stack. */
#define KEEP(result) __asm__ volatile("" : : "r"(result) : "memory")

typedef int (*take_fn)(struct request *request);

static __attribute__((noinline)) int take_sync(struct request *q)
{
    int r = (LINE(q), (int)cudaMalloc(&q->block->ptr, q->bytes));

    KEEP(r);
    return r;
}

static cudaStream_t stream_of(const struct block *b)
{
    return b->stream > 0 ? streams[b->device][b->stream - 1] : NULL;
}

static __attribute__((noinline)) int take_async(struct request *q)
{
    cudaStream_t s = stream_of(q->block);
    int r = (LINE(q), (int)cudaMallocAsync(&q->block->ptr, q->bytes, s));

    KEEP(r);
    return r;
}

static __attribute__((noinline)) int take_managed(struct request *q)
{
    int r = (LINE(q), (int)cudaMallocManaged(&q->block->ptr, q->bytes, 1));

    KEEP(r);
    return r;
}

/* Rows of whole KiB, which any device gives without a gap. */
static __attribute__((noinline)) int take_pitch(struct request *q)
{
    size_t rows = q->bytes / KB;
    size_t pitch = 0;
    int r = (LINE(q), (int)cudaMallocPitch(&q->block->ptr, &pitch, KB, rows));

    KEEP(r);
    if (r == 0 && pitch != KB)
        die("a pitch", (int)pitch);
    return r;
}

static __attribute__((noinline)) int take_array(struct request *q)
{
    CUDA_ARRAY_DESCRIPTOR d = {.Width = 256,
            .Height = q->bytes / ((size_t)256 * 16),
            .Format = CU_AD_FORMAT_FLOAT,
            .NumChannels = 4};
    int r = (LINE(q), (int)DRIVER(cuArrayCreate_v2)((CUarray *)&q->block->ptr, &d));

    KEEP(r);
    return r;
}

static void map_handle(struct block *b, CUmemGenericAllocationHandle handle, size_t bytes)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = b->device},
            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = 0;

    if (DRIVER(cuMemAddressReserve)(&at, bytes, 0, 0, 0) != CUDA_SUCCESS
            || DRIVER(cuMemMap)(at, bytes, 0, handle, 0) != CUDA_SUCCESS
            || DRIVER(cuMemSetAccess)(at, bytes, &access, 1) != CUDA_SUCCESS)
        die("a mapping", 0);
    b->mapped = (void *)(uintptr_t)at;
}

static __attribute__((noinline)) int take_handle(struct request *q)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = q->block->device}};
    CUmemGenericAllocationHandle h = 0;
    int r = (LINE(q), (int)DRIVER(cuMemCreate)(&h, q->bytes, &prop, 0));

    KEEP(r);
    q->block->ptr = (void *)(uintptr_t)h;
    if (r == 0 && q->bytes > HANDLE)
        map_handle(q->block, h, q->bytes);
    return r;
}

/* Memory that a graph allocates when it is launched, and that the program frees. */
static __attribute__((noinline)) int take_graph(struct request *q)
{
    cudaStream_t s = stream_of(q->block);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    int r = 0;

    if (cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed) != cudaSuccess
            || (LINE(q), cudaMallocAsync(&q->block->ptr, q->bytes, s)) != cudaSuccess
            || cudaMemsetAsync(q->block->ptr, 0, 1, s) != cudaSuccess
            || cudaStreamEndCapture(s, &graph) != cudaSuccess
            || cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess)
        die("a graph", 0);
    r = (int)cudaGraphLaunch(exec, s);
    KEEP(r);
    (void)cudaStreamSynchronize(s);
    (void)cudaGraphDestroy(graph);
    q->block->graph = exec;
    return r;
}

static __attribute__((noinline)) int take_pool(struct request *q)
{
    cudaStream_t s = stream_of(q->block);
    cudaMemPool_t pool = pools[q->block->device];
    int r = (LINE(q), (int)cudaMallocFromPoolAsync(&q->block->ptr, q->bytes, pool, s));

    KEEP(r);
    return r;
}

static __attribute__((noinline)) int take_host(struct request *q)
{
    int r = (LINE(q), (int)cudaMallocHost(&q->block->ptr, q->bytes));

    KEEP(r);
    return r;
}

static __attribute__((noinline)) int take_registered(struct request *q)
{
    int r;

    q->block->ptr = aligned_alloc(4096, q->bytes);
    if (!q->block->ptr)
        die("no memory", 0);
    r = (LINE(q), (int)cudaHostRegister(q->block->ptr, q->bytes, 0));
    KEEP(r);
    return r;
}

static const take_fn takes[APIS] = {[SYNC] = take_sync,
        [ASYNC] = take_async,
        [MANAGED] = take_managed,
        [PITCH] = take_pitch,
        [ARRAY] = take_array,
        [HANDLES] = take_handle,
        [GRAPH] = take_graph,
        [POOL] = take_pool,
        [HOST] = take_host,
        [REGISTERED] = take_registered};

/* ---- and one for each place that asks, whichever way ---- */

#define SITE(number)                                                                    \
    static __attribute__((noinline)) int site_##number(take_fn take, struct request *q) \
    {                                                                                   \
        int r = (q->record->site_line = __LINE__, take(q));                             \
                                                                                        \
        KEEP(r);                                                                        \
        return r;                                                                       \
    }

SITE(0)
SITE(1)
SITE(2)
SITE(3)
SITE(4)
SITE(5)

static int (*const sites[])(take_fn, struct request *) = {
        site_0, site_1, site_2, site_3, site_4, site_5};

enum {
    SITES = sizeof(sites) / sizeof(sites[0])
};

/* ---- frees ---- */

static int give_handle(const struct block *b)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)b->mapped;

    if (at
            && (DRIVER(cuMemUnmap)(at, b->bytes) != CUDA_SUCCESS
                    || DRIVER(cuMemAddressFree)(at, b->bytes) != CUDA_SUCCESS))
        die("an unmapping", 0);
    return (int)DRIVER(cuMemRelease)((CUmemGenericAllocationHandle)(uintptr_t)b->ptr);
}

static int give_graph(const struct block *b)
{
    int r = (int)cudaFreeAsync(b->ptr, stream_of(b));

    (void)cudaStreamSynchronize(stream_of(b));
    (void)cudaGraphExecDestroy(b->graph);
    return r;
}

static int give_registered(const struct block *b)
{
    int r = (int)cudaHostUnregister(b->ptr);

    free(b->ptr);
    return r;
}

static int give_now(const struct block *b)
{
    switch (b->api) {
    case ASYNC:
    case POOL:
        return (int)cudaFreeAsync(b->ptr, stream_of(b));
    case ARRAY:
        return (int)DRIVER(cuArrayDestroy)((CUarray)b->ptr);
    case HANDLES:
        return give_handle(b);
    case GRAPH:
        return give_graph(b);
    case HOST:
        return (int)cudaFreeHost(b->ptr);
    case REGISTERED:
        return give_registered(b);
    default:
        return (int)cudaFree(b->ptr);
    }
}

static void fill_in(struct record *r, const struct block *b)
{
    r->api = b->api;
    r->bytes = b->bytes;
    r->device = (uint32_t)b->device;
    r->address = (uint64_t)(uintptr_t)b->ptr;
    r->stream = b->api == ASYNC || b->api == POOL || b->api == GRAPH ? b->stream : -1;
}

/* Without its place in any list: that is the caller's. */
static void give(struct worker *w, const struct block *b)
{
    struct record *r;
    int result;

    use_device(w, b->device);
    r = begin(w, FREE);
    fill_in(r, b);
    r->block = b->number;
    begun(r);
    result = give_now(b);
    done(r, result);
    if (result)
        die("a free", result);
}

/* ---- allocations ---- */

static size_t random_bytes(struct worker *w)
{
    uint64_t kind = below(w, 16);

    if (kind < 8)
        return 1 + below(w, 64 * KB);
    if (kind < 16 - opt(OPT_BIG) / 4)
        return 1 + below(w, MB);
    return HANDLE + below(w, 6 * MB);
}

static size_t bytes_for(struct worker *w, enum api api)
{
    size_t bytes = random_bytes(w);

    if (opt(OPT_HUGE) && below(w, opt(OPT_HUGE)) == 0)
        bytes = (size_t)(40 + below(w, 40)) * MB;
    if (api == HANDLES)
        return (bytes / HANDLE + 1) * HANDLE;
    if (api == PITCH)
        return (bytes / KB + 1) * KB;
    if (api == ARRAY)
        return (bytes / (64 * KB) + 1) * 64 * KB;
    if (api == REGISTERED)
        return (bytes / 4096 + 1) * 4096;
    return bytes;
}

static enum api random_api(struct worker *w)
{
    enum api api;

    do {
        api = (enum api)below(w, APIS);
    } while (!(opt(OPT_APIS) >> api & 1));
    return api;
}

/* The same for late=0 and late=1, but for what is late. */
static enum life random_life(struct worker *w)
{
    uint64_t kind = below(w, 16);
    bool late = below(w, 3) == 0;

    if (opt(OPT_LEAK) && below(w, opt(OPT_LEAK)) == 0)
        return NEVER;
    if (kind < 7)
        return WITHIN;
    if (kind < 12)
        return late && opt(OPT_LATE) ? (kind == 11 ? NEVER : LATE) : WITH_RANGE;
    if (kind < 14)
        return WITH_STEP;
    if (kind == 14)
        return WITH_RUN;
    return opt(OPT_SHARED) ? ANYWHERE : WITHIN;
}

static void keep(struct worker *w, const struct block *b)
{
    if (b->life == ANYWHERE && shared_count < SHARED)
        shared[shared_count++] = *b;
    else if (w->count < BLOCKS)
        w->blocks[w->count++] = *b;
    else if (b->life != NEVER)
        give(w, b);
}

static void take(struct worker *w, enum life life)
{
    uint64_t site = below(w, SITES);
    struct block b = {.api = random_api(w),
            .life = life,
            .depth = w->depth,
            .range = w->range,
            .device = (int)below(w, opt(OPT_DEVICES)),
            .stream = (int)below(w, STREAMS + 1)};
    struct request q = {.block = &b, .bytes = bytes_for(w, b.api)};
    int result;

    if (!streams[b.device][0])
        b.stream = 0; /* a reset took them away */
    if (b.api == GRAPH && b.stream == 0)
        b.stream = 1; /* a default stream cannot be captured */
    b.bytes = q.bytes;
    b.ordinal = ++w->ordinal;
    use_device(w, b.device);
    q.record = begin(w, ALLOC);
    fill_in(q.record, &b);
    q.record->site = (uint32_t)site;
    q.record->step_line = w->step_line;
    q.record->phase_line = w->phase_line;
    b.number = (uint64_t)(q.record - book->records);
    begun(q.record);
    result = sites[site](takes[b.api], &q);
    q.record->address = (uint64_t)(uintptr_t)b.ptr;
    done(q.record, result);
    if (result == 0)
        keep(w, &b);
    else
        (void)cudaGetLastError();
}

/* ---- uses ---- */

static bool can_be_set(const struct block *b)
{
    return b->api == SYNC || b->api == ASYNC;
}

/* One of the blocks that `fits`, by chance; BLOCKS: there is none. One random number, whatever there is. */
static size_t pick(struct worker *w, bool (*fits)(const struct worker *, const struct block *))
{
    uint64_t chance = next_random(w);
    size_t best = BLOCKS;
    uint64_t best_mark = 0;

    for (size_t i = 0; i < w->count; i++) {
        uint64_t mark = ((w->blocks[i].ordinal + 1) * 0x9e3779b97f4a7c15U) ^ chance;

        if (fits(w, &w->blocks[i]) && mark >= best_mark) {
            best = i;
            best_mark = mark;
        }
    }
    return best;
}

/* Of the range that is open, so that no hint has released it; or any with reuse=1. */
static bool can_be_used(const struct worker *w, const struct block *b)
{
    return can_be_set(b) && (b->range == w->range || opt(OPT_REUSE));
}

static void use(struct worker *w)
{
    size_t at = pick(w, can_be_used);
    const struct block *b = &w->blocks[at];
    struct record *r;

    if (at == BLOCKS)
        return;
    use_device(w, b->device);
    r = begin(w, USE);
    fill_in(r, b);
    r->block = b->number;
    begun(r);
    done(r, (int)cudaMemsetAsync(b->ptr, 1, b->bytes < KB ? b->bytes : KB, stream_of(b)));
}

static bool can_be_shown(const struct worker *w, const struct block *b)
{
    (void)w;
    return b->api == SYNC;
}

/* The block stays what it is; others may have it mapped from now on. One that shares its segment is refused. */
static void show(struct worker *w)
{
    size_t at = pick(w, can_be_shown);
    cudaIpcMemHandle_t handle;

    if (at == BLOCKS)
        return;
    use_device(w, w->blocks[at].device);
    if (cudaIpcGetMemHandle(&handle, w->blocks[at].ptr) != cudaSuccess)
        (void)cudaGetLastError();
}

/* ---- the script ---- */

static void give_at(struct worker *w, size_t i)
{
    struct block b = w->blocks[i];

    w->blocks[i] = w->blocks[--w->count];
    if (b.life != NEVER)
        give(w, &b);
}

static bool may_end_within(const struct worker *w, const struct block *b)
{
    return b->life == WITHIN && b->range == w->range;
}

static void give_one_within(struct worker *w)
{
    size_t at = pick(w, may_end_within);

    if (at < BLOCKS)
        give_at(w, at);
}

static void give_shared(struct worker *w)
{
    if (shared_count > 0) {
        struct block b = shared[--shared_count];

        give(w, &b);
    }
}

static void act(struct worker *w)
{
    uint64_t kind = below(w, 16);

    lock_for(w);
    if (opt(OPT_SHOWN) && below(w, opt(OPT_SHOWN)) == 0)
        show(w);
    if (kind < 8)
        take(w, random_life(w));
    else if (kind < 11)
        give_one_within(w);
    else if (kind < 12)
        give_shared(w);
    else if (opt(OPT_USES))
        use(w);
    unlock();
}

static void enter(struct worker *w, const char *name)
{
    struct record *r;

    lock();
    r = begin(w, ENTER);
    (void)snprintf(r->name, sizeof(r->name), "%s", name);
    begun(r);
    (void)nvtxRangePushA(name);
    done(r, 0);
    w->depth++;
    w->range = (uint32_t)(r - book->records);
    unlock();
}

/* Those of the range that ends; what is late stays until the next one does. */
static bool ends_here(const struct worker *w, const struct block *b)
{
    if (b->range != w->range)
        return b->life == LATE && b->depth >= w->depth;
    return b->life == WITHIN || b->life == WITH_RANGE || b->life == NEVER;
}

static void leave(struct worker *w, const char *name, uint32_t outer)
{
    struct record *r;

    lock_for(w);
    for (size_t i = w->count; i-- > 0;) {
        if (i < w->count && ends_here(w, &w->blocks[i]))
            give_at(w, i);
    }
    r = begin(w, LEAVE);
    (void)snprintf(r->name, sizeof(r->name), "%s", name);
    begun(r);
    (void)nvtxRangePop();
    done(r, 0);
    w->depth--;
    w->range = outer;
    unlock();
}

static void phase(struct worker *w, const char *name)
{
    uint32_t outer = w->range;
    uint64_t ops = 1 + below(w, 2 * opt(OPT_OPS));

    enter(w, name);
    for (uint64_t i = 0; i < ops; i++)
        FROM(w->phase_line, act(w));
    w->phase_line = 0;
    leave(w, name, outer);
}

static void trim(struct worker *w, int device)
{
    cudaMemPool_t pool;

    use_device(w, device);
    if (cudaDeviceGetDefaultMemPool(&pool, device) != cudaSuccess
            || cudaDeviceSynchronize() != cudaSuccess || cudaMemPoolTrimTo(pool, 0) != cudaSuccess
            || (pools[device] && cudaMemPoolTrimTo(pools[device], MB) != cudaSuccess))
        die("a trim", device);
}

static void end_of_step(struct worker *w)
{
    lock_for(w);
    for (size_t i = w->count; i-- > 0;) {
        if (i < w->count && w->blocks[i].life == WITH_STEP)
            give_at(w, i);
    }
    for (int d = 0; opt(OPT_TRIMS) && d < (int)opt(OPT_DEVICES); d++)
        trim(w, d);
    unlock();
}

static void step(struct worker *w)
{
    enter(w, "step");
    FROM(w->step_line, phase(w, "forward"));
    if (below(w, 4) == 0)
        FROM(w->step_line, phase(w, "extra"));
    FROM(w->step_line, phase(w, "backward"));
    end_of_step(w);
    leave(w, "step", 0);
    for (uint64_t i = below(w, 4); i > 0; i--)
        FROM(w->step_line, act(w));
    w->step_line = 0;
}

/* All that the context of the device has is gone. */
static void reset(struct worker *w)
{
    struct record *r;

    lock_for(w);
    use_device(w, 0);
    r = begin(w, RESET);
    begun(r);
    done(r, (int)cudaDeviceReset());
    resets_done++;
    forget_gone(w);
    (void)memset(streams[0], 0, sizeof(streams[0]));
    unlock();
}

static void script(struct worker *w)
{
    uint64_t resets = opt(OPT_RESETS);

    for (uint64_t i = 0; i < opt(OPT_STEPS); i++) {
        step(w);
        if (resets > 0 && (i + 1) % (opt(OPT_STEPS) / (resets + 1)) == 0 && i + 1 < opt(OPT_STEPS))
            reset(w);
    }
    lock_for(w);
    while (w->count > 0)
        give_at(w, w->count - 1);
    unlock();
}

/* Keeps a few blocks, frees a few, and does nothing more until the others are done. */
static void quiet_script(struct worker *w)
{
    lock();
    for (int i = 0; i < 8; i++)
        take(w, WITH_RUN);
    while (w->count > 4)
        give_at(w, w->count - 1);
    unlock();
    (void)pthread_barrier_wait(&quiet_ready);
    while (!atomic_load(&quiet_over))
        (void)usleep(1000);
}

static void begin_worker(struct worker *w, int number)
{
    w->number = number;
    w->device = -1;
    w->random = (0x9e3779b97f4a7c15U * ((uint64_t)number + 1)) ^ (seed * 0xbf58476d1ce4e5b9U);
    book->tids[number] = (uint64_t)syscall(SYS_gettid);
}

static struct worker *new_worker(int number)
{
    struct worker *w = calloc(1, sizeof(*w));

    if (!w)
        die("no memory", 0);
    begin_worker(w, number);
    for (int i = 0; i < 8; i++)
        (void)next_random(w);
    return w;
}

static void *thread_main(void *arg)
{
    struct worker *w = new_worker((int)(intptr_t)arg);

    if ((uint64_t)w->number >= opt(OPT_THREADS))
        quiet_script(w);
    else
        script(w);
    free(w);
    return NULL;
}

static void make_streams(void)
{
    for (int d = 0; d < (int)opt(OPT_DEVICES); d++) {
        struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                .location = {.type = cudaMemLocationTypeDevice, .id = d},
                .maxSize = (size_t)4 << 30};

        if (cudaSetDevice(d) != cudaSuccess)
            die("no device", d);
        for (int i = 0; i < STREAMS; i++) {
            if (cudaStreamCreateWithFlags(&streams[d][i], cudaStreamNonBlocking) != cudaSuccess)
                die("no stream", i);
        }
        if (opt(OPT_APIS) >> POOL & 1 && cudaMemPoolCreate(&pools[d], &props) != cudaSuccess)
            die("no pool", d);
    }
}

static void close_book(void)
{
    __typeof__(&simcuda_stats) ask = DRIVER(simcuda_stats);
    struct simcuda_stats stats = {.size = sizeof(stats)};

    if (ask && ask(&stats) == 0) {
        for (int d = 0; d < (int)opt(OPT_DEVICES); d++) {
            book->held[d] = stats.held[d];
            book->peak[d] = stats.peak[d];
        }
        book->copied_in = stats.copied_in_bytes;
        book->copied_out = stats.copied_out_bytes;
    }
    book->closed = 1;
}

static void open_book(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, sizeof(*book)) != 0)
        die(path, fd);
    book = mmap(NULL, sizeof(*book), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (book == MAP_FAILED)
        die(path, fd);
}

static bool read_option(const char *word)
{
    for (int i = 0; i < OPTIONS; i++) {
        size_t length = strlen(options[i].name);

        if (strncmp(word, options[i].name, length) == 0 && word[length] == '=') {
            options[i].value = strtoull(word + length + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

static void run_threads(struct worker *main_worker)
{
    pthread_t threads[THREADS];
    int most = (int)(opt(OPT_THREADS) + opt(OPT_QUIET));

    if (most > THREADS || pthread_barrier_init(&quiet_ready, NULL, (unsigned)opt(OPT_QUIET) + 1))
        die("threads", most);
    for (int i = most - 1; i > 0; i--) {
        if (pthread_create(&threads[i], NULL, thread_main, (void *)(intptr_t)i) != 0)
            die("no thread", i);
    }
    (void)pthread_barrier_wait(&quiet_ready);
    script(main_worker);
    atomic_store(&quiet_over, true);
    for (int i = 1; i < most; i++)
        (void)pthread_join(threads[i], NULL);
    lock();
    while (shared_count > 0)
        give_shared(main_worker);
    unlock();
}

int main(int argc, char **argv)
{
    struct worker *w;

    if (argc < 3) {
        fprintf(stderr, "usage: recount_program LOG SEED [option=number ...]\n");
        return 2;
    }
    for (int i = 3; i < argc; i++) {
        if (!read_option(argv[i]))
            die(argv[i], 2);
    }
    seed = strtoull(argv[2], NULL, 10);
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        die("no driver", 0);
    open_book(argv[1]);
    w = new_worker(0);
    make_streams();
    run_threads(w);
    close_book();
    free(w);
    return EXIT_SUCCESS;
}
