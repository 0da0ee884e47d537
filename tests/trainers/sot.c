/* SPDX-License-Identifier: MIT */
/*
 * sot.c - the static sub-graph executor of Paddle #66278 and #69043 on a CUDA device.
 *
 * Runs the model of sot_graph.h in its good form (pt) or a bad one (pir), each sub-graph in an NVTX range SOT_CALL_<i>,
 * the end in a range BACKWARD; with --anchors log lines "START SOT_CALL_<i>" say so and no NVTX, with both each does. With
 * --paddle-log the run is written down as Paddle's allocator would. The host does not wait for the device before everything is queued. Prints the window's
 * ledger, the whole ledger and the checksum, and compares every sum with the one computed on the host.
 */
#include "tests/trainers/kernels_host.h"
#include "tests/trainers/paddle_log.h"
#include "tests/trainers/sot_exec.h"
#include "tests/trainers/trainer.h"

#include <getopt.h>
#include <inttypes.h>
#include <nvtx.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STREAMS_MOST = 8,
};

enum touch {
    TOUCH_NONE,
    TOUCH_LAUNCH,
    TOUCH_COPY,
    TOUCH_SET,
};

struct options {
    const struct sot_form *form;
    struct sot_graph *(*graph)(void);
    enum sot_takes takes;
    enum trainer_entrance entrance;
    int streams;
    enum touch touch;
    int pause_at; /* sub-graph, -1: none */
    bool log;     /* lines say where it is */
    bool nvtx;    /* ranges do */
    bool mixed;   /* one function for all kinds of ops */
    const char *ledger;
    const char *paddle_log;
};

struct sot {
    const struct options *options;
    const struct sot_graph *graph;
    cudaStream_t streams[STREAMS_MOST];
    cudaStream_t stream; /* of the sub-graph that runs */
    cudaEvent_t ready;   /* the batch is there */
    cudaEvent_t *done;   /* one for each sub-graph, its timer too */
    unsigned char *batch;
    uint64_t *sums; /* on the device */
    struct trainer_ledger *ledger;
    struct trainer_ledger window;
    bool in_window;
    struct paddle_log *log; /* NULL without */
};

/* ---- where tensors come from ---- */

static void *tensor_ptr(const struct sot_tensor *t)
{
    return (void *)(uintptr_t)t->device;
}

static void book_alloc(struct sot *s, const struct sot_tensor *t)
{
    trainer_ledger_alloc(s->ledger, t->bytes);
    if (s->in_window)
        trainer_ledger_alloc(&s->window, t->bytes);
    paddle_log_alloc(s->log, t->bytes, tensor_ptr(t));
}

/* A strided view made dense. No user object holds the copy, only the sub-graph's scope. */
TRAINER_FRAME static void contiguous_copy(struct sot *s, struct sot_tensor *t)
{
    void *ptr;

    TRAINER_MALLOC(s->options->entrance, &ptr, t->bytes, s->stream);
    t->device = (uintptr_t)ptr;
    trainer_copy_strided(ptr, s->batch + t->var->offset, t->bytes / t->var->row_bytes,
            t->var->row_bytes, 2 * t->var->row_bytes, s->stream);
}

TRAINER_FRAME static void alloc_output(struct sot *s, struct sot_tensor *t)
{
    void *ptr;

    TRAINER_MALLOC(s->options->entrance, &ptr, t->bytes, s->stream);
    t->device = (uintptr_t)ptr;
}

TRAINER_FRAME static void alloc_eager(struct sot *s, struct sot_tensor *t)
{
    void *ptr;

    TRAINER_MALLOC(s->options->entrance, &ptr, t->bytes, s->stream);
    t->device = (uintptr_t)ptr;
}

static void (*const alloc_of_role[])(struct sot *s, struct sot_tensor *t) = {
        [SOT_ROLE_INPUT] = contiguous_copy,
        [SOT_ROLE_EAGER] = alloc_eager,
        [SOT_ROLE_OUTPUT] = alloc_output,
};

