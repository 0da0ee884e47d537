/* SPDX-License-Identifier: MIT */
#include "tools/load/datakind.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/load/inside.h"
#include "tools/symbols/framekind.h"

const char *datakind_name(enum datakind kind)
{
    static const char *const names[DATAKIND_COUNT] = {
            [DATAKIND_PARAMETERS] = "parameters",
            [DATAKIND_GRADIENTS] = "gradients",
            [DATAKIND_STATE] = "optimizer state",
            [DATAKIND_ACTIVATIONS] = "activations",
            [DATAKIND_INPUTS] = "inputs",
            [DATAKIND_BUFFERS] = "buffers",
            [DATAKIND_COMMUNICATION] = "communication",
            [DATAKIND_GRAPHS] = "graph pools",
            [DATAKIND_WORKSPACES] = "workspaces",
            [DATAKIND_TEMPORARY] = "temporary",
            [DATAKIND_UNKNOWN] = "unknown",
    };

    return names[kind];
}

/* ---- phases ---------------------------------------------------------------------------------- */

enum phase {
    PHASE_NONE,
    PHASE_FORWARD,
    PHASE_BACKWARD,
    PHASE_OPTIMIZER,
    PHASE_DATA,
};

/* Where an anchor lies in the training loop. */
struct where {
    enum phase phase;
    uint32_t span; /* the anchor that is the phase, TRACE_NONE */
    uint32_t step; /* the anchor that is the step, TRACE_NONE */
    bool is_eval;
};

struct span {
    uint32_t enter, exit; /* event indices; exit TRACE_NEVER: open at the end */
    uint32_t step;
};

struct spans {
    struct span *at; /* by enter */
    size_t count, room;
};

struct job {
    const struct load *load;
    const struct trace *trace;
    struct where *where; /* by anchor */
    struct spans phases, backwards, steps;
    bool *is_communication; /* by stack */
    struct symbols *symbols;
    enum {
        WORKSPACE_UNKNOWN,
        WORKSPACE_NO,
        WORKSPACE_YES
    } * workspace; /* by stack */
    struct datakinds *kinds;
};

static bool datakind_is(const char *part, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(part, word, length) == 0;
}

static enum phase datakind_phase(const char *part, size_t length)
{
    return datakind_is(part, length, "forward")      ? PHASE_FORWARD
            : datakind_is(part, length, "backward")  ? PHASE_BACKWARD
            : datakind_is(part, length, "optimizer") ? PHASE_OPTIMIZER
            : datakind_is(part, length, "data")      ? PHASE_DATA
                                                     : PHASE_NONE;
}

/*
 * From its last part and the position of the anchor around it. A phase inside an optimizer's is
 * nested in it, and is the closer one.
 */
static void datakind_place(struct job *job, uint32_t number)
{
    const struct trace_anchor *anchor = &job->trace->anchors[number];
    struct where *where = &job->where[number];
    const char *slash = strrchr(anchor->path, '/');
    const char *part = slash ? slash + 1 : anchor->path;
    enum phase phase = datakind_phase(part, strlen(part));
    bool is_outermost = !slash;

    *where = anchor->parent == TRACE_NONE || anchor->parent >= number
            ? (struct where){.span = TRACE_NONE, .step = TRACE_NONE}
            : job->where[anchor->parent];
    if (is_outermost && strcmp(part, "step") == 0)
        where->step = number;
    if (is_outermost && strcmp(part, "eval") == 0)
        where->is_eval = true;
    if (phase == PHASE_NONE || !(where->phase == PHASE_NONE || where->phase == PHASE_OPTIMIZER)
            || !(is_outermost || where->step != TRACE_NONE || where->is_eval))
        return;
    where->phase = phase;
    where->span = number;
}

static const struct vec_key datakind_by_enter[] = {VEC_UP(struct span, enter)};

static void datakind_add_span(struct spans *spans, const struct trace_anchor *anchor, uint32_t step)
{
    VEC_PUSH(spans->at, spans->count, spans->room) =
            (struct span){anchor->enter, anchor->exit, step};
}

