/* SPDX-License-Identifier: MIT */
/*
 * hazards.c - a program for each hazard that no trainer meets often enough. Written as a user writes: against the runtime.
 *
 *     late_use        a thread stands between kedge's guard and the driver while the anchor passes (R66)
 *     limbo           the anchor passes while kernels that use the tensor are queued (R66)
 *     limbo_legacy    the same on the legacy default stream
 *     limbo_thread    the same on the own default stream of another thread
 *     limbo_device    the same on another device than the current one
 *     two_devices     a block of one device that the other device still reads is freed (R1)
 *     short_streams   streams that end with work queued, whose handles come back as other streams' (R5, R69)
 *     freed_capture   a block that a graph names is freed while the graph is captured (R12)
 *     moved_graph     a block that a graph names is freed, and a larger one asked for (R80)
 *     aliased         blocks are freed behind a late stream, and larger ones asked for on it and on another (R95)
 *     graph_memory    memory that is allocated on a capturing stream belongs to the graph (R11, R82)
 *     fence_flight    captures begin while another thread is about to record a fence (R67)
 *     shown           a block is freed that another process was shown, and still looks at (R24)
 *     by_launch       an event stands for work of a late stream, and then for the beginning of a kernel on another one (R72)
 *     by_graph        and then for a graph that records it, on another stream
 *     record_flight   an event is recorded anew while another thread's wait for it stands before the driver
 *     evict_stay      a thread stands before the driver with a block, and another thread's calls need the room of it
 *
 * Each is legal, or harmless, on a device alone. late_use and limbo* say what kedge did in a last line "anchor passed".
 * Exit status as the trainers'. To stand at a given driver call it asks the simulated device for its hook, so it runs there only.
 */
#include "tests/sim/base/simcuda.h"
#include "tests/trainers/twin.h"

#include <dlfcn.h>
#include <nvtx.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    HINTED_BYTES = 8388608, /* the size that the hint of the test picks */
    BYTES = 3538944,
    SMALL_BYTES = 40000,
    ROUNDS = 12,
    MANY = 80, /* small blocks that no one page holds, so that what was freed is asked for */
    FLIGHTS = 12,
};

static struct twin_sums sums;

static struct twin take(enum trainer_entrance entrance, uint64_t bytes, cudaStream_t stream)
{
    struct twin t;
    void *ptr;

    TRAINER_MALLOC(entrance, &ptr, bytes, stream);
    twin_new(&t, ptr, bytes);
    return t;
}

static void give(enum trainer_entrance entrance, struct twin *t, cudaStream_t stream)
{
    TRAINER_FREE(entrance, t->device, stream);
    twin_drop(t);
}

static cudaStream_t new_stream(void)
{
    cudaStream_t stream;

    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

/* ---- standing at a driver call -------------------------------------------------------------- */

static __thread const char *stand_at; /* beginning of the call's name; NULL = this thread goes on */
static atomic_int standing;           /* 0 not yet, 1 there, 2 go on */
static bool stand_for_good;           /* until told, else for some milliseconds */

static void pause_ms(long ms)
{
    struct timespec time = {0, ms * 1000000};

    (void)nanosleep(&time, NULL);
}

static void at_call(const char *call)
{
    if (!stand_at || strncmp(call, stand_at, strlen(stand_at)) != 0 || atomic_load(&standing) != 0)
        return;
    atomic_store(&standing, 1);
    for (int i = 0; (stand_for_good || i < 5) && atomic_load(&standing) != 2; i++)
        pause_ms(1);
}

static void set_hook(void (*hook)(const char *))
{
    void *device = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    __typeof__(&simcuda_set_call_hook) set = NULL;

    if (device)
        set = (__typeof__(&simcuda_set_call_hook))dlsym(device, "simcuda_set_call_hook");
    if (!set)
        trainer_fail(77, "SKIP: this is no simulated device");
    set(hook);
}

/* ---- anchors -------------------------------------------------------------------------------- */

/* Lets what waits for time, fences and readers move on. */
static void let_time_pass(cudaStream_t stream)
{
    for (int i = 0; i < 10; i++) {
        void *ptr;

        (void)nvtxRangePushA("poll");
        (void)nvtxRangePop();
        CUDA_OK(cudaMallocAsync(&ptr, 512, stream));
        CUDA_OK(cudaFreeAsync(ptr, stream));
        (void)sched_yield();
    }
}

static void *fill_late(void *data)
{
    const struct twin *t = data;
    cudaStream_t stream = new_stream();

    stand_at = "cuLaunchKernel";
    trainer_fill(t->device, t->bytes, 5, stream);
    stand_at = NULL;
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaStreamDestroy(stream));
    return NULL;
}

