/* SPDX-License-Identifier: MIT */
#include "preload/msg.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct text {
    char *at;
    size_t size; /* room, the NUL included */
    size_t used;
};

static atomic_int msg_lines;
static atomic_int msg_level = MSG_WARN;

static void text_add(struct text *text, char c)
{
    if (text->used + 1 < text->size)
        text->at[text->used++] = c;
}

static void text_add_string(struct text *text, const char *s)
{
    for (s = s ? s : "(null)"; *s; s++)
        text_add(text, *s);
}

static void text_add_number(struct text *text, uint64_t value, unsigned base)
{
    char digits[24];
    int n = 0;

    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    while (n > 0)
        text_add(text, digits[--n]);
}

static void text_add_signed(struct text *text, int64_t value)
{
    if (value < 0)
        text_add(text, '-');
    text_add_number(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
}

/* One conversion; returns the character after it. */
static const char *text_convert(struct text *text, const char *f, va_list *args)
{
    bool wide = *f == 'l' || *f == 'z';

    if (wide)
        f++;
    switch (*f) {
    case 's':
        text_add_string(text, va_arg(*args, const char *));
        break;
    case 'd':
        text_add_signed(text, wide ? va_arg(*args, long) : va_arg(*args, int));
        break;
    case 'u':
        text_add_number(text, wide ? va_arg(*args, unsigned long) : va_arg(*args, unsigned), 10);
        break;
    case 'x':
        text_add_number(text, wide ? va_arg(*args, unsigned long) : va_arg(*args, unsigned), 16);
        break;
    case 'p':
        text_add_string(text, "0x");
        text_add_number(text, (uintptr_t)va_arg(*args, void *), 16);
        break;
    case '\0':
        return f;
    default:
        text_add(text, *f);
        break;
    }
    return f + 1;
}

static void text_format(struct text *text, const char *format, va_list *args)
{
    while (*format) {
        if (*format == '%')
            format = text_convert(text, format + 1, args);
        else
            text_add(text, *format++);
    }
    if (text->size > 0)
        text->at[text->used] = '\0';
}

size_t msg_format(char *ret_text, size_t size, const char *format, ...)
{
    struct text text = {NULL, size, 0};
    va_list args;

    text.at = ret_text;
    va_start(args, format);
    text_format(&text, format, &args);
    va_end(args);
    return text.used;
}

void msg_set_level(enum msg_level level)
{
    atomic_store(&msg_level, (int)level);
}

/* One line in one write, so that lines of several threads do not mix. */
static void print(const char *format, va_list *args)
{
    char line[MSG_LINE];
    struct text text = {line, sizeof line - 1, 0}; /* one byte for the newline */
    int saved = errno;
    ssize_t written;

    text.used = msg_format(line, text.size, "kedge[%d]: ", (int)getpid());
    text_format(&text, format, args);
    line[text.used++] = '\n';
    /* not write(): that is an export of ours, a cancellation point, and what it sees is the program's output */
    written = (ssize_t)syscall(SYS_write, STDERR_FILENO, line, text.used);
    (void)written; /* there is nobody to tell */
    errno = saved;
}

void msg_warn(const char *format, ...)
{
    va_list args;
    int number;

    if (atomic_load(&msg_level) < MSG_WARN)
        return;
    number = atomic_fetch_add(&msg_lines, 1);
    if (number >= MSG_MAX) {
        atomic_store(&msg_lines, MSG_MAX); /* or the counter would come round one day */
        return;
    }
    va_start(args, format);
    print(number == MSG_MAX - 1 ? "further warnings are in the capture" : format, &args);
    va_end(args);
}

void msg_info(const char *format, ...)
{
    va_list args;

    if (atomic_load(&msg_level) < MSG_INFO)
        return;
    va_start(args, format);
    print(format, &args);
    va_end(args);
}
