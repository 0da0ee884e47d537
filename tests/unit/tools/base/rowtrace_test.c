/* SPDX-License-Identifier: MIT */
/* covers: rowtrace.c */
#include "tests/check.h"

#include "tools/base/rowtrace.h"

#include <errno.h>

#define HEAD "op,id,size,stream,time_us\n"

static int read_text(const char *text, struct rowtrace *steps)
{
    FILE *in = fmemopen((void *)(size_t)text, strlen(text), "r");
    REQUIRE(in != NULL);
    int r = rowtrace_read_stream(in, "t.csv", steps);
    (void)fclose(in);
    return r;
}

TEST(a_trace_is_read_with_its_peak)
{
    struct rowtrace s;
    REQUIRE_EQ(read_text(HEAD "a,7,100,0,-1\na,8,50,3,10\nf,7,100,0,20\na,9,20,0,30\n", &s), 0);
    CHECK_EQ(s.row_count, 4);
    CHECK_EQ(s.alloc_count, 3);
    CHECK_EQ(s.row_count - s.alloc_count, 1);
    CHECK_EQ(s.before_count, 1);
    CHECK_EQ(s.peak_bytes, 150);
    CHECK_EQ(s.stream_count, 2);
    CHECK_EQ(s.streams[s.blocks[1].stream], 3);
    CHECK(s.rows[2].is_free);
    CHECK_EQ(s.rows[2].block, 0);
    rowtrace_done(&s);
}

TEST(an_id_may_come_again_after_its_free)
{
    struct rowtrace s;
    REQUIRE_EQ(read_text(HEAD "a,1,10,0,1\nf,1,10,0,2\na,1,30,0,3\nf,1,30,0,4\n", &s), 0);
    CHECK_EQ(s.block_count, 2);
    CHECK_EQ(s.rows[3].block, 1);
    rowtrace_done(&s);
}

TEST(windows_line_ends_are_fine)
{
    struct rowtrace s;
    CHECK_EQ(read_text("op,id,size,stream,time_us\r\na,1,10,0,1\r\n", &s), 0);
    CHECK_EQ(s.alloc_count, 1);
    rowtrace_done(&s);
}

TEST(faults_are_told_with_file_line_and_column)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
            {"", "t.csv:1:1: no allocations"},
            {HEAD, "t.csv:2:1: no allocations"},
            {"a,1,10,0,1\n",
                    "t.csv:1:1: the first line must be " ROWTRACE_HEAD ", or " ROWTRACE_RMM_HEAD},
            {HEAD "b,1,10,0,1\n", "t.csv:2:1: op must be a or f"},
            {HEAD "a,1,10,0,1\na,x,10,0,1\n", "t.csv:3:3: id, size and stream must be numbers"},
            {HEAD "a,1,-10,0,1\n", "t.csv:2:5: id, size and stream must be numbers"},
            {HEAD "a,1,10\n", "t.csv:2:7: id, size and stream must be numbers"},
            {HEAD "a,1,10,0,\n", "t.csv:2:10: time_us must be a number, and the last column"},
            {HEAD "a,1,10,0,1,2\n", "t.csv:2:12: time_us must be a number, and the last column"},
            {HEAD "a,1,0,0,1\n", "t.csv:2:5: size 0"},
            {HEAD "a,1,10,0,1\na,1,10,0,2\n", "t.csv:3:3: this is allocated already"},
            {HEAD "a,1,10,0,1\nf,2,10,0,2\n", "t.csv:3:3: this is not allocated"},
            {HEAD "a,1,10,0,1\nf,1,10,0,2\nf,1,10,0,3\n", "t.csv:4:3: this is not allocated"},
            {HEAD "a,1,10,0,1\nf,1,11,0,2\n",
                    "t.csv:3:5: freed with another size than it was allocated with"},
            {HEAD "a,1,18446744073709551615,0,1\na,2,1,0,1\n",
                    "t.csv:3:5: sizes add up to more than 64 bits hold"},
            {HEAD "a,1,18446744073709551616,0,1\n",
                    "t.csv:2:5: id, size and stream must be numbers"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rowtrace s;
        if (*cases[i].text == '\0') /* fmemopen wants at least a byte */
            (void)rowtrace_read_stream(fopen("/dev/null", "r"), "t.csv", &s);
        else
            CHECK_EQ(read_text(cases[i].text, &s), -EINVAL);
        CHECK_STR_EQ(s.error, cases[i].error);
        rowtrace_done(&s);
    }
}

TEST(a_missing_file_is_told)
{
    struct rowtrace s;
    CHECK_EQ(rowtrace_read("/nowhere/t.csv", &s), -ENOENT);
    CHECK_STR_EQ(s.error, "/nowhere/t.csv: No such file or directory");
    rowtrace_done(&s);
}
