/* SPDX-License-Identifier: MIT */
/* covers: read.c */
#include "tests/unit/tracker/track_help.h"

#include "tests/fuzz/capture_image.h"
#include "tracker/stacks/intern.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>

/* A capture of a little of everything, as bytes of a file. */
static unsigned char *write_capture(const char *file, size_t *ret_length)
{
    struct edge edge;
    struct tag tag;
    unsigned char *bytes;
    struct stat status;
    int fd;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    track_start(file, FORMAT_TRACE_FULL, 0);
    (void)capture_setting("KEDGE_MODE", "pool");
    for (uint64_t i = 0; i < 40; i++) {
        REQUIRE_EQ(anchor_push(NULL, "step", &edge), 0);
        (void)capture_edge(&edge, 4 * i + 1);
        (void)where_am_i(NULL, 100 + i, 0, &tag);
        struct capture_alloc_info info = {
                .tag = &tag, .ptr = 0x1000 * (i + 1), .seq = 4 * i + 2, .rule = -1};
        (void)capture_alloc(&info);
        if (i % 2)
            (void)track_free(0x1000 * (i + 1), 4 * i + 3);
        (void)anchor_pop(NULL, &edge);
        (void)capture_edge(&edge, 4 * i + 4);
    }
    (void)capture_note(0, "a note");
    fd = open(file, O_RDONLY);
    REQUIRE(fd >= 0);
    REQUIRE_EQ(fstat(fd, &status), 0);
    bytes = malloc((size_t)status.st_size);
    REQUIRE(bytes != NULL);
    REQUIRE_EQ(read(fd, bytes, (size_t)status.st_size), status.st_size);
    (void)close(fd);
    *ret_length = (size_t)status.st_size;
    return bytes;
}

static struct read_capture *read_bytes(const void *bytes, size_t length, struct read_error *error)
{
    struct read_capture *capture = NULL;
    /* a copy of exactly this size, so that ASan sees a read behind its end */
    void *copy = malloc(length ? length : 1);

    REQUIRE(copy != NULL);
    memcpy(copy, bytes, length);
    (void)read_open_bytes(copy, length, &capture, error);
    free(copy);
    return capture;
}

/* With the sums that its bytes should have. */
static struct read_capture *read_image(unsigned char *image, struct read_error *error)
{
    image_seal(image);
    return read_bytes(image, IMAGE_BYTES, error);
}

TEST(a_file_cut_anywhere_is_read_as_far_as_it_goes)
{
    char file[TRACK_PATH_MAX];
    struct read_error error;
    size_t length = 0;
    unsigned char *bytes;

    track_path(file, track_scratch(), "c.kcap");
    bytes = write_capture(file, &length);
    for (size_t cut = 0; cut <= length; cut += cut < FORMAT_HEADER_BYTES + 2000 ? 997 : 32768) {
        struct read_capture *capture = read_bytes(bytes, cut, &error);

        if (cut < FORMAT_HEADER_BYTES)
            CHECK(capture == NULL || capture->event_count == 0);
        else
            CHECK(capture != NULL);
        read_close(capture);
    }
    free(bytes);
}

TEST(flipped_bytes_do_no_harm)
{
    char file[TRACK_PATH_MAX];
    struct read_error error;
    size_t length = 0;
    unsigned char *bytes;
    uint32_t state = 99;

    track_path(file, track_scratch(), "f.kcap");
    bytes = write_capture(file, &length);
    for (int round = 0; round < 300; round++) {
        size_t at[4];
        unsigned char old[4];

        for (int i = 0; i < 4; i++) {
            state = state * 1103515245u + 12345u;
            /* mostly where something is written */
            at[i] = (round % 2 ? state >> 4 : (state >> 4) % (FORMAT_HEADER_BYTES + 4096)) % length;
            old[i] = bytes[at[i]];
            bytes[at[i]] = (unsigned char)(state >> 24);
        }
        read_close(read_bytes(bytes, length, &error));
        for (int i = 4; i-- > 0;)
            bytes[at[i]] = old[i];
    }
    struct read_capture *capture = read_bytes(bytes, length, &error);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->event_count, 40 * 3 + 20);
    CHECK_EQ(capture->bad_records, 0);
    read_close(capture);
    free(bytes);
}

