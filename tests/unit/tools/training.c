/* SPDX-License-Identifier: MIT */
#include "tests/unit/tools/training.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

const char *const training_names[TRAINING_KINDS] = {"plain", "no sites", "jitter", "accumulate",
        "evaluate", "warm-up", "dynamic", "checkpoint", "keeps", "late frees", "side stream",
        "replicas", "cut", "mixed", "two steps", "one step", "one pass", "unrelated"};

enum {
    LAYERS_MOST = 40,
    OPS_MOST = 10,
    HEAD_MOST = 8,
    MICRO_MOST = 8,
    NONE = -1,
};

/* ── what a run does, allocation by allocation ── */

enum op_kind {
    OP_TAKE,
    OP_GIVE,
    OP_GIVE_LATE, /* where frees come late, this one does */
    OP_BEGIN,
    OP_END,
};

struct op {
    enum op_kind kind;
    int id;
    uint32_t lane;
    uint64_t site, size;
};

struct list {
    struct op *ops;
    size_t count, room;
};

/* One draw to an expression: of two, the compiler would choose which is the first. */
struct draw {
    uint64_t state;
};

static uint32_t below(struct draw *draw, uint32_t n)
{
    draw->state = draw->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((draw->state >> 33) % n);
}

static uint32_t between(struct draw *draw, uint32_t low, uint32_t high)
{
    return low + below(draw, high - low + 1);
}

static bool one_in(struct draw *draw, uint32_t n)
{
    return below(draw, n) == 0;
}

/* 512 bytes to some dozens of MiB, as many small ones as large ones. */
static uint64_t draw_size(struct draw *draw)
{
    uint64_t base = UINT64_C(512) + 64 * below(draw, 8);

    return base << below(draw, 16);
}

/* ── the model ── */

struct part {
    uint64_t site, size;
    bool is_saved; /* for the backward */
    bool is_fixed; /* does not follow the batch */
    bool jitters;
    bool has_workspace;
};

struct layer {
    struct part parts[OPS_MOST];
    uint32_t count;
    uint64_t weight; /* 0: none */
};

struct habits {
    uint32_t steps, micro, evaluate_every, passes;
    uint32_t late;      /* frees, up to so many allocations; 0: none */
    uint32_t noise_in;  /* one allocation of a moment in so many; 0: none */
    uint32_t side_in;   /* one of the other thread's in so many; 0: none */
    uint32_t optimizer; /* allocations of a moment for each weight */
    uint32_t metric_every;
    bool has_sites, jitters, warms_up, makes_state, is_dynamic, checkpoints, keeps_gradients;
    bool prefetches, is_twice, is_cut, is_fused;
};

struct model {
    struct draw draw;
    struct habits habits;
    struct layer layers[LAYERS_MOST];
    struct part head[HEAD_MOST];
    uint32_t layer_count, head_count;
    uint64_t input;

    int next_id;
    uint32_t scale; /* of this step's batch, in eighths */
};

/* One of the threads that run the model. */
struct runner {
    struct model *model;
    struct list *out;
    int saved[MICRO_MOST][LAYERS_MOST][OPS_MOST];
    int gradients[LAYERS_MOST];
    int input, next_input;
    uint32_t step, lane;
};

static int take(struct runner *runner, uint64_t site, uint64_t size)
{
    struct op op = {.kind = OP_TAKE,
            .id = runner->model->next_id++,
            .lane = runner->lane,
            .site = site,
            .size = size};

    VEC_PUSH(runner->out->ops, runner->out->count, runner->out->room) = op;
    return op.id;
}

static void give_as(struct runner *runner, enum op_kind kind, int *id)
{
    if (*id == NONE)
        return;
    VEC_PUSH(runner->out->ops, runner->out->count, runner->out->room) =
            (struct op){.kind = kind, .id = *id};
    *id = NONE;
}

static void give(struct runner *runner, int *id)
{
    give_as(runner, OP_GIVE, id);
}

