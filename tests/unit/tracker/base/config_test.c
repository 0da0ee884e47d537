/* SPDX-License-Identifier: MIT */
/* covers: config.c msg.c */
#include "tests/check.h"

#include "preload/base/msg.h"
#include "tracker/base/config.h"

#include <errno.h>
#include <unistd.h>

static struct config config;
static char said[8][CONFIG_LINE];
static int lines;

static void listen(void *data, const char *line)
{
    (void)data;
    if (lines < 8)
        strcpy(said[lines], line);
    lines++;
}

/* environ has no const; config_read changes nothing */
static void read_env(const char *const *env)
{
    lines = 0;
    config_read(&config, (char *const *)(uintptr_t)env, listen, NULL);
}

static uint64_t key(enum config_id id, const char *name)
{
    const struct config_value *value = config_key(&config, id, name);

    REQUIRE(value);
    return value->number;
}

TEST(defaults_are_those_of_the_table)
{
    const char *env[] = {"PATH=/bin", NULL};

    read_env(env);
    CHECK_EQ(lines, 0);
    CHECK_STR_EQ(config_text(&config, CONFIG_MODE), "pool");
    CHECK_EQ(config_word(&config, CONFIG_MODE), 0);
    CHECK_STR_EQ(config_text(&config, CONFIG_TRACE), "ring");
    CHECK_EQ(config_word(&config, CONFIG_ANCHORS), 191);
    CHECK_EQ(key(CONFIG_TRACE, "mb"), 256);
    CHECK_EQ(key(CONFIG_STACKS, "depth"), 48);
    CHECK_EQ(key(CONFIG_POOL, "reserve"), 256u << 20);
    CHECK(!config_is_set(&config, CONFIG_MODE));
    CHECK(!config_key(&config, CONFIG_POOL, "chunk")->set);
    CHECK_STR_EQ(config_text(&config, CONFIG_HINTS), "");
}

TEST(values_and_keys_are_read)
{
    const char *env[] = {"KEDGE_MODE=track", "KEDGE_TRACE=full,mb=64",
            "KEDGE_POOL=cap=3G,chunk=20M,reserve=512K", "KEDGE_STACKS=min=1M",
            "KEDGE_BYPASS=liba*,libb.so", "KEDGE_HINTS=/tmp/a,b.yaml", NULL};

    read_env(env);
    CHECK_EQ(lines, 0);
    CHECK_STR_EQ(config_text(&config, CONFIG_MODE), "track");
    CHECK_EQ(config_word(&config, CONFIG_MODE), 1);
    CHECK_STR_EQ(config_text(&config, CONFIG_TRACE), "full");
    CHECK_EQ(key(CONFIG_TRACE, "mb"), 64);
    CHECK_EQ(key(CONFIG_POOL, "cap"), 3ull << 30);
    CHECK_EQ(key(CONFIG_POOL, "chunk"), 20u << 20);
    CHECK_EQ(key(CONFIG_POOL, "reserve"), 512u << 10);
    CHECK_STR_EQ(config_text(&config, CONFIG_STACKS), "auto");
    CHECK_EQ(key(CONFIG_STACKS, "min"), 1u << 20);
    CHECK_STR_EQ(config_text(&config, CONFIG_BYPASS), "liba*,libb.so");
    CHECK_STR_EQ(config_text(&config, CONFIG_HINTS), "/tmp/a,b.yaml");
}

TEST(sizes_have_binary_units)
{
    static const char *const good[] = {
            "3221225472", "3145728K", "3145728KiB", "3072M", "3072MiB", "3G", "3GiB"};
    static const char *const bad[] = {"3GB", "3Gi", "3gib", "3iB", "GiB", "3 GiB", "3GiBB", "3.5G",
            "17179869184GiB", "99999999999999999999999999999999999G"};

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char entry[64];
        const char *env[] = {entry, NULL};

        (void)snprintf(entry, sizeof entry, "KEDGE_POOL=cap=%s", good[i]);
        read_env(env);
        CHECK_EQ(lines, 0);
        CHECK_EQ(key(CONFIG_POOL, "cap"), 3ull << 30);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char entry[64];
        const char *env[] = {entry, NULL};

        (void)snprintf(entry, sizeof entry, "KEDGE_POOL=cap=%s", bad[i]);
        read_env(env);
        CHECK_EQ(lines, 1);
        CHECK(!config_key(&config, CONFIG_POOL, "cap")->set);
    }
}

