/* SPDX-License-Identifier: MIT */
/*
 * trace_dump.c - the allocations and frees of a capture as a trace that kedge-replay reads.
 *
 *     trace_dump CAPTURE.kcap >TRACE.csv
 *
 * This is how the traces in this folder were made (README.md). Refuses a capture that does not hold all events: a trace
 * with holes replays another program.
 */
#include "tracker/read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct tenant {
    uint64_t addr;
    uint64_t id;
};

static int compare_tenants(const void *a, const void *b)
{
    const struct tenant *x = a;
    const struct tenant *y = b;

    return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Every address once, sorted: at most as many as there are events. */
static size_t collect(const struct read_capture *capture, struct tenant *tenants)
{
    size_t count = 0;
    size_t distinct = 0;

    for (size_t i = 0; i < capture->event_count; i++) {
        if (capture->event[i].kind == FORMAT_EVENT_ALLOC)
            tenants[count++].addr = capture->event[i].addr;
    }
    qsort(tenants, count, sizeof(*tenants), compare_tenants);
    for (size_t i = 0; i < count; i++) {
        if (distinct == 0 || tenants[distinct - 1].addr != tenants[i].addr)
            tenants[distinct++].addr = tenants[i].addr;
    }
    return distinct;
}

static void dump(const struct read_capture *capture, struct tenant *tenants, size_t count)
{
    uint64_t next_id = 0;

    puts("op,id,size,stream,time_us");
    for (size_t i = 0; i < capture->event_count; i++) {
        const struct read_event *e = &capture->event[i];
        struct tenant key = {.addr = e->addr};
        struct tenant *t;

        if (e->kind != FORMAT_EVENT_ALLOC && e->kind != FORMAT_EVENT_FREE)
            continue;
        t = bsearch(&key, tenants, count, sizeof(*tenants), compare_tenants);
        if (!t)
            continue; /* a free of what was allocated before the capture began */
        if (e->kind == FORMAT_EVENT_ALLOC)
            t->id = next_id++;
        printf("%c,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
                e->kind == FORMAT_EVENT_ALLOC ? 'a' : 'f', t->id, e->size, e->stream,
                e->time_ns / 1000);
    }
}

int main(int argc, char **argv)
{
    struct read_capture *capture;
    struct read_error error = {.text = ""};
    struct tenant *tenants;

    if (argc != 2) {
        fprintf(stderr, "usage: trace_dump CAPTURE.kcap >TRACE.csv\n");
        return 2;
    }
    if (read_open(argv[1], &capture, &error) != 0) {
        fprintf(stderr, "trace_dump: %s: %s\n", argv[1], error.text);
        return 2;
    }
    tenants = calloc(capture->event_count + 1, sizeof(*tenants));
    if (!capture->has_all_events || !tenants) {
        fprintf(stderr, "trace_dump: %s\n",
                tenants ? "events are missing; record with KEDGE_TRACE=full" : "no memory");
        free(tenants);
        read_close(capture);
        return 1;
    }
    dump(capture, tenants, collect(capture, tenants));
    free(tenants);
    read_close(capture);
    return 0;
}
