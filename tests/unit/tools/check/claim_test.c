/* SPDX-License-Identifier: MIT */
/* covers: claim.c */
#include "tests/check.h"

#include "tools/check/claim.h"

#define GIB (UINT64_C(1) << 30)

static const uint64_t NO_BOUND = UINT64_MAX;

TEST(every_figure_is_a_claim_of_its_own)
{
    for (unsigned i = 0; i < CLAIM_FIGURE_COUNT; i++) {
        const struct claim_row *row = claim_row((enum claim_figure)i);
        struct claim claim;
        struct claim_error error;
        char text[80];

        (void)snprintf(text, sizeof(text), "%s%s<=3%s", row->name,
                row->has_file ? "(good run.kcap)" : "", row->is_bytes ? "GiB" : "");
        REQUIRE(claim_parse(text, &claim, &error));
        CHECK_EQ(claim.figure, i);
        CHECK_EQ(claim.op, CLAIM_LESS_EQUAL);
        CHECK_EQ(claim.limit, row->is_bytes ? 3 * GIB : 3);
        CHECK(!claim.anchor);
        CHECK(!!claim.file == row->has_file);
        CHECK(!claim.file || strcmp(claim.file, "good run.kcap") == 0);
        CHECK(strlen(row->what) > 10);
        claim_done(&claim);
        (void)snprintf(text, sizeof(text), "anchor:\"SOT_*\".%s>=1", row->name);
        CHECK_EQ(claim_parse(text, &claim, &error), row->has_anchors);
        if (row->has_anchors) {
            CHECK_STR_EQ(claim.anchor, "SOT_*");
            claim_done(&claim);
        }
    }
}

