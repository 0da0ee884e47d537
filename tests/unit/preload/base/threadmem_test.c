/* SPDX-License-Identifier: MIT */
/* covers: threadmem.c */
/* Memory of a thread behind a thread-local word. */
#include "alloc/base/lock.h"
#include "alloc/base/meta.h"
#include "preload/base/threadmem.h"
#include "tests/check.h"

#include <pthread.h>

enum {
    BYTES = 5000,
    THREADS = 300,
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

/* ---- threads that end ----------------------------------------------------------------------- */

static __thread char *second;
static char first_own, second_own;
static pthread_key_t later; /* its function runs behind that of the memory */
static unsigned ended;

static void is_as_before(void *unused)
{
    (void)unused;
    ended += word == &first_own && second == &second_own;
    (void)threadmem_make(&word, BYTES); /* what runs here may need it again */
}

static void *use_both(void *unused)
{
    (void)unused;
    word = &first_own;
    second = &second_own;
    CHECK(threadmem_make(&word, BYTES) == word && word != &first_own);
    CHECK(threadmem_make(&second, BYTES) == second && second != &second_own);
    CHECK(word + BYTES <= second || second + BYTES <= word);
    memset(word, 1, BYTES);
    memset(second, 2, BYTES);
    REQUIRE(pthread_setspecific(later, &later) == 0);
    return NULL;
}

static void run_threads(unsigned count)
{
    pthread_t thread;

    for (unsigned i = 0; i < count; i++) {
        REQUIRE(pthread_create(&thread, NULL, use_both, NULL) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
}

TEST(with_its_thread_the_memory_goes_and_words_are_as_before)
{
    uint64_t before;

    threadmem_prepare();
    REQUIRE(pthread_key_create(&later, is_as_before) == 0);
    run_threads(10);
    before = meta_bytes();
    run_threads(THREADS);
    CHECK_EQ(meta_bytes(), before);
    CHECK_EQ(ended, 10 + THREADS);
}

/* ---- where there is none -------------------------------------------------------------------- */

static void *
        instead; /* what stands in the word behind the next question for memory, as of a signal handler that came in between */
static bool is_full;

void *__real_meta_get(size_t size);
void *__wrap_meta_get(size_t size);

void *__wrap_meta_get(size_t size)
{
    if (instead)
        word = instead;
    return is_full ? NULL : __real_meta_get(size);
}

TEST(without_memory_the_word_is_as_it_was)
{
    is_full = true;
    word = &first_own;
    CHECK(threadmem_make(&word, BYTES) == NULL);
    CHECK(word == &first_own);
    is_full = false;
    CHECK(threadmem_make(&word, BYTES) == word);
    CHECK(word != &first_own);
}

TEST(what_a_signal_handler_has_made_meanwhile_is_the_threads)
{
    uint64_t before;

    instead = &second_own;
    word = NULL;
    CHECK(threadmem_make(&word, BYTES) == &second_own);
    before = meta_bytes();
    for (int i = 0; i < 1000; i++) { /* the other memory goes back */
        word = NULL;
        CHECK(threadmem_make(&word, BYTES) == &second_own);
    }
    CHECK_EQ(meta_bytes(), before);
    CHECK(word == &second_own);
}
