/* SPDX-License-Identifier: MIT */
/*
 * kedge-replay: the allocations of a recorded program, made again through the CUDA runtime.
 *
 * Each tensor is filled with a pattern on its stream when it is born and looked at before it is freed. The look is a copy to
 * pinned memory on the same stream, judged later, so that the host never waits where a real program would not: a free follows
 * the copy at once, as in a trainer. What two tensors share by mistake shows as a wrong pattern.
 *
 * Large tensors are filled and checked in their first and last 4 KiB and one 4 KiB page per 2 MiB.
 */
#include "tests/bench/rtcalls.h"
#include "tools/base/rowtrace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/args.h"
#include "tools/base/cmdexit.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"

#define PAGE       4096u
#define STEP       (2u << 20)
#define PIECES     4u    /* of a tensor's first page, each with a byte of its own */
#define SLOT_COUNT 8192u /* pages waiting to be judged: 32 MiB of pinned memory */

struct fields {
    const char *api;
    const char *steps;
    uint64_t passes;
    bool streams, json;
};

static const struct args_option options[] = {
        {"api", "WHICH", "stream (cudaMallocAsync, the default) or sync (cudaMalloc)", ARGS_TEXT,
                offsetof(struct fields, api)},
        {"passes", "N", "replay the trace N times", ARGS_UINT, offsetof(struct fields, passes)},
        {"streams", NULL, "one stream for each that the trace names", ARGS_FLAG,
                offsetof(struct fields, streams)},
        {"steps", "WHICH", "say START step and END step around each pass, or each N rows",
                ARGS_TEXT, offsetof(struct fields, steps)},
        {"json", NULL, "machine-readable output", ARGS_FLAG, offsetof(struct fields, json)},
};

/* A page on its way to the host. */
struct slot {
    uint32_t block;
    uint32_t pass;
    uint64_t offset;
    uint32_t length;
};

struct replay {
    struct rtcalls rt;
    struct rowtrace steps;
    bool sync;
    void **streams; /* per stream of the trace */
    void *event;    /* for streams that wait for each other */
    void **ptrs;    /* per block, NULL = not live */
    unsigned char *landing;
    struct slot *slots;
    size_t slot_count;
    uint64_t live, peak, allocations, pages, checksum;
    uint32_t pass;
    uint64_t step_rows; /* rows of the trace that a step has; 0 = steps are not told */
};

static int replay_main_fail(const struct replay *replay, const char *call, int error)
{
    (void)fprintf(stderr, "kedge-replay: %s: %s\n", call, replay->rt.error_string(error));
    return CMD_NO;
}

/* The byte that piece `piece` of the page at `offset` of a block holds in a pass. */
static unsigned char pattern(uint64_t id, uint32_t pass, uint64_t offset, uint32_t piece)
{
    uint64_t x = (id + 1) * 0x9e3779b97f4a7c15u + offset * 0xd6e8feb86659fd93u + (uint64_t)pass * 31
            + piece;

    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return (unsigned char)(x >> 56);
}

/*
 * The next page of a block that is filled and checked, at `*io_offset` or behind it; its length, 0 if there is none: the first
 * page, one per STEP, and the last PAGE bytes (less of them if the block is shorter than two pages).
 */
static uint32_t page_at(uint64_t size, uint64_t *io_offset)
{
    uint64_t last = size >= (uint64_t)2 * PAGE ? size - PAGE : PAGE;

    if (*io_offset == 0)
        return size < PAGE ? (uint32_t)size : PAGE;
    if (size <= PAGE || *io_offset > last)
        return 0;
    uint64_t stepped = (*io_offset + STEP - 1) / STEP * STEP;
    if (stepped + PAGE <= last) {
        *io_offset = stepped;
        return PAGE;
    }
    *io_offset = last;
    return (uint32_t)(size - last);
}

/* How long the piece at `at` of a page is: the last one takes what does not divide. */
static uint32_t piece_length(uint64_t offset, uint32_t length, uint32_t at)
{
    uint32_t size = offset == 0 && length >= PIECES ? length / PIECES : length;

    return length - at < 2 * size ? length - at : size;
}

