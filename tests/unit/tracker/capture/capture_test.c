/* SPDX-License-Identifier: MIT */
/* covers: capture.c capevents.c caplive.c caplog.c capplace.c capstate.c liveuse.c */
#include "tests/unit/tracker/track_help.h"

#include "tracker/format/eventcode.h"
#include "tracker/stacks/intern.h"
#include "tracker/stacks/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static const struct read_event *first_event(
        const struct read_capture *capture, enum format_event_kind kind)
{
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].kind == kind)
            return &capture->event[i];
    return NULL;
}

static size_t count_events(const struct read_capture *capture, enum format_event_kind kind)
{
    size_t count = 0;

    for (size_t i = 0; i < capture->event_count; i++)
        count += capture->event[i].kind == kind;
    return count;
}

TEST(what_was_written_is_read)
{
    struct read_capture *capture;
    struct edge enter, leave;
    struct tag tag;
    char file[TRACK_PATH_MAX];
    char host[65] = "";

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    track_path(file, track_scratch(), "a.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(capture_setting("KEDGE_MODE", "pool"), 0);
    REQUIRE_EQ(anchor_push(NULL, "SOT_CALL_0", &enter), 0);
    CHECK_EQ(capture_edge(&enter, 1),
            0); /* before the file exists: the range is written when it opens */
    REQUIRE_EQ(where_am_i(NULL, 3538944, 0, &tag), 0);
    struct capture_alloc_info info = {
            .tag = &tag,
            .ptr = 0x7f0000000000,
            .seq = 2,
            .stream = 77,
            .api = API_STREAM,
            .rule = 3,
    };
    CHECK_EQ(capture_alloc(&info), 0);
    info.ptr = 0x7f0000400000;
    info.seq = 3;
    info.rule = -1;
    CHECK_EQ(capture_alloc(&info), 0);
    CHECK_EQ(track_free(0x7f0000000000, 4), 0);
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    CHECK_EQ(capture_edge(&leave, 5), 0);
    CHECK_EQ(capture_device(0, "Simulated", 80u << 20, 13000), 0);
    CHECK_EQ(capture_coverage("cuMemAlloc_v2", "dlsym", 1), 0);
    CHECK_EQ(capture_coverage("cuMemAlloc_v2", "dlsym", 5), 0);
    CHECK_EQ(capture_coverage("cuMemAlloc_v2", "symbol", 2), 0);
    CHECK_EQ(capture_note(1, "a note"), 0);
    CHECK_EQ(capture_hints("hints.yaml", 0xabcdef, HINT_LIVE, 1), 0);
    struct rule rule = {.id = "first", .action = ACTION_RELEASE, .mode = HINT_LIVE, .line = 9};
    CHECK_EQ(capture_rule(0, &rule), 0);
    rule.id[0] = 's'; /* "sirst" */
    CHECK_EQ(capture_rule(1, &rule), 0);
    struct hintwords_drift drift = {
            .expect = {{2, 3}, {4, 5}}, .seen = {6, 7}, .path = "SOT_CALL_1", .instance = 8};
    CHECK_EQ(capture_drift(1, &drift), 0);
    CHECK_EQ(capture_drift(2, &drift), 0); /* of no rule */
    capture_state(FORMAT_STATE_CLEAN, 0);

    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->state, FORMAT_STATE_CLEAN);
    CHECK_EQ(capture->pid, (uint32_t)getpid());
    REQUIRE_EQ(gethostname(host, sizeof host - 1), 0);
    CHECK_STR_EQ(capture->host, host);
    CHECK_EQ(capture->bad_records, 1); /* the drift of no rule */
    CHECK_EQ(capture->has_all_events, true);
    CHECK(strstr(capture->exe, "capture_test") != NULL);
    CHECK(capture->argc >= 1);
    REQUIRE_EQ(capture->live_count, 1);
    CHECK_EQ(capture->live[0].addr, 0x7f0000400000);
    CHECK_EQ(capture->live[0].size, 3538944);
    CHECK_STR_EQ(capture->live[0].path, "SOT_CALL_0");
    CHECK_EQ(capture->live[0].seq, 3);
    CHECK_EQ(capture->live[0].rule, -1);
    CHECK_EQ(capture->total.allocated_bytes, 2 * 3538944);
    CHECK_EQ(capture->peak_stored_512, 2 * 3538944);
    CHECK_EQ(capture->total.freed_bytes, 3538944);
    CHECK_EQ(capture->total.peak_bytes, 2 * 3538944);
    CHECK_EQ(capture->device_total[0].live_bytes, 3538944);

    REQUIRE_EQ(capture->event_count, 5);
    const struct read_event *event = capture->event;
    CHECK_EQ(event[0].kind, FORMAT_EVENT_EDGE);
    CHECK_EQ(event[0].before_start, true);
    CHECK_EQ(event[0].anchor, enter.anchor);
    CHECK_STR_EQ(event[0].path, "SOT_CALL_0");
    CHECK_EQ(event[1].kind, FORMAT_EVENT_ALLOC);
    CHECK_EQ(event[1].rule, -1); /* the plan is a hint event of its own */
    CHECK_EQ(event[1].flags, FORMAT_ALLOC_STREAM | FORMAT_ALLOC_HINTED);
    CHECK_EQ(event[1].stream, 77);
    CHECK_EQ(event[1].nth, 0);
    CHECK(event[1].stack != 0);
    CHECK_EQ(read_site(capture, event[1].stack), tag.site);
    CHECK_EQ(event[3].kind, FORMAT_EVENT_FREE);
    CHECK_EQ(event[3].size, 3538944);
    CHECK_STR_EQ(event[3].path, "SOT_CALL_0");
    CHECK_EQ(event[4].edge, EDGE_EXIT);
    CHECK_EQ(event[4].seq, 5);

    struct read_frame frames[READ_FRAMES_MAX];
    unsigned depth = read_stack(capture, event[1].stack, frames, READ_FRAMES_MAX);
    REQUIRE(depth >= 2);
    REQUIRE(frames[0].module != NULL);
    CHECK_EQ(frames[0].module->is_main, true);
    CHECK(strstr(frames[0].module->path, "capture_test") != NULL);

    REQUIRE_EQ(capture->coverage_count, 2);
    CHECK_STR_EQ(capture->coverage[0].route, "dlsym");
    CHECK_EQ(capture->coverage[0].count, 5);
    REQUIRE_EQ(capture->setting_count, 1);
    CHECK_STR_EQ(capture->setting[0].name, "KEDGE_MODE");
    REQUIRE_EQ(capture->note_count, 1);
    CHECK_STR_EQ(capture->note[0].text, "a note");
    REQUIRE_EQ(capture->device_count, 1);
    CHECK_EQ(capture->device[0].driver_version, 13000);
    CHECK_EQ(capture->hints_hash, 0xabcdef);
    CHECK_STR_EQ(capture->hints_path, "hints.yaml");
    REQUIRE_EQ(capture->rule_count, 2);
    CHECK_STR_EQ(capture->rule[0].id, "first");
    CHECK(!capture->rule[0].has_drifted);
    CHECK(capture->rule[1].has_drifted);
    CHECK_EQ(memcmp(&capture->rule[1].drift.expect, &drift.expect, sizeof drift.expect), 0);
    CHECK_EQ(memcmp(&capture->rule[1].drift.seen, &drift.seen, sizeof drift.seen), 0);
    CHECK_STR_EQ(capture->rule[1].drift.path, "SOT_CALL_1");
    CHECK_EQ(capture->rule[1].drift.instance, 8);
    REQUIRE_EQ(capture->thread_count, 1);
    CHECK(capture->thread[0].tid != 0);
    read_close(capture);
}

