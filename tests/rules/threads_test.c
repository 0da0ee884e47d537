/* SPDX-License-Identifier: MIT */
/*
 * Sixteen threads at every export at once, with the whole library linked into this program.
 *
 * A sanitizer's object cannot be preloaded, so the objects of libkedge.so are part of this executable, and its calls of the
 * driver are calls of our exports. What follows runs under every preset; under `tsan` each report ends it.
 */
#include "tests/preload/client.h"

#include "preload/base/kedge.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

enum {
    THREADS = 16,
    ROUNDS = 150,
    OWN = 6,
    BOARD = 24,
};

struct tenant {
    CUdeviceptr ptr;
    size_t size;
    CUstream stream; /* SIMCUDA_NO_STREAM: the sync API */
};

struct worker {
    unsigned seed;
    int number;
    CUstream stream, capturing;
    struct tenant own[OWN];
    CUdeviceptr fixed; /* for captured work */
};

/* Blocks that one thread allocated and another will free. */
static _Atomic(struct tenant *) board[BOARD];
static bool with_hints;
static bool is_short; /* of memory: an allocation may be refused */

/* What has happened, for the floors. */
static atomic_ulong stream_allocs, sync_allocs, handed_over, contexts_ended, captures, trims,
        callback_frees, copies, others, releases, refused_touches, out_of_memory;

