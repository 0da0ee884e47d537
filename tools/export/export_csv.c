/* SPDX-License-Identifier: MIT */
#include "tools/export/exporter.h"

#include <inttypes.h>

#include "tools/base/cmdexit.h"
#include "tools/base/keytable.h"
#include "tools/base/rowtrace.h"
#include "tools/output/ours.h"

/* From 1 in order of appearance; 0: legacy, or none. Two threads' default streams are two. */
static uint64_t export_csv_number_of(
        struct keytable *streams, const struct trace *trace, const struct trace_event *event)
{
    uint64_t stream = trace_stream(trace, event);

    if (!event->by_stream || format_stream(stream, 0) == 0)
        return 0;
    return keytable_number(streams, (struct key){stream, 0, 0}) + UINT64_C(1);
}

/* The format has no blocks of 0 bytes. Ids are the numbers of the blocks. */
static void write_row(struct export_job *job, struct keytable *streams, uint32_t at)
{
    const struct trace *trace = job->load->trace;
    const struct trace_event *event = &trace->events[at];
    uint64_t size = trace_value(trace, event);
    bool is_alloc = event->kind == TRACE_ALLOC;

    if (size == 0) {
        job->left_out.count += is_alloc;
        return;
    }
    (void)fprintf(job->out, "%c,%" PRIu32 ",", is_alloc ? 'a' : 'f', event->block);
    (void)fprintf(job->out, job->event_count == 0 ? OURS_NUMBER : "%" PRIu64, size);
    (void)fprintf(job->out, ",%" PRIu64 ",", export_csv_number_of(streams, trace, event));
    if (event->seq == 0)
        (void)fputs("-1\n", job->out);
    else
        (void)fprintf(job->out, "%" PRIu64 "\n", event->time_ns / 1000);
    job->event_count++;
}

int export_csv(struct export_job *job)
{
    const struct trace *trace = job->load->trace;
    struct keytable streams = {0};

    (void)fputs(ROWTRACE_HEAD "\n", job->out);
    for (uint32_t at = 0; at < trace->event_count; at++) {
        enum trace_kind kind = trace->events[at].kind;

        if ((kind == TRACE_ALLOC || kind == TRACE_FREE) && trace->events[at].block != TRACE_NONE)
            write_row(job, &streams, at);
    }
    keytable_done(&streams);
    return CMD_DONE;
}
