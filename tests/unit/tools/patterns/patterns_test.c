/* SPDX-License-Identifier: MIT */
/* covers: patterns.c */
/* What the uses of blocks say, of traces made by hand: event n happens at n microseconds. */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/patterns/patterns.h"
#include "tools/suggest/suggest_lastuse.h"
#include "tracker/format/format.h"

#define US UINT64_C(1000)
#define MB UINT64_C(0x100000)

static struct patterns_figures figure(struct story *story)
{
    struct patterns_figures figures;
    struct trace *trace = story->trace;

    for (size_t i = 0; i < trace->event_count; i++)
        trace->events[i].time_ns = (i + 1) * US;
    for (size_t i = 0; i < trace->block_count; i++) {
        trace->blocks[i].born_ns = (trace->blocks[i].born + 1) * US;
        if (trace->blocks[i].died != TRACE_NEVER)
            trace->blocks[i].died_ns = (trace->blocks[i].died + 1) * US;
    }
    patterns_figure(trace, model_whole(trace), &figures);
    return figures;
}

/* Used first and last at these microseconds, idle for the longest between two of them. */
static void used(struct story *story, uint32_t block, uint64_t first, uint64_t last,
        uint64_t idle_from, uint64_t idle_to)
{
    trace_set_uses(story->trace, block,
            &(struct trace_uses){.first = first * US,
                    .last = last * US,
                    .gap = (idle_to - idle_from) * US,
                    .gap_end = idle_to * US,
                    .count = 3});
    story->trace->blocks[block].use_flags = FORMAT_USE_WATCHED;
}

static void unused(struct story *story, uint32_t block)
{
    story->trace->blocks[block].use_flags = FORMAT_USE_WATCHED;
}

static bool costs(const struct patterns_row *row, uint64_t bytes, uint64_t us)
{
    double expected = (double)bytes * (double)us / 1e6;

    return row->cost > expected * 0.999999 && row->cost < expected * 1.000001;
}

TEST(a_block_that_nobody_uses_costs_its_life)
{
    struct story s = story_begin();
    uint32_t a = story_alloc(&s, 1, 4 * MB); /* 1 */
    uint32_t b = story_alloc(&s, 2, MB);     /* 2 */
    struct patterns_figures f;

    story_free(&s, b); /* 3 */
    story_free(&s, a); /* 4 */
    unused(&s, a);
    used(&s, b, 2, 3, 2, 3);
    f = figure(&s);
    CHECK_EQ(f.judged, 2);
    CHECK_EQ(f.judged_bytes, 5 * MB);
    REQUIRE_EQ(f.of[PATTERNS_UNUSED].count, 1);
    CHECK_EQ(f.of[PATTERNS_UNUSED].row[0].bytes, 4 * MB);
    CHECK(costs(&f.of[PATTERNS_UNUSED].row[0], 4 * MB, 3));
    CHECK_EQ(f.of[PATTERNS_UNUSED].row[0].at_max, 4 * MB);
    CHECK_EQ(f.of[PATTERNS_UNUSED].row[0].saves, 4 * MB);
    CHECK_EQ(f.of[PATTERNS_LATE].count, 0);
    CHECK_EQ(f.of[PATTERNS_EARLY].count, 0);
    CHECK_EQ(f.peak, 5 * MB);
    CHECK_EQ(f.peak_then, 4 * MB); /* it is there for its birth, and never beside the other */
    patterns_free(&f);
    story_end(&s);
}

/*
 * Threads number their events before they look at the clock, so an event may be later than those behind it: by the times alone
 * this block's last use was before its birth.
 */
TEST(nobody_is_done_with_a_block_before_its_birth)
{
    struct story s = story_begin();
    struct patterns_figures f;
    uint32_t a;

    (void)story_alloc(&s, 1, MB);
    (void)story_alloc(&s, 2, MB); /* by a thread that was not let run for a while */
    a = story_alloc(&s, 3, 4 * MB);
    (void)story_alloc(&s, 4, 2 * MB);
    for (uint32_t i = 0; i < 4; i++)
        used(&s, i, 500, 500, 500, 500);
    used(&s, a, 25, 30, 25, 30);
    f = figure(&s);
    patterns_free(&f);
    s.trace->events[0].time_ns = 10 * US;
    s.trace->events[1].time_ns = 100 * US;
    s.trace->events[a].time_ns = s.trace->blocks[a].born_ns = 20 * US;
    s.trace->events[3].time_ns = 120 * US;
    patterns_figure(s.trace, model_whole(s.trace), &f);
    CHECK_EQ(f.judged, 4);
    CHECK_EQ(f.peak, 8 * MB);
    CHECK_EQ(f.peak_then, 6 * MB); /* the first three; a has gone when the last comes */
    patterns_free(&f);
    story_end(&s);
}

