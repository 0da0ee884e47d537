/* SPDX-License-Identifier: MIT */
/* covers: intern.c site.c */
#include "tests/unit/tracker/track_help.h"

#include "alloc/base/lock.h"
#include "tracker/base/site.h"
#include "tracker/stacks/intern.h"
#include "tracker/where/nth.h"

#include <pthread.h>
#include <stdlib.h>

TEST(a_string_has_one_number)
{
    char long_text[INTERN_STRING_BYTES_MAX + 100];
    uint32_t a = intern_string("step/forward", 12);
    uint32_t b = intern_string("step", 4);

    CHECK_NE(a, 0);
    CHECK_NE(a, b);
    CHECK_EQ(intern_string("step/forward and more", 12), a);
    CHECK_STR_EQ(intern_text(a), "step/forward");
    CHECK_EQ(intern_number(intern_text(a)), a);
    CHECK_EQ(intern_number("step/forward"), 0); /* a literal of somebody else's */
    CHECK_EQ(intern_number(""), 0);
    CHECK_EQ(intern_string("", 0), 0);
    CHECK_STR_EQ(intern_text(0), "");
    CHECK_STR_EQ(intern_text(999999), "");
    memset(long_text, 'x', sizeof long_text);
    CHECK_EQ(strlen(intern_text(intern_string(long_text, sizeof long_text))),
            INTERN_STRING_BYTES_MAX);
}

TEST(the_first_string_of_all_has_its_number)
{
    uint32_t first = intern_string("first", 5);
    struct intern_counts counts;

    intern_counts(&counts);
    REQUIRE_EQ(counts.strings, 1);
    CHECK_EQ(intern_number(intern_text(first)), first);
}

TEST(stacks_share_their_outer_part)
{
    struct intern_frame frames[] = {{1, 10}, {1, 20}, {2, 30}};
    struct intern_frame found[8];
    struct intern_counts counts;
    uint32_t leaf = intern_stack(frames, 3);
    uint32_t other;

    CHECK_EQ(leaf, 3);
    CHECK_EQ(intern_stack(frames, 3), leaf);
    frames[0].offset = 11;
    other = intern_stack(frames, 3);
    CHECK_EQ(other, 4);
    intern_counts(&counts);
    CHECK_EQ(counts.nodes, 4); /* one new node for one new leaf */
    REQUIRE_EQ(intern_frames(other, found, 8), 3);
    CHECK_EQ(found[0].offset, 11);
    CHECK_EQ(found[2].module, 2);
    CHECK_EQ(intern_frames(leaf, found, 1), 1);
    CHECK_EQ(found[0].offset, 10);
    CHECK_EQ(intern_frames(0, found, 8), 0);
    CHECK_EQ(intern_frames(77, found, 8), 0);
    CHECK_EQ(intern_stack(frames, 0), 0);
}

TEST(a_parent_has_the_smaller_number)
{
    struct intern_counts counts;

    for (uint64_t i = 0; i < 1000; i++) {
        struct intern_frame frames[4] = {{1, i}, {1, i % 100}, {1, i % 10}, {1, 1}};

        CHECK_NE(intern_stack(frames, 4), 0);
    }
    intern_counts(&counts);
    CHECK_GE(counts.nodes, 1111);
    for (uint32_t node = 1; node <= counts.nodes; node++) {
        struct intern_frame frame;
        uint32_t parent = 0;

        CHECK(intern_node_at(node, &parent, &frame));
        CHECK_LT(parent, node);
    }
}

TEST(equal_modules_are_one)
{
    struct intern_module module = {.base = 0x1000, .end = 0x2000, .hash = 7};
    uint32_t a = intern_module(&module);

    CHECK_EQ(intern_module(&module), a);
    module.hash = 8; /* rebuilt, loaded at the same place */
    CHECK_NE(intern_module(&module), a);
    REQUIRE(intern_module_at(a) != NULL);
    CHECK_EQ(intern_module_at(a)->hash, 7);
    CHECK(intern_module_at(0) == NULL);
    CHECK(intern_module_at(99) == NULL);
}

/* These values are in the hint files of users: whoever changes them voids those. */
TEST(site_keys_are_what_they_always_were)
{
    uint64_t frames[10];

    CHECK_EQ(site_frame(0, 0), 0x5ff3513c50073732);
    CHECK_EQ(site_frame(0x1234, 0x5678), 0xaa888832337f0c6d);
    for (unsigned i = 0; i < 10; i++)
        frames[i] = site_frame(i + 1, 100 * i);
    CHECK_EQ(site_combine(frames, 1), 0x5173805e12777b76);
    CHECK_EQ(site_combine(frames, 8), 0x8c2f7312ad1705e1);
    CHECK_EQ(site_combine(frames, 10), site_combine(frames, 8)); /* the innermost 8 count */
    CHECK_EQ(site_combine(frames, 0), 0);
    CHECK_EQ(site_hash("kedge", 5, 0), 0xde3270b0b09223b6);
    CHECK_EQ(site_hash("kedge-hints: 1\n", 15, 6), 0x34f9b190b4bb1b53);
}

