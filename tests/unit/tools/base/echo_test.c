/* SPDX-License-Identifier: MIT */
/* covers: echo.c */
#include "tests/check.h"

#include "tools/base/echo.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEFT ((size_t)60 << 10) /* fits into a pipe, and is more than is read at a time */

/* Nobody reads what is passed on before the program has ended. */
static void *read_late(void *self)
{
    char bytes[4096];
    const int *from = self;
    size_t *length = calloc(1, sizeof(*length));
    ssize_t n;

    (void)usleep(200000);
    while ((n = read(*from, bytes, sizeof(bytes))) > 0)
        *length += (size_t)n;
    return length;
}

static void fill(int fd, size_t length)
{
    char byte = 'x';

    for (size_t i = 0; i < length; i++)
        REQUIRE_EQ(write(fd, &byte, 1), 1);
}

TEST(what_a_program_leaves_at_its_end_is_kept_and_passed_on_whole)
{
    struct echo_text text[ECHO_STREAMS];
    int ours[2], kept = dup(STDERR_FILENO);
    pthread_t reader;
    void *length;

    REQUIRE_EQ(pipe2(ours, O_CLOEXEC), 0);
    fill(ours[1], (size_t)64 << 10); /* full */
    REQUIRE_EQ(dup2(ours[1], STDERR_FILENO), STDERR_FILENO);
    struct echo *echo = echo_begin(true);
    REQUIRE(echo != NULL);
    pid_t child = fork();
    if (child == 0) {
        echo_child(echo);
        fill(STDOUT_FILENO, LEFT + 1);
        _exit(0);
    }
    int status;
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    REQUIRE_EQ(status, 0);
    REQUIRE_EQ(pthread_create(&reader, NULL, read_late, &ours[0]), 0);
    echo_end(echo, text);
    (void)dup2(kept, STDERR_FILENO);
    (void)close(kept);
    (void)close(ours[1]);
    REQUIRE_EQ(pthread_join(reader, &length), 0);
    CHECK_EQ(text[ECHO_OUT].length, LEFT + 1);
    CHECK_EQ(text[ECHO_ERR].length, 0);
    CHECK_EQ(*(size_t *)length, ((size_t)64 << 10) + LEFT + 1);
    for (unsigned i = 0; i < ECHO_STREAMS; i++)
        free(text[i].text);
    free(length);
    (void)close(ours[0]);
}
