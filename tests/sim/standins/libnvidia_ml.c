/* SPDX-License-Identifier: MIT */
/*
 * libnvidia-ml: the simulated devices, without links, fabric or processes of others.
 *
 * What is held is what this process holds, as the driver counts it: a simulated device belongs to one process. No question
 * initialises the driver, so a program may fork after it.
 */
#include "tests/sim/base/simcuda.h"

#include "common.h" /* behind it: both use EXPORT */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

REFUSED_IS(3) /* NVML_ERROR_NOT_SUPPORTED */

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    VERSION_MISMATCH = 25
};

/* As nvml.h has them. */
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char name[32];
};
#define MEMORY_V2 (unsigned)(sizeof(struct nvml_memory_v2) | 2U << 24)

/* A device is the address of its element. */
static char devices[SIMCUDA_MAX_DEVICES];

static bool ask(struct simcuda_stats *ret_stats)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    int (*stats)(struct simcuda_stats *) =
            driver ? (int (*)(struct simcuda_stats *))dlsym(driver, "simcuda_stats") : NULL;

    ret_stats->size = sizeof(*ret_stats);
    return stats && stats(ret_stats) == 0;
}

/* The number of a device that exists, or -1. */
static int number_of(const void *device, struct simcuda_stats *ret_stats)
{
    ptrdiff_t number = (const char *)device - devices;

    return ask(ret_stats) && number >= 0 && number < ret_stats->devices ? (int)number : -1;
}

static int handle_of(long number, void **ret_device)
{
    struct simcuda_stats stats;

    if (!ask(&stats))
        return DRIVER_NOT_LOADED;
    if (!ret_device || number < 0 || number >= stats.devices)
        return INVALID_ARGUMENT;
    *ret_device = &devices[number];
    return SUCCESS;
}

static int put(char *to, unsigned length, const char *text)
{
    if (!to)
        return INVALID_ARGUMENT;
    return (size_t)snprintf(to, length, "%s", text) < length ? SUCCESS : INSUFFICIENT_SIZE;
}

/* As nvidia-smi writes the driver's "simulated-dev-NN". */
static void write_uuid(char text[41], int number)
{
    char bytes[24];
    size_t at = 4;

    (void)snprintf(bytes, sizeof(bytes), "simulated-dev-%02d", number % 100);
    memcpy(text, "GPU-", 5);
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(text + at, 41 - at, "%s%02x",
                i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)bytes[i]);
}

NOTHING(nvmlInit)
NOTHING(nvmlInit_v2)
NOTHING(nvmlInitWithFlags)
NOTHING(nvmlShutdown)

EXPORT const char *nvmlErrorString(int status);
EXPORT const char *nvmlErrorString(int status)
{
    return status ? "not supported: this is a stand-in" : "success";
}

BODY(nvmlDeviceGetCount_v2, unsigned *ret_count)
{
    struct simcuda_stats stats;

    if (!ask(&stats))
        return DRIVER_NOT_LOADED;
    *ret_count = (unsigned)stats.devices;
    return SUCCESS;
}

BODY(nvmlDeviceGetHandleByPciBusId_v2, const char *bus, void **ret_device)
{
    const char *number = bus ? strchr(bus, ':') : NULL;
    long at = number ? strtol(number + 1, NULL, 16) : 0;

    return handle_of(at - 1, ret_device) ? NOT_FOUND : SUCCESS;
}

BODY(nvmlDeviceGetHandleByIndex_v2, unsigned index, void **ret_device)
{
    return handle_of((long)index, ret_device);
}

/* The first form of each is still exported. */
BODY(nvmlDeviceGetCount, unsigned *ret_count)
{
    return nvmlDeviceGetCount_v2(ret_count);
}

BODY(nvmlDeviceGetHandleByPciBusId, const char *bus, void **ret_device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(bus, ret_device);
}

BODY(nvmlDeviceGetHandleByIndex, unsigned index, void **ret_device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, ret_device);
}

