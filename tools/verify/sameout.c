/* SPDX-License-Identifier: MIT */
#include "tools/verify/sameout.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

#define SAMEOUT_SHOWN 120u /* bytes of a line in a message */

/* A line of a text. `shape`: words with digits are "#", blanks are one. */
struct sameout_line {
    char *text;
    char *shape; /* NULL until it is needed */
    size_t number;
    size_t mate;      /* of a line of the first run: 1 + that of the second one, 0 = none */
    bool is_optional; /* only one of the two runs has such lines */
    bool is_equal;    /* paired with an equal line of the other text */
    bool is_taken;    /* a line of the other text matches it, masked */
};

struct sameout_lines {
    struct sameout_line *at;
    size_t count, room;
};

struct sameout {
    struct sameout_lines first, second;
    bool has_second, order_varies;
    /* addresses differ between the two: none is compared, even if some are equal by chance */
    bool has_addresses;
};

/* ---- lines ---------------------------------------------------------------------------------- */

/* Length of a whole line "kedge[123]: ...", which may be inside another line; 0: not here. */
static size_t sameout_own(const char *text, const char *end)
{
    const char *at = text;

    if (end - at < 10 || strncmp(at, "kedge[", 6) != 0)
        return 0;
    for (at += 6; at < end && isdigit((unsigned char)*at); at++)
        ;
    if (end - at < 3 || strncmp(at, "]: ", 3) != 0)
        return 0;
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return (size_t)((newline ? newline + 1 : end) - text);
}

static void sameout_add(struct sameout_lines *lines, char *line, size_t length, size_t number)
{
    while (length > 0 && isspace((unsigned char)line[length - 1]))
        length--;
    line[length] = '\0';
    if (length > 0)
        VEC_PUSH(lines->at, lines->count, lines->room) =
                (struct sameout_line){.text = vec_text(line), .number = number};
}

static struct sameout_lines sameout_split(const char *text, size_t length)
{
    struct sameout_lines lines = {0};
    char *line = vec_new(length + 1, 1);
    const char *end = text + length;
    size_t used = 0, number = 1;

    while (text < end) {
        size_t own = sameout_own(text, end);
        if (own > 0) {
            text += own;
            continue;
        }
        if (*text == '\n' || *text == '\r') {
            sameout_add(&lines, line, used, number);
            number += *text == '\n';
            used = 0;
        } else if (*text) {
            line[used++] = *text;
        }
        text++;
    }
    sameout_add(&lines, line, used, number);
    free(line);
    return lines;
}

static void sameout_free_lines(struct sameout_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        free(lines->at[i].text);
        free(lines->at[i].shape);
    }
    free(lines->at);
}

/* ---- words ---------------------------------------------------------------------------------- */

static bool sameout_is_word(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_.+-", c) != NULL);
}

/* Length of a word, or of one other character; *ret_digits: it has digits. 0 at the end. */
static size_t sameout_word(const char *s, bool *ret_digits)
{
    size_t n = 0;

    *ret_digits = false;
    if (!*s || !sameout_is_word(*s))
        return *s ? 1 : 0;
    for (; sameout_is_word(s[n]); n++)
        *ret_digits |= isdigit((unsigned char)s[n]) != 0;
    return n;
}

/* A progress bar is equal for any progress. */
static size_t sameout_blank(const char *s)
{
    size_t n = 0;

    while (s[n] == ' ' || s[n] == '\t')
        n++;
    return n;
}

static const char *sameout_shape(struct sameout_line *line)
{
    char *shape;
    const char *s = line->text;
    size_t used = 0, n;
    bool digits;

    if (line->shape)
        return line->shape;
    shape = vec_new(strlen(s) + 2, 1);
    while (*s) {
        n = sameout_blank(s);
        if (n > 0) {
            shape[used++] = ' ';
            s += n;
            continue;
        }
        n = sameout_word(s, &digits);
        if (digits) {
            shape[used++] = '#';
        } else {
            memcpy(shape + used, s, n);
            used += n;
        }
        s += n;
    }
    line->shape = shape;
    return shape;
}

