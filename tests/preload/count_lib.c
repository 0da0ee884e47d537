/* SPDX-License-Identifier: MIT */
/*
 * A preload that counts how often anything in the process asks for memory of the host, and writes the figures into the file
 * TEST_COUNTS when the process ends, with the first key for memory of threads that nobody has taken. What it calls are the C
 * library's own other names, so nothing is looked up.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static atomic_ulong mallocs, maps;

void *malloc(size_t size)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_realloc(old, size);
}

static void *map(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    atomic_fetch_add(&maps, 1);
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    return map(address, length, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    return map(address, length, protection, flags, fd, offset);
}

__attribute__((destructor)) static void write_counts(void)
{
    const char *path = getenv("TEST_COUNTS");
    pthread_key_t key = 0;
    char text[96];
    int n, fd;

    if (!path)
        return;
    if (pthread_key_create(&key, NULL) != 0)
        _exit(98);
    n = snprintf(text, sizeof text, "mallocs %lu\nmaps %lu\nkeys %u\n", atomic_load(&mallocs),
            atomic_load(&maps), (unsigned)key);
    fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
        _exit(99);
    (void)close(fd);
}
