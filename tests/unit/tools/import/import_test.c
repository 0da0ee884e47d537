/* SPDX-License-Identifier: MIT */
/* covers: import.c */
/*
 * The books of an import against what a reader of the capture concludes from its events: random records, of which each figure is
 * computed twice, here and in tools/model and tools/load.
 */
#include "tests/check.h"
#include "tools/import/import.h"
#include "tools/load/load.h"
#include "tools/trace/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ADDRESSES 60

static uint64_t random_state;

static unsigned any(unsigned count)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 20) % count;
}

static struct import_text text(const char *at)
{
    return (struct import_text){at, strlen(at)};
}

/* One import into memory; `fd` holds the capture. */
struct one {
    int fd;
    struct import *import;
    struct import_counts counts;
    struct load load;
};

static void begin(struct one *one)
{
    *one = (struct one){.fd = memfd_create("import", MFD_CLOEXEC)};
    REQUIRE(one->fd >= 0);
    one->import = import_new(one->fd, "test record", "/some/file", "3");
}

static void end(struct one *one)
{
    char path[64];

    CHECK_EQ(import_done(one->import, &one->counts), 0);
    import_free_books(one->import);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", one->fd);
    REQUIRE(load_open(path, &one->load) == 0);
    CHECK(!read_is_damaged(one->load.capture));
    CHECK_EQ(one->load.capture->bad_records, 0);
}

static void done(struct one *one)
{
    load_close(&one->load);
    (void)close(one->fd);
}

static uint32_t stack(struct import *import, const char *outer, const char *inner, unsigned line)
{
    struct import_frame frame = {text(outer), text("train.py"), 10, false};
    uint32_t number = import_stack(import, 0, &frame);

    frame = (struct import_frame){text(inner), text("model.cpp"), line, true};
    return import_stack(import, number, &frame);
}

static void end_block(struct import *import, uint64_t address, uint64_t size, uint32_t thread)
{
    import_free(import, &(struct import_block){.address = address, .size = size, .thread = thread});
}

/* Allocations and frees of a few addresses, ranges, failures; frees of what was never allocated, allocations of what is live. */
static void tell_anything(struct import *import, unsigned steps, unsigned odd)
{
    static const char *const names[] = {"forward", "backward", "step"};
    bool live[ADDRESSES] = {false};

    for (unsigned i = 0; i < steps; i++) {
        unsigned at = any(ADDRESSES);
        uint32_t thread = import_thread(import, 1000 + any(3));
        struct import_block block = {.address = 0x1000 + at * 512,
                .size = 1 + any(100000),
                .thread = thread,
                .stack = stack(import, names[any(3)], "at::empty", any(5)),
                .device = (int)(at % 3),
                .by_stream = any(2)};

        import_time(import, UINT64_C(1000000) + i * UINT64_C(10));
        if (any(9) == 0)
            import_enter(import, thread, any(2), any(2), text(names[any(3)]));
        else if (any(9) == 0)
            import_leave(import, thread, any(2), NULL);
        if (live[at] && any(odd) != 0) {
            end_block(import, block.address, any(2) ? 7 : 0, thread);
            live[at] = false;
        } else {
            import_alloc(import, &block);
            live[at] = true;
        }
        import_reserved(import, (int)(i % 3), any(1000000));
        if (any(50) == 0)
            import_oom(import, &block, any(1000));
    }
}

static uint64_t sum_of_places(const struct read_capture *capture, int device)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < capture->place_count; i++)
        if (capture->place[i].device == device)
            bytes += capture->place[i].high_bytes;
    return bytes;
}

/* Header, live table and places, against the events. */
static void compare(const struct one *one)
{
    const struct read_capture *capture = one->load.capture;
    struct model_figures figures;
    uint64_t live = 0;

    model_figure(one->load.trace, model_whole(one->load.trace), NULL, &figures);
    CHECK_EQ(capture->total.live_bytes, figures.remaining);
    CHECK_EQ(capture->total.peak_bytes, figures.peak_live);
    CHECK_EQ(capture->total.allocated_bytes, figures.allocated);
    CHECK_EQ(capture->total.allocated_count, figures.allocated_count);
    CHECK_EQ(capture->total.peak_reserved_bytes, figures.peak_reserved);
    CHECK_EQ(one->counts.peak_bytes, figures.peak_live);
    for (size_t i = 0; i < capture->live_count; i++)
        live += capture->live[i].size;
    CHECK_EQ(live, figures.remaining);
    for (int device = 0; device < 3; device++) {
        CHECK_EQ(capture->high[device].bytes, capture->device_total[device].peak_bytes);
        CHECK_EQ(sum_of_places(capture, device), capture->high[device].bytes);
    }
    CHECK_EQ(capture->class_total[0].peak_bytes, figures.peak_live);
}

