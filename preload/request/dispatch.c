/* SPDX-License-Identifier: MIT */
#include "preload/request/dispatch.h"

#include "preload/base/bounds.h"
#include "preload/base/cuda_abi.h"
#include "preload/base/gate.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/base/results.h"
#include "preload/caller/bypass.h"
#include "preload/caller/coverage.h"
#include "preload/driver/backend.h"
#include "preload/driver/device_stats.h"
#include "preload/driver/life.h"
#include "preload/driver/mempools.h"
#include "preload/driver/reach.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/hints/evict_in.h"
#include "preload/hints/evictlog.h"
#include "preload/hints/hints_run.h"
#include "preload/hints/hit.h"
#include "preload/hints/pins.h"
#include "preload/hints/pynamed.h"
#include "preload/request/event_order.h"
#include "preload/request/oom.h"
#include "preload/request/quick.h"
#include "preload/request/spill.h"
#include "tracker/base/errtext.h"
#include "tracker/capture/capture.h"
#include "tracker/capture/uses.h"
#include "tracker/where/anchor.h"
#include "tracker/where/where.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    OUTCOMES = 32,     /* outcomes taken from the pool at a time */
    ROOM = 64u << 20,  /* bytes made free for a call that names no size */
    CLOCK_STRIDE = 64, /* most operations between two readings of the clock */
};

/* fixed by dispatch_start: */
static bool capped; /* KEDGE_POOL=cap= is set: an OOM from the pool is intended */
/* ---- start ---------------------------------------------------------------------------------- */

/* Returns the value of a key of KEDGE_POOL; `otherwise` if it is unset and has no default. */
static uint64_t pool_key(const struct config *config, const char *key, uint64_t otherwise)
{
    const struct config_value *value = config_key(config, CONFIG_POOL, key);

    return value && (value->set || value->number) ? value->number : otherwise;
}

/* Blocks must suit a linear texture on every device (R15, alignment). */
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
    struct pool_opts opts;
    uint64_t timeout;

    pool_opts_init(&opts);
    opts.quantum = texture_alignment();
    opts.chunk = pool_key(config, "chunk", opts.chunk);
    opts.cap = pool_key(config, "cap", opts.cap);
    capped = opts.cap != 0;
    opts.budget = pool_key(config, "budget", opts.budget);
    opts.reserve = pool_key(config, "reserve", opts.reserve);
    timeout = pool_key(config, "fence-timeout", opts.fence_timeout_ms);
    opts.fence_timeout_ms = timeout < UINT32_MAX ? (uint32_t)timeout : UINT32_MAX;
    opts.trim = (enum pool_trim)pool_key(config, "trim", opts.trim);
    opts.remap = (enum pool_remap)pool_key(config, "remap", opts.remap);
    opts.move_ns = pool_key(config, "move-time", opts.move_ns / 1000000) * 1000000;
    opts.export_safe = pool_key(config, "placement", 0) == 1;
    opts.sync_mapped = pool_key(config, "sync", 0) == 1;
    session_sync_mapped = opts.sync_mapped;
    backend_shares_handles = opts.sync_mapped;
    session_meminfo_raw = pool_key(config, "meminfo", 0) == 1;
    return pool_new(&backend_driver, &opts, &session_pool);
}

/*
 * KEDGE_TRACE=uses=auto records uses only if KEDGE_CAPTURE names a capture: its user wants the
 * content, and a run that merely happens to be recorded pays nothing for its launches.
 */
static void start_uses(const struct config *config)
{
    const struct config_value *uses = config_key(config, CONFIG_TRACE, "uses");
    enum {
        USES_AUTO,
        USES_ON,
        USES_OFF,
        USES_ORDER
    };
    bool wants = session_records && uses
            && (uses->number == USES_AUTO ? config_is_set(config, CONFIG_CAPTURE)
                                          : uses->number != USES_OFF);

    uses_init(wants);
    uses_keep_order(wants && uses->number == USES_ORDER);
}

