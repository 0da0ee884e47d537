/* SPDX-License-Identifier: MIT */
#include "tracker/base/peek.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    PEEK_PAGE = 4096, /* the smallest that there is */
    PEEK_WORD = 8,    /* of a set of signals, as the kernel has it */
    NO_OPERATION = -1,
};

/* Whether the word that `at` is in can be read. Where the kernel does not answer this, it can. */
static bool peek_is_there(uintptr_t at)
{
    at -= at % PEEK_WORD;
    if (at == 0)
        return false; /* no set, for the kernel */
    return syscall(SYS_rt_sigprocmask, NO_OPERATION, at, NULL, PEEK_WORD) == 0 || errno != EFAULT;
}

/* Of any memory of the process, between the variables of others, too: no memcpy, which a sanitizer watches. */
__attribute__((no_sanitize("address", "thread"))) static void peek_bytes(
        unsigned char *to, const unsigned char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = ((const volatile unsigned char *)from)[i];
}

bool peek_copy(void *to, const void *from, size_t bytes)
{
    uintptr_t first = (uintptr_t)from;
    int saved = errno;
    bool is_there = true;

    for (size_t at = 0; at < bytes && is_there; at += PEEK_PAGE - (first + at) % PEEK_PAGE)
        is_there = peek_is_there(first + at);
    errno = saved;
    if (is_there)
        peek_bytes(to, from, bytes);
    return is_there;
}
