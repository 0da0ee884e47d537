/* SPDX-License-Identifier: MIT */
/* covers: load.c figures.c */
#include "tests/check.h"

#include "tools/load/figures.h"
#include "tools/load/load.h"
#include "tracker/format/formatsum.h"

/* A capture as the reader would have handed it over, without a file: only its events and live table are filled. */
struct fake {
    struct read_capture capture;
    struct read_event events[32];
    struct read_live live[8];
    struct read_rule rules[2];
};

static struct read_capture saved; /* the arrays that the reader made */

/* read.c's own functions work on a real capture; strings and stacks of this one are empty. */
static struct read_capture *wrapped(struct fake *fake)
{
    struct read_capture *capture = calloc(1, sizeof(*capture));
    struct read_error error;
    struct read_capture *empty;

    /* The smallest valid capture gives the private part. */
    static struct {
        struct format_header header;
        char rest[FORMAT_HEADER_BYTES - sizeof(struct format_header)];
    } file;
    memcpy(file.header.magic, FORMAT_MAGIC, 8);
    file.header.version = FORMAT_VERSION;
    file.header.header_bytes = FORMAT_HEADER_BYTES;
    file.header.directory_offset = FORMAT_DIRECTORY_OFFSET;
    file.header.state = FORMAT_STATE_OPEN;
    file.header.trace = FORMAT_TRACE_FULL;
    file.header.sum = formatsum_header(&file.header);
    REQUIRE_EQ(read_open_bytes(&file, sizeof(file), &empty, &error), 0);
    *capture = *empty;
    saved = *empty;
    free(empty);
    capture->event = fake->events;
    capture->event_count = fake->capture.event_count;
    memcpy(capture->kind_count, fake->capture.kind_count, sizeof(capture->kind_count));
    capture->live = fake->live;
    capture->live_count = fake->capture.live_count;
    capture->rule = fake->rules;
    capture->rule_count = fake->capture.rule_count;
    capture->has_all_events = fake->capture.has_all_events;
    capture->complete_after_seq = fake->capture.complete_after_seq;
    capture->total = fake->capture.total;
    capture->oom = fake->capture.oom;
    capture->oom_record_count = fake->capture.oom_record_count;
    return capture;
}

static void unwrap(struct load *load)
{
    /* The arrays in it are the test's own. */
    load->capture->event = saved.event;
    load->capture->live = saved.live;
    load->capture->rule = saved.rule;
    load->capture->oom = saved.oom;
    load_close(load);
}

static struct read_event *add(struct fake *fake, enum format_event_kind kind)
{
    struct read_event *event = &fake->events[fake->capture.event_count++];
    fake->capture.kind_count[kind]++;
    *event = (struct read_event){
            .kind = kind, .seq = fake->capture.event_count + 100, .path = "", .rule = -1};
    return event;
}

static void alloc_event(struct fake *fake, uint64_t addr, uint64_t size)
{
    struct read_event *event = add(fake, FORMAT_EVENT_ALLOC);
    event->addr = addr;
    event->size = size;
}

static void free_event(struct fake *fake, uint64_t addr, uint64_t size)
{
    struct read_event *event = add(fake, FORMAT_EVENT_FREE);
    event->addr = addr;
    event->size = size;
}

static struct model_figures figures(const struct load *load, bool *partial)
{
    struct model_figures f;
    figures_of(load, model_whole(load->trace), &f, partial);
    return f;
}

TEST(all_events_give_the_figures_from_the_events)
{
    struct fake fake = {.capture.has_all_events = true};
    struct load load;
    bool partial;
    alloc_event(&fake, 0x1000, 10);
    alloc_event(&fake, 0x2000, 20);
    free_event(&fake, 0x1000, 10);
    load_capture("t", wrapped(&fake), &load);
    struct model_figures f = figures(&load, &partial);
    CHECK_EQ(f.remaining, 20);
    CHECK_EQ(f.max, 30);
    CHECK_EQ(load.complete_from, 0);
    CHECK(!partial);
    unwrap(&load);
}

