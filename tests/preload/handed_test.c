/* SPDX-License-Identifier: MIT */
/* The look-ups: whose pointer is handed out, what stays as the driver said it, and what is not ours to touch (R42). */
#include "tests/preload/client.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

typedef CUresult (*four_fn)(const char *, void **, int, cuuint64_t);
typedef CUresult (*five_fn)(
        const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static const char *owner_of(const void *fn)
{
    static char name[256];
    const char *slash;
    Dl_info info;

    REQUIRE(fn);
    REQUIRE(dladdr(fn, &info) && info.dli_fname);
    slash = strrchr(info.dli_fname, '/');
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : info.dli_fname);
    return name;
}

static void *driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!handle || !dlsym(handle, "simcuda_calls"))
        SKIP("no simulated driver under LD_LIBRARY_PATH");
    return handle;
}

static five_fn look_up(void *handle)
{
    five_fn fn = (five_fn)dlsym(handle, "cuGetProcAddress_v2");

    REQUIRE(fn);
    return fn;
}

static void *asked(five_fn fn, const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    void *found = NULL;

    CHECK_EQ(fn(name, &found, version, flags, &status), CUDA_SUCCESS);
    return found;
}

TEST(r42_hooked_names_are_ours_and_others_the_drivers)
{
    void *handle = driver();

    CHECK_STR_EQ(owner_of(dlsym(handle, "cuMemAlloc_v2")), "libkedge.so");
    CHECK_STR_EQ(owner_of(dlsym(handle, "cuMemFreeAsync_ptsz")), "libkedge.so");
    CHECK_STR_EQ(owner_of(dlsym(handle, "cuGetProcAddress")), "libkedge.so");
    CHECK_STR_EQ(owner_of(dlsym(handle, "cuDriverGetVersion")), "libcuda.so.1");
    CHECK_STR_EQ(owner_of(dlsym(handle, "cuMemHostGetFlags")), "libcuda.so.1");
    CHECK_STR_EQ(owner_of(dlsym(handle, "cuGetExportTable")), "libcuda.so.1");
    CHECK_STR_EQ(owner_of(dlsym(handle, "cuEventQuery")), "libcuda.so.1");
    CHECK_STR_EQ(owner_of(dlsym(handle, "cuGraphAddEventWaitNode")), "libcuda.so.1");
}

/* E-3: the five-argument entry for 12000 and later, the four-argument one for 11030. */
TEST(r42_the_look_up_of_itself_has_the_right_arity)
{
    void *handle = driver();
    five_fn five = look_up(handle);
    void *old = asked(five, "cuGetProcAddress", 11030, 0);
    void *now = asked(five, "cuGetProcAddress", 12000, 0);
    void *later = asked(five, "cuGetProcAddress", 13000, 0);
    void *found = NULL;

    CHECK_EQ(old, dlsym(handle, "cuGetProcAddress"));
    CHECK_EQ(now, dlsym(handle, "cuGetProcAddress_v2"));
    CHECK_EQ(later, now);
    REQUIRE_EQ(((four_fn)old)("cuMemAlloc", &found, 3020, 0), CUDA_SUCCESS);
    CHECK_EQ(found, dlsym(handle, "cuMemAlloc_v2"));
    CHECK_STR_EQ(owner_of(asked((five_fn)now, "cuMemFree", 12000, 0)), "libkedge.so");
}

TEST(r42_version_and_flag_choose_the_symbol)
{
    void *handle = driver();
    five_fn fn = look_up(handle);

    CHECK_EQ(asked(fn, "cuMemAlloc", 12000, 0), dlsym(handle, "cuMemAlloc_v2"));
    CHECK_EQ(asked(fn, "cuMemAllocAsync", 12000, 0), dlsym(handle, "cuMemAllocAsync"));
    CHECK_EQ(asked(fn, "cuMemAllocAsync", 12000, 1), dlsym(handle, "cuMemAllocAsync"));
    CHECK_EQ(asked(fn, "cuMemAllocAsync", 12000, 2), dlsym(handle, "cuMemAllocAsync_ptsz"));
    CHECK_EQ(asked(fn, "cuMemcpy", 12000, 2), dlsym(handle, "cuMemcpy_ptds"));
    CHECK_EQ(asked(fn, "cuMemFree", 12000, 2),
            dlsym(handle, "cuMemFree_v2")); /* has one form only */
    CHECK_EQ(asked(fn, "cuCtxSynchronize", 12000, 0), dlsym(handle, "cuCtxSynchronize"));
    CHECK_EQ(asked(fn, "cuCtxSynchronize", 13000, 0), dlsym(handle, "cuCtxSynchronize_v2"));
    CHECK_EQ(asked(fn, "cuStreamBeginCapture", 10000, 0), dlsym(handle, "cuStreamBeginCapture"));
    CHECK_EQ(asked(fn, "cuStreamBeginCapture", 12000, 2),
            dlsym(handle, "cuStreamBeginCapture_v2_ptsz"));
}

