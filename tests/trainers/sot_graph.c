/* SPDX-License-Identifier: MIT */
#include "tests/trainers/sot_graph.h"

#include <stdlib.h>

enum {
    CARRY_DISTANCE = 3, /* so that three streams have something to do side by side */
    LEVEL_OUT = 8,      /* the last sizes of a kind share what is missing to the total */
    BATCH_BYTES = 32 << 20,
};

/* A graph of one sub-graph more than its window, and what the window makes. Each count is more than LEVEL_OUT. */
struct plan {
    uint32_t random;
    int window;      /* sub-graphs inside of the window */
    int late_window; /* the last ones make no late tensors: the peak is theirs */
    int kept, late_in, late_out, temp, scratch;
    int shapes; /* eager inputs that are not needed; if there are any, every fourth sub-graph has a needed one */
    uint64_t kept_bytes, late_in_bytes, late_out_bytes, temp_bytes;
};

static const struct plan plan_full = {
        .random = 66278,
        .window = 429,
        .late_window = 420,
        .kept = SOT_KEPT_COUNT,
        .late_in = SOT_LATE_IN_COUNT,
        .late_out = SOT_LATE_OUT_COUNT,
        .temp = SOT_TEMP_COUNT,
        .scratch = SOT_SCRATCH_COUNT,
        .kept_bytes = SOT_KEPT_BYTES,
        .late_in_bytes = SOT_LATE_IN_BYTES,
        .late_out_bytes = SOT_LATE_OUT_BYTES,
        .temp_bytes = SOT_TEMP_BYTES,
};

enum {
    SHAPES_WINDOW = 120,
    /* A sum of 64 bits for each sub-graph, and for the three slots behind them. */
    SHAPES_SUMS = (SHAPES_WINDOW + 4) * 8,
};

static const struct plan plan_shapes = {
        .random = 69043,
        .window = SHAPES_WINDOW,
        .late_window = 100,
        .kept = 990,
        .late_in = 40,
        .late_out = 60,
        .temp = 500,
        .scratch = 200,
        .shapes = SOT_SHAPE_COUNT,
        .kept_bytes =
                SOT_SHAPES_PEAK - SOT_SHAPE_BYTES - SOT_SHAPES_BATCH - SHAPES_SUMS - SOT_TOP_BYTES,
        .late_in_bytes = UINT64_C(200000000),
        .late_out_bytes = UINT64_C(324000000),
        .temp_bytes = UINT64_C(4200000000),
};

/* Sizes as of activations and parameters: batch x sequence x hidden x 4 and the like. */
static const uint64_t sizes_small[] = {64, 512, 1000, 3072, 4100, 12288, 50176, 200704};
static const uint64_t sizes_late[] = {
        2359296, 2408448, 3538944, 4816896, 6422528, 7077888, 9633792, 12845056};
static const uint64_t sizes_big[] = {2359296, 3538944, 4816896, 7077888, 9633792, 12845056,
        16056320, 19267584, 25690112, 28311552};
static const uint64_t sizes_end[] = {50176, 200704, 2359296, 3538944};
/* 98, 49 and 24.5 MiB: 16 x 64 x 112 x 224 words of four bytes, 16 x 256 x 56 x 56, 16 x 128 x 56 x 56. */
static const uint64_t sizes_shape[] = {102760448, 51380224, 25690112, 51380224, 25690112};

struct generator {
    const struct plan *plan;
    uint32_t random;
    uint32_t seed; /* of the next op */
    /* sizes of each kind in the order of use, and how many were used */
    uint64_t kept[SOT_KEPT_COUNT];
    uint64_t late_in[SOT_LATE_IN_COUNT];
    uint64_t late_out[SOT_LATE_OUT_COUNT];
    uint64_t temp[SOT_TEMP_COUNT];
    int kept_used, late_in_used, late_out_used, temp_used, shape_used;
};

static uint32_t random_below(struct generator *g, uint32_t n)
{
    g->random ^= g->random << 13;
    g->random ^= g->random >> 17;
    g->random ^= g->random << 5;
    return g->random % n;
}

/* How many of `total` things, spread evenly over `n` places, fall on place i. */
static int share(int total, int i, int n)
{
    return (i + 1) * total / n - i * total / n;
}

#define PICK(g_, table_) (table_)[random_below(g_, sizeof(table_) / sizeof((table_)[0]))]