/* alloc 1, alloc 3 after free 2 in truth; written as 1, 3, 2: the late free must not touch the new tenant. */
TEST(order_of_writing_does_not_matter)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    track_path(file, track_scratch(), "o.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 100, 1), 0);
    CHECK_EQ(track_alloc(0x1000, 300, 3), 0);
    CHECK_EQ(track_free(0x1000, 2), 0);
    /* a whole life the wrong way round */
    CHECK_EQ(track_free(0x2000, 5), 0);
    CHECK_EQ(track_alloc(0x2000, 7000, 4), 0);

    capture = track_read(file);
    REQUIRE(capture != NULL);
    REQUIRE_EQ(capture->live_count, 1);
    CHECK_EQ(capture->live[0].seq, 3);
    CHECK_EQ(capture->live[0].size, 300);
    CHECK_EQ(capture->total.live_bytes, 300);
    CHECK_EQ(capture->total.allocated_count, 3);
    CHECK_EQ(capture->total.allocated_bytes, 7400);
    CHECK_EQ(capture->total.freed_count, 2);
    CHECK_EQ(capture->total.freed_bytes, 7100);
    CHECK_EQ(capture->lost.unknown_frees, 0);
    CHECK_EQ(capture->lost.implied_frees, 0); /* the free came after all */
    CHECK_EQ(capture->event[1].seq, 2);       /* read in order all the same */
    read_close(capture);
}

/* Class, device and size of a free that says none of them itself come from its own block, late or not. */
TEST(a_late_free_is_of_its_own_block)
{
    struct tag tag = track_tag(5000);
    struct capture_alloc_info info = {.tag = &tag,
            .ptr = 0x1000,
            .seq = 1,
            .memclass = MEMCLASS_HOST,
            .native = true,
            .rule = -1};
    struct capture_free_info late = {.ptr = 0x1000, .seq = 2, .device = -1, .native = true};
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    track_path(file, track_scratch(), "l.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(capture_alloc(&info), 0);
    CHECK_EQ(track_alloc(0x1000, 300, 3), 0);
    CHECK_EQ(capture_free(&late), 0);

    capture = track_read(file);
    REQUIRE(capture != NULL);
    REQUIRE_EQ(capture->event_count, 3);
    CHECK_EQ(capture->event[1].kind, FORMAT_EVENT_OTHER_FREE);
    CHECK_EQ(capture->event[1].size, 5000);
    CHECK_EQ(capture->event[1].device, 0);
    CHECK_EQ(capture->total.live_bytes, 300);
    CHECK_EQ(capture->total.freed_bytes, 0);
    CHECK_EQ(capture->lost.implied_frees, 0);
    read_close(capture);
}

/* Only a free that never comes is missing. */
TEST(a_free_that_is_not_on_record_is_told)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    track_path(file, track_scratch(), "m.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 100, 1), 0);
    CHECK_EQ(track_alloc(0x1000, 300, 3), 0);

    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->lost.implied_frees, 1);
    CHECK_EQ(capture->total.live_bytes, 300);
    read_close(capture);
}

static void *enter_and_wait(void *context)
{
    pthread_barrier_t *barriers = context;
    struct edge edge;

    CHECK_EQ(anchor_push(NULL, "other", &edge), 0);
    CHECK_EQ(capture_edge(&edge, 1), 0);
    (void)pthread_barrier_wait(&barriers[0]);
    (void)pthread_barrier_wait(&barriers[1]);
    return thread_self();
}

/* A range that was open before the first allocation is its thread's, whichever thread allocates first. */
TEST(a_range_that_was_open_before_is_its_own_threads)
{
    struct read_capture *capture;
    pthread_barrier_t barriers[2];
    char file[TRACK_PATH_MAX];
    pthread_t other;
    uint32_t number;

    track_path(file, track_scratch(), "own.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(pthread_barrier_init(&barriers[i], NULL, 2), 0);
    REQUIRE_EQ(pthread_create(&other, NULL, enter_and_wait, barriers), 0);
    (void)pthread_barrier_wait(&barriers[0]);
    CHECK_EQ(track_alloc(0x1000, 100, 2), 0);
    number = thread_self()->number;

    capture = track_read(file);
    REQUIRE(capture != NULL);
    const struct read_event *enter = first_event(capture, FORMAT_EVENT_EDGE);
    REQUIRE(enter != NULL);
    CHECK(enter->before_start);
    CHECK(enter->thread != 0);
    CHECK(enter->thread != number);
    CHECK_EQ(first_event(capture, FORMAT_EVENT_ALLOC)->thread, number);
    read_close(capture);
    (void)pthread_barrier_wait(&barriers[1]);
    REQUIRE_EQ(pthread_join(other, NULL), 0);
}

/* With a context goes what was allocated in it, more than is looked for at once; what is of another one or of none stays. */
TEST(what_a_context_had_ends_with_it)
{
    struct read_capture *capture;
    struct tag tag;
    char file[TRACK_PATH_MAX];
    uint64_t seq = 0;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    track_path(file, track_scratch(), "gone.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    REQUIRE_EQ(where_am_i(NULL, 512, 0, &tag), 0);
    for (uint64_t i = 0; i < 300; i++) {
        struct capture_alloc_info info = {.tag = &tag,
                .ptr = 0x7f0000000000 + i * 512,
                .seq = ++seq,
                .api = API_SYNC,
                .rule = -1,
                .context = i % 3};
        CHECK_EQ(capture_alloc(&info), 0);
    }
    CHECK_EQ(capture_context_gone(0, ++seq), 0); /* that is no context */
    CHECK_EQ(capture_context_gone(1, ++seq), 0);

    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->total.freed_count, 100);
    CHECK_EQ(capture->total.live_bytes, 200 * 512);
    CHECK_EQ(capture->live_count, 200);
    CHECK_EQ(count_events(capture, FORMAT_EVENT_FREE), 100);
    for (size_t i = 0; i < capture->live_count; i++)
        CHECK((capture->live[i].addr / 512) % 3 != (0x7f0000000000 / 512 + 1) % 3);
    CHECK_EQ(capture->place[0].temporary_count, 0);
    read_close(capture);
}

TEST(released_storage_is_counted_once)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    struct capture_hint_info hint = {
            .what = FORMAT_HINT_DEAD, .mode = HINT_LIVE, .rule = 0, .ptr = 0x1000, .seq = 3};

    track_path(file, track_scratch(), "h.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 4096, 1), 0);
    CHECK_EQ(track_alloc(0x9000, 10, 2), 0);
    CHECK_EQ(capture_hint(&hint), 0);
    hint.what = FORMAT_HINT_UNMAPPED;
    hint.seq = 4;
    CHECK_EQ(capture_hint(&hint), 0);
    CHECK_EQ(track_alloc(0x20000, 50, 5), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->live[0].hint, FORMAT_HINT_UNMAPPED);
    CHECK_EQ(capture->live[0].rule, 0);
    read_close(capture);
    CHECK_EQ(track_free(0x1000, 6), 0);

    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->total.hinted_freed_bytes, 4096);
    CHECK_EQ(capture->total.hinted_freed_count, 1);
    CHECK_EQ(capture->total.freed_bytes, 4096);
    CHECK_EQ(capture->total.live_bytes, 60);
    CHECK_EQ(capture->total.live_hinted_bytes, 60);
    CHECK_EQ(capture->total.peak_bytes, 4156);
    CHECK_EQ(capture->total.peak_hinted_bytes, 4106);
    const struct read_event *event = first_event(capture, FORMAT_EVENT_HINT);
    REQUIRE(event != NULL);
    CHECK_EQ(event->size, 4096);
    CHECK_EQ(event->mode, HINT_LIVE);
    read_close(capture);
}