/* Late is what somebody else could have had: something was allocated between the last use and the free. */
TEST(a_free_is_late_where_others_were_allocated_meanwhile)
{
    struct story s = story_begin();
    uint32_t late = story_alloc(&s, 1, 4 * MB); /* 1 */
    uint32_t timely = story_alloc(&s, 2, MB);   /* 2 */
    uint32_t next = story_alloc(&s, 3, 2 * MB); /* 3 */
    struct patterns_figures f;

    story_free(&s, late);   /* 4 */
    story_free(&s, timely); /* 5 */
    story_free(&s, next);   /* 6 */
    used(&s, late, 1, 2, 1, 2);
    used(&s, timely, 2, 3, 2, 3); /* at the moment of the last birth: nothing comes after it */
    used(&s, next, 3, 6, 3, 4);
    f = figure(&s);
    REQUIRE_EQ(f.of[PATTERNS_LATE].count, 1);
    CHECK_EQ(f.of[PATTERNS_LATE].row[0].bytes, 4 * MB);
    CHECK(costs(&f.of[PATTERNS_LATE].row[0], 4 * MB, 2));
    CHECK_EQ(f.of[PATTERNS_LATE].row[0].longest_ns, 2 * US);
    CHECK_EQ(f.of[PATTERNS_LATE].row[0].at_max, 4 * MB);
    CHECK_EQ(f.of[PATTERNS_LATE].row[0].saves, 2 * MB); /* the first two make the maximum then */
    CHECK_EQ(f.peak, 7 * MB);
    CHECK_EQ(f.peak_then, 5 * MB);
    patterns_free(&f);
    story_end(&s);
}

TEST(a_birth_is_early_where_others_were_freed_meanwhile)
{
    struct story s = story_begin();
    uint32_t first = story_alloc(&s, 1, MB);     /* 1 */
    uint32_t early = story_alloc(&s, 2, 8 * MB); /* 2 */
    uint32_t prompt = story_alloc(&s, 3, MB);    /* 3 */
    struct patterns_figures f;

    story_free(&s, first);  /* 4 */
    story_free(&s, early);  /* 5 */
    story_free(&s, prompt); /* 6 */
    used(&s, first, 1, 4, 1, 2);
    used(&s, early, 4, 5, 4, 5);
    used(&s, prompt, 3, 6, 3, 4);
    f = figure(&s);
    REQUIRE_EQ(f.of[PATTERNS_EARLY].count, 1);
    CHECK_EQ(f.of[PATTERNS_EARLY].row[0].bytes, 8 * MB);
    CHECK(costs(&f.of[PATTERNS_EARLY].row[0], 8 * MB, 2));
    CHECK_EQ(f.of[PATTERNS_EARLY].row[0].at_max, 8 * MB); /* not used yet when all three lived */
    CHECK_EQ(f.peak, 10 * MB);
    CHECK_EQ(f.of[PATTERNS_EARLY].row[0].saves, MB); /* its first use is beside the third alone */
    patterns_free(&f);
    story_end(&s);
}

TEST(the_longest_idle_times_come_first)
{
    struct story s = story_begin();
    uint32_t a = story_alloc(&s, 1, MB);
    uint32_t b = story_alloc(&s, 2, 3 * MB);
    uint32_t c = story_alloc(&s, 2, 3 * MB);
    struct patterns_figures f;

    for (int i = 0; i < 7; i++)
        story_free(&s, story_alloc(&s, 9, 512));
    used(&s, a, 2, 17, 3, 9);
    used(&s, b, 2, 17, 4, 6);
    used(&s, c, 3, 17, 5, 8);
    f = figure(&s);
    REQUIRE_EQ(f.of[PATTERNS_IDLE].count, 2);
    CHECK_EQ(f.of[PATTERNS_IDLE].row[0].bytes, 6 * MB); /* of one stack */
    CHECK_EQ(f.of[PATTERNS_IDLE].row[0].count, 2);
    CHECK(costs(&f.of[PATTERNS_IDLE].row[0], 3 * MB, 5));
    CHECK_EQ(f.of[PATTERNS_IDLE].row[0].longest_ns, 3 * US);
    CHECK(costs(&f.of[PATTERNS_IDLE].row[1], MB, 6));
    patterns_free(&f);
    story_end(&s);
}

