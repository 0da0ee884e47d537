/* SPDX-License-Identifier: MIT */
/* covers: top_watch.c top_view.c */
/* The process that is watched is this one: it writes a capture and looks at it. */
#include "tests/unit/tracker/track_help.h"

#include "tools/run/top_view.h"
#include "tools/run/top_watch.h"
#include "tools/symbols/title.h"

#include <stdlib.h>

#define MB (UINT64_C(1) << 20)

static uint64_t seq;

static __attribute__((noinline)) void allocate(devptr_t at, uint64_t size, int rule)
{
    struct tag tag;

    (void)where_am_i(NULL, size, 0, &tag);
    (void)capture_alloc(&(struct capture_alloc_info){
            .tag = &tag, .ptr = at, .seq = ++seq, .api = API_STREAM, .rule = rule});
}

static __attribute__((noinline)) void many_small(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        allocate(0x100000, 4096, -1);
        (void)track_free(0x100000, ++seq);
    }
    __asm__ volatile("" ::: "memory"); /* no tail call: the frame must stay */
}

static __attribute__((noinline)) void one_large(devptr_t at, int rule)
{
    allocate(at, 64 * MB, rule);
    __asm__ volatile("" ::: "memory");
}

static void begin(char file[static TRACK_PATH_MAX], enum format_trace trace)
{
    track_path(file, track_scratch(), "c.kcap");
    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    track_start(file, trace, 0);
}

static struct edge edge(const char *name)
{
    struct edge edge;

    REQUIRE_EQ(anchor_push(NULL, name, &edge), 0);
    (void)capture_edge(&edge, ++seq);
    return edge;
}

static void leave(void)
{
    struct edge edge;

    REQUIRE_EQ(anchor_pop(NULL, &edge), 0);
    (void)capture_edge(&edge, ++seq);
}

TEST(rates_and_orders_are_of_what_came_since_the_look_before)
{
    static const char *const orders[] = {"live", "peak", "rate"};
    char file[TRACK_PATH_MAX];
    struct top_watch watch[3];

    begin(file, FORMAT_TRACE_FULL);
    one_large(0x7000000, -1);
    for (unsigned look = 0; look < 2; look++) {
        many_small(look == 0 ? 10 : 5); /* one line: one call site */
        for (unsigned i = 0; i < 3; i++) {
            const struct rowpick_field *sort = rowpick_find(&top_watch_fields, orders[i]);
            bool by_rate = look == 1 && i == 2;

            REQUIRE_EQ(
                    look == 0 ? top_watch_open(file, sort, &watch[i]) : top_watch_look(&watch[i]),
                    0);
            CHECK_EQ(watch[i].seconds > 0, look > 0);
            CHECK(!watch[i].has_ended);
            REQUIRE_EQ(watch[i].site_count, 2);
            const struct top_watch_site *large = &watch[i].rows[by_rate];
            const struct top_watch_site *small = &watch[i].rows[!by_rate];
            CHECK_EQ(large->live_bytes, 64 * MB);
            CHECK_EQ(large->peak_bytes, 64 * MB);
            CHECK_EQ(large->recent_count, 0);
            CHECK_EQ(small->live_bytes, 0);
            CHECK_EQ(small->recent_count, look == 0 ? 0 : 5);
            CHECK_EQ(small->allocated_count, look == 0 ? 10 : 15);
        }
    }
    CHECK_EQ(watch[0].running.pid, getpid());
    CHECK_EQ(watch[0].capture->total.allocated_count - watch[0].before.allocated_count, 5);
    for (unsigned i = 0; i < 3; i++)
        top_watch_close(&watch[i]);
}

TEST(a_site_that_comes_later_has_a_name)
{
    char file[TRACK_PATH_MAX];
    struct top_watch watch;

    begin(file, FORMAT_TRACE_FULL);
    one_large(0x7000000, -1);
    REQUIRE_EQ(top_watch_open(file, NULL, &watch), 0);
    title_done(top_watch_titles(&watch, watch.site_count), watch.site_count);
    many_small(1);
    REQUIRE_EQ(top_watch_look(&watch), 0);
    REQUIRE_EQ(watch.site_count, 2);
    char **titles = top_watch_titles(&watch, 2);
    CHECK(strstr(titles[0], "one_large") != NULL);
    CHECK(strstr(titles[1], "many_small") != NULL);
    title_done(titles, 2);
    top_watch_close(&watch);
}

TEST(the_anchor_is_that_of_the_newest_event)
{
    char file[TRACK_PATH_MAX];
    struct top_watch watch;

    begin(file, FORMAT_TRACE_FULL);
    many_small(1);
    REQUIRE_EQ(top_watch_open(file, NULL, &watch), 0);
    CHECK_STR_EQ(watch.anchor, "");
    (void)edge("step");
    (void)edge("forward");
    many_small(1);
    REQUIRE_EQ(top_watch_look(&watch), 0);
    CHECK_STR_EQ(watch.anchor, "step/forward");
    leave();
    REQUIRE_EQ(top_watch_look(&watch), 0);
    CHECK_STR_EQ(watch.anchor, "step");
    (void)edge("forward");
    REQUIRE_EQ(top_watch_look(&watch), 0);
    CHECK_STR_EQ(watch.anchor, "step/forward");
    CHECK_EQ(watch.anchor_instance, 1); /* the second time */
    top_watch_close(&watch);
}

TEST(without_events_the_sites_are_there_and_no_anchor)
{
    char file[TRACK_PATH_MAX];
    struct top_watch watch;

    begin(file, FORMAT_TRACE_AGG);
    one_large(0x7000000, -1);
    REQUIRE_EQ(top_watch_open(file, NULL, &watch), 0);
    CHECK(watch.anchor == NULL);
    REQUIRE_EQ(watch.site_count, 1);
    CHECK_EQ(watch.sites[0].live_count, 1);
    top_watch_close(&watch);
}

/* What is shown; the caller frees it. */
static char *printed(struct top_watch *watch, bool is_screen)
{
    struct top_view view = {.top = 10, .is_screen = is_screen};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    REQUIRE(out != NULL);
    top_view_print(out, watch, &view);
    REQUIRE_EQ(fclose(out), 0);
    return text;
}

/* On a screen, too, where lines are cut instead of folded. */
TEST(each_call_site_has_its_name)
{
    char file[TRACK_PATH_MAX];
    struct top_watch watch;

    begin(file, FORMAT_TRACE_FULL);
    one_large(0x7000000, -1);
    many_small(3);
    REQUIRE_EQ(top_watch_open(file, NULL, &watch), 0);
    for (int is_screen = 0; is_screen < 2; is_screen++) {
        char *text = printed(&watch, is_screen == 1);
        const char *large = strstr(text, "64.00 MiB        1         -  one_large ");
        CHECK(large != NULL);
        CHECK(large && strstr(strchr(large, '\n'), "-  many_small ") != NULL);
        free(text);
    }
    top_watch_close(&watch);
}

TEST(another_run_in_the_same_file_ends_the_watch)
{
    char file[TRACK_PATH_MAX];
    struct top_watch watch;

    begin(file, FORMAT_TRACE_FULL);
    many_small(1);
    REQUIRE_EQ(top_watch_open(file, NULL, &watch), 0);
    REQUIRE_EQ(unlink(file), 0);
    track_start(file, FORMAT_TRACE_FULL, 0);
    many_small(1);
    REQUIRE_EQ(top_watch_look(&watch), 0);
    CHECK(watch.has_ended && watch.is_replaced);
    top_watch_close(&watch);
}