/* Forms with 32-bit addresses, launches of CUDA 3: no hook stands in for them, whoever asks, and they work as they always did. */
TEST(r42_forms_that_no_program_of_cuda_11_8_uses_are_the_drivers)
{
    static const struct {
        const char *symbol;
        int version;
    } old[] = {{"cuMemAlloc", 2000}, {"cuMemAllocPitch", 2000}, {"cuMemFree", 3019},
            {"cuMemAllocHost", 2000}, {"cuArrayCreate", 2000}, {"cuArray3DCreate", 3019},
            {"cuMemGetInfo", 2000}, {"cuMemGetAddressRange", 3019}, {"cuLaunch", 12000},
            {"cuLaunchGrid", 12000}, {"cuLaunchGridAsync", 12000}};
    void *handle = driver();
    five_fn fn = look_up(handle);
    CUdeviceptr ptr;
    unsigned small;

    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        void *symbol = dlsym(handle, old[i].symbol);

        CHECK_STR_EQ(owner_of(symbol), "libcuda.so.1");
        CHECK_EQ(asked(fn, old[i].symbol, old[i].version, 0), symbol);
    }
    CHECK_EQ(asked(fn, "cuMemAlloc", 3020, 0), dlsym(handle, "cuMemAlloc_v2"));
    CHECK_STR_EQ(
            owner_of(dlsym(handle, "cuCtxDestroy")), "libkedge.so"); /* the newer one's arguments */
    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 64), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(((CUresult(*)(unsigned *, unsigned))asked(fn, "cuMemAlloc", 2000, 0))(&small, 64),
            CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(((CUresult(*)(CUfunction, int, int))asked(fn, "cuLaunchGrid", 12000, 0))(NULL, 1, 1),
            CUDA_ERROR_INVALID_HANDLE);
}

/* Results, status and outputs of look-ups that find nothing are the driver's, argument by argument. */
TEST(r42_empty_and_unknown_names_are_answered_by_the_driver)
{
    static const struct {
        const char *name;
        int version;
    } odd[] = {{"", 0}, {"cuNoSuchThing", 12000}, {"cuMemAlloc_v2", 12000},
            {"cuMemAllocAsync", 10000}, {"cuda", 12000}, {"MemAlloc", 12000}};
    void *handle = driver();
    five_fn ours = look_up(handle);
    /* a second copy of the driver, in a namespace of its own: not watched, and handed out as it is */
    void *second = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    five_fn real = second ? (five_fn)dlsym(second, "cuGetProcAddress_v2") : NULL;

    REQUIRE(real);
    CHECK_STR_EQ(owner_of((void *)real), "libcuda.so.1");
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        CUdriverProcAddressQueryResult a = 77, b = 77;
        void *pa = handle, *pb = handle;

        CHECK_EQ(ours(odd[i].name, &pa, odd[i].version, 0, &a),
                real(odd[i].name, &pb, odd[i].version, 0, &b));
        CHECK_EQ(a, b);
        CHECK_EQ(pa, pb);
    }
    CHECK_EQ(ours(NULL, NULL, 12000, 0, NULL), real(NULL, NULL, 12000, 0, NULL));
}

TEST(a_status_may_be_null)
{
    void *handle = driver();
    void *found = NULL;

    CHECK_EQ(look_up(handle)("cuMemAlloc", &found, 3020, 0, NULL), CUDA_SUCCESS);
    CHECK_EQ(found, dlsym(handle, "cuMemAlloc_v2"));
}

TEST(a_name_of_ours_in_another_library_is_that_librarys)
{
    void *handle = dlopen("libc.so.6", RTLD_NOW);

    (void)driver();
    REQUIRE(handle);
    CHECK(!dlsym(handle, "cuMemAlloc_v2"));
    CHECK(dlerror());
}

