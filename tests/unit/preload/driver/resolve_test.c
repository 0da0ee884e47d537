/* SPDX-License-Identifier: MIT */
/* covers: resolve.c */
/* The list of hooks as a table: what it says about versions, flags and forms must hold together. */
#include "tests/check.h"

#include <ctype.h>

struct row {
    const char *symbol, *name;
    int from, to;
    unsigned per_thread;
};

static const struct row rows[] = {
#define HOOK(symbol, name, from, to, per_thread, ...) {#symbol, name, from, to, per_thread},
#include "preload/base/hooks.def"
};

static const char *const calls[] = {
#define CALL(symbol, params) #symbol,
#include "preload/base/hooks.def"
};

#define ROWS  (sizeof rows / sizeof *rows)
#define CALLS (sizeof calls / sizeof *calls)

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

TEST(no_symbol_stands_twice)
{
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(rows[i].symbol, rows[k].symbol) != 0);
        for (size_t k = 0; k < CALLS; k++)
            CHECK(strcmp(rows[i].symbol, calls[k]) != 0);
    }
}

TEST(ranges_of_one_name_and_flag_do_not_overlap)
{
    for (size_t i = 0; i < ROWS; i++) {
        CHECK(rows[i].to == 0 || rows[i].from < rows[i].to);
        for (size_t k = 0; k < i; k++) {
            const struct row *a = &rows[i], *b = &rows[k];

            if (strcmp(a->name, b->name) != 0 || a->per_thread != b->per_thread)
                continue;
            CHECK((a->to && a->to <= b->from) || (b->to && b->to <= a->from));
        }
    }
}

TEST(the_suffix_says_the_flag_and_the_name_is_the_symbols_beginning)
{
    for (size_t i = 0; i < ROWS; i++) {
        bool per_thread = ends_with(rows[i].symbol, "_ptsz") || ends_with(rows[i].symbol, "_ptds");
        size_t n = strlen(rows[i].name);

        CHECK_EQ(rows[i].per_thread, per_thread ? 2u : 0u);
        CHECK(strncmp(rows[i].symbol, rows[i].name, n) == 0);
        CHECK(rows[i].symbol[n] == '\0' || rows[i].symbol[n] == '_');
        CHECK(rows[i].name[0] == 'c' && rows[i].name[1] == 'u'
                && isupper((unsigned char)rows[i].name[2]));
    }
}

/* A function that comes in both flavours must be hooked in both, or half the programs go round it. */
TEST(every_flavour_that_is_there_has_its_plain_form)
{
    for (size_t i = 0; i < ROWS; i++) {
        char plain[96];
        bool found = false;

        if (!rows[i].per_thread)
            continue;
        strcpy(plain, rows[i].symbol);
        plain[strlen(plain) - 5] = '\0';
        for (size_t k = 0; k < ROWS; k++)
            found |= strcmp(rows[k].symbol, plain) == 0;
        CHECK(found);
    }
}

TEST(the_self_look_up_has_both_arities)
{
    int found = 0;

    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].symbol, "cuGetProcAddress") == 0)
            found += rows[i].from == 11030 && rows[i].to == 12000;
        if (strcmp(rows[i].symbol, "cuGetProcAddress_v2") == 0)
            found += rows[i].from == 12000 && rows[i].to == 0;
    }
    CHECK_EQ(found, 2);
}
