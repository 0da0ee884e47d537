/* SPDX-License-Identifier: MIT */
/* Kernels that are not in kernels.def: what they touch, what they write, and whom they accuse. */
#include "tests/unit/sim/sim_test.h"

#include <dlfcn.h>

/* softmax_warp_forward<float, float, float, 3, true, false, 32> and its backward, of an unnamed namespace. */
#define SOFTMAX                                                                     \
    "_ZN12_GLOBAL__N_120softmax_warp_forwardIfffLi3ELb1ELb0ELi32EEEvPT_PKT0_iiiPKb" \
    "ib"
#define SOFTMAX_BACK \
    "_ZN12_GLOBAL__N_121softmax_warp_backwardIfffLi3ELb1ELb0ELi32EEEvPT0_PKT_S5_iiiPKb"
/* cunn_SoftMaxForward<float>(float *, float const *, int): a row for each block. */
#define LONG_SOFTMAX "_Z19cunn_SoftMaxForwardIfEvPT_PKS0_i"
/* PyTorch's gather of elements of 4 bytes, and of whole rows. */
#define GATHER                                                               \
    "_ZN2at6native34_scatter_gather_elementwise_kernelILi128ELi8EZNS0_36_cu" \
    "da_scatter_gather_internal_kernelILb0ENS0_10OpaqueTypeILi4EEElEclINS0_" \
    "12TensorAssignEEEvRNS_14TensorIteratorElllRKT_EUliE_EEviT1_"
#define ROWS_GATHER "_ZN2at6native24vectorized_gather_kernelILi16EiEEvPcS2_PT0_illllb"

/* Paddle's sum of two tensors of other shapes, and of rows, with the parameters that count alone. */
#define BROADCAST                                                                             \
    "_ZN3phi5funcs25VectorizedBroadcastKernelIfEEvN6common5ArrayIrPKcLm2EEENS3_IPT_Lm1EEENS3" \
    "_IbLm2EEEj"
#define SUM_OF_ROWS "_ZN3phi5funcs21ReduceHigherDimKernelIfEEvPKT_PS2_iiiiii"

/* chunk_cat_cuda_kernel<float, float>: addresses in a table, the result, six tables, three sizes in bytes. */
#define CHUNKS "_ZN2at6native6detail21chunk_cat_cuda_kernelIffEEvPPT0_PT_PlS8_S8_S8_S8_S8_lll"

/*
 * PyTorch's flip, both ends of a tensor, two forms of cat, dropout, a comparison, index_select, upsampling, the cell of an
 * LSTM.
 */
#define FLIP                                                                               \
    "_ZN2at6native24index_elementwise_kernelILi128ELi4EZNS0_16flip_kernel_implINS0_10Opaq" \
    "ueTypeILi4EEEEEvRNS_14TensorIteratorEEUliE_EEvlT1_"
#define ENDS                                                                               \
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_9MinMaxOpsIffiEEjfLi4ELi4E" \
    "EEEEvT1_"
#define JOIN                                                                               \
    "_ZN2at6native12_GLOBAL__N_135CatArrayBatchedCopy_alignedK_contigINS1_10OpaqueTypeILj" \
    "4EEEjLi2ELi128ELi1ELi16EEEvPT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_EXT3_EEENS1_" \
    "16TensorSizeStrideIS8_Lj4EEEiS8_"
#define JOIN_WIDE                                                                          \
    "_ZN2at6native12_GLOBAL__N_130CatArrayBatchedCopy_vectorizedINS1_10OpaqueTypeILj4EEEj" \
    "Li2ELi128ELi1ELi16ELi4EEEvPcNS1_25CatArrInputTensorMetadataIT_T0_XT2_EXT3_EEENS1_16T" \
    "ensorSizeStrideIS8_Lj4EEEiS8_"
#define DROP                                                                               \
    "_ZN2at6native12_GLOBAL__N_120fused_dropout_kernelIffjLi1ELi1EbEEvNS_4cuda6detail10Te" \
    "nsorInfoIKT_T1_EENS5_IS6_S8_EENS5_IT4_S8_EES8_T0_NS_15PhiloxCudaStateE"
#define COMPARE                                                                            \
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_21compare_scalar_kernelIfEEvRN" \
    "S_18TensorIteratorBaseENS0_12_GLOBAL__N_16OpTypeET_EUlfE_St5arrayIPcLm2EELb0EEEviT0_" \
    "T1_"
#define SELECT                                                                             \
    "_ZN2at6native12_GLOBAL__N_121indexSelectSmallIndexIfljLi2ELi2ELin2EEEvNS_4cuda6detai" \
    "l10TensorInfoIT_T1_EENS5_IKS6_S7_EENS5_IKT0_S7_EEiiS7_l"
#define UPSAMPLE                                                                           \
    "_ZN2at6native12_GLOBAL__N_129upsample_bilinear2d_out_frameIffEEviT0_S3_bN5torch10hea" \
    "deronly6detail27GenericPackedTensorAccessorINS6_14TensorAccessorIN3c108ArrayRefIlEEK" \
    "T_Lm3ENS5_16DefaultPtrTraitsElEENS_6detail16IndexBoundsCheckILm4ElEESD_Lm4ESE_lEENS7" \
    "_INS8_ISB_SC_Lm3ESE_lEESI_SC_Lm4ESE_lEE"
