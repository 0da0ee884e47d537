/* SPDX-License-Identifier: MIT */
/* capturing.h - a test that reads, while it runs, the capture that the library writes of it. */
#ifndef KEDGE_TESTS_PRELOAD_CAPTURING_H
#define KEDGE_TESTS_PRELOAD_CAPTURING_H

#include "tests/check.h"
#include "tracker/reader/read.h"

#include <stdlib.h>
#include <unistd.h>

static char capture_file[256];

/* Before the first CUDA call: where this process writes. */
static inline void capture_to(const char *tail)
{
    snprintf(capture_file, sizeof capture_file, "%s/kedge-test-%d-%s.kcap",
            getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid(), tail);
    (void)unlink(capture_file);
    REQUIRE(setenv("KEDGE_CAPTURE", capture_file, 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
}

/* The capture as it is now; read_close is the caller's. */
static inline struct read_capture *read_now(void)
{
    struct read_capture *capture = NULL;
    struct read_error error;
    int r = read_open_parts(capture_file, READ_ALL, &capture, &error);

    if (r != 0)
        printf("%s\n", error.text);
    REQUIRE_EQ(r, 0);
    CHECK_EQ(capture->bad_records, 0);
    return capture;
}

#endif
