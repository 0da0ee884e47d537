/* SPDX-License-Identifier: MIT */
/* covers: evict_bound.c evict_plan.c evict_order.c evict_turn.c */
#include "alloc/base/meta.h"
#include "alloc/hints/evict.h"
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

/* Ten units in a circle, of which six fit: nine steps begin with nine different sets of units in. */
TEST(steps_that_begin_alike_in_turn_have_a_plan_each)
{
    static const unsigned order[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct evict_opts opts = {.cap = 6, .cyclic = true};
    uint64_t moved = 0;
    uint32_t first;

    play_begin(&opts);
    first = play_add(1);
    for (unsigned i = 1; i < 10; i++)
        (void)play_add(1);
    for (unsigned step = 0; step < 30; step++)
        (void)play_step(order, 10, first);
    for (unsigned step = 0; step < 9; step++) {
        moved += play_step(order, 10, first);
        CHECK(figures_now().is_replayed);
    }
    CHECK_EQ(moved, 2 * 40);
    CHECK_EQ(evict_bound(play.set), 40 / 9);
    play_end();
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

/* It would be refused for nothing: the cap has room. */
TEST(a_call_may_exceed_the_cap_of_the_warm_up)
{
    struct evict_opts opts = {.cap = 10, .warmup_cap = 4, .cyclic = true};
    uint32_t units[4];

    play_begin(&opts);
    for (unsigned i = 0; i < 4; i++)
        units[i] = play_add(3);
    play_one(units[0]);
    play_one(units[1]);
    CHECK_EQ(play.in_bytes, 3);
    play_use(units + 1, 3);
    CHECK_EQ(play.in_bytes, 9);
    play_one(units[0]);
    CHECK_EQ(play.in_bytes, 3);
    CHECK_EQ(evict_use(play.set, units, 4, &play.moves), -ENOSPC);
    CHECK_EQ(play.moves.room, 10);
    play_end();
}

/* ---- what is known before ---- */

static uint64_t volume_of_first_step(const uint32_t *stated, uint32_t count)
{
    struct evict_opts opts = {.cap = 256 * MIB,
            .warmup_cap = 128 * MIB,
            .cyclic = true,
            .order = stated,
            .order_count = count};
    uint32_t first;
    uint64_t moved;

    play_begin(&opts);
    first = play_add(128 * MIB);
    (void)play_add(128 * MIB);
    (void)play_add(128 * MIB);
    moved = play_step(seed_order, 5, first);
    CHECK_EQ(figures_now().is_planned, count > 0);
    for (unsigned step = 1; step < 4; step++)
        (void)play_step(seed_order, 5, first);
    CHECK_EQ(play_step(seed_order, 5, first), 512 * MIB);
    play_end();
    return moved / MIB;
}

/* 0 and 1 come in, 1 goes for 2 and 2 for 1: out twice, in four times. In the dark, with room for one, all come and go. */
TEST(a_stated_order_needs_no_warm_up)
{
    static const uint32_t stated[] = {0, 1, 2, 0, 1};
    static const uint32_t with_others[] = {7, 0, 1, 3, 1, 2, 0, 4000000000, 1};

    CHECK_EQ(volume_of_first_step(NULL, 0), 1152);
    CHECK_EQ(volume_of_first_step(stated, 5), 768);
    CHECK_EQ(volume_of_first_step(with_others, 9), 768);
}

TEST(a_stated_order_is_replayed_or_given_up_as_a_learnt_one)
{
    static const uint32_t stated[] = {0, 1, 2, 0, 1};
    static const unsigned other[] = {2, 1, 0, 2, 1};
    struct evict_opts opts = {.cap = 2, .cyclic = true, .order = stated, .order_count = 5};
    uint32_t first;

    play_begin(&opts);
    first = play_add(1);
    (void)play_add(1);
    (void)play_add(1);
    for (unsigned step = 0; step < 5; step++)
        (void)play_step(seed_order, 5, first);
    CHECK(figures_now().is_replayed);
    CHECK_EQ(evict_bound(play.set), 2);
    (void)play_step(other, 5, first);
    CHECK(!figures_now().is_replayed);
    for (unsigned step = 0; step < 5; step++)
        (void)play_step(other, 5, first);
    CHECK(figures_now().is_replayed);
    play_end();
}

/* A number is that of the unit that was made as such, whether or not others are gone. */
TEST(a_stated_order_counts_units_that_are_gone)
{
    static const uint32_t stated[] = {1, 2, 3, 0};
    struct evict_opts opts = {.cap = 2, .cyclic = true, .order = stated, .order_count = 4};
    struct evict_moves moves;
    uint32_t units[4];

    play_begin(&opts);
    units[0] = play_add(1);
    units[1] = play_add(1);
    evict_remove(play.set, units[1]);
    units[2] = play_add(1); /* in the record of the one that is gone */
    units[3] = play_add(1);
    CHECK_EQ(units[2], units[1]);
    evict_step(play.set);
    CHECK(figures_now().is_planned);
    CHECK_EQ(evict_bring(play.set, &moves), 2);
    REQUIRE_EQ(moves.count, 2);
    CHECK_EQ(moves.move[0].unit, units[2]);
    CHECK_EQ(moves.move[1].unit, units[3]);
    play_end();
}

/* Its record stays for the step after its last use, whose order has it, and no longer. */
TEST(the_record_of_what_is_gone_stays_as_long_as_an_order_has_it)
{
    struct evict_opts opts = {.cap = 4, .cyclic = true};
    uint32_t unit;

    play_begin(&opts);
    unit = play_add(1);
    for (int step = 0; step < 3; step++) {
        evict_step(play.set);
        play_use(&unit, 1);
    }
    evict_remove(play.set, unit);
    play.in[unit] = false;
    evict_step(play.set);
    CHECK_NE(play_add(1), unit);
    evict_step(play.set);
    CHECK_EQ(play_add(1), unit);
    play_end();
}

/* As many units as their list has room for, and others' memory behind it. */
TEST(a_stated_order_over_one_unit_too_many_passes_that_over)
{
    static const uint32_t stated[] = {0, 16, 1};
    struct evict_opts opts = {.cap = 4, .cyclic = true, .order = stated, .order_count = 3};
    void *others[64];

    for (int i = 0; i < 64; i++) {
        others[i] = meta_get(64);
        REQUIRE(others[i] != NULL);
        memset(others[i], 0xff, 64);
    }
    for (int i = 0; i < 64; i += 2)
        meta_put(others[i], 64);
    play_begin(&opts);
    for (int i = 0; i < 16; i++)
        (void)play_add(1);
    evict_step(play.set);
    CHECK(figures_now().is_planned);
    play_end();
    for (int i = 1; i < 64; i += 2)
        meta_put(others[i], 64);
}

TEST(an_order_over_no_unit_is_none)
{
    static const uint32_t stated[] = {0, 1};
    struct evict_opts opts = {.cap = 2, .cyclic = true, .order = stated, .order_count = 2};

    play_begin(&opts);
    evict_step(play.set);
    CHECK(!figures_now().is_planned);
    play_one(play_add(1));
    evict_step(play.set);
    CHECK(figures_now().is_planned);
    play_end();
}

TEST(lru_and_fifo_have_no_warm_up)
{
    for (unsigned victim = RULE_VICTIM_LRU; victim <= RULE_VICTIM_FIFO; victim++) {
        struct evict_opts opts = {.cap = 3, .warmup_cap = 1, .victim = (enum rule_victim)victim};
        uint32_t first;

        play_begin(&opts);
        first = play_add(1);
        for (unsigned i = 1; i < 4; i++)
            (void)play_add(1);
        for (unsigned step = 0; step < 4; step++) {
            static const unsigned order[] = {0, 1, 2, 0, 3};

            /* The fourth unit takes the room of the one that was used first, or came first. */
            CHECK_EQ(play_step(order, 5, first), step == 0 ? 5 : victim == RULE_VICTIM_LRU ? 6 : 8);
            CHECK(!figures_now().is_replayed);
        }
        play_end();
    }
}

/* ---- sizes ---- */

enum {
    SETS = 8, /* of three units that may be in */
    STEPS_ALIKE = 12,
    /* so many are whole periods */
    STEPS_SUMMED = 840,
};

static unsigned bytes_of(unsigned set)
{
    return (set & 1) + (set & 2) + 3 * (set >> 2);
}

/* Least bytes in, by what is in before and after one step, whole units only. */
static void least_of_step(
        const unsigned *order, unsigned length, unsigned cap, unsigned least[SETS][SETS])
{
    for (unsigned from = 0; from < SETS; from++) {
        unsigned now[SETS], next[SETS];

        for (unsigned set = 0; set < SETS; set++)
            now[set] = set == from && bytes_of(set) <= cap ? 0 : 1000000;
        for (unsigned at = 0; at < length; at++) {
            unsigned unit = 1U << order[at];

            for (unsigned set = 0; set < SETS; set++)
                next[set] = 1000000;
            for (unsigned set = 0; set < SETS * SETS; set++) {
                unsigned had = set / SETS, has = (set % SETS) & (had | unit);
                unsigned cost = now[had] + (had & unit ? 0 : bytes_of(unit));

                if (has & unit && bytes_of(has) <= cap && cost < next[has])
                    next[has] = cost;
            }
            memcpy(now, next, sizeof(now));
        }
        memcpy(least[from], now, sizeof(now));
    }
}

/* The least that steps without end can cost, as bytes of STEPS_SUMMED steps: over all circles of beginnings. */
static uint64_t least_volume(const unsigned *order, unsigned length, unsigned cap)
{
    unsigned least[SETS][SETS], walk[SETS][SETS];
    uint64_t best = UINT64_MAX;

    least_of_step(order, length, cap, least);
    memcpy(walk, least, sizeof(walk));
    for (unsigned steps = 1; steps <= SETS; steps++) {
        unsigned longer[SETS][SETS];

        for (unsigned i = 0; i < SETS; i++)
            if ((uint64_t)walk[i][i] * STEPS_SUMMED / steps < best)
                best = (uint64_t)walk[i][i] * STEPS_SUMMED / steps;
        for (unsigned i = 0; i < SETS * SETS; i++) {
            unsigned from = i / SETS, to = i % SETS;

            longer[from][to] = 1000000;
            for (unsigned by = 0; by < SETS; by++)
                if (walk[from][by] + least[by][to] < longer[from][to])
                    longer[from][to] = walk[from][by] + least[by][to];
        }
        memcpy(walk, longer, sizeof(walk));
    }
    return best;
}

/* Bytes in of STEPS_SUMMED steps. The set is still there. */
static uint64_t steady_volume(const unsigned *order, unsigned length, uint64_t cap)
{
    struct evict_opts opts = {.cap = cap, .cyclic = true};
    uint64_t before = 0;
    uint32_t first;

    play_begin(&opts);
    play.is_large = true;
    first = play_add(1);
    (void)play_add(2);
    (void)play_add(3);
    for (unsigned step = 0; step < STEPS_ALIKE + STEPS_SUMMED; step++) {
        before = step == STEPS_ALIKE ? play.moved_in : before;
        (void)play_step(order, length, first);
    }
    return play.moved_in - before;
}

/* Units of 1, 2 and 3. The bound cuts units; where whole ones can do as well, these decisions do. */
TEST(volumes_of_units_of_three_sizes)
{
    unsigned orders = 0, could = 0;

    for (unsigned length = 3; length <= 5; length++) {
        unsigned order[6] = {0};

        while (next_order(order, length))
            for (unsigned cap = 3; cap <= 6; cap++) {
                uint64_t volume = steady_volume(order, length, cap);
                uint64_t bound = evict_bound(play.set);
                uint64_t least = least_volume(order, length, cap);

                orders++;
                CHECK_LE(bound * STEPS_SUMMED, least);
                CHECK_LE(least, volume);
                if (least / STEPS_SUMMED == bound) {
                    could++;
                    CHECK_EQ(volume / STEPS_SUMMED, bound);
                }
                if (cap == 6)
                    CHECK_EQ(volume, 0);
                play_end();
            }
    }
    CHECK_EQ(orders, 768);
    CHECK_EQ(could, 250);
}

/* ---- moves that fail, and moves that nobody's call needs ---- */

/* A unit of 1 that lasts, and one of 2 that each step makes, which is gone at its end or in the next step. The bound, cap 2. */
static uint64_t bound_with_made(bool is_freed_later)
{
    struct evict_opts opts = {.cap = 2, .cyclic = true};
    uint32_t made = 0;
    uint32_t first;

    play_begin(&opts);
    first = play_add(1);
    for (unsigned step = 0; step < 5; step++) {
        evict_step(play.set);
        if (made && is_freed_later)
            evict_remove(play.set, made);
        REQUIRE_EQ(evict_use(play.set, &first, 1, &play.moves), 0);
        REQUIRE_EQ(evict_add(play.set, 2, &made), 0);
        REQUIRE_EQ(evict_use(play.set, &made, 1, &play.moves), 0);
        if (!is_freed_later)
            evict_remove(play.set, made);
    }
    evict_step(play.set);
    CHECK(figures_now().is_planned);
    uint64_t bound = evict_bound(play.set);
    play_end();
    return bound;
}

TEST(the_first_coming_of_what_a_step_makes_is_not_in_the_bound)
{
    CHECK_EQ(bound_with_made(false), 1); /* what lasts has to go for it */
    CHECK_EQ(bound_with_made(true), 1);
}

TEST(moves_that_fail_leave_things_as_they_were)
{
    uint32_t first = begin_seed(true, RULE_VICTIM_FARTHEST);
    struct evict_moves moves;

    evict_step(play.set);
    play_one(first);
    play_one(first + 1);
    for (unsigned times = 0; times < 3; times++) {
        uint32_t unit = first + 2;

        REQUIRE_EQ(evict_use(play.set, &unit, 1, &moves), 0);
        REQUIRE_EQ(moves.count, 2);
        CHECK(!moves.move[0].in && moves.move[1].in);
        for (uint32_t i = moves.count; i-- > 0;)
            evict_undo(play.set, moves.move[i].unit);
        CHECK(evict_is_in(play.set, first) && evict_is_in(play.set, first + 1));
        CHECK(!evict_is_in(play.set, first + 2));
        CHECK_EQ(figures_now().in_bytes, 256 * MIB);
        CHECK_EQ(figures_now().moved_in, 256 * MIB);
        CHECK_EQ(figures_now().moved_out, 0);
        CHECK_EQ(figures_now().uses, 3); /* the program tries the same call again */
    }
    play_one(first + 2);
    play_end();
}

/* With what is used next out, it comes first, as far as there is room. */
TEST(what_is_brought_is_what_is_used_next)
{
    uint32_t first = begin_seed(true, RULE_VICTIM_FARTHEST);
    struct evict_moves moves;

    for (unsigned step = 0; step < 2; step++)
        (void)play_step(seed_order, 5, first);
    evict_step(play.set);
    CHECK_EQ(evict_make_room(play.set, 129 * MIB, &moves), 256 * MIB);
    CHECK_EQ(moves.count, 2);
    CHECK_EQ(evict_bring(play.set, &moves), 256 * MIB);
    REQUIRE_EQ(moves.count, 2);
    CHECK_EQ(moves.move[0].unit, first);
    CHECK_EQ(moves.move[1].unit, first + 1);
    CHECK(moves.move[0].in && moves.move[1].in);
    CHECK_EQ(evict_bring(play.set, &moves), 0);
    CHECK_EQ(moves.count, 0);
    evict_hold(play.set, first);
    CHECK_EQ(evict_make_room(play.set, 256 * MIB, &moves), 128 * MIB);
    play_end();
}

/* So that a call does not wait twice: moves of the plan begin a call earlier each time one came late, as far as its step goes. */
TEST(what_comes_late_begins_earlier)
{
    static const unsigned order[] = {0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0};
    struct evict_opts opts = {.cap = 3, .cyclic = true};
    uint64_t ahead[12] = {0};
    uint32_t first;

    play_begin(&opts);
    first = play_add(1);
    for (unsigned i = 1; i < 6; i++)
        (void)play_add(1);
    for (unsigned step = 0; step < 12; step++) {
        uint64_t before = play.ahead;

        evict_step(play.set);
        for (unsigned at = 0; at < 11; at++) {
            play_one(first + order[at]);
            if (play.moves.count > 0)
                evict_late(play.set, first + order[at]);
        }
        ahead[step] = play.ahead - before;
    }
    CHECK(figures_now().is_replayed);
    CHECK_EQ(ahead[1], 0);
    CHECK_GT(ahead[11], ahead[3]);
    for (unsigned times = 0; times < 100; times++)
        for (unsigned i = 0; i < 6; i++)
            evict_late(play.set, first + i);
    for (unsigned step = 0; step < 4; step++)
        (void)play_step(order, 11, first);
    CHECK(figures_now().is_replayed);
    play_end();
}

/* The unit that the plan would take out now. */
TEST(a_replay_ends_where_a_unit_that_should_go_is_held)
{
    for (uint32_t held = 0; held < 2; held++) {
        uint32_t first = begin_seed(true, RULE_VICTIM_FARTHEST);

        for (int step = 0; step < 8; step++)
            (void)play_step(seed_order, 5, first);
        REQUIRE(figures_now().is_replayed);
        evict_step(play.set);
        play_one(first);
        play_one(first + 1);
        evict_hold(play.set, first + held);
        play_one(first + 2);
        CHECK(play.in[first + held]);
        CHECK(evict_is_in(play.set, first + held));
        evict_let_go(play.set, first + held);
        play_end();
    }
}

/* A step of a million positions is learnt, and one more makes it a step without an order. */
TEST(a_step_of_too_many_positions_has_no_order)
{
    enum {
        UNITS = 2048,
        CALLS = 1024,
    };
    static uint32_t units[UNITS];
    struct evict_opts opts = {.cap = UNITS, .cyclic = true};

    play_begin(&opts);
    play.is_large = true;
    for (int i = 0; i < UNITS; i++)
        units[i] = play_add(1);
    for (uint32_t more = 0; more < 2; more++) {
        evict_step(play.set);
        for (uint32_t i = 0; i < CALLS; i++) /* of 1024 units each, the other half in turn */
            play_use(units + i % 2 * CALLS, CALLS);
        if (more)
            play_one(units[0]);
        evict_step(play.set);
        CHECK_EQ(figures_now().is_planned, !more);
    }
    play_end();
}
