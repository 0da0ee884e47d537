/* SPDX-License-Identifier: MIT */
/* libnvidia-ml: the one simulated device, without links, fabric or processes of others. */
#include "common.h"

#include <string.h>

REFUSED_IS(3) /* NVML_ERROR_NOT_SUPPORTED */

enum {
    SUCCESS = 0,
    NOT_SUPPORTED = 3
};

static int the_device;

NOTHING(nvmlInit_v2)
NOTHING(nvmlInitWithFlags)
NOTHING(nvmlShutdown)

EXPORT const char *nvmlErrorString(int status);
EXPORT const char *nvmlErrorString(int status)
{
    return status ? "not supported: this is a stand-in" : "success";
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *ret_count);
EXPORT int nvmlDeviceGetCount_v2(unsigned *ret_count)
{
    *ret_count = 1;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **ret_device);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **ret_device)
{
    *ret_device = &the_device;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret_device);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret_device)
{
    *ret_device = &the_device;
    return SUCCESS;
}

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