static void datakind_find_phases(struct job *job)
{
    const struct trace *trace = job->trace;

    job->where = vec_new(trace->anchor_count + 1, sizeof(*job->where));
    for (uint32_t i = 0; i < trace->anchor_count; i++) {
        datakind_place(job, i);
        if (job->where[i].step == i && trace->anchors[i].enter != TRACE_NEVER)
            datakind_add_span(&job->steps, &trace->anchors[i], i);
        if (job->where[i].span != i || trace->anchors[i].enter == TRACE_NEVER)
            continue;
        datakind_add_span(&job->phases, &trace->anchors[i], job->where[i].step);
        if (job->where[i].phase == PHASE_BACKWARD)
            datakind_add_span(&job->backwards, &trace->anchors[i], job->where[i].step);
    }
    VEC_SORT_BY(job->phases.at, job->phases.count, datakind_by_enter);
    VEC_SORT_BY(job->backwards.at, job->backwards.count, datakind_by_enter);
    VEC_SORT_BY(job->steps.at, job->steps.count, datakind_by_enter);
}

/* The first one that begins after an event; NULL: none. */
static const struct span *datakind_next(const struct spans *spans, uint32_t event)
{
    size_t low = 0;
    size_t high = spans->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (spans->at[middle].enter > event)
            high = middle;
        else
            low = middle + 1;
    }
    return low < spans->count ? &spans->at[low] : NULL;
}

/* ---- communication --------------------------------------------------------------------------- */

static bool datakind_is_collective(const char *path)
{
    static const char *const files[] = {"torch/distributed/distributed_c10d.py",
            "torch/distributed/_functional_collectives.py", "torch/distributed/fsdp/",
            "torch/distributed/_composable/fsdp/", "torch/distributed/algorithms/",
            "torch/nn/parallel/distributed.py", "paddle/distributed/communication/", "/libnccl"};

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (strstr(path, files[i]))
            return true;
    return false;
}

