/* SPDX-License-Identifier: MIT */
/*
 * gemini.c - a stack of layers whose parameters may be more than the device holds.
 *
 * What ColossalAI's Gemini (pull request 878) is for: each unit of parameters is used at a few places of a step and lies idle
 * between them. A step, in the range "step", uses units in a given order, by default 0 .. N-1 and back:
 *
 *     a use       the activation takes in the head of the unit, and a sum of the whole unit goes to a slot of this place
 *     an update   the unit is computed anew from the activation, its state (--states) and itself: by default at its last use
 *                 in the step (--update last), or of all units after the order (end)
 *
 * All uses stand one behind the other on the device, whichever stream they are on (--streams). With --host-pointers a table of
 * addresses lies in device memory, or in pinned memory of the host (--table), and the end of each step sums the units of the
 * table by what stands there. With --graph the step is captured once and launched. Each model (--threads) has a host thread,
 * streams and units of its own.
 *
 * All sums, and the contents of all units, which are copied back, are compared with what the host has computed.
 */
#include "tests/trainers/kernels_host.h"
#include "tests/trainers/twin.h"

#include <getopt.h>
#include <inttypes.h>
#include <nvtx.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNITS_MOST = 16384,
    USES_MOST = 65536,
    STREAMS_MOST = 16,
    MODELS_MOST = 16,
    HEAD_BYTES = 4096, /* the activation; of each unit, what goes into it */
};

enum update {
    UPDATE_LAST,
    UPDATE_END,
    UPDATE_NONE,
};

/* Numbers of an option, in their order. */
struct list {
    uint64_t *number;
    int count;
};

struct options {
    struct list sizes;
    struct list order;
    bool *is_last_use; /* of each place of the order: its unit comes no more in this step */
    struct list table; /* units that are read by their addresses in device memory */
    struct list devices;
    enum trainer_entrance entrance;
    enum update update;
    uint64_t steps;
    uint32_t seed;
    int units, streams, models;
    bool states, graph, log, has_table, has_host_table;
};

struct model {
    const struct options *options;
    int number;
    struct trainer_ledger *ledger; /* of all models */
    pthread_t thread;
    cudaStream_t streams[STREAMS_MOST];
    cudaEvent_t passed; /* the use before */
    struct twin *units, *states;
    struct twin activation;
    struct twin_sums sums; /* of each place of the order, then of each unit of the table */
    void **table;
    uint64_t reserved_most;
    uint64_t device_ns, last_step_ns;
    /* The sums, then those of the contents of units and states; as the device had them. */
    uint64_t *results;
    bool is_right;
};

/* ---- making a model ---- */

TRAINER_FRAME static struct twin alloc_unit(struct model *m, uint64_t bytes)
{
    struct twin t;
    void *ptr;

    TRAINER_MALLOC(m->options->entrance, &ptr, bytes, m->streams[0]);
    twin_new(&t, ptr, bytes);
    return t;
}

TRAINER_FRAME static struct twin alloc_state(struct model *m, uint64_t bytes)
{
    struct twin t;
    void *ptr;

    TRAINER_MALLOC(m->options->entrance, &ptr, bytes, m->streams[0]);
    twin_new(&t, ptr, bytes);
    return t;
}

static void fill(struct model *m, struct twin *t, int number)
{
    trainer_ledger_alloc(m->ledger, t->bytes);
    twin_fill(t, m->options->seed + (uint32_t)(m->number * 2 * UNITS_MOST + number), m->streams[0]);
}

static void give(struct model *m, struct twin *t)
{
    TRAINER_FREE(m->options->entrance, t->device, m->streams[0]);
    trainer_ledger_free(m->ledger, t->bytes);
    twin_drop(t);
}

static void *zeroed(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);

    if (!p)
        trainer_fail(1, "no memory");
    return p;
}

/* Addresses of units, where the device finds them and no call names them; in memory of the host no call has seen them either. */
static void make_table(struct model *m)
{
    const struct options *o = m->options;
    size_t bytes = (size_t)o->table.count * sizeof(void *);
    void **addresses = zeroed((size_t)o->table.count, sizeof(void *));

    for (int i = 0; i < o->table.count; i++)
        addresses[i] = m->units[o->table.number[i]].device;
    if (o->has_host_table)
        CUDA_OK(cudaHostAlloc((void **)&m->table, bytes, cudaHostAllocDefault));
    else
        CUDA_OK(cudaMalloc((void **)&m->table, bytes));
    CUDA_OK(cudaMemcpy(m->table, addresses, bytes, cudaMemcpyDefault));
    free(addresses);
}

