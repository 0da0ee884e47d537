/* SPDX-License-Identifier: MIT */
/* Modules, libraries, kernels: PTX, parameters, bytes, faults. */
#include "tests/unit/sim/sim_test.h"

#include <stdlib.h>

TEST(only_entries_that_the_device_knows_are_found_where_kernels_are_listed)
{
    CUmodule module;
    CUfunction f;

    (void)setenv("SIMCUDA_KERNELS", "listed", 1);
    sim_start();
    CU(cuModuleLoadData(&module, sim_ptx));
    CU(cuModuleGetFunction(&f, module, "kedge_fill"));
    CHECK_EQ(cuModuleGetFunction(&f, module, "unknown_to_the_device"), CUDA_ERROR_NOT_FOUND);
}

TEST(entries_of_a_text_are_found_listed_or_not)
{
    CUmodule module;
    CUfunction f;
    CUlibrary library;
    CUkernel kernels[8] = {0};
    const char *name;
    unsigned count;

    sim_start();
    CU(cuModuleLoadData(&module, sim_ptx));
    CU(cuModuleGetFunction(&f, module, "kedge_copy_strided"));
    CU(cuFuncGetName(&name, f));
    CHECK_STR_EQ(name, "kedge_copy_strided");
    CU(cuModuleGetFunction(&f, module, "unknown_to_the_device"));
    CU(cuFuncGetName(&name, f));
    CHECK_STR_EQ(name, "unknown_to_the_device");
    CHECK_EQ(cuModuleGetFunction(&f, module, "in_a_comment"), CUDA_ERROR_NOT_FOUND);
    CHECK_EQ(cuModuleLoadData(&module, "no text of this kind"), CUDA_ERROR_INVALID_PTX);
    CHECK_EQ(cuModuleLoadData(&module, "\177ELF...."), CUDA_ERROR_INVALID_IMAGE);
    CHECK_EQ(cuModuleLoadData(&module, ".version 8.0\n.entry kedge_fillx() {}"), CUDA_SUCCESS);
    CHECK_EQ(cuModuleGetFunction(&f, module, "kedge_fill"), CUDA_ERROR_NOT_FOUND);
    CU(cuLibraryLoadData(&library, sim_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernelCount(&count, library));
    CHECK_EQ(count, 6);
    CU(cuLibraryEnumerateKernels(kernels, 8, library));
    CU(cuKernelGetName(&name, kernels[4]));
    CHECK_STR_EQ(name, "kedge_copy_strided");
}

TEST(parameters_have_offsets_and_sizes)
{
    CUlibrary library;
    CUkernel kernel;
    size_t offset, size;

    sim_start();
    CU(cuFuncGetParamInfo(sim_function("kedge_fill"), 2, &offset, &size));
    CHECK_EQ(offset, 16);
    CHECK_EQ(size, 4);
    CHECK_EQ(cuFuncGetParamInfo(sim_function("kedge_fill"), 3, &offset, &size),
            CUDA_ERROR_INVALID_VALUE);
    CU(cuLibraryLoadData(&library, sim_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernel(&kernel, library, "kedge_copy_strided"));
    CU(cuKernelGetParamInfo(kernel, 4, &offset, &size));
    CHECK_EQ(offset, 32);
    CHECK_EQ(size, 8);
    CU(cuLibraryUnload(library));
    CHECK_EQ(cuKernelGetParamInfo(kernel, 4, &offset, &size), CUDA_ERROR_INVALID_HANDLE);
}

/* ---- bytes ---- */

static bool is_sampled(uint64_t word, uint64_t bytes)
{
    uint64_t at = word * 4;

    if (bytes <= 8192)
        return true;
    return at % (2 * MIB) < 4096 || word >= (bytes - 4096) / 4;
}

static uint32_t expected_fill(uint64_t word, uint32_t seed)
{
    uint32_t x = (uint32_t)word * 2654435761U + seed;

    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ x >> 16;
}

static void check_size(uint64_t bytes)
{
    CUdeviceptr dst = sim_alloc(bytes + 64), src = sim_alloc(bytes + 64), out = sim_alloc(8);
    const uint32_t *d = (const uint32_t *)dst, *s = (const uint32_t *)src;
    uint64_t sum = 7, wrong = 0, total;

    CU(sim_fill(dst, bytes, 5, NULL));
    CU(sim_fill(src, bytes, 9, NULL));
    CU(sim_launch3("kedge_mix", dst, src, bytes, NULL));
    CU(cuMemcpyHtoD_v2(out, &sum, 8));
    CU(sim_launch3("kedge_sum", out, dst, bytes, NULL));
    CU(cuCtxSynchronize());
    for (uint64_t i = 0; i < bytes / 4; i++) {
        uint32_t fill = is_sampled(i, bytes) ? expected_fill(i, 9) : 0;
        uint32_t mixed =
                is_sampled(i, bytes) ? expected_fill(i, 5) * 1664525U + fill + 1013904223U : 0;
        wrong += s[i] != fill || d[i] != mixed;
        sum += (uint64_t)mixed * (i + 1);
    }
    wrong += d[bytes / 4] != 0; /* nothing behind the end */
    CHECK_EQ(wrong, 0);
    CU(cuMemcpyDtoH_v2(&total, out, 8));
    CHECK_EQ(total, sum);
    CU(cuMemFree_v2(dst));
    CU(cuMemFree_v2(src));
    CU(cuMemFree_v2(out));
}

TEST(kernels_touch_each_sampled_word_once)
{
    static const uint64_t sizes[] = {4, 6, 4096, 8192, 8196, 9000, 10002, MIB, 2 * MIB, 2 * MIB + 4,
            2 * MIB + 4094, 2 * MIB + 4096, 2 * MIB + 4100, 2 * MIB + 8192, 2 * MIB + 9000, 4 * MIB,
            5 * MIB + 12, 6 * MIB + 2};

    sim_start();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        check_size(sizes[i]);
}

TEST(a_strided_copy_gathers_rows)
{
    uint64_t rows = 700, row_bytes = 4098, stride = 5000, wrong = 0;
    CUdeviceptr dst, src;
    void *params[] = {&dst, &src, &rows, &row_bytes, &stride};
    const unsigned char *d, *s;

    sim_start();
    dst = sim_alloc(rows * row_bytes);
    src = sim_alloc(rows * stride);
    d = (const unsigned char *)dst;
    s = (const unsigned char *)src;
    for (uint64_t i = 0; i < rows * stride; i++)
        ((unsigned char *)src)[i] = (unsigned char)(i * 31 >> 3);
    CU(cuLaunchKernel(sim_function("kedge_copy_strided"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    CU(cuCtxSynchronize());
    for (uint64_t at = 0; at < rows * row_bytes; at++) {
        unsigned char source = s[at / row_bytes * stride + at % row_bytes];
        wrong += d[at] != (is_sampled(at / 4, rows * row_bytes) ? source : 0);
    }
    CHECK_EQ(wrong, 0);
}

TEST(parameters_may_come_in_one_buffer)
{
    struct {
        uint64_t dst, bytes;
        uint32_t seed;
    } buffer = {.bytes = 64, .seed = 3};
    size_t size = sizeof(buffer), short_size = 16;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
            CU_LAUNCH_PARAM_END};
    void *too_short[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
            &short_size, CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {.gridDimX = 1,
            .gridDimY = 1,
            .gridDimZ = 1,
            .blockDimX = 1,
            .blockDimY = 1,
            .blockDimZ = 1};
    CUlibrary library;
    CUkernel kernel;

    sim_start();
    buffer.dst = sim_alloc(64);
    CU(cuLibraryLoadData(&library, sim_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernel(&kernel, library, "kedge_fill"));
    CU(cuLaunchKernelEx(&config, (CUfunction)kernel, NULL, extra)); /* a CUkernel will do */
    CU(cuCtxSynchronize());
    CHECK_EQ(*(const uint32_t *)(buffer.dst + 4), expected_fill(1, 3));
    CHECK_EQ(cuLaunchKernelEx(&config, (CUfunction)kernel, NULL, too_short),
            CUDA_ERROR_INVALID_VALUE);
    config.blockDimX = 2000;
    CHECK_EQ(cuLaunchKernelEx(&config, (CUfunction)kernel, NULL, extra), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuLaunchKernel((CUfunction)library, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
            CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(sim_figures().launches, 1);
}

/* Kernels of CUTLASS for 9.0 ask for more than an 8.0 has. */
static void check_shared_memory(const char *capability, unsigned most, int most_blocks)
{
    uint64_t dst, bytes = 64;
    uint32_t seed = 1;
    void *params[] = {&dst, &bytes, &seed};
    int blocks;

    sim_env("SIMCUDA_CAPABILITY", capability);
    sim_start();
    CUfunction fill = sim_function("kedge_fill");
    dst = sim_alloc(64);
    CU(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, most, NULL, params, NULL));
    CHECK_EQ(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, most + 1, NULL, params, NULL),
            CUDA_ERROR_INVALID_VALUE);
    CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 32, most));
    CHECK_EQ(blocks, most_blocks);
    CHECK_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 32, most + 1),
            CUDA_ERROR_INVALID_VALUE);
}

TEST(a_block_may_have_the_shared_memory_of_an_8_9)
{
    check_shared_memory("8.9", 99 << 10, 24);
}

TEST(a_block_may_have_the_shared_memory_of_a_9_0)
{
    check_shared_memory("9.0", 227 << 10, 32);
}

TEST(parameters_are_read_when_the_kernel_is_launched)
{
    uint64_t dst, bytes = 64;
    uint32_t seed = 1;
    void *params[] = {&dst, &bytes, &seed};

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    dst = sim_alloc(64);
    CUdeviceptr at = dst;
    CU(cuLaunchKernel(sim_function("kedge_fill"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    seed = 2;
    dst = 0;
    CU(cuCtxSynchronize());
    CHECK_EQ(*(const uint32_t *)at, expected_fill(0, 1));
}

TEST(a_kernel_may_not_run_past_its_block)
{
    CUdeviceptr a;

    sim_start();
    a = sim_alloc(4096);
    (void)sim_alloc(512);
    CU(sim_fill(a, 4096, 1, NULL));
    CU(cuCtxSynchronize());
    CU(sim_fill(a, 4096 + 516, 1, NULL)); /* into the neighbour's end: that is nobody's */
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(a_kernel_may_not_touch_pageable_host_memory)
{
    static char pageable[4096];

    sim_start();
    CU(sim_fill((CUdeviceptr)pageable, sizeof(pageable), 1, NULL));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(large_tensors_need_little_host_memory)
{
    CUdeviceptr a[6];
    long pages;

    sim_start();
    for (int i = 0; i < 6; i++) {
        a[i] = sim_alloc((size_t)4 << 30);
        CU(sim_fill(a[i], (uint64_t)4 << 30, 1, NULL));
        CU(cuMemsetD8_v2(a[i], 0, (size_t)4 << 30));
        CU(sim_fill(a[i], (uint64_t)4 << 30, 1, NULL));
    }
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().held[0], (uint64_t)24 << 30);
    FILE *file = fopen("/proc/self/statm", "re");
    REQUIRE(file != NULL);
    REQUIRE_EQ(fscanf(file, "%*d %ld", &pages), 1);
    (void)fclose(file);
    CHECK_LT((size_t)pages * 4096, 512 * MIB);
}