/* What became of a block may be told when its address has another tenant: the order of events says whose it is. */
TEST(a_hint_that_is_told_late_is_not_the_next_tenants)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    struct capture_hint_info hint = {.what = FORMAT_HINT_CLEAN,
            .mode = HINT_POISON,
            .rule = 0,
            .ptr = 0x1000,
            .size = 4096,
            .seq = 3};

    track_path(file, track_scratch(), "late.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 4096, 1), 0);
    CHECK_EQ(track_free(0x1000, 2), 0);
    CHECK_EQ(track_alloc(0x1000, 4096, 4), 0);
    CHECK_EQ(capture_hint(&hint), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    REQUIRE_EQ(capture->live_count, 1);
    CHECK_EQ(capture->live[0].hint, FORMAT_HINT_NONE);
    CHECK_EQ(capture->live[0].rule, -1);
    REQUIRE(first_event(capture, FORMAT_EVENT_HINT) != NULL);
    CHECK_EQ(first_event(capture, FORMAT_EVENT_HINT)->size, 4096);
    read_close(capture);
}

/* In shadow and trap nothing is saved, so nothing may be counted as saved. */
TEST(only_live_hints_count_as_freed)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    struct capture_hint_info hint = {
            .what = FORMAT_HINT_DEAD, .mode = HINT_TRAP, .rule = 0, .ptr = 0x1000, .seq = 2};

    track_path(file, track_scratch(), "t.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 4096, 1), 0);
    CHECK_EQ(capture_hint(&hint), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->total.hinted_freed_bytes, 0);
    CHECK_EQ(capture->total.live_hinted_bytes, 4096);
    read_close(capture);
}

TEST(reserved_bytes_keep_their_peak)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    track_path(file, track_scratch(), "r.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(capture_reserved(0, 1, 100, 100, 1), 0);
    CHECK_EQ(capture_reserved(0, 2, 50, 0, 2), 0);
    CHECK_EQ(capture_reserved(1, 1, 1000, 1000, 3), 0);
    CHECK_EQ(capture_reserved(0, 1, 0, 100, 5), 0);
    CHECK_EQ(capture_reserved(0, 1, 70, 100, 4), 0); /* late: older than what is known */
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->device_total[0].reserved_bytes, 50);
    CHECK_EQ(capture->device_total[0].peak_reserved_bytes, 150);
    CHECK_EQ(capture->total.reserved_bytes, 1050);
    CHECK_EQ(capture->total.peak_reserved_bytes, 1150);
    CHECK_EQ(count_events(capture, FORMAT_EVENT_RESERVED), 5);
    read_close(capture);
}

TEST(what_was_held_for_a_moment_is_in_the_peak_and_has_an_event)
{
    static const uint64_t held[] = {100, 400, 120, 120, 300};
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    track_path(file, track_scratch(), "h.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(capture_reserved(0, 0, 100, 100, 1), 0);
    CHECK_EQ(capture_reserved(1, 0, 1000, 1000, 2), 0);
    CHECK_EQ(capture_reserved(0, 0, 120, 400, 3), 0); /* 300 more came and went */
    CHECK_EQ(capture_reserved(0, 0, 120, 400, 4), 0); /* that is known by now */
    CHECK_EQ(capture_reserved(0, 0, 300, 400, 5), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->device_total[0].reserved_bytes, 300);
    CHECK_EQ(capture->device_total[0].peak_reserved_bytes, 400);
    CHECK_EQ(capture->total.peak_reserved_bytes, 1400);
    for (size_t i = 0, n = 0; i < capture->event_count; i++) {
        const struct read_event *event = &capture->event[i];
        if (event->kind != FORMAT_EVENT_RESERVED || event->device != 0)
            continue;
        REQUIRE(n < sizeof held / sizeof held[0]);
        CHECK_EQ(event->size, held[n++]);
    }
    CHECK_EQ(count_events(capture, FORMAT_EVENT_RESERVED), 6);
    read_close(capture);
}

TEST(a_call_between_ranks_is_on_record_with_its_buffers)
{
    struct capture_call_info send = {.name = "ncclSend",
            .buffer = {{"sendbuff", 0x1400}},
            .comm = 0x5500,
            .peer = 3,
            .seq = 3};
    struct capture_call_info reduce = {.name = "ncclAllReduce",
            .buffer = {{"sendbuff", 0x1000}, {"recvbuff", 0x9000}},
            .peer = -1,
            .seq = 4};
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    struct edge edge;

    track_path(file, track_scratch(), "call.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(capture_call(&send), 0); /* no file yet, and none because of it */
    CHECK_EQ(track_alloc(0x1000, 4096, 1), 0);
    REQUIRE_EQ(anchor_push(NULL, "backward", &edge), 0);
    CHECK_EQ(capture_call(&send), 0);
    CHECK_EQ(capture_call(&reduce), 0);
    REQUIRE_EQ(anchor_pop(NULL, &edge), 0);

    capture = track_read(file);
    REQUIRE(capture != NULL);
    REQUIRE_EQ(capture->event_count, 3);
    const struct read_event *event = &capture->event[1];
    CHECK_EQ(event->kind, FORMAT_EVENT_CALL);
    CHECK_EQ(event->seq, 3);
    CHECK_STR_EQ(reader_string(capture, event->call), "ncclSend");
    CHECK_STR_EQ(reader_string(capture, event->arg[0]), "sendbuff");
    CHECK_EQ(event->arg_addr[0], 0x1400);
    CHECK_EQ(event->arg[1], 0);
    CHECK_EQ(event->comm, 0x5500);
    CHECK_EQ(event->peer, 3);
    CHECK_STR_EQ(event->path, "backward");
    CHECK_EQ(event->instance, 0);
    event++;
    CHECK_STR_EQ(reader_string(capture, event->call), "ncclAllReduce");
    CHECK_STR_EQ(reader_string(capture, event->arg[1]), "recvbuff");
    CHECK_EQ(event->arg_addr[0], 0x1000);
    CHECK_EQ(event->arg_addr[1], 0x9000);
    CHECK_EQ(event->comm, 0);
    CHECK_EQ(event->peer, -1);
    CHECK_EQ(capture->bad_records, 0);
    read_close(capture);
}

TEST(an_oom_leaves_its_record_and_state)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    struct tag tag = track_tag(1u << 30);
    struct capture_oom_info oom = {
            .tag = &tag, .seq = 1, .free_bytes = 10, .total_bytes = UINT64_MAX, .result = 2};

    track_path(file, track_scratch(), "oom.kcap");
    track_start(file, FORMAT_TRACE_RING, 0);
    CHECK_EQ(capture_oom(&oom, NULL), 0); /* the first call of all: it opens the file */
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->state, FORMAT_STATE_OOM);
    CHECK_EQ(capture->oom_count, 1);
    const struct read_event *event = first_event(capture, FORMAT_EVENT_OOM);
    REQUIRE(event != NULL);
    CHECK_EQ(event->size, 1u << 30);
    CHECK_EQ(event->free_bytes, 10);
    CHECK_EQ(event->largest_free, UINT64_MAX);
    CHECK_EQ(event->result, 2);
    read_close(capture);
}

