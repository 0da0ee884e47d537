/* SPDX-License-Identifier: MIT */
/* covers: render.c */
#include "tests/check.h"

#include "tools/base/render.h"
#include "tracker/base/utf8.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST(bytes_are_printed_with_binary_units)
{
    CHECK_STR_EQ(render_bytes(3538944).text, "3.38 MiB");
    CHECK_STR_EQ(render_bytes(2 * UINT64_C(3538944)).text, "6.75 MiB");
    CHECK_STR_EQ(render_bytes(3 * UINT64_C(3538944)).text, "10.12 MiB");
}

TEST(bytes_change_unit_at_1024)
{
    CHECK_STR_EQ(render_bytes(0).text, "0.00 B");
    CHECK_STR_EQ(render_bytes(1023).text, "1023.00 B");
    CHECK_STR_EQ(render_bytes(1024).text, "1.00 KiB");
    CHECK_STR_EQ(render_bytes(UINT64_C(1) << 40).text, "1.00 TiB");
    CHECK_STR_EQ(render_bytes(UINT64_C(1) << 52).text, "4096.00 TiB");
    CHECK_STR_EQ(render_bytes(UINT64_MAX).text, "not known");
}

/* What a writer function prints, as one string. */
static char *printed(void (*write)(struct json *json))
{
    char *text = NULL;
    size_t length = 0;
    struct json json = {.out = open_memstream(&text, &length)};

    write(&json);
    (void)fclose(json.out);
    return text;
}

static void write_nested(struct json *json)
{
    json_begin(json, NULL, '{');
    json_uint(json, "a", 1);
    json_begin(json, "b", '[');
    json_end(json, ']');
    json_begin(json, "c", '[');
    json_bool(json, NULL, true);
    json_text(json, NULL, NULL);
    json_end(json, ']');
    json_real(json, "d", 0.5);
    json_end(json, '}');
}

TEST(an_answer_in_json_begins_with_its_schema)
{
    char *text = NULL;
    size_t length = 0;
    struct json json = json_open(open_memstream(&text, &length));

    json_bool(&json, "a", true);
    json_end(&json, '}');
    (void)fclose(json.out);
    CHECK_STR_EQ(text, "{\n  \"schema\": 1,\n  \"a\": true\n}\n");
    free(text);
}

TEST(an_answer_in_one_line_has_no_other_newline)
{
    char *text = NULL;
    size_t length = 0;
    struct json json = json_open_line(open_memstream(&text, &length));

    json_begin(&json, "a", '[');
    json_end(&json, ']');
    json_begin(&json, "b", '[');
    json_uint(&json, NULL, 1);
    json_text(&json, NULL, "two\n");
    json_end(&json, ']');
    json_end(&json, '}');
    (void)fclose(json.out);
    CHECK_STR_EQ(text, "{\"schema\": 1,\"a\": [],\"b\": [1,\"two\\u000a\"]}\n");
    free(text);
}

TEST(json_has_commas_between_and_nowhere_else)
{
    char *text = printed(write_nested);
    CHECK_STR_EQ(text,
            "{\n  \"a\": 1,\n  \"b\": [],\n  \"c\": [\n    true,\n    null\n  ],\n"
            "  \"d\": 0.5\n}\n");
    free(text);
}

static void write_dense(struct json *json)
{
    json->dense_from = 3;
    write_nested(json);
}

static void write_rows(struct json *json)
{
    json->dense_from = 2;
    json_begin(json, NULL, '[');
    for (unsigned i = 0; i < 2; i++) {
        json_begin(json, NULL, '{');
        json_uint(json, "n", i);
        json_micros(json, "at", 1000070 + i);
        json_end(json, '}');
    }
    json_end(json, ']');
}

