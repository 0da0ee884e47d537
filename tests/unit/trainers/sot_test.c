/* SPDX-License-Identifier: MIT */
/* The model of `sot`, run on a ledger: every row of the published table comes out of it, without any device. */
#include "tests/check.h"
#include "tests/trainers/sot_exec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a backend that only counts ---- */

struct count {
    const struct sot_graph *graph;
    bool in_window;
    int index;
    uint64_t allocs, frees, allocated, freed, live, peak;
    int peak_index;          /* where the peak was */
    uint64_t peak_late_here; /* late bytes of that same sub-graph that were alive then */
    uint64_t late_here;
    uint64_t inputs, outputs, temps, scratches;
    bool late_frees_end; /* what leaves after the first late free are late frees, in each sub-graph */
    bool dropping;
};

static void count_enter(void *self, int index)
{
    struct count *c = self;

    c->index = index;
    c->late_here = 0;
    c->dropping = false;
    c->in_window = c->in_window || index == 0;
}

static void count_leave(void *self, int index)
{
    struct count *c = self;

    if (index == c->graph->window_last)
        c->in_window = false;
}

static bool is_late(const struct sot_tensor *t)
{
    return t->var && t->var->role != SOT_ROLE_TEMP && !t->var->needed;
}

static void count_alloc(struct count *c, const struct sot_tensor *t)
{
    if (!c->in_window)
        return;
    if (c->dropping)
        c->late_frees_end = false;
    if (is_late(t))
        c->late_here += t->bytes;
    c->allocs++;
    c->allocated += t->bytes;
    c->live += t->bytes;
    if (c->live > c->peak) {
        c->peak = c->live;
        c->peak_index = c->index;
        c->peak_late_here = c->late_here;
    }
}

static void count_input(void *self, struct sot_tensor *t)
{
    struct count *c = self;

    c->inputs += c->in_window;
    count_alloc(c, t);
}

static void count_output(void *self, struct sot_tensor *t)
{
    struct count *c = self;

    c->outputs += c->in_window;
    count_alloc(c, t);
}

static void count_temp(void *self, struct sot_tensor *t)
{
    struct count *c = self;

    c->temps += c->in_window;
    count_alloc(c, t);
}

static void count_scratch(void *self, struct sot_tensor *t)
{
    struct count *c = self;

    c->scratches += c->in_window;
    CHECK_LE(t->bytes, SOT_SCRATCH_MOST);
    count_alloc(c, t);
}

static void count_release(void *self, struct sot_tensor *t)
{
    struct count *c = self;

    if (!c->in_window)
        return;
    if (is_late(t)) {
        c->late_here -= t->bytes;
        c->dropping = true;
    } else if (c->dropping) {
        c->late_frees_end = false;
    }
    c->frees++;
    c->freed += t->bytes;
    c->live -= t->bytes;
}

static void count_fill(void *self, struct sot_tensor *t, uint32_t seed)
{
    (void)self;
    (void)t;
    (void)seed;
}

static void count_mix(void *self, struct sot_tensor *dst, struct sot_tensor *src, uint64_t bytes)
{
    (void)self;
    CHECK_LE(bytes, dst->bytes);
    CHECK_LE(bytes, src->bytes); /* and storage was not given back: then bytes is 0 */
    CHECK_GT(bytes, 0);
}

static void count_sum(void *self, int slot, struct sot_tensor *t, uint64_t bytes)
{
    (void)self;
    (void)slot;
    CHECK_GT(t->bytes, 0);
    CHECK_EQ(bytes, t->bytes);
}

static struct count count_run(const struct sot_graph *graph, const char *form)
{
    struct count c = {.graph = graph, .late_frees_end = true};
    struct sot_backend b = {
            .self = &c,
            .enter = count_enter,
            .leave = count_leave,
            .contiguous_copy = count_input,
            .alloc_output = count_output,
            .alloc_temp = count_temp,
            .alloc_scratch = count_scratch,
            .release = count_release,
            .fill = count_fill,
            .mix = count_mix,
            .sum = count_sum,
    };

    REQUIRE(sot_form_named(form));
    REQUIRE_EQ(sot_exec_run(graph, sot_form_named(form), &b), 0);
    return c;
}