TEST(the_books_are_what_the_events_say)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct one one;

        random_state = seed;
        begin(&one);
        tell_anything(one.import, 400, UINT32_MAX);
        end(&one);
        compare(&one);
        CHECK_EQ(one.load.capture->lost.implied_frees, 0);
        CHECK_EQ(one.load.complete_from, 0);
        done(&one);
    }
}

/* Of a place the most bytes and the most blocks that were live at one time, which need not be one time. */
TEST(a_place_has_the_most_that_it_held)
{
    struct import_block block = {.size = 100};
    struct one one;

    begin(&one);
    block.thread = import_thread(one.import, 1);
    for (unsigned i = 0; i < 2; i++) {
        block.address = 0x1000 + i * 0x1000;
        import_alloc(one.import, &block);
    }
    for (unsigned i = 0; i < 2; i++)
        end_block(one.import, 0x1000 + i * 0x1000, 0, block.thread);
    block.size = 10;
    for (unsigned i = 0; i < 3; i++) {
        block.address = 0x1000 + i * 0x1000;
        import_alloc(one.import, &block);
    }
    end(&one);
    REQUIRE_EQ(one.load.capture->place_count, 1);
    CHECK_EQ(one.load.capture->place[0].peak_bytes, 200);
    CHECK_EQ(one.load.capture->place[0].peak_count, 3);
    CHECK_EQ(one.load.capture->place[0].live_bytes, 30);
    done(&one);
}

/* Addresses of one space have nothing to do with those of another one; whoever reads the capture sees each block at its own. */
TEST(blocks_of_two_spaces_may_have_one_address)
{
    struct import_block block = {.address = 0x1000, .size = 300};
    struct one one;

    for (unsigned seed = 1; seed <= 5; seed++) {
        bool live[4][8] = {{false}};

        random_state = seed;
        begin(&one);
        block.thread = import_thread(one.import, 1);
        for (unsigned i = 0; i < 400; i++) {
            unsigned at = any(8);

            block.space = any(4);
            block.device = (int)(block.space % 3);
            block.address = 0x1000 + at * 512;
            block.size = 1 + any(10000);
            CHECK_EQ(import_is_live(one.import, block.address, block.space), live[block.space][at]);
            if (live[block.space][at])
                import_free(one.import, &block);
            else
                import_alloc(one.import, &block);
            live[block.space][at] = !live[block.space][at];
        }
        CHECK(import_shared(one.import) > 50);
        end(&one);
        compare(&one);
        CHECK_EQ(one.load.capture->lost.implied_frees, 0);
        CHECK_EQ(one.load.capture->lost.unknown_frees, 0);
        done(&one);
    }
}

TEST(a_free_of_another_spaces_block_joins_them)
{
    struct import_block block = {.address = 0x1000, .size = 300, .space = 1};
    struct import_block other = {.address = 0x1000, .size = 299, .space = 2};
    struct one one;

    begin(&one);
    block.thread = other.thread = import_thread(one.import, 1);
    import_alloc(one.import, &block);
    import_join_by_free(one.import, &other); /* it is larger than what is freed */
    CHECK(!import_is_live(one.import, 0x1000, 2));
    import_alloc(one.import, &other);
    other.size = 512;
    other.space = 3;
    import_join_by_free(one.import, &other); /* of two blocks it could be either */
    CHECK(!import_is_live(one.import, 0x1000, 3));
    block.address = other.address = 0x2000;
    import_alloc(one.import, &block);
    import_join_by_free(one.import, &other);
    import_free(one.import, &other);
    CHECK(!import_is_live(one.import, 0x2000, 1));
    CHECK(import_is_live(one.import, 0x1000, 3));
    import_join(one.import, 2, 3);
    import_join(one.import, 2, 9);
    CHECK(import_is_live(one.import, 0x1000, 9) && !import_is_live(one.import, 0x1000, 8));
    end(&one);
    compare(&one);
    CHECK_EQ(one.load.capture->lost.unknown_frees, 0);
    done(&one);
}

/* An address that is allocated again was freed meanwhile; the events say so to whoever reads them. */
TEST(allocations_at_live_addresses_are_counted_once)
{
    struct one one;

    random_state = 77;
    begin(&one);
    tell_anything(one.import, 400, 4);
    end(&one);
    compare(&one);
    CHECK(one.load.capture->lost.implied_frees > 20);
    done(&one);
}