static void make(struct model *m)
{
    const struct options *o = m->options;

    CUDA_OK(cudaSetDevice((int)o->devices.number[m->number % o->devices.count]));
    for (int i = 0; i < o->streams; i++)
        CUDA_OK(cudaStreamCreateWithFlags(&m->streams[i], cudaStreamNonBlocking));
    CUDA_OK(cudaEventCreateWithFlags(&m->passed, cudaEventDisableTiming));
    m->sums = twin_sums_new(o->order.count + o->table.count);
    m->units = zeroed((size_t)o->units, sizeof(*m->units));
    m->states = zeroed((size_t)o->units, sizeof(*m->states));
    for (int i = 0; i < o->units; i++) {
        m->units[i] = alloc_unit(m, o->sizes.number[i]);
        fill(m, &m->units[i], i);
        if (!o->states)
            continue;
        m->states[i] = alloc_state(m, o->sizes.number[i]);
        fill(m, &m->states[i], UNITS_MOST + i);
    }
    m->activation = alloc_state(m, HEAD_BYTES);
    fill(m, &m->activation, UNITS_MOST - 1);
    if (o->table.count)
        make_table(m);
    CUDA_OK(cudaDeviceSynchronize());
}

static void drop(struct model *m)
{
    const struct options *o = m->options;

    give(m, &m->activation);
    for (int i = 0; i < o->units; i++) {
        give(m, &m->units[i]);
        if (o->states)
            give(m, &m->states[i]);
    }
    CUDA_OK(cudaFree(m->sums.device));
    if (m->table)
        CUDA_OK(o->has_host_table ? cudaFreeHost(m->table) : cudaFree(m->table));
    CUDA_OK(cudaEventDestroy(m->passed));
    for (int i = 0; i < o->streams; i++)
        CUDA_OK(cudaStreamDestroy(m->streams[i]));
    free(m->units);
    free(m->states);
    free(m->sums.host);
}

/* ---- a step: on the device, and the same on the host ---- */

static void queue_update(struct model *m, uint64_t i, cudaStream_t stream)
{
    const struct twin *unit = &m->units[i];
    const struct twin *by = m->options->states ? &m->states[i] : unit;

    trainer_mix(unit->device, m->activation.device, HEAD_BYTES, stream);
    if (by != unit)
        trainer_mix(by->device, unit->device, unit->bytes, stream);
    trainer_mix(unit->device, by->device, unit->bytes, stream);
}

static void host_update(struct model *m, uint64_t i)
{
    const struct twin *unit = &m->units[i];
    const struct twin *by = m->options->states ? &m->states[i] : unit;

    host_mix(unit->host, m->activation.host, HEAD_BYTES);
    if (by != unit)
        host_mix(by->host, unit->host, unit->bytes);
    host_mix(unit->host, by->host, unit->bytes);
}

/* The stream of the next piece of work, which comes after the piece before. */
static cudaStream_t next_stream(struct model *m, int *io_turn, int next)
{
    cudaStream_t before = m->streams[*io_turn];
    cudaStream_t stream = m->streams[next % m->options->streams];

    *io_turn = next % m->options->streams;
    if (stream == before)
        return stream;
    CUDA_OK(cudaEventRecord(m->passed, before));
    CUDA_OK(cudaStreamWaitEvent(stream, m->passed, 0));
    return stream;
}

static void queue_step(struct model *m)
{
    const struct options *o = m->options;
    uint64_t *slot = m->sums.device;
    int turn = 0;

    for (int at = 0; at < o->order.count; at++) {
        uint64_t i = o->order.number[at];
        cudaStream_t stream = next_stream(m, &turn, at);

        trainer_mix(m->activation.device, m->units[i].device, HEAD_BYTES, stream);
        trainer_sum(slot++, m->units[i].device, m->units[i].bytes, stream);
        if (o->update == UPDATE_LAST && o->is_last_use[at])
            queue_update(m, i, stream);
    }
    for (int i = 0; o->update == UPDATE_END && i < o->units; i++)
        queue_update(m, (uint64_t)i, next_stream(m, &turn, turn + 1));
    for (int i = 0; i < o->table.count; i++)
        trainer_sum_at(slot++, &m->table[i], m->units[o->table.number[i]].bytes,
                next_stream(m, &turn, turn + 1));
    (void)next_stream(m, &turn, 0);
}