/* ---- the published table ---- */

/* As the report prints: binary units, two decimals. */
static const char *printed(uint64_t bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    static char text[8][32];
    static int next;
    double v = (double)bytes;
    int unit = 0;

    next = (next + 1) % 8;
    while (v >= 1024 && unit < 4) {
        v /= 1024;
        unit++;
    }
    (void)snprintf(text[next], sizeof(text[next]), "%.2f %s", v, units[unit]);
    return text[next];
}

static const char *printed_mib(uint64_t bytes)
{
    static char text[2][32];
    static int next;

    next = !next;
    (void)snprintf(text[next], sizeof(text[next]), "%.2f", (double)bytes / (1 << 20));
    return text[next];
}

struct row {
    char form[32];
    char remaining[16], max[16], allocated[16], freed[16];
    unsigned long allocs, frees;
};

/* Rows of `graph` ("full", "small") in the table, at most `most`. */
static int read_rows(const char *graph, struct row *rows, int most)
{
    FILE *f = fopen(SEED_FILE, "re");
    char line[256];
    char name[16];
    int count = 0;

    REQUIRE(f);
    while (count < most && fgets(line, sizeof(line), f)) {
        struct row *r = &rows[count];

        if (sscanf(line, "%15[^,],%31[^,],%15[^,],%15[^,],%15[^,],%lu,%15[^,],%lu", name, r->form,
                    r->remaining, r->max, r->allocated, &r->allocs, r->freed, &r->frees)
                        == 8
                && strcmp(name, graph) == 0)
            count++;
    }
    (void)fclose(f);
    return count;
}

static void check_rows(const char *name, const struct sot_graph *graph, int expected)
{
    struct row rows[8];
    int count = read_rows(name, rows, 8);

    CHECK_EQ(count, expected);
    for (int i = 0; i < count; i++) {
        struct count c = count_run(graph, rows[i].form);

        CHECK_STR_EQ(printed(c.live), rows[i].remaining);
        CHECK_STR_EQ(printed(c.peak), rows[i].max);
        CHECK_STR_EQ(printed(c.allocated), rows[i].allocated);
        CHECK_STR_EQ(printed(c.freed), rows[i].freed);
        CHECK_EQ(c.allocs, rows[i].allocs);
        CHECK_EQ(c.frees, rows[i].frees);
    }
}

TEST(full_graph_gives_every_row_of_the_table)
{
    struct sot_graph *graph = sot_graph_full();

    REQUIRE(graph);
    CHECK_EQ(graph->count, 430);
    CHECK_EQ(graph->window_last, 428);
    check_rows("full", graph, 4);
    sot_graph_free(graph);
}

TEST(small_graph_gives_every_row_of_the_table)
{
    struct sot_graph *graph = sot_graph_small();

    REQUIRE(graph);
    check_rows("small", graph, 2);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(graph->subgraphs[0].vars[i].bytes, 3538944);
    sot_graph_free(graph);
}

TEST(late_frees_are_751_and_end_their_range)
{
    struct sot_graph *graph = sot_graph_full();
    struct count good;
    struct count bad;
    struct count inputs;

    REQUIRE(graph);
    good = count_run(graph, "pt");
    bad = count_run(graph, "pir");
    inputs = count_run(graph, "pir-inputs-fixed");
    CHECK_EQ(good.allocs + SOT_SCRATCH_COUNT, bad.allocs);
    CHECK_EQ(bad.scratches, SOT_SCRATCH_COUNT);
    CHECK_EQ(inputs.frees - bad.frees, SOT_LATE_IN_COUNT);
    CHECK_EQ(inputs.freed - bad.freed, SOT_LATE_IN_BYTES);
    CHECK_EQ(good.frees + SOT_SCRATCH_COUNT - inputs.frees, SOT_LATE_OUT_COUNT);
    CHECK_EQ(bad.live - good.live, SOT_LATE_IN_BYTES + SOT_LATE_OUT_BYTES);
    CHECK_STR_EQ(printed(SOT_LATE_IN_BYTES), "1.20 GB");
    CHECK_STR_EQ(printed(SOT_LATE_OUT_BYTES), "2.51 GB");
    CHECK_STR_EQ(printed(SOT_LATE_IN_BYTES + SOT_LATE_OUT_BYTES), "3.71 GB");
    CHECK(good.late_frees_end);
    sot_graph_free(graph);
}

