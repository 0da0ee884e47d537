/* SPDX-License-Identifier: MIT */
#include "tracker/where/loglines.h"

#include "alloc/base/wildcard.h"

#include <errno.h>
#include <string.h>

/* ---- patterns ------------------------------------------------------------------------------- */

#define PLAIN_MIN 2u

/* Reads the name at `at`: returns its end, NULL for an invalid brace. */
static const char *read_name(const char *at, const char *end, enum loglines_name *ret_name)
{
    if (end - at >= 2 && at[1] == '}')
        *ret_name = LOGLINES_WORD;
    else if (end - at >= 3 && at[1] == '*' && at[2] == '}')
        *ret_name = LOGLINES_REST;
    else
        return NULL;
    return at + (*ret_name == LOGLINES_WORD ? 2 : 3);
}

static const char *read_form(const char *at, const char *end, struct loglines_form *ret_form)
{
    struct loglines_form form = {.name = LOGLINES_ALL};
    const char *start;

    if (at < end && *at == '*') {
        form.anywhere = true;
        at++;
    }
    start = at;
    while (at < end && *at != '{' && *at != '*')
        at++;
    form.text_length = (uint32_t)(at - start);
    memcpy(form.text, start, form.text_length);
    form.plain_length = (uint32_t)strcspn(form.text, "?");
    if (form.plain_length < PLAIN_MIN)
        return "it has to begin with two letters of plain text";
    if (at < end && *at == '{')
        at = read_name(at, end, &form.name);
    if (!at)
        return "braces are written {} or {*}";
    if (memchr(at, '{', (size_t)(end - at)))
        return "it can have one name, {} or {*}";
    for (char *to = form.tail; at < end; at++) {
        if (*at == '\\') /* an ordinary byte here */
            *to++ = '\\';
        *to++ = *at;
    }
    *ret_form = form;
    return NULL;
}

int loglines_add(struct loglines *set, const char *pattern, const char **ret_why)
{
    struct loglines_pattern fresh;
    size_t length = strlen(pattern);
    const char *bar = strchr(pattern, '|');
    const char *end = pattern + length;
    const char *why = NULL;

    memset(&fresh, 0, sizeof fresh);
    if (set->count == LOGLINES_MAX)
        why = "there are 16 already";
    else if (length >= LOGLINES_TEXT_MAX)
        why = "it is longer than 127 bytes";
    else if (bar && strchr(bar + 1, '|'))
        why = "it can have one | (the byte itself is written ?)";
    if (!why)
        why = read_form(pattern, bar ? bar : end, &fresh.enter);
    if (!why && bar)
        why = read_form(bar + 1, end, &fresh.leave);
    if (why) {
        *ret_why = why;
        return set->count == LOGLINES_MAX ? -ENOSPC : -EINVAL;
    }
    set->patterns[set->count++] = fresh;
    return 0;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool text_matches(const struct loglines_form *form, const char *at)
{
    for (uint32_t i = form->plain_length; i < form->text_length; i++)
        if (form->text[i] != '?' && form->text[i] != at[i])
            return false;
    return true;
}

/* True if nothing is before `at`, or what a logger writes before a message. */
static bool is_front(const struct loglines_form *form, const char *line, const char *at)
{
    if (form->anywhere)
        return true;
    while (at > line && is_blank(at[-1]))
        at--;
    return at == line || strchr("]):|->", at[-1]) != NULL;
}

/* Matches the name in [at, end) and the tail after it; takes the shortest matching name. If there
 * is none, no name before *ret_next matches: it would end where these did. */
static bool name_matches(const struct loglines_form *form, const char *at, const char *end,
        struct loglines_word *ret_word, const char **ret_next)
{
    *ret_next = end;
    for (const char *stop = at + 1; stop <= end; stop++) {
        enum wildcard_answer tail;

        if (form->name == LOGLINES_WORD && is_blank(stop[-1])) {
            *ret_next = stop;
            return false;
        }
        tail = wildcard_try(form->tail, stop, end);
        if (tail == WILDCARD_NOWHERE)
            return false;
        if (tail != WILDCARD_MATCHES)
            continue;
        ret_word->name = at;
        ret_word->name_length = (size_t)(stop - at);
        return true;
    }
    return false;
}

static bool form_matches(const struct loglines_form *form, const char *line, const char *end,
        struct loglines_word *ret_word)
{
    const char *at = line;
    const char *next = line; /* no name begins before */

    if (form->text_length == 0)
        return false;
    while ((size_t)(end - at) >= form->text_length) {
        const char *behind;

        at = memmem(at, (size_t)(end - at), form->text, form->plain_length);
        if (!at || (size_t)(end - at) < form->text_length)
            return false;
        behind = at + form->text_length;
        if (is_front(form, line, at) && text_matches(form, at)) {
            if (form->name == LOGLINES_ALL
                    && wildcard_try(form->tail, behind, end) == WILDCARD_MATCHES) {
                ret_word->name = at;
                ret_word->name_length = (size_t)(end - at);
                return true;
            }
            if (form->name != LOGLINES_ALL && behind >= next
                    && name_matches(form, behind, end, ret_word, &next))
                return true;
        }
        at++;
    }
    return false;
}

bool loglines_match(const struct loglines *set, uint32_t number, const char *line, size_t length,
        struct loglines_word *ret_word)
{
    const struct loglines_pattern *pattern = &set->patterns[number];
    const char *end = line + length;
    struct loglines_word word = {.kind = LOGLINES_NOTHING};

    while (end > line && is_blank(end[-1]))
        end--;
    if (form_matches(&pattern->leave, line, end, &word)) {
        word.kind = LOGLINES_LEAVE;
        if (pattern->leave.name == LOGLINES_ALL)
            word.name = NULL;
    } else if (form_matches(&pattern->enter, line, end, &word)) {
        word.kind = LOGLINES_ENTER;
    }
    *ret_word = word;
    return word.kind != LOGLINES_NOTHING;
}