/* Each kind of op asks in a function of its own. It books the tensor, so that its frame is on the stack meanwhile. */
#define OP(kind_)                                                        \
    TRAINER_FRAME static void kind_(struct sot *s, struct sot_tensor *t) \
    {                                                                    \
        alloc_of_role[t->var->role](s, t);                               \
        book_alloc(s, t);                                                \
    }

OP(conv2d)
OP(matmul)
OP(batch_norm)
OP(relu)
OP(softmax)
OP(add)
OP(cast)
OP(transpose)
OP(any_op)

static void run_kind(void *self, struct sot_tensor *t)
{
    static void (*const ops[SOT_KINDS])(struct sot *, struct sot_tensor *) = {
            [SOT_KIND_CONV2D] = conv2d,
            [SOT_KIND_MATMUL] = matmul,
            [SOT_KIND_BATCH_NORM] = batch_norm,
            [SOT_KIND_RELU] = relu,
            [SOT_KIND_SOFTMAX] = softmax,
            [SOT_KIND_ADD] = add,
            [SOT_KIND_CAST] = cast,
            [SOT_KIND_TRANSPOSE] = transpose,
    };
    struct sot *s = self;

    (s->options->mixed ? any_op : ops[t->var->kind])(s, t);
}

TRAINER_FRAME static void alloc_temp(void *self, struct sot_tensor *t)
{
    struct sot *s = self;
    void *ptr;

    TRAINER_MALLOC(s->options->entrance, &ptr, t->bytes, s->stream);
    t->device = (uintptr_t)ptr;
    book_alloc(s, t);
}

TRAINER_FRAME static void alloc_scratch(void *self, struct sot_tensor *t)
{
    struct sot *s = self;
    void *ptr;

    TRAINER_MALLOC(s->options->entrance, &ptr, t->bytes, s->stream);
    t->device = (uintptr_t)ptr;
    book_alloc(s, t);
}

TRAINER_FRAME static void release_tensor(void *self, struct sot_tensor *t)
{
    struct sot *s = self;

    paddle_log_free(s->log, t->bytes, tensor_ptr(t));
    TRAINER_FREE(s->options->entrance, tensor_ptr(t), s->stream);
    t->device = 0;
    trainer_ledger_free(s->ledger, t->bytes);
    if (s->in_window)
        trainer_ledger_free(&s->window, t->bytes);
}

/* ---- kernels ---- */

static void fill_tensor(void *self, struct sot_tensor *t, uint32_t seed)
{
    struct sot *s = self;

    trainer_fill(tensor_ptr(t), t->bytes, seed, s->stream);
}

static void mix_tensor(void *self, struct sot_tensor *dst, struct sot_tensor *src, uint64_t bytes)
{
    struct sot *s = self;

    trainer_mix(tensor_ptr(dst), tensor_ptr(src), bytes, s->stream);
}

static void sum_tensor(void *self, int slot, struct sot_tensor *t, uint64_t bytes)
{
    struct sot *s = self;

    trainer_sum(&s->sums[slot], tensor_ptr(t), bytes, s->stream);
}

/* A use of a tensor after its sub-graph, as no op of the model has it. */
static void touch_tensor(void *self, int slot, struct sot_tensor *t)
{
    struct sot *s = self;

    if (s->options->touch == TOUCH_COPY)
        CUDA_OK(cudaMemcpyAsync(
                s->batch, tensor_ptr(t), t->bytes, cudaMemcpyDeviceToDevice, s->stream));
    else if (s->options->touch == TOUCH_SET)
        CUDA_OK(cudaMemsetAsync(tensor_ptr(t), 0, t->bytes, s->stream));
    else
        trainer_sum(&s->sums[slot], tensor_ptr(t), t->bytes, s->stream);
}

/* ---- ranges ---- */

static void range_name(char *name, size_t size, int index)
{
    if (index < 0)
        (void)snprintf(name, size, "BACKWARD");
    else
        (void)snprintf(name, size, "SOT_CALL_%d", index);
}

