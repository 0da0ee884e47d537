/* SPDX-License-Identifier: MIT */
#include "tools/run/relay.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/run/spawn.h"

/*
 * Not relayed: faults are kedge's own, and a terminal stops kedge and the program with the same
 * signal.
 */
static const int not_passed[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGTSTP,
        SIGTTIN, SIGTTOU, SIGPIPE};

static void block_signals(sigset_t *ret_blocked, sigset_t *ret_before)
{
    (void)sigfillset(ret_blocked);
    for (size_t i = 0; i < sizeof(not_passed) / sizeof(not_passed[0]); i++)
        (void)sigdelset(ret_blocked, not_passed[i]);
    (void)sigprocmask(SIG_BLOCK, ret_blocked, ret_before);
}

static _Noreturn void become(const char *who, const struct launch *launch, pid_t parent,
        const sigset_t *before, const struct sigaction *child_action)
{
    (void)sigaction(SIGCHLD, child_action, NULL);
    (void)sigprocmask(SIG_SETMASK, before, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent) /* it was killed already */
        _exit(127);
    _exit(spawn_become(who, launch));
}

/*
 * Whether the program has ended. kedge may also reap orphans: as the first process of a container
 * it inherits them.
 */
static bool relay_has_ended(pid_t child, int *ret_status)
{
    pid_t ended;
    int status;

    while ((ended = waitpid(-1, &status, WNOHANG)) > 0 || (ended < 0 && errno == EINTR)) {
        if (ended != child)
            continue;
        *ret_status = status;
        return true;
    }
    return ended < 0;
}

/*
 * Waits until the program has ended. Blocked signals queue up, also those that are ignored: the
 * program ignores them as well.
 */
static int wait_and_pass(pid_t child, const sigset_t *blocked)
{
    siginfo_t info;
    int status = 0;

    for (;;) {
        int number = sigwaitinfo(blocked, &info);

        if (number == SIGCHLD) {
            if (relay_has_ended(child, &status))
                return status;
        } else if (number > 0 && info.si_code != SI_KERNEL && info.si_pid != child) {
            (void)kill(child, number);
        }
    }
}

int relay_run(const char *who, const struct launch *launch, pid_t *ret_pid)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    struct sigaction child_action;
    pid_t parent = getpid();
    sigset_t blocked, before;

    (void)fflush(NULL);
    block_signals(&blocked, &before);
    /* with SIGCHLD ignored there would be no status */
    (void)sigaction(SIGCHLD, &by_default, &child_action);
    *ret_pid = fork();
    if (*ret_pid == 0)
        become(who, launch, parent, &before, &child_action);
    if (*ret_pid < 0) {
        (void)fprintf(stderr, "%s: %s: %s\n", who, launch->argv[0], strerror(errno));
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        return -1;
    }
    return wait_and_pass(*ret_pid, &blocked);
}

int relay_end(int status)
{
    const struct rlimit no_core = {0, 0}; /* the program's own core file is enough */
    sigset_t one;

    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    (void)fflush(NULL);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)signal(WTERMSIG(status), SIG_DFL);
    (void)sigemptyset(&one);
    (void)sigaddset(&one, WTERMSIG(status));
    (void)raise(WTERMSIG(status));
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
    return 128 + WTERMSIG(status);
}
