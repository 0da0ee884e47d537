/* SPDX-License-Identifier: MIT */
/* covers: driver.c */
/* Content of blocks on its way between device and host, and the memory of the host for it, over a driver that writes down what it is asked. */
#include "preload/base/gate.h"
#include "preload/base/msg.h"
#include "preload/driver/backend.h"
#include "preload/driver/contexts.h"
#include "preload/driver/life.h"
#include "preload/driver/mempools.h"
#include "preload/driver/resolve.h"
#include "tests/check.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGES = 16 << 12,
    LOG = 256,
    PRIMARY = 2, /* handle of the context that lives longest */
    OTHER = 1,
};

void *resolve_real[SLOT_COUNT];
static uintptr_t current;
static uint64_t primary, other; /* generations */
static char calls[LOG];         /* a letter for each */
static CUresult says[128];
static int registered; /* ranges */
static uintptr_t registered_in;

bool resolve_has(enum resolve_slot slot)
{
    return resolve_real[slot] != NULL;
}

static int warnings;

void msg_warn(const char *format, ...)
{
    (void)format;
    warnings++;
}

void life_driver_said(int result)
{
    (void)result;
}

size_t mempool_access(uint64_t id, int device, CUmemAccessDesc *ret_descs, size_t max)
{
    (void)id;
    (void)device;
    (void)ret_descs;
    (void)max;
    return 0;
}

void mempool_set_access(uint64_t id, const CUmemAccessDesc *descs, size_t count)
{
    (void)id;
    (void)descs;
    (void)count;
}

bool mempool_set_peer(const struct context *from, const struct context *to, bool enabled)
{
    (void)from;
    (void)to;
    return enabled;
}

void mempool_context_gone(uint64_t generation)
{
    (void)generation;
}

static CUresult called(char letter)
{
    size_t n = strlen(calls);

    REQUIRE(n + 1 < sizeof calls);
    calls[n] = letter;
    calls[n + 1] = '\0';
    return says[(unsigned char)letter];
}

/* NOLINTBEGIN(performance-no-int-to-ptr): handles are numbers here */
static CUresult get_current(CUcontext *ret_context)
{
    *ret_context = (CUcontext)current;
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    current = (uintptr_t)context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *ret_context)
{
    *ret_context = (CUcontext)current;
    current = OTHER;
    return CUDA_SUCCESS;
}

static CUresult make_stream(CUstream *ret_stream, unsigned flags)
{
    static uintptr_t last = 0x1000;

    CHECK_EQ(flags, CU_STREAM_NON_BLOCKING);
    *ret_stream = (CUstream)(last += 0x10);
    return CUDA_SUCCESS;
}

static CUresult make_event(CUevent *ret_event, unsigned flags)
{
    (void)flags;
    *ret_event = (CUevent)(uintptr_t)0x2000;
    return CUDA_SUCCESS;
}
/* NOLINTEND(performance-no-int-to-ptr) */

static CUresult get_device(CUdevice *ret_device)
{
    *ret_device = 0;
    return CUDA_SUCCESS;
}

static CUresult context_id(CUcontext context, unsigned long long *ret_id)
{
    *ret_id = (uintptr_t)context;
    return CUDA_SUCCESS;
}

static CUresult add_host(void *host, size_t size, unsigned flags)
{
    (void)host;
    CHECK_EQ(size, PAGES);
    CHECK_EQ(flags, CU_MEMHOSTREGISTER_PORTABLE);
    registered_in = current;
    registered += says['R'] == CUDA_SUCCESS;
    return called('R');
}

static CUresult remove_host(void *host)
{
    (void)host;
    registered -= says['U'] == CUDA_SUCCESS;
    return called('U');
}

static CUresult copy_out(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
    (void)dst;
    (void)src;
    (void)size;
    (void)stream;
    return called('o');
}

static CUresult copy_in(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
    (void)dst;
    (void)src;
    (void)size;
    (void)stream;
    return called('i');
}

static CUresult wait_event(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return called('w');
}

static CUresult record(CUevent event, CUstream stream)
{
    (void)event;
    (void)stream;
    return called('r');
}

