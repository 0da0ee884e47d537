/* SPDX-License-Identifier: MIT */
/*
 * stacks_of CAPTURE: "pid N", then a line for each allocation of device memory, in the order of their numbers:
 *
 *     whose tid address size native frame... python [function file line]...      (separated by tabs)
 *
 * as tests/sim/driver/sim_stacks.h writes it, so that the two can be compared. whose: "own" or "ambient", of the Python frames.
 * A physical handle stands for its address. Names of native functions are not looked up. whose is "graph" for memory of a graph,
 * of which each launch is an allocation that nobody asks for.
 */
#include "tracker/hints/pylines.h"
#include "tracker/reader/read.h"

#include <inttypes.h>
#include <stdio.h>

#define HANDLE_MASK ((UINT64_C(1) << 56) - 1) /* FORMAT.md: the upper bits say of what kind */

static void print_native(const struct read_capture *capture, uint32_t stack)
{
    struct read_frame frames[READ_FRAMES_MAX];
    unsigned count = read_stack(capture, stack, frames, READ_FRAMES_MAX);

    printf("\t%u", count);
    for (unsigned i = 0; i < count; i++)
        printf("\t%s+0x%" PRIx64, frames[i].module ? frames[i].module->path : "?",
                frames[i].offset);
}

static void print_python(const struct read_pyframe *frames, unsigned count)
{
    printf("\t%u", count);
    for (unsigned i = 0; i < count; i++) {
        const struct pylines lines = {.table = frames[i].table,
                .bytes = frames[i].lines,
                .length = frames[i].lines_bytes,
                .first_line = frames[i].first_line};

        printf("\t%s\t%s\t%u", *frames[i].qualname ? frames[i].qualname : frames[i].name,
                frames[i].file, pylines_find(&lines, frames[i].lasti));
    }
}

static uint32_t tid_of(const struct read_capture *capture, uint32_t number)
{
    for (size_t i = 0; i < capture->thread_count; i++)
        if (capture->thread[i].number == number)
            return capture->thread[i].tid;
    return 0;
}

static void print_event(const struct read_capture *capture, const struct read_event *event)
{
    struct read_pyframe frames[READ_FRAMES_MAX];
    bool is_ambient = false;
    unsigned count = read_pystack(capture, event->pystack, frames, READ_FRAMES_MAX, &is_ambient);

    printf("%s\t%" PRIu32 "\t0x%" PRIx64 "\t%" PRIu64,
            event->memclass == MEMCLASS_GRAPH ? "graph"
                    : is_ambient              ? "ambient"
                                              : "own",
            tid_of(capture, event->thread), event->addr & HANDLE_MASK, event->size);
    print_native(capture, event->stack);
    print_python(frames, count);
    putchar('\n');
}

int main(int argc, char **argv)
{
    struct read_capture *capture;
    struct read_error error;

    if (argc != 2 || read_open_parts(argv[1], READ_ALL, &capture, &error) < 0)
        return 2;
    printf("pid %" PRIu32 "\n", capture->pid);
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].kind == FORMAT_EVENT_ALLOC
                && capture->event[i].memclass < MEMCLASS_DEVICE_END)
            print_event(capture, &capture->event[i]);
    read_close(capture);
    return 0;
}
