/* SPDX-License-Identifier: MIT */
#include "tests/trainers/twin.h"

#include "tests/trainers/kernels_host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void twin_new(struct twin *ret_twin, void *device, uint64_t bytes)
{
    *ret_twin = (struct twin){device, host_tensor_new(bytes), bytes};
    if (!ret_twin->host)
        trainer_fail(1, "no memory");
}

void twin_drop(struct twin *twin)
{
    host_tensor_free(twin->host, twin->bytes);
    twin->host = NULL;
}

void twin_fill(struct twin *t, uint32_t seed, cudaStream_t stream)
{
    trainer_fill(t->device, t->bytes, seed, stream);
    host_fill(t->host, t->bytes, seed);
}

void twin_mix(struct twin *dst, const struct twin *src, cudaStream_t stream)
{
    uint64_t bytes = dst->bytes;

    if (src->bytes != dst->bytes) {
        bytes = src->bytes < bytes ? src->bytes : bytes;
        bytes = bytes < 4096 ? bytes : 4096;
    }
    trainer_mix(dst->device, src->device, bytes, stream);
    host_mix(dst->host, src->host, bytes);
}

void twin_sum(const struct twin_sums *sums, int slot, const struct twin *t, cudaStream_t stream)
{
    uint64_t sum = 0;

    trainer_sum(&sums->device[slot], t->device, t->bytes, stream);
    host_sum(&sum, t->host, t->bytes);
    (void)__atomic_add_fetch(&sums->host[slot], sum, __ATOMIC_RELAXED);
}

struct twin_sums twin_sums_new(int count)
{
    struct twin_sums sums = {.count = count};
    size_t bytes = (size_t)count * sizeof(uint64_t);

    CUDA_OK(cudaMalloc((void **)&sums.device, bytes));
    CUDA_OK(cudaMemset(sums.device, 0, bytes));
    CUDA_OK(cudaDeviceSynchronize());
    sums.host = calloc((size_t)count, sizeof(uint64_t));
    if (!sums.host)
        trainer_fail(1, "no memory");
    return sums;
}

int twin_sums_finish(struct twin_sums *sums)
{
    size_t bytes = (size_t)sums->count * sizeof(uint64_t);
    uint64_t *got = malloc(bytes);
    bool right;

    if (!got)
        trainer_fail(1, "no memory");
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemcpy(got, sums->device, bytes, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaFree(sums->device));
    right = trainer_compare(got, sums->host, sums->count);
    printf("checksum 0x%016" PRIx64 "\n", trainer_checksum(got, sums->count));
    free(got);
    free(sums->host);
    return right ? 0 : 1;
}
