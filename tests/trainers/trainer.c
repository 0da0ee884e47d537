/* SPDX-License-Identifier: MIT */
#include "tests/trainers/trainer.h"

#include "tests/trainers/kernels.ptx.h"
#include "tests/trainers/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    BLOCK = 256,
    BLOCKS_MOST = 64,
    LEDGER_FILE_BYTES = 4096,
};

static struct {
    cudaLibrary_t library;
    cudaKernel_t fill, mix, sum, sum_at, copy_strided;
} kernels;

void trainer_must(cudaError_t error, const char *file, int line, const char *call)
{
    if (error == cudaSuccess)
        return;
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s:%d: %s: %s (%d): %s\n", file, line, call, cudaGetErrorName(error),
            (int)error, cudaGetErrorString(error));
    exit(3);
}

_Noreturn void trainer_fail(int status, const char *why)
{
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s: %s\n", program_invocation_short_name, why);
    exit(status);
}

enum trainer_entrance trainer_entrance_named(const char *word)
{
    if (strcmp(word, "sync") == 0)
        return TRAINER_SYNC;
    if (strcmp(word, "stream") == 0)
        return TRAINER_STREAM;
    trainer_fail(2, "--entrance takes sync or stream");
}

uint64_t trainer_number(const char *word)
{
    char *end;
    unsigned long long n;

    errno = 0;
    n = strtoull(word, &end, 0);
    if (errno != 0 || end == word || *end != '\0' || *word == '-')
        trainer_fail(2, "an option takes a number");
    return n;
}

uint64_t trainer_size(const char *word)
{
    static const char units[] = "KMG";
    size_t length = strlen(word);
    const char *unit = length > 1 ? strchr(units, word[length - 1]) : NULL;
    char digits[24];
    uint64_t n;

    if (length >= sizeof(digits))
        trainer_fail(2, "an option takes a size: a number of bytes, or with K, M, G");
    memcpy(digits, word, length + 1);
    if (unit)
        digits[length - 1] = '\0';
    n = trainer_number(digits);
    if (n == 0 || n > (uint64_t)1 << (unit ? 30 : 60))
        trainer_fail(2, "an option takes a size: a number of bytes, or with K, M, G");
    return unit ? n << (10 * (unit - units + 1)) : n;
}

/* ---- kernels ---- */

void trainer_load_kernels(void)
{
    CUDA_OK(cudaLibraryLoadData(&kernels.library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CUDA_OK(cudaLibraryGetKernel(&kernels.fill, kernels.library, "kedge_fill"));
    CUDA_OK(cudaLibraryGetKernel(&kernels.mix, kernels.library, "kedge_mix"));
    CUDA_OK(cudaLibraryGetKernel(&kernels.sum, kernels.library, "kedge_sum"));
    CUDA_OK(cudaLibraryGetKernel(&kernels.sum_at, kernels.library, "kedge_sum_at"));
    CUDA_OK(cudaLibraryGetKernel(&kernels.copy_strided, kernels.library, "kedge_copy_strided"));
}

void trainer_unload_kernels(void)
{
    CUDA_OK(cudaLibraryUnload(kernels.library));
}

/* A kernel that touches nothing of what it is given is still launched. */
static dim3 grid_for(uint64_t bytes)
{
    uint64_t blocks = (sample_items(bytes) + BLOCK - 1) / BLOCK;

    if (blocks == 0)
        blocks = 1;
    return (dim3){blocks < BLOCKS_MOST ? (unsigned int)blocks : BLOCKS_MOST, 1, 1};
}

static void launch(cudaKernel_t kernel, uint64_t bytes, void **args, cudaStream_t stream)
{
    dim3 block = {BLOCK, 1, 1};

    CUDA_OK(cudaLaunchKernel((const void *)kernel, grid_for(bytes), block, args, 0, stream));
}

void trainer_fill(void *dst, uint64_t bytes, uint32_t seed, cudaStream_t stream)
{
    void *args[] = {&dst, &bytes, &seed};

    launch(kernels.fill, bytes, args, stream);
}

void trainer_fill_and_record(
        void *dst, uint64_t bytes, uint32_t seed, cudaStream_t stream, cudaEvent_t event)
{
    void *args[] = {&dst, &bytes, &seed};
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeLaunchCompletionEvent};
    cudaLaunchConfig_t config = {.gridDim = grid_for(bytes),
            .blockDim = {BLOCK, 1, 1},
            .stream = stream,
            .attrs = &attribute,
            .numAttrs = 1};

    attribute.val.launchCompletionEvent.event = event;
    CUDA_OK(cudaLaunchKernelExC(&config, (const void *)kernels.fill, args));
}

void trainer_mix(void *dst, const void *src, uint64_t bytes, cudaStream_t stream)
{
    void *args[] = {&dst, &src, &bytes};

    launch(kernels.mix, bytes, args, stream);
}

void trainer_sum(uint64_t *sum, const void *src, uint64_t bytes, cudaStream_t stream)
{
    void *args[] = {&sum, &src, &bytes};

    launch(kernels.sum, bytes, args, stream);
}

void trainer_sum_at(uint64_t *sum, void *const *at, uint64_t bytes, cudaStream_t stream)
{
    void *args[] = {&sum, &at, &bytes};

    launch(kernels.sum_at, bytes, args, stream);
}

void trainer_copy_strided(void *dst, const void *src, uint64_t rows, uint64_t row_bytes,
        uint64_t src_stride, cudaStream_t stream)
{
    void *args[] = {&dst, &src, &rows, &row_bytes, &src_stride};

    launch(kernels.copy_strided, rows * row_bytes, args, stream);
}

/* ---- results ---- */

bool trainer_compare(const uint64_t *sums, const uint64_t *expected, int count)
{
    int wrong = 0;

    for (int i = 0; i < count; i++) {
        if (sums[i] == expected[i])
            continue;
        if (wrong++ < 8)
            printf("wrong sum %d: 0x%016" PRIx64 " instead of 0x%016" PRIx64 "\n", i, sums[i],
                    expected[i]);
    }
    if (wrong > 8)
        printf("... and %d more\n", wrong - 8);
    return wrong == 0;
}

uint64_t trainer_checksum(const uint64_t *sums, int count)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (int i = 0; i < count; i++) {
        h = (h ^ sums[i]) * UINT64_C(0x100000001b3);
        h ^= h >> 29;
    }
    return h;
}

