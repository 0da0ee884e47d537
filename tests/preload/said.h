/* SPDX-License-Identifier: MIT */
/*
 * said.h - what is said on standard error.
 *
 * kedge writes there only while descriptor 2 is the file that it was when the program started. So the program starts once more
 * with a file as its standard error, which its children have, too.
 *
 *     said_begin()               at the beginning of a test: what was done before it is done twice
 *     said_with(word, &all)      how many lines with `word` there are, and how many in all
 */
#ifndef KEDGE_TESTS_PRELOAD_SAID_H
#define KEDGE_TESTS_PRELOAD_SAID_H

#include "tests/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char said_path[64];
static pid_t said_by; /* not a child of it */

static inline void said_start_again(void)
{
    static char text[4096];
    char *argv[32] = {NULL};
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    size_t count = 0;
    int fd = open(said_path, O_CREAT | O_TRUNC | O_RDWR | O_APPEND | O_CLOEXEC, 0600);

    REQUIRE(length > 0 && fd >= 0);
    for (char *at = text; at < text + length && count < 31; at += strlen(at) + 1)
        argv[count++] = at;
    REQUIRE(setenv("TEST_SAID", said_path, 1) == 0 && dup2(fd, STDERR_FILENO) >= 0);
    (void)fflush(stdout);
    (void)execv("/proc/self/exe", argv);
    REQUIRE(false);
}

static inline void said_end(void)
{
    if (said_by == getpid())
        (void)unlink(said_path);
}

/* Lines of before are forgotten. */
static inline void said_begin(void)
{
    const char *name = getenv("TEST_SAID");

    (void)snprintf(said_path, sizeof said_path, "%s", name ? name : "/tmp/kedge-said-XXXXXX");
    if (!name) {
        REQUIRE(close(mkstemp(said_path)) == 0);
        said_start_again();
    }
    REQUIRE(truncate(said_path, 0) == 0);
    said_by = getpid();
    REQUIRE(atexit(said_end) == 0);
}

static inline unsigned said_with(const char *word, unsigned *ret_all)
{
    FILE *file = fopen(said_path, "re");
    char line[1024];
    unsigned with = 0;

    REQUIRE(file);
    *ret_all = 0;
    while (fgets(line, sizeof line, file)) {
        (*ret_all)++;
        with += strstr(line, word) != NULL;
        printf("stderr: %s", line);
    }
    (void)fclose(file);
    return with;
}

#endif
