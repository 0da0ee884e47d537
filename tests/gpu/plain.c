/* SPDX-License-Identifier: MIT */
/*
 * plain.c - a CUDA program like any other: allocates, launches, copies, frees, through both allocation APIs and on three streams.
 *
 *     plain [ROUNDS]
 *
 * Each tensor is filled on its stream when it is born and summed before it is freed, so its checksum changes if a block
 * has two tenants. Built twice, with the shared and with the static runtime: the static one is what most CUDA libraries
 * carry, and no symbol of it can be preloaded.
 */
#include "tests/trainers/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SLOTS = 96,
    STREAMS = 3,
    ROUNDS = 3000
};

struct tensor {
    void *ptr;
    uint64_t bytes;
    int stream;
    enum trainer_entrance entrance;
};

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Small ones mostly, as programs have them, up to 64 MiB. */
static uint64_t random_bytes(uint64_t *state)
{
    uint64_t shift = 8 + next_random(state) % 19;

    return ((UINT64_C(1) << shift) + next_random(state) % (UINT64_C(1) << shift)) / 4 * 4;
}

static void give_birth(struct tensor *t, uint64_t *state, cudaStream_t *streams)
{
    t->bytes = random_bytes(state);
    t->stream = (int)(next_random(state) % STREAMS);
    t->entrance = next_random(state) % 2 ? TRAINER_STREAM : TRAINER_SYNC;
    TRAINER_MALLOC(t->entrance, &t->ptr, t->bytes, streams[t->stream]);
    trainer_fill(t->ptr, t->bytes, (uint32_t)next_random(state), streams[t->stream]);
}

static void bury(struct tensor *t, uint64_t *sum, cudaStream_t *streams)
{
    trainer_sum(sum, t->ptr, t->bytes, streams[t->stream]);
    TRAINER_FREE(t->entrance, t->ptr, streams[t->stream]);
    t->ptr = NULL;
}

/* A free must be a barrier where the program uses it as one: the host reads what a copy wrote before cudaFree. */
static bool free_is_a_barrier(cudaStream_t stream)
{
    enum {
        WORDS = 1 << 22
    };
    uint32_t *host;
    void *device;
    bool same;

    CUDA_OK(cudaMallocHost((void **)&host, WORDS * sizeof(*host)));
    CUDA_OK(cudaMalloc(&device, WORDS * sizeof(*host)));
    host[0] = host[WORDS - 1] = 0;
    CUDA_OK(cudaMemsetAsync(device, 0x5a, WORDS * sizeof(*host), stream));
    CUDA_OK(cudaMemcpyAsync(host, device, WORDS * sizeof(*host), cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaFree(device));
    same = host[0] == 0x5a5a5a5aU && host[WORDS - 1] == 0x5a5a5a5aU;
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaFreeHost(host));
    return same;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? (int)trainer_number(argv[1]) : ROUNDS;
    struct tensor tensors[SLOTS] = {{0}};
    cudaStream_t streams[STREAMS];
    uint64_t state = 42;
    uint64_t sums[SLOTS];
    uint64_t *device_sums;
    bool barrier;

    trainer_load_kernels();
    for (int i = 0; i < STREAMS; i++)
        CUDA_OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    CUDA_OK(cudaMalloc((void **)&device_sums, sizeof(sums)));
    CUDA_OK(cudaMemset(device_sums, 0, sizeof(sums)));
    CUDA_OK(cudaDeviceSynchronize());
    for (int i = 0; i < rounds; i++) {
        uint64_t slot = next_random(&state) % SLOTS;

        if (tensors[slot].ptr)
            bury(&tensors[slot], &device_sums[slot], streams);
        give_birth(&tensors[slot], &state, streams);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (tensors[i].ptr)
            bury(&tensors[i], &device_sums[i], streams);
    }
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemcpy(sums, device_sums, sizeof(sums), cudaMemcpyDeviceToHost));
    barrier = free_is_a_barrier(streams[0]);
    CUDA_OK(cudaFree(device_sums));
    for (int i = 0; i < STREAMS; i++)
        CUDA_OK(cudaStreamDestroy(streams[i]));
    trainer_unload_kernels();
    printf("free is %sa barrier\n", barrier ? "" : "not ");
    printf("checksum 0x%016" PRIx64 "\n", trainer_checksum(sums, SLOTS));
    return barrier ? 0 : 1;
}