static void host_step(struct model *m)
{
    const struct options *o = m->options;
    uint64_t *slot = m->sums.host;

    for (int at = 0; at < o->order.count; at++) {
        uint64_t i = o->order.number[at];

        host_mix(m->activation.host, m->units[i].host, HEAD_BYTES);
        host_sum(slot++, m->units[i].host, m->units[i].bytes);
        if (o->update == UPDATE_LAST && o->is_last_use[at])
            host_update(m, i);
    }
    for (int i = 0; o->update == UPDATE_END && i < o->units; i++)
        host_update(m, (uint64_t)i);
    for (int i = 0; i < o->table.count; i++) {
        const struct twin *unit = &m->units[o->table.number[i]];

        host_sum(slot++, unit->host, unit->bytes);
    }
}

static cudaGraphExec_t capture_step(struct model *m)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    CUDA_OK(cudaStreamBeginCapture(m->streams[0], cudaStreamCaptureModeThreadLocal));
    queue_step(m);
    CUDA_OK(cudaStreamEndCapture(m->streams[0], &graph));
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
    return exec;
}

/* ---- all steps ---- */

static uint64_t ns_between(cudaEvent_t begin, cudaEvent_t end)
{
    float ms;

    CUDA_OK(cudaEventElapsedTime(&ms, begin, end));
    return (uint64_t)((double)ms * 1e6);
}

static void note_reserved(struct model *m)
{
    size_t free_bytes, total;

    CUDA_OK(cudaMemGetInfo(&free_bytes, &total));
    if (m->reserved_most < total - free_bytes)
        m->reserved_most = total - free_bytes;
}

static void run_step(struct model *m, cudaGraphExec_t exec)
{
    (void)nvtxRangePushA("step");
    if (m->options->log)
        printf("START step\n");
    if (exec)
        CUDA_OK(cudaGraphLaunch(exec, m->streams[0]));
    else
        queue_step(m);
    if (m->options->log)
        printf("END step\n");
    (void)nvtxRangePop();
    host_step(m);
    note_reserved(m);
}

static void run_steps(struct model *m)
{
    cudaGraphExec_t exec = m->options->graph ? capture_step(m) : NULL;
    cudaEvent_t begin, last, end;

    CUDA_OK(cudaEventCreate(&begin));
    CUDA_OK(cudaEventCreate(&last));
    CUDA_OK(cudaEventCreate(&end));
    CUDA_OK(cudaEventRecord(begin, m->streams[0]));
    for (uint64_t step = 0; step < m->options->steps; step++) {
        CUDA_OK(cudaEventRecord(last, m->streams[0]));
        run_step(m, exec);
    }
    CUDA_OK(cudaEventRecord(end, m->streams[0]));
    CUDA_OK(cudaStreamSynchronize(m->streams[0]));
    m->device_ns = ns_between(begin, end);
    m->last_step_ns = ns_between(last, end);
    CUDA_OK(cudaEventDestroy(begin));
    CUDA_OK(cudaEventDestroy(last));
    CUDA_OK(cudaEventDestroy(end));
    if (exec)
        CUDA_OK(cudaGraphExecDestroy(exec));
}

/* ---- results ---- */

static int results_count(const struct options *o)
{
    return o->order.count + o->table.count + o->units * (o->states ? 2 : 1);
}

static void read_back(const struct twin *t, uint64_t *ret_got, uint64_t *ret_expected)
{
    void *copy = host_tensor_new(t->bytes);

    if (!copy)
        trainer_fail(1, "no memory");
    CUDA_OK(cudaMemcpy(copy, t->device, t->bytes, cudaMemcpyDeviceToHost));
    host_sum(ret_got, copy, t->bytes);
    host_sum(ret_expected, t->host, t->bytes);
    host_tensor_free(copy, t->bytes);
}

static void compare(struct model *m)
{
    const struct options *o = m->options;
    int count = results_count(o), at = m->sums.count;
    uint64_t *expected = zeroed((size_t)count, sizeof(*expected));

    m->results = zeroed((size_t)count, sizeof(*m->results));
    CUDA_OK(cudaMemcpy(
            m->results, m->sums.device, (size_t)at * sizeof(uint64_t), cudaMemcpyDeviceToHost));
    memcpy(expected, m->sums.host, (size_t)at * sizeof(uint64_t));
    for (int i = 0; i < o->units; i++, at++)
        read_back(&m->units[i], &m->results[at], &expected[at]);
    for (int i = 0; o->states && i < o->units; i++, at++)
        read_back(&m->states[i], &m->results[at], &expected[at]);
    m->is_right = trainer_compare(m->results, expected, count);
    free(expected);
}

