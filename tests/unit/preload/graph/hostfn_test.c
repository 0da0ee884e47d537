/* SPDX-License-Identifier: MIT */
/* covers: hostfn.c */
/* Functions of the program's behind functions of ours, and the callback of a recapture, which runs inside of a call that is hooked. */
#include "alloc/base/meta.h"
#include "preload/base/bounds.h"
#include "preload/base/guard.h"
#include "preload/driver/life.h"
#include "preload/graph/hostfn.h"
#include "tests/check.h"
#include "tracker/base/catalog.h"

static enum life_mode mode = LIFE_POOL;
static bool is_passive;
static bool is_full; /* there is no memory */
static unsigned full_said;

enum life_mode life_mode(void)
{
    return mode;
}

bool life_is_passive(void)
{
    return is_passive;
}

void bounds_reached(enum bounds_kind kind)
{
    CHECK_EQ(kind, BOUNDS_HOSTFN);
    full_said++;
}

void *__real_meta_get(size_t size);
void *__wrap_meta_get(size_t size);

void *__wrap_meta_get(size_t size)
{
    return is_full ? NULL : __real_meta_get(size);
}

uint32_t __real_catalog_number(
        struct catalog *catalog, struct lock *lock, uint64_t hash, const void *key);
uint32_t __wrap_catalog_number(
        struct catalog *catalog, struct lock *lock, uint64_t hash, const void *key);

uint32_t __wrap_catalog_number(
        struct catalog *catalog, struct lock *lock, uint64_t hash, const void *key)
{
    return is_full ? 0 : __real_catalog_number(catalog, lock, hash, key);
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

/* ---- host functions ------------------------------------------------------------------------- */

enum {
    RUNS = 100000,
};

/* NOLINTNEXTLINE(performance-no-int-to-ptr): a handle is a number here */
#define STREAM ((CUstream)(uintptr_t)0x80)

static unsigned runs;

static void count_run(void *its_data)
{
    CHECK(its_data == &data);
    CHECK_EQ(guard_thread.callback, 1);
    runs++;
}

static void count_callback(CUstream stream, CUresult status, void *its_data)
{
    CHECK(stream == STREAM);
    CHECK_EQ(status, CUDA_ERROR_LAUNCH_FAILED);
    count_run(its_data);
}

static void run(const struct hostfn *given)
{
    unsigned before = runs;

    CHECK((given->fn != NULL) != (given->callback != NULL));
    if (given->fn)
        given->fn(given->data);
    else
        given->callback(STREAM, CUDA_ERROR_LAUNCH_FAILED, given->data);
    CHECK_EQ(runs, before + 1);
    CHECK_EQ(guard_thread.callback, 0);
}

TEST(r38_a_function_for_one_run_gives_its_record_back)
{
    struct hostfn given = hostfn_once(count_run, NULL, &data);
    uint64_t before;

    CHECK(given.fn != count_run && given.data != &data);
    run(&given);
    before = meta_bytes();
    for (int i = 0; i < RUNS; i++) {
        given = hostfn_once(count_run, NULL, &data);
        run(&given);
        given = hostfn_once(NULL, count_callback, &data);
        run(&given);
        given = hostfn_once(count_run, NULL, &data); /* the driver refuses it */
        hostfn_cancel(&given);
        CHECK(given.record == NULL);
    }
    CHECK_EQ(meta_bytes(), before);
    given = hostfn_once(NULL, NULL, &data); /* the driver is to say what it thinks of it */
    CHECK(!given.fn && !given.callback && given.data == &data);
}

TEST(r38_a_function_for_many_runs_has_one_record)
{
    struct hostfn none = hostfn_kept(NULL, NULL, &data);
    struct hostfn given[] = {hostfn_kept(count_run, NULL, &data),
            hostfn_kept(NULL, count_callback, &data), hostfn_kept(count_run, NULL, &node_data),
            hostfn_kept(host_function, NULL, &data)};

    CHECK(!none.fn && !none.callback && none.data == &data);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            CHECK(given[i].data != given[j].data);
    for (int i = 0; i < 3; i++) {
        struct hostfn again[] = {
                hostfn_kept(count_run, NULL, &data), hostfn_kept(NULL, count_callback, &data)};

        for (int j = 0; j < 2; j++) {
            CHECK(again[j].data == given[j].data);
            CHECK(again[j].record == NULL);
            run(&again[j]);
        }
    }
}

TEST(without_memory_the_programs_own_function_is_passed_on)
{
    struct hostfn given;

    is_full = true;
    given = hostfn_once(count_run, NULL, &data);
    CHECK(given.fn == count_run && given.data == &data && !given.record);
    hostfn_cancel(&given);
    given = hostfn_once(NULL, count_callback, &data);
    CHECK(given.callback == count_callback && given.data == &data);
    CHECK_EQ(full_said, 0);
    given = hostfn_kept(count_run, NULL, &data);
    CHECK(given.fn == count_run && given.data == &data && !given.record);
    CHECK_EQ(full_said, 1);
    given = hostfn_kept(NULL, count_callback, &data);
    CHECK(given.callback == count_callback && given.data == &data);
    CHECK_EQ(full_said, 2);
    given = hostfn_kept(NULL, NULL, &data);
    CHECK(!given.fn && !given.callback && given.data == &data);
    CHECK_EQ(full_said, 2);
}

/* The driver gets the node's parameters as the program has them. */
static void is_left_alone(CUgraphNodeParams *params)
{
    CUgraphNodeParams copy;
    CUDA_HOST_NODE_PARAMS host;

    CHECK(hostfn_node(params, &copy) == params);
    if (params && params->type == CU_GRAPH_NODE_TYPE_HOST)
        CHECK(hostfn_host_node(&params->host, &host) == &params->host);
}

TEST(a_host_node_gets_our_function_and_is_told_with_its_own)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {count_run, &data}};
    CUgraphNodeParams kernel = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    CUDA_HOST_NODE_PARAMS other = {host_function, NULL};
    CUgraphNodeParams copy;

    is_left_alone(NULL);
    is_left_alone(&kernel);
    guard_thread.depth = 1;
    is_left_alone(&params);
    guard_thread.depth = 0;
    mode = LIFE_OFF;
    is_left_alone(&params);
    mode = LIFE_POOL;
    is_passive = true;
    is_left_alone(&params);
    is_passive = false;
    CHECK(hostfn_host_node(NULL, &other) == NULL);
    REQUIRE(hostfn_node(&params, &copy) == &copy);
    CHECK_EQ(copy.type, CU_GRAPH_NODE_TYPE_HOST);
    CHECK(copy.host.fn != count_run && copy.host.userData != &data);
    copy.host.fn(copy.host.userData);
    CHECK_EQ(runs, 1);
    hostfn_original(&copy.host);
    CHECK(copy.host.fn == count_run && copy.host.userData == &data);
    hostfn_original(&copy.host); /* the program's */
    CHECK(copy.host.fn == count_run && copy.host.userData == &data);
    hostfn_original(&other);
    CHECK(other.fn == host_function && !other.userData);
}