static void start_capture(const struct config *config)
{
    static const enum format_trace traces[] = {
            FORMAT_TRACE_AGG, FORMAT_TRACE_RING, FORMAT_TRACE_FULL, FORMAT_TRACE_OFF};
    const struct config_value *mb = config_key(config, CONFIG_TRACE, "mb");
    struct capture_opts opts = {
            .file = config_text(config, CONFIG_CAPTURE),
            .rank = config_rank(environ),
            .run = config_env(environ, CONFIG_RUN),
            .program = where_program(),
            .trace = traces[config_word(config, CONFIG_TRACE) % 4],
            .ring_bytes = (mb && mb->number ? mb->number : 256) << 20,
    };
    int r;

    session_records = opts.trace != FORMAT_TRACE_OFF;
    start_uses(config);
    r = capture_init(&opts);
    if (r < 0) {
        msg_warn("KEDGE_CAPTURE: '%s': %s, using %s", opts.file, errtext(-r), CAPTURE_DEFAULT_NAME);
        opts.file = NULL;
        (void)capture_init(&opts);
    }
    /* as they are given: a value of keys or of words has no text of its own */
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const char *given = config_env(environ, config_name((enum config_id)id));

        if (given && *given)
            (void)capture_setting(config_name((enum config_id)id), given);
    }
    (void)capture_setting("driver", resolve_driver_path());
    (void)capture_setting("mode", life_mode() == LIFE_POOL ? "pool" : "track");
    (void)capture_setting("stacks", unwind_engine_name(unwind_engine()));
    (void)capture_setting("uses", uses_have_order() ? "order" : uses_on() ? "on" : "off");
    if (uses_on()) {
        (void)capture_setting("dead_writes", "on"); /* recorded uses show all dead writes */
        guard_set(GUARD_USES);                      /* before the first block */
    }
}

int dispatch_start(void)
{
    const struct config *config = life_config();
    bool serves = life_mode() == LIFE_POOL;
    int r = serves ? start_pool(config) : 0;

    if (r < 0)
        return r;
    session_sync_free = config_word(config, CONFIG_SYNC_FREE);
    bypass_init(config_text(config, CONFIG_BYPASS));
    start_capture(config);
    hints_run_load(config, serves);
    if (serves)
        event_order_start(session_pool);
    if (!hints_run.hints && serves && !session_records)
        pool_is_not_recorded(session_pool);
    if (!hints_run.hints)
        return 0;
    r = pool_set_hints(session_pool, hints_run.hints);
    if (r < 0) {
        msg_warn("KEDGE_HINTS: %s, hints are ignored", errtext(-r));
        hints_run = (struct hints_run){.hints = NULL};
        return 0;
    }
    guard_set(GUARD_ACTING); /* before the first block that a hint matches (R66, reader sections) */
    return 0;
}

/* ---- what the capture records --------------------------------------------------------------- */

/* The most bytes held on a device, as last recorded in the capture. */
static _Atomic(uint64_t) high_told[DEVICES_MAX];

/*
 * Did the heaps hold more than the capture has recorded? This includes growth that was undone
 * within one call.
 */
static bool is_higher_than_told(const struct outcome *outcome)
{
    _Atomic(uint64_t) *told;

    if (outcome->device < 0 || outcome->device >= DEVICES_MAX)
        return false;
    told = &high_told[outcome->device];
    if (outcome->reserved_high <= atomic_load_explicit(told, memory_order_relaxed))
        return false;
    atomic_store_explicit(told, outcome->reserved_high, memory_order_relaxed);
    return true;
}

static void tell_reserved(const struct outcome *outcome)
{
    if (is_higher_than_told(outcome) || outcome->reserved_delta != 0)
        session_report(capture_reserved(
                outcome->device, 0, outcome->reserved, outcome->reserved_high, outcome->seq));
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

    session_report(capture_hint(&info));
}