static void pair(struct runner *runner, uint64_t site, uint64_t size)
{
    int id = take(runner, site, size);

    give(runner, &id);
}

static void mark(struct runner *runner, enum op_kind kind)
{
    VEC_PUSH(runner->out->ops, runner->out->count, runner->out->room) = (struct op){.kind = kind};
}

static uint64_t size_of(struct model *model, const struct part *part)
{
    uint64_t size = part->is_fixed ? part->size : part->size * model->scale / 8;

    if (part->jitters)
        size += size / 64 * below(&model->draw, 8);
    return size;
}

static void make_noise(struct runner *runner)
{
    struct model *model = runner->model;

    if (model->habits.noise_in && one_in(&model->draw, model->habits.noise_in)) {
        uint64_t size = UINT64_C(512) << below(&model->draw, 4);

        pair(runner, 900 + below(&model->draw, 3), size);
    }
    if (model->habits.warms_up && runner->step == 0 && one_in(&model->draw, 2))
        pair(runner, 910, UINT64_C(1) << between(&model->draw, 16, 26));
}

static int run_part(struct runner *runner, const struct part *part, uint64_t site)
{
    struct model *model = runner->model;

    make_noise(runner);
    if (part->has_workspace)
        pair(runner, site + 5, part->size / 2 + 512);
    return take(runner, site, size_of(model, part));
}

static void give_layer(struct runner *runner, uint32_t micro, uint32_t layer, uint32_t but)
{
    for (uint32_t k = 0; k < OPS_MOST; k++) {
        if (k != but)
            give_as(runner, OP_GIVE_LATE, &runner->saved[micro][layer][k]);
    }
}

/* What is not saved goes when the next part has been made. */
static void run_layer(struct runner *runner, uint32_t micro, uint32_t number)
{
    const struct layer *layer = &runner->model->layers[number];
    int passing = NONE;

    for (uint32_t k = 0; k < layer->count; k++) {
        int id = run_part(runner, &layer->parts[k], layer->parts[k].site);
        give(runner, &passing);
        *(layer->parts[k].is_saved ? &runner->saved[micro][number][k] : &passing) = id;
    }
    give(runner, &passing);
}

static void forward(struct runner *runner, uint32_t micro, bool is_evaluation)
{
    struct model *model = runner->model;

    for (uint32_t i = 0; i < model->layer_count; i++) {
        run_layer(runner, micro, i);
        if (is_evaluation && i > 0)
            give_layer(runner, micro, i - 1, OPS_MOST);
        else if (!is_evaluation && model->habits.checkpoints)
            give_layer(runner, micro, i, model->layers[i].count - 1);
    }
    if (is_evaluation)
        give_layer(runner, micro, model->layer_count - 1, OPS_MOST);
}

static void backward_layer(struct runner *runner, uint32_t micro, uint32_t number, int *gradient)
{
    struct model *model = runner->model;
    const struct layer *layer = &model->layers[number];

    if (model->habits.checkpoints) {
        give(runner, &runner->saved[micro][number][layer->count - 1]);
        run_layer(runner, micro, number);
    }
    for (uint32_t k = layer->count; k-- > 0;) {
        int next = run_part(runner, &layer->parts[k], layer->parts[k].site + 300);
        give(runner, gradient);
        *gradient = next;
        give_as(runner, OP_GIVE_LATE, &runner->saved[micro][number][k]);
    }
    if (layer->weight == 0)
        return;
    if (runner->gradients[number] == NONE)
        runner->gradients[number] = take(runner, 700, layer->weight);
    else
        pair(runner, 701, layer->weight);
}

static void drop_gradients(struct runner *runner)
{
    for (uint32_t i = 0; i < runner->model->layer_count; i++)
        give(runner, &runner->gradients[i]);
}