BODY(nvmlDeviceGetHandleByUUID, const char *uuid, void **ret_device)
{
    char text[41];

    for (int i = 0; i < SIMCUDA_MAX_DEVICES; i++) {
        write_uuid(text, i);
        if (uuid && strcmp(uuid, text) == 0)
            return handle_of(i, ret_device) ? NOT_FOUND : SUCCESS;
    }
    return NOT_FOUND;
}

/* One question about one device: `answer` is what it returns. */
#define OF_DEVICE(name, answer, ...)                     \
    BODY(name, void *device, __VA_ARGS__)                \
    {                                                    \
        struct simcuda_stats stats;                      \
        int number = number_of(device, &stats);          \
                                                         \
        return number < 0 ? INVALID_ARGUMENT : (answer); \
    }

static int name_text(int number, char *to, unsigned length)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "Simulated device %d", number);
    return put(to, length, text);
}

static int uuid_text(int number, char *to, unsigned length)
{
    char text[41];

    write_uuid(text, number);
    return put(to, length, text);
}

static int memory_of(const struct simcuda_stats *stats, int number, struct nvml_memory *ret_memory)
{
    if (!ret_memory)
        return INVALID_ARGUMENT;
    ret_memory->total = stats->total[number];
    ret_memory->used = stats->held[number];
    ret_memory->free = ret_memory->total - ret_memory->used;
    return SUCCESS;
}

static int memory_v2_of(
        const struct simcuda_stats *stats, int number, struct nvml_memory_v2 *ret_memory)
{
    if (!ret_memory)
        return INVALID_ARGUMENT;
    if (ret_memory->version != MEMORY_V2)
        return VERSION_MISMATCH;
    ret_memory->total = stats->total[number];
    ret_memory->reserved = 0;
    ret_memory->used = stats->held[number];
    ret_memory->free = ret_memory->total - ret_memory->used;
    return SUCCESS;
}

static int pci_of(int number, struct nvml_pci *ret_pci)
{
    if (!ret_pci)
        return INVALID_ARGUMENT;
    memset(ret_pci, 0, sizeof(*ret_pci));
    ret_pci->bus = ((unsigned)number + 1) & 0xff;
    (void)snprintf(ret_pci->legacy, sizeof(ret_pci->legacy), "0000:%02X:00.0", ret_pci->bus);
    (void)snprintf(ret_pci->name, sizeof(ret_pci->name), "00000000:%02X:00.0", ret_pci->bus);
    return SUCCESS;
}

OF_DEVICE(nvmlDeviceGetIndex, (*ret_index = (unsigned)number, SUCCESS), unsigned *ret_index)
OF_DEVICE(nvmlDeviceGetName, name_text(number, to, length), char *to, unsigned length)
OF_DEVICE(nvmlDeviceGetUUID, uuid_text(number, to, length), char *to, unsigned length)
OF_DEVICE(nvmlDeviceGetMemoryInfo, memory_of(&stats, number, ret), struct nvml_memory *ret)
OF_DEVICE(nvmlDeviceGetMemoryInfo_v2, memory_v2_of(&stats, number, ret), struct nvml_memory_v2 *ret)
OF_DEVICE(nvmlDeviceGetPciInfo_v3, pci_of(number, ret), struct nvml_pci *ret)

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *ret_version);
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *ret_version)
{
    *ret_version = 13000; /* as the simulated driver */
    return SUCCESS;
}

/* PyTorch 2.5 asks before it says that memory is out, and takes a refusal for a fault of its own. */
#define NO_PROCESSES(name)                                           \
    EXPORT int name(void *device, unsigned *ret_count, void *infos); \
    EXPORT int name(void *device, unsigned *ret_count, void *infos)  \
    {                                                                \
        *ret_count = 0;                                              \
        return SUCCESS;                                              \
    }

NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3)

#define REFUSE(name)          \
    EXPORT int name(void);    \
    EXPORT int name(void)     \
    {                         \
        return NOT_SUPPORTED; \
    }

REFUSE(nvmlDeviceGetNvLinkRemoteDeviceType)
REFUSE(nvmlDeviceGetNvLinkRemotePciInfo_v2)
REFUSE(nvmlDeviceGetGpuFabricInfoV)
