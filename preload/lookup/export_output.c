/* SPDX-License-Identifier: MIT */
/*
 * The exports of the program's output: each makes the real call, then passes the written text to
 * output.c. Text that stdio buffers is passed when it is put into the buffer, in the program's own
 * order; when the C library writes the buffer later, that is an internal call that no export sees,
 * so no text is passed twice.
 *
 * Transparent: the program gets the real call's result and errno; write and writev stay
 * cancellation points, since no lock or mark is held around the real call; text that was not
 * written (a short write, a closed stream) is not passed. The forms with variable arguments call
 * the v-forms, which are the same functions inside the C library. Formatted text is formatted a
 * second time for output.c, unless that would call functions of the program
 * (register_printf_specifier).
 *
 * Not covered: text that macros of the C library put into a stream's buffer (putc_unlocked of
 * optimised programs), wide streams, perror, error, warn and their like, pwrite, sendfile and
 * splice, system calls that a program makes by itself (Go), duplicates of the descriptors 1 and 2
 * under other numbers.
 *
 * This file is part of the shared objects alone (CMakeLists.txt): linked into a test program it
 * would be that program's write.
 */
#include "preload/anchors/output.h"
#include "preload/base/guard.h"
#include "preload/driver/resolve.h"

#include <errno.h>
#include <printf.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    FORMAT_SHORT = 1024,   /* formatted output up to this size is formatted on the stack, */
    FORMAT_MAX = 16 << 20, /* and up to this size on pages of its own; longer output is ignored */
};

/* clang-format off */
/* Real functions to call: name, and type by the C library's own declaration if it has one. */
#define OUTPUT_REAL(X)                                                                     \
    X(write) X(writev) X(fwrite) X(fputs) X(puts) X(fputc) X(putc) X(_IO_putc) X(putchar)  \
    X(fwrite_unlocked) X(fputs_unlocked) X(fputc_unlocked) X(putc_unlocked) X(putchar_unlocked) \
    X(vfprintf) X(vdprintf) X(__vfprintf_chk) X(__vdprintf_chk)                            \
    X(register_printf_specifier)
/* clang-format on */

#pragma GCC visibility push(default)
int _IO_putc(int c, FILE *stream);
int __printf_chk(int flag, const char *restrict format, ...);
int __fprintf_chk(FILE *restrict stream, int flag, const char *restrict format, ...);
int __dprintf_chk(int fd, int flag, const char *restrict format, ...);
int __vprintf_chk(int flag, const char *restrict format, va_list arg);
int __vfprintf_chk(FILE *restrict stream, int flag, const char *restrict format, va_list arg);
int __vdprintf_chk(int fd, int flag, const char *restrict format, va_list arg);

enum output_slot {
#define SLOT(name) OUTPUT_##name,
    OUTPUT_REAL(SLOT)
#undef SLOT
    OUTPUT_COUNT,
};

static const char *const output_names[OUTPUT_COUNT] = {
#define NAME(name) #name,
        OUTPUT_REAL(NAME)
#undef NAME
};

static _Atomic(void *) output_real[OUTPUT_COUNT];

static void *find_real(enum output_slot slot)
{
    void *found;

    guard_push();
    found = resolve_next(output_names[slot]);
    guard_pop();
    atomic_store_explicit(&output_real[slot], found, memory_order_relaxed);
    return found;
}

/*
 * The real function. Looked up here only before the constructor has run: a signal handler must not
 * do a look-up.
 */
static inline void *real_of(enum output_slot slot)
{
    void *known = atomic_load_explicit(&output_real[slot], memory_order_relaxed);

    return __builtin_expect(known != NULL, 1) ? known : find_real(slot);
}

#define REAL_OF(name) ((__typeof__(&(name)))real_of(OUTPUT_##name))

__attribute__((constructor)) static void export_output_find_all(void)
{
    for (int slot = 0; slot < OUTPUT_COUNT; slot++)
        (void)real_of((enum output_slot)slot);
}

/* ---- passing the text on ------------------------------------------------------------------ */

static void show_text(int fd, const char *text, size_t length)
{
    int saved = errno;

    output_seen(fd, text, length);
    errno = saved;
}

static void show_stream(FILE *stream, const char *text, size_t length)
{
    int saved = errno;

    output_seen(fileno(stream), text, length);
    errno = saved;
}

/* Conversions that call functions of the program, as bits. */
static _Atomic(uint64_t) own_conversions[4];

static void note_conversion(int letter)
{
    unsigned bit = (unsigned char)letter;

    atomic_fetch_or(&own_conversions[bit / 64], (uint64_t)1 << (bit % 64));
}

static bool export_output_is_own(char letter)
{
    unsigned bit = (unsigned char)letter;

    return atomic_load_explicit(&own_conversions[bit / 64], memory_order_relaxed) >> (bit % 64) & 1;
}

/*
 * Whether formatting calls no function of the program: each conversion is one of the C library's.
 */
