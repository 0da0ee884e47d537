/* SPDX-License-Identifier: MIT */
/* covers: args.c */
#include "tests/check.h"

#include "tools/base/args.h"
#include "tracker/base/config.h"

struct fields {
    const char *from, *pair[2];
    uint64_t top, size;
    bool json;
};

static const struct args_option options[] = {
        {"from|f", "ANCHOR", "text", ARGS_TEXT, offsetof(struct fields, from)},
        {"top", "N", "number", ARGS_UINT, offsetof(struct fields, top)},
        {"size", "SIZE", "size", ARGS_SIZE, offsetof(struct fields, size)},
        {"pair", "A B", "two words", ARGS_PAIR, offsetof(struct fields, pair)},
        {"json", NULL, "flag", ARGS_FLAG, offsetof(struct fields, json)},
};

#define WORDS_MAX 16
static char *words[WORDS_MAX];
static int word_count;
static struct fields fields;

/* Parses one line of words separated by blanks. */
static enum args_result parse(const char *line, bool tail)
{
    static char copy[256];
    char *argv[WORDS_MAX];
    int argc = 0;
    struct args_spec spec = {
            .command = "test", .options = options, .option_count = 5, .tail = tail};

    (void)snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok(copy, " "); word && argc < WORDS_MAX; word = strtok(NULL, " "))
        argv[argc++] = word;
    memset(&fields, 0, sizeof(fields));
    word_count = 0;
    return args_parse(&spec, argc, argv, &fields, words, &word_count);
}

TEST(options_stand_anywhere_and_take_values_both_ways)
{
    CHECK_EQ(parse("a --from X b --top=12 --json --size 2M -f Y", false), ARGS_OK);
    CHECK_EQ(word_count, 2);
    CHECK_STR_EQ(words[1], "b");
    CHECK_STR_EQ(fields.from, "Y");
    CHECK_EQ(fields.top, 12);
    CHECK_EQ(fields.size, 2 << 20);
    CHECK(fields.json);
}

TEST(a_pair_takes_two_words)
{
    CHECK_EQ(parse("a --pair X --json b", false), ARGS_OK);
    CHECK_STR_EQ(fields.pair[0], "X");
    CHECK_STR_EQ(fields.pair[1], "--json");
    CHECK_EQ(word_count, 2);
    CHECK_EQ(parse("a --pair X", false), ARGS_BAD);
    CHECK_EQ(parse("--pair=X Y", false), ARGS_BAD);
}

TEST(two_dashes_end_the_options)
{
    CHECK_EQ(parse("--json -- --top 3", false), ARGS_OK);
    CHECK_EQ(word_count, 2);
    CHECK_STR_EQ(words[0], "--top");
}

TEST(a_tail_keeps_its_own_options)
{
    CHECK_EQ(parse("--json prog --top x --help", true), ARGS_OK);
    CHECK_EQ(word_count, 4);
    CHECK_STR_EQ(words[0], "prog");
    CHECK_STR_EQ(words[1], "--top");
    CHECK_EQ(fields.top, 0);
}

TEST(help_is_recognised)
{
    CHECK_EQ(parse("a --help", false), ARGS_HELP);
    CHECK_EQ(parse("-h", false), ARGS_HELP);
}

TEST(wrong_use_is_refused)
{
    CHECK_EQ(parse("--form X", false), ARGS_BAD);
    CHECK_EQ(parse("-x", false), ARGS_BAD);
    CHECK_EQ(parse("--from", false), ARGS_BAD);
    CHECK_EQ(parse("--top 1x", false), ARGS_BAD);
    CHECK_EQ(parse("--top 2K", false), ARGS_BAD);
    CHECK_EQ(parse("--top -1", false), ARGS_BAD);
    CHECK_EQ(parse("--size 2Q", false), ARGS_BAD);
    CHECK_EQ(parse("--json=1", false), ARGS_BAD);
    CHECK_EQ(parse("-ff X", false), ARGS_BAD);
}

TEST(sizes_have_binary_suffixes)
{
    uint64_t n;
    CHECK(config_size("11G", &n) == 0 && n == UINT64_C(11) << 30);
    CHECK(config_size("2MiB", &n) == 0 && n == UINT64_C(2) << 20);
    CHECK(config_size("4096", &n) == 0 && n == 4096);
    CHECK(config_size("1k", &n) == 0 && n == 1024);
    CHECK(config_size("", &n) < 0);
    CHECK(config_size("G", &n) < 0);
    CHECK(config_size("-1", &n) < 0);
    CHECK(config_size("1GB2", &n) < 0);
    CHECK(config_size("20000000T", &n) < 0);
    CHECK(config_size("99999999999999999999", &n) < 0);
}

TEST(a_misspelt_word_finds_its_neighbour)
{
    static const char *const names[] = {"report", "diff", "run"};
    CHECK_STR_EQ(args_nearest(ARGS_WORDS(names, 3), "reprot"), "report");
    CHECK_STR_EQ(args_nearest(ARGS_WORDS(names, 3), "dif"), "diff");
    CHECK(args_nearest(ARGS_WORDS(names, 3), "suggest") == NULL);
}

TEST(a_row_is_found_by_its_name)
{
    static const struct {
        int number;
        const char *name;
    } rows[] = {{1, "report"}, {2, "diff"}};
    const struct args_names names = ARGS_NAMES(rows, name, 2);
    CHECK_EQ(args_find(names, "diff"), 1);
    CHECK_EQ(args_find(names, "dif"), 2);
    CHECK_STR_EQ(args_name(names, 0), "report");
    CHECK_STR_EQ(args_nearest(names, "dif"), "diff");
}

TEST(a_word_is_chosen_and_the_first_is_the_default)
{
    static const char *const names[] = {"stream", "sync", "framework", NULL};
    CHECK_EQ(args_choose("kedge run", "api", NULL, names), 0);
    CHECK_EQ(args_choose("kedge run", "api", "framework", names), 2);
    CHECK_EQ(args_choose("kedge run", "api", "async", names), -1);
}
