/* SPDX-License-Identifier: MIT */
#include "tracker/capture/capfile.h"

#include "tracker/format/formatsum.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* The log leaves this fraction of a file system to the other areas and to other users: a sixteenth,
 * at most ROOM_MAX. */
#define ROOM_SHARE   16u
#define ROOM_MAX     (UINT64_C(256) << 20)
#define WAIT_STEP_NS 100000L
#define WAIT_STEPS   20000u /* two seconds of waiting for another thread that grows the same area */

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

/* Free bytes that we may use, and all bytes; false = the file system does not report them. */
static bool capfile_ask_room(int fd, uint64_t *ret_free, uint64_t *ret_all)
{
    struct statvfs disk;

    if (fstatvfs(fd, &disk) != 0 || disk.f_blocks == 0 || disk.f_bavail == 0)
        return false;
    *ret_free = (uint64_t)disk.f_bavail * disk.f_frsize;
    *ret_all = (uint64_t)disk.f_blocks * disk.f_frsize;
    return true;
}

/* Events must leave space for others: the live table, the program's checkpoints, its own shared
 * memory in /dev/shm. */
static bool leaves_room(int fd, uint64_t bytes)
{
    uint64_t left, all, kept;

    if (!capfile_ask_room(fd, &left, &all))
        return true;
    kept = all / ROOM_SHARE < ROOM_MAX ? all / ROOM_SHARE : ROOM_MAX;
    return left >= kept && left - kept >= bytes;
}

/* Writes zeroes where the file system has no fallocate: written blocks are allocated, too. Does not
 * begin if they do not fit. */
static int write_zeroes(int fd, uint64_t offset, uint64_t bytes)
{
    static const char zeroes[64 << 10];
    uint64_t left, all;

    if (capfile_ask_room(fd, &left, &all) && left < bytes)
        return -ENOSPC;
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

    /* Beyond the limit the kernel would send SIGXFSZ, which ends a program that does not know our
     * file. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
            && offset + bytes > limit.rlim_cur)
        return -EFBIG;
    /* Not posix_fallocate: without support of the file system, glibc touches one byte per block and
     * races with a reader. */
    while (fallocate(fd, 0, (off_t)offset, (off_t)bytes) != 0) {
        if (errno == EOPNOTSUPP || errno == ENOSYS)
            return write_zeroes(fd, offset, bytes);
        if (errno != EINTR)
            return -errno;
    }
    return 0;
}

/* The mappings of captures, for capfile_fault. An entry is complete once its length is set. */
static struct {
    char *base;
    _Atomic uint64_t bytes;
} mapped[FORMAT_EXTENTS_MAX + 1];
static _Atomic uint32_t mapped_count;

static void note_mapped(void *base, uint64_t bytes)
{
    uint32_t at = atomic_fetch_add(&mapped_count, 1);

    if (at > FORMAT_EXTENTS_MAX)
        return;
    mapped[at].base = base;
    atomic_store_explicit(&mapped[at].bytes, bytes, memory_order_release);
}

bool capfile_fault(const void *at)
{
    for (uint32_t i = 0; i <= FORMAT_EXTENTS_MAX; i++) {
        uint64_t bytes = atomic_load_explicit(&mapped[i].bytes, memory_order_acquire);
        uint64_t offset = (uint64_t)((uintptr_t)at - (uintptr_t)mapped[i].base);

        if (bytes == 0 || offset >= bytes)
            continue;
        offset -= offset % FORMAT_PAGE;
        return mmap(mapped[i].base + offset, bytes - offset, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
                != MAP_FAILED;
    }
    return false;
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
    note_mapped(base, bytes);
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

    if (fstat(fd, &status) != 0)
        return -errno;
    /* The umask may only remove bits, but must not remove the owner's. Some file systems have no
     * modes. */
    if ((status.st_mode & 07777) != 0600 && fchmod(fd, 0600) != 0 && errno != EPERM
            && errno != EOPNOTSUPP && errno != ENOSYS)
        return -errno;
    file->device = (uint64_t)status.st_dev;
    file->inode = (uint64_t)status.st_ino;
    return 0;
}

/* Maps and fills header and directory. On failure the mapped part stays mapped: the file is closed,
 * or unlinked. */
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
    file->header->sum = formatsum_header(file->header);
    memcpy(file->header->magic, FORMAT_MAGIC, sizeof file->header->magic);
    return 0;
}

static void unmap_range(void *base, uint64_t bytes)
{
    for (uint32_t i = 0; i <= FORMAT_EXTENTS_MAX; i++)
        if (mapped[i].base == base)
            atomic_store(&mapped[i].bytes, 0);
    (void)munmap(base, bytes);
}

static void forget_header(struct capfile *file)
{
    if (file->header)
        unmap_range(file->header, FORMAT_HEADER_BYTES);
    file->header = NULL;
    file->directory = NULL;
}

/* Creates a file without a name and names it when its header is complete, so that a kill in between
 * leaves no file or a readable one. -EOPNOTSUPP where the file system, or a missing /proc, prevents
 * that. */
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
        (void)unlink(file->path); /* ours: O_EXCL created it a moment ago */
    }
    return r;
}

static int capfile_open_again(const struct capfile *file)
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

/* Takes the next `bytes` of the file and maps them. On failure they are given back. */
static int capfile_extend(
        struct capfile *file, int fd, uint64_t bytes, uint64_t *ret_offset, void **ret_base)
{
    uint64_t *end = &file->header->file_bytes;
    uint64_t offset = __atomic_fetch_add(end, bytes, __ATOMIC_RELAXED);
    uint64_t after = offset + bytes;
    int r = map_range(fd, offset, bytes, ret_base);