TEST(what_is_no_capture_is_refused_in_words)
{
    unsigned char *image = image_new();
    struct read_capture *capture = NULL;
    struct read_error error;
    char file[TRACK_PATH_MAX];
    const char *directory = track_scratch();

    REQUIRE(image != NULL);
    CHECK_EQ(read_open_bytes("", 0, &capture, &error), -EBADMSG);
    CHECK_STR_EQ(error.text, "not a kedge capture");
    CHECK_EQ(read_open_bytes(image, 100, &capture, &error), -EBADMSG);
    image[8] = 3;
    CHECK_EQ(read_open_bytes(image, IMAGE_BYTES, &capture, &error), -EPROTONOSUPPORT);
    CHECK_STR_EQ(error.text, "written by another version of kedge: format 3, this kedge reads 4");
    CHECK_EQ(error.offset, 8);
    image[8] = 1;
    CHECK_EQ(read_open_bytes(image, IMAGE_BYTES, &capture, &error), -EPROTONOSUPPORT);
    CHECK_STR_EQ(error.text, "written by another version of kedge: format 1, this kedge reads 4");
    image[8] = FORMAT_VERSION;
    image[0] = 'X';
    CHECK_EQ(read_open_bytes(image, IMAGE_BYTES, &capture, NULL), -EBADMSG);
    CHECK_EQ(read_open_parts(directory, READ_ALL, &capture, &error), -EINVAL);
    CHECK_STR_EQ(error.text, "not a regular file");
    track_path(file, directory, "none");
    CHECK_EQ(read_open_parts(file, READ_ALL, &capture, &error), -ENOENT);
    REQUIRE_EQ(mkfifo(file, 0600), 0);
    CHECK_EQ(read_open_parts(file, READ_ALL, &capture, &error), -EINVAL); /* and does not wait */
    CHECK(capture == NULL);
    free(image);
}

/* The smallest good image, so that the next tests fail for their own reason. */
TEST(an_image_by_hand_is_read)
{
    unsigned char *image = image_new();
    struct read_error error;
    const struct format_live slot = {.state = 7 << 1 | 1, .addr = 5, .size = 6, .rule = -1};
    struct format_event event = {.head = FORMAT_EVENT_RESERVED, .seq = 3};
    struct read_capture *capture;

    event.u.reserved.bytes = 99;
    REQUIRE(image != NULL);
    image_put(image, IMAGE_LIVE, sizeof slot, &slot, sizeof slot);
    image_events(image, &event, 1);
    capture = read_image(image, &error);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->live_count, 1);
    CHECK_EQ(capture->live[0].seq, 7);
    CHECK_EQ(capture->event_count, 1);
    CHECK_EQ(capture->event[0].size, 99);
    CHECK_EQ(capture->bad_records, 0);
    read_close(capture);
    free(image);
}

/* Work is bounded by the file: the same bytes may not be read a thousand times. */
TEST(extents_on_each_other_count_once)
{
    unsigned char *image = image_new();
    struct format_extent extents[16];
    const struct format_live slot = {.state = 3, .addr = 5, .size = 6, .rule = -1};
    struct read_error error;
    struct read_capture *capture;
    uint32_t count = 16;

    REQUIRE(image != NULL);
    for (int i = 0; i < 16; i++)
        extents[i] = (struct format_extent){IMAGE_LIVE_AT, IMAGE_LIVE_SIZE, FORMAT_EXTENT_LIVE, 0};
    image_put(image, IMAGE_DIRECTORY, 0, extents, sizeof extents);
    image_put(image, IMAGE_HEADER, offsetof(struct format_header, extent_count), &count, 4);
    image_put(image, IMAGE_LIVE, 0, &slot, sizeof slot);
    capture = read_image(image, &error);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->live_count, 1);
    CHECK_EQ(capture->bad_records, 0);
    CHECK_EQ(capture->damaged[READ_AREA_HEADER], 15);
    CHECK(read_is_damaged(capture));
    read_close(capture);
    free(image);
}