static CUresult record_context(CUcontext context, CUevent event)
{
    (void)context;
    (void)event;
    return called('c');
}

static CUresult query(CUevent event)
{
    (void)event;
    return called('q');
}

static CUresult synchronise(CUstream stream)
{
    (void)stream;
    return called('s');
}

#define SAYS(symbol, function) resolve_real[SLOT_##symbol] = (void *)(uintptr_t)(function)

static void start(void)
{
    struct context context;

    SAYS(cuCtxGetCurrent, get_current);
    SAYS(cuCtxPushCurrent_v2, push);
    SAYS(cuCtxPopCurrent_v2, pop);
    SAYS(cuCtxGetDevice, get_device);
    SAYS(cuCtxGetId, context_id);
    SAYS(cuStreamCreate, make_stream);
    SAYS(cuEventCreate, make_event);
    SAYS(cuMemHostRegister_v2, add_host);
    SAYS(cuMemHostUnregister, remove_host);
    SAYS(cuMemcpyDtoHAsync_v2, copy_out);
    SAYS(cuMemcpyHtoDAsync_v2, copy_in);
    SAYS(cuStreamWaitEvent, wait_event);
    SAYS(cuEventRecord, record);
    SAYS(cuCtxRecordEvent, record_context);
    SAYS(cuEventQuery, query);
    SAYS(cuStreamSynchronize, synchronise);
    current = PRIMARY;
    REQUIRE_EQ(context_here(&context), 0);
    context_note_primary(0, context.handle);
    primary = context.generation;
    current = OTHER;
    REQUIRE_EQ(context_here(&context), 0);
    other = context.generation;
    memset(says, 0, sizeof says);
    registered = 0;
    calls[0] = '\0';
}

static void *take(bool pinned)
{
    void *host = NULL;

    REQUIRE_EQ(backend_driver.host_take(NULL, PAGES, pinned, &host), 0);
    memset(host, 7, PAGES);
    return host;
}

static int move(
        enum driver_way way, void *host, const uint64_t *after, uint32_t count, uint64_t *ret_fence)
{
    return backend_driver.content(
            NULL, HEAP_PRIVATE, other, 0, way, 0x100000, host, 4096, after, count, ret_fence);
}

/* Is there memory at this address? */
static bool is_mapped(void *host)
{
    unsigned char core[PAGES >> 12];

    return mincore(host, PAGES, core) == 0;
}

TEST(pinned_memory_is_registered_where_it_lasts)
{
    void *host;

    start();
    host = take(true);
    CHECK_EQ(registered, 1);
    CHECK_EQ(registered_in, PRIMARY);
    CHECK_EQ(current, OTHER);
    backend_driver.host_give(NULL, host, PAGES, true);
    CHECK_EQ(registered, 0);
    CHECK(!is_mapped(host));
}

TEST(other_memory_is_not_registered)
{
    void *host;

    start();
    host = take(false);
    CHECK_EQ(strlen(calls), 0);
    backend_driver.host_give(NULL, host, PAGES, false);
    CHECK_EQ(strlen(calls), 0);
    CHECK(!is_mapped(host));
}