TEST(blanks_quotes_and_units_are_as_people_write_them)
{
    static const struct {
        const char *text;
        enum claim_figure figure;
        enum claim_op op;
        uint64_t limit;
        const char *anchor, *file;
    } rows[] = {
            {"peak<12GiB", CLAIM_PEAK, CLAIM_LESS, 12 * GIB, NULL, NULL},
            {"  peak \t<  12G ", CLAIM_PEAK, CLAIM_LESS, 12 * GIB, NULL, NULL},
            {"reserved>=1048576", CLAIM_RESERVED, CLAIM_GREATER_EQUAL, 1 << 20, NULL, NULL},
            {"leaks==0", CLAIM_LEAKS, CLAIM_EQUAL, 0, NULL, NULL},
            {"leaks != 7", CLAIM_LEAKS, CLAIM_NOT_EQUAL, 7, NULL, NULL},
            {"allocations>7", CLAIM_ALLOCATIONS, CLAIM_GREATER, 7, NULL, NULL},
            {"anchor:\"SOT_CALL_*\".remaining<1GiB", CLAIM_REMAINING, CLAIM_LESS, GIB, "SOT_CALL_*",
                    NULL},
            {"anchor:step_?.remaining==0", CLAIM_REMAINING, CLAIM_EQUAL, 0, "step_?", NULL},
            {"anchor:\"a.b < c\" . peak <= 1KiB", CLAIM_PEAK, CLAIM_LESS_EQUAL, 1024, "a.b < c",
                    NULL},
            {"anchor:\"a\\\"b\\\\\".peak<=1KiB", CLAIM_PEAK, CLAIM_LESS_EQUAL, 1024, "a\\\"b\\\\",
                    NULL},
            {"anchor:a\\.b.peak<=1KiB", CLAIM_PEAK, CLAIM_LESS_EQUAL, 1024, "a\\.b", NULL},
            {"late(\"a\\\")==0", CLAIM_LATE, CLAIM_EQUAL, 0, NULL, "a\\"},
            {"late( good.kcap )==0", CLAIM_LATE, CLAIM_EQUAL, 0, NULL, "good.kcap"},
            {"late(good.kcap)==0", CLAIM_LATE, CLAIM_EQUAL, 0, NULL, "good.kcap"},
            {"late( \"odd (1).kcap\" ) <= 2", CLAIM_LATE, CLAIM_LESS_EQUAL, 2, NULL,
                    "odd (1).kcap"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct claim claim;
        struct claim_error error;

        REQUIRE(claim_parse(rows[i].text, &claim, &error));
        CHECK_EQ(claim.figure, rows[i].figure);
        CHECK_EQ(claim.op, rows[i].op);
        CHECK_EQ(claim.limit, rows[i].limit);
        CHECK_STR_EQ(claim.anchor ? claim.anchor : "-", rows[i].anchor ? rows[i].anchor : "-");
        CHECK_STR_EQ(claim.file ? claim.file : "-", rows[i].file ? rows[i].file : "-");
        claim_done(&claim);
    }
}

TEST(every_fault_has_its_column_and_what_would_do)
{
    static const struct {
        const char *text;
        unsigned column;
        const char *error;
    } rows[] = {
            {"", 1, "a figure is missing"},
            {"<3", 1, "a figure is missing"},
            {"  peek<3", 3, "unknown figure 'peek'; did you mean 'peak'?"},
            {"elephants==0", 1, "unknown figure 'elephants'; kedge check --help lists them"},
            {"peak", 5,
                    "< <= == != >= or > is missing (a shell needs quotes around an expression)"},
            {"peak=3", 5, "< <= == != >= or > is missing"},
            {"peak 12GiB", 6, "< <= == != >= or > is missing"},
            {"peak<", 6, "what to compare with is missing"},
            {"peak< 12XB", 7, "'12XB' is not a size (try 512M or 12GiB)"},
            {"peak<B", 6, "'B' is not a size (try 512M or 12GiB)"},
            {"leaks==12B", 8, "'12B' is not a number"},
            {"peak<-1", 6, "'-1' is not a size (try 512M or 12GiB)"},
            {"peak<1GiB leaks==0", 6, "'1GiB leaks==0' is not a size (try 512M or 12GiB)"},
            {"peak<99999999999999999999", 6,
                    "'99999999999999999999' is not a size (try 512M or 12GiB)"},
            {"leaks==1K", 8, "'1K' is not a number"},
            {"peak(good.kcap)<3", 5, "'peak' takes no file"},
            {"late==0", 5, "'late' needs the capture to compare with: late(FILE)"},
            {"late()==0", 6, "the name of the file is missing"},
            {"late(good.kcap==0", 18, "a ')' is missing behind the file"},
            {"late(\"good.kcap)==0", 6, "the quote of the file has no end"},
            {"anchor:.peak<3", 8, "the name of the anchor is missing"},
            {"anchor:\"x\"peak<3", 11, "a '.' is missing behind the anchor"},
            {"anchor:\"x\\\".peak<3", 8, "the quote of the anchor has no end"},
            {"anchor:x\\ .peak<3", 9, "the anchor ends in a single \\"},
            {"anchor:\"x\".growth==0", 12, "'growth' is of the whole run, not of an anchor"},
            {"anchor:\"x\".leak==0", 12, "unknown figure 'leak'; did you mean 'leaks'?"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct claim claim;
        struct claim_error error = {0};

        CHECK(!claim_parse(rows[i].text, &claim, &error));
        CHECK_EQ(error.column, rows[i].column);
        CHECK_STR_EQ(error.text, rows[i].error);
    }
}

/* Of each operator: below, at and above the limit, the answers where the value is known. */
TEST(every_operator_compares)
{
    static const enum claim_answer want[CLAIM_OP_COUNT][3] = {
            [CLAIM_LESS] = {CLAIM_YES, CLAIM_NO, CLAIM_NO},
            [CLAIM_LESS_EQUAL] = {CLAIM_YES, CLAIM_YES, CLAIM_NO},
            [CLAIM_EQUAL] = {CLAIM_NO, CLAIM_YES, CLAIM_NO},
            [CLAIM_NOT_EQUAL] = {CLAIM_YES, CLAIM_NO, CLAIM_YES},
            [CLAIM_GREATER_EQUAL] = {CLAIM_NO, CLAIM_YES, CLAIM_YES},
            [CLAIM_GREATER] = {CLAIM_NO, CLAIM_NO, CLAIM_YES},
    };

    for (unsigned op = 0; op < CLAIM_OP_COUNT; op++) {
        for (uint64_t k = 0; k < 3; k++)
            CHECK_EQ(claim_holds((struct claim_range){9 + k, 9 + k}, (enum claim_op)op, 10),
                    want[op][k]);
    }
}

TEST(what_is_known_in_part_may_be_enough)
{
    const struct claim_range so_far = {10, NO_BOUND}; /* of a run that was cut off */
    const struct claim_range nothing = {0, NO_BOUND};

    CHECK_EQ(claim_holds(so_far, CLAIM_LESS, 10), CLAIM_NO);
    CHECK_EQ(claim_holds(so_far, CLAIM_LESS, 11), CLAIM_UNKNOWN);
    CHECK_EQ(claim_holds(so_far, CLAIM_GREATER, 9), CLAIM_YES);
    CHECK_EQ(claim_holds(so_far, CLAIM_GREATER, 10), CLAIM_UNKNOWN);
    CHECK_EQ(claim_holds(so_far, CLAIM_GREATER_EQUAL, 10), CLAIM_YES);
    CHECK_EQ(claim_holds(so_far, CLAIM_EQUAL, 9), CLAIM_NO);
    CHECK_EQ(claim_holds(so_far, CLAIM_EQUAL, 10), CLAIM_UNKNOWN);
    CHECK_EQ(claim_holds(so_far, CLAIM_NOT_EQUAL, 9), CLAIM_YES);
    for (unsigned op = 0; op < CLAIM_OP_COUNT; op++)
        CHECK_EQ(claim_holds(nothing, (enum claim_op)op, 10), CLAIM_UNKNOWN);
}

TEST(bytes_have_a_unit_and_those_without_one_are_told_apart)
{
    static const struct {
        const char *text;
        uint64_t limit;
        bool is_bare;
    } rows[] = {
            {"peak<12GB", UINT64_C(12) << 30, false},
            {"peak<12GiB", UINT64_C(12) << 30, false},
            {"peak<12 ", 12, true},
            {"peak<12B", 12, false},
            {"growth==0", 0, false},
            {"leaks==12", 12, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct claim_error error;
        struct claim claim;

        REQUIRE(claim_parse(rows[i].text, &claim, &error));
        CHECK_EQ(claim.limit, rows[i].limit);
        CHECK_EQ(claim.is_bare, rows[i].is_bare);
        claim_done(&claim);
    }
}

TEST(one_no_is_no_and_one_unknown_is_no_yes)
{
    CHECK_EQ(claim_both(CLAIM_YES, CLAIM_YES), CLAIM_YES);
    CHECK_EQ(claim_both(CLAIM_YES, CLAIM_UNKNOWN), CLAIM_UNKNOWN);
    CHECK_EQ(claim_both(CLAIM_UNKNOWN, CLAIM_YES), CLAIM_UNKNOWN);
    CHECK_EQ(claim_both(CLAIM_UNKNOWN, CLAIM_NO), CLAIM_NO);
    CHECK_EQ(claim_both(CLAIM_NO, CLAIM_UNKNOWN), CLAIM_NO);
    CHECK_EQ(claim_both(CLAIM_NO, CLAIM_YES), CLAIM_NO);
}