TEST(a_ring_keeps_the_newest_and_says_what_is_lost)
{
    const uint64_t pairs =
            120000; /* twice what a ring of 16 chunks holds, of records as short as these */
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    uint64_t seq = 0;

    track_path(file, track_scratch(), "ring.kcap");
    track_start(file, FORMAT_TRACE_RING, 1u << 20);
    CHECK_EQ(track_alloc(0x10, 5, ++seq), 0); /* lives on, its event is lost */
    for (uint64_t i = 0; i < pairs; i++) {
        CHECK_EQ(track_alloc(0x100000 + i * 256, 100 + i % 7, ++seq), 0);
        CHECK_EQ(track_free(0x100000 + i * 256, ++seq), 0);
    }
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->has_all_events, false);
    CHECK_EQ(capture->lost.events_dropped, 0);
    CHECK_EQ(capture->lost.events_recycled + capture->event_count, 2 * pairs + 1);
    CHECK_GT(capture->event_count, (15u << 16) / 16);
    CHECK_LT(capture->event_count, 2 * pairs);
    CHECK_LE(capture->file_bytes, 4u << 20);
    CHECK_EQ(capture->complete_after_seq, seq - capture->event_count);
    CHECK_EQ(capture->event[0].seq, capture->complete_after_seq + 1);
    for (size_t i = 1; i < capture->event_count; i++)
        if (capture->event[i].seq != capture->event[i - 1].seq + 1)
            CHECK_EQ(capture->event[i].seq, capture->event[i - 1].seq + 1);
    CHECK_EQ(capture->total.allocated_count, pairs + 1); /* totals and live table know everything */
    CHECK_EQ(capture->total.freed_count, pairs);
    REQUIRE_EQ(capture->live_count, 1);
    CHECK_EQ(capture->live[0].addr, 0x10);
    read_close(capture);
}

TEST(agg_writes_no_events)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    track_path(file, track_scratch(), "agg.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
    for (uint64_t i = 1; i <= 5000; i++)
        CHECK_EQ(track_alloc(i << 12, 10, i), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->event_count, 0);
    CHECK_EQ(capture->has_all_events, false);
    CHECK_EQ(capture->live_count, 5000);
    CHECK_EQ(capture->total.live_bytes, 50000);
    read_close(capture);
}

