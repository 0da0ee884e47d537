/* SPDX-License-Identifier: MIT */
/* covers: pylines.c */
/*
 * Line tables as real interpreters made them, with what the interpreter itself says of each instruction: from a function
 * with calls over several lines, lines that go back, ranges without a line and jumps of 140 and 1500 lines, and the module
 * around it (co_lines).
 */
#include "tests/check.h"
#include "tracker/hints/pylines.h"

#include <stdlib.h>
#include <string.h>

/* From byte `at` on, `line`; 0 = none. */
struct expected {
    int32_t at;
    unsigned line;
};

static const unsigned char module_10[] = {2, 4, 10, 255, 0, 127, 0, 127, 0, 127, 0, 127, 0, 127, 0,
        127, 0, 127, 0, 127, 0, 127, 0, 127, 0, 127, 0, 127, 0, 127, 0, 127, 0, 127, 8, 57};
static const struct expected module_10_lines[] = {{0, 5}, {2, 4}, {12, 1966}};

static const unsigned char function_10[] = {6, 3, 6, 1, 6, 255, 10, 3, 2, 1, 2, 255, 2, 1, 2, 1, 4,
        1, 2, 1, 2, 255, 2, 2, 4, 254, 2, 4, 2, 1, 2, 3, 2, 253, 4, 255, 30, 249, 2, 7, 2, 1, 2, 3,
        2, 253, 6, 255, 46, 249, 10, 12, 0, 127, 4, 14, 0, 127, 0, 127, 0, 127, 0, 127, 0, 127, 0,
        127, 0, 127, 0, 127, 0, 127, 0, 127, 0, 127, 4, 104};
static const struct expected function_10_lines[] = {{0, 7}, {6, 8}, {12, 7}, {18, 10}, {28, 11},
        {30, 10}, {32, 11}, {34, 12}, {36, 13}, {40, 14}, {42, 13}, {44, 15}, {46, 13}, {50, 17},
        {52, 18}, {54, 21}, {56, 18}, {58, 17}, {62, 10}, {92, 17}, {94, 18}, {96, 21}, {98, 18},
        {100, 17}, {106, 10}, {152, 22}, {162, 163}, {166, 1664}};

static const unsigned char module_11[] = {240, 3, 1, 1, 1, 240, 10, 1, 9, 12, 240, 3, 124, 25, 1,
        13, 240, 0, 124, 25, 1, 13, 240, 0, 124, 25, 1, 13, 240, 0, 124, 25, 1, 13, 240, 84, 61, 0,
        5, 6, 128, 1, 128, 1, 128, 1};
static const struct expected module_11_lines[] = {{0, 0}, {2, 5}, {4, 4}, {12, 1966}};

static const unsigned char function_11[] = {128, 0, 240, 6, 2, 9, 15, 240, 0, 2, 9, 15, 221, 18, 23,
        152, 1, 145, 40, 148, 40, 240, 3, 2, 9, 15, 241, 0, 2, 9, 15, 244, 0, 2, 9, 15, 128, 65,
        245, 6, 0, 10, 14, 136, 97, 137, 23, 140, 23, 240, 0, 11, 5, 25, 144, 65, 216, 12, 13, 240,
        3, 11, 5, 25, 216, 17, 18, 240, 2, 9, 9, 25, 221, 19, 20, 144, 81, 216, 16, 17, 241, 3, 1,
        20, 19, 244, 0, 1, 20, 19, 224, 20, 21, 244, 5, 2, 20, 23, 240, 8, 0, 18, 19, 216, 17, 18,
        144, 17, 240, 6, 0, 22, 23, 241, 7, 3, 18, 24, 244, 0, 3, 18, 24, 241, 3, 4, 18, 24, 136,
        65, 240, 15, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 241, 0, 11,
        5, 25, 244, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0,
        11, 5, 25, 240, 0, 11, 5, 25, 241, 0, 11, 5, 25, 244, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240,
        0, 11, 5, 25, 248, 240, 14, 0, 18, 19, 216, 17, 18, 144, 17, 240, 6, 0, 22, 23, 241, 7, 3,
        18, 24, 244, 0, 3, 18, 24, 241, 3, 4, 18, 24, 136, 65, 240, 0, 4, 13, 25, 240, 0, 4, 13, 25,
        240, 0, 4, 13, 25, 240, 0, 4, 13, 25, 240, 15, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5,
        25, 240, 0, 11, 5, 25, 248, 248, 248, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5,
        25, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 241, 0, 11,
        5, 25, 244, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240, 0,
        11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 248, 248, 248, 240, 0, 11, 5, 25, 240, 0,
        11, 5, 25, 240, 0, 11, 5, 25, 240, 0, 11, 5, 25, 240, 24, 0, 14, 15, 208, 4, 20, 208, 4, 20,
        136, 1, 136, 1, 240, 90, 4, 0, 9, 10, 128, 65, 240, 122, 46, 0, 12, 13, 128, 72};
static const struct expected function_11_lines[] = {{0, 4}, {2, 7}, {6, 8}, {34, 7}, {52, 10},
        {84, 11}, {86, 10}, {88, 11}, {90, 12}, {92, 13}, {106, 14}, {108, 13}, {122, 15},
        {124, 13}, {134, 17}, {136, 18}, {140, 21}, {142, 18}, {156, 17}, {162, 10}, {212, 0},
        {214, 17}, {216, 18}, {220, 21}, {222, 18}, {236, 17}, {250, 10}, {258, 0}, {264, 10},
        {304, 0}, {310, 10}, {318, 22}, {328, 163}, {332, 1664}};

static const unsigned char module_13[] = {
        240, 3, 1, 1, 1, 240, 10, 1, 9, 12, 244, 3, 124, 25, 1, 13, 240, 84, 61, 0, 5, 6, 129, 1};