TEST(peak_is_in_the_last_anchor_without_late_tensors_of_its_own)
{
    static const char *const forms[] = {"pt", "pir", "pir-inputs-fixed", "pt-output-cleanup-off"};
    struct sot_graph *graph = sot_graph_full();

    REQUIRE(graph);
    for (int i = 0; i < 4; i++) {
        struct count c = count_run(graph, forms[i]);

        CHECK_EQ(c.peak_index, 428);
        CHECK_EQ(c.peak_late_here, 0);
        CHECK_EQ(c.peak, c.live + SOT_TOP_BYTES);
    }
    sot_graph_free(graph);
}

/* Late tensors of 2 MiB or more; and many that differ from a kept one of their range in nothing but their turn. */
TEST(late_tensors_are_large_and_some_look_like_kept_ones)
{
    struct sot_graph *graph = sot_graph_full();
    int late_first = 0;
    int kept_first = 0;

    REQUIRE(graph);
    for (int i = 0; i < graph->count; i++) {
        const struct sot_subgraph *s = &graph->subgraphs[i];

        for (int v = 0; v < s->count; v++) {
            const struct sot_var *late = &s->vars[v];

            CHECK_EQ(late->bytes % 4, 0);
            if (late->role == SOT_ROLE_TEMP || late->needed)
                continue;
            CHECK_GE(late->bytes, SOT_LATE_LEAST);
            for (int w = 0; w < s->count; w++) {
                const struct sot_var *kept = &s->vars[w];

                if (kept->needed && kept->role == late->role && kept->bytes == late->bytes)
                    *(w < v ? &kept_first : &late_first) += 1;
            }
        }
    }
    CHECK_GE(late_first, 10);
    CHECK_GE(kept_first, 10);
    sot_graph_free(graph);
}

/* Paddle #69043: what buffers of inputs hold at the most of which the backward wants the shape. Both peaks are at one place. */
TEST(shapes_graph_has_both_published_peaks)
{
    struct sot_graph *graph = sot_graph_shapes();
    uint64_t around;
    struct count held;
    struct count dropped;

    REQUIRE(graph);
    held = count_run(graph, "pir-unused-fixed");
    dropped = count_run(graph, "pir-buffers-fixed");
    around = graph->batch_bytes
            + (uint64_t)SOT_SLOTS(graph) * 8; /* what sot.c allocates before the window */
    CHECK_EQ(held.peak + around, SOT_SHAPES_PEAK);
    CHECK_STR_EQ(printed_mib(held.peak + around), "9707.65");
    CHECK_STR_EQ(printed_mib(dropped.peak + around), "8727.65");
    CHECK_EQ(held.peak - dropped.peak, SOT_SHAPE_BYTES);
    CHECK_EQ(dropped.frees - held.frees, SOT_SHAPE_COUNT);
    CHECK_EQ(held.allocs, dropped.allocs);
    CHECK_EQ(held.peak_index, graph->window_last);
    CHECK_EQ(dropped.peak_index, graph->window_last);
    CHECK(dropped.late_frees_end);
    sot_graph_free(graph);
}

/* What the backward does with a tensor follows from the kind of its op; and every kind has inputs and outputs. */
TEST(a_kind_of_op_is_kept_or_late_and_never_both)
{
    struct sot_graph *graph = sot_graph_full();
    int kept[SOT_KINDS][2] = {0};
    int late[SOT_KINDS][2] = {0};

    REQUIRE(graph);
    for (int i = 0; i < graph->count; i++) {
        const struct sot_subgraph *s = &graph->subgraphs[i];

        for (int v = 0; v < s->count; v++) {
            const struct sot_var *var = &s->vars[v];

            REQUIRE(var->kind < SOT_KINDS);
            if (var->role != SOT_ROLE_TEMP)
                (var->needed ? kept : late)[var->kind][var->role == SOT_ROLE_INPUT]++;
        }
    }
    for (int kind = 0; kind < SOT_KINDS; kind++) {
        for (int input = 0; input < 2; input++) {
            CHECK_EQ(kept[kind][input] > 0, kind < SOT_KINDS_NEEDED);
            CHECK_EQ(late[kind][input] > 0, kind >= SOT_KINDS_NEEDED);
        }
    }
    sot_graph_free(graph);
}

