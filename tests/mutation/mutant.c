/* SPDX-License-Identifier: MIT */
/*
 * mutant.c - libkedge_mutant.so: the library that ships, with single safety devices switched off.
 *
 * Every fence, dependency and gate must be seen to matter: without it, the oracle of the simulated device has to fire. The
 * mutant is linked from the very objects of libkedge.so, but for those of the pool, which are compiled once more with their
 * switches (alloc/base/mutation.h); the linker (--wrap) puts the functions below between two of them, so nothing of this is in the
 * library that ships.
 *
 *     dispatch.o ─ pool_new ──► mutant.c: the driver's table with holes, switches of the pool ──► pool.o
 *     dispatch.o ─ pool_free ─► mutant.c: a request that says less than is true ─────────────────► pool.o
 *
 * TEST_KEDGE_MUTATE is a list of the words of mutant.def, by comma; an unknown one ends the program, since a test of a
 * mutation that does not exist must not pass. Without words the library does what libkedge.so does. TEST_KEDGE_FIGURES names a
 * file that gets, when a process ends, what the run has exercised, a line "name number" each (R92).
 *
 * Threads: the words are fixed before the program's first call.
 */
#include "alloc/base/mutation.h"
#include "alloc/pool.h"
#include "preload/base/gate.h"
#include "preload/base/guard.h"
#include "preload/driver/backend.h"
#include "preload/driver/contexts.h"
#include "preload/driver/hostwait.h"
#include "preload/driver/life.h"
#include "preload/driver/mempools.h"
#include "preload/driver/resolve.h"
#include "preload/graph/hostfn.h"
#include "preload/hints/argcheck.h"
#include "preload/hints/graphnodes.h"
#include "preload/hints/pins.h"
#include "preload/request/dispatch.h"
#include "preload/request/event_order.h"
#include "preload/request/quick.h"
#include "preload/request/underway.h"
#include "tests/sim/base/simcuda.h"
#include "tracker/base/config.h"
#include "tracker/base/peek.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum mutant {
#define MUTATION(name_, word_) MUTANT_##name_,
#include "tests/mutation/mutant.def"
#undef MUTATION
    MUTANT_COUNT
};

static const char *const words[MUTANT_COUNT] = {
#define MUTATION(name_, word_) word_,
#include "tests/mutation/mutant.def"
#undef MUTATION
};
static bool is_off[MUTANT_COUNT];
static struct pool *the_pool;

/* What is switched off inside the pool. */
uint64_t pool_mutations;
static const uint64_t pool_bits[MUTANT_COUNT] = {
        [MUTANT_FENCE] = POOL_MUTATE_FENCE,
        [MUTANT_GRACE] = POOL_MUTATE_GRACE,
        [MUTANT_DROP] = POOL_MUTATE_DROP,
        [MUTANT_LEAST] = POOL_MUTATE_LEAST,
        [MUTANT_CUT] = POOL_MUTATE_CUT,
        [MUTANT_MOVE] = POOL_MUTATE_MOVE,
        [MUTANT_PIN] = POOL_MUTATE_PIN,
        [MUTANT_EXPECT] = POOL_MUTATE_EXPECT,
        [MUTANT_HOLD] = POOL_MUTATE_HOLD,
        [MUTANT_PARTS] = POOL_MUTATE_PARTS,
        [MUTANT_USES] = POOL_MUTATE_USES,
        [MUTANT_COPY] = POOL_MUTATE_COPY,
        [MUTANT_ARRIVE] = POOL_MUTATE_ARRIVE,
        [MUTANT_STAY] = POOL_MUTATE_STAY,
        [MUTANT_ALIAS] = POOL_MUTATE_ALIAS,
        [MUTANT_VACATE] = POOL_MUTATE_VACATE,
        [MUTANT_UNMAP] = POOL_MUTATE_UNMAP,
        [MUTANT_ADOPT] = POOL_MUTATE_ADOPT,
        [MUTANT_BEHIND] = POOL_MUTATE_BEHIND,
        [MUTANT_SPLIT] = POOL_MUTATE_SPLIT,
        [MUTANT_PATIENCE] = POOL_MUTATE_PATIENCE,
        [MUTANT_LEAVE] = POOL_MUTATE_LEAVE,
        [MUTANT_YOUNG] = POOL_MUTATE_YOUNG,
        [MUTANT_ENDS] = POOL_MUTATE_ENDS,
        [MUTANT_QUIET] = POOL_MUTATE_QUIET,
        [MUTANT_GONE] = POOL_MUTATE_GONE,
        [MUTANT_HEAPS] = POOL_MUTATE_HEAPS,
        [MUTANT_DESTROYED] = POOL_MUTATE_DESTROYED,
        [MUTANT_REFUSED] = POOL_MUTATE_REFUSED,
        [MUTANT_EARLY] = POOL_MUTATE_EARLY,
        [MUTANT_STALL] = POOL_MUTATE_STALL,
        [MUTANT_GAP] = POOL_MUTATE_GAP,
        [MUTANT_TAKEN] = POOL_MUTATE_TAKEN,
};
static char figures_path[256];
static atomic_ulong outs, ins, brings;

/* ---- words ---------------------------------------------------------------------------------- */

static void switch_off(const char *word)
{
    for (int i = 0; i < MUTANT_COUNT; i++)
        if (strcmp(word, words[i]) == 0) {
            is_off[i] = true;
            return;
        }
    (void)dprintf(STDERR_FILENO, "TEST_KEDGE_MUTATE: there is no mutation '%s'\n", word);
    _exit(2);
}