static bool sameout_is_number(const char *word, size_t length)
{
    char text[64];
    char *end;

    if (length >= sizeof(text))
        return false;
    memcpy(text, word, length);
    text[length] = '\0';
    return isfinite(strtod(text, &end)) && *end == '\0' && length > 0;
}

/* Three lines of one shape: where the first two differ, the third one is free, within its kind. */
static bool sameout_fits(const char *one, const char *other, const char *text)
{
    while (*one && *other && *text) {
        size_t blanks = sameout_blank(one);
        bool digits, ignored;

        if (blanks > 0) {
            one += blanks;
            other += sameout_blank(other);
            text += sameout_blank(text);
            continue;
        }
        size_t n = sameout_word(one, &digits);
        size_t m = sameout_word(other, &ignored);
        size_t k = sameout_word(text, &ignored);
        bool is_same = n == m && memcmp(one, other, n) == 0;
        bool is_number = sameout_is_number(one, n) && sameout_is_number(other, m);

        if (is_same ? k != n || memcmp(one, text, n) != 0
                    : is_number && !sameout_is_number(text, k))
            return false;
        one += n;
        other += m;
        text += k;
    }
    return !*one && !*other && !*text;
}

/* ---- addresses ------------------------------------------------------------------------------ */

/* "0x7f3a5c000000": more digits than 32 bits have, no more than an address of user space has. */
static bool sameout_is_address(const char *word, size_t length)
{
    return length >= 11 && length <= 14 && strncmp(word, "0x", 2) == 0
            && strspn(word + 2, "0123456789abcdefABCDEF") == length - 2;
}

/* For two lines of one shape. */
static bool sameout_moves(const char *one, const char *other)
{
    bool ignored;
    size_t n, m;

    for (; *one && *other; one += n, other += m) {
        one += sameout_blank(one);
        other += sameout_blank(other);
        n = sameout_word(one, &ignored);
        m = sameout_word(other, &ignored);
        if (sameout_is_address(one, n) && sameout_is_address(other, m)
                && (n != m || memcmp(one, other, n) != 0))
            return true;
    }
    return false;
}

/* Makes all addresses equal from here on. */
static void sameout_hide(struct sameout_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        char *to = lines->at[i].text;
        const char *s = to;
        bool ignored;
        size_t n;

        for (; *s; s += n) {
            n = sameout_word(s, &ignored);
            memmove(to, s, sameout_is_address(s, n) ? 2 : n);
            to += sameout_is_address(s, n) ? 2 : n;
        }
        *to = '\0';
        free(lines->at[i].shape);
        lines->at[i].shape = NULL;
    }
}

/* ---- pairs ---------------------------------------------------------------------------------- */

static int sameout_by_text(const void *a, const void *b)
{
    const struct sameout_line *one = *(struct sameout_line *const *)a;
    const struct sameout_line *other = *(struct sameout_line *const *)b;
    int r = strcmp(one->text, other->text);

    return r ? r : (one > other) - (one < other);
}

static int sameout_by_shape(const void *a, const void *b)
{
    const struct sameout_line *one = *(struct sameout_line *const *)a;
    const struct sameout_line *other = *(struct sameout_line *const *)b;
    int r = strcmp(one->shape, other->shape);

    return r ? r : (one > other) - (one < other);
}

static struct sameout_line **sameout_sorted(
        const struct sameout_lines *lines, int (*by)(const void *, const void *))
{
    struct sameout_line **sorted = vec_new(lines->count + 1, sizeof(struct sameout_line *));

    for (size_t i = 0; i < lines->count; i++) {
        sorted[i] = &lines->at[i];
        if (by == sameout_by_shape)
            (void)sameout_shape(sorted[i]);
    }
    vec_sort((void *)sorted, lines->count, sizeof(struct sameout_line *), by);
    return sorted;
}