static void tell_gone(const struct outcome *news)
{
    if (news->kind == OUTCOME_KEPT)
        evictlog_kept(news);
    else if (news->kind == OUTCOME_WRITTEN)
        hit_written(news);
    else if (news->kind == OUTCOME_REFUSED)
        tell_hint(news, FORMAT_HINT_REFUSED, NULL, EIO);
    else
        tell_hint(news, news->kind == OUTCOME_CLEAN ? FORMAT_HINT_CLEAN : FORMAT_HINT_UNMAPPED,
                NULL, 0);
    tell_reserved(news);
}

/* Records the storage given back since the last call; blocks in limbo move on meanwhile. */
static void dispatch_tell_news(void)
{
    struct outcome news[OUTCOMES];
    bool any = false;
    size_t n;

    do {
        n = 0;
        (void)pool_poll(session_pool, session_may_fence(), news, OUTCOMES, &n);
        for (size_t i = 0; i < n; i++)
            tell_gone(&news[i]);
        any |= n > 0;
    } while (n == OUTCOMES);
    if (any)
        session_sweep_stack();
    if (hints_run_decides() && pool_waits_for_readers(session_pool))
        session_go_on_later();
}

void dispatch_go_on(void)
{
    int cancel, unused;

    if (__builtin_expect(!session_must_go_on(), 1) || !session_may_fence()
            || !atomic_exchange(&session_goes_on, false))
        return;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    dispatch_tell_news();
    (void)pthread_setcancelstate(cancel, &unused);
}

/* ---- idleness ------------------------------------------------------------------------------- */

/* The clock is read at intervals only: a hit costs less than reading it. */
static _Atomic(uint64_t) clock_seq; /* order number at which the clock was last read */

static void look_at_clock(uint64_t seq)
{
    struct timespec now;

    atomic_store_explicit(&clock_seq, seq, memory_order_relaxed);
    if (!session_may_fence() || clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0
            || pool_idle(session_pool, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec)
                    == 0)
        return;
    device_stats_all_reserved();
}

/* ---- allocation ----------------------------------------------------------------------------- */

static bool dispatch_is_ours(const struct dispatch_request *request)
{
    if (!session_pool || request->forward || request->capturing || pool_is_frozen(session_pool))
        return false;
    if (request->api == API_STREAM)
        return request->mempool != 0;
    return gate_captures() == 0; /* the driver answers (R11, forwarded during captures) */
}

/*
 * Natively a stream-ordered request is an operation on its stream, unless the driver refuses it: so
 * this runs after the pool has served it. If the stream takes no operation, the block returns to
 * the pool without an event, and the request goes to the driver.
 */
static bool operates(const struct dispatch_request *request, devptr_t ptr)
{
    struct pool_free_request back = {.api = API_SYNC, .may_fence = session_may_fence()};
    struct outcome outcome;

    if (request->api != API_STREAM || !stream_owes(&request->stream)
            || backend_operate(&request->stream) == 0)
        return true;
    (void)pool_free(session_pool, ptr, &back, &outcome);
    return false;
}

static void make_plan(struct dispatch_request *request)
{
    request->plan = (struct plan){.rule = -1, .action = ACTION_NONE, .mode = HINT_OFF};
    if (!hints_run_decides())
        return;
    dispatch_go_on();
    if (!hint_has_size(hints_run.hints, request->size))
        return;
    request->tag.pysites = pynamed_of(request->tag.pystack);
    request->tag.stream = request->api == API_STREAM ? request->stream.number : 0;
    hint_plan(hints_run.hints, &request->tag, &request->plan);
    hint_canary(hints_run.hints, &request->plan);
}

static int ask_pool(struct dispatch_request *request, struct outcome *ret_outcome)
{
    bool sync = request->api == API_SYNC;
    bool may = session_may_fence();
    struct pool_request ask = {
            .size = request->size,
            .owner = sync ? request->context.memory : request->mempool,
            .stream = sync ? 0 : request->stream.identity,
            /* a peer's access to a pool does not cover plain memory */
            .context = sync || atomic_load_explicit(&mempool_has_access, memory_order_relaxed)
                    ? 0
                    : request->context.memory,
            .plan = request->plan.rule >= 0 ? &request->plan : NULL,
            .api = request->api,
            .device = request->tag.device,
            .may_call = may,
            .may_fence = may,
            .may_wait = may,
            .ladder = &request->ladder,
    };

    return pool_alloc(session_pool, &ask, ret_outcome);
}

