/* SPDX-License-Identifier: MIT */
/* covers: evict_use.c */
/*
 * Random programs under random caps. Beside the set stands what its moves come to when they are made, and what the rule of
 * evict.h says of each use when nothing is remembered but the order of the last step.
 */
#include "alloc/hints/evict.h"
#include "tests/check.h"

#include <errno.h>

enum {
    RECORDS_MAX = 512, /* numbers of units */
    LIVE_MAX = 12,
    CALL_MAX = 4,
    PENDING_MAX = 1024,
    SEEDS = 20000,
};

static uint64_t random_state;

static uint32_t random_below(uint32_t end)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % end);
}

static bool one_in(uint32_t count)
{
    return random_below(count) == 0;
}

/* ---- memory that is refused ---- */

void *__real_meta_get(size_t size); /* NOLINT(bugprone-reserved-identifier): the linker's name */

static bool is_refusing, is_refusing_all;
static uint64_t refusals;

void *__wrap_meta_get(size_t size); /* NOLINT(bugprone-reserved-identifier): the linker's name */

void *__wrap_meta_get(size_t size) /* NOLINT(bugprone-reserved-identifier): the linker's name */
{
    if (is_refusing_all || (is_refusing && one_in(3))) {
        refusals++;
        return NULL;
    }
    return __real_meta_get(size);
}

/* ---- any sequence of calls ---- */

/* What random programs have met. */
struct floors {
    uint64_t uses, refused, replayed, ahead, undone, late, made_room, brought, caps, removed_ahead;
};

static struct floors floors;

struct model {
    struct evict *set;
    struct evict_opts opts;
    uint32_t live[LIVE_MAX], live_count;
    uint64_t size[RECORDS_MAX];
    uint32_t held[RECORDS_MAX];
    bool in[RECORDS_MAX]; /* once all that was told is made */
    bool is_named[RECORDS_MAX];
    uint64_t in_bytes, moved_in, moved_out;
    struct evict_move pending[PENDING_MAX]; /* told, and not made */
    uint32_t pending_count;
    bool is_counted; /* the figures of this step can be told */
};

static struct model model;

static uint64_t room_of_all(void)
{
    return model.opts.warmup_cap > model.opts.cap ? model.opts.warmup_cap : model.opts.cap;
}

static void model_turn(const struct evict_move *move)
{
    uint64_t size = model.size[move->unit];

    REQUIRE(model.in[move->unit] != move->in);
    model.in[move->unit] = move->in;
    if (move->in)
        model.in_bytes += size;
    else
        model.in_bytes -= size;
}

static void model_told(const struct evict_move *move)
{
    model_turn(move);
    if (move->in) {
        model.moved_in += model.size[move->unit];
        CHECK(model.in_bytes <= room_of_all() || model.size[move->unit] == 0);
    } else {
        model.moved_out += model.size[move->unit];
        CHECK(!model.held[move->unit] && !model.is_named[move->unit]);
    }
    REQUIRE(model.pending_count < PENDING_MAX);
    model.pending[model.pending_count++] = *move;
}

/* The move that stands at `from` fails: it and all that follow it are undone, the last one first. */
static void model_fail(uint32_t from)
{
    while (model.pending_count > from) {
        struct evict_move move = model.pending[--model.pending_count];

        evict_undo(model.set, move.unit);
        move.in = !move.in;
        model_turn(&move);
        if (move.in)
            model.moved_out -= model.size[move.unit];
        else
            model.moved_in -= model.size[move.unit];
        floors.undone++;
    }
}

/* So many of the told moves are made, and are no longer to be undone. */
static void model_make(uint32_t count)
{
    model.pending_count -= count;
    memmove(model.pending, model.pending + count, model.pending_count * sizeof(*model.pending));
}

static void model_check(void)
{
    struct evict_figures figures;
    uint64_t bytes = 0, states = 0;

    evict_figures(model.set, &figures);
    for (uint32_t i = 0; i < model.live_count; i++) {
        CHECK(evict_is_in(model.set, model.live[i]) == model.in[model.live[i]]);
        bytes += model.size[model.live[i]];
    }
    for (uint32_t state = 0; state < EVICT_STATE_COUNT; state++)
        states += figures.state_bytes[state];
    CHECK_EQ(figures.units, model.live_count);
    CHECK_EQ(figures.bytes, bytes);
    CHECK_EQ(states, bytes);
    CHECK_EQ(figures.in_bytes, model.in_bytes);
    CHECK_EQ(figures.state_bytes[EVICT_FREE], bytes - model.in_bytes);
    if (!model.is_counted)
        return;
    CHECK_EQ(figures.moved_in, model.moved_in);
    CHECK_EQ(figures.moved_out, model.moved_out);
}

