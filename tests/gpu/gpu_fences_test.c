/* SPDX-License-Identifier: MIT */
/* What a fence covers, and what it costs: cuCtxRecordEvent, an event of the legacy stream, cuCtxSynchronize (R3, R68). */
#include "tests/gpu/gpu_device.h"

enum {
    LATE_MS = 30,
    TIMES = 200,
};

struct late_write {
    CUstream stream;
    CUdeviceptr box;
    unsigned place;
};

/* A word in the host's memory that is written late. */
static void *submit(void *data)
{
    const struct late_write *w = data;

    gpu_here();
    gpu_hold(w->stream, LATE_MS);
    GPU_OK(cuMemsetD32Async(w->box + (CUdeviceptr)w->place * 4, 1, 1, w->stream));
    return NULL;
}

static void submit_in_thread(struct late_write *w)
{
    pthread_t thread;

    REQUIRE(pthread_create(&thread, NULL, submit, w) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

enum kind {
    KIND_NON_BLOCKING,
    KIND_BLOCKING,
    KIND_LEGACY,
    KIND_PER_THREAD,
    KIND_COUNT,
};

static const char *const kind_names[KIND_COUNT] = {
        "non_blocking", "blocking", "legacy", "per_thread"};

static CUstream stream_of(enum kind kind)
{
    CUstream stream = NULL;

    if (kind == KIND_PER_THREAD)
        return CU_STREAM_PER_THREAD;
    if (kind != KIND_LEGACY)
        REQUIRE_EQ(gpu->cuStreamCreate(&stream,
                           kind == KIND_BLOCKING ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING),
                CUDA_SUCCESS);
    return stream;
}

/* One kind at a time, since the legacy stream orders some of them among each other. `record` puts the event. */
static void cover(const char *what, CUresult (*record)(CUevent), const bool must[KIND_COUNT])
{
    CUdeviceptr box;
    volatile uint32_t *host = gpu_mailbox(&box);
    CUevent event;
    char name[64];

    REQUIRE_EQ(gpu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    for (unsigned k = 0; k < KIND_COUNT; k++) {
        struct late_write w = {stream_of((enum kind)k), box, k};
        CUresult asked;
        uint32_t seen;

        submit_in_thread(&w);
        CHECK_EQ(record(event), CUDA_SUCCESS);
        asked = gpu->cuEventQuery(event);
        GPU_OK(cuEventSynchronize(event));
        seen = host[k];
        if (must[k])
            CHECK_EQ(seen, 1);
        (void)snprintf(name, sizeof name, "%s.%s", what, kind_names[k]);
        gpu_fact(name, "%s, pending at first: %s", seen ? "covered" : "not covered",
                asked == CUDA_ERROR_NOT_READY ? "yes" : "no");
        GPU_OK(cuCtxSynchronize());
        CHECK_EQ(host[k], 1);
    }
    GPU_OK(cuEventDestroy_v2(event));
}

static CUresult record_context(CUevent event)
{
    return gpu->cuCtxRecordEvent(gpu->context, event);
}

static CUresult record_legacy(CUevent event)
{
    return gpu->cuEventRecord(event, NULL);
}

TEST(r3_a_context_event_covers_every_kind_of_stream)
{
    static const bool all[KIND_COUNT] = {true, true, true, true};

    gpu_init();
    if (!gpu->cuCtxRecordEvent)
        SKIP("the driver has no cuCtxRecordEvent");
    cover("context_event", record_context, all);
}

TEST(r68_an_event_of_the_legacy_stream_covers_all_but_non_blocking_streams)
{
    static const bool most[KIND_COUNT] = {false, true, true, true};

    gpu_init();
    cover("legacy_event", record_legacy, most);
}

/* Figures, not a gate. */
TEST(r68_a_fence_has_its_cost_written_down)
{
    CUstream stream[4];
    CUevent event;
    double begun, event_us, drain_us;

    gpu_init();
    for (int i = 0; i < 4; i++)
        stream[i] = stream_of(KIND_NON_BLOCKING);
    REQUIRE_EQ(gpu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    if (gpu->cuCtxRecordEvent) {
        begun = gpu_microseconds();
        for (int i = 0; i < TIMES; i++) {
            GPU_OK(cuCtxRecordEvent(gpu->context, event));
            (void)gpu->cuEventQuery(event);
        }
        event_us = (gpu_microseconds() - begun) / TIMES;
        gpu_fact("cost.context_event_and_query_us", "%.2f", event_us);
    }
    begun = gpu_microseconds();
    for (int i = 0; i < TIMES; i++)
        GPU_OK(cuCtxSynchronize());
    drain_us = (gpu_microseconds() - begun) / TIMES;
    gpu_fact("cost.idle_synchronize_us", "%.2f", drain_us);
    for (int i = 0; i < 4; i++)
        GPU_OK(cuStreamDestroy_v2(stream[i]));
    GPU_OK(cuEventDestroy_v2(event));
}
