/* SPDX-License-Identifier: MIT */
/* Buffers of NCCL's calls: in when the call is made, and held until the outermost group has ended, since NCCL makes its own calls then. */
#include "tests/preload/evict_kit.h"

enum {
    NCCL_SUCCESS = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_INT8 = 0,
};

static int comm;

static int send_block(unsigned i)
{
    int (*call)(const void *, size_t, int, int, void *, void *) =
            (__typeof__(call))kit_nccl("ncclSend");

    return call((void *)(uintptr_t)evict_block[i], EVICT_BYTES, NCCL_INT8, 1, &comm, evict_stream);
}

static int group(const char *name)
{
    int (*call)(void) = (__typeof__(call))kit_nccl(name);

    return call();
}

static void start_out(const char *tail)
{
    evict_start(tail);
    evict_use_others();
    REQUIRE(!evict_is_in(evict_block[0]));
}

TEST(a_call_has_its_buffer)
{
    start_out("nccl");
    CHECK_EQ(send_block(0), NCCL_SUCCESS);
    CHECK(evict_is_in(evict_block[0]));
    evict_use_others();
    CHECK(!evict_is_in(evict_block[0]));
    evict_check_all();
    kit_clean_up();
}

TEST(a_group_has_its_buffers_until_its_end)
{
    start_out("group");
    CHECK_EQ(group("ncclGroupStart"), NCCL_SUCCESS);
    CHECK_EQ(group("ncclGroupStart"), NCCL_SUCCESS);
    CHECK_EQ(send_block(0), NCCL_SUCCESS);
    for (int round = 0; round < 2; round++) {
        CHECK(evict_is_in(evict_block[0]));
        evict_use_others();
        CHECK(evict_is_in(evict_block[0]));
        CHECK_EQ(group("ncclGroupEnd"), NCCL_SUCCESS);
    }
    evict_use_others();
    CHECK(!evict_is_in(evict_block[0]));
    evict_check_all();
    kit_clean_up();
}

TEST(what_a_group_has_no_room_for_is_refused)
{
    start_out("full");
    CHECK_EQ(group("ncclGroupStart"), NCCL_SUCCESS);
    for (unsigned i = 0; i < EVICT_FIT; i++)
        CHECK_EQ(send_block(i), NCCL_SUCCESS);
    CHECK_EQ(send_block(EVICT_FIT), NCCL_CUDA_ERROR);
    CHECK_EQ(group("ncclGroupEnd"), NCCL_SUCCESS);
    CHECK_EQ(send_block(EVICT_FIT), NCCL_SUCCESS);
    evict_check_all();
    kit_clean_up();
}