static int replay_main_fill(struct replay *replay, uint32_t index)
{
    const struct rowtrace_block *block = &replay->steps.blocks[index];
    unsigned char *ptr = replay->ptrs[index];
    void *stream = replay->streams[block->stream];
    uint64_t offset = 0;
    uint32_t length;

    while ((length = page_at(block->size, &offset)) != 0) {
        uint32_t at = 0;
        for (uint32_t piece = 0; at < length; piece++) {
            uint32_t n = piece_length(offset, length, at);
            int error = replay->rt.memset_async(
                    ptr + offset + at, pattern(block->id, replay->pass, offset, piece), n, stream);
            if (error)
                return replay_main_fail(replay, "cudaMemsetAsync", error);
            at += n;
        }
        offset += length;
    }
    return CMD_DONE;
}

static int replay_main_complain(const struct replay *replay, const struct slot *slot, uint32_t at,
        unsigned char want, unsigned char found)
{
    const struct rowtrace_block *block = &replay->steps.blocks[slot->block];

    (void)fprintf(stderr,
            "kedge-replay: tensor %" PRIu64 " (%" PRIu64 " bytes, pass %" PRIu32 "): byte %" PRIu64
            " is 0x%02x, should be 0x%02x\n",
            block->id, block->size, slot->pass + 1, slot->offset + at, found, want);
    return CMD_NO;
}

static int judge_slot(struct replay *replay, const struct slot *slot, const unsigned char *bytes)
{
    uint64_t id = replay->steps.blocks[slot->block].id;
    uint32_t at = 0;

    for (uint32_t piece = 0; at < slot->length; piece++) {
        uint32_t n = piece_length(slot->offset, slot->length, at);
        unsigned char want = pattern(id, slot->pass, slot->offset, piece);
        for (uint32_t i = 0; i < n; i++) {
            if (bytes[at + i] != want)
                return replay_main_complain(replay, slot, at + i, want, bytes[at + i]);
        }
        replay->checksum = (replay->checksum ^ want) * 0x100000001b3u;
        at += n;
    }
    replay->pages++;
    return CMD_DONE;
}

/* Waits for the device and judges every page that has landed. */
static int judge_all(struct replay *replay)
{
    int error = replay->rt.device_synchronize();
    int r = CMD_DONE;

    if (error)
        return replay_main_fail(replay, "cudaDeviceSynchronize", error);
    for (size_t i = 0; i < replay->slot_count && r == CMD_DONE; i++)
        r = judge_slot(replay, &replay->slots[i], replay->landing + i * PAGE);
    replay->slot_count = 0;
    return r;
}

/* Sends the pages of a block to the host. */
static int replay_main_look(struct replay *replay, uint32_t index)
{
    const struct rowtrace_block *block = &replay->steps.blocks[index];
    const unsigned char *ptr = replay->ptrs[index];
    void *stream = replay->streams[block->stream];
    uint64_t offset = 0;
    uint32_t length;

    while ((length = page_at(block->size, &offset)) != 0) {
        int r = replay->slot_count == SLOT_COUNT ? judge_all(replay) : CMD_DONE;
        if (r != CMD_DONE)
            return r;
        replay->slots[replay->slot_count] = (struct slot){index, replay->pass, offset, length};
        int error = replay->rt.memcpy_async(replay->landing + replay->slot_count * PAGE,
                ptr + offset, length, RTCALLS_COPY_TO_HOST, stream);
        if (error)
            return replay_main_fail(replay, "cudaMemcpyAsync", error);
        replay->slot_count++;
        offset += length;
    }
    return CMD_DONE;
}

static int birth(struct replay *replay, uint32_t index)
{
    const struct rowtrace_block *block = &replay->steps.blocks[index];
    void *stream = replay->streams[block->stream];
    int error = replay->sync ? replay->rt.malloc(&replay->ptrs[index], block->size)
                             : replay->rt.malloc_async(&replay->ptrs[index], block->size, stream);

    if (error) {
        replay->ptrs[index] = NULL;
        (void)fprintf(stderr, "kedge-replay: tensor %" PRIu64 " of %" PRIu64 " bytes: %s\n",
                block->id, block->size, replay->rt.error_string(error));
        return CMD_NO;
    }
    replay->allocations++;
    replay->live += block->size;
    if (replay->live > replay->peak)
        replay->peak = replay->live;
    return replay_main_fill(replay, index);
}

