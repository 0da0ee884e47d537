/* SPDX-License-Identifier: MIT */
#include "tracker/hints/pysite.h"

#include "tracker/base/script.h"
#include "tracker/base/site.h"
#include "tracker/base/utf8.h"

#include <stdio.h>
#include <string.h>

static uint64_t pysite_key_of(const char *file, size_t file_bytes, const char *qualname,
        size_t qualname_bytes, unsigned line)
{
    uint64_t key = site_hash(qualname, qualname_bytes, site_hash(file, file_bytes, 7));

    key = line ? site_frame(key, line) : key;
    return key ? key : 1;
}

uint64_t pysite_key(const char *file, const char *qualname, unsigned line)
{
    const char *base = script_base(file);

    return pysite_key_of(base, strlen(base), qualname, strlen(qualname), line);
}

/* True if the whole text is a number from 1 that fits. */
static bool pysite_read_line(const char *text, unsigned *ret_line)
{
    uint64_t line = 0;

    for (; *text >= '0' && *text <= '9' && line <= INT32_MAX; text++)
        line = line * 10 + (unsigned)(*text - '0');
    *ret_line = (unsigned)line;
    return *text == '\0' && line > 0 && line <= INT32_MAX;
}

const char *pysite_read(const char *text, uint64_t *ret_key)
{
    const char *file = strncmp(text, "p:", 2) == 0 ? text + 2 : "";
    size_t file_bytes = strcspn(file, ":");
    const char *qualname = file + file_bytes + (file[file_bytes] == ':');
    size_t qualname_bytes = strcspn(qualname, ":");
    const char *rest = qualname + qualname_bytes;
    unsigned line = 0;

    if (file_bytes == 0 || qualname_bytes == 0)
        return "a Python call site is p:FILE:QUALNAME or p:FILE:QUALNAME:LINE";
    if (memchr(file, '/', file_bytes))
        return "the file of a Python call site is a base name, without folders";
    if (*rest && !pysite_read_line(rest + 1, &line))
        return "the line of a Python call site is a number from 1";
    *ret_key = pysite_key_of(file, file_bytes, qualname, qualname_bytes, line);
    return NULL;
}

static bool pysite_is_nameable(const char *name)
{
    const unsigned char *at = (const unsigned char *)name;
    uint32_t code;
    size_t length;

    for (; *at && *at != ':'; at += length) {
        length = utf8_length(at, &code);
        if (length == 0)
            return false;
    }
    return *at == '\0' && *name;
}

bool pysite_write(const char *file, const char *qualname, unsigned line,
        char ret_text[static PYSITE_TEXT_MAX])
{
    const char *base = script_base(file);
    int bytes = line ? snprintf(ret_text, PYSITE_TEXT_MAX, "p:%s:%s:%u", base, qualname, line)
                     : snprintf(ret_text, PYSITE_TEXT_MAX, "p:%s:%s", base, qualname);

    return bytes > 0 && (size_t)bytes < PYSITE_TEXT_MAX && pysite_is_nameable(base)
            && pysite_is_nameable(qualname);
}