static const struct expected module_13_lines[] = {{0, 0}, {2, 5}, {4, 4}, {14, 1966}};

static const unsigned char function_13[] = {128, 0, 244, 8, 0, 19, 24, 152, 1, 148, 40, 243, 3, 2,
        9, 15, 217, 18, 26, 136, 81, 220, 12, 13, 247, 5, 0, 10, 11, 217, 18, 26, 240, 3, 0, 5, 6,
        240, 0, 2, 9, 15, 244, 6, 0, 10, 14, 136, 97, 140, 23, 144, 65, 217, 12, 13, 144, 17, 240,
        2, 9, 9, 25, 220, 19, 20, 144, 81, 216, 16, 17, 243, 3, 1, 20, 19, 224, 20, 21, 241, 5, 2,
        20, 23, 240, 8, 0, 18, 19, 217, 17, 18, 240, 6, 0, 22, 23, 243, 7, 3, 18, 24, 241, 3, 4, 18,
        24, 136, 65, 247, 13, 0, 13, 14, 136, 65, 247, 3, 0, 10, 17, 137, 23, 249, 242, 7, 2, 9, 15,
        248, 240, 20, 0, 18, 19, 217, 17, 18, 240, 6, 0, 22, 23, 243, 7, 3, 18, 24, 241, 3, 4, 18,
        24, 137, 65, 250, 247, 13, 0, 13, 14, 141, 65, 250, 136, 65, 247, 3, 0, 10, 17, 143, 23,
        142, 23, 250, 243, 24, 0, 14, 15, 136, 1, 145, 4, 137, 81, 240, 90, 4, 0, 9, 10, 128, 65,
        240, 122, 46, 0, 12, 13, 128, 72};
static const struct expected function_13_lines[] = {{0, 4}, {2, 8}, {24, 7}, {32, 8}, {38, 9},
        {48, 7}, {64, 8}, {68, 7}, {72, 10}, {96, 11}, {102, 12}, {104, 13}, {116, 14}, {118, 13},
        {126, 15}, {128, 13}, {132, 17}, {134, 18}, {138, 21}, {140, 18}, {148, 17}, {154, 11},
        {172, 10}, {192, 0}, {196, 7}, {202, 0}, {204, 17}, {206, 18}, {210, 21}, {212, 18},
        {220, 17}, {228, 0}, {234, 11}, {262, 0}, {268, 11}, {270, 10}, {316, 0}, {322, 22},
        {340, 163}, {344, 1664}};

static const struct {
    struct pylines lines;
    const struct expected *expected;
    size_t count;
    int32_t end; /* of the code */
} tables[] = {
        {{FORMAT_PYTABLE_LINETABLE, module_10, sizeof module_10, 1}, module_10_lines,
                sizeof module_10_lines / sizeof module_10_lines[0], 20},
        {{FORMAT_PYTABLE_LINETABLE, function_10, sizeof function_10, 4}, function_10_lines,
                sizeof function_10_lines / sizeof function_10_lines[0], 170},
        {{FORMAT_PYTABLE_LOCATIONS, module_11, sizeof module_11, 1}, module_11_lines,
                sizeof module_11_lines / sizeof module_11_lines[0], 20},
        {{FORMAT_PYTABLE_LOCATIONS, function_11, sizeof function_11, 4}, function_11_lines,
                sizeof function_11_lines / sizeof function_11_lines[0], 336},
        {{FORMAT_PYTABLE_LOCATIONS, module_13, sizeof module_13, 1}, module_13_lines,
                sizeof module_13_lines / sizeof module_13_lines[0], 20},
        {{FORMAT_PYTABLE_LOCATIONS, function_13, sizeof function_13, 4}, function_13_lines,
                sizeof function_13_lines / sizeof function_13_lines[0], 348},
};

TEST(lines_are_what_the_interpreter_says)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        size_t run = 0;

        for (int32_t at = 0; at < tables[i].end; at += 2) {
            while (run + 1 < tables[i].count && tables[i].expected[run + 1].at <= at)
                run++;
            CHECK_EQ(pylines_find(&tables[i].lines, at), tables[i].expected[run].line);
        }
        CHECK_EQ(run + 1, tables[i].count);
    }
}

TEST(before_the_first_instruction_is_the_first_line)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        CHECK_EQ(pylines_find(&tables[i].lines, -1), (unsigned)tables[i].lines.first_line);
}

TEST(a_table_of_no_known_kind_knows_no_line)
{
    struct pylines lines = tables[0].lines;

    lines.table = FORMAT_PYTABLE_NONE;
    CHECK_EQ(pylines_find(&lines, 0), 0);
    lines.table = (enum format_pytable)1;
    CHECK_EQ(pylines_find(&lines, 0), 0);
}

/* Each in memory of its own length, so that a read behind it is seen. */
TEST(cut_and_broken_tables_are_read_to_their_end)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (size_t length = 0; length <= tables[i].lines.length; length++) {
            struct pylines lines = tables[i].lines;
            unsigned char *bytes = malloc(length + (length == 0));

            REQUIRE(bytes != NULL);
            memcpy(bytes, lines.bytes, length);
            lines.bytes = bytes;
            lines.length = length;
            for (int kind = FORMAT_PYTABLE_NONE; kind < FORMAT_PYTABLE_COUNT; kind++) {
                lines.table = (enum format_pytable)kind;
                (void)pylines_find(&lines, INT32_MAX);
                lines.first_line = INT32_MAX;
                (void)pylines_find(&lines, 20);
                memset(bytes, 0xFF - kind, length);
                (void)pylines_find(&lines, INT32_MAX);
            }
            free(bytes);
        }
    }
    CHECK(true);
}