static void backward(struct runner *runner, uint32_t micro, int *loss)
{
    struct model *model = runner->model;
    int gradient = take(runner, 690, model->input);

    if (micro == 0 && model->habits.keeps_gradients)
        drop_gradients(runner);
    for (uint32_t i = model->layer_count; i-- > 0;)
        backward_layer(runner, micro, i, &gradient);
    give(runner, &gradient);
    give(runner, loss);
}

static int run_head(struct runner *runner)
{
    int held = NONE;

    for (uint32_t i = 0; i < runner->model->head_count; i++) {
        int id = run_part(runner, &runner->model->head[i], runner->model->head[i].site);
        give(runner, &held);
        held = id;
    }
    return held;
}

static void update(struct runner *runner)
{
    struct model *model = runner->model;
    bool makes_state = model->habits.makes_state && runner->step == 0;
    uint64_t all = 0;

    for (uint32_t i = 0; i < model->layer_count; i++) {
        uint64_t weight = model->layers[i].weight;
        all += weight;
        if (weight && makes_state) {
            (void)take(runner, 800, weight);
            (void)take(runner, 801, weight);
        }
        for (uint32_t k = 0; weight && !model->habits.is_fused && k < model->habits.optimizer; k++)
            pair(runner, 810 + k, weight);
    }
    for (uint32_t k = 0; model->habits.is_fused && k < 1 + model->habits.optimizer; k++)
        pair(runner, 820 + k, all);
}

static uint64_t input_of(const struct model *model)
{
    return model->input * model->scale / 8;
}

static void run_step(struct runner *runner)
{
    struct model *model = runner->model;

    for (uint32_t micro = 0; micro < model->habits.micro; micro++) {
        if (runner->next_input != NONE)
            runner->input = runner->next_input;
        else
            runner->input = take(runner, 1, input_of(model));
        runner->next_input = NONE;
        forward(runner, micro, false);
        int loss = run_head(runner);
        if (model->habits.prefetches)
            runner->next_input = take(runner, 1, input_of(model));
        backward(runner, micro, &loss);
        give(runner, &runner->input);
    }
    if (model->habits.metric_every && runner->step % model->habits.metric_every == 0)
        pair(runner, 850, 4096);
    update(runner);
    if (!model->habits.keeps_gradients)
        drop_gradients(runner);
}

static void evaluate(struct runner *runner)
{
    for (uint32_t i = 0; i < runner->model->habits.passes; i++) {
        int input = take(runner, 1, input_of(runner->model));
        forward(runner, 0, true);
        int held = run_head(runner);
        give(runner, &held);
        give(runner, &input);
    }
}

/* ── drawing ── */

static void draw_part(struct model *model, struct part *part, uint64_t site)
{
    struct draw *draw = &model->draw;

    *part = (struct part){.site = site};
    part->size = draw_size(draw);
    part->is_saved = !one_in(draw, 3);
    part->is_fixed = one_in(draw, 8);
    part->jitters = model->habits.jitters && one_in(draw, 4);
    part->has_workspace = one_in(draw, 5);
}

/* All layers alike, or stages whose sizes shrink, or two kinds of layer in turn. */
static void draw_layers(struct model *model)
{
    struct draw *draw = &model->draw;
    struct layer kinds[2] = {0};
    uint32_t family = below(draw, 3);

    for (uint32_t i = 0; i < 2; i++) {
        kinds[i].count = between(draw, 2, OPS_MOST);
        for (uint32_t k = 0; k < kinds[i].count; k++)
            draw_part(model, &kinds[i].parts[k], 10 + 100 * i + 10 * k);
        kinds[i].parts[kinds[i].count - 1].is_saved = true;
        kinds[i].weight = i && one_in(draw, 2) ? 0 : draw_size(draw);
    }
    for (uint32_t i = 0; i < model->layer_count; i++) {
        model->layers[i] = kinds[family == 2 ? i % 2 : 0];
        if (family != 1)
            continue;
        for (uint32_t k = 0; k < model->layers[i].count; k++)
            model->layers[i].parts[k].size >>= 4 * i / model->layer_count;
        if (4 * i % model->layer_count < 4) { /* a stage begins */
            model->layers[i].count += model->layers[i].count < OPS_MOST;
            if (model->layers[i].parts[model->layers[i].count - 1].size == 0)
                draw_part(model, &model->layers[i].parts[model->layers[i].count - 1], 220);
        }
    }
}

