/* SPDX-License-Identifier: MIT */
/*
 * child.h - a child of a test that begins anew: CUDA that is used before a fork is gone behind it, so a test that is about a
 * process's beginning or end runs its body in a child that has not used CUDA yet.
 */
#ifndef KEDGE_TESTS_PRELOAD_CHILD_H
#define KEDGE_TESTS_PRELOAD_CHILD_H

#include "tests/check.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The exit status of a child that runs `body` (1: a check in it failed), or 1000 + the signal that ended it. */
static inline int run_child(void (*body)(void))
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        body();
        exit(check_state.failures > 0 ? 1 : 0);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#endif
