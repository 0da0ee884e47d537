/* SPDX-License-Identifier: MIT */
#include "tools/compare/align.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tools/base/vec.h"

/* One box of the edit graph still to be solved: a[a_lo..a_hi) against b[b_lo..b_hi). */
struct box {
    int64_t a_lo, a_hi, b_lo, b_hi;
};

/* A point of a box, counted from its upper left corner. */
struct cut {
    int64_t x, y;
};

enum direction {
    FORWARD,  /* from the upper left corner */
    BACKWARD, /* from the lower right one: the same search on both sequences reversed */
    DIRECTIONS,
};

#define UNREACHED (INT64_MIN / 2)

/* Edits after which a search is given up: least and greatest limit. */
#define EDITS_MIN 64
#define EDITS_MAX 4096

struct align {
    const uint32_t *a, *b;
    uint32_t *partner;
    struct box box;
    int64_t edits_max;
    /* furthest x per diagonal x - y, counted from -edits_max; valid if reached() says so */
    int64_t *reach[DIRECTIONS];
};

static int64_t width(const struct align *al)
{
    return al->box.a_hi - al->box.a_lo;
}

static int64_t height(const struct align *al)
{
    return al->box.b_hi - al->box.b_lo;
}

/* The x that a search of `edits` edits has reached on diagonal k. */
static int64_t reached(const struct align *al, enum direction dir, int64_t edits, int64_t k)
{
    if (k < -edits || k > edits || k < -height(al) || k > width(al))
        return UNREACHED;
    return al->reach[dir][al->edits_max + k];
}

static bool equal_at(const struct align *al, enum direction dir, int64_t x, int64_t y)
{
    const struct box *box = &al->box;

    if (dir == FORWARD)
        return al->a[box->a_lo + x] == al->b[box->b_lo + y];
    return al->a[box->a_hi - 1 - x] == al->b[box->b_hi - 1 - y];
}

/* The furthest x on diagonal k: one step from a neighbour diagonal, then along equal elements. */
static int64_t align_extend(const struct align *al, enum direction dir, int64_t edits, int64_t k)
{
    int64_t x = 0;

    if (edits) {
        int64_t across = reached(al, dir, edits - 1, k - 1) + 1;
        int64_t down = reached(al, dir, edits - 1, k + 1);
        if (across > width(al))
            across = UNREACHED;
        if (down - k > height(al))
            down = UNREACHED;
        x = across > down ? across : down;
        if (x < 0)
            return UNREACHED;
    }
    while (x < width(al) && x - k < height(al) && equal_at(al, dir, x, x - k))
        x++;
    return x;
}

/*
 * One more edit in one direction. True when it met the other search, which has made `other_edits`:
 * *ret_cut is then on a shortest path. (They can meet in a forward step only if the sequences'
 * lengths differ by an odd number, else backward.)
 */
static bool align_step(struct align *al, enum direction dir, int64_t edits, int64_t other_edits,
        struct cut *ret_cut)
{
    int64_t n = width(al);
    int64_t m = height(al);
    bool may_meet = ((n - m) & 1) == (dir == FORWARD);

    for (int64_t k = -edits; k <= edits; k += 2) {
        if (k < -m || k > n)
            continue;
        int64_t x = align_extend(al, dir, edits, k);
        al->reach[dir][al->edits_max + k] = x;
        if (x < 0 || !may_meet)
            continue;
        if (reached(al, dir == FORWARD ? BACKWARD : FORWARD, other_edits, n - m - k) + x < n)
            continue;
        *ret_cut = dir == FORWARD ? (struct cut){x, x - k} : (struct cut){n - x, m - (x - k)};
        return true;
    }
    return false;
}

/* The point furthest from the corner that the forward search reached. */
static struct cut furthest(const struct align *al, int64_t edits)
{
    struct cut best = {0, 0};

    for (int64_t k = -edits; k <= edits; k += 2) {
        int64_t x = reached(al, FORWARD, edits, k);
        if (x >= 0 && x + x - k > best.x + best.y)
            best = (struct cut){x, x - k};
    }
    return best;
}

/* The cut of a box that has no common prefix or suffix and no empty side. */
static struct cut find_cut(struct align *al)
{
    struct cut cut;
    int64_t edits;

    for (edits = 0; edits <= al->edits_max; edits++) {
        if (align_step(al, FORWARD, edits, edits - 1, &cut)
                || align_step(al, BACKWARD, edits, edits, &cut))
            return cut;
    }
    return furthest(al, al->edits_max);
}

/* Pairs the common prefix and suffix of a box and removes them from it. */
static void align_trim(struct align *al, struct box *box)
{
    while (box->a_lo < box->a_hi && box->b_lo < box->b_hi && al->a[box->a_lo] == al->b[box->b_lo])
        al->partner[box->a_lo++] = (uint32_t)box->b_lo++;
    while (box->a_lo < box->a_hi && box->b_lo < box->b_hi
            && al->a[box->a_hi - 1] == al->b[box->b_hi - 1])
        al->partner[--box->a_hi] = (uint32_t)--box->b_hi;
}

static void solve(struct align *al, uint32_t a_count, uint32_t b_count)
{
    struct box *stack = NULL;
    size_t depth = 0;
    size_t room = 0;

    VEC_PUSH(stack, depth, room) = (struct box){0, a_count, 0, b_count};
    while (depth) {
        struct box box = stack[--depth];
        align_trim(al, &box);
        if (box.a_lo == box.a_hi || box.b_lo == box.b_hi)
            continue;
        al->box = box;
        struct cut cut = find_cut(al);
        /* A cut in a corner would give the same box again: nothing more can be paired in it. */
        if ((cut.x == 0 && cut.y == 0) || (cut.x == width(al) && cut.y == height(al)))
            continue;
        int64_t a_mid = box.a_lo + cut.x;
        int64_t b_mid = box.b_lo + cut.y;
        VEC_PUSH(stack, depth, room) = (struct box){box.a_lo, a_mid, box.b_lo, b_mid};
        VEC_PUSH(stack, depth, room) = (struct box){a_mid, box.a_hi, b_mid, box.b_hi};
    }
    free(stack);
}

void align_sequences(
        const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count, uint32_t *partner)
{
    struct align al = {.a = a, .b = b, .partner = partner};

    for (uint32_t i = 0; i < a_count; i++)
        partner[i] = ALIGN_NONE;
    if (a_count == 0 || b_count == 0)
        return;
    al.edits_max = (int64_t)(ALIGN_STEPS_MAX / ((uint64_t)a_count + b_count));
    if (al.edits_max < EDITS_MIN)
        al.edits_max = EDITS_MIN;
    if (al.edits_max > EDITS_MAX)
        al.edits_max = EDITS_MAX;
    for (int dir = 0; dir < DIRECTIONS; dir++)
        al.reach[dir] = vec_new((size_t)al.edits_max * 2 + 1, sizeof(*al.reach[dir]));
    solve(&al, a_count, b_count);
    for (int dir = 0; dir < DIRECTIONS; dir++)
        free(al.reach[dir]);
}
