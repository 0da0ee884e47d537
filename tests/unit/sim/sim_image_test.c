/* SPDX-License-Identifier: MIT */
/* Device code in its forms: which kernels, which parameters. */
#include "tests/unit/sim/sim_binary.h"
#include "tests/unit/sim/sim_test.h"

static const struct binary_param three[] = {{0, 8}, {8, 4}, {16, 24}};
static const struct binary_param one[] = {{0, 5000}};
static const struct binary_kernel kernels[] = {{.name = "of_three", .params = three, .count = 3},
        {.name = "a_function", .params = three, .count = 3, .is_function = true},
        {.name = "of_one", .params = one, .count = 1, .in_second_form = true}, {.name = "of_none"},
        {.name = "backwards", .params = three, .count = 3, .is_backwards = true}};

static void check_param(CUfunction f, size_t index, size_t offset, size_t size)
{
    size_t found_offset, found_size;

    CU(cuFuncGetParamInfo(f, index, &found_offset, &found_size));
    CHECK_EQ(found_offset, offset);
    CHECK_EQ(found_size, size);
}

static void check_three(CUmodule module, const char *name)
{
    CUfunction f;
    size_t offset, size;

    CU(cuModuleGetFunction(&f, module, name));
    for (size_t i = 0; i < 3; i++)
        check_param(f, i, three[i].offset, three[i].size);
    CHECK_EQ(cuFuncGetParamInfo(f, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_cubin_says_the_parameters_of_its_kernels)
{
    struct binary cubin = binary_cubin(kernels, 5);
    CUmodule module;
    CUfunction f;
    size_t offset, size;
    unsigned count;

    sim_start();
    CU(cuModuleLoadData(&module, cubin.bytes));
    memset(cubin.bytes, 0x55, cubin.size); /* the caller's again */
    binary_free(&cubin);
    CU(cuModuleGetFunctionCount(&count, module));
    CHECK_EQ(count, 4);
    check_three(module, "of_three");
    check_three(module, "backwards");
    CU(cuModuleGetFunction(&f, module, "of_one"));
    check_param(f, 0, 0, 5000);
    CU(cuModuleGetFunction(&f, module, "of_none"));
    CHECK_EQ(cuFuncGetParamInfo(f, 0, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuModuleGetFunction(&f, module, "a_function"), CUDA_ERROR_NOT_FOUND);
}

/* One fat binary with the kernels for three devices. Only this device's has all of them. */
static struct binary fat_binary(enum binary_packing packing)
{
    struct binary all = binary_cubin(kernels, 5), few = binary_cubin(kernels + 2, 1);
    struct binary fatbin = binary_fatbin();

    binary_add_entry(&fatbin, 2, 75, few.bytes, few.size, packing);
    binary_add_entry(&fatbin, 2, 80, all.bytes, all.size, packing);
    binary_add_entry(&fatbin, 2, 90, few.bytes, few.size, packing);
    binary_end_fatbin(&fatbin);
    binary_free(&all);
    binary_free(&few);
    return fatbin;
}

TEST(of_a_fat_binary_the_code_for_this_device_counts)
{
    static const enum binary_packing packings[] = {BINARY_PLAIN, BINARY_LZ4, BINARY_ZSTD};
    CUmodule module;

    sim_start();
    for (int i = 0; i < 3; i++) {
        struct binary fatbin = fat_binary(packings[i]);

        CU(cuModuleLoadData(&module, fatbin.bytes));
        binary_free(&fatbin);
        check_three(module, "of_three");
        CU(cuModuleUnload(module));
    }
}

TEST(without_code_for_this_device_its_ptx_counts_then_any_code)
{
    static const char ptx[] =
            ".version 8.0\n.target sm_70\n.visible .entry in_text(.param .u64 a) {}\n";
    struct binary cubin = binary_cubin(kernels, 1), fatbin = binary_fatbin();
    CUmodule module;
    CUfunction f;

    sim_start();
    binary_add_entry(&fatbin, 2, 90, cubin.bytes, cubin.size, BINARY_ZSTD);
    binary_end_fatbin(&fatbin);
    CU(cuModuleLoadData(&module, fatbin.bytes));
    check_three(module, "of_three");
    binary_add_entry(&fatbin, 1, 70, ptx, sizeof(ptx), BINARY_LZ4);
    binary_end_fatbin(&fatbin);
    CU(cuModuleLoadData(&module, fatbin.bytes));
    CU(cuModuleGetFunction(&f, module, "in_text"));
    check_param(f, 0, 0, 8);
    CHECK_EQ(cuModuleGetFunction(&f, module, "of_three"), CUDA_ERROR_NOT_FOUND);
    binary_free(&cubin);
    binary_free(&fatbin);
}

TEST(a_wrapper_is_read_when_a_kernel_is_asked_for)
{
    struct binary fatbin = fat_binary(BINARY_ZSTD);
    struct binary_wrapper wrapper = binary_wrap(&fatbin), empty = {0x466243b1, 1, NULL, NULL};
    CUlibrary library;
    CUkernel kernel;
    size_t offset, size;

    sim_start();
    CU(cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernel(&kernel, library, "of_three"));
    CU(cuKernelGetParamInfo(kernel, 2, &offset, &size));
    CHECK_EQ(offset, 16);
    CHECK_EQ(size, 24);
    CHECK_EQ(cuLibraryGetKernel(&kernel, library, "not_there"), CUDA_ERROR_NOT_FOUND);
    CU(cuLibraryLoadData(&library, &empty, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernel(&kernel, library, "whatever"));
    CHECK_EQ(cuKernelGetParamInfo(kernel, 0, &offset, &size), CUDA_ERROR_NOT_SUPPORTED);
    binary_free(&fatbin);
}

/* Sizes and offsets of each kind: none may lead outside. Under a sanitizer this test is worth most. */
TEST(damaged_code_is_refused_or_read_and_nothing_else)
{
    struct binary cubin = binary_cubin(kernels, 5);
    unsigned read = 0, refused = 0;
    CUmodule module;

    sim_start();
    for (size_t i = 0; i < cubin.size; i++) {
        struct binary fatbin = binary_fatbin();
        unsigned char was = cubin.bytes[i];

        cubin.bytes[i] ^= 0xff;
        binary_add_entry(&fatbin, 2, 80, cubin.bytes, i % 3 ? cubin.size : i,
                i % 2 ? BINARY_PLAIN : BINARY_LZ4);
        binary_end_fatbin(&fatbin);
        if (cuModuleLoadData(&module, fatbin.bytes) == CUDA_SUCCESS) {
            read++;
            CU(cuModuleUnload(module));
        } else {
            refused++;
        }
        cubin.bytes[i] = was;
        binary_free(&fatbin);
    }
    CHECK(read > 100);
    CHECK(refused > 100);
    binary_free(&cubin);
}

TEST(ptx_says_the_parameters_of_its_kernels)
{
    static const char ptx[] =
            ".version 8.0\n.target sm_80\n.address_size 64\n"
            ".visible .entry one(\n  .param .u64 .ptr .global .align 4 a, // , .param .u64 no\n"
            "  .param .u8 b,\n  .param .align 8 .b8 c[20],\n  .param .f32 d,\n"
            "  .param .align 16 .b8 e[16]\n)\n.maxntid 128\n{ ld.param.u64 %rd1, [a]; ret; }\n"
            ".entry none() { ret; }\n.entry bare { ret; }\n";
    static const struct binary_param params[] = {{0, 8}, {8, 1}, {16, 20}, {36, 4}, {48, 16}};
    CUmodule module;
    CUfunction f;
    size_t offset, size;

    sim_start();
    CU(cuModuleLoadData(&module, ptx));
    CU(cuModuleGetFunction(&f, module, "one"));
    for (size_t i = 0; i < 5; i++)
        check_param(f, i, params[i].offset, params[i].size);
    CHECK_EQ(cuFuncGetParamInfo(f, 5, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    CU(cuModuleGetFunction(&f, module, "none"));
    CHECK_EQ(cuFuncGetParamInfo(f, 0, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    CU(cuModuleGetFunction(&f, module, "bare"));
}

TEST(kernels_of_the_table_keep_their_own_parameters)
{
    static const struct binary_kernel wrong = {.name = "kedge_fill", .params = one, .count = 1};
    struct binary cubin = binary_cubin(&wrong, 1);
    CUmodule module;
    CUfunction f;

    sim_start();
    CU(cuModuleLoadData(&module, cubin.bytes));
    CU(cuModuleGetFunction(&f, module, "kedge_fill"));
    check_param(f, 2, 16, 4);
    binary_free(&cubin);
}

TEST(code_is_listed_kernels_where_only_those_exist)
{
    struct binary fatbin = fat_binary(BINARY_LZ4);
    struct binary_wrapper wrapper = binary_wrap(&fatbin);
    CUlibrary library;
    CUkernel kernel;

    sim_env("SIMCUDA_KERNELS", "listed");
    sim_start();
    CU(cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
    CHECK_EQ(cuLibraryGetKernel(&kernel, library, "of_three"), CUDA_ERROR_NOT_FOUND);
    binary_free(&fatbin);
}