static int late_use(void)
{
    cudaStream_t stream = new_stream();
    pthread_t thread;
    struct twin t;

    (void)nvtxRangePushA("P");
    t = take(TRAINER_STREAM, HINTED_BYTES, stream);
    twin_fill(&t, 1, stream);
    CUDA_OK(cudaStreamSynchronize(stream));
    set_hook(at_call);
    stand_for_good = true;
    if (pthread_create(&thread, NULL, fill_late, &t) != 0)
        trainer_fail(1, "no thread");
    while (atomic_load(&standing) != 1)
        pause_ms(1);
    (void)nvtxRangePop(); /* dead from here on, with a launch on its way */
    let_time_pass(stream);
    atomic_store(&standing, 2);
    (void)pthread_join(thread, NULL);
    set_hook(NULL);
    let_time_pass(stream);
    CUDA_OK(cudaStreamSynchronize(stream));
    give(TRAINER_STREAM, &t, stream);
    printf("anchor passed\n");
    return 0;
}

/* A tensor, and who sums it on which stream. */
struct use {
    struct twin t;
    const struct twin_sums *sums;
    cudaStream_t stream;
    uint32_t seed;
};

static void *use_tensor(void *data)
{
    struct use *use = data;

    twin_fill(&use->t, use->seed, use->stream);
    twin_sum(use->sums, 0, &use->t, use->stream);
    return NULL;
}

static void use_by_thread(struct use *use)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, use_tensor, use) != 0)
        trainer_fail(1, "no thread");
    (void)pthread_join(thread, NULL);
}

/* Where `home` is another device than 0, device 0 is current as the anchor passes. */
static int limbo_on(
        cudaStream_t stream, int home, bool by_thread, const struct twin_sums *home_sums)
{
    cudaStream_t other;

    CUDA_OK(cudaSetDevice(0));
    other = new_stream();
    for (int round = 0; round < 4; round++) {
        struct use use = {.sums = home_sums, .stream = stream, .seed = (uint32_t)round};

        CUDA_OK(cudaSetDevice(home));
        (void)nvtxRangePushA("P");
        use.t = take(by_thread ? TRAINER_SYNC : TRAINER_STREAM, HINTED_BYTES, stream);
        if (by_thread)
            use_by_thread(&use);
        else
            (void)use_tensor(&use);
        CUDA_OK(cudaSetDevice(0));
        (void)nvtxRangePop(); /* dead, and the sum is still to come */
        let_time_pass(other);
        CUDA_OK(cudaSetDevice(home));
        CUDA_OK(cudaDeviceSynchronize());
        give(by_thread ? TRAINER_SYNC : TRAINER_STREAM, &use.t, stream);
    }
    printf("anchor passed\n");
    return 0;
}

static int limbo(void)
{
    return limbo_on(new_stream(), 0, false, &sums);
}

static int limbo_legacy(void)
{
    return limbo_on(NULL, 0, false, &sums);
}

static int limbo_thread(void)
{
    return limbo_on(cudaStreamPerThread, 0, true, &sums);
}

static int limbo_device(void)
{
    struct twin_sums far;

    CUDA_OK(cudaSetDevice(1));
    far = twin_sums_new(1);
    (void)limbo_on(new_stream(), 1, false, &far);
    return twin_sums_finish(&far);
}

/* ---- devices and streams -------------------------------------------------------------------- */