TEST(blocks_whose_birth_was_lost_are_carried_in)
{
    struct fake fake = {.capture.complete_after_seq = 100};
    struct load load;
    bool partial;
    /* 0x1000 was born before the log begins; 0x3000 too and still lives; 0x2000 is on record. */
    alloc_event(&fake, 0x2000, 20);
    free_event(&fake, 0x1000, 10);
    alloc_event(&fake, 0x5000, 1); /* a pair that is all on record */
    free_event(&fake, 0x5000, 1);
    fake.live[0] = (struct read_live){
            .seq = 5, .addr = 0x3000, .size = 40, .path = "", .pystack = FORMAT_PYSTACK_AMBIENT};
    fake.live[1] = (struct read_live){.seq = 101, .addr = 0x2000, .size = 20, .path = ""};
    fake.capture.live_count = 2;
    fake.capture.total.live_bytes = 60;
    fake.capture.total.peak_bytes = 1000;
    fake.capture.total.allocated_count = 99;
    load_capture("t", wrapped(&fake), &load);

    struct model_figures f;
    model_figure(load.trace, model_whole(load.trace), NULL, &f);
    CHECK_EQ(f.remaining, 60);
    CHECK_EQ(f.peak_live, 70);
    CHECK_EQ(f.allocated_count, 4); /* two of them carried in */
    CHECK_EQ(f.allocated, 71);
    const struct trace *trace = load.trace;
    CHECK(trace->stacks[trace->blocks[trace_find_live(trace, 0x3000)].stack].ambient);
    /* For the whole process the writer's totals know more. */
    f = figures(&load, &partial);
    CHECK_EQ(f.max, 1000);
    CHECK_EQ(f.allocated_count, 99);
    CHECK(!partial);
    unwrap(&load);
}

TEST(a_window_behind_the_lost_events_is_complete)
{
    struct fake fake = {.capture.complete_after_seq = 102};
    struct load load;
    bool partial;
    alloc_event(&fake, 0x1000, 10);
    alloc_event(&fake, 0x2000, 10);
    alloc_event(&fake, 0x3000, 10); /* the first one after seq 102 */
    load_capture("t", wrapped(&fake), &load);
    CHECK_EQ(load.complete_from, 1);
    struct model_window late = {.first = 1, .last = 2};
    struct model_window early = {.first = 0, .last = 2, .is_named = true};
    struct model_figures f;
    figures_of(&load, late, &f, &partial);
    CHECK(!partial);
    CHECK_EQ(f.allocated_count, 1);
    figures_of(&load, early, &f, &partial);
    CHECK(partial);
    CHECK_EQ(f.allocated_count, MODEL_UNKNOWN);
    unwrap(&load);
}

/* A thread that records little keeps events of a time of which others were overwritten: the block may be long gone. */
TEST(an_old_allocation_that_nothing_confirms_is_not_believed)
{
    struct fake fake = {.capture.complete_after_seq = 102};
    struct load load;
    bool partial;
    alloc_event(&fake, 0x1000, 1000); /* its free is overwritten */
    alloc_event(&fake, 0x2000, 20);   /* lives on, as the live table says */
    alloc_event(&fake, 0x1000, 4);    /* the first one that is certain */
    fake.live[0] = (struct read_live){.seq = 102, .addr = 0x2000, .size = 20, .path = ""};
    fake.live[1] = (struct read_live){.seq = 103, .addr = 0x1000, .size = 4, .path = ""};
    fake.capture.live_count = 2;
    load_capture("t", wrapped(&fake), &load);
    struct model_figures f;
    model_figure(load.trace, model_whole(load.trace), NULL, &f);
    CHECK_EQ(f.remaining, 24);
    CHECK_EQ(f.peak_live, 24);
    figures_of(&load, (struct model_window){.first = load.complete_from, .last = 2}, &f, &partial);
    CHECK(!partial);
    CHECK_EQ(f.peak_live, 24);
    unwrap(&load);
}

/* What a free on record ends lived before; a row that the reader has dropped, behind the last one, tells nothing of its address. */
TEST(rows_behind_the_last_one_say_nothing)
{
    struct fake fake = {.capture.complete_after_seq = 102};
    struct load load;

    alloc_event(&fake, 0x1000, 4);
    alloc_event(&fake, 0x2000, 4);
    free_event(&fake, 0x9000, 10);
    fake.live[0] = (struct read_live){.seq = 50, .addr = 0x9000, .size = 10, .path = ""};
    load_capture("t", wrapped(&fake), &load);
    struct model_figures f;
    model_figure(load.trace, model_whole(load.trace), NULL, &f);
    CHECK_EQ(f.freed, 10);
    CHECK_EQ(f.max, 10);
    CHECK_EQ(f.remaining, 0);
    unwrap(&load);
}