/* Work of one stream goes on behind that of another. */
static int put_behind(const struct replay *replay, void *stream, void *other)
{
    int error = stream == other ? 0 : replay->rt.event_record(replay->event, other);

    if (error)
        return replay_main_fail(replay, "cudaEventRecord", error);
    error = stream == other ? 0 : replay->rt.stream_wait_event(stream, replay->event, 0);
    return error ? replay_main_fail(replay, "cudaStreamWaitEvent", error) : CMD_DONE;
}

/* Freed on `stream`, which waits for the stream of the block. */
static int death(struct replay *replay, uint32_t index, void *stream)
{
    const struct rowtrace_block *block = &replay->steps.blocks[index];
    int r = replay_main_look(replay, index);

    if (r == CMD_DONE && !replay->sync)
        r = put_behind(replay, stream, replay->streams[block->stream]);
    if (r != CMD_DONE)
        return r;
    int error = replay->sync ? replay->rt.free(replay->ptrs[index])
                             : replay->rt.free_async(replay->ptrs[index], stream);
    if (error)
        return replay_main_fail(replay, "free", error);
    replay->ptrs[index] = NULL;
    replay->live -= block->size;
    return CMD_DONE;
}

/* For kedge's KEDGE_ANCHORS=log, or a reader. Standard output has the result alone. */
static void replay_main_tell_step(const struct replay *replay, const char *edge)
{
    if (replay->step_rows)
        (void)fprintf(stderr, "%s step\n", edge);
}

static int run_pass(struct replay *replay)
{
    int r = CMD_DONE;

    replay_main_tell_step(replay, "START");
    for (size_t i = 0; i < replay->steps.row_count && r == CMD_DONE; i++) {
        const struct rowtrace_row *row = &replay->steps.rows[i];

        if (i > 0 && replay->step_rows && i % replay->step_rows == 0) {
            replay_main_tell_step(replay, "END");
            replay_main_tell_step(replay, "START");
        }
        r = row->is_free ? death(replay, row->block, replay->streams[row->stream])
                         : birth(replay, row->block);
    }
    for (size_t i = 0; i < replay->steps.block_count && r == CMD_DONE; i++) {
        if (replay->ptrs[i])
            r = death(replay, (uint32_t)i, replay->streams[replay->steps.blocks[i].stream]);
    }
    replay_main_tell_step(replay, "END");
    return r == CMD_DONE ? judge_all(replay) : r;
}

static int make_streams(struct replay *replay, bool wanted)
{
    replay->streams = vec_new(replay->steps.stream_count, sizeof(*replay->streams));
    for (size_t i = 0; wanted && i < replay->steps.stream_count; i++) {
        /* Number 0 is the default stream in the recording, too. */
        int error = replay->steps.streams[i] == 0
                ? 0
                : replay->rt.stream_create(&replay->streams[i], RTCALLS_STREAM_NON_BLOCKING);
        if (error)
            return replay_main_fail(replay, "cudaStreamCreateWithFlags", error);
    }
    int error = replay->rt.event_create(&replay->event, RTCALLS_EVENT_NO_TIMING);
    return error ? replay_main_fail(replay, "cudaEventCreateWithFlags", error) : CMD_DONE;
}

static void print_result(const struct replay *replay, bool as_json)
{
    if (as_json) {
        struct json json = json_open(stdout);
        char text[17];
        (void)snprintf(text, sizeof(text), "%016" PRIx64, replay->checksum);
        json_uint(&json, "allocations", replay->allocations);
        json_uint(&json, "peak_live_bytes", replay->peak);
        json_uint(&json, "pages_checked", replay->pages);
        json_text(&json, "checksum", text);
        json_end(&json, '}');
        return;
    }
    printf("allocations: %" PRIu64 "\n", replay->allocations);
    printf("peak live bytes: %" PRIu64 "\n", replay->peak);
    printf("pages checked: %" PRIu64 "\n", replay->pages);
    printf("checksum: %016" PRIx64 "\n", replay->checksum);
}