static void draw_kind(struct habits *habits, enum training_kind kind, struct draw *draw)
{
    switch (kind) {
    case TRAINING_NO_SITES:
        habits->has_sites = false;
        break;
    case TRAINING_JITTER:
        habits->jitters = true;
        habits->noise_in = between(draw, 8, 60);
        break;
    case TRAINING_ACCUMULATE:
        habits->micro = between(draw, 2, MICRO_MOST);
        break;
    case TRAINING_EVALUATE:
        habits->evaluate_every = between(draw, 2, 6);
        habits->passes = between(draw, 1, 4);
        habits->steps = between(draw, 2 * habits->evaluate_every, 6 * habits->evaluate_every);
        break;
    case TRAINING_WARM_UP:
        habits->warms_up = one_in(draw, 2);
        habits->makes_state = true;
        break;
    case TRAINING_DYNAMIC:
        habits->is_dynamic = true;
        break;
    case TRAINING_CHECKPOINT:
        habits->checkpoints = true;
        break;
    case TRAINING_KEEPS:
        habits->keeps_gradients = !one_in(draw, 3);
        habits->prefetches = !habits->keeps_gradients || one_in(draw, 2);
        break;
    case TRAINING_LATE_FREES:
        habits->late = between(draw, 2, 40);
        break;
    case TRAINING_SIDE_STREAM:
        habits->side_in = between(draw, 6, 50);
        break;
    case TRAINING_REPLICAS:
        habits->is_twice = true;
        break;
    case TRAINING_CUT:
        habits->is_cut = true;
        habits->steps++;
        break;
    case TRAINING_TWO:
        habits->steps = 2;
        break;
    case TRAINING_ONE:
    case TRAINING_FORWARD:
        habits->steps = 1;
        break;
    case TRAINING_PLAIN:
    case TRAINING_MIXED:
    case TRAINING_UNRELATED:
    case TRAINING_KINDS:
        break;
    }
}

static void draw_model(struct model *model, enum training_kind kind)
{
    struct draw *draw = &model->draw;
    struct habits *habits = &model->habits;

    *habits = (struct habits){.micro = 1};
    habits->steps = between(draw, 3, one_in(draw, 4) ? 40 : 12);
    habits->optimizer = below(draw, 3);
    habits->metric_every = one_in(draw, 3) ? between(draw, 2, 5) : 0;
    habits->is_fused = one_in(draw, 3);
    habits->makes_state = one_in(draw, 3);
    habits->has_sites = one_in(draw, 2) || kind == TRAINING_DYNAMIC;
    draw_kind(habits, kind, draw);
    if (kind == TRAINING_MIXED) {
        for (uint32_t i = between(draw, 2, 4); i > 0; i--)
            draw_kind(
                    habits, (enum training_kind)between(draw, TRAINING_JITTER, TRAINING_CUT), draw);
        habits->has_sites = habits->has_sites || habits->is_dynamic;
    }
    model->layer_count = between(draw, 2, one_in(draw, 2) ? 12 : LAYERS_MOST);
    model->head_count = between(draw, 1, HEAD_MOST);
    model->input = draw_size(draw);
    for (uint32_t i = 0; i < model->head_count; i++)
        draw_part(model, &model->head[i], 600 + 10 * (uint64_t)i);
    draw_layers(model);
}

/* ── the run as a list, and as a sequence ── */

static void begin_runner(struct runner *runner, struct model *model, uint32_t lane)
{
    runner->lane = lane;
    memset(runner->saved, 0xff, sizeof(runner->saved)); /* NONE */
    memset(runner->gradients, 0xff, sizeof(runner->gradients));
    runner->model = model;
    runner->input = runner->next_input = NONE;
}