TEST(off_touches_no_file)
{
    char file[TRACK_PATH_MAX];

    track_path(file, track_scratch(), "off.kcap");
    track_start(file, FORMAT_TRACE_OFF, 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    CHECK_EQ(capstate_open(), 0);
    CHECK_EQ(access(file, F_OK), -1);
    CHECK_STR_EQ(capture_path(), "");
}

TEST(nothing_is_written_before_the_first_allocation)
{
    char file[TRACK_PATH_MAX];
    struct edge edge;

    track_path(file, track_scratch(), "lazy.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    REQUIRE_EQ(anchor_push(NULL, "step", &edge), 0);
    CHECK_EQ(capture_edge(&edge, 1), 0);
    CHECK_EQ(capture_note(0, "early"), 0);
    CHECK_EQ(track_free(0x1000, 2), 0);
    CHECK_EQ(access(file, F_OK), -1);
    CHECK_EQ(track_alloc(0x1000, 10, 3), 0);
    CHECK_EQ(access(file, F_OK), 0);
}

/* Another thread opened the file between this thread's push and its record of it. */
TEST(a_range_entered_while_the_file_opens_is_written_once)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    struct edge before, after;

    track_path(file, track_scratch(), "once.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    REQUIRE_EQ(anchor_push(NULL, "a", &before), 0);
    REQUIRE_EQ(capstate_open(), 0);
    CHECK_EQ(capture_edge(&before, 1), 0);
    REQUIRE_EQ(anchor_push(NULL, "b", &after), 0);
    CHECK_EQ(capture_edge(&after, 2), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    REQUIRE_EQ(capture->event_count, 2);
    CHECK_EQ(capture->event[0].anchor, before.anchor);
    CHECK_EQ(capture->event[0].before_start, true);
    CHECK_EQ(capture->event[1].anchor, after.anchor);
    CHECK_EQ(capture->event[1].before_start, false);
    read_close(capture);
}

TEST(r52_an_existing_file_is_never_opened)
{
    char file[TRACK_PATH_MAX], link[TRACK_PATH_MAX], other[TRACK_PATH_MAX + 16];
    const char *directory = track_scratch();
    struct stat status;
    int fd;

    track_path(file, directory, "mine");
    track_path(link, directory, "c.kcap");
    fd = open(file, O_CREAT | O_WRONLY, 0600);
    REQUIRE(fd >= 0);
    REQUIRE_EQ(write(fd, "precious", 8), 8);
    (void)close(fd);
    REQUIRE_EQ(symlink("mine", link), 0);
    (void)umask(0);
    track_start(link, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    REQUIRE_EQ(stat(file, &status), 0);
    CHECK_EQ(status.st_size, 8);
    (void)snprintf(other, sizeof other, "%s.%d", link, (int)getpid());
    REQUIRE_EQ(lstat(other, &status), 0); /* the other processes write F.PID */
    CHECK_EQ(status.st_mode & 07777, 0600);
    CHECK(strstr(capture_path(), other) != NULL);
}

TEST(r52_a_narrow_umask_takes_nothing_away)
{
    char file[TRACK_PATH_MAX];
    struct stat status;

    track_path(file, track_scratch(), "u.kcap");
    (void)umask(0777);
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    REQUIRE_EQ(stat(file, &status), 0);
    CHECK_EQ(status.st_mode & 07777, 0600);
}

/* Another process of this number, in a container or on a host that shares the directory, has left its captures. */
TEST(names_that_are_taken_lead_to_further_ones)
{
    char file[TRACK_PATH_MAX], second[TRACK_PATH_MAX + 16], third[TRACK_PATH_MAX + 32];
    struct stat status;

    track_path(file, track_scratch(), "again.kcap");
    (void)snprintf(second, sizeof second, "%s.%d", file, (int)getpid());
    (void)snprintf(third, sizeof third, "%s.2", second);
    for (int i = 0; i < 3; i++) {
        track_start(file, FORMAT_TRACE_FULL, 0);
        CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    }
    CHECK_EQ(lstat(file, &status), 0);
    CHECK_EQ(lstat(second, &status), 0);
    CHECK_EQ(lstat(third, &status), 0);
    CHECK(strstr(capture_path(), third) != NULL);
}

/* A pipe would make the program wait for a reader, a device would swallow the record. */
TEST(r52_a_pipe_in_the_place_of_the_file_is_left_alone)
{
    char file[TRACK_PATH_MAX], other[TRACK_PATH_MAX + 16];
    struct stat status;

    track_path(file, track_scratch(), "p.kcap");
    REQUIRE_EQ(mkfifo(file, 0600), 0);
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    REQUIRE_EQ(lstat(file, &status), 0);
    CHECK(S_ISFIFO(status.st_mode));
    (void)snprintf(other, sizeof other, "%s.%d", file, (int)getpid());
    REQUIRE_EQ(lstat(other, &status), 0);
    CHECK(S_ISREG(status.st_mode));
}

TEST(r52_names_have_patterns)
{
    char pattern[TRACK_PATH_MAX], wanted[TRACK_PATH_MAX];
    const char *directory = track_scratch();
    struct capture_opts opts = {.file = "a%x", .trace = FORMAT_TRACE_FULL};
    char longest[CAPTURE_PATH_MAX + 1] =
            "%%"; /* one more than there is room for, though not as a name */

    CHECK_EQ(capture_init(&opts), -EINVAL);
    opts.file = "a%";
    CHECK_EQ(capture_init(&opts), -EINVAL);
    memset(longest + 2, 'x', sizeof longest - 3);
    opts.file = longest;
    CHECK_EQ(capture_init(&opts), -EINVAL);
    track_path(pattern, directory, "k-%r-%p-%%.kcap");
    opts.file = pattern;
    opts.rank = "17";
    REQUIRE_EQ(capture_init(&opts), 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    (void)snprintf(wanted, sizeof wanted, "%s/k-17-%d-%%.kcap", directory, (int)getpid());
    CHECK_EQ(access(wanted, F_OK), 0);
}

TEST(a_name_without_a_pattern_is_rank_0s_and_others_have_theirs_behind_it)
{
    static const struct {
        const char *name, *rank, *wanted;
    } cases[] = {{"a.kcap", NULL, "a.kcap"}, {"b.kcap", "0", "b.kcap"}, {"c.kcap", "3", "c.kcap.3"},
            {"d%%.kcap", "12", "d%.kcap.12"}, {"e-%r.kcap", "3", "e-3.kcap"}};
    int status = 0;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_ROW(cases[i].name);
        pid_t child = fork(); /* a process has one capture */

        if (child == 0) {
            char pattern[TRACK_PATH_MAX], wanted[TRACK_PATH_MAX];
            const char *directory = track_scratch();
            struct capture_opts opts = {.trace = FORMAT_TRACE_FULL, .rank = cases[i].rank};

            track_path(pattern, directory, cases[i].name);
            track_path(wanted, directory, cases[i].wanted);
            opts.file = pattern;
            if (capture_init(&opts) != 0 || track_alloc(0x1000, 10, 1) != 0)
                _exit(1);
            _exit(access(wanted, F_OK) == 0 ? 0 : 2);
        }
        REQUIRE_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
}

/* A rank comes from the environment: it must not lead the file elsewhere. */
TEST(r52_a_rank_is_no_path)
{
    char pattern[TRACK_PATH_MAX], wanted[TRACK_PATH_MAX];
    const char *directory = track_scratch();
    struct capture_opts opts = {.rank = "../../x", .trace = FORMAT_TRACE_FULL};

    track_path(pattern, directory, "k-%r.kcap");
    opts.file = pattern;
    REQUIRE_EQ(capture_init(&opts), 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    track_path(wanted, directory, "k-0.kcap");
    CHECK_EQ(access(wanted, F_OK), 0);
}

TEST(a_directory_that_cannot_be_written_is_one_error)
{
    track_start("/proc/no-such-place/x.kcap", FORMAT_TRACE_FULL, 0);
    CHECK_LT(track_alloc(0x1000, 10, 1), 0);
    CHECK_EQ(track_alloc(0x2000, 10, 2), 0);
    CHECK_EQ(track_free(0x2000, 3), 0);
}

/* The file may not grow beyond a limit: SIGXFSZ would end the program, a store beyond the end would raise SIGBUS. */
TEST(a_full_disk_is_one_error_and_the_log_goes_on_as_a_ring)
{
    struct read_capture *capture;
    struct rlimit limit = {2u << 20, RLIM_INFINITY};
    char file[TRACK_PATH_MAX];
    uint64_t seq = 0;
    int errors = 0;

    track_path(file, track_scratch(), "full.kcap");
    REQUIRE_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    track_start(file, FORMAT_TRACE_FULL, 0);
    for (uint64_t i = 0; i < 200000; i++) {
        errors += track_alloc(0x100000 + (i % 64) * 4096, 10, ++seq) < 0;
        errors += track_free(0x100000 + (i % 64) * 4096, ++seq) < 0;
    }
    CHECK_EQ(track_alloc(0x10, 10, ++seq), 0);
    CHECK_EQ(errors, 1);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_LE(capture->file_bytes, 2u << 20);
    CHECK_EQ(capture->total.allocated_count, 200001);
    CHECK_EQ(capture->total.live_bytes, 10);
    CHECK_EQ(capture->live_count, 1);
    CHECK_EQ(capture->event[capture->event_count - 1].seq, seq);
    CHECK_EQ(capture->lost.events_recycled + capture->event_count + capture->lost.events_dropped,
            400001);
    CHECK_GT(capture->lost.events_recycled, 0);
    read_close(capture);
}

TEST(a_full_live_table_keeps_the_totals)
{
    struct read_capture *capture;
    struct rlimit limit = {1u << 20, RLIM_INFINITY};
    char file[TRACK_PATH_MAX];
    int errors = 0;

    track_path(file, track_scratch(), "fullive.kcap");
    REQUIRE_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    track_start(file, FORMAT_TRACE_AGG, 0);
    for (uint64_t i = 1; i <= 30000; i++)
        errors += track_alloc(i << 12, 10, i) < 0;
    CHECK_EQ(errors, 1);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->total.live_bytes, 300000);
    CHECK_GT(capture->lost.live_dropped, 0);
    CHECK_EQ(capture->live_count + capture->lost.live_dropped, 30000);
    read_close(capture);
    for (uint64_t i = 1; i <= 30000; i++)
        CHECK_EQ(track_free(i << 12, 30000 + i), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->total.live_bytes, 0);
    CHECK_EQ(capture->live_count, 0);
    CHECK_EQ(capture->lost.unknown_frees, 0);
    read_close(capture);
}

/* Names that found no room, notes beyond their bound, records from before the file: the file says how many. */
TEST(lost_definitions_are_counted_in_the_file)
{
    struct rlimit limit = {(1u << 20) + (200u << 10), RLIM_INFINITY};
    struct read_capture *capture;
    char file[TRACK_PATH_MAX], text[3000];
    uint32_t found = 0;

    track_path(file, track_scratch(), "defs.kcap");
    REQUIRE_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    track_start(file, FORMAT_TRACE_AGG, 0);
    memset(text, 'x', sizeof text);
    for (uint32_t i = 1; i <= 600; i++) {
        struct tag tag = track_tag(10);
        struct capture_alloc_info info = {.tag = &tag, .ptr = i << 12, .seq = i, .rule = -1};

        (void)snprintf(text, 16, "%u", i);
        text[strlen(text)] = 'x';
        tag.path = intern_text(intern_string(text, sizeof text));
        tag.anchor = i;
        (void)capture_alloc(&info);
    }
    capture = track_read(file);
    REQUIRE(capture != NULL);
    for (uint32_t i = 1; i <= 600; i++)
        found += *reader_string(capture, i) != '\0';
    CHECK_GT(found, 0);
    CHECK_LT(found, 600);
    CHECK_EQ(capture->lost.defs_dropped, 600 - found);
    read_close(capture);
}

TEST(notes_beyond_their_bound_are_counted_in_the_file)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    track_path(file, track_scratch(), "notes.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
    for (unsigned i = 0; i < CAPTURE_NOTES_MAX + 5; i++)
        CHECK_EQ(capture_note(0, "again"), 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    CHECK_EQ(capture_note(0, "again"), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->note_count, CAPTURE_NOTES_MAX);
    CHECK_EQ(capture->lost.defs_dropped, 6);
    read_close(capture);
}

/* Interning ends at a bound; what it refuses has no number, and nobody would know. */
TEST(names_beyond_the_bound_are_counted_in_the_file)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX], text[16];

    track_path(file, track_scratch(), "bound.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
    for (uint32_t i = 1; i <= INTERN_STRINGS_MAX + 3; i++) {
        (void)snprintf(text, sizeof text, "%u", i);
        CHECK_EQ(intern_string(text, strlen(text)), i <= INTERN_STRINGS_MAX ? i : 0);
    }
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    CHECK_EQ(capture_note(0, "now they are in the file"), 0);
    capture_state(FORMAT_STATE_CLEAN, 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_STR_EQ(reader_string(capture, INTERN_STRINGS_MAX), "1048576");
    CHECK_EQ(capture->lost.defs_dropped, 3);
    CHECK_EQ(capture->bad_records, 0);
    read_close(capture);
}

/* As after 5 GiB: the file says that they are taken, so that all areas go on behind them. */
TEST(a_capture_beyond_4_gib_is_written_and_read)
{
    const uint64_t taken = UINT64_C(5) << 30;
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    uint64_t seq = 0;
    int fd;

    track_path(file, track_scratch(), "large.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 10, ++seq), 0);
    fd = open(file, O_WRONLY);
    REQUIRE(fd >= 0);
    REQUIRE_EQ(pwrite(fd, &taken, sizeof taken, offsetof(struct format_header, file_bytes)), 8);
    (void)close(fd);
    for (uint64_t i = 2; i <= 20000; i++)
        CHECK_EQ(track_alloc(i << 12, i, ++seq), 0);
    CHECK_EQ(capture_setting("far", "away"), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_GT(capture->file_bytes, taken);
    CHECK_EQ(capture->bad_records, 0);
    REQUIRE_EQ(capture->live_count, 20000);
    CHECK_EQ(capture->live[19999].size, 20000);
    CHECK_EQ(capture->event_count, 20000);
    CHECK_EQ(capture->has_all_events, true);
    CHECK_EQ(capture->setting_count, 1);
    read_close(capture);
}

/* The program closed our descriptor and took its number: no byte of ours may go into its file. */
TEST(r99_a_program_that_closes_all_descriptors_loses_nothing)
{
    struct read_capture *capture;
    const char *directory = track_scratch();
    char file[TRACK_PATH_MAX], other[TRACK_PATH_MAX];
    struct stat status;
    int first;

    track_path(file, directory, "fd.kcap");
    track_path(other, directory, "theirs");
    first = open("/dev/null", O_RDONLY);
    (void)close(first);
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    for (int fd = first; fd < 64; fd++)
        (void)close(fd);
    CHECK_EQ(open(other, O_CREAT | O_RDWR, 0600), first); /* we kept no descriptor at all */
    for (uint64_t i = 2; i <= 20000; i++)
        CHECK_EQ(track_alloc(i << 12, 10, i), 0);
    REQUIRE_EQ(stat(other, &status), 0);
    CHECK_EQ(status.st_size, 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->live_count, 20000);
    read_close(capture);
}

TEST(a_path_that_was_replaced_is_left_alone)
{
    char file[TRACK_PATH_MAX];
    struct stat status;
    int errors = 0;
    int fd;

    track_path(file, track_scratch(), "moved.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    REQUIRE_EQ(unlink(file), 0);
    fd = open(file, O_CREAT | O_WRONLY, 0600);
    REQUIRE(fd >= 0);
    (void)close(fd);
    for (uint64_t i = 2; i <= 20000; i++)
        errors += track_alloc(i << 12, 10, i) < 0;
    CHECK_GE(errors, 1);
    CHECK_LE(errors, 2); /* the live table's and the log's growth, once each */
    REQUIRE_EQ(stat(file, &status), 0);
    CHECK_EQ(status.st_size, 0);
}

TEST(r39_a_forked_child_writes_nothing)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    int status = 0;
    pid_t child;

    track_path(file, track_scratch(), "fork.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        where_fork_child();
        capture_fork_child();
        (void)track_alloc(0x2000, 99, 2);
        (void)track_free(0x1000, 3);
        capture_state(FORMAT_STATE_SIGNAL, 9);
        _exit(capture_path()[0] == '\0' ? 0 : 1);
    }
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->live_count, 1);
    CHECK_EQ(capture->total.live_bytes, 10);
    CHECK_EQ(capture->state, FORMAT_STATE_OPEN);
    read_close(capture);
    CHECK_EQ(track_alloc(0x3000, 10, 4), 0); /* the parent goes on */
}

TEST(a_child_of_a_process_without_a_capture_has_its_own)
{
    const char *directory = track_scratch();
    char file[TRACK_PATH_MAX], theirs[TRACK_PATH_MAX + 16];
    struct read_capture *capture;
    int status = 0;
    pid_t child;

    track_path(file, directory, "f.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        where_fork_child();
        capture_fork_child();
        _exit(track_alloc(0x2000, 99, 2) == 0 ? 0 : 1);
    }
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0); /* the first has F, we are the second: F.PID */
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->pid, (uint32_t)child);
    CHECK_EQ(capture->total.live_bytes, 99);
    read_close(capture);
    (void)snprintf(theirs, sizeof theirs, "%s.%d", file, (int)getpid());
    CHECK_EQ(access(theirs, F_OK), 0);
}

TEST(a_signal_is_not_painted_over_by_the_end)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    track_path(file, track_scratch(), "s.kcap");
    capture_state(FORMAT_STATE_SIGNAL, 11); /* before anything: no crash */
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    capture_state(FORMAT_STATE_SIGNAL, 11);
    capture_state(FORMAT_STATE_CLEAN, 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->state, FORMAT_STATE_SIGNAL);
    CHECK_EQ(capture->state_detail, 11);
    read_close(capture);
}

/* ---- threads ---- */

#define WORKERS 4
#define ROUNDS  4000

static _Atomic uint64_t shared_seq;

/* Each worker has addresses of its own and passes each on to the next tenant at once. */
static void *work(void *argument)
{
    uint64_t base = (uint64_t)(size_t)argument << 32;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        devptr_t ptr = base + (1 + i % 50) * 4096;
        struct edge edge;

        (void)anchor_push(NULL, "work", &edge);
        (void)capture_edge(&edge, ++shared_seq);
        (void)track_alloc(ptr, 1 + i % 100, ++shared_seq);
        if (i + 50 < ROUNDS)
            (void)track_free(ptr, ++shared_seq);
        (void)anchor_pop(NULL, &edge);
        (void)capture_edge(&edge, ++shared_seq);
    }
    return NULL;
}

TEST(threads_write_side_by_side)
{
    pthread_t threads[WORKERS];
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    uint64_t live = 0;

    track_path(file, track_scratch(), "threads.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    for (size_t i = 0; i < WORKERS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    for (size_t i = 0; i < WORKERS; i++)
        (void)pthread_join(threads[i], NULL);
    for (uint64_t i = ROUNDS - 50; i < ROUNDS; i++)
        live += WORKERS * (1 + i % 100);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 0);
    CHECK_EQ(count_events(capture, FORMAT_EVENT_ALLOC), WORKERS * ROUNDS);
    CHECK_EQ(count_events(capture, FORMAT_EVENT_FREE), WORKERS * (ROUNDS - 50));
    CHECK_EQ(count_events(capture, FORMAT_EVENT_EDGE), 2 * WORKERS * ROUNDS);
    CHECK_EQ(capture->live_count, WORKERS * 50);
    CHECK_EQ(track_live_bytes(capture), live);
    CHECK_EQ(capture->total.live_bytes, live);
    CHECK_EQ(capture->lost.implied_frees, 0);
    CHECK_EQ(capture->lost.unknown_frees, 0);
    CHECK_EQ(capture->thread_count, WORKERS);
    read_close(capture);
}

static void *one_event(void *argument)
{
    (void)track_alloc((devptr_t)(size_t)argument << 12, 1, (uint64_t)(size_t)argument);
    return NULL;
}

/* 64 KiB for each of 600 threads would be 38 MiB: a chunk is handed on when its thread ends. */
TEST(short_lived_threads_share_chunks)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    track_path(file, track_scratch(), "many.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    for (size_t i = 1; i <= 600; i++) {
        pthread_t thread;

        REQUIRE_EQ(pthread_create(&thread, NULL, one_event, (void *)i), 0);
        (void)pthread_join(thread, NULL);
    }
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->event_count, 600);
    CHECK_EQ(capture->thread_count, 600);
    CHECK_LE(capture->file_bytes, 1u << 20);
    read_close(capture);
}

/* Bytes of records in the newest chunk of a file. */
static uint32_t newest_used(int fd)
{
    struct format_chunk chunk, newest = {0};
    struct format_extent extent;

    for (uint32_t i = 0; i < FORMAT_EXTENTS_MAX; i++) {
        REQUIRE_EQ(pread(fd, &extent, sizeof extent,
                           (off_t)(FORMAT_DIRECTORY_OFFSET + i * sizeof extent)),
                sizeof extent);
        if (extent.kind == FORMAT_EXTENT_NONE)
            break;
        for (uint64_t at = 0; extent.kind == FORMAT_EXTENT_EVENTS && at < extent.length;
                at += FORMAT_CHUNK_BYTES) {
            REQUIRE_EQ(pread(fd, &chunk, sizeof chunk, (off_t)(extent.offset + at)), sizeof chunk);
            if (chunk.number > newest.number)
                newest = chunk;
        }
    }
    return (uint32_t)newest.used;
}

static char full_chunk_file[TRACK_PATH_MAX];
static uint64_t full_chunk_seq;

static void *chunkful_of_events(void *argument)
{
    int fd = open(full_chunk_file, O_RDONLY);

    (void)argument;
    REQUIRE(fd >= 0);
    do {
        full_chunk_seq++;
        (void)track_alloc((devptr_t)full_chunk_seq << 12, 1, full_chunk_seq);
    } while (newest_used(fd) <= FORMAT_CHUNK_ROOM - EVENTCODE_ROOM);
    (void)close(fd);
    return NULL;
}

/* What such a thread leaves is full, not half-full: the next one must not write behind its end. */
TEST(a_thread_that_ends_with_a_full_chunk_hands_none_on)
{
    enum {
        THREADS = 6,
    };
    struct read_capture *capture;

    track_path(full_chunk_file, track_scratch(), "fullchunk.kcap");
    track_start(full_chunk_file, FORMAT_TRACE_FULL, 0);
    REQUIRE_EQ(capstate_open(), 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;

        REQUIRE_EQ(pthread_create(&thread, NULL, chunkful_of_events, NULL), 0);
        (void)pthread_join(thread, NULL);
    }
    capture = track_read(full_chunk_file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->event_count, full_chunk_seq);
    CHECK_GT(full_chunk_seq, THREADS * FORMAT_CHUNK_ROOM / 32);
    CHECK_EQ(capture->lost.events_dropped, 0);
    CHECK_EQ(capture->bad_records, 0);
    read_close(capture);
}

/* ---- growth ---- */

#define SIZES_MAX 8192

static uint64_t random_state = 88172645463325252;

static uint64_t random_below(uint64_t end)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % end;
}

