/* SPDX-License-Identifier: MIT */
/* covers: vec.c */
#include "tools/base/vec.h"

#include <stdint.h>

#include "tests/check.h"

struct row {
    uint64_t bytes;
    uint16_t stream;
};

TEST(rows_are_sorted_by_the_first_key_and_equal_ones_by_the_next)
{
    static const struct vec_key keys[] = {VEC_DOWN(struct row, bytes), VEC_UP(struct row, stream)};
    struct row rows[] = {{1, 2}, {UINT64_MAX, 7}, {1, 1}, {5, 0xffff}, {1, 3}};

    VEC_SORT_BY(rows, 5, keys);
    CHECK_EQ(rows[0].stream, 7);
    CHECK_EQ(rows[1].bytes, 5);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(rows[2 + i].stream, i + 1);
}

TEST(no_rows_need_no_array)
{
    static const struct vec_key keys[] = {VEC_UP(struct row, bytes)};
    struct row *none = NULL;

    VEC_SORT_BY(none, 0, keys);
    CHECK(none == NULL);
}
