/* SPDX-License-Identifier: MIT */
#include "tools/export/export_names.h"

#include <string.h>

#include "tools/base/vec.h"
#include "tracker/base/utf8.h"

static uint32_t name_number(struct keytable *table, struct key key, bool *ret_is_new)
{
    size_t before = keytable_count(table);
    uint32_t number = keytable_number(table, key);

    *ret_is_new = number == before;
    return number;
}

uint32_t export_names_text(struct export_names *names, const char *text, bool *ret_is_new)
{
    return name_number(&names->texts, keytable_text(text), ret_is_new);
}

const char *export_names_file(const struct symbols_line *line)
{
    return line->file ? line->file : line->module;
}

uint32_t export_names_call(
        struct export_names *names, const struct symbols_line *line, bool *ret_is_new)
{
    struct key function = keytable_text(line->function);
    struct key file = keytable_text(export_names_file(line));
    /* two texts in one key: the second one's hash is rotated, so that swapped texts differ */
    struct key key = {function.a ^ (file.a << 32 | file.a >> 32),
            function.b ^ (file.b << 32 | file.b >> 32),
            function.c << 48 ^ file.c << 32 ^ line->line};

    return name_number(&names->calls, key, ret_is_new);
}

void export_names_done(struct export_names *names)
{
    keytable_done(&names->texts);
    keytable_done(&names->calls);
}

char *export_names_utf8(const char *text)
{
    const unsigned char *from = (const unsigned char *)text;
    char *clean = vec_new(3 * strlen(text) + 1, 1); /* U+FFFD has three bytes */
    char *to = clean;

    while (*from) {
        uint32_t code;
        size_t length = utf8_length(from, &code);

        if (length == 0) {
            to += utf8_put(0xfffd, to);
            from++;
            continue;
        }
        memcpy(to, from, length);
        to += length;
        from += length;
    }
    *to = '\0';
    return clean;
}
