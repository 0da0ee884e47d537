/* SPDX-License-Identifier: MIT */
#include "preload/conduct.h"

#include "preload/async.h"
#include "preload/backend.h"
#include "preload/bypass.h"
#include "preload/coverage.h"
#include "preload/cuda_abi.h"
#include "preload/doors.h"
#include "preload/gate.h"
#include "preload/guard.h"
#include "preload/life.h"
#include "preload/msg.h"
#include "preload/oom.h"
#include "preload/pins.h"
#include "preload/quick.h"
#include "preload/resolve.h"
#include "preload/sidecar.h"
#include "tracker/anchor.h"
#include "tracker/capture.h"
#include "tracker/uses.h"
#include "tracker/where.h"

#include "alloc/lock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    OUTCOMES = 32, /* told at a time */
    SEEN_MAX = 512,
    CLOCK_STRIDE = 64, /* operations between two looks at the clock, at most */
};

/* fixed by conduct_start: */
static struct pool *pool;
static struct sidecar sidecar;
static bool meminfo_raw;
static bool capped; /* KEDGE_POOL=cap=: an OOM of the pool's is meant */
unsigned conduct_sync_free;

static _Atomic(uint64_t) track_seq; /* numbers the events while there is no pool */
static bool records;                /* a capture is written */
static atomic_bool hints_stopped;
static _Atomic(uint64_t) devices_told; /* bit per device that the capture knows */

struct pool *conduct_pool(void)
{
    return pool;
}

bool conduct_may_fence(void)
{
    return gate_captures() == 0 && !guard_in_callback();
}

uint64_t conduct_seq(void)
{
    return pool ? pool_seq_next(pool) : atomic_fetch_add(&track_seq, 1) + 1;
}

/* The capture's own trouble, which it reports once per kind. */
void conduct_told(int r)
{
    const char *path = capture_path();
    const char *refused = capture_refused();

    if (r < 0 && *refused)
        msg_warn("no capture: %s: %s", refused, strerrordesc_np(-r));
    else if (r < 0)
        msg_warn("capture %s: %s, going on with less", *path ? path : "file", strerrordesc_np(-r));
}

/* ---- start ---------------------------------------------------------------------------------- */

static void set_size(const struct config *config, const char *key, uint64_t *size)
{
    const struct config_value *value = config_key(config, CONFIG_POOL, key);

    if (value && (value->set || value->number))
        *size = value->number;
}

/* Blocks must suit a linear texture on every device (R15). */
static uint64_t texture_alignment(void)
{
    uint64_t widest = 512;
    int align;

    for (int device = 0; device < DEVICES_MAX; device++) {
        align = 0;
        if (REAL(cuDeviceGetAttribute)(&align, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, device)
                != CUDA_SUCCESS)
            break;
        while ((uint64_t)align > widest)
            widest *= 2;
    }
    return widest;
}

static int start_pool(const struct config *config)
{
    const struct config_value *timeout = config_key(config, CONFIG_POOL, "fence-timeout");
    const struct config_value *trim = config_key(config, CONFIG_POOL, "trim");
    const struct config_value *remap = config_key(config, CONFIG_POOL, "remap");
    const struct config_value *placement = config_key(config, CONFIG_POOL, "placement");
    const struct config_value *meminfo = config_key(config, CONFIG_POOL, "meminfo");
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.quantum = texture_alignment();
    set_size(config, "chunk", &opts.chunk);
    set_size(config, "small-chunk", &opts.small_chunk);
    set_size(config, "cap", &opts.cap);
    capped = opts.cap != 0;
    set_size(config, "budget", &opts.budget);
    set_size(config, "reserve", &opts.reserve);
    set_size(config, "handle", &opts.handle);
    if (timeout && timeout->set)
        opts.fence_timeout_ms =
                timeout->number < UINT32_MAX ? (uint32_t)timeout->number : UINT32_MAX;
    if (trim && trim->set)
        opts.trim = (enum pool_trim)trim->number;
    if (remap && remap->set)
        opts.remap = (enum pool_remap)remap->number;
    opts.export_safe = placement && placement->set && placement->number == 1;
    opts.mapped_only =
            true; /* stream-ordered memory outlives the context that it was asked for in */
    meminfo_raw = meminfo && meminfo->set && meminfo->number == 1;
    return pool_new(&backend_driver, &opts, &pool);
}

/*
 * By itself where a capture was asked for by name: who names one wants to know what is in it, and a run that only happens to
 * be recorded pays nothing for its launches.
 */
