/* SPDX-License-Identifier: MIT */
/*
 * program.h - what the programs that meet no device have in common: lines of codes, and the ways to make the calls.
 *
 *     plain    once
 *     threads  in four threads at once, the output in order
 *     fork     the parent, then a child, then the parent; fork_first: a child before the parent has made a call
 *     killed   once, then SIGTERM by its own hand
 *
 * A program that gets to its end exits with PROGRAM_STATUS, one that cannot be run here with 2.
 */
#ifndef KEDGE_TESTS_DRIVER_PROGRAM_H
#define KEDGE_TESTS_DRIVER_PROGRAM_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PROGRAM_THREADS = 4,
    PROGRAM_OUTPUT = 16384,
    PROGRAM_STATUS = 3,
};

struct text {
    char text[PROGRAM_OUTPUT];
    size_t length;
    void (*calls)(struct text *);
};

/* A line: what was called, and its code. */
static void program_say(struct text *out, const char *what, int code)
{
    out->length += (size_t)snprintf(
            out->text + out->length, sizeof out->text - out->length, "%s %d\n", what, code);
}

static void program_flush(struct text *out)
{
    (void)!write(STDOUT_FILENO, out->text, out->length);
    out->length = 0;
}

static pthread_barrier_t program_barrier;
static bool program_has_threads;

/* Where threads wait for each other: what they call while one of them is in cuInit has no fixed answer. */
static inline void program_meet(void)
{
    if (program_has_threads)
        pthread_barrier_wait(&program_barrier);
}

static void program_once(void (*calls)(struct text *))
{
    static struct text out;

    calls(&out);
    program_flush(&out);
}

static void *program_thread(void *data)
{
    struct text *out = data;

    out->calls(out);
    return NULL;
}

static void program_threads(void (*calls)(struct text *))
{
    static struct text out[PROGRAM_THREADS];
    pthread_t threads[PROGRAM_THREADS];

    pthread_barrier_init(&program_barrier, NULL, PROGRAM_THREADS);
    program_has_threads = true;
    for (int i = 0; i < PROGRAM_THREADS; i++) {
        out[i].calls = calls;
        if (pthread_create(&threads[i], NULL, program_thread, &out[i]) != 0)
            exit(2);
    }
    for (int i = 0; i < PROGRAM_THREADS; i++) {
        pthread_join(threads[i], NULL);
        program_flush(&out[i]);
    }
}

static void program_fork(const char *order, void (*calls)(struct text *))
{
    struct text ended = {.length = 0};
    int status = 0;
    pid_t child;

    if (strcmp(order, "fork") == 0)
        program_once(calls);
    child = fork();
    if (child == 0) {
        program_once(calls);
        exit(PROGRAM_STATUS + 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        exit(2);
    program_say(&ended, "the child ended with", status);
    program_flush(&ended);
    program_once(calls);
}

/* Makes the calls in the way `how`; returns the exit status. */
static int program_run(const char *how, void (*calls)(struct text *))
{
    if (strcmp(how, "threads") == 0)
        program_threads(calls);
    else if (strncmp(how, "fork", 4) == 0)
        program_fork(how, calls);
    else
        program_once(calls);
    if (strcmp(how, "killed") == 0)
        raise(SIGTERM);
    return PROGRAM_STATUS;
}

#endif