static void *run_model(void *arg)
{
    struct model *m = arg;

    make(m);
    run_steps(m);
    compare(m);
    drop(m);
    return NULL;
}

static bool print_results(const struct options *o, const struct model *models)
{
    uint64_t checksums[MODELS_MOST];
    bool is_right = true;

    for (int i = 0; i < o->models; i++) {
        const struct model *m = &models[i];

        printf("model %d: reserved %" PRIu64 " time %" PRIu64 " ns last-step %" PRIu64 " ns\n", i,
                m->reserved_most, m->device_ns, m->last_step_ns);
        checksums[i] = trainer_checksum(m->results, results_count(o));
        is_right = is_right && m->is_right;
    }
    printf("checksum 0x%016" PRIx64 "\n", trainer_checksum(checksums, o->models));
    return is_right;
}

static int run(const struct options *o)
{
    struct trainer_ledger *ledger = trainer_ledger_open(NULL);
    struct model models[MODELS_MOST] = {0};
    bool is_right;

    trainer_load_kernels();
    for (int i = 0; i < o->models; i++) {
        models[i] = (struct model){.options = o, .number = i, .ledger = ledger};
        if (o->models > 1 && pthread_create(&models[i].thread, NULL, run_model, &models[i]) != 0)
            trainer_fail(1, "no thread");
    }
    if (o->models == 1) /* in the thread that a program begins with */
        (void)run_model(&models[0]);
    for (int i = 0; o->models > 1 && i < o->models; i++)
        (void)pthread_join(models[i].thread, NULL);
    trainer_ledger_print(ledger, "whole");
    is_right = print_results(o, models);
    for (int i = 0; i < o->models; i++)
        free(models[i].results);
    trainer_ledger_close(ledger);
    trainer_unload_kernels();
    return is_right ? 0 : 1;
}

/* ---- options ---- */

static const char usage[] =
        "usage: gemini [--units N] [--size SIZE | --sizes \"SIZE...\"] [--order \"UNIT...\"] "
        "[--steps N] [--update last|end|none] [--states] [--host-pointers[=\"UNIT...\"]] "
        "[--table device|host] [--graph] [--streams N] [--threads N] [--device \"DEVICE...\"] "
        "[--entrance sync|stream] [--seed N] [--log]";

static uint64_t number_up_to(const char *word, uint64_t least, uint64_t most)
{
    uint64_t n = trainer_number(word);

    if (n < least || n > most)
        trainer_fail(2, usage);
    return n;
}

/* Words with blanks or commas between them. */
static struct list list_of(const char *words, uint64_t (*number)(const char *word))
{
    struct list list = {zeroed(USES_MOST, sizeof(uint64_t)), 0};
    char *copy = strdup(words), *rest = NULL;

    for (char *w = copy ? strtok_r(copy, " ,", &rest) : NULL; w; w = strtok_r(NULL, " ,", &rest)) {
        if (list.count == USES_MOST)
            trainer_fail(2, "too many words in a list");
        list.number[list.count++] = number(w);
    }
    if (list.count == 0)
        trainer_fail(2, "a list is empty");
    free(copy);
    return list;
}

static void list_add(struct list *list, uint64_t number)
{
    if (!list->number)
        list->number = zeroed(USES_MOST, sizeof(uint64_t));
    list->number[list->count++] = number;
}

static enum update update_named(const char *word)
{
    static const char *const words[] = {
            [UPDATE_LAST] = "last",
            [UPDATE_END] = "end",
            [UPDATE_NONE] = "none",
    };

    for (int i = 0; i < 3; i++) {
        if (strcmp(word, words[i]) == 0)
            return (enum update)i;
    }
    trainer_fail(2, "--update takes last, end or none");
}

static bool table_named(const char *word)
{
    if (strcmp(word, "host") != 0 && strcmp(word, "device") != 0)
        trainer_fail(2, "--table takes device or host");
    return strcmp(word, "host") == 0;
}

