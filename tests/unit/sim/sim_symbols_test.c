/* SPDX-License-Identifier: MIT */
/*
 * What the toolkit's stub of the driver exports against what the simulated device has.
 *
 * A program that uses the driver's memory, streams, events and copies finds every symbol of these
 * groups here, or its name stands below with a reason. Without a toolkit the first test is skipped.
 */
#include "tests/sim/base/sim_abi.h"
#include "tests/unit/sim/sim_test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct entry {
    const char *name;
    int version;
    bool per_thread;
    const char *symbol;
    void (*address)(void);
};

static const struct entry entries[] = {
#define ENTRY(name, version, per_thread, symbol) \
    {#name, version, per_thread, #symbol, (void (*)(void))symbol},
#include "tests/sim/base/entries.def"
#undef ENTRY
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* The groups of the reference that the device is to have, by the beginning of their names. */
static const char *const groups[] = {"cuInit", "cuDriver", "cuGetProc", "cuGetError", "cuCtx",
        "cuDevice", "cuMem", "cuMulticast", "cuPointer", "cuStream", "cuEvent", "cuGraph", "cuIpc",
        "cuArray", "cuMipmapped", "cuModule", "cuLibrary", "cuKernel", "cuFunc", "cuLaunch",
        "cuParam", "cuUserObject", "cuImportExternalMemory", "cuExternalMemory",
        "cuDestroyExternalMemory"};

/* What is left out, by the beginning of its name, and why. */
static const struct {
    const char *name, *why;
} refused[] = {
        {"cuGraphics", "memory of OpenGL, EGL and the like: there is no display"},
        {"cuGreenCtxGet", "parts of the multiprocessors: there are none to choose from"},
        {"cuGreenCtxRecordEvent", "cuCtxRecordEvent does the same"},
        {"cuGreenCtxWaitEvent", "cuCtxWaitEvent does the same"},
        {"cuCtxGetDevResource", "green contexts"},
        {"cuDeviceGetDevResource", "green contexts"},
        {"cuStreamGetGreenCtx", "green contexts"},
        {"cuGraphAddExternalSemaphores", "semaphores of graphics drivers"},
        {"cuGraphExternalSemaphores", "semaphores of graphics drivers"},
        {"cuGraphExecExternalSemaphores", "semaphores of graphics drivers"},
        {"cuGraphKernelNodeGetAttribute", "attributes of launches mean nothing to host kernels"},
        {"cuGraphKernelNodeSetAttribute", "attributes of launches mean nothing to host kernels"},
        {"cuGraphKernelNodeCopyAttributes", "attributes of launches mean nothing to host kernels"},
        {"cuDeviceGetNvSciSyncAttributes", "NvSci is another system"},
        {"cuDeviceGetHostAtomicCapabilities", "a property of a link: there is none"},
        {"cuDeviceGetP2PAtomicCapabilities", "a property of a link: there is none"},
        {"cuDeviceRegisterAsyncNotification", "memory of a virtual machine that runs short"},
        {"cuDeviceUnregisterAsyncNotification", "memory of a virtual machine that runs short"},
        {"cuParamSetTexRef", "texture and surface references: gone from CUDA 12's compiler"},
        {"cuModuleGetSurfRef", "texture and surface references: gone from CUDA 12's compiler"},
        {"cuModuleGetTexRef", "texture and surface references: gone from CUDA 12's compiler"},
};

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static bool is_in_a_group(const char *name)
{
    for (size_t i = 0; i < COUNT(groups); i++)
        if (begins(name, groups[i]))
            return true;
    return false;
}

static bool is_refused(const char *name)
{
    for (size_t i = 0; i < COUNT(refused); i++)
        if (begins(name, refused[i].name))
            return true;
    return false;
}

static bool has_entry(const char *symbol)
{
    for (size_t i = 0; i < COUNT(entries); i++)
        if (strcmp(entries[i].symbol, symbol) == 0)
            return true;
    return false;
}

TEST(r60_r62_every_symbol_of_the_toolkit_is_here_or_refused_with_a_reason)
{
    static const char *const homes[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib"};
    const char *home = getenv("CUDA_HOME");
    char line[512], name[128];
    int seen = 0;
    FILE *nm;

    (void)snprintf(line, sizeof(line), "%s/lib64/stubs/libcuda.so", home ? home : "/nowhere");
    for (size_t i = 0; i < COUNT(homes) && access(line, R_OK) != 0; i++)
        (void)snprintf(line, sizeof(line), "%s/stubs/libcuda.so", homes[i]);
    if (access(line, R_OK) != 0)
        SKIP("no toolkit with a stub of libcuda.so");
    char command[600];
    (void)snprintf(command, sizeof(command), "nm -D --defined-only '%s'", line);
    nm = popen(command, "re");
    REQUIRE(nm != NULL);
    while (fgets(line, sizeof(line), nm)) {
        if (sscanf(line, "%*s T %127s", name) != 1 || !is_in_a_group(name))
            continue;
        seen++;
        if (!has_entry(name) && !is_refused(name))
            printf("neither here nor refused: %s\n", name);
        CHECK(has_entry(name) || is_refused(name));
        if (has_entry(name) && is_refused(name))
            printf("here, and refused as well: %s\n", name);
        CHECK(!has_entry(name) || !is_refused(name));
    }
    (void)pclose(nm);
    CHECK_GE(seen, 400);
}

/* What a program finds: by its symbol, and by its name at the version that brought it. */
TEST(r60_every_entry_is_found_by_symbol_and_by_name_and_version)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    REQUIRE(library != NULL);
    sim_env("SIMCUDA_VERSION", "13050"); /* a driver that has them all */
    for (size_t i = 0; i < COUNT(entries); i++) {
        const struct entry *entry = &entries[i];
        CUdriverProcAddressQueryResult status;
        cuuint64_t flags = entry->per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
        void *expected, *address = NULL;

        memcpy(&expected, &entry->address, sizeof(expected));
        if (dlsym(library, entry->symbol) != expected)
            printf("not found by dlsym: %s\n", entry->symbol);
        CHECK_EQ(dlsym(library, entry->symbol), expected);
        CU(cuGetProcAddress_v2(entry->name, &address, entry->version, flags, &status));
        if (address != expected)
            printf("another one at %d: %s\n", entry->version, entry->symbol);
        CHECK_EQ(address, expected);
        CHECK_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
    }
}
