/* SPDX-License-Identifier: MIT */
#include "tools/run/top_screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"

#define ENTER \
    "\033[?1049h\033[?25l\033[?7l\033[H\033[2J" /* alternate screen, no cursor, no wrap, clear */
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

static struct termios before;
static volatile sig_atomic_t is_open;

/* May be called in a signal handler, as may `enter`. */
static void top_screen_leave(void)
{
    if (!is_open)
        return;
    is_open = 0;
    (void)render_write(STDOUT_FILENO, LEAVE, sizeof(LEAVE) - 1);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static void top_screen_enter(void)
{
    struct termios raw = before;

    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    is_open = 1;
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    (void)render_write(STDOUT_FILENO, ENTER, sizeof(ENTER) - 1);
}

/* ---- signals -------------------------------------------------------------------------------- */

/* The signal is raised again after the handler, and ends the program. */
static void top_screen_end(int number)
{
    top_screen_leave();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* The terminal belongs to the shell while the program is stopped. */
static void top_screen_stop(int number)
{
    int error = errno;
    bool was_open = is_open;

    (void)number;
    top_screen_leave();
    (void)raise(SIGSTOP);
    if (was_open)
        top_screen_enter();
    errno = error;
}

/* Interrupts poll. */
static void top_screen_resized(int number)
{
    (void)number;
}

static void top_screen_handle_signals(void)
{
    static const int ending[] = {
            SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_handler = top_screen_end};

    for (size_t i = 0; i < sizeof(ending) / sizeof(*ending); i++)
        (void)sigaction(ending[i], &action, NULL);
    action.sa_handler = top_screen_stop;
    (void)sigaction(SIGTSTP, &action, NULL);
    action.sa_handler = top_screen_resized;
    (void)sigaction(SIGWINCH, &action, NULL);
}

/* ---- the screen ----------------------------------------------------------------------------- */

bool top_screen_is_possible(void)
{
    const char *term = getenv("TERM");

    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

int top_screen_open(void)
{
    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return -errno;
    (void)atexit(top_screen_leave);
    top_screen_handle_signals();
    top_screen_enter();
    return 0;
}

void top_screen_close(void)
{
    top_screen_leave();
}

unsigned top_screen_rows(void)
{
    struct winsize size = {0};

    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    return size.ws_row ? size.ws_row : 24;
}

/* The bytes of the first `count` characters: continuation bytes of UTF-8 are 10xxxxxx. */
static size_t top_screen_first_bytes(const char *line, size_t length, unsigned count)
{
    size_t at = 0;

    for (; at < length; at++)
        if (((unsigned char)line[at] & 0xc0u) != 0x80 && count-- == 0)
            break;
    return at;
}

/* Marks a cut line: the number of a line of code must not look shorter than it is. */
static void top_screen_put_line(FILE *out, const char *line, size_t length, unsigned columns)
{
    bool is_cut = top_screen_first_bytes(line, length, columns) < length;

    (void)fwrite(line, 1, top_screen_first_bytes(line, length, columns - is_cut), out);
    (void)fputs(is_cut ? ">\033[K" : "\033[K", out);
}

void top_screen_show(const char *lines)
{
    unsigned rows = top_screen_rows();
    unsigned columns = render_columns(stdout);
    char *frame = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&frame, &size);

    if (!out)
        vec_out_of_memory();
    (void)fputs("\033[H", out);
    for (unsigned row = 0; row < rows && *lines; row++) {
        size_t length = strcspn(lines, "\n");
        if (row)
            (void)fputs("\r\n", out);
        top_screen_put_line(out, lines, length, columns);
        lines += length + (lines[length] == '\n');
    }
    (void)fputs("\033[J", out);
    (void)fclose(out);
    (void)render_write(STDOUT_FILENO, frame, size);
    free(frame);
}

bool top_screen_wait(int fd, int timeout_ms)
{
    struct pollfd what[] = {
            {.fd = is_open ? STDIN_FILENO : -1, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    char key = '\0';

    if (poll(what, 2, timeout_ms) <= 0 || !what[0].revents)
        return true;
    return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q';
}