TEST(a_stack_that_bites_its_tail_ends)
{
    unsigned char *image = image_new();
    struct read_frame frames[READ_FRAMES_MAX];
    struct read_error error;
    struct read_capture *capture;
    struct format_def_node nodes[3] = {0};

    REQUIRE(image != NULL);
    for (uint32_t i = 0; i < 3; i++)
        nodes[i].def = (struct format_def){FORMAT_DEF_NODE, sizeof nodes[0], i + 1, 0};
    nodes[0].parent = 3; /* 1 → 3 → 2 → 1 */
    nodes[1].parent = 1;
    nodes[2].parent = 2;
    image_put(image, IMAGE_DEFS, 0, nodes, sizeof nodes);
    capture = read_image(image, &error);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 1);
    CHECK_LE(read_stack(capture, 3, frames, READ_FRAMES_MAX), 3);
    CHECK_EQ(read_stack(capture, 4, frames, READ_FRAMES_MAX), 0);
    CHECK_EQ(read_stack(capture, UINT32_MAX, frames, READ_FRAMES_MAX), 0);
    read_close(capture);
    free(image);
}

/* A code object with a line table of `length` bytes that may lie about itself. */
static void put_code(unsigned char *image, size_t at, uint32_t number, uint32_t length)
{
    struct {
        struct format_def_pycode code;
        unsigned char lines[8];
    } def = {.code.def = {FORMAT_DEF_PYCODE, sizeof def, number, length},
            .code.first_line = 7,
            .code.table = FORMAT_PYTABLE_LINETABLE,
            .lines = {0, 1, 4, 1}};

    image_put(image, IMAGE_DEFS, at, &def, sizeof def);
}

TEST(python_stacks_that_make_no_sense_are_left_out)
{
    unsigned char *image = image_new();
    struct read_pyframe frames[READ_FRAMES_MAX];
    struct format_def_pynode nodes[4] = {0};
    struct read_capture *capture;
    struct read_error error;
    bool ambient = false;

    REQUIRE(image != NULL);
    put_code(image, 0, 1, 4);
    put_code(image, 48, 1, 4); /* once more */
    put_code(image, 96, 2, 9); /* longer than its record */
    for (uint32_t i = 0; i < 4; i++) {
        nodes[i].def = (struct format_def){FORMAT_DEF_PYNODE, sizeof nodes[0], i + 1, 0};
        nodes[i].code = 1;
        nodes[i].lasti = 4;
    }
    nodes[1].parent = 1;
    nodes[1].entry = 1;
    nodes[2].parent = 4; /* a circle */
    nodes[3].code = 5;   /* nobody said what that is */
    image_put(image, IMAGE_DEFS, 144, nodes, sizeof nodes);
    capture = read_image(image, &error);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 4);
    REQUIRE_EQ(read_pystack(capture, 2 | FORMAT_PYSTACK_AMBIENT, frames, READ_FRAMES_MAX, &ambient),
            2);
    CHECK(ambient);
    CHECK(frames[0].is_entry);
    CHECK(!frames[1].is_entry);
    CHECK_EQ(frames[0].first_line, 7);
    CHECK_EQ(frames[0].lasti, 4);
    CHECK_EQ(frames[0].lines_bytes, 4);
    CHECK_STR_EQ(frames[0].name, "");
    CHECK_EQ(read_pystack(capture, 1, frames, READ_FRAMES_MAX, &ambient), 1);
    CHECK(!ambient);
    CHECK_EQ(read_pystack(capture, 2, frames, 1, &ambient), 1);
    for (uint32_t i = 3; i < 6; i++)
        CHECK_EQ(read_pystack(capture, i, frames, READ_FRAMES_MAX, &ambient), 0);
    CHECK_EQ(read_pystack(capture, UINT32_MAX, frames, READ_FRAMES_MAX, &ambient), 0);
    read_close(capture);
    free(image);
}

/* Kind 0 says that a block ends; with a sum above it, it is a record, and of no kind. */
TEST(a_definition_of_kind_0_is_passed_over)
{
    unsigned char *image = image_new();
    struct read_error error;
    struct read_capture *capture;
    struct {
        struct format_def none;
        struct format_def_pair setting;
    } defs = {.none = {1u << FORMAT_DEF_KIND_BITS, sizeof defs.none, 0, 0},
            .setting.def = {FORMAT_DEF_SETTING, sizeof defs.setting, 0, 0}};

    REQUIRE(image != NULL);
    image_put(image, IMAGE_DEFS, 0, &defs, sizeof defs);
    capture = read_image(image, &error);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->setting_count, 1);
    CHECK_EQ(capture->bad_records, 1);
    read_close(capture);
    free(image);
}

