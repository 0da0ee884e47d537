/* SPDX-License-Identifier: MIT */
/* covers: hintlint.c */
/* What lint says of two globs, against all short paths; that an earlier hint takes all, against what the run would match. */
#include "tools/suggest/hintlint.h"

#include "alloc/hints/hint.h"
#include "tests/check.h"
#include "tracker/hints/pysite.h"

#include <stdio.h>

#define GLOBS 85   /* of up to 3 of a, b, ?, *; the first is "" */
#define PATHS 1093 /* of up to 6 of a, b, / */

/* The n-th text over these letters, shortest first. */
static const char *text_at(const char *letters, size_t n, char *ret_text)
{
    size_t base = strlen(letters);
    char *at = ret_text + 8;

    *at = '\0';
    for (; n > 0; n = (n - 1) / base)
        *--at = letters[(n - 1) % base];
    return at;
}

/* How many remarks there are whose text has this in it. */
static size_t count_remarks(const char *text, const char *about)
{
    struct hintfile_error error;
    struct hintfile *file = NULL;
    struct hintlint lint = {0};
    size_t count = 0;

    REQUIRE_EQ(hintfile_read_bytes(text, strlen(text), "t", &file, &error), 0);
    hintlint_hints(file, text, strlen(text), &lint);
    for (size_t i = 0; i < lint.count; i++)
        count += strstr(lint.remarks[i].text, about) != NULL;
    hintlint_done(&lint);
    hintfile_free(file);
    return count;
}

#define HINT(id_)                                                                                \
    "  - {id: " id_ ", do: release, pick: {size: 4MiB, inside: \"%s\"}, when: {anchor: \"%s\", " \
    "edge: exit}}\n"

/* Paths that the first matches; of them those that the second does. */
static size_t count_paths(const char *glob, const char *other, size_t *ret_both)
{
    char room[16];
    size_t count = 0;

    *ret_both = 0;
    for (size_t i = 0; i < PATHS; i++) {
        const char *path = text_at("ab/", i, room);

        if (!hintfile_glob(glob, path))
            continue;
        count++;
        *ret_both += hintfile_glob(other, path);
    }
    return count;
}

/* It cannot have an expectation, so nothing can ask for one. */
TEST(a_hold_is_asked_for_nothing_that_it_does_not_take)
{
    CHECK_EQ(count_remarks("kedge-hints: 1\nprogram: {argv: train}\nhints:\n"
                           "  - {id: a, do: hold, pick: {site: [\"p:a.py:f\"]}, "
                           "when: {anchor: x, edge: exit}}\n",
                     "expect"),
            0);
}

TEST(a_hint_is_hidden_by_an_earlier_one_only_if_that_matches_all_its_paths)
{
    size_t hidden = 0;

    for (size_t i = 0; i < GLOBS; i++)
        for (size_t j = 0; j < GLOBS; j++) {
            char first_room[16];
            char second_room[16];
            const char *first = text_at("ab?*", i, first_room);
            const char *second = text_at("ab?*", j, second_room);
            size_t both;
            size_t all = count_paths(second, first, &both);
            bool is_plain = !strchr(first, '?') || !strchr(second, '*');
            char text[512];

            (void)snprintf(text, sizeof text, "kedge-hints: 1\nhints:\n" HINT("x") HINT("y"), first,
                    "a", second, "a");
            if (count_remarks(text, "matches nothing")) {
                CHECK_EQ(both, all);
                hidden++;
            } else if (is_plain) {
                CHECK(both < all);
            }
        }
    CHECK(hidden > GLOBS);
}

TEST(a_hint_waits_for_another_anchor_only_if_no_path_is_of_both_or_around)
{
    size_t waiting = 0;

    for (size_t i = 1; i < GLOBS; i++)
        for (size_t j = 1; j < GLOBS; j++) {
            char inside_room[16];
            char when_room[16];
            char within[16];
            const char *inside = text_at("ab?*", i, inside_room);
            const char *when = text_at("ab?*", j, when_room);
            size_t same;
            size_t around;
            char text[512];

            (void)snprintf(within, sizeof within, "%s/*", when);
            (void)count_paths(inside, when, &same);
            (void)count_paths(inside, within, &around);
            (void)snprintf(text, sizeof text, "kedge-hints: 1\nhints:\n" HINT("x"), inside, when);
            CHECK_EQ(count_remarks(text, "waits for whichever"), same + around == 0);
            waiting += same + around == 0;
        }
    CHECK(waiting > GLOBS);
}

/* As a glob in double quotes with an escaped star in place of each b. */
static const char *with_stars(const char *glob, char *ret_text)
{
    char *to = ret_text;

    for (; *glob; glob++)
        to += sprintf(to, *glob == 'b' ? "\\\\*" : "%c", *glob);
    *to = '\0';
    return ret_text;
}