static unsigned pick(struct worker *w, unsigned n)
{
    return (unsigned)rand_r(&w->seed) % n;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void work_on(const struct worker *w, const struct tenant *t)
{
    CHECK_EQ(cu->cuMemsetD8Async(t->ptr, (unsigned char)w->number, t->size, w->stream),
            CUDA_SUCCESS);
}

static bool got(CUresult r)
{
    if (is_short && r == CUDA_ERROR_OUT_OF_MEMORY)
        atomic_fetch_add(&out_of_memory, 1);
    else
        CHECK_EQ(r, CUDA_SUCCESS);
    return r == CUDA_SUCCESS;
}

static bool make(struct worker *w, struct tenant *ret)
{
    static const size_t sizes[] = {512, 3000, 40000, 700000, 3 * MB};
    struct tenant t = {.size = sizes[pick(w, 5)], .stream = w->stream};

    if (pick(w, 2))
        t.stream = SIMCUDA_NO_STREAM;
    if (!got(t.stream == SIMCUDA_NO_STREAM ? cu->cuMemAlloc_v2(&t.ptr, t.size)
                                           : cu->cuMemAllocAsync(&t.ptr, t.size, w->stream)))
        return false;
    atomic_fetch_add(t.stream == SIMCUDA_NO_STREAM ? &sync_allocs : &stream_allocs, 1);
    simcuda_witness_birth(t.ptr, t.size, t.stream);
    work_on(w, &t);
    *ret = t;
    return true;
}

/*
 * Each free takes memory of each allocation API (R9, R64). Where captures go on or contexts end, a block may be the driver's own,
 * which keeps the two apart: then each is freed as it was made.
 */
static void drop(struct worker *w, struct tenant *t)
{
    bool in_order = with_hints ? pick(w, 2) : t->stream != SIMCUDA_NO_STREAM;

    simcuda_witness_death(t->ptr, in_order ? w->stream : SIMCUDA_NO_STREAM);
    CHECK_EQ(in_order ? cu->cuMemFreeAsync(t->ptr, w->stream) : cu->cuMemFree_v2(t->ptr),
            CUDA_SUCCESS);
    t->ptr = 0;
}

static void turn_over(struct worker *w)
{
    struct tenant *t = &w->own[pick(w, OWN)];

    if (t->ptr)
        drop(w, t);
    else
        (void)make(w, t);
}

/* What is handed over has no work of ours pending: the program's duty. */
static void hand_over(struct worker *w)
{
    struct tenant *t = malloc(sizeof *t);
    struct tenant *old;

    REQUIRE(t);
    if (!make(w, t)) {
        free(t);
        return;
    }
    CHECK_EQ(cu->cuStreamSynchronize(w->stream), CUDA_SUCCESS);
    old = atomic_exchange(&board[pick(w, BOARD)], t);
    if (!old)
        return;
    atomic_fetch_add(&handed_over, 1);
    drop(w, old);
    free(old);
}

/* Between two blocks of this thread, and from the host. */
static void copy(struct worker *w)
{
    const struct tenant *from = &w->own[pick(w, OWN)];
    const struct tenant *to = &w->own[pick(w, OWN)];
    size_t size = from->size < to->size ? from->size : to->size;
    unsigned char host[512] = {7};

    if (!from->ptr || !to->ptr)
        return;
    CHECK_EQ(cu->cuMemcpyHtoD_v2(from->ptr, host, sizeof host), CUDA_SUCCESS);
    if (from != to)
        CHECK_EQ(cu->cuMemcpyDtoDAsync_v2(to->ptr, from->ptr, size, w->stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemcpyDtoH_v2(host, from->ptr, sizeof host), CUDA_SUCCESS);
    atomic_fetch_add(&copies, 1);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void ask(struct worker *w)
{
    struct tenant *t = &w->own[pick(w, OWN)];
    CUdeviceptr base;
    size_t size, total;
    CUmemoryPool pool;
    uint64_t used;

    CHECK_EQ(cu->cuMemGetInfo_v2(&size, &total), CUDA_SUCCESS);
    CHECK(size <= total);
    CHECK_EQ(cu->cuDeviceGetDefaultMemPool(&pool, cu->device), CUDA_SUCCESS);
    CHECK_EQ(
            cu->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_SUCCESS);
    if (t->ptr) {
        CHECK_EQ(cu->cuMemGetAddressRange_v2(&base, &size, t->ptr), CUDA_SUCCESS);
        CHECK(base <= t->ptr && t->ptr + t->size <= base + size);
    }
}

static void trim(struct worker *w)
{
    CUmemoryPool pool;

    CHECK_EQ(cu->cuDeviceGetDefaultMemPool(&pool, cu->device), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemPoolTrimTo(pool, pick(w, 2) * 8 * MB), CUDA_SUCCESS);
    atomic_fetch_add(&trims, 1);
}

/* Memory that is not pooled and recorded all the same, and pools that come and go. */
static void have_mapped_memory(void)
{
    CUmemAllocationProp prop = {
            .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range = 0;

    if (!got(cu->cuMemCreate(&handle, 2 * MB, &prop, 0)))
        return;
    CHECK_EQ(cu->cuMemAddressReserve(&range, 2 * MB, 0, 0, 0), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemMap(range, 2 * MB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemUnmap(range, 2 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAddressFree(range, 2 * MB), CUDA_SUCCESS);
}

static void have_a_pool(struct worker *w)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool;
    CUdeviceptr ptr = 0;

    CHECK_EQ(cu->cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
    if (got(cu->cuMemAllocFromPoolAsync(&ptr, 40000, pool, w->stream))) {
        CHECK_EQ(cu->cuMemsetD8Async(ptr, 5, 40000, w->stream), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemFreeAsync(ptr, w->stream), CUDA_SUCCESS);
    }
    CHECK_EQ(cu->cuMemPoolDestroy(pool), CUDA_SUCCESS);
}

/* Shown to another process that never looks. */
static void export_one(void)
{
    CUdeviceptr ptr = 0;
    CUipcMemHandle handle;
    CUresult r;

    if (!got(cu->cuMemAlloc_v2(&ptr, 2 * MB)))
        return;
    r = cu->cuIpcGetMemHandle(&handle, ptr);
    CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
}

static void use_other_memory(struct worker *w)
{
    CUdeviceptr ptr = 0;
    void *host = NULL;
    size_t pitch = 0;

    switch (pick(w, 6)) {
    case 0:
        CHECK_EQ(cu->cuMemHostAlloc(&host, 40000, 0), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemFreeHost(host), CUDA_SUCCESS);
        break;
    case 1:
        if (got(cu->cuMemAllocManaged(&ptr, 40000, CU_MEM_ATTACH_GLOBAL)))
            CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
        break;
    case 2:
        if (got(cu->cuMemAllocPitch_v2(&ptr, &pitch, 1000, 40, 4)))
            CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
        break;
    case 3:
        have_mapped_memory();
        break;
    case 4:
        have_a_pool(w);
        break;
    default:
        export_one();
    }
    atomic_fetch_add(&others, 1);
}

/* A context of this thread's own, with blocks that live and blocks that are freed when it ends. */
static void visit_context(struct worker *w)
{
    CUcontext context;
    CUdeviceptr ptr[4];

    REQUIRE_EQ(cu->cuCtxCreate_v2(&context, 0, w->number / 4 % 2), CUDA_SUCCESS);
    for (int i = 0; i < 4; i++)
        if (got(cu->cuMemAlloc_v2(&ptr[i], 40000)))
            CHECK_EQ(cu->cuMemsetD8_v2(ptr[i], 7, 40000), CUDA_SUCCESS);
        else
            ptr[i] = 0;
    for (unsigned i = 0; i < pick(w, 5); i++)
        CHECK_EQ(cu->cuMemFree_v2(ptr[i]), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxDestroy_v2(context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    atomic_fetch_add(&contexts_ended, 1);
}

/* Relaxed, since the other threads go on allocating. */
static void capture(struct worker *w)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;

    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(w->capturing, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8Async(w->fixed, 1, 4096, w->capturing), CUDA_SUCCESS);
    turn_over(w);
    CHECK_EQ(cu->cuStreamEndCapture(w->capturing, &graph), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphLaunch(exec, w->capturing), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamSynchronize(w->capturing), CUDA_SUCCESS);
    atomic_fetch_add(&captures, 1);
}

struct last_will {
    CUdeviceptr ptr;
    CUresult result;
};

static void free_in_callback(void *data)
{
    struct last_will *will = data;

    will->result = cu->cuMemFree_v2(will->ptr);
}

/* A block that was not pooled, because a capture was going on, is the driver's, and it refuses. */
static void free_later(struct worker *w)
{
    struct last_will will = {0, CUDA_SUCCESS};

    if (!got(cu->cuMemAlloc_v2(&will.ptr, 40000)))
        return;
    CHECK_EQ(cu->cuMemsetD8Async(will.ptr, 3, 40000, w->stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuLaunchHostFunc(w->stream, free_in_callback, &will), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamSynchronize(w->stream), CUDA_SUCCESS);
    if (will.result == CUDA_SUCCESS)
        atomic_fetch_add(&callback_frees, 1);
    else
        CHECK_EQ(cu->cuMemFree_v2(will.ptr), CUDA_SUCCESS);
}

/* The hint picks this size and releases at the anchor's exit; whoever uses it later is refused. */
static void inside_anchor(struct worker *w)
{
    unsigned char host[16];
    CUdeviceptr ptr = 0;
    CUresult r;

    KEDGE_PUSH("P");
    if (!got(pick(w, 2) ? cu->cuMemAlloc_v2(&ptr, 8 * MB)
                        : cu->cuMemAllocAsync(&ptr, 8 * MB, w->stream))) {
        KEDGE_POP();
        return;
    }
    CHECK_EQ(cu->cuMemsetD8Async(ptr, 0x33, 4096, w->stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamSynchronize(w->stream), CUDA_SUCCESS);
    KEDGE_POP();
    if (!with_hints) {
        CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
        return;
    }
    atomic_fetch_add(&releases, 1);
    if (pick(w, 2)) {
        r = cu->cuMemcpyDtoH_v2(host, ptr, sizeof host);
        if (r == CUDA_ERROR_INVALID_VALUE)
            atomic_fetch_add(&refused_touches, 1);
        else
            CHECK_EQ(r, CUDA_SUCCESS);
    }
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
}

/* ---- a thread ------------------------------------------------------------------------------- */

static void one_round(struct worker *w)
{
    switch (pick(w, 16)) {
    case 0:
        ask(w);
        break;
    case 1:
        trim(w);
        break;
    case 2:
        if (w->number % 4 == 0 && !with_hints)
            visit_context(w);
        break;
    case 3:
        if (!with_hints)
            capture(w); /* the launch of a graph ends all releases */
        break;
    case 4:
        free_later(w);
        break;
    case 5:
    case 6:
        inside_anchor(w);
        break;
    case 7:
        KEDGE_MARK("mark");
        break;
    case 8:
    case 9:
        hand_over(w);
        break;
    case 10:
    case 11:
        copy(w);
        break;
    case 12:
        use_other_memory(w);
        break;
    case 13:
        CHECK_EQ(cu->cuStreamSynchronize(w->stream), CUDA_SUCCESS);
        break;
    default:
        turn_over(w);
    }
}

static void *work(void *data)
{
    struct worker *w = data;

    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamCreate(&w->capturing, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    while (!got(cu->cuMemAlloc_v2(&w->fixed, 4096)))
        (void)sched_yield();
    for (int i = 0; i < ROUNDS; i++)
        one_round(w);
    for (int i = 0; i < OWN; i++)
        if (w->own[i].ptr)
            drop(w, &w->own[i]);
    CHECK_EQ(cu->cuStreamSynchronize(w->stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamDestroy_v2(w->stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamDestroy_v2(w->capturing), CUDA_SUCCESS);
    return NULL;
}

static void sixteen_threads(void)
{
    static struct worker workers[THREADS];
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.seed = (unsigned)i + 1, .number = i};
        REQUIRE(pthread_create(&thread[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(thread[i], NULL) == 0);
    for (int i = 0; i < BOARD; i++) {
        struct tenant *t = atomic_exchange(&board[i], NULL);
        if (!t)
            continue;
        simcuda_witness_death(t->ptr, SIMCUDA_NO_STREAM);
        CHECK_EQ(cu->cuMemFree_v2(t->ptr), CUDA_SUCCESS);
        free(t);
    }
}

static void expect_floors(void)
{
    struct simcuda_stats stats = {.size = sizeof stats};

    REQUIRE(simcuda_stats(&stats) == 0);
    CHECK_EQ(stats.faults, 0);
    CHECK_EQ(stats.captures_invalidated, 0);
    CHECK_GT(stats.cross_stream_reuses, 0);
    CHECK_GT(stats.context_records, 0);
    CHECK_GT(atomic_load(&stream_allocs), 100);
    CHECK_GT(atomic_load(&sync_allocs), 100);
    CHECK_GT(atomic_load(&handed_over), 10);
    CHECK_GT(atomic_load(&trims), 10);
    CHECK_GT(atomic_load(&callback_frees), 10);
    CHECK_GT(atomic_load(&copies), 10);
    CHECK_GT(atomic_load(&others), 10);
}

static void prepare(const char *what)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "threads-%s-%d.kcap", what, (int)getpid());
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
    REQUIRE(setenv("KEDGE_CAPTURE", path, 1) == 0);
    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    REQUIRE(setenv("SIMCUDA_SCHED", "random", 1) == 0);
}

static void finish(void)
{
    REQUIRE(getenv("KEDGE_CAPTURE"));
    CHECK(access(getenv("KEDGE_CAPTURE"), R_OK) == 0);
    (void)unlink(getenv("KEDGE_CAPTURE"));
}

TEST(r36_sixteen_threads_at_every_export)
{
    prepare("exports");
    client_init();
    sixteen_threads();
    expect_floors();
    CHECK_GT(atomic_load(&captures), 10);
    CHECK_GT(atomic_load(&contexts_ended), 3);
    finish();
}

/* The ladder to its end, by many at once: other streams' memory, waits, trims, the driver's word. */
TEST(r36_sixteen_threads_are_short_of_memory)
{
    REQUIRE(setenv("SIMCUDA_MEMORY", "128M", 1) == 0);
    prepare("short");
    is_short = true;
    client_init();
    sixteen_threads();
    expect_floors();
    CHECK_GT(atomic_load(&out_of_memory), 0);
    CHECK_GT(client_calls("cuMemUnmap") + client_calls("cuMemFree"), 10); /* trims */
    finish();
}

TEST(r36_r66_sixteen_threads_with_hints_that_act)
{
    static const char text[] = "kedge-hints: 1\n"
                               "hints:\n"
                               "  - {id: race, do: release, pick: {size: 8388608}, when: {anchor: "
                               "\"P\", edge: exit}}\n";
    char path[128];
    int fd;

    (void)snprintf(path, sizeof path, "/tmp/kedge-test-threads-%d.yaml", (int)getpid());
    fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, text, sizeof text - 1) == (ssize_t)(sizeof text - 1));
    REQUIRE(fchmod(fd, 0644) == 0 && close(fd) == 0);
    REQUIRE(setenv("KEDGE_HINTS", path, 1) == 0);
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trap", 1) == 0);
    prepare("hints");
    with_hints = true;
    client_init();
    sixteen_threads();
    (void)unlink(path);
    expect_floors();
    CHECK_GT(atomic_load(&releases), 10);
    CHECK_GT(atomic_load(&refused_touches), 10);
    finish();
}