static void model_add(void)
{
    uint64_t size = one_in(8) ? 0 : one_in(3) ? random_below(12) : 4;
    uint32_t unit;

    if (model.live_count == LIVE_MAX)
        return;
    if (evict_add(model.set, size, &unit) != 0) {
        CHECK(is_refusing);
        return;
    }
    REQUIRE(unit > 0 && unit < RECORDS_MAX);
    for (uint32_t i = 0; i < model.live_count; i++)
        CHECK_NE(model.live[i], unit);
    model.live[model.live_count++] = unit;
    model.size[unit] = size;
    model.held[unit] = 0;
    model.in[unit] = false;
}

/* The caller makes what it has been told of a unit before it takes it away. */
static void model_remove(void)
{
    uint32_t place = random_below(model.live_count);
    uint32_t unit = model.live[place];

    for (uint32_t i = model.pending_count; i-- > 0;)
        if (model.pending[i].unit == unit) {
            floors.removed_ahead++;
            model_make(i + 1);
            break;
        }
    model.in_bytes -= model.in[unit] ? model.size[unit] : 0;
    evict_remove(model.set, unit);
    model.live[place] = model.live[--model.live_count];
}

static void model_step(void)
{
    model_make(one_in(4) ? 0 : model.pending_count);
    evict_step(model.set);
    model.moved_in = model.moved_out = 0;
    model.is_counted = model.pending_count == 0;
}

/* That are in; those that the running call names do not count. */
static uint64_t bytes_of_held(void)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < model.live_count; i++) {
        uint32_t unit = model.live[i];

        bytes += model.held[unit] && model.in[unit] && !model.is_named[unit] ? model.size[unit] : 0;
    }
    return bytes;
}

/* Nothing has changed, and it could not have been done. */
static void model_refused(uint64_t needed, const struct evict_moves *moves)
{
    floors.refused++;
    CHECK_EQ(moves->needed, needed);
    CHECK_LT(moves->room, needed);
    CHECK_GT(needed + bytes_of_held(), model.opts.cap);
}

static void model_served(const uint32_t *units, uint32_t count, const struct evict_moves *moves)
{
    struct evict_figures figures;
    uint32_t first = model.pending_count;

    for (uint32_t i = 0; i < moves->count; i++)
        model_told(&moves->move[i]);
    for (uint32_t i = 0; i < count; i++)
        CHECK(model.in[units[i]]);
    if (count > 0)
        CHECK(model.in_bytes <= room_of_all() || model.in_bytes == bytes_of_held());
    for (uint32_t i = 0; i < moves->ahead; i++)
        model_told(&moves->move[moves->count + i]);
    for (uint32_t i = 0; i < count; i++)
        CHECK(model.in[units[i]]);
    evict_figures(model.set, &figures);
    floors.uses++;
    floors.replayed += figures.is_replayed ? 1 : 0;
    floors.ahead += moves->ahead;
    /* What comes before the call has to be made with it; what is ahead may be late. */
    if (model.pending_count > 0 && one_in(40))
        model_fail(random_below(model.pending_count));
    else
        model_make(one_in(2) ? first + moves->count : model.pending_count);
}

static void model_use(const uint32_t *units, uint32_t count)
{
    struct evict_moves moves;
    uint64_t needed = 0;
    int r = evict_use(model.set, units, count, &moves);

    for (uint32_t i = 0; i < count; i++) {
        needed += model.is_named[units[i]] ? 0 : model.size[units[i]];
        model.is_named[units[i]] = true;
    }
    if (r == -ENOSPC) {
        model_refused(needed, &moves);
    } else if (r == -ENOMEM) {
        CHECK(is_refusing);
    } else {
        REQUIRE_EQ(r, 0);
        model_served(units, count, &moves);
    }
    for (uint32_t i = 0; i < count; i++)
        model.is_named[units[i]] = false;
}

/* Moves for which there was no call. Bytes. */
static uint64_t model_other(const struct evict_moves *moves, bool in)
{
    uint64_t bytes = 0;

    CHECK_EQ(moves->ahead, 0);
    for (uint32_t i = 0; i < moves->count; i++) {
        CHECK(moves->move[i].in == in);
        bytes += model.size[moves->move[i].unit];
        model_told(&moves->move[i]);
    }
    if (one_in(4) && model.pending_count > 0)
        model_fail(random_below(model.pending_count));
    return bytes;
}

