/* SPDX-License-Identifier: MIT */
#include "alloc/follow.h"

#include "alloc/meta.h"

#include <errno.h>
#include <string.h>

/* ── rows ── */

#define AGAIN    (1u << 31) /* of a row's end: it is the first of several */
#define DISTINCT 4u         /* sizes in a row that is told from its likes */

static uint64_t mix(uint64_t hash, uint64_t size, uint64_t site)
{
    hash = (hash ^ size ^ site * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 29;
}

static const struct planned *block_at(const struct follow *follow, uint64_t number)
{
    return &follow->block[number % follow->count];
}

/* The row that ends with a block, backwards. */
static uint64_t hash_of(
        const struct follow *follow, const struct follow_rows *rows, uint32_t number)
{
    uint64_t hash = 0;

    for (uint32_t i = 0; i < rows->length; i++) {
        const struct planned *block =
                block_at(follow, (uint64_t)number + (uint64_t)follow->count * FOLLOW_ROW - i);

        hash = mix(hash, block->size, rows->by_site ? block->site : 0);
    }
    return hash;
}

static int init_rows(struct follow *follow, struct follow_rows *rows, uint32_t length, bool by_site)
{
    /* A step as short as that is a row by itself. */
    rows->length = length < follow->count ? length : follow->count;
    rows->by_site = by_site;
    rows->end = meta_get(follow->count * sizeof(uint32_t));
    if (!rows->end)
        return -ENOMEM;
    for (uint32_t i = 0; i < follow->count; i++) {
        uint64_t hash = hash_of(follow, rows, i);
        uint32_t *end = lookup_find(&rows->end_of, hash);

        rows->end[i] = i;
        if (end)
            *end |= AGAIN;
        else if (lookup_add(&rows->end_of, hash, &rows->end[i]) != 0)
            return -ENOMEM;
    }
    return 0;
}

static void done_rows(struct follow_rows *rows, uint32_t count)
{
    lookup_done(&rows->end_of);
    meta_put(rows->end, count * sizeof(uint32_t));
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
    r = init_rows(follow, &follow->sizes, FOLLOW_ROW, false);
    if (r == 0 && follow->sites)
        r = init_rows(follow, &follow->exact, FOLLOW_ROW_OF_SITES, true);
    if (r != 0)
        follow_done(follow);
    return r;
}

void follow_done(struct follow *follow)
{
    done_rows(&follow->exact, follow->count);
    done_rows(&follow->sizes, follow->count);
    memset(follow, 0, sizeof(*follow));
}

/* ── where the program is ── */

static bool is_alike(const struct planned *block, const struct follow_request *request)
{
    return block->size == request->size
            && (block->site == request->site || block->site == 0 || request->site == 0);
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

static void doubt(struct follow *follow, uint32_t by)
{
    follow->trust -= follow->trust < by ? follow->trust : by;
}

void follow_taken(struct follow *follow)
{
    doubt(follow, FOLLOW_TAKEN);
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
    if (follow->guess) {
        follow->trust = 0;
        return FOLLOW_NONE;
    }
    found = look_behind(follow, request);
    if (found != FOLLOW_NONE)
        return found;
    found = follow->trust > FOLLOW_JUMP ? look_ahead(follow, request) : FOLLOW_NONE;
    doubt(follow, found == FOLLOW_NONE ? 1 : FOLLOW_JUMP);
    return found;
}

/* How far it is from the expected block to this one. */
static uint32_t distance(const struct follow *follow, uint32_t number)
{
    return number >= follow->at ? number - follow->at : number + follow->count - follow->at;
}

/* A row of one size or two may be anything. */
static bool is_telling(const struct follow_lane *lane, uint32_t length)
{
    uint32_t distinct = 1;

    for (uint32_t i = 1; i < length - 1; i++) {
        uint32_t j = 0;

        while (j < i && lane->past[j].size != lane->past[i].size)
            j++;
        distinct += j == i;
    }
    return distinct >= DISTINCT;
}

/* The block that ends the row of the stream's last requests. Where the plan has several such rows, a program that is lost has
 * most likely come to the first of them, and one that is not is where it was. */
static uint32_t look_everywhere(const struct follow *follow, const struct follow_lane *lane,
        const struct follow_request *request)
{
    bool by_site = follow->sites && request->site != 0;
    const struct follow_rows *rows = by_site ? &follow->exact : &follow->sizes;
    uint64_t hash = mix(0, request->size, by_site ? request->site : 0);
    const uint32_t *end;

    if (lane->heard + 1 < rows->length)
        return FOLLOW_NONE;
    for (uint32_t i = 0; i + 1 < rows->length; i++)
        hash = mix(hash, lane->past[i].size, by_site ? lane->past[i].site : 0);
    end = lookup_find(&rows->end_of, hash);
    if (!end || !is_alike(&follow->block[*end & ~AGAIN], request)
            || (*end & AGAIN && (follow->trust || !(by_site || is_telling(lane, rows->length)))))
        return FOLLOW_NONE;
    return *end & ~AGAIN;
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
    follow->trust = FOLLOW_FOUND;
    follow->guess = false;
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
    if (lane->heard < FOLLOW_ROW - 1)
        lane->heard++;
}

/* The planned block of a request of the stream that is followed, or of any if none is. */
static uint32_t find(
        struct follow *follow, const struct follow_lane *lane, const struct follow_request *request)
{
    uint32_t found = FOLLOW_NONE;

    if (follow->trust)
        found = look_near(follow, request);
    if (found != FOLLOW_NONE) {
        if (follow->guess && look_everywhere(follow, lane, request) == found)
            follow->guess = false;
        return found;
    }
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
        follow->guess = true;
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