TEST(several_words_replace_the_default_set)
{
    const char *only_marks[] = {"KEDGE_ANCHORS=marks", NULL};
    const char *both[] = {"KEDGE_ANCHORS=marks,nvtx", NULL};
    const char *none[] = {"KEDGE_ANCHORS=none", NULL};

    read_env(only_marks);
    CHECK_EQ(config_word(&config, CONFIG_ANCHORS), 2);
    read_env(both);
    CHECK_EQ(config_word(&config, CONFIG_ANCHORS), 3);
    read_env(none);
    CHECK_EQ(config_word(&config, CONFIG_ANCHORS), 256);
}

TEST(a_key_that_may_be_given_several_times_has_all_of_them)
{
    const char *one[] = {"KEDGE_ANCHORS=log=A {}", NULL};
    const char *three[] = {"KEDGE_ANCHORS=log=A {},log=B {}|C,marks,log=D {}", NULL};

    read_env(one);
    CHECK_STR_EQ(config_key(&config, CONFIG_ANCHORS, "log")->text, "A {}");
    read_env(three);
    CHECK_STR_EQ(config_key(&config, CONFIG_ANCHORS, "log")->text, "A {},B {}|C,D {}");
}

TEST(r53_a_bad_value_is_named_with_the_form_and_the_default_is_used)
{
    static const char *const bad[] = {"KEDGE_MODE=fast", "KEDGE_POOL=cap=many",
            "KEDGE_POOL=cap=", "KEDGE_POOL=cap=99999999999G", "KEDGE_TRACE=ring,mb=-1",
            "KEDGE_POOL=budge=1", "KEDGE_POOL=fast", "KEDGE_POOL=cap=1P", "KEDGE_SYNC_FREE=2"};
    static const char *const forms[] = {"pool|track|off", "size", "size", "size", "MiB",
            "key=value", "key=value", "size", "auto|0|1"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char entry[64];
        const char *env[] = {strcpy(entry, bad[i]), NULL};

        read_env(env);
        CHECK_EQ(lines, 1);
        CHECK(strstr(said[0], forms[i]));
        CHECK_STR_EQ(config_text(&config, CONFIG_MODE), "pool");
        CHECK(!config_key(&config, CONFIG_POOL, "cap")->set);
        CHECK_EQ(key(CONFIG_TRACE, "mb"), 256);
        CHECK_EQ(config_word(&config, CONFIG_SYNC_FREE), 0);
    }
}

/* What was out of bounds was used as it was (mb), or silently replaced (depth). */
TEST(r53_a_count_beyond_its_bounds_is_a_bad_value)
{
    static const char *const bad[] = {"KEDGE_STACKS=auto,depth=0", "KEDGE_STACKS=depth=129",
            "KEDGE_TRACE=ring,mb=0", "KEDGE_TRACE=mb=1048577", "KEDGE_TRACE=mb=17592186044416"};
    static const char *const good[] = {"KEDGE_STACKS=depth=1", "KEDGE_STACKS=depth=128",
            "KEDGE_TRACE=mb=1", "KEDGE_TRACE=mb=1048576"};
    static const uint64_t numbers[] = {1, 128, 1, 1048576};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *env[] = {bad[i], NULL};

        read_env(env);
        CHECK_EQ(lines, 1);
        CHECK(strstr(said[0], i < 2 ? "expected 1..128, using 48" : "1..1048576, using 256"));
        CHECK_EQ(key(CONFIG_STACKS, "depth"), 48);
        CHECK_EQ(key(CONFIG_TRACE, "mb"), 256);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const char *env[] = {good[i], NULL};

        read_env(env);
        CHECK_EQ(lines, 0);
        CHECK_EQ(i < 2 ? key(CONFIG_STACKS, "depth") : key(CONFIG_TRACE, "mb"), numbers[i]);
    }
}

