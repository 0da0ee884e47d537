/* SPDX-License-Identifier: MIT */
/*
 * pipeline.h - the parts of the trainer `pipeline` (pipeline.c says what it is).
 *
 *     pipeline.c         options; one rank from its start to its row of the table
 *     pipeline_ranks.c   which rank this is, what the ranks tell each other before there is NCCL, ranks forked and awaited
 *     pipeline_stage.c   the acts of the schedule, on a device
 *
 * One thread in each process. What fails prints why and ends the process, as in trainer.h.
 */
#ifndef KEDGE_TRAINERS_PIPELINE_H
#define KEDGE_TRAINERS_PIPELINE_H

#include "tests/trainers/pipeline_model.h"
#include "tests/trainers/schedule.h"
#include "tests/trainers/trainer.h"

#include <nccl.h>

enum {
    PIPELINE_STAGES_MOST = 64,
};

#define PIPELINE_MIB ((uint64_t)1 << 20)

struct pipeline_options {
    struct pipeline_shape shape; /* its stages: 0 until the ranks are known */
    struct schedule_form form;
    enum trainer_entrance entrance;
    uint64_t base_bytes; /* 0: the card's in #34230 */
    int delay_stage;     /* -1: none */
    unsigned delay_ms;
};

/* ---- ranks ---- */

/* What a launcher says in the environment (Open MPI, MPICH, Slurm, torchrun); false: nothing. */
bool pipeline_ranks_known(int *ret_rank, int *ret_ranks);

/*
 * Starts this program `ranks` times more, each with its rank in the environment, and waits for all. When one does not end well
 * the others are stopped, and one line says which. Returns the exit status for all.
 */
int pipeline_ranks_fork(char **argv, int ranks);

/* Rank 0 hands `bytes` of `ids` to all others, through a file; it is gone after pipeline_ranks_told. */
void pipeline_ranks_tell(int rank, void *ids, size_t bytes);
void pipeline_ranks_told(int rank);

/* ---- a stage ---- */

#define PIPELINE_NCCL_OK(call_) pipeline_must((call_), __FILE__, __LINE__, #call_)

/* As CUDA_OK. */
void pipeline_must(ncclResult_t result, const char *file, int line, const char *call);

/* To the stage before and the next one, for outputs (down) and gradients (up); NULL where there is none. */
struct pipeline_links {
    ncclComm_t down_in, down_out;
    ncclComm_t up_in, up_out;
};

/* In a communicator of two neighbours. */
enum {
    PIPELINE_LOWER = 0,
    PIPELINE_UPPER = 1,
};

/* What a stage says of itself; the table has one line of each. */
struct pipeline_row {
    uint64_t live_peak, reserved_peak; /* bytes */
    uint64_t checksum;
    uint64_t gradients_most; /* sent gradients that were alive at one time */
    uint64_t is_right;       /* all sums are as they must be */
};

/* Runs all steps of `stage`. */
struct pipeline_row pipeline_stage_run(
        const struct pipeline_options *options, int stage, const struct pipeline_links *links);

#endif
