/* SPDX-License-Identifier: MIT */
/* Kernels of PyTorch whose results are computed (tests/sim/values), and when they are not. */
#include "tests/unit/sim/sim_test.h"

#include <dlfcn.h>
#include <stdlib.h>

/* vectorized_elementwise_kernel of a sum of two tensors, and of a functor that nobody knows */
#define ADD                                                                                      \
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EE" \
    "Lb0EEEviT0_T1_"
#define ODD                                                                                      \
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_oddIfEESt5arrayIPcLm3EE" \
    "Lb0EEEviT0_T1_"
/* the same sum with strides */
#define STRIDED                                                                              \
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_15CUDAFu" \
    "nctor_addIfEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_"
/* scatter_add along a dimension */
#define SCATTER                                                                             \
    "_ZN2at6native34_scatter_gather_elementwise_kernelILi128ELi8EZNS0_36_cuda_scatter_gath" \
    "er_internal_kernelILb1EflEclINS0_9ReduceAddEEEvRNS_14TensorIteratorElllRKT_EUliE_EEvi" \
    "T1_"
/* a sort in place, and a sum over columns */
#define SORT                                                                               \
    "_ZN2at6native22warpMergeSortKVInPlaceILin2ELin1ELi128ELi16EflNS0_4LTOpIfLb1EEEjLi32E" \
    "EEvNS_4cuda6detail10TensorInfoIT3_T6_EES8_S8_S8_NS6_IT4_S8_EES8_T5_S7_"

/* index_copy and flip of elements of 4 bytes; a copy that casts what it reads to bool */
#define INDEX_COPY                                                                         \
    "_ZN2at6native24index_elementwise_kernelILi128ELi4EZNS0_22index_copy_kernel_implINS0_" \
    "10OpaqueTypeILi4EEEEEvRNS_14TensorIteratorElllEUliE_EEvlT1_"
#define FLIP                                                                              \
    "_ZN2at6native24index_elementwise_kernelILi128ELi4EZNS0_16flip_kernel_implINS0_10Opa" \
    "queTypeILi4EEEEEvRNS_14TensorIteratorEEUliE_EEvlT1_"
#define CAST                                                                               \
    "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18Te" \
    "nsorIteratorBaseEENKUlvE1_clEvENKUlvE9_clEvEUlbE_St5arrayIPcLm2EELi4E23TrivialOffset" \
    "CalculatorILi1EjESB_NS0_6memory12LoadWithCastILi1EEENSC_13StoreWithCastILi1EEEEEviT_" \
    "T0_T2_T3_T4_T5_"

