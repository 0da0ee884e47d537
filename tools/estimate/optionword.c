/* SPDX-License-Identifier: MIT */
#include "tools/estimate/optionword.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"

int optionword_read(const char *who, const char *text, struct optionword *ret_option)
{
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0;
    int end = 0;

    *ret_option = (struct optionword){0};
    while (*text == '-' && length) {
        text++;
        length--;
    }
    if (length && length < sizeof(ret_option->name)
            && sscanf(equals + 1, "%" SCNu64 "..%" SCNu64 "%n", // NOLINT(cert-err34-c)
                       &ret_option->low, &ret_option->high, &end)
                    == 2
            && equals[1 + end] == '\0' && ret_option->low >= 1
            && ret_option->low <= ret_option->high && ret_option->high < UINT64_C(1) << 40) {
        (void)memcpy(ret_option->name, text, length);
        return CMD_DONE;
    }
    render_print(
            stderr, "%s: --find %s: an option and a range as batch=1..512 expected\n", who, text);
    return CMD_BAD;
}

/* `word` with each {NAME} replaced; NULL: it has none. */
static char *in_braces(const char *word, const char *name, uint64_t number)
{
    char *mark = vec_format("{%s}", name);
    char *text = NULL;
    const char *at;

    for (const char *from = word; (at = strstr(from, mark)) != NULL; from = at + strlen(mark)) {
        char *longer =
                vec_format("%s%.*s%" PRIu64, text ? text : "", (int)(at - from), from, number);
        free(text);
        text = longer;
        word = at + strlen(mark);
    }
    if (text) {
        char *whole = vec_format("%s%s", text, word);
        free(text);
        text = whole;
    }
    free(mark);
    return text;
}

/* What follows the option's name in a word that begins with it; NULL: it does not. */
static const char *behind_name(const char *word, const char *name)
{
    size_t length = strlen(name);

    word += strspn(word, "-");
    return strncmp(word, name, length) == 0 ? word + length : NULL;
}

/* Replaces in place; whether there was anything to replace. */
static bool put_braces(char **words, const struct optionword *option, uint64_t number)
{
    bool found = false;

    for (; *words; words++) {
        char *text = in_braces(*words, option->name, number);
        if (!text)
            continue;
        free(*words);
        *words = text;
        found = true;
    }
    return found;
}

static bool put_value(char **words, const struct optionword *option, uint64_t number)
{
    bool found = false;

    for (; *words; words++) {
        const char *rest = behind_name(*words, option->name);
        char *text;

        if (!rest)
            continue;
        if (*rest == '=') {
            text = vec_format("%.*s=%" PRIu64, (int)(rest - *words), *words, number);
        } else if (*rest == '\0' && **words == '-' && words[1]) {
            text = vec_format("%" PRIu64, number);
            words++;
        } else {
            continue;
        }
        free(*words);
        *words = text;
        found = true;
    }
    return found;
}

char **optionword_put(const struct optionword *option, char *const *words, uint64_t number)
{
    size_t count = 0;

    while (words[count])
        count++;
    char **copy = vec_new(count + 1, sizeof(*copy));
    for (size_t i = 0; i < count; i++)
        copy[i] = vec_text(words[i]);
    /* The program's own name is no option. */
    if (put_braces(copy + 1, option, number) || put_value(copy + 1, option, number))
        return copy;
    optionword_free(copy);
    return NULL;
}

void optionword_free(char **words)
{
    for (size_t i = 0; words && words[i]; i++)
        free(words[i]);
    free(words);
}
