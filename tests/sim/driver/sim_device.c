/* SPDX-License-Identifier: MIT */
#include "tests/sim/driver/sim_device.h"

#include "tests/sim/base/sim_faults.h"
#include "tests/sim/driver/sim_attributes.h"
#include "tests/sim/memory/sim_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* SIMCUDA_PEAKS: where this process's peaks are, for who reads them after its end, however it ends. */
static uint64_t *published;

static void publish_nothing(const char *why)
{
    sim_say("SIMCUDA_PEAKS=%s: %s, peaks are not written", getenv("SIMCUDA_PEAKS"), why);
}

/* Once, when the first bytes of a device are held. */
static void begin_publishing(void)
{
    const char *folder = getenv("SIMCUDA_PEAKS");
    size_t size = SIMCUDA_MAX_DEVICES * sizeof(*published);
    char path[4096];
    void *at = MAP_FAILED;
    int fd;

    if (!folder || !*folder)
        return;
    (void)snprintf(path, sizeof(path), "%s/%d", folder, (int)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        publish_nothing(strerror(errno));
    else
        published = at;
    if (fd >= 0)
        (void)close(fd);
}

static void note_peak(int device)
{
    static bool has_begun;

    if (!has_begun)
        begin_publishing();
    has_begun = true;
    sim_stats.peak[device] = sim_stats.held[device];
    if (published)
        published[device] = sim_stats.peak[device];
}

int sim_device_hold(int device, uint64_t bytes)
{
    uint64_t available = sim_config.memory - sim_stats.held[device];

    if (bytes > available && bytes <= sim_config.memory)
        sim_pages_make_room(device, bytes - available);
    if (bytes > sim_config.memory - sim_stats.held[device]
            || sim_faults_short(sim_stats.held[device] + bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes && sim_stats.peak[device] == 0)
        sim_stats.devices_used++;
    sim_stats.held[device] += bytes;
    if (sim_stats.peak[device] < sim_stats.held[device])
        note_peak(device);
    return 0;
}

void sim_device_drop(int device, uint64_t bytes)
{
    sim_stats.held[device] -= bytes;
}

uint64_t sim_device_total_bytes(void)
{
    return sim_config.shown ? sim_config.shown : sim_config.memory;
}

uint64_t sim_device_free_bytes(int device)
{
    uint64_t total = sim_device_total_bytes();

    return sim_stats.held[device] < total ? total - sim_stats.held[device] : 0;
}

static int valid(CUdevice device)
{
    return device >= 0 && device < sim_config.devices ? 0 : CUDA_ERROR_INVALID_DEVICE;
}

/* One question about one device: `answer` is run if the device exists and `out` is not NULL. */
#define DEVICE_CALL(device, out, answer)                      \
    struct sim_call call;                                     \
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);        \
    if (r == 0)                                               \
        r = (out) ? valid(device) : CUDA_ERROR_INVALID_VALUE; \
    if (r == 0) {                                             \
        answer;                                               \
    }                                                         \
    return sim_leave(&call, r)

CUresult cuDeviceGetCount(int *ret_count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && !ret_count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_count = sim_config.devices;
    return sim_leave(&call, r);
}

CUresult cuDeviceGet(CUdevice *ret_device, int ordinal)
{
    DEVICE_CALL(ordinal, ret_device, *ret_device = ordinal);
}

CUresult cuDeviceGetName(char *ret_name, int size, CUdevice device)
{
    DEVICE_CALL(device, ret_name && size > 0,
            (void)snprintf(ret_name, (size_t)size, "Simulated device %d", device));
}

static void fill_uuid(CUuuid *uuid, int device)
{
    memcpy(uuid->bytes, "simulated-dev-00", sizeof(uuid->bytes));
    uuid->bytes[14] = (char)('0' + device / 10);
    uuid->bytes[15] = (char)('0' + device % 10);
}

CUresult cuDeviceGetUuid(CUuuid *ret_uuid, CUdevice device)
{
    DEVICE_CALL(device, ret_uuid, fill_uuid(ret_uuid, device));
}

CUresult cuDeviceGetUuid_v2(CUuuid *ret_uuid, CUdevice device)
{
    DEVICE_CALL(device, ret_uuid, fill_uuid(ret_uuid, device));
}

CUresult cuDeviceGetLuid(char *ret_luid, unsigned int *ret_mask, CUdevice device)
{
    DEVICE_CALL(device, ret_luid && ret_mask, r = CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuDeviceTotalMem_v2(size_t *ret_bytes, CUdevice device)
{
    DEVICE_CALL(device, ret_bytes, *ret_bytes = (size_t)sim_device_total_bytes());
}

CUresult cuDeviceGetExecAffinitySupport(int *ret_support, CUexecAffinityType type, CUdevice device)
{
    (void)type;
    DEVICE_CALL(device, ret_support, *ret_support = 0);
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(
        size_t *ret_width, CUarray_format format, unsigned channels, CUdevice device)
{
    (void)format;
    (void)channels;
    DEVICE_CALL(device, ret_width, *ret_width = (size_t)1 << 28);
}

CUresult cuDeviceGetProperties(CUdevprop *ret_properties, CUdevice device)
{
    DEVICE_CALL(device, ret_properties,
            *ret_properties = ((CUdevprop){.maxThreadsPerBlock = 1024,
                    .maxThreadsDim = {1024, 1024, 64},
                    .maxGridSize = {2147483647, 65535, 65535},
                    .sharedMemPerBlock = 49152,
                    .totalConstantMemory = 65536,
                    .SIMDWidth = 32,
                    .memPitch = 2147483647,
                    .regsPerBlock = 65536,
                    .clockRate = 1410000,
                    .textureAlign = 512}));
}

/* What other devices wrote is there when it is written. */
CUresult cuFlushGPUDirectRDMAWrites(
        CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0
            && (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX
                    || (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER
                            && scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES)))
        r = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r);
}

CUresult cuDeviceComputeCapability(int *ret_major, int *ret_minor, CUdevice device)
{
    DEVICE_CALL(device, ret_major && ret_minor, *ret_major = sim_config.capability[0];
                *ret_minor = sim_config.capability[1]);
}

CUresult cuDeviceGetPCIBusId(char *ret_id, int size, CUdevice device)
{
    DEVICE_CALL(device, ret_id && size > 0,
            (void)snprintf(ret_id, (size_t)size, "0000:%02x:00.0", (unsigned)device + 1));
}

CUresult cuDeviceGetByPCIBusId(CUdevice *ret_device, const char *id)
{
    struct sim_call call;
    unsigned domain, bus;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_device || !id))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && sscanf(id, "%x:%x", &domain, &bus) != 2) // NOLINT(cert-err34-c)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = domain == 0 && bus >= 1 ? valid((int)bus - 1) : CUDA_ERROR_INVALID_DEVICE;
    if (r == 0)
        *ret_device = (int)bus - 1;
    return sim_leave(&call, r);
}

CUresult cuDeviceGetAttribute(int *ret_value, CUdevice_attribute which, CUdevice device)
{
    DEVICE_CALL(device, ret_value, *ret_value = sim_attribute(which, device));
}

CUresult cuDeviceCanAccessPeer(int *ret_can, CUdevice device, CUdevice peer)
{
    DEVICE_CALL(device, ret_can, r = valid(peer); if (r == 0) *ret_can = device != peer);
}

CUresult cuDeviceGetP2PAttribute(
        int *ret_value, CUdevice_P2PAttribute which, CUdevice device, CUdevice peer)
{
    DEVICE_CALL(device, ret_value, r = valid(peer);
                if (r == 0 && device == peer) r = CUDA_ERROR_INVALID_DEVICE;
                if (r == 0) *ret_value = which == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
                        || which == CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED);
}