TEST(r53_an_unknown_variable_is_told_with_the_nearest_name)
{
    const char *env[] = {"KEDGE_HINT=x", "KEDGE_CAPTUR=y", "KEDGES=z", "XKEDGE_MODE=1", NULL};

    read_env(env);
    REQUIRE_EQ(lines, 2);
    CHECK(strstr(said[0], "KEDGE_HINT ") && strstr(said[0], "KEDGE_HINTS?"));
    CHECK(strstr(said[1], "KEDGE_CAPTURE?"));
}

TEST(an_empty_value_is_unset)
{
    const char *env[] = {"KEDGE_MODE=", "KEDGE_CAPTURE=", NULL};

    read_env(env);
    CHECK_EQ(lines, 0);
    CHECK(!config_is_set(&config, CONFIG_MODE));
    CHECK_STR_EQ(config_text(&config, CONFIG_CAPTURE), "kedge-%h-%r-%p.kcap");
}

TEST(r53_a_value_that_is_too_long_is_refused)
{
    static char entry[2 * CONFIG_TEXT_MAX];
    const char *env[] = {entry, NULL};

    memset(entry, 'a', sizeof entry - 1);
    memcpy(entry, "KEDGE_HINTS=", 12);
    read_env(env);
    CHECK_EQ(lines, 1);
    CHECK_STR_EQ(config_text(&config, CONFIG_HINTS), "");
}

/* R53: whatever the bytes, a valid configuration comes out. */
TEST(r53_any_bytes_give_a_valid_configuration)
{
    unsigned seed = 1;

    for (int round = 0; round < 20000; round++) {
        static const char *const heads[] = {
                "KEDGE_POOL=", "KEDGE_TRACE=", "KEDGE_ANCHORS=", "KEDGE_"};
        static const char letters[] = "capmb=,019GKM|\x80 x";
        char entry[96];
        const char *env[] = {entry, NULL};
        size_t n = (size_t)(round % 40);
        size_t head = strlen(strcpy(entry, heads[round % 4]));

        for (size_t i = 0; i < n; i++)
            entry[head + i] = letters[(unsigned)rand_r(&seed) % (sizeof letters - 1)];
        entry[head + n] = '\0';
        read_env(env);
        CHECK_LT(config_word(&config, CONFIG_TRACE), 4);
        CHECK_LT(config_word(&config, CONFIG_ANCHORS), 512);
        CHECK_LE(config.used, sizeof config.arena);
    }
}