/* Some operations of one, some of the other, each in its order. */
static void merge(struct draw *draw, struct list *lists, struct list *out)
{
    size_t at[2] = {0};

    while (at[0] < lists[0].count || at[1] < lists[1].count) {
        uint32_t turn = below(draw, 2);
        for (uint32_t i = between(draw, 1, 12); i > 0 && at[turn] < lists[turn].count; i--)
            VEC_PUSH(out->ops, out->count, out->room) = lists[turn].ops[at[turn]++];
    }
    lists[0].count = lists[1].count = 0;
}

static void run_all(struct model *model, enum training_kind kind, struct list *out)
{
    struct runner *runners = vec_new(2, sizeof(*runners));
    struct list lists[2] = {{0}};

    for (uint32_t i = 0; i < 2; i++)
        begin_runner(&runners[i], model, i);
    runners[0].out = out;
    for (uint32_t i = 0; i < model->layer_count; i++)
        (void)take(&runners[0], 2, model->layers[i].weight + 512);
    for (uint32_t step = 0; step < model->habits.steps; step++) {
        model->scale = model->habits.is_dynamic ? between(&model->draw, 3, 16) : 8;
        mark(&runners[0], OP_BEGIN);
        for (uint32_t i = 0; i < 1 + (uint32_t)model->habits.is_twice; i++) {
            runners[i].step = step;
            runners[i].out = model->habits.is_twice ? &lists[i] : out;
            if (kind == TRAINING_FORWARD)
                evaluate(&runners[i]);
            else
                run_step(&runners[i]);
        }
        if (model->habits.is_twice)
            merge(&model->draw, lists, out);
        runners[0].out = out;
        mark(&runners[0], OP_END);
        if (model->habits.evaluate_every && (step + 1) % model->habits.evaluate_every == 0)
            evaluate(&runners[0]);
    }
    free(lists[0].ops);
    free(lists[1].ops);
    free(runners);
}

/* Frees that are still to come. */
struct late {
    uint32_t due, number;
};

struct builder {
    struct training *training;
    struct model *model;
    uint32_t *numbers; /* of each id */
    struct late *late;
    size_t late_count, late_room;
    uint32_t side, side_step; /* what the other thread holds, + 1 */
};

static uint32_t put(struct builder *builder, uint32_t lane, uint64_t site, uint64_t size)
{
    struct training *training = builder->training;
    uint32_t number = (uint32_t)training->count;

    if (!builder->model->habits.has_sites)
        site = 0;
    VEC_PUSH(training->allocs, training->count, training->room) =
            (struct period_alloc){site, size, PERIOD_NEVER, lane};
    for (size_t i = 0; i < builder->late_count;) {
        if (builder->late[i].due > number) {
            i++;
            continue;
        }
        training->allocs[builder->late[i].number].dies = (uint32_t)training->count;
        builder->late[i] = builder->late[--builder->late_count];
    }
    return number;
}

static void run_side(struct builder *builder)
{
    struct model *model = builder->model;

    if (!model->habits.side_in || !one_in(&model->draw, model->habits.side_in))
        return;
    uint32_t fresh = put(builder, 2, 950 + builder->side_step % 3,
            (UINT64_C(4096) << builder->side_step % 3) + 512);
    builder->side_step++;
    if (builder->side)
        builder->training->allocs[builder->side - 1].dies = (uint32_t)builder->training->count;
    builder->side = fresh + 1;
}