static int two_devices(void)
{
    static unsigned char pattern[BYTES], back[BYTES];
    cudaStream_t far;
    void *home, *away;

    CUDA_OK(cudaSetDevice(1));
    far = new_stream();
    CUDA_OK(cudaMalloc(&away, BYTES));
    CUDA_OK(cudaSetDevice(0));
    for (int round = 0; round < ROUNDS; round++) {
        memset(pattern, round + 1, sizeof pattern);
        CUDA_OK(cudaMalloc(&home, BYTES));
        CUDA_OK(cudaMemcpy(home, pattern, BYTES, cudaMemcpyHostToDevice));
        CUDA_OK(cudaDeviceSynchronize()); /* from pageable memory it may still be on its way */
        CUDA_OK(cudaSetDevice(1));
        CUDA_OK(cudaMemcpyPeerAsync(away, 1, home, 0, BYTES, far));
        CUDA_OK(cudaSetDevice(0));
        CUDA_OK(cudaFree(home));
        CUDA_OK(cudaMalloc(&home, BYTES)); /* must not be what the other device still reads */
        CUDA_OK(cudaMemset(home, 0xee, BYTES));
        CUDA_OK(cudaSetDevice(1));
        CUDA_OK(cudaStreamSynchronize(far));
        CUDA_OK(cudaMemcpy(back, away, BYTES, cudaMemcpyDeviceToHost));
        CUDA_OK(cudaSetDevice(0));
        CUDA_OK(cudaFree(home));
        if (memcmp(back, pattern, BYTES) != 0)
            trainer_fail(1, "the copy between devices brought another tenant's bytes");
    }
    return 0;
}

static int short_streams(void)
{
    int same_handle = 0;

    for (int round = 0; round < ROUNDS; round++) {
        cudaStream_t first = new_stream();
        cudaStream_t second;
        struct twin a = take(TRAINER_STREAM, BYTES, first);
        struct twin b;

        twin_fill(&a, (uint32_t)round, first);
        twin_sum(&sums, 0, &a, first);
        give(TRAINER_STREAM, &a, first);
        CUDA_OK(cudaStreamDestroy(first)); /* its work goes on */
        second = new_stream();
        same_handle += second == first;
        b = take(TRAINER_STREAM, BYTES, second);
        twin_fill(&b, (uint32_t)round + 100, second);
        twin_sum(&sums, 0, &b, second);
        give(TRAINER_STREAM, &b, second);
        CUDA_OK(cudaStreamDestroy(second));
    }
    printf("handles that came back: %d\n", same_handle);
    return 0;
}

/* ---- events --------------------------------------------------------------------------------- */

/* Three streams; and an event of the first, which is late. */
struct tied {
    cudaStream_t late, idle, then;
    cudaEvent_t event;
    struct twin scratch;
};

static void use_and_give(uint32_t seed, cudaStream_t stream)
{
    struct twin t = take(TRAINER_STREAM, BYTES, stream);

    twin_fill(&t, seed, stream);
    twin_sum(&sums, 0, &t, stream);
    give(TRAINER_STREAM, &t, stream);
}

/* Two streams have freed, so events matter from here on. */
static struct tied new_tied(void)
{
    struct tied tied = {.late = new_stream(), .idle = new_stream(), .then = new_stream()};

    CUDA_OK(cudaEventCreateWithFlags(&tied.event, cudaEventDisableTiming));
    use_and_give(1, tied.late);
    use_and_give(2, tied.then);
    CUDA_OK(cudaDeviceSynchronize());
    tied.scratch = take(TRAINER_STREAM, SMALL_BYTES, tied.idle);
    return tied;
}

/* The event covers what was used and freed on the late stream, until somebody records it anew. */
static void record_late(const struct tied *tied, int round)
{
    CUDA_OK(cudaDeviceSynchronize());
    use_and_give((uint32_t)round, tied->late);
    CUDA_OK(cudaEventRecord(tied->event, tied->late));
}