static bool wants_uses(const struct config *config)
{
    const struct config_value *uses = config_key(config, CONFIG_TRACE, "uses");
    enum {
        USES_AUTO,
        USES_ON
    };

    if (!records || !uses)
        return false;
    return uses->number == USES_ON
            || (uses->number == USES_AUTO && config_is_set(config, CONFIG_CAPTURE));
}

static void start_capture(const struct config *config)
{
    static const enum format_trace traces[] = {
            FORMAT_TRACE_AGG, FORMAT_TRACE_RING, FORMAT_TRACE_FULL, FORMAT_TRACE_OFF};
    const struct config_value *mb = config_key(config, CONFIG_TRACE, "mb");
    struct capture_opts opts = {
            .file = config_text(config, CONFIG_CAPTURE),
            .rank = config_rank(environ),
            .program = where_program(),
            .trace = traces[config_word(config, CONFIG_TRACE) % 4],
            .ring_bytes = (mb && mb->number ? mb->number : 256) << 20,
    };
    int r;

    records = opts.trace != FORMAT_TRACE_OFF;
    uses_init(wants_uses(config));
    r = capture_init(&opts);
    if (r < 0) {
        msg_warn("KEDGE_CAPTURE: '%s': %s, using %s", opts.file, strerrordesc_np(-r),
                CAPTURE_DEFAULT_NAME);
        opts.file = NULL;
        (void)capture_init(&opts);
    }
    for (int id = 0; id < CONFIG_COUNT; id++)
        if (config_is_set(config, (enum config_id)id))
            (void)capture_setting(
                    config_name((enum config_id)id), config_text(config, (enum config_id)id));
    (void)capture_setting("driver", resolve_driver_path());
    (void)capture_setting("mode", life_mode() == LIFE_POOL ? "pool" : "track");
    (void)capture_setting("stacks", unwind_engine_name(unwind_engine()));
    (void)capture_setting("uses", uses_on() ? "on" : "off");
    if (uses_on())
        guard_set(GUARD_USES); /* before the first block */
}

int conduct_start(void)
{
    const struct config *config = life_config();
    bool serves = life_mode() == LIFE_POOL;
    int r = serves ? start_pool(config) : 0;

    if (r < 0)
        return r;
    conduct_sync_free = config_word(config, CONFIG_SYNC_FREE);
    bypass_init(config_text(config, CONFIG_BYPASS));
    start_capture(config);
    sidecar_load(config, serves, &sidecar);
    if (!sidecar.hints)
        return 0;
    r = pool_set_hints(pool, sidecar.hints);
    if (r < 0) {
        msg_warn("KEDGE_HINTS: %s, hints are ignored", strerrordesc_np(-r));
        sidecar = (struct sidecar){NULL, false, false};
        return 0;
    }
    guard_set(GUARD_ACTING); /* before the first block that a hint matches (R66) */
    return 0;
}

/* ---- what the capture is told --------------------------------------------------------------- */

/* Once per device: three questions that the driver answers from its tables. */
static void tell_device(int device)
{
    uint64_t bit = device >= 0 && device < DEVICES_MAX ? UINT64_C(1) << device : 0;
    char name[96] = "";
    size_t total = 0;
    int version = 0;

    if (!bit || (atomic_load_explicit(&devices_told, memory_order_relaxed) & bit)
            || (atomic_fetch_or(&devices_told, bit) & bit) || !conduct_may_fence())
        return;
    if (REAL_HAS(cuDeviceGetName))
        (void)REAL(cuDeviceGetName)(name, sizeof name, device);
    if (REAL_HAS(cuDeviceTotalMem_v2))
        (void)REAL(cuDeviceTotalMem_v2)(&total, device);
    (void)REAL(cuDriverGetVersion)(&version);
    conduct_told(capture_device(device, name, total, (uint32_t)version));
    conduct_look(device);
}

/* ---- looks at the device -------------------------------------------------------------------- */

static atomic_bool has_graph_memory;
static _Atomic(uint32_t) synchronised; /* how often the program has waited */

static uint64_t graph_figure(int device, CUgraphMem_attribute which)
{
    cuuint64_t value = 0;

    if (!REAL_HAS(cuDeviceGetGraphMemAttribute)
            || REAL(cuDeviceGetGraphMemAttribute)(device, which, &value) != CUDA_SUCCESS)
        return 0;
    return value;
}

