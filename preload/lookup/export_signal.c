/* SPDX-License-Identifier: MIT */
/*
 * The exports by which a program sets the action for a signal: SIGBUS goes to bus.c, every other
 * signal to the real function. For SIGBUS, signal and its System V form are implemented with
 * sigaction, as in the C library.
 *
 * This file is part of the shared objects alone (CMakeLists.txt): linked into a test program it
 * would be that program's.
 */
#include "preload/base/guard.h"
#include "preload/driver/resolve.h"
#include "preload/hooks/bus.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#pragma GCC visibility push(default)

typedef void (*signal_handler)(int);
typedef signal_handler (*signal_function)(int, signal_handler);

/* NOLINTBEGIN(readability-redundant-declaration): these declarations export the functions */
int sigaction(int sig, const struct sigaction *restrict act, struct sigaction *restrict oact);
signal_handler signal(int sig, signal_handler handler);
signal_handler sysv_signal(int sig, signal_handler handler);
signal_handler __sysv_signal(int sig, signal_handler handler);
/* NOLINTEND(readability-redundant-declaration) */

enum {
    SIGNAL_ACTION,
    SIGNAL_BSD,
    SIGNAL_SYSV,
    SIGNAL_COUNT,
};

static const char *const signal_names[SIGNAL_COUNT] = {"sigaction", "signal", "__sysv_signal"};
static _Atomic(void *) signal_reals[SIGNAL_COUNT];

/*
 * The real function. Looked up here only before the constructor has run: a signal handler must not
 * do a look-up.
 */
static void *signal_real(int which)
{
    void *known = atomic_load_explicit(&signal_reals[which], memory_order_relaxed);

    if (__builtin_expect(known == NULL, 0)) {
        guard_push();
        known = resolve_next(signal_names[which]);
        guard_pop();
        atomic_store_explicit(&signal_reals[which], known, memory_order_relaxed);
    }
    return known;
}

__attribute__((constructor)) static void signal_find_all(void)
{
    for (int which = 0; which < SIGNAL_COUNT; which++)
        (void)signal_real(which);
}

int sigaction(int sig, const struct sigaction *restrict act, struct sigaction *restrict oact)
{
    bus_sigaction real = (bus_sigaction)signal_real(SIGNAL_ACTION);

    if (!real) {
        errno = ENOSYS;
        return -1;
    }
    return sig == SIGBUS ? bus_action(real, act, oact) : real(sig, act, oact);
}

static signal_handler signal_set(int which, int sig, signal_handler handler, int flags)
{
    signal_function real = (signal_function)signal_real(which);
    struct sigaction act = {.sa_handler = handler, .sa_flags = flags}, old;

    if (sig != SIGBUS || handler == SIG_ERR)
        return real ? real(sig, handler) : SIG_ERR;
    if (which == SIGNAL_BSD)
        (void)sigaddset(&act.sa_mask, sig);
    return sigaction(sig, &act, &old) == 0 ? old.sa_handler : SIG_ERR;
}

signal_handler signal(int sig, signal_handler handler)
{
    return signal_set(SIGNAL_BSD, sig, handler, SA_RESTART);
}

signal_handler __sysv_signal(int sig, signal_handler handler)
{
    return signal_set(SIGNAL_SYSV, sig, handler, (int)SA_RESETHAND | SA_NODEFER);
}

signal_handler sysv_signal(int sig, signal_handler handler)
{
    return __sysv_signal(sig, handler);
}