__attribute__((constructor)) static void read_words(void)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): before the program begins */
    const char *text = getenv("TEST_KEDGE_MUTATE");
    const char *path = getenv("TEST_KEDGE_FIGURES");
    /* NOLINTEND(concurrency-mt-unsafe) */
    char copy[256];
    char *rest = copy;
    char *word;

    (void)snprintf(copy, sizeof copy, "%s", text ? text : "");
    (void)snprintf(figures_path, sizeof figures_path, "%s", path ? path : "");
    while ((word = strsep(&rest, ",")) != NULL)
        if (*word)
            switch_off(word);
}

/* ---- figures -------------------------------------------------------------------------------- */

static void write_pool_figures(int fd)
{
    struct pool_stats stats;

    pool_stats(the_pool, -1, &stats);
    (void)dprintf(fd,
            "hits %lu\nepochs %lu\npoints %lu\npool_cross_reuses %lu\nmerges %lu\nfollowed %lu\n"
            "inserted_waits %lu\n"
            "host_waits %lu\nreleased %lu\nquarantined %lu\ngranules_moved %lu\ngranules_aliased "
            "%lu\n"
            "evict_outs %lu\nevict_ins %lu\nevict_waits %lu\n",
            (unsigned long)stats.hits, (unsigned long)stats.epochs, (unsigned long)stats.points,
            (unsigned long)stats.cross_reuses, (unsigned long)stats.point_merges,
            (unsigned long)stats.followed, (unsigned long)stats.inserted_waits,
            (unsigned long)stats.host_waits, (unsigned long)stats.released_count,
            (unsigned long)stats.quarantined_high, (unsigned long)stats.granules_moved,
            (unsigned long)stats.granules_aliased, atomic_load(&outs), atomic_load(&ins),
            atomic_load(&brings));
}

static void write_device_figures(int fd)
{
    struct simcuda_stats stats = {.size = sizeof stats};
    void *device = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    __typeof__(&simcuda_stats) ask = NULL;

    if (device)
        ask = (__typeof__(&simcuda_stats))dlsym(device, "simcuda_stats");
    if (!ask || ask(&stats) != 0)
        return;
    (void)dprintf(fd,
            "reuses %lu\ncross_stream_reuses %lu\ncontext_records %lu\nevent_records "
            "%lu\nstream_waits %lu\n"
            "synchronizes %lu\nunmaps %lu\nremaps %lu\nalias_reuses %lu\ncaptures "
            "%lu\ncaptures_invalidated %lu\n"
            "graph_launches %lu\nfaults %lu\n",
            (unsigned long)stats.reuses, (unsigned long)stats.cross_stream_reuses,
            (unsigned long)stats.context_records, (unsigned long)stats.event_records,
            (unsigned long)stats.stream_waits, (unsigned long)stats.synchronizes,
            (unsigned long)stats.unmaps, (unsigned long)stats.remaps,
            (unsigned long)stats.alias_reuses, (unsigned long)stats.captures,
            (unsigned long)stats.captures_invalidated, (unsigned long)stats.graph_launches,
            (unsigned long)stats.faults);
}

__attribute__((destructor)) static void write_figures(void)
{
    /* A program that used no device, a shell on the way for example, has nothing to say. */
    FILE *file = the_pool && figures_path[0] ? fopen(figures_path, "ae") : NULL;

    if (!file)
        return;
    write_pool_figures(fileno(file));
    write_device_figures(fileno(file));
    (void)fclose(file);
}

/* ---- the driver's table --------------------------------------------------------------------- */

/* Fences are pointers, so their lowest bits are free for a note on what they are. */
enum {
    NOTE_PASSED = 1,
    NOTE_EPOCH = 2,
    NOTES = NOTE_PASSED | NOTE_EPOCH,
};

static struct driver real;

static int record_epoch(void *self, int device, uint64_t *ret_fence)
{
    int r;

    if (is_off[MUTANT_DRAIN]) {
        *ret_fence = NOTE_PASSED; /* of no fence at all */
        return 0;
    }
    r = real.fence_record(self, device, ret_fence);
    if (r == 0)
        *ret_fence |= is_off[MUTANT_EPOCH] ? NOTES : NOTE_EPOCH;
    return r;
}

static int record_point(void *self, uint64_t identity, uint64_t *ret_fence)
{
    int r = real.stream_record(self, identity, ret_fence);

    if (r == 0 && is_off[MUTANT_POINT])
        *ret_fence |= NOTE_PASSED;
    return r;
}

static int record_point_beside(void *self, uint64_t identity, uint64_t *ret_fence)
{
    int r = is_off[MUTANT_BESIDE] && gate_captures() > 0
            ? -EBUSY
            : real.stream_record_beside(self, identity, ret_fence);

    if (r == 0 && is_off[MUTANT_POINT])
        *ret_fence |= NOTE_PASSED;
    return r;
}

static int query(void *self, uint64_t fence)
{
    int r = fence & NOTE_PASSED ? 0 : real.fence_query(self, fence & ~(uint64_t)NOTES);

    return r == -EBUSY && is_off[MUTANT_ASKED] && gate_captures() == 0 ? 0 : r;
}

static int wait_for(void *self, uint64_t fence, uint32_t timeout_ms)
{
    return fence & NOTE_PASSED ? 0 : real.fence_wait(self, fence & ~(uint64_t)NOTES, timeout_ms);
}

static int stream_wait(void *self, uint64_t identity, uint64_t fence)
{
    if (is_off[MUTANT_WAIT] || (is_off[MUTANT_WHOLE] && fence & NOTE_EPOCH))
        return 0;
    return real.stream_wait_fence(self, identity, fence & ~(uint64_t)NOTES);
}

static int put_poison(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
        uint64_t size, uint64_t fence)
{
    fence = is_off[MUTANT_POISON] ? 0 : fence & ~(uint64_t)NOTES;
    return real.poison(self, heap, owner, device, ptr, size, fence);
}

/* As many as a block of alloc/swap/swap.c waits for at most. */
enum {
    AFTER_MAX = 16
};