TEST(order_and_place_of_frames_matter)
{
    uint64_t frames[] = {site_frame(1, 10), site_frame(1, 20)};
    uint64_t swapped[] = {frames[1], frames[0]};

    CHECK_NE(site_combine(frames, 2), site_combine(swapped, 2));
    CHECK_NE(site_frame(1, 2), site_frame(2, 1));
    CHECK_NE(site_combine(frames, 1), site_combine(frames, 2));
}

/* ---- nth ---- */

TEST(nth_counts_by_anchor_site_and_size)
{
    CHECK_EQ(nth_count(1, 5, 100), 0);
    CHECK_EQ(nth_count(1, 5, 100), 1);
    CHECK_EQ(nth_count(1, 5, 101), 0);
    CHECK_EQ(nth_count(1, 6, 100), 0);
    CHECK_EQ(nth_count(2, 5, 100), 0);
    CHECK_EQ(nth_count(1, 5, 100), 2);
}

/* A long run passes millions of anchor instances: the table must forget the closed ones, and only those. */
TEST(nth_forgets_closed_anchors_only)
{
    struct edge open, closed, leave;

    REQUIRE_EQ(anchor_push(NULL, "open", &open), 0);
    for (uint64_t i = 0; i < 500; i++)
        CHECK_EQ(nth_count(open.anchor, i, 1), 0);
    for (unsigned round = 0; round < 2000; round++) {
        REQUIRE_EQ(anchor_push(NULL, "step", &closed), 0);
        for (uint64_t i = 0; i < 100; i++)
            if (nth_count(closed.anchor, i, 1) != 0)
                CHECK_EQ(round, 0xffffffff);
        REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    }
    for (uint64_t i = 0; i < 500; i++)
        CHECK_EQ(nth_count(open.anchor, i, 1), 1);
    CHECK_EQ(nth_lost(), 0);
    CHECK_LE(nth_used(), 4096);
}

/* No room is said, never answered with a number that a hint could match. */
TEST(nth_without_room_is_unknown)
{
    uint64_t known = 0;

    for (uint64_t i = 0; i < NTH_SLOTS_MAX; i++) {
        uint32_t nth = nth_count(0, i, 1); /* outside all anchors: nothing may be forgotten */

        known += nth == 0;
        if (nth != 0 && nth != NTH_UNKNOWN)
            CHECK_EQ(nth, NTH_UNKNOWN);
    }
    CHECK_GE(known, NTH_SLOTS_MAX / 2);
    CHECK_EQ(known + nth_lost(), NTH_SLOTS_MAX);
    CHECK_GT(nth_lost(), 0);
    CHECK_EQ(nth_count(0, 3, 1), 1);
}

/* ---- threads ---- */

#define WORKERS 6

static void *intern_all(void *argument)
{
    uint32_t *numbers = argument;

    for (uint32_t i = 0; i < 2000; i++) {
        char text[32];
        struct intern_frame frames[3] = {{1, i}, {1, i / 10}, {1, i / 100}};
        int length = snprintf(text, sizeof text, "name %u", i);
        uint32_t leaf = intern_stack(frames, 3);
        struct intern_frame found[4];

        numbers[i] = intern_string(text, (size_t)length);
        /* whatever number comes back, what is behind it is complete */
        if (strcmp(intern_text(numbers[i]), text) != 0 || intern_frames(leaf, found, 4) != 3
                || found[0].offset != i)
            numbers[i] = 0;
    }
    return NULL;
}

TEST(threads_agree_on_numbers)
{
    static uint32_t numbers[WORKERS][2000];
    pthread_t threads[WORKERS];
    struct intern_counts counts;

    for (size_t i = 0; i < WORKERS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, intern_all, numbers[i]), 0);
    for (size_t i = 0; i < WORKERS; i++)
        (void)pthread_join(threads[i], NULL);
    for (size_t i = 0; i < 2000; i++) {
        CHECK_NE(numbers[0][i], 0);
        for (size_t j = 1; j < WORKERS; j++)
            CHECK_EQ(numbers[j][i], numbers[0][i]);
    }
    intern_counts(&counts);
    CHECK_EQ(counts.strings, 2000);
    CHECK_EQ(counts.nodes, 2000 + 200 + 20);
    CHECK_EQ(counts.refused, 0);
    CHECK_EQ(lock_violations(), 0);
}
