/* SPDX-License-Identifier: MIT */
/*
 * nvcc_program.cu - what nvcc makes: kernels registered before main, <<<>>>, variables on the device. The kernels have
 * the names and parameters of kernels.ptx.h, so that a simulated device knows them, and do the same on whole tensors
 * of up to 8 KiB.
 */
#include <cstdint>
#include <cstdio>

extern "C" __global__ void kedge_fill(uint64_t dst, uint64_t bytes, uint32_t seed)
{
    for (uint64_t w = blockIdx.x * blockDim.x + threadIdx.x; w < bytes / 4;
            w += gridDim.x * blockDim.x) {
        uint32_t x = (uint32_t)w * 2654435761u + seed;
        x ^= x >> 16;
        x *= 0x7feb352du;
        x ^= x >> 15;
        x *= 0x846ca68bu;
        x ^= x >> 16;
        ((uint32_t *)dst)[w] = x;
    }
}

extern "C" __global__ void kedge_sum(uint64_t out, uint64_t src, uint64_t bytes)
{
    for (uint64_t w = blockIdx.x * blockDim.x + threadIdx.x; w < bytes / 4;
            w += gridDim.x * blockDim.x)
        atomicAdd((unsigned long long *)out, (unsigned long long)((uint32_t *)src)[w] * (w + 1));
}

static uint64_t expected(uint64_t bytes, uint32_t seed)
{
    uint64_t sum = 0;

    for (uint64_t w = 0; w < bytes / 4; w++) {
        uint32_t x = (uint32_t)w * 2654435761u + seed;
        x ^= x >> 16;
        x *= 0x7feb352du;
        x ^= x >> 15;
        x *= 0x846ca68bu;
        x ^= x >> 16;
        sum += (uint64_t)x * (w + 1);
    }
    return sum;
}

#define OK(call_)                                                                     \
    do {                                                                              \
        cudaError_t e_ = (call_);                                                     \
        if (e_ != cudaSuccess) {                                                      \
            printf("%s: %s\n", #call_, cudaGetErrorName(e_));                         \
            return 3;                                                                 \
        }                                                                             \
    } while (0)

int main()
{
    const uint64_t bytes = 8192;
    uint64_t got = 0;
    cudaStream_t stream;
    cudaDeviceProp prop;
    void *a;
    void *sum;

    OK(cudaGetDeviceProperties(&prop, 0));
    printf("%s, %zu bytes\n", prop.name, prop.totalGlobalMem);
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&a, bytes));
    OK(cudaMalloc(&sum, sizeof(got)));
    OK(cudaMemset(sum, 0, sizeof(got)));
    kedge_fill<<<4, 64>>>((uint64_t)a, bytes, 5);
    OK(cudaGetLastError());
    OK(cudaStreamSynchronize(0)); /* the thread's own stream where that is the default */
    kedge_sum<<<2, 128, 0, stream>>>((uint64_t)sum, (uint64_t)a, bytes);
    OK(cudaGetLastError());
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(&got, sum, sizeof(got), cudaMemcpyDeviceToHost));
    OK(cudaFree(a));
    OK(cudaFree(sum));
    OK(cudaStreamDestroy(stream));
    printf("%s\n", got == expected(bytes, 5) ? "right" : "wrong");
    return got == expected(bytes, 5) ? 0 : 1;
}