static bool export_output_is_plain(const char *format)
{
    for (const char *at = strchr(format, '%'); at; at = strchr(at + 1, '%')) {
        at += 1 + strspn(at + 1, "0123456789$*.+-# 'IhlLqjztZw");
        if (*at == '\0' || !strchr("%diouxXeEfFgGaAcsCSpnmbB", *at) || export_output_is_own(*at))
            return false;
    }
    return true;
}

/* With room for `count` bytes and a 0. */
__attribute__((format(printf, 5, 0))) static void show_worked_out(
        int fd, int before, char *text, int count, const char *format, va_list args)
{
    int length;

    errno = before;
    length = vsnprintf(text, (size_t)count + 1, format, args);
    if (length >= 0 && length <= count)
        output_seen(fd, text, (size_t)length);
    else
        output_unseen(fd, false);
}

/* On pages of its own: a signal handler may print, so no malloc. */
__attribute__((format(printf, 4, 0))) static void show_long(
        int fd, int before, int count, const char *format, va_list args)
{
    size_t size = (size_t)count + 1;
    char *text = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (text == MAP_FAILED) {
        output_unseen(fd, false);
        return;
    }
    show_worked_out(fd, before, text, count, format, args);
    (void)munmap(text, size);
}

__attribute__((format(printf, 4, 0), noinline)) static void show_short(
        int fd, int before, int count, const char *format, va_list args)
{
    char text[FORMAT_SHORT];

    show_worked_out(fd, before, text, count, format, args);
}