/* At the first allocation on a device: records its name, for the capture and the hints' receipt. */
static void record_device(int device)
{
    char name[96];

    if (device_stats_device(device, name, sizeof name))
        hints_run_device(device, name);
}

static void dispatch_record_alloc(
        const struct dispatch_request *request, const struct outcome *outcome)
{
    struct capture_alloc_info info = {
            .tag = &request->tag,
            .ptr = outcome->ptr,
            .seq = outcome->seq,
            .stream = stream_told(&request->stream),
            .api = request->api,
            .rule = request->plan.rule,
            .context = request->api == API_SYNC ? request->context.memory
                                                : context_pools_of(request->tag.device),
    };

    coverage_tell(false);
    record_device(request->tag.device);
    if (hints_run_is_evict_rule(request->plan.rule))
        evict_in_made(outcome->ptr, outcome->size);
    session_report(capture_alloc(&info));
    tell_reserved(outcome);
    if (request->plan.small)
        tell_hint(outcome, FORMAT_HINT_SKIPPED, NULL, 0);
    else if (request->plan.rule >= 0 && !request->plan.unused)
        tell_hint(outcome, FORMAT_HINT_PLANNED, NULL, 0);
}

/*
 * Mapped memory takes driver calls that the program never made: their error codes do not answer the
 * program's call. The driver's own pool then decides, unless the device has failed or the user set
 * a limit.
 */
static bool is_answer(const struct dispatch_request *request, int result)
{
    bool mapped = request->api == API_STREAM || session_sync_mapped || hint_acts(&request->plan);

    return !mapped || results_is_sticky(result) || (capped && result == CUDA_ERROR_OUT_OF_MEMORY);
}

/*
 * A mapped heap got no address range: the first time prints a line, every time is a note in the
 * report.
 */
static void tell_no_range(void)
{
    static _Atomic(uint64_t) told;
    uint64_t errors = pool_range_errors(session_pool);
    uint64_t before = atomic_load_explicit(&told, memory_order_relaxed);
    char text[160];

    if (errors <= before || !atomic_compare_exchange_strong(&told, &before, errors))
        return;
    (void)snprintf(text, sizeof text,
            "the driver gave no addresses for mapped memory (%lu so far): it serves such "
            "requests itself meanwhile",
            (unsigned long)errors);
    if (before == 0)
        msg_warn("%s", text);
    session_report(capture_note(1, text));
}

/* Each bound reached for the first time prints a line and is a note in the report (bounds.def). */
static void dispatch_tell_bounds(void)
{
    const char *line;

    while (__builtin_expect(atomic_load_explicit(&bounds_waiting, memory_order_relaxed) != 0, 0)
            && (line = bounds_news()) != NULL) {
        msg_warn("%s", line);
        session_report(capture_note(1, line));
    }
}

/*
 * Mapped memory on two devices: a copy between them cannot infer both devices from the addresses
 * (R85, fitness of hints).
 */
static void dispatch_note_device(int device)
{
    static _Atomic(uint64_t) seen;
    uint64_t bit = UINT64_C(1) << (device & 63);

    if (session_sync_mapped && (atomic_fetch_or(&seen, bit) & ~bit))
        guard_set(GUARD_PEERS);
}

static bool is_bypassed(const struct dispatch_request *request)
{
    return !quick_knows(request->caller)
            && bypass_wants(&request->tag, request->caller, bypass_asker);
}

bool dispatch_beside_capture(struct dispatch_request *request, int result, devptr_t *ret_ptr)
{
    struct outcome outcome;

    if (request->api != API_SYNC || result != CUDA_ERROR_OUT_OF_MEMORY || gate_captures() == 0
            || !session_pool || request->forward || guard_in_callback()
            || pool_is_frozen(session_pool) || is_bypassed(request)
            || ask_pool(request, &outcome) != 0)
        return false;
    dispatch_record_alloc(request, &outcome);
    *ret_ptr = outcome.ptr;
    return true;
}