/* The stream of a sub-graph waits for what it reads; the backward's for all. */
static void choose_stream(struct sot *s, int index)
{
    int from = index < 0 ? -1 : s->graph->subgraphs[index].carry_from;

    s->stream = s->streams[index < 0 ? 0 : index % s->options->streams];
    if (s->options->streams == 1)
        return;
    if (index < 0) {
        for (int i = 0; i < s->graph->count; i++)
            CUDA_OK(cudaStreamWaitEvent(s->stream, s->done[i], 0));
    } else if (index < s->options->streams) {
        CUDA_OK(cudaStreamWaitEvent(s->stream, s->ready, 0));
    }
    if (from >= 0)
        CUDA_OK(cudaStreamWaitEvent(s->stream, s->done[from], 0));
}

static void enter_range(void *self, int index)
{
    struct sot *s = self;
    char name[32];

    range_name(name, sizeof(name), index);
    if (s->options->log)
        printf("START %s\n", name);
    paddle_log_say(s->log, "START", name);
    choose_stream(s, index);
    if (s->options->nvtx)
        (void)nvtxRangePushA(name);
    if (index == 0)
        s->in_window = true;
}

/* Until SIGUSR1 comes, or for ever. */
static void pause_here(struct sot *s, const char *name)
{
    sigset_t set;
    int sig;

    printf("PAUSED %s live %" PRIu64 "\n", name, s->ledger->live_bytes);
    (void)fflush(stdout);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    (void)sigwait(&set, &sig);
}

static void leave_range(void *self, int index)
{
    struct sot *s = self;
    char name[32];

    range_name(name, sizeof(name), index);
    if (index >= 0 && index == s->options->pause_at)
        pause_here(s, name);
    if (index == s->graph->window_last)
        s->in_window = false;
    if (s->options->nvtx)
        (void)nvtxRangePop();
    if (index >= 0)
        CUDA_OK(cudaEventRecord(s->done[index], s->stream));
    if (s->options->log)
        printf("END %s\n", name);
    paddle_log_say(s->log, "END", name);
}

/* ---- the run ---- */

static void set_up(struct sot *s)
{
    size_t sums_bytes = (size_t)SOT_SLOTS(s->graph) * sizeof(*s->sums);

    trainer_load_kernels();
    for (int i = 1; i < s->options->streams; i++)
        CUDA_OK(cudaStreamCreateWithFlags(&s->streams[i], cudaStreamNonBlocking));
    s->done = calloc((size_t)s->graph->count, sizeof(cudaEvent_t));
    if (!s->done)
        trainer_fail(1, "no memory");
    for (int i = 0; i < s->graph->count; i++)
        CUDA_OK(cudaEventCreateWithFlags(&s->done[i], cudaEventDisableTiming));
    CUDA_OK(cudaEventCreateWithFlags(&s->ready, cudaEventDisableTiming));
    CUDA_OK(cudaMalloc((void **)&s->batch, s->graph->batch_bytes));
    CUDA_OK(cudaMalloc((void **)&s->sums, sums_bytes));
    trainer_ledger_alloc(s->ledger, s->graph->batch_bytes);
    trainer_ledger_alloc(s->ledger, sums_bytes);
    paddle_log_alloc(s->log, s->graph->batch_bytes, s->batch);
    paddle_log_alloc(s->log, sums_bytes, s->sums);
    CUDA_OK(cudaMemsetAsync(s->batch, 0, s->graph->batch_bytes, s->streams[0]));
    CUDA_OK(cudaMemsetAsync(s->sums, 0, sums_bytes, s->streams[0]));
    trainer_fill(s->batch, s->graph->batch_bytes, SOT_BATCH_SEED, s->streams[0]);
    CUDA_OK(cudaEventRecord(s->ready, s->streams[0]));
}