TEST(an_old_free_does_not_end_a_younger_block)
{
    struct fake fake = {.capture.complete_after_seq = 102};
    struct load load;
    free_event(&fake, 0x1000, 10); /* seq 101; the next allocation there, 102, is overwritten */
    fake.live[0] = (struct read_live){.seq = 102, .addr = 0x1000, .size = 64, .path = ""};
    fake.capture.live_count = 1;
    fake.capture.event_count = 2; /* 102 says nothing */
    fake.events[1] =
            (struct read_event){.kind = FORMAT_EVENT_OOM, .seq = 102, .path = "", .rule = -1};
    alloc_event(&fake, 0x2000, 4);
    load_capture("t", wrapped(&fake), &load);
    CHECK(trace_find_live(load.trace, 0x1000) != TRACE_NONE);
    CHECK_EQ(load.trace->blocks[trace_find_live(load.trace, 0x1000)].size, 64);
    unwrap(&load);
}

/* Nor where nobody knows which events are missing, and every one that is left stands. */
TEST(a_free_never_ends_a_block_with_a_higher_number)
{
    struct fake fake = {.capture.complete_after_seq = UINT64_MAX};
    struct load load;
    free_event(&fake, 0x1000, 10); /* seq 101 */
    alloc_event(&fake, 0x2000, 4); /* seq 102 */
    fake.live[0] = (struct read_live){.seq = 102, .addr = 0x2000, .size = 4, .path = ""};
    fake.live[1] = (struct read_live){.seq = 103, .addr = 0x1000, .size = 64, .path = ""};
    fake.capture.live_count = 2;
    load_capture("t", wrapped(&fake), &load);
    CHECK(trace_find_live(load.trace, 0x1000) != TRACE_NONE);
    CHECK_EQ(load.complete_from, TRACE_NEVER);
    CHECK_EQ(load.trace->event_count, 4); /* what was freed, its free, and two that live */
    unwrap(&load);
}

TEST(what_heaps_hold_when_the_record_begins_follows_from_what_they_hold_at_its_end)
{
    struct fake fake = {.capture.complete_after_seq = 101};
    struct load load;
    bool partial;
    struct model_figures f;
    struct read_event *old = add(&fake, FORMAT_EVENT_RESERVED); /* seq 101 */
    old->heap = 1;
    old->size = 30;
    alloc_event(&fake, 0x1000, 4);
    struct read_event *grown = add(&fake, FORMAT_EVENT_RESERVED);
    grown->heap = 1;
    grown->size = 50;
    alloc_event(&fake, 0x2000, 4);
    fake.capture.total.reserved_bytes = 250; /* another heap has 200, and no event */
    load_capture("t", wrapped(&fake), &load);
    uint32_t count = (uint32_t)load.trace->event_count;
    figures_of(&load,
            (struct model_window){.first = load.complete_from, .last = load.complete_from + 1}, &f,
            &partial);
    CHECK(!partial);
    CHECK_EQ(f.peak_reserved, 230);
    figures_of(&load, (struct model_window){.first = count - 1, .last = count}, &f, &partial);
    CHECK_EQ(f.peak_reserved, 250);
    unwrap(&load);
}

/* No block lived then, and the first event on record is the first that is complete: the window of the run is not. */
TEST(a_run_is_not_complete_where_no_block_lived_through_the_lost_events)
{
    struct fake fake = {.capture.complete_after_seq = 100};
    struct load load;
    alloc_event(&fake, 0x1000, 10); /* seq 101 */
    load_capture("t", wrapped(&fake), &load);
    CHECK_EQ(load.complete_from, 1);
    CHECK_EQ(load.trace->event_count, 2);
    CHECK_EQ(load.trace->events[0].kind, TRACE_OTHER);
    CHECK_EQ(load.trace->events[0].seq, 0);
    CHECK_EQ(load.trace->events[1].seq, 101);
    unwrap(&load);
}

TEST(held_bytes_are_summed_over_heaps)
{
    struct fake fake = {.capture.has_all_events = true};
    struct load load;
    bool partial;
    static const struct {
        uint64_t heap, bytes;
        int device;
    } steps[] = {{1, 100, 0}, {2, 50, 0}, {1, 30, 0}, {1, 70, 1}};
    for (size_t i = 0; i < 4; i++) {
        struct read_event *event = add(&fake, FORMAT_EVENT_RESERVED);
        event->heap = steps[i].heap;
        event->size = steps[i].bytes;
        event->device = steps[i].device;
    }
    load_capture("t", wrapped(&fake), &load);
    CHECK_EQ(trace_value(load.trace, &load.trace->events[0]), 100);
    CHECK_EQ(trace_value(load.trace, &load.trace->events[1]), 150);
    CHECK_EQ(trace_value(load.trace, &load.trace->events[2]), 80);
    CHECK_EQ(trace_value(load.trace, &load.trace->events[3]), 150);
    CHECK_EQ(figures(&load, &partial).peak_reserved, 150);
    unwrap(&load);
}