static int replay_main_replay_all(struct replay *replay, const struct fields *fields)
{
    int r = make_streams(replay, fields->streams);
    int error = replay->rt.host_alloc((void **)&replay->landing, (size_t)SLOT_COUNT * PAGE, 0);

    if (r != CMD_DONE)
        return r;
    if (error)
        return replay_main_fail(replay, "cudaHostAlloc", error);
    replay->slots = vec_new(SLOT_COUNT, sizeof(*replay->slots));
    replay->ptrs = vec_new(replay->steps.block_count, sizeof(*replay->ptrs));
    replay->checksum = 0xcbf29ce484222325u;
    uint64_t passes = fields->passes ? fields->passes : 1;
    for (uint64_t pass = 0; pass < passes && r == CMD_DONE; pass++) {
        replay->pass = (uint32_t)pass;
        r = run_pass(replay);
    }
    if (r == CMD_DONE)
        print_result(replay, fields->json);
    for (size_t i = 0; i < replay->steps.stream_count; i++) {
        if (replay->streams[i])
            (void)replay->rt.stream_destroy(replay->streams[i]);
    }
    (void)replay->rt.event_destroy(replay->event);
    (void)replay->rt.host_free(replay->landing);
    free(replay->slots);
    free((void *)replay->ptrs);
    return r;
}

static int open_runtime(struct replay *replay)
{
    const char *why = "";
    int count = 0;
    int r = rtcalls_open(&replay->rt, &why);

    if (r < 0) {
        (void)fprintf(stderr, "kedge-replay: %s: %s\n", why,
                r == -ENOENT ? "no CUDA runtime here" : "missing in the CUDA runtime");
        return CMD_CANNOT;
    }
    int error = replay->rt.device_count(&count);
    if (error || count == 0) {
        (void)fprintf(stderr, "kedge-replay: %s\n",
                error ? replay->rt.error_string(error) : "no CUDA device here");
        return CMD_CANNOT;
    }
    return CMD_DONE;
}

/* "pass", or a number of rows from 1. */
static int read_steps(const char *text, uint64_t *ret_rows)
{
    char *end = NULL;

    errno = 0;
    *ret_rows = strcmp(text, "pass") == 0 ? UINT64_MAX : strtoull(text, &end, 10);
    if ((!end || (*end == '\0' && *text >= '1' && *text <= '9')) && errno == 0)
        return CMD_DONE;
    (void)fprintf(stderr, "kedge-replay: --steps %s: pass, or a number of rows\n", text);
    return CMD_BAD;
}

static int run(const struct fields *fields, const char *path)
{
    struct replay replay = {.sync = fields->api && strcmp(fields->api, "sync") == 0};
    int r = fields->steps ? read_steps(fields->steps, &replay.step_rows) : CMD_DONE;

    if (r != CMD_DONE)
        return r;

    if (fields->api && !replay.sync && strcmp(fields->api, "stream") != 0) {
        (void)fprintf(stderr, "kedge-replay: --api %s: stream or sync\n", fields->api);
        return CMD_BAD;
    }
    if (rowtrace_read(path, &replay.steps) < 0) {
        (void)fprintf(stderr, "%s\n", replay.steps.error);
        rowtrace_done(&replay.steps);
        return CMD_BAD;
    }
    r = open_runtime(&replay);
    if (r == CMD_DONE)
        r = replay_main_replay_all(&replay, fields);
    free((void *)replay.streams);
    rowtrace_done(&replay.steps);
    return r;
}

int main(int argc, char **argv)
{
    static const char usage[] = "usage: kedge-replay [options] TRACE.csv\n";
    struct args_spec spec = {
            .command = "kedge-replay", .options = options, .option_count = CMD_COUNT(options)};
    struct fields fields = {0};
    char **words = vec_new((size_t)argc, sizeof(*words));
    int count = 0;
    int r = CMD_BAD;

    render_guard_messages();
    switch (args_parse(&spec, argc - 1, argv + 1, &fields, words, &count)) {
    case ARGS_HELP:
        (void)fputs(usage, stdout);
        (void)puts("\nReplays recorded allocations through the CUDA runtime.\n");
        args_print_options(stdout, options, CMD_COUNT(options));
        r = CMD_DONE;
        break;
    case ARGS_BAD:
        break;
    case ARGS_OK:
        if (count == 1)
            r = run(&fields, words[0]);
        else
            (void)fputs(usage, stderr);
        break;
    }
    free((void *)words);
    return r;
}
