/* SPDX-License-Identifier: MIT */
/* covers: nth.c export_exit.c */
/* The counts by which rules name allocations: through growth, the end of anchors, and forks. */
#include "tests/unit/tracker/track_help.h"

#include "alloc/base/lock.h"
#include "tracker/where/nth.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
    KEYS = 20000, /* several times what the table begins with */
};

TEST(counts_survive_growth)
{
    uint64_t lost = nth_lost();

    for (uint32_t turn = 0; turn < 3; turn++)
        for (uint64_t key = 0; key < KEYS; key++)
            REQUIRE_EQ(nth_count(0, key * 977, 512 * (key % 7 + 1)), turn);
    CHECK_GE(nth_used(), KEYS);
    CHECK_EQ(nth_lost(), lost);
}

/* None of these is open: their counts go when there is no room. */
TEST(counts_of_closed_anchors_make_room)
{
    uint64_t lost = nth_lost();
    uint32_t before = nth_used();

    for (uint32_t anchor = 1; anchor <= 50; anchor++)
        for (uint64_t key = 0; key < 1000; key++)
            REQUIRE_EQ(nth_count(anchor, key, 4096), 0);
    CHECK_LT(nth_used(), before + 20000); /* of 50,000 */
    CHECK_EQ(nth_lost(), lost);
}

/* ---- forks ---------------------------------------------------------------------------------- */

static atomic_bool is_over;

/* The table is made anew all the time, larger and smaller. */
static void *come_and_go(void *data)
{
    static _Atomic uint32_t anchor = 1;

    (void)data;
    while (!atomic_load(&is_over)) {
        uint32_t now = atomic_fetch_add(&anchor, 1);

        for (uint64_t key = 0; key < 3000 * (now % UINT64_C(4) + 1); key++)
            (void)nth_count(now, key, 512);
    }
    return NULL;
}

static void be_a_child(void)
{
    lock_forget_thread();
    where_fork_child();
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint64_t key = 0; key < 6000; key++)
            if (nth_count(0, key, 1024) != turn)
                _exit(1);
    _exit(0);
}

TEST(r39_a_child_comes_while_the_table_is_made_anew)
{
    enum {
        FORKS = 200,
        THREADS = 3,
    };
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    CHECK_EQ(track_forks(FORKS, be_a_child), 0);
    atomic_store(&is_over, true);
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
}
