/* SPDX-License-Identifier: MIT */
/* covers: ipc.c hooks_ipc.c */
/*
 * Two processes on the simulated device, in which, as on a real one, an interior pointer exports its base's handle. What
 * the driver would show rightly goes through untouched; everything else is refused, with one line, never answered wrongly.
 */
#include "tests/preload/onlooker.h"
#include "tests/preload/said.h"

#include "tracker/reader/read.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

static CUdeviceptr alloc(size_t size)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, size), CUDA_SUCCESS);
    return ptr;
}

static void fill(CUdeviceptr ptr, unsigned char value, size_t size)
{
    REQUIRE_EQ(cu->cuMemsetD8_v2(ptr, value, size), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
}

/* ---- the rules ------------------------------------------------------------------------------ */

TEST(r23_offset_0_is_shown_and_any_other_offset_is_refused)
{
    struct other other;
    CUipcMemHandle handle, untouched;
    CUdeviceptr alone, first, second;
    unsigned lines;

    said_begin();
    other = start_onlooker();
    client_init();
    alone = alloc(4 * MB);
    fill(alone, 0x41, 4 * MB);
    REQUIRE_EQ(cu->cuIpcGetMemHandle(&handle, alone), CUDA_SUCCESS);
    CHECK_EQ(seen_by(&other, &handle, 0x41, 4 * MB), 4 * MB);
    first = alloc(64 << 10);
    second = alloc(64 << 10);
    fill(first, 0x42, 64 << 10);
    fill(second, 0x43, 64 << 10);
    CHECK_EQ(second - first, 64 << 10); /* one segment: the driver would show `first` for both */
    memset(&handle, 0xaa, sizeof handle);
    untouched = handle;
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, second), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, first), CUDA_ERROR_NOT_SUPPORTED); /* not alone */
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, alone + 4096), CUDA_ERROR_NOT_SUPPORTED);
    CHECK(memcmp(&handle, &untouched, sizeof handle) == 0);
    CHECK_EQ(said_with("cuIpcGetMemHandle", &lines), 1);
    CHECK_EQ(lines, 1);
    end_onlooker(&other);
}

/* Natively each of these has the driver's own answer, and so it has here. */
TEST(r23_what_cannot_be_shown_natively_gets_the_drivers_word)
{
    __typeof__(&cuIpcGetMemHandle) real;
    CUipcMemHandle handle, untouched;
    CUdeviceptr freed, ordered = 0;
    CUstream stream;
    unsigned lines;

    said_begin();
    client_init();
    real = (__typeof__(real))client_driver("cuIpcGetMemHandle");
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&ordered, 4 * MB, stream), CUDA_SUCCESS);
    memset(&handle, 0xaa, sizeof handle);
    untouched = handle;
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, ordered), real(&handle, ordered));
    CHECK_NE(cu->cuIpcGetMemHandle(&handle, ordered), CUDA_SUCCESS);
    freed = alloc(4 * MB);
    REQUIRE_EQ(cu->cuMemFree_v2(freed), CUDA_SUCCESS);
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, freed), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, 0), real(&handle, 0));
    CHECK(memcmp(&handle, &untouched, sizeof handle) == 0);
    CHECK_EQ(said_with("refused", &lines), 0);
}

/* When the neighbours are gone, a small block is its segment. */
TEST(r23_a_block_that_stands_alone_is_shown_whatever_its_size)
{
    struct other other = start_onlooker();
    CUipcMemHandle handle;
    CUdeviceptr small;

    client_init();
    small = alloc(64 << 10);
    fill(small, 0x51, 64 << 10);
    REQUIRE_EQ(cu->cuIpcGetMemHandle(&handle, small), CUDA_SUCCESS);
    CHECK_EQ(seen_by(&other, &handle, 0x51, 64 << 10), 64 << 10);
    end_onlooker(&other);
}

TEST(r24_nobody_moves_in_beside_what_was_shown)
{
    CUdeviceptr base = 0, shown, later;
    CUipcMemHandle handle;
    size_t size = 0;

    client_init();
    shown = alloc(64 << 10);
    REQUIRE_EQ(cu->cuMemGetAddressRange_v2(&base, &size, shown), CUDA_SUCCESS);
    CHECK_GE(size, 2 * MB); /* there would be room */
    REQUIRE_EQ(cu->cuIpcGetMemHandle(&handle, shown), CUDA_SUCCESS);
    for (int i = 0; i < 100; i++) {
        later = alloc(16 << 10);
        CHECK(later < base || later >= base + size);
    }
    REQUIRE_EQ(cu->cuIpcGetMemHandle(&handle, shown), CUDA_SUCCESS); /* still alone */
}

TEST(r24_neither_before_nor_after_its_free_another_tenant_is_seen)
{
    struct other other = start_onlooker();
    CUipcMemHandle handle;
    CUdeviceptr shown, later[8];

    client_init();
    shown = alloc(4 * MB);
    fill(shown, 0x61, 4 * MB);
    REQUIRE_EQ(cu->cuIpcGetMemHandle(&handle, shown), CUDA_SUCCESS);
    CHECK_EQ(seen_by(&other, &handle, 0x61, 4 * MB), 4 * MB);
    REQUIRE_EQ(cu->cuMemFree_v2(shown), CUDA_SUCCESS);
    for (int i = 0; i < 8; i++) {
        uint64_t before = client_calls("cuMemAlloc_v2");

        later[i] = alloc(4 * MB);
        fill(later[i], 0x62, 4 * MB);
        CHECK_EQ(client_calls("cuMemAlloc_v2"), before + 1); /* the driver's, not what was shown */
    }
    CHECK_EQ(client_calls("cuMemFree_v2"), 1); /* the driver has it back */
    (void)close(other.to);
    (void)waitpid(other.pid, NULL, 0);
}