/* By the innermost frame that is a library's or Python's own: who asked for the memory. */
static void datakind_find_communication(struct job *job)
{
    const struct trace *trace = job->trace;

    job->is_communication = vec_new(trace->stack_count + 1, sizeof(*job->is_communication));
    for (size_t i = 0; i < trace->stack_count; i++) {
        const struct trace_stack *stack = &trace->stacks[i];
        uint32_t module = stack->count ? trace->frames[stack->first].module : TRACE_NONE;

        if (module != TRACE_NONE && strstr(trace->modules[module].path, "/libnccl"))
            job->is_communication[i] = true;
        if (stack->pycount && !stack->ambient
                && datakind_is_collective(trace->pyframes[stack->pyfirst].file))
            job->is_communication[i] = true;
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static enum datakind datakind_of(enum format_data data)
{
    switch (data) {
    case FORMAT_DATA_PARAMETER:
        return DATAKIND_PARAMETERS;
    case FORMAT_DATA_GRADIENT:
        return DATAKIND_GRADIENTS;
    case FORMAT_DATA_STATE:
        return DATAKIND_STATE;
    case FORMAT_DATA_BUFFER:
        return DATAKIND_BUFFERS;
    case FORMAT_DATA_INPUT:
        return DATAKIND_INPUTS;
    case FORMAT_DATA_NONE:
    case FORMAT_DATA_ROOT:
    case FORMAT_DATA_LOOK:
    case FORMAT_DATA_COUNT:
        break;
    }
    return DATAKIND_UNKNOWN;
}

/* What goes before the names of a root: "", or its class if several have names. */
struct roots {
    char **before; /* by number */
    uint32_t count;
};

/* Those that have memory; modules and optimizers have names of their own. */
static void datakind_count_roots(const struct read_capture *capture, struct roots *roots,
        const bool *has_data, bool is_state)
{
    unsigned several = 0;
    struct keytable classes = {0};

    for (uint32_t i = 1; i < roots->count; i++)
        several += has_data[i];
    for (size_t i = 0; i < capture->data_count && several > 1; i++) {
        const struct read_data *data = &capture->data[i];
        uint32_t *times;

        if (data->kind != FORMAT_DATA_ROOT || !has_data[data->root] || roots->before[data->root])
            continue;
        times = keytable_at(&classes, keytable_text(data->text), 0);
        if (++*times > 1)
            roots->before[data->root] =
                    vec_format("%s#%u%s", data->text, *times, is_state ? ": " : ".");
        else
            roots->before[data->root] = vec_format("%s%s", data->text, is_state ? ": " : ".");
    }
    keytable_done(&classes);
}

static struct roots datakind_roots(const struct read_capture *capture)
{
    struct roots roots = {.count = 1};

    for (size_t i = 0; i < capture->data_count; i++)
        if (capture->data[i].root >= roots.count && capture->data[i].root < FORMAT_DATA_MAX)
            roots.count = capture->data[i].root + 1;
    roots.before = vec_new(roots.count, sizeof(*roots.before));
    for (int is_state = 0; is_state < 2; is_state++) {
        bool *has_data = vec_new(roots.count, sizeof(*has_data));

        for (size_t i = 0; i < capture->data_count; i++) {
            const struct read_data *data = &capture->data[i];

            if (data->root < roots.count && datakind_of(data->kind) != DATAKIND_UNKNOWN
                    && (data->kind == FORMAT_DATA_STATE) == is_state)
                has_data[data->root] = true;
        }
        datakind_count_roots(capture, &roots, has_data, is_state);
        free(has_data);
    }
    return roots;
}

static void datakind_roots_done(struct roots *roots)
{
    for (uint32_t i = 0; i < roots->count; i++)
        free(roots->before[i]);
    free(roots->before);
}

/* The allocation that a record names. */
struct named {
    uint64_t seq;
    uint32_t data;
};

static const struct vec_key datakind_by_seq[] = {
        VEC_UP(struct named, seq), VEC_UP(struct named, data)};

/* The first record of a block decides; a parameter may later be found as an input, too. */
static void datakind_name_block(
        struct job *job, uint32_t block, const struct read_data *data, const struct roots *roots)
{
    struct datakinds *kinds = job->kinds;
    uint64_t size = job->trace->blocks[block].size;
    const char *before = data->root < roots->count ? roots->before[data->root] : NULL;

    if (data->size + FORMAT_DATA_SLACK < size)
        return; /* a framework's segment, which holds other things, too */
    if (kinds->name[block] != TRACE_NONE) {
        kinds->more[block] +=
                data->kind != FORMAT_DATA_INPUT && datakind_of(data->kind) == kinds->of[block];
        return;
    }
    kinds->of[block] = datakind_of(data->kind);
    kinds->name[block] = (uint32_t)kinds->names.count;
    (void)vec_add_text(&kinds->names, vec_format("%s%s", before ? before : "", data->text));
}

/* Whether a call of a module got what a module made before: no input of the program's. */
static bool datakind_is_output(const struct job *job, uint32_t block, const struct read_data *data)
{
    return data->kind == FORMAT_DATA_INPUT
            && job->where[job->trace->blocks[block].anchor].phase == PHASE_FORWARD;
}

/* Events are in the order of their numbers, so both are walked once. */
static void datakind_name_blocks(struct job *job)
{
    const struct read_capture *capture = job->load->capture;
    const struct trace *trace = job->trace;
    struct named *named = vec_new(capture->data_count + 1, sizeof(*named));
    struct roots roots = datakind_roots(capture);
    size_t count = 0;
    size_t at = 0;

    for (size_t i = 0; i < capture->data_count; i++)
        if (capture->data[i].seq && datakind_of(capture->data[i].kind) != DATAKIND_UNKNOWN)
            named[count++] = (struct named){capture->data[i].seq, (uint32_t)i};
    VEC_SORT_BY(named, count, datakind_by_seq);
    for (size_t i = 0; i < trace->event_count && at < count; i++) {
        const struct trace_event *event = &trace->events[i];

        if (event->kind != TRACE_ALLOC || event->block == TRACE_NONE || event->seq == 0)
            continue;
        while (at < count && named[at].seq < event->seq)
            at++;
        for (; at < count && named[at].seq == event->seq; at++)
            if (!datakind_is_output(job, event->block, &capture->data[named[at].data]))
                datakind_name_block(job, event->block, &capture->data[named[at].data], &roots);
    }
    datakind_roots_done(&roots);
    free(named);
}

/* ---- by its place in the loop ---------------------------------------------------------------- */

static const struct where *datakind_where(const struct job *job, const struct trace_block *block)
{
    return &job->where[block->anchor];
}

/* The first failed allocation between two events; TRACE_NEVER: none. */
static uint32_t datakind_failure(const struct job *job, uint32_t after, uint32_t before)
{
    uint32_t first = TRACE_NEVER;

    for (size_t i = 0; i < job->load->oom_count; i++) {
        uint32_t at = job->load->ooms[i].at;

        if (at != TRACE_NEVER && at > after && at <= before && at < first)
            first = at;
    }
    return first;
}

/* Whether the block was live when its forward ran out of memory. */
static bool datakind_met_failure(const struct job *job, const struct trace_block *block)
{
    const struct where *where = datakind_where(job, block);
    uint32_t exit, at;

    if (where->phase != PHASE_FORWARD || where->is_eval)
        return false;
    exit = job->trace->anchors[where->span].exit;
    at = datakind_failure(job, block->born, exit);
    return at != TRACE_NEVER && block->died >= at;
}

static bool datakind_is_temporary(const struct job *job, const struct trace_block *block)
{
    const struct where *where = datakind_where(job, block);
    const struct span *next;

    if (block->died == TRACE_NEVER || datakind_met_failure(job, block))
        return false;
    if (where->span != TRACE_NONE)
        return block->died < job->trace->anchors[where->span].exit;
    next = datakind_next(&job->phases, block->born);
    return next && block->died < next->enter;
}

static bool datakind_is_activation(const struct job *job, const struct trace_block *block)
{
    const struct where *where = datakind_where(job, block);
    const struct span *pass, *next;
    uint32_t behind;

    if (where->is_eval || (where->phase != PHASE_FORWARD && where->phase != PHASE_NONE))
        return false;
    if (datakind_met_failure(job, block))
        return true;
    pass = datakind_next(&job->backwards, block->born);
    if (!pass || where->step == TRACE_NONE || pass->step != where->step
            || block->died < pass->enter)
        return false;
    if (where->phase == PHASE_NONE) /* a variable of the program may have it, too */
        return block->died < pass->exit;
    next = datakind_next(&job->steps, job->trace->anchors[where->step].enter);
    behind = next ? next->exit : TRACE_NEVER;
    return block->died < behind || (block->died == TRACE_NEVER && behind == TRACE_NEVER);
}

/* ---- as its equals --------------------------------------------------------------------------- */

/* Blocks of one call site and phase, perhaps of one size. */
struct class {
    uint64_t named;      /* bits by kind */
    uint64_t unnamed;    /* that were live at a look and had no name */
    uint64_t not_inputs; /* the same when arguments of a call were looked at */
};

struct classes {
    struct keytable index;
    struct class *at;
    size_t count, room;
};

static struct key datakind_key(
        const struct job *job, const struct trace_block *block, uint64_t size)
{
    const struct where *where = datakind_where(job, block);

    return (struct key){block->stack, (uint64_t)where->phase << 1 | where->is_eval, size};
}

static struct class *datakind_class(struct classes *classes, struct key key)
{
    uint32_t at = keytable_number(&classes->index, key);

    if (at == classes->count)
        VEC_PUSH(classes->at, classes->count, classes->room) = (struct class){0};
    return &classes->at[at];
}

/* Times of looks at everything, or at arguments, ascending. */
static uint64_t *datakind_looks(
        const struct read_capture *capture, enum format_data of, size_t *ret_count)
{
    uint64_t *times = vec_new(capture->data_count + 1, sizeof(*times));
    size_t count = 0;

    for (size_t i = 0; i < capture->data_count; i++)
        if (capture->data[i].kind == of && !(capture->data[i].flags & FORMAT_DATA_PART))
            times[count++] = capture->data[i].time_ns;
    VEC_SORT(times, count, vec_by_number);
    *ret_count = count;
    return times;
}

/* Whether a look was made while the block lived. */
static bool datakind_was_seen(const struct trace_block *block, const uint64_t *times, size_t count)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (times[middle] > block->born_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low < count && (block->died == TRACE_NEVER || times[low] < block->died_ns);
}

static void datakind_learn(struct job *job, struct classes *classes)
{
    const struct read_capture *capture = job->load->capture;
    size_t count, input_count;
    uint64_t *times = datakind_looks(capture, FORMAT_DATA_LOOK, &count);
    uint64_t *input_times = datakind_looks(capture, FORMAT_DATA_INPUT, &input_count);

    for (size_t i = 0; i < job->trace->block_count; i++) {
        const struct trace_block *block = &job->trace->blocks[i];
        bool is_named = job->kinds->name[i] != TRACE_NONE;
        bool is_seen = !is_named && datakind_was_seen(block, times, count);
        bool is_no_input = !is_named && datakind_was_seen(block, input_times, input_count);

        if (block->memclass >= MEMCLASS_DEVICE_END || datakind_is_temporary(job, block)
                || !(is_named || is_seen || is_no_input))
            continue;
        for (unsigned by_size = 0; by_size < 2; by_size++) {
            struct class *class = datakind_class(
                    classes, datakind_key(job, block, by_size ? block->size : UINT64_MAX));

            if (is_named)
                class->named |= UINT64_C(1) << job->kinds->of[i];
            class->unnamed += is_seen;
            class->not_inputs += is_no_input;
        }
    }
    free(times);
    free(input_times);
}

/* The kind that all of a class have that were seen; DATAKIND_COUNT: none, or several. */
static enum datakind datakind_told(
        const struct classes *classes, struct key key, bool *ret_is_known)
{
    uint32_t at = keytable_get(&classes->index, key, TRACE_NONE);
    const struct class *class = at == TRACE_NONE ? NULL : &classes->at[at];

    *ret_is_known = class && (class->named || class->unnamed);
    if (!class
            || (class->named == UINT64_C(1) << DATAKIND_INPUTS ? class->not_inputs
                                                               : class->unnamed))
        return DATAKIND_COUNT;
    for (unsigned kind = 0; kind < DATAKIND_COUNT; kind++)
        if (class->named == UINT64_C(1) << kind)
            return (enum datakind)kind;
    return DATAKIND_COUNT;
}

static enum datakind datakind_as_equals(
        const struct job *job, const struct classes *classes, const struct trace_block *block)
{
    bool is_known;
    enum datakind kind = datakind_told(classes, datakind_key(job, block, block->size), &is_known);

    if (is_known)
        return kind;
    return datakind_told(classes, datakind_key(job, block, UINT64_MAX), &is_known);
}

/* ---- workspaces ------------------------------------------------------------------------------ */

static bool datakind_is_workspace(const struct job *job, uint32_t stack)
{
    if (job->workspace[stack] == WORKSPACE_UNKNOWN) {
        size_t count;
        const struct symbols_line *lines = symbols_stack(job->symbols, stack, &count);

        job->workspace[stack] = WORKSPACE_NO;
        for (size_t i = 0; i < count; i++)
            if (framekind_is_workspace(&lines[i]))
                job->workspace[stack] = WORKSPACE_YES;
    }
    return job->workspace[stack] == WORKSPACE_YES;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static enum datakind datakind_decide(
        const struct job *job, const struct classes *classes, const struct trace_block *block)
{
    enum datakind equal;

    if (block->memclass == MEMCLASS_GRAPH)
        return DATAKIND_GRAPHS;
    if (job->is_communication[block->stack])
        return DATAKIND_COMMUNICATION;
    if (datakind_is_temporary(job, block))
        return datakind_is_workspace(job, block->stack) ? DATAKIND_WORKSPACES : DATAKIND_TEMPORARY;
    equal = datakind_as_equals(job, classes, block);
    if (equal != DATAKIND_COUNT)
        return equal;
    if (datakind_is_workspace(job, block->stack))
        return DATAKIND_WORKSPACES;
    if (datakind_where(job, block)->phase == PHASE_DATA)
        return DATAKIND_INPUTS;
    return datakind_is_activation(job, block) ? DATAKIND_ACTIVATIONS : DATAKIND_UNKNOWN;
}

/* ---- by walks -------------------------------------------------------------------------------- */

static bool datakind_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/*
 * The kind that a walk's row tells (held_holders.py), a line with the class and one for each holder.
 * What a variable of the program has as well may be saved for a while only, and be anything.
 */
static enum datakind datakind_of_row(const char *row)
{
    static const struct {
        const char *class;
        enum datakind kind;
    } of[] = {{"parameter\n", DATAKIND_PARAMETERS}, {"gradient\n", DATAKIND_GRADIENTS},
            {"optimizer state\n", DATAKIND_STATE}, {"buffer\n", DATAKIND_BUFFERS}};

    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
        if (datakind_begins(row, of[i].class))
            return of[i].kind;
    if (!datakind_begins(row, "saved for backward\n"))
        return DATAKIND_UNKNOWN;
    for (const char *at = strchr(row, '\n'); at; at = strchr(at + 1, '\n'))
        if (!datakind_begins(at, "\ngraph of ") && !datakind_begins(at, "\na graph that ")
                && !datakind_begins(at, "\nnot looked for: "))
            return DATAKIND_UNKNOWN;
    return DATAKIND_ACTIVATIONS;
}

/* Of unknown blocks. What no walk met is as its equals are that walks met. */
static void datakind_take_walks(struct job *job)
{
    const struct read_capture *capture = job->load->capture;
    enum datakind *of = job->kinds->of;
    const char **rows = inside_told(job->load);
    uint64_t *times = vec_new(capture->walk_count + 1, sizeof(*times));
    struct classes classes = {0};
    size_t count = 0;

    for (size_t i = 0; i < capture->walk_count; i++)
        if (!(capture->walk[i].flags & FORMAT_WALK_SCAN))
            times[count++] = capture->walk[i].time_ns;
    VEC_SORT(times, count, vec_by_number);
    for (size_t i = 0; i < job->trace->block_count; i++) {
        const struct trace_block *block = &job->trace->blocks[i];

        if (of[i] != DATAKIND_UNKNOWN || !datakind_was_seen(block, times, count))
            continue;
        if (rows[i])
            of[i] = datakind_of_row(rows[i]);
        for (unsigned by_size = 0; by_size < 2; by_size++) {
            struct class *class = datakind_class(
                    &classes, datakind_key(job, block, by_size ? block->size : UINT64_MAX));

            if (of[i] == DATAKIND_UNKNOWN)
                class->unnamed++;
            else
                class->named |= UINT64_C(1) << of[i];
        }
    }
    for (size_t i = 0; i < job->trace->block_count; i++) {
        const struct trace_block *block = &job->trace->blocks[i];
        enum datakind equal = of[i] == DATAKIND_UNKNOWN && !datakind_was_seen(block, times, count)
                ? datakind_as_equals(job, &classes, block)
                : DATAKIND_COUNT;

        if (equal != DATAKIND_COUNT)
            of[i] = equal;
    }
    keytable_done(&classes.index);
    free(classes.at);
    free(times);
    free(rows);
}

static void datakind_count_looks(const struct read_capture *capture, struct datakinds *kinds)
{
    for (size_t i = 0; i < capture->data_count; i++) {
        const struct read_data *data = &capture->data[i];

        if (data->kind != FORMAT_DATA_LOOK)
            continue;
        kinds->looks++;
        kinds->is_cut |= (data->flags & FORMAT_DATA_CUT) != 0;
        kinds->is_busy |= (data->flags & FORMAT_DATA_BUSY) != 0;
    }
}

struct datakinds datakind_find(const struct load *load)
{
    const struct trace *trace = load->trace;
    struct datakinds kinds = {0};
    struct job job = {.load = load, .trace = trace, .kinds = &kinds};
    struct classes classes = {0};

    if (load->capture)
        datakind_count_looks(load->capture, &kinds);
    if (kinds.looks == 0)
        return kinds;
    kinds.of = vec_new(trace->block_count + 1, sizeof(*kinds.of));
    kinds.name = vec_new(trace->block_count + 1, sizeof(*kinds.name));
    kinds.more = vec_new(trace->block_count + 1, sizeof(*kinds.more));
    for (size_t i = 0; i < trace->block_count; i++)
        kinds.name[i] = TRACE_NONE;
    datakind_find_phases(&job);
    datakind_find_communication(&job);
    job.symbols = symbols_new(trace);
    job.workspace = vec_new(trace->stack_count + 1, sizeof(*job.workspace));
    datakind_name_blocks(&job);
    datakind_learn(&job, &classes);
    for (size_t i = 0; i < trace->block_count; i++)
        if (kinds.name[i] == TRACE_NONE)
            kinds.of[i] = datakind_decide(&job, &classes, &trace->blocks[i]);
    datakind_take_walks(&job);
    keytable_done(&classes.index);
    free(classes.at);
    free(job.where);
    free(job.phases.at);
    free(job.backwards.at);
    free(job.steps.at);
    free(job.is_communication);
    free(job.workspace);
    symbols_free(job.symbols);
    return kinds;
}

void datakind_done(struct datakinds *kinds)
{
    free(kinds->of);
    free(kinds->name);
    free(kinds->more);
    vec_free_texts(&kinds->names);
}

char *datakind_new_text(const struct datakinds *kinds, uint32_t block)
{
    if (kinds->name[block] == TRACE_NONE)
        return NULL;
    return kinds->more[block]
            ? vec_format("%s, and %u more", kinds->names.at[kinds->name[block]], kinds->more[block])
            : vec_text(kinds->names.at[kinds->name[block]]);
}
