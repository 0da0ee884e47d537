/* SPDX-License-Identifier: MIT */
/*
 * twin.h - a tensor on the device and its twin on the host.
 *
 * Each operation is launched on the device and done at once on the twin. In a program whose streams are ordered as they
 * should be, both end up equal, however late the device runs; a block that is handed out too early makes them differ.
 *
 *     TRAINER_MALLOC(…, &ptr, …)    twin_new(&t, ptr, bytes)    twin_fill … twin_mix … twin_sum    TRAINER_FREE   twin_drop(&t)
 *
 * The program allocates and frees the device's side itself. Sums are the only thing compared: a row of slots on the
 * device, a row on the host. Several threads may sum into slots of their own or, on both sides atomically, into one.
 */
#ifndef KEDGE_TRAINERS_TWIN_H
#define KEDGE_TRAINERS_TWIN_H

#include "tests/trainers/trainer.h"

struct twin {
    void *device;
    void *host;
    uint64_t bytes;
};

struct twin_sums {
    uint64_t *device;
    uint64_t *host;
    int count;
};

/* The host's side of a new tensor. Ends the program with status 1 when there is no memory. */
void twin_new(struct twin *ret_twin, void *device, uint64_t bytes);
void twin_drop(struct twin *twin);

void twin_fill(struct twin *t, uint32_t seed, cudaStream_t stream);

/* Reads all of an equal tensor, and of another the beginning, which is in the sample of both. */
void twin_mix(struct twin *dst, const struct twin *src, cudaStream_t stream);
void twin_sum(const struct twin_sums *sums, int slot, const struct twin *t, cudaStream_t stream);

/* Slots, zeroed and ready for any stream. */
struct twin_sums twin_sums_new(int count);

/*
 * After everything: waits for the device, compares, prints the checksum, gives the slots back. Returns the program's
 * exit status.
 */
int twin_sums_finish(struct twin_sums *sums);

#endif
