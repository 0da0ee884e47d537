/* SPDX-License-Identifier: MIT */
/* covers: arrays.c */
/* The size of an array from its description, where the driver does not tell it. */
#include "preload/driver/resolve.h"
#include "preload/graph/arrays.h"
#include "preload/request/dispatch.h"
#include "tests/check.h"

#define MB ((uint64_t)1 << 20)

enum {
    BLOCKS = 0x91, /* CU_AD_FORMAT_BC1_UNORM: half a byte for each element */
};

void *resolve_real[SLOT_COUNT];
static bool lacks_questions, may_ask = true;
static int device;
static unsigned questions;
static CUresult answer = CUDA_ERROR_INVALID_VALUE;

/* What was recorded last. */
static struct {
    enum memclass memclass;
    uint64_t key, size;
    int device;
} made;

bool resolve_has(enum resolve_slot slot)
{
    (void)slot;
    return !lacks_questions;
}

bool session_may_fence(void)
{
    return may_ask;
}

int dispatch_device(void)
{
    return device;
}

void dispatch_made(enum memclass memclass, uint64_t key, uint64_t size, int on)
{
    made.memclass = memclass;
    made.key = key;
    made.size = size;
    made.device = on;
}

static CUresult needs(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret_needs, uintptr_t handle, CUdevice on)
{
    questions++;
    CHECK_EQ(on, device);
    ret_needs->size = handle * MB;
    return answer;
}

static CUresult array_needs(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret_needs, CUarray array, CUdevice on)
{
    return needs(ret_needs, (uintptr_t)array, on);
}

static CUresult mipmap_needs(
        CUDA_ARRAY_MEMORY_REQUIREMENTS *ret_needs, CUmipmappedArray mipmap, CUdevice on)
{
    return needs(ret_needs, (uintptr_t)mipmap, on);
}

static void start(void)
{
    resolve_real[SLOT_cuArrayGetMemoryRequirements] = (void *)(uintptr_t)array_needs;
    resolve_real[SLOT_cuMipmappedArrayGetMemoryRequirements] = (void *)(uintptr_t)mipmap_needs;
}

#define CUBE    CUDA_ARRAY3D_CUBEMAP
#define LAYERED CUDA_ARRAY3D_LAYERED
#define SPARSE  CUDA_ARRAY3D_SPARSE
#define LATER   CUDA_ARRAY3D_DEFERRED_MAPPING
#define U8      CU_AD_FORMAT_UNSIGNED_INT8
#define S8      CU_AD_FORMAT_SIGNED_INT8
#define U16     CU_AD_FORMAT_UNSIGNED_INT16
#define S16     CU_AD_FORMAT_SIGNED_INT16
#define U32     CU_AD_FORMAT_UNSIGNED_INT32
#define S32     CU_AD_FORMAT_SIGNED_INT32
#define F16     CU_AD_FORMAT_HALF
#define F32     CU_AD_FORMAT_FLOAT

static const struct {
    size_t width, height, depth;
    int format;
    unsigned channels, flags, levels;
    uint64_t size, least;
} arrays[] = {
        {100, 0, 0, U8, 1, 0, 1, 100, 100},
        {100, 0, 0, S8, 2, 0, 1, 200, 200},
        {100, 3, 0, U16, 1, 0, 1, 600, 600},
        {100, 3, 0, S16, 0, 0, 1, 600, 600},
        {100, 3, 5, F16, 4, 0, 1, 12000, 12000},
        {100, 3, 5, U32, 1, 0, 1, 6000, 6000},
        {100, 3, 5, S32, 1, LAYERED, 1, 6000, 6000},
        {1, 1, 1, F32, 4, 0, 1, 16, 16},
        /* each level has half of each side, but not of the layers, and 1 at least */
        {8, 4, 2, U8, 1, 0, 2, 64 + 8, 64 + 8},
        {8, 4, 2, U8, 1, 0, 3, 64 + 8 + 2, 64 + 8 + 2},
        {8, 4, 2, U8, 1, 0, 4, 64 + 8 + 2 + 1, 64 + 8 + 2 + 1},
        {8, 4, 2, U8, 1, LAYERED, 3, 64 + 16 + 4, 64 + 16 + 4},
        {8, 8, 6, U8, 1, CUBE, 3, (64 + 16 + 4) * 6, (64 + 16 + 4) * 6},
        {9, 5, 3, U8, 1, 0, 2, 135 + 8, 135 + 8},
        /* as many levels as there are, whatever is asked for */
        {8, 4, 2, U8, 1, 0, 5, 75, 75},
        {8, 4, 2, U8, 1, 0, 33, 75, 75},
        {8, 4, 2, U8, 1, 0, UINT32_MAX, 75, 75},
        {8, 4, 2, U8, 1, 0, 0, 64, 64},
        {1, 1, 8, U8, 1, 0, 9, 8 + 4 + 2 + 1, 8 + 4 + 2 + 1},
        {1, 1, 8, U8, 1, LAYERED, 9, 8, 8},
        {1, 8, 0, U8, 1, 0, 9, 8 + 4 + 2 + 1, 8 + 4 + 2 + 1},
        {(size_t)1 << 33, 0, 0, U8, 1, 0, 64, ((uint64_t)1 << 34) - 1, ((uint64_t)1 << 34) - 1},
        /* of blocks and planes it is a guess */
        {64, 64, 0, BLOCKS, 1, 0, 1, 4096, 0},
        /* what is mapped later counts by itself */
        {100, 3, 0, U8, 1, SPARSE, 1, 0, 0},
        {100, 3, 0, U8, 1, LATER, 1, 0, 0},
        /* of what cannot be nothing is known */
        {SIZE_MAX, 2, 0, U8, 1, 0, 1, 0, 0},
        {SIZE_MAX / 4, 2, 8, U8, 1, 0, 1, 0, 0},
        {SIZE_MAX / 4, 1, 1, U32, 2, 0, 1, 0, 0},
};

