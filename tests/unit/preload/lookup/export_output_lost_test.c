/* SPDX-License-Identifier: MIT */
/* covers: export_output.c */
/* Where the C library's own functions cannot be found the kernel writes, and streams say that they cannot. */
#include "preload/anchors/output.h"
#include "preload/driver/resolve.h"
#include "tests/check.h"

#include <dlfcn.h>
#include <printf.h>
#include <sys/uio.h>
#include <unistd.h>

atomic_bool output_watched;
static bool lacks = true; /* from before the first constructor on */
static unsigned shown;

enum {
    ASKED = 64,
};
static const char *asked[ASKED];
static unsigned asked_count;

void *resolve_next(const char *name)
{
    if (asked_count < ASKED)
        asked[asked_count++] = name;
    return lacks ? NULL : dlsym(RTLD_NEXT, name);
}

void output_seen(int fd, const char *text, size_t length)
{
    (void)fd;
    (void)text;
    (void)length;
    shown++;
}

void output_unseen(int fd, bool ends_line)
{
    (void)fd;
    (void)ends_line;
    shown++;
}

/* What was written to the pipe. */
static const char *written(int from)
{
    static char text[64];
    ssize_t n = read(from, text, sizeof text - 1);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

TEST(without_the_c_librarys_functions_descriptors_are_written_by_the_kernel)
{
    struct iovec parts[] = {{(char[]){"de"}, 2}, {(char[]){"fgh"}, 3}};
    ssize_t alone, together, nowhere;
    int pipes[2];
    const char *text;

    REQUIRE(pipe(pipes) == 0);
    alone = write(pipes[1], "abc", 3);
    together = writev(pipes[1], parts, 2);
    nowhere = write(-1, "abc", 3);
    text = written(pipes[0]);
    lacks = false; /* for what the checks print */
    CHECK_EQ(alone, 3);
    CHECK_EQ(together, 5);
    CHECK_EQ(nowhere, -1);
    CHECK_STR_EQ(text, "abcdefgh");
    CHECK_EQ(shown, 0);
}

TEST(without_the_c_librarys_functions_streams_say_that_they_cannot)
{
    int results[10], n = 0;
    size_t items;

    atomic_store(&output_watched, true);
    items = fwrite("abc", 1, 3, stdout) + fwrite_unlocked("abc", 1, 3, stdout);
    results[n++] = fputs("abc", stdout);
    results[n++] = fputs_unlocked("abc", stdout);
    results[n++] = puts("abc");
    results[n++] = fputc('a', stdout);
    results[n++] = fputc_unlocked('a', stdout);
    results[n++] = (putc)('a', stdout);
    results[n++] = (putc_unlocked)('a', stdout);
    results[n++] = (putchar)('a');
    results[n++] = (putchar_unlocked)('a');
    results[n++] = register_printf_specifier('Y', NULL, NULL);
    atomic_store(&output_watched, false);
    lacks = false;
    CHECK_EQ(items, 0);
    for (int i = 0; i < n; i++)
        CHECK_EQ(results[i], EOF);
    CHECK_EQ(shown, 0); /* nothing of it was printed */
    CHECK_GT(puts("found again"), 0);
}

/* A look-up is nothing for a signal handler. */
TEST(the_c_librarys_functions_are_looked_for_before_the_program_begins)
{
    static const char *const names[] = {"write", "writev", "fwrite", "fputs", "puts", "fputc",
            "putc", "_IO_putc", "putchar", "fwrite_unlocked", "fputs_unlocked", "fputc_unlocked",
            "putc_unlocked", "putchar_unlocked", "vfprintf", "vdprintf", "__vfprintf_chk",
            "__vdprintf_chk", "register_printf_specifier"};
    const size_t count = sizeof names / sizeof *names;
    unsigned before = asked_count;
    unsigned found = 0;

    for (size_t i = 0; i < count; i++)
        for (unsigned at = 0; at < before; at++)
            found += strcmp(asked[at], names[i]) == 0;
    lacks = false; /* for what the checks print */
    CHECK_EQ(before, count);
    CHECK_EQ(found, count);
}
