/* SPDX-License-Identifier: MIT */
#define KEDGE_CHECK_NO_MAIN
#include "tests/preload/client.h"

#include <dlfcn.h>
#include <link.h>

static struct client client;
const struct client *const cu = &client;

typedef CUresult (*look_up_fn)(
        const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

struct entry {
    const char *symbol, *name;
    int version;
    unsigned flags;
    void **slot;
};

#ifdef CLIENT_LINKED
static bool load(const char *route)
{
    if (strcmp(route, "linked") != 0)
        return false;
#    define CLIENT_ROW(symbol, name, version, flags) client.symbol = symbol;
    CLIENT_API(CLIENT_ROW)
#    undef CLIENT_ROW
    return true;
}
#else
static const struct entry entries[] = {
#    define CLIENT_ROW(symbol, name, version, flags) \
        {#symbol, name, version, flags, (void **)&client.symbol},
        CLIENT_API(CLIENT_ROW)
#    undef CLIENT_ROW
};

static bool load_by_dlsym(void)
{
    const char *version =
            getenv("SIMCUDA_VERSION"); /* of an old driver, which lacks what is newer */
    bool ok = true;

    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        *entries[i].slot = dlsym(client.libcuda, entries[i].symbol);
        ok &= *entries[i].slot != NULL || (version && atoi(version) < entries[i].version);
    }
    return ok;
}

static bool load_by_look_up(void)
{
    look_up_fn first = (look_up_fn)dlsym(client.libcuda, "cuGetProcAddress_v2");
    look_up_fn look_up = NULL;
    CUdriverProcAddressQueryResult status;
    bool ok = first
            && first("cuGetProcAddress", (void **)&look_up, 12000, 0, &status) == CUDA_SUCCESS;

    for (size_t i = 0; ok && i < sizeof entries / sizeof *entries; i++) {
        *entries[i].slot = NULL;
        ok = look_up(entries[i].name, entries[i].slot, entries[i].version, entries[i].flags,
                     &status)
                        == CUDA_SUCCESS
                && *entries[i].slot && status == CU_GET_PROC_ADDRESS_SUCCESS;
    }
    return ok;
}

static bool load(const char *route)
{
    if (strcmp(route, "dlsym") == 0)
        return load_by_dlsym();
    return strcmp(route, "gpa") == 0 && load_by_look_up();
}
#endif

void *client_sim(const char *symbol)
{
    return client.libcuda ? dlsym(client.libcuda, symbol) : NULL;
}

uint64_t client_calls(const char *call)
{
    __typeof__(&simcuda_calls) calls = (__typeof__(&simcuda_calls))client_sim("simcuda_calls");

    REQUIRE(calls);
    return calls(call);
}

void *client_driver(const char *symbol)
{
    const struct link_map *map = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;

    REQUIRE(client.libcuda && dlinfo(client.libcuda, RTLD_DI_LINKMAP, &map) == 0);
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB)
            strings = (const char *)entry->d_un.d_ptr;
    }
    REQUIRE(symbols && strings && (const char *)symbols < strings); /* one follows the other */
    for (; (const char *)symbols < strings; symbols++)
        if (symbols->st_value && strcmp(strings + symbols->st_name, symbol) == 0)
            return (void *)(map->l_addr + symbols->st_value);
    return NULL;
}

bool client_load(void)
{
    const char *route = getenv("TEST_ROUTE");

    client.libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!client.libcuda || !dlsym(client.libcuda, "simcuda_calls"))
        return false;
    return load(route ? route : "dlsym");
}

void client_init(void)
{
    if (!client_load())
        SKIP("no simulated driver under LD_LIBRARY_PATH");
    REQUIRE_EQ(cu->cuInit(0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&client.context, client.device), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(client.context), CUDA_SUCCESS);
}

bool client_is_pooled(CUdeviceptr ptr, size_t size)
{
    CUdeviceptr base = 0;
    size_t length = 0;

    REQUIRE_EQ(cu->cuMemGetAddressRange_v2(&base, &length, ptr), CUDA_SUCCESS);
    return length > size;
}

/* The simulated device runs kernels by the names of their entries. */
static const char module_text[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
                                  ".visible .entry kedge_sum(.param .u64 a, .param .u64 b, "
                                  ".param .u64 c)\n{\n    ret;\n}\n";

CUfunction client_sum_kernel(void)
{
    CUfunction sum = NULL;
    CUmodule module;

    REQUIRE_EQ(cu->cuModuleLoadData(&module, module_text), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuModuleGetFunction(&sum, module, "kedge_sum"), CUDA_SUCCESS);
    return sum;
}

CUresult client_sum(CUfunction sum, CUdeviceptr out, CUdeviceptr src, size_t bytes, CUstream stream)
{
    uint64_t size = bytes;
    void *params[] = {&out, &src, &size};

    return cu->cuLaunchKernel(sum, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}
