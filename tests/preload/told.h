/* SPDX-License-Identifier: MIT */
/*
 * told.h - what a program has told kedge about itself, as its capture has it while it runs.
 *
 *     told_begin()       a capture of all events, a current context, one allocation
 *     told()             the edges since the last question: "+a -a +a#1 !mark", # with the instance if it is not the first
 *
 * For test programs under libkedge.so on the simulated device. The capture goes when the program ends.
 */
#ifndef KEDGE_TESTS_PRELOAD_TOLD_H
#define KEDGE_TESTS_PRELOAD_TOLD_H

#include "tests/live_at.h"
#include "tests/preload/client.h"

#include "tracker/reader/read.h"

#include <unistd.h>

#define TOLD_MAX 65536u

static char told_file[128];
static size_t told_events; /* edges that were asked for */
static CUdeviceptr told_ptr;

static inline void told_forget(void)
{
    (void)unlink(told_file);
}

/* Part of told_begin; before it for a program that has something to tell before it uses CUDA. */
static inline void told_set(void)
{
    (void)snprintf(told_file, sizeof told_file, "/tmp/kedge-test-told-%d.kcap", (int)getpid());
    (void)unlink(told_file);
    REQUIRE(setenv("KEDGE_CAPTURE", told_file, 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
    REQUIRE(atexit(told_forget) == 0);
}

static inline void told_begin(void)
{
    if (!told_file[0])
        told_set();
    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&told_ptr, 4096), CUDA_SUCCESS);
}

static inline const char *told(void)
{
    static const char kinds[] = {[EDGE_ENTER] = '+', [EDGE_EXIT] = '-', [EDGE_MARK] = '!'};
    static char text[TOLD_MAX];
    struct read_capture *capture = NULL;
    struct read_error error = {.text = ""};
    size_t used = 0, seen = 0;

    text[0] = '\0';
    if (read_open_parts(told_file, READ_ALL, &capture, &error) < 0)
        printf("%s: %s\n", told_file, error.text);
    REQUIRE(capture);
    for (size_t i = 0; i < capture->event_count; i++) {
        const struct read_event *event = &capture->event[i];

        if (event->kind != FORMAT_EVENT_EDGE || seen++ < told_events
                || used > sizeof text - 1200) /* too many to be told apart */
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%c%s", used ? " " : "",
                kinds[event->edge], event->path);
        if (event->instance)
            used += (size_t)snprintf(text + used, sizeof text - used, "#%u", event->instance);
    }
    told_events = seen;
    read_close(capture);
    return text;
}

/* The path of an allocation that is made now. */
static inline const char *told_path(void)
{
    static char path[1024];
    struct read_capture *capture;
    const struct read_live *live;
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    REQUIRE(read_open_parts(told_file, READ_ALL, &capture, NULL) == 0);
    live = live_at(capture, ptr);
    REQUIRE(live);
    (void)snprintf(path, sizeof path, "%s", live->path);
    read_close(capture);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    return path;
}

#endif