/* Nothing orders this behind the late stream. */
static void use_then(const struct tied *tied, int round)
{
    use_and_give((uint32_t)round + 100, tied->then);
    CUDA_OK(cudaDeviceSynchronize());
}

static int by_launch(void)
{
    struct tied tied = new_tied();

    for (int round = 0; round < ROUNDS; round++) {
        record_late(&tied, round);
        trainer_fill_and_record(tied.scratch.device, SMALL_BYTES, 3, tied.idle, tied.event);
        CUDA_OK(cudaStreamWaitEvent(tied.then, tied.event, 0));
        use_then(&tied, round);
    }
    return 0;
}

static void *wait_late(void *data)
{
    const struct tied *tied = data;

    stand_at = "cuStreamWaitEvent";
    CUDA_OK(cudaStreamWaitEvent(tied->then, tied->event, 0));
    stand_at = NULL;
    return NULL;
}

static int record_flight(void)
{
    struct tied tied = new_tied();

    set_hook(at_call);
    stand_for_good = true;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;

        record_late(&tied, round);
        if (pthread_create(&thread, NULL, wait_late, &tied) != 0)
            trainer_fail(1, "no thread");
        while (atomic_load(&standing) != 1)
            pause_ms(1);
        CUDA_OK(cudaEventRecord(tied.event, tied.idle));
        atomic_store(&standing, 2);
        (void)pthread_join(thread, NULL);
        atomic_store(&standing, 0);
        use_then(&tied, round);
    }
    set_hook(NULL);
    return 0;
}

/* ---- captures ------------------------------------------------------------------------------- */

static void begin_capture(cudaStream_t stream)
{
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
}

static cudaGraphExec_t end_capture(cudaStream_t stream)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
    return exec;
}

static int by_graph(void)
{
    struct tied tied = new_tied();
    cudaGraphExec_t exec;

    begin_capture(tied.idle);
    CUDA_OK(cudaEventRecordWithFlags(tied.event, tied.idle, cudaEventRecordExternal));
    exec = end_capture(tied.idle);
    for (int round = 0; round < ROUNDS; round++) {
        record_late(&tied, round);
        CUDA_OK(cudaGraphLaunch(exec, tied.idle));
        CUDA_OK(cudaStreamWaitEvent(tied.then, tied.event, 0));
        use_then(&tied, round);
    }
    CUDA_OK(cudaGraphExecDestroy(exec));
    return 0;
}

/* Small: on a device alone its page stays, so that the graph's write does not fault there. */
static int freed_capture(void)
{
    cudaStream_t stream = new_stream();
    struct twin named = take(TRAINER_SYNC, SMALL_BYTES, stream);
    struct twin keeper = take(TRAINER_SYNC, SMALL_BYTES, stream);
    struct twin later[MANY];
    cudaGraphExec_t exec;

    begin_capture(stream);
    trainer_fill(named.device, SMALL_BYTES, 1, stream);
    give(TRAINER_SYNC, &named, stream);
    exec = end_capture(stream);
    for (int i = 0; i < MANY; i++) {
        later[i] = take(TRAINER_SYNC, SMALL_BYTES, stream);
        twin_fill(&later[i], (uint32_t)i, stream);
        CUDA_OK(cudaStreamSynchronize(stream)); /* nothing is pending, so fences protect nothing */
    }
    CUDA_OK(cudaGraphLaunch(exec, stream));
    for (int i = 0; i < MANY; i++) {
        twin_sum(&sums, 0, &later[i], stream);
        give(TRAINER_SYNC, &later[i], stream);
    }
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaGraphExecDestroy(exec));
    give(TRAINER_SYNC, &keeper, stream);
    return 0;
}

