/* SPDX-License-Identifier: MIT */
#include "tracker/base/peek.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    PEEK_PAGE = 4096, /* the smallest page size */
    PEEK_WORD = 8,    /* bytes of the kernel's signal set */
    NO_OPERATION = -1,
};

/* Is the word around `at` readable? If the kernel cannot tell, true. */
static bool peek_is_there(uintptr_t at)
{
    at -= at % PEEK_WORD;
    if (at == 0)
        return false; /* the kernel treats it as no set */
    return syscall(SYS_rt_sigprocmask, NO_OPERATION, at, NULL, PEEK_WORD) == 0 || errno != EFAULT;
}

/* Copies any memory of the process, also between variables of others: no memcpy, which a sanitizer
 * checks. */
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
