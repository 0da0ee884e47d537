/* SPDX-License-Identifier: MIT */
#include "tests/oracle/dense.h"

#include <stdio.h>

enum {
    FLAG = DENSE_WORDS
}; /* the host's flag, behind the words */

/* ---- which ---------------------------------------------------------------------------------- */

int flow_index(const struct flow *flow)
{
    return (int)(flow - dense.flows);
}

bool flow_may(const struct hand *me, const struct flow *flow)
{
    return flow->state == FLOW_OPEN && !flow->filming && !flow->busy
            && dense_home_is_usable(flow->home) && (flow->hand < 0 || flow->hand == me->number)
            && !(flow->kind == LANE_LEGACY && dense.homes[flow->home].blocking_films);
}

struct flow *flow_pick(const struct hand *me, int home, int device)
{
    for (int tries = 0; tries < 24; tries++) {
        struct flow *flow = &dense.flows[dense_pick(DENSE_FLOWS)];

        if (flow_may(me, flow) && (home < 0 || flow->home == home)
                && (device < 0 || dense.homes[flow->home].device == device))
            return flow;
    }
    return NULL;
}

CUstream flow_handle(const struct flow *flow, bool *ret_ptsz)
{
    *ret_ptsz = false;
    switch (flow->kind) {
    case LANE_LEGACY:
        return dense_chance(50) ? NULL : CU_STREAM_LEGACY;
    case LANE_THREAD:
        *ret_ptsz = dense_chance(60);
        return *ret_ptsz && dense_chance(70) ? NULL : CU_STREAM_PER_THREAD;
    default:
        *ret_ptsz = dense_chance(15);
        return flow->handle;
    }
}

bool flow_is_safe(const struct hand *me)
{
    for (int i = 0; i < DENSE_FILMS; i++) {
        const struct film *film = &dense.films[i];

        if (!film->on || film->spoilt)
            continue;
        if (film->mode == CU_STREAM_CAPTURE_MODE_GLOBAL
                || (film->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && film->hand == me->number))
            return false;
    }
    return true;
}

/* ---- coming and going ----------------------------------------------------------------------- */

struct flow *flow_open(int home, enum lane_kind kind, int hand)
{
    struct flow *flow = NULL;

    for (int i = 0; i < DENSE_FLOWS && !flow; i++) {
        struct flow *old = &dense.flows[i];
        bool over = old->state == FLOW_CLOSED && dense.known.at[i] >= old->count;

        if (old->state == FLOW_FREE || over)
            flow = old;
    }
    if (!flow)
        return NULL;
    uint32_t count = flow->count; /* numbers go on, so that what names the old one is over */
    *flow = (struct flow){
            .state = FLOW_OPEN, .kind = kind, .home = home, .hand = hand, .count = count};
    if (kind == LANE_BLOCKING || kind == LANE_NONBLOCKING) {
        dense_home_enter(home);
        DO(cuStreamCreate(
                &flow->handle, kind == LANE_BLOCKING ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
        dense_say("stream %d of home %d, kind %d: %p", flow_index(flow), home, kind,
                (void *)flow->handle);
    }
    return flow;
}

static bool has_own(const struct hand *me, int home)
{
    for (int i = 0; i < DENSE_FLOWS; i++)
        if (dense.flows[i].state == FLOW_OPEN && dense.flows[i].home == home
                && dense.flows[i].hand == me->number)
            return true;
    return false;
}

bool act_flow_open(struct hand *me)
{
    int home = dense.sparse || dense.scene ? 0 : dense_pick(DENSE_HOMES);
    int open = 0;

    for (int i = 0; i < DENSE_FLOWS; i++)
        open += dense.flows[i].state == FLOW_OPEN;
    if (dense.scene && (!dense.homes[0].blocking_films || open > 3))
        return false; /* streams come while one captures */
    if (!dense_home_is_usable(home) || open > 24 || (dense.sparse && dense_chance(85)))
        return false;
    if (!dense.sparse && dense_chance(40) && !has_own(me, home))
        return flow_open(home, LANE_THREAD, me->number) != NULL;
    COUNT(dense_streams);
    return flow_open(home,
                   dense.sparse || dense.scene || dense_chance(65) ? LANE_BLOCKING
                                                                   : LANE_NONBLOCKING,
                   -1)
            != NULL;
}

static void flow_close(struct hand *me, struct flow *flow)
{
    bool away = dense_chance(20) && dense_leave(me, "cuStreamDestroy_v2");

    flow->busy = away;
    DO(cuStreamDestroy_v2(flow->handle));
    if (away)
        dense_back(me);
    flow->busy = false;
    flow->state = FLOW_CLOSED;
    COUNT(streams_ended);
}

bool act_flow_close(struct hand *me)
{
    struct flow *flow = flow_pick(me, -1, -1);
    struct dense_clock next;

    if (!flow || flow->kind == LANE_LEGACY || flow->kind == LANE_THREAD)
        return false;
    next = order_next(flow);
    if (order_is_stalled(&next))
        return false;
    dense_home_enter(flow->home);
    dense_say("stream %d is destroyed", flow_index(flow));
    flow_close(me, flow);
    return true;
}

/* ---- streams that have gone ----------------------------------------------------------------- */

/* Pages of the program that are in memory. */
static long resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size = 0, pages = 0;

    if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2)
        pages = 0;
    if (file)
        (void)fclose(file);
    return pages;
}