/* Views stay inside of the batch, rows divide the tensor, and no op reads a variable that is not there yet. */
static void check_well_formed(struct sot_graph *graph)
{
    REQUIRE(graph);
    for (int i = 0; i < graph->count; i++) {
        const struct sot_subgraph *s = &graph->subgraphs[i];

        REQUIRE(s->result >= 0);
        CHECK(s->vars[s->result].needed);
        CHECK_EQ(s->vars[s->result].role, SOT_ROLE_OUTPUT);
        CHECK_LT(s->carry_from, i);
        for (int v = 0; v < s->count; v++) {
            const struct sot_var *var = &s->vars[v];

            CHECK_GE(var->last_op, v);
            CHECK_LT(s->ops[v].in[0], v);
            CHECK_LT(s->ops[v].in[1], v);
            if (var->role == SOT_ROLE_INPUT) {
                CHECK_EQ(var->bytes % var->row_bytes, 0);
                CHECK_LE(var->offset + 2 * var->bytes - var->row_bytes, graph->batch_bytes);
            }
            if (var->role == SOT_ROLE_EAGER && !var->needed) { /* its sub-graph reads it */
                CHECK_GT(var->last_op, v);
                CHECK_GE(var->bytes, SOT_LATE_LEAST);
            }
        }
    }
    sot_graph_free(graph);
}

TEST(graph_is_well_formed)
{
    check_well_formed(sot_graph_full());
    check_well_formed(sot_graph_shapes());
}

/* The result belongs to the model, not to the form: only scratch may differ. */
static void check_same_in_all_forms(struct sot_graph *graph)
{
    static const char *const forms[] = {"pir", "pir-inputs-fixed", "pt-output-cleanup-off",
            "pir-unused-fixed", "pir-buffers-fixed"};
    size_t bytes;
    uint64_t *good;
    uint64_t *other;

    REQUIRE(graph);
    bytes = (size_t)SOT_SLOT_SCRATCH(graph) * sizeof(*good);
    good = calloc((size_t)SOT_SLOTS(graph), sizeof(*good));
    other = calloc((size_t)SOT_SLOTS(graph), sizeof(*other));
    REQUIRE(good && other);
    REQUIRE_EQ(sot_host_run(graph, sot_form_named("pt"), SOT_TAKES_SHAPE, false, good), 0);
    for (int i = 0; i < SOT_SLOT_SCRATCH(graph); i++)
        CHECK_NE(good[i], 0);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        REQUIRE_EQ(
                sot_host_run(graph, sot_form_named(forms[i]), SOT_TAKES_TENSOR, false, other), 0);
        CHECK_EQ(memcmp(good, other, bytes), 0);
    }
    free(good);
    free(other);
    sot_graph_free(graph);
}

TEST(every_form_computes_the_same)
{
    check_same_in_all_forms(sot_graph_full());
    check_same_in_all_forms(sot_graph_shapes());
}

/* A backward that reads the buffer has another result, and only that slot has. */
TEST(what_the_backward_reads_is_in_its_sum)
{
    struct sot_graph *graph = sot_graph_shapes();
    uint64_t *shape;
    uint64_t *buffer;

    REQUIRE(graph);
    shape = calloc((size_t)SOT_SLOTS(graph), sizeof(*shape));
    buffer = calloc((size_t)SOT_SLOTS(graph), sizeof(*buffer));
    REQUIRE(shape && buffer);
    REQUIRE_EQ(sot_host_run(graph, sot_form_named("pir"), SOT_TAKES_SHAPE, false, shape), 0);
    REQUIRE_EQ(sot_host_run(graph, sot_form_named("pir"), SOT_TAKES_BUFFER, false, buffer), 0);
    for (int i = 0; i < SOT_SLOTS(graph); i++)
        CHECK_EQ(shape[i] != buffer[i], i == SOT_SLOT_BACKWARD(graph));
    free(shape);
    free(buffer);
    sot_graph_free(graph);
}
