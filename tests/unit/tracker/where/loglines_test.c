/* SPDX-License-Identifier: MIT */
/* covers: loglines.c */
#include "tests/check.h"

#include "tracker/where/loglines.h"

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
    CHECK_FINDS("in C:\\{}\\*", "in C:\\a\\b", "+a"); /* a backslash is a byte like any other */
    CHECK_FINDS("in {} C:\\*", "in a C:*", "");
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

/* ---- against the definition ----------------------------------------------------------------- */

/* `*` any bytes, `?` one: [text, end) as a whole. */
static bool glob(const char *pattern, const char *text, const char *end)
{
    if (*pattern == '\0')
        return text == end;
    if (*pattern == '*')
        return glob(pattern + 1, text, end) || (text < end && glob(pattern, text + 1, end));
    return text < end && (*pattern == '?' || *pattern == *text) && glob(pattern + 1, text + 1, end);
}

static bool begins(const struct loglines_form *form, const char *line, const char *at)
{
    if (strncmp(at, form->text, form->text_length) != 0)
        return false;
    while (!form->anywhere && at > line && at[-1] == ' ')
        at--;
    return form->anywhere || at == line || at[-1] == ']';
}

/* Every place, every name, from the left and the shortest first. */
static bool by_definition(const struct loglines_form *form, const char *line, const char *end,
        const char **ret_name, size_t *ret_length)
{
    for (const char *at = line; at + form->text_length <= end; at++) {
        const char *name = at + form->text_length;

        if (!begins(form, line, at))
            continue;
        for (const char *stop = name + 1; stop <= end; stop++) {
            if (form->name == LOGLINES_WORD && stop[-1] == ' ')
                break;
            if (glob(form->tail, stop, end)) {
                *ret_name = name;
                *ret_length = (size_t)(stop - name);
                return true;
            }
        }
    }
    return false;
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

TEST(random_lines_match_as_the_definition_says)
{
    static const char letters[] = "aab] ";
    static const char tails[] = "aab*?";
    uint32_t seed = 7;
    unsigned matched = 0;

    for (int i = 0; i < 200000; i++) {
        struct loglines set = {.count = 0};
        struct loglines_word word;
        const char *why = "";
        char pattern[32];
        char line[24];
        const char *name = NULL;
        size_t length = 0, used, bytes;
        bool matches;

        used = (size_t)snprintf(pattern, sizeof pattern, "%s%s%s", draw(&seed, 2) ? "*" : "",
                draw(&seed, 2) ? "aa" : "ab", draw(&seed, 2) ? "{}" : "{*}");
        for (uint32_t n = draw(&seed, 6); n > 0; n--)
            pattern[used++] = tails[draw(&seed, sizeof tails - 1)];
        pattern[used] = '\0';
        REQUIRE_EQ(loglines_add(&set, pattern, &why), 0);
        bytes = draw(&seed, sizeof line - 1);
        for (size_t n = 0; n < bytes; n++)
            line[n] = letters[draw(&seed, sizeof letters - 1)];
        while (bytes > 0 && line[bytes - 1] == ' ')
            bytes--;
        line[bytes] = '\0';
        matches = by_definition(&set.patterns[0].enter, line, line + bytes, &name, &length);
        if (loglines_match(&set, 0, line, bytes, &word) != matches
                || (matches && (word.name != name || word.name_length != length)))
            printf("'%s' in '%s'\n", pattern, line);
        REQUIRE_EQ(word.kind == LOGLINES_ENTER, matches);
        CHECK(!matches || (word.name == name && word.name_length == length));
        matched += matches;
    }
    CHECK_GT(matched, 10000); /* both answers were tried */
}