/* Each has a block of its own, and nobody needs that again. */
static void come_and_go(int count)
{
    CUdeviceptr ptr;
    CUstream stream;

    for (int i = 1; i <= count; i++) {
        DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        DO(cuMemAllocAsync(&ptr, 512, stream));
        DO(cuMemsetD32Async(ptr, 1, 128, stream));
        DO(cuMemFreeAsync(ptr, stream));
        DO(cuStreamDestroy_v2(stream));
        if (i % 64 == 0)
            DO(cuCtxSynchronize());
    }
}

/* More streams than a number of 16 bits has room for, each with a block; rare, for it takes seconds. */
bool act_churn(struct hand *me)
{
    if (dense.stall.n || dense.small || !flow_is_safe(me) || graph_films() || dense.homes[0].films)
        return false;
    dense_home_enter(0);
    come_and_go(dense.away < 0 && dense_chance(1) ? 66000 : 40);
    COUNT(dense_churns);
    return true;
}

/* Events that were made and not destroyed since. Those that go with their context are not counted. */
static int64_t events_alive(void)
{
    return (int64_t)cu.calls("cuEventCreate") - (int64_t)cu.calls("cuEventDestroy");
}

/* Streams that have gone leave nothing on the host and no events (R107). */
bool act_streams_gone(struct hand *me)
{
    enum {
        WARM = 512,
        MORE = 1024,
        PAGES = 512, /* two megabytes */
        EVENTS = 256,
    };
    cuuint64_t keep = UINT64_MAX, none = 0;
    int64_t events;
    uint64_t bytes = 256 * (uint64_t)1 << 20;
    struct dense_clock all = order_of_home(0);
    CUmemoryPool pool;
    CUdeviceptr ptr;
    long before;

    if (dense.stall.n || dense.away >= 0 || dense.small || !flow_is_safe(me) || graph_films()
            || dense.current >= 0 || dense.homes[0].films || !memory_fits(0, bytes))
        return false;
    dense_home_enter(0);
    DO(cuDeviceGetDefaultMemPool(&pool, 0));
    DO(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    DO(cuMemAllocAsync(&ptr, bytes, CU_STREAM_LEGACY));
    DO(cuMemFreeAsync(ptr, CU_STREAM_LEGACY));
    DO(cuCtxSynchronize());
    come_and_go(WARM);
    before = resident();
    events = events_alive();
    come_and_go(MORE);
    if (events_alive() > events + EVENTS)
        dense_wrong("events that streams leave behind", (uint64_t)events_alive(), (uint64_t)events);
    if (resident() > before + PAGES)
        dense_wrong("pages of the host that streams leave behind", (uint64_t)resident(),
                (uint64_t)before);
    DO(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
    DO(cuCtxSynchronize());
    order_host_waited(&all);
    limbo_synchronised();
    COUNT(dense_gone);
    return true;
}

/* ---- events --------------------------------------------------------------------------------- */

static struct dense_event *event_pick(void)
{
    struct dense_event *event = &dense.events[dense_pick(DENSE_EVENTS)];

    return event->handle && dense_home_is_usable(event->home) ? event : NULL;
}

static void event_record(struct dense_event *event, struct flow *flow)
{
    bool ptsz;
    CUstream handle = flow_handle(flow, &ptsz);

    dense_home_enter(flow->home);
    if (ptsz && dense_chance(30))
        DO(cuEventRecordWithFlags_ptsz(event->handle, handle, 0));
    else if (ptsz)
        DO(cuEventRecord_ptsz(event->handle, handle));
    else if (dense_chance(30))
        DO(cuEventRecordWithFlags(event->handle, handle, 0));
    else
        DO(cuEventRecord(event->handle, handle));
    (void)order_submit(flow);
    event->recorded = true;
    event->clock = flow->clock;
    COUNT(dense_events);
    dense_say("event %d recorded on %d%s", (int)(event - dense.events), flow_index(flow),
            ptsz ? " (ptsz)" : "");
}

static void event_wait(const struct dense_event *event, struct flow *flow)
{
    bool ptsz;
    CUstream handle = flow_handle(flow, &ptsz);

    dense_home_enter(flow->home);
    if (ptsz)
        DO(cuStreamWaitEvent_ptsz(handle, event->handle, 0));
    else
        DO(cuStreamWaitEvent(handle, event->handle, 0));
    (void)order_submit(flow);
    order_join(&flow->clock, &event->clock);
    dense_say("stream %d waits for event %d", flow_index(flow), (int)(event - dense.events));
}

/* An event belongs to a context. */
static struct dense_event *event_of(int home)
{
    for (int tries = 0; tries < 6; tries++) {
        struct dense_event *event = event_pick();

        if (event && event->home == home)
            return event;
    }
    return NULL;
}

bool act_event_record(struct hand *me)
{
    struct flow *flow = flow_pick(me, -1, -1);
    struct dense_event *event = flow ? event_of(flow->home) : NULL;

    if (!event)
        return false;
    event_record(event, flow);
    return true;
}

bool act_event_wait(struct hand *me)
{
    struct flow *flow = flow_pick(me, -1, -1);
    struct dense_event *event = event_pick();

    if (!flow || !event || !event->recorded)
        return false;
    event_wait(event, flow);
    return true;
}

void flow_follow(struct hand *me, struct flow *flow, struct flow *after)
{
    struct dense_event *event = flow_may(me, after) ? event_of(after->home) : NULL;

    if (!event || !flow_may(me, flow))
        return;
    event_record(event, after);
    event_wait(event, flow);
}

bool act_event_renew(struct hand *me)
{
    struct dense_event *event = &dense.events[dense_pick(DENSE_EVENTS)];
    int home = dense_pick(DENSE_HOMES);

    (void)me;
    if (dense_chance(60))
        home = 0;
    if (!dense_home_is_usable(home) || (event->handle && !dense_home_is_usable(event->home)))
        return false;
    dense_home_enter(home);
    if (event->handle)
        DO(cuEventDestroy_v2(event->handle));
    *event = (struct dense_event){.home = home};
    DO(cuEventCreate(&event->handle, CU_EVENT_DISABLE_TIMING));
    return true;
}

/* ---- host functions ------------------------------------------------------------------------- */

struct host_note {
    uint32_t *at;
    uint32_t value;
};

static struct host_note host_notes[DENSE_CHECKS];

static void host_write(void *data)
{
    const struct host_note *note = data;

    *(volatile uint32_t *)note->at = note->value;
}

static void host_callback(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    (void)status;
    host_write(data);
}

bool act_host_function(struct hand *me)
{
    struct flow *flow = flow_pick(me, -1, -1);
    int slot = check_slot();
    struct host_note *note;
    CUstream handle;
    bool ptsz;

    if (!flow || slot < 0)
        return false;
    note = &host_notes[slot];
    *note = (struct host_note){&dense.pinned[slot], block_value()};
    dense.pinned[slot] = 0;
    dense_home_enter(flow->home);
    handle = flow_handle(flow, &ptsz);
    if (dense_chance(50)) {
        if (ptsz)
            DO(cuLaunchHostFunc_ptsz(handle, host_write, note));
        else
            DO(cuLaunchHostFunc(handle, host_write, note));
    } else if (ptsz) {
        DO(cuStreamAddCallback_ptsz(handle, host_callback, note, 0));
    } else {
        DO(cuStreamAddCallback(handle, host_callback, note, 0));
    }
    check_expect(slot, note->value, order_submit(flow), "a word of a host function");
    COUNT(dense_host_functions);
    dense_say("host function on %d%s", flow_index(flow), ptsz ? " (ptsz)" : "");
    return true;
}

/* ---- the host waits ------------------------------------------------------------------------- */

static CUresult ask(const struct flow *flow, bool *ret_ptsz)
{
    CUstream handle = flow_handle(flow, ret_ptsz);

    return *ret_ptsz ? cu.cuStreamQuery_ptsz(handle) : cu.cuStreamQuery(handle);
}

static bool wait_stream(struct flow *flow)
{
    struct dense_clock next = order_next(flow), mine = flow->clock;
    bool asks = dense_chance(30), ptsz;
    CUresult result;
    CUstream handle;

    dense_home_enter(flow->home);
    if (order_is_stalled(&next)) {
        if (!order_is_stalled(&mine))
            return false;
        result = ask(flow, &ptsz);
        if (result != CUDA_ERROR_NOT_READY)
            dense_wrong("a query of a stream that waits", result, CUDA_ERROR_NOT_READY);
        return true;
    }
    if (asks) {
        do
            result = ask(flow, &ptsz);
        while (result == CUDA_ERROR_NOT_READY && dense_chance(90));
        if (result == CUDA_ERROR_NOT_READY)
            return true;
        world_must(result, "cuStreamQuery", __FILE__, __LINE__);
    } else {
        handle = flow_handle(flow, &ptsz);
        if (ptsz)
            DO(cuStreamSynchronize_ptsz(handle));
        else
            DO(cuStreamSynchronize(handle));
    }
    order_host_waited(&mine);
    if (!asks)
        limbo_synchronised();
    dense_say("host %s stream %d", asks ? "has asked for" : "waits for", flow_index(flow));
    return true;
}

static bool wait_event(const struct dense_event *event)
{
    CUresult result;

    if (!event->recorded)
        return false;
    if (order_is_stalled(&event->clock)) {
        result = cu.cuEventQuery(event->handle);
        if (result != CUDA_ERROR_NOT_READY)
            dense_wrong("a query of an event that waits", result, CUDA_ERROR_NOT_READY);
        return true;
    }
    if (dense_chance(50)) {
        DO(cuEventSynchronize(event->handle));
        order_host_waited(&event->clock);
        limbo_synchronised();
    } else {
        do
            result = cu.cuEventQuery(event->handle);
        while (result == CUDA_ERROR_NOT_READY && dense_chance(90));
        if (result == CUDA_ERROR_NOT_READY)
            return true;
        world_must(result, "cuEventQuery", __FILE__, __LINE__);
    }
    dense_say("host waits for event %d", (int)(event - dense.events));
    order_host_waited(&event->clock);
    return true;
}

static bool wait_home(int home)
{
    struct dense_clock all = order_of_home(home);

    if (!dense_home_is_usable(home) || dense.homes[home].films || order_is_stalled(&all))
        return false;
    dense_home_enter(home);
    DO(cuCtxSynchronize());
    dense_say("host waits for home %d", home);
    order_host_waited(&all);
    limbo_synchronised();
    return true;
}

bool act_wait(struct hand *me)
{
    int what = dense_pick(100);
    struct dense_event *event;
    struct flow *flow;

    if (!flow_is_safe(me))
        return false;
    if (what < 45 || scene_is_about_streams()) {
        flow = scene_waited() ? scene_waited() : flow_pick(me, -1, -1);
        return flow && flow_may(me, flow) && wait_stream(flow);
    }
    if (what < 80) {
        event = event_pick();
        return event && wait_event(event);
    }
    return wait_home(dense_pick(DENSE_HOMES));
}

/* ---- a stream waits for the host ------------------------------------------------------------ */

bool act_stall(struct hand *me)
{
    struct flow *flow = flow_pick(me, -1, -1);
    uint32_t *flag = &dense.pinned[FLAG];
    CUstream handle;
    bool ptsz;

    if (dense.stall.n || dense.away >= 0 || !flow || flow->kind == LANE_LEGACY)
        return false;
    dense.stalls++;
    dense_home_enter(flow->home);
    handle = flow_handle(flow, &ptsz);
    if (ptsz)
        DO(cuStreamWaitValue32_v2_ptsz(
                handle, (CUdeviceptr)(uintptr_t)flag, dense.stalls, CU_STREAM_WAIT_VALUE_GEQ));
    else
        DO(cuStreamWaitValue32_v2(
                handle, (CUdeviceptr)(uintptr_t)flag, dense.stalls, CU_STREAM_WAIT_VALUE_GEQ));
    dense.stall = order_submit(flow);
    dense.stall_left = 4 + dense_pick(16);
    COUNT(dense_stalls);
    dense_say("stream %d waits for the host", flow_index(flow));
    return true;
}

void flow_unstall(void)
{
    if (!dense.stall.n)
        return;
    dense_say("the host lets it go on");
    *(volatile uint32_t *)&dense.pinned[FLAG] = dense.stalls;
    dense.stall = (struct dense_at){0};
}
