/* SPDX-License-Identifier: MIT */
#include "tools/import/import_capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/base/cmdexit.h"
#include "tools/base/vec.h"

FILE *import_capture_record(const char *path, const struct read_capture *capture)
{
    const struct read_record *record = &capture->record;
    FILE *in;

    if (!record->bytes) {
        (void)fprintf(stderr,
                "kedge import: %s: a capture without a record of PyTorch's tensors in it, which "
                "runs under "
                "PyTorch's own allocator have (kedge run --api framework)\n",
                path);
        return NULL;
    }
    in = fmemopen(record->bytes, record->what.bytes, "r");
    if (!in)
        vec_out_of_memory();
    return in;
}

/* The last part of an anchor's path: the outer ones are those of the ranges around it. */
static struct import_text import_capture_name(const struct trace_anchor *anchor)
{
    const char *slash = strrchr(anchor->path, '/');
    const char *name = slash ? slash + 1 : anchor->path;

    return (struct import_text){name, strlen(name)};
}

struct import_edge *import_capture_edges(
        const struct read_capture *capture, const struct trace *trace, size_t *ret_count)
{
    struct import_edge *edges = NULL;
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];

        if (event->kind == TRACE_ENTER || event->kind == TRACE_EXIT)
            VEC_PUSH(edges, count, room) =
                    (struct import_edge){.ns = capture->start_real_ns + event->time_ns,
                            .name = import_capture_name(&trace->anchors[event->anchor]),
                            .thread = event->thread,
                            .is_enter = event->kind == TRACE_ENTER};
    }
    *ret_count = count;
    return edges;
}

/* Writes the tensors as a capture to `fd`. 0 or CMD_BAD. */
static int import_capture_write(const char *path, const struct read_capture *capture,
        const struct trace *trace, FILE *in, int fd)
{
    struct import_job job = {.path = path, .in = in, .size = capture->record.what.bytes};
    struct import_edge *edges = import_capture_edges(capture, trace, &job.edge_count);
    struct import_counts counts;
    int r;

    job.edges = edges;
    job.import = import_new(fd, IMPORT_TORCH, path, capture->rank);
    r = import_torch(&job);
    if (r == CMD_DONE && import_done(job.import, &counts) < 0)
        r = CMD_BAD;
    import_free_books(job.import);
    import_processes_done(&job.processes);
    free(edges);
    return r;
}

struct read_capture *import_capture_tensors(
        const char *path, const struct read_capture *capture, const struct trace *trace)
{
    FILE *in = import_capture_record(path, capture);
    int fd = in ? memfd_create("kedge tensors", MFD_CLOEXEC) : -1;
    struct read_capture *tensors = NULL;
    struct read_error error = {{0}, 0};
    char name[32];

    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (fd >= 0 && import_capture_write(path, capture, trace, in, fd) == CMD_DONE
            && read_begin(name, &tensors, &error) < 0)
        (void)fprintf(stderr, "%s: its tensors: %s\n", path, error.text);
    if (in)
        (void)fclose(in);
    if (fd >= 0)
        (void)close(fd);
    return tensors;
}