/* ---- ledger ---- */

static int ledger_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || ftruncate(fd, LEDGER_FILE_BYTES) != 0)
        trainer_fail(1, "cannot write the ledger file");
    return fd;
}

struct trainer_ledger *trainer_ledger_open(const char *path)
{
    int fd = path ? ledger_file(path) : -1;
    void *p = mmap(NULL, LEDGER_FILE_BYTES, PROT_READ | PROT_WRITE,
            path ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);

    if (fd >= 0)
        (void)close(fd);
    if (p == MAP_FAILED)
        trainer_fail(1, "cannot map the ledger");
    return p;
}

void trainer_ledger_close(struct trainer_ledger *ledger)
{
    (void)munmap(ledger, LEDGER_FILE_BYTES);
}

void trainer_ledger_alloc(struct trainer_ledger *ledger, uint64_t bytes)
{
    uint64_t live = __atomic_add_fetch(&ledger->live_bytes, bytes, __ATOMIC_RELAXED);
    uint64_t peak = __atomic_load_n(&ledger->peak_bytes, __ATOMIC_RELAXED);

    while (live > peak
            && !__atomic_compare_exchange_n(
                    &ledger->peak_bytes, &peak, live, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    (void)__atomic_add_fetch(&ledger->allocated_bytes, bytes, __ATOMIC_RELAXED);
    (void)__atomic_add_fetch(&ledger->allocs, 1, __ATOMIC_RELAXED);
}

void trainer_ledger_free(struct trainer_ledger *ledger, uint64_t bytes)
{
    (void)__atomic_sub_fetch(&ledger->live_bytes, bytes, __ATOMIC_RELAXED);
    (void)__atomic_add_fetch(&ledger->freed_bytes, bytes, __ATOMIC_RELAXED);
    (void)__atomic_add_fetch(&ledger->frees, 1, __ATOMIC_RELAXED);
}

void trainer_ledger_print(const struct trainer_ledger *ledger, const char *name)
{
    printf("ledger %s allocs %" PRIu64 " frees %" PRIu64 " allocated %" PRIu64 " freed %" PRIu64
           " live %" PRIu64 " peak %" PRIu64 "\n",
            name, ledger->allocs, ledger->frees, ledger->allocated_bytes, ledger->freed_bytes,
            ledger->live_bytes, ledger->peak_bytes);
}