static int content(void *self, enum heap_kind heap, uint64_t owner, int device, enum driver_way way,
        devptr_t ptr, void *host, uint64_t size, const uint64_t *after, uint32_t count,
        uint64_t *ret_fence)
{
    uint64_t pending[AFTER_MAX];
    uint32_t n = 0;
    int r;

    if (count > AFTER_MAX)
        abort();
    for (uint32_t i = 0; i < count; i++)
        if (!(after[i] & NOTE_PASSED))
            pending[n++] = after[i] & ~(uint64_t)NOTES;
    r = real.content(self, heap, owner, device, way, ptr, host, size, pending, n, ret_fence);
    if (r == 0)
        atomic_fetch_add(way == DRIVER_OUT ? &outs : &ins, 1);
    return r;
}

static void put(void *self, uint64_t fence)
{
    if (fence & ~(uint64_t)NOTES && !is_off[MUTANT_PUT])
        real.fence_put(self, fence & ~(uint64_t)NOTES);
}

/* ---- between two objects -------------------------------------------------------------------- */

int __real_pool_new(
        const struct driver *driver, const struct pool_opts *opts, struct pool **ret_pool);
int __wrap_pool_new(
        const struct driver *driver, const struct pool_opts *opts, struct pool **ret_pool);

int __wrap_pool_new(
        const struct driver *driver, const struct pool_opts *opts, struct pool **ret_pool)
{
    struct driver table = *driver;
    int r;

    real = *driver;
    table.fence_record = record_epoch;
    table.stream_record = record_point;
    table.stream_record_beside = record_point_beside;
    table.fence_query = query;
    table.fence_wait = wait_for;
    table.stream_wait_fence = stream_wait;
    table.fence_put = put;
    table.poison = put_poison;
    table.content = content;
    for (int i = 0; i < MUTANT_COUNT; i++)
        pool_mutations |= is_off[i] ? pool_bits[i] : 0;
    r = __real_pool_new(&table, opts, ret_pool);
    if (r == 0)
        the_pool = *ret_pool;
    return r;
}

/* A request that was served on this thread, and whose operation on its stream was refused then. */
static __thread bool is_served, is_refused;

int __real_pool_alloc(struct pool *pool, const struct pool_request *request, struct outcome *ret);
int __wrap_pool_alloc(struct pool *pool, const struct pool_request *request, struct outcome *ret);

int __wrap_pool_alloc(struct pool *pool, const struct pool_request *request, struct outcome *ret)
{
    int r = __real_pool_alloc(pool, request, ret);

    is_served = r == 0;
    return r;
}

/* The block of such a request is being returned. */
static bool goes_back_unheard(void)
{
    bool goes = is_off[MUTANT_UNDONE] && is_served && is_refused;

    is_served = is_refused = false;
    return goes;
}

/* By device: bytes that its books have too much of, and the bytes that they miss. */
static _Atomic(int64_t) booked[DEVICES_MAX];

/* A free is booked on the device of the context that is current, as though its block were there. */
static void book_free(struct pool *pool, devptr_t ptr)
{
    struct context here;
    struct block_info info;

    if (pool_find(pool, ptr, &info) != 0 || info.base != ptr || context_here(&here) != 0
            || here.device == info.device)
        return;
    atomic_fetch_add(&booked[info.device], (int64_t)info.size);
    atomic_fetch_sub(&booked[here.device], (int64_t)info.size);
}

uint64_t __real_pool_available(struct pool *pool, int device, const struct pool_memory *memory);
uint64_t __wrap_pool_available(struct pool *pool, int device, const struct pool_memory *memory);

uint64_t __wrap_pool_available(struct pool *pool, int device, const struct pool_memory *memory)
{
    int64_t bytes =
            (int64_t)__real_pool_available(pool, device, memory) - atomic_load(&booked[device]);

    if (is_off[MUTANT_USED])
        return memory->total;
    return bytes < 0 ? 0 : bytes > (int64_t)memory->total ? memory->total : (uint64_t)bytes;
}

struct heap;
void __real_trim_put_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t handle);
void __wrap_trim_put_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t handle);

void __wrap_trim_put_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t handle)
{
    if (!is_off[MUTANT_HALFWAY])
        __real_trim_put_handle(pool, heap, size, handle);
}

int __real_dispatch_free(
        devptr_t ptr, enum api api, const struct stream *stream, struct dispatch_end *ret_end);
int __wrap_dispatch_free(
        devptr_t ptr, enum api api, const struct stream *stream, struct dispatch_end *ret_end);

int __wrap_dispatch_free(
        devptr_t ptr, enum api api, const struct stream *stream, struct dispatch_end *ret_end)
{
    int r = __real_dispatch_free(ptr, api, stream, ret_end);

    return r == -ENOENT && is_off[MUTANT_UNKNOWN] ? CUDA_ERROR_INVALID_VALUE : r;
}

int __real_mempool_current(int device, struct mempool *ret_pool);
int __wrap_mempool_current(int device, struct mempool *ret_pool);

int __wrap_mempool_current(int device, struct mempool *ret_pool)
{
    CUmemoryPool handle;

    if (!is_off[MUTANT_CURRENT] || REAL(cuDeviceGetDefaultMemPool)(&handle, device) != CUDA_SUCCESS)
        return __real_mempool_current(device, ret_pool);
    mempool_learn_defaults();
    return mempool_find(handle, ret_pool) ? 0 : -ENOENT;
}

int __real_pool_free(struct pool *pool, devptr_t ptr, const struct pool_free_request *request,
        struct outcome *ret);
int __wrap_pool_free(struct pool *pool, devptr_t ptr, const struct pool_free_request *request,
        struct outcome *ret);