static void tear_down(struct sot *s)
{
    size_t sums_bytes = (size_t)SOT_SLOTS(s->graph) * sizeof(*s->sums);

    paddle_log_free(s->log, s->graph->batch_bytes, s->batch);
    paddle_log_free(s->log, sums_bytes, s->sums);
    CUDA_OK(cudaFree(s->batch));
    trainer_ledger_free(s->ledger, s->graph->batch_bytes);
    CUDA_OK(cudaFree(s->sums));
    trainer_ledger_free(s->ledger, sums_bytes);
    CUDA_OK(cudaEventDestroy(s->ready));
    for (int i = 0; i < s->graph->count; i++)
        CUDA_OK(cudaEventDestroy(s->done[i]));
    for (int i = 1; i < s->options->streams; i++)
        CUDA_OK(cudaStreamDestroy(s->streams[i]));
    trainer_unload_kernels();
    free(s->done);
}

static void run_device(struct sot *s, uint64_t *slots)
{
    struct sot_backend b = {
            .self = s,
            .takes = s->options->takes,
            .enter = enter_range,
            .leave = leave_range,
            .contiguous_copy = run_kind,
            .alloc_output = run_kind,
            .alloc_temp = alloc_temp,
            .alloc_scratch = alloc_scratch,
            .release = release_tensor,
            .fill = fill_tensor,
            .mix = mix_tensor,
            .sum = sum_tensor,
            .touch = s->options->touch == TOUCH_NONE ? NULL : touch_tensor,
    };

    set_up(s);
    if (sot_exec_run(s->graph, s->options->form, &b) != 0)
        trainer_fail(1, "no memory");
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemcpy(
            slots, s->sums, (size_t)SOT_SLOTS(s->graph) * sizeof(*slots), cudaMemcpyDeviceToHost));
    tear_down(s);
}

static bool run(const struct options *options)
{
    struct sot s = {.options = options};
    struct sot_graph *graph = options->graph();
    uint64_t *slots = graph ? calloc((size_t)SOT_SLOTS(graph), sizeof(*slots)) : NULL;
    uint64_t *expected = graph ? calloc((size_t)SOT_SLOTS(graph), sizeof(*slots)) : NULL;
    bool right;

    if (!slots || !expected
            || sot_host_run(graph, options->form, options->takes, options->touch == TOUCH_LAUNCH,
                       expected)
                    != 0)
        trainer_fail(1, "no memory");
    s.graph = graph;
    s.ledger = trainer_ledger_open(options->ledger);
    s.log = paddle_log_open(options->paddle_log);
    run_device(&s, slots);
    paddle_log_close(s.log);
    trainer_ledger_print(&s.window, "window");
    trainer_ledger_print(s.ledger, "whole");
    trainer_ledger_close(s.ledger);
    right = trainer_compare(slots, expected, SOT_SLOTS(graph));
    printf("checksum 0x%016" PRIx64 "\n", trainer_checksum(slots, SOT_SLOT_SCRATCH(graph)));
    free(slots);
    free(expected);
    sot_graph_free(graph);
    return right;
}

/* ---- options ---- */

static const char usage[] =
        "usage: sot --form "
        "pt|pir|pir-inputs-fixed|pt-output-cleanup-off|pir-unused-fixed|pir-buffers-fixed\n"
        "           --graph small|full|shapes\n"
        "           [--entrance sync|stream] [--streams N] [--touch-released[=launch|copy|set]]\n"
        "           [--backward-takes shape|tensor|buffer]\n"
        "           [--pause-at SOT_CALL_N] [--anchors nvtx|log|both] [--log] [--ledger FILE]\n"
        "           [--mixed] [--paddle-log FILE]\n";

static _Noreturn void wrong_use(void)
{
    (void)fputs(usage, stderr);
    exit(2);
}

static enum touch touch_named(const char *word)
{
    if (!word || strcmp(word, "launch") == 0)
        return TOUCH_LAUNCH;
    if (strcmp(word, "copy") == 0)
        return TOUCH_COPY;
    if (strcmp(word, "set") != 0)
        wrong_use();
    return TOUCH_SET;
}

