/* SPDX-License-Identifier: MIT */
#include "tools/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "tools/vec.h"

#define ENTER \
    "\033[?1049h\033[?25l\033[?7l\033[H\033[2J" /* alternate screen, no cursor, no wrap, clear */
#define LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static struct termios before;
static volatile sig_atomic_t is_open;
static int signals = -1; /* signalfd */

static void show_all(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(STDOUT_FILENO, text, length);
        if (n <= 0)
            return;
        text += n;
        length -= (size_t)n;
    }
}

/* May be called in a signal handler. */
static void leave(void)
{
    if (!is_open)
        return;
    is_open = 0;
    show_all(LEAVE, sizeof(LEAVE) - 1);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static void enter(void)
{
    struct termios raw = before;

    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    is_open = 1;
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    show_all(ENTER, sizeof(ENTER) - 1);
}

static void crash(int number)
{
    leave();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static sigset_t watched(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(ending) / sizeof(*ending); i++)
        (void)sigaddset(&set, ending[i]);
    (void)sigaddset(&set, SIGWINCH);
    (void)sigaddset(&set, SIGTSTP);
    return set;
}

bool screen_is_possible(void)
{
    const char *term = getenv("TERM");

    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

int screen_open(void)
{
    sigset_t set = watched();

    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return -errno;
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return -errno;
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++)
        (void)signal(crashes[i], crash);
    (void)atexit(leave);
    enter();
    return 0;
}

void screen_close(void)
{
    sigset_t set = watched();

    if (signals < 0)
        return;
    leave();
    (void)close(signals);
    signals = -1;
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void screen_size(unsigned *ret_rows, unsigned *ret_columns)
{
    struct winsize size = {0};

    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *ret_rows = size.ws_row ? size.ws_row : 24;
    *ret_columns = size.ws_col ? size.ws_col : 80;
}

/* ---- drawing -------------------------------------------------------------------------------- */

/* How long the sequence at `text` is, 0: there is none. */
static size_t sequence_length(const char *text)
{
    size_t length = 2;

    if (text[0] != '\033' || text[1] != '[')
        return 0;
    length += strspn(text + length, "0123456789;");
    return text[length] ? length + 1 : length;
}

/* The first `columns` of a line, without `out` none; how many it has. A character of UTF-8 is its first byte and those that go on with it. */
static unsigned put_columns(FILE *out, const char *line, size_t length, unsigned columns)
{
    unsigned used = 0;

    for (size_t i = 0; i < length;) {
        size_t sequence = sequence_length(line + i);
        size_t bytes = sequence ? sequence : 1;

        while (!sequence && i + bytes < length && ((unsigned char)line[i + bytes] & 0xc0u) == 0x80)
            bytes++;
        if (out && (sequence || used < columns))
            (void)fwrite(line + i, 1, bytes, out);
        used += !sequence;
        i += bytes;
    }
    return used;
}

/* One line as far as there are columns. One that is cut says so: the number of a line of code must not look shorter than it is. */
static void put_line(FILE *out, const char *line, size_t length, unsigned columns)
{
    bool is_cut = columns > 0 && put_columns(NULL, line, length, columns) > columns;

    (void)put_columns(out, line, length, is_cut ? columns - 1 : columns);
    if (is_cut)
        (void)fputc('>', out);
}

void screen_show(const char *lines)
{
    unsigned rows, columns;
    char *frame = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&frame, &size);

    if (!out)
        vec_out_of_memory();
    screen_size(&rows, &columns);
    (void)fputs("\033[H", out);
    for (unsigned row = 0; row < rows && *lines; row++) {
        size_t length = strcspn(lines, "\n");
        if (row)
            (void)fputs("\r\n", out);
        put_line(out, lines, length, columns);
        (void)fputs("\033[K", out);
        lines += length + (lines[length] == '\n');
    }
    (void)fputs("\033[J", out);
    (void)fclose(out);
    show_all(frame, size);
    free(frame);
}

/* ---- events --------------------------------------------------------------------------------- */

static void end_by(int number)
{
    screen_close(); /* from here on it is not blocked any more */
    (void)signal(number, SIG_DFL);
    (void)raise(number);
    exit(128 + number); /* it was ignored */
}

/* The terminal is the shell's while we are stopped. */
static void stop(void)
{
    leave();
    (void)raise(SIGSTOP);
    enter();
}

static void take_signal(void)
{
    struct signalfd_siginfo info;

    if (read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info) || info.ssi_signo == SIGWINCH)
        return;
    if (info.ssi_signo == SIGTSTP)
        stop();
    else
        end_by((int)info.ssi_signo);
}

enum screen_event screen_wait(int fd, int timeout_ms, char *ret_key)
{
    struct pollfd what[] = {{.fd = signals, .events = POLLIN},
            {.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    int n = poll(what, 3, timeout_ms);

    if (n < 0)
        return errno == EINTR ? SCREEN_RESIZED : SCREEN_CLOSED;
    if (what[0].revents) {
        take_signal();
        return SCREEN_RESIZED;
    }
    if (what[1].revents)
        return read(STDIN_FILENO, ret_key, 1) == 1 ? SCREEN_KEY : SCREEN_CLOSED;
    return what[2].revents ? SCREEN_FD : SCREEN_TIMEOUT;
}