int dispatch_alloc(struct dispatch_request *request, devptr_t *ret_ptr)
{
    struct outcome outcome;
    int device = dispatch_device_of(request);
    int r;

    coverage_look();
    dispatch_tell_bounds();
    dispatch_note_device(device);
    if (request->counted)
        request->tag = *request->counted;
    else if (where_am_i(request->caller, request->size, device, &request->tag) > 0)
        session_tell_python();
    make_plan(request);
    if (!dispatch_is_ours(request) || is_bypassed(request))
        return -ENOTSUP;
    r = ask_pool(request, &outcome);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && session_may_fence() && spill_trim(device) > 0)
        r = ask_pool(request, &outcome);
    if (r == -ENOTSUP)
        tell_no_range();
    if (r == -ENOMEM)
        bounds_reached(BOUNDS_RECORDS);
    if (r == -EINVAL && device >= DEVICES_MAX)
        bounds_reached(BOUNDS_DEVICES);
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
    if (!operates(request, outcome.ptr))
        return -ENOTSUP;
    dispatch_record_alloc(request, &outcome);
    if (pool_has_news(session_pool))
        dispatch_tell_news();
    if (!(outcome.how & OUTCOME_HIT)
            || outcome.seq - atomic_load_explicit(&clock_seq, memory_order_relaxed) >= CLOCK_STRIDE)
        look_at_clock(outcome.seq);
    quick_learn(request->caller, request->named, request->tag.device, request->mempool);
    *ret_ptr = outcome.ptr;
    return 0;
}

/* Makes a tag without counting it for nth: no hint names such memory. */
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

/* May the pool call the driver now? */
static bool dispatch_may_call(void)
{
    return session_pool && session_may_fence() && !pool_is_frozen(session_pool);
}

/* Counts an attempt after `bytes` were given back. */
static bool dispatch_made_room(int device, uint64_t bytes, struct pool_ladder *ladder)
{
    if (bytes == 0)
        return false;
    device_stats_reserved(device);
    ladder->trims++;
    ladder->trimmed_bytes += bytes;
    ladder->attempts++;
    return true;
}

bool dispatch_more_room(struct pool_ladder *ladder)
{
    int device = dispatch_device();

    return dispatch_may_call()
            && dispatch_made_room(device,
                    pool_trim_device(session_pool, device, true) + spill_trim(device), ladder);
}

bool dispatch_make_room(int result, uint64_t size, int device, struct pool_ladder *ladder)
{
    uint64_t want = size ? size : ROOM;
    uint64_t bytes;

    if (result != CUDA_ERROR_OUT_OF_MEMORY || !dispatch_may_call())
        return false;
    bytes = pool_trim_device(session_pool, device, pool_could_have(session_pool, device, size))
            + spill_trim(device);
    if (bytes < want && evict_in_is_wanted() && device >= 0)
        bytes += pool_evict_make_room(session_pool, device, want - bytes);
    return dispatch_made_room(device, bytes, ladder);
}

void dispatch_refused(int result, uint64_t size, int device, const struct pool_ladder *ladder)
{
    struct dispatch_request request = {.size = size, .api = API_SYNC};

    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return;
    coverage_look();
    outside_tag(size, device, &request.tag);
    request.ladder = *ladder;
    oom_record(&request, result, true);
}

static enum memclass dispatch_class_of(const struct dispatch_request *request)
{
    if (request->memclass != MEMCLASS_POOLED)
        return request->memclass;
    return request->capturing ? MEMCLASS_GRAPH : MEMCLASS_DRIVER;
}

/*
 * The context whose end frees a block that the driver serves; 0 = none: the block belongs to a
 * graph.
 */
static uint64_t ends_with(const struct dispatch_request *request)
{
    struct context here;

    if (dispatch_class_of(request) == MEMCLASS_GRAPH)
        return 0;
    if (request->api != API_SYNC)
        return context_pools_of(request->tag.device);
    if (request->context.memory)
        return request->context.memory;
    return context_here(&here) == 0 ? here.memory : 0;
}

