/* SPDX-License-Identifier: MIT */
/* Digests: what a run can compare, whoever hands out the memory. */
#include "tests/unit/sim/sim_test.h"

#include <math.h>

static const char digest_ptx[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry kedge_digest(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d,\n"
        "    .param .u64 e, .param .u64 f, .param .u64 g) { ret; }\n";

static CUfunction digest_function(void)
{
    static CUmodule module;
    CUfunction function;

    if (!module)
        CU(cuModuleLoadData(&module, digest_ptx));
    CU(cuModuleGetFunction(&function, module, "kedge_digest"));
    return function;
}

static void digest(CUdeviceptr dst, uint64_t dst_bytes, CUdeviceptr a, uint64_t a_bytes,
        CUdeviceptr b, uint64_t b_bytes, uint64_t seed)
{
    void *params[] = {&dst, &dst_bytes, &a, &a_bytes, &b, &b_bytes, &seed};

    CU(cuLaunchKernel(digest_function(), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

static uint64_t read_back(CUdeviceptr ptr)
{
    uint64_t word;

    CU(cuMemcpyDtoH_v2(&word, ptr, sizeof(word)));
    return word;
}

/* As the simulated runtime does. */
static CUdeviceptr born(size_t size)
{
    CUdeviceptr ptr = sim_alloc(size);

    simcuda_witness_birth(ptr, size, SIMCUDA_NO_STREAM);
    return ptr;
}

TEST(a_digest_depends_on_what_was_written_and_on_no_address)
{
    CUdeviceptr in[2], out[2];
    uint64_t first, second;

    sim_start();
    for (int i = 0; i < 2; i++) {
        in[i] = born(4096 + 4096 * (size_t)i);
        out[i] = born(512);
        CU(cuMemsetD32_v2(in[i], 7, 256));
        digest(out[i], 512, in[i], 1024, 0, 0, 1);
    }
    first = read_back(out[0]);
    CHECK_EQ(read_back(out[1]), first);
    CU(cuMemsetD32_v2(in[1], 8, 1));
    digest(out[1], 512, in[1], 1024, 0, 0, 1);
    second = read_back(out[1]);
    CHECK(second != first);
    digest(out[1], 512, in[1], 1024, 0, 0, 2);
    CHECK(read_back(out[1]) != second);
}

TEST(memory_that_nobody_wrote_does_not_count)
{
    CUdeviceptr in, out;
    uint64_t fresh;

    sim_start();
    in = born(8192);
    out = born(512);
    digest(out, 512, in, 8192, 0, 0, 1);
    fresh = read_back(out);
    CU(cuMemsetD8_v2(in, 9, 8192)); /* of a tenant that leaves */
    simcuda_witness_death(in, SIMCUDA_NO_STREAM);
    simcuda_witness_birth(in, 8192, SIMCUDA_NO_STREAM);
    digest(out, 512, in, 8192, 0, 0, 1);
    CHECK_EQ(read_back(out), fresh);
    CU(cuMemsetD8_v2(in + 4096, 9, 4096)); /* not where it begins to read */
    digest(out, 512, in, 8192, 0, 0, 1);
    CHECK_EQ(read_back(out), fresh);
}

TEST(a_reader_keeps_to_what_one_operation_wrote)
{
    CUdeviceptr in, out;
    uint64_t four;

    sim_start();
    in = born(4096);
    out = born(512);
    CU(cuMemsetD8_v2(in, 3, 4096)); /* an older tensor of the same block */
    CU(cuMemsetD32_v2(in, 5, 1));   /* a new one, of 4 bytes */
    digest(out, 512, in, 4096, 0, 0, 1);
    four = read_back(out);
    CU(cuMemsetD8_v2(in + 4, 6, 4092));
    digest(out, 512, in, 4096, 0, 0, 1);
    CHECK_EQ(read_back(out), four);
}

TEST(a_copy_within_the_device_takes_what_is_known_along)
{
    CUdeviceptr in, copy, out;
    uint64_t original;

    sim_start();
    in = born(4096);
    copy = born(4096);
    out = born(512);
    CU(cuMemsetD8_v2(in, 3, 100));
    CU(cuMemsetD8_v2(copy, 1, 4096));
    CU(cuMemcpyDtoD_v2(copy, in, 4096));
    digest(out, 512, in, 4096, 0, 0, 1);
    original = read_back(out);
    digest(out, 512, copy, 4096, 0, 0, 1);
    CHECK_EQ(read_back(out), original);
}

TEST(content_that_was_in_pinned_memory_meanwhile_is_what_it_was)
{
    CUdeviceptr in, out;
    uint64_t original, whole;
    unsigned char *host, pageable[4096];

    sim_start();
    in = born(4096);
    out = born(512);
    CU(cuMemHostAlloc((void **)&host, 4096, 0));
    CU(cuMemsetD8_v2(in, 3, 4096));
    digest(out, 512, in, 4096, 0, 0, 1);
    whole = read_back(out);
    CU(cuMemsetD8_v2(in, 3, 100)); /* two pieces of the same bytes */
    digest(out, 512, in, 4096, 0, 0, 1);
    original = read_back(out);
    CHECK(original != whole);
    CU(cuMemcpyDtoH_v2(host, in, 4096));
    CU(cuMemsetD8_v2(in, 1, 4096));
    CU(cuMemcpyHtoD_v2(in, host, 4096));
    digest(out, 512, in, 4096, 0, 0, 1);
    CHECK_EQ(read_back(out), original);
    host[4095] = 4; /* by now it is the host's */
    memcpy(pageable, host, sizeof(pageable));
    CU(cuMemcpyHtoD_v2(in, pageable, sizeof(pageable)));
    digest(out, 512, in, 4096, 0, 0, 1);
    whole = read_back(out);
    CU(cuMemcpyHtoD_v2(in, host, 4096));
    digest(out, 512, in, 4096, 0, 0, 1);
    CHECK_EQ(read_back(out), whole);
}

static float from_half(uint16_t half)
{
    int exponent = half >> 10 & 31;

    return exponent == 31 ? NAN : ldexpf((float)(1024 + (half & 1023)), exponent - 25);
}

TEST(a_digest_is_finite_and_small_as_every_float)
{
    static uint16_t halves[2048];
    CUdeviceptr out;
    int wrong = 0;

    sim_start();
    out = born(sizeof(halves));
    digest(out, sizeof(halves), 0, 0, 0, 0, 1);
    CU(cuMemcpyDtoH_v2(halves, out, sizeof(halves)));
    for (size_t i = 0; i < 2048; i++) {
        uint32_t wide = (uint32_t)halves[i] << 16;
        float single, brain;
        double both;
        memcpy(&brain, &wide, 4);
        memcpy(&single, &halves[i & ~(size_t)1], 4);
        memcpy(&both, &halves[i & ~(size_t)3], 8);
        wrong += !(from_half(halves[i]) >= 1 && from_half(halves[i]) < 2);
        wrong += !(brain >= 0.5F && brain < 2) + !(single >= 0.5F && single < 2);
        wrong += !(both > 0 && both < 2);
    }
    CHECK_EQ(wrong, 0);
}

TEST(a_large_digest_is_written_in_full_up_to_a_mebibyte_and_at_its_end)
{
    CUdeviceptr out;
    uint64_t size = 9 * MIB + 20;

    sim_start();
    out = born(size);
    digest(out, size, 0, 0, 0, 0, 1);
    CHECK(read_back(out + MIB - 8) != 0);
    CHECK(read_back(out + 2 * MIB) != 0);
    CHECK(read_back(out + size - 8) != 0);
    CHECK_EQ(read_back(out + 3 * MIB), 0);
}