/* The classic sequence: dlerror(); p = dlsym(); if (dlerror()) ... */
TEST(a_look_up_that_succeeds_leaves_no_error)
{
    void *handle = driver();

    (void)dlerror();
    CHECK(dlsym(handle, "cuMemAlloc_v2"));
    CHECK(!dlerror());
    CHECK(dlsym(handle, "cuMemFree_v2"));
    CHECK(!dlerror());
    CHECK(!dlsym(handle, "cuNoSuchThing"));
    CHECK(dlerror());
}

/* Every row of hooks.def that this driver has: its symbol, its name at its first and last version, with its flag. */
TEST(r42_each_row_is_what_its_version_and_flag_give)
{
    static const struct {
        const char *symbol, *name;
        int from, to;
        unsigned flag;
    } rows[] = {
#define HOOK(symbol, name, from, to, per_thread, ...) {#symbol, name, from, to, per_thread},
#include "preload/base/hooks.def"
    };
    int seen = 0, flavours = 0;
    void *handle;
    five_fn fn;

    REQUIRE(setenv("SIMCUDA_VERSION", "13050", 1) == 0); /* has all forms */
    handle = driver();
    fn = look_up(handle);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *ours = dlsym(handle, rows[i].symbol);
        CUdriverProcAddressQueryResult status;
        int last = rows[i].to ? rows[i].to - 1 : HOOKS_NEWEST;
        void *first_found = NULL, *last_found = NULL;

        if (!ours
                || fn(rows[i].name, &first_found, rows[i].from, rows[i].flag, &status)
                        != CUDA_SUCCESS
                || !first_found)
            continue; /* not in this driver, or only by its symbol */
        seen++;
        flavours += rows[i].flag != 0;
        CHECK_STR_EQ(owner_of(ours), "libkedge.so");
        CHECK_EQ(first_found, ours);
        CHECK_EQ(fn(rows[i].name, &last_found, last, rows[i].flag, &status), CUDA_SUCCESS);
        CHECK_EQ(last_found, ours);
        if (first_found != ours || last_found != ours)
            printf("%s\n", rows[i].symbol);
    }
    printf("%d rows, %d of them per thread\n", seen, flavours);
    CHECK_GT(seen, 100);
    CHECK_GT(flavours, 30);
}

typedef cudaError_t (*entry_fn)(
        const char *, void **, unsigned long long, enum cudaDriverEntryPointQueryResult *);
typedef cudaError_t (*entry_by_version_fn)(const char *, void **, unsigned int, unsigned long long,
        enum cudaDriverEntryPointQueryResult *);

/* PyTorch's way to the driver: the runtime asks the look-up that it got from us. */
TEST(r42_entry_points_of_the_runtime_are_ours)
{
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
    enum cudaDriverEntryPointQueryResult status;
    entry_by_version_fn by_version, by_version_ptsz;
    entry_fn plain, ptsz;
    void *handle = driver();
    void *found = NULL;

    if (!runtime)
        SKIP("no simulated runtime");
    plain = (entry_fn)dlsym(runtime, "cudaGetDriverEntryPoint");
    ptsz = (entry_fn)dlsym(runtime, "cudaGetDriverEntryPoint_ptsz");
    by_version = (entry_by_version_fn)dlsym(runtime, "cudaGetDriverEntryPointByVersion");
    by_version_ptsz = (entry_by_version_fn)dlsym(runtime, "cudaGetDriverEntryPointByVersion_ptsz");
    REQUIRE(plain && ptsz && by_version && by_version_ptsz);
    REQUIRE_EQ(plain("cuMemAlloc", &found, 0, &status), cudaSuccess);
    CHECK_EQ(found, dlsym(handle, "cuMemAlloc_v2"));
    REQUIRE_EQ(plain("cuMemFreeAsync", &found, 0, &status), cudaSuccess);
    CHECK_EQ(found, dlsym(handle, "cuMemFreeAsync"));
    REQUIRE_EQ(ptsz("cuMemFreeAsync", &found, 0, &status), cudaSuccess);
    CHECK_EQ(found, dlsym(handle, "cuMemFreeAsync_ptsz"));
    REQUIRE_EQ(by_version("cuCtxSynchronize", &found, 12000, 0, &status), cudaSuccess);
    CHECK_EQ(found, dlsym(handle, "cuCtxSynchronize"));
    REQUIRE_EQ(by_version("cuCtxSynchronize", &found, 13000, 0, &status), cudaSuccess);
    CHECK_EQ(found, dlsym(handle, "cuCtxSynchronize_v2"));
    REQUIRE_EQ(by_version_ptsz("cuMemAllocAsync", &found, 11020, 0, &status), cudaSuccess);
    CHECK_EQ(found, dlsym(handle, "cuMemAllocAsync_ptsz"));
    found = handle;
    CHECK_EQ(plain("cuNoSuchThing", &found, 0, &status), cudaSuccess);
    CHECK_EQ(status, cudaDriverEntryPointSymbolNotFound);
    CHECK(!found);
}