/* Nobody could have had the memory of what is idle while nothing is allocated. */
TEST(idle_memory_saves_what_was_allocated_meanwhile)
{
    struct story s = story_begin();
    uint32_t idle = story_alloc(&s, 1, 4 * MB);  /* 1 */
    uint32_t guest = story_alloc(&s, 2, 3 * MB); /* 2 */
    uint32_t kept = story_alloc(&s, 3, MB);      /* 3 */
    struct patterns_figures f;

    story_free(&s, guest);          /* 4 */
    (void)story_alloc(&s, 4, 1024); /* 5 */
    story_free(&s, idle);           /* 6 */
    story_free(&s, kept);           /* 7 */
    used(&s, idle, 1, 5, 1, 5);
    used(&s, guest, 2, 4, 2, 4);
    used(&s, kept, 3, 7, 5, 7);
    f = figure(&s);
    REQUIRE_EQ(f.of[PATTERNS_IDLE].count, 2);
    CHECK_EQ(f.peak, 8 * MB);
    CHECK_EQ(f.of[PATTERNS_IDLE].row[0].bytes, 4 * MB);
    CHECK_EQ(f.of[PATTERNS_IDLE].row[0].saves, 3 * MB - 1024); /* 5: it, the third and the last */
    CHECK_EQ(f.of[PATTERNS_IDLE].row[1].bytes, 3 * MB);
    CHECK_EQ(f.of[PATTERNS_IDLE].row[1].saves, MB); /* 2: it is there for its first use */
    patterns_free(&f);
    story_end(&s);
}

TEST(a_block_could_use_the_memory_of_one_that_is_done_with)
{
    struct story s = story_begin();
    uint32_t first = story_alloc(&s, 1, 4 * MB);  /* 1 */
    uint32_t second = story_alloc(&s, 2, 4 * MB); /* 2 */
    uint32_t other = story_alloc(&s, 3, MB);      /* 3 */
    struct patterns_figures f;

    story_free(&s, first);  /* 4 */
    story_free(&s, second); /* 5 */
    story_free(&s, other);  /* 6 */
    used(&s, first, 1, 2, 1, 2);
    used(&s, second, 3, 5, 3, 5);
    used(&s, other, 3, 6, 3, 6);
    s.trace->blocks[first].stack = 7;
    s.trace->blocks[second].stack = 8;
    f = figure(&s);
    REQUIRE_EQ(f.of[PATTERNS_REDUNDANT].count, 1);
    CHECK_EQ(f.of[PATTERNS_REDUNDANT].row[0].stack, 8);
    CHECK_EQ(f.of[PATTERNS_REDUNDANT].row[0].other, 7);
    CHECK_EQ(f.of[PATTERNS_REDUNDANT].row[0].count, 1);
    CHECK_EQ(f.of[PATTERNS_REDUNDANT].row[0].longest_ns, 2 * US);
    CHECK_EQ(f.peak, 9 * MB);
    CHECK_EQ(f.of[PATTERNS_REDUNDANT].row[0].saves, 4 * MB);
    CHECK_EQ(f.of[PATTERNS_REDUNDANT].saves, 4 * MB);
    patterns_free(&f);
    story_end(&s);
}

TEST(a_dead_write_costs_no_memory)
{
    struct story s = story_begin();
    uint32_t twice = story_alloc(&s, 1, 4 * MB);
    uint32_t once = story_alloc(&s, 2, MB);
    struct patterns_figures f;

    used(&s, twice, 1, 2, 1, 2);
    used(&s, once, 1, 2, 1, 2);
    s.trace->blocks[twice].use_flags |= FORMAT_USE_DEAD_WRITE;
    f = figure(&s);
    REQUIRE_EQ(f.of[PATTERNS_DEAD_WRITE].count, 1);
    CHECK_EQ(f.of[PATTERNS_DEAD_WRITE].row[0].bytes, 4 * MB);
    CHECK_EQ(f.of[PATTERNS_DEAD_WRITE].row[0].saves, 0);
    patterns_free(&f);
    story_end(&s);
}

/* Two call sites, each of which alone leaves the maximum to the other. */
TEST(savings_of_two_findings_do_not_add_up)
{
    struct story s = story_begin();
    uint32_t a = story_alloc(&s, 1, 4 * MB);
    struct patterns_figures f;

    story_free(&s, a);
    uint32_t b = story_alloc(&s, 2, 4 * MB);
    story_free(&s, b);
    unused(&s, a);
    unused(&s, b);
    f = figure(&s);
    REQUIRE_EQ(f.of[PATTERNS_UNUSED].count, 2);
    CHECK_EQ(f.of[PATTERNS_UNUSED].row[0].saves, 0);
    CHECK_EQ(f.of[PATTERNS_UNUSED].row[1].saves, 0);
    CHECK_EQ(f.of[PATTERNS_UNUSED].saves, 4 * MB);
    patterns_free(&f);
    story_end(&s);
}

