/* SPDX-License-Identifier: MIT */
/* Memory of a thread behind a thread-local word. */
#include "alloc/lock.h"
#include "preload/threadmem.h"
#include "tests/check.h"

enum {
    BYTES = 5000,
};

static struct lock outer = LOCK_INIT(LOCK_RANK_PRELOAD);
static __thread char *word;

TEST(memory_is_zeroes_and_stands_in_the_word)
{
    char *memory = threadmem_make(&word, BYTES);

    REQUIRE(memory != NULL);
    CHECK(word == memory);
    CHECK_EQ((uintptr_t)memory % 16, 0);
    for (int i = 0; i < BYTES; i++)
        CHECK_EQ(memory[i], 0);
    memset(memory, 1, BYTES);
}

/* What makes it takes a lock, and calls the C library: a signal handler may be inside of either. */
TEST(while_a_lock_of_ours_is_held_there_is_none)
{
    lock_take(&outer);
    CHECK(threadmem_make(&word, BYTES) == NULL);
    CHECK(word == NULL);
    lock_drop(&outer);
    CHECK(threadmem_make(&word, BYTES) != NULL);
    CHECK_EQ(lock_violations(), 0);
}