/* The sizes that a trainer asked for, in its order. Returns how many. */
static size_t read_sizes(uint64_t *sizes)
{
    FILE *file = fopen(SOURCE_DIRECTORY "/tests/traces/sot-full-pir.csv", "r");
    char line[256];
    size_t count = 0;

    REQUIRE(file != NULL);
    while (count < SIZES_MAX && fgets(line, sizeof line, file))
        if (strncmp(line, "a,", 2) == 0)
            sizes[count++] = strtoull(strchr(line + 2, ',') + 1, NULL, 10);
    (void)fclose(file);
    return count;
}

static void random_pair(uint64_t *seq, uint64_t size)
{
    struct tag tag = track_tag(size);
    struct capture_alloc_info info = {.tag = &tag, .rule = -1};
    struct format_uses uses;
    struct capture_free_info gone = {.device = 0, .uses = &uses};
    uint64_t now;

    tag.stack = (uint32_t)random_below(3000); /* places are bounded, and known after a while */
    tag.pystack = 7 * tag.stack;
    tag.nth = (uint32_t)random_below(10);
    info.ptr = 0x7f0000000000 + random_below(UINT64_C(80) << 21) * 512;
    info.stream = random_below(8) ? 0 : 0x555555560000;
    *seq += 1 + random_below(4); /* four threads */
    info.seq = *seq;
    (void)capture_alloc(&info);
    /* as if it had lived for a second */
    now = UINT64_C(1) << 40;
    uses.last_use = now - random_below(1000000000);
    uses.first_use = uses.last_use - random_below(1000000000);
    uses.gap_end = uses.last_use - random_below(1000000);
    uses.longest_gap = random_below(1000000000);
    *seq += 1 + random_below(4);
    gone.ptr = info.ptr;
    gone.seq = *seq;
    (void)capture_free(&gone);
}