/* Marks the lines that have an equal one in the other text, each one once. */
static void sameout_pair_equal(struct sameout_lines *one, struct sameout_lines *other)
{
    struct sameout_line **a = sameout_sorted(one, sameout_by_text);
    struct sameout_line **b = sameout_sorted(other, sameout_by_text);

    for (size_t i = 0; i < one->count; i++)
        one->at[i].is_equal = false;
    for (size_t i = 0; i < other->count; i++)
        other->at[i].is_equal = false;
    for (size_t i = 0, k = 0; i < one->count && k < other->count;) {
        int r = strcmp(a[i]->text, b[k]->text);

        if (r == 0)
            a[i]->is_equal = b[k]->is_equal = true;
        i += r <= 0;
        k += r >= 0;
    }
    free((void *)a);
    free((void *)b);
}

/* Whether the equal lines of both are in the same order. */
static bool sameout_in_order(const struct sameout_lines *one, const struct sameout_lines *other)
{
    size_t k = 0;

    for (size_t i = 0; i < one->count; i++) {
        if (!one->at[i].is_equal)
            continue;
        while (k < other->count && !other->at[k].is_equal)
            k++;
        if (k == other->count || strcmp(one->at[i].text, other->at[k++].text) != 0)
            return false;
    }
    return true;
}

struct sameout *sameout_new(const char *text, size_t length)
{
    struct sameout *same = vec_new(1, sizeof(*same));

    same->first = sameout_split(text, length);
    return same;
}

void sameout_free(struct sameout *same)
{
    if (!same)
        return;
    sameout_free_lines(&same->first);
    sameout_free_lines(&same->second);
    free(same);
}

/* Pairs lines without an equal one with those of the same shape, in order; the rest is optional. */
static void sameout_pair_alike(struct sameout *same)
{
    struct sameout_line **a = sameout_sorted(&same->first, sameout_by_shape);
    struct sameout_line **b = sameout_sorted(&same->second, sameout_by_shape);
    size_t k = 0;

    for (size_t i = 0; i < same->second.count; i++)
        b[i]->is_optional = !b[i]->is_equal;
    for (size_t i = 0; i < same->first.count; i++) {
        if (a[i]->is_equal)
            continue;
        while (k < same->second.count && (b[k]->is_equal || strcmp(b[k]->shape, a[i]->shape) < 0))
            k++;
        a[i]->is_optional = k == same->second.count || strcmp(b[k]->shape, a[i]->shape) != 0;
        if (a[i]->is_optional)
            continue;
        a[i]->mate = 1 + (size_t)(b[k] - same->second.at);
        b[k++]->is_optional = false;
    }
    free((void *)a);
    free((void *)b);
}

static void sameout_pair(struct sameout *same)
{
    for (size_t i = 0; i < same->first.count; i++)
        same->first.at[i].mate = 0;
    sameout_pair_equal(&same->first, &same->second);
    same->order_varies = !sameout_in_order(&same->first, &same->second);
    sameout_pair_alike(same);
}

static bool sameout_moves_to(
        const struct sameout_line *line, const struct sameout_lines *second, size_t at)
{
    return second->at && at < second->count && sameout_moves(line->text, second->at[at].text);
}

/* Compared with its pair, or in place: lines may change places by chance. */
static bool sameout_address_moves(const struct sameout *same)
{
    const struct sameout_lines *second = &same->second;

    for (size_t i = 0; i < same->first.count; i++) {
        const struct sameout_line *line = &same->first.at[i];

        if ((line->mate > 0 && sameout_moves_to(line, second, line->mate - 1))
                || (i < second->count && strcmp(line->shape, second->at[i].shape) == 0
                        && sameout_moves_to(line, second, i)))
            return true;
    }
    return false;
}

void sameout_mask(struct sameout *same, const char *text, size_t length)
{
    same->second = sameout_split(text, length);
    same->has_second = true;
    sameout_pair(same);
    same->has_addresses = sameout_address_moves(same);
    if (!same->has_addresses)
        return;
    sameout_hide(&same->first);
    sameout_hide(&same->second);
    sameout_pair(same);
}

/* ---- comparing a third run ------------------------------------------------------------------ */

static bool sameout_has_optional(const struct sameout_lines *lines, const char *shape)
{
    for (size_t i = 0; i < lines->count; i++)
        if (lines->at[i].is_optional && strcmp(lines->at[i].shape, shape) == 0)
            return true;
    return false;
}