static void model_make_room(void)
{
    uint64_t want = random_below(20), could = 0, bytes;
    struct evict_moves moves;

    for (uint32_t i = 0; i < model.live_count; i++) {
        uint32_t unit = model.live[i];

        could += model.in[unit] && !model.held[unit] ? model.size[unit] : 0;
    }
    bytes = evict_make_room(model.set, want, &moves);
    CHECK(bytes >= (want < could ? want : could) || is_refusing);
    floors.made_room += bytes;
    CHECK_EQ(model_other(&moves, false), bytes);
}

static void model_bring(void)
{
    struct evict_moves moves;
    uint64_t bytes = evict_bring(model.set, &moves);

    floors.brought += bytes;
    CHECK_EQ(model_other(&moves, true), bytes);
}

static void model_hold(void)
{
    uint32_t unit = model.live[random_below(model.live_count)];

    if (model.held[unit] > 0 && !one_in(4)) {
        model.held[unit]--;
        evict_let_go(model.set, unit);
        return;
    }
    for (uint32_t i = model.pending_count; i-- > 0;)
        if (model.pending[i].unit == unit && !model.pending[i].in)
            return;
    model.held[unit]++;
    evict_hold(model.set, unit);
}

static void model_caps(void)
{
    model.opts.cap = 8 + random_below(40);
    model.opts.warmup_cap = one_in(2) ? 0 : random_below(60);
    evict_set_cap(model.set, model.opts.cap, model.opts.warmup_cap);
    floors.caps++;
}

/* Something beside the order of use. */
static void model_disturb(void)
{
    if (model.live_count == 0)
        return;
    switch (random_below(7)) {
    case 0:
        model_hold();
        break;
    case 1:
        model_make_room();
        break;
    case 2:
        model_bring();
        break;
    case 3:
        if (one_in(4))
            model_caps();
        break;
    case 4:
        model_remove();
        break;
    case 5:
        model_add();
        break;
    default:
        evict_late(model.set, model.live[random_below(model.live_count)]);
        floors.late++;
        break;
    }
}

/* A call of the program: places in the list of live units. */
struct call {
    uint32_t at[CALL_MAX], count;
};

static void model_call(const struct call *call)
{
    uint32_t units[CALL_MAX];

    for (uint32_t i = 0; i < call->count && model.live_count > 0; i++)
        units[i] = model.live[call->at[i] % model.live_count];
    model_use(units, model.live_count > 0 ? call->count : 0);
}

static void random_calls(struct call *calls, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        calls[i].count = one_in(3) ? random_below(CALL_MAX + 1) : 1;
        for (uint32_t at = 0; at < calls[i].count; at++)
            calls[i].at[at] = random_below(LIVE_MAX);
    }
}

static void random_opts(struct evict_opts *opts)
{
    *opts = (struct evict_opts){.cap = 8 + random_below(40),
            .warmup_cap = one_in(2) ? 0 : random_below(60),
            .victim = one_in(3) ? (enum rule_victim)random_below(3) : RULE_VICTIM_FARTHEST,
            .prefetch = random_below(4),
            .cyclic = one_in(2)};
}

enum {
    CALLS_MAX = 16,
    STATED_MAX = 8,
};

/* Steps that are mostly alike, and disturbed once in `rarely` calls. */
static void model_run(uint64_t seed)
{
    uint32_t stated[STATED_MAX], rarely, length;
    struct call calls[CALLS_MAX];

    random_state = seed;
    memset(&model, 0, sizeof(model));
    random_opts(&model.opts);
    for (uint32_t i = 0; i < STATED_MAX; i++)
        stated[i] = random_below(LIVE_MAX + 2);
    model.opts.order = stated;
    model.opts.order_count = one_in(2) ? 0 : random_below(STATED_MAX + 1);
    is_refusing = false;
    REQUIRE_EQ(evict_new(&model.opts, &model.set), 0);
    length = 1 + random_below(CALLS_MAX);
    random_calls(calls, length);
    for (uint32_t i = random_below(LIVE_MAX + 1); i > 0; i--)
        model_add();
    rarely = one_in(2) ? 4 : 200;
    is_refusing = seed % 4 == 0;
    model.is_counted = true;
    for (uint32_t step = 0; step < 12; step++) {
        if (one_in(8))
            random_calls(calls, length);
        for (uint32_t at = 0; at < length; at++) {
            model_call(&calls[at]);
            if (one_in(rarely))
                model_disturb();
            model_check();
        }
        model_step();
        model_check();
    }
    CHECK_LE(evict_bound(model.set), UINT64_C(1) << 32);
    is_refusing = false;
    evict_free(model.set);
}