TEST(what_may_have_been_used_unseen_is_not_judged)
{
    static const unsigned flags[] = {0, FORMAT_USE_WATCHED | FORMAT_USE_LOST,
            FORMAT_USE_WATCHED | FORMAT_USE_SHOWN, FORMAT_USE_WATCHED | FORMAT_USE_UNSEEN};
    struct story s = story_begin();
    uint32_t block[4];
    struct patterns_figures f;

    for (unsigned i = 0; i < 4; i++)
        block[i] = story_alloc(&s, i + 1, MB);
    for (unsigned i = 0; i < 4; i++)
        s.trace->blocks[block[i]].use_flags = (uint8_t)flags[i];
    f = figure(&s);
    CHECK_EQ(f.judged, 0);
    CHECK_EQ(f.doubtful_bytes, 4 * MB);
    for (unsigned i = 0; i < PATTERNS_DOUBTS; i++)
        CHECK_EQ(f.doubts[i], 1);
    CHECK_EQ(f.of[PATTERNS_UNUSED].count, 0);
    CHECK_EQ(f.peak_then, f.peak);
    patterns_free(&f);
    story_end(&s);
}

/* What is live at the end costs until then, and blocks from before the window are none of its. */
TEST(what_is_never_freed_is_a_leak)
{
    struct story s = story_begin();
    uint32_t kept = story_alloc(&s, 1, MB);  /* 1 */
    uint32_t other = story_alloc(&s, 2, MB); /* 2 */
    struct patterns_figures f;
    struct model_window window = {.first = 1, .last = 3};

    story_free(&s, other); /* 3 */
    used(&s, kept, 1, 1, 1, 1);
    used(&s, other, 2, 3, 2, 3);
    f = figure(&s);
    CHECK_EQ(f.of[PATTERNS_LATE].count, 0);
    REQUIRE_EQ(f.of[PATTERNS_LEAK].count, 1);
    CHECK(costs(&f.of[PATTERNS_LEAK].row[0], MB, 2));
    CHECK_EQ(f.of[PATTERNS_LEAK].row[0].saves, MB);
    patterns_free(&f);
    patterns_figure(s.trace, window, &f);
    CHECK_EQ(f.of[PATTERNS_LEAK].count, 0);
    CHECK_EQ(f.judged, 1);
    patterns_free(&f);
    story_end(&s);
}

/* Late by the innermost exit after the last use and before the free; what is not to be judged is not late. */
TEST(the_last_use_tells_by_which_exit_a_block_is_late)
{
    struct story s = story_begin();
    uint32_t inner, outer, timely, doubtful, silent, after;
    struct patterns_figures f;
    struct compare late;

    story_enter(&s, "STEP");        /* 1 */
    story_enter(&s, "LAYER");       /* 2 */
    inner = story_alloc(&s, 1, MB); /* 3 */
    outer = story_alloc(&s, 2, MB); /* 4 */
    timely = story_alloc(&s, 3, MB);
    doubtful = story_alloc(&s, 4, MB);
    silent = story_alloc(&s, 5, MB);
    after = story_alloc(&s, 6, MB); /* 8 */
    story_free(&s, timely);         /* 9 */
    story_exit(&s);                 /* 10 */
    (void)story_alloc(&s, 7, MB);   /* 11 */
    story_exit(&s);                 /* 12 */
    for (uint32_t b = inner; b <= after; b++)
        if (b != timely)
            story_free(&s, b);
    used(&s, inner, 4, 9, 4, 9);
    used(&s, outer, 5, 11, 5, 11);
    used(&s, timely, 6, 7, 6, 7);
    used(&s, doubtful, 7, 8, 7, 8);
    s.trace->blocks[doubtful].use_flags |= FORMAT_USE_SHOWN;
    unused(&s, silent);
    used(&s, after, 9, 13, 9, 13); /* after both exits */
    f = figure(&s);
    suggest_lastuse_late(s.trace, model_whole(s.trace), &late);
    REQUIRE_EQ(late.late_count, 3);
    CHECK_EQ(late.unjudged.count, 2);   /* the doubtful one, and one whose uses are not recorded */
    CHECK_EQ(late.late[2].bad, silent); /* never used at all */
    CHECK(strcmp(s.trace->anchors[late.late[2].anchor].path, "STEP/LAYER") == 0);
    CHECK_EQ(late.late[0].bad, inner);
    CHECK(strcmp(s.trace->anchors[late.late[0].anchor].path, "STEP/LAYER") == 0);
    CHECK_EQ(late.late[1].bad, outer);
    CHECK(strcmp(s.trace->anchors[late.late[1].anchor].path, "STEP") == 0);
    CHECK_EQ(late.late_bytes, 3 * MB);
    compare_done(&late);
    patterns_free(&f);
    story_end(&s);
}
