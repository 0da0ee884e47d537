/* SPDX-License-Identifier: MIT */
/* Reserved addresses, physical handles, mappings, access. */
#include "tests/unit/sim/sim_test.h"

#define GRANULE (2 * MIB)

static const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAccessDesc both = {
        {CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
static const CUmemAccessDesc none = {
        {CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_NONE};

static CUdeviceptr reserve(size_t size)
{
    CUdeviceptr ptr;

    CU(cuMemAddressReserve(&ptr, size, 0, 0, 0));
    return ptr;
}

static CUmemGenericAllocationHandle create(size_t size)
{
    CUmemGenericAllocationHandle handle;

    CU(cuMemCreate(&handle, size, &prop, 0));
    return handle;
}

/* As those of a driver, which are addresses of its own; but not while a mapping holds the memory. */
TEST(numbers_of_handles_come_again)
{
    CUmemGenericAllocationHandle first, second;
    CUdeviceptr ptr;

    sim_start();
    first = create(GRANULE);
    CU(cuMemAddressReserve(&ptr, 2 * MIB, 0, 0, 0));
    CU(cuMemMap(ptr, 2 * MIB, 0, first, 0));
    CU(cuMemRelease(first));
    second = create(GRANULE);
    CHECK_NE(second, first);
    CU(cuMemUnmap(ptr, 2 * MIB));
    CU(cuMemRelease(second));
    CHECK_EQ(create(GRANULE), second); /* the last one first */
    CHECK_EQ(create(GRANULE), first);
    CHECK_GT(create(GRANULE), second);
}

TEST(numbers_of_handles_are_new_if_that_is_wanted)
{
    CUmemGenericAllocationHandle first;

    sim_env("SIMCUDA_HANDLES", "new");
    sim_start();
    first = create(GRANULE);
    CU(cuMemRelease(first));
    CHECK_GT(create(GRANULE), first);
}

/* Two views of one handle, then a third when they are gone. */
static void check_content_stays(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr va;

    va = reserve(4 * GRANULE);
    handle = create(GRANULE);
    CHECK_EQ(sim_figures().held[0], GRANULE);
    CU(cuMemMap(va, GRANULE, 0, handle, 0));
    CU(cuMemMap(va + 2 * GRANULE, GRANULE, 0, handle, 0)); /* two views of one handle */
    CU(cuMemSetAccess(va, GRANULE, &both, 1));
    CU(cuMemSetAccess(va + 2 * GRANULE, GRANULE, &both, 1));
    CU(cuMemsetD8_v2(va + 100, 7, 1));
    CU(cuCtxSynchronize());
    CHECK_EQ(*(volatile char *)(va + 2 * GRANULE + 100), 7);
    CU(cuMemUnmap(va, GRANULE));
    CU(cuMemUnmap(va + 2 * GRANULE, GRANULE));
    CU(cuMemMap(va + GRANULE, GRANULE, 0, handle, 0));
    CU(cuMemSetAccess(va + GRANULE, GRANULE, &both, 1));
    CHECK_EQ(*(volatile char *)(va + GRANULE + 100), 7);
    CU(cuMemRelease(handle));
    CHECK_EQ(sim_figures().held[0], GRANULE); /* the mapping still holds it */
    CU(cuMemUnmap(va + GRANULE, GRANULE));
    CHECK_EQ(sim_figures().held[0], 0);
    CU(cuMemAddressFree(va, 4 * GRANULE));
    CHECK_EQ(sim_figures().maps, 3);
    CHECK_EQ(sim_figures().aliases, 1);
    CHECK_EQ(sim_figures().remaps, 0);
}

TEST(content_stays_with_the_handle)
{
    sim_start();
    check_content_stays();
}

static int open_memfds(void)
{
    int found = 0;

    for (int fd = 3; fd < 1024; fd++) {
        char link[32], target[64] = "";

        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        found += readlink(link, target, sizeof(target) - 1) > 0
                && strncmp(target, "/memfd:simcuda", strlen("/memfd:simcuda")) == 0;
    }
    return found;
}

/* valgrind does not know how memory without a file is mapped a second time. */
TEST(physical_memory_is_in_one_file_if_that_is_wanted)
{
    CUmemGenericAllocationHandle first, second;
    CUdeviceptr va;

    sim_env("SIMCUDA_PHYSICAL", "file");
    sim_start();
    check_content_stays();
    va = reserve(2 * GRANULE);
    first = create(GRANULE);
    second = create(GRANULE);
    CU(cuMemMap(va, GRANULE, 0, second, 0));
    CU(cuMemMap(va + GRANULE, GRANULE, 0, first, 0));
    CU(cuMemSetAccess(va, 2 * GRANULE, &both, 1));
    CHECK_EQ(*(volatile char *)(va + GRANULE + 100), 0); /* what was there went with its handle */
    *(volatile char *)va = 9;
    CHECK_EQ(*(volatile char *)(va + GRANULE), 0);
    CHECK_EQ(open_memfds(), 1);
}

TEST(physical_memory_needs_no_descriptor)
{
    CUdeviceptr va;

    sim_start();
    va = reserve(GRANULE);
    CU(cuMemMap(va, GRANULE, 0, create(GRANULE), 0));
    CHECK_EQ(open_memfds(), 0);
}

TEST(a_device_without_aliases_maps_each_handle_once)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr va;

    sim_env("SIMCUDA_ALIAS", "off");
    sim_start();
    va = reserve(2 * GRANULE);
    handle = create(GRANULE);
    CU(cuMemMap(va, GRANULE, 0, handle, 0));
    CHECK_EQ(cuMemMap(va + GRANULE, GRANULE, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    CU(cuMemUnmap(va, GRANULE));
    CU(cuMemMap(va + GRANULE, GRANULE, 0, handle, 0));
    CHECK_EQ(sim_figures().aliases, 0);
}

TEST(a_second_mapping_at_a_place_is_a_remap_and_finds_fresh_bytes)
{
    CUmemGenericAllocationHandle first, second;
    CUdeviceptr va;

    sim_start();
    va = reserve(GRANULE);
    first = create(GRANULE);
    CU(cuMemMap(va, GRANULE, 0, first, 0));
    CU(cuMemSetAccess(va, GRANULE, &both, 1));
    *(volatile char *)va = 9;
    CU(cuMemUnmap(va, GRANULE));
    CU(cuMemRelease(first));
    second = create(GRANULE);
    CU(cuMemMap(va, GRANULE, 0, second, 0));
    CU(cuMemSetAccess(va, GRANULE, &both, 1));
    CHECK_EQ(*(volatile char *)va, 0);
    CHECK_EQ(sim_figures().remaps, 1);
}

enum place {
    RESERVED,
    MAPPED,
    ACCESS_NONE,
    UNMAPPED,
    READ_ONLY
};

static enum place place;

static void touch(void)
{
    CUmemAccessDesc read = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READ};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr va;

    sim_start();
    va = reserve(GRANULE);
    handle = create(GRANULE);
    if (place != RESERVED)
        CU(cuMemMap(va, GRANULE, 0, handle, 0));
    if (place >= ACCESS_NONE) {
        CU(cuMemSetAccess(va, GRANULE, &both, 1));
        *(volatile char *)va = 1;
    }
    if (place == ACCESS_NONE)
        CU(cuMemSetAccess(va, GRANULE, &none, 1));
    if (place == UNMAPPED)
        CU(cuMemUnmap(va, GRANULE));
    if (place == READ_ONLY) {
        CU(cuMemSetAccess(va, GRANULE, &read, 1));
        CHECK_EQ(*(volatile char *)va, 1);
    }
    *(volatile char *)va = 1;
}

TEST(what_is_not_mapped_with_access_faults)
{
    for (place = RESERVED; place <= READ_ONLY; place++)
        CHECK_EQ(sim_in_child(touch), -SIGSEGV);
}

TEST(a_kernel_that_touches_an_unmapped_range_breaks_the_context)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr va, other;
    unsigned out;

    CUcontext ctx = sim_start();
    other = sim_alloc(GRANULE);
    va = reserve(GRANULE);
    handle = create(GRANULE);
    CU(cuMemMap(va, GRANULE, 0, handle, 0));
    CU(cuMemSetAccess(va, GRANULE, &both, 1));
    CU(sim_fill(va, GRANULE, 1, NULL));
    CU(cuCtxSynchronize());
    CU(cuMemUnmap(va, GRANULE));
    CU(sim_fill(va, GRANULE, 1, NULL));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cuMemcpyDtoH_v2(&out, other, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cuMemAlloc_v2(&other, 100), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(sim_figures().faults, 1);
    CU(cuDevicePrimaryCtxReset_v2(0)); /* a new life has no error */
    CU(cuCtxSetCurrent(ctx));
    CU(cuMemAlloc_v2(&other, 100));
}

/* No argument names what is read: the address stands in device memory. */
TEST(a_kernel_that_reads_by_an_address_in_memory_faults_where_nothing_is_mapped)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr va, sum, table;
    CUstream s;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    sum = sim_alloc(8);
    table = sim_alloc(8);
    va = reserve(GRANULE);
    handle = create(GRANULE);
    CU(cuMemMap(va, GRANULE, 0, handle, 0));
    CU(cuMemSetAccess(va, GRANULE, &both, 1));
    CU(cuMemcpyHtoD_v2(table, &va, sizeof(va)));
    CU(cuCtxSynchronize());
    CU(sim_fill(va, GRANULE, 3, s));
    CU(sim_launch3("kedge_sum_at", sum, table, GRANULE, s));
    CU(cuStreamSynchronize(s));
    CHECK_NE(*(volatile uint64_t *)(uintptr_t)sum, 0);
    /* The storage goes after the launch, and before the device is there. */
    CU(sim_launch3("kedge_sum_at", sum, table, GRANULE, s));
    CU(cuMemUnmap(va, GRANULE));
    CHECK_EQ(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(sim_figures().faults, 1);
}

static void die_where_it_happens(void)
{
    CUdeviceptr va;

    sim_env("SIMCUDA_FAULT", "segv");
    sim_start();
    va = reserve(GRANULE);
    CU(cuMemsetD8_v2(va, 1, 16));
    CU(cuCtxSynchronize());
}

TEST(a_fault_can_be_made_a_signal)
{
    CHECK_EQ(sim_in_child(die_where_it_happens), -SIGSEGV);
}

TEST(partial_unmap_double_map_and_mapped_free_are_refused)
{
    CUmemGenericAllocationHandle a, b, again;
    CUdeviceptr va;
    unsigned long long access;
    CUmemAllocationProp out;
    size_t granularity;

    sim_start();
    CU(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK_EQ(granularity, GRANULE);
    CHECK_EQ(cuMemCreate(&a, 4096, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    va = reserve(4 * GRANULE);
    a = create(2 * GRANULE);
    b = create(GRANULE);
    CHECK_EQ(cuMemMap(va, 2 * GRANULE, 0, b, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemMap(va, GRANULE, GRANULE, a, 0), CUDA_ERROR_INVALID_VALUE); /* offset */
    CU(cuMemMap(va, 2 * GRANULE, 0, a, 0));
    CHECK_EQ(cuMemMap(va + GRANULE, GRANULE, 0, b, 0), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemMap(va + 2 * GRANULE, GRANULE, 0, b, 0));
    CHECK_EQ(cuMemUnmap(va, GRANULE), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemUnmap(va + GRANULE, 2 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemSetAccess(va, 4 * GRANULE, &both, 1), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemSetAccess(va, 3 * GRANULE, &both, 1));
    CU(cuMemGetAccess(&access, &both.location, va + GRANULE));
    CHECK_EQ(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK_EQ(cuMemAddressFree(va, 4 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemRetainAllocationHandle(&again, (void *)(va + 100)));
    CHECK_EQ(again, a);
    CU(cuMemGetAllocationPropertiesFromHandle(&out, again));
    CHECK_EQ(out.location.id, 0);
    CU(cuMemRelease(again));
    CU(cuMemRelease(a));
    CHECK_EQ(cuMemRelease(a), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemUnmap(va, 3 * GRANULE)); /* several whole mappings at once */
    CHECK_EQ(cuMemAddressFree(va, GRANULE), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemAddressFree(va, 4 * GRANULE));
    CHECK_EQ(cuMemAddressFree(va, 4 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(sim_figures().held[0], GRANULE);
    CU(cuMemRelease(b));
    CHECK_EQ(sim_figures().held[0], 0);
}

TEST(a_reservation_can_be_asked_for_at_an_address)
{
    CUdeviceptr a, b, c;

    sim_start();
    a = reserve(8 * GRANULE);
    CU(cuMemAddressFree(a, 8 * GRANULE));
    CU(cuMemAddressReserve(&b, GRANULE, 0, a + 3 * GRANULE, 0));
    CHECK_EQ(b, a + 3 * GRANULE);
    CU(cuMemAddressReserve(&c, GRANULE, 0, b, 0)); /* taken: a hint only */
    CHECK_NE(c, b);
    CU(cuMemAddressReserve(&c, GRANULE, 64 * GRANULE, 0, 0));
    CHECK_EQ(c % (64 * GRANULE), 0);
}

TEST(an_exported_handle_is_a_file_of_the_same_bytes)
{
    CUmemAllocationProp shareable = prop;
    CUmemGenericAllocationHandle mine, theirs;
    CUdeviceptr va;
    int fd;

    sim_start();
    shareable.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CU(cuMemCreate(&mine, GRANULE, &shareable, 0));
    CU(cuMemExportToShareableHandle(&fd, mine, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CU(cuMemImportFromShareableHandle(
            &theirs, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CHECK_NE(mine, theirs);
    va = reserve(2 * GRANULE);
    CU(cuMemMap(va, GRANULE, 0, mine, 0));
    CU(cuMemMap(va + GRANULE, GRANULE, 0, theirs, 0));
    CU(cuMemSetAccess(va, 2 * GRANULE, &both, 1));
    *(volatile char *)(va + 5) = 55;
    CHECK_EQ(*(volatile char *)(va + GRANULE + 5), 55);
    CHECK_EQ(sim_figures().held[0], GRANULE);
    CU(cuMemCreate(&mine, GRANULE, &shareable, 0)); /* and where it was mapped and written before */
    va = reserve(2 * GRANULE);
    CU(cuMemMap(va, GRANULE, 0, mine, 0));
    CU(cuMemSetAccess(va, GRANULE, &both, 1));
    *(volatile char *)(va + GRANULE - 1) = 44;
    CU(cuMemExportToShareableHandle(&fd, mine, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CU(cuMemImportFromShareableHandle(
            &theirs, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CU(cuMemMap(va + GRANULE, GRANULE, 0, theirs, 0));
    CU(cuMemSetAccess(va + GRANULE, GRANULE, &both, 1));
    CHECK_EQ(*(volatile char *)(va + 2 * GRANULE - 1), 44);
    *(volatile char *)(va + 7) = 33;
    CHECK_EQ(*(volatile char *)(va + GRANULE + 7), 33);
    CU(cuMemUnmap(va, 2 * GRANULE));
    mine = create(GRANULE);
    CHECK_EQ(cuMemExportToShareableHandle(&fd, mine, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST(thousands_of_handles_need_no_descriptors)
{
    CUmemGenericAllocationHandle handle[3000];
    CUdeviceptr va;

    sim_start();
    va = reserve(3000 * GRANULE);
    for (size_t i = 0; i < 3000; i++) {
        handle[i] = create(GRANULE);
        CU(cuMemMap(va + i * GRANULE, GRANULE, 0, handle[i], 0));
    }
    CU(cuMemSetAccess(va, 3000 * GRANULE, &both, 1));
    CU(sim_fill(va, 3000 * GRANULE, 3, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().held[0], 3000 * GRANULE);
    CU(cuMemUnmap(va, 3000 * GRANULE));
    for (size_t i = 0; i < 3000; i++)
        CU(cuMemRelease(handle[i]));
    CHECK_EQ(sim_figures().held[0], 0);
}