static enum sot_takes takes_named(const char *word)
{
    static const char *const words[] = {
            [SOT_TAKES_SHAPE] = "shape",
            [SOT_TAKES_TENSOR] = "tensor",
            [SOT_TAKES_BUFFER] = "buffer",
    };

    for (int i = 0; i < 3; i++) {
        if (strcmp(word, words[i]) == 0)
            return (enum sot_takes)i;
    }
    wrong_use();
}

static struct sot_graph *(*graph_named(const char *word))(void)
{
    if (strcmp(word, "full") == 0)
        return sot_graph_full;
    if (strcmp(word, "shapes") == 0)
        return sot_graph_shapes;
    if (strcmp(word, "small") != 0)
        wrong_use();
    return sot_graph_small;
}

static int anchor_named(const char *word)
{
    static const char prefix[] = "SOT_CALL_";
    uint64_t n;

    if (strncmp(word, prefix, sizeof(prefix) - 1) == 0)
        word += sizeof(prefix) - 1;
    n = trainer_number(word);
    if (n > 429)
        wrong_use();
    return (int)n;
}

static void anchors_take(struct options *o, const char *word)
{
    o->nvtx = strcmp(word, "log") != 0;
    o->log = strcmp(word, "nvtx") != 0;
    if (o->nvtx != o->log || strcmp(word, "both") == 0)
        return;
    wrong_use();
}

static void option_take(struct options *o, int option)
{
    switch (option) {
    case 'f':
        o->form = sot_form_named(optarg);
        if (!o->form)
            wrong_use();
        return;
    case 'g':
        o->graph = graph_named(optarg);
        return;
    case 'e':
        o->entrance = trainer_entrance_named(optarg);
        return;
    case 's':
        o->streams = (int)trainer_number(optarg);
        if (o->streams < 1 || o->streams > STREAMS_MOST)
            wrong_use();
        return;
    case 't':
        o->touch = touch_named(optarg);
        return;
    case 'b':
        o->takes = takes_named(optarg);
        return;
    case 'p':
        o->pause_at = anchor_named(optarg);
        return;
    case 'l':
        o->log = true;
        return;
    case 'a':
        anchors_take(o, optarg);
        return;
    case 'm':
        o->mixed = true;
        return;
    case 'L':
        o->ledger = optarg;
        return;
    case 'P':
        o->paddle_log = optarg;
        return;
    default:
        wrong_use();
    }
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
            {"form", required_argument, NULL, 'f'},
            {"graph", required_argument, NULL, 'g'},
            {"entrance", required_argument, NULL, 'e'},
            {"streams", required_argument, NULL, 's'},
            {"touch-released", optional_argument, NULL, 't'},
            {"backward-takes", required_argument, NULL, 'b'},
            {"pause-at", required_argument, NULL, 'p'},
            {"anchors", required_argument, NULL, 'a'},
            {"log", no_argument, NULL, 'l'},
            {"mixed", no_argument, NULL, 'm'},
            {"ledger", required_argument, NULL, 'L'},
            {"paddle-log", required_argument, NULL, 'P'},
            {NULL, 0, NULL, 0},
    };
    struct options o = {.streams = 1, .pause_at = -1, .nvtx = true};
    sigset_t set;
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        option_take(&o, option);
    if (!o.form || !o.graph || optind != argc)
        wrong_use();
    if (o.takes == SOT_TAKES_BUFFER && o.form->drop_buffers) {
        (void)fputs("sot: --backward-takes buffer needs a form that keeps buffers\n", stderr);
        return 2;
    }
    if (o.touch != TOUCH_NONE && (o.graph != sot_graph_small || o.form->drop_inputs)) {
        (void)fputs(
                "sot: --touch-released needs --graph small and a form that keeps inputs\n", stderr);
        return 2;
    }
    if (o.pause_at >= 0) { /* before any thread starts, so that only sigwait takes it */
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGUSR1);
        (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    return run(&o) ? 0 : 1;
}
