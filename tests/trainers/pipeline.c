/* SPDX-License-Identifier: MIT */
/*
 * pipeline.c - a model cut into stages, one process and one device each: Paddle #34230.
 *
 * Each stage runs the schedule of schedule.h on the model of pipeline_model.h. Outputs and gradients go to the neighbours by
 * ncclSend and ncclRecv. In the program as it was, each gradient that was sent lives until after the update; --mend is what
 * ended that. Started by a launcher, which says each process its rank, or once with --stages, and then it starts its ranks
 * itself.
 *
 * Every stage compares all that it received, sent and kept with what the model says, and prints its peak and checksum; rank 0
 * prints the table over all of them.
 */
#include "tests/trainers/pipeline.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MICRO_BATCH_SAMPLES = 4, /* of the seed: its gbs is this times the micro-batches */
};

/* ---- neighbours ---- */

/* Two communicators between each pair of neighbours, so that neither direction waits for the other. */
static void connect_ranks(int rank, int ranks, struct pipeline_links *ret_links)
{
    size_t bytes = (size_t)(ranks - 1) * 2 * sizeof(ncclUniqueId);
    ncclUniqueId *ids = calloc(1, bytes);

    if (!ids)
        trainer_fail(1, "no memory");
    for (int i = 0; rank == 0 && i < (ranks - 1) * 2; i++)
        PIPELINE_NCCL_OK(ncclGetUniqueId(&ids[i]));
    pipeline_ranks_tell(rank, ids, bytes);
    *ret_links = (struct pipeline_links){0};
    if (rank > 0) {
        const ncclUniqueId *before = &ids[(rank - 1) * 2];

        PIPELINE_NCCL_OK(ncclCommInitRank(&ret_links->down_in, 2, before[0], PIPELINE_UPPER));
        PIPELINE_NCCL_OK(ncclCommInitRank(&ret_links->up_out, 2, before[1], PIPELINE_UPPER));
    }
    if (rank < ranks - 1) {
        const ncclUniqueId *next = &ids[rank * 2];

        PIPELINE_NCCL_OK(ncclCommInitRank(&ret_links->down_out, 2, next[0], PIPELINE_LOWER));
        PIPELINE_NCCL_OK(ncclCommInitRank(&ret_links->up_in, 2, next[1], PIPELINE_LOWER));
    }
    free(ids);
}

static void disconnect(const struct pipeline_links *links)
{
    const ncclComm_t all[] = {links->down_in, links->up_out, links->down_out, links->up_in};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i])
            PIPELINE_NCCL_OK(ncclCommDestroy(all[i]));
}

/*
 * The rows of this stage and all behind it go to the stage before, so rank 0 ends up with all. Nobody's row comes before all
 * ranks behind it are there.
 */
static void collect(
        int rank, int ranks, const struct pipeline_links *links, struct pipeline_row *rows)
{
    size_t size = sizeof(*rows), behind = (size_t)(ranks - 1 - rank) * size;
    char *device;

    CUDA_OK(cudaMalloc((void **)&device, behind + size));
    CUDA_OK(cudaMemcpy(device, &rows[rank], size, cudaMemcpyHostToDevice));
    if (behind)
        PIPELINE_NCCL_OK(
                ncclRecv(device + size, behind, ncclUint8, PIPELINE_UPPER, links->up_in, NULL));
    if (rank > 0)
        PIPELINE_NCCL_OK(
                ncclSend(device, behind + size, ncclUint8, PIPELINE_LOWER, links->up_out, NULL));
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemcpy(&rows[rank], device, behind + size, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaFree(device));
}

/* ---- a rank ---- */

static double mib(uint64_t bytes)
{
    return (double)bytes / (double)PIPELINE_MIB;
}

static void print_table(const struct pipeline_shape *shape, const struct pipeline_row *rows)
{
    uint64_t checksums[PIPELINE_STAGES_MOST];

    printf("gbs,micro_batches,card,live_mb,reserved_mb,live_gradients,checksum\n");
    for (int i = 0; i < shape->stages; i++) {
        checksums[i] = rows[i].checksum;
        printf("%d,%d,%d,%.3f,%.3f,%" PRIu64 ",0x%016" PRIx64 "\n",
                shape->micro_batches * MICRO_BATCH_SAMPLES, shape->micro_batches, i,
                mib(rows[i].live_peak), mib(rows[i].reserved_peak), rows[i].gradients_most,
                rows[i].checksum);
    }
    printf("checksum 0x%016" PRIx64 "\n", trainer_checksum(checksums, shape->stages));
}

