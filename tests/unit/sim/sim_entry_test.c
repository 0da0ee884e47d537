/* SPDX-License-Identifier: MIT */
/* The look-up of entry points, errors, the log, the hook, injected faults, start and fork. */
#include "tests/unit/sim/sim_test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *look(const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    void *address = NULL;

    CU(cuGetProcAddress_v2(name, &address, version, flags, &status));
    CHECK_EQ(status == CU_GET_PROC_ADDRESS_SUCCESS, address != NULL);
    return address;
}

static void *symbol(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    REQUIRE(library != NULL);
    return dlsym(library, name);
}

TEST(a_name_a_version_and_a_flag_give_a_symbol)
{
    /* No cuInit: programs look names up before they start. */
    CHECK_EQ(look("cuMemAlloc", 3020, 0), symbol("cuMemAlloc_v2"));
    CHECK_EQ(look("cuMemAlloc", 13000, 0), symbol("cuMemAlloc_v2"));
    CHECK_EQ(look("cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            symbol("cuMemAlloc_v2"));
    CHECK_EQ(look("cuMemAllocAsync", 11020, 0), symbol("cuMemAllocAsync"));
    CHECK_EQ(look("cuMemAllocAsync", 11020, CU_GET_PROC_ADDRESS_LEGACY_STREAM),
            symbol("cuMemAllocAsync"));
    CHECK_EQ(look("cuMemAllocAsync", 11020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            symbol("cuMemAllocAsync_ptsz"));
    CHECK_EQ(look("cuMemcpyHtoD", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            symbol("cuMemcpyHtoD_v2_ptds"));
    CHECK_EQ(look("cuCtxSynchronize", 12000, 0), symbol("cuCtxSynchronize"));
    CHECK_EQ(look("cuCtxSynchronize", 13000, 0), symbol("cuCtxSynchronize_v2"));
    CHECK_EQ(look("cuStreamGetCaptureInfo", 10010, 0), symbol("cuStreamGetCaptureInfo"));
    CHECK_EQ(look("cuStreamGetCaptureInfo", 12000, 0), symbol("cuStreamGetCaptureInfo_v2"));
    CHECK_EQ(look("cuStreamGetCaptureInfo", 12030, 0), symbol("cuStreamGetCaptureInfo_v3"));
}

TEST(an_older_driver_has_not_what_came_later)
{
    CUdriverProcAddressQueryResult status;
    void *address = &status;
    int version = 0;

    sim_env("SIMCUDA_VERSION", "12030");
    CU(cuDriverGetVersion(&version));
    CHECK_EQ(version, 12030);
    CU(cuGetProcAddress_v2("cuFuncGetParamInfo", &address, 12040, 0, &status));
    CHECK_EQ(address, NULL);
    CHECK_NE(status, CU_GET_PROC_ADDRESS_SUCCESS);
    CHECK_EQ(look("cuCtxSynchronize", 12030, 0), symbol("cuCtxSynchronize"));
    CHECK_EQ(look("cuCtxSynchronize", 13000, 0), symbol("cuCtxSynchronize"));
}

TEST(the_look_up_finds_itself_at_the_right_arity)
{
    CHECK_EQ(look("cuGetProcAddress", 11030, 0), symbol("cuGetProcAddress"));
    CHECK_EQ(look("cuGetProcAddress", 12000, 0), symbol("cuGetProcAddress_v2"));
}

TEST(what_is_not_there_says_why)
{
    CUdriverProcAddressQueryResult status;
    void *address = &status;

    CU(cuGetProcAddress_v2("cuMemAllocAsync", &address, 11010, 0, &status));
    CHECK_EQ(address, NULL);
    CHECK_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    CU(cuGetProcAddress_v2("cuNoSuchThing", &address, 13000, 0, &status));
    CHECK_EQ(address, NULL);
    CHECK_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CU(cuGetProcAddress_v2("", &address, 0, 0, &status));
    CHECK_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CU(cuGetProcAddress_v2("cuMemAlloc_v2", &address, 13000, 0, &status)); /* a symbol, no name */
    CHECK_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CHECK_EQ(cuGetProcAddress("cuNoSuchThing", &address, 13000, 0), CUDA_ERROR_NOT_FOUND);
    CHECK_EQ(cuGetProcAddress("", &address, 0, 0), CUDA_ERROR_NOT_FOUND);
    CHECK_EQ(cuGetProcAddress_v2("cuInit", &address, 2000, 64, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGetProcAddress_v2("cuInit", NULL, 2000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(private_tables_are_refused)
{
    CUuuid id = {{1, 2, 3}};
    const void *table = &id;

    CHECK_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
    CHECK_EQ(table, NULL);
}

TEST(errors_have_names)
{
    const char *text;

    CU(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, &text));
    CHECK_STR_EQ(text, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION");
    CU(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK_STR_EQ(text, "out of memory");
    CHECK_EQ(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(text, NULL);
}

TEST(nothing_works_before_the_start_or_without_a_context)
{
    CUdeviceptr ptr;
    int count;

    CHECK_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_EQ(cuMemAlloc_v2(&ptr, 100), CUDA_ERROR_NOT_INITIALIZED);
    CU(cuInit(0));
    CU(cuDeviceGetCount(&count));
    CHECK_EQ(count, 1);
    CHECK_EQ(cuMemAlloc_v2(&ptr, 100), CUDA_ERROR_INVALID_CONTEXT);
}

static void calls_after_fork(void)
{
    CUdeviceptr ptr;

    CHECK_EQ(cuMemAlloc_v2(&ptr, 100), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_EQ(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
}

TEST(a_forked_child_has_no_device)
{
    sim_start();
    CHECK_EQ(sim_in_child(calls_after_fork), 0);
    (void)sim_alloc(100);
}

TEST(r60_the_nth_call_fails_as_asked)
{
    CUdeviceptr ptr;
    CUstream s;

    sim_env("SIMCUDA_FAIL",
            "cuMemAlloc:2:2,cuStreamCreate:2+:CUDA_ERROR_UNKNOWN,cuMemAllocAsync_ptsz:1:1");
    sim_start();
    (void)sim_alloc(100);
    CHECK_EQ(cuMemAlloc_v2(&ptr, 100), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(sim_figures().held[0], 2 * MIB);
    (void)sim_alloc(100);
    s = sim_stream(0);
    CHECK_EQ(cuStreamCreate(&s, 0), CUDA_ERROR_UNKNOWN);
    CHECK_EQ(cuStreamCreate(&s, 0), CUDA_ERROR_UNKNOWN);
    CU(cuMemAllocAsync(&ptr, 100, NULL));
    CHECK_EQ(cuMemAllocAsync_ptsz(&ptr, 100, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(simcuda_calls("cuMemAlloc"), 3);
    CHECK_EQ(simcuda_calls("cuMemAllocAsync"), 2);
    CHECK_EQ(simcuda_calls("cuMemAllocAsync_ptsz"), 1);
}

static const char *env_name, *env_value; /* what the next child is given */
static int message_pipe[2];

static void start_wrong(void)
{
    (void)dup2(message_pipe[1], STDERR_FILENO);
    sim_env(env_name, env_value);
    (void)cuInit(0);
}

TEST(a_setting_that_makes_no_sense_stops_the_device_with_one_line)
{
    static const char *const wrong[][2] = {
            {"SIMCUDA_MEMORY", "lots"}, {"SIMCUDA_MEMORY", "11GB"}, {"SIMCUDA_MEMORY", "11Gi"},
            {"SIMCUDA_MEMORY", " 11G"}, {"SIMCUDA_MEMORY", "99999999999G"},
            {"SIMCUDA_MEMORY", "1K"}, {"SIMCUDA_SCHED", "later"}, {"SIMCUDA_DEVICES", "99"},
            {"SIMCUDA_VERSION", "9000"}, {"SIMCUDA_SEED", "x"}, {"SIMCUDA_LAG", "-1"},
            {"SIMCUDA_PATIENCE", "1s"}, {"SIMCUDA_ORACLE", "maybe"}, {"SIMCUDA_KERNELS", "none"},
            {"SIMCUDA_FAULT", "soft"}, {"SIMCUDA_FAIL", "cuMemFree:1:2,cuMemAlloc:0:2"},
            {"SIMCUDA_FAIL", "x"}, {"SIMCUDA_FAIL", "cuMemFree:1:success"},
            {"SIMCUDA_FAIL", "cuMemFree:1:0"}, {"SIMCUDA_FAIL", "oom:lots"},
            {"SIMCUDA_FAIL", "oom:1M:0"}, {"SIMCUDA_PARK", "cuMemAlloc"},
            {"SIMCUDA_PARK", "cuMemAlloc:0:step"}, {"SIMCUDA_PARK", "cuMemAlloc:1:"},
            {"SIMCUDA_BANDWIDTH", "fast"}, {"SIMCUDA_COMPUTE", "0"},
            {"SIMCUDA_COSTS", "/no/such/file"}, {"SIMCUDA_LOG", "/no/such/folder/log"},
            {"SIMCUDA_STACKS", "/no/such/folder/log"},
            {"SIMCUDA_MEMROY", "11G"}, /* no such variable */
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char message[600] = "";

        env_name = wrong[i][0];
        env_value = wrong[i][1];
        REQUIRE(pipe(message_pipe) == 0);
        CHECK_EQ(sim_in_child(start_wrong), 2);
        (void)close(message_pipe[1]);
        CHECK(read(message_pipe[0], message, sizeof(message) - 1) > 0);
        (void)close(message_pipe[0]);
        if (!strstr(message, env_name) || strchr(message, '\n') != strrchr(message, '\n'))
            CHECK_STR_EQ(message, env_name);
    }
}

static void have_memory(void)
{
    size_t bytes;

    sim_env(env_name, env_value);
    sim_start();
    CU(cuDeviceTotalMem_v2(&bytes, 0));
    CHECK_EQ(bytes, (size_t)11 << 30);
}

TEST(sizes_have_units_as_everywhere)
{
    static const char *const sizes[] = {
            "11G", "11g", "11GiB", "11264M", "11264MiB", "11534336K", "11534336KiB", "11811160064"};

    env_name = "SIMCUDA_MEMORY";
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        env_value = sizes[i];
        CHECK_EQ(sim_in_child(have_memory), 0);
    }
}

static void use_all_memory(void)
{
    CUdeviceptr ptr;
    size_t free_bytes, total;

    sim_env("SIMCUDA_MEMORY", "64M");
    sim_env("SIMCUDA_DEVICES", "2");
    sim_start();
    CU(cuMemAlloc_v2(&ptr, 60 * MIB));
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    CHECK_EQ(free_bytes, 4 * MIB);
    CHECK_EQ(total, 64 * MIB);
    CHECK_EQ(cuMemAlloc_v2(&ptr, 6 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cuMemAllocAsync(&ptr, 6 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CU(cuMemAlloc_v2(&ptr, 4 * MIB));
    CHECK_EQ(cuMemAlloc_v2(&ptr, 1), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(sim_figures().peak[0], 64 * MIB);
    CHECK_EQ(sim_figures().held[1], 0);
    CHECK_EQ(sim_figures().devices, 2);
}

TEST(the_device_has_as_much_memory_as_it_was_given)
{
    use_all_memory();
}

TEST(r89_calls_cost_what_the_table_says)
{
    CUmemAllocationProp prop = {
            .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    char path[] = "/tmp/simcuda_costs_XXXXXX";
    int fd = mkstemp(path);
    static const char table[] = "op,avg_us,p50_us\nmem_create,193.32,195\ncuMemRelease,1.5,1\n";

    REQUIRE(fd >= 0);
    REQUIRE_EQ(write(fd, table, sizeof(table) - 1), sizeof(table) - 1);
    close(fd);
    sim_env("SIMCUDA_COSTS", path);
    sim_start();
    unlink(path);
    CHECK_EQ(sim_figures().cost_ns, 0);
    CU(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    CHECK_EQ(sim_figures().cost_ns, 193320);
    CU(cuMemRelease(handle));
    CHECK_EQ(sim_figures().cost_ns, 194820);
}

static char log_path[] = "/tmp/simcuda_log_XXXXXX";

static void logged(void)
{
    sim_start();
    CU(cuMemFree_v2(sim_alloc(4 * MIB)));
    exit(0);
}

TEST(r60_the_log_has_every_call_and_the_figures)
{
    char text[8192] = {0};
    int fd = mkstemp(log_path);

    REQUIRE(fd >= 0);
    sim_env("SIMCUDA_LOG", log_path);
    CHECK_EQ(sim_in_child(logged), 0);
    REQUIRE(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    unlink(log_path);
    CHECK(strstr(text, "cuMemAlloc_v2 size=4194304 ptr=0x") != NULL);
    CHECK(strstr(text, "cuMemFree_v2 ptr=0x") != NULL);
    CHECK(strstr(text, "# device 0 held 0 peak 4194304 of 85899345920\n") != NULL);
    CHECK(strstr(text, "# calls cuMemAlloc 1\n") != NULL);
}

static char hooked[64];
static size_t free_seen_by_hook;

/* Calls back into the driver: a lock held around the hook would hang here. */
static void hook(const char *call)
{
    struct simcuda_stats stats = {.size = sizeof(stats)};

    (void)snprintf(hooked, sizeof(hooked), "%s", call);
    CHECK_EQ(simcuda_stats(&stats), 0);
    free_seen_by_hook = stats.total[0] - stats.held[0];
}

TEST(the_hook_sees_every_call_before_it_happens)
{
    sim_start();
    simcuda_set_call_hook(hook);
    (void)sim_alloc(4 * MIB);
    CHECK_STR_EQ(hooked, "cuMemAlloc_v2");
    CHECK_EQ(free_seen_by_hook, (size_t)80 << 30);
    simcuda_set_call_hook(NULL);
    (void)sim_stream(0);
    CHECK_STR_EQ(hooked, "cuMemAlloc_v2");
}

TEST(figures_of_another_size_are_refused)
{
    struct simcuda_stats stats = {.size = 8};

    CHECK_EQ(simcuda_stats(&stats), -1);
}

static const char *const entry_symbols[] = {
#define ENTRY(name, version, per_thread, symbol) #symbol,
#include "tests/sim/base/entries.def"
#undef ENTRY
};

/* What the library exports, one name a line, against what the look-up can find. */
TEST(every_symbol_has_an_entry)
{
    char line[256], name[128];
    int exported = 0;
    Dl_info info;

    REQUIRE(dladdr(symbol("cuInit"), &info) != 0);
    (void)snprintf(line, sizeof(line), "nm -D --defined-only '%s'", info.dli_fname);
    FILE *nm = popen(line, "re");
    REQUIRE(nm != NULL);
    while (fgets(line, sizeof(line), nm)) {
        bool found = false;
        if (sscanf(line, "%*s T %127s", name) != 1 || strncmp(name, "cu", 2) != 0)
            continue;
        exported++;
        for (size_t i = 0; i < sizeof(entry_symbols) / sizeof(entry_symbols[0]); i++)
            found |= strcmp(entry_symbols[i], name) == 0;
        if (!found)
            printf("no entry for %s\n", name);
        CHECK(found);
    }
    (void)pclose(nm);
    CHECK_GE(exported, 300);
}