TEST(what_cannot_be_registered_is_not_had)
{
    void *host = NULL;

    start();
    says['R'] = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK_EQ(backend_driver.host_take(NULL, PAGES, true, &host), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(host == NULL);
    says['R'] = CUDA_ERROR_NOT_SUPPORTED; /* there is no such thing here: pageable memory does */
    CHECK_EQ(backend_driver.host_take(NULL, PAGES, true, &host), 0);
    backend_driver.host_give(NULL, host, PAGES, true);
    CHECK_STR_EQ(calls, "RR");
}

TEST(what_the_driver_keeps_stays_mapped)
{
    void *host;

    start();
    host = take(true);
    says['U'] = CUDA_ERROR_UNKNOWN;
    backend_driver.host_give(NULL, host, PAGES, true);
    CHECK(is_mapped(host));
}

TEST(content_goes_behind_its_fences_and_is_not_waited_for)
{
    uint64_t after[2], fence;
    void *host;

    start();
    host = take(true);
    CHECK_EQ(backend_driver.fence_record(NULL, 0, &after[0]), 0);
    CHECK_EQ(backend_driver.fence_record(NULL, 0, &after[1]), 0);
    calls[0] = '\0';
    CHECK_EQ(move(DRIVER_OUT, host, after, 1, &fence), 0);
    CHECK_STR_EQ(calls, "wwor"); /* an event of each context */
    calls[0] = '\0';
    says['q'] = CUDA_ERROR_NOT_READY;
    CHECK_EQ(backend_driver.fence_query(NULL, fence), -EAGAIN);
    says['q'] = CUDA_SUCCESS;
    CHECK_EQ(backend_driver.fence_query(NULL, fence), 0);
    backend_driver.fence_put(NULL, fence);
    calls[0] = '\0';
    CHECK_EQ(move(DRIVER_IN, (char *)host + 8192, after, 2, &fence), 0);
    CHECK_STR_EQ(calls, "wwwwir");
    backend_driver.fence_put(NULL, fence);
    calls[0] = '\0';
    CHECK_EQ(move(DRIVER_OUT, host, NULL, 0, &fence), 0);
    CHECK_STR_EQ(calls, "or");
}

TEST(content_is_refused_while_a_capture_runs)
{
    struct gate_capture capture;
    uint64_t fence;
    void *host;

    start();
    host = take(true);
    calls[0] = '\0';
    gate_begin_enter();
    gate_begin_leave(true, 0x40, other, 0x80);
    CHECK_EQ(move(DRIVER_OUT, host, NULL, 0, &fence), -EBUSY);
    CHECK_STR_EQ(calls, "");
    CHECK(gate_ended(0x40, true, &capture));
    says['o'] = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    CHECK_EQ(move(DRIVER_OUT, host, NULL, 0, &fence), -EBUSY);
}

TEST(a_copy_that_cannot_be_recorded_is_waited_for)
{
    uint64_t fence;
    void *host;

    start();
    host = take(true);
    calls[0] = '\0';
    says['r'] = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK_EQ(move(DRIVER_OUT, host, NULL, 0, &fence), 0);
    CHECK_STR_EQ(calls, "ors");
    CHECK_EQ(backend_driver.fence_query(NULL, fence), 0);
    says['s'] = CUDA_ERROR_LAUNCH_FAILED;
    CHECK_EQ(move(DRIVER_OUT, host, NULL, 0, &fence), CUDA_ERROR_LAUNCH_FAILED);
}

TEST(pageable_memory_is_waited_for)
{
    uint64_t fence;
    void *host;

    start();
    host = take(false);
    CHECK_EQ(move(DRIVER_IN, host, NULL, 0, &fence), 0);
    CHECK_STR_EQ(calls, "is");
    CHECK_EQ(backend_driver.fence_query(NULL, fence), 0);
}

TEST(content_outlives_the_context_that_pinned_its_memory)
{
    uint64_t fence;
    char *host;

    start();
    host = take(true);
    CHECK_EQ(context_forget(context_primary(0)), primary);
    backend_context_gone(primary);
    calls[0] = '\0';
    CHECK_EQ(host[100], 7);
    CHECK_EQ(move(DRIVER_IN, host, NULL, 0, &fence), 0);
    CHECK_STR_EQ(calls, "is"); /* it is pageable from here on */
    backend_driver.host_give(NULL, host, PAGES, true);
    CHECK(!is_mapped(host));
}

/* ---- managed memory ---- */

static CUresult answer_concurrent(int *ret_value, CUdevice_attribute which, CUdevice device)
{
    CHECK_EQ(which, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
    *ret_value = device == 0;
    return called('a');
}

static CUresult make_managed(CUdeviceptr *ret_ptr, size_t size, unsigned flags)
{
    CHECK_EQ(size, PAGES);
    CHECK_EQ(flags, CU_MEM_ATTACH_GLOBAL);
    CHECK_EQ(current, OTHER);
    *ret_ptr = 0x300000;
    return called('m');
}

static CUresult prefetch_old(CUdeviceptr ptr, size_t size, CUdevice device, CUstream stream)
{
    (void)stream;
    CHECK_EQ(ptr, 0x100000);
    CHECK_EQ(size, 4096);
    return called(device == CU_DEVICE_CPU ? 'h' : (char)('0' + device));
}

static CUresult prefetch_new(
        CUdeviceptr ptr, size_t size, CUmemLocation place, unsigned flags, CUstream stream)
{
    (void)stream;
    CHECK_EQ(ptr, 0x100000);
    CHECK_EQ(size, 4096);
    CHECK_EQ(flags, 0);
    return called(place.type == CU_MEM_LOCATION_TYPE_HOST ? 'H' : (char)('A' + place.id));
}

static void start_managed(bool is_new)
{
    start();
    SAYS(cuDeviceGetAttribute, answer_concurrent);
    SAYS(cuMemAllocManaged, make_managed);
    SAYS(cuMemPrefetchAsync, prefetch_old);
    SAYS(cuMemPrefetchAsync_v2, is_new ? prefetch_new : NULL);
}

static int get_managed(int device)
{
    uint64_t context = 0;
    devptr_t ptr = 0;
    int r = backend_driver.managed_alloc(NULL, HEAP_PRIVATE, other, device, PAGES, &ptr, &context);

    CHECK_EQ(ptr, r == 0 ? 0x300000 : 0);
    CHECK_EQ(context, r == 0 ? other : 0);
    return r;
}

TEST(managed_memory_is_had_where_the_device_uses_it_beside_the_host)
{
    start_managed(true);
    CHECK_EQ(get_managed(0), 0);
    CHECK_STR_EQ(calls, "am");
    CHECK_EQ(warnings, 0);
    CHECK_EQ(get_managed(1), DRIVER_NOT_SUPPORTED);
    CHECK_EQ(warnings, 1);
    says['m'] = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK_EQ(get_managed(0), CUDA_ERROR_OUT_OF_MEMORY);
    SAYS(cuMemPrefetchAsync, NULL);
    SAYS(cuMemPrefetchAsync_v2, NULL);
    CHECK_EQ(get_managed(0), DRIVER_NOT_SUPPORTED);
}

TEST(pages_are_prefetched_behind_fences_by_the_form_that_the_driver_has)
{
    uint64_t after, fence;

    for (int is_new = 0; is_new < 2; is_new++) {
        start_managed(is_new != 0);
        CHECK_EQ(backend_driver.fence_record(NULL, 0, &after), 0);
        calls[0] = '\0';
        CHECK_EQ(move(DRIVER_OUT, NULL, &after, 1, &fence), 0);
        CHECK_STR_EQ(calls, is_new ? "wwHr" : "wwhr");
        calls[0] = '\0';
        CHECK_EQ(move(DRIVER_IN, NULL, &after, 1, &fence), 0);
        CHECK_STR_EQ(calls, is_new ? "wwAr" : "ww0r");
    }
}

TEST(a_clock_does_not_go_back)
{
    uint64_t before = backend_driver.clock_ns(NULL);

    (void)usleep(1000);
    CHECK_GE(backend_driver.clock_ns(NULL), before + 1000000);
}

/* ---- memory and contexts of a device ---- */

static CUresult answer_one(int *ret_value, CUdevice_attribute which, CUdevice device)
{
    (void)which;
    (void)device;
    *ret_value = 1;
    return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *ret_handle, size_t size,
        const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)size;
    (void)flags;
    *ret_handle = 7;
    return called(prop->allocFlags.gpuDirectRDMACapable ? 'R' : 'n');
}

TEST(r80_memory_that_cannot_be_made_to_be_registered_is_made_without)
{
    uint64_t handle = 0;

    start();
    SAYS(cuDeviceGetAttribute, answer_one);
    SAYS(cuMemCreate, create);
    says['R'] = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK_EQ(backend_driver.handle_create(NULL, 0, 4096, &handle), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_STR_EQ(calls, "R");
    says['R'] = CUDA_ERROR_NOT_SUPPORTED;
    says['n'] = CUDA_ERROR_NOT_SUPPORTED;
    CHECK_EQ(backend_driver.handle_create(NULL, 0, 4096, &handle), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_STR_EQ(calls, "RRn"); /* that was not why */
    says['n'] = CUDA_SUCCESS;
    CHECK_EQ(backend_driver.handle_create(NULL, 0, 4096, &handle), 0);
    CHECK_EQ(handle, 7);
    CHECK_EQ(backend_driver.handle_create(NULL, 0, 4096, &handle), 0);
    CHECK_STR_EQ(calls, "RRnRnn"); /* once is enough */
}

static uintptr_t broken; /* no thread can make this context current */

static CUresult push_unbroken(CUcontext context)
{
    if ((uintptr_t)context == broken)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    current = (uintptr_t)context;
    return CUDA_SUCCESS;
}

static CUresult get_info(size_t *ret_free, size_t *ret_total)
{
    *ret_free = current;
    *ret_total = 100;
    return CUDA_SUCCESS;
}

TEST(any_context_of_a_device_that_is_alive_will_do)
{
    uint64_t total = 0;
    uint64_t available = 0;

    start();
    SAYS(cuCtxPushCurrent_v2, push_unbroken);
    SAYS(cuMemGetInfo_v2, get_info);
    for (broken = OTHER; broken <= PRIMARY; broken++) {
        current = 0;
        CHECK_EQ(backend_driver.memory(NULL, 0, &total, &available), 0);
        CHECK_EQ(available, OTHER + PRIMARY - broken);
    }
}

/* ---- the wait of a free that has no stream -------------------------------------------------- */

static CUresult exchange_mode(CUstreamCaptureMode *io_mode)
{
    (void)io_mode;
    return CUDA_SUCCESS;
}

static CUresult mem_alloc(CUdeviceptr *ret_ptr, size_t size)
{
    CHECK_EQ(size, 1);
    *ret_ptr = 0x300000;
    return called('A');
}

static CUresult mem_free(CUdeviceptr ptr)
{
    CHECK_EQ(ptr, 0x300000);
    return called('F');
}

static CUresult host_alloc(void **ret_host, size_t size, unsigned flags)
{
    CHECK_EQ(size, 1);
    CHECK_EQ(flags, 0);
    *ret_host = says;
    return called('H');
}

static CUresult host_free(void *host)
{
    CHECK(host == says);
    return called('P');
}

/* Its free is the wait: what the driver says there is the answer, whoever's memory it was. */
TEST(r61_the_wait_beside_a_capture_is_a_free_of_the_drivers_own_memory)
{
    static const struct {
        CUresult alloc, free, host_alloc, host_free;
        int result;
        const char *calls;
    } table[] = {
            {0, 0, 0, 0, 0, "AF"},
            {0, CUDA_ERROR_ILLEGAL_ADDRESS, 0, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "AF"},
            {0, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 0, 0, -EBUSY, "AF"},
            {CUDA_ERROR_OUT_OF_MEMORY, 0, 0, 0, 0, "AHP"},
            {CUDA_ERROR_OUT_OF_MEMORY, 0, 0, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS,
                    "AHP"},
            {CUDA_ERROR_OUT_OF_MEMORY, 0, CUDA_ERROR_OUT_OF_MEMORY, 0, CUDA_ERROR_OUT_OF_MEMORY,
                    "AH"},
    };

    start();
    SAYS(cuThreadExchangeStreamCaptureMode, exchange_mode);
    SAYS(cuMemAlloc_v2, mem_alloc);
    SAYS(cuMemFree_v2, mem_free);
    SAYS(cuMemHostAlloc, host_alloc);
    SAYS(cuMemFreeHost, host_free);
    gate_begin_enter();
    gate_begin_leave(true, 0x40, other, 0x80);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        says['A'] = table[i].alloc;
        says['F'] = table[i].free;
        says['H'] = table[i].host_alloc;
        says['P'] = table[i].host_free;
        calls[0] = '\0';
        CHECK_EQ(backend_synchronise(other), table[i].result);
        CHECK_STR_EQ(calls, table[i].calls);
    }
}