void dispatch_forwarded(struct dispatch_request *request, int result, devptr_t ptr, uint64_t size)
{
    struct capture_alloc_info info = {
            .tag = &request->tag,
            .ptr = ptr,
            .stream = stream_told(&request->stream),
            .api = request->api,
            .memclass = dispatch_class_of(request),
            .native = true,
            .stream_capture = request->capturing,
            .rule = -1,
            .context = ends_with(request),
    };

    if (result != CUDA_SUCCESS) {
        life_driver_said(result);
        if (result == CUDA_ERROR_OUT_OF_MEMORY)
            oom_record(request, result, true);
        return;
    }
    if (session_pool && ptr)
        pool_foreign(session_pool, ptr, size);
    coverage_tell(false);
    record_device(request->tag.device);
    request->tag.size = size;
    info.seq = session_seq();
    if (info.memclass == MEMCLASS_GRAPH)
        device_stats_graph_memory();
    session_report(capture_alloc(&info));
    if (session_pool && info.memclass == MEMCLASS_DRIVER)
        pool_forwarded(session_pool, &request->plan, size);
    if (hint_acts(&request->plan)
            || (request->plan.action == ACTION_HOLD && hint_mode_acts(request->plan.mode))) {
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

bool dispatch_is_live(devptr_t ptr, struct block_info *ret_info)
{
    return session_pool && pool_find(session_pool, ptr, ret_info) == 0 && ret_info->base == ptr
            && ret_info->size > 0;
}

/*
 * The context whose work a free has to wait for, 0 = none (R61, free as barrier; R75, host
 * barrier). Natively a stream-ordered free does not wait either, and no free waits in a host
 * function. Captures of other streams make no difference, as natively.
 */
static uint64_t barrier_of(devptr_t ptr, enum api api)
{
    struct block_info info;

    if (api != API_SYNC || dispatch_frees_without_wait() || guard_in_callback()
            || pool_is_frozen(session_pool))
        return 0;
    if (!dispatch_is_live(ptr, &info))
        return 0;
    if (info.heap == HEAP_PRIVATE)
        return info.owner;
    return info.heap == HEAP_PLAIN ? info.context : 0;
}

static void record_free(const struct outcome *outcome, enum api api, uint64_t stream)
{
    struct capture_free_info info = {
            .ptr = outcome->ptr,
            .seq = outcome->seq,
            .size = outcome->size,
            .stream = stream,
            .device = outcome->device,
            .api = api,
    };

    session_report(capture_free(&info));
    tell_reserved(outcome);
    if (outcome->how & OUTCOME_HELD)
        tell_hint(outcome, outcome->mode == HINT_SHADOW ? FORMAT_HINT_WOULD_HOLD : FORMAT_HINT_HELD,
                NULL, 0);
}

struct dispatch_end dispatch_end(uint64_t key)
{
    return (struct dispatch_end){.key = key, .seq = session_seq(), .api = API_SYNC};
}

void dispatch_ended(const struct dispatch_end *end, int result)
{
    struct capture_free_info info = {
            .ptr = end->key,
            .seq = end->seq,
            .stream = end->stream,
            .device = -1,
            .api = end->api,
            .native = true,
    };

    if (end->key && result == CUDA_SUCCESS)
        session_report(capture_free(&info));
}

/* Releases blocks of hints that wait for the free of another hint's block. */
static void tell_freed(const struct outcome *freed)
{
    struct anchor_place place;
    struct edge event;

    if (freed->rule < 0 || !hints_run_waits(EDGE_FREE))
        return;
    anchor_here(&place);
    event = (struct edge){.kind = EDGE_FREE,
            .anchor = place.anchor,
            .instance = place.instance,
            .path = place.path,
            .rule = freed->rule};
    dispatch_event(&event, NULL, 0, NULL);
}

/* Is the free an operation on the stream that the program could wait for? */
static bool owes_operation(devptr_t ptr, const struct stream *stream)
{
    struct block_info info;

    return stream && stream_owes(stream) && !pool_is_frozen(session_pool)
            && dispatch_is_live(ptr, &info);
}

/* The stream is of another device: work of its context has used the block there. */
static void note_foreign(devptr_t ptr, const struct stream *stream)
{
    struct block_info info;

    if (stream && guard_has(GUARD_DEVICES) && pool_find(session_pool, ptr, &info) == 0
            && info.device != stream->device)
        reach_add(stream->device, info.device);
}

/* 0, -ENOENT (not ours), or the code for the program. */
static int free_in_pool(devptr_t ptr, enum api api, const struct stream *stream)
{
    bool may = session_may_fence();
    bool owes = owes_operation(ptr, stream);
    /*
     * The next user of the block waits for the event of this free. An event recorded later would
     * also cover what blocking streams were given since. Only the calling thread can record an
     * event on its per-thread stream.
     */
    bool record_now = stream && (stream->per_thread || owes);
    struct pool_free_request request = {
            .api = api,
            .stream = stream ? stream->identity : 0,
            .record_now = record_now,
            .may_fence = may || record_now,
            .beside = !may,
    };
    uint64_t barrier = barrier_of(ptr, api);
    struct outcome outcome;
    int r;

    /* R12 is for frees without a stream (R82, calls during captures). */
    if (api == API_SYNC && gate_captures() > 0)
        pins_for_captures(ptr);
    note_foreign(ptr, stream);
    r = pool_free(session_pool, ptr, &request, &outcome);
    if (r == -EINVAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (r != 0)
        return r;
    if (life_sticky())
        return life_sticky(); /* as the driver would answer */
    if (owes && !(outcome.how & OUTCOME_RECORDED))
        (void)backend_operate(stream);
    record_free(&outcome, api, stream_told(stream));
    if (outcome.mode == HINT_POISON)
        session_go_on_later();
    tell_freed(&outcome);
    if (barrier) {
        r = backend_synchronise(barrier);
        return r > 0 && results_is_sticky(r) ? r : 0;
    }
    return 0;
}

int dispatch_free(
        devptr_t ptr, enum api api, const struct stream *stream, struct dispatch_end *ret_end)
{
    int r = session_pool ? free_in_pool(ptr, api, stream) : -ENOENT;

    if (r == -ENOENT) {
        *ret_end = dispatch_end(ptr);
        ret_end->api = api;
        ret_end->stream = stream_told(stream);
    }
    return r;
}

bool dispatch_free_passive(devptr_t ptr)
{
    struct pool_free_request request = {.api = API_SYNC};
    struct outcome outcome;

    return life_is_passive() && session_pool && guard_depth() == 0 && ptr != 0
            && pool_free(session_pool, ptr, &request, &outcome) == 0;
}

/* ---- anchors and uses ----------------------------------------------------------------------- */

static void tell_due(const struct outcome *due, const struct edge *edge)
{
    if (due->kind == OUTCOME_DRIFT && due->how & OUTCOME_FIRST)
        hints_run_drifted(due, edge);
    if (due->kind == OUTCOME_DRIFT)
        tell_hint(due, FORMAT_HINT_DRIFT, edge, 0);
    else if (due->kind == OUTCOME_REFUSED)
        tell_hint(due, FORMAT_HINT_SKIPPED, edge, due->how & OUTCOME_PINNED ? EBUSY : EPERM);
    else if (due->kind == OUTCOME_LET_GO)
        tell_hint(due, FORMAT_HINT_LET_GO, edge, 0);
    else if (due->kind == OUTCOME_SHADOW)
        tell_hint(due, FORMAT_HINT_WOULD_RELEASE, edge, 0);
    else
        tell_hint(due, FORMAT_HINT_DEAD, edge, 0);
}

void dispatch_label(const struct edge *edge)
{
    session_report(capture_edge(edge, session_seq()));
}

/* Releases what is due at this edge; returns the number of blocks. */
static size_t dispatch_pass(const struct edge *passed, void (*each_dead)(devptr_t ptr))
{
    struct edge edge = *passed;
    struct outcome due[OUTCOMES];
    size_t all = 0;
    size_t n;
    int r;

    do {
        n = 0;
        r = pool_edge(session_pool, &edge, due, OUTCOMES, &n);
        for (size_t i = 0; i < n; i++) {
            if (each_dead && (due[i].kind == OUTCOME_RELEASE || due[i].kind == OUTCOME_LET_GO))
                each_dead(due[i].ptr);
            tell_due(&due[i], &edge);
        }
        all += n;
    } while (r == 0 && n == OUTCOMES);
    if (evict_in_is_wanted())
        evictlog_steps();
    return all;
}

void dispatch_edge(const struct edge *edge, bool may_call)
{
    session_report(capture_edge(edge, session_seq()));
    if (!hints_run_decides())
        return;
    (void)dispatch_pass(edge, NULL);
    if (!may_call) {
        session_go_on_later();
        return;
    }
    dispatch_tell_news();
    evict_in_go_on();
}

void dispatch_event(const struct edge *event, const devptr_t *used, uint32_t count,
        void (*each_dead)(devptr_t ptr))
{
    struct outcome picked;

    if (!hints_run_decides())
        return;
    for (uint32_t i = 0; i < count; i++)
        if (pool_use(session_pool, used[i], event, i, &picked))
            tell_hint(&picked, FORMAT_HINT_PLANNED, NULL, 0);
    if (dispatch_pass(event, each_dead) > 0)
        session_go_on_later();
}

/* ---- memory that the driver serves ---------------------------------------------------------- */

void dispatch_made(enum memclass memclass, uint64_t key, uint64_t size, int device)
{
    static const bool is_bound[MEMCLASS_COUNT] = {[MEMCLASS_DRIVER] = true,
            [MEMCLASS_PITCHED] = true,
            [MEMCLASS_MANAGED] = true,
            [MEMCLASS_ARRAY] = true,
            [MEMCLASS_ARRAY_GUESS] = true,
            [MEMCLASS_HOST] = true,
            [MEMCLASS_REGISTERED] = true,
            [MEMCLASS_IMPORTED] = true};
    struct context here;
    struct tag tag = {.path = ""};
    struct capture_alloc_info info = {.tag = &tag,
            .ptr = key,
            .api = API_SYNC,
            .memclass = memclass,
            .native = true,
            .rule = -1,
            .context = is_bound[memclass] && context_here(&here) == 0 ? here.memory : 0};

    coverage_look();
    if (memclass < MEMCLASS_DEVICE_END)
        (void)where_am_i(NULL, size, device, &tag);
    else
        outside_tag(size, device, &tag);
    session_tell_python();
    if (memclass == MEMCLASS_GRAPH)
        device_stats_graph_memory();
    info.seq = session_seq();
    session_report(capture_alloc(&info));
    record_device(device);
}

void dispatch_gone(uint64_t key)
{
    struct dispatch_end end = dispatch_end(key);

    dispatch_ended(&end, CUDA_SUCCESS);
}

void dispatch_mapped(uint64_t key, devptr_t ptr, uint64_t size)
{
    if (uses_on())
        capture_mapped(key, ptr, size);
}

int dispatch_device(void)
{
    struct context context;

    return !guard_in_callback() && context_here(&context) == 0 ? context.device : -1;
}

void dispatch_synchronised(void)
{
    device_stats_waited();
    if (!dispatch_may_call())
        return;
    pool_synchronised(session_pool);
    spill_look_again();
    look_at_clock(atomic_load_explicit(&clock_seq, memory_order_relaxed));
    if (pool_has_news(session_pool) || atomic_exchange(&session_goes_on, false))
        dispatch_tell_news();
    evict_in_go_on();
}

void dispatch_settle(void)
{
    if (dispatch_may_call())
        pool_settle(session_pool);
}

void dispatch_fork_child(void)
{
    uses_init(false); /* the file belongs to the parent */
    guard_clear(GUARD_USES);
    event_order_end();
    if (session_pool)
        pool_forget(session_pool);
}