/* The larger of two picks while the sum lags behind its line to the total, else the smaller. */
static uint64_t pick_towards(
        struct generator *g, const uint64_t *table, uint32_t table_count, bool lags)
{
    uint64_t a = table[random_below(g, table_count)];
    uint64_t b = table[random_below(g, table_count)];

    return (a > b) == lags ? a : b;
}

/*
 * Fills sizes[0..count) with picks from `table`, `small_percent` of them small, that add up to exactly `total`:
 * the last few are cut to fit.
 */
static void sizes_fill(struct generator *g, uint64_t *sizes, int count, uint64_t total,
        const uint64_t *table, uint32_t table_count, uint32_t small_percent)
{
    uint64_t sum = 0;

    for (int i = 0; i < count - LEVEL_OUT; i++) {
        if (random_below(g, 100) < small_percent)
            sizes[i] = PICK(g, sizes_small);
        else
            sizes[i] = pick_towards(
                    g, table, table_count, sum < total / (uint64_t)count * (uint64_t)i);
        sum += sizes[i];
    }
    for (int i = count - LEVEL_OUT; i < count; i++) {
        sizes[i] = (total - sum) / (uint64_t)(count - i) / 4 * 4;
        sum += sizes[i];
    }
    sizes[count - 1] += total - sum;
}

#define SIZES_FILL(g_, sizes_, count_, total_, table_, small_percent_)                   \
    sizes_fill(g_, sizes_, count_, total_, table_, sizeof(table_) / sizeof((table_)[0]), \
            small_percent_)

static void generate_sizes(struct generator *g)
{
    const struct plan *p = g->plan;
    uint64_t end_bytes = SOT_TOP_BYTES;
    int end_first = p->temp - 1;

    SIZES_FILL(g, g->kept, p->kept, p->kept_bytes, sizes_big, 30);
    SIZES_FILL(g, g->late_in, p->late_in, p->late_in_bytes, sizes_late, 0);
    SIZES_FILL(g, g->late_out, p->late_out, p->late_out_bytes, sizes_late, 0);
    /* Temps of the last sub-graphs are small, so that the peak belongs to the last of all. */
    g->temp[end_first] = SOT_TOP_BYTES;
    for (int i = p->late_window; i < p->window; i++) {
        for (int k = share(p->temp, i, p->window); k > (i == p->window - 1); k--) {
            g->temp[--end_first] = PICK(g, sizes_end);
            end_bytes += g->temp[end_first];
        }
    }
    SIZES_FILL(g, g->temp, end_first, p->temp_bytes - end_bytes, sizes_big, 30);
}

/* ---- one sub-graph ---- */

static bool subgraph_alloc(struct sot_subgraph *s, int count)
{
    s->vars = calloc((size_t)count, sizeof(*s->vars));
    s->ops = calloc((size_t)count, sizeof(*s->ops));
    s->carry_from = -1;
    s->result = -1;
    return s->vars && s->ops;
}

static int add_var(struct generator *g, struct sot_subgraph *s, enum sot_role role, uint64_t bytes,
        bool needed)
{
    int i = s->count++;

    s->vars[i] = (struct sot_var){.role = role, .needed = needed, .bytes = bytes, .last_op = i};
    s->ops[i] = (struct sot_op){.in = {-1, -1}, .seed = ++g->seed};
    return i;
}

/* A view with rows as long as divide the tensor, somewhere in the batch. */
static void add_input(struct generator *g, struct sot_subgraph *s, uint64_t bytes, bool needed)
{
    static const uint64_t rows[] = {12544, 8192, 7168, 6272, 4096, 3072, 2048, 1024, 512, 256, 64};
    struct sot_var *var = &s->vars[add_var(g, s, SOT_ROLE_INPUT, bytes, needed)];
    uint64_t span;

    var->row_bytes = 4;
    for (size_t i = sizeof(rows) / sizeof(rows[0]); i > 0; i--) {
        if (bytes % rows[i - 1] == 0)
            var->row_bytes = rows[i - 1];
    }
    span = 2 * bytes - var->row_bytes;
    var->offset = (uint64_t)g->seed * 4096 % (BATCH_BYTES - span) / 4 * 4;
}

/* Op i reads variable v. */
static void read_var(struct sot_subgraph *s, int op, int v)
{
    int *slot = s->ops[op].in[0] < 0 ? &s->ops[op].in[0] : &s->ops[op].in[1];

    *slot = v;
    s->vars[v].last_op = op;
}

