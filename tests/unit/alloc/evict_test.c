/* SPDX-License-Identifier: MIT */
#include "alloc/evict.h"
#include "tests/check.h"

#include <errno.h>

enum {
    UNITS_MAX = 16384,
};

/* A set, and beside it what its moves come to when they are made. */
struct play {
    struct evict *set;
    uint64_t cap;
    uint64_t size[UNITS_MAX];
    bool in[UNITS_MAX], is_named[UNITS_MAX];
    uint64_t in_bytes, moved_in, moved_out;
    uint64_t needed, ahead; /* moves */
    bool is_large;          /* figures, which look at all units, are asked by the test alone */
    struct evict_moves moves;
};

static struct play play;

static void play_begin(const struct evict_opts *opts)
{
    memset(&play, 0, sizeof(play));
    play.cap = opts->cap;
    REQUIRE_EQ(evict_new(opts, &play.set), 0);
}

static uint32_t play_add(uint64_t size)
{
    uint32_t unit;

    REQUIRE_EQ(evict_add(play.set, size, &unit), 0);
    REQUIRE(unit > 0 && unit < UNITS_MAX);
    CHECK(!evict_is_in(play.set, unit));
    play.size[unit] = size;
    play.in[unit] = false;
    return unit;
}

/* Makes one move: out only of what is in, in only of what is out, and never over the cap. */
static void play_move(const struct evict_move *move)
{
    REQUIRE(play.in[move->unit] != move->in);
    play.in[move->unit] = move->in;
    if (move->in) {
        play.in_bytes += play.size[move->unit];
        play.moved_in += play.size[move->unit];
    } else {
        play.in_bytes -= play.size[move->unit];
        play.moved_out += play.size[move->unit];
        CHECK(!play.is_named[move->unit]);
    }
    if (move->in)
        CHECK_LE(play.in_bytes, play.cap);
}

static struct evict_figures figures_now(void)
{
    struct evict_figures figures;

    evict_figures(play.set, &figures);
    return figures;
}

/* Uses them, which must go well; never without one of them. */
static void play_use(const uint32_t *units, uint32_t count)
{
    REQUIRE_EQ(evict_use(play.set, units, count, &play.moves), 0);
    for (uint32_t i = 0; i < count; i++)
        play.is_named[units[i]] = true;
    for (uint32_t i = 0; i < play.moves.count; i++)
        play_move(&play.moves.move[i]);
    CHECK_LE(play.in_bytes, play.cap);
    for (uint32_t i = 0; i < count; i++)
        CHECK(play.in[units[i]]);
    for (uint32_t i = 0; i < play.moves.ahead; i++)
        play_move(&play.moves.move[play.moves.count + i]);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(play.in[units[i]] && evict_is_in(play.set, units[i]));
        play.is_named[units[i]] = false;
    }
    play.needed += play.moves.count;
    play.ahead += play.moves.ahead;
    if (!play.is_large)
        CHECK_EQ(figures_now().in_bytes, play.in_bytes);
}

static void play_one(uint32_t unit)
{
    play_use(&unit, 1);
}

/* One step, each use a call of its own; unit 0 of an order is `first`. Bytes moved. */
static uint64_t play_step(const unsigned *order, unsigned length, uint32_t first)
{
    uint64_t before = play.moved_in + play.moved_out;
    struct evict_figures figures;

    evict_step(play.set);
    for (unsigned at = 0; at < length; at++)
        play_one(first + order[at]);
    evict_figures(play.set, &figures);
    CHECK_EQ(figures.moved_in + figures.moved_out, play.moved_in + play.moved_out - before);
    return play.moved_in + play.moved_out - before;
}

static void play_end(void)
{
    evict_free(play.set);
}

/* ---- the seed ---- */

#define MIB (UINT64_C(1) << 20)

static const unsigned seed_order[] = {0, 1, 2, 0, 1};

static uint32_t begin_seed(bool is_cyclic, enum rule_victim victim)
{
    struct evict_opts opts = {.cap = 256 * MIB, .victim = victim, .cyclic = is_cyclic};
    uint32_t first = 0;

    play_begin(&opts);
    for (unsigned i = 0; i < 3; i++) {
        uint32_t unit = play_add(128 * MIB);

        first = first ? first : unit;
        REQUIRE_EQ(unit, first + i);
    }
    return first;
}

/* Issue #878, tests/test_gemini: what is in after each use, as bits. */
TEST(what_is_in_equals_the_ten_rows_of_the_seed)
{
    static const unsigned rows[][5] = {{1, 3, 6, 5, 6}, {3, 3, 5, 5, 6}};
    uint32_t first = begin_seed(false, RULE_VICTIM_FARTHEST);

    for (unsigned step = 0; step < 6; step++) {
        evict_step(play.set);
        for (unsigned at = 0; at < 5; at++) {
            unsigned in = 0;

            play_one(first + seed_order[at]);
            for (unsigned i = 0; i < 3; i++)
                in |= play.in[first + i] ? 1U << i : 0;
            CHECK_EQ(in, rows[step > 0][at]);
        }
    }
    play_end();
}

