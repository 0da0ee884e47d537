/* SPDX-License-Identifier: MIT */
#include "tracker/capfile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int capfile_begin(void)
{
    int state = PTHREAD_CANCEL_ENABLE;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

void capfile_end(int cancel_state)
{
    (void)pthread_setcancelstate(cancel_state, NULL);
}

/* Zeroes where the file system has no fallocate: written blocks exist, too. */
static int write_zeroes(int fd, uint64_t offset, uint64_t bytes)
{
    static const char zeroes[64 << 10];

    while (bytes > 0) {
        size_t part = bytes < sizeof zeroes ? (size_t)bytes : sizeof zeroes;
        ssize_t done = pwrite(fd, zeroes, part, (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -ENOSPC;
        offset += (uint64_t)done;
        bytes -= (uint64_t)done;
    }
    return 0;
}

static int allocate(int fd, uint64_t offset, uint64_t bytes)
{
    struct rlimit limit;

    /* Beyond the limit the kernel would send SIGXFSZ, which ends a program that knows nothing of our file. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
            && offset + bytes > limit.rlim_cur)
        return -EFBIG;
    /* Not posix_fallocate: where the file system cannot, glibc touches one byte per block and races with a reader. */
    while (fallocate(fd, 0, (off_t)offset, (off_t)bytes) != 0) {
        if (errno == EOPNOTSUPP || errno == ENOSYS)
            return write_zeroes(fd, offset, bytes);
        if (errno != EINTR)
            return -errno;
    }
    return 0;
}

static int map_range(int fd, uint64_t offset, uint64_t bytes, void **ret_base)
{
    void *base;
    int r = allocate(fd, offset, bytes);

    if (r < 0)
        return r;
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (base == MAP_FAILED)
        return -errno;
    *ret_base = base;
    return 0;
}

static int absolute_path(char *to, size_t size, const char *path)
{
    char here[2048];
    int length;

    if (path[0] == '/')
        length = snprintf(to, size, "%s", path);
    else if (!getcwd(here, sizeof here))
        return -errno;
    else
        length = snprintf(to, size, "%s/%s", here, path);
    return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

static int identify(struct capfile *file, int fd)
{
    struct stat status;

    /* The umask may only take away, but it must not take the owner's own bits. */
    if (fchmod(fd, 0600) != 0 || fstat(fd, &status) != 0)
        return -errno;
    file->device = (uint64_t)status.st_dev;
    file->inode = (uint64_t)status.st_ino;
    return 0;
}

/* Header and directory, filled. The file keeps what is mapped when this fails half-way: it is closed, or unlinked. */
static int make_header(struct capfile *file, int fd, void (*fill)(struct format_header *header))
{
    void *base = NULL;
    int r = identify(file, fd);

    if (r == 0)
        r = map_range(fd, 0, FORMAT_HEADER_BYTES, &base);
    if (r < 0 || !base)
        return r < 0 ? r : -EFAULT;
    file->header = base;
    file->directory = (struct format_extent *)(void *)((char *)base + FORMAT_DIRECTORY_OFFSET);
    file->header->version = FORMAT_VERSION;
    file->header->header_bytes = FORMAT_HEADER_BYTES;
    file->header->directory_offset = FORMAT_DIRECTORY_OFFSET;
    file->header->file_bytes = FORMAT_HEADER_BYTES;
    file->header->state = FORMAT_STATE_OPEN;
    if (fill)
        fill(file->header);
    memcpy(file->header->magic, FORMAT_MAGIC, sizeof file->header->magic);
    return 0;
}

static void forget_header(struct capfile *file)
{
    if (file->header)
        (void)munmap(file->header, FORMAT_HEADER_BYTES);
    file->header = NULL;
    file->directory = NULL;
}

/*
 * A file without a name that gets one when its header is whole, so that whoever is killed in between leaves none or one
 * that can be read. -EOPNOTSUPP where the file system, or the lack of /proc, does not let us.
 */
static int create_whole(struct capfile *file, void (*fill)(struct format_header *header))
{
    char directory[sizeof file->path];
    char self[32];
    int fd, r;

    (void)snprintf(directory, sizeof directory, "%s", file->path);
    *(strrchr(directory, '/') + 1) = '\0';
    fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return -EOPNOTSUPP;
    r = make_header(file, fd, fill);
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (r == 0 && linkat(AT_FDCWD, self, AT_FDCWD, file->path, AT_SYMLINK_FOLLOW) != 0)
        r = errno == EEXIST ? -EEXIST : -EOPNOTSUPP;
    (void)close(fd);
    if (r < 0)
        forget_header(file);
    return r;
}

int capfile_create(
        struct capfile *file, const char *path, void (*fill)(struct format_header *header))
{
    int fd;
    int r = absolute_path(file->path, sizeof file->path, path);

    file->header = NULL;
    if (r < 0)
        return r;
    r = create_whole(file, fill);
    if (r != -EOPNOTSUPP)
        return r;
    fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = make_header(file, fd, fill);
    (void)close(fd);
    if (r < 0) {
        forget_header(file);
        (void)unlink(file->path); /* ours: O_EXCL made it a moment ago */
    }
    return r;
}

static int open_again(const struct capfile *file)
{
    struct stat status;
    int fd = open(file->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) != 0 || (uint64_t)status.st_dev != file->device
            || (uint64_t)status.st_ino != file->inode) {
        (void)close(fd);
        return -ESTALE;
    }
    return fd;
}

int capfile_grow(
        struct capfile *file, enum format_extent_kind kind, uint64_t bytes, void **ret_base)
{
    struct format_header *header = file->header;
    struct format_extent *entry;
    uint32_t number;
    uint64_t offset;
    int fd, r;

    lock_assert_none("capfile_grow");
    bytes = (bytes + FORMAT_PAGE - 1) / FORMAT_PAGE * FORMAT_PAGE;
    fd = open_again(file);
    if (fd < 0)
        return fd;
    number = __atomic_fetch_add(&header->extent_count, 1, __ATOMIC_RELAXED);
    if (number >= FORMAT_EXTENTS_MAX) {
        (void)close(fd);
        return -EFBIG;
    }
    offset = __atomic_fetch_add(&header->file_bytes, bytes, __ATOMIC_RELAXED);
    r = map_range(fd, offset, bytes, ret_base);
    (void)close(fd);
    if (r < 0)
        return r;
    entry = &file->directory[number];
    entry->offset = offset;
    entry->length = bytes;
    /* release: a reader that sees the kind sees where it lies */
    __atomic_store_n(&entry->kind, (uint32_t)kind, __ATOMIC_RELEASE);
    return 0;
}

void cappool_init(struct cappool *pool, struct capfile *file, enum format_extent_kind kind,
        uint32_t unit, uint64_t first)
{
    memset(pool, 0, sizeof *pool);
    pool->file = file;
    pool->kind = kind;
    pool->unit = unit;
    pool->first = first;
    lock_init(&pool->lock, LOCK_RANK_CAPTURE);
}

static void *take_locked(struct cappool *pool, uint32_t wanted, uint32_t *ret_count)
{
    while (pool->current < pool->extents) {
        uint64_t left = pool->extent[pool->current].bytes - pool->used;

        if (left >= pool->unit) {
            char *base = pool->extent[pool->current].base + pool->used;
            uint64_t count = left / pool->unit;

            if (count > wanted)
                count = wanted;
            pool->used += count * pool->unit;
            *ret_count = (uint32_t)count;
            return base;
        }
        pool->current++;
        pool->used = 0;
    }
    return NULL;
}

/* One extent more. Two threads may both do it; the second one's is used next. */
static int grow(struct cappool *pool, uint64_t total)
{
    uint64_t bytes = total / 8;
    void *base = NULL;
    int cancel = capfile_begin();
    int r;

    if (bytes < pool->first)
        bytes = pool->first;
    if (bytes > CAPFILE_EXTENT_MAX)
        bytes = CAPFILE_EXTENT_MAX;
    bytes = bytes / pool->unit * pool->unit;
    r = capfile_grow(pool->file, pool->kind, bytes, &base);
    capfile_end(cancel);

    lock_take(&pool->lock);
    if (r == 0 && pool->extents == FORMAT_EXTENTS_MAX)
        r = -EFBIG;
    if (r == 0) {
        pool->extent[pool->extents].base = base;
        pool->extent[pool->extents].bytes = bytes;
        pool->extents++;
        pool->total += bytes;
    } else if (pool->is_broken) {
        r = 0; /* said once */
    } else {
        pool->is_broken = true;
    }
    lock_drop(&pool->lock);
    return r;
}

void *cappool_take(struct cappool *pool, uint32_t wanted, uint32_t *ret_count, int *ret_error)
{
    *ret_error = 0;
    for (;;) {
        bool is_broken;
        uint64_t total;
        void *base;

        lock_take(&pool->lock);
        base = take_locked(pool, wanted, ret_count);
        is_broken = pool->is_broken;
        total = pool->total;
        lock_drop(&pool->lock);
        if (base || is_broken)
            return base;
        *ret_error = grow(pool, total);
        if (*ret_error < 0)
            return NULL;
    }
}