TEST(random_programs_have_what_they_name_under_the_cap)
{
    for (uint64_t seed = 1; seed <= SEEDS && !atomic_load(&check_state.failures); seed++) {
        model_run(seed);
        if (atomic_load(&check_state.failures))
            printf("seed %llu\n", (unsigned long long)seed);
    }
    printf("uses %llu refused %llu replayed %llu ahead %llu undone %llu late %llu made_room %llu "
           "brought %llu caps %llu "
           "removed_ahead %llu\n",
            (unsigned long long)floors.uses, (unsigned long long)floors.refused,
            (unsigned long long)floors.replayed, (unsigned long long)floors.ahead,
            (unsigned long long)floors.undone, (unsigned long long)floors.late,
            (unsigned long long)floors.made_room, (unsigned long long)floors.brought,
            (unsigned long long)floors.caps, (unsigned long long)floors.removed_ahead);
    CHECK_GT(floors.uses, SEEDS);
    CHECK_GT(floors.refused, SEEDS / 10);
    CHECK_GT(floors.replayed, SEEDS);
    CHECK_GT(floors.ahead, SEEDS / 10);
    CHECK_GT(floors.undone, SEEDS / 10);
    CHECK_GT(floors.late, SEEDS / 10);
    CHECK_GT(floors.made_room, SEEDS / 10);
    CHECK_GT(floors.brought, SEEDS / 10);
    CHECK_GT(floors.caps, SEEDS / 100);
    CHECK_GT(floors.removed_ahead, 0);
    CHECK_GT(refusals, SEEDS / 10);
}

/* ---- the rule, with nothing remembered ---- */

/* The order of the last step, and of this one, as unit and end of its call; and how often each unit has been used. */
struct order {
    uint32_t unit[CALLS_MAX * CALL_MAX], count;
};

static struct order last, now;

/* As evict.h says: position n + 1, else the first one in the next step, else none. */
static uint32_t rule_next(uint32_t unit, bool is_cyclic)
{
    uint32_t used = 0, first = last.count, seen = 0;

    for (uint32_t i = 0; i < now.count; i++)
        used += now.unit[i] == unit ? 1 : 0;
    for (uint32_t i = 0; i < last.count; i++) {
        if (last.unit[i] != unit)
            continue;
        first = first < last.count ? first : i;
        if (seen++ == used)
            return i;
    }
    return is_cyclic ? last.count + first : last.count;
}

/* 0 = nothing can go out. */
static uint32_t rule_victim(uint32_t first, uint32_t count, bool is_cyclic)
{
    uint32_t victim = 0, farthest = 0;

    for (uint32_t unit = first; unit < first + count; unit++) {
        uint32_t next = last.count ? rule_next(unit, is_cyclic) : 0;

        if (!model.in[unit] || model.is_named[unit] || model.held[unit])
            continue;
        if (victim == 0 || next > farthest) {
            victim = unit;
            farthest = next;
        }
    }
    return victim;
}

/* What a use has to say, but for moves ahead: they are expected in this order. */
static void rule_use(const uint32_t *units, uint32_t named, uint32_t first, uint32_t count)
{
    struct evict_moves moves;
    uint32_t at = 0, victim;
    uint64_t more = 0;

    REQUIRE_EQ(evict_use(model.set, units, named, &moves), 0);
    for (uint32_t i = 0; i < named; i++) {
        more += model.in[units[i]] || model.is_named[units[i]] ? 0 : model.size[units[i]];
        model.is_named[units[i]] = true;
    }
    while (model.in_bytes + more > model.opts.cap
            && (victim = rule_victim(first, count, model.opts.cyclic)) != 0) {
        REQUIRE(at < moves.count);
        CHECK_EQ(moves.move[at].unit, victim);
        CHECK(!moves.move[at].in);
        model_turn(&moves.move[at++]);
    }
    for (uint32_t i = 0; i < named; i++) {
        if (model.in[units[i]])
            continue;
        REQUIRE(at < moves.count);
        CHECK_EQ(moves.move[at].unit, units[i]);
        model_turn(&moves.move[at++]);
    }
    CHECK_EQ(at, moves.count);
}