TEST(an_array_is_as_large_as_its_levels)
{
    start();
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        const CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = arrays[i].width,
                .Height = arrays[i].height,
                .Depth = arrays[i].depth,
                .Format = (CUarray_format)arrays[i].format,
                .NumChannels = arrays[i].channels,
                .Flags = arrays[i].flags};
        bool is_mapped_later = (arrays[i].flags & (SPARSE | LATER)) != 0;

        arrays_made(NULL, (CUmipmappedArray)(uintptr_t)77, &desc, arrays[i].levels);
        CHECK_EQ(made.size, arrays[i].size);
        CHECK_EQ(made.memclass, is_mapped_later ? MEMCLASS_ARRAY : MEMCLASS_ARRAY_GUESS);
        CHECK_EQ(made.key, dispatch_key(MEMCLASS_ARRAY, 77));
        CHECK_EQ(made.device, 0);
        CHECK_EQ(arrays_least(&desc, arrays[i].levels), arrays[i].least);
    }
    CHECK_EQ(questions, 1); /* a driver that says no says no to all of them */
    CHECK_EQ(arrays_least(NULL, 1), 0);
}

TEST(a_flat_array_is_one_of_one_level_and_one_layer)
{
    const CUDA_ARRAY_DESCRIPTOR desc = {
            .Width = 10, .Height = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};

    start();
    arrays_made_flat((CUarray)(uintptr_t)5, &desc);
    CHECK_EQ(made.size, 320);
    CHECK_EQ(made.memclass, MEMCLASS_ARRAY_GUESS);
    CHECK_EQ(made.key, dispatch_key(MEMCLASS_ARRAY, 5));
    CHECK_EQ(arrays_least_flat(&desc), 320);
    CHECK_EQ(arrays_least_flat(NULL), 0);
}

TEST(what_the_driver_says_is_no_guess)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = {
            .Width = 10, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};

    start();
    answer = CUDA_SUCCESS;
    device = 1;
    for (unsigned i = 1; i <= 4; i++) {
        arrays_made(i % 2 ? (CUarray)(uintptr_t)i : NULL,
                i % 2 ? NULL : (CUmipmappedArray)(uintptr_t)i, &desc, 1);
        CHECK_EQ(made.size, i * MB);
        CHECK_EQ(made.memclass, MEMCLASS_ARRAY);
        CHECK_EQ(made.device, 1);
    }
    CHECK_EQ(questions, 4);
}

/* Not where no driver call may be made, nor of no device, nor where the driver lacks the question; then it may still answer later. */
TEST(the_driver_is_asked_only_where_it_may_be)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = {
            .Width = 10, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};

    start();
    answer = CUDA_SUCCESS;
    may_ask = false;
    arrays_made((CUarray)(uintptr_t)3, NULL, &desc, 1);
    CHECK_EQ(made.size, 40);
    may_ask = true;
    device = -1;
    arrays_made((CUarray)(uintptr_t)3, NULL, &desc, 1);
    CHECK_EQ(made.size, 40);
    CHECK_EQ(made.device, -1);
    device = 0;
    CHECK_EQ(questions, 0);
    arrays_made((CUarray)(uintptr_t)3, NULL, &desc, 1);
    CHECK_EQ(made.size, 3 * MB);
    lacks_questions = true;
    arrays_made((CUarray)(uintptr_t)3, NULL, &desc, 1);
    CHECK_EQ(made.size, 40);
    CHECK_EQ(made.memclass, MEMCLASS_ARRAY_GUESS);
    CHECK_EQ(questions, 1);
}
