/* SPDX-License-Identifier: MIT */
/*
 * trainer.h - what the trainers share: errors, kernels, the two ways to allocate, a ledger.
 *
 * The trainers are programs as users write them against the public CUDA runtime. They know nothing of what may be
 * preloaded. Exit status: 0 done and right, 1 a result or a file is wrong, 2 wrong use, 3 a CUDA call failed.
 *
 * Allocating is a macro, not a function: the line that asks for memory stays the innermost frame of the program.
 */
#ifndef KEDGE_TRAINERS_TRAINER_H
#define KEDGE_TRAINERS_TRAINER_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* A function that a stack must show as itself, in an optimized build too. */
#if defined(__clang__)
#    define TRAINER_FRAME __attribute__((noinline))
#else
#    define TRAINER_FRAME __attribute__((noipa))
#endif

/* Prints the call, its place and the error, and ends the program with status 3. */
#define CUDA_OK(call_) trainer_must((call_), __FILE__, __LINE__, #call_)

void trainer_must(cudaError_t error, const char *file, int line, const char *call);

/* Prints "<program>: <why>" and ends the program. */
_Noreturn void trainer_fail(int status, const char *why);

/* ---- the two allocation APIs ---- */

enum trainer_entrance {
    TRAINER_SYNC,   /* cudaMalloc, cudaFree */
    TRAINER_STREAM, /* cudaMallocAsync, cudaFreeAsync */
};

/* Of "sync" or "stream"; ends the program with status 2 for another word. */
enum trainer_entrance trainer_entrance_named(const char *word);

#define TRAINER_MALLOC(entrance_, ret_ptr_, bytes_, stream_)                           \
    CUDA_OK((entrance_) == TRAINER_STREAM ? cudaMallocAsync(ret_ptr_, bytes_, stream_) \
                                          : cudaMalloc(ret_ptr_, bytes_))
#define TRAINER_FREE(entrance_, ptr_, stream_) \
    CUDA_OK((entrance_) == TRAINER_STREAM ? cudaFreeAsync(ptr_, stream_) : cudaFree(ptr_))

/* A whole number after an option; ends the program with status 2 for anything else. */
uint64_t trainer_number(const char *word);

/* The same for a number of bytes, above 0, which may end in K, M or G. */
uint64_t trainer_size(const char *word);

/* ---- kernels (kernels.ptx.h) ---- */

/* Loads them into the current device; once, before any thread launches one. */
void trainer_load_kernels(void);
void trainer_unload_kernels(void);

void trainer_fill(void *dst, uint64_t bytes, uint32_t seed, cudaStream_t stream);
/* The launch records an event, which stands for the kernel's beginning and not for its end. */
void trainer_fill_and_record(
        void *dst, uint64_t bytes, uint32_t seed, cudaStream_t stream, cudaEvent_t event);
void trainer_mix(void *dst, const void *src, uint64_t bytes, cudaStream_t stream);
void trainer_sum(uint64_t *sum, const void *src, uint64_t bytes, cudaStream_t stream);

/* As trainer_sum of the address that stands at `at`, in device memory, when it is launched. */
void trainer_sum_at(uint64_t *sum, void *const *at, uint64_t bytes, cudaStream_t stream);
void trainer_copy_strided(void *dst, const void *src, uint64_t rows, uint64_t row_bytes,
        uint64_t src_stride, cudaStream_t stream);

/* ---- results ---- */

/*
 * The sums that a device gave against those that the program computed on the host (kernels_host.h). Prints the first
 * differences; true if there are none.
 */
bool trainer_compare(const uint64_t *sums, const uint64_t *expected, int count);

/* One number for all of them. */
uint64_t trainer_checksum(const uint64_t *sums, int count);

/* ---- a program's own books ---- */

struct trainer_ledger {
    uint64_t allocs, frees;
    uint64_t allocated_bytes, freed_bytes;
    uint64_t live_bytes, peak_bytes;
};

/* With a path: in a file of 4096 bytes that begins with the struct and is there after a kill -9. NULL: in memory. */
struct trainer_ledger *trainer_ledger_open(const char *path);
void trainer_ledger_close(struct trainer_ledger *ledger);

/* After an allocation has succeeded, after a free has returned. Any thread. */
void trainer_ledger_alloc(struct trainer_ledger *ledger, uint64_t bytes);
void trainer_ledger_free(struct trainer_ledger *ledger, uint64_t bytes);

/* "ledger <name> allocs … frees … allocated … freed … live … peak …" */
void trainer_ledger_print(const struct trainer_ledger *ledger, const char *name);

#endif
