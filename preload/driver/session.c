/* SPDX-License-Identifier: MIT */
#include "preload/driver/session.h"

#include "preload/base/gate.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "tracker/base/errtext.h"
#include "tracker/capture/capture.h"
#include "tracker/where/where.h"

#include "alloc/pool.h"

#include <stdio.h>
#include <string.h>

enum {
    SWEPT = 8u << 10, /* bytes of stack to clear */
};

struct pool *session_pool;
unsigned session_sync_free;
bool session_meminfo_raw;
bool session_sync_mapped;
bool session_records;
atomic_bool session_goes_on;
atomic_uint session_closed = SESSION_ASLEEP;

static _Atomic(uint64_t) track_seq; /* numbers the events if there is no pool */

bool session_may_fence(void)
{
    return gate_captures() == 0 && !guard_in_callback();
}

uint64_t session_seq(void)
{
    return session_pool ? pool_seq_next(session_pool) : atomic_fetch_add(&track_seq, 1) + 1;
}

void session_report(int r)
{
    const char *path = capture_path();
    const char *refused = capture_refused();

    if (r < 0 && *refused)
        msg_warn("no capture: %s: %s", refused, errtext(-r));
    else if (r < 0)
        msg_warn("capture %s: %s, going on with less", *path ? path : "cut off or gone",
                errtext(-r));
}

void session_tell_python(void)
{
    bool refused = false;
    const char *text = where_python_news(&refused);
    char line[MSG_LINE];

    if (!text)
        return;
    (void)snprintf(
            line, sizeof line, "%s%s", refused ? "no Python stacks: " : "Python stacks of ", text);
    msg_info("%s", line);
    session_report(capture_note(0, line));
}

void session_go_on_later(void)
{
    atomic_store(&session_goes_on, true);
}

void session_end_quick(void)
{
    atomic_fetch_or(&session_closed, SESSION_ENDED);
}

void session_sweep_stack(void)
{
    char below[SWEPT];

    memset(below, 0, sizeof below);
    __asm__ volatile("" : : "r"(below) : "memory");
}