/* Victims in the order in which units were made, whatever is known: 1024 MiB in a step. */
static uint64_t naive_volume(void)
{
    bool in[3] = {false};
    unsigned count = 0;
    uint64_t moved = 0;

    for (unsigned use = 0; use < 20; use++) {
        unsigned unit = seed_order[use % 5];

        moved = use % 5 == 0 ? 0 : moved;
        for (unsigned i = 0; i < 3 && !in[unit] && count == 2; i++) {
            count -= in[i] ? 1 : 0;
            moved += in[i] ? 128 : 0;
            in[i] = false;
        }
        count += in[unit] ? 0 : 1;
        moved += in[unit] ? 0 : 128;
        in[unit] = true;
    }
    return moved;
}

static uint64_t volume_of_seed(bool is_cyclic, enum rule_victim victim)
{
    uint32_t first = begin_seed(is_cyclic, victim);
    uint64_t moved = 0;

    for (unsigned step = 0; step < 6; step++)
        moved = play_step(seed_order, 5, first);
    CHECK_EQ(evict_bound(play.set), 256 * MIB);
    play_end();
    return moved / MIB;
}

TEST(volumes_of_the_seed)
{
    CHECK_EQ(naive_volume(), 1024);
    CHECK_EQ(volume_of_seed(false, RULE_VICTIM_LRU), 768);
    CHECK_EQ(volume_of_seed(false, RULE_VICTIM_FARTHEST), 768);
    CHECK_EQ(volume_of_seed(true, RULE_VICTIM_FARTHEST), 512); /* in and out: twice the bound */
}

TEST(an_order_that_a_cached_layout_fails)
{
    static const unsigned order[] = {1, 0, 2};

    for (unsigned cyclic = 0; cyclic < 2; cyclic++) {
        uint32_t first = begin_seed(cyclic, RULE_VICTIM_FARTHEST);

        for (unsigned step = 0; step < 5; step++)
            (void)play_step(order, 3, first);
        CHECK_EQ(figures_now().step, 5);
        CHECK(figures_now().is_planned);
        play_end();
    }
}

/* The next of all orders of this length over three units that use all three. False: there is no further one. */
static bool next_order(unsigned *order, unsigned length)
{
    unsigned used;

    do {
        unsigned at = length;

        while (at > 0 && order[at - 1] == 2)
            order[--at] = 0;
        if (at == 0)
            return false;
        order[at - 1]++;
        used = 0;
        for (at = 0; at < length; at++)
            used |= 1U << order[at];
    } while (used != 7);
    return true;
}

enum {
    SHORT_STEPS = 8,
};

struct short_run {
    uint64_t volume[SHORT_STEPS];
    unsigned replayed; /* steps */
};

static struct short_run run_short(
        const unsigned *order, unsigned length, bool is_cyclic, uint32_t prefetch)
{
    struct evict_opts opts = {.cap = 2, .cyclic = is_cyclic, .prefetch = prefetch};
    struct short_run run = {.replayed = 0};
    uint32_t first;

    play_begin(&opts);
    first = play_add(1);
    (void)play_add(1);
    (void)play_add(1);
    for (unsigned step = 0; step < SHORT_STEPS; step++) {
        run.volume[step] = play_step(order, length, first);
        run.replayed += figures_now().is_replayed ? 1 : 0;
    }
    play_end();
    return run;
}

TEST(no_short_order_misses_a_unit_or_exceeds_the_cap)
{
    unsigned orders = 0;
    uint64_t ahead = 0, replayed = 0;

    for (unsigned length = 3; length <= 6; length++) {
        unsigned order[6] = {0};

        while (next_order(order, length)) {
            orders++;
            for (unsigned cyclic = 0; cyclic < 2; cyclic++) {
                struct short_run plain = run_short(order, length, cyclic, 0);

                CHECK_EQ(play.ahead, 0);
                for (uint32_t prefetch = 1; prefetch <= 3; prefetch++) {
                    struct short_run run = run_short(order, length, cyclic, prefetch);

                    CHECK(memcmp(run.volume, plain.volume, sizeof(run.volume)) == 0);
                    ahead += play.ahead;
                    replayed += run.replayed;
                }
            }
        }
    }
    CHECK_EQ(orders, 732);
    CHECK_GT(ahead, 0);
    CHECK_GT(replayed, orders);
}

/* Unit that goes out for `unit`, among those of `hold`: farthest next use in this step, the first made of equals. */
static unsigned victim_of(
        const unsigned *order, unsigned length, unsigned at, unsigned hold, bool is_warmup)
{
    unsigned best = 3, best_next = 0;

    for (unsigned i = 0; i < 3; i++) {
        unsigned next = at + 1;

        if (!(hold & 1U << i))
            continue;
        while (next < length && order[next] != i)
            next++;
        if (is_warmup)
            next = 0;
        if (best == 3 || next > best_next) {
            best = i;
            best_next = next;
        }
    }
    return best;
}