/* A format wrote `count` bytes; `before` is errno from before the call, for %m. */
__attribute__((format(printf, 4, 0))) static void show_format(
        int fd, int before, int count, const char *format, va_list args)
{
    size_t length = strlen(format);
    int saved = errno;

    if (fd != STDOUT_FILENO && fd != STDERR_FILENO)
        return;
    if (strchr(format, '%') == NULL)
        output_seen(fd, format, length);
    else if (count > FORMAT_MAX || !export_output_is_plain(format))
        output_unseen(fd, length > 0 && format[length - 1] == '\n');
    else if (count < FORMAT_SHORT)
        show_short(fd, before, count, format, args);
    else
        show_long(fd, before, count, format, args);
    errno = saved;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

ssize_t write(int fd, const void *buf, size_t n)
{
    __typeof__(&write) real = REAL_OF(write);
    ssize_t written;

    if (!real)
        return (ssize_t)syscall(SYS_write, fd, buf, n);
    if (!output_is_watched() || (fd != STDOUT_FILENO && fd != STDERR_FILENO))
        return real(fd, buf, n);
    written = real(fd, buf, n);
    if (written > 0)
        show_text(fd, buf, (size_t)written);
    return written;
}

ssize_t writev(int fd, const struct iovec *iovec, int count)
{
    __typeof__(&writev) real = REAL_OF(writev);
    ssize_t written, left;

    if (!real)
        return (ssize_t)syscall(SYS_writev, fd, iovec, count);
    if (!output_is_watched() || (fd != STDOUT_FILENO && fd != STDERR_FILENO))
        return real(fd, iovec, count);
    left = written = real(fd, iovec, count);
    for (int i = 0; i < count && left > 0; i++) {
        size_t n = iovec[i].iov_len < (size_t)left ? iovec[i].iov_len : (size_t)left;

        show_text(fd, iovec[i].iov_base, n);
        left -= (ssize_t)n;
    }
    return written;
}

/* ---- streams -------------------------------------------------------------------------------- */

static size_t show_items(FILE *stream, const void *items, size_t size, size_t written)
{
    if (output_is_watched() && written > 0)
        show_stream(stream, items, written * size);
    return written;
}

size_t fwrite(const void *restrict ptr, size_t size, size_t n, FILE *restrict s)
{
    __typeof__(&fwrite) real = REAL_OF(fwrite);

    return show_items(s, ptr, size, real ? real(ptr, size, n, s) : 0);
}

size_t fwrite_unlocked(const void *restrict ptr, size_t size, size_t n, FILE *restrict stream)
{
    __typeof__(&fwrite_unlocked) real = REAL_OF(fwrite_unlocked);

    return show_items(stream, ptr, size, real ? real(ptr, size, n, stream) : 0);
}

#define PUTS(name)                                          \
    int name(const char *restrict s, FILE *restrict stream) \
    {                                                       \
        __typeof__(&(name)) real = REAL_OF(name);           \
        int result = real ? real(s, stream) : EOF;          \
        if (output_is_watched() && result >= 0)             \
            show_stream(stream, s, strlen(s));              \
        return result;                                      \
    }

PUTS(fputs)
PUTS(fputs_unlocked)

/* `result`: the result of fputc, putc or putchar for `c`. */
static int show_char(FILE *stream, int c, int result)
{
    char byte = (char)c;

    if (output_is_watched() && result != EOF)
        show_stream(stream, &byte, 1);
    return result;
}

#define PUTS_CHAR(name)                                            \
    int name(int c, FILE *stream)                                  \
    {                                                              \
        __typeof__(&(name)) real = REAL_OF(name);                  \
        return show_char(stream, c, real ? real(c, stream) : EOF); \
    }
#define PUTS_CHAR_OUT(name)                                \
    int name(int c)                                        \
    {                                                      \
        __typeof__(&(name)) real = REAL_OF(name);          \
        return show_char(stdout, c, real ? real(c) : EOF); \
    }

/*
 * std::endl's newline, and that of a printf("\n") that the compiler has rewritten, comes through
 * one of these. _IO_putc: for programs built before glibc 2.28.
 */
PUTS_CHAR(fputc)
PUTS_CHAR(fputc_unlocked)
PUTS_CHAR(putc)
PUTS_CHAR(putc_unlocked)
PUTS_CHAR(_IO_putc)
PUTS_CHAR_OUT(putchar)
PUTS_CHAR_OUT(putchar_unlocked)

int puts(const char *s)
{
    __typeof__(&puts) real = REAL_OF(puts);
    int result = real ? real(s) : EOF;

    if (output_is_watched() && result >= 0) {
        show_stream(stdout, s, strlen(s));
        show_stream(stdout, "\n", 1);
    }
    return result;
}

/* ---- formats -------------------------------------------------------------------------------- */

/*
 * Prints to a descriptor, or to the stream if `fd` is NULL; `flag` is that of a _chk form, negative
 * without.
 */
__attribute__((format(printf, 4, 0))) static int print_real(
        FILE *stream, const int *fd, int flag, const char *format, va_list args)
{
    if (fd)
        return flag >= 0 ? REAL_OF(__vdprintf_chk)(*fd, flag, format, args)
                         : REAL_OF(vdprintf)(*fd, format, args);
    return flag >= 0 ? REAL_OF(__vfprintf_chk)(stream, flag, format, args)
                     : REAL_OF(vfprintf)(stream, format, args);
}

/* The same, and passes the text to output.c. */
__attribute__((format(printf, 4, 0))) static int print_seen(
        FILE *stream, const int *fd, int flag, const char *format, va_list args)
{
    int before = errno;
    va_list again;
    int result, saved, where;

    if (!output_is_watched())
        return print_real(stream, fd, flag, format, args);
    va_copy(again, args);
    result = print_real(stream, fd, flag, format, args);
    saved = errno;
    where = fd ? *fd : fileno(stream);
    errno = saved;
    if (result > 0)
        show_format(where, before, result, format, again);
    va_end(again);
    return result;
}

/* Without _chk. */
#define PLAIN (-1)

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define PRINTS(name, params, stream, fd, flag, format)              \
    int name params                                                \
    {                                                              \
        return print_seen(stream, fd, flag, format, arg);          \
    }
#define PRINTS_ARGS(name, params, stream, fd, flag, format)         \
    int name params                                                \
    {                                                              \
        va_list args;                                              \
        int result;                                                \
        va_start(args, format);                                    \
        result = print_seen(stream, fd, flag, format, args);       \
        va_end(args);                                              \
        return result;                                             \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
#define FORMAT const char *restrict

PRINTS_ARGS(printf, (FORMAT format, ...), stdout, NULL, PLAIN, format)
PRINTS_ARGS(fprintf, (FILE *restrict stream, FORMAT format, ...), stream, NULL, PLAIN, format)
PRINTS_ARGS(dprintf, (int fd, FORMAT fmt, ...), NULL, &fd, PLAIN, fmt)
PRINTS(vprintf, (FORMAT format, va_list arg), stdout, NULL, PLAIN, format)
PRINTS(vfprintf, (FILE *restrict s, FORMAT format, va_list arg), s, NULL, PLAIN, format)
PRINTS(vdprintf, (int fd, FORMAT fmt, va_list arg), NULL, &fd, PLAIN, fmt)
PRINTS_ARGS(__printf_chk, (int flag, FORMAT format, ...), stdout, NULL, flag, format)
PRINTS_ARGS(__fprintf_chk, (FILE *restrict stream, int flag, FORMAT format, ...), stream, NULL, flag, format)
PRINTS_ARGS(__dprintf_chk, (int fd, int flag, FORMAT format, ...), NULL, &fd, flag, format)
PRINTS(__vprintf_chk, (int flag, FORMAT format, va_list arg), stdout, NULL, flag, format)
PRINTS(__vfprintf_chk, (FILE *restrict stream, int flag, FORMAT format, va_list arg), stream, NULL, flag, format)
PRINTS(__vdprintf_chk, (int fd, int flag, FORMAT format, va_list arg), NULL, &fd, flag, format)
/* clang-format on */

/*
 * The program registers a function for a conversion: from now on formats that contain it are
 * formatted once, by the real call.
 */
int register_printf_specifier(int spec, printf_function func, printf_arginfo_size_function arginfo)
{
    __typeof__(&register_printf_specifier) real = REAL_OF(register_printf_specifier);

    note_conversion(spec);
    return real ? real(spec, func, arginfo) : -1;
}
#pragma GCC visibility pop