TEST(a_block_that_lived_before_the_record_is_in_all_figures)
{
    struct import_block block = {.address = 0x1000, .size = 300};
    struct one one;

    begin(&one);
    block.thread = import_thread(one.import, 1);
    import_alloc(one.import, &block);
    end_block(one.import, 0x9000, 4096, block.thread); /* by its free alone */
    end_block(one.import, 0x9000, 4096, block.thread); /* once more: a free of nothing */
    end_block(one.import, 0xa000, 0, block.thread);    /* of which nothing is known */
    block.address = 0x2000;
    block.size = 1000;
    import_alloc(one.import, &block);
    end(&one);
    CHECK_EQ(one.counts.before, 1);
    CHECK_EQ(one.counts.peak_bytes, 4396); /* before the first free */
    CHECK_EQ(one.counts.live_bytes, 1300);
    compare(&one);
    CHECK_EQ(one.load.capture->lost.unknown_frees, 2);
    CHECK(!one.load.capture->has_all_events);
    CHECK_EQ(one.load.complete_from, 1); /* behind the birth that was made up */
    CHECK_EQ(one.load.capture->high[0].bytes, 4396);
    done(&one);
}

/* Two threads; a line of nobody opens a range for both. */
TEST(a_thread_without_a_range_is_in_the_one_that_was_entered_last)
{
    struct import_block block = {.address = 0x1000, .size = 1};
    const char *const wanted[] = {"", "step", "step/forward", "step/forward", "step", ""};
    struct one one;

    begin(&one);
    uint32_t first = import_thread(one.import, 1);
    uint32_t second = import_thread(one.import, 2);
    struct import_text forward = text("forward");
    for (unsigned i = 0; i < 6; i++) {
        if (i == 1)
            import_enter(one.import, first, 0, true, text("step"));
        if (i == 2)
            import_enter(one.import, first, 1, true, forward);
        if (i == 4)
            import_leave(one.import, first, 1, &forward);
        if (i == 5)
            import_leave(one.import, first, 0, NULL);
        block.thread = i == 3 ? second : first;
        block.address += 512;
        import_alloc(one.import, &block);
    }
    import_leave(one.import, first, 0, NULL); /* nothing is open */
    end(&one);
    REQUIRE(one.load.trace->block_count == 6);
    for (unsigned i = 0; i < 6; i++)
        CHECK_STR_EQ(one.load.trace->anchors[one.load.trace->blocks[i].anchor].path, wanted[i]);
    CHECK_EQ(one.counts.anchors, 2);
    done(&one);
}

TEST(entering_a_single_range_ends_the_one_before)
{
    struct one one;

    begin(&one);
    uint32_t thread = import_thread(one.import, 1);
    for (unsigned i = 0; i < 3; i++)
        import_enter(one.import, thread, 5, true, text("SOT_CALL_0"));
    end(&one);
    REQUIRE(one.load.trace->anchor_count == 4);
    for (uint32_t i = 1; i < 4; i++) {
        CHECK_STR_EQ(one.load.trace->anchors[i].path, "SOT_CALL_0");
        CHECK_EQ(one.load.trace->anchors[i].instance, i - 1);
        CHECK_EQ(one.load.trace->anchors[i].exit == TRACE_NEVER, i == 3);
    }
    done(&one);
}

TEST(stacks_keep_their_frames_order_and_kind)
{
    struct import_block block = {.address = 0x1000, .size = 1};
    struct one one;

    begin(&one);
    block.stack = stack(one.import, "main", "at::empty(int)", 0);
    CHECK_EQ(block.stack, stack(one.import, "main", "at::empty(int)", 0));
    CHECK(block.stack != stack(one.import, "main", "at::empty(int)", 1));
    block.thread = import_thread(one.import, 1);
    import_alloc(one.import, &block);
    end(&one);
    const struct trace_stack *got = &one.load.trace->stacks[one.load.trace->blocks[0].stack];
    const struct trace_pyframe *frames = &one.load.trace->pyframes[got->pyfirst];

    REQUIRE(got->pycount == 2);
    CHECK_STR_EQ(frames[0].function, "at::empty(int)");
    CHECK(frames[0].is_native && frames[0].line == 0);
    CHECK_STR_EQ(frames[1].function, "main");
    CHECK_STR_EQ(frames[1].file, "train.py");
    CHECK(!frames[1].is_native && frames[1].line == 10);
    done(&one);
}