/* On a device alone the pool keeps what was freed, and a larger block does not fit there. */
static int moved_graph(void)
{
    cudaStream_t stream = new_stream();
    struct twin named, loose, keeper, end, later;
    cudaGraphExec_t exec;
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;

    CUDA_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CUDA_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    named = take(TRAINER_STREAM, HINTED_BYTES, stream);
    keeper = take(TRAINER_STREAM, BYTES, stream);
    loose = take(TRAINER_STREAM, HINTED_BYTES, stream);
    end = take(TRAINER_STREAM, BYTES, stream);
    begin_capture(stream);
    trainer_fill(named.device, HINTED_BYTES, 1, stream);
    exec = end_capture(stream);
    twin_fill(&keeper, 2, stream);
    give(TRAINER_STREAM, &loose, stream);
    give(TRAINER_STREAM, &named, stream);
    CUDA_OK(cudaStreamSynchronize(stream));
    later = take(TRAINER_STREAM, (uint64_t)3 * HINTED_BYTES, stream);
    twin_fill(&later, 3, stream);
    CUDA_OK(cudaGraphLaunch(exec, stream));
    twin_sum(&sums, 0, &later, stream);
    twin_sum(&sums, 0, &keeper, stream);
    give(TRAINER_STREAM, &later, stream);
    give(TRAINER_STREAM, &keeper, stream);
    give(TRAINER_STREAM, &end, stream);
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaGraphExecDestroy(exec));
    return 0;
}

/* One round: what `home` frees is whole handles, which a larger block gets there, while their old addresses still have work. */
static void reuse_late(cudaStream_t home, cudaStream_t away)
{
    struct twin holes[3], walls[3], larger, other, small;

    for (int i = 0; i < 3; i++) {
        holes[i] = take(TRAINER_STREAM, HINTED_BYTES, home);
        walls[i] = take(TRAINER_STREAM, BYTES, home);
        twin_fill(&holes[i], (unsigned)i + 1, home);
        twin_sum(&sums, 0, &holes[i], home);
        twin_fill(&walls[i], (unsigned)i + 4, home);
    }
    for (int i = 0; i < 3; i++)
        give(TRAINER_STREAM, &holes[i], home);
    other = take(TRAINER_STREAM, (uint64_t)2 * HINTED_BYTES, away);
    twin_fill(&other, 7, away);
    larger = take(TRAINER_STREAM, (uint64_t)2 * HINTED_BYTES + BYTES, home);
    twin_fill(&larger, 8, home);
    small = take(TRAINER_STREAM, HINTED_BYTES / 2, home);
    twin_fill(&small, 9, home);
    twin_sum(&sums, 0, &other, away);
    twin_sum(&sums, 0, &larger, home);
    twin_sum(&sums, 0, &small, home);
    for (int i = 0; i < 3; i++) {
        twin_sum(&sums, 0, &walls[i], home);
        give(TRAINER_STREAM, &walls[i], home);
    }
    give(TRAINER_STREAM, &small, home);
    give(TRAINER_STREAM, &larger, home);
    give(TRAINER_STREAM, &other, away);
}

static int aliased(void)
{
    cudaStream_t home = new_stream();
    cudaStream_t away = new_stream();
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;

    CUDA_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CUDA_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    for (int i = 0; i < ROUNDS; i++) {
        reuse_late(home, away);
        if (i % 4 == 3)
            CUDA_OK(cudaStreamSynchronize(home));
    }
    CUDA_OK(cudaStreamSynchronize(home));
    CUDA_OK(cudaStreamSynchronize(away));
    return 0;
}

static int graph_memory(void)
{
    cudaStream_t stream = new_stream();
    cudaStream_t side = new_stream();
    struct twin later[ROUNDS];
    cudaGraphExec_t exec;
    void *own;

    give(TRAINER_STREAM, &(struct twin){take(TRAINER_STREAM, BYTES, stream).device, NULL, 0},
            stream);
    CUDA_OK(cudaStreamSynchronize(stream));
    begin_capture(stream);
    CUDA_OK(cudaMallocAsync(&own, BYTES, stream));
    trainer_fill(own, BYTES, 9, stream);
    CUDA_OK(cudaFreeAsync(own, stream));
    exec = end_capture(stream);
    for (int i = 0; i < ROUNDS; i++) {
        later[i] = take(TRAINER_STREAM, BYTES, i % 2 ? side : stream);
        twin_fill(&later[i], (uint32_t)i, i % 2 ? side : stream);
    }
    CUDA_OK(cudaGraphLaunch(exec, stream));
    for (int i = 0; i < ROUNDS; i++) {
        twin_sum(&sums, 0, &later[i], i % 2 ? side : stream);
        give(TRAINER_STREAM, &later[i], i % 2 ? side : stream);
    }
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaGraphExecDestroy(exec));
    return 0;
}