static int run_rank(const struct pipeline_options *options, int rank)
{
    const struct pipeline_shape *shape = &options->shape;
    struct pipeline_row rows[PIPELINE_STAGES_MOST] = {0};
    struct pipeline_links links;
    bool is_right;
    int devices;

    CUDA_OK(cudaGetDeviceCount(&devices));
    CUDA_OK(cudaSetDevice(rank % devices));
    trainer_load_kernels();
    connect_ranks(rank, shape->stages, &links);
    collect(rank, shape->stages, &links, rows);
    pipeline_ranks_told(rank); /* rank 0 has heard of all */
    rows[rank] = pipeline_stage_run(options, rank, &links);
    is_right = rows[rank].is_right;
    printf("stage %d: peak live %.3f MiB, peak reserved %.3f MiB, live gradients %" PRIu64
           ", checksum 0x%016" PRIx64 "\n",
            rank, mib(rows[rank].live_peak), mib(rows[rank].reserved_peak),
            rows[rank].gradients_most, rows[rank].checksum);
    (void)fflush(stdout);
    collect(rank, shape->stages, &links, rows);
    if (rank == 0)
        print_table(shape, rows);
    disconnect(&links);
    trainer_unload_kernels();
    return is_right ? 0 : 1;
}

/* ---- options ---- */

static const char usage[] =
        "usage: pipeline --stages N | mpirun -np N pipeline    with any of\n"
        "           [--micro-batches M] [--steps N] [--send-bytes SIZE] [--base-bytes SIZE]\n"
        "           [--mend] [--recompute] [--early-free] [--delay STAGE:MS] [--entrance "
        "sync|stream]\n"
        "       SIZE: a number of bytes, or with K, M, G; M: at least N\n";

static _Noreturn void wrong_use(void)
{
    (void)fputs(usage, stderr);
    exit(2);
}

static uint64_t number(const char *word, uint64_t least, uint64_t most)
{
    uint64_t n = trainer_number(word);

    if (n < least || n > most)
        wrong_use();
    return n;
}

static void delay_take(struct pipeline_options *o, char *word)
{
    char *colon = strchr(word, ':');

    if (!colon)
        wrong_use();
    *colon = '\0';
    o->delay_stage = (int)number(word, 0, PIPELINE_STAGES_MOST - 1);
    o->delay_ms = (unsigned)number(colon + 1, 1, 60000);
    *colon = ':'; /* the word is handed on to ranks */
}

static void size_take(struct pipeline_options *o, int option)
{
    uint64_t bytes = trainer_size(optarg);

    if (bytes % 4)
        wrong_use();
    if (option == 'b')
        o->base_bytes = bytes;
    else
        o->shape.bytes = bytes;
}

static void option_take(struct pipeline_options *o, int option)
{
    switch (option) {
    case 'p':
        o->shape.stages = (int)number(optarg, 2, PIPELINE_STAGES_MOST);
        return;
    case 'm':
        o->shape.micro_batches = (int)number(optarg, 1, 1 << 20);
        return;
    case 'n':
        o->shape.steps = (int)number(optarg, 1, 1 << 20);
        return;
    case 's':
    case 'b':
        size_take(o, option);
        return;
    case 'g':
        o->form.mended = true;
        return;
    case 'r':
        o->shape.recompute = true;
        return;
    case 'f':
        o->form.early_output = true;
        return;
    case 'd':
        delay_take(o, optarg);
        return;
    case 'e':
        o->entrance = trainer_entrance_named(optarg);
        return;
    default:
        wrong_use();
    }
}

static void options_take(struct pipeline_options *o, int argc, char **argv)
{
    static const struct option long_options[] = {
            {"stages", required_argument, NULL, 'p'},
            {"micro-batches", required_argument, NULL, 'm'},
            {"steps", required_argument, NULL, 'n'},
            {"send-bytes", required_argument, NULL, 's'},
            {"base-bytes", required_argument, NULL, 'b'},
            {"mend", no_argument, NULL, 'g'},
            {"recompute", no_argument, NULL, 'r'},
            {"early-free", no_argument, NULL, 'f'},
            {"delay", required_argument, NULL, 'd'},
            {"entrance", required_argument, NULL, 'e'},
            {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        option_take(o, option);
    if (optind != argc)
        wrong_use();
    /* schedule.h: a free that waits for a send that waits for what comes after it */
    if (o->form.early_output && o->entrance == TRAINER_SYNC)
        trainer_fail(2, "--early-free with --entrance sync would wait for ever");
    if (o->base_bytes && o->base_bytes < 2 * o->shape.bytes)
        trainer_fail(
                2, "--base-bytes holds weights and their gradients: at least twice --send-bytes");
}

int main(int argc, char **argv)
{
    struct pipeline_options options = {
            .shape = {.micro_batches = 8, .steps = 1, .bytes = 16 * PIPELINE_MIB},
            .entrance = TRAINER_STREAM,
            .delay_stage = -1,
    };
    int rank, ranks;
    bool is_rank = pipeline_ranks_known(&rank, &ranks);

    options_take(&options, argc, argv);
    if (is_rank && options.shape.stages && options.shape.stages != ranks)
        trainer_fail(2, "--stages is not the number of ranks");
    if (is_rank)
        options.shape.stages = ranks;
    if (options.shape.stages < 2 || options.shape.micro_batches < options.shape.stages)
        wrong_use();
    return is_rank ? run_rank(&options, rank) : pipeline_ranks_fork(argv, options.shape.stages);
}
