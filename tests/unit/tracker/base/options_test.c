/* SPDX-License-Identifier: MIT */
/* covers: export_output.c */
#include "tests/check.h"

#include <string.h>

struct option {
    const char *id, *name, *kind, *def, *form, *help;
};

static const struct option options[] = {
#define OPTION(id, name, kind, def, form, help) {#id, name, #kind, def, form, help},
#include "tracker/base/options.def"
};

static const struct option keys[] = {
#define OPTION_KEY(id, key, kind, def, form, help) {#id, key, #kind, def, form, help},
#include "tracker/base/options.def"
};

#define OPTIONS (sizeof options / sizeof options[0])
#define KEYS    (sizeof keys / sizeof keys[0])

static const struct option *find(const char *id)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].id, id) == 0)
            return &options[i];
    return NULL;
}

/* Is `word` one of "a|b|c", as far as the form lists words? */
static bool is_one_of(const char *word, size_t length, const char *form)
{
    const char *end = form + strcspn(form, ",");

    while (form < end) {
        size_t bytes = strcspn(form, "|, ");

        if (bytes == length && strncmp(form, word, bytes) == 0)
            return true;
        form += bytes + 1;
    }
    return false;
}

TEST(every_row_is_complete)
{
    static const char *const kinds[] = {
            "ENUM", "PATH", "SIZE", "COUNT", "MS", "TEXT", "SEVERAL", "KEYS"};

    for (size_t i = 0; i < OPTIONS + KEYS; i++) {
        const struct option *option = i < OPTIONS ? &options[i] : &keys[i - OPTIONS];
        bool is_known = false;

        for (size_t j = 0; j < sizeof kinds / sizeof kinds[0]; j++)
            is_known |= strcmp(kinds[j], option->kind) == 0;
        CHECK(is_known);
        CHECK(option->form[0] != '\0');
        CHECK(option->help[0] != '\0');
    }
    for (size_t i = 0; i < OPTIONS; i++)
        CHECK(strncmp(options[i].name, "KEDGE_", 6) == 0);
}

TEST(names_are_given_once)
{
    for (size_t i = 0; i < OPTIONS; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(options[i].name, options[j].name) != 0);
    for (size_t i = 0; i < KEYS; i++) {
        CHECK(find(keys[i].id) != NULL);
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(keys[i].id, keys[j].id) != 0 || strcmp(keys[i].name, keys[j].name) != 0);
    }
}

/* A default that the parser would refuse is one that nobody can write down. */
TEST(defaults_have_the_accepted_form)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *at = options[i].def;

        while (strcmp(options[i].kind, "ENUM") == 0 && *at) {
            size_t bytes = strcspn(at, ",");

            CHECK(is_one_of(at, bytes, options[i].form));
            at += bytes + (at[bytes] == ',');
        }
    }
}

/* The complete list: a variable that is new, or gone, has to be meant. */
TEST(the_table_is_the_contract)
{
    static const char *const names[] = {"KEDGE_MODE", "KEDGE_CAPTURE", "KEDGE_TRACE", "KEDGE_HINTS",
            "KEDGE_HINTS_MODE", "KEDGE_ANCHORS", "KEDGE_HELD", "KEDGE_KINDS", "KEDGE_TENSORS",
            "KEDGE_STACKS", "KEDGE_POOL", "KEDGE_SYNC_FREE", "KEDGE_BYPASS", "KEDGE_LOG",
            "KEDGE_TEST_TRACES", "KEDGE_FRAMEWORKS", "KEDGE_SIM"};
    static const char *const pool_keys[] = {"chunk", "cap", "budget", "reserve", "placement",
            "sync", "trim", "remap", "fence-timeout", "meminfo"};
    size_t pool_count = 0;

    CHECK_EQ(OPTIONS, sizeof names / sizeof names[0]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bool is_there = false;

        for (size_t j = 0; j < OPTIONS; j++)
            is_there |= strcmp(options[j].name, names[i]) == 0;
        CHECK(is_there);
    }
    for (size_t i = 0; i < sizeof pool_keys / sizeof pool_keys[0]; i++)
        for (size_t j = 0; j < KEYS; j++)
            pool_count +=
                    strcmp(keys[j].id, "POOL") == 0 && strcmp(keys[j].name, pool_keys[i]) == 0;
    CHECK_EQ(pool_count, sizeof pool_keys / sizeof pool_keys[0]);
}