static atomic_bool enough;

/* Allocates and frees, as a data loader's thread does; now and then about to record a fence. */
static void *comes_and_goes(void *data)
{
    void *ptr;

    (void)data;
    stand_at = "cuCtxRecordEvent";
    while (!atomic_load(&enough)) {
        CUDA_OK(cudaMalloc(&ptr, BYTES));
        CUDA_OK(cudaFree(ptr));
    }
    return NULL;
}

static int fence_flight(void)
{
    cudaStream_t stream = new_stream();
    struct twin t = take(TRAINER_SYNC, SMALL_BYTES, stream);
    pthread_t thread;
    int met = 0;

    set_hook(at_call);
    if (pthread_create(&thread, NULL, comes_and_goes, NULL) != 0)
        trainer_fail(1, "no thread");
    for (int i = 0; i < FLIGHTS; i++) {
        for (int ms = 0; ms < 20 && atomic_load(&standing) != 1; ms++)
            pause_ms(1);
        met += atomic_load(&standing) == 1;
        begin_capture(stream); /* waits for the fence call, or comes before it */
        atomic_store(&standing, 2);
        twin_fill(&t, (uint32_t)i, stream);
        pause_ms(1);
        CUDA_OK(cudaGraphExecDestroy(end_capture(stream)));
        atomic_store(&standing, 0);
    }
    atomic_store(&enough, true);
    atomic_store(&standing, 2);
    (void)pthread_join(thread, NULL);
    set_hook(NULL);
    give(TRAINER_SYNC, &t, stream);
    printf("captures that met a fence call: %d\n", met);
    return 0;
}

/* ---- blocks that go out -------------------------------------------------------------------- */

/* Under a cap of one of them. */
static int evict_stay(void)
{
    cudaStream_t stream = new_stream();
    struct twin first = take(TRAINER_SYNC, HINTED_BYTES, stream);
    struct twin second = take(TRAINER_SYNC, HINTED_BYTES, stream);
    int met = 0;

    set_hook(at_call);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;

        atomic_store(&standing, 0);
        if (pthread_create(&thread, NULL, fill_late, &first) != 0)
            trainer_fail(1, "no thread");
        for (int ms = 0; ms < 50 && atomic_load(&standing) != 1; ms++)
            pause_ms(1);
        met += atomic_load(&standing) == 1;
        twin_fill(&second, (uint32_t)round, stream); /* waits, until the other one has gone on */
        (void)pthread_join(thread, NULL);
        twin_sum(&sums, 0, &second, stream);
    }
    set_hook(NULL);
    CUDA_OK(cudaStreamSynchronize(stream));
    give(TRAINER_SYNC, &first, stream);
    give(TRAINER_SYNC, &second, stream);
    printf("calls that stood with a block: %d\n", met);
    return met == 0;
}

/* ---- another process ------------------------------------------------------------------------ */

enum {
    SHOWN_FIRST = 0x11,
    SHOWN_LATER = 0xee,
};

static void must_write(int fd, const void *bytes, size_t size)
{
    if (write(fd, bytes, size) != (ssize_t)size)
        trainer_fail(1, "the other process is gone");
}

static void must_read(int fd, void *bytes, size_t size)
{
    if (read(fd, bytes, size) != (ssize_t)size)
        trainer_fail(1, "the other process is gone");
}