/* Sizes of a trainer, and everything else as hard to foretell as it gets: each pair is 64 bytes of the file at most. */
TEST(a_pair_is_at_most_64_bytes_of_the_file)
{
    static uint64_t sizes[SIZES_MAX];
    const uint64_t pairs = 25000;
    size_t count = read_sizes(sizes);
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    struct stat before, after;
    uint64_t seq = 0;

    REQUIRE(count > 3000);
    track_path(file, track_scratch(), "growth.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    for (uint64_t i = 0; i < pairs; i++)
        random_pair(&seq, sizes[i % count]);
    REQUIRE_EQ(stat(file, &before), 0);
    for (uint64_t i = 0; i < 3 * pairs; i++)
        random_pair(&seq, sizes[i % count]);
    REQUIRE_EQ(stat(file, &after), 0);
    printf("    %.1f bytes\n", (double)(after.st_size - before.st_size) / (3 * (double)pairs));
    CHECK_LE(after.st_size - before.st_size, (off_t)(64 * 3 * pairs));
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->has_all_events, true);
    CHECK_EQ(capture->event_count, 8 * pairs);
    read_close(capture);
}

/* ---- kill -9 ---- */

/* Allocates and frees for ever; the pipe says after each operation what is live by the child's own books. */
static void write_until_killed(const char *file, int pipe_to)
{
    uint64_t seq = 0;
    int64_t live = 0;

    track_start(file, FORMAT_TRACE_RING, 1u << 20);
    for (uint64_t i = 0;; i++) {
        devptr_t ptr = 0x100000 + (i % 3000) * 4096;

        if (i >= 3000) {
            (void)track_free(ptr, ++seq);
            live -= (int64_t)(1000 + (i - 3000) % 77);
            (void)!write(pipe_to, &live, sizeof live);
        }
        (void)track_alloc(ptr, 1000 + i % 77, ++seq);
        live += (int64_t)(1000 + i % 77);
        (void)!write(pipe_to, &live, sizeof live);
    }
}