static void run_op(struct builder *builder, const struct op *op)
{
    struct training *training = builder->training;
    struct model *model = builder->model;

    switch (op->kind) {
    case OP_TAKE:
        run_side(builder);
        builder->numbers[op->id] = put(builder, op->lane, op->site, op->size);
        break;
    case OP_GIVE_LATE:
        if (model->habits.late) {
            VEC_PUSH(builder->late, builder->late_count, builder->late_room) = (struct late){
                    (uint32_t)training->count + below(&model->draw, model->habits.late),
                    builder->numbers[op->id]};
            break;
        }
        training->allocs[builder->numbers[op->id]].dies = (uint32_t)training->count;
        break;
    case OP_GIVE:
        training->allocs[builder->numbers[op->id]].dies = (uint32_t)training->count;
        break;
    case OP_BEGIN:
        VEC_PUSH(training->begins, training->step_count, training->begin_room) =
                (uint32_t)training->count;
        break;
    case OP_END:
        training->ends = vec_grow(
                training->ends, training->step_count, sizeof(*training->ends), &training->end_room);
        training->ends[training->step_count - 1] = (uint32_t)training->count;
        break;
    }
}

/* From within the first step to within the last. */
static void cut(struct training *training, struct draw *draw)
{
    size_t last = training->step_count - 1;
    uint32_t from = training->begins[0] + below(draw, training->ends[0] - training->begins[0]);
    uint32_t until =
            training->begins[last] + below(draw, training->ends[last] - training->begins[last]);
    uint32_t count = until - from;

    memmove(training->allocs, training->allocs + from, count * sizeof(*training->allocs));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *dies = &training->allocs[i].dies;
        if (*dies != PERIOD_NEVER)
            *dies = *dies > until ? PERIOD_NEVER : *dies - from;
    }
    training->count = count;
    training->step_count -= 2;
    for (size_t i = 0; i < training->step_count; i++) {
        training->begins[i] = training->begins[i + 1] - from;
        training->ends[i] = training->ends[i + 1] - from;
    }
}

static void make_unrelated(struct training *training, struct draw *draw)
{
    uint32_t count = between(draw, 50, 3000);
    uint32_t kinds = between(draw, 2, 30);
    uint32_t life = between(draw, 1, 60);
    uint64_t sizes[30];

    for (uint32_t i = 0; i < kinds; i++)
        sizes[i] = draw_size(draw);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t dies = i + 1 + below(draw, life);
        uint32_t k = below(draw, kinds);
        VEC_PUSH(training->allocs, training->count, training->room) =
                (struct period_alloc){k, sizes[k], dies > count ? PERIOD_NEVER : dies, 0};
    }
}

void training_make(struct training *training, enum training_kind kind, uint64_t seed)
{
    struct model *model = vec_new(1, sizeof(*model));
    struct builder builder = {.training = training, .model = model};
    struct list list = {0};

    *training = (struct training){0};
    model->draw.state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)kind;
    for (int i = 0; i < 8; i++)
        (void)below(&model->draw, 2);
    if (kind == TRAINING_UNRELATED) {
        make_unrelated(training, &model->draw);
        free(model);
        return;
    }
    draw_model(model, kind);
    run_all(model, kind, &list);
    builder.numbers = vec_new((size_t)model->next_id, sizeof(*builder.numbers));
    for (size_t i = 0; i < list.count; i++)
        run_op(&builder, &list.ops[i]);
    if (model->habits.is_cut && training->step_count > 3)
        cut(training, &model->draw);
    free(builder.numbers);
    free(builder.late);
    free(list.ops);
    free(model);
}

void training_shuffle(struct training *training, uint64_t seed)
{
    struct draw draw = {seed};
    uint32_t count = (uint32_t)training->count;

    for (uint32_t i = 0; i < count; i++) {
        if (training->allocs[i].dies != PERIOD_NEVER)
            training->allocs[i].dies -= i;
    }
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = below(&draw, i);
        struct period_alloc kept = training->allocs[i - 1];
        training->allocs[i - 1] = training->allocs[other];
        training->allocs[other] = kept;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *dies = &training->allocs[i].dies;
        if (*dies != PERIOD_NEVER)
            *dies = *dies + i > count ? count : *dies + i;
    }
    training->step_count = 0;
}

void training_done(struct training *training)
{
    free(training->allocs);
    free(training->begins);
    free(training->ends);
    *training = (struct training){0};
}
