/* SPDX-License-Identifier: MIT */
/*
 * hints_kit.h - what the tests of hints and pins share: a hint file, a capture that is read while it is open, a phase.
 *
 * The test is the program: it writes its hints before its first CUDA call, and each test runs in a process of its own. The
 * one rule matches 8 MiB inside PHASE_* and is due at its exit.
 */
#ifndef KEDGE_TESTS_RULES_HINTS_KIT_H
#define KEDGE_TESTS_RULES_HINTS_KIT_H

#include "preload/base/kedge.h"
#include "tests/preload/child.h"
#include "tests/preload/client.h"
#include "tests/preload/receive.h"
#include "tracker/hints/hintfile.h"
#include "tracker/reader/read.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MB        ((size_t)1 << 20)
#define KIT_BYTES (8 * MB)

/* A function of the driver as the program gets it, for what client.h does not list. */
#define KIT_CU(symbol) ((__typeof__(&symbol))client_sim(#symbol))
#define CU_OK(call)    REQUIRE_EQ(call, CUDA_SUCCESS)

#ifdef NCCL_PATH
/* A function of the NCCL that the test is given. */
static inline void *kit_nccl(const char *name)
{
    static void *library;
    void *found;

    if (!library)
        library = dlopen(NCCL_PATH, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != NULL);
    found = dlsym(library, name);
    REQUIRE(found != NULL);
    return found;
}
#endif

static char kit_capture[200], kit_hints[240], kit_receipt[260];

static inline void kit_files(const char *tail)
{
    const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";

    snprintf(
            kit_capture, sizeof kit_capture, "%s/kedge-rules-%d-%s.kcap", dir, (int)getpid(), tail);
    snprintf(kit_hints, sizeof kit_hints, "%s.yaml", kit_capture);
    snprintf(kit_receipt, sizeof kit_receipt, "%s.receipt", kit_hints);
    (void)unlink(kit_capture);
    REQUIRE(setenv("KEDGE_CAPTURE", kit_capture, 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
}

static inline void kit_clean_up(void)
{
    (void)unlink(kit_receipt);
    (void)unlink(kit_hints);
    (void)unlink(kit_capture);
}

static inline void kit_put(const char *path, const char *text)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

    REQUIRE(fd >= 0);
    REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    REQUIRE(close(fd) == 0);
}

static inline void kit_write(const char *text)
{
    kit_put(kit_hints, text);
    REQUIRE(setenv("KEDGE_HINTS", kit_hints, 1) == 0);
}

/* Before the first CUDA call. `mode`: off, shadow, poison, trap or live; NULL: as the file says, which is nothing. */
static inline void kit_hint_to(const char *action, const char *tail, const char *mode)
{
    char text[300];

    kit_files(tail);
    snprintf(text, sizeof text,
            "kedge-hints: 1\n"
            "hints:\n"
            "  - id: unused\n"
            "    do: %s\n"
            "    pick: {size: 8388608, inside: \"PHASE_*\", nth: all}\n"
            "    when: {anchor: \"PHASE_*\", edge: exit}\n",
            action);
    kit_write(text);
    if (mode)
        REQUIRE(setenv("KEDGE_HINTS_MODE", mode, 1) == 0);
}

static inline void kit_hint(const char *tail, const char *mode)
{
    kit_hint_to("release", tail, mode);
}

static inline CUdeviceptr kit_alloc(size_t size)
{
    CUdeviceptr ptr = 0;

    CU_OK(cu->cuMemAlloc_v2(&ptr, size));
    return ptr;
}

static inline struct read_capture *kit_read(void)
{
    struct read_capture *capture = NULL;
    struct read_error error;

    REQUIRE_EQ(read_open_parts(kit_capture, READ_ALL, &capture, &error), 0);
    CHECK_EQ(capture->bad_records, 0);
    return capture;
}

static inline unsigned kit_count(enum format_hint_what what, CUdeviceptr ptr, bool by_rule)
{
    struct read_capture *capture = kit_read();
    unsigned n = 0;

    for (size_t i = 0; i < capture->event_count; i++)
        n += capture->event[i].kind == FORMAT_EVENT_HINT && capture->event[i].what == what
                && (capture->event[i].rule >= 0) == by_rule
                && (ptr == 0 || capture->event[i].addr == ptr);
    read_close(capture);
    return n;
}

/* How often this was told by a hint of the block at `ptr` (0: of any). */
static inline unsigned kit_told(enum format_hint_what what, CUdeviceptr ptr)
{
    return kit_count(what, ptr, true);
}

/* How often it was told that the block is shared with somebody. */
static inline unsigned kit_shared(CUdeviceptr ptr)
{
    return kit_count(FORMAT_HINT_SKIPPED, ptr, false);
}

static inline void kit_touch_nothing(void)
{
    client_init();
    KEDGE_PUSH("PHASE_0");
    (void)kit_alloc(KIT_BYTES);
    KEDGE_POP();
}

/* Makes the receipt that `live` needs, from a run of a child, as `kedge verify` would; with these lines behind it. */
static inline void kit_receive(uint32_t trap_clean, const char *lines)
{
    struct read_capture *capture;
    struct hintfile_error error;
    struct hintfile *file;
    char *text;
    char whole[8192];

    REQUIRE_EQ(run_child(kit_touch_nothing), 0);
    capture = kit_read();
    REQUIRE(hintfile_read(kit_hints, &file, &error) == 0);
    text = receive_text(capture, file->hash, trap_clean);
    REQUIRE(snprintf(whole, sizeof whole, "%s%s", text, lines) < (int)sizeof whole);
    kit_put(kit_receipt, whole);
    free(text);
    hintfile_free(file);
    read_close(capture);
    REQUIRE(unlink(kit_capture) == 0);
}

static inline void kit_allow_live(void)
{
    kit_receive(1, "");
}

#endif