/* Every variable and key of the table, as "NAME=" or "NAME=key=". */
static const struct {
    const char *name, *head, *form;
    enum config_id id;
    bool is_enum;
} table[] = {
#define KIND_IS_ENUM_ENUM    true
#define KIND_IS_ENUM_PATH    false
#define KIND_IS_ENUM_SIZE    false
#define KIND_IS_ENUM_COUNT   false
#define KIND_IS_ENUM_MS      false
#define KIND_IS_ENUM_TEXT    false
#define KIND_IS_ENUM_SEVERAL false
#define KIND_IS_ENUM_KEYS    false
#define OPTION(id_, name_, kind_, def_, form_, help_) \
    {NULL, name_ "=", form_, CONFIG_##id_, KIND_IS_ENUM_##kind_},
#define OPTION_KEY(id_, key_, kind_, def_, form_, help_) \
    {key_, NULL, form_, CONFIG_##id_, KIND_IS_ENUM_##kind_},
#include "tracker/base/options.def"
};

static unsigned words_of(const char *form)
{
    unsigned n = 1;

    for (; *form && *form != ','; form++)
        n += *form == '|';
    return n;
}

/* A value that has something of a right one: words of the form, numbers of any length, separators, any other byte. */
static void make_value(unsigned *seed, const char *form, char *at, size_t room)
{
    static const char pieces[] = "0123456789,=KMG|%/-+. ";
    size_t n = (size_t)(rand_r(seed) % (int)room);

    for (size_t i = 0; i < n; i++) {
        int what = rand_r(seed) % 8;

        if (what == 0)
            at[i] = (char)(1 + rand_r(seed) % 255);
        else if (what < 4 && *form)
            at[i] = form[(size_t)rand_r(seed) % strlen(form)];
        else
            at[i] = pieces[(size_t)rand_r(seed) % (sizeof pieces - 1)];
    }
    at[n] = '\0';
}

static void check_valid(size_t row)
{
    bool several = strchr(table[row].form, ',') != NULL;
    const struct config_value *value = table[row].name
            ? config_key(&config, table[row].id, table[row].name)
            : &config.value[table[row].id];

    REQUIRE(value);
    REQUIRE(value->text);
    CHECK_LT(strlen(value->text), CONFIG_TEXT_MAX);
    CHECK_LE(config.used, sizeof config.arena);
    if (table[row].is_enum)
        CHECK_LT(value->number,
                several ? UINT64_C(1) << words_of(table[row].form) : words_of(table[row].form));
}

/* R53, for each row of options.def: a valid value or a warning, never more than the arena, never an odd number of an enum. */
TEST(r53_each_option_and_key_survives_any_value)
{
    const char *variable = "";
    unsigned seed = 20;

    for (size_t row = 0; row < sizeof table / sizeof *table; row++) {
        static char entry[3 * CONFIG_TEXT_MAX];
        const char *env[] = {entry, entry, NULL}; /* twice: the later one wins */

        if (table[row].head)
            variable = table[row].head;
        for (int round = 0; round < 600; round++) {
            size_t head = (size_t)snprintf(entry, sizeof entry, "%s%s%s", variable,
                    table[row].name ? table[row].name : "", table[row].name ? "=" : "");
            size_t room = round % 50 == 0 ? 2 * CONFIG_TEXT_MAX : 60;

            make_value(&seed, table[row].form, entry + head, room);
            read_env(env);
            check_valid(row);
        }
    }
}

TEST(at_most_sixteen_lines_are_printed_and_cut_and_errno_is_kept)
{
    int ends[2];
    int saved = dup(STDERR_FILENO);
    char text[16384];
    char wide[2 * MSG_LINE];
    ssize_t n;
    int count = 0;

    REQUIRE(pipe(ends) == 0);
    REQUIRE(dup2(ends[1], STDERR_FILENO) >= 0);
    memset(wide, 'x', sizeof wide - 1);
    wide[sizeof wide - 1] = '\0';
    errno = 4711;
    msg_warn("%s", wide);
    for (int i = 1; i < 40; i++)
        msg_warn("line %d", i);
    CHECK_EQ(errno, 4711);
    REQUIRE(dup2(saved, STDERR_FILENO) >= 0);
    REQUIRE(close(ends[1]) == 0);
    n = read(ends[0], text, sizeof text - 1);
    REQUIRE(n > 0);
    text[n] = '\0';
    CHECK_EQ(strcspn(text, "\n"), MSG_LINE - 2); /* a byte for the NUL, and one for the newline */
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        count++;
    CHECK_EQ(count, MSG_MAX);
    CHECK(strstr(text, "line 14\n") && !strstr(text, "line 15"));
    CHECK(strstr(text, "further warnings are in the capture\n"));
    CHECK(strncmp(text, "kedge[", 6) == 0);
}

TEST(a_rank_is_a_number_of_whichever_launcher)
{
    static const char *const names[] = {
#define RANK(name) name,
#include "tracker/base/ranks.def"
    };
    size_t count = sizeof names / sizeof *names;

    for (size_t i = 0; i < count; i++)
        (void)unsetenv(names[i]);
    CHECK(config_rank(environ) == NULL);
    for (size_t i = count; i-- > 0;) { /* the most telling one comes first */
        char rank[24];

        snprintf(rank, sizeof rank, "%zu", i);
        REQUIRE_EQ(setenv(names[i], rank, 1), 0);
        CHECK_STR_EQ(config_rank(environ), rank);
    }
    REQUIRE_EQ(setenv(names[0], "gold", 1), 0);
    CHECK_STR_EQ(config_rank(environ), "1");
    REQUIRE_EQ(setenv(names[0], "", 1), 0);
    CHECK_STR_EQ(config_rank(environ), "1");
    REQUIRE_EQ(setenv(names[0], "-1", 1), 0);
    CHECK_STR_EQ(config_rank(environ), "1");
}