void conduct_looked(int device, uint64_t free_bytes, uint64_t total_bytes)
{
    struct capture_look_info info = {
            .device = device, .free_bytes = free_bytes, .total_bytes = total_bytes};
    struct pool_stats stats;

    if (pool) {
        pool_stats(pool, device, &stats);
        info.held_bytes = stats.reserved;
    }
    if (atomic_load_explicit(&has_graph_memory, memory_order_relaxed)) {
        info.graph_reserved = graph_figure(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
        info.graph_high = graph_figure(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);
    }
    conduct_told(capture_look(&info));
}

void conduct_look(int device)
{
    uint64_t total = 0;
    uint64_t available = 0;

    if (!records || device < 0 || !conduct_may_fence() || life_sticky())
        return;
    if (backend_driver.memory(NULL, device, &total, &available) == 0)
        conduct_looked(device, available, total);
}

/* When the program has waited for the 1st, 2nd, 4th, 8th ... time: kernels and caches of the driver come with use. */
static void look_now_and_then(void)
{
    uint64_t devices = atomic_load_explicit(&devices_told, memory_order_relaxed);
    uint32_t count;

    if (!records)
        return;
    count = atomic_fetch_add_explicit(&synchronised, 1, memory_order_relaxed) + 1;
    if (count & (count - 1))
        return;
    for (int device = 0; device < DEVICES_MAX && devices >> device; device++)
        if (devices >> device & 1)
            conduct_look(device);
}

static void tell_reserved(const struct outcome *outcome)
{
    if (outcome->reserved_delta != 0)
        conduct_told(capture_reserved(outcome->device, 0, outcome->reserved, outcome->seq));
}

void conduct_note_reserved(int device)
{
    struct pool_stats stats;

    if (!pool)
        return;
    pool_stats(pool, device, &stats);
    conduct_told(capture_reserved(device, 0, stats.reserved, conduct_seq()));
}

static void tell_hint(const struct outcome *outcome, enum format_hint_what what,
        const struct edge *edge, int result)
{
    struct capture_hint_info info = {
            .what = what,
            .mode = outcome->mode,
            .rule = outcome->rule,
            .ptr = outcome->ptr,
            .size = outcome->size,
            .seq = outcome->seq,
            .device = outcome->device,
            .result = result,
            .edge = edge,
    };

    conduct_told(capture_hint(&info));
}

/* Storage that has gone since the last call; limbo moves on the way. */
static void tell_news(void)
{
    struct outcome news[OUTCOMES];
    size_t n;

    do {
        n = 0;
        (void)pool_poll(pool, conduct_may_fence(), news, OUTCOMES, &n);
        for (size_t i = 0; i < n; i++) {
            tell_hint(&news[i], FORMAT_HINT_UNMAPPED, NULL, 0);
            tell_reserved(&news[i]);
        }
    } while (n == OUTCOMES);
}

static atomic_bool release_waits; /* for a call to the driver */

void conduct_go_on(void)
{
    int cancel, unused;

    if (__builtin_expect(!atomic_load_explicit(&release_waits, memory_order_relaxed), 1)
            || !conduct_may_fence() || !atomic_exchange(&release_waits, false))
        return;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    tell_news();
    (void)pthread_setcancelstate(cancel, &unused);
}

/* ---- idleness ------------------------------------------------------------------------------- */

/* The clock is looked at now and then: a hit costs less than the clock. */
static _Atomic(uint64_t) clock_seq; /* when that was last */

static void look_at_clock(uint64_t seq)
{
    uint64_t devices = atomic_load_explicit(&devices_told, memory_order_relaxed);
    struct timespec now;

    atomic_store_explicit(&clock_seq, seq, memory_order_relaxed);
    if (!conduct_may_fence() || clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0
            || pool_idle(pool, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) == 0)
        return;
    for (int device = 0; device < DEVICES_MAX && devices >> device; device++)
        if (devices >> device & 1)
            conduct_note_reserved(device);
}

/* ---- allocation ----------------------------------------------------------------------------- */

static bool is_ours(const struct conduct_request *request)
{
    if (!pool || request->forward || request->capturing || pool_is_frozen(pool))
        return false;
    if (request->entrance == ENTRANCE_STREAM)
        return request->mempool != 0;
    return gate_captures() == 0; /* the program must get the driver's own word (R11) */
}

static void make_plan(struct conduct_request *request)
{
    request->plan = (struct plan){.rule = -1, .action = ACTION_NONE, .mode = HINT_OFF};
    if (!sidecar.hints || atomic_load_explicit(&hints_stopped, memory_order_relaxed))
        return;
    conduct_go_on();
    hint_plan(sidecar.hints, &request->tag, &request->plan);
}

static int ask_pool(struct conduct_request *request, struct outcome *ret_outcome)
{
    bool sync = request->entrance == ENTRANCE_SYNC;
    bool may = conduct_may_fence();
    struct pool_request ask = {
            .size = request->size,
            .owner = sync ? request->context.generation : request->mempool,
            .context = request->context.generation,
            .stream = sync ? 0 : request->stream.identity,
            .plan = request->plan.rule >= 0 ? &request->plan : NULL,
            .entrance = request->entrance,
            .device = request->tag.device,
            .may_call = may,
            .may_fence = may,
            .may_wait = may,
            .ladder = &request->ladder,
    };

    return pool_alloc(pool, &ask, ret_outcome);
}

static void record_alloc(const struct conduct_request *request, const struct outcome *outcome)
{
    struct capture_alloc_info info = {
            .tag = &request->tag,
            .ptr = outcome->ptr,
            .seq = outcome->seq,
            .stream = (uintptr_t)request->stream.handle,
            .entrance = request->entrance,
            .rule = request->plan.rule,
    };

    coverage_tell(false);
    tell_device(request->tag.device);
    conduct_told(capture_alloc(&info));
    tell_reserved(outcome);
    if (request->plan.rule >= 0)
        tell_hint(
                outcome, request->plan.small ? FORMAT_HINT_SKIPPED : FORMAT_HINT_PLANNED, NULL, 0);
}

/*
 * Mapped memory is made of calls that the program never made: what they say is not the answer to what it asked. The driver's
 * own pool has the last word then, unless the device has failed or the user set a limit.
 */
static bool is_answer(const struct conduct_request *request, int result)
{
    bool mapped = request->entrance == ENTRANCE_STREAM || hint_acts(&request->plan);

    return !mapped || backend_is_sticky(result) || (capped && result == CUDA_ERROR_OUT_OF_MEMORY);
}

void conduct_tell_python(void)
{
    bool refused = false;
    const char *text = where_python_news(&refused);
    char line[MSG_LINE];

    if (!text)
        return;
    (void)msg_format(
            line, sizeof line, "%s%s", refused ? "no Python stacks: " : "Python stacks of ", text);
    msg_info("%s", line);
    conduct_told(capture_note(0, line));
}

/* A heap of stream-ordered memory has no addresses: the first time is a line, each is a note in the report. */
static void tell_no_range(void)
{
    static _Atomic(uint64_t) told;
    uint64_t errors = pool_range_errors(pool);
    uint64_t before = atomic_load_explicit(&told, memory_order_relaxed);
    char text[160];

    if (errors <= before || !atomic_compare_exchange_strong(&told, &before, errors))
        return;
    (void)msg_format(text, sizeof text,
            "the driver gave no addresses for stream-ordered memory (%lu so far): it serves such "
            "requests itself meanwhile",
            (unsigned long)errors);
    if (before == 0)
        msg_warn("%s", text);
    conduct_told(capture_note(1, text));
}

int conduct_alloc(struct conduct_request *request, devptr_t *ret_ptr)
{
    struct outcome outcome;
    int device =
            request->entrance == ENTRANCE_STREAM ? request->stream.device : request->context.device;
    int r;

    coverage_look();
    if (where_am_i(request->caller, request->size, device, &request->tag) > 0)
        conduct_tell_python();
    make_plan(request);
    if (!is_ours(request)
            || (!quick_knows(request->caller)
                    && bypass_wants(&request->tag, request->caller, door_asker)))
        return -ENOTSUP;
    r = ask_pool(request, &outcome);
    if (r == -ENOTSUP)
        tell_no_range();
    if (r < 0)
        return r;
    if (r > 0) {
        life_driver_said(r);
        r = life_sticky() ? life_sticky() : r;
        if (!is_answer(request, r))
            return -EIO;
        if (r == CUDA_ERROR_OUT_OF_MEMORY)
            oom_record(request, r, false);
        return r;
    }
    record_alloc(request, &outcome);
    if (pool_has_news(pool))
        tell_news();
    if (!(outcome.how & OUTCOME_HIT)
            || outcome.seq - atomic_load_explicit(&clock_seq, memory_order_relaxed) >= CLOCK_STRIDE)
        look_at_clock(outcome.seq);
    quick_learn(request->caller, request->named, request->tag.device, request->mempool);
    *ret_ptr = outcome.ptr;
    return 0;
}

/* Where this is, without a place in the count of allocations: no hint speaks of such memory. */
static void outside_tag(uint64_t size, int device, struct tag *ret_tag)
{
    struct anchor_place place;

    anchor_here(&place);
    *ret_tag = (struct tag){.stack = where_stack(),
            .pystack = where_pystack(),
            .anchor = place.anchor,
            .size = size,
            .path = place.anchor ? place.path : "",
            .instance = place.instance,
            .device = device};
}

bool conduct_make_room(int result, int device, struct pool_ladder *ladder)
{
    uint64_t bytes;

    if (result != CUDA_ERROR_OUT_OF_MEMORY || !pool || !conduct_may_fence() || pool_is_frozen(pool))
        return false;
    bytes = pool_trim_device(pool, device, true);
    if (bytes == 0)
        return false;
    conduct_note_reserved(device);
    ladder->trims++;
    ladder->trimmed_bytes += bytes;
    ladder->attempts++;
    return true;
}

void conduct_refused(int result, uint64_t size, int device, const struct pool_ladder *ladder)
{
    struct conduct_request request = {.size = size, .entrance = ENTRANCE_SYNC};

    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return;
    coverage_look();
    outside_tag(size, device, &request.tag);
    request.ladder = *ladder;
    oom_record(&request, result, true);
}

static enum memclass class_of(const struct conduct_request *request)
{
    if (request->memclass != MEMCLASS_POOLED)
        return request->memclass;
    return request->capturing ? MEMCLASS_GRAPH : MEMCLASS_DRIVER;
}

void conduct_forwarded(struct conduct_request *request, int result, devptr_t ptr, uint64_t size)
{
    struct capture_alloc_info info = {
            .tag = &request->tag,
            .ptr = ptr,
            .stream = (uintptr_t)request->stream.handle,
            .entrance = request->entrance,
            .memclass = class_of(request),
            .native = true,
            .stream_capture = request->capturing,
            .rule = -1,
    };

    if (result != CUDA_SUCCESS) {
        life_driver_said(result);
        if (result == CUDA_ERROR_OUT_OF_MEMORY)
            oom_record(request, result, true);
        return;
    }
    if (pool && ptr)
        pool_foreign(pool, ptr, size);
    coverage_tell(false);
    tell_device(request->tag.device);
    request->tag.size = size;
    info.seq = conduct_seq();
    if (info.memclass == MEMCLASS_GRAPH)
        atomic_store_explicit(&has_graph_memory, true, memory_order_relaxed);
    conduct_told(capture_alloc(&info));
    if (request->plan.rule >= 0 && hint_acts(&request->plan)) {
        struct outcome outcome = {.ptr = ptr,
                .size = size,
                .seq = info.seq,
                .device = request->tag.device,
                .rule = request->plan.rule,
                .mode = request->plan.mode};

        tell_hint(&outcome, FORMAT_HINT_REFUSED, NULL, ENOTSUP); /* served by the driver */
    }
}

/* ---- free ----------------------------------------------------------------------------------- */

/* More captures than this at once keep what is freed meanwhile for good. */
enum {
    GRAPHS_MAX = 8,
};

/*
 * What is freed on the sync entrance while captures run may be in their graphs: it is not handed out before they and their
 * instances are gone (R12). False: not every graph is known, so it is kept for good.
 */
static bool pin_for_captures(devptr_t ptr)
{
    uint64_t graphs[GRAPHS_MAX];
    size_t count;
    bool all = gate_graphs(graphs, GRAPHS_MAX, &count);

    for (size_t i = 0; i < count && all; i++) {
        struct pins pins = PINS_NONE(POOL_PIN_SHOWN);

        (void)pins_collect(&pins, ptr, 1, TOUCH_POINTER, NULL);
        pins_give(&pins, PINS_OF_GRAPH, graphs[i], 0);
    }
    return all;
}

/*
 * The context whose work a free has to wait for, 0 = none (R61, R75). Stream-ordered memory is not waited for natively
 * either, and nothing is waited for where the driver may not be called.
 */
static uint64_t barrier_of(devptr_t ptr, enum entrance entrance)
{
    struct block_info info;

    if (entrance != ENTRANCE_SYNC || conduct_frees_without_wait() || !conduct_may_fence()
            || pool_is_frozen(pool))
        return 0;
    if (pool_find(pool, ptr, &info) != 0 || info.base != ptr || info.size == 0)
        return 0;
    if (info.heap == HEAP_PRIVATE)
        return info.owner;
    return info.heap == HEAP_PLAIN ? info.context : 0;
}

static void record_free(const struct outcome *outcome, enum entrance entrance, uint64_t stream)
{
    struct capture_free_info info = {
            .ptr = outcome->ptr,
            .seq = outcome->seq,
            .size = outcome->size,
            .stream = stream,
            .device = outcome->device,
            .entrance = entrance,
    };

    conduct_told(capture_free(&info));
    tell_reserved(outcome);
}

struct conduct_end conduct_end(uint64_t key)
{
    return (struct conduct_end){.key = key, .seq = conduct_seq(), .entrance = ENTRANCE_SYNC};
}

void conduct_ended(const struct conduct_end *end, int result)
{
    struct capture_free_info info = {
            .ptr = end->key,
            .seq = end->seq,
            .stream = end->stream,
            .device = -1,
            .entrance = end->entrance,
            .native = true,
    };

    if (end->key && result == CUDA_SUCCESS)
        conduct_told(capture_free(&info));
}

/* 0, -ENOENT (not ours), or the code for the program. */
static int free_in_pool(devptr_t ptr, enum entrance entrance, const struct stream *stream)
{
    bool may = conduct_may_fence();
    bool record_now = stream && stream_must_record(stream);
    bool ordered = stream && (may || !record_now); /* else it goes through an epoch */
    struct pool_free_request request = {
            .entrance = entrance,
            .stream = ordered ? stream->identity : 0,
            .record_now = record_now,
            .may_fence = may,
    };
    uint64_t barrier = barrier_of(ptr, entrance);
    struct outcome outcome;
    int r;

    /* R12 is for frees without a stream (R82). */
    if (entrance == ENTRANCE_SYNC && gate_captures() > 0)
        request.quarantine = !pin_for_captures(ptr);
    r = pool_free(pool, ptr, &request, &outcome);
    if (r == -EINVAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (r != 0)
        return r;
    if (life_sticky())
        return life_sticky(); /* as the driver would say it */
    record_free(&outcome, entrance, stream ? (uintptr_t)stream->handle : 0);
    if (barrier) {
        r = backend_synchronise(barrier);
        return r > 0 && backend_is_sticky(r) ? r : 0;
    }
    return 0;
}

int conduct_free(devptr_t ptr, enum entrance entrance, const struct stream *stream,
        struct conduct_end *ret_end)
{
    int r = pool ? free_in_pool(ptr, entrance, stream) : -ENOENT;

    if (r == -ENOENT) {
        *ret_end = conduct_end(ptr);
        ret_end->entrance = entrance;
        ret_end->stream = stream ? (uintptr_t)stream->handle : 0;
    }
    return r;
}

bool conduct_free_passive(devptr_t ptr)
{
    struct pool_free_request request = {.entrance = ENTRANCE_SYNC};
    struct outcome outcome;

    return life_is_passive() && pool && guard_depth() == 0 && ptr != 0
            && pool_free(pool, ptr, &request, &outcome) == 0;
}

/* ---- anchors and uses ----------------------------------------------------------------------- */

static void tell_due(const struct outcome *due, const struct edge *edge)
{
    if (due->kind == OUTCOME_REFUSED)
        tell_hint(due, FORMAT_HINT_SKIPPED, edge, due->how & OUTCOME_PINNED ? EBUSY : EPERM);
    else if (due->kind == OUTCOME_SHADOW)
        tell_hint(due, FORMAT_HINT_WOULD_RELEASE, edge, 0);
    else
        tell_hint(due, FORMAT_HINT_DEAD, edge, 0);
}

void conduct_label(const struct edge *edge)
{
    conduct_told(capture_edge(edge, conduct_seq()));
}

void conduct_edge(const struct edge *edge, bool may_call)
{
    struct outcome due[OUTCOMES];
    size_t n;
    int r;

    conduct_told(capture_edge(edge, conduct_seq()));
    if (!sidecar.hints || atomic_load_explicit(&hints_stopped, memory_order_relaxed))
        return;
    do {
        n = 0;
        r = pool_edge(pool, edge, due, OUTCOMES, &n);
        for (size_t i = 0; i < n; i++)
            tell_due(&due[i], edge);
    } while (r == 0 && n == OUTCOMES);
    if (may_call)
        tell_news();
    else
        atomic_store(&release_waits, true);
}

/* (rule, stack) pairs that were reported: the same place is not told twice. */
static struct lock seen_lock = LOCK_INIT(LOCK_RANK_PRELOAD);
static struct {
    int rule;
    uint32_t stack;
    enum format_hint_what what;
} seen[SEEN_MAX]; /* guarded by seen_lock */
static unsigned seen_count;

static bool is_first(int rule, uint32_t stack, enum format_hint_what what)
{
    bool first = true;

    lock_take(&seen_lock);
    for (unsigned i = 0; i < seen_count && first; i++)
        first = seen[i].rule != rule || seen[i].stack != stack || seen[i].what != what;
    if (first && seen_count < SEEN_MAX) {
        seen[seen_count].rule = rule;
        seen[seen_count].stack = stack;
        seen[seen_count++].what = what;
    }
    lock_drop(&seen_lock);
    return first;
}

static void tell_touch(
        const struct pool_hit *hit, enum format_hint_what what, devptr_t ptr, const char *call)
{
    struct capture_hint_info info = {
            .what = what,
            .mode = hit->mode,
            .rule = hit->rule,
            .ptr = hit->base,
            .size = hit->size,
            .device = -1,
    };

    coverage_look(); /* a walk must not go through what is gone */
    info.stack = where_stack();
    if (!is_first(hit->rule, info.stack, what))
        return;
    info.seq = conduct_seq();
    conduct_told(capture_hint(&info));
    if (what == FORMAT_HINT_VIOLATION)
        msg_warn("hint %s: %s touches %p, storage of %lu bytes at %p that the hint released; the "
                 "call is stopped%s%s",
                hint_rule(sidecar.hints, hit->rule)->id, call, (void *)(uintptr_t)ptr,
                (unsigned long)hit->size, (void *)(uintptr_t)hit->base,
                *capture_path() ? "; both stacks are in " : "", capture_path());
}

bool conduct_hit(const struct pool_hit *hit, devptr_t ptr, enum touch how, const char *what)
{
    if (hit->mode == HINT_SHADOW || (how == TOUCH_INSIDE && hit->mode != HINT_TRAP)) {
        tell_touch(hit, FORMAT_HINT_LATE_TOUCH, ptr, what);
        return false;
    }
    tell_touch(hit, FORMAT_HINT_VIOLATION, ptr, what);
    return true;
}

static inline __attribute__((always_inline)) void use(devptr_t ptr, uint64_t size, enum touch how)
{
    if (uses_on() && size != 0)
        uses_touch(ptr, size, how == TOUCH_POINTER ? USE_SURE : USE_MAY, &guard_thread.moment);
}

/* With hints, or on a captured stream: then the block is used when the graph is launched. */
static __attribute__((noinline)) bool touch_and_stop(
        devptr_t ptr, uint64_t size, enum touch how, const char *what)
{
    struct pool_hit hit;

    if (sidecar.hints && size != 0 && pool_touch(pool, ptr, size, &hit)
            && conduct_hit(&hit, ptr, how, what))
        return true;
    if (guard_thread.pins)
        return pins_collect(guard_thread.pins, ptr, size, how, what);
    use(ptr, size, how);
    return false;
}

bool conduct_touch(devptr_t ptr, uint64_t size, enum touch how, const char *what)
{
    if (__builtin_expect(sidecar.hints || guard_thread.pins, 0))
        return touch_and_stop(ptr, size, how, what);
    use(ptr, size, how);
    return false;
}

void conduct_unseen(void)
{
    if (!uses_on())
        return;
    if (guard_thread.pins)
        pins_unseen(guard_thread.pins);
    else
        uses_unseen(&guard_thread.moment);
}

/* One side of a copy. */
struct side {
    CUcontext context;
    int device;
    bool hinted;
};

static bool is_hinted(devptr_t ptr, struct side *ret_side)
{
    struct context context;
    struct block_info info;

    if (pool_find(pool, ptr, &info) != 0 || info.heap != HEAP_PRIVATE
            || !context_of_generation(info.owner, &context))
        return false;
    *ret_side = (struct side){context.handle, info.device, true};
    return true;
}

/* Memory that is not hinted: the driver knows whose it is, unless it belongs to no context. */
static bool is_plain(devptr_t ptr, struct side *ret_side)
{
    *ret_side = (struct side){NULL, -1, false};
    return REAL(cuPointerGetAttribute)(&ret_side->context, CU_POINTER_ATTRIBUTE_CONTEXT, ptr)
            == CUDA_SUCCESS
            && REAL(cuPointerGetAttribute)(
                       &ret_side->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr)
            == CUDA_SUCCESS
            && ret_side->context;
}

bool conduct_peers(devptr_t dst, devptr_t src, CUcontext *ret_dst, CUcontext *ret_src)
{
    struct side to = {.hinted = false};
    struct side from = {.hinted = false};
    struct context here;

    if (!sidecar.acts)
        return false;
    (void)is_hinted(dst, &to);
    (void)is_hinted(src, &from);
    if ((!to.hinted && !from.hinted) || context_here(&here) != 0)
        return false;
    if ((!to.hinted && !is_plain(dst, &to)) || (!from.hinted && !is_plain(src, &from)))
        return false;
    if (to.device == here.device && from.device == here.device)
        return false;
    *ret_dst = to.context;
    *ret_src = from.context;
    return true;
}

void conduct_stop_hints(const char *why)
{
    if (!sidecar.acts || atomic_exchange(&hints_stopped, true))
        return;
    msg_warn("%s: hints release nothing more in this run", why);
    conduct_told(capture_note(1, why));
}

void conduct_hint_off(int rule, const char *call)
{
    if (!sidecar.hints || !hint_switch_off(sidecar.hints, rule))
        return;
    msg_warn("hint %s: a block of it is shared by %s, so it does nothing more in this run",
            hint_rule(sidecar.hints, rule)->id, call);
}

void conduct_shared(devptr_t base, uint64_t size, int device)
{
    struct capture_hint_info info = {
            .what = FORMAT_HINT_SKIPPED,
            .mode = HINT_OFF,
            .rule = -1,
            .ptr = base,
            .size = size,
            .seq = conduct_seq(),
            .device = device,
            .result = EBUSY,
    };

    uses_shown(base, size);
    conduct_told(capture_hint(&info));
}

void conduct_unknown_layout(const char *call)
{
    conduct_unseen();
    if (!sidecar.acts || !hint_refuse_live(sidecar.hints) || !sidecar.lives)
        return;
    msg_warn("%s: the driver does not tell the parameters of a kernel, live hints are shadow from "
             "here on",
            call);
    conduct_told(capture_note(1, "live hints ended: the parameters of a kernel are not known"));
}

/* ---- the rest of the world ------------------------------------------------------------------ */

void conduct_made(enum memclass memclass, uint64_t key, uint64_t size, int device)
{
    struct tag tag = {.path = ""};
    struct capture_alloc_info info = {.tag = &tag,
            .ptr = key,
            .entrance = ENTRANCE_SYNC,
            .memclass = memclass,
            .native = true,
            .rule = -1};

    coverage_look();
    if (memclass < MEMCLASS_DEVICE_END)
        (void)where_am_i(NULL, size, device, &tag);
    else
        outside_tag(size, device, &tag);
    conduct_tell_python();
    if (memclass == MEMCLASS_GRAPH)
        atomic_store_explicit(&has_graph_memory, true, memory_order_relaxed);
    info.seq = conduct_seq();
    conduct_told(capture_alloc(&info));
    tell_device(device);
}

void conduct_gone(uint64_t key)
{
    struct conduct_end end = conduct_end(key);

    conduct_ended(&end, CUDA_SUCCESS);
}

void conduct_mapped(uint64_t key, devptr_t ptr, uint64_t size)
{
    if (uses_on())
        capture_mapped(key, ptr, size);
}

void conduct_unmapped(uint64_t key, devptr_t ptr)
{
    if (uses_on())
        capture_unmapped(key, ptr);
}

int conduct_device(void)
{
    struct context context;

    return !guard_in_callback() && context_here(&context) == 0 ? context.device : -1;
}

void conduct_synchronised(void)
{
    look_now_and_then();
    if (!pool || !conduct_may_fence() || pool_is_frozen(pool))
        return;
    pool_synchronised(pool);
    async_look_again();
    look_at_clock(atomic_load_explicit(&clock_seq, memory_order_relaxed));
    if (pool_has_news(pool))
        tell_news();
}

void conduct_context_hide(uint64_t generation, bool hidden)
{
    if (pool)
        pool_context_hide(pool, generation, hidden);
}

void conduct_context_going(uint64_t generation)
{
    gate_context_gone(generation);
    backend_context_gone(generation);
    if (pool)
        pool_context_going(pool, generation);
}

void conduct_context_gone(uint64_t generation)
{
    if (pool && generation != 0)
        pool_context_gone(pool, generation);
}

bool conduct_decides(void)
{
    return sidecar.hints != NULL;
}

bool conduct_records(void)
{
    return records;
}

bool conduct_meminfo_raw(void)
{
    return meminfo_raw;
}

void conduct_fork_child(void)
{
    uses_init(false); /* the file is the parent's */
    guard_clear(GUARD_USES);
    pins_fork_child();
    lock_init(&seen_lock, LOCK_RANK_PRELOAD);
    if (pool)
        pool_forget(pool);
}
