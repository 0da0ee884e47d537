/* SPDX-License-Identifier: MIT */
#include "tests/sim/nccl/nccl_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    POLL_US = 200,
    POLLS_MOST = 120 * 1000000 / POLL_US,
};

size_t nccl_shared_bytes(int ranks)
{
    return sizeof(struct nccl_shared) + (size_t)(ranks * ranks) * sizeof(struct nccl_channel);
}

static struct nccl_shared *map(const char *name, size_t bytes)
{
    int fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *p = MAP_FAILED;

    if (fd < 0)
        return NULL;
    if (ftruncate(fd, (off_t)bytes) == 0)
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return p == MAP_FAILED ? NULL : p;
}

struct nccl_shared *nccl_shared_join(const char *name, int ranks)
{
    const struct timespec pause = {0, POLL_US * 1000};
    struct nccl_shared *shared = map(name, nccl_shared_bytes(ranks));

    if (!shared)
        return NULL;
    if (__atomic_add_fetch(&shared->joined, 1, __ATOMIC_ACQ_REL) == (uint32_t)ranks) {
        (void)shm_unlink(name); /* all have it open */
        __atomic_store_n(&shared->complete, 1, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < POLLS_MOST; i++) {
        if (__atomic_load_n(&shared->complete, __ATOMIC_ACQUIRE))
            return shared;
        (void)nanosleep(&pause, NULL);
    }
    (void)shm_unlink(name);
    nccl_shared_leave(shared, ranks);
    errno = ETIMEDOUT;
    return NULL;
}

void nccl_shared_leave(struct nccl_shared *shared, int ranks)
{
    (void)munmap(shared, nccl_shared_bytes(ranks));
}

static void set(uint64_t *number)
{
    __atomic_store_n(number, (uint64_t)INT64_MAX, __ATOMIC_RELEASE);
}

void nccl_shared_release(struct nccl_shared *shared, int ranks, int rank)
{
    for (int peer = 0; peer < ranks; peer++) {
        set(&shared->channels[rank * ranks + peer].posted);
        set(&shared->channels[rank * ranks + peer].taken);
        set(&shared->channels[peer * ranks + rank].full);
    }
}