static void hint_event(struct fake *fake, enum format_hint_what what, uint64_t addr, uint64_t time)
{
    struct read_event *event = add(fake, FORMAT_EVENT_HINT);
    event->what = what;
    event->mode = HINT_LIVE;
    event->rule = 0;
    event->addr = addr;
    event->size = 10;
    event->time_ns = time;
}

TEST(what_happened_to_a_hint_is_counted)
{
    struct fake fake = {.capture.has_all_events = true, .capture.rule_count = 1};
    struct load load;
    fake.rules[0] = (struct read_rule){.id = "x", .action = ACTION_RELEASE, .mode = HINT_LIVE};
    alloc_event(&fake, 0x1000, 10);
    hint_event(&fake, FORMAT_HINT_PLANNED, 0x1000, 1);
    hint_event(&fake, FORMAT_HINT_DEAD, 0x1000, 100);
    hint_event(&fake, FORMAT_HINT_VIOLATION, 0x1000, 150);
    hint_event(&fake, FORMAT_HINT_UNMAPPED, 0x1000, 700);
    hint_event(&fake, FORMAT_HINT_SKIPPED, 0x2000, 800);
    hint_event(&fake, FORMAT_HINT_REFUSED, 0x2000, 900);
    fake.events[fake.capture.event_count - 1].rule = 7; /* no such rule: ignored */
    load_capture("t", wrapped(&fake), &load);
    REQUIRE_EQ(load.hint_count, 1);
    const struct load_hint *hint = &load.hints[0];
    CHECK_EQ(hint->sums[FORMAT_HINT_PLANNED].count, 1);
    CHECK_EQ(hint->sums[FORMAT_HINT_DEAD].count, 1);
    CHECK_EQ(hint->sums[FORMAT_HINT_DEAD].bytes, 10);
    CHECK_EQ(hint->sums[FORMAT_HINT_UNMAPPED].count, 1);
    CHECK_EQ(hint->sums[FORMAT_HINT_VIOLATION].count, 1);
    CHECK_EQ(hint->touched_block, 0);
    CHECK_EQ(hint->limbo_max_ns, 600);
    CHECK_EQ(hint->sums[FORMAT_HINT_SKIPPED].count, 1);
    CHECK_EQ(hint->sums[FORMAT_HINT_REFUSED].count, 0);
    CHECK_EQ(load_late(&load, hint), 1);
    load.complete_from = 1; /* then nobody knows what was late before */
    CHECK_EQ(load_late(&load, hint), UINT64_MAX);
    load.complete_from = 0;
    CHECK_EQ(load.trace->blocks[0].mode, HINT_LIVE);
    CHECK_EQ(load.trace->blocks[0].rule, 0);
    unwrap(&load);
}

/* The log has the newest events only: what it has lost is known from the records. */
TEST(an_oom_that_the_log_has_lost_is_known_from_its_record)
{
    struct fake fake = {.capture.has_all_events = true};
    struct read_oom why[2] = {
            {.number = 1,
                    .call = "cuMemAlloc_v2",
                    .path = "",
                    .what = {.seq = 1,
                            .requested = 500,
                            .device = 1,
                            .result = 2,
                            .holder_count = 1,
                            .other_bytes = 45,
                            .holder[0] = {.bytes = 300, .count = 2}}},
            {.number = 7,
                    .call = "",
                    .path = "",
                    .what = {.seq = 102, .requested = 1000, .flags = FORMAT_OOM_HEAPS}},
    };
    struct load load;

    alloc_event(&fake, 0x1000, 10);
    struct read_event *event = add(&fake, FORMAT_EVENT_OOM);
    event->size = 1000;
    event->largest_free = 77;
    fake.capture.oom = why;
    fake.capture.oom_record_count = 2;
    load_capture("t", wrapped(&fake), &load);
    REQUIRE_EQ(load.oom_count, 2);
    CHECK_EQ(load.ooms[0].number, 1);
    CHECK_EQ(load.ooms[0].live, 345); /* its holders and the rest */
    CHECK_EQ(load.ooms[0].largest_free, UINT64_MAX);
    CHECK_EQ(load.ooms[0].at, TRACE_NEVER);
    CHECK_EQ(load.ooms[0].device, 1);
    REQUIRE_EQ(load.ooms[0].holder_count, 1);
    CHECK_EQ(load.ooms[0].holder[0].bytes, 300);
    CHECK_EQ(load.ooms[1].number, 7); /* one failure, told twice */
    CHECK_EQ(load.ooms[1].live, 10);
    CHECK_EQ(load.ooms[1].why->what.flags, FORMAT_OOM_HEAPS);
    unwrap(&load);
}

