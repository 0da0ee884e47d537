/* SPDX-License-Identifier: MIT */
#include "tools/run/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tools/base/cmdexit.h"
#include "tools/base/render.h"
#include "tools/load/captures.h"
#include "tools/run/top_process.h"
#include "tracker/format/format.h"

#define ASK_SLICE_MS 200 /* between two looks at whether the process runs */

static uint32_t ask_load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static int64_t ask_clock_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Whether request `mine` was answered within the time. */
static bool ask_wait(
        struct format_ask *ask, uint32_t mine, int ms, const struct top_process *running)
{
    const struct timespec slice = {0, ASK_SLICE_MS * 1000000L};
    int64_t end = ask_clock_ms() + ms;

    for (;;) {
        uint32_t answered = ask_load(&ask->answered);

        if ((int32_t)(answered - mine) >= 0)
            return true;
        if (ask_clock_ms() >= end || top_process_has_ended(running))
            return false;
        (void)syscall(SYS_futex, &ask->answered, FUTEX_WAIT, answered, &slice, NULL, 0);
    }
}

static int ask_say(const char *path, const char *why)
{
    render_print(stderr, "kedge held: %s: %s\n", path, why);
    return CMD_NO;
}

/* Why there is no answer. */
static int ask_say_late(const char *path, uint32_t state, const struct top_process *running, int ms)
{
    char text[160];

    if (top_process_has_ended(running))
        return ask_say(path, "the process has ended");
    (void)snprintf(text, sizeof text,
            state == FORMAT_ASK_WAITS
                    ? "the interpreter's lock was not given within %g s: a thread keeps it in C "
                      "code (--wait SECONDS)"
                    : "the walk has not ended within %g s; it will be in the capture (--wait "
                      "SECONDS)",
            ms / 1000.0);
    return ask_say(path, text);
}

static int ask_say_result(const char *path, uint32_t result)
{
    switch (result) {
    case FORMAT_ASK_WALKED:
        return CMD_DONE;
    case FORMAT_ASK_NO_PYTHON:
        return ask_say(path,
                "no PyTorch or CuPy in an interpreter that kedge knows (CPython 3.10 to "
                "3.15 with a GIL): nothing to walk; KEDGE_HELD=ask,scan looks through other "
                "programs");
    case FORMAT_ASK_ENDED:
        return ask_say(path, "the interpreter has ended");
    case FORMAT_ASK_WITHDRAWN:
        return ask_say(path, "another kedge held has withdrawn the request: ask again");
    default:
        return ask_say(path,
                "the walk failed, which kedge report has a note of, or the capture has no "
                "room for it");
    }
}

/* Maps the page of a capture that has the words; NULL after one line. */
static struct format_ask *ask_map(const char *path)
{
    void *page = MAP_FAILED;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd >= 0)
        page = mmap(NULL, FORMAT_DIRECTORY_OFFSET, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        (void)ask_say(path, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return page == MAP_FAILED ? NULL : (void *)((char *)page + FORMAT_ASK_OFFSET);
}

static int ask_run(const char *path, struct format_ask *ask, const struct top_process *running,
        int ms, uint32_t *ret_walk)
{
    uint32_t mine, state;

    if (ask_load(&ask->state) == FORMAT_ASK_NONE)
        return ask_say(path,
                "nobody listens: KEDGE_HELD has no `ask` there, or its kedge is an earlier one");
    mine = __atomic_add_fetch(&ask->asked, 1, __ATOMIC_SEQ_CST);
    (void)syscall(SYS_futex, &ask->asked, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    if (ask_wait(ask, mine, ms, running)) {
        *ret_walk = ask_load(&ask->walk);
        return ask_say_result(path, ask_load(&ask->result));
    }
    state = ask_load(&ask->state);
    __atomic_store_n(&ask->withdrawn, mine, __ATOMIC_SEQ_CST);
    return ask_say_late(path, state, running, ms);
}

int ask_for_walk(const char *path, int ms, uint32_t *ret_walk)
{
    struct format_header header;
    struct top_process running; /* looked for before this process maps the capture, too */
    struct format_ask *ask;
    int r = CMD_BAD;

    if (!captures_read_header(path, &header)) {
        (void)ask_say(path, "no capture");
        return r;
    }
    running = top_process_of(path, header.host, (pid_t)header.pid);
    ask = top_process_has_ended(&running) ? NULL : ask_map(path);
    if (ask) {
        r = ask_run(path, ask, &running, ms, ret_walk);
        (void)munmap((char *)ask - FORMAT_ASK_OFFSET, FORMAT_DIRECTORY_OFFSET);
    } else if (top_process_has_ended(&running)) {
        r = ask_say(path, "the process has ended");
    }
    top_process_done(&running);
    return r;
}