/* Whether the two runs had different numbers of such lines. */
static bool sameout_is_optional(const struct sameout *same, const char *shape)
{
    return same->has_second
            && (sameout_has_optional(&same->first, shape)
                    || sameout_has_optional(&same->second, shape));
}

/* Takes the first masked line that this one matches; those before *io_from are taken. */
static bool sameout_take_masked(const struct sameout *same, struct sameout_lines *first,
        size_t *io_from, struct sameout_line *line)
{
    while (*io_from < first->count
            && (first->at[*io_from].is_equal || first->at[*io_from].is_taken
                    || first->at[*io_from].mate == 0))
        ++*io_from;
    for (size_t i = *io_from; i < first->count; i++) {
        struct sameout_line *masked = &first->at[i];

        if (masked->is_equal || masked->is_taken || masked->mate == 0
                || strcmp(masked->shape, sameout_shape(line)) != 0
                || !sameout_fits(masked->text, same->second.at[masked->mate - 1].text, line->text))
            continue;
        masked->is_taken = true;
        return true;
    }
    return false;
}

/* The first run's line in its place: one of the same shape, else the first that is missing. */
static const struct sameout_line *sameout_instead(
        struct sameout_lines *first, struct sameout_line *line)
{
    const struct sameout_line *instead = NULL;

    for (size_t i = 0; i < first->count; i++) {
        struct sameout_line *missing = &first->at[i];

        if (missing->is_equal || missing->is_taken)
            continue;
        if (strcmp(sameout_shape(missing), sameout_shape(line)) == 0)
            return missing;
        if (!instead)
            instead = missing;
    }
    return instead;
}

static char *sameout_tell(struct sameout_lines *first, struct sameout_line *line)
{
    const struct sameout_line *instead = sameout_instead(first, line);

    if (!instead)
        return vec_format(
                "line %zu, \"%.*s\", is new", line->number, (int)SAMEOUT_SHOWN, line->text);
    return vec_format("line %zu is \"%.*s\" instead of \"%.*s\"", line->number, (int)SAMEOUT_SHOWN,
            line->text, (int)SAMEOUT_SHOWN, instead->text);
}

static char *sameout_compare(const struct sameout *same, struct sameout_lines *first,
        struct sameout_lines *lines, bool any_order)
{
    size_t from = 0;

    for (size_t i = 0; i < lines->count; i++) {
        struct sameout_line *line = &lines->at[i];

        if (line->is_equal || (same->has_second && sameout_take_masked(same, first, &from, line)))
            continue;
        if (!sameout_is_optional(same, sameout_shape(line)))
            return sameout_tell(first, line);
    }
    for (size_t i = 0; i < first->count; i++)
        if (!first->at[i].is_equal && !first->at[i].is_taken
                && !sameout_is_optional(same, first->at[i].shape))
            return vec_format(
                    "the line \"%.*s\" is missing", (int)SAMEOUT_SHOWN, first->at[i].text);
    if (any_order || same->order_varies || sameout_in_order(first, lines))
        return NULL;
    return vec_text("the lines come in another order");
}

/* A copy, since the result for one text must not depend on earlier ones. */
static struct sameout_lines sameout_copy(const struct sameout_lines *lines)
{
    struct sameout_lines copy = {
            .at = vec_new(lines->count + 1, sizeof(*lines->at)), .count = lines->count};

    for (size_t i = 0; i < lines->count; i++) {
        copy.at[i] = lines->at[i];
        copy.at[i].text = vec_text(lines->at[i].text);
        copy.at[i].shape = NULL;
        (void)sameout_shape(&copy.at[i]);
    }
    return copy;
}

char *sameout_differs(const struct sameout *same, const char *text, size_t length, bool any_order)
{
    struct sameout_lines first = sameout_copy(&same->first);
    struct sameout_lines lines = sameout_split(text, length);
    char *difference;

    if (same->has_addresses)
        sameout_hide(&lines);
    sameout_pair_equal(&first, &lines);
    difference = sameout_compare(same, &first, &lines, any_order);
    sameout_free_lines(&first);
    sameout_free_lines(&lines);
    return difference;
}