static const char ptx[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry " ADD
        "(.param .u32 n, .param .f32 f, .param .align 8 .b8 a[24]) { ret; }\n"
        ".visible .entry " ODD
        "(.param .u32 n, .param .f32 f, .param .align 8 .b8 a[24]) { ret; }\n"
        ".visible .entry " STRIDED "(.param .u32 n, .param .align 8 .b8 c[640]) { ret; }\n"
        ".visible .entry " SCATTER "(.param .u32 n, .param .align 8 .b8 c[664]) { ret; }\n"
        ".visible .entry typeless(.param .u64 a) { ret; }\n"
        ".visible .entry " INDEX_COPY "(.param .u64 n, .param .align 8 .b8 c[648]) { ret; }\n"
        ".visible .entry " FLIP "(.param .u64 n, .param .align 8 .b8 c[520]) { ret; }\n"
        ".visible .entry " CAST "(.param .u32 n, .param .u8 f, .param .align 8 .b8 a[16],\n"
        "    .param .u8 b, .param .u8 c, .param .align 4 .b8 d[8], .param .align 4 .b8 e[8]) { "
        "ret; }\n"
        ".visible .entry " SORT "(.param .align 8 .b8 a[216], .param .u32 b, .param .u32 c,\n"
        "    .param .u32 d, .param .align 8 .b8 e[216], .param .u32 f, .param .u8 g,\n"
        "    .param .f32 h) { ret; }\n";

enum {
    COUNT = 8
};

static const float ones[COUNT] = {1, 1, 1, 1, 1, 1, 1, 1};
static const float numbers[COUNT] = {3, -1, 4, 1, -5, 9, 2, 6};

static void set_up(void)
{
    if (!dlopen("libstdc++.so.6", RTLD_LAZY))
        SKIP("no libstdc++.so.6, which knows C++ names");
    sim_start();
}

static CUfunction function(const char *name)
{
    static CUmodule module;
    CUfunction f;

    if (!module)
        CU(cuModuleLoadData(&module, ptx));
    CU(cuModuleGetFunction(&f, module, name));
    return f;
}

static CUdeviceptr born(size_t size)
{
    CUdeviceptr ptr = sim_alloc(size);

    simcuda_witness_birth(ptr, size, SIMCUDA_NO_STREAM);
    return ptr;
}

static CUdeviceptr tensor(const float *values)
{
    CUdeviceptr ptr = born(512);

    CU(cuMemcpyHtoD_v2(ptr, values, COUNT * sizeof(float)));
    return ptr;
}

static void launch(const char *name, void **params)
{
    CU(cuLaunchKernel(function(name), 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
}

/* result = a + factor * b */
static void add_of(const char *name, CUdeviceptr result, CUdeviceptr a, CUdeviceptr b, int n)
{
    float factor = 2;
    CUdeviceptr array[] = {result, a, b};

    launch(name, (void *[]){&n, &factor, array});
}

/* How many copies from the device brought a digest while this one was made. */
static uint64_t digests_in(CUdeviceptr from, float *ret_values)
{
    uint64_t before = simcuda_digest_copies();

    CU(cuMemcpyDtoH_v2(ret_values, from, COUNT * sizeof(float)));
    return simcuda_digest_copies() - before;
}

static bool is_sum(const float *got)
{
    for (int i = 0; i < COUNT; i++)
        if (got[i] != ones[i] + 2 * numbers[i])
            return false;
    return true;
}

TEST(a_sum_is_computed)
{
    float got[COUNT];
    CUdeviceptr result;

    set_up();
    result = born(512);
    add_of(ADD, result, tensor(ones), tensor(numbers), COUNT);
    CHECK_EQ(digests_in(result, got), 0);
    CHECK(is_sum(got));
    CHECK_EQ(sim_figures().kernels_computed, 1);
}

TEST(a_result_may_lie_where_its_argument_lay)
{
    float got[COUNT];
    CUdeviceptr result;

    set_up();
    result = tensor(ones);
    add_of(ADD, result, result, tensor(numbers), COUNT);
    CHECK_EQ(digests_in(result, got), 0);
    CHECK(is_sum(got));
}

TEST(a_functor_that_is_not_known_writes_a_digest)
{
    float got[COUNT];
    CUdeviceptr result;

    set_up();
    result = born(512);
    add_of(ODD, result, tensor(ones), tensor(numbers), COUNT);
    CHECK_EQ(digests_in(result, got), 1);
    CHECK(!is_sum(got));
    CHECK(got[0] > 0.4F && got[0] < 2);
    CHECK_EQ(sim_figures().kernels_computed, 0);
}

TEST(memory_that_nobody_wrote_is_not_computed_with)
{
    float got[COUNT];
    CUdeviceptr result, half;

    set_up();
    result = born(512);
    half = born(512);
    CU(cuMemcpyHtoD_v2(half, ones, COUNT / 2 * sizeof(float)));
    add_of(ADD, result, half, tensor(numbers), COUNT);
    CHECK_EQ(digests_in(result, got), 1);
    for (int i = 0; i < COUNT; i++) /* all of it is the digest, nothing is computed */
        CHECK(got[i] > 0.4F && got[i] < 2);
    CHECK_EQ(sim_figures().kernels_computed, 0);
}

TEST(what_is_computed_from_a_digest_says_so)
{
    float got[COUNT];
    CUdeviceptr digest, result;

    set_up();
    digest = born(512);
    result = born(512);
    add_of(ODD, digest, tensor(ones), tensor(numbers), COUNT);
    add_of(ADD, result, digest, tensor(ones), COUNT);
    CHECK_EQ(sim_figures().kernels_computed, 1);
    CHECK_EQ(digests_in(result, got), 1);
    add_of(ADD, result, tensor(ones), tensor(numbers), COUNT);
    CHECK_EQ(digests_in(result, got), 0); /* written again from the program's own values */
    CHECK(is_sum(got));
}

TEST(a_copy_on_the_device_carries_what_is_known)
{
    float got[COUNT];
    CUdeviceptr digest, copy;

    set_up();
    digest = born(512);
    copy = born(512);
    add_of(ODD, digest, tensor(ones), tensor(numbers), COUNT);
    CU(cuMemcpyDtoD_v2(copy, digest, sizeof(got)));
    CHECK_EQ(digests_in(copy, got), 1);
    CU(cuMemsetD32_v2(copy, 0, COUNT));
    CHECK_EQ(digests_in(copy, got), 0);
}

TEST(what_a_kernel_without_types_may_have_written_is_no_value)
{
    float got[COUNT];
    CUdeviceptr known, never;

    set_up();
    known = tensor(ones);
    never = born(512);
    CHECK_EQ(digests_in(known, got), 0);
    CHECK_EQ(digests_in(never, got), 1);
    launch("typeless", (void *[]){&known});
    CHECK_EQ(digests_in(known, got), 1);
    CU(cuMemcpyHtoD_v2(known, numbers, sizeof(numbers)));
    CHECK_EQ(digests_in(known, got), 0);
}

TEST(an_address_of_nothing_is_no_fault)
{
    float got[COUNT];
    CUdeviceptr result, gone, other;

    set_up();
    result = born(512);
    other = tensor(numbers);
    gone = tensor(ones);
    simcuda_witness_death(gone, SIMCUDA_NO_STREAM);
    CU(cuMemFree_v2(gone));
    add_of(ADD, result, gone, other, COUNT);
    CU(cuCtxSynchronize());
    CHECK_EQ(digests_in(result, got), 1);
}

TEST(a_kernel_above_the_budget_writes_a_digest)
{
    float got[COUNT];
    CUdeviceptr result, more;

    sim_env("SIMCUDA_VALUES", "24"); /* three for each of eight elements */
    set_up();
    result = born(512);
    more = tensor(ones);
    add_of(ADD, result, tensor(ones), tensor(numbers), COUNT);
    CHECK_EQ(digests_in(result, got), 0);
    CU(cuMemsetD32_v2(more, 0, 16));
    add_of(ADD, result, more, more, COUNT + 1);
    CHECK_EQ(digests_in(result, got), 1);
}

TEST(without_a_budget_nothing_is_computed)
{
    float got[COUNT];
    CUdeviceptr result;

    sim_env("SIMCUDA_VALUES", "0");
    set_up();
    result = born(512);
    add_of(ADD, result, tensor(ones), tensor(numbers), COUNT);
    CHECK_EQ(digests_in(result, got), 1);
}

/* A calculator for N tensors over `rows` times `columns`: divisors are sizes; strides in bytes, columns first. */
static void calculator(char *to, int tensors, int columns, int rows, const int *strides)
{
    int dims = 2, sizes[] = {columns, rows};

    memcpy(to, &dims, 4);
    for (int d = 0; d < 2; d++) {
        memcpy(to + 4 + d * 12, &sizes[d], 4);
        memcpy(to + 304 + d * tensors * 4, strides + d * tensors, (size_t)tensors * 4);
    }
}

TEST(strides_are_followed_in_bytes)
{
    /* the second argument is read as the transpose of 2 x 4 */
    static const int strides[] = {4, 4, 16, 8, 8, 4};
    char closure[640] = {0};
    float got[COUNT], factor = 2;
    int n = COUNT;
    CUdeviceptr array[3];

    set_up();
    array[0] = born(512);
    array[1] = tensor(ones);
    array[2] = tensor(numbers);
    calculator(closure, 3, 2, 4, strides);
    memcpy(closure + 608, array, sizeof(array));
    memcpy(closure + 632, &factor, sizeof(factor));
    launch(STRIDED, (void *[]){&n, closure});
    CHECK_EQ(digests_in(array[0], got), 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(got[i] == 1 + 2 * numbers[i % 2 * 4 + i / 2]);
}

/* Adds numbers[i] to result[index[i]]. */
static void scatter(CUdeviceptr result, const int64_t *index, int64_t size)
{
    static const int strides[] = {0, 4, 8, 0, 0, 0}; /* result, source, index */
    char closure[664] = {0};
    int n = COUNT;
    uint64_t words[7] = {0, (uint64_t)size, 0, result, 1, (uint64_t)size, tensor(numbers)};

    words[0] = born(512);
    CU(cuMemcpyHtoD_v2(words[0], index, COUNT * sizeof(*index)));
    calculator(closure, 3, COUNT, 1, strides);
    memcpy(closure + 608, words, sizeof(words));
    launch(SCATTER, (void *[]){&n, closure});
}

TEST(additions_at_one_place_add_up)
{
    static const int64_t index[COUNT] = {0, 1, 0, 1, 0, 1, 7, 7};
    float got[COUNT];
    CUdeviceptr result;

    set_up();
    result = tensor(ones);
    scatter(result, index, COUNT);
    CHECK_EQ(digests_in(result, got), 0);
    CHECK(got[0] == 1 + 3 + 4 - 5);
    CHECK(got[1] == 1 - 1 + 1 + 9);
    CHECK(got[2] == 1);
    CHECK(got[7] == 1 + 2 + 6);
}

TEST(an_index_outside_ends_the_computation_and_changes_nothing)
{
    static const int64_t index[COUNT] = {0, 1, 2, 3, 4, 5, 6, 8};
    CUdeviceptr result;

    set_up();
    result = tensor(ones);
    scatter(result, index, COUNT);
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().kernels_computed, 0);
}

TEST(what_was_stored_before_a_failure_is_not_written)
{
    static const int strides[] = {0, 8, 4, 0, 0, 0}; /* result, index, source */
    static const int64_t index[COUNT] = {7, 6, 5, 4, 3, 2, 1, COUNT};
    char closure[648] = {0};
    float got[COUNT];
    uint64_t count = COUNT, words[5] = {0, 0, 0, COUNT, 1};

    set_up();
    words[0] = tensor(ones);
    words[1] = born(512);
    words[2] = tensor(numbers);
    CU(cuMemcpyHtoD_v2(words[1], index, sizeof(index)));
    calculator(closure, 3, COUNT, 1, strides);
    memcpy(closure + 608, words, sizeof(words));
    launch(INDEX_COPY, (void *[]){&count, closure});
    CU(cuMemcpyDtoH_v2(got, words[0], sizeof(got)));
    CHECK(memcmp(got, ones, sizeof(got)) == 0);
    words[3]++; /* the last index is good now, and outside of what anybody sees */
    memcpy(closure + 608, words, sizeof(words));
    launch(INDEX_COPY, (void *[]){&count, closure});
    CHECK_EQ(digests_in(words[0], got), 0);
    for (int i = 0; i < COUNT - 1; i++)
        CHECK(got[7 - i] == numbers[i]);
    CHECK(got[0] == 1);
}

TEST(strides_may_be_below_zero)
{
    static const int strides[] = {-4, 4, 0, 0};
    char closure[520] = {0};
    float got[COUNT];
    uint64_t count = COUNT;
    CUdeviceptr result, array[2];

    set_up();
    result = born(512);
    array[0] = result + (COUNT - 1) * sizeof(float);
    array[1] = tensor(numbers);
    calculator(closure, 2, COUNT, 1, strides);
    memcpy(closure + 504, array, sizeof(array));
    launch(FLIP, (void *[]){&count, closure});
    CHECK_EQ(digests_in(result, got), 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(got[i] == numbers[COUNT - 1 - i]);
}

TEST(a_cast_comes_before_the_functor)
{
    static const float halves[COUNT] = {0.5F, 0, -0.25F, 2, 0, -0.0F, 1e-30F, 1};
    static const unsigned char right[COUNT] = {1, 0, 1, 1, 0, 0, 1, 1};
    const int load[2] = {6, 4}, store[2] = {11, 1}; /* float, bool, and their sizes */
    unsigned char got[COUNT];
    char none = 0;
    int n = COUNT;
    CUdeviceptr array[2];

    set_up();
    array[0] = born(512);
    array[1] = tensor(halves);
    launch(CAST,
            (void *[]){&n, &none, array, &none, &none, (void *)(uintptr_t)load,
                    (void *)(uintptr_t)store});
    CU(cuMemcpyDtoH_v2(got, array[0], sizeof(got)));
    CHECK(memcmp(got, right, sizeof(got)) == 0);
}

/* TensorInfo of one dimension. */
static void describe(char *to, CUdeviceptr at, int size, int stride)
{
    int dims = 1;

    memcpy(to, &at, 8);
    memcpy(to + 8, &size, 4);
    memcpy(to + 108, &stride, 4);
    memcpy(to + 208, &dims, 4);
}

TEST(a_sort_moves_values_with_keys_and_keeps_the_order_of_equals)
{
    static const float unsorted[COUNT] = {2, 0, -1, 2, 0, 5, -0.0F, 2};
    static const int64_t right[COUNT] = {2, 1, 4, 6, 0, 3, 7, 5};
    char keys[216] = {0}, values[216] = {0};
    int64_t places[COUNT];
    int slices = 1, size = COUNT, stride = 1;
    char order = 0;
    float invalid = 0, got[COUNT];
    CUdeviceptr key, value;

    set_up();
    key = tensor(unsorted);
    value = born(512);
    for (int i = 0; i < COUNT; i++)
        places[i] = i;
    CU(cuMemcpyHtoD_v2(value, places, sizeof(places)));
    describe(keys, key, 1, 1);
    describe(values, value, 1, 1);
    launch(SORT, (void *[]){keys, &slices, &size, &stride, values, &stride, &order, &invalid});
    CHECK_EQ(digests_in(key, got), 0);
    CU(cuMemcpyDtoH_v2(places, value, sizeof(places)));
    for (int i = 0; i < COUNT; i++) {
        CHECK(i == 0 || got[i - 1] <= got[i]);
        CHECK_EQ(places[i], right[i]);
    }
}