static int64_t last_said(int pipe_from)
{
    int64_t live = 0, one;

    while (read(pipe_from, &one, sizeof one) == (ssize_t)sizeof one)
        live = one;
    return live;
}

/* R47: killed at any moment, the capture differs from the truth by at most the operation in flight. */
TEST(r47_kill_9_loses_at_most_one_operation)
{
    const char *directory = track_scratch();

    for (int round = 0; round < 25; round++) {
        char file[TRACK_PATH_MAX], name[32];
        struct timespec pause = {0, 2000000L + (long)(round * 7919 % 40) * 1000000L};
        struct read_capture *capture;
        int64_t said, read_bytes;
        int ends[2];
        pid_t child;

        (void)snprintf(name, sizeof name, "k%d.kcap", round);
        track_path(file, directory, name);
        REQUIRE_EQ(pipe(ends), 0);
        REQUIRE(fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) > 0);
        child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            (void)close(ends[0]);
            write_until_killed(file, ends[1]);
        }
        (void)close(ends[1]);
        (void)nanosleep(&pause, NULL);
        (void)kill(child, SIGKILL);
        said = last_said(ends[0]);
        (void)close(ends[0]);
        (void)waitpid(child, NULL, 0);
        if (said == 0)
            continue; /* killed before its first word */
        capture = track_read(file);
        REQUIRE(capture != NULL);
        CHECK_EQ(capture->bad_records, 0);
        CHECK_EQ(capture->state, FORMAT_STATE_OPEN);
        read_bytes = (int64_t)track_live_bytes(capture);
        /* What was said lags by the operation whose word was not written, and one more is in flight. */
        CHECK_LE(read_bytes - said, 2 * 1077);
        CHECK_GE(read_bytes - said, -2 * 1077);
        read_close(capture);
    }
}

/* ---- cancellation ---- */

static void *open_while_cancelled(void *argument)
{
    (void)argument;
    (void)pthread_cancel(pthread_self()); /* takes effect at the next point */
    (void)track_alloc(0x1000, 10, 1);
    pthread_testcancel();
    return NULL;
}

/* Opening and growing are full of cancellation points; a thread that ends there must not leave the capture half open. */
TEST(a_cancelled_thread_ends_after_our_work)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    pthread_t thread;
    void *result = NULL;

    track_path(file, track_scratch(), "cancel.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    REQUIRE_EQ(pthread_create(&thread, NULL, open_while_cancelled, NULL), 0);
    (void)pthread_join(thread, &result);
    CHECK(result == PTHREAD_CANCELED);
    CHECK_EQ(track_alloc(0x2000, 20, 2), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(track_live_bytes(capture), 30);
    CHECK_EQ(capture->event_count, 2);
    read_close(capture);
}