int __wrap_pool_free(struct pool *pool, devptr_t ptr, const struct pool_free_request *request,
        struct outcome *ret)
{
    struct pool_free_request changed = *request;
    struct block_info info;

    if (goes_back_unheard())
        return 0;
    if (is_off[MUTANT_BOOKS])
        book_free(pool, ptr);
    if (is_off[MUTANT_PLAIN_FREE] && request->api == API_SYNC && pool_find(pool, ptr, &info) == 0
            && info.heap == HEAP_MAPPED) {
        changed.api = API_STREAM;
        changed.stream = info.stream;
    }
    changed.record_now = request->record_now && !is_off[MUTANT_OWNER];
    if (is_off[MUTANT_OPERATION])
        changed.record_now =
                false; /* the event that the pool records is the operation of most frees */
    return __real_pool_free(pool, ptr, &changed, ret);
}

int __real_pool_pin(struct pool *pool, devptr_t lo, uint64_t len, enum pool_pin kind,
        struct pool_pinned *ret, struct pool_hit *ret_hit);
int __wrap_pool_pin(struct pool *pool, devptr_t lo, uint64_t len, enum pool_pin kind,
        struct pool_pinned *ret, struct pool_hit *ret_hit);

int __wrap_pool_pin(struct pool *pool, devptr_t lo, uint64_t len, enum pool_pin kind,
        struct pool_pinned *ret, struct pool_hit *ret_hit)
{
    return is_off[MUTANT_QUARANTINE] ? -ENOENT : __real_pool_pin(pool, lo, len, kind, ret, ret_hit);
}

int __real_pool_call_bring(
        struct pool *pool, struct pool_call *io_call, struct pool_short *ret_short);
int __wrap_pool_call_bring(
        struct pool *pool, struct pool_call *io_call, struct pool_short *ret_short);

/* Counted alone. */
int __wrap_pool_call_bring(
        struct pool *pool, struct pool_call *io_call, struct pool_short *ret_short)
{
    atomic_fetch_add(&brings, 1);
    return __real_pool_call_bring(pool, io_call, ret_short);
}

int __real_pool_export(struct pool *pool, devptr_t ptr);
int __wrap_pool_export(struct pool *pool, devptr_t ptr);

int __wrap_pool_export(struct pool *pool, devptr_t ptr)
{
    return is_off[MUTANT_SHOWN] ? 0 : __real_pool_export(pool, ptr);
}

/* The name that a capture has while its stream is destroyed, and whether it has ended under that. */
static __thread uint64_t moved_to;
static __thread bool ended_with_stream;

void __real_gate_move(uint64_t from, uint64_t to);
void __wrap_gate_move(uint64_t from, uint64_t to);

void __wrap_gate_move(uint64_t from, uint64_t to)
{
    moved_to = to;
    __real_gate_move(from, to);
}

bool __real_gate_ended(uint64_t stream, bool was_one, struct gate_capture *ret_capture);
bool __wrap_gate_ended(uint64_t stream, bool was_one, struct gate_capture *ret_capture);

bool __wrap_gate_ended(uint64_t stream, bool was_one, struct gate_capture *ret_capture)
{
    bool found = __real_gate_ended(stream, was_one, ret_capture);

    ended_with_stream = found && stream == moved_to;
    return found;
}

bool __real_pins_capture_ended(const struct gate_capture *capture, uint64_t graph);
bool __wrap_pins_capture_ended(const struct gate_capture *capture, uint64_t graph);

bool __wrap_pins_capture_ended(const struct gate_capture *capture, uint64_t graph)
{
    bool is_passed =
            !is_off[MUTANT_CAPTURE_END] && !(is_off[MUTANT_CAPTURE_GONE] && ended_with_stream);

    ended_with_stream = false;
    return is_passed && __real_pins_capture_ended(capture, graph);
}

bool __real_stream_is_captured(CUstream named);
bool __wrap_stream_is_captured(CUstream named);

bool __wrap_stream_is_captured(CUstream named)
{
    return !is_off[MUTANT_CAPTURE_ASKED] && __real_stream_is_captured(named);
}

void __real_gate_stays(uint64_t stream);
void __wrap_gate_stays(uint64_t stream);

void __wrap_gate_stays(uint64_t stream)
{
    if (!is_off[MUTANT_OWN_GRAPH])
        __real_gate_stays(stream);
}

void __real_graphnodes_note(uint64_t graph, uint64_t node);
void __wrap_graphnodes_note(uint64_t graph, uint64_t node);

void __wrap_graphnodes_note(uint64_t graph, uint64_t node)
{
    if (!is_off[MUTANT_NODE])
        __real_graphnodes_note(graph, node);
}

void __real_graphnodes_embed(uint64_t graph, uint64_t inner);
void __wrap_graphnodes_embed(uint64_t graph, uint64_t inner);

void __wrap_graphnodes_embed(uint64_t graph, uint64_t inner)
{
    if (!is_off[MUTANT_INNER_GRAPH])
        __real_graphnodes_embed(graph, inner);
}

void __real_pins_map_parts(struct pins *pins, uint64_t (*map)(uint64_t part, void *arg), void *arg);
void __wrap_pins_map_parts(struct pins *pins, uint64_t (*map)(uint64_t part, void *arg), void *arg);

void __wrap_pins_map_parts(struct pins *pins, uint64_t (*map)(uint64_t part, void *arg), void *arg)
{
    if (!is_off[MUTANT_CLONE])
        __real_pins_map_parts(pins, map, arg);
}

unsigned __real_gate_captures(void);
uint64_t __real_gate_next(uint64_t after);
uint64_t __wrap_gate_next(uint64_t after);