static size_t count_bytes(const void *shown, unsigned char wanted)
{
    static unsigned char back[BYTES];
    size_t n = 0;

    CUDA_OK(cudaMemcpy(back, shown, BYTES, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < BYTES; i++)
        n += back[i] == wanted;
    return n;
}

/* The other process: opens what it is shown, and looks again after the owner has freed it and gone on. */
static int look_on(int from, int to)
{
    cudaIpcMemHandle_t handle;
    size_t foreign;
    void *shown;
    char word;

    must_read(from, &handle, sizeof handle);
    CUDA_OK(cudaIpcOpenMemHandle(&shown, handle, cudaIpcMemLazyEnablePeerAccess));
    if (count_bytes(shown, SHOWN_FIRST) != BYTES)
        trainer_fail(1, "what was shown is not what was written");
    must_write(to, "o", 1);
    must_read(from, &word, 1);
    foreign = count_bytes(shown, SHOWN_LATER);
    CUDA_OK(cudaIpcCloseMemHandle(shown));
    must_write(to, &foreign, sizeof foreign);
    return 0;
}

static pid_t start_onlooker(int *ret_to, int *ret_from)
{
    int down[2], up[2];
    char from[16], to[16];
    pid_t pid;

    if (pipe(down) != 0 || pipe(up) != 0)
        trainer_fail(1, "no pipe");
    (void)snprintf(from, sizeof from, "%d", down[0]);
    (void)snprintf(to, sizeof to, "%d", up[1]);
    pid = fork();
    if (pid == 0) {
        (void)close(down[1]);
        (void)close(up[0]);
        (void)execl("/proc/self/exe", "hazards", "look_on", from, to, (char *)NULL);
        _exit(1);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    *ret_to = down[1];
    *ret_from = up[0];
    return pid;
}

static int shown(void)
{
    cudaIpcMemHandle_t handle;
    int to, from, status = 0;
    pid_t pid = start_onlooker(&to, &from);
    size_t foreign;
    void *ptr;
    char word;

    CUDA_OK(cudaMalloc(&ptr, BYTES));
    CUDA_OK(cudaMemset(ptr, SHOWN_FIRST, BYTES));
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaIpcGetMemHandle(&handle, ptr));
    must_write(to, &handle, sizeof handle);
    must_read(from, &word, 1);
    CUDA_OK(cudaFree(ptr));
    for (int i = 0; i < ROUNDS;
            i++) { /* of its size, and small ones that would fit beside and into it */
        CUDA_OK(cudaMalloc(&ptr, i % 2 ? SMALL_BYTES : BYTES));
        CUDA_OK(cudaMemset(ptr, SHOWN_LATER, i % 2 ? SMALL_BYTES : BYTES));
    }
    CUDA_OK(cudaDeviceSynchronize());
    must_write(to, "o", 1);
    must_read(from, &foreign, sizeof foreign);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        trainer_fail(1, "the other process failed");
    printf("another tenant's bytes: %zu\n", foreign);
    return foreign > 0;
}

/* ---- main ----------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } hazards[] = {
            {"late_use", late_use},
            {"limbo", limbo},
            {"limbo_legacy", limbo_legacy},
            {"limbo_thread", limbo_thread},
            {"limbo_device", limbo_device},
            {"two_devices", two_devices},
            {"short_streams", short_streams},
            {"freed_capture", freed_capture},
            {"moved_graph", moved_graph},
            {"aliased", aliased},
            {"graph_memory", graph_memory},
            {"fence_flight", fence_flight},
            {"shown", shown},
            {"by_launch", by_launch},
            {"by_graph", by_graph},
            {"record_flight", record_flight},
            {"evict_stay", evict_stay},
    };
    int wrong;

    if (argc == 4 && strcmp(argv[1], "look_on") == 0)
        return look_on(atoi(argv[2]), atoi(argv[3]));
    for (size_t i = 0; argc == 2 && i < sizeof hazards / sizeof *hazards; i++) {
        if (strcmp(argv[1], hazards[i].name) != 0)
            continue;
        trainer_load_kernels();
        sums = twin_sums_new(1);
        wrong = hazards[i].run();
        return twin_sums_finish(&sums) || wrong;
    }
    trainer_fail(2, "usage: hazards HAZARD");
}
