/* SPDX-License-Identifier: MIT */
/* covers: import_capture.c */
/* The tensors of a run's capture, from the record that PyTorch made. */
#include "tests/check.h"

#include "tools/import/import_capture.h"

#include <stdlib.h>
#include <string.h>

/* {"segments": [], "device_traces": [[{"action": "alloc", "addr": 4096, "size": 100}]]} */
static const char snapshot[] = "\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]]}("
                               "X\x06\0\0\0actionX\x05\0\0\0alloc"
                               "X\x04\0\0\0addrM\0\x10X\x04\0\0\0sizeKduaau.";

static struct read_capture with(const char *bytes, size_t length)
{
    struct read_capture run = {.rank = ""};

    run.record.what.bytes = length;
    run.record.bytes = malloc(length + 1);
    REQUIRE(run.record.bytes != NULL);
    memcpy(run.record.bytes, bytes, length);
    return run;
}

TEST(a_record_becomes_a_capture_of_tensors)
{
    struct read_capture run = with(snapshot, sizeof snapshot - 1);
    struct read_capture *tensors = import_capture_tensors("run.kcap", &run);

    REQUIRE(tensors != NULL);
    CHECK_EQ(tensors->total.allocated_count, 1);
    CHECK_EQ(tensors->total.peak_bytes, 100);
    read_close(tensors);
    free(run.record.bytes);
}

TEST(a_run_without_a_record_and_bytes_that_are_none_give_nothing)
{
    struct read_capture run = with("no pickle", 9);

    CHECK(import_capture_tensors("run.kcap", &run) == NULL);
    free(run.record.bytes);
    run.record.bytes = NULL;
    CHECK(import_capture_tensors("run.kcap", &run) == NULL);
    CHECK(import_capture_record("run.kcap", &run) == NULL);
}