#define CELL                                                                               \
    "_ZN2at6native12_GLOBAL__N_16kernel17lstm_cell_forwardIffiLi1EEEvNS_4cuda6detail10Ten" \
    "sorInfoIT_T1_EES9_S9_S9_S9_S9_S9_S9_S8_S8_"

static const char ptx[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry typeless(.param .u64 .ptr a, .param .u64 n) { ret; }\n"
        ".visible .entry by_value(.param .align 8 .b8 s[32]) { ret; }\n"
        /* add(float const *, float const *, float *, int) */
        ".visible .entry _Z3addPKfS0_Pfi(.param .u64 a, .param .u64 b, .param .u64 c,\n"
        "    .param .u32 n) { ret; }\n"
        /* count(float const *, int *, long *, bool *) */
        ".visible .entry _Z5countPKfPiPlPb(.param .u64 a, .param .u64 b, .param .u64 c,\n"
        "    .param .u64 d) { ret; }\n"
        /* elementwise_kernel<std::array<char *, 2>>(int, std::array<char *, 2>) */
        ".visible .entry _Z18elementwise_kernelISt5arrayIPcLm2EEEviT_(.param .u32 n,\n"
        "    .param .align 8 .b8 a[16]) { ret; }\n"
        /* cleanup(at::native::TensorListAddresses) */
        ".visible .entry _Z7cleanupN2at6native19TensorListAddressesE(.param .align 8 .b8 a[24])\n"
        "{ ret; }\n"
        /* apply(TensorListMetadata<2>, UnaryOpFunctor<float, 2, 1, 1>), names of at::native */
        ".visible .entry _ZN2at6native12_GLOBAL__N_15applyINS1_18TensorListMetadataILi2EEENS1_"
        "14UnaryOpFunctorIfLi2ELi1ELi1EEEEEvT_T0_(.param .align 8 .b8 a[3144],\n"
        "    .param .align 1 .b8 f[1]) { ret; }\n"
        /* cat(float *, CatArrInputTensorMetadata<float, unsigned, 3, 1>) */
        ".visible .entry _ZN2at6native12_GLOBAL__N_13catINS1_25CatArrInputTensorMetadataIfjLi3E"
        "Li1EEEEEvPfT_(.param .u64 a, .param .align 8 .b8 b[32]) { ret; }\n"
        ".visible .entry " GATHER "(.param .u32 n, .param .align 8 .b8 c[688]) { ret; }\n"
        ".visible .entry " ROWS_GATHER
        "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 d,\n"
        "    .param .u64 e, .param .u64 f, .param .u64 g, .param .u64 h, .param .u8 i) { ret; }\n"
        ".visible .entry " SOFTMAX "(.param .u64 a, .param .u64 b, .param .u32 c, .param .u32 d,\n"
        "    .param .u32 e, .param .u64 f, .param .u32 g, .param .u8 h) { ret; }\n"
        ".visible .entry " SOFTMAX_BACK "(.param .u64 a, .param .u64 b, .param .u64 c,\n"
        "    .param .u32 d, .param .u32 e, .param .u32 f, .param .u64 g) { ret; }\n"
        ".visible .entry " LONG_SOFTMAX "(.param .u64 a, .param .u64 b, .param .u32 c) { ret; }\n"
        ".visible .entry " FLIP "(.param .u64 n, .param .align 8 .b8 c[520]) { ret; }\n"
        ".visible .entry " ENDS "(.param .align 8 .b8 r[1048]) { ret; }\n"
        ".visible .entry " JOIN "(.param .u64 a, .param .align 8 .b8 b[2752],\n"
        "    .param .align 4 .b8 s[32], .param .u32 d, .param .u32 e) { ret; }\n"
        ".visible .entry " JOIN_WIDE "(.param .u64 a, .param .align 8 .b8 b[2752],\n"
        "    .param .align 4 .b8 s[32], .param .u32 d, .param .u32 e) { ret; }\n"
        ".visible .entry " DROP "(.param .align 8 .b8 a[216], .param .align 8 .b8 b[216],\n"
        "    .param .align 8 .b8 c[216], .param .u32 d, .param .f32 e,\n"
        "    .param .align 8 .b8 f[32]) { ret; }\n"
        ".visible .entry " COMPARE "(.param .u32 n, .param .align 8 .b8 f[16],\n"
        "    .param .align 8 .b8 a[16]) { ret; }\n"
        ".visible .entry " SELECT "(.param .align 8 .b8 a[216], .param .align 8 .b8 b[216],\n"
        "    .param .align 8 .b8 c[216], .param .u32 d, .param .u32 e, .param .u32 f,\n"
        "    .param .u64 g) { ret; }\n"
        ".visible .entry " UPSAMPLE "(.param .u32 n, .param .f32 a, .param .f32 b, .param .u8 c,\n"
        "    .param .align 8 .b8 d[72], .param .align 8 .b8 e[72]) { ret; }\n"
        ".visible .entry " CELL "(.param .align 8 .b8 a[216], .param .align 8 .b8 b[216],\n"
        "    .param .align 8 .b8 c[216], .param .align 8 .b8 d[216], .param .align 8 .b8 e[216],\n"
        "    .param .align 8 .b8 f[216], .param .align 8 .b8 g[216], .param .align 8 .b8 h[216],\n"
        "    .param .u32 i, .param .u32 j) { ret; }\n"
        ".visible .entry " BROADCAST "(.param .align 8 .b8 a[16], .param .align 8 .b8 b[8],\n"
        "    .param .align 1 .b8 c[2], .param .u32 n) { ret; }\n"
        ".visible .entry " SUM_OF_ROWS "(.param .u64 a, .param .u64 b, .param .u32 c,\n"
        "    .param .u32 d, .param .u32 e, .param .u32 f, .param .u32 g, .param .u32 h) { ret; }\n"
        ".visible .entry " CHUNKS "(.param .u64 a, .param .u64 b, .param .u64 c,\n"
        "    .param .u64 d, .param .u64 e, .param .u64 f, .param .u64 g, .param .u64 h,\n"
        "    .param .u64 i, .param .u64 j, .param .u64 k) { ret; }\n"
        /* follow(float **, float *const *) */
        ".visible .entry _Z6followPPfPKS_(.param .u64 a, .param .u64 b) { ret; }\n";

static CUstream a, b;
static CUevent event;

/* The C++ library is what says the types of a name. */
static void set_up(void)
{
    if (!dlopen("libstdc++.so.6", RTLD_LAZY))
        SKIP("no libstdc++.so.6, which knows C++ names");
    sim_start();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
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

static CUresult launch_blocks(const char *name, unsigned x, unsigned y, void **params)
{
    return cuLaunchKernel(function(name), x, y, 1, 32, 1, 1, 0, NULL, params, NULL);
}

static CUresult launch(const char *name, CUstream stream, void **params)
{
    return cuLaunchKernel(function(name), 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static CUresult add(CUdeviceptr x, CUdeviceptr y, CUdeviceptr result, int n)
{
    void *params[] = {&x, &y, &result, &n};

    return launch("_Z3addPKfS0_Pfi", NULL, params);
}

static CUdeviceptr born(size_t size)
{
    CUdeviceptr ptr = sim_alloc(size);

    simcuda_witness_birth(ptr, size, SIMCUDA_NO_STREAM);
    return ptr;
}

/* ---- digests ---- */

TEST(what_it_writes_depends_on_its_name_its_numbers_and_what_it_reads)
{
    CUdeviceptr x[2], y, result[3];
    float first[2], other[2];

    set_up();
    y = born(4096);
    for (int i = 0; i < 2; i++) {
        x[i] = born((size_t)4096 << i);
        result[i] = born(512);
        CU(cuMemsetD32_v2(x[i], 0x3f800000, 64));
        CU(add(x[i], y, result[i], 64));
    }
    result[2] = born(512);
    CU(cuMemcpyDtoH_v2(first, result[0], sizeof(first)));
    CU(cuMemcpyDtoH_v2(other, result[1], sizeof(other)));
    CHECK(memcmp(first, other, sizeof(first))
            == 0); /* addresses and sizes of blocks do not count */
    CHECK(first[0] > 0.4F && first[0] < 2);
    CU(add(x[0], y, result[2], 65));
    CU(cuMemcpyDtoH_v2(other, result[2], sizeof(other)));
    CHECK(memcmp(first, other, sizeof(first)) != 0);
    CU(cuMemsetD32_v2(x[1], 0x40000000, 1));
    CU(add(x[1], y, result[2], 64));
    CU(cuMemcpyDtoH_v2(other, result[2], sizeof(other)));
    CHECK(memcmp(first, other, sizeof(first)) != 0);
}

/* Sums y and y into `result` on a. */
static void sum(CUdeviceptr y, CUdeviceptr result)
{
    int n = 64;
    void *params[] = {&y, &y, &result, &n};

    CU(launch("_Z3addPKfS0_Pfi", a, params));
}

/*
 * What a kernel reads is freed on its stream, and in the same place something else is born, while the kernel waits for its turn:
 * all that is behind it. `ones` and its successor are one block of the driver's, or of an allocator above it.
 */
static void read_late(bool is_drivers, float *ret_sum)
{
    CUdeviceptr ones, result = sim_alloc(512);
    uint32_t *gate;

    CU(cuMemHostAlloc((void **)&gate, sizeof(*gate), 0));
    if (is_drivers)
        CU(cuMemAllocAsync(&ones, MIB, a));
    else
        ones = sim_alloc(MIB);
    simcuda_witness_birth(ones, MIB, a);
    CU(cuMemsetD32Async(ones, 0x3f800000, 64, a));
    CU(cuStreamSynchronize(a));
    CU(cuStreamWaitValue32_v2(a, (CUdeviceptr)(uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
    sum(ones, result);
    simcuda_witness_death(ones, a);
    if (is_drivers)
        CU(cuMemFreeAsync(ones, a));
    else
        simcuda_witness_birth(ones, MIB, a);
    __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
    CU(cuStreamSynchronize(a));
    CU(cuMemcpyDtoH_v2(ret_sum, result, sizeof(*ret_sum)));
    if (!is_drivers) { /* and its successor has nothing of it */
        float first, again;

        sum(ones, result);
        CU(cuMemcpyDtoH_v2(&first, result, sizeof(first)));
        sum(sim_alloc(512), result);
        CU(cuMemcpyDtoH_v2(&again, result, sizeof(again)));
        CHECK(first == again);
    }
}

TEST(what_is_freed_or_given_out_again_behind_a_kernel_is_what_it_reads)
{
    CUdeviceptr ones, result;
    float right, got;

    set_up();
    ones = sim_alloc(MIB);
    result = sim_alloc(512);
    CU(cuMemsetD32_v2(ones, 0x3f800000, 64));
    sum(ones, result);
    CU(cuMemcpyDtoH_v2(&right, result, sizeof(right)));
    read_late(true, &got);
    CHECK(got == right);
    read_late(false, &got);
    CHECK(got == right);
}

TEST(integers_are_small_and_addresses_are_left_alone)
{
    CUdeviceptr x, ints, longs, bools, table;
    uint32_t counts[4];
    uint64_t wide[4], before = 0x123456789abcdef0, after;
    unsigned char flags[4];

    set_up();
    x = born(512);
    ints = born(512);
    longs = born(512);
    bools = born(512);
    table = born(512);
    void *params[] = {&x, &ints, &longs, &bools}, *tables[] = {&table, &table};
    CU(launch("_Z5countPKfPiPlPb", NULL, params));
    CU(cuMemcpyDtoH_v2(counts, ints, sizeof(counts)));
    CU(cuMemcpyDtoH_v2(wide, longs, sizeof(wide)));
    CU(cuMemcpyDtoH_v2(flags, bools, sizeof(flags)));
    for (int i = 0; i < 4; i++) {
        CHECK(counts[i] < 8);
        CHECK(wide[i] < 8);
        CHECK(flags[i] < 2);
    }
    CU(cuMemcpyHtoD_v2(table, &before, sizeof(before)));
    CU(launch("_Z6followPPfPKS_", NULL, tables));
    CU(cuMemcpyDtoH_v2(&after, table, sizeof(after)));
    CHECK_EQ(after, before);
}

TEST(a_block_of_any_size_holds_the_same_digest)
{
    CUdeviceptr x, result[2], sum[2];
    float sums[2];

    set_up();
    x = born(512);
    result[0] = born(4);   /* what one framework asks for, */
    result[1] = born(512); /* and another, for a number */
    for (int i = 0; i < 2; i++) {
        sum[i] = born(512);
        CU(add(x, x, result[i], 1));
        CU(add(result[i], x, sum[i], 1));
        CU(cuMemcpyDtoH_v2(&sums[i], sum[i], sizeof(sums[i])));
    }
    CHECK(sums[0] == sums[1]);
}

/* The result is not what stood there before, whatever a former tenant left, and says what was gathered. */
TEST(a_gather_writes_its_result_and_reads_the_rest)
{
    uint64_t closure[86] = {0};
    CUdeviceptr source, index, result[2];
    float got[2], before, after;
    int n = 1;
    void *params[] = {&n, closure};

    set_up();
    source = born(512);
    index = born(512);
    CU(add(source, source, source, 1));
    CU(add(source, source, index, 1));
    for (int i = 0; i < 2; i++) {
        result[i] = born(512);
        CU(cuMemsetD32_v2(result[i], (unsigned)i, 128)); /* as a former tenant left it */
        closure[608 / 8] = index;
        closure[632 / 8] = result[i];
        closure[656 / 8] = source;
        CU(launch(GATHER, NULL, params));
        CU(cuMemcpyDtoH_v2(&got[i], result[i], sizeof(got[i])));
    }
    CHECK(got[0] == got[1] && got[0] != 0);
    CU(add(index, index, source, 1));
    CU(launch(GATHER, NULL, params));
    CU(cuMemcpyDtoH_v2(&after, result[1], sizeof(after)));
    CHECK(after != got[1]);

    long long numbers[4] = {0};
    char flag = 0;
    void *rows[] = {&result[0], &source, &index, &n, &numbers[0], &numbers[1], &numbers[2],
            &numbers[3], &flag};
    CU(cuMemcpyDtoH_v2(&before, source, sizeof(before)));
    CU(launch(ROWS_GATHER, NULL, rows));
    CU(cuMemcpyDtoH_v2(&after, source, sizeof(after)));
    CHECK(before == after);
}

/* All of a result of rows is written, and nothing behind it, whatever stood there and wherever it lies. */
static void write_rows(CUdeviceptr result, CUdeviceptr source, unsigned which, float *ret_got)
{
    int rows = 50, columns = 6, none = 0;
    CUdeviceptr no_mask = 0;
    char flag = 0;
    void *forward[] = {&result, &source, &rows, &columns, &columns, &no_mask, &none, &flag};
    void *backward[] = {&result, &source, &source, &rows, &columns, &columns, &no_mask};
    void *by_blocks[] = {&result, &source, &columns};

    CU(cuMemsetD32_v2(result, which, 512)); /* as a former tenant left it */
    CU(launch(SOFTMAX, NULL, forward));
    CU(cuMemcpyDtoH_v2(ret_got, result, 300 * sizeof(float)));
    CU(launch(SOFTMAX_BACK, NULL, backward));
    CU(cuMemcpyDtoH_v2(ret_got + 300, result, 300 * sizeof(float)));
    CU(launch_blocks(LONG_SOFTMAX, (unsigned)rows, 1, by_blocks));
    CU(cuMemcpyDtoH_v2(ret_got + 600, result, 301 * sizeof(float)));
}

TEST(a_softmax_writes_all_of_its_rows_and_nothing_else)
{
    static float got[2][901];
    CUdeviceptr source;
    float behind = 0;

    set_up();
    source = born(512);
    CU(add(source, source, source, 1));
    write_rows(born(2048), source, 1, got[0]);
    write_rows(born(4096) + 1024, source, 2, got[1]);
    CHECK(memcmp(got[0], got[1], 900 * sizeof(float)) == 0);
    for (int i = 0; i < 900; i++)
        REQUIRE(got[0][i] > 0.1F);
    memcpy(&behind, &(unsigned){1}, sizeof(behind));
    CHECK(memcmp(&got[0][900], &behind, sizeof(behind)) == 0);
}

/* ---- results of PyTorch's kernels end where their tensors do ---- */

#define BEFORE 0x11111111U /* as a former tenant left it */

static CUdeviceptr result_at, source_at;

static void ready(void)
{
    set_up();
    source_at = born(8192);
    result_at = born(8192);
    CU(cuMemsetD32_v2(source_at, 0x3f800000, 512));
}

/* After a launch exactly the first `bytes` of the result are new: no word is what stood there, and the next one is. */
static bool writes(const char *name, uint64_t bytes, void **params)
{
    uint32_t words[2048];
    uint64_t i;

    CU(cuMemsetD32_v2(result_at, BEFORE, 2048));
    CU(launch(name, NULL, params));
    CU(cuMemcpyDtoH_v2(words, result_at, sizeof(words)));
    for (i = 0; i < 2048 && words[i] != BEFORE; i++)
        ;
    return i == (bytes + 3) / 4;
}

/* A tensor of the dimensions `x` and `y`, as a TensorInfo with indices of 32 bits. */
static void describe(void *info, CUdeviceptr at, uint32_t x, uint32_t y)
{
    uint32_t sizes[2] = {x, y}, dims = 2;

    memset(info, 0x55, 216); /* what is not used is not initialised */
    memcpy(info, &at, sizeof(at));
    memcpy((char *)info + 8, sizes, sizeof(sizes));
    memcpy((char *)info + 208, &dims, sizeof(dims));
}

TEST(a_flip_is_told_where_its_result_ends)
{
    uint64_t closure[65], n = 300;
    int32_t dims = 2, sizes[2] = {6, 50}, strides[2] = {-4, -24};
    void *params[] = {&n, closure};

    ready();
    memset(closure, 0x55, sizeof(closure));
    memcpy(closure, &dims, sizeof(dims));
    for (int d = 0; d < 2; d++) {
        memcpy((char *)closure + 4 + 12 * d, &sizes[d], sizeof(sizes[d]));
        memcpy((char *)closure + 304 + 8 * d, &strides[d], sizeof(strides[d]));
    }
    closure[63] = result_at + 299 * 4;
    closure[64] = source_at;
    CHECK(writes(FLIP, 1200, params));
}

TEST(a_reduction_writes_as_many_results_as_its_plan_says_wherever_that_stands)
{
    int32_t plan[16] = {4, 900, 300, 1, 512, 1, 0, 0, 0, 0, 0, 32, 16, 512, 0, 1};
    uint64_t op[131];
    void *params[] = {op};

    ready();
    for (size_t at = 8; at <= 12; at += 4) {
        memset(op, 0x55, sizeof(op));
        memcpy((char *)op + at, plan, sizeof(plan));
        op[984 / 8] = source_at;
        op[992 / 8] = result_at;
        op[1000 / 8] = 0;
        CHECK(writes(ENDS, 1200, params));
        op[1000 / 8] = result_at; /* the second of two */
        op[992 / 8] = 0;
        CHECK(writes(ENDS, 1200, params));
    }
}

TEST(cat_writes_as_much_as_its_dimensions_say)
{
    uint64_t inputs[344] = {0};
    uint32_t sizes[8] = {50, 6, 0x55555555, 0x55555555}, dimension = 0, stride = 0;
    void *params[] = {&result_at, inputs, sizes, &dimension, &stride};

    ready();
    inputs[0] = source_at;
    CHECK(writes(JOIN, 1200, params));
    sizes[1] = 2; /* of 16 bytes each */
    CHECK(writes(JOIN_WIDE, 1600, params));
}

TEST(a_comparison_writes_a_byte_for_each_number)
{
    int n = 300;
    uint64_t functor[2] = {0}, addresses[2];
    void *params[] = {&n, functor, addresses};

    ready();
    addresses[0] = result_at;
    addresses[1] = source_at;
    CHECK(writes(COMPARE, 300, params));
}

TEST(a_result_that_is_described_is_written_as_far_as_it_goes)
{
    uint64_t in[27], out[27], mask[27], state[4] = {0}, accessor[2][9] = {{0}};
    uint32_t n = 300, inner = 6;
    float p = 0.5F;
    char flag = 0;
    void *drop[] = {in, out, mask, &n, &p, state};
    void *select[] = {out, in, mask, &n, &n, &inner, state};
    void *upsample[] = {&n, &p, &p, &flag, accessor[0], accessor[1]};
    const uint64_t sizes[4] = {2, 3, 10, 5};

    ready();
    describe(in, source_at, 50, 6);
    describe(out, result_at, 50, 6);
    describe(mask, 0, 50, 6);
    CHECK(writes(DROP, 1200, drop));
    describe(out, result_at, 1, 6); /* the dimension that is selected is left out */
    describe(mask, source_at, 50, 1);
    CHECK(writes(SELECT, 1200, select));
    accessor[0][0] = source_at;
    accessor[1][0] = result_at;
    memcpy(&accessor[1][1], sizes, sizeof(sizes));
    CHECK(writes(UPSAMPLE, 1200, upsample));
}

TEST(what_paddle_gives_in_arrays_is_read_and_written)
{
    CUdeviceptr in[2], out[1];
    char shapes[2] = {0};
    uint32_t n = 300, other = 7;
    void *sum[] = {in, out, shapes, &n};
    void *rows[] = {&source_at, &result_at, &other, &other, &other, &other, &n, &other};

    ready();
    in[0] = in[1] = source_at;
    out[0] = result_at;
    CHECK(writes(BROADCAST, 1200, sum));
    CHECK(writes(SUM_OF_ROWS, 1200, rows));
}

TEST(a_cat_of_chunks_counts_bytes_and_leaves_its_tables_alone)
{
    uint64_t all = 1200, chunk = 600, ratio = 1;
    uint32_t table = 0;
    void *params[] = {&source_at, &result_at, &source_at, &source_at, &source_at, &source_at,
            &source_at, &source_at, &all, &chunk, &ratio};

    ready();
    CHECK(writes(CHUNKS, all, params));
    CU(cuMemcpyDtoH_v2(&table, source_at, sizeof(table)));
    CHECK_EQ(table, 0x3f800000);
}

TEST(what_a_cell_of_an_lstm_reads_is_left_alone)
{
    static uint64_t info[8][27];
    int size = 6, total = 300;
    void *params[] = {
            info[0], info[1], info[2], info[3], info[4], info[5], info[6], info[7], &size, &total};

    ready();
    for (int i = 0; i < 8; i++)
        describe(info[i], 0, 50, 6);
    for (int i = 0; i < 5; i++)
        describe(info[i], result_at, 50, 6);
    CHECK(writes(CELL, 0, params));
    describe(info[7], result_at, 50, 6);
    CHECK(writes(CELL, 1200, params));
}

TEST(of_a_list_of_results_as_many_are_written_as_there_are_blocks)
{
    uint64_t results[3] = {0}, words[3];
    void *params[] = {results};

    set_up();
    for (int i = 0; i < 3; i++) /* the last may be what the stack held before */
        results[i] = born(512);
    CU(launch_blocks("_Z7cleanupN2at6native19TensorListAddressesE", 2, 1, params));
    for (int i = 0; i < 3; i++)
        CU(cuMemcpyDtoH_v2(&words[i], results[i], sizeof(words[i])));
    CHECK(words[0] != 0);
    CHECK(words[1] != 0);
    CHECK(words[0] != words[1]);
    CHECK_EQ(words[2], 0);
}

#define LISTS                                                          \
    "_ZN2at6native12_GLOBAL__N_15applyINS1_18TensorListMetadataILi2EE" \
    "ENS1_14UnaryOpFunctorIfLi2ELi1ELi1EEEEEvT_T0_"
#define CAT                                                                \
    "_ZN2at6native12_GLOBAL__N_13catINS1_25CatArrInputTensorMetadataIfjLi" \
    "3ELi1EEEEEvPfT_"

/* TensorListMetadata<2> of PyTorch: two lists, of which this functor reads the first and writes the second. */
struct lists {
    uint64_t addresses[2][64];
    int64_t elements[64];
    unsigned char tensor_of_block[320];
    int part_of_block[320];
    int first;
};

TEST(of_lists_of_tensors_those_are_read_and_written_that_blocks_name)
{
    struct lists lists = {.elements = {4, 100, 4}, .tensor_of_block = {0, 1, 1, 2}};
    char functor = 0;
    void *params[] = {&lists, &functor};
    uint32_t before[4], after[4], behind;

    set_up();
    for (int i = 0; i < 3; i++) {
        lists.addresses[0][i] = born(512);
        lists.addresses[1][i] = born(512);
        CU(cuMemsetD32_v2(lists.addresses[0][i], 0x3f800000, 64));
    }
    CU(launch_blocks(LISTS, 3, 1, params)); /* the third tensor is what the launch before used */
    CU(cuMemcpyDtoH_v2(before, lists.addresses[1][1], sizeof(before)));
    CHECK(before[0] != 0);
    CU(cuMemcpyDtoH_v2(&behind, lists.addresses[1][1] + 99 * 4, sizeof(behind)));
    CHECK(behind != 0);
    CU(cuMemcpyDtoH_v2(&behind, lists.addresses[1][1] + (CUdeviceptr)100 * 4, sizeof(behind)));
    CHECK_EQ(behind, 0);
    CU(cuMemcpyDtoH_v2(&behind, lists.addresses[1][2], sizeof(behind)));
    CHECK_EQ(behind, 0);
    CU(cuMemsetD32_v2(lists.addresses[0][2], 0x40000000, 64)); /* is not read */
    CU(launch_blocks(LISTS, 3, 1, params));
    CU(cuMemcpyDtoH_v2(after, lists.addresses[1][1], sizeof(after)));
    CHECK(memcmp(before, after, sizeof(before)) == 0);
    CU(cuMemsetD32_v2(lists.addresses[0][1], 0x40000000, 64)); /* is */
    CU(launch_blocks(LISTS, 3, 1, params));
    CU(cuMemcpyDtoH_v2(after, lists.addresses[1][1], sizeof(after)));
    CHECK(memcmp(before, after, sizeof(before)) != 0);
}

TEST(cat_reads_as_many_tensors_as_the_grid_has_rows)
{
    CUdeviceptr result;
    uint64_t inputs[4] = {0}, sums[3];
    void *params[] = {&result, inputs};

    set_up();
    result = born(512);
    for (int i = 0; i < 3; i++) {
        inputs[i] = born(512);
        CU(cuMemsetD32_v2(inputs[i], 0x3f800000, 64));
    }
    for (int i = 0; i < 3; i++) {
        CU(launch_blocks(CAT, 8, 2, params));
        CU(cuMemcpyDtoH_v2(&sums[i], result, sizeof(sums[i])));
        CU(cuMemsetD32_v2(
                inputs[2 - i], 0x40000000, 64)); /* the third is not read, the second is */
    }
    CHECK_EQ(sums[0], sums[1]);
    CHECK(sums[1] != sums[2]);
}

TEST(it_writes_no_further_than_its_block_and_the_next_line)
{
    CUdeviceptr x, result;
    uint64_t behind;

    set_up();
    x = born(512);
    result = born(1024);
    CU(add(x, x, result + 260, 4));
    CU(cuMemcpyDtoH_v2(&behind, result + 504, sizeof(behind)));
    CHECK(behind != 0);
    CU(cuMemcpyDtoH_v2(&behind, result + 512, sizeof(behind)));
    CHECK_EQ(behind, 0);
    CU(cuMemcpyDtoH_v2(&behind, result + 252, sizeof(behind)));
    CHECK_EQ((uint32_t)behind, 0);
}

/* Two mappings of 2 MiB, one behind the other. */
static CUdeviceptr two_mappings(void)
{
    static const CUmemAllocationProp prop = {
            .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    static const CUmemAccessDesc both = {
            {CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr ptr;

    CU(cuMemAddressReserve(&ptr, 4 * MIB, 0, 0, 0));
    for (size_t at = 0; at < 4 * MIB; at += 2 * MIB) {
        CU(cuMemCreate(&handle, 2 * MIB, &prop, 0));
        CU(cuMemMap(ptr + at, 2 * MIB, 0, handle, 0));
    }
    CU(cuMemSetAccess(ptr, 4 * MIB, &both, 1));
    return ptr;
}

TEST(a_tensor_may_lie_in_several_mappings)
{
    CUdeviceptr in[2], out[2];
    uint32_t ends[2];
    int n = 3 * (int)MIB;

    set_up();
    in[0] = sim_alloc(4 * MIB);
    out[0] = sim_alloc(4 * MIB);
    in[1] = two_mappings();
    out[1] = two_mappings();
    for (int i = 0; i < 2; i++) {
        CUdeviceptr tensors[] = {out[i], in[i]};
        void *params[] = {&n, tensors};

        CU(cuMemsetD8_v2(in[i], 1, 2 * MIB + 512));
        CU(cuMemsetD8_v2(in[i] + MIB + MIB / 2, 7, MIB)); /* so that a piece crosses the border */
        tensors[1] += MIB + MIB / 2;
        CU(launch("_Z18elementwise_kernelISt5arrayIPcLm2EEEviT_", NULL, params));
        CU(cuMemcpyDtoH_v2(&ends[i], out[i] + (unsigned)n - 4, 4));
    }
    CHECK(ends[0] != 0);
    CHECK_EQ(ends[1], ends[0]);
}

/* ---- faults ---- */

TEST(a_pointer_to_nothing_is_an_access)
{
    CUdeviceptr gone;

    set_up();
    gone = sim_alloc(4 * MIB);
    CU(cuMemFree_v2(gone));
    CU(add(gone, 0, 0, 1));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(one_past_the_end_and_null_are_none)
{
    CUdeviceptr block;

    set_up();
    block = sim_alloc(4 * MIB);
    CU(add(block + 4 * MIB, 0, 0, 1));
    CU(cuCtxSynchronize());
}

TEST(a_word_that_points_to_nothing_is_none)
{
    uint64_t words[4] = {0};
    void *params[] = {words};

    set_up();
    words[0] = sim_alloc(4 * MIB);
    words[2] = sim_alloc(4 * MIB);
    CU(cuMemFree_v2(words[2])); /* what the stack held before */
    CU(launch("by_value", NULL, params));
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().faults, 0);
}

/* ---- the oracle; each case is a child of its own ---- */

static CUdeviceptr segment;

static void start_late(void)
{
    sim_env("SIMCUDA_SCHED", "lazy");
    set_up();
    segment = sim_alloc(8 * MIB);
}

static void use_by_word(CUstream stream)
{
    uint64_t words[4] = {0, segment + 512};
    void *params[] = {words};

    CU(launch("by_value", stream, params));
}

static void reuse_without_a_stream(void)
{
    start_late();
    simcuda_witness_birth(segment, MIB, SIMCUDA_NO_STREAM);
    use_by_word(a);
    simcuda_witness_death(segment, SIMCUDA_NO_STREAM);
    simcuda_witness_birth(segment, MIB, SIMCUDA_NO_STREAM);
}

static void reuse_on_another_stream(void)
{
    start_late();
    simcuda_witness_birth(segment, MIB, a);
    use_by_word(a);
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment, MIB, b);
}

/* Stream a waits for the kernel on b before the free: the reuse on a third stream must wait for both. */
static void reuse_behind_one_of_two_streams(void)
{
    CUstream third;

    start_late();
    third = sim_stream(CU_STREAM_NON_BLOCKING);
    simcuda_witness_birth(segment, MIB, a);
    use_by_word(b);
    CU(cuEventRecord(event, b));
    CU(cuStreamWaitEvent(a, event, 0));
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment, MIB, third);
}

static void reuse_through_a_typeless_pointer(void)
{
    uint64_t n = 4;
    void *params[] = {&segment, &n};

    start_late();
    simcuda_witness_birth(segment, MIB, a);
    CU(launch("typeless", a, params));
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment, MIB, b);
}

TEST(the_oracle_sees_words_of_parameters)
{
    CHECK_EQ(sim_in_child(reuse_without_a_stream), SIMCUDA_ORACLE_STATUS);
    CHECK_EQ(sim_in_child(reuse_on_another_stream), SIMCUDA_ORACLE_STATUS);
    CHECK_EQ(sim_in_child(reuse_behind_one_of_two_streams), SIMCUDA_ORACLE_STATUS);
    CHECK_EQ(sim_in_child(reuse_through_a_typeless_pointer), SIMCUDA_ORACLE_STATUS);
}

/* The kernel on b is not ordered before the free on a: it does not touch the block, its structure only names it. */
static void stale_word_of_another_stream(void)
{
    start_late();
    simcuda_witness_birth(segment, MIB, a);
    use_by_word(b);
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment, MIB, a);
    CU(cuCtxSynchronize());
}

static void stale_word_of_a_dead_block(void)
{
    CUdeviceptr other;

    start_late();
    other = sim_alloc(4 * MIB);
    CU(cuMemFree_v2(segment));
    use_by_word(b);
    simcuda_witness_birth(other, 4 * MIB, a);
    CU(cuCtxSynchronize());
}

/* The allocator under test has the storage still, so the address counts; but nobody lives there. */
static void stale_word_of_a_tenant_that_left(void)
{
    start_late();
    simcuda_witness_birth(segment, MIB, SIMCUDA_NO_STREAM);
    simcuda_witness_death(segment, SIMCUDA_NO_STREAM);
    use_by_word(a);
    simcuda_witness_birth(segment, MIB, SIMCUDA_NO_STREAM);
    CU(cuCtxSynchronize());
}

static void ordered_reuse(void)
{
    start_late();
    simcuda_witness_birth(segment, MIB, a);
    use_by_word(b);
    CU(cuEventRecord(event, b));
    CU(cuStreamWaitEvent(a, event, 0));
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment, MIB, a);
    CU(cuCtxSynchronize());
}

static void stale_word_of_a_graph(void)
{
    CUgraph graph;
    CUgraphExec exec;

    start_late();
    simcuda_witness_birth(segment, MIB, a);
    CU(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    use_by_word(a);
    CU(cuStreamEndCapture(a, &graph));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment, MIB, b);
    CU(cuGraphLaunch(exec, a));
    CU(cuCtxSynchronize());
}

TEST(a_stale_word_is_no_premature_reuse)
{
    CHECK_EQ(sim_in_child(stale_word_of_another_stream), 0);
    CHECK_EQ(sim_in_child(stale_word_of_a_dead_block), 0);
    CHECK_EQ(sim_in_child(stale_word_of_a_tenant_that_left), 0);
    CHECK_EQ(sim_in_child(ordered_reuse), 0);
    CHECK_EQ(sim_in_child(stale_word_of_a_graph), 0);
}