/* The call has positions, unless all that it names was named by the one before it. */
static void rule_count(const uint32_t *units, uint32_t named, bool *is_before, uint32_t records)
{
    bool is_again = now.count > 0;

    for (uint32_t i = 0; i < named; i++)
        is_again = is_again && is_before[units[i]];
    if (!is_again) {
        memset(is_before, 0, records * sizeof(*is_before));
        for (uint32_t i = 0; i < named; i++) {
            if (!is_before[units[i]])
                now.unit[now.count++] = units[i];
            is_before[units[i]] = true;
        }
    }
    memset(model.is_named, 0, sizeof(model.is_named));
}

static void rule_run(uint64_t seed, uint64_t *replayed)
{
    uint32_t units[CALL_MAX], count, length;
    struct call calls[CALLS_MAX];
    bool is_before[RECORDS_MAX];
    struct evict_figures figures;

    random_state = seed;
    memset(&model, 0, sizeof(model));
    last.count = 0;
    model.opts = (struct evict_opts){.cap = 48 + random_below(20), .cyclic = one_in(2)};
    REQUIRE_EQ(evict_new(&model.opts, &model.set), 0);
    count = LIVE_MAX;
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t unit;

        model.size[i] = 1 + random_below(12);
        REQUIRE_EQ(evict_add(model.set, model.size[i], &unit), 0);
        REQUIRE_EQ(unit, i);
    }
    length = 1 + random_below(CALLS_MAX);
    random_calls(calls, length);
    for (uint32_t step = 0; step < 10; step++) {
        evict_step(model.set);
        now.count = 0;
        memset(is_before, 0, sizeof(is_before));
        if (one_in(6))
            random_calls(calls, length);
        for (uint32_t at = 0; at < length; at++) {
            for (uint32_t i = 0; i < calls[at].count; i++)
                units[i] = 1 + calls[at].at[i];
            if (calls[at].count == 0)
                continue;
            rule_use(units, calls[at].count, 1, count);
            rule_count(units, calls[at].count, is_before, RECORDS_MAX);
        }
        evict_figures(model.set, &figures);
        *replayed += figures.is_replayed ? 1 : 0;
        last = now;
    }
    evict_free(model.set);
}

TEST(decided_or_replayed_a_use_moves_what_the_rule_says)
{
    uint64_t replayed = 0;

    for (uint64_t seed = 1; seed <= SEEDS && !atomic_load(&check_state.failures); seed++) {
        rule_run(seed, &replayed);
        if (atomic_load(&check_state.failures))
            printf("seed %llu\n", (unsigned long long)seed);
    }
    printf("replayed %llu steps\n", (unsigned long long)replayed);
    CHECK_GT(replayed, SEEDS);
}

/* ---- a plan against no plan ---- */

enum {
    BORN_MAX = 4,
    OLD_COUNT = 6,
};

/* What happens in each step: calls, and before each of them a unit may be made or freed. */
struct scene {
    struct call calls[CALLS_MAX];
    uint32_t length;
    uint64_t born[CALLS_MAX]; /* size of a unit that is made there, 0 = none */
    bool is_freed[CALLS_MAX]; /* the oldest of those that the step has made */
};

static void random_scene(struct scene *scene)
{
    scene->length = 1 + random_below(CALLS_MAX);
    random_calls(scene->calls, scene->length);
    for (uint32_t at = 0; at < scene->length; at++) {
        scene->born[at] = one_in(3) ? 1 + random_below(6) : 0;
        scene->is_freed[at] = one_in(4);
    }
}

struct actor {
    struct evict *set;
    uint32_t units[OLD_COUNT + BORN_MAX], count;
    uint64_t in_bytes;
};

static void actor_begin(struct actor *actor, const struct evict_opts *opts)
{
    actor->count = OLD_COUNT;
    REQUIRE_EQ(evict_new(opts, &actor->set), 0);
    for (uint32_t i = 0; i < OLD_COUNT; i++)
        REQUIRE_EQ(evict_add(actor->set, 2 + i, &actor->units[i]), 0);
}

static void actor_free(struct actor *actor)
{
    evict_remove(actor->set, actor->units[OLD_COUNT]);
    actor->count--;
    memmove(actor->units + OLD_COUNT, actor->units + OLD_COUNT + 1,
            (actor->count - OLD_COUNT) * sizeof(*actor->units));
}