static void option_take(struct options *o, int option, uint64_t *io_size)
{
    switch (option) {
    case 'u':
        o->units = (int)number_up_to(optarg, 1, UNITS_MOST);
        return;
    case 'b':
        *io_size = trainer_size(optarg);
        return;
    case 'B':
        o->sizes = list_of(optarg, trainer_size);
        return;
    case 'o':
        o->order = list_of(optarg, trainer_number);
        return;
    case 'n':
        o->steps = number_up_to(optarg, 1, UINT32_MAX);
        return;
    case 'U':
        o->update = update_named(optarg);
        return;
    case 'p':
        o->has_table = true;
        if (optarg)
            o->table = list_of(optarg, trainer_number);
        return;
    case 'T':
        o->has_host_table = table_named(optarg);
        return;
    case 's':
        o->streams = (int)number_up_to(optarg, 1, STREAMS_MOST);
        return;
    case 't':
        o->models = (int)number_up_to(optarg, 1, MODELS_MOST);
        return;
    case 'd':
        o->devices = list_of(optarg, trainer_number);
        return;
    case 'e':
        o->entrance = trainer_entrance_named(optarg);
        return;
    case 'S':
        o->seed = (uint32_t)number_up_to(optarg, 0, UINT32_MAX);
        return;
    default:
        trainer_fail(2, usage);
    }
}

static void check_units(const struct list *list, int units)
{
    for (int i = 0; i < list->count; i++) {
        if (list->number[i] >= (uint64_t)units)
            trainer_fail(2, "a list names a unit that is not there");
    }
}

/* The order is right. */
static void find_last_uses(struct options *o)
{
    bool *is_seen = zeroed((size_t)o->units, sizeof(*is_seen));

    o->is_last_use = zeroed((size_t)o->order.count, sizeof(*o->is_last_use));
    for (int at = o->order.count - 1; at >= 0; at--) {
        o->is_last_use[at] = !is_seen[o->order.number[at]];
        is_seen[o->order.number[at]] = true;
    }
    free(is_seen);
}

/* What was not said. */
static void complete(struct options *o, uint64_t size)
{
    if (o->sizes.count && o->units && o->sizes.count != o->units)
        trainer_fail(2, "--units is not the number of --sizes");
    if (o->sizes.count > UNITS_MOST)
        trainer_fail(2, "too many units");
    o->units = o->sizes.count ? o->sizes.count : o->units ? o->units : 12;
    while (o->sizes.count < o->units)
        list_add(&o->sizes, size);
    for (int i = 0; i < o->units; i++) {
        if (o->sizes.number[i] < 2 * HEAD_BYTES || o->sizes.number[i] % 4)
            trainer_fail(2, "a unit has at least 8 KiB, in words of 4 bytes");
    }
    if (!o->order.count) {
        for (int i = 0; i < 2 * o->units; i++)
            list_add(&o->order, (uint64_t)(i < o->units ? i : 2 * o->units - 1 - i));
    }
    for (int i = 0; o->has_table && !o->table.count && i < o->units; i++)
        list_add(&o->table, (uint64_t)i);
    if (!o->devices.count)
        list_add(&o->devices, 0);
    check_units(&o->order, o->units);
    check_units(&o->table, o->units);
    find_last_uses(o);
}

int main(int argc, char **argv)
{
    struct options o = {.steps = 3, .streams = 1, .models = 1, .seed = 1};
    int states = 0, graph = 0, log = 0;
    const struct option long_options[] = {
            {"units", required_argument, NULL, 'u'},
            {"size", required_argument, NULL, 'b'},
            {"sizes", required_argument, NULL, 'B'},
            {"order", required_argument, NULL, 'o'},
            {"steps", required_argument, NULL, 'n'},
            {"update", required_argument, NULL, 'U'},
            {"host-pointers", optional_argument, NULL, 'p'},
            {"table", required_argument, NULL, 'T'},
            {"streams", required_argument, NULL, 's'},
            {"threads", required_argument, NULL, 't'},
            {"device", required_argument, NULL, 'd'},
            {"entrance", required_argument, NULL, 'e'},
            {"seed", required_argument, NULL, 'S'},
            {"states", no_argument, &states, 1},
            {"graph", no_argument, &graph, 1},
            {"log", no_argument, &log, 1},
            {NULL, 0, NULL, 0},
    };
    uint64_t size = (uint64_t)16 << 20;
    int option, status;

    opterr = 0; /* one line says it */
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option != 0)
            option_take(&o, option, &size);
    }
    if (optind != argc)
        trainer_fail(2, usage);
    o.states = states;
    o.graph = graph;
    o.log = log;
    complete(&o, size);
    setvbuf(stdout, NULL, _IOLBF, 0);
    status = run(&o);
    free(o.sizes.number);
    free(o.order.number);
    free(o.is_last_use);
    free(o.table.number);
    free(o.devices.number);
    return status;
}