/* R43: what is handed out with KEDGE_MODE=off, by each look-up. */
TEST(r43_off_hands_out_the_drivers_own)
{
    void *handle, *found = NULL;
    five_fn fn;

    REQUIRE(setenv("KEDGE_MODE", "off", 1) == 0);
    handle = driver();
    CHECK_STR_EQ(owner_of(dlsym(handle, "cuMemAlloc_v2")), "libcuda.so.1");
    fn = look_up(handle);
    CHECK_STR_EQ(owner_of((void *)fn), "libcuda.so.1");
    found = asked(fn, "cuGetProcAddress", 12000, 0);
    CHECK_STR_EQ(owner_of(found), "libcuda.so.1");
    CHECK_STR_EQ(owner_of(asked((five_fn)found, "cuMemAllocAsync", 12000, 2)), "libcuda.so.1");
}

/* R41: a copy of the driver from another folder is a second driver: one line, and all of it its own. */
TEST(r41_a_second_driver_is_left_alone)
{
    void *first = driver();
    void *second = dlopen(SECOND_DRIVER_PATH, RTLD_NOW | RTLD_LOCAL);
    void *fn;
    Dl_info info;

    REQUIRE(second && second != first);
    CHECK_STR_EQ(owner_of(dlsym(first, "cuMemAlloc_v2")), "libkedge.so");
    fn = dlsym(second, "cuMemAlloc_v2");
    REQUIRE(fn && dladdr(fn, &info));
    CHECK_STR_EQ(info.dli_fname, SECOND_DRIVER_PATH);
    CHECK(fn != asked(look_up(first), "cuMemAlloc", 3020, 0));
    fn = asked(look_up(second), "cuMemAlloc", 3020, 0);
    REQUIRE(dladdr(fn, &info));
    CHECK_STR_EQ(info.dli_fname, SECOND_DRIVER_PATH);
}

/* While there is no driver, nobody must believe that there is one because we export its names. */
TEST(without_a_driver_its_names_are_not_there)
{
    void *self = dlopen(NULL, RTLD_NOW);

    (void)dlerror();
    CHECK(!dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    CHECK(dlerror());
    CHECK(!dlsym(self, "cuMemAlloc_v2"));
    CHECK(!dlsym(RTLD_DEFAULT, "cudaMalloc"));
    (void)driver(); /* opened locally: not in the global scope */
    CHECK(!dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    CHECK(!dlsym(self, "cuMemAlloc_v2"));
    REQUIRE(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL));
    CHECK_STR_EQ(owner_of(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")), "libkedge.so");
    CHECK_STR_EQ(owner_of(dlsym(self, "cuMemAlloc_v2")), "libkedge.so");
}

/* E-8 */
TEST(r42_other_libraries_find_what_comes_next_for_them)
{
    void *first = dlopen(NEXT_FIRST_PATH, RTLD_NOW | RTLD_LOCAL);
    const char *(*name)(void);
    void *(*by_default)(const char *);

    REQUIRE(first);
    name = (const char *(*)(void))dlsym(first, "next_name");
    by_default = (void *(*)(const char *))dlsym(first, "next_default");
    REQUIRE(name && by_default);
    CHECK_STR_EQ(name(), "the next one");
    CHECK(by_default("next_only_here")); /* in its own local scope, which is not ours */
    CHECK(!dlsym(RTLD_DEFAULT, "next_only_here"));
}

/* R41: opened late, by another name of the same file, closed and opened again. */
TEST(r41_a_driver_may_come_late_and_more_than_once)
{
    void *first, *again;
    void *fn;

    CHECK(!dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    first = driver();
    fn = dlsym(first, "cuMemAlloc_v2");
    REQUIRE(dlclose(first) == 0);
    again = driver();
    CHECK_EQ(dlsym(again, "cuMemAlloc_v2"), fn);
    CHECK_STR_EQ(owner_of(fn), "libkedge.so");
}
