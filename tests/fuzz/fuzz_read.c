/* SPDX-License-Identifier: MIT */
/* Any capture is read or refused: no crash, no leak, no reading outside, no endless work. */
#include "tests/fuzz/capture_image.h"
#include "tracker/hints/pylines.h"
#include "tracker/reader/read.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length);

static volatile uint64_t sink; /* so that nothing is left out */

static uint64_t use_python(const struct read_capture *capture, uint32_t pystack)
{
    struct read_pyframe frames[READ_FRAMES_MAX];
    bool ambient = false;
    unsigned count = read_pystack(capture, pystack, frames, READ_FRAMES_MAX, &ambient);
    uint64_t sum = ambient;

    for (unsigned i = 0; i < count; i++) {
        struct pylines lines = {.table = frames[i].table,
                .bytes = frames[i].lines,
                .length = frames[i].lines_bytes,
                .first_line = frames[i].first_line};

        sum += strlen(frames[i].name) + strlen(frames[i].qualname) + strlen(frames[i].file);
        sum += pylines_find(&lines, frames[i].lasti);
    }
    return sum;
}

/* Looks at everything that a tool would look at. */
static void use(const struct read_capture *capture)
{
    struct read_frame frames[READ_FRAMES_MAX];
    uint64_t sum = 0;

    for (size_t i = 0; i < capture->event_count; i++) {
        const struct read_event *event = &capture->event[i];

        sum += strlen(event->path) + read_stack(capture, event->stack, frames, READ_FRAMES_MAX);
        sum += read_site(capture, event->stack);
        sum += use_python(capture, event->pystack);
        if (i > 0 && event->seq < capture->event[i - 1].seq)
            __builtin_trap(); /* promised: in the order of seq */
    }
    for (size_t i = 0; i < capture->live_count; i++) {
        unsigned depth = read_stack(capture, capture->live[i].stack, frames, READ_FRAMES_MAX);

        for (unsigned j = 0; j < depth; j++)
            sum += frames[j].module ? strlen(frames[j].module->path) : 0;
        sum += strlen(capture->live[i].path) + use_python(capture, capture->live[i].pystack);
    }
    for (size_t i = 0; i < capture->place_count; i++) {
        const struct read_place *place = &capture->place[i];

        sum += strlen(place->path) + read_stack(capture, place->stack, frames, READ_FRAMES_MAX);
        if (i > 0 && place->high_bytes > capture->place[i - 1].high_bytes)
            __builtin_trap(); /* promised: by their share */
    }
    for (size_t i = 0; i < capture->oom_record_count; i++)
        sum += strlen(capture->oom[i].path) + strlen(capture->oom[i].call);
    for (size_t i = 0; i < capture->note_count; i++)
        sum += strlen(capture->note[i].text);
    for (size_t i = 0; i < capture->setting_count; i++)
        sum += strlen(capture->setting[i].name) + strlen(capture->setting[i].value);
    for (size_t i = 0; i < capture->coverage_count; i++)
        sum += strlen(capture->coverage[i].hook) + strlen(capture->coverage[i].route);
    for (size_t i = 0; i < capture->rule_count; i++)
        sum += strlen(capture->rule[i].id);
    for (size_t i = 0; i < capture->argc; i++)
        sum += strlen(capture->argv[i]);
    sum += strlen(capture->exe) + strlen(capture->host) + strlen(capture->rank);
    sum += strlen(capture->program) + strlen(capture->hints_path);
    sink = sum;
}

static void read_bytes(const void *bytes, size_t length)
{
    struct read_capture *capture = NULL;
    struct read_error error;

    if (read_open_bytes(bytes, length, &capture, &error) == 0)
        use(capture);
    else if (error.text[0] == '\0')
        __builtin_trap(); /* a refusal has words */
    read_close(capture);
}

/* As a file of a process that may run: bytes are read more than once, and must say what they say in memory
 * (but that an address lives once). */
static void read_file(const void *bytes, size_t length)
{
    static int fd = -1;
    struct read_capture *file = NULL;
    struct read_capture *memory = NULL;
    struct read_error error;
    char path[32];

    if (fd < 0)
        fd = memfd_create("capture", 0);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, bytes, length, 0) != (ssize_t)length)
        return;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (read_open_parts(path, READ_ALL, &file, &error)
            != read_open_bytes(bytes, length, &memory, &error))
        __builtin_trap();
    if (file
            && (file->event_count != memory->event_count || file->live_count > memory->live_count
                    || file->place_count != memory->place_count
                    || file->module_count != memory->module_count
                    || file->note_count != memory->note_count
                    || file->bad_records != memory->bad_records))
        __builtin_trap();
    read_close(file);
    read_close(memory);
    file = NULL;
    if (read_begin(path, &file, &error) == 0)
        sink = file->torn + file->damaged[READ_AREA_TOTALS];
    read_close(file);
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length)
{
    const uint32_t all = FORMAT_CHUNK_ROOM;
    unsigned char *image;

    read_bytes(input, length); /* as it is */
    image = image_new();
    if (!image)
        return 0;
    /* so that patches behind the chunk's head are records, whatever they are */
    image_put(image, IMAGE_EVENTS, offsetof(struct format_chunk, used), &all, sizeof all);
    image_patch(image, input, length);
    image_seal(image);
    read_bytes(image, IMAGE_BYTES);
    if (length % 4 == 0)
        read_file(image, IMAGE_BYTES);
    read_bytes(image, IMAGE_BYTES - length % 4096); /* cut */
    free(image);
    return 0;
}
