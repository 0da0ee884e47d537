/* SPDX-License-Identifier: MIT */
#include "tools/base/rowread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool rowread_is_digit(char c, unsigned base)
{
    return (c >= '0' && c <= '9')
            || (base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')));
}

bool rowread_uint(struct rowread *reader, unsigned base, uint64_t *ret)
{
    const char *at = reader->at;
    char *end;

    reader->field = at;
    if (base == 16 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X')
            && rowread_is_digit(at[2], base))
        at += 2;
    if (!rowread_is_digit(*at, base))
        return false;
    errno = 0;
    *ret = strtoull(at, &end, (int)base);
    if (errno || (*end != ',' && *end != '\0'))
        return false;
    reader->at = *end == ',' ? end + 1 : end;
    return true;
}

bool rowread_text(struct rowread *reader, const char **ret_text, size_t *ret_length)
{
    const char *end = strchrnul(reader->at, ',');

    reader->field = reader->at;
    if (*reader->at == '\0')
        return false;
    *ret_text = reader->at;
    *ret_length = (size_t)(end - reader->at);
    reader->at = *end == ',' ? end + 1 : end;
    return true;
}

bool rowread_is_end(struct rowread *reader)
{
    bool is_end = *reader->at == '\0' && (reader->at == reader->text || reader->at[-1] != ',');

    if (!is_end)
        reader->field = reader->at;
    return is_end;
}

int rowread_fault(const struct rowread *reader, const char *what)
{
    (void)snprintf(reader->error, ROWREAD_ERROR_MAX, "%s:%zu:%zu: %s", reader->name, reader->line,
            (size_t)(reader->field - reader->text) + 1, what);
    return -EINVAL;
}

int rowread_all(struct rowread *reader, FILE *in, int (*row)(void *context, struct rowread *reader),
        void *context)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int r = 0;

    while (r == 0 && (n = getline(&line, &room, in)) >= 0) {
        reader->line++;
        reader->is_cut = n == 0 || line[n - 1] != '\n';
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = '\0';
        reader->text = reader->at = reader->field = line;
        if (strlen(line) != (size_t)n) {
            reader->field = line + strlen(line);
            r = rowread_fault(reader, "a NUL byte");
        } else if (n > 0) {
            r = row(context, reader);
        }
        if (r == -EINVAL && reader->odd)
            r = reader->odd(context, reader);
    }
    if (r == 0 && ferror(in)) {
        r = -EIO;
        (void)snprintf(reader->error, ROWREAD_ERROR_MAX, "%s: %s", reader->name, strerror(-r));
    }
    free(line);
    reader->text = reader->at = reader->field = NULL;
    return r;
}