/* What #878 does: which unit comes in and which ones may go out is kept per position. Does it run without one it needs? */
static bool cached_plan_fails(const unsigned *order, unsigned length)
{
    unsigned in = 0, count = 0;
    unsigned wanted[2][6], hold[2][6];
    bool is_kept[2][6] = {{false}};

    for (unsigned step = 0; step < 5; step++)
        for (unsigned at = 0; at < length; at++) {
            unsigned unit = 1U << order[at], known = step > 0;
            unsigned left;

            if (!is_kept[known][at]) {
                wanted[known][at] = unit & ~in;
                hold[known][at] = in & ~unit;
                is_kept[known][at] = true;
            }
            left = hold[known][at];
            if (!(in & unit) && count == 2) {
                unsigned victim = victim_of(order, length, at, left, !known);

                /* It counts as gone, in or not. */
                if (victim < 3 && in & 1U << victim) {
                    in &= ~(1U << victim);
                    count--;
                }
            }
            count += wanted[known][at] & ~in ? 1 : 0;
            in |= wanted[known][at];
            if (!(in & unit) || count > 2)
                return true;
        }
    return false;
}

TEST(a_plan_kept_by_position_alone_fails_214_of_them)
{
    unsigned failed = 0;

    for (unsigned length = 3; length <= 6; length++) {
        unsigned order[6] = {0};

        while (next_order(order, length))
            failed += cached_plan_fails(order, length) ? 1 : 0;
    }
    CHECK_EQ(failed, 214);
}

/* ---- what a decision costs ---- */

/* Forward and backward through so many units, half of which fit. Looks of a use by the moves it had; uses with no moves, some. */
static void count_looks(unsigned units, uint32_t prefetch, uint64_t looks[4])
{
    struct evict_opts opts = {.cap = units / 2, .cyclic = true, .prefetch = prefetch};
    uint32_t first = 0;

    play_begin(&opts);
    for (unsigned i = 0; i < units; i++) {
        uint32_t unit = play_add(1);

        first = first ? first : unit;
    }
    memset(looks, 0, 4 * sizeof(*looks));
    play.is_large = true;
    for (unsigned step = 0; step < 5; step++) {
        uint64_t before = figures_now().looks;

        looks[3] = before;
        evict_step(play.set);
        for (unsigned at = 0; at < 2 * units; at++) {
            uint64_t *most, now;

            play_one(first + (at < units ? at : 2 * units - 1 - at));
            REQUIRE(play.moves.count + play.moves.ahead <= 2);
            if (step < 4)
                continue;
            now = figures_now().looks;
            most = &looks[play.moves.count + play.moves.ahead];
            *most = now - before > *most ? now - before : *most;
            before = now;
        }
    }
    looks[3] = figures_now().looks - looks[3]; /* evict_step included */
    CHECK(figures_now().is_replayed);
    play_end();
}

TEST(looks_in_steady_state_do_not_depend_on_the_number_of_units)
{
    for (uint32_t prefetch = 0; prefetch < 4; prefetch += 3) {
        uint64_t few[4], many[4];

        count_looks(100, prefetch, few);
        count_looks(10000, prefetch, many);
        for (unsigned moves = 0; moves < 3; moves++)
            CHECK_EQ(few[moves], many[moves]);
        CHECK_GT(few[2], 0);
        CHECK_EQ((few[3] + 100) / 200, (many[3] + 10000) / 20000); /* of a whole step, by use */
    }
}

/* ---- what does not fit ---- */

TEST(what_does_not_fit_is_said_and_changes_nothing)
{
    struct evict_opts opts = {.cap = 10, .cyclic = true};
    struct evict_moves moves;
    uint32_t pinned, pair[3];

    play_begin(&opts);
    pinned = play_add(4);
    for (unsigned i = 0; i < 3; i++)
        pair[i] = play_add(3);
    play_one(pinned);
    evict_hold(play.set, pinned);
    play_use(pair, 2);
    CHECK_EQ(evict_use(play.set, pair, 3, &moves), -ENOSPC);
    CHECK_EQ(moves.needed, 9);
    CHECK_EQ(moves.room, 6);
    CHECK_EQ(figures_now().in_bytes, 10);
    CHECK(evict_is_in(play.set, pinned) && evict_is_in(play.set, pair[0]));
    CHECK(evict_is_in(play.set, pair[1]) && !evict_is_in(play.set, pair[2]));
    play_use(pair + 1, 2);
    CHECK(evict_is_in(play.set, pinned) && !evict_is_in(play.set, pair[0]));
    evict_let_go(play.set, pinned);
    play_use(pair, 3);
    CHECK(!evict_is_in(play.set, pinned));
    play_end();
}