/*
 * What each op reads: the one before it, and every second one something older that is not a temp, whose life would
 * get long. The top temp reads the result alone, so that no other temp is alive with it.
 */
static void connect_ops(struct generator *g, struct sot_subgraph *s, int inputs, bool top)
{
    for (int i = inputs; i < s->count; i++) {
        if (top && i == s->count - 1) {
            read_var(s, i, s->result);
            continue;
        }
        if (i > 0)
            read_var(s, i, i - 1);
        if (i > 1 && random_below(g, 2) == 0) {
            int v = (int)random_below(g, (uint32_t)i - 1);

            if (s->vars[v].role != SOT_ROLE_TEMP)
                read_var(s, i, v);
        }
    }
}

struct counts {
    int kept_in, kept_eager, kept_out, late_in, late_out, shapes, temp, scratch;
};

static struct counts subgraph_counts(const struct plan *p, int index)
{
    struct counts n = {
            .kept_out = share(p->kept, index, p->window),
            .temp = share(p->temp, index, p->window),
            .scratch = share(p->scratch, index, p->window),
    };

    if (index < p->late_window) {
        n.late_in = share(p->late_in, index, p->late_window);
        n.late_out = share(p->late_out, index, p->late_window);
        n.shapes = share(p->shapes, index, p->late_window);
    }
    /* an input that the backward does need, and not both kinds of them */
    n.kept_eager = p->shapes > 0 && index % 4 == 3;
    n.kept_in = n.shapes == 0 && index % 4 == 1;
    n.kept_out -= n.kept_eager + n.kept_in;
    return n;
}

/* Kept and late outputs and temps in a random order; `top` keeps the last temp for the end. */
static void add_outputs(struct generator *g, struct sot_subgraph *s, struct counts n, bool top)
{
    int temps = n.temp - top;

    while (n.kept_out + n.late_out + temps > 0) {
        int turn = (int)random_below(g, (uint32_t)(n.kept_out + n.late_out + temps));

        if (turn < n.kept_out) {
            s->result = add_var(g, s, SOT_ROLE_OUTPUT, g->kept[g->kept_used++], true);
            n.kept_out--;
        } else if (turn < n.kept_out + n.late_out) {
            add_var(g, s, SOT_ROLE_OUTPUT, g->late_out[g->late_out_used++], false);
            n.late_out--;
        } else {
            add_var(g, s, SOT_ROLE_TEMP, g->temp[g->temp_used++], false);
            temps--;
        }
    }
    if (top)
        add_var(g, s, SOT_ROLE_TEMP, g->temp[g->temp_used++], false);
}

/* The needed one first: the op behind the inputs reads the last of them. */
static void add_eager(struct generator *g, struct sot_subgraph *s, struct counts n)
{
    const int sizes = sizeof(sizes_shape) / sizeof(sizes_shape[0]);

    if (n.kept_eager)
        add_var(g, s, SOT_ROLE_EAGER, g->kept[g->kept_used++], true);
    for (int i = 0; i < n.shapes; i++)
        add_var(g, s, SOT_ROLE_EAGER, sizes_shape[g->shape_used++ % sizes], false);
}

static bool generate_subgraph(struct generator *g, struct sot_graph *graph, int index)
{
    struct sot_subgraph *s = &graph->subgraphs[index];
    struct counts n = subgraph_counts(g->plan, index);
    int eager = n.kept_eager + n.shapes;
    bool top = index == g->plan->window - 1;
    int inputs;

    if (!subgraph_alloc(s, n.kept_in + n.late_in + eager + n.kept_out + n.late_out + n.temp))
        return false;
    for (int i = 0; i < n.late_in; i++)
        add_input(g, s, g->late_in[g->late_in_used++], false);
    if (n.kept_in) {
        uint64_t bytes = g->kept[g->kept_used++];

        /* the batch has no wider view: a larger tensor is an output after all */
        if (2 * bytes < BATCH_BYTES)
            add_input(g, s, bytes, true);
        else
            add_var(g, s, SOT_ROLE_OUTPUT, bytes, true);
    }
    inputs = n.late_in + (n.kept_in && s->vars[n.late_in].role == SOT_ROLE_INPUT);
    add_eager(g, s, n);
    add_outputs(g, s, n, top);
    connect_ops(g, s, inputs + eager, top);
    if (index >= CARRY_DISTANCE)
        s->carry_from = index - CARRY_DISTANCE;
    for (int i = 0; i < n.scratch; i++)
        s->ops[i].scratch_bytes = 4 + random_below(g, SOT_SCRATCH_MOST / 4) * 4;
    return true;
}

