/* SPDX-License-Identifier: MIT */
#include "tools/grow.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void no_memory(void)
{
    fputs("kedge: out of memory\n", stderr);
    exit(2);
}

void *grow_room(void *base, size_t need, size_t size, size_t *room)
{
    if (need <= *room)
        return base;

    size_t more = *room ? *room * 2 : 16;
    if (more < need)
        more = need;
    void *moved = reallocarray(base, more, size);
    if (!moved)
        no_memory();
    memset((char *)moved + *room * size, 0, (more - *room) * size);
    *room = more;
    return moved;
}

void *grow_array(size_t count, size_t size)
{
    void *base = calloc(count ? count : 1, size);
    if (!base)
        no_memory();
    return base;
}

char *grow_text(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        no_memory();
    return copy;
}

char *grow_format(const char *format, ...)
{
    va_list args;
    char *text = NULL;

    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        no_memory();
    return text;
}