TEST(unknown_kinds_are_passed_over)
{
    unsigned char *image = image_new();
    struct read_error error;
    struct read_capture *capture;
    struct {
        struct format_def unknown;
        struct format_def_pair setting;
    } defs = {.unknown = {99, sizeof defs.unknown, 0, 0},
            .setting.def = {FORMAT_DEF_SETTING, sizeof defs.setting, 0, 0}};
    struct format_event event = {.head = FORMAT_EVENT_FREE, .seq = 2};
    struct eventcode code = {{0}};
    struct format_chunk chunk = {.number = 1};
    /* two records of kind 30: with a number that no field here has, and with nothing */
    unsigned char events[EVENTCODE_ROOM + 10] = {6, 30, 0, 128, 3, 3, 4, 30, 0, 0};

    REQUIRE(image != NULL);
    image_put(image, IMAGE_DEFS, 0, &defs, sizeof defs);
    code.last[EVENTCODE_SEQ] = 2; /* each record is one number further, if it says nothing else */
    chunk.used = 10 + (uint32_t)eventcode_put(&code, &event, events + 10);
    image_put(image, IMAGE_EVENTS, 0, &chunk, sizeof chunk);
    image_put(image, IMAGE_EVENTS, sizeof chunk, events, sizeof events);
    capture = read_image(image, &error);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->setting_count, 1);
    REQUIRE_EQ(capture->event_count, 1);
    CHECK_EQ(capture->event[0].seq, 2);
    CHECK_EQ(capture->bad_records, 3);
    read_close(capture);
    free(image);
}

/* ---- while it is written ---- */

static _Atomic bool stop;
static _Atomic uint64_t written;

/* size and address say the same, so that a mixture of two records shows */
static void *write_on(void *argument)
{
    uint64_t seq = 0;

    (void)argument;
    while (!stop) {
        /* a batch in, and out in the same order: slots get other tenants each time */
        for (uint64_t i = 0; i < 500; i++)
            (void)track_alloc((0x100 + i) << 12, 0x100 + i, ++seq);
        for (uint64_t i = 0; i < 500; i++)
            (void)track_free((0x100 + i * 7 % 500) << 12, ++seq);
        written = seq;
    }
    return NULL;
}

/* A running process: chunks are recycled and slots rewritten under the reader. No record may be torn or misordered. */
TEST(a_running_capture_is_read)
{
    char file[TRACK_PATH_MAX];
    pthread_t writer;
    size_t good = 0;

    track_path(file, track_scratch(), "run.kcap");
    track_start(file, FORMAT_TRACE_RING, 1u << 20);
    REQUIRE_EQ(capstate_open(), 0);
    REQUIRE_EQ(pthread_create(&writer, NULL, write_on, NULL), 0);
    while (written < 250000)
        (void)usleep(100); /* the ring has turned */
    for (int round = 0; round < 8; round++) {
        struct read_capture *capture = track_read(file);

        REQUIRE(capture != NULL);
        CHECK_EQ(capture->bad_records, 0);
        for (size_t i = 0; i < capture->event_count; i++) {
            good++;
            if (capture->event[i].size != capture->event[i].addr >> 12)
                CHECK_EQ(capture->event[i].size, capture->event[i].addr >> 12);
        }
        for (size_t i = 0; i < capture->live_count; i++)
            if (capture->live[i].size != capture->live[i].addr >> 12)
                CHECK_EQ(capture->live[i].size, capture->live[i].addr >> 12);
        read_close(capture);
    }
    stop = true;
    (void)pthread_join(writer, NULL);
    CHECK_GT(good, 0);
}

#define MOVERS 30000u
#ifdef __SANITIZE_THREAD__
#    define MOVED_ROUNDS 20 /* a race is seen in any of them */
#else
#    define MOVED_ROUNDS 100
#endif

/* All addresses live nearly all the time, and go from slot to slot. */
static void *move_on(void *argument)
{
    uint64_t seq = 0;

    (void)argument;
    for (uint64_t i = 1; i <= MOVERS; i++)
        (void)track_alloc(i << 12, 10, ++seq);
    written = seq;
    for (uint64_t first = 1; !stop; first = (first + 777) % (MOVERS - 2000) + 1) {
        for (uint64_t i = 0; i < 2000; i++)
            (void)track_free((first + i) << 12, ++seq);
        for (uint64_t i = 0; i < 2000; i++)
            (void)track_alloc((first + i) << 12, 10, ++seq);
    }
    return NULL;
}