TEST(an_oom_knows_what_was_live_then)
{
    struct fake fake = {.capture.has_all_events = true};
    struct load load;
    alloc_event(&fake, 0x1000, 10);
    alloc_event(&fake, 0x2000, 30);
    free_event(&fake, 0x1000, 10);
    struct read_event *event = add(&fake, FORMAT_EVENT_OOM);
    event->size = 1000;
    event->free_bytes = 5;
    event->largest_free = UINT64_MAX;
    load_capture("t", wrapped(&fake), &load);
    REQUIRE_EQ(load.oom_count, 1);
    CHECK_EQ(load.ooms[0].requested, 1000);
    CHECK_EQ(load.ooms[0].live, 30);
    CHECK_EQ(load.ooms[0].largest_free, UINT64_MAX);
    unwrap(&load);
}

static void use_event(struct fake *fake, uint64_t block, uint64_t time_ns)
{
    struct read_event *event = add(fake, FORMAT_EVENT_USE);

    event->block = block;
    event->time_ns = time_ns;
    event->use_flags = block == 102 ? FORMAT_USE_MAY : 0;
}

/* Uses stand beside the events, and tell blocks apart that had one address. */
TEST(uses_are_of_the_block_whose_allocation_they_name)
{
    static const uint32_t wanted[] = {0, 1, 2};
    struct fake fake = {.capture.has_all_events = true};
    struct load load;

    alloc_event(&fake, 0x1000000, 2 << 20);
    alloc_event(&fake, 0x2000000, 2 << 20);
    use_event(&fake, 101, 50);
    use_event(&fake, 102, 50);
    free_event(&fake, 0x1000000, 2 << 20);
    alloc_event(&fake, 0x1000000, 4 << 20); /* number 106 */
    use_event(&fake, 99, 60);               /* of nothing that is on record */
    use_event(&fake, 106, 70);
    load_capture("t", wrapped(&fake), &load);
    REQUIRE_EQ(load.trace->use_count, 3);
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(load.trace->uses[i].block, wanted[i]);
        CHECK_EQ(load.trace->uses[i].time_ns, i == 2 ? 70 : 50);
        CHECK_EQ(load.trace->uses[i].may, i == 1);
        CHECK_EQ(load.trace->uses[i].at, i == 2 ? 4 : 2);
    }
    CHECK_EQ(load.trace->event_count, 4);
    unwrap(&load);
}

static void call_event(struct fake *fake, uint64_t address)
{
    struct read_event *event = add(fake, FORMAT_EVENT_CALL);

    event->arg[0] = 1;
    event->arg_addr[0] = address;
}

TEST(the_buffer_of_a_call_is_the_block_that_was_live_around_it)
{
    static const uint32_t wanted[] = {0, 0, TRACE_NONE, 2, 3, 1, TRACE_NONE};
    struct fake fake = {.capture.has_all_events = true};
    struct load load;

    alloc_event(&fake, 0x2000, 0x800); /* block 0 */
    alloc_event(&fake, 0x9000, 0x10);  /* block 1 */
    call_event(&fake, 0x2000);
    call_event(&fake, 0x27ff);
    call_event(&fake, 0x2800);
    free_event(&fake, 0x2000, 0x800);
    alloc_event(&fake, 0x1000, 0x1800); /* block 2: where block 0 was, too */
    call_event(&fake, 0x2100);
    alloc_event(&fake, 0x2800, 0x800); /* block 3 */
    call_event(&fake, 0x2fff);
    call_event(&fake, 0x900f);
    call_event(&fake, 0xfff);
    load_capture("t", wrapped(&fake), &load);
    REQUIRE_EQ(load.trace->call_count, 7);
    for (size_t i = 0; i < 7; i++) {
        const struct trace_call *call = &load.trace->calls[i];
        CHECK_EQ(call->buffer[0].block, wanted[i]);
        CHECK_EQ(call->buffer[1].block, TRACE_NONE);
        CHECK_EQ(load.trace->events[call->at].kind, TRACE_CALL);
        CHECK_EQ(trace_value(load.trace, &load.trace->events[call->at]), i);
    }
    unwrap(&load);
}
