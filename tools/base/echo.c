/* SPDX-License-Identifier: MIT */
#include "tools/base/echo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/base/vec.h"

struct echo_pipe {
    int from, to; /* the ends of the pipe, -1 = closed */
    int out;      /* the destination, -1 = it has no reader any more */
    struct echo_text kept;
    size_t room;
};

struct echo {
    struct echo_pipe pipe[ECHO_STREAMS];
    int stop[2]; /* the pipe whose end stops the thread */
    pthread_t thread;
};

static void echo_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void echo_keep(struct echo_pipe *pipe, const char *bytes, size_t count)
{
    struct echo_text *kept = &pipe->kept;

    if (count > ECHO_KEPT - kept->length)
        count = ECHO_KEPT - kept->length;
    if (kept->length + count > pipe->room) {
        size_t room = 2 * (kept->length + count);
        char *more = realloc(kept->text, room);

        if (!more)
            return;
        kept->text = more;
        pipe->room = room;
    }
    memcpy(kept->text + kept->length, bytes, count);
    kept->length += count;
}

static void echo_pass(struct echo_pipe *pipe, const char *bytes, size_t count)
{
    while (count > 0 && pipe->out >= 0) {
        ssize_t n = write(pipe->out, bytes, count);

        if (n > 0) {
            bytes += n;
            count -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            (void)poll(&(struct pollfd){.fd = pipe->out, .events = POLLOUT}, 1, 1000);
        } else if (n == 0 || errno != EINTR) {
            pipe->out = -1;
        }
    }
}

/* False: no data now, or the end of the pipe. */
static bool echo_read(struct echo_pipe *pipe)
{
    char bytes[16384];
    ssize_t n = pipe->from >= 0 ? read(pipe->from, bytes, sizeof(bytes)) : 0;

    if (n > 0) {
        echo_keep(pipe, bytes, (size_t)n);
        echo_pass(pipe, bytes, (size_t)n);
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        echo_close(&pipe->from);
    return false;
}

static void *echo_thread(void *self)
{
    struct echo *echo = self;
    bool stops = false;
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL); /* SIGPIPE too: see echo_pass */
    while (!stops) {
        struct pollfd fds[ECHO_STREAMS + 1] = {
                {.fd = echo->pipe[ECHO_OUT].from, .events = POLLIN},
                {.fd = echo->pipe[ECHO_ERR].from, .events = POLLIN},
                {.fd = echo->stop[0], .events = POLLIN},
        };
        (void)poll(fds, ECHO_STREAMS + 1, -1);
        stops = fds[ECHO_STREAMS].revents != 0;
        for (int i = 0; i < ECHO_STREAMS; i++)
            if (fds[i].revents || stops)
                while (echo_read(&echo->pipe[i]) && stops)
                    ;
    }
    return NULL;
}

static void echo_drop(struct echo *echo)
{
    for (int i = 0; i < ECHO_STREAMS; i++) {
        echo_close(&echo->pipe[i].from);
        echo_close(&echo->pipe[i].to);
    }
    echo_close(&echo->stop[0]);
    echo_close(&echo->stop[1]);
    free(echo);
}

static bool echo_open(int *ret_from, int *ret_to)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    *ret_from = ends[0];
    *ret_to = ends[1];
    return true;
}

struct echo *echo_begin(bool to_stderr)
{
    struct echo *echo = vec_new(1, sizeof(*echo));
    bool is_good = true;

    echo->stop[0] = echo->stop[1] = -1;
    for (int i = 0; i < ECHO_STREAMS; i++) {
        struct echo_pipe *pipe = &echo->pipe[i];

        *pipe = (struct echo_pipe){.from = -1, .to = -1};
        pipe->out = i == ECHO_ERR || to_stderr ? STDERR_FILENO : STDOUT_FILENO;
        is_good = is_good && echo_open(&pipe->from, &pipe->to)
                && fcntl(pipe->from, F_SETFL, O_NONBLOCK) == 0;
    }
    is_good = is_good && echo_open(&echo->stop[0], &echo->stop[1]);
    if (is_good) {
        errno = pthread_create(&echo->thread, NULL, echo_thread, echo);
        is_good = errno == 0;
    }
    if (is_good)
        return echo;
    int error = errno;
    echo_drop(echo);
    errno = error;
    return NULL;
}

void echo_child(struct echo *echo)
{
    (void)dup2(echo->pipe[ECHO_OUT].to, STDOUT_FILENO);
    (void)dup2(echo->pipe[ECHO_ERR].to, STDERR_FILENO);
}

void echo_parent(struct echo *echo)
{
    echo_close(&echo->pipe[ECHO_OUT].to);
    echo_close(&echo->pipe[ECHO_ERR].to);
}

void echo_end(struct echo *echo, struct echo_text ret_text[static ECHO_STREAMS])
{
    echo_parent(echo);
    echo_close(&echo->stop[1]);
    (void)pthread_join(echo->thread, NULL);
    for (int i = 0; i < ECHO_STREAMS; i++)
        ret_text[i] = echo->pipe[i].kept;
    echo_drop(echo);
}