uint64_t __wrap_gate_next(uint64_t after)
{
    uint64_t next = __real_gate_next(after);
    unsigned known = 0;

    if (is_off[MUTANT_NINTH] && __real_gate_captures() > 8)
        return after == GATE_UNLISTED ? 0 : GATE_UNLISTED;
    if (!is_off[MUTANT_CAPTURE_BEGIN] || next || after == GATE_UNLISTED)
        return next;
    for (uint64_t at = __real_gate_next(0); at; at = __real_gate_next(at))
        known++;
    return known < __real_gate_captures() ? GATE_UNLISTED : 0;
}

bool __real_context_next(uint64_t after, struct context *ret_context);
bool __wrap_context_next(uint64_t after, struct context *ret_context);

/* Whether as many contexts are alive up to this one. */
static bool is_late_context(uint64_t generation)
{
    struct context at = {.generation = 0};
    int count = 0;

    while (__real_context_next(at.generation, &at) && at.generation < generation)
        count++;
    return count >= 256;
}

bool __wrap_context_next(uint64_t after, struct context *ret_context)
{
    bool found = !(is_off[MUTANT_CONTEXTS] && after) && __real_context_next(after, ret_context);

    if (found && is_off[MUTANT_MANY_CONTEXTS] && is_late_context(ret_context->generation))
        return false;

    while (found && is_off[MUTANT_CONTEXTS]
            && ret_context->device != 0) /* one of the first device */
        found = __real_context_next(ret_context->generation, ret_context);
    return found;
}

int __real_backend_synchronise(uint64_t context);
int __wrap_backend_synchronise(uint64_t context);

int __wrap_backend_synchronise(uint64_t context)
{
    if (is_off[MUTANT_BARRIER_BESIDE] && __real_gate_captures() > 0)
        return 0;
    return is_off[MUTANT_BARRIER] ? 0 : __real_backend_synchronise(context);
}

/* The threads' default streams seen so far, for MUTANT_OWNER. */
enum {
    THREAD_STREAMS = 64
};
static struct stream thread_streams[THREAD_STREAMS];

int __real_stream_here(CUstream handle, bool per_thread_call, struct stream *ret_stream);
int __wrap_stream_here(CUstream handle, bool per_thread_call, struct stream *ret_stream);

/* The first identity that was seen stands for all. */
static uint64_t one_of(_Atomic(uint64_t) *first, uint64_t identity)
{
    uint64_t none = 0;

    if (identity && atomic_compare_exchange_strong(first, &none, identity))
        return identity;
    return identity ? none : 0;
}

/* Those that were noted as they were named. */
static void forget_order(void)
{
    for (int i = 0; i < DEVICES_MAX && is_off[MUTANT_MEETING]; i++)
        atomic_store(&stream_blocks[i], false);
    if (is_off[MUTANT_MEETING])
        atomic_store(&stream_defaults, false);
}

/* A default stream is taken for the one that had its number first, in whichever context. */
static void forget_context(struct stream *io_stream)
{
    static struct stream first[2]; /* guarded by the lock: the legacy one, and that of one thread */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct stream *known = &first[io_stream->per_thread];

    if (io_stream->handle != CU_STREAM_LEGACY && !io_stream->per_thread)
        return;
    (void)pthread_mutex_lock(&lock);
    if (!known->identity)
        *known = *io_stream;
    *io_stream = *known;
    (void)pthread_mutex_unlock(&lock);
}

/* A stream is the first one that had its handle. */
static void forget_birth(struct stream *io_stream)
{
    enum {
        HANDLES = 4096
    };
    static struct stream first[HANDLES]; /* guarded by the lock */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    unsigned at = (unsigned)((uintptr_t)io_stream->handle / 16 % HANDLES);

    if (io_stream->per_thread || io_stream->handle == CU_STREAM_LEGACY)
        return;
    (void)pthread_mutex_lock(&lock);
    if (!first[at].identity)
        first[at] = *io_stream;
    if (first[at].handle == io_stream->handle)
        io_stream->identity = first[at].identity;
    (void)pthread_mutex_unlock(&lock);
}

int __wrap_stream_here(CUstream handle, bool per_thread_call, struct stream *ret_stream)
{
    static _Atomic(uint64_t) first_stream;
    static _Atomic(uint64_t) first_thread_stream;
    int r = __real_stream_here(handle, per_thread_call && !is_off[MUTANT_PTSZ], ret_stream);

    forget_order();
    if (r == 0 && ret_stream->per_thread)
        thread_streams[ret_stream->identity % THREAD_STREAMS] = *ret_stream;
    if (r == 0 && is_off[MUTANT_NUMBERS])
        forget_context(ret_stream);
    if (r == 0 && is_off[MUTANT_HANDLE])
        forget_birth(ret_stream);
    if (r == 0 && is_off[MUTANT_STREAM])
        ret_stream->identity = one_of(&first_stream, ret_stream->identity);
    if (r == 0 && is_off[MUTANT_THREAD_STREAM] && ret_stream->per_thread)
        ret_stream->identity = one_of(&first_thread_stream, ret_stream->identity);
    return r;
}

int __real_backend_operate(const struct stream *stream);
int __wrap_backend_operate(const struct stream *stream);

int __wrap_backend_operate(const struct stream *stream)
{
    int r = is_off[MUTANT_OPERATION] ? 0 : __real_backend_operate(stream);

    is_refused = r != 0;
    return is_off[MUTANT_REFUSED] ? 0 : r;
}

static atomic_uint waits_on_their_way;

void __real_event_order_wait_begin(struct event_order *follow, CUevent event);
void __wrap_event_order_wait_begin(struct event_order *follow, CUevent event);

void __wrap_event_order_wait_begin(struct event_order *follow, CUevent event)
{
    atomic_fetch_add(&waits_on_their_way, 1);
    __real_event_order_wait_begin(follow, event);
}

void __real_event_order_wait_end(
        struct event_order *follow, CUresult result, CUstream stream, bool per_thread);
