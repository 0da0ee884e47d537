/* SPDX-License-Identifier: MIT */
#include "preload/hooks/bus.h"

#include "tracker/capture/capture.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Flags of the program's action that the kernel applies when it calls our handler in its place. */
#define BUS_FLAGS (SA_ONSTACK | SA_NODEFER | SA_RESTART)

/* The program's action. Guarded by `taken`, which is held with signals blocked in its thread. */
static struct sigaction program;
static atomic_flag taken = ATOMIC_FLAG_INIT;

static _Atomic bool is_ours;             /* the kernel has our action */
static _Atomic(bus_sigaction) behind_us; /* fixed by bus_start */

static void bus_lock(sigset_t *ret_mask)
{
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, ret_mask);
    while (atomic_flag_test_and_set_explicit(&taken, memory_order_acquire)) {}
}

static void bus_unlock(const sigset_t *mask)
{
    atomic_flag_clear_explicit(&taken, memory_order_release);
    (void)pthread_sigmask(SIG_SETMASK, mask, NULL);
}

static bool bus_is_handler(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO)
            || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* No handler is left: lets the kernel apply its default action. */
static void bus_end(int number, siginfo_t *info, bool comes_again)
{
    struct sigaction none = {.sa_handler = SIG_DFL};
    bus_sigaction real = atomic_load(&behind_us);

    atomic_store(&is_ours, false);
    (void)real(SIGBUS, &none, NULL);
    /*
     * a faulting store raises the signal again when we return; a signal that was sent must be
     * raised
     */
    if (!comes_again)
        (void)syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info);
}

static void bus_pass_on(int number, siginfo_t *info, void *context)
{
    bool is_fault = info->si_code > 0 && info->si_code != BUS_MCEERR_AO;
    struct sigaction action;
    sigset_t mask;

    bus_lock(&mask);
    action = program;
    if (bus_is_handler(&action) && (action.sa_flags & (int)SA_RESETHAND))
        program = (struct sigaction){.sa_handler = SIG_DFL};
    bus_unlock(&mask);
    if (!bus_is_handler(&action)) {
        if (action.sa_handler == SIG_DFL || is_fault) /* an ignored fault ends a program, too */
            bus_end(number, info, is_fault);
    } else if (action.sa_flags & SA_SIGINFO) {
        action.sa_sigaction(number, info, context);
    } else {
        action.sa_handler(number);
    }
}

static void bus_raised(int number, siginfo_t *info, void *context)
{
    int saved = errno;

    if (info->si_code > 0 && capture_fault(info->si_addr)) {
        errno = saved;
        return;
    }
    errno = saved;
    bus_pass_on(number, info, context);
}

/* Installs our handler with the mask and the flags of the program's. */
static int bus_install(bus_sigaction real)
{
    struct sigaction ours = {.sa_sigaction = bus_raised,
            .sa_mask = program.sa_mask,
            .sa_flags = SA_SIGINFO | (program.sa_flags & BUS_FLAGS)};

    if (!bus_is_handler(&program))
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    return real(SIGBUS, &ours, NULL);
}

void bus_start(bus_sigaction real)
{
    sigset_t mask;

    if (!real || atomic_load(&is_ours))
        return;
    atomic_store(&behind_us, real);
    bus_lock(&mask);
    if (real(SIGBUS, NULL, &program) == 0)
        atomic_store(&is_ours, bus_install(real) == 0);
    bus_unlock(&mask);
}

int bus_action(bus_sigaction real, const struct sigaction *act, struct sigaction *ret_old)
{
    struct sigaction new_one, old;
    sigset_t mask;
    int r = 0;

    if (!atomic_load_explicit(&is_ours, memory_order_acquire))
        return real(SIGBUS, act, ret_old);
    if (act)
        new_one = *act;
    bus_lock(&mask);
    old = program;
    if (act) {
        program = new_one;
        r = bus_install(real);
        if (r != 0)
            program = old;
    }
    bus_unlock(&mask);
    if (r == 0 && ret_old)
        *ret_old = old;
    return r;
}
