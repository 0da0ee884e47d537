/* SPDX-License-Identifier: MIT */
/*
 * Two processes, one block (R23, R25): what the importer finds behind a handle is what the exporter exported. A handle that
 * would show another tenant is refused; the importer is a program without anything of ours in its protocol.
 */
#include "tests/gpu/gpu_device.h"

#include <sys/wait.h>
#include <unistd.h>

enum {
    SIZES = 3,
};

/* One that shares its segment, one that is large, one in between. */
static const size_t sizes[SIZES] = {1024, 4 << 20, 300000};

struct offer {
    CUipcMemHandle handle[SIZES];
    CUresult result[SIZES];
};

static int to_importer[2], from_importer[2];

static unsigned char mark_of(int i)
{
    return (unsigned char)(0x41 + i);
}

static void importer(void)
{
    struct offer offer;
    char done = 1;

    gpu_init();
    CHECK_EQ(read(to_importer[0], &offer, sizeof offer), sizeof offer);
    for (int i = 0; i < SIZES; i++) {
        CUdeviceptr ptr = 0;
        unsigned char first = 0;
        unsigned char last = 0;

        if (offer.result[i] != CUDA_SUCCESS)
            continue;
        CHECK_EQ(gpu->cuIpcOpenMemHandle_v2(
                         &ptr, offer.handle[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                CUDA_SUCCESS);
        GPU_OK(cuMemcpyDtoH_v2(&first, ptr, 1));
        GPU_OK(cuMemcpyDtoH_v2(&last, ptr + sizes[i] - 1, 1));
        CHECK_EQ(first, mark_of(i));
        CHECK_EQ(last, mark_of(i));
        GPU_OK(cuMemsetD8_v2(ptr, 0x77, sizes[i]));
        GPU_OK(cuCtxSynchronize());
        GPU_OK(cuIpcCloseMemHandle(ptr));
    }
    CHECK_EQ(write(from_importer[1], &done, 1), 1);
}

static void exporter(void)
{
    struct offer offer = {0};
    CUdeviceptr ptr[SIZES], neighbour[SIZES];
    CUipcMemHandle interior;
    CUresult r;
    char done = 0;

    gpu_init();
    for (int i = 0; i < SIZES; i++) {
        REQUIRE_EQ(gpu->cuMemAlloc_v2(&ptr[i], sizes[i]), CUDA_SUCCESS);
        REQUIRE_EQ(gpu->cuMemAlloc_v2(&neighbour[i], sizes[i]), CUDA_SUCCESS);
        GPU_OK(cuMemsetD8_v2(neighbour[i], 0x55, sizes[i]));
        GPU_OK(cuMemsetD8_v2(ptr[i], mark_of(i), sizes[i]));
    }
    GPU_OK(cuCtxSynchronize());
    for (int i = 0; i < SIZES; i++) {
        char name[32];

        offer.result[i] = gpu->cuIpcGetMemHandle(&offer.handle[i], ptr[i]);
        (void)snprintf(name, sizeof name, "ipc.%zu", sizes[i]);
        gpu_fact(name, "%d", (int)offer.result[i]);
        if (!gpu->under_kedge)
            CHECK_EQ(offer.result[i], CUDA_SUCCESS);
        else
            CHECK(offer.result[i] == CUDA_SUCCESS || offer.result[i] == CUDA_ERROR_NOT_SUPPORTED);
    }
    /* Behind an interior pointer's handle a driver shows the base, which under kedge is refused. */
    r = gpu->cuIpcGetMemHandle(&interior, ptr[1] + (1 << 20));
    gpu_fact("ipc.interior", "%d", (int)r);
    if (gpu->under_kedge)
        CHECK_EQ(r, CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(write(to_importer[1], &offer, sizeof offer), sizeof offer);
    CHECK_EQ(read(from_importer[0], &done, 1), 1);
    for (int i = 0; i < SIZES; i++) {
        unsigned char byte = 0;

        GPU_OK(cuMemcpyDtoH_v2(&byte, ptr[i], 1));
        CHECK_EQ(byte, offer.result[i] == CUDA_SUCCESS ? 0x77 : mark_of(i));
        GPU_OK(cuMemcpyDtoH_v2(&byte, neighbour[i] + sizes[i] - 1, 1));
        CHECK_EQ(byte, 0x55);
    }
}

TEST(r23_r25_another_process_finds_what_was_exported)
{
    int status = 0;
    pid_t pid;

    gpu_load(); /* skips before there is a second process; the device is used after the fork only */
    REQUIRE(pipe(to_importer) == 0 && pipe(from_importer) == 0);
    (void)fflush(stdout);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        importer();
        (void)fflush(stdout);
        _exit(atomic_load(&check_state.failures) ? 1 : 0);
    }
    exporter();
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A dma-buf names a range for ever; the block behind it is not handed out again (R24, R80). */
TEST(r24_r80_a_block_with_a_dma_buf_is_not_handed_out_again)
{
    const size_t size = 4 << 20;
    CUdeviceptr ptr = 0;
    CUdeviceptr next = 0;
    CUresult r;
    int fd = -1;

    gpu_init();
    if (!gpu->simulated && !gpu_attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED))
        SKIP("the device has no dma-buf");
    REQUIRE_EQ(gpu->cuMemAlloc_v2(&ptr, size), CUDA_SUCCESS);
    r = gpu->cuMemGetHandleForAddressRange(&fd, ptr, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    gpu_fact("dma_buf", "%d", (int)r);
    if (!gpu->under_kedge && !gpu->simulated)
        CHECK_EQ(r, CUDA_SUCCESS);
    GPU_OK(cuMemFree_v2(ptr));
    if (r == CUDA_SUCCESS && gpu->under_kedge) {
        for (int i = 0; i < 32; i++) {
            REQUIRE_EQ(gpu->cuMemAlloc_v2(&next, size), CUDA_SUCCESS);
            CHECK_NE(next, ptr);
        }
    }
    if (r == CUDA_SUCCESS)
        CHECK(close(fd) == 0);
}
