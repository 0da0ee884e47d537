/* SPDX-License-Identifier: MIT */
#include "tools/export/export_names.h"

#include <string.h>

#include "tools/base/vec.h"
#include "tracker/base/utf8.h"

uint32_t export_names_text(struct export_names *names, const char *text, bool *ret_is_new)
{
    return keytable_number_new(&names->texts, keytable_text(text), ret_is_new);
}

uint32_t export_names_call(
        struct export_names *names, const struct symbols_line *line, bool *ret_is_new)
{
    return keytable_number_new(&names->calls, symbols_line_key(line), ret_is_new);
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
