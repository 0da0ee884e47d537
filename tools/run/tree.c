/* SPDX-License-Identifier: MIT */
#include "tools/run/tree.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/base/vec.h"

#define PAUSE_NS 20000000

static sigset_t watched, before;
static bool is_watching;
static int caught;

void tree_watch(void)
{
    static const int ends[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT};

    if (is_watching)
        return;
    is_watching = true;
    (void)sigemptyset(&watched);
    (void)sigaddset(&watched, SIGCHLD);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct sigaction action;
        if (sigaction(ends[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            (void)sigaddset(&watched, ends[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &watched, &before);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

void tree_child(pid_t parent)
{
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent) /* it has ended already */
        _exit(127);
}

pid_t tree_next(DIR *processes)
{
    const struct dirent *entry;
    pid_t process = 0;

    while (processes && process <= 0 && (entry = readdir(processes)) != NULL)
        process = (pid_t)strtol(entry->d_name, NULL, 10); /* 0: no process */
    return process;
}

/* Behind the name, which may contain any character, comes " S 123": the state and the parent. */
pid_t tree_parent(pid_t process)
{
    char path[64];
    char text[1024];
    const char *at;

    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)process);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[length] = '\0';
    at = strrchr(text, ')');
    return at && strlen(at) > 4 ? (pid_t)strtol(at + 4, NULL, 10) : 0;
}

/* Whether a process is a descendant. Chains of parents are short, and end at 0. */
static bool tree_is_below(pid_t process)
{
    pid_t own = getpid();

    for (int depth = 0; process > 1 && depth < 1000; depth++) {
        process = tree_parent(process);
        if (process == own)
            return true;
    }
    return false;
}

static void signal_all(int number)
{
    DIR *processes = opendir("/proc");
    pid_t process;

    while ((process = tree_next(processes)) != 0)
        if (process > 1 && tree_is_below(process))
            (void)kill(process, number);
    if (processes)
        (void)closedir(processes);
}

/* The next queued signal; waits for one for the time `pause`. */
static int next_signal(const struct timespec *pause, siginfo_t *ret_info)
{
    int number = sigtimedwait(&watched, ret_info, pause);

    if (number > 0 && number != SIGCHLD && caught == 0)
        caught = number;
    return number > 0 ? number : 0;
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Waits for ended children; false = there is no child any more. */
static bool reap(pid_t child, int *io_status)
{
    pid_t ended;
    int status;

    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
        if (ended == child)
            *io_status = status;
    return ended == 0 || errno != ECHILD;
}

/* Ends all descendants: sends `number` now, later SIGKILL to those that are left. */
static void end_all(int number, pid_t child, int *io_status)
{
    const struct timespec pause = {0, PAUSE_NS};
    double until = seconds() + TREE_GRACE_S;
    siginfo_t info;

    signal_all(number);
    while (reap(child, io_status)) {
        if (seconds() > until)
            signal_all(SIGKILL); /* repeatedly: a killed process may have started others */
        (void)next_signal(&pause, &info);
    }
}

int tree_wait(pid_t child)
{
    const struct timespec pause = {1, 0};
    int status = -1; /* no status is negative */

    while (status < 0 && reap(child, &status) && status < 0) {
        siginfo_t info;
        int number = next_signal(&pause, &info);

        if (number != 0 && number != SIGCHLD && info.si_code != SI_KERNEL)
            end_all(number, child, &status);
    }
    end_all(SIGTERM, child, &status);
    return status < 0 ? 0 : status;
}

int tree_signal(void)
{
    const struct timespec none = {0, 0};
    siginfo_t info;

    while (is_watching && next_signal(&none, &info) != 0)
        ;
    return caught;
}