/* The driver's own words, got at the driver's own function. */
TEST(r25_a_handle_is_the_drivers_bit_for_bit)
{
    __typeof__(&cuIpcGetMemHandle) real;
    CUipcMemHandle ours, drivers;
    CUdeviceptr ptr;

    client_init();
    real = (__typeof__(real))client_driver("cuIpcGetMemHandle");
    REQUIRE(real && real != cu->cuIpcGetMemHandle);
    ptr = alloc(4 * MB);
    memset(&ours, 0xaa, sizeof ours);
    memset(&drivers, 0x55, sizeof drivers);
    REQUIRE_EQ(cu->cuIpcGetMemHandle(&ours, ptr), CUDA_SUCCESS);
    REQUIRE_EQ(real(&drivers, ptr), CUDA_SUCCESS);
    CHECK(memcmp(&ours, &drivers, sizeof ours) == 0);
}

static char import_file[128];

/* What is on record of imports: so many that are open, of 6 MiB each, and so many that there were. */
static void imports_are(uint64_t live, uint64_t ever)
{
    struct read_capture *capture;

    REQUIRE_EQ(read_open_parts(import_file, READ_ALL, &capture, NULL), 0);
    CHECK_EQ(capture->class_total[MEMCLASS_IMPORTED].live_count, live);
    CHECK_EQ(capture->class_total[MEMCLASS_IMPORTED].live_bytes, live * 6 * MB);
    CHECK_EQ(capture->class_total[MEMCLASS_IMPORTED].allocated_count, ever);
    CHECK_EQ(capture->total.allocated_bytes, 0);
    CHECK_EQ(capture->lost.implied_frees, 0);
    CHECK_EQ(capture->lost.unknown_frees, 0);
    read_close(capture);
}

/*
 * On the other side: one address for two opens, on record until the second close, and no device memory of that process. A close that
 * the driver refuses is none.
 */
TEST(an_import_is_recorded_once_and_counts_as_nothing)
{
    int handles[2], done[2], status = 0;
    CUdeviceptr a = 0, b = 0;
    char word = 'w';
    CUipcMemHandle handle;
    pid_t owner;

    REQUIRE(pipe(handles) == 0 && pipe(done) == 0);
    owner = fork();
    if (owner == 0) { /* shows 6 MiB and stays until told */
        client_init();
        if (cu->cuMemAlloc_v2(&a, 6 * MB) != CUDA_SUCCESS
                || cu->cuIpcGetMemHandle(&handle, a) != CUDA_SUCCESS
                || write(handles[1], &handle, sizeof handle) != (ssize_t)sizeof handle)
            _exit(1);
        (void)close(done[1]);
        (void)!read(done[0], &word, 1);
        _exit(0);
    }
    snprintf(import_file, sizeof import_file, "%s/kedge-import-%d.kcap",
            getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    REQUIRE(setenv("KEDGE_CAPTURE", import_file, 1) == 0 && setenv("KEDGE_TRACE", "full", 1) == 0);
    REQUIRE(setenv("SIMCUDA_FAIL",
                    "cuIpcCloseMemHandle:1:CUDA_ERROR_NOT_PERMITTED,"
                    "cuIpcCloseMemHandle:3:CUDA_ERROR_NOT_PERMITTED",
                    1)
            == 0);
    client_init();
    REQUIRE_EQ(read(handles[0], &handle, sizeof handle), (ssize_t)sizeof handle);
    REQUIRE_EQ(cu->cuIpcOpenMemHandle_v2(&a, handle, 1), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuIpcOpenMemHandle_v2(&b, handle, 1), CUDA_SUCCESS);
    CHECK_EQ(a, b);
    imports_are(1, 1);
    REQUIRE_EQ(cu->cuIpcCloseMemHandle(a), CUDA_ERROR_NOT_PERMITTED); /* open twice still */
    REQUIRE_EQ(cu->cuIpcCloseMemHandle(a), CUDA_SUCCESS);
    imports_are(1, 1);
    REQUIRE_EQ(cu->cuIpcCloseMemHandle(b), CUDA_ERROR_NOT_PERMITTED);
    imports_are(1, 1);
    REQUIRE_EQ(cu->cuIpcCloseMemHandle(b), CUDA_SUCCESS);
    imports_are(0, 1);
    CHECK_NE(cu->cuIpcCloseMemHandle(b), CUDA_SUCCESS); /* nothing is left of it */
    REQUIRE_EQ(cu->cuIpcOpenMemHandle_v2(&a, handle, 1), CUDA_SUCCESS);
    imports_are(1, 2);
    REQUIRE_EQ(cu->cuIpcCloseMemHandle(a), CUDA_SUCCESS);
    imports_are(0, 2);
    (void)close(done[0]);
    (void)close(done[1]);
    REQUIRE_EQ(waitpid(owner, &status, 0), owner);
    CHECK_EQ(status, 0);
    (void)unlink(import_file);
}
