/* SPDX-License-Identifier: MIT */
#include "tests/check.h"

#include "tracker/loglines.h"

#include <errno.h>
#include <string.h>

/* The kind and the name that one pattern finds in a line: "+name", "-name", "-" for any, "" for nothing. */
static const char *found(const char *pattern, const char *line)
{
    static struct loglines set;
    static char text[LOGLINES_LINE_MAX + 2];
    struct loglines_word word;
    const char *why = NULL;

    memset(&set, 0, sizeof set);
    if (loglines_add(&set, pattern, &why) < 0)
        return why;
    if (!loglines_match(&set, 0, line, strlen(line), &word))
        return "";
    text[0] = word.kind == LOGLINES_ENTER ? '+' : '-';
    if (word.name)
        memcpy(text + 1, word.name, word.name_length);
    text[1 + (word.name ? word.name_length : 0)] = '\0';
    return text;
}

#define CHECK_FINDS(pattern, line, wanted) CHECK_STR_EQ(found(pattern, line), wanted)

TEST(the_seeds_lines_are_found_without_a_setting)
{
    CHECK_FINDS(LOGLINES_DEFAULT, "START SOT_CALL_0", "+SOT_CALL_0");
    CHECK_FINDS(LOGLINES_DEFAULT, "START SOT_CALL_429 \r", "+SOT_CALL_429");
    CHECK_FINDS(LOGLINES_DEFAULT, "END SOT_CALL_0", "-SOT_CALL_0");
    CHECK_FINDS(LOGLINES_DEFAULT, "START", "");
    CHECK_FINDS(LOGLINES_DEFAULT, "START ", "");
    CHECK_FINDS(LOGLINES_DEFAULT, "START  SOT_CALL_0", "");
    CHECK_FINDS(LOGLINES_DEFAULT, "START SOT_CALL_0 now", "");
    CHECK_FINDS(LOGLINES_DEFAULT, "RESTART SOT_CALL_0", "");
    CHECK_FINDS(LOGLINES_DEFAULT, "Press START button", "");
    CHECK_FINDS(LOGLINES_DEFAULT, "", "");
}

TEST(what_a_logger_writes_in_front_does_not_matter)
{
    CHECK_FINDS(LOGLINES_DEFAULT, "INFO:root:START a", "+a");
    CHECK_FINDS(LOGLINES_DEFAULT, "I0101 12:00:00.0 7 sot.cc:12] START a", "+a");
    CHECK_FINDS(LOGLINES_DEFAULT, "2026-11-21 20:00 - trainer - INFO - START a", "+a");
    CHECK_FINDS(LOGLINES_DEFAULT, "20:00 | INFO |  START a", "+a");
    CHECK_FINDS(LOGLINES_DEFAULT, "  START a", "+a");
    CHECK_FINDS(LOGLINES_DEFAULT, "(rank 0) START a", "+a");
    CHECK_FINDS(LOGLINES_DEFAULT, "START START", "+START");
    CHECK_FINDS(LOGLINES_DEFAULT, "START: START a", "+a");
}

TEST(a_form_is_text_with_a_name_stars_and_question_marks)
{
    CHECK_FINDS("Epoch {}/*", "Epoch 12/90", "+12");
    CHECK_FINDS("Epoch {} *", "Epoch 12/90 begins", "+12/90");
    CHECK_FINDS("step {}:*", "step 5: loss 0.25", "+5");
    CHECK_FINDS("step {}:*", "step 5:a: loss", "+5");
    CHECK_FINDS("Epoch {*}", "Epoch 12 of 90", "+12 of 90");
    CHECK_FINDS("phase {*} begins", "phase forward pass begins", "+forward pass");
    CHECK_FINDS("EPOCH START", "EPOCH START", "+EPOCH START");
    CHECK_FINDS("EPOCH START", "EPOCH STARTED", "");
    CHECK_FINDS("Epoch *", "Epoch 3 of 10", "+Epoch 3 of 10");
    CHECK_FINDS("*it={}", "loss 1 it=7", "+7");
    CHECK_FINDS("it={}", "loss 1 it=7", "");
    CHECK_FINDS("ab?b {}", "ab,b x", "+x");
    CHECK_FINDS("step? {}", "step x", "");
    CHECK_FINDS("step? {}", "step, x", "+x");
    CHECK_FINDS("begin {}|done", "begin x", "+x");
    CHECK_FINDS("begin {}|done", "done", "-");
    CHECK_FINDS("begin {}|done *", "done with it", "-");
}

TEST(a_pattern_that_is_none_is_refused_with_the_reason)
{
    struct loglines set = {.count = 0};
    char longest[LOGLINES_TEXT_MAX + 1];
    const char *why = NULL;

    CHECK(strstr(found("", "x"), "two letters"));
    CHECK(strstr(found("{}", "x"), "two letters"));
    CHECK(strstr(found("a{}", "x"), "two letters"));
    CHECK(strstr(found("*a*", "x"), "two letters"));
    CHECK(strstr(found("a?b", "x"), "two letters"));
    CHECK(strstr(found("ab|", "x"), "two letters"));
    CHECK(strstr(found("ab {", "x"), "braces"));
    CHECK(strstr(found("ab {x}", "x"), "braces"));
    CHECK(strstr(found("ab {} {}", "x"), "one name"));
    CHECK(strstr(found("ab|cd|ef", "x"), "one |"));
    memset(longest, 'a', sizeof longest);
    longest[LOGLINES_TEXT_MAX] = '\0';
    CHECK(strstr(found(longest, "x"), "127"));
    longest[LOGLINES_TEXT_MAX - 1] = '\0';
    CHECK_STR_EQ(found(longest, "x"), "");
    for (unsigned i = 0; i < LOGLINES_MAX; i++)
        CHECK_EQ(loglines_add(&set, "ab", &why), 0);
    CHECK_EQ(loglines_add(&set, "ab", &why), -ENOSPC);
    CHECK(strstr(why, "16"));
}

/* Any bytes: every answer lies inside of the line. */
TEST(any_line_is_judged_inside_of_its_bounds)
{
    static const char *const patterns[] = {
            LOGLINES_DEFAULT, "ab{*}b*a|ab", "*ab?{}*a*b", "ab*a*b*a"};
    static const char letters[] = "ab \r:]{}STARTEND ";
    struct loglines set = {.count = 0};
    struct loglines_word word;
    const char *why;
    unsigned seed = 7, hits = 0;

    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        REQUIRE_EQ(loglines_add(&set, patterns[i], &why), 0);
    for (int round = 0; round < 200000; round++) {
        size_t length = (size_t)rand_r(&seed) % 24;
        char line[24]; /* no NUL behind it */

        for (size_t i = 0; i < length; i++)
            line[i] = letters[(unsigned)rand_r(&seed) % (sizeof letters - 1)];
        for (uint32_t p = 0; p < set.count; p++) {
            if (!loglines_match(&set, p, line, length, &word))
                continue;
            hits++;
            CHECK(!word.name
                    || (word.name >= line && word.name + word.name_length <= line + length));
            CHECK(!word.name || word.name_length > 0);
        }
    }
    CHECK_GT(hits, 100);
}