    if (r == 0) {
        *ret_offset = offset;
        return 0;
    }
    /* Some file systems keep the part that they allocated. If this fails, the range stays a hole,
     * or allocated. */
    (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
    (void)__atomic_compare_exchange_n(
            end, &after, offset, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return r;
}

typedef uint64_t __attribute__((may_alias)) two_words;

/* Stores kind and sum together: a reader that sees the kind sees the extent. */
static void publish(struct format_extent *entry, enum format_extent_kind kind)
{
    struct format_extent whole = {entry->offset, entry->length, (uint32_t)kind, 0};
    uint64_t words;

    whole.sum = formatsum_extent(&whole);
    memcpy(&words, &whole.kind, sizeof words);
    __atomic_store_n((two_words *)(void *)&entry->kind, words, __ATOMIC_RELEASE);
}

int capfile_grow(
        struct capfile *file, enum format_extent_kind kind, uint64_t bytes, void **ret_base)
{
    struct format_header *header = file->header;
    struct format_extent *entry;
    uint64_t offset = 0;
    uint32_t number;
    int fd, r;

    lock_assert_none("capfile_grow");
    if (__atomic_load_n(&header->extent_count, __ATOMIC_RELAXED) >= FORMAT_EXTENTS_MAX)
        return -EFBIG;
    bytes = (bytes + FORMAT_PAGE - 1) / FORMAT_PAGE * FORMAT_PAGE;
    fd = capfile_open_again(file);
    if (fd < 0)
        return fd;
    if (kind == FORMAT_EXTENT_EVENTS && !leaves_room(fd, bytes))
        r = -ENOSPC;
    else
        r = capfile_extend(file, fd, bytes, &offset, ret_base);
    (void)close(fd);
    if (r < 0)
        return r;
    number = __atomic_fetch_add(&header->extent_count, 1, __ATOMIC_RELAXED);
    if (number >= FORMAT_EXTENTS_MAX) {
        unmap_range(*ret_base, bytes);
        return -EFBIG;
    }
    entry = &file->directory[number];
    entry->offset = offset;
    entry->length = bytes;
    publish(entry, kind);
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
    pool->step_max = CAPFILE_EXTENT_MAX;
    lock_init(&pool->lock, LOCK_RANK_CAPTURE);
}

static void *capfile_take_locked(struct cappool *pool, uint32_t wanted, uint32_t *ret_count)
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

static bool is_too_much(int r)
{
    return r == -ENOSPC || r == -EDQUOT || r == -EFBIG || r == -ENOMEM;
}

/* Adds an extent of `step` bytes, or fewer where that does not fit. */
static int capfile_grow_by(struct cappool *pool, uint64_t step)
{
    uint64_t bytes = step;
    bool is_halved = false;
    void *base = NULL;
    int r;

    for (;; bytes /= 2, is_halved = true) {
        if (bytes < pool->first)
            bytes = pool->first;
        bytes = bytes / pool->unit * pool->unit;
        r = capfile_grow(pool->file, pool->kind, bytes, &base);
        if (!is_too_much(r) || bytes <= pool->first)
            break;
    }
    lock_take(&pool->lock);
    pool->is_growing = false;
    if (is_halved)
        pool->step_max = bytes;
    if (r == 0 && pool->extents == FORMAT_EXTENTS_MAX)
        r = -EFBIG;
    if (r == 0) {
        pool->extent[pool->extents].base = base;
        pool->extent[pool->extents].bytes = bytes;
        pool->extents++;
        pool->total += bytes;
    } else if (pool->is_broken) {
        r = 0; /* reported once */
    } else {
        pool->is_broken = true;
    }
    lock_drop(&pool->lock);
    return r;
}

/* What a thread without units does next. */
struct shortage {
    bool is_broken; /* gives up: no units will come */
    bool is_mine; /* grows by `step`, an eighth of the present size; else another thread does it */
    uint64_t step;
};

static void *take_or_claim(
        struct cappool *pool, uint32_t wanted, uint32_t *ret_count, struct shortage *ret_shortage)
{
    void *base;

    *ret_shortage = (struct shortage){0};
    lock_take(&pool->lock);
    base = capfile_take_locked(pool, wanted, ret_count);
    if (!base) {
        ret_shortage->is_broken = pool->is_broken;
        ret_shortage->is_mine = !pool->is_growing;
        ret_shortage->step = pool->total / 8 < pool->step_max ? pool->total / 8 : pool->step_max;
        pool->is_growing = true;
    }
    lock_drop(&pool->lock);
    return base;
}

/* Many threads that start at once need one extent, not one each; but no thread waits long for a
 * file system that hangs. */
void *cappool_take(struct cappool *pool, uint32_t wanted, uint32_t *ret_count, int *ret_error)
{
    struct timespec pause = {0, WAIT_STEP_NS};

    *ret_error = 0;
    for (unsigned waits = 0;; waits++) {
        struct shortage shortage;
        void *base = take_or_claim(pool, wanted, ret_count, &shortage);
        int cancel;

        if (base || shortage.is_broken)
            return base;
        cancel = capfile_begin();
        if (shortage.is_mine || waits >= WAIT_STEPS)
            *ret_error = capfile_grow_by(pool, shortage.step);
        else
            (void)nanosleep(&pause, NULL);
        capfile_end(cancel);
        if (*ret_error < 0)
            return NULL;
    }
}