static void actor_call(struct actor *actor, const struct call *call)
{
    uint32_t units[CALL_MAX];
    struct evict_moves moves;

    for (uint32_t i = 0; i < call->count; i++)
        units[i] = actor->units[call->at[i] % actor->count];
    REQUIRE_EQ(evict_use(actor->set, units, call->count, &moves), 0);
    for (uint32_t i = 0; i < call->count; i++)
        CHECK(evict_is_in(actor->set, units[i]));
}

static void actor_step(struct actor *actor, const struct scene *scene, struct evict_figures *ret)
{
    for (uint32_t at = 0; at < scene->length; at++) {
        if (scene->is_freed[at] && actor->count > OLD_COUNT)
            actor_free(actor);
        if (scene->born[at] && actor->count < OLD_COUNT + BORN_MAX)
            REQUIRE_EQ(evict_add(actor->set, scene->born[at], &actor->units[actor->count++]), 0);
        actor_call(actor, &scene->calls[at]);
    }
    while (actor->count > OLD_COUNT)
        actor_free(actor);
    evict_figures(actor->set, ret);
}

static void compare_steps(
        struct actor actors[2], const struct evict_opts *opts, const struct scene *scene)
{
    struct evict_figures figures[2];

    for (uint32_t i = 0; i < 2; i++)
        evict_step(actors[i].set);
    evict_set_cap(actors[1].set, opts->cap + 1, 0);
    evict_set_cap(actors[1].set, opts->cap, 0);
    for (uint32_t i = 0; i < 2; i++)
        actor_step(&actors[i], scene, &figures[i]);
    CHECK(!figures[1].is_replayed);
    CHECK_EQ(figures[0].moved_in, figures[1].moved_in);
    CHECK_EQ(figures[0].moved_out, figures[1].moved_out);
    CHECK_EQ(figures[0].in_bytes, figures[1].in_bytes);
    floors.replayed += figures[0].is_replayed ? 1 : 0;
}

TEST(a_plan_moves_as_much_as_decisions_without_one)
{
    for (uint64_t seed = 1; seed <= SEEDS && !atomic_load(&check_state.failures); seed++) {
        struct evict_opts opts = {.cap = 28};
        struct actor actors[2];
        struct scene scene;

        random_state = seed;
        opts.prefetch = random_below(4);
        opts.cyclic = one_in(2);
        random_scene(&scene);
        actor_begin(&actors[0], &opts);
        actor_begin(&actors[1], &opts);
        for (uint32_t step = 0; step < 10; step++)
            compare_steps(actors, &opts, &scene);
        evict_free(actors[0].set);
        evict_free(actors[1].set);
        if (atomic_load(&check_state.failures))
            printf("seed %llu\n", (unsigned long long)seed);
    }
    CHECK_GT(floors.replayed, SEEDS);
}

/* Then it is no longer known which call of the plan it is that comes. */
TEST(a_replay_ends_where_memory_ends)
{
    struct evict_opts opts = {.cap = 4, .cyclic = true};
    struct evict_figures figures;
    struct evict_moves moves;
    uint32_t units[4], made;
    struct evict *set;

    REQUIRE_EQ(evict_new(&opts, &set), 0);
    for (uint32_t i = 0; i < 4; i++)
        REQUIRE_EQ(evict_add(set, 1, &units[i]), 0);
    for (uint32_t step = 0; step < 8; step++) {
        evict_step(set);
        for (uint32_t i = 0; i < 4; i++)
            REQUIRE_EQ(evict_use(set, &units[i], 1, &moves), 0);
    }
    evict_figures(set, &figures);
    CHECK(figures.is_replayed);
    evict_step(set);
    is_refusing_all = true;
    CHECK_EQ(evict_add(set, 1, &made), 0);
    for (uint32_t i = 0; i < 64; i++) {
        REQUIRE_EQ(evict_use(set, &units[i % 4], 1, &moves), 0);
        CHECK(evict_is_in(set, units[i % 4]));
    }
    is_refusing_all = false;
    evict_figures(set, &figures);
    CHECK(!figures.is_replayed);
    evict_step(set);
    evict_figures(set, &figures);
    CHECK(!figures.is_planned);
    evict_free(set);
}

TEST(without_memory_there_is_no_set)
{
    struct evict_opts opts = {.cap = 4};
    struct evict *set = NULL;

    is_refusing_all = true;
    CHECK_EQ(evict_new(&opts, &set), -ENOMEM);
    is_refusing_all = false;
    CHECK(set == NULL);
}