TEST(an_escaped_star_is_judged_as_any_other_byte)
{
    static const char *const abouts[] = {"matches nothing", "waits for whichever"};

    for (size_t i = 1; i < GLOBS; i++)
        for (size_t j = 1; j < GLOBS; j++) {
            char rooms[4][16];
            const char *first = text_at("ab?*", i, rooms[0]),
                       *second = text_at("ab?*", j, rooms[1]);
            const char *stars = with_stars(first, rooms[2]), *others = with_stars(second, rooms[3]);
            char text[512], same[512];

            (void)snprintf(text, sizeof text, "kedge-hints: 1\nhints:\n" HINT("x") HINT("y"), first,
                    second, second, first);
            (void)snprintf(same, sizeof same, "kedge-hints: 1\nhints:\n" HINT("x") HINT("y"), stars,
                    others, others, stars);
            for (size_t k = 0; k < 2; k++)
                CHECK_EQ(count_remarks(same, abouts[k]), count_remarks(text, abouts[k]));
        }
}

static const char *choose(unsigned *io_seed, const char *const *list, unsigned count)
{
    *io_seed = *io_seed * 1664525u + 1013904223u;
    return list[(*io_seed >> 16) % count];
}

#define CHOOSE(list_) choose(io_seed, list_, sizeof(list_) / sizeof *(list_))

/* A pick out of few parts, so that one often covers another. */
static void write_pick(unsigned *io_seed, char *ret_text, size_t size)
{
    static const char *const sites[] = {"", "site: [c:0000000000000001], ",
            "site: [c:0000000000000002, c:0000000000000001], ", "site: ['p:a.py:f'], ",
            "site: ['p:a.py:f:7'], ", "site: ['p:a.py:f:7', c:0000000000000001], "};
    static const char *const sizes[] = {"4MiB", "4MiB..6MiB", "\">=2MiB\""};
    static const char *const insides[] = {"", "a", "a*", "a/b", "?"};
    static const char *const nths[] = {"", ", nth: 0", ", nth: 1", ", nth: 0..1"};
    static const char *const devices[] = {"", "", ", device: 1"};
    static const char *const threads[] = {"", "", ", thread: main"};
    static const char *const streams[] = {"", "", ", stream: 0", ", stream: 1"};
    const char *site = CHOOSE(sites);
    const char *bytes = CHOOSE(sizes);
    const char *inside = CHOOSE(insides);
    const char *nth = CHOOSE(nths);
    const char *device = CHOOSE(devices);
    const char *thread = CHOOSE(threads);
    const char *stream = CHOOSE(streams);

    (void)snprintf(ret_text, size, "%ssize: %s, inside: \"%s\"%s%s%s%s", site, bytes, inside, nth,
            device, thread, stream);
}

/* The n-th of all allocations out of few parts; `ret_python` has room for the frame's two keys. */
static struct tag tag_at(size_t n, struct pysite *ret_python)
{
    static const char *const paths[] = {"", "a", "ab", "a/b", "b"};
    struct tag tag = {.path = paths[n % 5]};

    tag.site = 1 + n / 5 % 3;
    tag.size = (UINT64_C(2) << 20) * (1 + n / 15 % 4);
    tag.nth = (uint32_t)(n / 60 % 3);
    tag.device = (int)(n / 180 % 2);
    ret_python[0] = (struct pysite){pysite_key("a.py", "f", 0), NULL};
    ret_python[1] = (struct pysite){pysite_key("a.py", "f", 7 + n / 720 % 2), &ret_python[0]};
    tag.pysites = n / 360 % 2 ? &ret_python[1] : NULL;
    tag.is_main = n / 1440 % 2;
    tag.stream = (uint16_t)(n / 2880 % 3);
    return tag;
}

#define TAGS 8640

/* How many allocations each of two hints takes. */
static void count_taken(const char *text, size_t ret_taken[2])
{
    struct hintfile_error error;
    struct hintfile *file = NULL;
    struct hints *hints = NULL;

    REQUIRE_EQ(hintfile_read_bytes(text, strlen(text), "t", &file, &error), 0);
    REQUIRE_EQ(hint_new(file->rule, file->rule_count, &hints), 0);
    for (size_t n = 0; n < TAGS; n++) {
        struct pysite python[2];
        struct tag tag = tag_at(n, python);
        struct plan plan;

        hint_plan(hints, &tag, &plan);
        if (plan.rule >= 0)
            ret_taken[plan.rule]++;
    }
    hint_free(hints);
    hintfile_free(file);
}

TEST(a_hint_that_is_hidden_takes_nothing_in_a_run)
{
    unsigned seed = 1;
    size_t hidden = 0;

    for (int round = 0; round < 3000; round++) {
        size_t taken[2] = {0, 0};
        char picks[2][200];
        char text[640];

        write_pick(&seed, picks[0], sizeof picks[0]);
        write_pick(&seed, picks[1], sizeof picks[1]);
        (void)snprintf(text, sizeof text,
                "kedge-hints: 1\nhints:\n"
                "  - {id: x, do: release, pick: {%s}, when: {anchor: a, edge: exit}}\n"
                "  - {id: y, do: release, pick: {%s}, when: {anchor: a, edge: exit}}\n",
                picks[0], picks[1]);
        if (count_remarks(text, "matches nothing") == 0)
            continue;
        count_taken(text, taken);
        CHECK_EQ(taken[1], 0u);
        hidden += taken[0] > 0;
    }
    CHECK(hidden > 50);
}
