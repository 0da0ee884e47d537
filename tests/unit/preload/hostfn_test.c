/* SPDX-License-Identifier: MIT */
/* The program's callback of a recapture runs inside of a call that is hooked. */
#include "preload/bounds.h"
#include "preload/guard.h"
#include "preload/hostfn.h"
#include "preload/life.h"
#include "tests/check.h"

enum life_mode life_mode(void)
{
    return LIFE_POOL;
}

bool life_is_passive(void)
{
    return false;
}

void bounds_reached(enum bounds_kind kind)
{
    (void)kind;
    CHECK(false);
}

static int data, node_data; /* of the program */
static struct guard_thread inside;
static CUDA_HOST_NODE_PARAMS told[2];

/* NOLINTNEXTLINE(performance-no-int-to-ptr): a handle is a number here */
#define NODE ((CUgraphNode)(uintptr_t)0x40)

static void host_function(void *unused)
{
    (void)unused;
}

/* Hooks that it calls leave their marks in what the thread knows. */
static CUresult recaptured(void *its_data, CUgraphNode node, const CUgraphNodeParams *original,
        const CUgraphNodeParams *now, CUgraphRecaptureStatus status)
{
    CHECK(its_data == &data);
    CHECK(node == NODE);
    CHECK_EQ(status, 3);
    told[0] = original->host;
    told[1] = now->host;
    inside = guard_thread;
    guard_thread.cancel = 17;
    guard_thread.entry = 18;
    guard_thread.moment = 19;
    return CUDA_ERROR_NOT_PERMITTED;
}

TEST(the_callback_of_a_recapture_is_the_programs_own_code)
{
    struct guard_thread before = {.depth = 1,
            .pins = (void *)&data,
            .bring = (void *)&node_data,
            .cancel = 7,
            .entry = 8,
            .moment = 9};
    CUgraphNodeParams params[2] = {
            {.type = CU_GRAPH_NODE_TYPE_HOST}, {.type = CU_GRAPH_NODE_TYPE_HOST}};
    CUgraphNodeParams as_given;
    void *given = &data;
    CUgraphRecaptureCallback callback = hostfn_recapture(recaptured, &given);

    REQUIRE(callback != NULL && callback != recaptured && given != &data);
    for (int i = 0; i < 2; i++) {
        params[i].host = (CUDA_HOST_NODE_PARAMS){host_function, &node_data};
        REQUIRE(hostfn_node(&params[i], &as_given) == &as_given);
        params[i] = as_given;
    }
    guard_thread = before;
    CHECK_EQ(callback(given, NODE, &params[0], &params[1], 3), CUDA_ERROR_NOT_PERMITTED);
    CHECK_EQ(inside.depth, 0);
    CHECK(inside.pins == NULL);
    CHECK(inside.bring == NULL);
    CHECK_EQ(guard_thread.depth, before.depth);
    CHECK(guard_thread.pins == before.pins);
    CHECK(guard_thread.bring == before.bring);
    CHECK_EQ(guard_thread.cancel, before.cancel);
    CHECK_EQ(guard_thread.entry, before.entry);
    CHECK_EQ(guard_thread.moment, before.moment);
    guard_thread = (struct guard_thread){0};
    for (int i = 0; i < 2; i++) {
        CHECK(told[i].fn == host_function);
        CHECK(told[i].userData == &node_data);
    }
}

TEST(without_a_callback_there_is_none)
{
    void *given = &data;

    CHECK(hostfn_recapture(NULL, &given) == NULL);
    CHECK(given == &data);
}
