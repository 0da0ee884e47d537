/* SPDX-License-Identifier: MIT */
/* covers: params.c */
/* Kernels that come and go: what is known of their parameters is given back when nobody looks at it any more. */
#include "preload/driver/resolve.h"
#include "preload/hints/argcheck.h"
#include "preload/hints/params.h"
#include "preload/request/dispatch.h"
#include "tests/check.h"

#include "alloc/base/meta.h"

#define PARAMS  64u /* of each kernel: pointers */
#define KERNELS 256u

void *resolve_real[SLOT_COUNT];
static unsigned touches;
static unsigned params_now = PARAMS;
static size_t bytes_now = 8; /* of each parameter */
static bool refuses;         /* whatever is looked at */
static bool is_nested;       /* in the middle of a look, other kernels come and take all places */

bool resolve_has(enum resolve_slot slot)
{
    return slot == SLOT_cuFuncGetParamInfo;
}

static CUresult param_info(CUfunction func, size_t index, size_t *offset, size_t *size)
{
    (void)func;
    if (index >= params_now)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = index * bytes_now;
    *size = bytes_now;
    return CUDA_SUCCESS;
}

static void look_at_new_kernels(void)
{
    static CUdeviceptr value = 4096;
    void *list[PARAMS];

    for (unsigned i = 0; i < PARAMS; i++)
        list[i] = &value;
    params_forget();
    for (uintptr_t i = 1; i <= KERNELS; i++)
        CHECK(!params_touch((CUfunction)(i * 64), list, NULL, "test"));
}

bool argcheck_range(devptr_t ptr, uint64_t size, enum touch how, const char *what)
{
    (void)ptr;
    (void)size;
    (void)how;
    (void)what;
    touches++;
    if (is_nested) {
        is_nested = false;
        params_now = PARAMS - 1;
        look_at_new_kernels();
        look_at_new_kernels();
        params_now = PARAMS;
    }
    return refuses;
}

void argcheck_unseen(void)
{
    CHECK(false);
}

bool argcheck_untold(void)
{
    CHECK(false);
    return false;
}

bool argcheck_unknown_layout(const char *call)
{
    (void)call;
    CHECK(false);
    return false;
}

static void start(void)
{
    resolve_real[SLOT_cuFuncGetParamInfo] = (void *)(uintptr_t)param_info;
    look_at_new_kernels();
    look_at_new_kernels();
}

TEST(kernels_that_are_loaded_again_and_again_cost_nothing_more)
{
    uint64_t before;

    start();
    before = meta_bytes();
    for (int i = 0; i < 200; i++)
        look_at_new_kernels();
    CHECK_EQ(meta_bytes(), before);
    CHECK_EQ(touches, 202 * KERNELS * PARAMS);
}

/* A layout that is looked at stays as it is until the look ends. */
TEST(what_is_looked_at_is_not_given_back)
{
    start();
    touches = 0;
    is_nested = true;
    look_at_new_kernels();
    /* the first kernel of the outer round has what it had, the others what they have by then */
    CHECK_EQ(touches, PARAMS + (3 * KERNELS - 1) * (PARAMS - 1));
}

/* By a list or by a buffer: each parameter, as far as the buffer reaches, up to the first that stops the launch. */
TEST(both_ways_to_pass_parameters_are_looked_at)
{
    CUdeviceptr word[] = {4096, 8192, 12288, 16384};
    void *list[] = {&word[0], &word[1], &word[2], &word[3]};
    size_t size = 3 * sizeof word[0];
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, word, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
            CU_LAUNCH_PARAM_END};

    resolve_real[SLOT_cuFuncGetParamInfo] = (void *)(uintptr_t)param_info;
    params_now = 4;
    CHECK(!params_touch((CUfunction)64, list, NULL, "test"));
    CHECK_EQ(touches, 4);
    CHECK(!params_touch((CUfunction)64, NULL, extra, "test"));
    CHECK_EQ(touches, 4 + 3);
    size--; /* the third is cut */
    CHECK(!params_touch((CUfunction)64, NULL, extra, "test"));
    CHECK_EQ(touches, 4 + 3 + 2);
    refuses = true;
    CHECK(params_touch((CUfunction)64, list, NULL, "test"));
    CHECK(params_touch((CUfunction)64, NULL, extra, "test"));
    CHECK_EQ(touches, 4 + 3 + 2 + 2);
}

/* A structure is looked at word by word, and what lies behind it is no part of it. */
TEST(of_a_structure_only_whole_words_are_looked_at)
{
    static const struct {
        size_t size;
        unsigned words;
    } table[] = {{1, 0}, {7, 0}, {8, 1}, {9, 1}, {15, 1}, {16, 2}, {17, 2}, {23, 2}, {24, 3}};
    char bytes[32] = {0};
    void *list[] = {bytes};

    resolve_real[SLOT_cuFuncGetParamInfo] = (void *)(uintptr_t)param_info;
    params_now = 1;
    for (uintptr_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes, CU_LAUNCH_PARAM_BUFFER_SIZE,
                (void *)(uintptr_t)&table[i].size, CU_LAUNCH_PARAM_END};

        bytes_now = table[i].size;
        touches = 0;
        CHECK(!params_touch((CUfunction)((i + 1) * 64), list, NULL, "test"));
        CHECK_EQ(touches, table[i].words);
        CHECK(!params_touch((CUfunction)((i + 1) * 64), NULL, extra, "test"));
        CHECK_EQ(touches, 2 * table[i].words);
    }
}
