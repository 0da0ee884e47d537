/* SPDX-License-Identifier: MIT */
#include "preload/driver/device_stats.h"

#include "preload/driver/backend.h"
#include "preload/driver/costs.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "tracker/capture/capture.h"

#include "alloc/pool.h"

#include <stdatomic.h>

static _Atomic(uint64_t) devices_told; /* bit per device: recorded in the capture */
static atomic_bool has_graph_memory;
static _Atomic(uint32_t) waited; /* number of waits of the program */

static void for_each_told(void (*act)(int device))
{
    uint64_t devices = atomic_load_explicit(&devices_told, memory_order_relaxed);

    for (int device = 0; device < DEVICES_MAX && devices >> device; device++)
        if (devices >> device & 1)
            act(device);
}

static uint64_t graph_figure(int device, CUgraphMem_attribute which)
{
    cuuint64_t value = 0;

    if (!REAL_HAS(cuDeviceGetGraphMemAttribute)
            || REAL(cuDeviceGetGraphMemAttribute)(device, which, &value) != CUDA_SUCCESS)
        return 0;
    return value;
}

void device_stats_looked(int device, uint64_t free_bytes, uint64_t total_bytes)
{
    struct capture_look_info info = {
            .device = device, .free_bytes = free_bytes, .total_bytes = total_bytes};
    struct pool_stats stats;

    if (session_pool) {
        pool_stats(session_pool, device, &stats);
        info.held_bytes = stats.reserved;
        info.live = stats.live_requested;
        info.used = stats.used;
        info.dead = stats.limbo + stats.husk;
    }
    if (atomic_load_explicit(&has_graph_memory, memory_order_relaxed)) {
        info.graph_reserved = graph_figure(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
        info.graph_high = graph_figure(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);
    }
    session_report(capture_look(&info));
}

void device_stats_look(int device)
{
    uint64_t total = 0;
    uint64_t available = 0;

    if (!session_records || device < 0 || !session_may_fence() || life_sticky())
        return;
    if (backend_driver.memory(NULL, device, &total, &available) == 0)
        device_stats_looked(device, available, total);
}

void device_stats_waited(void)
{
    uint32_t count;

    if (!session_records)
        return;
    count = atomic_fetch_add_explicit(&waited, 1, memory_order_relaxed) + 1;
    if ((count & (count - 1)) != 0)
        return;
    for_each_told(device_stats_look);
    device_stats_moves();
}

void device_stats_moves(void)
{
    struct pool_stats stats;
    struct format_def_moves moves;

    if (!session_records || !session_pool)
        return;
    pool_stats(session_pool, -1, &stats);
    if (stats.granules_moved == 0)
        return;
    moves = (struct format_def_moves){.count = stats.granules_moved,
            .bytes = stats.moved_bytes,
            .ns = stats.granules_moved * costs_move(stats.moved_bytes / stats.granules_moved),
            .ready = stats.paces[POOL_PACE_READY],
            .lazy = stats.paces[POOL_PACE_LAZY],
            .sparing = stats.paces[POOL_PACE_SPARING],
            .create_ns = costs_call(COST_CREATE),
            .map_ns = costs_call(COST_MAP),
            .access_ns = costs_call(COST_ACCESS),
            .unmap_ns = costs_call(COST_UNMAP)};
    session_report(capture_moves(&moves));
}

void device_stats_graph_memory(void)
{
    atomic_store_explicit(&has_graph_memory, true, memory_order_relaxed);
}

void device_stats_reserved(int device)
{
    struct pool_stats stats;

    if (!session_pool)
        return;
    pool_stats(session_pool, device, &stats);
    session_report(capture_reserved(device, 0, stats.reserved, stats.reserved_high, session_seq()));
}

void device_stats_all_reserved(void)
{
    for_each_told(device_stats_reserved);
}

bool device_stats_device(int device, char *ret_name, size_t size)
{
    uint64_t bit = device >= 0 && device < DEVICES_MAX ? UINT64_C(1) << device : 0;
    size_t total = 0;
    int version = 0;

    if (!bit || (atomic_load_explicit(&devices_told, memory_order_relaxed) & bit)
            || (atomic_fetch_or(&devices_told, bit) & bit) || !session_may_fence())
        return false;
    ret_name[0] = 0;
    if (REAL_HAS(cuDeviceGetName))
        (void)REAL(cuDeviceGetName)(ret_name, (int)size, device);
    if (REAL_HAS(cuDeviceTotalMem_v2))
        (void)REAL(cuDeviceTotalMem_v2)(&total, device);
    (void)REAL(cuDriverGetVersion)(&version);
    session_report(capture_device(device, ret_name, total, (uint32_t)version));
    device_stats_look(device);
    return true;
}
