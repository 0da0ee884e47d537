/* SPDX-License-Identifier: MIT */
/* covers: lock.c */
#include "alloc/base/lock.h"
#include "tests/check.h"

/* Deliberate violations are kept in this file: each test runs in a process of its own. */

static struct lock pool_lock = LOCK_INIT(LOCK_RANK_POOL);
static struct lock meta_lock = LOCK_INIT(LOCK_RANK_META);
static long counter;

static void *count(void *arg) TSA(no_thread_safety_analysis)
{
    for (int i = 0; i < 50000; i++) {
        lock_take(&pool_lock);
        counter++;
        if (i % 64 == 0) {
            lock_take(&meta_lock);
            lock_drop(&meta_lock);
        }
        lock_drop(&pool_lock);
    }
    return arg;
}

TEST(one_thread_at_a_time)
{
    pthread_t threads[16];

    for (int i = 0; i < 16; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(counter, 16 * 50000);
    CHECK_EQ(lock_violations(), 0);
}

static void *nap(void *arg) TSA(no_thread_safety_analysis)
{
    const struct timespec moment = {.tv_nsec = 200000};

    for (int i = 0; i < 200; i++) {
        lock_take(&pool_lock);
        counter++;
        if (i % 20 == 0)
            (void)nanosleep(&moment, NULL); /* longer than anybody looks: the others sleep */
        lock_drop(&pool_lock);
    }
    return arg;
}

TEST(who_sleeps_at_a_lock_is_woken)
{
    pthread_t threads[8];

    for (int i = 0; i < 8; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, nap, NULL), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(counter, 8 * 200);
    CHECK_EQ(lock_violations(), 0);
}

static int recalls;

static void recall(struct lock *lock)
{
    CHECK(lock == &pool_lock);
    recalls++;
}

TEST(what_is_lent_is_recalled_by_who_takes_the_lock_and_not_by_who_takes_it_lent)
TSA(no_thread_safety_analysis)
{
    pool_lock.recall = recall;
    lock_take_leaf(&pool_lock);
    lock_drop_lent(&pool_lock, true);
    CHECK(!lock_try_leaf(&pool_lock));
    CHECK(!lock_take_lent(&pool_lock)); /* nobody had it */
    CHECK_EQ(recalls, 0);
    lock_drop_lent(&pool_lock, true);
    lock_take(&pool_lock);
    CHECK_EQ(recalls, 1);
    lock_drop(&pool_lock);
    lock_take_leaf(&pool_lock);
    CHECK_EQ(recalls, 1); /* it was lent no more */
    lock_drop_lent(&pool_lock, true);
    lock_take_leaf(&pool_lock);
    CHECK_EQ(recalls, 2);
    lock_drop_leaf(&pool_lock);
    CHECK(lock_try_leaf(&pool_lock));
    lock_drop_leaf(&pool_lock);
    CHECK_EQ(lock_violations(), 0);
}

static void *count_lent(void *arg) TSA(no_thread_safety_analysis)
{
    for (int i = 0; i < 50000; i++) {
        if (i % 8 == 0)
            lock_take_leaf(&pool_lock);
        else
            (void)lock_take_lent(&pool_lock);
        counter++;
        lock_drop_lent(&pool_lock, i % 3 == 0);
    }
    return arg;
}

TEST(one_thread_at_a_time_has_what_is_lent)
{
    pthread_t threads[8];

    pool_lock.recall = recall;
    for (int i = 0; i < 8; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, count_lent, NULL), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(counter, 8 * 50000);
    CHECK_GT(recalls, 0);
    CHECK_EQ(lock_violations(), 0);
}

TEST(rising_order_is_fine) TSA(no_thread_safety_analysis)
{
    lock_take(&pool_lock);
    lock_take(&meta_lock);
    lock_drop(&pool_lock); /* the order of letting go does not matter */
    lock_drop(&meta_lock);
    CHECK_EQ(lock_violations(), 0);
    CHECK_EQ(lock_assert_none("test"), 0);
}

TEST(falling_order_is_counted) TSA(no_thread_safety_analysis)
{
    lock_take(&meta_lock);
    lock_take(&pool_lock);
    CHECK_EQ(lock_violations(), 1);
    lock_drop(&pool_lock);
    lock_drop(&meta_lock);
    CHECK_EQ(lock_violations(), 1);
    CHECK_STR_EQ(lock_last_violation(), "a lock was taken out of order");
}

TEST(r36_a_lock_held_at_a_blocking_call_is_counted) TSA(no_thread_safety_analysis)
{
    lock_take(&pool_lock);
    CHECK_EQ(lock_assert_none("cuMemAlloc"), 1);
    lock_take(&meta_lock);
    CHECK_EQ(lock_assert_none("cuMemFree"), 2);
    lock_drop(&meta_lock);
    lock_drop(&pool_lock);
    CHECK_EQ(lock_assert_none("cuMemCreate"), 0);
    CHECK_EQ(lock_violations(), 2);
    CHECK_STR_EQ(lock_last_violation(), "cuMemFree");
}

TEST(a_drop_of_what_is_not_held_is_counted) TSA(no_thread_safety_analysis)
{
    lock_drop(&pool_lock);
    CHECK_EQ(lock_violations(), 1);
    lock_take(&pool_lock);
    lock_drop(&pool_lock);
    CHECK_EQ(lock_violations(), 1);
}

TEST(a_forked_child_starts_anew) TSA(no_thread_safety_analysis)
{
    /* as pool_forget does it, here with the lock held by "another thread" at the fork */
    lock_take(&pool_lock);
    lock_forget_thread();
    lock_init(&pool_lock, LOCK_RANK_POOL);
    CHECK_EQ(lock_assert_none("first call"), 0);
    lock_take(&pool_lock);
    lock_drop(&pool_lock);
    CHECK_EQ(lock_violations(), 0);
}
