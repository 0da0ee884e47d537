/* SPDX-License-Identifier: MIT */
#include "alloc/follow.h"

#include "alloc/meta.h"

#include <errno.h>
#include <string.h>

/* ── the rings ── */

static uint64_t key_of(uint64_t size, uint64_t site)
{
    uint64_t key = (size ^ site * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);

    return key ^ key >> 32;
}

static int init_index(
        struct follow_index *index, const struct planned *block, uint32_t count, bool by_site)
{
    index->next = meta_get(count * sizeof(uint32_t));
    index->cell = meta_get(count * sizeof(uint32_t));
    if (!index->next || !index->cell)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t key = key_of(block[i].size, by_site ? block[i].site : 0);
        uint32_t *cell = lookup_find(&index->cell_of, key);

        if (cell) {
            /* Two keys in one ring are no harm: each block of it is compared. */
            index->next[i] = index->next[*cell];
            index->next[*cell] = i;
        } else {
            cell = &index->cell[i];
            index->next[i] = i;
            if (lookup_add(&index->cell_of, key, cell) != 0)
                return -ENOMEM;
        }
        *cell = i;
    }
    return 0;
}

static void done_index(struct follow_index *index, uint32_t count)
{
    lookup_done(&index->cell_of);
    meta_put(index->next, count * sizeof(uint32_t));
    meta_put(index->cell, count * sizeof(uint32_t));
}

int follow_init(struct follow *follow, const struct planned *block, uint32_t count)
{
    int r;

    memset(follow, 0, sizeof(*follow));
    follow->block = block;
    follow->count = count;
    follow->sites = true;
    for (uint32_t i = 0; i < count && follow->sites; i++)
        follow->sites = block[i].site != 0;
    r = init_index(&follow->sizes, block, count, false);
    if (r == 0 && follow->sites)
        r = init_index(&follow->exact, block, count, true);
    if (r != 0)
        follow_done(follow);
    return r;
}

void follow_done(struct follow *follow)
{
    done_index(&follow->exact, follow->count);
    done_index(&follow->sizes, follow->count);
    memset(follow, 0, sizeof(*follow));
}

/* ── where the program is ── */

static bool is_alike(const struct planned *block, const struct follow_request *request)
{
    return block->size == request->size
            && (block->site == request->site || block->site == 0 || request->site == 0);
}

static const struct planned *block_at(const struct follow *follow, uint64_t number)
{
    return &follow->block[number % follow->count];
}

/* The expected block becomes the next one. */
static void advance(struct follow *follow, bool was_asked)
{
    follow->counts.skipped += follow->missed >> (FOLLOW_BEHIND - 1) & 1;
    follow->missed = (follow->missed << 1 | !was_asked) & ((UINT64_C(1) << FOLLOW_BEHIND) - 1);
    if (++follow->at == follow->count) {
        follow->at = 0;
        follow->counts.steps++;
    }
}

/* What was passed over does not come any more. */
static void give_up_missed(struct follow *follow)
{
    for (; follow->missed; follow->missed &= follow->missed - 1)
        follow->counts.skipped++;
}

/* Blocks that were passed over and are asked for now. */
static uint32_t look_behind(struct follow *follow, const struct follow_request *request)
{
    for (uint64_t left = follow->missed; left; left &= left - 1) {
        unsigned bit = (unsigned)__builtin_ctzll(left);
        uint64_t number = (uint64_t)follow->at + (uint64_t)follow->count * FOLLOW_BEHIND - 1 - bit;

        if (!is_alike(block_at(follow, number), request))
            continue;
        follow->missed &= ~(UINT64_C(1) << bit);
        return (uint32_t)(number % follow->count);
    }
    return FOLLOW_NONE;
}

static uint32_t look_ahead(struct follow *follow, const struct follow_request *request)
{
    for (uint32_t i = 1; i <= FOLLOW_AHEAD && i < follow->count; i++) {
        if (!is_alike(block_at(follow, (uint64_t)follow->at + i), request))
            continue;
        for (uint32_t passed = 0; passed < i; passed++)
            advance(follow, false);
        i = follow->at;
        advance(follow, true);
        return i;
    }
    return FOLLOW_NONE;
}

static uint32_t look_near(struct follow *follow, const struct follow_request *request)
{
    uint32_t found = follow->at;

    if (is_alike(block_at(follow, found), request)) {
        advance(follow, true);
        if (follow->trust < FOLLOW_TRUST)
            follow->trust++;
        return found;
    }
    found = look_behind(follow, request);
    if (found != FOLLOW_NONE)
        return found;
    follow->trust--;
    return follow->trust ? look_ahead(follow, request) : FOLLOW_NONE;
}

