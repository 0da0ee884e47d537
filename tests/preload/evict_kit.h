/* SPDX-License-Identifier: MIT */
/*
 * evict_kit.h - what the tests of eviction share: blocks of which half fit under their hint's cap, what must be in them, and where
 * they are.
 *
 * The test is the program, as with hints_kit.h. Blocks are made inside MODEL, a step is one `step`.
 */
#ifndef KEDGE_TESTS_PRELOAD_EVICT_KIT_H
#define KEDGE_TESTS_PRELOAD_EVICT_KIT_H

#include "tests/preload/hints_kit.h"

#include <sys/uio.h>

enum {
    EVICT_BLOCKS = 4,
    EVICT_FIT = 2, /* of them are in at once */
    EVICT_STEPS = 4,
};

#define EVICT_BYTES (2 * MB)

static CUdeviceptr evict_block[EVICT_BLOCKS];
static unsigned char evict_value[EVICT_BLOCKS]; /* of all of a block's bytes */
static unsigned char evict_copy[EVICT_BYTES];
static CUstream evict_stream;

/* Before the first CUDA call. `more`: other keys of the hint, a line each. */
static inline void evict_hint(const char *tail, const char *mode, const char *more)
{
    char text[600];

    kit_files(tail);
    snprintf(text, sizeof text,
            "kedge-hints: 1\n"
            "hints:\n"
            "  - id: params\n"
            "    do: evict\n"
            "    pick: {size: 2097152, inside: \"*MODEL\"}\n"
            "    when: {anchor: step, edge: enter}\n"
            "    cap: {device: 4MiB}\n%s",
            more);
    kit_write(text);
    REQUIRE(setenv("KEDGE_HINTS_MODE", mode, 1) == 0);
}

/* Whether there is storage under the address: the device's memory is the host's here. */
static inline bool evict_is_in(CUdeviceptr ptr)
{
    char byte;
    struct iovec here = {&byte, 1};
    struct iovec there = {(void *)(uintptr_t)ptr, 1};

    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

static inline unsigned evict_count_in(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        n += evict_block[i] && evict_is_in(evict_block[i]);
    return n;
}

static inline void evict_set(unsigned i, unsigned char value)
{
    CU_OK(cu->cuMemsetD8Async(evict_block[i], value, EVICT_BYTES, evict_stream));
    evict_value[i] = value;
}

static inline void evict_make(void)
{
    KEDGE_PUSH("MODEL");
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        evict_block[i] = kit_alloc(EVICT_BYTES);
    KEDGE_POP();
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        evict_set(i, (unsigned char)(i + 1));
}

static inline void evict_begin(void)
{
    client_init();
    CU_OK(cu->cuStreamCreate(&evict_stream, CU_STREAM_NON_BLOCKING));
    evict_make();
}

static inline void evict_start_as(const char *tail, const char *mode, const char *more)
{
    evict_hint(tail, mode, more);
    evict_begin();
}

static inline void evict_start(const char *tail)
{
    evict_start_as(tail, "poison", "");
}

/* All of the block has its value. */
static inline void evict_check(unsigned i)
{
    memset(evict_copy, 0xee, sizeof evict_copy);
    CU_OK(cu->cuMemcpyDtoHAsync_v2(evict_copy, evict_block[i], EVICT_BYTES, evict_stream));
    CU_OK(cu->cuStreamSynchronize(evict_stream));
    CHECK_EQ(evict_copy[0], evict_value[i]);
    CHECK(memcmp(evict_copy, evict_copy + 1, EVICT_BYTES - 1) == 0);
}

static inline void evict_check_all(void)
{
    CU_OK(cu->cuCtxSynchronize());
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        evict_check(i);
}

/* Uses all but the first, so that the first goes out if it may. */
static inline void evict_use_others(void)
{
    for (unsigned i = 1; i < EVICT_BLOCKS; i++)
        evict_check(i);
}

/* How often it was told that the block at `ptr` (0: any) stays in for this reason. */
static inline unsigned evict_told_kept(CUdeviceptr ptr, enum format_kept_why why)
{
    struct read_capture *capture = kit_read();
    unsigned n = 0;

    for (size_t i = 0; i < capture->kept_count; i++)
        n += capture->kept[i].why == why && (!ptr || capture->kept[i].addr == ptr);
    read_close(capture);
    return n;
}

#endif