TEST(json_that_is_dense_has_a_line_for_each_row)
{
    char *text = printed(write_rows);
    CHECK_STR_EQ(text, "[\n  {\"n\": 0,\"at\": 1000.070},\n  {\"n\": 1,\"at\": 1000.071}\n]\n");
    free(text);
    text = printed(write_dense); /* nothing stands as deep */
    char *usual = printed(write_nested);
    CHECK_STR_EQ(text, usual);
    free(text);
    free(usual);
}

static void write_odd(struct json *json)
{
    json_begin(json, NULL, '[');
    json_text(json, NULL, "a\"b\\c\n\x01 \xc3\xa4");
    json_text(json, NULL, "\xff|\xc3|\xed\xa0\x80|\xf0\x9f\x98\x80");
    json_end(json, ']');
}

TEST(json_escapes_controls_and_replaces_what_is_not_utf8)
{
    char *text = printed(write_odd);
    CHECK_STR_EQ(text,
            "[\n  \"a\\\"b\\\\c\\u000a\\u0001 \xc3\xa4\",\n"
            "  \"\\ufffd|\\ufffd|\\ufffd\\ufffd\\ufffd|\xf0\x9f\x98\x80\"\n]\n");
    free(text);
}

/* Rows with a list and an object of their own, and values beside them. */
static void write_page(struct json *json)
{
    static const struct json_columns columns[] = {{"rows", " id stack sum "}, {NULL, NULL}};
    static const struct json_page page = {.text_most = 6, .columns = columns};

    json->page = &page;
    json_begin(json, NULL, '{');
    json_text(json, "site", "</b>\x1b\"9\xff");
    (void)json_begin_rows(json, "rows", 1, 2);
    json_begin(json, NULL, '{');
    json_uint(json, "i", 1);
    json_begin(json, "sites", '[');
    json_begin(json, NULL, '{');
    json_real(json, "id", 2);
    json_end(json, '}');
    json_end(json, ']');
    json_int(json, "id", 3);
    json_begin(json, "stack", '[');
    json_bool(json, NULL, true);
    json_end(json, ']');
    json_begin(json, "sum", '{');
    json_micros(json, "count", 4000);
    json_end(json, '}');
    json_end(json, '}');
    json_end(json, ']');
    json_end(json, '}');
}

TEST(the_data_of_a_page_have_no_blanks_no_tags_and_the_columns_that_it_shows)
{
    char *text = printed(write_page);

    CHECK_STR_EQ(text,
            "{\"site\":\"\\u003c/b>?\\\"\",\"rows\":[{\"id\":3,\"stack\":[true],"
            "\"sum\":{\"count\":4.000}}]}");
    free(text);
}

static void write_bounded(struct json *json)
{
    json_begin(json, NULL, '{');
    for (size_t count = 2; count < 4; count++) {
        size_t shown = json_begin_rows(json, "n", count, 2);

        for (size_t i = 0; i < shown; i++)
            json_uint(json, NULL, i);
        json_end(json, ']');
    }
    json_end(json, '}');
}

static void write_bounded_page(struct json *json)
{
    static const struct json_page page = {.text_most = 100};

    json->page = &page;
    write_bounded(json);
}

TEST(lists_of_a_page_end_at_their_bound_and_say_what_they_left_out)
{
    char *text = printed(write_bounded);
    char *page = printed(write_bounded_page);

    CHECK_STR_EQ(text,
            "{\n  \"n\": [\n    0,\n    1\n  ],\n  \"n\": [\n    0,\n    1,\n    2\n  ]\n}\n");
    CHECK_STR_EQ(page, "{\"n\":[0,1],\"n_left_out\":1,\"n\":[0,1]}");
    free(text);
    free(page);
}

TEST(names_from_the_program_print_without_control_characters)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    /* also in their 8-bit form, and bytes that are no character; names in other scripts stay */
    render_text(out,
            "a\033[31mb\nc \xc2\x9b"
            "31m \x9b"
            "31m \xc3\xbc\xe5\x90\x8d \xc3");
    (void)fclose(out);
    CHECK_STR_EQ(text, "a?[31mb?c ?31m ?31m \xc3\xbc\xe5\x90\x8d ?");
    free(text);
}