/* The one after the window: a temp and a kept output. */
static bool generate_last(struct generator *g, struct sot_graph *graph, int index)
{
    struct sot_subgraph *s = &graph->subgraphs[index];

    if (!subgraph_alloc(s, 2))
        return false;
    add_var(g, s, SOT_ROLE_TEMP, 50176, false);
    s->result = add_var(g, s, SOT_ROLE_OUTPUT, 200704, true);
    connect_ops(g, s, 0, false);
    s->carry_from = index - CARRY_DISTANCE;
    return true;
}

static uint32_t hash_of(int index, int var)
{
    uint32_t hash = (uint32_t)index * 2654435761u ^ (uint32_t)(var + 1) * 2246822519u;

    hash = (hash ^ hash >> 15) * 3266489917u;
    return hash ^ hash >> 16;
}

static void choose_kinds(struct sot_graph *graph)
{
    for (int i = 0; i < graph->count; i++) {
        for (int v = 0; v < graph->subgraphs[i].count; v++) {
            struct sot_var *var = &graph->subgraphs[i].vars[v];
            uint32_t first = var->needed ? 0 : SOT_KINDS_NEEDED;
            uint32_t end = var->needed ? SOT_KINDS_NEEDED : SOT_KINDS;

            var->kind = (enum sot_kind)(first + hash_of(i, v) % (end - first));
        }
    }
}

static struct sot_graph *graph_new(int count, int window_last, uint64_t batch_bytes)
{
    struct sot_graph *graph = calloc(1, sizeof(*graph));

    if (!graph)
        return NULL;
    graph->subgraphs = calloc((size_t)count, sizeof(*graph->subgraphs));
    if (!graph->subgraphs) {
        free(graph);
        return NULL;
    }
    graph->count = count;
    graph->window_last = window_last;
    graph->batch_bytes = batch_bytes;
    return graph;
}

static struct sot_graph *generate(const struct plan *plan)
{
    struct sot_graph *graph = graph_new(plan->window + 1, plan->window - 1, BATCH_BYTES);
    struct generator *g = calloc(1, sizeof(*g));
    bool ok = graph && g;

    if (ok) {
        g->plan = plan;
        g->random = plan->random;
        generate_sizes(g);
    }
    for (int i = 0; ok && i < plan->window; i++)
        ok = generate_subgraph(g, graph, i);
    ok = ok && generate_last(g, graph, plan->window);
    free(g);
    if (ok) {
        choose_kinds(graph);
        return graph;
    }
    sot_graph_free(graph);
    return NULL;
}

struct sot_graph *sot_graph_full(void)
{
    return generate(&plan_full);
}

struct sot_graph *sot_graph_shapes(void)
{
    return generate(&plan_shapes);
}

struct sot_graph *sot_graph_small(void)
{
    struct sot_graph *graph = graph_new(1, 0, 2 * SOT_SMALL_BYTES);
    struct generator g = {.random = 1};
    struct sot_subgraph *s;

    if (!graph)
        return NULL;
    s = graph->subgraphs;
    if (!subgraph_alloc(s, 3)) {
        sot_graph_free(graph);
        return NULL;
    }
    (void)add_var(&g, s, SOT_ROLE_INPUT, SOT_SMALL_BYTES, false);
    s->vars[0].row_bytes = 3072;
    (void)add_var(&g, s, SOT_ROLE_TEMP, SOT_SMALL_BYTES, false);
    s->result = add_var(&g, s, SOT_ROLE_OUTPUT, SOT_SMALL_BYTES, true);
    read_var(s, 1, 0);
    read_var(s, 2, 1);
    read_var(s, 2, 0);
    choose_kinds(graph);
    return graph;
}

void sot_graph_free(struct sot_graph *graph)
{
    if (!graph)
        return;
    for (int i = 0; i < graph->count; i++) {
        free(graph->subgraphs[i].vars);
        free(graph->subgraphs[i].ops);
    }
    free(graph->subgraphs);
    free(graph);
}
