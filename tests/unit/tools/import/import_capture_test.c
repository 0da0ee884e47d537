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
    struct trace *trace = trace_new();
    struct read_capture run = with(snapshot, sizeof snapshot - 1);
    struct read_capture *tensors = import_capture_tensors("run.kcap", &run, trace);

    REQUIRE(tensors != NULL);
    CHECK_EQ(tensors->total.allocated_count, 1);
    CHECK_EQ(tensors->total.peak_bytes, 100);
    read_close(tensors);
    free(run.record.bytes);
    trace_free(trace);
}

TEST(the_anchors_of_the_run_are_those_of_its_tensors)
{
    struct read_capture run = with(snapshot, sizeof snapshot - 1);
    struct trace *trace = trace_new();
    uint32_t step = trace_add_anchor(trace, "step", 0);
    uint32_t forward = trace_add_anchor(trace, "step/forward", 0);
    struct read_capture *tensors;
    size_t count;

    trace_add_edge(trace, TRACE_ENTER, step, 0);
    trace_add_edge(trace, TRACE_ENTER, forward, 0);
    trace_add_edge(trace, TRACE_EXIT, forward, 0);
    for (size_t i = 0; i < trace->event_count; i++)
        trace->events[i].time_ns = 10 * (i + 1);
    run.start_real_ns = 1000;
    struct import_edge *edges = import_capture_edges(&run, trace, &count);
    CHECK_EQ(count, 3);
    CHECK_EQ(edges[1].ns, 1020);
    CHECK_EQ(edges[1].name.length, strlen("forward"));
    CHECK(edges[1].is_enter && !edges[2].is_enter);
    free(edges);
    /* the record has one event, at 0, before all edges */
    tensors = import_capture_tensors("run.kcap", &run, trace);
    REQUIRE(tensors != NULL);
    CHECK_EQ(tensors->kind_count[FORMAT_EVENT_EDGE], 3);
    read_close(tensors);
    free(run.record.bytes);
    trace_free(trace);
}

TEST(a_run_without_a_record_and_bytes_that_are_none_give_nothing)
{
    struct trace *trace = trace_new();
    struct read_capture run = with("no pickle", 9);

    CHECK(import_capture_tensors("run.kcap", &run, trace) == NULL);
    free(run.record.bytes);
    run.record.bytes = NULL;
    CHECK(import_capture_tensors("run.kcap", &run, trace) == NULL);
    CHECK(import_capture_record("run.kcap", &run) == NULL);
    trace_free(trace);
}
