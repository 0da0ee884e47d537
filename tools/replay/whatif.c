/* SPDX-License-Identifier: MIT */
#include "tools/replay/whatif.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/replay/peer.h"
#include "tools/replay/playback.h"

static const struct whatif_policy whatif_offered[] = {
        {"kedge", "kedge's pool, remapping as readily as time allows", NULL, POOL_REMAP_AUTO, false,
                false},
        {"kedge-eager", "kedge's pool, remapping whenever it would grow", NULL, POOL_REMAP_EAGER,
                false, false},
        {"kedge-sync", "kedge's pool for cudaMalloc: streams are not known", NULL, POOL_REMAP_AUTO,
                true, false},
        {"kedge-mapped", "the same with KEDGE_POOL=sync=mapped", NULL, POOL_REMAP_AUTO, true, true},
        {"native", "no pool: cudaMalloc and cudaFree each time", &peer_native, 0, false, false},
        {"torch", "PyTorch's caching allocator, its defaults", &peer_torch, 0, false, false},
        {"torch-expandable", "PyTorch with expandable segments", &peer_expandable, 0, false, false},
};

const struct whatif_policy *whatif_policies = whatif_offered;
size_t whatif_policy_count = sizeof(whatif_offered) / sizeof(whatif_offered[0]);

/* A policy during a pass: the pool, or one model per device. */
struct player {
    const struct workload *workload;
    const struct peer *peer;
    struct counting counting;
    struct peer_device device;
    struct playback playback;
    void **models;
    bool *is_live; /* per block */
    bool sync;     /* no streams are passed */
    uint32_t last; /* stream of the event before, 0 = unknown */
    struct whatif_job *job;
};

/* Counts an event; now and then reports progress. */
static void whatif_step(struct player *player)
{
    if ((++player->job->done & 0xff) == 0)
        progress_step(player->job->done, player->job->total);
}

static int open_pool(struct player *player, const struct whatif_policy *policy)
{
    const struct whatif_job *job = player->job;
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.remap = (enum pool_remap)policy->remap;
    opts.sync_mapped = policy->mapped;
    opts.budget = job->budget;
    int r = playback_open(
            &player->playback, &player->counting, &opts, NULL, player->workload->block_count);
    for (uint32_t i = 0; i < player->workload->device_count && r == 0; i++)
        r = playback_keep(&player->playback, (int)i, job->threshold);
    return r;
}

static int open_player(
        struct player *player, const struct whatif_policy *policy, struct whatif_job *job)
{
    const struct workload *workload = job->workload;
    int r = 0;

    *player = (struct player){.workload = workload,
            .peer = policy->peer,
            .job = job,
            .sync = job->sync || policy->sync,
            .is_live = vec_new(workload->block_count, sizeof(*player->is_live))};
    if (!policy->peer) {
        r = open_pool(player, policy);
    } else {
        player->device.driver = counting_driver(&player->counting);
        player->device.counting = &player->counting;
        player->models = vec_new(workload->device_count, sizeof(*player->models));
        for (uint32_t i = 0; i < workload->device_count; i++) {
            player->models[i] = peer_open(policy->peer, &player->device);
            if (policy->peer->know)
                policy->peer->know(player->models[i], workload, (int)i);
        }
    }
    player->counting.backed = job->backed;
    player->counting.step_ns = job->event_ns;
    player->counting.move_ns = job->move_ns;
    player->counting.lag =
            (uint64_t)(job->lag * (double)(workload->event_count + workload->left_count));
    return r;
}

static void close_player(struct player *player)
{
    for (uint32_t i = 0; player->models && i < player->workload->device_count; i++)
        player->peer->close(player->models[i]);
    if (!player->peer)
        playback_close(&player->playback);
    counting_done(&player->counting);
    free((void *)player->models);
    free(player->is_live);
}

static int whatif_take(struct player *player, uint32_t number)
{
    const struct workload_block *block = &player->workload->blocks[number];

    player->is_live[number] = true;
    if (player->peer) {
        counting_step(&player->counting);
        player->peer->take(player->models[block->device], number, block->size, block->stream);
        return 0;
    }
    struct playback_ask ask = {.size = block->size,
            .stream = player->sync ? 0 : block->stream,
            .device = block->device};
    return playback_take(&player->playback, number, &ask);
}

static int whatif_give(struct player *player, uint32_t number, uint32_t stream)
{
    const struct workload_block *block = &player->workload->blocks[number];

    player->is_live[number] = false;
    if (!player->peer)
        return playback_give(&player->playback, number, player->sync ? 0 : stream);
    counting_step(&player->counting);
    /*
     * A sync free of a block with a stream waits for all streams, which no model of a stream
     * allocator knows.
     */
    player->peer->give(player->models[block->device], number, stream ? stream : block->stream);
    return 0;
}