TEST(a_printed_line_has_no_control_characters_but_its_own_end)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    render_print(out, "%s has %d\n", "a\033[31mb\n", 3);
    render_print(out, "%s", "c\n");
    render_label_of(out, 0, 2, "%d of %s", 4, "\x9b");
    (void)fclose(out);
    CHECK_STR_EQ(text, "a?[31mb? has 3\nc?4 of ?\n");
    free(text);
}

static void expect_word(const char *text, const char *want)
{
    char *word = render_word(text);

    CHECK_STR_EQ(word, want);
    free(word);
}

TEST(a_word_is_quoted_where_a_shell_would_see_more_in_it)
{
    expect_word("/tmp/a-1.0_b,c:d@e%f+g=h/X.kcap", "/tmp/a-1.0_b,c:d@e%f+g=h/X.kcap");
    expect_word("a b", "'a b'");
    expect_word("it's", "'it'\\''s'");
    expect_word("$(ls)*~", "'$(ls)*~'");
    expect_word("", "''");
}

TEST(a_file_gets_no_colour)
{
    FILE *out = tmpfile();
    REQUIRE(out != NULL);
    CHECK_STR_EQ(render_ink(out).red, "");
    (void)fclose(out);
}

/* What a terminal got on stderr while `work` ran. */
static char *seen_by_terminal(void (*work)(void))
{
    static char text[256];
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    int kept = dup(STDERR_FILENO);
    int side = -1;
    size_t length = 0;

    if (terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0)
        side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    if (side < 0)
        return NULL;
    (void)dup2(side, STDERR_FILENO);
    work();
    (void)fflush(stderr);
    (void)dup2(kept, STDERR_FILENO);
    (void)fcntl(terminal, F_SETFL, O_NONBLOCK);
    for (ssize_t got; length + 1 < sizeof(text)
            && (got = read(terminal, text + length, sizeof(text) - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    (void)close(side);
    (void)close(kept);
    (void)close(terminal);
    return text;
}

static void wait_long(void)
{
    progress_begin("opening");
    (void)poll(NULL, 0, 20000); /* ends with the signal */
    progress_step(1, 4);
    progress_step(2, 4); /* too soon */
    progress_end();
    progress_step(3, 4);
}

static void wait_briefly(void)
{
    progress_begin("opening");
    progress_step(1, 4);
    progress_end();
}

TEST(what_takes_long_says_so_on_a_terminal_and_wipes_it)
{
    const char *seen = seen_by_terminal(wait_long);

    if (!seen)
        SKIP("no terminal to be had");
    CHECK_STR_EQ(seen, "\r\033[Kopening ...\r\033[Kopening: 25 %\r\033[K");
    CHECK_STR_EQ(seen_by_terminal(wait_briefly), "");
    CHECK_EQ(alarm(0), 0);
}

/* Each with what is left of a text that has it in its middle. */
TEST(what_is_obeyed_is_replaced_in_a_text_and_what_is_shown_stays)
{
    static const struct {
        const char *from, *to;
    } rows[] = {
            {"a\x1b[31m.", "a?[31m."},
            {"a\xc2\x9b.", "a??."},
            {"a\x9b.", "a?."},
            {"a\xe2\x80\xae.", "a???."},
            {"a\xe2\x80\xa8.", "a\xe2\x80\xa8."},
            {"a\xe2\x81\xa9.", "a???."},
            {"a\xd8\x9c.", "a??."},
            {"\xc3\xa9\n\xf0\x9f\x98\x80\xe2\x80", "\xc3\xa9\n\xf0\x9f\x98\x80??"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "%s", rows[i].from);
        utf8_clean(text, strlen(text), "\n");
        CHECK_STR_EQ(text, rows[i].to);
    }
}
