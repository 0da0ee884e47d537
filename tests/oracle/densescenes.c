/* SPDX-License-Identifier: MIT */
#include "tests/oracle/dense.h"

#define MIB ((uint64_t)1 << 20)

/* One seed in eleven, so that the other seeds make what they made before. */
enum dense_scene scene_of(uint64_t seed)
{
    static const enum dense_scene scenes[] = {SCENE_LEGACY, SCENE_IDLE_ENDS, SCENE_OWN,
            SCENE_GRAPHS, SCENE_DEFAULT, SCENE_POOLS, SCENE_BUSY_ENDS};

    return seed % 11 == 5 ? scenes[seed / 11 % 7] : SCENE_NONE;
}

bool scene_is_about_streams(void)
{
    return dense.scene == SCENE_LEGACY || dense.scene == SCENE_OWN || dense.scene == SCENE_DEFAULT;
}

/* ---- the world ------------------------------------------------------------------------------ */

/* Or a wait of the program's gives memory back, for which a library may wait for more than the program does. */
static void pool_keeps(bool keeps)
{
    cuuint64_t threshold = keeps ? UINT64_MAX : 0;
    CUmemoryPool pool;

    DO(cuDeviceGetDefaultMemPool(&pool, 0));
    DO(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

void scene_open(void)
{
    dense.sizes_count = 1;
    dense.sizes[0] = 4 * MIB;
    dense.acts_left *= 2;
    if (scene_is_about_streams())
        pool_keeps(true);
    switch (dense.scene) {
    case SCENE_OWN:
        for (int i = 0; i < DENSE_HANDS - 1; i++)
            (void)flow_open(0, LANE_THREAD, i);
        break;
    case SCENE_LEGACY:
    case SCENE_DEFAULT:
        (void)flow_open(0, LANE_BLOCKING, -1);
        break;
    case SCENE_IDLE_ENDS:
        dense_home_open(1);
        dense.sizes[0] = (dense_chance(50) ? 32 : 64) * MIB;
        break;
    case SCENE_BUSY_ENDS: /* around a small budget */
        dense_home_open(1);
        dense.sizes_count = 3;
        dense.sizes[0] = 2 * MIB;
        dense.sizes[1] = 6 * MIB;
        dense.sizes[2] = 20 * MIB;
        break;
    case SCENE_GRAPHS:
        dense.sizes[0] = 76 * MIB; /* six that must be served, and no room for a seventh */
        break;
    case SCENE_POOLS:
        for (int i = 0; i < 2; i++)
            (void)flow_open(0, dense_chance(30) ? LANE_BLOCKING : LANE_NONBLOCKING, -1);
        break;
    default:
        break;
    }
    COUNT(dense_scenes);
}

void scene_close(void)
{
    if (scene_is_about_streams())
        pool_keeps(false);
}

/* What is freed at last before the end waits for the other context's work. */
bool act_busy_end(struct hand *me)
{
    if (dense.away >= 0 || !dense_home_is_usable(1))
        return false;
    (void)act_fill(me);
    (void)act_fill(me);
    (void)act_free_sync(me);
    (void)act_alloc_sync(me);
    return act_home_end(me);
}

/* ---- its words ------------------------------------------------------------------------------ */

struct scene_flows {
    struct flow *memory, *waited;
};

/* The default stream is the first one, and the blocking one the second. */
static struct scene_flows scene_flows(void)
{
    switch (dense.scene) {
    case SCENE_LEGACY:
        return (struct scene_flows){&dense.flows[0], &dense.flows[2]};
    case SCENE_OWN:
        return (struct scene_flows){&dense.flows[0], NULL};
    case SCENE_DEFAULT:
        return (struct scene_flows){&dense.flows[1], &dense.flows[1]};
    default:
        return (struct scene_flows){NULL, NULL};
    }
}

struct flow *scene_memory(void)
{
    return scene_flows().memory;
}

struct flow *scene_waited(void)
{
    return scene_flows().waited;
}

bool scene_may_capture(void)
{
    int alive = 0, fresh = 0;

    if (dense.scene != SCENE_LEGACY)
        return true;
    for (int i = 0; i < DENSE_BLOCKS; i++) {
        alive += dense.blocks[i].kind != BLOCK_NONE;
        fresh += dense.blocks[i].kind != BLOCK_NONE && !dense.blocks[i].value;
    }
    return alive == SCENE_LEGACY_BLOCKS && fresh > 0
            && !order_is_known((struct dense_at){1, dense.flows[1].count});
}

#define STREAMS (1U << SCENE_LEGACY | 1U << SCENE_OWN | 1U << SCENE_DEFAULT)
#define NAMED   (1U << SCENE_OWN | 1U << SCENE_DEFAULT)
#define ENDS    (1U << SCENE_IDLE_ENDS | 1U << SCENE_BUSY_ENDS)
#define GRAPHS  (1U << SCENE_GRAPHS)
#define POOLS   (1U << SCENE_POOLS)

static const struct {
    bool (*act)(struct hand *me);
    unsigned scenes;
    int weight;
} words[] = {
        {act_alloc_stream, STREAMS, 14},
        {act_free_stream, STREAMS, 14},
        {act_fill, STREAMS, 8},
        {act_check, STREAMS, 14},
        {act_event_record, NAMED, 3},
        {act_event_wait, 1U << SCENE_OWN, 3},
        {act_host_function, NAMED, 8},
        {act_wait, NAMED, 12},
        {act_wait, 1U << SCENE_LEGACY, 8},
        {act_flow_open, 1U << SCENE_LEGACY, 8},
        {act_film_begin, 1U << SCENE_LEGACY, 8},
        {act_film_end, 1U << SCENE_LEGACY, 1},
        {act_graph_drop, 1U << SCENE_LEGACY, 2},
        {act_alloc_sync, ENDS, 12},
        {act_free_sync, ENDS, 12},
        {act_fill, ENDS, 20},
        {act_check, ENDS, 5},
        {act_home_end, 1U << SCENE_IDLE_ENDS, 8},
        {act_busy_end, 1U << SCENE_BUSY_ENDS, 12},
        {act_alloc_sync, 1U << SCENE_BUSY_ENDS, 8},
        {act_memory_room, 1U << SCENE_IDLE_ENDS, 8},
        {act_wait, ENDS, 2},
        {act_alloc_sync, GRAPHS, 12},
        {act_free_sync, GRAPHS, 12},
        {act_fill, GRAPHS, 4},
        {act_graph_make, GRAPHS, 20},
        {act_graph_launch, GRAPHS, 3},
        {act_graph_drop, GRAPHS, 10},
        {act_memory_room, GRAPHS, 10},
        {act_wait, GRAPHS, 2},
        {act_alloc_stream, POOLS, 3},
        {act_free_stream, POOLS, 8},
        {act_fill, POOLS, 6},
        {act_check, POOLS, 4},
        {act_pool_make, POOLS, 1},
        {act_pool_destroy, POOLS, 1},
        {act_pool_crowd, POOLS, 6},
        {act_pool_room, POOLS, 8},
        {act_wait, POOLS, 8},
};

int scene_weight(bool (*act)(struct hand *me))
{
    int weight = 0;

    for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (words[i].act == act && words[i].scenes >> dense.scene & 1)
            weight += words[i].weight;
    return weight;
}