static void wait_for_device(struct player *player)
{
    if (!player->peer) {
        playback_waited(&player->playback);
        return;
    }
    counting_catch_up(&player->counting);
    for (uint32_t i = 0; i < player->workload->device_count && player->peer->waited; i++)
        player->peer->waited(player->models[i], player->job->threshold);
}

/* Does a step end at this event? All steps have the same number of events. */
static bool ends_step(const struct player *player, size_t event)
{
    size_t count = player->workload->event_count;
    uint64_t steps = player->job->steps;

    return player->job->waits == WHATIF_WAITS_STEP
            && event * steps / count != (event + 1) * steps / count;
}

/*
 * Makes a stream wait for the stream of the event before. Only the pool gets it: models of other
 * allocators know no events.
 */
static void order_streams(struct player *player, uint32_t stream)
{
    uint32_t last = player->last;

    if (!player->job->is_ordered || player->peer || player->sync || !stream)
        return;
    player->last = stream;
    if (last && last != stream)
        playback_order(&player->playback, last, stream);
}

static uint32_t whatif_stream_of(
        const struct workload *workload, const struct workload_event *event)
{
    return event->is_free ? event->stream : workload->blocks[event->block].stream;
}

static int play_once(struct player *player)
{
    const struct workload *workload = player->workload;
    int r = 0;

    for (size_t i = 0; i < workload->event_count && r == 0; i++) {
        const struct workload_event *event = &workload->events[i];
        order_streams(player, whatif_stream_of(workload, event));
        r = event->is_free ? whatif_give(player, event->block, event->stream)
                           : whatif_take(player, event->block);
        whatif_step(player);
        if (r == 0 && ends_step(player, i))
            wait_for_device(player);
    }
    for (uint32_t i = 0; i < workload->block_count && r == 0; i++) {
        if (!player->is_live[i])
            continue;
        order_streams(player, workload->blocks[i].stream);
        r = whatif_give(player, i, workload->blocks[i].stream);
    }
    if (r == 0 && player->job->waits != WHATIF_WAITS_NONE)
        wait_for_device(player);
    return r;
}

/* The pool's counters so far; of a model none. */
static struct pool_stats whatif_stats(const struct player *player)
{
    struct pool_stats stats = {0};

    if (!player->peer)
        pool_stats(player->playback.pool, -1, &stats);
    return stats;
}

static int play_pass(struct player *player, struct whatif_pass *ret)
{
    struct counting *counting = &player->counting;
    struct counting before = *counting;
    struct pool_stats stats_before = whatif_stats(player);

    counting->reserved_high = counting->reserved;
    int r = play_once(player);
    struct pool_stats stats = whatif_stats(player);
    *ret = (struct whatif_pass){.driver_calls = counting_calls(counting) - counting_calls(&before),
            .waits = counting->waits - before.waits,
            .granules_moved = stats.granules_moved - stats_before.granules_moved,
            .storage = counting_storage_since(counting, &before),
            .peak_reserved = counting->reserved_high};
    for (int i = 0; i < COUNTING_KIND_COUNT; i++)
        ret->calls[i] = counting->calls[i] - before.calls[i];
    for (int i = 0; i < POOL_PACE_COUNT; i++)
        ret->paces[i] = stats.paces[i] - stats_before.paces[i];
    return r;
}

int whatif_run(const struct whatif_policy *policy, struct whatif_job *job, struct whatif *ret)
{
    const struct workload *workload = job->workload;
    struct player player;
    const char *what;
    int r;

    *ret = (struct whatif){.policy = policy,
            .passes = vec_new(job->passes, sizeof(*ret->passes)),
            .pass_count = job->passes};
    if (workload->peak_live > WHATIF_LIVE_MAX)
        return -ERANGE;
    r = open_player(&player, policy, job);
    for (size_t i = 0; i < job->passes && r == 0; i++) {
        r = play_pass(&player, &ret->passes[i]);
        if (ret->passes[i].peak_reserved > ret->peak_reserved)
            ret->peak_reserved = ret->passes[i].peak_reserved;
    }
    if (r == 0 && !policy->peer)
        r = pool_check(player.playback.pool, &what);
    if (ret->peak_reserved)
        ret->e = (double)workload->peak_live_512 / (double)ret->peak_reserved;
    close_player(&player);
    return r;
}

void whatif_done(struct whatif *whatif)
{
    free(whatif->passes);
    *whatif = (struct whatif){0};
}
