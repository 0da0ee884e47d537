/* SPDX-License-Identifier: MIT */
#include "tools/replay/playback.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/base/vec.h"

int playback_open(struct playback *playback, struct counting *counting,
        const struct pool_opts *opts, struct hints *hints, size_t block_count)
{
    struct driver driver = counting_driver(counting);

    *playback = (struct playback){
            .counting = counting, .places = vec_new(block_count, sizeof(*playback->places))};
    int r = pool_new(&driver, opts, &playback->pool);

    if (r == 0 && hints)
        r = pool_set_hints(playback->pool, hints);
    return r;
}

void playback_close(struct playback *playback)
{
    pool_free_all(playback->pool);
    free(playback->places);
    *playback = (struct playback){.pool = NULL};
}

/* Id of the one context and one memory pool of a device. */
static uint64_t owner_of(int device)
{
    return 1 + (uint64_t)device;
}

int playback_keep(struct playback *playback, int device, uint64_t threshold)
{
    struct pool_heap_attrs attrs;
    int r = pool_heap_attrs(playback->pool, owner_of(device), device, &attrs);

    attrs.release_threshold = threshold;
    return r ? r : pool_set_heap_attrs(playback->pool, owner_of(device), device, &attrs);
}

void playback_waited(struct playback *playback)
{
    counting_catch_up(playback->counting);
    pool_synchronised(playback->pool);
}

void playback_order(struct playback *playback, uint64_t first, uint64_t then)
{
    struct pool_order order;

    pool_events_now(playback->pool, first, &order);
    pool_events_follow(playback->pool, then, &order);
}

/* Takes the pool's short way, as a program without hints does, else the long way. */
static struct pool_given take_quickly(
        const struct playback *playback, const struct pool_request *request)
{
    if (request->plan)
        return (struct pool_given){0, 0};
    return request->api == API_SYNC
            ? pool_alloc_quickly(playback->pool, request->owner, request->size)
            : pool_alloc_on_quickly(playback->pool, request->owner, request->stream, request->size);
}

int playback_take(struct playback *playback, size_t block, const struct playback_ask *ask)
{
    struct outcome outcome;
    int device = ask->device < 0 ? 0 : ask->device;
    struct pool_request request = {
            .size = ask->size,
            .owner = owner_of(device),
            .stream = ask->stream,
            .plan = ask->plan,
            .api = ask->stream ? API_STREAM : API_SYNC,
            .device = device,
            .may_call = true,
            .may_fence = true,
            .may_wait = true,
    };

    counting_step(playback->counting);
    struct pool_given given = take_quickly(playback, &request);
    if (given.ptr) {
        playback->places[block] = given.ptr;
        return 0;
    }
    int r = pool_alloc(playback->pool, &request, &outcome);
    if (r != 0)
        return r > 0 ? -ENOMEM : r;
    playback->places[block] = outcome.ptr;
    return 0;
}

int playback_give(struct playback *playback, size_t block, uint64_t stream)
{
    struct outcome outcome;
    struct pool_free_request request = {
            .api = stream ? API_STREAM : API_SYNC,
            .stream = stream,
            .may_fence = true,
    };
    devptr_t place = playback->places[block];

    if (!place)
        return 0;
    counting_step(playback->counting);
    playback->places[block] = 0;
    if (stream ? pool_free_on_quickly(playback->pool, place, stream)
               : pool_free_quickly(playback->pool, place))
        return 0;
    return pool_free(playback->pool, place, &request, &outcome);
}
