/* SPDX-License-Identifier: MIT */
#include "tools/export/exporter.h"

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

uint32_t exporter_first_event(const struct trace *trace)
{
    uint32_t first = 0;

    for (uint32_t at = 0; at < trace->event_count && trace->events[at].seq == 0; at++) {
        if (trace->events[at].kind == TRACE_ALLOC)
            first = at + 1;
    }
    return first;
}

uint64_t exporter_stream(const struct trace *trace, const struct trace_event *event)
{
    uint64_t stream = trace_stream(trace, event);
    uint16_t number = format_stream_number(stream);

    if (!event->by_stream)
        return 0;
    return number ? number - 1u : format_stream(stream, 0);
}

const struct read_thread **exporter_threads(const struct load *load)
{
    const struct read_thread **threads =
            vec_new(load->thread_count + 1, sizeof(const struct read_thread *));
    struct keytable numbers = {0};

    for (uint32_t i = 0; i < load->thread_count; i++)
        *keytable_at(&numbers, (struct key){load->threads[i], 0, 0}, i) = i;
    for (size_t i = 0; i < load->capture->thread_count; i++) {
        const struct read_thread *thread = &load->capture->thread[i];
        const uint32_t *ours = keytable_find(&numbers, (struct key){thread->number, 0, 0});

        if (ours)
            threads[*ours] = thread;
    }
    keytable_done(&numbers);
    return threads;
}
