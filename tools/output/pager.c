/* SPDX-License-Identifier: MIT */
#include "tools/output/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/base/render.h"

#define EXIT_NOT_FOUND 127

const struct args_option pager_option = {
        "no-pager", NULL, "long output goes to the terminal as it is", ARGS_FLAG, 0};

static char *held; /* PAGER_BYTES, NULL = no output is held back */

/* NULL = no pager is wanted. */
static const char *pager_command(void)
{
    const char *term = getenv("TERM");
    const char *pager = getenv("PAGER");

    if (!isatty(STDOUT_FILENO) || !term || strcmp(term, "dumb") == 0)
        return NULL;
    if (!pager)
        return "less";
    return *pager && strcmp(pager, "cat") != 0 ? pager : NULL;
}

void pager_begin(void)
{
    void *room;

    if (!pager_command())
        return;
    room = mmap(NULL, PAGER_BYTES, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return;
    if (setvbuf(stdout, room, _IOFBF, PAGER_BYTES) == 0)
        held = room; /* used by stdout until the process ends */
    else
        (void)munmap(room, PAGER_BYTES);
}

bool pager_is_on(void)
{
    return held != NULL;
}

/* The length of an escape sequence after its escape character. */
static size_t escape_length(const char *text, size_t length)
{
    size_t at = 1;

    if (at < length && text[at] == '[')
        for (at++; at < length && (text[at] < '@' || text[at] > '~');)
            at++;
    return at < length ? at + 1 : length;
}

size_t pager_lines(const char *text, size_t length, unsigned columns)
{
    size_t lines = 0;
    size_t width = 0;

    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\033') {
            i += escape_length(text + i, length - i) - 1;
        } else if (text[i] == '\n') {
            lines += 1 + (width ? (width - 1) / columns : 0);
            width = 0;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) { /* the first byte of a character */
            width++;
        }
    }
    return lines + (width ? 1 + (width - 1) / columns : 0);
}

static bool fits_screen(const char *text, size_t length)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return true; /* the height of the screen is unknown */
    return pager_lines(text, length, size.ws_col) < size.ws_row;
}

/* The child's end: never returns. */
static _Noreturn void become_pager(const char *command, int input)
{
    (void)dup2(input, STDIN_FILENO);
    (void)setenv("LESS", "FRX", 0);
    if (strcmp(command, "less") == 0)
        (void)execlp("less", "less", (char *)NULL);
    else
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(EXIT_NOT_FOUND);
}

/* Whether a pager has shown the text. */
static bool show(const char *command, const char *text, size_t length)
{
    int ends[2];
    int status = 0;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    child = fork();
    if (child == 0)
        become_pager(command, ends[0]);
    (void)close(ends[0]);
    if (child > 0) {
        /* leaving or interrupting the pager does not interrupt kedge */
        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGINT, SIG_IGN);
        (void)signal(SIGQUIT, SIG_IGN);
        (void)render_write(ends[1], text, length); /* as long as the pager reads */
    }
    (void)close(ends[1]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return child > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) >= EXIT_NOT_FOUND - 1);
}

void pager_end(void)
{
    const char *command = pager_command();
    size_t length = held ? __fpending(stdout) : 0;

    /*
     * The last byte was written: stdout's buffer has been full, and a part of it is on the
     * terminal.
     */
    if (!held || held[PAGER_BYTES - 1] != '\0' || !command || fits_screen(held, length))
        return;
    if (show(command, held, length))
        __fpurge(stdout);
}