/* Do the stream's last requests stand in the plan in a row that ends with this block? */
static bool is_confirmed(const struct follow *follow, const struct follow_lane *lane,
        uint32_t number, const struct follow_request *request)
{
    if (!is_alike(&follow->block[number], request))
        return false;
    for (uint32_t i = 1; i < FOLLOW_CONFIRM; i++) {
        uint64_t before = (uint64_t)number + (uint64_t)follow->count * FOLLOW_CONFIRM - i;

        if (!is_alike(block_at(follow, before), &lane->past[i - 1]))
            return false;
    }
    return true;
}

/* How far it is from the expected block to this one. */
static uint32_t distance(const struct follow *follow, uint32_t number)
{
    return number >= follow->at ? number - follow->at : number + follow->count - follow->at;
}

/* Looks at the next few blocks of the request's key, in turn; of those that are confirmed, at the nearest ahead. */
static uint32_t look_everywhere(
        struct follow *follow, const struct follow_lane *lane, const struct follow_request *request)
{
    bool by_site = follow->sites && request->site != 0;
    const struct follow_index *index = by_site ? &follow->exact : &follow->sizes;
    uint32_t *cell =
            lookup_find(&index->cell_of, key_of(request->size, by_site ? request->site : 0));
    uint32_t found = FOLLOW_NONE;
    uint32_t first;

    if (!cell || lane->heard < FOLLOW_CONFIRM - 1)
        return FOLLOW_NONE;
    first = index->next[*cell];
    for (uint32_t i = 0; i < FOLLOW_LOOK; i++) {
        *cell = index->next[*cell];
        if (i > 0 && *cell == first)
            break;
        if (is_confirmed(follow, lane, *cell, request)
                && (found == FOLLOW_NONE || distance(follow, *cell) < distance(follow, found)))
            found = *cell;
    }
    return found;
}

static void resync(struct follow *follow, uint32_t number)
{
    bool is_first = follow->counts.matched == 0;

    give_up_missed(follow);
    if (!is_first) {
        follow->counts.skipped += distance(follow, number);
        if (number < follow->at)
            follow->counts.steps++;
    }
    follow->counts.resyncs++;
    follow->at = number;
    follow->trust = FOLLOW_CONFIRM;
    advance(follow, true);
}

/* What is remembered of a stream; a new one takes the place of the one that was heard of longest ago. */
static struct follow_lane *lane_of(struct follow *follow, uint64_t stream)
{
    struct follow_lane *oldest = &follow->lanes[0];

    for (uint32_t i = 0; i < FOLLOW_LANES; i++) {
        struct follow_lane *lane = &follow->lanes[i];

        if (lane->used && lane->stream == stream)
            return lane;
        if (lane->used < oldest->used)
            oldest = lane;
    }
    *oldest = (struct follow_lane){.stream = stream};
    return oldest;
}

static void remember(
        struct follow *follow, struct follow_lane *lane, const struct follow_request *request)
{
    memmove(lane->past + 1, lane->past, sizeof(lane->past) - sizeof(lane->past[0]));
    lane->past[0] = *request;
    lane->used = follow->asked;
    if (lane->heard < FOLLOW_CONFIRM - 1)
        lane->heard++;
}

/* The planned block of a request of the stream that is followed, or of any if none is. */
static uint32_t find(
        struct follow *follow, const struct follow_lane *lane, const struct follow_request *request)
{
    uint32_t found = FOLLOW_NONE;

    if (follow->trust)
        found = look_near(follow, request);
    if (found != FOLLOW_NONE)
        return found;
    found = look_everywhere(follow, lane, request);
    if (found != FOLLOW_NONE)
        resync(follow, found);
    else if (!follow->trust)
        give_up_missed(follow);
    return found;
}

uint32_t follow_ask(struct follow *follow, uint64_t stream, uint64_t size, uint64_t site)
{
    struct follow_request request = {size, site};
    uint32_t found = FOLLOW_NONE;
    struct follow_lane *lane;

    stream = follow->all_streams ? 0 : stream;
    lane = lane_of(follow, stream);
    follow->asked++;
    if (!lane->used && !follow->trust && is_alike(&follow->block[0], &request)) {
        follow->trust = 1;
        follow->stream = stream;
        follow->at = 0;
    }
    if (follow->trust && follow->stream != stream && ++follow->away >= FOLLOW_AWAY)
        follow->trust = 0;
    if (!follow->trust || follow->stream == stream) {
        found = find(follow, lane, &request);
        follow->away = 0;
        follow->stream = stream;
    }
    remember(follow, lane, &request);
    if (found == FOLLOW_NONE)
        follow->counts.unmatched++;
    else
        follow->counts.matched++;
    return found;
}