/* The table is read in parts: what went on to a slot that is read later is not there twice. */
TEST(a_block_that_moves_under_the_reader_lives_once)
{
    static unsigned char is_seen[MOVERS + 1];
    char file[TRACK_PATH_MAX];
    pthread_t writer;

    track_path(file, track_scratch(), "move.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
    REQUIRE_EQ(pthread_create(&writer, NULL, move_on, NULL), 0);
    while (written < MOVERS)
        (void)usleep(100);
    for (int round = 0; round < MOVED_ROUNDS; round++) {
        struct read_capture *capture = track_read(file);
        size_t twice = 0;

        REQUIRE(capture != NULL);
        memset(is_seen, 0, sizeof is_seen);
        for (size_t i = 0; i < capture->live_count; i++) {
            REQUIRE(capture->live[i].addr >> 12 <= MOVERS);
            twice += is_seen[capture->live[i].addr >> 12]++;
            if (i > 0)
                CHECK_GT(capture->live[i].seq, capture->live[i - 1].seq);
        }
        CHECK_EQ(twice, 0);
        CHECK_GT(capture->live_count, MOVERS / 2);
        read_close(capture);
    }
    stop = true;
    (void)pthread_join(writer, NULL);
}

/* Each allocation has a path and a stack that nobody had before, and stays: all areas grow under the reader. */
static void *grow_on(void *argument)
{
    uint64_t seq = 0;

    (void)argument;
    while (seq < 40000) {
        struct intern_frame frame = {0, ++seq};
        struct tag tag = track_tag(seq);
        struct capture_alloc_info info = {.tag = &tag, .ptr = seq << 12, .seq = seq, .rule = -1};
        char text[32];

        (void)snprintf(text, sizeof text, "path %lu", (unsigned long)seq);
        tag.path = intern_text(intern_string(text, strlen(text)));
        tag.anchor = 1;
        tag.stack = intern_stack(&frame, 1);
        CHECK_EQ(capture_alloc(&info), 0);
        written = seq;
        if (seq % 16 == 0)
            (void)usleep(20);
    }
    return NULL;
}

static void check_words(uint64_t seq, const char *path, uint32_t stack)
{
    char text[32];

    (void)snprintf(text, sizeof text, "path %lu", (unsigned long)seq);
    if (strcmp(path, text) != 0)
        CHECK_STR_EQ(path, text);
    if (stack == 0)
        CHECK_NE(stack, 0);
}

/* What is there is named, and lies in the file: definitions and extents that came while it was read are known, too. */
TEST(a_growing_capture_is_read_with_its_words)
{
    char file[TRACK_PATH_MAX];
    pthread_t writer;
    size_t last = 0;

    track_path(file, track_scratch(), "grow.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    REQUIRE_EQ(capstate_open(), 0);
    REQUIRE_EQ(pthread_create(&writer, NULL, grow_on, NULL), 0);
    while (written < 1000)
        (void)usleep(100);
    while (last < 40000) {
        struct read_capture *capture = track_read(file);

        REQUIRE(capture != NULL);
        CHECK_EQ(capture->bad_records, 0);
        for (size_t i = 0; i < capture->event_count; i++)
            check_words(capture->event[i].seq, capture->event[i].path, capture->event[i].stack);
        for (size_t i = 0; i < capture->live_count; i++)
            check_words(capture->live[i].seq, capture->live[i].path, capture->live[i].stack);
        for (size_t i = 0; i < capture->place_count; i++)
            if (!capture->place[i].is_other && capture->place[i].stack == 0)
                CHECK_NE(capture->place[i].stack, 0);
        CHECK_GE(capture->event_count, last);
        last = capture->event_count;
        read_close(capture);
    }
    (void)pthread_join(writer, NULL);
}

/* ---- files made by the document ---- */

/* Bytes from the text form of tests/replay: lines "offset: hex", all else zero; the first line is "bytes N". */
static unsigned char *read_hex(const char *path, size_t *ret_length)
{
    FILE *file = fopen(path, "r");
    unsigned char *bytes = NULL;
    char line[4096];
    unsigned long length = 0;

    REQUIRE(file != NULL);
    while (fgets(line, sizeof line, file)) {
        char *at = line;
        unsigned long offset;

        if (line[0] == '#')
            continue;
        if (!bytes) {
            REQUIRE_EQ(sscanf(line, "bytes %lu", &length), 1); // NOLINT(cert-err34-c)
            bytes = calloc(1, length);
            REQUIRE(bytes != NULL);
            continue;
        }
        offset = strtoul(at, &at, 16);
        REQUIRE_EQ(*at, ':');
        for (at++; *at == ' '; at += 3)
            if (offset < length)
                bytes[offset++] = (unsigned char)strtoul(at + 1, NULL, 16);
    }
    (void)fclose(file);
    *ret_length = length;
    return bytes;
}

static void check_sample_blocks(const struct read_capture *capture)
{
    const struct read_event *event = capture->event;

    for (uint64_t i = 0; i < 3; i++) {
        CHECK_EQ(event[1 + i].kind, FORMAT_EVENT_ALLOC);
        CHECK_EQ(event[1 + i].seq, 2 + i);
        CHECK_EQ(event[1 + i].time_ns, 1000 * (2 + i));
        CHECK_EQ(event[1 + i].thread, 1);
        CHECK_EQ(event[1 + i].device, 0);
        CHECK_EQ(event[1 + i].flags, FORMAT_ALLOC_STREAM);
        CHECK_EQ(event[1 + i].addr, 0x7f0000000000 + i * 0x400000);
        CHECK_EQ(event[1 + i].size, 3538944);
        CHECK_EQ(event[1 + i].stream, 0x5eed);
        CHECK_EQ(event[1 + i].stack, 2);
        CHECK_EQ(event[1 + i].pystack, 9);
        CHECK_EQ(event[1 + i].nth, i);
        CHECK_EQ(event[1 + i].instance, 16);
        CHECK_STR_EQ(event[1 + i].path, "SOT_CALL_0");
    }
    CHECK_EQ(event[4].kind, FORMAT_EVENT_FREE);
    CHECK_EQ(event[4].addr, 0x7f0000000000);
    CHECK_EQ(event[4].size, 3538944);
    CHECK_EQ(event[4].stream, 0);
    CHECK_EQ(event[4].stack, 1);
    CHECK_EQ(event[4].pystack, 8);
    CHECK_EQ(event[4].uses.first_use, 2500);
    CHECK_EQ(event[4].uses.last_use, 4750);
    CHECK_EQ(event[4].uses.longest_gap, 2000);
    CHECK_EQ(event[4].uses.gap_end, 4700);
    CHECK_EQ(event[10].kind, FORMAT_EVENT_OTHER_FREE);
    CHECK_EQ(event[10].thread, 2);
    CHECK_EQ(event[10].seq, 19);
    CHECK_EQ(event[10].time_ns, UINT64_MAX);
    CHECK_EQ(event[10].addr, UINT64_C(1) << 63);
    CHECK_EQ(event[10].size, UINT64_C(1) << 63);
    CHECK_EQ(event[10].uses.last_use, 1);
    CHECK_EQ(event[11].kind, FORMAT_EVENT_OTHER_ALLOC);
    CHECK_EQ(event[11].device, 3);
    CHECK_EQ(event[11].memclass, MEMCLASS_HOST);
    CHECK_EQ(event[11].addr, UINT64_MAX);
    CHECK_EQ(event[11].size, UINT64_MAX);
    CHECK_EQ(event[11].nth, UINT32_MAX);
}

/* What the text of FORMAT.md leads to, in other hands than those that wrote our code. */
TEST(a_capture_by_the_document_is_read)
{
    struct read_error error;
    struct read_capture *capture;
    const struct read_event *event;
    size_t length = 0;
    unsigned char *bytes = read_hex(SOURCE_DIRECTORY "/tests/replay/capture_v4.hex", &length);

    REQUIRE(bytes != NULL);
    capture = read_bytes(bytes, length, &error);
    free(bytes);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 0);
    CHECK(!read_is_damaged(capture));
    REQUIRE_EQ(capture->live_count, 2);
    CHECK_EQ(capture->live[0].pystack, 9);
    CHECK_EQ(capture->live[0].uses.first_use, 4000);
    CHECK_EQ(capture->live[0].uses.gap_end, 8000);
    CHECK_EQ(capture->live[1].addr, 0x7f0000800000);
    CHECK_EQ(capture->live[1].nth, 1);
    REQUIRE_EQ(capture->event_count, 12);
    event = capture->event;
    CHECK_EQ(event[0].edge, EDGE_ENTER);
    CHECK_EQ(event[0].anchor, 17);
    CHECK_EQ(event[5].edge, EDGE_EXIT);
    CHECK_EQ(event[5].before_start, true);
    CHECK_EQ(event[6].what, FORMAT_HINT_WOULD_RELEASE);
    CHECK_EQ(event[6].rule, 0);
    CHECK_EQ(event[6].device, -1);
    CHECK_EQ(event[6].result, 201);
    CHECK_EQ(event[7].rule, -1);
    CHECK_EQ(event[7].addr, 0x7f0000000001);
    CHECK_EQ(event[7].instance, 0);
    CHECK_EQ(event[8].heap, 0x55aa);
    CHECK_EQ(event[8].size, 1u << 24);
    CHECK_EQ(event[9].size, UINT64_C(1) << 40);
    CHECK_EQ(event[9].free_bytes, UINT64_MAX);
    CHECK_EQ(event[9].largest_free, 12345);
    CHECK_EQ(event[9].pystack, 9);
    check_sample_blocks(capture);
    REQUIRE_EQ(capture->place_count, 2);
    CHECK_EQ(capture->place[0].high_bytes, 2 * 3538944);
    CHECK_EQ(capture->place[0].high_count, 2);
    CHECK_EQ(capture->place[1].high_bytes, 3538944);
    CHECK_EQ(capture->place[1].pystack, 9);
    CHECK_EQ(capture->high[0].seq, 4);
    read_close(capture);
}

TEST(a_capture_with_reasons_of_failures_is_read)
{
    struct read_error error;
    struct read_capture *capture;
    const struct format_oom *what;
    size_t length = 0;
    unsigned char *bytes = read_hex(SOURCE_DIRECTORY "/tests/replay/capture_oom.hex", &length);

    REQUIRE(bytes != NULL);
    capture = read_bytes(bytes, length, &error);
    free(bytes);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 0);
    CHECK_EQ(capture->oom_count, 19);
    REQUIRE_EQ(capture->oom_record_count, 2);
    CHECK_EQ(capture->oom[0].number, 1);
    CHECK_EQ(capture->oom[1].number, 19);
    CHECK_EQ(capture->oom[1].what.holder_count, 0);
    CHECK_STR_EQ(capture->oom[0].call, "cuMemAllocAsync");
    CHECK_STR_EQ(capture->oom[0].path, "step/forward");
    what = &capture->oom[0].what;
    CHECK_EQ(what->requested, UINT64_C(686) << 20);
    CHECK_EQ(what->stream, 0x5eed);
    CHECK_EQ(what->flags, FORMAT_OOM_HEAPS | FORMAT_OOM_STREAM);
    CHECK_EQ(what->free_bytes, UINT64_C(27) << 20);
    CHECK_EQ(what->native_bytes, UINT64_C(3) << 20);
    CHECK_EQ(what->heaps.held, UINT64_C(81254) << 20);
    CHECK_EQ(what->heaps.live_high, UINT64_C(60000) << 20);
    CHECK_EQ(what->heaps.largest_free, UINT64_C(512) << 20);
    CHECK_EQ(what->heaps.remappable, UINT64_C(1024) << 20);
    CHECK_EQ(what->heaps.husk, UINT64_C(2) << 20);
    CHECK_EQ(what->free_elsewhere, UINT64_C(1400) << 20);
    CHECK_EQ(what->ladder.trimmed_bytes, UINT64_C(64) << 20);
    CHECK_EQ(what->ladder.waits, 5);
    CHECK_EQ(what->ladder.attempts, 2);
    CHECK_EQ(what->other_bytes, UINT64_C(11) << 20);
    REQUIRE_EQ(what->holder_count, 2);
    CHECK_EQ(what->holder[0].bytes, UINT64_C(50000) << 20);
    CHECK_EQ(what->holder[0].count, 700);
    CHECK_EQ(what->holder[0].stack, 2);
    read_close(capture);
}