void __wrap_event_order_wait_end(
        struct event_order *follow, CUresult result, CUstream stream, bool per_thread);

void __wrap_event_order_wait_end(
        struct event_order *follow, CUresult result, CUstream stream, bool per_thread)
{
    __real_event_order_wait_end(follow, result, stream, per_thread);
    atomic_fetch_sub(&waits_on_their_way, 1);
}

void __real_event_order_record_begin(
        struct event_order *follow, CUevent event, bool covers, CUstream stream, bool per_thread);
void __wrap_event_order_record_begin(
        struct event_order *follow, CUevent event, bool covers, CUstream stream, bool per_thread);

void __wrap_event_order_record_begin(
        struct event_order *follow, CUevent event, bool covers, CUstream stream, bool per_thread)
{
    if ((is_off[MUTANT_RECORD] && !covers)
            || (is_off[MUTANT_TURN] && atomic_load(&waits_on_their_way) > 0))
        *follow = (struct event_order){.event = NULL};
    else
        __real_event_order_record_begin(follow, event, covers, stream, per_thread);
}

void __real_event_order_end(void);
void __wrap_event_order_end(void);

void __wrap_event_order_end(void)
{
    if (!is_off[MUTANT_RECORD])
        __real_event_order_end();
}

void __real_quick_start(bool decides, bool records);
void __wrap_quick_start(bool decides, bool records);

/* What is switched off lies on the long way, but for what is about the short one: that way stays closed. */
void __wrap_quick_start(bool decides, bool records)
{
    bool goes_long = false;

    for (int i = 0; i < MUTANT_COUNT; i++)
        goes_long |= is_off[i] && i != MUTANT_MEETING && i != MUTANT_SECOND && i != MUTANT_NOTICE
                && i != MUTANT_QUICK_STREAM;
    if (!goes_long)
        __real_quick_start(decides, records);
}

struct pool_given __real_pool_alloc_on_quickly(
        struct pool *pool, uint64_t owner, uint64_t stream, uint64_t size);
struct pool_given __wrap_pool_alloc_on_quickly(
        struct pool *pool, uint64_t owner, uint64_t stream, uint64_t size);

/* The stream that asked first is the one that all ask for. */
static uint64_t quick_stream_of(uint64_t stream)
{
    static _Atomic(uint64_t) first;

    return is_off[MUTANT_QUICK_STREAM] ? one_of(&first, stream) : stream;
}

struct pool_given __wrap_pool_alloc_on_quickly(
        struct pool *pool, uint64_t owner, uint64_t stream, uint64_t size)
{
    return __real_pool_alloc_on_quickly(pool, owner, quick_stream_of(stream), size);
}

bool __real_pool_free_on_quickly(struct pool *pool, devptr_t ptr, uint64_t stream);
bool __wrap_pool_free_on_quickly(struct pool *pool, devptr_t ptr, uint64_t stream);

bool __wrap_pool_free_on_quickly(struct pool *pool, devptr_t ptr, uint64_t stream)
{
    return __real_pool_free_on_quickly(pool, ptr, quick_stream_of(stream));
}

bool __real_pool_free_on_told(
        struct pool *pool, devptr_t ptr, uint64_t stream, struct pool_taken *ret_taken);
bool __wrap_pool_free_on_told(
        struct pool *pool, devptr_t ptr, uint64_t stream, struct pool_taken *ret_taken);

bool __wrap_pool_free_on_told(
        struct pool *pool, devptr_t ptr, uint64_t stream, struct pool_taken *ret_taken)
{
    return __real_pool_free_on_told(pool, ptr, quick_stream_of(stream), ret_taken);
}

void __real_stream_made(void);
void __wrap_stream_made(void);

void __wrap_stream_made(void)
{
    static atomic_uint made;
    bool is_first = atomic_fetch_add(&made, 1) == 0;

    if (!is_off[MUTANT_MEETING] && !(is_off[MUTANT_SECOND] && is_first))
        __real_stream_made();
}

void __real_stream_first(unsigned news);
void __wrap_stream_first(unsigned news);

void __wrap_stream_first(unsigned news)
{
    if (!is_off[MUTANT_MEETING] && !is_off[MUTANT_NOTICE])
        __real_stream_first(news);
}

/* It looks the stream up, and so tells of it, too. */
struct hostwait __real_hostwait_begin_slowly(
        enum hostwait_kind kind, CUstream stream, bool per_thread);
struct hostwait __wrap_hostwait_begin_slowly(
        enum hostwait_kind kind, CUstream stream, bool per_thread);

struct hostwait __wrap_hostwait_begin_slowly(
        enum hostwait_kind kind, CUstream stream, bool per_thread)
{
    return is_off[MUTANT_NOTICE] ? (struct hostwait){.stream = 0}
                                 : __real_hostwait_begin_slowly(kind, stream, per_thread);
}

void __real_underway_park(struct underway *underway);
void __wrap_underway_park(struct underway *underway);

void __wrap_underway_park(struct underway *underway)
{
    if (is_off[MUTANT_UNDERWAY])
        underway_over(underway);
    else
        __real_underway_park(underway);
}

bool __real_stream_enter(uint64_t identity, struct stream *ret_stream);
bool __wrap_stream_enter(uint64_t identity, struct stream *ret_stream);

/* Another thread's default stream is taken for this thread's: its handle names the wrong one here. */
bool __wrap_stream_enter(uint64_t identity, struct stream *ret_stream)
{
    if (__real_stream_enter(identity, ret_stream))
        return true;
    if (!is_off[MUTANT_OWNER])
        return false;
    for (unsigned i = 0; i < THREAD_STREAMS; i++)
        if (thread_streams[i].identity == identity && identity) {
            *ret_stream = thread_streams[i];
            return true;
        }
    return false;
}

