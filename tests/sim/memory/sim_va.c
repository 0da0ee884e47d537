/* SPDX-License-Identifier: MIT */
#include "tests/sim/memory/sim_va.h"

#include "tests/sim/base/sim_core.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define VA_HINT  0x600000000000U /* far from what the host maps by itself; a hint only */
#define VA_MOST  ((uint64_t)8 << 40)
#define VA_LEAST ((uint64_t)1 << 38)

/* A freed range. Kept in a tree by address; neighbours of the bump pointer are not special. */
struct hole {
    uint64_t addr, size;
    struct hole *next; /* of holes in the list, latest first */
};

static uint64_t va_base, va_size, va_next; /* fixed after va_open, except va_next */
static struct hole *holes;

static void *map_raw(uint64_t addr, uint64_t size, int protection, int flags, int fd, uint64_t at)
{
    return (void *)syscall(SYS_mmap, addr, size, protection, flags, fd, at);
}

static int map_fixed(uint64_t addr, uint64_t size, int protection, int flags, int fd, uint64_t at)
{
    if (map_raw(addr, size, protection, flags | MAP_FIXED | MAP_NORESERVE, fd, at) == MAP_FAILED)
        return -errno;
    /* Huge pages would back 2 MiB when a program touches 4 KiB. */
    (void)syscall(SYS_madvise, addr, size, MADV_NOHUGEPAGE);
    return 0;
}

static bool va_open(void)
{
    uint64_t hint = VA_HINT, most = VA_MOST;

#ifdef __SANITIZE_THREAD__
    hint = 0; /* only addresses near the top have a shadow */
    most = (uint64_t)1 << 40;
#endif
    if (va_size)
        return true;
    for (uint64_t size = most; size >= VA_LEAST; size /= 2) {
        void *at =
                map_raw(hint, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            continue;
        va_base = sim_round((uintptr_t)at, SIM_GRANULE);
        va_size = size - (va_base - (uintptr_t)at);
        va_size -= va_size % SIM_GRANULE;
        va_next = va_base;
        return true;
    }
    sim_say("no address space for the device (ulimit -v?)");
    return false;
}

static void hole_add(uint64_t addr, uint64_t size)
{
    struct hole *hole = sim_new(sizeof(*hole));

    *hole = (struct hole){addr, size, holes};
    holes = hole;
}

/* Takes [addr, addr + size) out of *link, which contains it; what is left stays in the list. */
static void hole_cut(struct hole **link, uint64_t addr, uint64_t size)
{
    struct hole *hole = *link;
    uint64_t end = hole->addr + hole->size;

    *link = hole->next;
    if (addr > hole->addr)
        hole_add(hole->addr, addr - hole->addr);
    if (end > addr + size)
        hole_add(addr + size, end - (addr + size));
    free(hole);
}

static uint64_t take_hole(uint64_t size, uint64_t align, bool exact)
{
    for (struct hole **link = &holes; *link; link = &(*link)->next) {
        uint64_t addr = sim_round((*link)->addr, align);
        uint64_t end = (*link)->addr + (*link)->size;
        if (exact ? (*link)->size != size || addr != (*link)->addr : addr + size > end)
            continue;
        hole_cut(link, addr, size);
        return addr;
    }
    return 0;
}

static int order_holes(const void *a, const void *b)
{
    const struct hole *const *x = a, *const *y = b;

    return ((*x)->addr > (*y)->addr) - ((*x)->addr < (*y)->addr);
}

/* Joins neighbours; only done when the address space has run out. */
static void join_holes(void)
{
    size_t count = 0, i = 0;
    struct hole **all;

    for (struct hole *hole = holes; hole; hole = hole->next)
        count++;
    if (count == 0)
        return;
    all = sim_new(count * sizeof(*all));
    for (struct hole *hole = holes; hole; hole = hole->next)
        all[i++] = hole;
    qsort(all, count, sizeof(*all), order_holes);
    holes = NULL;
    struct hole *last = NULL;
    for (i = 0; i < count; i++) {
        if (last && last->addr + last->size == all[i]->addr) {
            last->size += all[i]->size;
            free(all[i]);
            continue;
        }
        last = all[i];
        last->next = holes;
        holes = last;
    }
    free(all);
}

uint64_t sim_va_take(uint64_t size, uint64_t align)
{
    uint64_t addr;

    if (!va_open() || size == 0 || size > va_size)
        return 0;
    if (align < SIM_GRANULE)
        align = SIM_GRANULE;
    addr = take_hole(size, align, true);
    if (addr)
        return addr;
    addr = sim_round(va_next, align);
    if (addr + size <= va_base + va_size) {
        if (addr > va_next)
            hole_add(va_next, addr - va_next);
        va_next = addr + size;
        return addr;
    }
    join_holes();
    return take_hole(size, align, false);
}

uint64_t sim_va_take_at(uint64_t wanted, uint64_t size)
{
    if (!va_open() || wanted % SIM_GRANULE || size > va_size || wanted < va_base
            || wanted + size > va_base + va_size)
        return 0;
    if (wanted >= va_next) {
        if (wanted > va_next)
            hole_add(va_next, wanted - va_next);
        va_next = wanted + size;
        return wanted;
    }
    join_holes();
    for (struct hole **link = &holes; *link; link = &(*link)->next) {
        if (wanted < (*link)->addr || wanted + size > (*link)->addr + (*link)->size)
            continue;
        hole_cut(link, wanted, size);
        return wanted;
    }
    return 0;
}

void sim_va_give(uint64_t addr, uint64_t size)
{
    hole_add(addr, size);
}

bool sim_va_has(uint64_t addr)
{
    return va_size && addr >= va_base && addr < va_base + va_size;
}

int sim_va_back(uint64_t addr, uint64_t size)
{
    return map_fixed(addr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int sim_va_map(uint64_t addr, uint64_t size, int fd, uint64_t offset)
{
    return map_fixed(addr, size, PROT_NONE, MAP_SHARED, fd, offset);
}

struct sim_file sim_file_of(int fd)
{
    struct sim_file file = {.fd = fd};
    struct stat status;

    if (fd >= 0 && fstat(fd, &status) == 0) {
        file.device = (uint64_t)status.st_dev;
        file.inode = (uint64_t)status.st_ino;
    }
    return file;
}

bool sim_file_is_there(const struct sim_file *file)
{
    struct sim_file now = sim_file_of(file->fd);

    return now.inode != 0 && now.device == file->device && now.inode == file->inode;
}

void sim_file_close(const struct sim_file *file)
{
    if (sim_file_is_there(file))
        close(file->fd);
}

int sim_va_protect(uint64_t addr, uint64_t size, int protection)
{
    return syscall(SYS_mprotect, addr, size, protection) ? -errno : 0;
}

void sim_va_drop(uint64_t addr, uint64_t size)
{
    int r = map_fixed(addr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (r)
        sim_say("cannot unmap %llu bytes: error %d", (unsigned long long)size, -r);
}

void sim_va_forget(uint64_t addr, uint64_t size)
{
    uint64_t end = (addr + size) & ~(uint64_t)(SIM_HOST_PAGE - 1);

    addr = sim_round(addr, SIM_HOST_PAGE);
    if (addr >= end)
        return;
    /* MADV_REMOVE punches a hole into a memfd; on private pages it fails and DONTNEED does it. */
    if (syscall(SYS_madvise, addr, end - addr, MADV_REMOVE))
        (void)syscall(SYS_madvise, addr, end - addr, MADV_DONTNEED);
}
