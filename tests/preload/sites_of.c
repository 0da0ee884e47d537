/* SPDX-License-Identifier: MIT */
/*
 * sites_of CAPTURE: a line for each allocation of a run, "SITE SIZE MODULES" in the order of their numbers; and a line
 * "at ADDRESS" with where the program was loaded. MODULES: base names of the modules of its stack, innermost first.
 */
#include "tracker/reader/read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static void print_modules(const struct read_capture *capture, uint32_t stack)
{
    struct read_frame frames[READ_FRAMES_MAX];
    unsigned count = read_stack(capture, stack, frames, READ_FRAMES_MAX);

    for (unsigned i = 0; i < count && i < 8; i++) /* those that the key is made of */
        printf("%c%s", i ? ',' : ' ', frames[i].module ? base_name(frames[i].module->path) : "?");
    putchar('\n');
}

int main(int argc, char **argv)
{
    struct read_capture *capture;
    struct read_error error;

    if (argc != 2 || read_open_parts(argv[1], READ_ALL, &capture, &error) < 0)
        return 2;
    for (size_t i = 0; i < capture->event_count; i++) {
        const struct read_event *event = &capture->event[i];

        if (event->kind != FORMAT_EVENT_ALLOC)
            continue;
        printf("%016" PRIx64 " %" PRIu64, read_site(capture, event->stack), event->size);
        print_modules(capture, event->stack);
    }
    for (size_t i = 1; i < capture->module_count; i++)
        if (capture->module[i].is_main)
            printf("at %" PRIx64 "\n", capture->module[i].base);
    read_close(capture);
    return 0;
}