void __real_pool_stream_gone(struct pool *pool, uint64_t stream_key);
void __wrap_pool_stream_gone(struct pool *pool, uint64_t stream_key);

void __wrap_pool_stream_gone(struct pool *pool, uint64_t stream_key)
{
    if (!is_off[MUTANT_STREAM_GONE] && !is_off[MUTANT_HANDLE])
        __real_pool_stream_gone(pool, stream_key);
}

void __real_stream_forget(uint64_t identity);
void __wrap_stream_forget(uint64_t identity);

void __wrap_stream_forget(uint64_t identity)
{
    if (!is_off[MUTANT_STREAM_GONE] && !is_off[MUTANT_HANDLE])
        __real_stream_forget(identity);
}

void __real_guard_read_begin(void);
void __wrap_guard_read_begin(void);

void __wrap_guard_read_begin(void)
{
    if (!is_off[MUTANT_READER])
        __real_guard_read_begin();
}

void __real_guard_read_end(void);
void __wrap_guard_read_end(void);

void __wrap_guard_read_end(void)
{
    if (!is_off[MUTANT_READER])
        __real_guard_read_end();
}

bool __real_argcheck_range(devptr_t ptr, uint64_t size, enum touch how, const char *what);
bool __wrap_argcheck_range(devptr_t ptr, uint64_t size, enum touch how, const char *what);

bool __wrap_argcheck_range(devptr_t ptr, uint64_t size, enum touch how, const char *what)
{
    return !is_off[MUTANT_TOUCH] && __real_argcheck_range(ptr, size, how, what);
}

/* Calls in progress that end a capture, and whether this thread makes one. */
static atomic_uint captures_ending;
static __thread bool ends_capture;

bool __real_life_enter(int slot);
bool __wrap_life_enter(int slot);

bool __wrap_life_enter(int slot)
{
    bool entered = __real_life_enter(slot);

    if (entered && (slot == SLOT_cuStreamEndCapture || slot == SLOT_cuStreamEndCapture_ptsz)) {
        ends_capture = true;
        atomic_fetch_add(&captures_ending, 1);
    }
    return entered;
}

void __real_life_leave(void);
void __wrap_life_leave(void);

void __wrap_life_leave(void)
{
    if (ends_capture)
        atomic_fetch_sub(&captures_ending, 1);
    ends_capture = false;
    __real_life_leave();
}

unsigned __real_gate_captures(void);
unsigned __wrap_gate_captures(void);

unsigned __wrap_gate_captures(void)
{
    unsigned captures = __real_gate_captures();
    unsigned ending = is_off[MUTANT_OVER] ? atomic_load(&captures_ending) : 0;

    if (is_off[MUTANT_GATE_FENCE])
        return 0;
    return captures > ending ? captures - ending : 0;
}

/* This thread's fence call has passed the gate without a word to it. */
static __thread bool is_past_gate;

static bool passes_gate(void)
{
    is_past_gate = is_off[MUTANT_OVER] && __real_gate_captures() > 0 && __wrap_gate_captures() == 0;
    return is_past_gate;
}

bool __real_gate_fence_enter(void);
bool __wrap_gate_fence_enter(void);

bool __wrap_gate_fence_enter(void)
{
    if (is_off[MUTANT_GATE_FENCE] || passes_gate())
        return true;
    if (is_off[MUTANT_GATE_FLIGHT]) /* enters as it should, and does not say that it is inside */
        return __real_gate_captures() == 0;
    return __real_gate_fence_enter();
}

void __real_gate_fence_leave(void);
void __wrap_gate_fence_leave(void);

void __wrap_gate_fence_leave(void)
{
    if (!is_off[MUTANT_GATE_FENCE] && !is_off[MUTANT_GATE_FLIGHT] && !is_past_gate)
        __real_gate_fence_leave();
    is_past_gate = false;
}

void __real_pool_context_going(struct pool *pool, uint64_t context);
void __wrap_pool_context_going(struct pool *pool, uint64_t context);
void __real_pool_context_gone(struct pool *pool, uint64_t context);
void __wrap_pool_context_gone(struct pool *pool, uint64_t context);

void __wrap_pool_context_going(struct pool *pool, uint64_t context)
{
    if (!is_off[MUTANT_CONTEXT_GONE])
        __real_pool_context_going(pool, context);
}

void __wrap_pool_context_gone(struct pool *pool, uint64_t context)
{
    if (!is_off[MUTANT_CONTEXT_GONE])
        __real_pool_context_gone(pool, context);
}

/* Any of these three alone keeps addresses of a dead context from being taken for ours. */
void __real_pool_context_hide(struct pool *pool, uint64_t context, bool hidden);
void __wrap_pool_context_hide(struct pool *pool, uint64_t context, bool hidden);

void __wrap_pool_context_hide(struct pool *pool, uint64_t context, bool hidden)
{
    if (!is_off[MUTANT_CONTEXT_GONE])
        __real_pool_context_hide(pool, context, hidden);
}

void __real_pool_foreign(struct pool *pool, devptr_t ptr, uint64_t size);
void __wrap_pool_foreign(struct pool *pool, devptr_t ptr, uint64_t size);

void __wrap_pool_foreign(struct pool *pool, devptr_t ptr, uint64_t size)
{
    if (!is_off[MUTANT_CONTEXT_GONE])
        __real_pool_foreign(pool, ptr, size);
}

uint64_t __real_context_forget(CUcontext handle);
uint64_t __wrap_context_forget(CUcontext handle);

uint64_t __wrap_context_forget(CUcontext handle)
{
    uint64_t generation = __real_context_forget(handle);

    if (is_off[MUTANT_EARLY_END] && generation)
        __real_pool_context_gone(the_pool, generation);
    return generation;
}

void __real_pool_ending(struct pool *pool, uint64_t devices, bool begins);
void __wrap_pool_ending(struct pool *pool, uint64_t devices, bool begins);

