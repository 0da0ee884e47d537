/* SPDX-License-Identifier: MIT */
/* covers: peek.c */
/* Memory that may not be there is copied where it is, and is no fault where it is not. */
#include "tests/check.h"

#include "tracker/base/peek.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096
};

/* Three pages; the middle one gets `protection`. */
static char *three_pages(int protection)
{
    char *pages = mmap(
            NULL, (size_t)3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(pages != MAP_FAILED);
    memset(pages, 'k', (size_t)3 * PAGE);
    REQUIRE_EQ(mprotect(pages + PAGE, PAGE, protection), 0);
    return pages;
}

TEST(what_is_there_is_copied)
{
    char *pages = three_pages(PROT_READ);
    char copy[2 * PAGE] = {0};

    errno = 7;
    for (size_t at = 0; at < PAGE; at += 61) {
        memset(copy, 0, sizeof copy);
        CHECK(peek_copy(copy, pages + at, sizeof copy - 7));
        CHECK_EQ(memcmp(copy, pages + at, sizeof copy - 7), 0);
        CHECK_EQ(copy[sizeof copy - 7], 0);
    }
    CHECK(peek_copy(copy, pages + (size_t)3 * PAGE - 1, 1));
    CHECK(peek_copy(copy, NULL, 0));
    CHECK_EQ(errno, 7);
}

TEST(what_is_not_there_is_no_fault)
{
    char *pages = three_pages(PROT_NONE);
    char copy[2 * PAGE] = {0};

    CHECK(!peek_copy(copy, pages + PAGE, 1));
    CHECK(!peek_copy(copy, pages + PAGE - 1, 2));
    CHECK(!peek_copy(copy, pages + PAGE - 8, 2 * PAGE));
    CHECK(!peek_copy(copy, NULL, 8));
    CHECK(!peek_copy(copy, (const void *)UINTPTR_MAX, 1));
    CHECK_EQ(copy[0], 0);
    CHECK(peek_copy(copy, pages + PAGE - 1, 1));
    CHECK(peek_copy(copy, pages + (size_t)2 * PAGE, PAGE));
    REQUIRE_EQ(munmap(pages + PAGE, PAGE), 0);
    CHECK(!peek_copy(copy, pages + PAGE - 1, 2));
}

TEST(a_file_that_ends_before_its_mapping_is_no_fault)
{
    FILE *file = tmpfile();
    char copy[8];
    char *pages;

    REQUIRE(file);
    REQUIRE_EQ(ftruncate(fileno(file), PAGE), 0);
    pages = mmap(NULL, (size_t)2 * PAGE, PROT_READ, MAP_SHARED, fileno(file), 0);
    REQUIRE(pages != MAP_FAILED);
    CHECK(peek_copy(copy, pages + PAGE - 8, 8));
    CHECK(!peek_copy(copy, pages + PAGE - 4, 8));
    (void)fclose(file);
}