void __wrap_pool_ending(struct pool *pool, uint64_t devices, bool begins)
{
    if (!is_off[MUTANT_ENDING])
        __real_pool_ending(pool, devices, begins);
}

bool __real_backend_is_idle(uint64_t generation);
bool __wrap_backend_is_idle(uint64_t generation);

bool __wrap_backend_is_idle(uint64_t generation)
{
    return !is_off[MUTANT_YOUNG] && __real_backend_is_idle(generation);
}

bool __real_reach_has(int from, int to);
bool __wrap_reach_has(int from, int to);

bool __wrap_reach_has(int from, int to)
{
    return is_off[MUTANT_REACH] ? from == to : __real_reach_has(from, to);
}

void __real_pool_stall_end(struct pool *pool, uint64_t stream, bool at_once);
void __wrap_pool_stall_end(struct pool *pool, uint64_t stream, bool at_once);

void __wrap_pool_stall_end(struct pool *pool, uint64_t stream, bool at_once)
{
    __real_pool_stall_end(pool, stream, at_once && !is_off[MUTANT_AT_ONCE]);
}

bool __real_hostwait_goes_on(int device);
bool __wrap_hostwait_goes_on(int device);

bool __wrap_hostwait_goes_on(int device)
{
    return !is_off[MUTANT_HELD_UP] && __real_hostwait_goes_on(device);
}

bool __real_context_is_ending_near(int device);
bool __wrap_context_is_ending_near(int device);

bool __wrap_context_is_ending_near(int device)
{
    return !is_off[MUTANT_ENDING] && __real_context_is_ending_near(device);
}

bool __real_context_is_ending(uint64_t generation);
bool __wrap_context_is_ending(uint64_t generation);

bool __wrap_context_is_ending(uint64_t generation)
{
    return !is_off[MUTANT_ENDING] && __real_context_is_ending(generation);
}

void __real_pool_freeze(struct pool *pool);
void __wrap_pool_freeze(struct pool *pool);

void __wrap_pool_freeze(struct pool *pool)
{
    if (!is_off[MUTANT_FREEZE])
        __real_pool_freeze(pool);
}

/* ---- calls once more, peers, memory of the host ---------------------------------------------- */

bool __real_dispatch_more_room(struct pool_ladder *ladder);
bool __wrap_dispatch_more_room(struct pool_ladder *ladder);

bool __wrap_dispatch_more_room(struct pool_ladder *ladder)
{
    return !is_off[MUTANT_AGAIN] && __real_dispatch_more_room(ladder);
}

bool __real_mempool_set_peer(const struct context *from, const struct context *to, bool enabled);
bool __wrap_mempool_set_peer(const struct context *from, const struct context *to, bool enabled);

bool __wrap_mempool_set_peer(const struct context *from, const struct context *to, bool enabled)
{
    struct context at = {.generation = 0};
    bool changed = __real_mempool_set_peer(from, to, enabled);

    while (is_off[MUTANT_PEERS] && !enabled && __real_context_next(at.generation, &at))
        if (at.device == from->device)
            changed |= __real_mempool_set_peer(&at, to, false);
    return changed;
}

bool __real_peek_copy(void *to, const void *from, size_t bytes);
bool __wrap_peek_copy(void *to, const void *from, size_t bytes);

bool __wrap_peek_copy(void *to, const void *from, size_t bytes)
{
    struct iovec here = {.iov_base = to, .iov_len = bytes};
    struct iovec there = {.iov_base = (void *)(uintptr_t)from, .iov_len = bytes};

    if (!is_off[MUTANT_READV])
        return __real_peek_copy(to, from, bytes);
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

/* ---- host functions and the switch ---------------------------------------------------------- */

struct hostfn __real_hostfn_once(CUhostFn fn, CUstreamCallback callback, void *data);
struct hostfn __wrap_hostfn_once(CUhostFn fn, CUstreamCallback callback, void *data);

struct hostfn __wrap_hostfn_once(CUhostFn fn, CUstreamCallback callback, void *data)
{
    if (is_off[MUTANT_CALLBACK])
        return (struct hostfn){fn, callback, data, NULL};
    return __real_hostfn_once(fn, callback, data);
}

struct hostfn __real_hostfn_kept(CUhostFn fn, CUstreamCallback callback, void *data);
struct hostfn __wrap_hostfn_kept(CUhostFn fn, CUstreamCallback callback, void *data);

struct hostfn __wrap_hostfn_kept(CUhostFn fn, CUstreamCallback callback, void *data)
{
    if (is_off[MUTANT_UNHOOKED] && __real_gate_captures() == 0)
        return __real_hostfn_once(fn, callback, data);
    return __real_hostfn_kept(fn, callback, data);
}

const CUDA_HOST_NODE_PARAMS *__real_hostfn_host_node(
        const CUDA_HOST_NODE_PARAMS *params, CUDA_HOST_NODE_PARAMS *copy);
const CUDA_HOST_NODE_PARAMS *__wrap_hostfn_host_node(
        const CUDA_HOST_NODE_PARAMS *params, CUDA_HOST_NODE_PARAMS *copy);

const CUDA_HOST_NODE_PARAMS *__wrap_hostfn_host_node(
        const CUDA_HOST_NODE_PARAMS *params, CUDA_HOST_NODE_PARAMS *copy)
{
    return is_off[MUTANT_CALLBACK] ? params : __real_hostfn_host_node(params, copy);
}

unsigned __real_config_word(const struct config *config, enum config_id id);
unsigned __wrap_config_word(const struct config *config, enum config_id id);

unsigned __wrap_config_word(const struct config *config, enum config_id id)
{
    unsigned word = __real_config_word(config, id);

    return is_off[MUTANT_OFF] && id == CONFIG_MODE ? 0 : word;
}
